"""Simplices with upper bounds: the domain of one-class machines, balls with slack and nu-machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import BoxWithSums, Domain, deviation
from qpsvm.errors import InputError, as_array, check_vector

Vector = NDArray[np.float64]

SUM_TOLERANCE = 1e-12
"""Rounding error of a sum of bounds, relative to the total: they are quotients, such as 1 / (nu m)
with nu = 1."""

BEYOND_TOTAL = 1.0 + 4.0 * SUM_TOLERANCE
"""Ratio to the total to which larger bounds are lowered: one that is the total ends an interval of best
levels, a larger one does not."""


@dataclass(frozen=True, eq=False)
class CappedSimplex(Domain):
    """{0 <= x <= upper, sum of x over each group = total}: a simplex with upper bounds, or several.

    Parameters
    ----------
    upper : array_like, shape (m,)
        Positive, their sum over a group at least its total; where it is the total, x = upper is the
        only point. Bounds above the total are lowered until they hardly exceed it.
    group : array_like of int, shape (m,), optional
        Group of each coordinate, 0 .. n_groups - 1, none empty; by default there is one group.
    total : float or array_like, shape (n_groups,)
        Positive sum of x over each group.

    Raises
    ------
    InputError
        If an argument is malformed, or if the bounds of a group sum to less than its total.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import CappedSimplex
    >>> CappedSimplex(np.full(4, 0.75), group=[0, 0, 1, 1]).linear_min(np.array([2.0, 1.0, 1.0, 2.0]))
    array([0.25, 0.75, 0.75, 0.25])
    """

    upper: Any
    group: Any = None
    total: Any = 1.0
    projectable = True

    def __post_init__(self) -> None:
        """Check the groups, the totals and the bounds."""
        bounds = np.asarray(as_array("upper", self.upper), np.float64)
        m = len(np.atleast_1d(bounds))
        group = np.zeros(m, np.int64) if self.group is None else _check_group(self.group, m)
        n_groups = int(group.max()) + 1
        total = self.total if np.ndim(self.total) else np.full(n_groups, self.total)
        total = check_vector("total", total, n_groups)
        if not np.all(total > 0.0):
            raise InputError(f"total must be > 0; got {float(np.min(total))!r}")
        upper = check_vector("upper", np.minimum(bounds, BEYOND_TOTAL * total[group]), m)
        if not np.all(upper > 0.0):
            raise InputError(f"upper must be > 0; got {float(np.min(upper))!r}")
        for name, value in (("group", group), ("total", total), ("upper", upper)):
            object.__setattr__(self, name, value)
        sums = self._sums(upper)
        for k in np.flatnonzero(sums < total).tolist():
            if sums[k] < total[k] * (1.0 - SUM_TOLERANCE):
                where = "" if n_groups == 1 else f" over group {k}"
                raise InputError(
                    f"upper must sum to at least {float(total[k])!r}{where}, as x does; "
                    f"got {float(sums[k])!r}"
                )
            upper[self.members[k]] *= total[k] / sums[k]

    @property
    def m(self) -> int:  # type: ignore[override]
        """Dimension of the variable."""
        return len(self.upper)

    @property
    def n_groups(self) -> int:
        """Number of simplices."""
        return len(self.total)

    @cached_property
    def members(self) -> Sequence[Any]:
        """Coordinates of each group, in order, as an index."""
        if self.n_groups == 1:
            return [slice(None)]
        return [np.flatnonzero(self.group == g) for g in range(self.n_groups)]

    def _sums(self, x: Vector) -> Vector:
        """Return the sum of x over each group."""
        return np.array([float(np.sum(x[of])) for of in self.members])

    def _in_each(self, function: Callable[[Vector, Vector, float], Any], x: Vector) -> Vector:
        """Return what a function of x, the bounds and the total gives in each group, shape (m,)."""
        result = np.empty(self.m)
        for of, total in zip(self.members, self.total, strict=True):
            result[of] = function(x[of], self.upper[of], float(total))
        return result

    def linear_min(self, g: Vector) -> Vector:
        """Return the vertex that fills the coordinates in the order of g; ties go to the first."""
        return self._in_each(_filled, g)

    def least(self, g: Vector) -> float:
        """Return the minimum of g'a over all a of the domain."""
        return float(g @ self.linear_min(g))

    def farthest(self, x: Vector) -> float:
        """Return a bound on the largest |a - x|^2: a_i^2 is at most upper_i a_i."""
        v = self.linear_min(2.0 * x - self.upper)
        return float((self.upper - 2.0 * x) @ v + x @ x)

    def levels(self, g: Vector) -> Vector:
        """Return rho that maximizes total rho - sum upper_i max(0, rho - g_i), of each group.

        These are the exactly optimal levels, shape (n_groups,). The function is concave and piecewise
        linear; its slope falls by upper_i at g_i. Where it is flat between two values of g, their
        midpoint is returned, and the lower end where there is no upper one (all coordinates are at
        their bounds).
        """
        parts = zip(self.members, self.total, strict=True)
        return np.array([_level(g[of], self.upper[of], float(total)) for of, total in parts])

    def separable_gap(self, x: Vector, g: Vector, d: Vector) -> tuple[float, Vector]:
        """Return sum x max(0, g - rho) + (upper - x) max(0, rho - g), and rho, shape (n_groups,).

        It is exact for d = 0; otherwise the gap of the linearization at x, never less.
        """
        g = g + d * x if d.any() else g
        rho = self.levels(g)
        slack = g - self.at_each(rho)
        gap = x @ np.maximum(slack, 0.0) + (self.upper - x) @ np.maximum(-slack, 0.0)
        return float(gap), rho

    def error_of_sums(self, x: Vector, multipliers: Vector) -> float:
        """Return the sum of |rho| |sum of x - total| over the groups: `repair` leaves 1e-12 at bounds."""
        parts = zip(self.members, self.total, multipliers, strict=True)
        return sum(abs(float(rho)) * deviation(x[of], float(total)) for of, total, rho in parts)

    def at_each(self, of_group: Vector) -> Any:
        """Return the number of the group of each coordinate, shape (m,), or the only one."""
        return of_group[0] if self.n_groups == 1 else of_group[self.group]

    def entries_that_matter(
        self, g: Vector, multipliers: Vector, known: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return where g is at most rho, or, if the best levels are an interval, its upper end."""
        rho = multipliers.copy()
        for k, of in enumerate(self.members):
            own = g[of]
            if not np.any(own == rho[k]):
                rho[k] = np.min(own[known[of] & (own > rho[k])], initial=np.inf)
        return np.asarray(~(g > self.at_each(rho)))

    def full(self, x: Vector) -> NDArray[np.bool_]:
        """Return which coordinates are at their bounds, up to the rounding of many steps."""
        return np.asarray(x >= self.upper * (1.0 - 1e-9))

    def box_with_sums(self) -> BoxWithSums:
        """Return the bounds, a row of ones for the members of each group, and the totals."""
        members = np.equal.outer(np.arange(self.n_groups), self.group).astype(np.float64)
        return BoxWithSums(self.upper, members, self.total)

    def violation(self, x: Vector) -> float:
        """Return the largest of -x_i, x_i - upper_i and |sum of a group - its total|."""
        unbalanced = np.max(np.abs(self._sums(x) - self.total))
        return float(max(0.0, -x.min(), np.max(x - self.upper), unbalanced))

    def project(self, x: Vector) -> Vector:
        """Return the nearest point, group by group."""
        return self._in_each(_projected, x)

    def repair(self, x: Vector) -> Vector:
        """Return x with its sums corrected on the free coordinates, or the projection of a group."""
        return self._in_each(_repaired, x)

    def take(self, rows: NDArray[np.int64]) -> CappedSimplex:
        """Return the same constraints on the coordinates `rows`, of which every group has some."""
        return CappedSimplex(self.upper[rows], self.group[rows], self.total)


def _check_group(group: Any, m: int) -> NDArray[np.int64]:
    """Return the groups of m coordinates as integers 0, 1, ..., all of which occur."""
    given = check_vector("group", group, m)
    found = np.unique(given)
    if not np.array_equal(found, np.arange(len(found))):
        raise InputError(
            "group must hold the integers 0 .. n_groups - 1, each at least once; "
            f"got values from {found[0]:g} to {found[-1]:g}"
        )
    return given.astype(np.int64)


def _filled(g: Vector, upper: Vector, total: float) -> Vector:
    """Return the vertex of one group that minimizes g'v."""
    v = np.empty(len(g))
    order = np.argsort(g, kind="stable")
    before = np.cumsum(upper[order]) - upper[order]
    v[order] = np.clip(total - before, 0.0, upper[order])
    return v


def _level(g: Vector, upper: Vector, total: float) -> float:
    """Return the best level of one group."""
    order = np.argsort(g)
    filled = np.cumsum(upper[order])
    enough, too_much = total * (1.0 - SUM_TOLERANCE), total * (1.0 + SUM_TOLERANCE)
    k = int(np.argmax(filled >= enough)) if filled[-1] >= enough else -1
    low = float(g[order[k]])
    if k in (-1, len(g) - 1) or filled[k] > too_much:
        return low
    return 0.5 * (low + float(g[order[k + 1]]))


def _projected(x: Vector, upper: Vector, total: float) -> Vector:
    """Return the nearest point of one group: clip(x - t, 0, upper) with t by bisection."""
    low, high = float(np.min(x - upper)), float(np.max(x))
    while True:  # the sum does not increase with t: it is >= total at low and 0 at high
        t = 0.5 * (low + high)
        if t in (low, high):
            near = _balanced(np.clip(x - low, 0.0, upper), upper, total)
            return _balanced(near, upper, total, everywhere=True)
        if float(np.sum(np.clip(x - t, 0.0, upper))) > total:
            low = t
        else:
            high = t


def _repaired(x: Vector, upper: Vector, total: float) -> Vector:
    """Return x with its sum corrected on the free coordinates of one group, or its projection."""
    near = _balanced(np.clip(x, 0.0, upper), upper, total)
    if abs(float(np.sum(near)) - total) <= SUM_TOLERANCE * total:
        return near
    return _projected(x, upper, total)


def _balanced(x: Vector, upper: Vector, total: float, everywhere: bool = False) -> Vector:
    """Return x with its sum corrected to the total on the coordinates between their bounds.

    The others are unchanged, so that rounding creates no support vectors, except with `everywhere`
    where the deficit exceeds rounding.
    """
    deficit = total - float(np.sum(x))
    if everywhere and abs(deficit) <= SUM_TOLERANCE * 1e-2 * total:
        return x
    slack = upper - x if deficit > 0.0 else x
    slack = slack if everywhere else np.where((x > 0.0) & (x < upper), slack, 0.0)
    sum_of_slack = float(np.sum(slack))
    return x + slack * (deficit / sum_of_slack) if abs(deficit) < sum_of_slack else x
