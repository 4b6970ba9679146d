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
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, PenaltyBox, SimplexProduct
from qpsvm.forms import QP
from qpsvm.gram.columns import Columns
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.starts import for_pairs
from qpsvm.solvers.steps import LANES, MISSING, held, least, touch, vectorized

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
            done, why = pairs(cols, *state.arrays(), n_steps, 0.0, missing)
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


@vectorized
def _greatest(s: Any, barred: Any, best: Any) -> float:
    """Return the greatest s - barred."""
    best[:] = -np.inf
    whole = len(s) // LANES * LANES
    for start in range(0, whole, LANES):
        a, bar = s[start : start + LANES], barred[start : start + LANES]
        for l in range(LANES):
            v = a[l] - bar[l]
            best[l] = v if v > best[l] else best[l]
    high = best.max()
    for k in range(whole, len(s)):
        high = max(high, s[k] - barred[k])
    return high


@vectorized
def _partner(
    row: Any,
    side: Any,
    own: Any,
    s: Any,
    barred: Any,
    i: int,
    low: float,
    fixed: Any,
    best: Any,
    at: Any,
) -> int:
    """Return the coordinate with which moving weight to i decreases the value most, or -1.

    The decrease is (s_k - low)^2 / curvature / 2. `row` is column i of K, `side` = z sign, `own`
    the diagonal of G + D.
    """
    scale, shift, tiny = fixed
    factor, own_i = 2.0 * scale * side[i], own[i]
    for l in range(LANES):
        best[l], at[l] = 0.0, -1
    whole = len(s) // LANES * LANES
    for start in range(0, whole, LANES):
        stop = start + LANES
        a, bar, k_i = s[start:stop], barred[start:stop], row[start:stop]
        way, d = side[start:stop], own[start:stop]
        for l in range(LANES):
            difference = a[l] - low - bar[l]
            difference = difference if difference > 0.0 else 0.0
            curvature = own_i + d[l] - factor * way[l] * (k_i[l] + shift)
            curvature = curvature if curvature > tiny else tiny
            v = difference * (difference / curvature)  # in this order nothing overflows
            better = v > best[l]
            best[l] = v if better else best[l]
            at[l] = start + l if better else at[l]
    most, where = 0.0, -1
    for l in range(LANES):
        if at[l] >= 0 and (best[l] > most or (best[l] == most and at[l] < where)):
            most, where = best[l], at[l]
    for k in range(whole, len(s)):
        difference = max(s[k] - low - barred[k], 0.0)
        curvature = max(own_i + own[k] - factor * side[k] * (row[k] + shift), tiny)
        v = difference * (difference / curvature)
        if v > most:
            most, where = v, k
    return where


@vectorized
def _shift_pair(
    row_i: Any, row_j: Any, side: Any, a: float, b: float, shift: float, s: Any
) -> None:
    """Add side (a (k_i + shift) + b (k_j + shift)) to s."""
    rest = (a + b) * shift
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
    n_groups = len(grow)
    side = z * cols.sign
    own = cols.scale * (cols.diag + cols.shift) + cols.ridge
    fixed = (cols.scale, cols.shift, 1e-12 * np.max(own))
    tiny = fixed[2]
    best, at = np.empty(LANES), np.empty(LANES, np.int64)
    for step in range(n_steps):
        g, i, low, violation = 0, -1, 0.0, 0.0
        for h in range(n_groups):
            lowest, candidate = least(s, grow[h], best, at)
            most = _greatest(s, shrink[h], best)
            if most - lowest > violation:
                g, i, low, violation = h, candidate, lowest, most - lowest
        if i < 0 or violation <= spread:
            return step, 1
        if not held(cols, i):
            missing[:] = i
            return step, MISSING
        row_i = cols.store[cols.slot[i]]
        j = _partner(row_i, side, own, s, shrink[g], i, low, fixed, best, at)
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
        change = cols.scale * t
        _shift_pair(row_i, row_j, side, change * side[i], -change * side[j], cols.shift, s)
        s[i] += cols.ridge[i] * t
        s[j] -= cols.ridge[j] * t
        for k in (i, j):
            full, empty = x[k] >= upper[k], x[k] <= 0.0
            grow[g, k] = np.inf if (full if z[k] > 0.0 else empty) else 0.0
            shrink[g, k] = np.inf if (empty if z[k] > 0.0 else full) else 0.0
    return n_steps, 0


@vectorized
def _steepest(own: Any, s: Any, grow: Any, shrink: Any, tiny: float, best: Any, at: Any) -> int:
    """Return the coordinate whose best step decreases the value most, s^2 / own / 2, or -1."""
    for l in range(LANES):
        best[l], at[l] = 0.0, -1
    whole = len(s) // LANES * LANES
    for start in range(0, whole, LANES):
        stop = start + LANES
        a, up, down, d = s[start:stop], grow[start:stop], shrink[start:stop], own[start:stop]
        for l in range(LANES):
            rise, fall = -a[l] - up[l], a[l] - down[l]
            slope = rise if rise > fall else fall
            slope = slope if slope > 0.0 else 0.0
            v = slope * (slope / (d[l] if d[l] > tiny else tiny))
            better = v > best[l]
            best[l] = v if better else best[l]
            at[l] = start + l if better else at[l]
    most, where = 0.0, -1
    for l in range(LANES):
        if at[l] >= 0 and (best[l] > most or (best[l] == most and at[l] < where)):
            most, where = best[l], at[l]
    for k in range(whole, len(s)):
        slope = max(-s[k] - grow[k], s[k] - shrink[k], 0.0)
        v = slope * (slope / max(own[k], tiny))
        if v > most:
            most, where = v, k
    return where


@vectorized
def singles(
    cols: Columns, upper: Any, x: Any, s: Any, grow: Any, shrink: Any, n_steps: int, missing: Any
) -> Any:
    """Make steps of one coordinate in place; return the number done and why it came back."""
    own = cols.scale * (cols.diag + cols.shift) + cols.ridge
    tiny = 1e-12 * np.max(own)
    best, at = np.empty(LANES), np.empty(LANES, np.int64)
    for step in range(n_steps):
        i = _steepest(own, s, grow[0], shrink[0], tiny, best, at)
        if i < 0:
            return step, 1
        if not held(cols, i):
            missing[:] = i
            return step, MISSING
        touch(cols, i)
        room = upper[i] - x[i] if s[i] < 0.0 else x[i]
        t = min(abs(s[i]) / max(own[i], tiny), room)
        if t > 1e300:  # the value falls without end along this coordinate
            return step, 1
        up = s[i] < 0.0
        before = x[i]
        if t >= room:
            x[i] = upper[i] if up else 0.0
        else:
            x[i] += t if up else -t
        change = cols.scale * cols.sign[i] * (x[i] - before)
        row, sign = cols.store[cols.slot[i]], cols.sign
        for k in range(len(s)):
            s[k] += change * sign[k] * (row[k] + cols.shift)
        s[i] += cols.ridge[i] * (x[i] - before)
        grow[0, i] = np.inf if x[i] >= upper[i] else 0.0
        shrink[0, i] = np.inf if x[i] <= 0.0 else 0.0
    return n_steps, 0
