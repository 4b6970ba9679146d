"""The simplex with upper bounds: the domain of one-class machines and of balls with slack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import Domain
from qpsvm.errors import InputError, check_vector

Vector = NDArray[np.float64]

SUM_TOLERANCE = 1e-12
"""Rounding error of a sum of bounds: they are quotients, such as 1 / (nu m) with nu = 1."""


@dataclass(frozen=True, eq=False)
class CappedSimplex(Domain):
    """{0 <= x <= upper, sum of x = 1}.

    Parameters
    ----------
    upper : array_like, shape (m,)
        Positive, their sum at least 1; where it is 1, x = upper is the only point.
    """

    upper: Any
    projectable = True

    def __post_init__(self) -> None:
        """Check the bounds; they need not exceed 1."""
        upper = check_vector("upper", np.minimum(self.upper, 1.0), len(np.atleast_1d(self.upper)))
        if not np.all(upper > 0.0):
            raise InputError(f"upper must be > 0; got {float(np.min(upper))!r}")
        total = float(np.sum(upper))
        if total < 1.0 - SUM_TOLERANCE:
            raise InputError(f"upper must sum to at least 1, as x does; got {total!r}")
        object.__setattr__(self, "upper", upper / total if total < 1.0 else upper)

    @property
    def m(self) -> int:  # type: ignore[override]
        """Dimension of the variable."""
        return len(self.upper)

    def linear_min(self, g: Vector) -> Vector:
        """Return the vertex that fills the coordinates in the order of g; ties go to the first."""
        v = np.zeros(self.m)
        order = np.argsort(g, kind="stable")
        before = np.cumsum(self.upper[order]) - self.upper[order]
        v[order] = np.clip(1.0 - before, 0.0, self.upper[order])
        return v

    def farthest(self, x: Vector) -> float:
        """Return a bound on the largest |a - x|^2: a_i^2 is at most upper_i a_i."""
        v = self.linear_min(2.0 * x - self.upper)
        return float((self.upper - 2.0 * x) @ v + x @ x)

    def level(self, g: Vector) -> float:
        """Return rho that maximizes rho - sum upper_i max(0, rho - g_i): the exactly optimal level.

        The function is concave and piecewise linear; its slope falls by upper_i at g_i. Where it is
        flat between two values of g, their midpoint is returned, and the lower end where there is no
        upper one (all coordinates are at their bounds).
        """
        order = np.argsort(g)
        filled = np.cumsum(self.upper[order])
        k = (
            int(np.argmax(filled >= 1.0 - SUM_TOLERANCE))
            if filled[-1] >= 1.0 - SUM_TOLERANCE
            else -1
        )
        low = float(g[order[k]])
        if k in (-1, self.m - 1) or filled[k] > 1.0 + SUM_TOLERANCE:
            return low
        return 0.5 * (low + float(g[order[k + 1]]))

    def separable_gap(self, x: Vector, g: Vector, d: Vector) -> tuple[float, Vector]:
        """Return sum x max(0, g - rho) + (upper - x) max(0, rho - g), and rho.

        It is exact for d = 0; otherwise the gap of the linearization at x, never less.
        """
        g = g + d * x if d.any() else g
        rho = self.level(g)
        slack = g - rho
        gap = x @ np.maximum(slack, 0.0) + (self.upper - x) @ np.maximum(-slack, 0.0)
        return float(gap), np.array([rho])

    def entries_that_matter(
        self, g: Vector, multipliers: Vector, known: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return where g is at most rho, or, if the best levels are an interval, its upper end."""
        rho = float(multipliers[0])
        if not np.any(g == rho):
            rho = float(np.min(g[known & (g > rho)], initial=np.inf))
        return ~(g > rho)

    def full(self, x: Vector) -> NDArray[np.bool_]:
        """Return which coordinates are at their bounds, up to the rounding of many steps."""
        return np.asarray(x >= self.upper * (1.0 - 1e-9))

    def violation(self, x: Vector) -> float:
        """Return the largest of -x_i, x_i - upper_i and |sum x - 1|."""
        return float(max(0.0, -x.min(), np.max(x - self.upper), abs(float(np.sum(x)) - 1.0)))

    def project(self, x: Vector) -> Vector:
        """Return the nearest point: clip(x - t, 0, upper) with t by bisection to adjacent floats."""
        low, high = float(np.min(x - self.upper)), float(np.max(x))
        while True:  # the sum does not increase with t: it is >= 1 at low and 0 at high
            t = 0.5 * (low + high)
            if t in (low, high):
                near = self._balanced(np.clip(x - low, 0.0, self.upper))
                return self._balanced(near, everywhere=True)
            if float(np.sum(np.clip(x - t, 0.0, self.upper))) > 1.0:
                low = t
            else:
                high = t

    def repair(self, x: Vector) -> Vector:
        """Return x with its sum corrected on the free coordinates, or its projection."""
        near = self._balanced(np.clip(x, 0.0, self.upper))
        return near if abs(float(np.sum(near)) - 1.0) <= SUM_TOLERANCE else self.project(x)

    def _balanced(self, x: Vector, everywhere: bool = False) -> Vector:
        """Return x with its sum corrected to 1 on the coordinates between their bounds.

        The others are unchanged, so that rounding creates no support vectors, except with `everywhere`
        where the deficit exceeds rounding.
        """
        deficit = 1.0 - float(np.sum(x))
        if everywhere and abs(deficit) <= SUM_TOLERANCE * 1e-2:
            return x
        slack = self.upper - x if deficit > 0.0 else x
        slack = slack if everywhere else np.where((x > 0.0) & (x < self.upper), slack, 0.0)
        total = float(np.sum(slack))
        return x + slack * (deficit / total) if abs(deficit) < total else x

    def take(self, rows: NDArray[np.int64]) -> CappedSimplex:
        """Return the same constraints on the coordinates `rows`."""
        return CappedSimplex(self.upper[rows])
