"""Solves over rows that are spread: shards of points at the workers of a Dask cluster, or in files."""
