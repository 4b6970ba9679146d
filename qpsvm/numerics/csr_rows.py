"""Compiled passes over the rows of a factor, dense or CSR, in float32 or float64, with float64 sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.numerics.jit import njit, reassociating
from qpsvm.numerics.products import times
from qpsvm.numerics.row_products import read_only

Vector = NDArray[np.float64]


class Rows(NamedTuple):
    """Concatenated rows: row i is data[ends[i] : ends[i + 1]].

    `columns` holds the columns of the entries; it is empty for dense rows. Where all CSR entries are
    equal, as in binary data, `data` holds that value once. Integers are unsigned, so that compiled code
    does not test for negative indices. Steps unpack the tuple before their loop, since each access to a
    field counts references.
    """

    data: Any
    columns: Any
    ends: Any

    @property
    def entries(self) -> int:
        """Number of entries of all rows, at least 1: costs are relative to it."""
        return max(int(self.ends[-1]), 1)


def compressed(X: Any) -> sp.csr_matrix:
    """Return X as CSR in float64 with the shortest indices that fit."""
    X = sp.csr_matrix(X, dtype=np.float64)
    if max(X.nnz, *X.shape) < 2**31 and X.indices.dtype != np.int32:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = sp.csr_matrix(parts, shape=X.shape)
    return X


def rows_of(X: Any, order: Any = None) -> Rows:
    """Return the rows of a dense array or CSR matrix, those of CSR in the given `order`.

    Dense data are copied only where they are not in C order.
    """
    if not sp.issparse(X):
        ends = np.arange(X.shape[0] + 1, dtype=np.uint64) * np.uint64(X.shape[1])
        flat = np.ascontiguousarray(X).reshape(-1)
        return Rows(*map(read_only, (flat, np.empty(0, np.uint32), ends)))
    equal = bool(np.all(X.data[:1000] == X.data[:1])) and bool(np.all(X.data == X.data[:1]))
    # Random rows are read at the speed of the cache: smaller integers are faster.
    columns = np.empty(X.nnz, np.uint16 if X.shape[1] <= 1 << 16 else np.uint32)
    if order is None:
        columns[:], data, ends = X.indices, X.data, X.indptr.astype(np.uint64)
    else:
        data, ends = np.empty(0 if equal else X.nnz, X.dtype), np.empty(len(order) + 1, np.uint64)
        parts = read_only(X.data), read_only(X.indices), read_only(X.indptr)
        _rearrange(*parts, read_only(order), data, columns, ends)
    return Rows(*map(read_only, (X.data[:1] if equal else data, columns, ends)))


# CSR rows are short: vectorization would lose more at the ends of a row than it gains, and sums stay in
# order. `dot` and `add` are inlined: a call per row would count references, at the cost of the row.
in_order = njit(cache=True, nogil=True, error_model="numpy")
inlined_in_order = njit(inline="always")


@inlined_in_order
def dot(data, columns, start, stop, w):  # type: ignore[no-untyped-def]
    """Return x_i'w for the row between start and stop."""
    total = 0.0
    if len(columns) == 0:
        total = _dense_dot(data, start, stop, w)
    elif len(data) == 1:
        for p in range(start, stop):
            total += w[columns[p]]
        total *= data[0]
    else:
        stride, other, third, fourth = np.uint64(4), 0.0, 0.0, 0.0
        one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
        end = start + (stop - start) // stride * stride
        for p in range(start, end, stride):
            total += data[p] * w[columns[p]]
            other += data[p + one] * w[columns[p + one]]
            third += data[p + two] * w[columns[p + two]]
            fourth += data[p + three] * w[columns[p + three]]
        for p in range(end, stop):
            total += data[p] * w[columns[p]]
        total += other + third + fourth
    return total


@inlined_in_order
def add(data, columns, start, stop, t, w):  # type: ignore[no-untyped-def]
    """Add t x_i to w."""
    if len(columns) == 0:
        _dense_add(data, start, stop, t, w)
    elif len(data) == 1:
        step = t * data[0]
        for p in range(start, stop):
            w[columns[p]] += step
    else:
        for p in range(start, stop):
            w[columns[p]] += t * data[p]


@reassociating
def _dense_dot(data: Any, start: Any, stop: Any, w: Any) -> float:
    total = 0.0
    for k in range(stop - start):
        total += data[start + k] * w[k]
    return total


@reassociating
def _dense_add(data: Any, start: Any, stop: Any, t: float, w: Any) -> None:
    for k in range(stop - start):
        w[k] += t * data[start + k]


@in_order
def _rearrange(
    data: Any, indices: Any, indptr: Any, order: Any, new_data: Any, columns: Any, ends: Any
) -> None:
    """Write the rows in the order given; the data only where `new_data` is not empty."""
    at, one = np.uint64(0), np.uint64(1)
    for k in range(len(order)):
        i = np.uint64(order[k])
        ends[k] = at
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + one])
        shift = at - start
        for p in range(start, stop):
            columns[p + shift] = indices[p]
        if len(new_data) > 0:
            for p in range(start, stop):
                new_data[p + shift] = data[p]
        at += stop - start
    ends[len(order)] = at


@in_order
def combination(rows: Rows, sign: Any, weights: Any, w: Any) -> None:
    """Fill w = sum sign_i weights_i x_i."""
    data, columns, ends = rows
    w[:] = 0.0
    for i in range(len(weights)):
        if weights[i] != 0.0:
            add(data, columns, ends[i], ends[i + 1], sign[i] * weights[i], w)


def products(X: Any, rows: Rows, sign: Vector, w: Vector) -> Vector:
    """Return sign_i x_i'w for all rows; dense ones are read by BLAS where it is faster."""
    if len(rows.columns) == 0:
        return sign * times(X, w)
    out = np.empty(len(sign))
    _products(rows, sign, w, out)
    return out


@in_order
def _products(rows: Rows, sign: Any, w: Any, out: Any) -> None:
    data, columns, ends = rows
    for i in range(len(out)):
        out[i] = sign[i] * dot(data, columns, ends[i], ends[i + 1], w)


@reassociating
def gather(rows: Rows, selected: Any, scales: Any, out: Any) -> None:
    """Fill the dense rows scales_k x_i, i = selected[k]."""
    data, columns, ends = rows
    out[:] = 0.0
    for k in range(len(selected)):
        start, stop = ends[selected[k]], ends[selected[k] + 1]
        if len(columns) == 0:
            for j in range(stop - start):
                out[k, j] = scales[k] * data[start + j]
        else:
            for p in range(start, stop):
                out[k, columns[p]] = scales[k] * (data[p] if len(data) > 1 else data[0])


@reassociating
def add_outer_products(rows: Rows, selected: Any, weights: Any, M: Any) -> None:
    """Add weights_i x_i x_i' to the entries M[j, k], j <= k, for the CSR rows i in `selected`."""
    data, columns, ends = rows
    for i in selected:
        for p in range(ends[i], ends[i + 1]):
            j = columns[p]
            if len(data) == 1:
                v = weights[i] * data[0] * data[0]
                for q in range(p, ends[i + 1]):
                    M[j, columns[q]] += v
            else:
                v = weights[i] * data[p]
                for q in range(p, ends[i + 1]):
                    M[j, columns[q]] += v * data[q]


@in_order
def add_products(rows: Rows, selected: Any, weights: Any, v: Any, out: Any) -> None:
    """Add sum weights_k (x_i'v) x_i, i = selected[k]."""
    data, columns, ends = rows
    for k in range(len(selected)):
        start, stop = ends[selected[k]], ends[selected[k] + 1]
        add(data, columns, start, stop, weights[k] * dot(data, columns, start, stop, v), out)


@in_order
def moments(rows: Rows, selected: Any, weights: Any, first: Any, second: Any) -> None:
    """Add sum weights_k x_i and, entry by entry, sum weights_k x_i^2 of the CSR rows i = selected[k]."""
    data, columns, ends = rows
    for k in range(len(selected)):
        for p in range(ends[selected[k]], ends[selected[k] + 1]):
            x = data[p] if len(data) > 1 else data[0]
            first[columns[p]] += weights[k] * x
            second[columns[p]] += weights[k] * x * x
