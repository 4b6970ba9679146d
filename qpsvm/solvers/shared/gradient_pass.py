"""Gradient update over all points after a step of few coordinates, fused with the search for its minimum.

The columns of the step are added two at a time; the last addition also finds the minimum of each tile,
so that a tile is read once. Where the vectors exceed the cache, threads share the pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.argextremes import MAX_KEY, extreme_key_of, first_of, ordered_key
from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.work_sharing import (
    TILE_POINTS,
    WorkSharing,
    claim,
    closed,
    finish,
    published,
    register,
)


class Points(NamedTuple):
    """Data of a pass over all points besides columns, in few bytes per point."""

    side: NDArray[np.int8]  # (m,), the sign
    group: NDArray[np.integer]  # (m,), the simplex that a coordinate belongs to
    linear: NDArray[np.float64]  # (m,), c
    plain: bool  # whether all signs are +1
    flat: bool  # whether c is constant


class Move(NamedTuple):
    """A step x = keep x + sum_j gain_j e_j: for each j the coordinate and its gain.

    A weight of at most `least` after the step becomes zero; `rise` is the gain minus the removed weight.
    """

    at: NDArray[np.int64]
    gain: NDArray[np.float64]
    least: NDArray[np.float64]
    rise: NDArray[np.float64]


def move(size: int) -> Move:
    """Allocate a move of `size` coordinates."""
    return Move(np.empty(size, np.int64), np.empty(size), np.empty(size), np.empty(size))


@vectorized
def add_signed(
    column_i: Any,
    column_j: Any,
    side: Any,
    keep: float,
    t: float,
    u: float,
    shift_term: float,
    q: Any,
) -> None:
    """Add two signed columns to a tile: q = keep q + side (t K_i + u K_j + shift_term)."""
    for k in range(len(q)):
        q[k] = keep * q[k] + side[k] * (t * column_i[k] + u * column_j[k] + shift_term)


@vectorized
def add_least(
    column_i: Any, column_j: Any, keep: float, t: float, u: float, shift_term: float, q: Any
) -> Any:
    """Add two columns to a tile whose signs are all +1; return the key of its minimum."""
    low = MAX_KEY
    for k in range(len(q)):
        value = keep * q[k] + (t * column_i[k] + u * column_j[k] + shift_term)
        q[k], key = value, ordered_key(value)
        low = key if key < low else low
    return low


@vectorized
def add_least_signed(
    column_i: Any,
    column_j: Any,
    side: Any,
    keep: float,
    t: float,
    u: float,
    shift_term: float,
    q: Any,
) -> Any:
    """Add two signed columns to a tile; return the key of its minimum."""
    low = MAX_KEY
    for k in range(len(q)):
        value = keep * q[k] + side[k] * (t * column_i[k] + u * column_j[k] + shift_term)
        q[k], key = value, ordered_key(value)
        low = key if key < low else low
    return low


@vectorized
def _add_least_of_two(
    column_i: Any,
    column_j: Any,
    side: Any,
    group: Any,
    keep: float,
    t: float,
    u: float,
    shift_term: float,
    q: Any,
) -> Any:
    """Add two signed columns to a tile; return the keys of the minima of groups 0 and 1."""
    low, low_1 = MAX_KEY, MAX_KEY
    for k in range(len(q)):
        value = keep * q[k] + side[k] * (t * column_i[k] + u * column_j[k] + shift_term)
        q[k], key = value, ordered_key(value)
        excluded = -np.int64(group[k] != 0)  # all bits or none: faster than a branch
        first = (key & ~excluded) | (MAX_KEY & excluded)
        second = (key & excluded) | (MAX_KEY & ~excluded)
        low = first if first < low else low
        low_1 = second if second < low_1 else low_1
    return low, low_1


@vectorized
def _gradient(points: Points, q: Any, start: int, stop: int, scratch: Any) -> Any:
    """Return values ordered as q + c over a tile: q itself where c is constant."""
    q_tile = q[start:stop]
    if points.flat:
        return q_tile
    f, c = scratch[: stop - start], points.linear[start:stop]
    for k in range(len(f)):
        f[k] = q_tile[k] + c[k]
    return f


def find_tile_minima(points: Points, q: NDArray[np.float64], keys: NDArray[np.int64]) -> None:
    """Write the keys of the minima of q + c to `keys`, shape (n_groups, n_tiles)."""
    bits = (q if points.flat else q + points.linear).view(np.int64)
    all_keys = bits ^ ((bits >> 63) & MAX_KEY)
    for g in range(len(keys)):
        group_keys = np.where(points.group == g, all_keys, MAX_KEY)
        keys[g] = np.minimum.reduceat(group_keys, np.arange(0, len(q), TILE_POINTS))


@vectorized
def update_gradient(
    cols: Columns,
    points: Points,
    step: Move,
    q: Any,
    keys: Any,
    scratch: Any,
    sharing: WorkSharing,
    pass_number: int,
    worker: int,
) -> None:
    """Update q = (G + D)x for x = keep x + the first n coordinates of a move, in the chunks claimed.

    The arguments of the pass are keep and n. `keys` receives the minima of q + c of each tile, as
    `min_of_group` reads them.
    """
    keep, n = sharing.float_arguments[0], sharing.int_arguments[0]
    n_groups, first, last = len(keys), 0, sharing.n_tiles
    fused = points.flat and n_groups <= 2
    zero: Any = np.int64(0)  # a literal would compile the function twice
    for chunk in range(len(sharing.claimed) if sharing.shared else 1):
        if sharing.shared:
            first, last = claim(sharing, pass_number, worker, chunk)
        for tile in range(first, last):
            start = tile * TILE_POINTS
            q_tile = q[start : start + TILE_POINTS]
            stop = start + len(q_tile)
            side, group = points.side[start:stop], points.group[start:stop]
            # 1. Add the columns, two at a time; the last addition finds the minima.
            for j in range(0, n, 2):
                i = step.at[j]
                column_i = cols.store[cols.slot[i]][start:stop]
                column_j, t, u = column_i, step.gain[j] * cols.scale * cols.sign[i], 0.0
                if j + 1 < n:
                    i = step.at[j + 1]
                    column_j = cols.store[cols.slot[i]][start:stop]
                    u = step.gain[j + 1] * cols.scale * cols.sign[i]
                old, shift_term = keep if j == 0 else 1.0, (t + u) * cols.shift
                if not fused or j + 2 < n:
                    add_signed(column_i, column_j, side, old, t, u, shift_term, q_tile)
                elif n_groups == 2:
                    low, low_1 = _add_least_of_two(
                        column_i, column_j, side, group, old, t, u, shift_term, q_tile
                    )
                    keys[0, tile], keys[1, tile] = low, low_1
                elif points.plain:
                    keys[0, tile] = add_least(column_i, column_j, old, t, u, shift_term, q_tile)
                else:
                    keys[0, tile] = add_least_signed(
                        column_i, column_j, side, old, t, u, shift_term, q_tile
                    )
            # 2. Add the ridge at the coordinates that moved; then the minima are searched again.
            rescan = not fused
            for j in range(n):
                i = step.at[j]
                if start <= i < stop and cols.ridge[i] != 0.0:
                    q[i] += cols.ridge[i] * step.rise[j]
                    rescan = True
            if rescan:
                f = _gradient(points, q, start, stop, scratch)
                for g in range(n_groups):
                    keys[g, tile] = extreme_key_of(f, group, g, zero)
        if sharing.shared and first < last:
            finish(sharing)


@vectorized
def assist(
    cols: Columns, points: Points, step: Move, q: Any, keys: Any, sharing: WorkSharing
) -> None:
    """Claim chunks of published passes until the steps are closed."""
    scratch, worker, last = np.empty(TILE_POINTS), register(sharing), 0
    while not closed(sharing):
        pass_number = published(sharing)
        if pass_number > last:
            update_gradient(cols, points, step, q, keys, scratch, sharing, pass_number, worker)
            last = pass_number


@vectorized
def min_of_group(points: Points, q: Any, keys: Any, g: int, scratch: Any) -> Any:
    """Return the minimum of q + c over a group and its first index, after `update_gradient`."""
    tile, key = 0, MAX_KEY
    for t in range(keys.shape[1]):
        if keys[g, t] < key:
            tile, key = t, keys[g, t]
    start = tile * TILE_POINTS
    stop = min(start + TILE_POINTS, len(q))
    f = _gradient(points, q, start, stop, scratch)
    k = start + max(0, first_of(f, key, points.group[start:stop], g, -1))
    return q[k] + points.linear[k], k
