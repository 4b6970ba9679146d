"""What rounding can do to kernel values: bounds for columns in float32 or float64.

`formula_error` has the maps of inner products and of l1 distances; the rest is of Gaussian kernels, entry
by entry.

Let u be the unit roundoff of the columns, E = gamma |x_i - x_j|^2 the exponent and q = sqrt(gamma) |x|.
Errors of E relative to q_i^2 + q_j^2 are 4u where coordinates were rounded once more, 4u in norms, rates
and differences, and d u / (1 - d u) in inner products of d terms, which may be added in any order; of
whole multiples these are exact. In all they are less than k = 9u + d u / (1 - d u), and a term alike for
norms, which are summed in float64. Relative to E there are 4u, which E exp(-E) <= 1/e makes 2u of the
value, and the exponential itself adds 8u. On a grid, where E is a whole number of steps, k is 0.

Points on a grid may stand for others, at most `far` from them, in the units of q. This changes a distance
r by 2 far, and the kernel, whose slope is at most sqrt(2 / e), by 1.72 far; and E by 4 far (r + far).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.engine.formula import LOG2E, Formula, Identity, Power, Tangent

MEDIAN_SAMPLE_POINTS = 1024
"""Points that a middle value is taken of."""

MAX_EXPONENT_ERROR = 1 / 16
"""Exponent's error from which a bound relative to values is of no use."""

Vector = NDArray[np.float64]


def exponent_error(u: float, d: int) -> float | None:
    """Return k for sums of d terms; None where these are too many for such sums."""
    if (d + 9) * u > 1 / 20:
        return None
    return 9.0 * u + d * u / (1.0 - d * u) + 1.01 * d * 0.5 * float(np.finfo(np.float64).eps)


def column_error(square: Vector, k: float, u: float, far: float) -> Vector:
    """Return what the entries of a held column are off by at most, for each row, given q^2.

    The errors that are not relative to E make t exp(t - E) of the value, t = k (q_i^2 + q_j^2). A large
    x_j is far from x_i: with v = q_j - q_i, where v^2 <= E, t = k (2 q^2 + 2 q v + v^2) <=
    k (3 q^2 + 2 v^2). As v exp(-c v^2) and v^2 exp(-c v^2) are at most 0.46 and 0.43 for
    c = 1 - 2k >= 7/8,

        t exp(t - E) <= k (2 q^2 + q + 1/2) exp(3 k q^2),

    whatever j is. No value is off by more than 1.
    """
    value = np.exp(np.minimum(3.0 * k * square, 1.0))
    error = (k * (2.0 * square + np.sqrt(square) + 0.5) + 10.0 * u) * value + 1.72 * far
    error[3.0 * k * square > 1.0] = 1.0
    return np.minimum(error, 1.0)


def formula_error(formula: Formula, size: Vector, d: int, u: float) -> Vector | None:
    """Return what the entries of a column are off by at most, for each row; None for too many features.

    With u the unit roundoff, let products and coordinates be rounded: p is off by at most 1.06 d u + 2 u
    of |x| |z|, and t, with its factor, terms and sums, by

        e = u ((1.06 d + 6) P + 4 |c|), P = |factor| |x| |z|, c = 2 shift, while |t| <= T = P + |c| + e.

    So t^g, a product of g numbers, is off by at most g T^(g-1) e + 1.02 g u T^g, and tanh t, whose slope
    is at most 1, by e + 12 u. |z| is at most the largest `size`.

    Of the l1 distance E = |factor| p / log2(e) is off by at most A + B E, A = u |factor| (|x|_1 + |z|_1)
    from rounded coordinates and B = u (1.06 d + 6); since (A + B E) exp(A + B E - E) is at most
    exp(A) (A + B / (e (1 - B))) for B < 1/16, the value is off by that and 10 u.

    Products and coordinates that underflow add |factor| (d + 1) (1 + |x| + |z|) times the least normal
    number to the error of t.

    Parameters
    ----------
    formula : Formula
        With rate 0.
    size : ndarray, shape (m,)
        |x|, the l1 norm for an l1 distance.
    d : int
        Features.
    u : float
        2^-24 for columns in float32, 2^-53 in float64.
    """
    assert formula.rate == 0.0
    least = float(np.finfo(np.float32 if u > 2.0**-30 else np.float64).tiny)
    lost = abs(formula.factor) * (d + 1) * (1.0 + size + float(np.max(size))) * least
    if (d + 9) * u > 1 / 20:
        return None
    product = abs(formula.factor) * size * float(np.max(size))
    own = 2.0 * abs(formula.shift)
    error = u * ((1.06 * d + 6.0) * product + 4.0 * own) + lost
    if isinstance(formula.map, Identity):
        return error
    if isinstance(formula.map, Tangent):
        return np.minimum(error + 12.0 * u, 2.0)
    if isinstance(formula.map, Power):
        degree, largest = formula.map.degree, product + own + error
        with np.errstate(over="ignore"):
            return largest ** (degree - 1) * (degree * error + 1.02 * degree * u * largest)
    of_points = u * abs(formula.factor) / LOG2E * (size + float(np.max(size))) + lost
    of_sums = u * (1.06 * d + 6.0)
    grown = np.exp(np.minimum(of_points, 1.0)) * (of_points + of_sums / (np.e * (1.0 - of_sums)))
    return np.minimum(np.where(of_points > 1.0, 1.0, grown) + 10.0 * u, 1.0)


@dataclass(frozen=True, eq=False)
class RelativeError:
    """Factors r_i, c_j: a value is off by at most r_i c_j times another evaluation of it.

    As E <= 2 (q_i^2 + q_j^2) and r <= q_i + q_j, the exponent of a value is off by at most a_i + a_j for
    a = (k + 8u) q^2 + 4 far q + 2 far^2, and its exponential by 8u of itself. So values v, w of
    k(x_i, x_j), however sums were added, are within a factor s t of it, s = exp(a_i + 9u) and
    t = exp(a_j), and for any b > 0

        |v - k| <= (s t - 1) k <= (s t - 1) s t w <= s max(s - 1, b) t (t + (t - 1) / b) w;

    b is a middle value of some s - 1. For columns of points so far out that a_j is beyond 1/16 the bound
    is of no use: 0. The least value, 2^-125, comes on top.

    Columns are asked for a few at a time, and rows once at the end: so they are evaluated then.
    """

    norms: Vector  # q^2 / gamma
    gamma: float
    k: float
    u: float
    far: float

    def rows(self) -> Vector:
        """Return r, shape (m,)."""
        s = self._less_one(slice(None))
        r = np.maximum(s, self._middle)
        s += 1.0
        r *= s
        return r

    def columns(self, indices: NDArray[np.int64]) -> Vector:
        """Return c_j of some columns."""
        a = self._exponents(indices)
        t = np.expm1(np.minimum(a, 1.0))  # less 1
        return np.where(a <= MAX_EXPONENT_ERROR, (1.0 + t) * (1.0 + t + t / self._middle), 0.0)

    def of_use(self, indices: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for which columns c_j is not 0."""
        return np.asarray(self._exponents(indices) <= MAX_EXPONENT_ERROR)

    @cached_property
    def _middle(self) -> float:
        """The b of the bound."""
        return float(
            np.median(
                self._less_one(slice(None, None, 1 + len(self.norms) // MEDIAN_SAMPLE_POINTS))
            )
        )

    def _exponents(self, some: Any) -> Vector:
        """Return a."""
        square = self.gamma * self.norms[some]
        a = (self.k + 8.0 * self.u) * square
        return a if not self.far else a + 4.0 * self.far * np.sqrt(square) + 2.0 * self.far**2

    def _less_one(self, some: Any) -> Vector:
        """Return s - 1."""
        a = self._exponents(some)
        a += 9.0 * self.u
        return np.expm1(np.minimum(a, 100.0, out=a), out=a)
