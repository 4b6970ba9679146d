"""Decomposition by working sets, and core sets: many columns, a small problem in cache."""
