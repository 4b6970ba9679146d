"""Second-order SMO over a core whose Gram matrix is held: the inner solve of the core methods.

Problem: as in `qpsvm.solvers.smo.smo`, but not the box alone; pairs are chosen as there. A core is
solved to a share of its violation, so the steps keep its gradient in single precision, relative to
that violation and to the level about which it lies: vectors then hold twice as many entries. Weights,
lengths of steps and curvatures are in double precision. Once the violation has fallen to a hundredth, or
after many steps, the gradient is made anew in double precision from the weights that changed, and the
steps begin again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import vectorized, without_refcounts
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.working_set.inner_smo_simd import follow, note, partner

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
    """What the steps read; e is the signed gradient less its level, relative to the violation.

    There are n numbers each, but LANES of them at least: of those beyond n nothing can move.
    """

    e: NDArray[np.float32]
    side: NDArray[np.floating]  # as that of the core
    own: NDArray[np.floating]  # relative to its greatest, in the same precision
    stay: NDArray[np.int8]  # (n_groups, ...), 0 where z x can grow in the group, else 1
    rest: NDArray[np.int8]  # (n_groups, ...), 0 where z x can shrink in the group, else 1
    least: NDArray[np.intp]  # (n_groups,), where e is least among what can grow, or -1
    most: NDArray[np.intp]  # (n_groups,), where e is greatest among what can shrink, or -1


def solve_inner(
    core: Core,
    x: NDArray[np.float64],
    begun: NDArray[np.float64],
    s: NDArray[np.float64],
    grow: NDArray[np.float64],
    shrink: NDArray[np.float64],
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
    width = max(n, VECTOR_LANES)
    if width > n:
        wider = np.zeros((n, width), core.block.dtype)
        wider[:, :n] = core.block[:, :n]
        wider.flags.writeable = False
        core = core._replace(block=wider)
    side, own = np.ones((2, width), core.side.dtype)
    side[:n] = core.side
    moves, places = np.ones((2, n_groups, width), np.int8), np.full((2, n_groups), -1, np.intp)
    made = Reading(np.zeros(width, np.float32), side, own, *moves, *places)
    limits = n_steps, spread, least, goal
    return _solve(core, made, x, begun, s, grow, shrink, *limits)


@vectorized
def _solve(
    core: Core,
    made: Reading,
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
    """Do what `solve_inner` does, given room for what the steps read."""
    n_groups, n = grow.shape
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
    for g in range(len(made.least)):
        if made.least[g] >= 0 and made.most[g] >= 0:
            apart = np.float64(made.e[made.most[g]]) - np.float64(made.e[made.least[g]])
            worst = max(worst, apart)
    return worst


@vectorized
def _gap(core: Core, made: Reading, x: Any) -> float:
    """Return how much e lets weight moved in groups gain at most.

    The multipliers are halfway between the extremes, or at the lower ones where nothing has an upper
    bound; of a hinge dual it is infinite then.
    """
    gap, e = 0.0, made.e
    for g in range(len(made.least)):
        low, high = np.inf, -np.inf
        for k in range(len(x)):
            up = np.float64(e[k]) if made.stay[g, k] == 0 else np.inf
            down = np.float64(e[k]) if made.rest[g, k] == 0 else -np.inf
            low, high = min(low, up), max(high, down)
        if not low < high:
            continue
        level = 0.5 * (low + high) if core.upper[0] < np.inf else low
        for k in range(len(x)):
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
            made.stay[g, k] = 0 if grow[g, k] == 0.0 else 1
            made.rest[g, k] = 0 if shrink[g, k] == 0.0 else 1
            if grow[g, k] == 0.0 or shrink[g, k] == 0.0:
                made.e[k] = (s[k] - level[g]) / violation
    for g in range(len(grow)):
        made.least[g], made.most[g] = note(made.e, made.stay[g], made.rest[g])


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
    core, made, x, grow, shrink = without_refcounts((core, made, x, grow, shrink))
    e, block, side, own, z, upper = made.e, core.block, made.side, core.own, core.z, core.upper
    unit, shift = core.unit, core.shift / core.unit
    number = np.empty(4, side.dtype)  # scalars in the precision of curvatures
    number[3], least = TINY, TINY * np.max(own)
    for step in range(n_steps):
        g, i, worst = 0, -1, np.float64(goal)
        for h in range(len(made.least)):
            low, high = made.least[h], made.most[h]
            if low >= 0 and high >= 0:
                apart = np.float64(e[high] - e[low])
                if apart > worst:
                    g, i, worst = h, low, apart
        if i < 0:
            return step
        row_i, number[0], number[2] = block[i], own[i] / size, shift
        number[1] = 2.0 * core.scale * unit / size * side[i]
        about = (number[0], number[1], number[2], number[3])
        j = partner(row_i, side, made.own, made.rest[g], e, e[i], about)
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
            made.stay[g, k], made.rest[g, k] = 1 if stuck else 0, 1 if down else 0
        part = t / violation
        e[i] += np.float32(core.ridge[i] * part)
        e[j] -= np.float32(core.ridge[j] * part)
        number[0], number[1] = core.scale * unit * part * side[i], -both
        number[2] = shift * (1.0 - both)
        by = (number[0], number[1], number[2])
        made.least[0], made.most[0] = follow(row_i, row_j, side, by, e, made.stay[0], made.rest[0])
        for h in range(1, len(made.least)):
            made.least[h], made.most[h] = note(e, made.stay[h], made.rest[h])
    return n_steps
