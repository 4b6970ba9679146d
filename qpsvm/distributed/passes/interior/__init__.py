"""The interior point method of hinge machines in passes: states of rows are at their shards."""
