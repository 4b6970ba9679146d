"""Accelerated gradients on a smoothed loss, by the primal."""
