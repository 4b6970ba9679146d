"""Decomposition by working sets, and core sets: reduced problems whose Gram matrix fits the cache."""
