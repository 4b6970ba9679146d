"""Instances of regression problems."""
