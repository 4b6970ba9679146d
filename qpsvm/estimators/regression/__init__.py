"""Estimators of regression: of kernels, and of linear functions."""
