"""The best multipliers of the sums of a QP whose products are in shards, and the gap there.

The gap is a convex function of the multiplier of each group, whose terms are sums over shards. Any
multipliers give a valid bound; the best ones are found by sections of an interval for each group, all of
them in the same round trips, until better ones would reduce the gap by a hundredth at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


class Levels(NamedTuple):
    """A multiplier of each group, the gap there, and the sums of each group over all shards."""

    t: Vector
    gap: float
    sums: list[Sums]
    filled: Vector  # least multipliers found where the slopes reach their targets


@dataclass
class Section:
    """The interval that holds the best multiplier of a group, and the best one of its grid."""

    domain: Domain
    target: float  # slope of the sums over breakpoints at the best multiplier
    low: float
    high: float
    t: float = np.nan
    gap: float = np.nan
    loss: float = np.inf  # bound on what a better multiplier may gain
    sums: Sums = field(init=False)

    def grid(self) -> Vector:
        """Return the multipliers at which the gap is to be evaluated."""
        return np.linspace(self.low, self.high, MULTIPLIERS_PER_TRIP if self.low < self.high else 1)

    def evaluate(self, sums: Sums, parts: NDArray[np.float64]) -> None:
        """Take the best multiplier of the grid, given the sums there, and narrow the interval."""
        self.sums, grid = sums, self.grid()
        if _is_simplex(self.domain) and sums.least_flat < self.high:
            self.high = sums.least_flat
            self.low = min(self.low, self.high)
            return
        slopes, gaps = _gap_along(self.domain, sums, parts, grid)
        above = int(np.searchsorted(slopes, self.target))
        if above in (0, len(grid)):
            at, self.loss = min(above, len(grid) - 1), 0.0
            self.low = self.high = float(grid[at])
        else:
            at = above - 1 if gaps[above - 1] < gaps[above] else above
            self.low, self.high = low, high = float(grid[above - 1]), float(grid[above])
            self.loss = abs(float(slopes[at]) - self.target) * (high - low)
            if high - low <= SECTION_WIDTH * max(abs(low), abs(high)):
                self.loss = 0.0
        self.t, self.gap = float(grid[at]), float(gaps[at])


def best_levels(
    shards: ShardGroup, name: str, domain: Domain, ridge: Vector, extremes: tuple[Any, Any]
) -> Levels:
    """Return the best multipliers of a product, where the derivatives of the gap change their signs.

    Parameters
    ----------
    shards : ShardGroup
    name : str
        The product.
    domain : Domain
        A box with a hyperplane, a product of simplices, or one simplex with upper bounds.
    ridge : ndarray, shape (m,)
    extremes : tuple of ndarray, each of shape (n_groups,), or of float
        The minimum of the signed gradient over I_up and its maximum over I_low. The multiplier lies
        between them: below all of I_up the derivative is negative, above all of I_low positive. Where
        one is not finite, the interval of all breakpoints is taken.
    """
    targets = _targets(domain)
    low, high = (np.broadcast_to(values, len(targets)) for values in extremes)
    low, high = np.minimum(low, high), np.maximum(low, high)
    if isinstance(domain, BoxHyperplane):
        low, high = -high, -low
    if not np.isfinite([low, high]).all():
        low, high = _breakpoints(shards, name, domain, ridge, len(targets))
    if _is_simplex(domain) and not np.any(ridge):
        high = low  # no weight may be on a point whose gradient is below the level
    ends = zip(targets, low.tolist(), high.tolist(), strict=True)
    sections = [Section(domain, *own) for own in ends]
    for _ in range(MAX_SECTION_ROUNDS):
        found = _along(shards, name, [section.grid() for section in sections])
        for section, own in zip(sections, found, strict=True):
            section.evaluate(*own)
        limit = MULTIPLIER_LOSS * abs(sum(section.gap for section in sections)) / len(sections)
        if all(section.loss == 0.0 or section.loss <= limit for section in sections):
            break
    t = np.array([section.t for section in sections])
    filled = np.array([section.high for section in sections])
    gap = sum(section.gap for section in sections)
    return Levels(t, gap, [section.sums for section in sections], filled)


def _is_simplex(domain: Domain) -> bool:
    """Return whether the domain is a product of simplices without upper bounds."""
    return not isinstance(domain, (BoxHyperplane, CappedSimplex))


def _breakpoints(
    shards: ShardGroup, name: str, domain: Domain, ridge: Vector, n_groups: int
) -> tuple[Vector, Vector]:
    """Return the interval of the breakpoints of each group."""
    found = [sums for sums, _ in _along(shards, name, [np.empty(0)] * n_groups)]
    low, high = (np.array([getattr(sums, end) for sums in found]) for end in ("first", "last"))
    if _is_simplex(domain):  # no higher than the level where one point has all weight
        flat = np.array([sums.least_flat for sums in found])
        high = np.minimum(flat, low + float(np.max(ridge)))
        low = np.minimum(low, high)
    return low, high


def _along(
    shards: ShardGroup, name: str, grids: list[Vector]
) -> list[tuple[Sums, NDArray[np.float64]]]:
    """Return what `Shard.along` returns, for each group summed over all shards."""
    groups = zip(*shards.call("along", name, grids), strict=True)
    return [_summed(found) for found in groups]


def _summed(found: Any) -> tuple[Sums, NDArray[np.float64]]:
    """Return the sums over all shards, in their order."""
    columns = dict(zip(Sums._fields, zip(*(part[0] for part in found), strict=True), strict=True))
    own = {key: math.fsum(values) for key, values in columns.items()}
    own |= {key: min(columns[key]) for key in ("first", "least_flat")}
    own["last"] = max(columns["last"])
    return Sums(**own), np.sum([part[1] for part in found], axis=0)


def _targets(domain: Domain) -> list[float]:
    """Return the slope of the sums over breakpoints at the best multiplier of each group."""
    totals = np.ones(getattr(domain, "n_groups", 1))
    if isinstance(domain, BoxHyperplane):
        totals = np.array([domain.positive])
    elif isinstance(domain, CappedSimplex):
        totals = domain.total
    return (totals * (1.0 - SLOPE_ROUNDING)).tolist()


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
