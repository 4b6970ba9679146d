"""Products of a factor, dense or CSR, with a vector: sums are in float64 for every precision."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.numerics.parallel import parallel_for

MAX_FEATURES_OF_SHORT_ROW = 512
"""Number of features below which a compiled loop reads dense float64 rows faster than BLAS."""

MIN_ENTRIES_FOR_COMPILED_PASS = 1 << 17
"""Minimum number of entries for a compiled pass; below it numpy is used, which needs no compilation."""

TERMS_OF_GROUP = 32
"""Rows that are summed at a time, whose sums are summed likewise."""

SUMS_PER_ENTRY = 4
"""Number of sums of a few rows of a CSR matrix, per stored entry."""

ENTRIES_OF_PART = 1 << 20
"""Entries of rows that a thread sums at a time: 8 MB."""

TERMS_OF_NUMPY_BLOCK = 144
"""Number of terms up to which a sum is not halved in `weighted_sum_depth`: 128 in numpy, rounded up."""


def is_compiled_pass(X: NDArray[np.floating]) -> bool:
    """Return whether a pass over X is faster by a compiled loop than by BLAS."""
    short = X.dtype == np.float32 or X.shape[1] < MAX_FEATURES_OF_SHORT_ROW
    return short and X.size >= MIN_ENTRIES_FOR_COMPILED_PASS and X.flags.c_contiguous


def _is_compiled_csr_pass(X: Any) -> bool:
    """Return whether X is CSR and has the entries for which a pass is compiled."""
    return sp.issparse(X) and X.nnz >= MIN_ENTRIES_FOR_COMPILED_PASS


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


def transposed_times(
    X: Any, v: NDArray[np.float64], *, compensated: bool = False
) -> NDArray[np.float64]:
    """Return X'v, summed in float64 for every precision of X; rows of weight 0 are not read.

    An entry of dense X has few roundings. One of CSR X has as many as there are terms, unless what is
    rounded off is compensated, which certificates need.
    """
    if _is_compiled_csr_pass(X):
        from qpsvm.numerics.row_products import compensated_csr_combination, csr_combination

        return compensated_csr_combination(X, v) if compensated else csr_combination(X, v)
    nonzero = np.flatnonzero(v != 0)  # several times faster than flatnonzero(v)
    if 4 * len(nonzero) < len(v):
        X, v = X[nonzero], v[nonzero]
    if not sp.issparse(X):
        return _sum_of_rows(X, v)
    return _grouped_csr_combination(X, v) if compensated else np.asarray(X.T @ v)


def _grouped_csr_combination(X: Any, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X'v for few entries of a CSR matrix, by sums of a few rows as `_sum_of_rows`.

    Where most columns have few entries, there are fewer sums of more rows.
    """
    n, d = X.shape
    k = max(1, min(-(-n // TERMS_OF_GROUP), SUMS_PER_ENTRY * X.nnz // max(1, d)))
    size = max(1, -(-n // k))
    row = np.repeat(np.arange(n), np.diff(X.indptr))
    terms = X.data.astype(np.float64, copy=False) * v[row]
    at = row // size * d + X.indices
    sums = np.bincount(at, terms, k * d).astype(np.float64, copy=False).reshape(k, d)
    return sums[0] if k == 1 else _sum_of_rows(sums, np.ones(k))


def _sum_of_rows(X: NDArray[np.floating], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return v'X for dense X, by sums of a few rows, which are summed likewise.

    An entry of n terms has thus some log n roundings, where one sum has n of them.
    """
    n, d = X.shape
    if n <= TERMS_OF_GROUP:
        return np.asarray(v @ X.astype(np.float64, copy=False))
    size = max(1, ENTRIES_OF_PART // max(1, d * TERMS_OF_GROUP))  # groups at a time
    k = n // TERMS_OF_GROUP
    sums = np.empty((k, 1, d))

    def part(first: int) -> None:
        groups = slice(first, min(first + size, k))
        rows = slice(groups.start * TERMS_OF_GROUP, groups.stop * TERMS_OF_GROUP)
        few = X[rows].astype(np.float64, copy=False)
        few = few.reshape(groups.stop - groups.start, TERMS_OF_GROUP, d)
        np.matmul(v[rows].reshape(-1, 1, TERMS_OF_GROUP), few, out=sums[groups])

    if k <= size:
        part(0)
    else:
        parallel_for(part, list(range(0, k, size)))
    rest = v[k * TERMS_OF_GROUP :] @ X[k * TERMS_OF_GROUP :].astype(np.float64, copy=False)
    return _sum_of_rows(sums[:, 0], np.ones(k)) + rest


def weighted_sum(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return a'b, whose rounding error is at most `weighted_sum_depth` u sum |a_i b_i|, u = 2^-53.

    BLAS may add the terms in any order, so that its error is n u for n terms; numpy adds them in pairs.
    """
    return float(np.add.reduce(a * b))  # np.sum takes several times as long on few terms


@cache
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
        return squared_norms_in_float64(A).astype(A.dtype)  # which may be written
    return np.einsum("ij,ij->i", A, A)


def squared_norms_in_float64(X: Any) -> NDArray[np.float64]:
    """Return the squared norms of the rows of a dense or CSR X, summed in float64, read-only."""
    if isinstance(X, np.ndarray) and is_compiled_pass(X):
        from qpsvm.numerics.row_products import row_squares

        squares = row_squares(X)
    elif _is_compiled_csr_pass(X):
        from qpsvm.numerics.row_products import csr_row_squares

        squares = csr_row_squares(X)
    elif sp.issparse(X):
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        terms = np.square(X.data, dtype=np.float64)
        squares = np.bincount(row, terms, X.shape[0]).astype(np.float64, copy=False)
    else:
        squares = np.asarray(squared_norms(X.astype(np.float64, copy=False)))
    squares.flags.writeable = False
    return squares
