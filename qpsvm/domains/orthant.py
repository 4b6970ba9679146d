"""The nonnegative orthant: the domain of a dual whose loss is a square."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import BoxWithSums, Domain

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Orthant(Domain):
    """{x >= 0}, for objectives with a ridge: without one there may be no minimum.

    Parameters
    ----------
    m : int
        Dimension of the variable.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import Orthant
    >>> Orthant(2).repair(np.array([-1.0, 3.0])).tolist()
    [0.0, 3.0]
    """

    m: int

    def linear_min(self, g: Vector) -> Vector:
        """Return infinity where g < 0 and 0 elsewhere."""
        return np.where(g < 0.0, np.inf, 0.0)

    def farthest(self, x: Vector) -> float:
        """Return infinity: the set is not bounded."""
        return np.inf

    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def separable_gap(
        self, x: Vector, g: Vector, d: Vector, support: NDArray[np.int64] | None = None
    ) -> tuple[float, Vector]:
        """Return sum d_i / 2 (x_i - a_i)^2 + x_i max(0, g_i), a_i = max(0, -g_i) / d_i the minimizer."""
        falls = ~(g >= 0.0)  # NaN included
        at, dry = np.flatnonzero(falls), np.flatnonzero((x != 0.0) & ~falls)
        off = x[at] + g[at] / d[at]
        if np.isinf(off).any():
            return np.inf, np.empty(0)
        gap = 0.5 * float((d[at] * off) @ off)
        return gap + float(x[dry] @ (g[dry] + 0.5 * d[dry] * x[dry])), np.empty(0)

    def entries_that_matter(
        self, g: Vector, multipliers: Vector, known: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return where g is not positive."""
        return ~(g > 0.0)

    def box_around_minimum(self, c: Vector, d: Vector) -> BoxWithSums:
        """Return a box that contains the minimizer of 1/2 x'(G + D)x + c'x, for any psd G and D > 0.

        With the slacks s_i = d_i x_i of the minimizer, 1/2 sum s_i^2 / d_i is a part of the optimal value
        of the problem whose dual this is. That is at most 1/2 sum max(0, -c_i)^2 / d_i, its value at
        w = 0, and no more with |c_i| in place of max(0, -c_i), which leaves the box an inside.
        """
        value = 0.5 * float(c @ (c / d))
        upper = (
            np.sqrt(2.0 * value / d) if value > 0.0 else np.ones(self.m)
        )  # at c = 0 x = 0 is best
        return BoxWithSums(upper, np.zeros((0, self.m)), np.zeros(0))

    def violation(self, x: Vector) -> float:
        """Return the largest -x_i."""
        return float(max(0.0, -x.min()))

    def repair(self, x: Vector) -> Vector:
        """Return x without its negative entries."""
        return np.maximum(x, 0.0)

    def take(self, rows: NDArray[np.int64]) -> Orthant:
        """Return the orthant of the coordinates `rows`."""
        return Orthant(len(rows))
