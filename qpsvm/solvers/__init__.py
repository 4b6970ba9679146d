"""Solvers: a folder per family of algorithms, and `methods`, the table of all of them."""
