"""Files: results and models in an open format, and the verification that reads them."""
