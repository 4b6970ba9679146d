"""Compiled passes over many held columns at once; parallel over fixed chunks of the points."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.columns import Columns

CHUNK = 1024
TILE = 32
SMALL = 1 << 19  # entries below which a second thread is not worth waking
_lock = threading.Lock()  # numba's fallback threading layer must not be entered twice


@contextmanager
def _workers(work: int) -> Iterator[None]:
    """Hold the lock, and use one thread where there is little work."""
    with _lock:
        before = numba.get_num_threads()
        numba.set_num_threads(1 if work < SMALL else before)
        try:
            yield
        finally:
            numba.set_num_threads(before)


def accumulate(
    cols: Columns,
    indices: NDArray[np.int64],
    weights: NDArray[np.float64],
    z: NDArray[np.float64],
    s: NDArray[np.float64],
) -> None:
    """Add z times G[:, indices] weights to s, with float64 sums; the columns must be held."""
    signed = weights * cols.sign[indices]
    with _workers(len(indices) * len(s)):
        _accumulate(
            cols.store, cols.slot[indices], signed, z * cols.sign * cols.scale, cols.shift, s
        )


@numba.njit(cache=True, nogil=True, parallel=True, fastmath={"contract"})
def _accumulate(store: Any, slots: Any, weights: Any, factor: Any, shift: float, s: Any) -> None:
    m = len(s)
    rest = shift * weights.sum()
    for piece in numba.prange((m + CHUNK - 1) // CHUNK):
        start = piece * CHUNK
        stop = min(start + CHUNK, m)
        total = np.full(stop - start, rest)
        for k in range(len(slots)):
            row = store[slots[k], start:stop]
            w = weights[k]
            for j in range(len(row)):
                total[j] += w * row[j]
        out, by = s[start:stop], factor[start:stop]
        for j in range(len(out)):
            out[j] += by[j] * total[j]


def extend(
    block: NDArray[np.floating],
    store: NDArray[np.floating],
    slots: NDArray[np.int64],
    core: NDArray[np.int64],
    diag: NDArray[np.float64],
) -> None:
    """Fill the last len(slots) rows and columns of the core's Gram matrix from held columns."""
    with _workers(len(slots) * len(core)):
        _gather(block, store, slots, core, len(core) - len(slots), diag.astype(block.dtype))
        _mirror(block, len(core), len(core) - len(slots))


@numba.njit(cache=True, nogil=True, parallel=True)
def _gather(block: Any, store: Any, slots: Any, core: Any, first: int, diag: Any) -> None:
    for k in numba.prange(len(slots)):
        row = store[slots[k]]
        out = block[first + k]
        for j in range(len(core)):
            out[j] = row[core[j]]
        out[first + k] = diag[k]


@numba.njit(cache=True, nogil=True, parallel=True)
def _mirror(block: Any, n: int, first: int) -> None:
    """Copy the new rows into the new columns, tile by tile."""
    for tile in numba.prange((n + TILE - 1) // TILE):
        top = tile * TILE
        bottom = min(top + TILE, first)
        for left in range(first, n, TILE):
            for i in range(top, bottom):
                for j in range(left, min(left + TILE, n)):
                    block[i, j] = block[j, i]
