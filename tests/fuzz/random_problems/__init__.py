"""Random problems: clouds of points, a generator from a seed, a strategy of hypothesis."""
