"""Compiled reads of held columns, shared by the solvers that work on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.columns import Columns
from qpsvm.solvers.extremes import (
    GREATEST,
    first_of,
    greatest_key,
    greatest_key_of,
    least_key,
    least_key_of,
    vectorized,
)

MISSING = 4
"""Beside the values of Stop: columns have to be filled before the step can be made."""

TILE = 1024
"""Points that are updated and then searched: between the two they stay in the nearest cache."""


class Points(NamedTuple):
    """What a pass over all points reads beside their columns, in few bytes a point."""

    side: NDArray[np.int8]  # (m,), the sign
    group: NDArray[np.int32]  # (m,), the simplex that a coordinate belongs to
    linear: NDArray[np.float64]  # (m,), c
    plain: bool  # whether every sign is +1
    flat: bool  # whether c is one number


class Support(NamedTuple):
    """The coordinates with positive weight, side by side in the first entries, in any order."""

    index: NDArray[np.int64]  # (m,), the coordinate
    weight: NDArray[np.float64]  # (m,), its weight
    mark: NDArray[np.int32]  # (m,), its group
    slope: NDArray[np.float64]  # (m,), room for its gradient
    place: NDArray[np.int32]  # (m,), by coordinate: its entry here, or -1
    size: NDArray[np.int64]  # (1,), how many they are


class Move(NamedTuple):
    """A step: x = keep x + sum_j gain_j e_j; for each j the coordinate, its gain, and what is left.

    `rise` is the gain less what rounding would have left of a weight that becomes zero.
    """

    index: NDArray[np.int64]
    gain: NDArray[np.float64]
    rise: NDArray[np.float64]


def compiled(function: Any) -> Any:
    """Compile for the disk cache, free of the interpreter lock, with numpy's division rules."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(function)


def summing(function: Any) -> Any:
    """Compile like `compiled`, free to reorder sums."""
    flags = {"contract", "nnan", "nsz", "reassoc"}
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=flags)(function)


@compiled
def held(cols: Columns, i: int) -> bool:
    """Return whether column i can be read."""
    return cols.slot[i] >= 0


@compiled
def touch(cols: Columns, i: int) -> None:
    """Note that column i was used."""
    cols.clock[0] += 1
    cols.stamp[cols.slot[i]] = cols.clock[0]


@compiled
def entry(cols: Columns, i: int, j: int) -> float:
    """Return g_ij, without the ridge, from held column i; the diagonal comes from `diag`."""
    k = cols.diag[i] if i == j else float(cols.store[cols.slot[i], j])
    return cols.scale * cols.sign[i] * cols.sign[j] * (k + cols.shift)


@compiled
def form(cols: Columns, a: Any, b: Any) -> float:
    """Return a'(G + D)b for two vertices given by their coordinates; reads the columns of a."""
    total = 0.0
    for g in range(a.shape[0]):
        for h in range(b.shape[0]):
            total += entry(cols, a[g], b[h])
        if a[g] == b[g]:
            total += cols.ridge[a[g]]
    return total


@vectorized
def _add(row: Any, keep: float, t: float, rest: float, q: Any) -> None:
    for k in range(len(q)):
        q[k] = keep * q[k] + (t * row[k] + rest)


@vectorized
def _add_signed(row: Any, side: Any, keep: float, t: float, rest: float, q: Any) -> None:
    for k in range(len(q)):
        q[k] = keep * q[k] + side[k] * (t * row[k] + rest)


@vectorized
def _gradient(points: Points, q: Any, start: int, stop: int, room: Any) -> Any:
    """Return what is ordered as q + c over a tile: q itself where c is one number."""
    part = q[start:stop]
    if points.flat:
        return part
    f, c = room[: stop - start], points.linear[start:stop]
    for k in range(len(f)):
        f[k] = part[k] + c[k]
    return f


@vectorized
def sweep(
    cols: Columns, points: Points, keep: float, move: Move, n: int, q: Any, keys: Any, room: Any
) -> None:
    """Let q = (G + D)x follow x = keep x + the first n of a move; note the least q + c of each tile.

    One pass over all points: `keys`, shape (n_groups, number of tiles), is ready for `least`.
    """
    m = len(q)
    for tile in range(keys.shape[1]):
        start = tile * TILE
        stop = min(start + TILE, m)
        for j in range(n):
            i = move.index[j]
            row = cols.store[cols.slot[i]][start:stop]
            t = move.gain[j] * cols.scale * cols.sign[i]
            old = keep if j == 0 else 1.0
            if points.plain:
                _add(row, old, t, t * cols.shift, q[start:stop])
            else:
                _add_signed(row, points.side[start:stop], old, t, t * cols.shift, q[start:stop])
        for j in range(n):
            i = move.index[j]
            if start <= i < stop:
                q[i] += cols.ridge[i] * move.rise[j]
        f = _gradient(points, q, start, stop, room)
        if len(keys) == 1:
            keys[0, tile] = least_key(f)
        else:
            for g in range(len(keys)):
                keys[g, tile] = least_key_of(f, points.group[start:stop], g, -1)


@vectorized
def least(points: Points, q: Any, keys: Any, g: int, room: Any) -> Any:
    """Return the least q + c of a group and its first index, after a sweep."""
    tile, key = 0, GREATEST
    for t in range(keys.shape[1]):
        if keys[g, t] < key:
            tile, key = t, keys[g, t]
    start = tile * TILE
    stop = min(start + TILE, len(q))
    f = _gradient(points, q, start, stop, room)
    k = start + max(0, first_of(f, key, points.group[start:stop], g, -1))
    return q[k] + points.linear[k], k


@summing
def slopes(points: Points, support: Support, q: Any) -> Any:
    """Note the gradient over the support; return x'f and x'(G + D)x."""
    n = support.size[0]
    index, weight, slope = support.index[:n], support.weight[:n], support.slope[:n]
    stride = np.uintp(0 if points.flat else 1)
    xf = 0.0
    xqx = 0.0
    for a in range(n):
        k = np.uintp(index[a])  # an unsigned index is not looked at for its sign
        f = q[k] + points.linear[k * stride]
        slope[a] = f
        xf += weight[a] * f
        xqx += weight[a] * q[k]
    return xf, xqx


@vectorized
def extreme(support: Support, g: int, n_groups: int, greatest: bool) -> Any:
    """Return the greatest or least gradient of a group on the support, and its coordinate."""
    n = support.size[0]
    slope, mark = support.slope[:n], support.mark[:n]
    if n_groups == 1:
        key = greatest_key(slope) if greatest else least_key(slope)
    elif greatest:
        key = greatest_key_of(slope, mark, g, -1)
    else:
        key = least_key_of(slope, mark, g, -1)
    at = first_of(slope, key, mark, g, -1)
    if at < 0:
        return -np.inf if greatest else np.inf, -1
    rest = at + 1
    while True:  # of equal ones the one with the least coordinate
        more = first_of(slope[rest:], key, mark[rest:], g, -1)
        if more < 0:
            return slope[at], support.index[at]
        at = rest + more if support.index[rest + more] < support.index[at] else at
        rest += more + 1


@compiled
def weight_of(support: Support, i: int) -> float:
    """Return the weight of a coordinate."""
    return support.weight[support.place[i]] if support.place[i] >= 0 else 0.0


@compiled
def scale_weights(support: Support, keep: float) -> None:
    """Multiply all weights."""
    weight = support.weight[: support.size[0]]
    for a in range(len(weight)):
        weight[a] *= keep


@compiled
def gain_weight(points: Points, support: Support, move: Move, j: int, i: int, gain: float) -> None:
    """Note the j-th part of a move, and let the coordinate gain the weight; it may enter."""
    a = support.place[i]
    if a < 0:
        a = support.size[0]
        support.size[0] = a + 1
        support.index[a], support.weight[a] = i, 0.0
        support.mark[a], support.place[i] = points.group[i], a
    support.weight[a] += gain
    move.index[j], move.gain[j], move.rise[j] = i, gain, gain


@compiled
def leave(support: Support, move: Move, j: int, gone: bool) -> None:
    """Let the coordinate of the j-th part leave the support if it is `gone` or has no weight."""
    i = move.index[j]
    a = support.place[i]
    if a < 0 or (support.weight[a] > 0.0 and not gone):
        return
    move.rise[j] -= support.weight[a]
    last = support.size[0] - 1
    support.size[0] = last
    support.index[a], support.weight[a] = support.index[last], support.weight[last]
    support.mark[a], support.place[support.index[a]] = support.mark[last], a
    support.place[i] = -1
