"""Steps of pairs of coordinates, the second one by second-order information: `smo` at work.

One step is one pass over the points of tiles that hold a partner and one over all points, which
updates the signed gradient and notes its extremes. Sources and problem: `qpsvm.solvers.smo.smo`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.argextremes import MAX_KEY, first_of, greatest32
from qpsvm.numerics.jit import bits64, from64, inlined, vectorized, without_refcounts
from qpsvm.numerics.work_sharing import (
    TILE_POINTS,
    WorkSharing,
    claim,
    closed,
    finish,
    join,
    publish,
    published,
    register,
    work_sharing_for,
)
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING, is_cached, touch
from qpsvm.solvers.shared.gradient_pass import add_least, add_least_signed


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


def read(cols: Columns, z: Any, s: Any, grow: Any, shrink: Any) -> Reading:
    """Return what the steps read, for a new s."""
    n_groups, m = grow.shape
    starts, up, down = np.arange(0, m, TILE_POINTS), grow == 0.0, shrink == 0.0
    bits = s.view(np.int64)
    keys = bits ^ ((bits >> 63) & MAX_KEY)
    kind = up.astype(np.int32)
    kind[down] += SHRINKS
    if n_groups > 1:
        kind[1:] += (kind[1:] > 0) * BITS * np.arange(1, n_groups)[:, None]
    mark = np.add.reduce(kind, axis=0, dtype=np.int32)
    every = np.logical_and.reduceat(up[0], starts) & (n_groups == 1)
    some, able = np.nonzero(down)[1], np.empty(m, np.int64)
    able[: len(some)] = some
    side = (z * cols.sign).astype(np.int8)
    own = cols.scale * (cols.diag + cols.shift) + cols.ridge
    return Reading(
        side,
        own,
        mark,
        np.minimum.reduceat(np.where(up, keys, MAX_KEY), starts, axis=1),
        np.maximum.reduceat(np.where(down, keys, -MAX_KEY), starts, axis=1),
        every,
        able,
        np.array([len(some)]),
        np.empty(TILE_POINTS, np.float32),
        np.array([own.max()]),
        bool(side.min() > 0),
    )


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
def _extremes(s: Any, mark: Any, group: int) -> Any:
    """Return the keys of the least s of a tile that can grow and of the greatest that can shrink."""
    low, high = MAX_KEY, -MAX_KEY
    for k in range(len(s)):
        bits = bits64(s[k])
        key = bits ^ ((bits >> 63) & MAX_KEY)
        out = -np.int64((mark[k] & ~SHRINKS) != GROWS + group)  # all bits, or none: no branch
        below = (key & ~out) | (MAX_KEY & out)
        low = below if below < low else low
        out = -np.int64((mark[k] & ~GROWS) != SHRINKS + group)
        above = (key & ~out) | (-MAX_KEY & out)
        high = above if above > high else high
    return low, high


@vectorized
def _add(
    near: Any, far: Any, side: Any, a: float, b: float, rest: float, s: Any, mark: Any, group: int
) -> Any:
    """Add two columns to a tile, each entry with its sign; return its extremes as `_extremes` does."""
    low, high = MAX_KEY, -MAX_KEY
    for k in range(len(s)):
        value = s[k] + side[k] * (a * near[k] + b * far[k] + rest)
        s[k] = value
        bits = bits64(value)
        key = bits ^ ((bits >> 63) & MAX_KEY)
        out = -np.int64((mark[k] & ~SHRINKS) != GROWS + group)
        below = (key & ~out) | (MAX_KEY & out)
        low = below if below < low else low
        out = -np.int64((mark[k] & ~GROWS) != SHRINKS + group)
        above = (key & ~out) | (-MAX_KEY & out)
        high = above if above > high else high
    return low, high


@vectorized
def _gains(
    row: Any, side: Any, own: Any, mark: Any, wanted: int, part: Any, about: Any, gain: Any
) -> None:
    """Write the decrease of the value, but for a factor, that a pair with each point of a tile brings.

    It is (s_k - low)^2 / curvature, with both relative to the greatest there may be, so that
    float32 will do: the quotient only chooses.
    """
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
    own, where, group = made.own, -1, BITS * g
    factor = 2.0 * scale * made.side[i]
    if FEW * made.n_able[0] <= len(s):  # as on a simplex, whose points have few weights
        best, tiny = 0.0, TINY * size
        for a in range(made.n_able[0]):
            k = made.able[a]
            if (made.mark[k] & ~GROWS) != SHRINKS + group or s[k] <= low:
                continue
            difference = s[k] - low
            curvature = own[i] + own[k] - factor * made.side[k] * (row[k] + shift)
            gain = difference * (difference / (curvature if curvature > tiny else tiny))
            if gain > best or (gain == best and k < where):
                best, where = gain, k
        return where
    most = np.int32(0)  # the bits of 0
    own_i = own[i]
    if made.plain:  # the same number for all
        own_i, shift = own_i - factor * shift, 0.0
    about = (low, own_i, factor, shift, 1.0 / apart, 1.0 / size)
    for tile in range(made.high.shape[1]):
        if made.high[g, tile] <= low_key:  # nothing to gain here
            continue
        start = tile * TILE_POINTS
        gains = made.room[: len(s) - start]
        stop = start + len(gains)
        _gains(
            row[start:stop],
            made.side[start:stop],
            own[start:stop],
            made.mark[start:stop],
            SHRINKS + group,
            s[start:stop],
            about,
            gains,
        )
        bits, k = greatest32(gains)
        if bits > most:
            most, where = bits, start + k
    return where


@inlined
def _lift(s: Any, k: int, ridge: float, t: float, low: int, high: int) -> bool:
    """Add the ridge's part to one entry; return whether it was one of the extremes or may be one now."""
    if ridge == 0.0:
        return False
    bits = bits64(s[k])
    before = bits ^ ((bits >> 63) & MAX_KEY)
    s[k] += ridge * t
    bits = bits64(s[k])
    after = bits ^ ((bits >> 63) & MAX_KEY)
    return before <= low or after <= low or before >= high or after >= high


@vectorized
def _follow(cols: Columns, made: Reading, s: Any, who: WorkSharing, number: int, mine: int) -> None:
    """Let s follow the pair that `who` tells, by the pieces that nobody has taken; note extremes."""
    i, j, t = who.int_arguments[0], who.int_arguments[1], who.float_arguments[0]
    a, b = cols.scale * t * made.side[i], -cols.scale * t * made.side[j]
    rest = (a + b) * cols.shift
    row_i, row_j = cols.store[cols.slot[i]], cols.store[cols.slot[j]]
    n_groups, first, last = len(made.low), 0, who.n_tiles
    for piece in range(len(who.claimed) if who.shared else 1):
        if who.shared:
            first, last = claim(who, number, mine, piece)
        for tile in range(first, last):
            start = tile * TILE_POINTS
            part = s[start : start + TILE_POINTS]
            stop = start + len(part)
            near, far = row_i[start:stop], row_j[start:stop]
            side, mark = made.side[start:stop], made.mark[start:stop]
            at_i, at_j = start <= i < stop, start <= j < stop
            if at_i or at_j:
                if n_groups == 1:
                    n_grow = 0
                    for k in range(len(mark)):
                        n_grow += mark[k] & GROWS
                    made.every[tile] = n_grow == len(mark)
            elif made.every[tile] and made.high[0, tile] == -MAX_KEY:
                if made.plain:
                    made.low[0, tile] = add_least(near, far, 1.0, a, b, rest, part)
                else:
                    made.low[0, tile] = add_least_signed(near, far, side, 1.0, a, b, rest, part)
                continue
            low, high = _add(near, far, side, a, b, rest, part, mark, 0)
            made.low[0, tile], made.high[0, tile] = low, high
            again = at_i and _lift(s, i, cols.ridge[i], t, low, high)
            again = (at_j and _lift(s, j, cols.ridge[j], -t, low, high)) or again
            for g in range(0 if again else 1, n_groups):
                made.low[g, tile], made.high[g, tile] = _extremes(part, mark, BITS * g)
        if who.shared and first < last:
            finish(who)


@vectorized
def assist_pairs(cols: Columns, made: Reading, s: Any, who: WorkSharing) -> None:
    """Do pieces of whatever is offered until the steps are over."""
    mine, last = register(who), 0
    while not closed(who):
        number = published(who)
        if number > last:
            _follow(cols, made, s, who, number, mine)
            last = number


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
    made, who = read(cols, z, s, grow, shrink), work_sharing_for(len(x), alone=True)
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
    who: WorkSharing,
) -> Any:
    """Do what `pairs` does, given what it reads."""
    cols, made, z, upper, x, s = without_refcounts((cols, made, z, upper, x, s))
    grow, shrink = without_refcounts((grow, shrink))
    n_groups, n_tiles = made.low.shape
    side, own = made.side, made.own
    size = made.size[0]
    tiny = TINY * size
    fixed = (cols.scale, cols.shift, size)
    zero: Any = np.int64(0)  # a literal would have functions compiled twice
    for step in range(n_steps):
        g, i = zero, zero - 1
        low, low_key, violation = 0.0, MAX_KEY, 0.0
        for h in range(n_groups):
            tile, least, most = 0, MAX_KEY, -MAX_KEY
            for t in range(n_tiles):
                if made.low[h, t] < least:
                    tile, least = t, made.low[h, t]
                if made.high[h, t] > most:
                    most = made.high[h, t]
            if least == MAX_KEY or most == -MAX_KEY:
                continue
            start = tile * TILE_POINTS
            stop = start + TILE_POINTS
            mark = made.mark[start:stop]
            k = start + first_of(s[start:stop], least, mark, GROWS + BITS * h, ~SHRINKS)
            apart = from64(most ^ ((most >> 63) & MAX_KEY)) - s[k]
            if apart > violation:
                g, i, low, low_key, violation = h, k, s[k], least, apart
        if i < 0 or violation <= spread:
            return step, 1
        if not is_cached(cols, i):
            missing[0], missing[1] = i, i
            return step, COLUMN_MISSING
        row_i = cols.store[cols.slot[i]]
        j = _partner(row_i, made, s, g, i, low, low_key, violation, fixed)
        if j < 0 or j == i:
            return step, 1
        if not is_cached(cols, j):
            missing[0], missing[1] = i, j
            return step, COLUMN_MISSING
        touch(cols, i)
        touch(cols, j)
        curvature = own[i] + own[j] - 2.0 * cols.scale * side[i] * side[j] * (row_i[j] + cols.shift)
        room_i = upper[i] - x[i] if z[i] > 0.0 else x[i]
        room_j = x[j] if z[j] > 0.0 else upper[j] - x[j]
        t = (s[j] - low) / (curvature if curvature > tiny else tiny)
        t = room_i if room_i < t else t
        t = room_j if room_j < t else t
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
        who.int_arguments[0], who.int_arguments[1], who.float_arguments[0] = i, j, t
        number = publish(who) if who.shared else zero
        _follow(cols, made, s, who, number, zero)
        if who.shared:
            join(who, number)
    return n_steps, 0
