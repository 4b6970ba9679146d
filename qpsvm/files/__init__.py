"""Files of models and answers: LIBSVM's model files."""
