"""Compiled passes over many cached columns, and the Gram matrix of a working set."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.column_store import Columns, ColumnStore
from qpsvm.numerics.jit import njit
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.simd import CACHE_LINE_BYTES, masked_expand, prefetch, transpose_square
from qpsvm.numerics.vector_shape import HAS_MASKED_EXPAND, VECTOR_LANES

CHUNK_POINTS = 4096
"""Number of points whose sums stay in cache while columns are added."""

MIN_KEPT_BYTES = 1 << 23
"""Least size of a Gram matrix whose memory is kept for the next one, once per process: the first touch of
new memory costs more than its kernel values. The allocator keeps smaller blocks itself."""

MAX_KEPT_BYTES = 1 << 26
"""Greatest size of memory that is kept."""

CHUNK_ENTRIES = 1 << 18
"""Number of entries of a chunk; fewer than two chunks are not worth a second thread."""


def _chunks(n: int, width: int, step: int) -> list[tuple[int, int]]:
    """Return (start, stop) of chunks of n rows of `width` entries; starts are multiples of step.

    Chunks have equal size and their number is even, so that two threads end together.
    """
    count = 2 * -(-n * width // (2 * CHUNK_ENTRIES)) if n * width > 2 * CHUNK_ENTRIES else 1
    size = max(1, -(-n // (count * step))) * step
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def accumulate(
    cols: Columns,
    indices: NDArray[np.int64],
    weights: NDArray[np.float64],
    z: NDArray[np.float64],
    s: NDArray[np.float64],
    factors: NDArray[np.float64] | None = None,
    size: NDArray[np.float64] | None = None,
) -> None:
    """Add z times G[:, indices] weights to s, with float64 sums; the columns must be cached.

    Given `size`, also add a tight upper bound of |K[:, indices]| |weights * factors| to it: columns are
    ordered by sign, so that sums over a few columns have no cancellation.
    """
    signed = weights * cols.sign[indices]
    if factors is None or size is None:
        factors, size = signed, s[:0]
    else:
        order = np.argsort(np.copysign(np.maximum(factors, 1e-300), signed))
        signed, indices, factors = signed[order], indices[order], factors[order]
    n_negative = int(np.count_nonzero(signed < 0.0)) if len(size) else 0
    slots, scale = cols.slot[indices], z * cols.sign * cols.scale
    parallel_for(
        lambda at: _accumulate(
            cols.store, slots, signed, scale, cols.shift, s, factors, n_negative, size, *at
        ),
        _chunks(len(s), len(indices), CHUNK_POINTS),
        with_blas=False,
    )


@njit(cache=True, nogil=True, fastmath={"contract"})
def _accumulate(
    store: Any,
    slots: Any,
    weights: Any,
    factor: Any,
    shift: float,
    s: Any,
    factors: Any,
    n_negative: int,
    size: Any,
    first: int,
    last: int,
) -> None:
    shift_term = 0.0  # plain loops: a numpy function would be compiled, too
    for w in weights:
        shift_term += w
    shift_term *= shift
    for start in range(first, last, CHUNK_POINTS):
        stop = min(start + CHUNK_POINTS, last)
        total, sizes = np.empty(stop - start), size[start:stop]
        for j in range(len(total)):
            total[j] = shift_term
        end = 0
        while end < len(slots):
            k, end = end, min(end + 4, n_negative if end < n_negative else len(slots))
            if end - k == 4:  # four at once, with fewer reads and writes of the sums
                a, b = store[slots[k], start:stop], store[slots[k + 1], start:stop]
                c, d = store[slots[k + 2], start:stop], store[slots[k + 3], start:stop]
                u, v, w, t = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                if len(sizes):
                    max_factor = factors[k]
                    for i in range(k + 1, end):
                        max_factor = factors[i] if factors[i] > max_factor else max_factor
                    for j in range(len(total)):
                        term = (u * a[j] + v * b[j]) + (w * c[j] + t * d[j])
                        total[j] += term
                        sizes[j] += max_factor * abs(term)
                else:
                    for j in range(len(total)):
                        total[j] += (u * a[j] + v * b[j]) + (w * c[j] + t * d[j])
                continue
            for i in range(k, end):
                row, w = store[slots[i], start:stop], weights[i]
                if len(sizes):
                    for j in range(len(total)):
                        term = w * row[j]
                        total[j] += term
                        sizes[j] += factors[i] * abs(term)
                else:
                    for j in range(len(total)):
                        total[j] += w * row[j]
        out, scale = s[start:stop], factor[start:stop]
        for j in range(len(out)):
            out[j] += scale[j] * total[j]


def empty_square(n: int, dtype: Any) -> NDArray[Any]:
    """Return an empty array of n rows of at least n entries, aligned to cache lines.

    Cache lines that are written as a whole cost half. Their number per row is odd: rows at a distance of
    a power of two would evict each other from the cache.
    """
    width = (-(-n * np.dtype(dtype).itemsize // CACHE_LINE_BYTES) | 1) * CACHE_LINE_BYTES
    memory = _allocate(n * width + CACHE_LINE_BYTES)
    start = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[start : start + n * width].view(dtype).reshape(n, -1)


def _allocate(n_bytes: int) -> NDArray[np.uint8]:
    """Return memory: that of an earlier solve if it is kept, large enough and unused."""
    if not MIN_KEPT_BYTES <= n_bytes <= MAX_KEPT_BYTES:
        return np.empty(n_bytes, np.uint8)
    try:
        memory = _kept_memory.pop()  # now no other thread can take it
    except IndexError:
        memory = np.empty(0, np.uint8)
    used = sys.getrefcount(memory) > 2
    if used or len(memory) < n_bytes:
        larger = np.empty(n_bytes, np.uint8)
        _kept_memory.append(memory if len(memory) > n_bytes else larger)
        return larger
    _kept_memory.append(memory)
    return memory


_kept_memory: list[NDArray[np.uint8]] = []


def extend(
    block: NDArray[Any],
    store: ColumnStore,
    new: NDArray[np.int64],
    working_set: NDArray[np.int64],
) -> None:
    """Fill the last len(new) rows and columns of the Gram matrix of the working set.

    Entries are multiples of the store's unit if the block is of 16 bits.
    """
    first, diagonal, slots = len(working_set) - len(new), store.diag[new], store.slot[new]
    indices, packed = np.arange(len(working_set)), block.dtype == np.uint16
    diagonal = (np.rint(diagonal / store.unit) if packed else diagonal).astype(block.dtype)
    if slots.min() < 0:
        store.gram.fill(new, block[first:], indices[: len(new)], working_set)
        block[indices[first:], indices[first:]] = diagonal
    else:
        entries = store.entries_of(working_set)
        dtype = store.store.dtype.type  # rounded to multiples of the quantum, or copied
        scale, half = (dtype(1.0 / store.unit), dtype(0.5)) if packed else (dtype(1.0), dtype(0.0))
        parallel_for(
            lambda at: _gather(
                block, store.store, slots, entries, first, diagonal, scale, half, *at
            ),
            _chunks(len(slots), len(working_set), 1),
            with_blas=False,
        )
    chunks = _chunks(first, len(slots), CACHE_LINE_BYTES)
    parallel_for(lambda at: _mirror(block, indices, first, *at), chunks, with_blas=False)


def compact(block: NDArray[Any], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Move the wanted rows and columns to the front of a block, in place; return their order.

    Wanted rows and columns beyond the new size fill the gaps of the others; the rest are not moved.
    """
    n = int(np.count_nonzero(wanted))
    gaps, last = ~wanted[:n], n + np.flatnonzero(wanted[n:])
    order, holes = np.arange(n), np.flatnonzero(gaps)
    order[holes] = last
    chunks = _chunks(n, len(wanted), 1) if len(holes) else []
    parallel_for(lambda at: _compact(block, order, gaps, holes, last, *at), chunks, with_blas=False)
    return order


@njit(cache=True, nogil=True)
def _compact(
    block: Any, order: Any, gaps: Any, holes: Any, last: Any, start: int, stop: int
) -> None:
    """Copy the rows `order` to the rows from start to stop, with the entries `last` in the gaps.

    Almost every cache line has a gap, so that the whole matrix is read and written, which determines the
    time: lines are prefetched one row ahead, those to be written, too.
    """
    n, lanes = len(order), VECTOR_LANES * 4 // block.itemsize
    aligned_end = n // lanes * lanes if HAS_MASKED_EXPAND else 0
    moved = np.empty(len(last), block.dtype)
    for i in range(start, stop):
        row, out, next_row = block[order[i]], block[i], order[min(i + 1, stop - 1)]
        for j in range(aligned_end, last[-1], lanes):
            prefetch(block, next_row, j)
        for k in range(len(last)):
            moved[k] = row[last[k]]
        filled = 0
        for j in range(0, aligned_end, lanes):
            prefetch(block, next_row, j)
            prefetch(block, i + 1, j)
            filled = masked_expand(row, gaps, j, moved, filled, out)
        if order[i] != i:
            for j in range(aligned_end, n):  # slices would compile an error message, for 2 s
                out[j] = row[j]
        for k in range(filled, len(holes)):
            out[holes[k]] = moved[k]


@njit(cache=True, nogil=True)
def _gather(
    block: Any, store: Any, slots: Any, working_set: Any, first: int, diag: Any, scale: Any, half: Any,
    start: int, stop: int,
) -> None:  # fmt: skip
    for k in range(start, stop):
        row = store[slots[k]]
        out = block[first + k]
        for j in range(len(working_set)):
            out[j] = scale * row[working_set[j]] + half
        out[first + k] = diag[k]


@njit(cache=True, nogil=True)
def _mirror(block: Any, indices: Any, first: int, start: int, stop: int) -> None:
    """Copy the new rows into the new columns of the rows from start to stop, square by square.

    Squares are aligned to cache lines; those at the edges overlap others.
    """
    n, lanes = len(indices), VECTOR_LANES * 4 // block.itemsize
    if min(first, n - first) < lanes:
        for i in range(start, stop):
            for j in range(first, n):
                block[i, j] = block[j, i]
        return
    aligned_start = -(-first // lanes) * lanes
    for top in range(start, stop, lanes):
        top = min(top, first - lanes)
        transpose_square(block, indices, top, block, first)
        for j in range(aligned_start, n - lanes, lanes):
            for u in range(lanes):
                prefetch(block, j + u, top + lanes)
                prefetch(block, top + u, j + lanes)
            transpose_square(block, indices, top, block, j)
        transpose_square(block, indices, top, block, n - lanes)
