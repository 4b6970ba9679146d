"""Problems whose rows are read again in every pass: linear machines and balls of any number of rows."""
