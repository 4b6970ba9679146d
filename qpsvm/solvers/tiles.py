"""The pass over all points that follows a step of few coordinates, and notes where the gradient is least.

Columns of the step are added two at a time, and the last of them with the search for the least: a tile
of points is read once. Where the vectors do not lie in cache, threads share the pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.compiled import bits64
from qpsvm.gram.columns import Columns
from qpsvm.solvers.extremes import (
    GREATEST,
    first_of,
    least_key,
    least_key_of,
    vectorized,
)
from qpsvm.solvers.steps import TILE
from qpsvm.solvers.team import Team, done, join, offer, offered, over, take, wait


class Points(NamedTuple):
    """What a pass over all points reads beside their columns, in few bytes a point."""

    side: NDArray[np.int8]  # (m,), the sign
    group: NDArray[np.integer]  # (m,), the simplex that a coordinate belongs to
    linear: NDArray[np.float64]  # (m,), c
    plain: bool  # whether every sign is +1
    flat: bool  # whether c is one number


class Move(NamedTuple):
    """A step: x = keep x + sum_j gain_j e_j; for each j the coordinate, its gain, and what is left.

    `rise` is the gain less what rounding would have left of a weight that becomes zero.
    """

    at: NDArray[np.int64]
    gain: NDArray[np.float64]
    rise: NDArray[np.float64]


def move(size: int) -> Move:
    """Return room for a move of so many coordinates."""
    return Move(np.empty(size, np.int64), np.empty(size), np.empty(size))


@vectorized
def add(near: Any, far: Any, keep: float, t: float, u: float, rest: float, q: Any) -> None:
    """Add two columns to a tile: q = keep q + t near + u far + rest."""
    for k in range(len(q)):
        q[k] = keep * q[k] + (t * near[k] + u * far[k] + rest)


@vectorized
def add_signed(
    near: Any, far: Any, side: Any, keep: float, t: float, u: float, rest: float, q: Any
) -> None:
    """Add two columns, each entry with its sign."""
    for k in range(len(q)):
        q[k] = keep * q[k] + side[k] * (t * near[k] + u * far[k] + rest)


@vectorized
def add_least(near: Any, far: Any, keep: float, t: float, u: float, rest: float, q: Any) -> Any:
    """Add two columns to a tile; return the key of its least entry."""
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


@vectorized
def _note(points: Points, q: Any, keys: Any, tile: int, room: Any) -> None:
    """Note the least q + c of a tile, for each group."""
    start = tile * TILE
    stop = min(start + TILE, len(q))
    f = _gradient(points, q, start, stop, room)
    if len(keys) == 1:
        keys[0, tile] = least_key(f)
    else:
        for g in range(len(keys)):
            keys[g, tile] = least_key_of(f, points.group[start:stop], g, -1)


@vectorized
def search(points: Points, q: Any, keys: Any) -> None:
    """Note the least q + c of each tile, for each group: `keys`, shape (n_groups, number of tiles)."""
    room = np.empty(TILE)
    for tile in range(keys.shape[1]):
        _note(points, q, keys, tile, room)


@vectorized
def _follow(
    cols: Columns,
    points: Points,
    keep: float,
    made: Move,
    n: int,
    q: Any,
    keys: Any,
    room: Any,
    first: int,
    stop_at: int,
) -> None:
    """Do what `sweep` does for some of the tiles."""
    fused = points.flat and len(keys) <= 2
    for tile in range(first, stop_at):
        start = tile * TILE
        stop = min(start + TILE, len(q))
        part, side = q[start:stop], points.side[start:stop]
        for j in range(0, n, 2):
            i = made.at[j]
            near, t = cols.store[cols.slot[i]][start:stop], made.gain[j] * cols.scale * cols.sign[i]
            far, u = near, 0.0
            if j + 1 < n:
                i = made.at[j + 1]
                far = cols.store[cols.slot[i]][start:stop]
                u = made.gain[j + 1] * cols.scale * cols.sign[i]
            old, rest = keep if j == 0 else 1.0, (t + u) * cols.shift
            if fused and j + 2 >= n:
                if len(keys) == 2:
                    group = points.group[start:stop]
                    low = _add_least_of_two(near, far, side, group, old, t, u, rest, part)
                    keys[0, tile], keys[1, tile] = low
                elif points.plain:
                    keys[0, tile] = add_least(near, far, old, t, u, rest, part)
                else:
                    keys[0, tile] = add_least_signed(near, far, side, old, t, u, rest, part)
            elif points.plain:
                add(near, far, old, t, u, rest, part)
            else:
                add_signed(near, far, side, old, t, u, rest, part)
        again = not fused
        for j in range(n):
            i = made.at[j]
            if start <= i < stop and cols.ridge[i] != 0.0:
                q[i] += cols.ridge[i] * made.rise[j]
                again = True
        if again:
            _note(points, q, keys, tile, room)


@vectorized
def sweep(
    cols: Columns,
    points: Points,
    keep: float,
    made: Move,
    n: int,
    q: Any,
    keys: Any,
    room: Any,
    who: Team,
) -> None:
    """Let q = (G + D)x follow x = keep x + the first n of a move; note the least q + c of each tile.

    Then `keys` is ready for `least`.
    """
    if not who.shared:
        _follow(cols, points, keep, made, n, q, keys, room, 0, keys.shape[1])
        return
    who.number[0], who.place[0] = keep, n
    number = offer(who)
    _pieces(cols, points, made, q, keys, room, who, number, 0)
    wait(who, number)


@vectorized
def _pieces(
    cols: Columns,
    points: Points,
    made: Move,
    q: Any,
    keys: Any,
    room: Any,
    who: Team,
    number: int,
    mine: int,
) -> None:
    """Sweep pieces of a pass until all are taken."""
    for k in range(len(who.taken)):
        first, stop = take(who, number, mine, k)
        if first < stop:
            keep, n = who.number[0], who.place[0]
            _follow(cols, points, keep, made, n, q, keys, room, first, stop)
            done(who)


@vectorized
def assist(cols: Columns, points: Points, made: Move, q: Any, keys: Any, who: Team) -> None:
    """Sweep pieces of whatever is offered until the steps are over."""
    room, mine, last = np.empty(TILE), join(who), 0
    while not over(who):
        number = offered(who)
        if number > last:
            _pieces(cols, points, made, q, keys, room, who, number, mine)
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
