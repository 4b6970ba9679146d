"""The best multiplier of the sum of a QP whose products are in shards, and the gap there.

The gap is a convex function of the multiplier whose terms are sums over shards. Any multiplier gives a
valid bound; the best one is found by sections of an interval, until a better one would reduce the gap
by a hundredth at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.shard import Sums
from qpsvm.domains import BoxHyperplane, CappedSimplex

if TYPE_CHECKING:
    from qpsvm.distributed.sharded_qp import ShardedQP

Vector = NDArray[np.float64]

SECTIONS_AT_ONCE = 257
"""Number of multipliers at which the gap is evaluated in one round trip."""

MAX_SECTION_ROUNDS = 8
"""Maximum number of such round trips: each divides an interval by 256."""

SECTION_WIDTH = 1e-14
"""Width of the last section, relative to the multipliers at its ends."""

MULTIPLIER_LOSS = 0.01
"""Fraction of the gap by which a better multiplier might reduce it, below which none is sought."""


class Level(NamedTuple):
    """A multiplier, the gap there, and the sums of all shards."""

    t: float
    gap: float
    sums: Sums


def best_level(problem: ShardedQP, name: str) -> Level:
    """Return the best multiplier of a product, where the derivative of the gap changes its sign.

    It lies between the extremes of the signed gradient: below all of I_up the derivative is negative,
    above all of I_low it is positive.
    """
    low, high = problem.known[name].low, problem.known[name].high
    if problem.kind == "hyperplane":
        low, high = -high, -low
    low, high = min(low, high), max(low, high)
    if not np.isfinite([low, high]).all():
        low, high = _range(problem, _along(problem, name, np.empty(0))[0])
    if problem.kind == "simplex" and not np.any(problem.gram.ridge):
        high = low  # no weight may be on a point whose gradient is below the level
    at, target = 0, _target(problem)
    for _ in range(MAX_SECTION_ROUNDS):
        grid = np.linspace(low, high, SECTIONS_AT_ONCE if low < high else 1)
        sums, parts = _along(problem, name, grid)
        if problem.kind == "simplex" and sums.least_flat < high:
            high = sums.least_flat
            low = min(low, high)
            continue
        slopes, gaps = _gap_along(problem, sums, parts, grid)
        above = int(np.searchsorted(slopes, target))
        if above in (0, len(grid)):
            at = min(above, len(grid) - 1)
            break
        low, high = float(grid[above - 1]), float(grid[above])
        at = above - 1 if gaps[above - 1] < gaps[above] else above
        loss = abs(float(slopes[at]) - target) * (high - low)
        is_narrow = high - low <= SECTION_WIDTH * max(abs(low), abs(high))
        if is_narrow or loss <= MULTIPLIER_LOSS * abs(float(gaps[at])):
            break
    return Level(float(grid[at]), float(gaps[at]), sums)


def _range(problem: ShardedQP, sums: Sums) -> tuple[float, float]:
    """Return an interval of all breakpoints, which holds the best multiplier of any x."""
    if problem.kind != "simplex":
        return sums.first, sums.last
    alone = sums.first + float(np.max(problem.gram.ridge))  # the level where one point has weight 1
    high = min(sums.least_flat, alone)
    return min(sums.first, high), high


def _along(problem: ShardedQP, name: str, grid: Vector) -> tuple[Sums, NDArray[np.float64]]:
    """Return what `Shard.along` returns, summed over all shards."""
    found = problem.shards.call("along", name, grid)
    columns = dict(zip(Sums._fields, zip(*(part[0] for part in found), strict=True), strict=True))
    own = {key: math.fsum(values) for key, values in columns.items()}
    own |= {key: min(columns[key]) for key in ("first", "least_flat")}
    own["last"] = max(columns["last"])
    return Sums(**own), np.sum([part[1] for part in found], axis=0)


def _target(problem: ShardedQP) -> float:
    """Return the slope of the sums over breakpoints at the best multiplier."""
    domain, total = problem.domain, 1.0
    if isinstance(domain, BoxHyperplane):
        total = domain.positive
    elif isinstance(domain, CappedSimplex):
        total = float(domain.total[0])
    return total * (1.0 - 1e-12)


def _gap_along(
    problem: ShardedQP, sums: Sums, parts: NDArray[np.float64], t: Vector
) -> tuple[Vector, Vector]:
    """Return the slopes that increase to the target, and the gap, at multipliers t.

    With s the gradient without ridge less t, or plus t y with a hyperplane, the gap is the sum of
    x s and of upper |s| where s < 0; or, on a simplex with ridge d, of x s + d x^2 / 2 and of
    s^2 / (2 d) where s < 0.
    """
    weights, moments, squares = parts
    own = np.full(len(t), sums.quadratic + sums.linear)
    if isinstance(problem.domain, BoxHyperplane):
        own += t * sums.signed + sums.positive - t * problem.domain.positive
    else:
        own -= t * sums.signed
    first = t * weights - moments
    if problem.kind != "simplex":
        return weights, own + first
    return first, own + 0.5 * (sums.ridge + t * (first - moments) + squares)
