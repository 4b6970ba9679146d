"""Wolfe's minimum-norm point: active sets with a Cholesky factor."""
