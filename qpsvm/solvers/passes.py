"""Compiled passes over many held columns at once; parallel over fixed chunks of the points."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.compiled import njit
from qpsvm.gram.columns import Columns, ColumnStore
from qpsvm.gram.lanes import LANES, LINE, turn_square
from qpsvm.threads import spread

CHUNK = 4096
KEPT = 1 << 23, 1 << 26
"""Least and most bytes of a core's matrix whose memory is kept for the next one, once in a process: to
touch new memory costs more than the kernel values in it. Smaller pieces the allocator keeps."""

PIECE = 1 << 19
"""Entries below which a second thread is not worth waking."""


def _pieces(n: int, width: int, step: int) -> list[tuple[int, int]]:
    """Return (start, stop) of pieces of n rows of `width` entries; starts are multiples of step."""
    size = -(-max(1, PIECE // max(1, width)) // step) * step
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
    spread(
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
    width = (-(-n * np.dtype(kind).itemsize // LINE) | 1) * LINE
    memory = _room(n * width + LINE)
    start = -memory.ctypes.data % LINE
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
    packs = block.dtype == np.uint16
    own = (np.rint(own / store.unit) if packs else own).astype(block.dtype)
    if slots.min() < 0:
        store.write(new, core, block[first:])
        block[np.arange(first, len(core)), np.arange(first, len(core))] = own
    else:
        kind = store.store.dtype.type  # to be cut to whole multiples, or as it is
        by, half = (kind(1.0 / store.unit), kind(0.5)) if packs else (kind(1.0), kind(0.0))
        spread(
            lambda at: _gather(block, store.store, slots, core, first, own, by, half, *at),
            _pieces(len(slots), len(core), 1),
        )
    places = np.arange(len(core))
    spread(lambda at: _mirror(block, places, first, *at), _pieces(first, len(slots), LINE))


def compact(block: NDArray[Any], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Move the wanted rows and columns to the front of a block, in place; return their order.

    The last ones take the places of those that are not wanted: the others stay where they are.
    """
    n = int(np.count_nonzero(wanted))
    holes, last = np.flatnonzero(~wanted[:n]), n + np.flatnonzero(wanted[n:])
    order = np.arange(n)
    order[holes] = last
    spread(lambda at: _compact(block, order, holes, last, *at), _pieces(n, 8 * len(last), 1))
    return order


@njit(cache=True, nogil=True)
def _compact(block: Any, order: Any, holes: Any, last: Any, start: int, stop: int) -> None:
    n = len(order)
    for i in range(start, stop):
        row, out = block[order[i]], block[i]
        if order[i] != i:
            for k in range(n):  # a slice would compile the message of a wrong length, for 2 s
                out[k] = row[k]
        for k in range(len(holes)):
            out[holes[k]] = row[last[k]]


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

    Squares begin where lines of the cache do; what is left at the edges goes one by one.
    """
    n, lanes = len(places), LANES * 4 // block.itemsize
    even = min(n, -(-first // lanes) * lanes)
    end = even + (n - even) // lanes * lanes
    for top in range(start, stop, lanes):
        bottom, left = min(top + lanes, first), first
        if bottom - top == lanes:
            for j in range(even, end, lanes):
                turn_square(block, places, top, block, j)
            for i in range(top, bottom):
                for j in range(first, even):
                    block[i, j] = block[j, i]
            left = end
        for i in range(top, bottom):
            for j in range(left, n):
                block[i, j] = block[j, i]
