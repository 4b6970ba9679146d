"""Columns of a kernel, tile by tile, in one compiled pass that stores or sums them.

A tile of points is transposed, so that vector lanes run over points, and stays in cache for all columns.
It consists of panels of a few vectors, which are read in order. A group of columns at a time is
multiplied and mapped to kernel values in registers or in the first-level cache; from there values go to
the column store, or into the sums of the tile. See `formula` for the map, `vector_shape` for the sizes.

Products of few features are several times as fast as by BLAS, which copies blocks shaped for many
features; those of many features are as fast. No interpreter runs between two tiles, so threads do not
wait for each other. For packed binary points 32 features take one AND, one count and one addition; for
points on a grid four features take one instruction; of CSR points only stored entries are multiplied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.column_store import QUANTUM
from qpsvm.gram.engine.formula import Evaluator, Formula
from qpsvm.gram.engine.kernel_rows import weighted_sum
from qpsvm.gram.engine.maps import finish_map
from qpsvm.gram.engine.sweep import mapping, summing
from qpsvm.gram.engine.tile_products import load_tile, multiply_group, new_tile
from qpsvm.gram.storage.base import StoredPoints
from qpsvm.gram.storage.sparse_panels import NumberedRows, SparseRows, numbered, sparse_sides
from qpsvm.numerics.jit import njit
from qpsvm.numerics.parallel import alternating_starts, parallel_for
from qpsvm.numerics.simd import aligned
from qpsvm.numerics.vector_shape import GROUP_ROWS, TILE_POINTS

SUM_ERROR = (GROUP_ROWS + 4) * 2.0**-24
"""Error of a group's sum in float32, relative to the sum of the absolute weights; these are rounded."""

CHUNK_ENTRIES, MAX_CHUNK_POINTS = 1 << 18, 1 << 14
"""Number of entries of a chunk of a thread, and the maximum number of its points."""

MIN_ENTRIES_FOR_TWO_THREADS = 1 << 16
"""Number of entries below which one thread finishes before a second one has started."""

MAX_FEATURES_TO_SWEEP = 64
"""Number of features of a dense point up to which values of a few hundred points are swept by tiles; with
more, products of whole groups by BLAS take less time."""

CHUNKS_OF_MATRIX = 16
"""Number of chunks of a symmetric matrix, of which each is smaller than the one before."""

Vector = NDArray[np.float64]
ALL_ROWS, NO_NUMBERS = np.empty(0, np.int64), np.empty(0)
NO_PACKED_BLOCK = np.empty((0, 0), np.uint16)
QUANTA_PER_ONE, ROUNDING_HALF = np.float32(1.0 / QUANTUM), np.float32(0.5)

within = njit(inline="always")  # compiled once, in the sweep


def fill(
    evaluator: Evaluator,
    columns: NDArray[np.int64],
    rows: NDArray[np.int64] | None,
    out: NDArray[Any],
    slots: NDArray[np.int64],
) -> None:
    """Write k(columns, rows) to the beginning of the rows `slots` of `out`, in parallel.

    Parameters
    ----------
    evaluator : Evaluator
        Its terms are in the precision of `out`, which may be of 16 bits for multiples of `QUANTUM`.
    columns, rows, slots : ndarray of int
        All rows if they are None.
    """
    points, b, factor, kernel_map = evaluator
    sides, factor = sides_of_sweep(points[columns], b[columns], points, b, factor, rows)
    every = np.arange(len(b))
    is_matrix = rows is None and np.array_equal(columns, every) and np.array_equal(slots, every)
    if is_matrix and out.dtype != np.uint16:
        return _fill_matrix(sides, factor, kernel_map, out)
    return fill_sides(sides, factor, kernel_map, rows, out, slots)


def _fill_matrix(sides: Any, factor: Any, kernel_map: Any, out: NDArray[Any]) -> None:
    """Write the values of all pairs of points: those below the diagonal, and from there those above."""
    few, a, *others = sides
    m, dtype = len(others[-1]), factor.dtype
    width = TILE_POINTS * -(-m // (CHUNKS_OF_MATRIX * TILE_POINTS))
    slots, x = np.arange(m), np.empty((2, 0), dtype)

    def chunk(first: int) -> None:
        last = min(first + width, m)
        if isinstance(few, SparseRows):
            rows: Any = few._replace(ends=few.ends[first:])
        else:
            rows = few[first:]
        below = rows, a[first:], *others, np.array(ALL_ROWS), first, last, factor, kernel_map
        sweep_tiles(*below, out, NO_PACKED_BLOCK, slots[first:], x, *(NO_NUMBERS,) * 5)
        out[first:last, last:m] = out[last:m, first:last].T

    parallel_for(chunk, list(range(0, m, width)), with_blas=False)


def fill_between(
    few: Any,
    a: Vector,
    some: Any,
    b: Vector,
    formula: Formula,
    out: NDArray[np.floating],
    alone: bool = False,
) -> None:
    """Write the kernel values of points `few` and `some`, whose terms are a and b, in parallel.

    `out` has their precision, and shape (n_few, n_some). With `alone`, this thread does it.
    """
    a, b = a.astype(out.dtype, copy=False), b.astype(out.dtype, copy=False)
    sides, factor = sides_of_sweep(few, a, some, b, formula.factor)
    fill_sides(sides, factor, formula.map, None, out, np.arange(len(out)), alone)


def fill_sides(
    sides: Any,
    factor: Any,
    kernel_map: Any,
    rows: Any,
    out: NDArray[Any],
    slots: NDArray[np.int64],
    alone: bool = False,
) -> None:
    """Do the same with both sides as `sides_of_sweep` returns them."""
    m, dtype = len(sides[-1]) if rows is None else len(rows), factor.dtype
    chosen, into = np.array(ALL_ROWS if rows is None else rows), np.array(slots)  # writeable
    width, x = m if alone else _width(len(slots), m), np.empty((2, 0), dtype)
    packs = out.dtype == np.uint16
    stores = (np.empty((0, 0), dtype), out) if packs else (out, NO_PACKED_BLOCK)
    nothing = (NO_NUMBERS,) * 5

    def chunk(first: int) -> None:
        at = chosen, first, min(first + width, m), factor, kernel_map
        sweep_tiles(*sides, *at, *stores, into, x, *nothing)

    parallel_for(chunk, alternating_starts(m, width), with_blas=False)


def add(
    evaluator: Evaluator,
    columns: NDArray[np.int64],
    weights: list[Vector],
    out: Vector,
    size: Vector | None = None,
) -> None:
    """Add the sum of k(columns, all points) by weight to `out`, in parallel.

    With `size`, add the sum by the second weights to it. The sum of a point does not depend on the
    assignment of points to threads.
    """
    points, terms = evaluator.points[columns], evaluator.terms[columns]
    add_between(points, terms, evaluator, weights, out, size)


def add_between(
    few: Any,
    a: NDArray[Any],
    evaluator: Evaluator,
    weights: list[Vector],
    out: Vector,
    size: Vector | None = None,
) -> None:
    """Do the same with columns of other points `few`, stored alike, whose terms are a."""
    points, b, factor, kernel_map = evaluator
    sides, factor = sides_of_sweep(few, a, points, b, factor)
    m, width = len(b), _width(len(a), len(b))
    x, top = np.zeros((2, len(sides[1])), b.dtype), np.ones(2)
    for n, w in enumerate(weights):  # scaled, so that they do not overflow in float32
        top[n] = float(np.max(np.abs(w), initial=0.0)) or 1.0
        x[n, : len(w)] = w / top[n]
    to, sizes = (np.empty((0, 0), b.dtype), NO_PACKED_BLOCK), NO_NUMBERS if size is None else size

    def chunk(first: int) -> None:
        at = ALL_ROWS, first, min(first + width, m), factor, kernel_map
        sweep_tiles(*sides, *at, *to, ALL_ROWS, x, top, out, sizes, NO_NUMBERS, NO_NUMBERS)

    parallel_for(chunk, alternating_starts(m, width), with_blas=False)


def add_both(
    few: Any,
    a: Vector,
    some: Any,
    b: Vector,
    factor: float,
    kernel_map: Any,
    x: Vector,
    out: Vector,
    z: Vector = NO_NUMBERS,
    back: Vector = NO_NUMBERS,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Add x'V to `out` and, given z, V z to `back`, V the kernel values of points `few` and `some`.

    Of `some`, the points `rows` are taken, all by default. The sums are in float64 and in this thread.
    a and b are the terms of the points; CSR points `few` may be `NumberedRows`.
    """
    sides, factor = sides_of_sweep(few, a, some, b, factor, rows)
    add_sides(sides, factor, kernel_map, x, out, z, back, rows)


def add_sides(
    sides: Any,
    factor: Any,
    kernel_map: Any,
    x: Vector,
    out: Vector,
    z: Vector = NO_NUMBERS,
    back: Vector = NO_NUMBERS,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Do the same with both sides as `sides_of_sweep` returns them."""
    n, to = len(sides[1]), (np.empty((0, 0)), NO_PACKED_BLOCK)
    weights, behind = np.zeros((2, n)), np.zeros(n)
    weights[0, : len(x)] = x
    chosen = np.array(ALL_ROWS if rows is None else rows)
    at = chosen, 0, len(sides[-1]) if rows is None else len(rows), factor, kernel_map
    sums = out, NO_NUMBERS, z, behind if len(z) else NO_NUMBERS
    sweep_tiles(*sides, *at, *to, ALL_ROWS, weights, np.ones(2), *sums)
    if len(z):
        back += behind[: len(back)]


def sides_of_sweep(
    few: Any, a: NDArray[Any], some: Any, b: NDArray[Any], factor: float, rows: Any = None
) -> Any:
    """Return both sets of points and their terms as the sweep reads them, `few` in groups; the factor.

    Of `some`, only the points `rows` are read, where they are given. All arrays are read-only, so that
    one signature of the sweep serves those of the user, too.
    """
    stored: Any
    kind, turned = b.dtype.type, False
    if sp.issparse(some):
        few = few if isinstance(few, NumberedRows) else numbered(few)
        few, stored = sparse_sides(few, some, rows)
    else:
        if isinstance(some, StoredPoints):
            few, a, some, b, factor = some.sides(few, a, b, factor)
        turned = some.flags.f_contiguous and not some.flags.c_contiguous
        few, stored = grouped(few), np.ascontiguousarray(some.T if turned else some).view()
        stored.flags.writeable = False
    b = b.view()
    b.flags.writeable = False
    return (few, grouped(a), stored, turned, b), kind(factor)


def grouped(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the rows in full groups, read-only; copies of the last row complete the last group."""
    missing = -len(rows) % GROUP_ROWS
    if missing:
        rows = np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])
    groups = np.ascontiguousarray(rows).view()
    groups.flags.writeable = False
    return groups


def _width(n: int, m: int) -> int:
    """Return the number of points of a chunk: chunks are of equal size, so that threads end together."""
    widest = min(MAX_CHUNK_POINTS, max(4 * TILE_POINTS, CHUNK_ENTRIES // max(1, n)))
    two = 2 if n * m >= MIN_ENTRIES_FOR_TWO_THREADS else 1
    width = -(-m // (two * -(-m // (two * widest))))
    return max(TILE_POINTS, -(-width // TILE_POINTS) * TILE_POINTS)


@mapping
def sweep_tiles(
    few: Any, a: Any, points: Any, turned: bool, b: Any, rows: Any, first: int, last: int,
    factor: Any, kernel_map: Any, store: Any, packed: Any, slots: Any, x: Any, top: Any, out: Any,
    size: Any, z: Any, back: Any,
) -> None:  # fmt: skip
    """Store or sum the kernel values of `few` with the points from `first` to `last`.

    These are indices of points, or positions in `rows` unless that is empty. Values go to the rows
    `slots` of `store` or, as multiples of `QUANTUM`, of `packed`; sums by the weights x go to `out` and
    `size`, and sums by the weights z to `back`. An empty array is not written.
    """
    tile, K = new_tile(few, points), aligned(GROUP_ROWS, x)
    norm, total = aligned(1, a)[0], aligned(2, out)
    chosen = np.empty(TILE_POINTS, np.int64)
    for start in range(first, last, TILE_POINTS):
        width = min(TILE_POINTS, last - start)
        for j in range(TILE_POINTS):
            at = start + min(j, width - 1)
            chosen[j] = rows[at] if len(rows) else at
            norm[j] = b[chosen[j]]
        load_tile(few, points, turned, chosen, width, tile)
        total[:] = 0.0
        for i in range(0, len(a), GROUP_ROWS):
            multiply_group(few, i, tile, width, a, norm, factor, kernel_map, K)
            finish_map(kernel_map, K)
            for u in range(min(GROUP_ROWS, len(slots) - i)):
                if len(packed):
                    _pack(K[u, :width], packed[slots[i + u], start : start + width])
                else:
                    row, to = K[u], store[slots[i + u], start : start + width]
                    for j in range(width):
                        to[j] = row[j]
            if len(out):
                weighted_sum(K, x, 0, i, total)
            if len(size):
                weighted_sum(K, x, 1, i, total)
            for u in range(GROUP_ROWS if len(back) else 0):
                back[i + u] += _dot(K[u], z[start : start + width])
        for j in range(width if len(out) else 0):
            out[start + j] += top[0] * total[0, j]
        for j in range(width if len(size) else 0):
            size[start + j] += top[1] * total[1, j]


@within
def _pack(row: Any, to: Any) -> None:
    """Write values as multiples of `QUANTUM`; the conversion through 32 bits is vectorized."""
    for j in range(len(to)):
        to[j] = np.uint16(np.int32(QUANTA_PER_ONE * np.float32(row[j]) + ROUNDING_HALF))


@summing
def _dot(row: Any, z: Any) -> float:
    total = 0.0
    for j in range(len(z)):
        total += row[j] * z[j]
    return total
