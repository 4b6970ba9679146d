"""Solves over shards of rows: at the workers of a Dask cluster, or in this process from files."""
