"""Compiled passes over many held columns at once; parallel over fixed chunks of the points."""

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

CHUNK = 4096
KEPT = 1 << 23, 1 << 26
"""Least and most bytes of a core's matrix whose memory is kept for the next one, once in a process: to
touch new memory costs more than the kernel values in it. Smaller pieces the allocator keeps."""

PIECE = 1 << 18
"""Entries of a piece; less than two are not worth waking a second thread."""


def _pieces(n: int, width: int, step: int) -> list[tuple[int, int]]:
    """Return (start, stop) of pieces of n rows of `width` entries; starts are multiples of step.

    They are alike and their number is even, so that two threads end together.
    """
    count = 2 * -(-n * width // (2 * PIECE)) if n * width > 2 * PIECE else 1
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
    """Add z times G[:, indices] weights to s, with float64 sums; the columns must be held.

    Given `size`, also add at least |K[:, indices]| |weights * factors| to it, and little more: columns
    are taken in the order of signs, so that the size of a sum over a few of them says it.
    """
    signed = weights * cols.sign[indices]
    if factors is None or size is None:
        factors, size = signed, s[:0]
    else:
        order = np.argsort(np.copysign(np.maximum(factors, 1e-300), signed))
        signed, indices, factors = signed[order], indices[order], factors[order]
    turn = int(np.count_nonzero(signed < 0.0)) if len(size) else 0
    slots, by = cols.slot[indices], z * cols.sign * cols.scale
    parallel_for(
        lambda at: _accumulate(
            cols.store, slots, signed, by, cols.shift, s, factors, turn, size, *at
        ),
        _pieces(len(s), len(indices), CHUNK),
    )


@njit(cache=True, nogil=True, fastmath={"contract"})
def _accumulate(
    store: Any,
    slots: Any,
    weights: Any,
    factor: Any,
    shift: float,
    s: Any,
    share: Any,
    turn: int,
    size: Any,
    first: int,
    last: int,
) -> None:
    rest = 0.0  # plain loops: every function of numpy's would be compiled, too
    for w in weights:
        rest += w
    rest *= shift
    for start in range(first, last, CHUNK):
        stop = min(start + CHUNK, last)
        total, sizes = np.empty(stop - start), size[start:stop]
        for j in range(len(total)):
            total[j] = rest
        end = 0
        while end < len(slots):
            k, end = end, min(end + 4, turn if end < turn else len(slots))
            if end - k == 4:  # four at once: the sums are read and written less often
                a, b = store[slots[k], start:stop], store[slots[k + 1], start:stop]
                c, d = store[slots[k + 2], start:stop], store[slots[k + 3], start:stop]
                u, v, w, t = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                if len(sizes):
                    most = share[k]
                    for i in range(k + 1, end):
                        most = share[i] if share[i] > most else most
                    for j in range(len(total)):
                        part = (u * a[j] + v * b[j]) + (w * c[j] + t * d[j])
                        total[j] += part
                        sizes[j] += most * abs(part)
                else:
                    for j in range(len(total)):
                        total[j] += (u * a[j] + v * b[j]) + (w * c[j] + t * d[j])
                continue
            for i in range(k, end):
                row, w = store[slots[i], start:stop], weights[i]
                if len(sizes):
                    for j in range(len(total)):
                        part = w * row[j]
                        total[j] += part
                        sizes[j] += share[i] * abs(part)
                else:
                    for j in range(len(total)):
                        total[j] += w * row[j]
        out, by = s[start:stop], factor[start:stop]
        for j in range(len(out)):
            out[j] += by[j] * total[j]


def square(n: int, kind: Any) -> NDArray[Any]:
    """Return room for n rows of at least n numbers, each of which begins with a line of the cache.

    Lines that are written as a whole cost half. Their number is odd: rows whose distance is a power of
    two would drive each other out of the cache.
    """
    width = (-(-n * np.dtype(kind).itemsize // CACHE_LINE_BYTES) | 1) * CACHE_LINE_BYTES
    memory = _room(n * width + CACHE_LINE_BYTES)
    start = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[start : start + n * width].view(kind).reshape(n, -1)


def _room(n_bytes: int) -> NDArray[np.uint8]:
    """Return memory, that of an earlier solve if it is kept, large enough and no array lies in it."""
    if not KEPT[0] <= n_bytes <= KEPT[1]:
        return np.empty(n_bytes, np.uint8)
    try:
        memory = _kept.pop()  # nobody else finds it now
    except IndexError:
        memory = np.empty(0, np.uint8)
    used = sys.getrefcount(memory) > 2
    if used or len(memory) < n_bytes:
        fresh = np.empty(n_bytes, np.uint8)
        _kept.append(memory if len(memory) > n_bytes else fresh)
        return fresh
    _kept.append(memory)
    return memory


_kept: list[NDArray[np.uint8]] = []


def extend(
    block: NDArray[Any],
    store: ColumnStore,
    new: NDArray[np.int64],
    core: NDArray[np.int64],
) -> None:
    """Fill the last len(new) rows and columns of the core's Gram matrix.

    As multiples of the store's unit, if the block is of 16 bits.
    """
    first, own, slots = len(core) - len(new), store.diag[new], store.slot[new]
    places, packs = np.arange(len(core)), block.dtype == np.uint16
    own = (np.rint(own / store.unit) if packs else own).astype(block.dtype)
    if slots.min() < 0:
        store.write(new, core, block[first:])
        block[places[first:], places[first:]] = own
    else:
        kind = store.store.dtype.type  # to be cut to whole multiples, or as it is
        by, half = (kind(1.0 / store.unit), kind(0.5)) if packs else (kind(1.0), kind(0.0))
        parallel_for(
            lambda at: _gather(block, store.store, slots, core, first, own, by, half, *at),
            _pieces(len(slots), len(core), 1),
        )
    parallel_for(
        lambda at: _mirror(block, places, first, *at), _pieces(first, len(slots), CACHE_LINE_BYTES)
    )


def compact(block: NDArray[Any], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Move the wanted rows and columns to the front of a block, in place; return their order.

    The last ones take the places of those that are not wanted: the others stay where they are.
    """
    n = int(np.count_nonzero(wanted))
    gaps, last = ~wanted[:n], n + np.flatnonzero(wanted[n:])
    order, holes = np.arange(n), np.flatnonzero(gaps)
    order[holes] = last
    pieces = _pieces(n, len(wanted), 1) if len(holes) else []
    parallel_for(lambda at: _compact(block, order, gaps, holes, last, *at), pieces)
    return order


@njit(cache=True, nogil=True)
def _compact(
    block: Any, order: Any, gaps: Any, holes: Any, last: Any, start: int, stop: int
) -> None:
    """Copy the rows `order` to those from start to stop, with entries `last` in the gaps.

    Almost every line of the cache has a gap, so that the matrix is read and written as a whole, which
    takes the time: lines are asked for one row ahead, those that are written, too.
    """
    n, lanes = len(order), VECTOR_LANES * 4 // block.itemsize
    even = n // lanes * lanes if HAS_MASKED_EXPAND else 0
    spare = np.empty(len(last), block.dtype)
    for i in range(start, stop):
        row, out, ahead = block[order[i]], block[i], order[min(i + 1, stop - 1)]
        for j in range(even, last[-1], lanes):
            prefetch(block, ahead, j)
        for k in range(len(last)):
            spare[k] = row[last[k]]
        filled = 0
        for j in range(0, even, lanes):
            prefetch(block, ahead, j)
            prefetch(block, i + 1, j)
            filled = masked_expand(row, gaps, j, spare, filled, out)
        if order[i] != i:
            for j in range(even, n):  # a slice would compile the message of a wrong length, for 2 s
                out[j] = row[j]
        for k in range(filled, len(holes)):
            out[holes[k]] = spare[k]


@njit(cache=True, nogil=True)
def _gather(
    block: Any, store: Any, slots: Any, core: Any, first: int, diag: Any, by: Any, half: Any,
    start: int, stop: int,
) -> None:  # fmt: skip
    for k in range(start, stop):
        row = store[slots[k]]
        out = block[first + k]
        for j in range(len(core)):
            out[j] = by * row[core[j]] + half
        out[first + k] = diag[k]


@njit(cache=True, nogil=True)
def _mirror(block: Any, places: Any, first: int, start: int, stop: int) -> None:
    """Copy the new rows into the new columns of the rows from start to stop, square by square.

    Squares begin where lines of the cache do; those at the edges write some numbers once more.
    """
    n, lanes = len(places), VECTOR_LANES * 4 // block.itemsize
    if min(first, n - first) < lanes:
        for i in range(start, stop):
            for j in range(first, n):
                block[i, j] = block[j, i]
        return
    even = -(-first // lanes) * lanes
    for top in range(start, stop, lanes):
        top = min(top, first - lanes)
        transpose_square(block, places, top, block, first)
        for j in range(even, n - lanes, lanes):
            for u in range(lanes):
                prefetch(block, j + u, top + lanes)
                prefetch(block, top + u, j + lanes)
            transpose_square(block, places, top, block, j)
        transpose_square(block, places, top, block, n - lanes)
