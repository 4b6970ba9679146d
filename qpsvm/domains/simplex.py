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
        self, x: NDArray[np.float64], g: NDArray[np.float64], d: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the gap by filling each group to its level, and the levels rho, (n_groups,).

        With a_i = max(rho - g_i, 0) / d_i summing to 1, the terms are d_i (x_i - a_i)^2 / 2 where
        a_i > 0, and x_i (g_i - rho + d_i x_i / 2) elsewhere.
        """
        from qpsvm.domains.water_level import level_and_gap

        if self.n_groups == 1:
            level, gap = level_and_gap(x, g, d)
            return gap, np.array([level])
        found = np.array([level_and_gap(x[rows], g[rows], d[rows]) for rows in self.members])
        return float(np.sum(found[:, 1])), found[:, 0]

    def error_of_sums(self, x: NDArray[np.float64], multipliers: NDArray[np.float64]) -> float:
        """Return the sum of eps |rho|: after `repair` a sum is 1 up to the rounding of its terms."""
        return FLOAT64_EPS * float(np.sum(np.abs(multipliers)))

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
