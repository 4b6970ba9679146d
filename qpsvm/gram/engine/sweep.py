"""The Gaussian kernel from inner products, in one compiled sweep that stores it, or sums it up.

A block of products is read once while it is in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.exp2 import exp2_32, exp2_64
from qpsvm.numerics.jit import njit
from qpsvm.numerics.parallel import parallel_for

CHUNK = 1024
FEW = 16  # rows summed up before they are added to the sums of a block, and these to those of all
PIECE = 1 << 18  # entries that a thread sweeps at a time
LOG2E = 1.4426950408889634

Vector = NDArray[np.float64]
vectorised = njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
summing = njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz", "reassoc"})


def gaussian_sweep(
    K: NDArray[np.floating], out: NDArray[np.floating], gamma: float, a: Vector, b: Vector
) -> None:
    """Write exp(-gamma max(a_i + b_j - 2 K_ij, 0)) to `out`, which may be K, in parallel.

    Parameters
    ----------
    K : ndarray, shape (n, m)
        Inner products, C-ordered, in float32 or in the precision of `out`.
    out : ndarray, shape (n, m)
        C-ordered, float32 or float64.
    gamma : float
    a, b : ndarray, shapes (n,) and (m,)
        Squared norms.
    """
    rows = max(1, PIECE // max(1, K.shape[1]))
    kind = out.dtype.type
    to, rate = _sweep32 if kind is np.float32 else _sweep64, kind(-gamma * LOG2E)
    a, b = a.astype(kind, copy=False), b.astype(kind, copy=False)

    def piece(start: int) -> None:
        at = slice(start, start + rows)
        to(K[at], out[at], rate, a[at], b)

    parallel_for(piece, list(range(0, len(K), rows)))


def gaussian_sums(
    K: NDArray[np.floating],
    gamma: float,
    a: Vector,
    b: Vector,
    x: Vector,
    out: Vector,
    z: Vector | None = None,
    back: Vector | None = None,
) -> None:
    """Sum up the kernel values V of a block in this thread: out += x'V and, given z, back += V z.

    Parameters
    ----------
    K : ndarray, shape (n, m)
        Inner products, C-ordered, float32 or float64.
    gamma : float
    a, b : ndarray, shapes (n,) and (m,)
        Squared norms.
    x, back : ndarray, shape (n,)
    z, out : ndarray, shape (m,)
    """
    if z is None or back is None:
        _sums(K, -gamma * LOG2E, a, b, x, out)
    else:
        _both_sums(K, -gamma * LOG2E, a, b, x, out, z, back)


@vectorised
def _sweep32(K: Any, out: Any, rate: Any, a: Any, b: Any) -> None:
    room = np.empty(CHUNK, np.float32)  # lanes may not write where others still read
    for i in range(len(a)):
        for start in range(0, len(b), CHUNK):
            norm, own = b[start : start + CHUNK], a[i]
            row, last = K[i, start : start + CHUNK], out[i, start : start + CHUNK]
            for j in range(len(norm)):
                room[j] = exp2_32(rate * ((own + norm[j]) - np.float32(2.0) * row[j]))
            for j in range(len(norm)):
                last[j] = room[j]


@vectorised
def _sweep64(K: Any, out: Any, rate: Any, a: Any, b: Any) -> None:
    room = np.empty(CHUNK)  # lanes may not write where others still read
    for i in range(len(a)):
        for start in range(0, len(b), CHUNK):
            norm, own = b[start : start + CHUNK], a[i]
            row, last = K[i, start : start + CHUNK], out[i, start : start + CHUNK]
            for j in range(len(norm)):
                room[j] = exp2_64(rate * ((own + norm[j]) - 2.0 * row[j]))
            for j in range(len(norm)):
                last[j] = room[j]


@summing
def _sums(K: Any, rate: Any, a: Any, b: Any, x: Any, out: Any) -> None:
    few, block = np.empty(len(b)), np.zeros(len(b))
    for start in range(0, len(a), FEW):
        few[:] = 0.0
        for i in range(start, min(start + FEW, len(a))):
            row, own, weight = K[i], a[i], x[i]
            for j in range(len(b)):
                few[j] += weight * exp2_64(rate * ((own + b[j]) - 2.0 * row[j]))
        for j in range(len(b)):
            block[j] += few[j]
    for j in range(len(b)):
        out[j] += block[j]


@summing
def _both_sums(K: Any, rate: Any, a: Any, b: Any, x: Any, out: Any, z: Any, back: Any) -> None:
    few, block = np.empty(len(b)), np.zeros(len(b))
    for start in range(0, len(a), FEW):
        few[:] = 0.0
        for i in range(start, min(start + FEW, len(a))):
            row, own, weight, total = K[i], a[i], x[i], 0.0
            for j in range(len(b)):
                value = exp2_64(rate * ((own + b[j]) - 2.0 * row[j]))
                few[j] += weight * value
                total += value * z[j]
            back[i] += total
        for j in range(len(b)):
            block[j] += few[j]
    for j in range(len(b)):
        out[j] += block[j]
