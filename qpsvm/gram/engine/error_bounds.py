"""Bounds on the rounding errors of kernel values, for columns in float32 or float64.

`formula_error` is for all maps but the Gaussian one, for which the other functions have finer bounds.

Let u be the unit roundoff of the columns, E = gamma |x_i - x_j|^2 the exponent and q = sqrt(gamma) |x|.
The errors of E relative to q_i^2 + q_j^2 are 4u for coordinates that were rounded once more, 4u in norms,
rates and differences, and d u / (1 - d u) in inner products of d terms, summed in any order; those of
integer points are exact. Together they are less than k = 9u + d u / (1 - d u), plus a similar term for
norms, which are summed in float64. The errors relative to E are 4u; since E exp(-E) <= 1/e, they are 2u
of the value. The exponential itself adds 8u. On a grid E is a multiple of one number, and k is 0.

Points on a grid may approximate others, at a distance of at most `offset` in the units of q. This changes
a distance r by 2 offset, E by 4 offset (r + offset), and the kernel, whose slope is at most sqrt(2 / e),
by 1.72 offset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.engine.formula import LOG2E, Formula, Identity, Power, Tangent

MEDIAN_SAMPLE_POINTS = 1024
"""Approximate number of points whose median is computed."""

MAX_EXPONENT_ERROR = 1 / 16
"""Error of the exponent above which a bound relative to the value is not used."""

Vector = NDArray[np.float64]


def term_counts(X: Any) -> Any:
    """Return the maximum number of nonzero terms of an inner product, of CSR points for each point.

    A product with any other point has no more than the point has entries.
    """
    return np.diff(X.indptr).astype(np.float64) if sp.issparse(X) else X.shape[1]


def exponent_error(u: float, d: Any) -> Any:
    """Return k for sums of d terms, an array for an array; None where d is too large for a useful bound.

    Where d differs between points, that of a pair is at most each of both, but for the norms.
    """
    most = float(np.max(d))
    if (most + 9) * u > 1 / 20:
        return None
    return 9.0 * u + d * u / (1.0 - d * u) + 1.01 * most * 0.5 * float(np.finfo(np.float64).eps)


def column_error(square: Vector, k: Any, u: float, offset: float) -> Vector:
    """Return a bound on the errors of the entries of a cached column, for each row, given q^2 and k.

    The errors relative to q_i^2 + q_j^2 change the value by t exp(t - E), t = k (q_i^2 + q_j^2). A large
    x_j is far from x_i: with v = q_j - q_i, where v^2 <= E, t = k (2 q^2 + 2 q v + v^2) <=
    k (3 q^2 + 2 v^2). As v exp(-c v^2) and v^2 exp(-c v^2) are at most 0.46 and 0.43 for
    c = 1 - 2k >= 7/8,

        t exp(t - E) <= k (2 q^2 + q + 1/2) exp(3 k q^2),

    for every j. No error is larger than 1.
    """
    value = np.exp(np.minimum(3.0 * k * square, 1.0))
    error = (k * (2.0 * square + np.sqrt(square) + 0.5) + 10.0 * u) * value + 1.72 * offset
    error[3.0 * k * square > 1.0] = 1.0
    return np.minimum(error, 1.0)


def formula_error(
    formula: Formula, size: Vector, d: Any, u: float, by_common_part: bool = False
) -> Vector | None:
    """Return a bound on the errors of the entries of a column, for each row; None for too many features.

    With u the unit roundoff, let products and coordinates be rounded: the error of p is at most
    (1.06 d u + 2 u) |x| |z|, and that of t, with its factor, terms and sums, at most

        e = u ((1.06 d + 6) P + 4 |c|), P = |factor| |x| |z|, c = 2 shift, while |t| <= T = P + |c| + e.

    The error of t^g, a product of g numbers, is thus at most g T^(g-1) e + 1.02 g u T^g, and that of
    tanh t, whose slope is at most 1, is e + 12 u. |z| is at most the largest `size`.

    For the l1 distance the error of E = |factor| p / log2(e) is at most A + B E, with
    A = u |factor| (|x|_1 + |z|_1) from rounded coordinates and B = u (1.06 d + 6). Since
    (A + B E) exp(A + B E - E) is at most exp(A) (A + B / (e (1 - B))) for B < 1/16, the error of the
    value is at most that plus 10 u.

    Of CSR points E comes from both norms and the d terms in which both points have an entry, at most
    |x|_1 + |z|_1 together (`by_common_part`): with rounded norms, factor and sums the error of E is at
    most u (1.06 d + 8) |factor| (|x|_1 + |z|_1), that is A + B E with B = 0.

    Products and coordinates that underflow add |factor| (d + 1) (1 + |x| + |z|) times the least normal
    number to the error of t.

    Parameters
    ----------
    formula : Formula
        With rate 0.
    size : ndarray, shape (m,)
        |x|, or the l1 norm for an l1 distance.
    d : int or ndarray of shape (m,)
        Number of terms of a product, or a bound on it for each point.
    u : float
        2^-24 for columns in float32, 2^-53 in float64.
    """
    assert formula.rate == 0.0
    least = float(np.finfo(np.float32 if u > 2.0**-30 else np.float64).tiny)
    underflow_error = abs(formula.factor) * (d + 1) * (1.0 + size + float(np.max(size))) * least
    if (float(np.max(d)) + 9) * u > 1 / 20:
        return None
    product = abs(formula.factor) * size * float(np.max(size))
    own = 2.0 * abs(formula.shift)
    error = u * ((1.06 * d + 6.0) * product + 4.0 * own) + underflow_error
    if isinstance(formula.map, Identity):
        return error
    if isinstance(formula.map, Tangent):
        return np.minimum(error + 12.0 * u, 2.0)
    if isinstance(formula.map, Power):
        degree, largest = formula.map.degree, product + own + error
        with np.errstate(over="ignore"):
            return largest ** (degree - 1) * (degree * error + 1.02 * degree * u * largest)
    point_error = u * abs(formula.factor) / LOG2E * (size + float(np.max(size)))
    sum_error = u * (1.06 * d + 6.0)
    if by_common_part:
        point_error, sum_error = (sum_error + 2.0 * u) / u * point_error, 0.0 * sum_error
    point_error += underflow_error
    enlarged = np.exp(np.minimum(point_error, 1.0)) * (
        point_error + sum_error / (np.e * (1.0 - sum_error))
    )
    return np.minimum(np.where(point_error > 1.0, 1.0, enlarged) + 10.0 * u, 1.0)


@dataclass(frozen=True, eq=False)
class RelativeError:
    """Factors r_i, c_j: the error of a value is at most r_i c_j times another evaluation of it.

    As E <= 2 (q_i^2 + q_j^2) and r <= q_i + q_j, the error of the exponent is at most a_i + a_j for
    a = (k + 8u) q^2 + 4 offset q + 2 offset^2, and the exponential adds a relative error of 8u. Two
    evaluations v, w of k(x_i, x_j), in any order of summation, are thus within a factor s t of it,
    s = exp(a_i + 9u) and t = exp(a_j), and for any b > 0

        |v - k| <= (s t - 1) k <= (s t - 1) s t w <= s max(s - 1, b) t (t + (t - 1) / b) w;

    b is the median of s - 1 over a sample. For columns with a_j above 1/16, whose points are far from the
    origin, there is no useful bound: c_j is 0. The least value, 2^-125, is to be added.

    Factors of columns are evaluated on demand, a few at a time; those of rows once, at the end.
    """

    norms: Vector  # q^2 / gamma
    gamma: float
    k: Any  # a number, or one for each point, of which the smaller one holds for a pair
    u: float
    offset: float
    middle: float | None = None  # the b of the bound, by default of these points

    def of_others(self, norms: Vector, k: Any) -> RelativeError:
        """Return the factors of columns of other points, whose product with `rows` bounds the error."""
        return replace(self, norms=norms, k=k, middle=self._middle)

    def rows(self) -> Vector:
        """Return r, shape (m,)."""
        s = self._less_one(slice(None))
        r = np.maximum(s, self._middle)
        s += 1.0
        r *= s
        return r

    def columns(self, indices: Any) -> Vector:
        """Return c_j of the columns `indices`."""
        a = self._exponents(indices)
        t = np.expm1(np.minimum(a, 1.0))  # less 1
        return np.where(a <= MAX_EXPONENT_ERROR, (1.0 + t) * (1.0 + t + t / self._middle), 0.0)

    def of_use(self, indices: Any) -> NDArray[np.bool_]:
        """Return for which columns c_j is not 0."""
        return np.asarray(self._exponents(indices) <= MAX_EXPONENT_ERROR)

    @cached_property
    def _middle(self) -> float:
        """The b of the bound."""
        if self.middle is not None:
            return self.middle
        return float(
            np.median(
                self._less_one(slice(None, None, 1 + len(self.norms) // MEDIAN_SAMPLE_POINTS))
            )
        )

    def _exponents(self, rows: Any) -> Vector:
        """Return a of these points."""
        square = self.gamma * self.norms[rows]
        a = ((self.k[rows] if np.ndim(self.k) else self.k) + 8.0 * self.u) * square
        if not self.offset:
            return a
        return a + 4.0 * self.offset * np.sqrt(square) + 2.0 * self.offset**2

    def _less_one(self, rows: Any) -> Vector:
        """Return s - 1 of these points."""
        a = self._exponents(rows)
        a += 9.0 * self.u
        return np.expm1(np.minimum(a, 100.0, out=a), out=a)
