"""Sequential minimal optimization with second-order working sets, on held columns.

Problem: minimize 1/2 x'(G + D)x + c'x over 0 <= x <= u with sum z_i x_i fixed in each group, z = +-1.
That covers the simplex, with upper bounds too, the product of simplices (z = 1) and the box with a
hyperplane (z = y). On the box alone, where nothing ties coordinates together, each step moves the one
that decreases the value most.

Otherwise a step moves weight between two coordinates of one group. The first is the steepest one; the
second is the one with which the decrease of the value is greatest (Fan, Chen and Lin, "Working set
selection using second order information for training support vector machines", WSS 2; on the
simplex it is pairwise Frank-Wolfe with a second-order away vertex).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, PenaltyBox, SimplexProduct
from qpsvm.forms import QP
from qpsvm.gram.columns import Columns
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.extremes import (
    GREATEST,
    first_of,
    greatest_key,
    greatest_key_of,
    least_key_of,
    vectorized,
)
from qpsvm.solvers.prefetch import Prefetch
from qpsvm.solvers.starts import for_pairs
from qpsvm.solvers.steps import MISSING, TILE, held, touch

WHOLE = 2000
"""Points up to which the first missing column brings all of them, in one block of milliseconds."""


@dataclass(frozen=True)
class SMO(Solver):
    """Second-order SMO; it has no settings."""

    domains: ClassVar[tuple[type[Domain], ...]] = (
        SimplexProduct,
        BoxHyperplane,
        CappedSimplex,
        PenaltyBox,
    )

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> PairState:
        """Return the state at x0, or at two points of a simplex, or at a corner of a box."""
        return PairState.at(problem, for_pairs(problem, x0))

    def advance(self, problem: QP, state: PairState, n_steps: int) -> Reply:
        """Run the compiled steps until they are done or a column is missing, then fill it."""
        assert problem.store is not None
        missing = np.full(2, -1, np.int64)
        cols = problem.columns()
        if isinstance(problem.domain, PenaltyBox):
            done, why = singles(cols, *state.arrays()[1:], n_steps, missing)
        else:
            if state.reading is None:
                state.reading = read(cols, state.z, state.s, state.grow, state.shrink)
            done, why = pair_steps(cols, state.reading, *state.arrays(), n_steps, 0.0, missing)
        state.n_steps += done
        if why == MISSING:
            whole = problem.m <= min(WHOLE, problem.store.n_slots)
            problem.store.ensure(np.arange(problem.m) if whole else missing)
            why = Stop.BUDGET.value
        return Reply(done, Stop(why))

    def refresh(self, problem: QP, state: PairState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x."""
        state.set_product(product)


@dataclass
class PairState:
    """A point of the domain with its signed gradient, and the domain as the steps see it."""

    problem: QP
    group: NDArray[np.int64]  # which equality constraint a coordinate belongs to
    z: NDArray[np.float64]  # its coefficient there
    upper: NDArray[np.float64]  # u
    x: NDArray[np.float64]  # weights
    s: NDArray[np.float64]  # z f, f = (G + D)x + c the gradient
    grow: NDArray[np.float64]  # (n_groups, m): 0 where z x can grow in the group, else infinity
    shrink: NDArray[np.float64]  # (n_groups, m): 0 where z x can shrink in the group, else infinity
    n_steps: int = 0
    reading: Reading | None = None  # what the steps read, unless s was set anew

    @classmethod
    def at(cls, problem: QP, x: NDArray[np.float64]) -> PairState:
        """Return the state at a feasible x."""
        domain, m = problem.domain, problem.m
        if isinstance(domain, SimplexProduct):
            group, z, upper = domain.group, np.ones(m), np.full(m, np.inf)
        elif isinstance(domain, CappedSimplex):
            group, z, upper = np.zeros(m, np.int64), np.ones(m), domain.upper
        else:
            assert isinstance(domain, BoxHyperplane | PenaltyBox)
            group, upper = np.zeros(m, np.int64), domain.upper
            z = domain.y if isinstance(domain, BoxHyperplane) else np.ones(m)
        shape = (int(group.max()) + 1, m)
        empty = np.empty(m), np.empty(shape), np.empty(shape)
        state = cls(problem, group, z, upper, x, *empty)
        state.set_product(problem.gram.product(x) if x.any() else np.zeros(m))
        return state

    def set_product(self, product: NDArray[np.float64]) -> None:
        """Take over G x, and what x allows."""
        ridge, c = self.problem.gram.ridge, self.problem.linear
        self.s[:] = self.z * (product + ridge * self.x + c)
        self.reading = None
        room_up = np.where(self.z > 0, self.x < self.upper, self.x > 0)
        room_down = np.where(self.z > 0, self.x > 0, self.x < self.upper)
        for g in range(len(self.grow)):
            self.grow[g] = np.where((self.group == g) & room_up, 0.0, np.inf)
            self.shrink[g] = np.where((self.group == g) & room_down, 0.0, np.inf)

    @property
    def product(self) -> NDArray[np.float64]:
        """G x, from the maintained gradient."""
        ridge, c = self.problem.gram.ridge, self.problem.linear
        return self.z * self.s - ridge * self.x - c

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        """Return what the compiled steps work on."""
        return self.z, self.upper, self.x, self.s, self.grow, self.shrink

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind."""
        return {"single" if isinstance(self.problem.domain, PenaltyBox) else "pair": self.n_steps}


class Reading(NamedTuple):
    """What a pass over all points reads beside their columns, and the extremes it notes by tiles."""

    side: NDArray[np.int8]  # (m,), z times the sign
    own: NDArray[np.float64]  # (m,), the diagonal of G + D
    mark: NDArray[np.int32]  # (m,), GROWS and SHRINKS as z x can, + BITS times the group
    low: NDArray[np.int64]  # (n_groups, n_tiles), key of the least s that can grow
    high: NDArray[np.int64]  # (n_groups, n_tiles), key of the greatest s that can shrink
    room: NDArray[np.float64]  # (TILE,), scratch


GROWS, SHRINKS, BITS = 1, 2, 4


@vectorized
def read(cols: Columns, z: Any, s: Any, grow: Any, shrink: Any) -> Any:
    """Return what the steps read, for a new s."""
    n_groups, m = grow.shape
    n_tiles = (m + TILE - 1) // TILE
    made = Reading(
        np.empty(m, np.int8),
        np.empty(m),
        np.zeros(m, np.int32),
        np.empty((n_groups, n_tiles), np.int64),
        np.empty((n_groups, n_tiles), np.int64),
        np.empty(TILE),
    )
    for k in range(m):
        made.side[k] = np.int8(z[k] * cols.sign[k])
        made.own[k] = cols.scale * (cols.diag[k] + cols.shift) + cols.ridge[k]
    for g in range(n_groups):
        for k in range(m):
            can = (GROWS if grow[g, k] == 0.0 else 0) + (SHRINKS if shrink[g, k] == 0.0 else 0)
            if can:
                made.mark[k] = can + BITS * g
    for tile in range(n_tiles):
        _note(made, s, tile)
    return made


@vectorized
def _note(made: Reading, s: Any, tile: int) -> None:
    """Note the extremes of s over a tile."""
    start = tile * TILE
    stop = min(start + TILE, len(s))
    for g in range(len(made.low)):
        part, mark = s[start:stop], made.mark[start:stop]
        made.low[g, tile] = least_key_of(part, mark, GROWS + BITS * g, ~SHRINKS)
        made.high[g, tile] = greatest_key_of(part, mark, SHRINKS + BITS * g, ~GROWS)


@vectorized
def _gains(
    row: Any,
    side: Any,
    own: Any,
    mark: Any,
    wanted: int,
    s: Any,
    low: float,
    factor: float,
    own_i: float,
    shift: float,
    tiny: float,
    gain: Any,
) -> None:
    """Write the decrease of the value, but for 1/2, that a pair with each point of a tile brings.

    It is (s_k - low)^2 / curvature.
    """
    for k in range(len(s)):
        difference = (s[k] - low) * np.float64((mark[k] & ~GROWS) == wanted)
        difference = difference if difference > 0.0 else 0.0
        curvature = own_i + own[k] - factor * side[k] * (row[k] + shift)
        curvature = curvature if curvature > tiny else tiny
        gain[k] = difference * (difference / curvature)  # in this order nothing overflows


@vectorized
def _partner(
    row: Any, made: Reading, s: Any, g: int, i: int, low: float, low_key: int, fixed: Any
) -> int:
    """Return the coordinate with which moving weight to i decreases the value most, or -1.

    `row` is column i of K.
    """
    scale, shift, tiny = fixed
    most, where = np.int64(0), -1  # the key of 0
    for tile in range(made.high.shape[1]):
        if made.high[g, tile] <= low_key:  # nothing to gain here
            continue
        start = tile * TILE
        stop = min(start + TILE, len(s))
        gain = made.room[: stop - start]
        side, own, mark = made.side[start:stop], made.own[start:stop], made.mark[start:stop]
        wanted, factor = SHRINKS + BITS * g, 2.0 * scale * made.side[i]
        part = s[start:stop]
        _gains(
            row[start:stop], side, own, mark, wanted, part, low, factor, made.own[i], shift, tiny, gain
        )
        key = greatest_key(gain)
        if key > most:
            most, where = key, start + first_of(gain, key, mark, 0, 0)
    return where


@vectorized
def _shift_pair(row_i: Any, row_j: Any, side: Any, a: float, b: float, rest: float, s: Any) -> None:
    """Add side (a k_i + b k_j + rest) to s."""
    for k in range(len(s)):
        s[k] += side[k] * (a * row_i[k] + b * row_j[k] + rest)


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
    return pair_steps(cols, made, z, upper, x, s, grow, shrink, n_steps, spread, missing)


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
) -> Any:
    """Do what `pairs` does, given what it reads."""
    n_groups, n_tiles = made.low.shape
    side, own = made.side, made.own
    tiny = 1e-12 * np.max(own)
    fixed = (cols.scale, cols.shift, tiny)
    cell = np.empty(1, np.int64)
    for step in range(n_steps):
        g, i, low, low_key, violation = 0, -1, 0.0, GREATEST, 0.0
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
        j = _partner(row_i, made, s, g, i, low, low_key, fixed)
        if j < 0 or j == i:
            return step, 1
        if not held(cols, j):
            missing[0], missing[1] = i, j
            return step, MISSING
        touch(cols, i)
        touch(cols, j)
        row_j = cols.store[cols.slot[j]]
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
            made.mark[k] = can + BITS * g
        change = cols.scale * t
        a, b = change * side[i], -change * side[j]
        for tile in range(n_tiles):
            start = tile * TILE
            stop = min(start + TILE, len(s))
            near, far, way = row_i[start:stop], row_j[start:stop], side[start:stop]
            _shift_pair(near, far, way, a, b, (a + b) * cols.shift, s[start:stop])
            if start <= i < stop:
                s[i] += cols.ridge[i] * t
            if start <= j < stop:
                s[j] -= cols.ridge[j] * t
            _note(made, s, tile)
    return n_steps, 0


@vectorized
def _single_gains(own: Any, s: Any, grow: Any, shrink: Any, tiny: float, gain: Any) -> None:
    """Write the decrease of the value, s^2 / own but for 1/2, that each point of a tile brings."""
    for k in range(len(s)):
        rise, fall = -s[k] - grow[k], s[k] - shrink[k]
        slope = rise if rise > fall else fall
        slope = slope if slope > 0.0 else 0.0
        gain[k] = slope * (slope / (own[k] if own[k] > tiny else tiny))


@vectorized
def singles(
    cols: Columns, upper: Any, x: Any, s: Any, grow: Any, shrink: Any, n_steps: int, missing: Any
) -> Any:
    """Make steps of one coordinate in place; return the number done and why it came back."""
    own = cols.scale * (cols.diag + cols.shift) + cols.ridge
    tiny = 1e-12 * np.max(own)
    m, sign = len(s), cols.sign
    n_tiles = (m + TILE - 1) // TILE
    gain, keys = np.empty(m), np.empty(n_tiles, np.int64)
    row, change, i, rise = cols.store[0], 0.0, 0, 0.0  # the first pass only looks
    for step in range(n_steps + 1):
        for tile in range(n_tiles):
            start = tile * TILE
            stop = min(start + TILE, m)
            if step > 0:
                for k in range(start, stop):
                    s[k] += change * sign[k] * (row[k] + cols.shift)
                if start <= i < stop:
                    s[i] += rise
            part, up, down = s[start:stop], grow[0, start:stop], shrink[0, start:stop]
            _single_gains(own[start:stop], part, up, down, tiny, gain[start:stop])
            keys[tile] = greatest_key(gain[start:stop])
        if step == n_steps:
            break
        tile = np.argmax(keys)
        if keys[tile] <= 0:  # the key of 0
            return step, 1
        start = tile * TILE
        part = gain[start : min(start + TILE, m)]
        i = start + np.argmax(part)
        if not held(cols, i):
            missing[:] = i
            return step, MISSING
        touch(cols, i)
        room = upper[i] - x[i] if s[i] < 0.0 else x[i]
        t = min(abs(s[i]) / max(own[i], tiny), room)
        if t > 1e300:  # the value falls without end along this coordinate
            return step, 1
        up_hill = s[i] < 0.0
        before = x[i]
        if t >= room:
            x[i] = upper[i] if up_hill else 0.0
        else:
            x[i] += t if up_hill else -t
        change, rise = cols.scale * cols.sign[i] * (x[i] - before), cols.ridge[i] * (x[i] - before)
        row = cols.store[cols.slot[i]]
        grow[0, i] = np.inf if x[i] >= upper[i] else 0.0
        shrink[0, i] = np.inf if x[i] <= 0.0 else 0.0
    return n_steps, 0
