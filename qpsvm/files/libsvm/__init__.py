"""Model files of LIBSVM: their text, estimators to and from them, and their probabilities."""
