"""Files: results in an open format and the verification that reads them; LIBSVM's model files."""
