"""Working-set decomposition over shards: the client solves the working set, shards keep the gradients.

An iteration is that of `qpsvm.solvers.working_set.decomposition`. Shards send their maximum violators as
(index, value). The client fetches the points that it adds to the working set, sends them to all shards
once, and solves the working set by the inner steps of one process. Afterwards it sends moves of weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.distributed.kernel_sums import step_precision
from qpsvm.distributed.sharded_qp import Known, Product, ShardedQP
from qpsvm.distributed.violators import by_turns
from qpsvm.distributed.working_set import NO_POINTS, OnShardedWorkingSet, ShardedState
from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, SimplexProduct
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.working_set.decomposition import (
    BLOCK_ENTRY_LIMITS,
    CHECK_PERIOD,
    CHECK_VIOLATION_FRACTION,
    INNER_GAP_FRACTION,
    MIN_TOLERANCE_FRACTION,
    SETTLED_NEW_FRACTION,
    Decomposition,
)
from qpsvm.solvers.working_set.gram_block import compact
from qpsvm.solvers.working_set.working_set import members_to_keep

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

OFFERED_POINTS_FACTOR = 1.5
"""Number of points that shards send with their violators, relative to the number that may be added."""

CORNER_SAMPLE_SIZE = 64
"""Number of points of a capped simplex whose mean predicts the outliers."""


@dataclass(frozen=True)
class ShardedDecomposition(OnShardedWorkingSet):
    """Solve over a working set whose members come from all shards.

    Parameters
    ----------
    settings : Decomposition
        The settings of the same method in one process, for a tolerance and within a memory limit.
    """

    settings: Decomposition

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct, BoxHyperplane, CappedSimplex)
    first_check: ClassVar[int] = CHECK_PERIOD

    def period(self, problem: ShardedQP) -> int:
        """Return a short period: an iteration solves a whole reduced problem."""
        return CHECK_PERIOD

    def default_max_iter(self, problem: ShardedQP) -> int:
        """Return a budget in which every coordinate could be added twice."""
        return 500 + 2 * problem.m // self.settings.entering

    def init(self, problem: ShardedQP, x0: Vector | None, rng: Any) -> ShardedState:
        """Return the state at x0, or at a corner of the domain."""
        x = starting_point(problem) if x0 is None else problem.domain.repair(x0)
        if np.any(x):  # the products of shards start at zero
            problem.product(x)
            problem.take_exact()
        dtype = step_precision(problem.shards.kernel, problem.largest)
        state = ShardedState(
            x, Product("running"), NO_POINTS, NO_POINTS, np.empty(0), np.empty((0, 0), dtype)
        )
        support = np.flatnonzero(x > 0)
        free = support[x[support] < problem.coefficients(support).upper][: self.settings.largest]
        self.add_to_working_set(problem, state, free)
        self.step(problem, state, NO_POINTS, np.empty(0))
        state.checked_violation = state.violation
        return state

    def advance(self, problem: ShardedQP, state: ShardedState, n_steps: int) -> Reply:
        """Make one iteration."""
        violation = state.violation
        if np.isnan(violation):
            return Reply(0, Stop.NUMERICAL)
        if violation <= 0.0:
            return Reply(0, Stop.STALLED)
        # 1. Drop members at their bounds, and add the maximum violators.
        self._drop(problem, state)
        n_before = len(state.rows)
        self.add_to_working_set(problem, state, self._violators(problem, state))
        if not len(state.rows):
            return Reply(0, Stop.STALLED)
        # 2. Solve over the working set.
        settled = len(state.rows) - n_before < SETTLED_NEW_FRACTION * len(state.rows)
        moved, moves = self._solve(problem, state, settled)
        if not len(moved):
            return Reply(1, Stop.STALLED)
        # 3. Let the shards update their gradients.
        self.step(problem, state, state.ids[moved], moves)
        if state.violation > CHECK_VIOLATION_FRACTION * state.checked_violation:
            return Reply(1, Stop.BUDGET)
        state.checked_violation = state.violation
        return Reply(1, Stop.NEWS)

    def n_offers(self, problem: ShardedQP, state: ShardedState) -> tuple[int, int]:
        """Return the number of violators of each direction, and of points that come with them."""
        count = -(-self._most_entering(state) // problem.n_groups)
        return count, int(OFFERED_POINTS_FACTOR * count)

    def _most_entering(self, state: ShardedState) -> int:
        """Return the maximum number of points that the next iteration adds."""
        fewest, share, most = BLOCK_ENTRY_LIMITS
        size = max(fewest, int(share * np.count_nonzero(state.x)))
        return min(self.settings.entering, most, size)

    def _violators(self, problem: ShardedQP, state: ShardedState) -> Indices:
        """Return the maximum violators by ascending index, about half of them for each direction.

        Groups take turns.
        """
        _, low, high = problem.known["running"]
        margin = self.settings.least * state.violation
        layout = problem.shards.layout
        up = np.concatenate([layout.index(k, v.up) for k, v in enumerate(state.found)])
        down = np.concatenate([layout.index(k, v.down) for k, v in enumerate(state.found)])
        s_up = np.concatenate([v.s_up for v in state.found])
        s_down = -np.concatenate([v.s_down for v in state.found])
        rises = s_up < (high - margin)[problem.groups(up)]
        falls = s_down < -(low + margin)[problem.groups(down)]
        up, s_up, down, s_down = up[rises], s_up[rises], down[falls], s_down[falls]
        size = min(self._most_entering(state), self.max_members(problem) - len(state.rows))
        n_up = max(size // 2, size - len(down))
        n_down = max(size // 2, size - len(up))
        chosen = (
            up[by_turns(s_up, problem.groups(up))[:n_up]],
            down[by_turns(s_down, problem.groups(down))[:n_down]],
        )
        return np.unique(np.concatenate(chosen))

    def max_members(self, problem: ShardedQP) -> int:
        """Return the maximum size of the working set."""
        return min(problem.m, self.settings.max_rows_ahead or problem.m)

    def _drop(self, problem: ShardedQP, state: ShardedState) -> None:
        """Drop members at a bound that belong to no violating pair, once they are many."""
        if not len(state.rows):
            return
        barriers = self.barriers(problem, state)
        found = members_to_keep(state.s, *barriers, state.violation, self.settings.largest)
        if found is None:
            return
        keep = compact(state.block, found[0])
        state.rows, state.ids, state.s = state.rows[keep], state.ids[keep], state.s[keep]

    def _solve(
        self, problem: ShardedQP, state: ShardedState, settled: bool
    ) -> tuple[Indices, Vector]:
        """Make the inner steps; return which members moved, and their moves times their signs."""
        noise = 4.0 * FLOAT64_EPS * float(np.max(np.abs(state.s)))
        tolerance, min_tolerance = max(self.settings.inner_tol * state.violation, noise), np.inf
        goal = 0.0
        if settled:
            min_tolerance = max(MIN_TOLERANCE_FRACTION * state.violation, noise)
            goal = INNER_GAP_FRACTION * (self.settings.target or 0.0) * problem.remembered.value
        return self.solve_members(problem, state, tolerance, min_tolerance, goal)


def starting_point(problem: ShardedQP) -> Vector:
    """Return a starting point by the kind of the domain.

    In a box it is 0, on simplices the first vertex of each, on capped simplices that of the outliers.
    """
    if problem.kind == "hyperplane":
        return np.zeros(problem.m)
    if problem.kind == "simplex":
        return problem.domain.linear_min(np.zeros(problem.m))
    return corner(problem)


def corner(problem: ShardedQP) -> Vector:
    """Return a vertex of simplices with upper bounds: see `qpsvm.solvers.shared.starting_points`.

    Candidates are the points whose gradient is below the least multiplier that was found to fill the
    bounds of a simplex. The vertex is that of the least gradients among them.
    """
    domain, shards, x = problem.domain, problem.shards, np.zeros(problem.m)
    assert isinstance(domain, CappedSimplex)
    for of, total in zip(domain.members, domain.total, strict=True):
        own = np.arange(problem.m)[of]
        sample = own[np.unique(np.linspace(0, len(own) - 1, CORNER_SAMPLE_SIZE).astype(np.int64))]
        x[sample] = total / len(sample)
    problem.product(x)
    # x may exceed its bounds, so that the extremes of its gradient need not enclose the level.
    problem.known["exact"] = Known(x)
    filled = problem.best_levels("exact").filled
    if not np.isfinite(filled).all():  # kernel values overflow, which the iterations detect
        return domain.linear_min(problem.linear)
    below = shards.call("below", "exact", np.nextafter(filled, np.inf))
    found = shards.call("entries", "exact", each=[(local,) for local in below])
    rows = np.concatenate([shards.layout.index(k, local) for k, local in enumerate(below)])
    order = np.argsort(rows)
    rows, gradient = rows[order], np.concatenate(found)[order]
    corner = np.zeros(problem.m)
    corner[rows] = domain.take(rows).linear_min(gradient + problem.linear[rows])
    return corner
