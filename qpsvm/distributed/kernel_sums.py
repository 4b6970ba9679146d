"""The points of a shard, and sums of kernel values: in float32 for steps, in float64 for certificates.

A kernel that is invariant to translation is evaluated on points less an origin that all shards share.
Points far from zero then lose fewer digits.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.gram import RBF, Laplacian, Linear
from qpsvm.gram.base import BLOCK_ENTRIES, slices
from qpsvm.gram.engine.error_bounds import (
    RelativeError,
    column_error,
    exponent_error,
    formula_error,
    term_counts,
)
from qpsvm.gram.engine.formula import Evaluator, L1Exponential
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.kernels.limits import LARGEST_VALUE, check_lengths, check_values
from qpsvm.gram.storage.integer import norms_of
from qpsvm.gram.translation import moved_rows, square_distances
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.products import squared_norms
from qpsvm.solvers.working_set.gradient_error import GradientError

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

PANEL_POINTS = 2048
"""Number of points whose exact sums are computed at a time."""

SCALES_OF_FLOAT32 = (1e-12, 1e12)
"""Least and largest gamma, exclusive, at which steps evaluate kernel values in float32."""

SINGLE_PRECISION = np.dtype(np.float32)
"""Precision of the kernel values of steps, where it is sufficient."""


def is_translatable(kernel: PointGram) -> bool:
    """Return whether a translation of all points leaves the kernel values unchanged."""
    return isinstance(kernel, (RBF, Laplacian))


def fill_values(
    kernel: PointGram, A: Any, B: Any, origin: Vector | None, out: NDArray[Any]
) -> None:
    """Write k(A, B) of two sets of points to the beginning of the rows of `out`, in its precision."""
    A, B = (moved(points, origin, out.dtype) for points in (A, B))
    formula = kernel._formula_of_points
    if formula is None:
        out[:, : B.shape[0]] = kernel._values(A.toarray() if sp.issparse(A) else A, B)
        return
    from qpsvm.gram.engine.tiles import fill_between

    fill_between(A, formula.terms(A), B, formula.terms(B), formula, out)


def step_precision(kernel: PointGram, largest: float) -> np.dtype[Any]:
    """Return the precision of the kernel values of steps, given the largest |k(x, x)|."""
    low, high = SCALES_OF_FLOAT32
    fits = low < getattr(kernel, "gamma", 1.0) < high and largest < LARGEST_VALUE[SINGLE_PRECISION]
    return SINGLE_PRECISION if fits else np.dtype(np.float64)


def sizes_of(kernel: PointGram, points: Any) -> Vector:
    """Return |x| of points, of an l1 distance |x|_1, shape (n,)."""
    formula = kernel._formula_of_points
    if formula is not None and isinstance(formula.map, L1Exponential):
        return np.asarray(abs(points).sum(axis=1, dtype=np.float64)).ravel()
    return np.sqrt(norms_of(points))


def stacked(*parts: Any) -> Any:
    """Return the rows of all parts, one below the other."""
    if any(sp.issparse(part) for part in parts):
        return sp.vstack(parts, format="csr")
    return np.concatenate(parts)


def moved(X: Any, origin: Vector | None, dtype: Any) -> Any:
    """Return points less the origin in a precision; CSR points are not moved."""
    if origin is None or sp.issparse(X):
        return X.astype(dtype, copy=False)
    return moved_rows(X, origin).astype(dtype, copy=False)


class Limits(NamedTuple):
    """What bounds the kernel values of points and their errors; of several shards the largest."""

    diagonal: float  # largest |k(x, x)|
    error: float  # of a float64 value that stems from rounded distances
    size: float  # largest |x|, of an l1 distance the largest |x|_1


class PointsOfShard:
    """Points X of a shard under a kernel.

    Parameters
    ----------
    kernel : PointGram
        The kernel with its parameters, over any points.
    X : ndarray or csr_matrix, shape (n, d)
    """

    def __init__(self, kernel: PointGram, X: Any) -> None:
        self.kernel, self.X = kernel._over(X), X
        self.origin: Vector | None = None
        check_values(self.kernel, check_lengths(X))

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self.X.shape[0])

    def total(self) -> Vector:
        """Return the sum of the points."""
        return np.asarray(self.X.sum(axis=0, dtype=np.float64)).ravel()

    def move(self, origin: Vector | None) -> None:
        """Subtract this origin from the points in all that follows; CSR points are not moved."""
        self.origin = None if sp.issparse(self.X) else origin

    @cached_property
    def diagonal(self) -> Vector:
        """k(x, x) of the moved points, which differs from that of the points of a linear kernel."""
        if is_translatable(self.kernel):
            return np.ones(self.n)
        if isinstance(self.kernel, Linear) and self.origin is not None:
            return square_distances(self.X, self.origin)
        return np.array(self.kernel.diag())

    def limits(self) -> Limits:
        """Return the limits of its kernel values."""
        size = 0.0 if self.kernel._formula_of_points is None else float(np.max(self._sizes))
        return Limits(float(np.max(np.abs(self.diagonal))), self.error, size)

    @property
    def error(self) -> float:
        """Bound on the error of a float64 kernel value that stems from rounded distances."""
        gamma = getattr(self.kernel, "gamma", 0.0)
        if isinstance(self.kernel, RBF):
            return 8.0 * FLOAT64_EPS * gamma * self._largest_square
        if isinstance(self.kernel, Laplacian):
            return (
                FLOAT64_EPS * gamma * float(np.sqrt(self.X.shape[1] * self._largest_square)) * 2.0
            )
        return float(self.kernel.error)

    @cached_property
    def _largest_square(self) -> float:
        if self.origin is not None:
            return float(np.max(square_distances(self.X, self.origin)))
        panels = slices(self.n, PANEL_POINTS)
        squares = (squared_norms(self.X[at].astype(np.float64, copy=False)) for at in panels)
        return max(float(np.max(part)) for part in squares)

    @cached_property
    def _precision(self) -> np.dtype[Any]:
        return step_precision(self.kernel, float(np.max(np.abs(self.diagonal))))

    @cached_property
    def _evaluator(self) -> Evaluator:
        """The moved points as the sweep over tiles multiplies them."""
        formula = self.kernel._formula_of_points
        assert formula is not None
        Z = moved(self.X, self.origin, self._precision)
        Z = Z if sp.issparse(Z) else np.ascontiguousarray(Z)
        terms = formula.terms(Z, norms_of(Z)).astype(Z.dtype)
        return Evaluator(Z, terms, formula.factor, formula.map)

    @cached_property
    def _sizes(self) -> Vector:
        """|x| of the points as steps multiply them, of an l1 distance |x|_1, shape (n,)."""
        return sizes_of(self.kernel, self._evaluator.points)

    @property
    def _roundoff(self) -> float:
        """Unit roundoff of the kernel values of steps."""
        return 0.5 * float(np.finfo(self._precision).eps)

    def entry_error(self, largest_size: float) -> Vector | None:
        """Return a bound on the errors of steps' kernel values, shape (n,); None if unknown.

        It holds for the values of a point with all points whose size is at most `largest_size`.
        """
        formula = self.kernel._formula_of_points
        if formula is None:
            return None
        d, u = term_counts(self._evaluator.points), self._roundoff
        if isinstance(self.kernel, RBF):
            k = exponent_error(u, d)
            return (
                None if k is None else column_error(self.kernel.gamma * self._sizes**2, k, u, 0.0)
            )
        sizes = np.append(self._sizes, largest_size)
        d = np.append(d, np.max(d)) if np.ndim(d) else d
        error = formula_error(formula, sizes, d, u, sp.issparse(self.X))
        return None if error is None else error[:-1]

    @cached_property
    def relative_error(self) -> RelativeError | None:
        """Factors that bound the errors of steps' kernel values relative to them; None if unknown."""
        if not isinstance(self.kernel, RBF) or self._precision != SINGLE_PRECISION:
            return None
        k = exponent_error(self._roundoff, term_counts(self._evaluator.points))
        if k is None:
            return None
        return RelativeError(self._sizes**2, self.kernel.gamma, k, self._roundoff, 0.0)

    @property
    def sum_error(self) -> float:
        """Bound on the error of a sum of steps beyond that of the values, per unit of |k(x, x)|."""
        from qpsvm.gram.engine.tiles import SUM_ERROR

        return SUM_ERROR if self._precision == SINGLE_PRECISION else 0.0

    def sum_fast(self, points: Any, weights: Vector, changes: GradientError) -> Vector:
        """Return the weighted sum of k(points, X) in the precision of steps, and record the weights."""
        formula = self.kernel._formula_of_points
        if formula is None:
            return self.sum_exact(points, weights)
        from qpsvm.gram.engine.tiles import add_between

        out, few = np.zeros(self.n), moved(points, self.origin, self._precision)
        few = few if sp.issparse(few) else np.ascontiguousarray(few)
        terms = formula.terms(few, norms_of(few)).astype(few.dtype)
        sums, factors = [weights], None
        if self.relative_error is not None:
            k = exponent_error(self._roundoff, term_counts(few))
            factors = self.relative_error.of_others(sizes_of(self.kernel, few) ** 2, k)
            sums.append(np.abs(weights) * factors.columns(slice(None)))
        size = None if factors is None else changes.size
        add_between(few, terms, self._evaluator, sums, out, size)
        changes.record_moves(factors, slice(None), weights, cached=False)
        return out

    def sum_exact(self, points: Any, weights: Vector, rows: Indices | None = None) -> Vector:
        """Return the weighted sum of k(points, X) in float64, or its entries `rows`."""
        formula = self.kernel._formula_of_points
        out = np.zeros(self.n if rows is None else len(rows))
        few = moved(points, self.origin, np.float64)
        if formula is None:
            return self._sum_of_blocks(few, weights, rows)
        from qpsvm.gram.engine.exact_products import BLOCK_POINTS, kernel_expansion, prepared

        starts = range(0, few.shape[0], BLOCK_POINTS)
        blocks = [prepared(few[at : at + BLOCK_POINTS], formula) for at in starts]

        def panel(first: int) -> None:
            at = slice(first, min(first + PANEL_POINTS, len(out)))
            Z = moved(self.X[at if rows is None else rows[at]], self.origin, np.float64)
            out[at] = kernel_expansion(blocks.__getitem__, weights, formula, Z, BLOCK_POINTS)

        parallel_for(panel, list(range(0, len(out), PANEL_POINTS)), with_blas=False)
        return out

    def _sum_of_blocks(self, few: Any, weights: Vector, rows: Indices | None) -> Vector:
        """Return the same sum for a kernel without a formula, in blocks of values."""
        few = few.toarray() if sp.issparse(few) else few
        out = np.zeros(self.n if rows is None else len(rows))
        size = max(1, BLOCK_ENTRIES // max(1, few.shape[0]))
        for at in slices(len(out), size):
            Z = moved(self.X[at if rows is None else rows[at]], self.origin, np.float64)
            out[at] = weights @ self.kernel._values(few, Z)
        return out
