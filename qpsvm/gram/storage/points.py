"""Products, means and variances of points, dense, CSR or packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.base import slices
from qpsvm.gram.storage.base import StoredPoints
from qpsvm.gram.storage.chunked import ChunkedPoints
from qpsvm.gram.storage.csr import is_sparse
from qpsvm.gram.storage.integer import PackedBits

MIN_COORDINATES_FOR_WIDE_SUMS, WIDE_SUM_COORDINATES = 1 << 17, 512
"""Number of coordinates from which rows are joined before they are summed, and the length of a row."""

CHUNK_COORDINATES = 1 << 14
"""Number of coordinates converted at a time, in cache."""

MAX_COORDINATES_MADE_DENSE = 1 << 20
"""Number of coordinates up to which CSR points become dense for a product: 8 MB."""

Points = Any  # ndarray of shape (m, d), csr_matrix of that shape, or StoredPoints

POINT_STORAGES: tuple[type[StoredPoints], ...] = (PackedBits,)
"""Storages that kernels of inner products try, in this order."""

MAX_SPARSE_OFFSET = 2.0**20
"""Squared norm of the mean, in units of the variance, up to which CSR points are not centered."""


def stored(X: Points) -> StoredPoints | None:
    """Return dense or CSR points in the first storage that pays for them, or None."""
    return next((found for kind in POINT_STORAGES if (found := kind.of(X)) is not None), None)


def largest_entry(values: NDArray[np.floating]) -> float:
    """Return the largest absolute value, NaN where there is one, 0 of an empty array."""
    return max(float(np.max(values)), -float(np.min(values))) if values.size else 0.0


def products(A: Points, B: Points, out: NDArray[np.floating] | None = None) -> NDArray[np.floating]:
    """Return A B', in `out` if it is given; A is stored as B is where that has a storage of its own.

    CSR points are multiplied by scipy: the sweep over tiles is for many of them. Those of which many
    coordinates are stored are multiplied as dense ones.
    """
    if isinstance(B, StoredPoints):
        return B.products(A, out)
    if sp.issparse(A) and sp.issparse(B) and B.nnz and not is_sparse(B):
        if max(A.shape[0], B.shape[0]) * B.shape[1] <= MAX_COORDINATES_MADE_DENSE:
            A, B = A.toarray(), B.toarray()
    if not sp.issparse(B) and not sp.issparse(A):
        return np.matmul(A, B.T, out=out)
    K = A @ B.T if sp.issparse(A) else (B @ A.T).T
    K = K.toarray() if sp.issparse(K) else K
    if out is None:
        return np.ascontiguousarray(K)
    out[:] = K
    return out


def mean_point(X: Points) -> NDArray[np.float64]:
    """Return the mean of the points, shape (d,)."""
    if sp.issparse(X) or not X.flags.c_contiguous or X.size < MIN_COORDINATES_FOR_WIDE_SUMS:
        return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    m, d = X.shape  # join rows: otherwise numpy's inner loops have d numbers
    side = min(m, 1 + WIDE_SUM_COORDINATES // d)
    total = np.sum(X[: m - m % side].reshape(-1, side * d), axis=0, dtype=np.float64)
    total = np.sum(total.reshape(side, d), axis=0)
    return (total + np.sum(X[m - m % side :], axis=0, dtype=np.float64)) / m


def moved(X: NDArray[Any], by: NDArray[Any], dtype: Any, order: Any) -> NDArray[np.floating]:
    """Return dense points minus the point `by`, subtracted in float64."""
    out = np.empty(X.shape, dtype, order=order)
    size = max(1, CHUNK_COORDINATES // X.shape[1])
    repeated = np.tile(by, (size, 1))  # otherwise numpy's inner loops have d numbers
    for at in slices(len(X), size):
        chunk = X[at]
        np.subtract(
            chunk, repeated[: len(chunk)], out=out[at], dtype=np.float64, casting="same_kind"
        )
    return out


def is_far_and_full(X: Points) -> bool:
    """Return whether CSR points are far from the origin and most of their coordinates are stored.

    Their distances lose digits unless they are centered, for which they must be dense: that takes no more
    memory than CSR.
    """
    if not sp.issparse(X) or 3 * X.nnz < 2 * X.shape[0] * X.shape[1]:
        return False
    mean = mean_point(X)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(mean @ mean > MAX_SPARSE_OFFSET * variance_sum(X))


def variance_sum(X: Points) -> float:
    """Return the trace of the covariance (with 1/m): half the mean squared distance."""
    if isinstance(X, ChunkedPoints):
        return float(np.sum(X.moments[1]))
    mean = mean_point(X)
    if sp.issparse(X):
        return float(X.multiply(X).sum(dtype=np.float64) / X.shape[0] - mean @ mean)
    return float(np.sum(np.var(X, axis=0, dtype=np.float64)))
