"""Rows of a kernel matrix as the steps of `inner_smo` read them.

A plain array has all of its rows; cached columns have them in the order of their slots (`CachedRows`).

Steps on a pair of classes read few of the rows: those of support vectors, and about as many others. Such
rows are written when they are first read: from stored blocks (`StoredRows`), or, those of a working set,
from the rows of all points (`GatheredRows`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from qpsvm.numerics.jit import VECTORIZED_FLAGS, vectorized


class CachedRows(NamedTuple):
    """All columns of a symmetric matrix, in a `ColumnStore`."""

    rows: NDArray[np.floating]  # (n_slots, at least n)
    slot: NDArray[np.int64]  # (n,), the row of each coordinate; several may share one


class StoredRows(NamedTuple):
    """Rows of the matrix [[first, between], [between', second]]."""

    rows: NDArray[np.float32]  # (n_slots, at least n), zero beyond n columns
    slot: NDArray[np.int64]  # (n,), where a row was written, or -1
    counts: NDArray[np.int64]  # (2,): rows written, and how often all were forgotten
    first: NDArray[np.floating]  # (n1, n1), C-ordered
    second: NDArray[np.floating]  # (n2, n2), C-ordered
    between: NDArray[np.floating]  # (n1, n2), C-ordered


class GatheredRows(NamedTuple):
    """Rows of a part of a stored matrix."""

    rows: NDArray[np.float32]  # (n_slots, n), two slots at least
    slot: NDArray[np.int64]  # as above
    counts: NDArray[np.int64]
    source: Any  # of all points: an array of shape (m, at least m), or `StoredRows`
    chosen: NDArray[np.int64]  # (n,), ascending, rows and columns of the part


def row_of(source: Any, k: int) -> Any:
    """Return the row k, which has been written and not been forgotten."""
    return source[k] if isinstance(source, np.ndarray) else source.rows[source.slot[k]]


def widened(source: Any, n: int, width: int) -> Any:
    """Return an array or `CachedRows` with the first n entries of each row, and zeros up to a width."""
    if isinstance(source, CachedRows):
        return source._replace(rows=widened(source.rows, n, width))
    wide = np.zeros((len(source), width), source.dtype)
    wide[:, :n] = source[:, :n]
    wide.flags.writeable = False
    return wide


def write_row(source: Any, k: int) -> None:
    """Write the row k, unless it is there already; where memory is short others are forgotten."""
    _WRITER_BY_SOURCE[type(source)](source, k)


def _nothing(source: Any, k: int) -> None:
    pass


def _copy_row(source: Any, k: int) -> None:
    if source.slot[k] < 0:
        _free_slots(source.slot, source.counts, len(source.rows))
        at = source.counts[0]
        _write_stored(source.first, source.second, source.between, k, source.rows[at])
        source.slot[k], source.counts[0] = at, at + 1


@vectorized
def _free_slots(slot: Any, counts: Any, n_slots: int) -> None:
    """Forget all rows where memory is full."""
    if counts[0] == n_slots:
        slot[:] = -1
        counts[0] = 0
        counts[1] += 1


@vectorized
def _write_stored(first: Any, second: Any, between: Any, k: int, row: Any) -> None:
    n, n_second = between.shape
    if k < n:
        for j in range(n):
            row[j] = first[k, j]
        for j in range(n_second):
            row[n + j] = between[k, j]
    else:
        for j in range(n):
            row[j] = between[j, k - n]
        for j in range(n_second):
            row[n + j] = second[k - n, j]


def _gather_row(source: Any, k: int) -> None:
    if source.slot[k] < 0:
        _free_slots(source.slot, source.counts, len(source.rows))
        at = source.counts[0]
        write_row(source.source, source.chosen[k])
        _gather(row_of(source.source, source.chosen[k]), source.chosen, source.rows[at])
        source.slot[k], source.counts[0] = at, at + 1


@vectorized
def _gather(row: Any, chosen: Any, to: Any) -> None:
    for j in range(len(chosen)):
        to[j] = row[chosen[j]]


_WRITER_BY_SOURCE: dict[type, Any] = {
    np.ndarray: _nothing,
    CachedRows: _nothing,
    StoredRows: _copy_row,
    GatheredRows: _gather_row,
}


@overload(row_of, jit_options=VECTORIZED_FLAGS, strict=False)
def _row_of_type(source, k):  # type: ignore[no-untyped-def]
    if isinstance(source, types.Array):
        return lambda source, k: source[k]
    return lambda source, k: source.rows[source.slot[k]]


@overload(write_row, jit_options=VECTORIZED_FLAGS, strict=False)
def _write_row_of_type(source, k):  # type: ignore[no-untyped-def]
    is_array = isinstance(source, types.Array)
    return _nothing if is_array else _WRITER_BY_SOURCE[source.instance_class]
