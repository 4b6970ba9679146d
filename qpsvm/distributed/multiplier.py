"""The best multiplier of the sum of a QP whose products are in shards, and the gap there.

The gap is a convex function of the multiplier whose terms are sums over shards. Any multiplier gives a
valid bound; the best one is found by sections of an interval, until a better one would reduce the gap
by a hundredth at most.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.group import ShardGroup
from qpsvm.distributed.messages import Sums
from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain

Vector = NDArray[np.float64]

MULTIPLIERS_PER_TRIP = 257
"""Number of multipliers at which the gap is evaluated in one round trip."""

MAX_SECTION_ROUNDS = 8
"""Maximum number of round trips of a search: each divides the interval by 256."""

SECTION_WIDTH = 1e-14
"""Width of the last section, relative to the multipliers at its ends."""

MULTIPLIER_LOSS = 0.01
"""Fraction of the gap; the search ends where a better multiplier reduces the gap by at most this."""

SLOPE_ROUNDING = 1e-12
"""Relative difference by which a slope may miss its target: the sums of slopes are rounded."""


class Level(NamedTuple):
    """A multiplier, the gap there, and the sums of all shards."""

    t: float
    gap: float
    sums: Sums


def best_level(
    shards: ShardGroup, name: str, domain: Domain, ridge: Vector, extremes: tuple[float, float]
) -> Level:
    """Return the best multiplier of a product, where the derivative of the gap changes its sign.

    Parameters
    ----------
    shards : ShardGroup
    name : str
        The product.
    domain : Domain
        A box with a hyperplane, one simplex, or one with upper bounds.
    ridge : ndarray, shape (m,)
    extremes : tuple of float
        The minimum of the signed gradient over I_up and its maximum over I_low. The multiplier lies
        between them: below all of I_up the derivative is negative, above all of I_low positive. Where
        one is not finite, the interval of all breakpoints is taken.
    """
    low, high = min(extremes), max(extremes)
    is_simplex = not isinstance(domain, (BoxHyperplane, CappedSimplex))
    if isinstance(domain, BoxHyperplane):
        low, high = -high, -low
    if not np.isfinite([low, high]).all():
        sums, _ = _along(shards, name, np.empty(0))
        low, high = sums.first, sums.last
        if is_simplex:  # no higher than the level where one point has all weight
            high = min(sums.least_flat, sums.first + float(np.max(ridge)))
            low = min(low, high)
    if is_simplex and not np.any(ridge):
        high = low  # no weight may be on a point whose gradient is below the level
    at, target = 0, _target(domain)
    for _ in range(MAX_SECTION_ROUNDS):
        grid = np.linspace(low, high, MULTIPLIERS_PER_TRIP if low < high else 1)
        sums, parts = _along(shards, name, grid)
        if is_simplex and sums.least_flat < high:
            high = sums.least_flat
            low = min(low, high)
            continue
        slopes, gaps = _gap_along(domain, sums, parts, grid)
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


def _along(shards: ShardGroup, name: str, grid: Vector) -> tuple[Sums, NDArray[np.float64]]:
    """Return what `Shard.along` returns, summed over all shards."""
    found = shards.call("along", name, grid)
    columns = dict(zip(Sums._fields, zip(*(part[0] for part in found), strict=True), strict=True))
    own = {key: math.fsum(values) for key, values in columns.items()}
    own |= {key: min(columns[key]) for key in ("first", "least_flat")}
    own["last"] = max(columns["last"])
    return Sums(**own), np.sum([part[1] for part in found], axis=0)


def _target(domain: Domain) -> float:
    """Return the slope of the sums over breakpoints at the best multiplier."""
    total = 1.0
    if isinstance(domain, BoxHyperplane):
        total = domain.positive
    elif isinstance(domain, CappedSimplex):
        total = float(domain.total[0])
    return total * (1.0 - SLOPE_ROUNDING)


def _gap_along(
    domain: Domain, sums: Sums, parts: NDArray[np.float64], t: Vector
) -> tuple[Vector, Vector]:
    """Return the slopes that increase to the target, and the gap, at multipliers t.

    With s the gradient without ridge less t, or plus t y with a hyperplane, the gap is the sum of
    x s and of upper |s| where s < 0; or, on a simplex with ridge d, of x s + d x^2 / 2 and of
    s^2 / (2 d) where s < 0.
    """
    weights, moments, squares = parts
    own = np.full(len(t), sums.quadratic + sums.linear)
    if isinstance(domain, BoxHyperplane):
        own += t * sums.signed + sums.positive - t * domain.positive
    else:
        own -= t * sums.signed
    first = t * weights - moments
    if isinstance(domain, (BoxHyperplane, CappedSimplex)):
        return weights, own + first
    return first, own + 0.5 * (sums.ridge + t * (first - moments) + squares)
