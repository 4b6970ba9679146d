"""The points of a shard, and sums of kernel values at them: in float32 for steps, in float64 for proofs.

A kernel that does not change when all points are moved is evaluated about an origin that all shards
share: fewer digits are lost far from zero.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.gram import RBF, Laplacian, Linear
from qpsvm.gram.base import BLOCK_ENTRIES, slices
from qpsvm.gram.engine.formula import Evaluator
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.kernels.limits import LARGEST_VALUE, check_lengths, check_values
from qpsvm.gram.translation import moved_rows, square_distances
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.products import squared_norms

Vector = NDArray[np.float64]

PANEL_POINTS = 2048
"""Number of points whose exact sums are computed at a time."""

SCALES_OF_FLOAT32 = (1e-12, 1e12)
"""Range of gamma in which steps evaluate kernel values in float32."""

SINGLE_PRECISION = np.dtype(np.float32)
"""Precision of the kernel values of steps, where it is sufficient."""


def is_translatable(kernel: PointGram) -> bool:
    """Return whether moving all points leaves the kernel as it is."""
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
        """Evaluate about this origin from now on."""
        self.origin = None if sp.issparse(self.X) else origin

    @cached_property
    def diagonal(self) -> Vector:
        """k(x, x) of the moved points, which differs from that of the points of a linear kernel."""
        if is_translatable(self.kernel):
            return np.ones(self.n)
        if isinstance(self.kernel, Linear) and self.origin is not None:
            return square_distances(self.X, self.origin)
        return np.array(self.kernel.diag())

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
        panels = slices(self.n, PANEL_POINTS)
        squares = (squared_norms(moved(self.X[at], self.origin, np.float64)) for at in panels)
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
        return Evaluator(Z, formula.terms(Z).astype(Z.dtype), formula.factor, formula.map)

    def sum_fast(self, points: Any, weights: Vector) -> Vector:
        """Return the weighted sum of k(points, X), in the precision of steps."""
        formula = self.kernel._formula_of_points
        if formula is None:
            return self.sum_exact(points, weights)
        from qpsvm.gram.engine.tiles import add_between

        out, few = np.zeros(self.n), moved(points, self.origin, self._precision)
        few = few if sp.issparse(few) else np.ascontiguousarray(few)
        terms = formula.terms(few).astype(few.dtype)
        add_between(few, terms, self._evaluator, [weights], out)
        return out

    def sum_exact(self, points: Any, weights: Vector) -> Vector:
        """Return the weighted sum of k(points, X) in float64."""
        formula, out = self.kernel._formula_of_points, np.zeros(self.n)
        few = moved(points, self.origin, np.float64)
        if formula is None:
            return self._sum_of_blocks(few, weights)
        from qpsvm.gram.engine.exact_products import BLOCK_POINTS, kernel_expansion, prepared

        starts = range(0, few.shape[0], BLOCK_POINTS)
        blocks = [prepared(few[at : at + BLOCK_POINTS], formula) for at in starts]

        def panel(first: int) -> None:
            Z = moved(self.X[first : first + PANEL_POINTS], self.origin, np.float64)
            at = slice(first, first + Z.shape[0])
            out[at] = kernel_expansion(blocks.__getitem__, weights, formula, Z, BLOCK_POINTS)

        parallel_for(panel, list(range(0, self.n, PANEL_POINTS)), with_blas=False)
        return out

    def _sum_of_blocks(self, few: Any, weights: Vector) -> Vector:
        """Do the same for a kernel without a formula, in blocks of values."""
        few, out = few.toarray() if sp.issparse(few) else few, np.zeros(self.n)
        size = max(1, BLOCK_ENTRIES // max(1, few.shape[0]))
        for at in slices(self.n, size):
            Z = moved(self.X[at], self.origin, np.float64)
            out[at] = weights @ self.kernel._values(few, Z)
        return out
