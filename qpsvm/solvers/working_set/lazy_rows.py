"""Rows of a kernel matrix that are written when steps first read them.

Steps on a pair of classes read few of the rows: those of support vectors, and about as many others. The
rows come from stored blocks (`StoredRows`), or are computed in groups (`ComputedRows`): that of the
coordinate that is needed, and those of the coordinates that violate most, which are likely to follow.
Rows of a working set are gathered from those of all points (`GatheredRows`). A plain array has all of its
rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from qpsvm.gram.engine.groups import Sweep, gather_points
from qpsvm.gram.engine.tiles import sweep_tiles
from qpsvm.numerics.jit import VECTORIZED_FLAGS, vectorized
from qpsvm.numerics.vector_shape import GROUP_ROWS


class StoredRows(NamedTuple):
    """Rows of the matrix [[first, between], [between', second]]."""

    rows: NDArray[np.float32]  # (n_slots, at least n), zero beyond n columns
    slot: NDArray[np.int64]  # (n,), where a row was written, or -1
    counts: NDArray[np.int64]  # (2,): rows written, and how often all were forgotten
    first: NDArray[np.floating]  # (n1, n1), C-ordered
    second: NDArray[np.floating]  # (n2, n2), C-ordered
    between: NDArray[np.floating]  # (n1, n2), C-ordered


class ComputedRows(NamedTuple):
    """Rows of the kernel matrix of two groups of points."""

    rows: NDArray[np.float32]  # (n_slots, at least n), two groups of slots at least
    slot: NDArray[np.int64]  # as above
    counts: NDArray[np.int64]
    sweep: Sweep


class GatheredRows(NamedTuple):
    """Rows of a part of a stored matrix."""

    rows: NDArray[np.float32]  # (n_slots, n), two slots at least
    slot: NDArray[np.int64]  # as above
    counts: NDArray[np.int64]
    matrix: NDArray[np.float32]  # (m, at least m), C-ordered
    chosen: NDArray[np.int64]  # (n,), ascending, rows and columns of the part


def row_of(source: Any, k: int) -> Any:
    """Return the row k, which has been written and not been forgotten."""
    return source[k] if isinstance(source, np.ndarray) else source.rows[source.slot[k]]


def write_row(source: Any, k: int, e: Any, blocked: Any, sign: float) -> None:
    """Write the row k, unless it is there already; where memory is short others may be forgotten.

    Rows of coordinates that are not blocked, with the least `sign` times e, are likely to follow.
    """
    _WRITER_BY_SOURCE[type(source)](source, k, e, blocked, sign)


def _nothing(source: Any, k: int, e: Any, blocked: Any, sign: float) -> None:
    pass


def _copy_row(source: Any, k: int, e: Any, blocked: Any, sign: float) -> None:
    if source.slot[k] < 0:
        _free_slots(source.slot, source.counts, len(source.rows))
        at = source.counts[0]
        _write_stored(source.first, source.second, source.between, k, source.rows[at])
        source.slot[k], source.counts[0] = at, at + 1


@vectorized
def _free_slots(slot: Any, counts: Any, n_slots: int) -> None:
    """Forget all rows where a group of them may not fit any more."""
    if counts[0] + GROUP_ROWS > n_slots and n_slots < len(slot):
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


def _gather_row(source: Any, k: int, e: Any, blocked: Any, sign: float) -> None:
    if source.slot[k] < 0:
        _free_slots(source.slot, source.counts, len(source.rows))
        at = source.counts[0]
        _gather(source.matrix, source.chosen, k, source.rows[at])
        source.slot[k], source.counts[0] = at, at + 1


@vectorized
def _gather(matrix: Any, chosen: Any, k: int, to: Any) -> None:
    row = matrix[chosen[k]]
    for j in range(len(chosen)):
        to[j] = row[chosen[j]]


def _compute_row(source: Any, k: int, e: Any, blocked: Any, sign: float) -> None:
    if source.slot[k] < 0:
        _free_slots(source.slot, source.counts, len(source.rows))
        chosen, at = np.empty(GROUP_ROWS, np.int64), source.counts[0]
        n_chosen = _likely(k, source.slot, e, blocked, sign, chosen)
        _write_computed(source.sweep, chosen[:n_chosen], source.rows[at : at + n_chosen])
        for u in range(n_chosen):
            source.slot[chosen[u]] = at + u
        source.counts[0] = at + n_chosen


@vectorized
def _likely(k: int, slot: Any, e: Any, blocked: Any, sign: float, chosen: Any) -> int:
    """Write k and the coordinates likely to follow to `chosen`; return their number."""
    values = np.full(len(chosen), np.inf)
    values[0], chosen[0], n_chosen, last = -np.inf, k, 1, len(chosen) - 1
    for i in range(len(slot)):
        value = sign * np.float64(e[i])
        if value < values[last] and blocked[i] == 0 and slot[i] < 0 and i != k:
            at = min(n_chosen, last)
            while value < values[at - 1]:
                values[at], chosen[at] = values[at - 1], chosen[at - 1]
                at -= 1
            values[at], chosen[at] = value, i
            n_chosen = min(n_chosen + 1, last + 1)
    return n_chosen


@vectorized
def _write_computed(sweep: Any, chosen: Any, rows: Any) -> None:
    """Write the rows `chosen`, at most a group, to `rows`: a sweep over each group of points."""
    first, second = sweep.first, sweep.second
    few = np.empty((GROUP_ROWS, first.few.shape[1]), first.few.dtype)
    a, slots = np.empty(GROUP_ROWS, first.a.dtype), np.arange(GROUP_ROWS)
    gather_points(sweep, chosen, few, a)
    values = np.empty((GROUP_ROWS, max(len(first.b), len(second.b))), rows.dtype)
    every, packed = np.empty(0, np.int64), np.empty((0, 0), np.uint16)
    none, top, start = np.empty(0), np.ones(2), 0
    for side in (first, second):
        n = len(side.b)
        sweep_tiles(
            few, a, side.points, False, side.b, every, 0, n, sweep.factor, sweep.kernel_map,
            values, packed, slots, sweep.like, top, none, none, none, none,
        )  # fmt: skip
        for u in range(len(chosen)):
            for j in range(n):
                rows[u, start + j] = values[u, j]
        start += n


_WRITER_BY_SOURCE: dict[type, Any] = {
    np.ndarray: _nothing,
    StoredRows: _copy_row,
    ComputedRows: _compute_row,
    GatheredRows: _gather_row,
}


@overload(row_of, jit_options=VECTORIZED_FLAGS, strict=False)
def _row_of_type(source, k):  # type: ignore[no-untyped-def]
    if isinstance(source, types.Array):
        return lambda source, k: source[k]
    return lambda source, k: source.rows[source.slot[k]]


@overload(write_row, jit_options=VECTORIZED_FLAGS, strict=False)
def _write_row_of_type(source, k, e, blocked, sign):  # type: ignore[no-untyped-def]
    is_array = isinstance(source, types.Array)
    return _nothing if is_array else _WRITER_BY_SOURCE[source.instance_class]
