"""Sums over the breakpoints of a group's gap, which is piecewise smooth in its multiplier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def sums_up_to(grid: Vector, values: Vector, weights: Vector) -> NDArray[np.float64]:
    """Return the sums of w, of w v and of w v^2 over the breakpoints v up to each multiplier.

    Parameters
    ----------
    grid : ndarray, shape (n,)
        Increasing multipliers.
    values, weights : ndarray, shape (m,)
        Breakpoints v and their weights w. Only those between the ends of the grid are searched for.

    Returns
    -------
    ndarray, shape (3, n)
    """
    if not len(grid):
        return np.empty((3, 0))
    is_under = values <= grid[0]  # without a gather, which takes several times as long
    under, own = np.where(is_under, weights, 0.0), np.where(is_under, values, 0.0)
    between = np.flatnonzero((values > grid[0]) & (values <= grid[-1]))
    places = np.searchsorted(grid, values[between])
    inner = moments(values[between], weights[between])
    bins = np.array([np.bincount(places, part, len(grid)) for part in inner], np.float64)
    bins[:, 0] = np.sum(under), under @ own, (under * own) @ own
    return np.cumsum(bins, axis=1)


def moments(values: Vector, weights: Vector) -> tuple[Vector, Vector, Vector]:
    """Return w, w v and w v^2."""
    first = weights * values
    return weights, first, first * values
