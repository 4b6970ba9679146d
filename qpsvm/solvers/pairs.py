"""Steps of pairs of coordinates, the second one by second-order information: `smo` at work.

One step is one pass over the points of tiles that hold a partner and one over all points, which
updates the signed gradient and notes its extremes. Sources and problem: `qpsvm.solvers.smo`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.columns import Columns
from qpsvm.solvers.extremes import (
    GREATEST,
    first_of,
    greatest32,
    greatest_key_of,
    least_key,
    least_key_of,
    vectorized,
)
from qpsvm.solvers.steps import MISSING, TILE, held, touch
from qpsvm.solvers.team import Team, done, join, no_team, offer, offered, over, take, wait
from qpsvm.solvers.tiles import add, add_least, add_least_signed, add_signed


class Reading(NamedTuple):
    """What a pass over all points reads beside their columns, and the extremes it notes by tiles."""

    side: NDArray[np.int8]  # (m,), z times the sign
    own: NDArray[np.float64]  # (m,), the diagonal of G + D
    mark: NDArray[np.int32]  # (m,), GROWS and SHRINKS as z x can, + BITS times the group
    low: NDArray[np.int64]  # (n_groups, n_tiles), key of the least s that can grow
    high: NDArray[np.int64]  # (n_groups, n_tiles), key of the greatest s that can shrink
    every: NDArray[np.bool_]  # (n_tiles,), whether all of it can grow, in the only group
    able: NDArray[np.int64]  # (m,), in its first entries the coordinates that can shrink
    n_able: NDArray[np.int64]  # (1,), how many they are
    room: NDArray[np.float32]  # (TILE,), scratch
    size: NDArray[np.float64]  # (1,), the greatest of `own`
    plain: bool  # whether side is +1 everywhere


GROWS, SHRINKS, BITS = 1, 2, 4

TINY = np.float32(1e-12)
"""Least curvature that is believed, relative to the greatest diagonal entry."""

FEW = 8
"""Where one coordinate in so many can shrink, they are looked at one by one."""


@vectorized
def read(cols: Columns, z: Any, s: Any, grow: Any, shrink: Any) -> Any:
    """Return what the steps read, for a new s."""
    n_groups, m = grow.shape
    n_tiles = (m + TILE - 1) // TILE
    side, n_plus = np.empty(m, np.int8), 0
    for k in range(m):
        side[k] = np.int8(z[k] * cols.sign[k])
        n_plus += side[k] > 0
    made = Reading(
        side,
        np.empty(m),
        np.zeros(m, np.int32),
        np.empty((n_groups, n_tiles), np.int64),
        np.empty((n_groups, n_tiles), np.int64),
        np.zeros(n_tiles, np.bool_),
        np.empty(m, np.int64),
        np.zeros(1, np.int64),
        np.empty(TILE, np.float32),
        np.empty(1),
        n_plus == m,
    )
    for k in range(m):
        made.own[k] = cols.scale * (cols.diag[k] + cols.shift) + cols.ridge[k]
    made.size[0] = np.max(made.own)
    for g in range(n_groups):
        for k in range(m):
            can = (GROWS if grow[g, k] == 0.0 else 0) + (SHRINKS if shrink[g, k] == 0.0 else 0)
            if can:
                _mark(made, k, can + BITS * g)
    for tile in range(n_tiles):
        _note(made, s, tile, n_tiles > 0)  # a literal would compile it twice
    return made


@vectorized
def _mark(made: Reading, k: int, mark: int) -> None:
    """Mark a coordinate, and let it enter or leave the list of those that can shrink."""
    before, n = made.mark[k] & SHRINKS, made.n_able[0]
    made.mark[k] = mark
    if before == (mark & SHRINKS):
        return
    made.n_able[0] = n - 1 if before else n + 1
    if not before:
        made.able[n] = k
        return
    for a in range(n):
        if made.able[a] == k:
            made.able[a] = made.able[n - 1]
            return


@vectorized
def _note(made: Reading, s: Any, tile: int, anew: bool) -> None:
    """Note the extremes of s over a tile, `anew` where a mark in it was changed."""
    start = tile * TILE
    stop = min(start + TILE, len(s))
    part, mark = s[start:stop], made.mark[start:stop]
    if anew and len(made.low) == 1:
        n_grow = 0
        for k in range(len(mark)):
            n_grow += mark[k] & GROWS
        made.every[tile] = n_grow == len(mark)
    for g in range(len(made.low)):
        if made.every[tile]:
            made.low[g, tile] = least_key(part)
        else:
            made.low[g, tile] = least_key_of(part, mark, GROWS + BITS * g, ~SHRINKS)
        if anew or made.high[g, tile] != -GREATEST:  # nothing can shrink before a mark changes
            made.high[g, tile] = greatest_key_of(part, mark, SHRINKS + BITS * g, ~GROWS)


@vectorized
def _gains(row: Any, own: Any, mark: Any, wanted: int, part: Any, about: Any, gain: Any) -> None:
    """Write the decrease of the value, but for a factor, that a pair with each point of a tile brings.

    It is (s_k - low)^2 / curvature, with both relative to the greatest there may be, so that
    float32 will do: the quotient only chooses.
    """
    low, own_i, factor, per_apart, per_size = about
    for k in range(len(part)):
        difference = (part[k] - low) * per_apart * np.float64((mark[k] & ~GROWS) == wanted)
        near = np.float32(difference if difference > 0.0 else 0.0)
        curvature = np.float32((own_i + own[k] - factor * row[k]) * per_size)
        gain[k] = near * near / (curvature if curvature > TINY else TINY)


@vectorized
def _signed_gains(
    row: Any, side: Any, own: Any, mark: Any, wanted: int, part: Any, about: Any, gain: Any
) -> None:
    """Do what `_gains` does where the signs differ; `own` leaves the shift to the row."""
    low, own_i, factor, shift, per_apart, per_size = about
    for k in range(len(part)):
        difference = (part[k] - low) * per_apart * np.float64((mark[k] & ~GROWS) == wanted)
        near = np.float32(difference if difference > 0.0 else 0.0)
        curvature = np.float32((own_i + own[k] - factor * side[k] * (row[k] + shift)) * per_size)
        gain[k] = near * near / (curvature if curvature > TINY else TINY)


@vectorized
def _partner(
    row: Any,
    made: Reading,
    s: Any,
    g: int,
    i: int,
    low: float,
    low_key: int,
    apart: float,
    fixed: Any,
) -> int:
    """Return the coordinate with which moving weight to i decreases the value most, or -1.

    `row` is column i of K.
    """
    scale, shift, size = fixed
    if FEW * made.n_able[0] <= len(s):
        return _partner_of_few(row, made, s, g, i, low, fixed)
    most, where, factor = np.int32(0), -1, 2.0 * scale  # the bits of 0
    for tile in range(made.high.shape[1]):
        if made.high[g, tile] <= low_key:  # nothing to gain here
            continue
        start = tile * TILE
        stop = min(start + TILE, len(s))
        gain, part = made.room[: stop - start], s[start:stop]
        own, mark, wanted = made.own[start:stop], made.mark[start:stop], SHRINKS + BITS * g
        if made.plain:
            about = (low, made.own[i] - factor * shift, factor, 1.0 / apart, 1.0 / size)
            _gains(row[start:stop], own, mark, wanted, part, about, gain)
        else:
            side, factor_i = made.side[start:stop], factor * made.side[i]
            signed = (low, made.own[i], factor_i, shift, 1.0 / apart, 1.0 / size)
            _signed_gains(row[start:stop], side, own, mark, wanted, part, signed, gain)
        bits, k = greatest32(gain)
        if bits > most:
            most, where = bits, start + k
    return where


@vectorized
def _partner_of_few(row: Any, made: Reading, s: Any, g: int, i: int, low: float, fixed: Any) -> int:
    """Do what `_partner` does where few can shrink: as on a simplex, whose points have few weights."""
    scale, shift, size = fixed
    tiny = TINY * size
    own, factor = made.own, 2.0 * scale * made.side[i]
    most, where = 0.0, -1
    for a in range(made.n_able[0]):
        k = made.able[a]
        if (made.mark[k] & ~GROWS) != SHRINKS + BITS * g or s[k] <= low:
            continue
        difference = s[k] - low
        curvature = max(own[i] + own[k] - factor * made.side[k] * (row[k] + shift), tiny)
        gain = difference * (difference / curvature)
        if gain > most or (gain == most and k < where):
            most, where = gain, k
    return where


@vectorized
def _follow(cols: Columns, made: Reading, s: Any, who: Team, first: int, last: int) -> None:
    """Let the tiles from `first` up to `last` of s follow the pair that `who` tells; note extremes."""
    i, j, t = who.place[0], who.place[1], who.number[0]
    a, b = cols.scale * t * made.side[i], -cols.scale * t * made.side[j]
    rest = (a + b) * cols.shift
    row_i, row_j = cols.store[cols.slot[i]], cols.store[cols.slot[j]]
    for tile in range(first, last):
        start = tile * TILE
        stop = min(start + TILE, len(s))
        near, far, part, side = row_i[start:stop], row_j[start:stop], s[start:stop], made.side
        anew = start <= i < stop or start <= j < stop
        if made.every[tile] and made.high[0, tile] == -GREATEST and not anew:
            if made.plain:
                made.low[0, tile] = add_least(near, far, 1.0, a, b, rest, part)
            else:
                low = add_least_signed(near, far, side[start:stop], 1.0, a, b, rest, part)
                made.low[0, tile] = low
            continue
        if made.plain:
            add(near, far, 1.0, a, b, rest, part)
        else:
            add_signed(near, far, side[start:stop], 1.0, a, b, rest, part)
        if start <= i < stop:
            s[i] += cols.ridge[i] * t
        if start <= j < stop:
            s[j] -= cols.ridge[j] * t
        _note(made, s, tile, anew)


@vectorized
def _pieces(cols: Columns, made: Reading, s: Any, who: Team, number: int, mine: int) -> None:
    """Do pieces of a pass until all are taken."""
    for k in range(len(who.taken)):
        first, last = take(who, number, mine, k)
        if first < last:
            _follow(cols, made, s, who, first, last)
            done(who)


@vectorized
def assist_pairs(cols: Columns, made: Reading, s: Any, who: Team) -> None:
    """Do pieces of whatever is offered until the steps are over."""
    mine, last = join(who), 0
    while not over(who):
        number = offered(who)
        if number > last:
            _pieces(cols, made, s, who, number, mine)
            last = number


@vectorized
def pairs(
    cols: Columns,
    z: Any,
    upper: Any,
    x: Any,
    s: Any,
    grow: Any,
    shrink: Any,
    n_steps: int,
    spread: float,
    missing: Any,
) -> Any:
    """Make steps in place; return the number done and why it came back.

    It is stalled once no pair's gradients differ by more than `spread`.
    """
    made = read(cols, z, s, grow, shrink)
    who = no_team()
    return pair_steps(cols, made, z, upper, x, s, grow, shrink, n_steps, spread, missing, who)


@vectorized
def pair_steps(
    cols: Columns,
    made: Reading,
    z: Any,
    upper: Any,
    x: Any,
    s: Any,
    grow: Any,
    shrink: Any,
    n_steps: int,
    spread: float,
    missing: Any,
    who: Team,
) -> Any:
    """Do what `pairs` does, given what it reads."""
    n_groups, n_tiles = made.low.shape
    side, own = made.side, made.own
    size = made.size[0]
    tiny = TINY * size
    fixed = (cols.scale, cols.shift, size)
    cell = np.empty(1, np.int64)
    for step in range(n_steps):
        g: Any = np.int64(0)  # literals would have `_partner` compiled twice
        i: Any = np.int64(-1)
        low, low_key, violation = 0.0, GREATEST, 0.0
        for h in range(n_groups):
            tile, least, most = 0, GREATEST, -GREATEST
            for t in range(n_tiles):
                if made.low[h, t] < least:
                    tile, least = t, made.low[h, t]
                if made.high[h, t] > most:
                    most = made.high[h, t]
            if least == GREATEST or most == -GREATEST:
                continue
            start = tile * TILE
            stop = min(start + TILE, len(s))
            mark = made.mark[start:stop]
            k = start + first_of(s[start:stop], least, mark, GROWS + BITS * h, ~SHRINKS)
            cell[0] = most ^ ((most >> 63) & GREATEST)
            apart = cell.view(np.float64)[0] - s[k]
            if apart > violation:
                g, i, low, low_key, violation = h, k, s[k], least, apart
        if i < 0 or violation <= spread:
            return step, 1
        if not held(cols, i):
            missing[:] = i
            return step, MISSING
        row_i = cols.store[cols.slot[i]]
        j = _partner(row_i, made, s, g, i, low, low_key, violation, fixed)
        if j < 0 or j == i:
            return step, 1
        if not held(cols, j):
            missing[0], missing[1] = i, j
            return step, MISSING
        touch(cols, i)
        touch(cols, j)
        curvature = own[i] + own[j] - 2.0 * cols.scale * side[i] * side[j] * (row_i[j] + cols.shift)
        room_i = upper[i] - x[i] if z[i] > 0.0 else x[i]
        room_j = x[j] if z[j] > 0.0 else upper[j] - x[j]
        t = min((s[j] - low) / max(curvature, tiny), room_i, room_j)
        if t > 1e300:  # the value falls without end along this pair
            return step, 1
        x[i] += z[i] * t
        x[j] -= z[j] * t
        if t >= room_i:
            x[i] = upper[i] if z[i] > 0.0 else 0.0
        if t >= room_j:
            x[j] = 0.0 if z[j] > 0.0 else upper[j]
        for k in (i, j):
            full, empty = x[k] >= upper[k], x[k] <= 0.0
            stuck, fixed_down = (full, empty) if z[k] > 0.0 else (empty, full)
            grow[g, k] = np.inf if stuck else 0.0
            shrink[g, k] = np.inf if fixed_down else 0.0
            can = (0 if stuck else GROWS) + (0 if fixed_down else SHRINKS)
            _mark(made, k, can + BITS * g)
        who.place[0], who.place[1], who.number[0] = i, j, t
        if who.shared:
            number = offer(who)
            _pieces(cols, made, s, who, number, 0)
            wait(who, number)
        else:
            _follow(cols, made, s, who, 0, n_tiles)
    return n_steps, 0
