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
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, PenaltyBox, SimplexProduct
from qpsvm.gram.column_store import Columns
from qpsvm.numerics.argextremes import greatest_key
from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.work_sharing import TILE_POINTS, WorkSharing, run_shared, work_sharing_for
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING, is_cached, touch
from qpsvm.solvers.shared.prefetch import Prefetch, least_uncached
from qpsvm.solvers.shared.starting_points import pair_start
from qpsvm.solvers.smo.pair_steps import (
    BITS,
    GROWS,
    SHRINKS,
    Reading,
    assist_pairs,
    pair_steps,
    read,
)

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

    check_threshold: ClassVar[float] = (
        0.9  # the gradient follows held columns, so that it hardly drifts
    )
    first_check: ClassVar[int] = 200  # a check costs as much as a hundred short steps
    least_period: ClassVar[int] = 100

    def next_check(self, n_iter: int, period: int) -> int:
        """Return the number of the next check: after 12 sqrt(n) steps where n were made.

        A check costs some 70 steps, and half an interval is made in vain: that is the least sum.
        """
        return n_iter + min(12 * isqrt(n_iter) if n_iter else self.first_check, period)

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> PairState:
        """Return the state at x0, or at two points of a simplex, or at a corner of a box."""
        return PairState.at(problem, pair_start(problem, x0))

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
            made, who = state.reading, state.team
            done, why = run_shared(
                who,
                lambda: pair_steps(cols, made, *state.arrays(), n_steps, 0.0, missing, who),
                lambda: assist_pairs(cols, made, state.s, who),
            )
        state.n_steps += done
        if why == COLUMN_MISSING:
            whole = problem.m <= min(WHOLE, problem.store.n_slots)
            if whole:
                problem.store.ensure(np.arange(problem.m))
            else:
                state.prefetch.serve(problem.store, np.unique(missing), state.wanted)
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
    prefetch: Prefetch
    team: WorkSharing  # who shares the passes
    room: NDArray[np.float64]  # (m,), for products: fresh memory costs more than they do
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
        state = cls(
            problem, group, z, upper, x, *empty, Prefetch(problem), work_sharing_for(m), np.empty(m)
        )
        state.set_product(problem.gram.product(x) if x.any() else np.zeros(m))
        return state

    def set_product(self, product: NDArray[np.float64]) -> None:
        """Take over G x, and what x allows."""
        ridge, c = self.problem.gram.ridge, self.problem.linear
        np.multiply(ridge, self.x, out=self.s)  # in place: fresh memory costs more than the sums
        self.s += product
        self.s += c
        self.s *= self.z
        self.reading = None
        up, room, some = self.z > 0, self.x < self.upper, self.x > 0
        grows, shrinks = (up & room) | (~up & some), (up & some) | (~up & room)
        for g in range(len(self.grow)):
            mine = self.group == g
            self.grow[g] = np.where(mine & grows, 0.0, np.inf)
            self.shrink[g] = np.where(mine & shrinks, 0.0, np.inf)

    @property
    def product(self) -> NDArray[np.float64]:
        """G x, from the maintained gradient."""
        ridge, level, product = self.problem.gram.ridge, self.problem.level, self.room
        if level is not None:  # on simplices z = 1
            np.subtract(self.s, level, out=product)
        else:
            np.multiply(self.z, self.s, out=product)
            product -= self.problem.linear
        if self.problem.gram.ridged:
            some = np.flatnonzero(self.x != 0)  # ten times as fast as without the comparison
            product[some] -= ridge[some] * self.x[some]
        return product

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        """Return what the compiled steps work on."""
        return self.z, self.upper, self.x, self.s, self.grow, self.shrink

    def wanted(self, slot: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return coordinates that violate most, in both directions, whose columns are not held."""
        if self.reading is None:  # on a box alone: those with the steepest way into it
            slope = np.maximum(-self.s - self.grow[0], self.s - self.shrink[0])
            return least_uncached(slope, -1.0, self.group, 0, -1, slot, count)
        mark, n_groups = self.reading.mark, len(self.grow)
        share, found = -(-count // n_groups), []
        for g in range(n_groups):
            down = SHRINKS + BITS * g
            found.append(least_uncached(self.s, -1.0, mark, down, ~GROWS, slot, share // 2))
            left, up = share - len(found[-1]), GROWS + BITS * g
            found.append(least_uncached(self.s, 1.0, mark, up, ~SHRINKS, slot, left))
        return np.unique(np.concatenate(found))

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind."""
        return {"single" if isinstance(self.problem.domain, PenaltyBox) else "pair": self.n_steps}


@vectorized
def _single_gains(own: Any, s: Any, grow: Any, shrink: Any, tiny: float, gain: Any) -> None:
    """Write the decrease of the value, s^2 / own but for 1/2, that each point of a tile brings."""
    for k in range(len(s)):
        rise, fall = -s[k] - grow[k], s[k] - shrink[k]
        slope = rise if rise > fall else fall
        slope = slope if slope > 0.0 else 0.0
        value = slope * (slope / (own[k] if own[k] > tiny else tiny))
        gain[k] = value if slope > 0.0 else 0.0


@vectorized
def singles(
    cols: Columns, upper: Any, x: Any, s: Any, grow: Any, shrink: Any, n_steps: int, missing: Any
) -> Any:
    """Make steps of one coordinate in place; return the number done and why it came back."""
    own = cols.scale * (cols.diag + cols.shift) + cols.ridge
    tiny = 1e-12 * np.max(own)
    m, sign = len(s), cols.sign
    n_tiles = (m + TILE_POINTS - 1) // TILE_POINTS
    gain, keys = np.empty(m), np.empty(n_tiles, np.int64)
    row, change, i, rise = cols.store[0], 0.0, 0, 0.0  # the first pass only looks
    for step in range(n_steps + 1):
        for tile in range(n_tiles):
            start = tile * TILE_POINTS
            stop = min(start + TILE_POINTS, m)
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
        tile = int(np.argmax(keys))
        if keys[tile] <= 0:  # the key of 0
            return step, 1
        start = tile * TILE_POINTS
        part = gain[start : min(start + TILE_POINTS, m)]
        i = start + int(np.argmax(part))
        if not is_cached(cols, i):
            missing[:] = i
            return step, COLUMN_MISSING
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
