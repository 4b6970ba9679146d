"""The simplex and products of simplices: vertices are coordinates, one for each group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import Domain, project_simplex
from qpsvm.errors import InputError


@dataclass(frozen=True, eq=False)
class SimplexProduct(Domain):
    """{x >= 0, sum of x over each group = 1}.

    Parameters
    ----------
    group : ndarray of int, shape (m,)
        Group of each coordinate, 0 .. n_groups - 1, none empty.
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
        for of in self.members:
            v[of[np.argmin(g[of])]] = 1.0
        return v

    def separable_gap(
        self, x: NDArray[np.float64], g: NDArray[np.float64], d: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the gap by water-filling in each group, and the water levels rho, (n_groups,).

        With a_i = max(rho - g_i, 0) / d_i summing to 1, the terms are d_i (x_i - a_i)^2 / 2 where
        a_i > 0 and x_i (g_i - rho + d_i x_i / 2) elsewhere.
        """
        gap, levels = 0.0, np.empty(self.n_groups)
        whole = self.n_groups == 1
        for k, of in enumerate([None] if whole else self.members):
            xs, gs, ds = (x, g, d) if whole else (x[of], g[of], d[of])
            rho = water_level(gs, ds)
            wet = np.flatnonzero(gs < rho)  # few, as the support: only they are read
            wet = wet[ds[wet] > 0]
            a = (rho - gs[wet]) / ds[wet]
            gap += 0.5 * float(ds[wet] @ (xs[wet] - a) ** 2)
            dry = np.flatnonzero(xs > 0)
            dry = dry[(gs[dry] >= rho) | (ds[dry] == 0)]
            gap += float(xs[dry] @ (gs[dry] - rho + 0.5 * ds[dry] * xs[dry]))
            levels[k] = rho
        return gap, levels

    def reached(
        self,
        g: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        known: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Return where g is at most the water level of its group."""
        return np.asarray(~(g > multipliers[self.group]))

    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest of -x_i and |sum of a group - 1|."""
        some = np.flatnonzero(x != 0)
        sums = np.bincount(self.group[some], weights=x[some], minlength=self.n_groups)
        return float(max(0.0, -x.min(), np.max(np.abs(sums - 1.0))))

    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clip at 0 and rescale each group to sum 1."""
        x = np.maximum(x, 0.0)
        some = np.flatnonzero(x != 0)
        sums = np.bincount(self.group[some], weights=x[some], minlength=self.n_groups)
        if not np.all(sums > 0):
            raise InputError(
                "x0 must have a positive weight in every simplex; got a group of zeros"
            )
        x[some] /= sums[self.group[some]]
        return x

    def project(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest point: one sort for each group."""
        nearest = np.empty(self.m)
        for of in self.members:
            nearest[of] = project_simplex(x[of])
        return nearest

    def take(self, rows: NDArray[np.int64]) -> SimplexProduct:
        """Return the product of simplices over the coordinates `rows`."""
        return SimplexProduct(self.group[rows])


def simplex(m: int) -> SimplexProduct:
    """Return the unit simplex in m dimensions."""
    return SimplexProduct(np.zeros(m, np.int64))


def water_level(g: NDArray[np.float64], d: NDArray[np.float64]) -> float:
    """Return rho with sum_i max(rho - g_i, 0) / d_i = 1, at most min of g_i where d_i = 0.

    Since no a_i exceeds 1, only g_i below min(g + d) can matter. The level over too many points is
    too high: those above it are left out until none is (Michelot 1986), which needs no sort.
    """
    low = float(np.min(g))
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
