"""Second-order SMO over a core whose Gram matrix is held: the inner solve of the core methods.

Problem: as in `qpsvm.solvers.smo`, but not the box alone; pairs are chosen as there. A core is
solved to a share of its violation, so the steps keep its gradient in single precision, relative to
that violation and to the level about which it lies. Vector code then takes twice as many entries at
once, and an extreme and its place fit into one integer. Weights, lengths of steps and curvatures are in
double precision. Once the violation has fallen to a hundredth, or after many steps, the
gradient is made anew in double precision from the weights that changed, and the steps begin again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.compiled import bare
from qpsvm.solvers.extremes import vectorized

TILE = 1024
"""Coordinates that are updated and then searched: between the two they stay in the nearest cache."""

GREATEST = np.int32(np.iinfo(np.int32).max)
LEAST = np.int32(-GREATEST)
PLACE = np.int32(TILE - 1)  # the bits of a key that say which coordinate of the tile it is
VALUE = np.int32(~PLACE)  # the others: a value, less the last bits that only choose

SHARPER = 0.7
"""Factor of the spread from one look at the gap over the core to the next."""

SHARE = 1 / 128
"""Share of the violation down to which single precision is trusted."""

OFTEN = 8
"""Steps for each coordinate after which it is not trusted, either: roundoff adds up."""

BLUR = 1.0
"""Greatest of some thousand sums of roundings, relative to the unit and to the norm of what moved: three
to four times the standard deviation, which is 1 / sqrt(12) of a rounding."""

TINY = 1e-12
"""Least curvature that is believed, relative to the greatest diagonal entry."""


class Core(NamedTuple):
    """The problem over the core: g_ij = scale side_i side_j (k_ij + shift), in terms of z x.

    k_ij is the unit times an entry of the block. Where that holds whole multiples in 16 bits it takes
    half of the memory, which is what steps over thousands of coordinates wait for.
    """

    block: NDArray[Any]  # (n, at least n), read-only
    own: NDArray[np.float64]  # (n,), the diagonal of G + D
    side: NDArray[np.floating]  # (n,), z times the sign, in the precision of curvatures
    ridge: NDArray[np.float64]  # (n,)
    z: NDArray[np.float64]  # (n,), +-1
    upper: NDArray[np.float64]  # (n,)
    shift: float
    scale: float
    unit: float = 1.0


class Reading(NamedTuple):
    """What the steps read; e is the signed gradient less its level, relative to the violation."""

    e: NDArray[np.float32]  # (n,)
    own: NDArray[np.floating]  # (n,), relative to its greatest, in the precision of `side`
    stay: NDArray[np.int32]  # (n_groups, n), 0 where z x can grow in the group, else -1: all bits
    rest: NDArray[np.int32]  # (n_groups, n), 0 where z x can shrink in the group, else -1
    low: NDArray[np.int32]  # (n_groups, n_tiles), key of the least e that can grow
    high: NDArray[np.int32]  # (n_groups, n_tiles), key of the greatest e that can shrink
    gain: NDArray[np.float32]  # (TILE,), scratch


@vectorized
def solve_inner(
    core: Core,
    x: Any,
    begun: Any,
    s: Any,
    grow: Any,
    shrink: Any,
    n_steps: int,
    spread: float,
    least: float,
    goal: float,
) -> tuple[int, float, bool]:
    """Make steps until no pair's signed gradients s differ by more than `spread`.

    And on, down to `least`, while the gap over the core is above `goal`. What single precision loses of
    the last steps may add a few per cent to that. Weights x and what they allow are changed in place. s
    is that of weights `begun`, and left as it was when the last steps began.

    Where a unit below 1 blurs s by as much as it is to spread, the steps end.

    Returns
    -------
    done : int
        Steps made.
    left : float
        By how much the s of a pair differ now, as far as the block tells.
    blurred : bool
        Whether the steps ended for the unit's sake.
    """
    n_groups, n = grow.shape
    n_tiles = (n + TILE - 1) // TILE
    made = Reading(
        np.empty(n, np.float32),
        np.empty(n, core.side.dtype),
        np.empty((n_groups, n), np.int32),
        np.empty((n_groups, n), np.int32),
        np.empty((n_groups, n_tiles), np.int32),
        np.empty((n_groups, n_tiles), np.int32),
        np.empty(TILE, np.float32),
    )
    size: Any = np.max(core.own)
    size = size if size > 0.0 else 1.0
    for k in range(n):
        made.own[k] = core.own[k] / size
    level, before, done = np.zeros(n_groups), begun.copy(), 0
    while True:
        for i in range(n):
            change = core.z[i] * (x[i] - before[i])
            if change != 0.0:
                weight, row, before[i] = core.scale * core.side[i] * change, core.block[i], x[i]
                for k in range(n):
                    s[k] += weight * core.side[k] * (core.unit * row[k] + core.shift)
                s[i] += core.ridge[i] * change
        violation = _violation(s, grow, shrink, level)
        if not min(spread, least) < violation < np.inf:
            return done, violation, False
        _read(made, s, grow, shrink, level, violation)
        since = 0
        while True:
            limit = max(0.99 * spread / violation, SHARE)  # room for what the steps lose
            most = min(n_steps - done, OFTEN * n - since)
            steps = _steps(core, made, x, grow, shrink, most, limit, violation, size)
            done, since = done + steps, since + steps
            there = steps < most and limit > SHARE
            ends = there and (spread <= least or violation * _gap(core, made, x) <= goal)
            ends = ends or done == n_steps or (since == 0 and limit == SHARE)
            spread = max(SHARPER * spread, least) if there and not ends else spread
            blurred = core.unit < 1.0 and _blur(core, x, begun) > spread
            if ends or blurred:
                return done, violation * _apart(made), blurred
            if not there:
                break


@vectorized
def _blur(core: Core, x: Any, begun: Any) -> float:
    """Return about how much the roundings of 16 bits may have moved an entry of s."""
    square = 0.0
    for k in range(len(x)):
        square += (x[k] - begun[k]) * (x[k] - begun[k])
    return BLUR * core.unit * core.scale * np.sqrt(square)


@vectorized
def _apart(made: Reading) -> float:
    """Return the greatest difference of the e of a pair."""
    worst = 0.0
    for g in range(len(made.low)):
        low, high = np.argmin(made.low[g]), np.argmax(made.high[g])
        if made.low[g, low] < GREATEST and made.high[g, high] > LEAST:
            low = low * TILE + (made.low[g, low] & PLACE)
            high = high * TILE + (made.high[g, high] & PLACE)
            worst = max(worst, np.float64(made.e[high]) - np.float64(made.e[low]))
    return worst


@vectorized
def _gap(core: Core, made: Reading, x: Any) -> float:
    """Return how much e lets weight moved in groups gain at most.

    The multipliers are halfway between the extremes, or at the lower ones where nothing has an upper
    bound; of a hinge dual it is infinite then.
    """
    gap, e = 0.0, made.e
    for g in range(len(made.low)):
        low, high = np.inf, -np.inf
        for k in range(len(e)):
            up = np.float64(e[k]) if made.stay[g, k] == 0 else np.inf
            down = np.float64(e[k]) if made.rest[g, k] == 0 else -np.inf
            low, high = min(low, up), max(high, down)
        if not low < high:
            continue
        level = 0.5 * (low + high) if core.upper[0] < np.inf else low
        for k in range(len(e)):
            slope = np.float64(e[k]) - level
            if slope < 0.0 and made.stay[g, k] == 0:
                gap -= slope * (core.upper[k] - x[k] if core.z[k] > 0.0 else x[k])
            elif slope > 0.0 and made.rest[g, k] == 0:
                gap += slope * (x[k] if core.z[k] > 0.0 else core.upper[k] - x[k])
    return gap


@vectorized
def _violation(s: Any, grow: Any, shrink: Any, level: Any) -> float:
    """Return the greatest violation of a group, and write about which level each group's s lie."""
    violation = -np.inf
    for g in range(len(grow)):
        low, high = np.inf, -np.inf
        for k in range(len(s)):
            up, down = s[k] + grow[g, k], s[k] - shrink[g, k]
            low = up if up < low else low
            high = down if down > high else high
        if low < np.inf and high > -np.inf:
            level[g], violation = low + 0.5 * (high - low), max(violation, high - low)
    return violation


@vectorized
def _read(made: Reading, s: Any, grow: Any, shrink: Any, level: Any, violation: float) -> None:
    """Write what the steps read of s and of what the weights allow."""
    made.e[:] = 0.0
    for g in range(len(grow)):
        for k in range(len(s)):
            made.stay[g, k] = 0 if grow[g, k] == 0.0 else -1
            made.rest[g, k] = 0 if shrink[g, k] == 0.0 else -1
            if grow[g, k] == 0.0 or shrink[g, k] == 0.0:
                made.e[k] = (s[k] - level[g]) / violation
        for tile in range(made.low.shape[1]):
            _note(made, g, tile)


@vectorized
def _note(made: Reading, g: int, tile: int) -> None:
    """Note the extremes of e over a tile."""
    start, stop = tile * TILE, min(tile * TILE + TILE, len(made.e))
    stay, rest = made.stay[g, start:stop], made.rest[g, start:stop]
    bits, low, high = made.e[start:stop].view(np.int32), GREATEST, LEAST
    for k in range(len(bits)):  # every operation is told to stay in 32 bits
        turn = np.int32(np.int32(bits[k] >> np.int32(31)) & GREATEST)
        key = np.int32(np.int32(np.int32(bits[k] ^ turn) & VALUE) | np.int32(k))
        up = np.int32(np.int32(key & np.int32(~stay[k])) | np.int32(GREATEST & stay[k]))
        down = np.int32(np.int32(key & np.int32(~rest[k])) | np.int32(LEAST & rest[k]))
        low = up if up < low else low
        high = down if down > high else high
    made.low[g, tile], made.high[g, tile] = low, high


@vectorized
def _gains(
    row: Any, side: Any, own: Any, rest: Any, e: Any, low: Any, about: Any, gain: Any
) -> Any:
    """Return the key of the greatest decrease that a pair with a coordinate of a tile brings.

    It is (e_k - low)^2 / curvature, but for a factor. A product of 16 and 32 bits would be one of 64.
    """
    own_i, factor, shift, tiny = about
    kind = side.dtype.type
    for k in range(len(e)):
        apart = e[k] - low
        apart = apart if apart > np.float32(0.0) else np.float32(0.0)
        curvature = np.float32(own_i + own[k] - factor * side[k] * (kind(row[k]) + shift))
        gain[k] = apart * apart / (curvature if curvature > tiny else tiny)
    bits, most = gain.view(np.int32), np.int32(-1)
    for k in range(len(e)):
        key = np.int32(np.int32(np.int32(bits[k] & VALUE) | np.int32(k)) | rest[k])
        most = key if key > most else most
    return most


@vectorized
def _add(near: Any, far: Any, side: Any, by: Any, e: Any) -> None:
    """Let a tile of e follow a pair; of entries with one sign the difference is taken first."""
    weight, turn, shift = by
    kind = side.dtype.type
    for k in range(len(e)):
        e[k] += np.float32(side[k] * (weight * (kind(near[k]) + turn * kind(far[k]) + shift)))


@vectorized
def _steps(
    core: Core,
    made: Reading,
    x: Any,
    grow: Any,
    shrink: Any,
    n_steps: int,
    goal: float,
    violation: float,
    size: float,
) -> int:
    """Make steps until no group's e differ by more than `goal`; return how many."""
    core, made, x, grow, shrink = bare((core, made, x, grow, shrink))
    e, n_groups, n_tiles = made.e, made.low.shape[0], made.low.shape[1]
    block, side, own, z, upper = core.block, core.side, core.own, core.z, core.upper
    unit, shift = core.unit, core.shift / core.unit
    number = np.empty(5, side.dtype)  # scalars in the precision of curvatures
    number[0], least = shift, TINY * np.max(own)
    for step in range(n_steps):
        g, i, worst = 0, -1, np.float64(goal)
        for h in range(n_groups):
            low, high = np.argmin(made.low[h]), np.argmax(made.high[h])
            if made.low[h, low] == GREATEST or made.high[h, high] == LEAST:
                continue
            at = low * TILE + (made.low[h, low] & PLACE)
            apart = np.float64(e[high * TILE + (made.high[h, high] & PLACE)] - e[at])
            if apart > worst:
                g, i, worst = h, at, apart
        if i < 0:
            return step
        row_i, most, j = block[i], np.int32(PLACE), -1
        number[1], number[2] = own[i] / size, 2.0 * core.scale * unit / size * side[i]
        about = (number[1], number[2], number[0], np.float32(TINY))
        for tile in range(n_tiles):
            a, b = tile * TILE, min(tile * TILE + TILE, len(e))
            if made.high[g, tile] != LEAST:
                gain, rest = made.gain[: b - a], made.rest[g, a:b]
                key = _gains(row_i[a:b], side[a:b], made.own[a:b], rest, e[a:b], e[i],
                             about, gain)  # fmt: skip
                if key > (most | PLACE):
                    most, j = key, a + (key & PLACE)
        if j < 0 or j == i:
            return step
        row_j, both = block[j], side[i] * side[j]
        curvature = own[i] + own[j] - 2.0 * core.scale * both * (unit * row_i[j] + core.shift)
        room_i = upper[i] - x[i] if z[i] > 0.0 else x[i]
        room_j = x[j] if z[j] > 0.0 else upper[j] - x[j]
        wanted = (np.float64(e[j]) - np.float64(e[i])) * violation
        t = min(wanted / max(curvature, least), room_i, room_j)
        if t > 1e300:  # the value falls without end along this pair
            return step
        x[i] += z[i] * t
        x[j] -= z[j] * t
        if t >= room_i:
            x[i] = upper[i] if z[i] > 0.0 else 0.0
        if t >= room_j:
            x[j] = 0.0 if z[j] > 0.0 else upper[j]
        for k in (i, j):
            full, empty = x[k] >= upper[k], x[k] <= 0.0
            stuck, down = (full, empty) if z[k] > 0.0 else (empty, full)
            grow[g, k] = np.inf if stuck else 0.0
            shrink[g, k] = np.inf if down else 0.0
            made.stay[g, k], made.rest[g, k] = -1 if stuck else 0, -1 if down else 0
        part = t / violation
        e[i] += np.float32(core.ridge[i] * part)
        e[j] -= np.float32(core.ridge[j] * part)
        number[2], number[3] = core.scale * unit * part * side[i], -both
        number[4] = shift * (1.0 - both)
        by = (number[2], number[3], number[4])
        for tile in range(n_tiles):
            a, b = tile * TILE, min(tile * TILE + TILE, len(e))
            _add(row_i[a:b], row_j[a:b], side[a:b], by, e[a:b])
            for h in range(n_groups):
                _note(made, h, tile)
    return n_steps
