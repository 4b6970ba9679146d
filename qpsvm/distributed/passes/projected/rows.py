"""Weights of rows in an accelerated projected gradient method, and sums over a projection of them.

A row has its weight x, the weight z with momentum, and the scores f = w'z_i + b of both, where
w = sum x_i y_i z_i. The gradient at z is y f + D z + c; a step goes to p = z - gradient / size. With a
multiplier t the projection is clip(p - t s, 0, upper), s the signs of the sum that is fixed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Coefficients(NamedTuple):
    """Coefficients of rows in the dual."""

    y: Vector
    sign: Vector  # labels, or 1 on the simplex
    upper: Vector  # infinite on the simplex
    ridge: Vector  # D
    linear: float  # c

    def at(self, rows: slice) -> Coefficients:
        """Return those of some rows."""
        y, sign, upper, ridge = (values[rows] for values in self[:4])
        return Coefficients(y, sign, upper, ridge, self.linear)


class RowWeights(NamedTuple):
    """Weights of rows and their scores; each of shape (n,)."""

    x: Vector
    z: Vector
    x_score: Vector
    z_score: Vector

    def at(self, rows: slice) -> RowWeights:
        """Return views of some rows."""
        return RowWeights(*[values[rows] for values in self])

    def gradient(self, of: Coefficients) -> Vector:
        """Return the gradient at z."""
        return np.asarray(of.y * self.z_score + of.ridge * self.z + of.linear)

    def ahead(self, of: Coefficients, size: float) -> Vector:
        """Return the end of the gradient step, before the projection."""
        return np.asarray(self.z - self.gradient(of) / size)

    def projected(self, of: Coefficients, size: float, t: float) -> Vector:
        """Return the weights after a step whose projection has the multiplier t; x where it is NaN."""
        if np.isnan(t):
            return self.x
        return np.clip(self.ahead(of, size) - t * of.sign, 0.0, of.upper)

    def move(self, x: Vector, score: Vector, momentum: float) -> None:
        """Take new weights and their scores, and extrapolate."""
        pairs = ((self.x, self.z, x), (self.x_score, self.z_score, score))
        for values, extrapolated, new in pairs:
            np.copyto(extrapolated, new + momentum * (new - values))
            np.copyto(values, new)


def breakpoints(of: Coefficients, ahead: Vector) -> tuple[Vector, Vector]:
    """Return the multipliers at which the terms of the fixed sum begin to fall, and where they end.

    Of an infinite upper bound the first is -inf.
    """
    first = np.where(of.sign > 0, ahead - of.upper, -ahead)
    last = np.where(of.sign > 0, ahead, of.upper - ahead)
    return first, last


def sums_along(of: Coefficients, ahead: Vector, grid: Vector) -> Vector:
    """Return the signed sum of the projection at multipliers, and the number of breakpoints up to each.

    Shape (2, len(grid)); the multipliers ascend, the sums do not increase.
    """
    first, last = breakpoints(of, ahead)
    size = len(grid) + 1
    at = np.searchsorted(grid, last)
    ended = np.cumsum(np.bincount(at, minlength=size))[: len(grid)]
    if not np.isfinite(of.upper).all():  # sum of p - t where t is smaller
        left = np.cumsum(np.bincount(at, last, size)[::-1])[::-1][1:]
        return np.stack([left - grid * (len(last) - ended), ended])
    sums = np.full(len(grid), float(np.sum(of.upper[of.sign > 0])))
    sums += grid * ended - np.cumsum(np.bincount(at, last, size))[: len(grid)]
    at = np.searchsorted(grid, first)
    begun = np.cumsum(np.bincount(at, minlength=size))[: len(grid)]
    sums -= grid * begun - np.cumsum(np.bincount(at, first, size))[: len(grid)]
    return np.stack([sums, begun + ended])


def hinge_sums(y: Vector, C: Vector, score: Vector, biases: Vector) -> Vector:
    """Return sum C_i max(0, 1 - y_i (f_i + b)) for each b, ascending, from scores without bias."""
    ends, size = y - score, len(biases) + 1  # of the class +1 the loss falls up to there
    out = np.zeros(len(biases))
    for label in (1.0, -1.0):
        some = y == label
        at = np.searchsorted(biases, ends[some])
        weights, moments = (np.bincount(at, v, size) for v in (C[some], C[some] * ends[some]))
        below = [np.cumsum(v)[: len(biases)] for v in (weights, moments)]
        if label < 0:
            out += biases * below[0] - below[1]
        else:
            out += np.sum(moments) - below[1] - biases * (np.sum(weights) - below[0])
    return out
