"""Exact answers of regression problems."""
