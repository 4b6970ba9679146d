"""Multipliers of projections and biases of hinge sums, by sections of sums over shards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.group import ShardGroup

Vector = NDArray[np.float64]

SECTIONS_AT_ONCE = 257
"""Number of multipliers at which a sum is evaluated in one round trip."""

MAX_SECTION_ROUNDS = 7
"""Maximum number of such round trips: each divides an interval by 256."""

BIAS_LOSS = 1e-10
"""Fraction of the sum of the hinges that a better bias may be worth, below which none is sought."""


def projection_multiplier(shards: ShardGroup, size: float, goal: float, is_simplex: bool) -> float:
    """Return the multiplier at which the sum of the projection is `goal`.

    Between two neighbors without a breakpoint the sum is linear.
    """
    found = shards.call("projected_range", size)
    low, high = min(one[0] for one in found), max(one[1] for one in found)
    if is_simplex:
        low = high - goal  # the largest entry alone has the sum there
    t = low
    for _ in range(MAX_SECTION_ROUNDS):
        grid = np.linspace(low, high, SECTIONS_AT_ONCE)
        sums, ends = np.sum(shards.call("projected_values", size, grid), axis=0)
        at = min(max(int(np.sum(sums >= goal)) - 1, 0), len(grid) - 2)
        low, high = float(grid[at]), float(grid[at + 1])
        fall = float(sums[at] - sums[at + 1])
        share = float(np.clip((sums[at] - goal) / fall, 0.0, 1.0)) if fall > 0.0 else 0.0
        t = low + share * (high - low)
        if ends[at] == ends[at + 1] or not low < t < high:
            break
    return t


def best_bias(shards: ShardGroup) -> float:
    """Return the b of least sum of hinges at the weights, a convex function of b."""
    found = shards.call("projected_bias_range")
    low, high = min(one[0] for one in found), max(one[1] for one in found)
    best = low
    for _ in range(MAX_SECTION_ROUNDS):
        grid = np.linspace(low, high, SECTIONS_AT_ONCE)
        values = np.sum(shards.call("projected_hinges", grid), axis=0)
        at = int(np.argmin(values))
        best, around = float(grid[at]), values[[max(at - 1, 0), min(at + 1, len(grid) - 1)]]
        low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, len(grid) - 1)])
        if not low < high or np.max(around) - values[at] <= BIAS_LOSS * values[at]:
            break
    return best
