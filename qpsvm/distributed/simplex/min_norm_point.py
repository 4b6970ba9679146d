"""Wolfe's minimum-norm point on simplices over shards.

An iteration is that of `qpsvm.solvers.min_norm_point.mnp`: the shards price their points, and the client
solves the dense block of the face and the most violating points. The block is in float64. The iteration
after a certificate begins with the recomputed gradients.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.distributed.sharded_qp import ShardedQP
from qpsvm.distributed.simplex.starts import feasible
from qpsvm.distributed.simplex.vertices import first_state, is_news, offered
from qpsvm.distributed.working_set import NO_POINTS, OnShardedWorkingSet, ShardedState
from qpsvm.distributed.working_set import fill_kernel_values as fill
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.solvers.base import Reply, Stop, shared
from qpsvm.solvers.min_norm_point.face import (
    FACE_SIZE,
    MEMBER_COUNT,
    empty_block,
    factor_face,
    keep_face,
)
from qpsvm.solvers.min_norm_point.mnp import (
    BLOCK_FULL,
    MAX_START_POINTS,
    MEMBER_BYTES,
    MIN_CANDIDATES_FOR_SMO,
    MIN_FACE_CHANGES,
    START_POINTS,
    WORK_PER_ITERATION,
    MinNormPointState,
    add_members,
    approach_by_smo,
    equal_weights,
    solve_block,
)
from qpsvm.solvers.min_norm_point.wolfe import (
    BLOCK_NONCONVEX,
    BLOCK_OPTIMAL,
    WORK_EXHAUSTED,
    descend,
)
from qpsvm.solvers.working_set.decomposition import CHECK_PERIOD

log = logging.getLogger("qpsvm")

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass
class MinNormShardedState(ShardedState):
    """The face and the block of one process; the members of the block are the working set."""

    inner: MinNormPointState = field(default=None)  # type: ignore[assignment]

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind, and the bytes of the block."""
        return self.inner.counters


@dataclass(frozen=True)
class ShardedMinNormPoint(OnShardedWorkingSet):
    """Wolfe's active-set method with multiple pricing by the shards.

    Parameters
    ----------
    candidates : int
        Maximum number of points that an iteration adds to the block, an equal share of each shard and
        simplex, and maximum number of its majors.
    max_block_points : int, optional
        As in one process; `solve` sets it by its `memory_limit`.
    """

    candidates: int = 512
    max_block_points: int | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)
    first_check: ClassVar[int] = CHECK_PERIOD

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("candidates", self.candidates, low=1, integer=True)

    def within(self, problem: Any, memory_limit: int) -> tuple[Self, int]:
        """Return the solver with its block within half of the memory, or within what all points need."""
        own, left = shared(memory_limit, MEMBER_BYTES * problem.m**2)
        return replace(self, max_block_points=isqrt(own // MEMBER_BYTES)), left

    def max_members(self, problem: ShardedQP) -> int:
        """Return the maximum number of points of the block."""
        return min(problem.m, self.max_block_points or problem.m)

    def n_offers(self, problem: ShardedQP, state: ShardedState) -> tuple[int, int]:
        """Return the number of points that each shard offers, all of them with their coordinates."""
        assert isinstance(state, MinNormShardedState)
        share = -(-self._wanted(state) // (problem.shards.n * problem.n_groups))
        return share, 2 * share * problem.shards.n

    def _wanted(self, state: MinNormShardedState) -> int:
        """Return the number of candidates: more for a large face, as in one process."""
        many = self.candidates >= MIN_CANDIDATES_FOR_SMO
        face = int(state.inner.block.sizes[FACE_SIZE])
        return max(self.candidates, face // 2 if many else 0)

    def period(self, problem: ShardedQP) -> int:
        """Return a short period: an iteration solves a whole block."""
        return CHECK_PERIOD

    def default_max_iter(self, problem: ShardedQP) -> int:
        """Return a finite budget far above all observed numbers of iterations."""
        return max(10_000, 10 * problem.m)

    def init(self, problem: ShardedQP, x0: Vector | None, rng: Any) -> MinNormShardedState:
        """Return the state at x0, or at equal weights on a few random points of each simplex."""
        domain = problem.domain
        assert isinstance(domain, SimplexProduct)
        if x0 is None:
            x = equal_weights(domain, min(START_POINTS, self.candidates), rng)
        else:
            x = feasible(problem, x0, min(MAX_START_POINTS, self.max_members(problem)))
        support = np.flatnonzero(x != 0)
        sigma = abs(problem.scale) + float(np.max(problem.gram.ridge)) or 1.0
        block = empty_block(len(support) + min(self.candidates, problem.m), problem.n_groups, sigma)
        state: MinNormShardedState = first_state(MinNormShardedState, x, np.float64)
        state.inner = MinNormPointState(x, np.empty(0), block)
        state.inner.max_block_points = self.max_members(problem)
        problem.product(x)
        problem.take_exact()
        if len(support) > START_POINTS:
            state.inner.waiting = support
        else:
            self._add_points(problem, state, support)
            factor_face(block, np.arange(len(support)))
            state.inner.outcome = descend(block, 0, WORK_PER_ITERATION, state.inner.counts)
        self._send(problem, state)
        state.checked_violation = state.violation
        return state

    def refresh(self, problem: ShardedQP, state: Any, product: Any) -> None:
        """Let the shards continue from the recomputed product, for the weights of the state."""
        problem.take_exact()
        inner = state.inner
        inner.block.x[: len(inner.members)] = state.x[inner.members]
        inner.least_value = inner.least_violation = np.inf
        inner.n_stalled = 0
        self._send(problem, state)

    def advance(self, problem: ShardedQP, state: MinNormShardedState, n_steps: int) -> Reply:
        """Price all points and solve the block of the best ones."""
        inner = state.inner
        if inner.outcome == BLOCK_NONCONVEX:
            return Reply(0, Stop.NONCONVEX)
        # 1. The offered points below the mean gradient of the face wait for the block.
        if inner.outcome != WORK_EXHAUSTED and not len(inner.waiting):
            chosen, value, violation = self._price(problem, state)
            if not np.isfinite(value):
                return Reply(0, Stop.NUMERICAL)
            free = inner.max_block_points - int(inner.block.sizes[FACE_SIZE])
            if free < min(len(chosen), 1):
                log.warning(BLOCK_FULL, inner.max_block_points)
                return Reply(0, Stop.STALLED)
            chosen = chosen[:free]
            done = len(chosen) == 0 and inner.outcome == BLOCK_OPTIMAL
            if done or not inner.progresses(value, violation):
                return Reply(0, Stop.STALLED)
            inner.members = inner.members[keep_face(inner.block)]
            inner.waiting, inner.majors = chosen, self.candidates
        # 2. Add them to the block and solve it, first by pair steps where many were added.
        self._add_points(problem, state, inner.waiting)
        if len(inner.waiting) >= MIN_CANDIDATES_FOR_SMO:
            approach_by_smo(inner)
        inner.waiting = NO_POINTS
        s = int(inner.block.sizes[FACE_SIZE])
        solve_block(inner, max(WORK_PER_ITERATION, MIN_FACE_CHANGES * (s + 1.0) ** 2))
        # 3. Let the shards update their gradients.
        self._send(problem, state)
        return Reply(1, Stop.NEWS if is_news(state) else Stop.BUDGET)

    def _price(
        self, problem: ShardedQP, state: MinNormShardedState
    ) -> tuple[Indices, float, float]:
        """Return the most violating points, the value of the block, and the largest violation."""
        block = state.inner.block
        n = int(block.sizes[MEMBER_COUNT])
        x, c = block.x[:n], block.c[:n]
        some = np.flatnonzero(x)
        f = x[some] @ block.Q[np.ix_(some, some)] + c[some]
        group, n_groups = block.group[:n][some], problem.n_groups
        thresholds = np.bincount(group, weights=x[some] * f, minlength=n_groups)
        rows, gradients = offered(problem, state)
        violations = thresholds[problem.groups(rows)] - gradients
        chosen = violations > 4.0 * FLOAT64_EPS * abs(problem.scale)
        value = 0.5 * float(x[some] @ (f + c[some]))
        largest = float(np.max(violations, initial=0.0))
        return rows[chosen][: self._wanted(state)], value, largest

    @staticmethod
    def _add_points(problem: ShardedQP, state: MinNormShardedState, points: Indices) -> None:
        """Add points to the block."""
        if not len(points):
            return
        new = problem.remember(points, state.found)
        ids = np.concatenate([problem.remembered.id[state.inner.members], new])
        rows = np.empty((len(new), len(ids)))
        fill(problem, new, ids, rows)
        own = np.arange(len(new))
        rows[own, len(ids) - len(new) + own] = problem.remembered.diagonal[new]
        add_members(problem, state.inner, points, rows)

    def _send(self, problem: ShardedQP, state: MinNormShardedState) -> None:
        """Copy the weights of the block into the state, and send their moves to the shards."""
        inner, sent = state.inner, problem.known["running"].x
        if not len(inner.waiting):
            state.x[:] = 0.0
            state.x[inner.members] = inner.block.x[: len(inner.members)]
        rows = np.flatnonzero(state.x != sent)
        problem.remember(rows)
        moves = problem.coefficients(rows).sign * (state.x[rows] - sent[rows])
        self.scaled_step(problem, state, 1.0, rows, moves)
