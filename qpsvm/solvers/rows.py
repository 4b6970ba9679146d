"""Compiled passes over the rows of a factor, dense or CSR, in float32 or float64, with float64 sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Sums may be reordered: the same machine code still gives the same bits.
summing = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"}
)


class Rows(NamedTuple):
    """Rows strung together: row i is data[ends[i] : ends[i + 1]].

    `columns` holds the columns of the entries; it is empty for dense rows. Integers are unsigned, so
    that compiled code need not ask for their sign. Steps unpack the tuple before their loop, since
    each look into it counts references.
    """

    data: Any
    columns: Any
    ends: Any


def rows_of(X: Any) -> Rows:
    """Return the rows of a dense array or CSR matrix, without a copy where the order allows it."""
    if sp.issparse(X):
        narrow = X.indices.astype(np.int32, copy=False).view(np.uint32)
        return Rows(*map(_read_only, (X.data, narrow, X.indptr.astype(np.uint64))))
    ends = np.arange(X.shape[0] + 1, dtype=np.uint64) * np.uint64(X.shape[1])
    flat = np.ascontiguousarray(X).reshape(-1)
    return Rows(*map(_read_only, (flat, np.empty(0, np.uint32), ends)))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """One signature serves writeable and read-only arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


@summing
def dot(data: Any, columns: Any, start: Any, stop: Any, w: Any) -> float:
    """Return x_i'w for the row between start and stop."""
    total = 0.0
    if len(columns) == 0:
        for k in range(stop - start):
            total += data[start + k] * w[k]
    else:
        for p in range(start, stop):
            total += data[p] * w[columns[p]]
    return total


@summing
def add(data: Any, columns: Any, start: Any, stop: Any, t: float, w: Any) -> None:
    """Add t x_i to w."""
    if len(columns) == 0:
        for k in range(stop - start):
            w[k] += t * data[start + k]
    else:
        for p in range(start, stop):
            w[columns[p]] += t * data[p]


@summing
def combination(rows: Rows, sign: Any, weights: Any, w: Any) -> None:
    """Fill w = sum sign_i weights_i x_i."""
    data, columns, ends = rows
    w[:] = 0.0
    for i in range(len(weights)):
        if weights[i] != 0.0:
            add(data, columns, ends[i], ends[i + 1], sign[i] * weights[i], w)


@summing
def gather(rows: Rows, some: Any, scales: Any, out: Any) -> None:
    """Fill the dense rows scales_k x_i, i = some[k]."""
    data, columns, ends = rows
    out[:] = 0.0
    for k in range(len(some)):
        start, stop = ends[some[k]], ends[some[k] + 1]
        if len(columns) == 0:
            for j in range(stop - start):
                out[k, j] = scales[k] * data[start + j]
        else:
            for p in range(start, stop):
                out[k, columns[p]] = scales[k] * data[p]


@summing
def add_outer_products(rows: Rows, some: Any, weights: Any, M: Any) -> None:
    """Add weights_i x_i x_i' to the entries M[j, k], j <= k, for the CSR rows i in `some`."""
    data, columns, ends = rows
    for i in some:
        for p in range(ends[i], ends[i + 1]):
            v = weights[i] * data[p]
            j = columns[p]
            for q in range(p, ends[i + 1]):
                M[j, columns[q]] += v * data[q]
