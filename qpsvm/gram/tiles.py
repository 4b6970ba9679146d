"""Columns of the Gaussian kernel, tile by tile, in one compiled pass that stores them or sums them up.

A tile of points is turned, so that vector lanes run over points, and stays in cache for all columns.
Eight columns at a time are multiplied, their sums in registers; what they give goes through the
exponential to where it is held, or into the sums of the tile.

Products of few features come two to three times as fast as from BLAS, which copies blocks that are made
for many, and those of many features no slower. No interpreter runs between two tiles, so threads have
nothing to wait for. Of packed binary points 32 features are one AND, one count and one addition.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.exponential import exp2_32, exp2_64
from qpsvm.gram.lanes import GROUP, LANES, TILE, is_double, multiply, turn
from qpsvm.gram.passes import read_only
from qpsvm.gram.units import Bits
from qpsvm.threads import apart, spread

SUM_ERROR = (GROUP + 4) * 2.0**-24
"""Of a sum in float32 relative to that of the weights' sizes: of a group, whose weights are rounded."""

ENTRIES, ROWS = 1 << 18, 1 << 14
"""Entries that a thread works on before it takes others, and most points of them."""

ALONE = 1 << 16
"""Entries that one thread is done with before another one has begun."""

LOG2E = 1.4426950408889634

Vector = NDArray[np.float64]
vectorised = numba.njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})


def terms(gamma: float, norms: Vector, kind: Any) -> NDArray[np.floating]:
    """Return what squared norms add to the exponents of kernel values, which are of base 2."""
    return (-gamma * LOG2E * norms).astype(kind)


def fill(
    points: Any,
    b: NDArray[np.floating],
    gamma: float,
    columns: NDArray[np.int64],
    rows: NDArray[np.int64] | None,
    out: NDArray[np.floating],
    slots: NDArray[np.int64],
) -> None:
    """Write k(columns, rows) to the beginning of the rows `slots` of `out`, in parallel.

    Parameters
    ----------
    points : ndarray, shape (m, d), or Bits
        In C's or Fortran's order.
    b : ndarray, shape (m,)
        Their `terms`, in the precision of `out`.
    gamma : float
    columns, rows, slots : ndarray of int
        All rows if they are None.
    """
    few, a, held, turned, factor = _sides(points, b, gamma, columns)
    m = len(b) if rows is None else len(rows)
    chosen, into = read_only(np.empty(0, np.int64) if rows is None else rows), read_only(slots)
    width = _width(len(columns), m)

    def piece(first: int) -> None:
        last = min(first + width, m)
        _fill(few, a, held, turned, read_only(b), chosen, first, last, factor, out, into)

    spread(piece, apart(m, width))


def add(
    points: Any,
    b: NDArray[np.floating],
    gamma: float,
    columns: NDArray[np.int64],
    x: Vector,
    out: Vector,
    y: Vector | None = None,
    size: Vector | None = None,
) -> None:
    """Add the sum of k(columns, all points) by x to `out`, and by y to `size`, in parallel.

    The sum of a point does not depend on how the points are shared out.
    """
    few, a, held, turned, factor = _sides(points, b, gamma, columns)
    m, width = len(b), _width(len(columns), len(b))
    first_sum = (*_weights(x, a), out)
    second_sum = (*_weights(x if y is None else y, a), out[:0] if size is None else size)

    def piece(first: int) -> None:
        last, sides = min(first + width, m), (few, a, held, turned, read_only(b))
        _add(*sides, first, last, factor, *first_sum, *second_sum)

    spread(piece, apart(m, width))


def _sides(points: Any, b: NDArray[np.floating], gamma: float, columns: NDArray[np.int64]) -> Any:
    """Return columns and their terms in whole groups, points, whether these are turned, the factor."""
    weight = points.weight if isinstance(points, Bits) else 1.0
    held = points.words if isinstance(points, Bits) else points
    n = -(-len(columns) // GROUP) * GROUP
    few, a = np.zeros((n, held.shape[1]), held.dtype), np.zeros(n, b.dtype)
    few[: len(columns)], a[: len(columns)] = held[columns], b[columns]
    turned = not held.flags.c_contiguous and held.flags.f_contiguous
    held = np.ascontiguousarray(held.T if turned else held)
    factor = b.dtype.type(2.0 * gamma * LOG2E * weight)
    return read_only(few), read_only(a), read_only(held), turned, factor


def _weights(x: Vector, a: NDArray[np.floating]) -> tuple[NDArray[np.floating], float]:
    """Return weights in the precision of `a` and what they were divided by, so that none overflows."""
    top = float(np.max(np.abs(x), initial=0.0)) or 1.0
    out = np.zeros_like(a)
    out[: len(x)] = x / top
    return out, top


def _width(n: int, m: int) -> int:
    """Return how many points a thread takes: pieces are alike, so that threads end together."""
    widest = min(ROWS, max(4 * TILE, ENTRIES // max(1, n)))
    two = 2 if n * m >= ALONE else 1
    width = -(-m // (two * -(-m // (two * widest))))
    return max(TILE, -(-width // TILE) * TILE)


@vectorised
def _fill(
    few: Any, a: Any, points: Any, turned: bool, b: Any, rows: Any, first: int, last: int,
    factor: Any, out: Any, slots: Any,
) -> None:  # fmt: skip
    rooms = _rooms(few, points, a)
    tile, norm, K = rooms[1:]
    for start in range(first, last, TILE):
        width = min(TILE, last - start)
        _load(points, turned, b, rows, start, width, rooms)
        for i in range(0, len(slots), GROUP):
            _values(few, i, tile, a, norm, factor, K)
            for u in range(min(GROUP, len(slots) - i)):
                row, to = K[u], out[slots[i + u], start : start + width]
                for j in range(width):
                    to[j] = row[j]


@vectorised
def _add(
    few: Any, a: Any, points: Any, turned: bool, b: Any, first: int, last: int,
    factor: Any, x: Any, top: float, out: Any, y: Any, most: float, size: Any,
) -> None:  # fmt: skip
    rooms, total, rows = _rooms(few, points, a), np.empty((2, TILE)), np.empty(0, np.int64)
    tile, norm, K = rooms[1:]
    for start in range(first, last, TILE):
        width = min(TILE, last - start)
        _load(points, turned, b, rows, start, width, rooms)
        total[:] = 0.0
        for i in range(0, len(few), GROUP):
            _values(few, i, tile, a, norm, factor, K)
            _sum(K, x[i : i + GROUP], total[0])
            if len(size):
                _sum(K, y[i : i + GROUP], total[1])
        for j in range(width):
            out[start + j] += top * total[0, j]
        for j in range(width if len(size) else 0):
            size[start + j] += most * total[1, j]


@vectorised
def _rooms(few: Any, points: Any, a: Any) -> Any:
    """Return memory for the indices of a tile's points, these, their terms, and kernel values."""
    tile = np.empty((few.shape[1] + LANES, TILE), points.dtype)
    return np.empty(TILE, np.int64), tile, np.empty(TILE, a.dtype), np.empty((GROUP, TILE), a.dtype)


@vectorised
def _load(points: Any, turned: bool, b: Any, rows: Any, start: int, width: int, to: Any) -> None:
    """Fill a tile with points from `start` on, the last one again where they are few."""
    chosen, tile, norm, _ = to
    for j in range(TILE):
        at = start + min(j, width - 1)
        chosen[j] = rows[at] if len(rows) else at
        norm[j] = b[chosen[j]]
    turn(points, turned, chosen, width, tile)


@vectorised
def _values(few: Any, i: int, tile: Any, a: Any, norm: Any, factor: Any, K: Any) -> None:
    """Write the kernel values of a group of columns, from column i on, with the points of a tile."""
    double = is_double(K)
    for j in range(0, TILE, LANES * 4 // few.itemsize):
        multiply(few, i, tile, j, K)
    for u in range(GROUP):
        row, own = K[u], a[i + u]
        for j in range(TILE):
            t = (own + norm[j]) + factor * row[j]
            row[j] = exp2_64(float(t)) if double else exp2_32(np.float32(t))


@vectorised
def _sum(K: Any, x: Any, total: Any) -> None:
    """Add the sum of a group's kernel values by weight to that of a tile."""
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    for j in range(TILE):
        one = (x0 * K[0, j] + x1 * K[1, j]) + (x2 * K[2, j] + x3 * K[3, j])
        two = (x4 * K[4, j] + x5 * K[5, j]) + (x6 * K[6, j] + x7 * K[7, j])
        total[j] += one + two
