"""Shards at the workers of a Dask cluster."""
