"""The gap of a linear term with a ridge over a simplex, by filling it to a level.

The minimum over a of g'a + sum d_i a_i^2 / 2 has a_i = max(rho - g_i, 0) / d_i for the level rho at which
these sum to 1. The sum is convex in rho, so that the iterates of Newton's method decrease from the second
one on (Michelot 1986); they end once the same coordinates are filled again. The first fills the support
of x, which is that of the minimum where x is optimal. Any level proves a lower bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import reassociating

Vector = NDArray[np.float64]

COORDINATES_PER_SUM = 1024
"""Number of coordinates whose terms are summed before they are added to the total: rounding errors grow
with the number of terms of a sum."""

MAX_LEVEL_STEPS = 100
"""Maximum number of Newton steps to a level; some ten suffice."""


def level_and_gap(x: Vector, g: Vector, d: Vector) -> tuple[float, float]:
    """Return the level rho, and the excess of x over the minimum at that level.

    Parameters
    ----------
    x : ndarray, shape (n,)
        A point of the simplex.
    g, d : ndarray, shape (n,)
        The linear term and the ridge, which is not negative.

    Returns
    -------
    level : float
        At most the least g_i with d_i = 0; NaN where g is.
    gap : float
        The sum of d_i (x_i - a_i)^2 / 2 where a_i > 0, and of x_i (g_i - rho + d_i x_i / 2) elsewhere.
    """
    low = float(np.min(g))
    top = float(np.min(g + d)) if d.any() else low  # where one coordinate is filled alone
    if not top > low:
        return low, float(x @ (g - low + 0.5 * d * x))
    found = _level_and_gap(x, np.ascontiguousarray(g), np.ascontiguousarray(d), low, top)
    return float(found[0]), float(found[1])


@reassociating
def _level_and_gap(x: Any, g: Any, d: Any, low: float, top: float) -> Any:
    """Return the level, between `low` and `top`, and the gap."""
    volume, area = 0.0, 0.0
    for start in range(0, len(g), COORDINATES_PER_SUM):
        at = slice(start, start + COORDINATES_PER_SUM)
        more, wider = _fill_support(x[at], g[at], d[at], low)
        volume, area = volume + more, area + wider
    level, n_filled = low + (1.0 - volume) / area, -1
    level = level if low < level < top else top
    for _ in range(MAX_LEVEL_STEPS):
        count, volume, area = 0, 0.0, 0.0
        for start in range(0, len(g), COORDINATES_PER_SUM):
            at = slice(start, start + COORDINATES_PER_SUM)
            found, more, wider = _fill(g[at], d[at], level)
            count, volume, area = count + found, volume + more, area + wider
        following = level + (1.0 - volume) / area
        if count == n_filled or not following > low:
            break
        level, n_filled = min(following, top), count
    gap = 0.0
    for start in range(0, len(g), COORDINATES_PER_SUM):
        at = slice(start, start + COORDINATES_PER_SUM)
        gap += _excess(x[at], g[at], d[at], level)
    return level, gap


@reassociating
def _fill_support(x: Any, g: Any, d: Any, low: float) -> Any:
    """Return the sums of (low - g) / d and of 1 / d over the support."""
    volume, area = 0.0, 0.0
    for i in range(len(g)):
        volume += (low - g[i]) / d[i] if x[i] > 0.0 else 0.0
        area += 1.0 / d[i] if x[i] > 0.0 else 0.0
    return volume, area


@reassociating
def _fill(g: Any, d: Any, level: float) -> Any:
    """Return the number of coordinates below a level, and the sums of (level - g) / d and of 1 / d."""
    count, volume, area = 0, 0.0, 0.0
    for i in range(len(g)):
        height = level - g[i]
        count += height > 0.0
        volume += height / d[i] if height > 0.0 else 0.0
        area += 1.0 / d[i] if height > 0.0 else 0.0
    return count, volume, area


@reassociating
def _excess(x: Any, g: Any, d: Any, level: float) -> float:
    """Return the terms of the gap."""
    total = 0.0
    for i in range(len(g)):
        height = level - g[i]
        move = x[i] - height / d[i]
        filled, dry = 0.5 * d[i] * move * move, x[i] * (0.5 * d[i] * x[i] - height)
        total += filled if height > 0.0 else dry
    return total
