"""Coordinate descent on the dual of linear machines, and stochastic subgradients on the primal."""
