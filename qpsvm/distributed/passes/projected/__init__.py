"""Accelerated projected gradient on duals in passes: weights of rows are at their shards."""
