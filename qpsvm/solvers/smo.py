"""Sequential minimal optimization with second-order working sets, on held columns.

Problem: minimize 1/2 x'(G + D)x + c'x over 0 <= x <= u with sum z_i x_i fixed in each group, z = +-1.
That covers the simplex, the product of simplices (z = 1) and the box with a hyperplane (z = y).

Each step moves weight between two coordinates of one group. The first is the steepest one; the
second is the one with which the decrease of the value is greatest (Fan, Chen and Lin, "Working set
selection using second order information for training support vector machines", WSS 2; on the
simplex it is pairwise Frank-Wolfe with a second-order away vertex).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane, Domain, SimplexProduct
from qpsvm.forms import QP
from qpsvm.gram.columns import Columns
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.frank_wolfe import MISSING, two_points
from qpsvm.solvers.steps import add_column, compiled, entry, held, touch


@dataclass(frozen=True)
class SMO(Solver):
    """Second-order SMO; it has no settings."""

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct, BoxHyperplane)

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> SMOState:
        """Return the state at x0, or at two points of a simplex, or at 0 in a box."""
        domain, m = problem.domain, problem.m
        if isinstance(domain, SimplexProduct):
            x = two_points(problem) if x0 is None else domain.repair(x0)
            group, sign, upper = domain.group, np.ones(m), np.full(m, np.inf)
        else:
            assert isinstance(domain, BoxHyperplane)
            x = np.zeros(m) if x0 is None else domain.repair(x0)
            group, sign, upper = np.zeros(m, np.int64), domain.y, domain.upper
        product = problem.gram.product(x) if x.any() else np.zeros(m)
        return SMOState(x, product, group, sign, upper)

    def advance(self, problem: QP, state: SMOState, n_steps: int) -> Reply:
        """Run the compiled steps until they are done or a column is missing, then fill it."""
        assert problem.store is not None
        missing = np.full(2, -1, np.int64)
        done, why = pairs(
            problem.columns(),
            state.group,
            int(state.group.max()) + 1,
            state.sign,
            state.upper,
            problem.linear,
            state.x,
            state.product,
            n_steps,
            0.0,
            missing,
        )
        state.n_steps += done
        if why == MISSING:
            problem.store.ensure(missing)
            why = Stop.BUDGET.value
        return Reply(done, Stop(why))

    def refresh(self, problem: QP, state: SMOState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x."""
        state.product[:] = product


@dataclass
class SMOState:
    """A point of the domain with its product, and the domain as the steps see it."""

    x: NDArray[np.float64]  # weights
    product: NDArray[np.float64]  # G x, without the ridge
    group: NDArray[np.int64]  # which equality constraint a coordinate belongs to
    sign: NDArray[np.float64]  # its coefficient z there
    upper: NDArray[np.float64]  # u
    n_steps: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind."""
        return {"pair": self.n_steps}


@compiled
def pairs(
    cols: Columns,
    group: Any,
    n_groups: int,
    z: Any,
    upper: Any,
    c: Any,
    x: Any,
    p: Any,
    n_steps: int,
    spread: float,
    missing: Any,
) -> Any:
    """Make steps in place; return the number done and why it came back.

    It is stalled once no pair's gradients differ by more than `spread`.
    """
    first = np.empty(n_groups, np.int64)
    rise = np.empty(n_groups)  # least z f among the coordinates whose z x can grow
    fall = np.empty(n_groups)  # greatest z f among those whose z x can shrink
    ridge = cols.ridge
    m = x.shape[0]
    tiny = 0.0
    for k in range(m):
        tiny = max(tiny, cols.scale * (cols.diag[k] + cols.shift) + ridge[k])
    tiny *= 1e-12
    for step in range(n_steps):
        rise[:] = np.inf
        fall[:] = -np.inf
        for k in range(m):
            s = z[k] * (p[k] + ridge[k] * x[k] + c[k])
            g = group[k]
            can_grow = x[k] < upper[k] if z[k] > 0.0 else x[k] > 0.0
            can_shrink = x[k] > 0.0 if z[k] > 0.0 else x[k] < upper[k]
            if can_grow and s < rise[g]:
                rise[g] = s
                first[g] = k
            if can_shrink and s > fall[g]:
                fall[g] = s
        best = -1
        violation = 0.0
        for g in range(n_groups):
            if fall[g] - rise[g] > violation:
                violation = fall[g] - rise[g]
                best = g
        if best < 0 or violation <= spread:
            return step, 1
        if not np.isfinite(violation):
            return step, 3
        i = first[best]
        if not held(cols, i):
            missing[:] = i
            return step, MISSING
        # the partner with the greatest decrease (difference^2 / curvature)
        row = cols.store[cols.slot[i]]
        own = cols.scale * (cols.diag[i] + cols.shift) + ridge[i]
        j = -1
        most = 0.0
        for k in range(m):
            if group[k] != best or k == i:
                continue
            can_shrink = x[k] > 0.0 if z[k] > 0.0 else x[k] < upper[k]
            difference = z[k] * (p[k] + ridge[k] * x[k] + c[k]) - rise[best]
            if can_shrink and difference > 0.0:
                # z_i z_k g_ik; the ridge is diagonal
                cross = cols.scale * cols.sign[i] * cols.sign[k] * (row[k] + cols.shift)
                other = cols.scale * (cols.diag[k] + cols.shift) + ridge[k]
                curvature = max(own + other - 2.0 * z[i] * z[k] * cross, tiny)
                decrease = difference * difference / curvature
                if decrease > most:
                    most = decrease
                    j = k
        if j < 0:
            return step, 1
        if not held(cols, j):
            missing[0] = i
            missing[1] = j
            return step, MISSING
        touch(cols, i)
        touch(cols, j)
        other = cols.scale * (cols.diag[j] + cols.shift) + ridge[j]
        curvature = max(own + other - 2.0 * z[i] * z[j] * entry(cols, i, j), tiny)
        difference = z[j] * (p[j] + ridge[j] * x[j] + c[j]) - rise[best]
        room_i = upper[i] - x[i] if z[i] > 0.0 else x[i]
        room_j = x[j] if z[j] > 0.0 else upper[j] - x[j]
        t = min(difference / curvature, room_i, room_j)
        at_i = t >= room_i
        at_j = t >= room_j
        x[i] += z[i] * t
        x[j] -= z[j] * t
        if at_i:
            x[i] = upper[i] if z[i] > 0.0 else 0.0
        if at_j:
            x[j] = 0.0 if z[j] > 0.0 else upper[j]
        add_column(cols, i, z[i] * t, p)
        add_column(cols, j, -z[j] * t, p)
    return n_steps, 0
