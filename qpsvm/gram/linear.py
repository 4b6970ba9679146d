"""The linear kernel, and products with the points themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.points import FUSED, PointGram, Points, products, squared_norms

SHORT_ROW = 512
"""Features below which BLAS reads dense float64 rows more slowly than a compiled loop."""

FAR = 4.0
"""Squared distance of the mean from zero, in variances, from which points are moved to it."""


@dataclass(frozen=True, eq=False)
class Linear(PointGram):
    """Linear kernel k(x, z) = x'z.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    """

    by_factor = True
    by_products = True

    def diag(self) -> NDArray[np.float64]:
        """Return the squared norms, shape (m,), read-only; they are computed once."""
        return self._norms

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        X = self.X
        if isinstance(X, np.ndarray) and _compiled_pass(X):
            from qpsvm.gram.passes import row_squares

            norms = row_squares(X)
        elif sp.issparse(X) and X.nnz >= FUSED:
            from qpsvm.gram.passes import csr_row_squares

            norms = csr_row_squares(X)
        elif sp.issparse(X):
            squares = np.square(X.data, dtype=np.float64)
            norms = sp.csr_matrix((squares, X.indices, X.indptr), X.shape) @ np.ones(X.shape[1])
        else:
            norms = np.asarray(squared_norms(X.astype(np.float64, copy=False)))
        norms.flags.writeable = False
        return norms

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        return products(A, B)

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return X (X'x): a pass over the points of the support and a pass over all points."""
        X = self.X if rows is None else self.X[rows]
        return times(X, transposed_times(self.X, x))

    def factor(self) -> Points:
        """Return X itself."""
        return self.X

    @cached_property
    def origin(self) -> NDArray[np.float64] | None:
        """About the mean of dense points, where to move them there is worth a copy, or None.

        Few points are always moved. Many are moved when they lie far: when the squared norm of
        their mean is above `FAR` times their variance. Nearer to zero a copy gains a few bits only.
        Any origin is as good as another, so a thousand points say enough.
        """
        if sp.issparse(self.X):
            return None
        some = self.X[:: max(1, self.m // 1000)].astype(np.float64)
        first = some[0].copy()
        some -= first
        mean = some.mean(axis=0)
        variance = float(np.mean(squared_norms(some - mean)))
        mean += first
        far = float(mean @ mean) > FAR * variance
        return mean if far or self.X.size < FUSED else None

    def centered(self) -> Linear:
        """Return the Gram of X minus `origin`, in float64: the differences are exact there."""
        return self if self.origin is None else Linear(self.X - self.origin)


def _compiled_pass(X: NDArray[np.floating]) -> bool:
    """Return whether a pass over X is faster by a compiled loop than by BLAS."""
    short = X.dtype == np.float32 or X.shape[1] < SHORT_ROW
    return short and X.size >= FUSED and X.flags.c_contiguous


def times(X: Points, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X v with float64 sums whatever the precision of X."""
    if isinstance(X, np.ndarray) and _compiled_pass(X):
        from qpsvm.gram.passes import row_products

        return row_products(X, v)
    if X.dtype == np.float64:
        return np.asarray(X @ v)
    size = max(1, (1 << 22) // X.shape[1])
    parts = [X[i : i + size].astype(np.float64) @ v for i in range(0, X.shape[0], size)]
    return np.concatenate(parts) if parts else np.zeros(0)


def transposed_times(X: Points, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X'v with float64 sums whatever the precision of X; rows of weight 0 are not read."""
    if sp.issparse(X) and X.nnz >= FUSED:
        from qpsvm.gram.passes import csr_combination

        return csr_combination(X, v)
    some = np.flatnonzero(v != 0)  # several times faster than of the floats themselves
    if 4 * len(some) < len(v):
        X, v = X[some], v[some]
    if X.dtype == np.float64:
        return np.asarray(X.T @ v)
    size = max(1, (1 << 22) // X.shape[1])
    total = np.zeros(X.shape[1])
    for i in range(0, X.shape[0], size):
        total += X[i : i + size].astype(np.float64).T @ v[i : i + size]
    return total
