"""One pass over dense points of any precision, summed in float64, without a copy.

BLAS reaches the memory bandwidth for long float64 rows; these loops reach it for short rows and for
float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import compiled, inlined, reassociating
from qpsvm.numerics.parallel import parallel_for

ROWS_OF_SUM = 4
"""Number of rows that `_combination` adds in float64 before it adds their sum in twice the precision."""

MIN_ENTRIES_FOR_HALVES = 1 << 22
"""Number of entries from which two threads read half of the rows each."""


def in_halves(n_rows: int, n_entries: int, task: Callable[[slice], None]) -> None:
    """Call ``task(rows)`` for all rows, or for each half where there are many entries."""
    if n_entries < MIN_ENTRIES_FOR_HALVES:
        task(slice(0, n_rows))
        return
    middle = n_rows // 2
    parallel_for(task, [slice(0, middle), slice(middle, n_rows)], with_blas=False)


# Sums are reassociated at compile time: results are reproducible on one machine.
def row_products(X: NDArray[np.floating], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X v for C-ordered X of shape (m, d)."""
    out, v = np.empty(len(X)), read_only(np.ascontiguousarray(v, np.float64))
    in_halves(len(X), X.size, lambda at: _products(read_only(X[at]), v, out[at]))
    return out


def row_squares(X: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the squared norms of the rows of C-ordered X."""
    return row_square_distances(X, np.zeros(X.shape[1]))


def row_square_distances(
    X: NDArray[np.floating], center: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the squared distances of the rows of C-ordered X from a point, without cancellation."""
    out, center = np.empty(len(X)), read_only(center)
    in_halves(len(X), X.size, lambda at: _square_distances(read_only(X[at]), center, out[at]))
    return out


def csr_row_squares(X: Any) -> NDArray[np.float64]:
    """Return the squared norms of the rows of a CSR matrix."""
    out = np.empty(X.shape[0])
    _csr_squares(read_only(X.data), read_only(X.indptr), out)
    return out


def csr_combination(X: Any, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X'v for a CSR matrix; rows of weight 0 are not read."""
    out = np.zeros(X.shape[1])
    arrays = read_only(X.data), read_only(X.indices), read_only(X.indptr)
    _csr_combination(*arrays, read_only(v), out)
    return out


def compensated_csr_combination(X: Any, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X'v for a CSR matrix as if summed in twice the precision, in twice the time."""
    sums = np.zeros((X.shape[1], 2))  # each beside its rounding errors, in the same cache line
    arrays = read_only(X.data), read_only(X.indices), read_only(X.indptr)
    _compensated_csr_combination(*arrays, read_only(v), sums)
    return sums[:, 0] + sums[:, 1]


def row_products_at(
    X: NDArray[np.floating], rows: NDArray[np.int64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return X[rows] v for C-ordered X without gathering the rows."""
    out = np.empty(len(rows))
    _products_at(read_only(X), read_only(rows), read_only(v), out)
    return out


def row_combination(
    X: NDArray[np.floating], rows: NDArray[np.int64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return X[rows]'v for C-ordered X without gathering the rows.

    An entry has the roundings of a sum of `ROWS_OF_SUM` terms: the sums of that many rows are added as if
    in twice the precision.
    """
    X, rows, v = all_read_only(X, rows, v)
    parts: list[NDArray[np.float64]] = []  # sums and what was rounded off, of each half

    def add_half(at: slice) -> None:
        sums = np.zeros((2, X.shape[1]))
        parts.append(sums)
        _combination(X, rows[at], v[at], *sums)

    in_halves(len(rows), len(rows) * X.shape[1], add_half)
    if len(parts) == 1:
        return parts[0][0] + parts[0][1]
    (a, lost_a), (b, lost_b) = parts  # the sum of two numbers does not depend on their order
    total = a + b
    return total + (lost_a + lost_b + rounded_off(a, b, total))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that one signature serves writeable and read-only arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


def all_read_only(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """Return read-only views of several arrays."""
    return [read_only(array) for array in arrays]


@reassociating
def _products(X: Any, v: Any, out: Any) -> None:
    for i in range(X.shape[0]):
        row = X[i]
        total = 0.0
        for k in range(row.shape[0]):
            total += row[k] * v[k]
        out[i] = total


@reassociating
def _square_distances(X: Any, center: Any, out: Any) -> None:
    for i in range(X.shape[0]):
        row = X[i]
        total = 0.0
        for k in range(row.shape[0]):
            difference = float(row[k]) - center[k]
            total += difference * difference
        out[i] = total


@reassociating
def _csr_squares(data: Any, indptr: Any, out: Any) -> None:
    for i in range(len(out)):
        total = 0.0
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += float(data[p]) * float(data[p])
        out[i] = total


def rounded_off(a: Any, b: Any, total: Any) -> Any:
    """Return a + b - total for the rounded sum `total`, which is exact (Knuth)."""
    other = total - a
    return (a - (total - other)) + (b - other)


_rounded_off = inlined(rounded_off)


@reassociating
def _csr_combination(data: Any, indices: Any, indptr: Any, v: Any, out: Any) -> None:
    for i in range(len(v)):
        t = v[i]
        if t != 0.0:
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                out[np.uint32(indices[p])] += t * data[p]


@compiled
def _compensated_csr_combination(data: Any, indices: Any, indptr: Any, v: Any, sums: Any) -> None:
    for i in range(len(v)):
        t = v[i]
        if t != 0.0:
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                k = np.uint32(indices[p])
                term = t * data[p]
                total = sums[k, 0] + term
                sums[k, 1] += _rounded_off(sums[k, 0], term, total)
                sums[k, 0] = total


@reassociating
def _products_at(X: Any, rows: Any, v: Any, out: Any) -> None:
    for i in range(rows.shape[0]):
        row = X[rows[i]]
        total = 0.0
        for k in range(row.shape[0]):
            total += row[k] * v[k]
        out[i] = total


@inlined
def _add_compensated(term: Any, k: int, out: Any, lost: Any) -> None:
    """Add a term to out[k], and what is rounded off to lost[k]."""
    total = out[k] + term
    lost[k] += _rounded_off(out[k], term, total)
    out[k] = total


@compiled
def _combination(X: Any, rows: Any, v: Any, out: Any, lost: Any) -> None:
    n, d = rows.shape[0], X.shape[1]
    grouped = n - n % ROWS_OF_SUM
    for i in range(0, grouped, ROWS_OF_SUM):
        p, q, r, s = X[rows[i]], X[rows[i + 1]], X[rows[i + 2]], X[rows[i + 3]]
        a, b, c, e = v[i], v[i + 1], v[i + 2], v[i + 3]
        for k in range(d):
            _add_compensated(a * p[k] + b * q[k] + c * r[k] + e * s[k], k, out, lost)
    for i in range(grouped, n):
        row, a = X[rows[i]], v[i]
        for k in range(d):
            _add_compensated(a * row[k], k, out, lost)
