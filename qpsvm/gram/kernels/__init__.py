"""Kernels: parameters, diagonal, and the map from inner products or distances to values."""
