"""Predictor-corrector interior point methods on a Gram with a factor."""
