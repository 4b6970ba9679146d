"""The simplex and products of simplices: a vertex has one coordinate of each group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import BoxWithSums, Domain, project_simplex
from qpsvm.errors import InputError

FLOAT64_EPS = float(np.finfo(np.float64).eps)

MIN_POINTS_FOR_SUPPORT_LEVEL = 5000
"""Number of points from which the water level of the support first bounds that of all points."""

MIN_POINTS_FOR_COMPILED_PASS = 20_000
"""Number of points from which the minima of several simplices are computed in one compiled pass."""


@dataclass(frozen=True, eq=False)
class SimplexProduct(Domain):
    """{x >= 0, sum of x over each group = 1}.

    Parameters
    ----------
    group : ndarray of int, shape (m,)
        Group of each coordinate, 0 .. n_groups - 1, none empty.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import SimplexProduct
    >>> domain = SimplexProduct(np.array([0, 0, 1, 1]))
    >>> domain.linear_min(np.array([2.0, 1.0, 1.0, 2.0])).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    group: NDArray[np.int64]
    zero_one = True
    constant_norm = True
    projectable = True
    has_face_oracle = True

    @property
    def m(self) -> int:  # type: ignore[override]
        """Dimension of the variable."""
        return len(self.group)

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """Coordinates of each group, in order."""
        if self.n_groups == 1:
            return [np.arange(self.m)]
        return [np.flatnonzero(self.group == g) for g in range(self.n_groups)]

    @cached_property
    def n_groups(self) -> int:
        """Number of simplices."""
        return int(self.group.max()) + 1

    def linear_min(self, g: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the vertex with the smallest g in each group; ties go to the first."""
        v = np.zeros(self.m)
        for rows in self.members:
            v[rows[np.argmin(g[rows])]] = 1.0
        return v

    def separable_gap(
        self,
        x: NDArray[np.float64],
        g: NDArray[np.float64],
        d: NDArray[np.float64],
        support: NDArray[np.int64] | None = None,
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the gap by water-filling in each group, and the water levels rho, (n_groups,).

        With a_i = max(rho - g_i, 0) / d_i summing to 1, the terms are d_i (x_i - a_i)^2 / 2 where
        a_i > 0, and x_i (g_i - rho + d_i x_i / 2) elsewhere.
        """
        gap, levels = 0.0, np.empty(self.n_groups)
        low, top = self._least(g, d)
        none = np.empty(0, np.int64)
        is_single = self.n_groups == 1
        # only the support and the points below the water level are read
        support = np.flatnonzero(x > 0) if support is None else support
        for k in range(self.n_groups) if self.m >= MIN_POINTS_FOR_SUPPORT_LEVEL else ():
            members = support if is_single else support[self.group[support] == k]
            if top[k] > low[k] and len(members):  # over all points the water level is no higher
                level = water_level(g[members], d[members])
                top[k] = min(top[k], level + 4.0 * FLOAT64_EPS * max(abs(level), abs(low[k])))
        bound = top[0] if is_single else top[self.group]
        candidates = np.flatnonzero(g < bound) if any(top > low) else none
        for k in range(self.n_groups):
            below = candidates if is_single else candidates[self.group[candidates] == k]
            # what is no number on points that overflow has no water level
            rho = water_level(g[below], d[below], top[k]) if top[k] > low[k] else low[k]
            filled = below[(g[below] < rho) & (d[below] > 0)]
            a = (rho - g[filled]) / d[filled]
            gap += 0.5 * float(d[filled] @ (x[filled] - a) ** 2)
            dry = support if is_single else support[self.group[support] == k]
            dry = dry[~((g[dry] < rho) & (d[dry] > 0))]  # all of them where g is no number
            gap += float(x[dry] @ (g[dry] - rho + 0.5 * d[dry] * x[dry]))
            levels[k] = rho
        return gap, levels

    def error_of_sums(self, x: NDArray[np.float64], multipliers: NDArray[np.float64]) -> float:
        """Return the sum of eps |rho|: after `repair` a sum is 1 up to the rounding of its terms."""
        return FLOAT64_EPS * float(np.sum(np.abs(multipliers)))

    def _least(
        self, g: NDArray[np.float64], d: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least g and the least g + d of each group."""
        is_uniform = d.strides == (0,)  # a broadcast view of one number
        ridged = not is_uniform and bool(d.any())
        if self.n_groups > 1 and self.m >= MIN_POINTS_FOR_COMPILED_PASS:
            from qpsvm.domains.groups import least_of_groups

            low, top = least_of_groups(g, d if ridged else g, self.group, self.n_groups, ridged)
        else:
            groups = [slice(None)] if self.n_groups == 1 else self.members
            low = np.array([np.min(g[rows]) for rows in groups])
            top = np.array([np.min(g[rows] + d[rows]) for rows in groups]) if ridged else low
        return low, low + d[0] if is_uniform else top

    def entries_that_matter(
        self,
        g: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        known: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Return where g is at most the water level of its group."""
        return np.asarray(~(g > multipliers[self.group]))

    def box_with_sums(self) -> BoxWithSums:
        """Return bounds of 2, which no point of the set meets, and a row of ones for each group."""
        members = np.equal.outer(np.arange(self.n_groups), self.group).astype(np.float64)
        return BoxWithSums(np.full(self.m, 2.0), members, np.ones(self.n_groups))

    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest of -x_i and |sum of a group - 1|."""
        support = np.flatnonzero(x != 0)
        sums = np.bincount(self.group[support], weights=x[support], minlength=self.n_groups)
        return float(max(0.0, -x.min(), np.max(np.abs(sums - 1.0))))

    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clip at 0 and rescale each group to sum 1."""
        x = np.maximum(x, 0.0)
        support = np.flatnonzero(x != 0)
        if self.n_groups == 1:  # exact: an error of the sum is an error of the lower bound
            sums = np.array([math.fsum(x[support].tolist())])
        else:
            own = [x[rows[x[rows] != 0]].tolist() for rows in self.members]
            sums = np.array([math.fsum(part) for part in own])
        if not np.all(sums > 0):
            raise InputError(
                "x0 must have a positive weight in every simplex; got a group of zeros"
            )
        x[support] /= sums[self.group[support]]
        return x

    def project(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest point: one sort for each group."""
        nearest = np.empty(self.m)
        for rows in self.members:
            nearest[rows] = project_simplex(x[rows])
        return nearest

    def take(self, rows: NDArray[np.int64]) -> SimplexProduct:
        """Return the product of simplices over the coordinates `rows`."""
        return SimplexProduct(self.group[rows])


def simplex(m: int) -> SimplexProduct:
    """Return the unit simplex in m dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import simplex
    >>> simplex(3).linear_min(np.array([2.0, 0.0, 1.0])).tolist()
    [0.0, 1.0, 0.0]
    """
    return SimplexProduct(np.zeros(m, np.int64))


def water_level(g: NDArray[np.float64], d: NDArray[np.float64], top: float | None = None) -> float:
    """Return rho with sum_i max(rho - g_i, 0) / d_i = 1, at most min of g_i where d_i = 0.

    Since no a_i exceeds 1, only g_i below min(g + d) matter; if only these are given, `top` is that
    minimum. Points above the level are removed, and the level is computed again, until none is above
    (Michelot 1986): no sort is needed.
    """
    low = float(np.min(g))
    if top is None:
        top = float(np.min(g + d)) if d.any() else low
    if top <= low:
        return low
    below = np.flatnonzero(g < top)
    rise, part = g[below] - low, 1.0 / d[below]
    while True:
        level = (1.0 + float(part @ rise)) / float(np.sum(part))
        under = rise < level
        if under.all():
            return low + min(level, top - low)
        rise, part = rise[under], part[under]
