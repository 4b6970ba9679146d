"""The pass over all points that follows a step of few coordinates, and notes where the gradient is least.

Columns of the step are added two at a time, and the last of them with the search for the least: a tile
of points is read once. Where the vectors do not lie in cache, threads share the pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.argextremes import GREATEST, extreme_key_of, first_of
from qpsvm.numerics.jit import bits64, vectorized
from qpsvm.numerics.work_sharing import TILE, WorkSharing, done, join, offered, over, take


class Points(NamedTuple):
    """What a pass over all points reads beside their columns, in few bytes a point."""

    side: NDArray[np.int8]  # (m,), the sign
    group: NDArray[np.integer]  # (m,), the simplex that a coordinate belongs to
    linear: NDArray[np.float64]  # (m,), c
    plain: bool  # whether every sign is +1
    flat: bool  # whether c is one number


class Move(NamedTuple):
    """A step: x = keep x + sum_j gain_j e_j; for each j the coordinate and its gain.

    A weight that is no more than `least` afterwards becomes zero; `rise` is the gain less what was left.
    """

    at: NDArray[np.int64]
    gain: NDArray[np.float64]
    least: NDArray[np.float64]
    rise: NDArray[np.float64]


def move(size: int) -> Move:
    """Return room for a move of so many coordinates."""
    return Move(np.empty(size, np.int64), np.empty(size), np.empty(size), np.empty(size))


@vectorized
def add_signed(
    near: Any, far: Any, side: Any, keep: float, t: float, u: float, rest: float, q: Any
) -> None:
    """Add two columns to a tile, each entry with its sign: q = keep q + side (t near + u far + rest)."""
    for k in range(len(q)):
        q[k] = keep * q[k] + side[k] * (t * near[k] + u * far[k] + rest)


@vectorized
def add_least(near: Any, far: Any, keep: float, t: float, u: float, rest: float, q: Any) -> Any:
    """Add two columns to a tile where every sign is +1; return the key of its least entry."""
    low = GREATEST
    for k in range(len(q)):
        value = keep * q[k] + (t * near[k] + u * far[k] + rest)
        q[k], bits = value, bits64(value)
        key = bits ^ ((bits >> 63) & GREATEST)
        low = key if key < low else low
    return low


@vectorized
def add_least_signed(
    near: Any, far: Any, side: Any, keep: float, t: float, u: float, rest: float, q: Any
) -> Any:
    """Do so, each entry with its sign."""
    low = GREATEST
    for k in range(len(q)):
        value = keep * q[k] + side[k] * (t * near[k] + u * far[k] + rest)
        q[k], bits = value, bits64(value)
        key = bits ^ ((bits >> 63) & GREATEST)
        low = key if key < low else low
    return low


@vectorized
def _add_least_of_two(
    near: Any, far: Any, side: Any, group: Any, keep: float, t: float, u: float, rest: float, q: Any
) -> Any:
    """Do so for the least entries of group 0 and of group 1."""
    low, other = GREATEST, GREATEST
    for k in range(len(q)):
        value = keep * q[k] + side[k] * (t * near[k] + u * far[k] + rest)
        q[k], bits = value, bits64(value)
        key = bits ^ ((bits >> 63) & GREATEST)
        out = -np.int64(group[k] != 0)  # all bits, or none: a branch is slower
        first, second = (key & ~out) | (GREATEST & out), (key & out) | (GREATEST & ~out)
        low = first if first < low else low
        other = second if second < other else other
    return low, other


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


def search(points: Points, q: NDArray[np.float64], keys: NDArray[np.int64]) -> None:
    """Note the least q + c of each tile, for each group: `keys`, shape (n_groups, number of tiles)."""
    bits = (q if points.flat else q + points.linear).view(np.int64)
    every = bits ^ ((bits >> 63) & GREATEST)
    for g in range(len(keys)):
        some = np.where(points.group == g, every, GREATEST)
        keys[g] = np.minimum.reduceat(some, np.arange(0, len(q), TILE))


@vectorized
def follow(
    cols: Columns,
    points: Points,
    made: Move,
    q: Any,
    keys: Any,
    room: Any,
    who: WorkSharing,
    number: int,
    mine: int,
) -> None:
    """Let q = (G + D)x follow x = keep x + the first n of a move, by the pieces that nobody has taken.

    `who` tells keep and n. Notes the least q + c of each tile: then `keys` is ready for `least`.
    """
    keep, n = who.number[0], who.place[0]
    n_groups, first, last = len(keys), 0, who.n_tiles
    fused = points.flat and n_groups <= 2
    zero: Any = np.int64(0)  # a literal would have a function compiled twice
    for piece in range(len(who.taken) if who.shared else 1):
        if who.shared:
            first, last = take(who, number, mine, piece)
        for tile in range(first, last):
            start = tile * TILE
            part = q[start : start + TILE]
            stop = start + len(part)
            side, group = points.side[start:stop], points.group[start:stop]
            for j in range(0, n, 2):
                i = made.at[j]
                near = cols.store[cols.slot[i]][start:stop]
                far, t, u = near, made.gain[j] * cols.scale * cols.sign[i], 0.0
                if j + 1 < n:
                    i = made.at[j + 1]
                    far = cols.store[cols.slot[i]][start:stop]
                    u = made.gain[j + 1] * cols.scale * cols.sign[i]
                old, rest = keep if j == 0 else 1.0, (t + u) * cols.shift
                if not fused or j + 2 < n:
                    add_signed(near, far, side, old, t, u, rest, part)
                elif n_groups == 2:
                    low, other = _add_least_of_two(near, far, side, group, old, t, u, rest, part)
                    keys[0, tile], keys[1, tile] = low, other
                elif points.plain:
                    keys[0, tile] = add_least(near, far, old, t, u, rest, part)
                else:
                    keys[0, tile] = add_least_signed(near, far, side, old, t, u, rest, part)
            again = not fused
            for j in range(n):
                i = made.at[j]
                if start <= i < stop and cols.ridge[i] != 0.0:
                    q[i] += cols.ridge[i] * made.rise[j]
                    again = True
            if again:
                f = _gradient(points, q, start, stop, room)
                for g in range(n_groups):
                    keys[g, tile] = extreme_key_of(f, group, g, zero)
        if who.shared and first < last:
            done(who)


@vectorized
def assist(cols: Columns, points: Points, made: Move, q: Any, keys: Any, who: WorkSharing) -> None:
    """Do pieces of whatever is offered until the steps are over."""
    room, mine, last = np.empty(TILE), join(who), 0
    while not over(who):
        number = offered(who)
        if number > last:
            follow(cols, points, made, q, keys, room, who, number, mine)
            last = number


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
