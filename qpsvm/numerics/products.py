"""Products of a factor, dense or CSR, with a vector: sums are in float64 for every precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

MAX_FEATURES_OF_SHORT_ROW = 512
"""Number of features below which a compiled loop reads dense float64 rows faster than BLAS."""

MIN_ENTRIES_FOR_COMPILED_PASS = 1 << 17
"""Minimum number of entries for a compiled pass; below it numpy is used, which needs no compilation."""

TERMS_OF_NUMPY_BLOCK = 144
"""Number of terms up to which a sum is not halved in `weighted_sum_depth`: 128 in numpy, rounded up."""


def is_compiled_pass(X: NDArray[np.floating]) -> bool:
    """Return whether a pass over X is faster by a compiled loop than by BLAS."""
    short = X.dtype == np.float32 or X.shape[1] < MAX_FEATURES_OF_SHORT_ROW
    return short and X.size >= MIN_ENTRIES_FOR_COMPILED_PASS and X.flags.c_contiguous


def times(X: Any, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X v, summed in float64 for every precision of X."""
    if isinstance(X, np.ndarray) and is_compiled_pass(X):
        from qpsvm.numerics.row_products import row_products

        return row_products(X, v)
    if X.dtype == np.float64:
        return np.asarray(X @ v)
    size = max(1, (1 << 22) // X.shape[1])
    blocks = [X[i : i + size].astype(np.float64) @ v for i in range(0, X.shape[0], size)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


def transposed_times(X: Any, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X'v, summed in float64 for every precision of X; rows of weight 0 are not read."""
    if sp.issparse(X) and X.nnz >= MIN_ENTRIES_FOR_COMPILED_PASS:
        from qpsvm.numerics.row_products import csr_combination

        return csr_combination(X, v)
    nonzero = np.flatnonzero(v != 0)  # several times faster than flatnonzero(v)
    if 4 * len(nonzero) < len(v):
        X, v = X[nonzero], v[nonzero]
    if X.dtype == np.float64:
        return np.asarray(X.T @ v)
    size = max(1, (1 << 22) // X.shape[1])
    total = np.zeros(X.shape[1])
    for i in range(0, X.shape[0], size):
        total += X[i : i + size].astype(np.float64).T @ v[i : i + size]
    return total


def weighted_sum(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return a'b, whose rounding error is at most `weighted_sum_depth` u sum |a_i b_i|, u = 2^-53.

    BLAS may add the terms in any order, so that its error is n u for n terms; numpy adds them in pairs.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return float(np.sum(a * b))


def weighted_sum_depth(n: int) -> int:
    """Return the maximum number of roundings of one of the n terms of a `weighted_sum`.

    numpy halves an array, at a multiple of 8, until at most 128 terms are left, and adds these to eight
    numbers, which it adds in pairs; up to 7 terms are left and added one by one. One rounding more is
    that of the product, and one is the start of the sum.
    """
    n_halvings = 0
    while n > TERMS_OF_NUMPY_BLOCK:
        n, n_halvings = n - n // 2 + 8, n_halvings + 1
    return 2 + n_halvings + (n if n < 8 else n // 8 + 2 + 7)


def squared_norms(A: Any) -> NDArray[Any]:
    """Return the squared norms of the rows: dense, CSR, or packed ones, which store them."""
    if hasattr(A, "squared_norms"):
        return np.asarray(A.squared_norms())
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)
