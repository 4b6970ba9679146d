"""Kernel values of points: columns, sums, certificates and predictions."""
