"""Wolfe's minimum-norm-point method: an active-set method, exact to roundoff.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x over a product of simplices. One implementation serves
the L2-SVM dual (one simplex), the minimum enclosing ball (one simplex with a linear term) and the
distance of polytopes (two simplices). The hinge dual of a hard margin is solved as the distance of
the hulls of its classes: the same point, scaled.

An iteration prices all m points by their gradient f = (G + D)x + c, takes the support and the most
violating points (smallest f) of either label into a dense block of float64 kernel entries, and
solves this block. SMO first reduces the violation to a hundredth. Then `wolfe` makes the solution
exact: add the one member with the largest violation, move to the minimizer on the affine hull of
the face, drop the members whose weights become negative. Each such major decreases h, so the method is
finite. ``candidates=1`` is Wolfe's own method, one point and one major at a time.

The gradient of all points is updated by cached columns or, where the kernel has an explicit factor X,
by one pass over X.

Source: Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11 (1976),
128-149; the candidates are the multiple pricing of linear programming.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.canonical.qp import QP
from qpsvm.clock import Expired, poll
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.solvers.base import Reply, Solver, Stop, shared
from qpsvm.solvers.min_norm_point.face import (
    FACE_SIZE,
    MEMBER_COUNT,
    Block,
    approach,
    empty_block,
    enlarged,
    factor_face,
    keep_face,
)
from qpsvm.solvers.min_norm_point.pricing import price
from qpsvm.solvers.min_norm_point.wolfe import (
    BLOCK_NONCONVEX,
    BLOCK_OPTIMAL,
    BLOCK_UNFINISHED,
    MAJOR_STEPS,
    WORK_EXHAUSTED,
    descend,
)
from qpsvm.solvers.working_set.gram_block import accumulate

log = logging.getLogger("qpsvm")

STEP_KINDS = ("major", "minor", "pair")
"""Names of the step counts: members added to the face, members dropped from it, SMO steps."""

PAIR_STEPS = 2
"""Entry of the step counts for SMO steps."""

START_POINTS = 64
"""Number of points drawn for the starting point."""

MIN_CANDIDATES_FOR_SMO = 64
"""Candidates from which SMO precedes the active set."""

WORK_PER_ITERATION = 5e8
"""Maximum number of entries that the majors, or the SMO steps, of one iteration touch."""

MAX_START_POINTS = 4096
"""Maximum number of points of x0 that are kept: a face is factored in dense arrays."""

MIN_FACE_CHANGES = 16
"""Changes of the face that one iteration may always make."""

WORK_BETWEEN_POLLS = 1e8
"""Maximum number of entries that majors touch between two readings of the clock."""

MIN_FACE_CHANGES_BETWEEN_POLLS = 4
"""Changes of the face that are always possible between two readings of the clock."""

MEMBER_BYTES = 32
"""Bytes for each pair of members: Q, R, and their copies while they are enlarged."""

BLOCK_FULL = "the support needs more than the %d points that memory_limit allows"
"""Warning where the face needs more points than fit in memory."""

NO_POINTS = np.empty(0, np.int64)
"""An empty list of points."""

MAX_STALLED_ITERATIONS = 3
"""Iterations without progress after which only the rounding of the products is left."""

COLUMNS_PER_CHUNK = 512
"""Maximum number of columns that are filled at once to update the product."""


@dataclass(frozen=True)
class MinNormPoint(Solver):
    """Wolfe's active-set method with multiple pricing.

    Parameters
    ----------
    candidates : int
        Points that an iteration adds to the block, half of them of each label where there are
        two, and the most majors that it makes; 1 is Wolfe's method.
    max_block_points : int, optional
        Most points of the block, the face included; `solve` sets it by its `memory_limit`. The method
        stalls where the face needs more.
    """

    candidates: int = 512
    max_block_points: int | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)
    is_abandonable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("candidates", self.candidates, low=1, integer=True)

    def within(self, problem: QP, memory_limit: int) -> tuple[Self, int]:
        """Return the solver with its block within half of the memory, or within what all points need."""
        own, left = shared(memory_limit, MEMBER_BYTES * problem.m**2)
        return replace(self, max_block_points=isqrt(own // MEMBER_BYTES)), left

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> MinNormPointState:
        """Return the state at x0, or at equal weights on a few points drawn from each group.

        Points of the support that depend affinely on others are dropped by descent steps. The
        factorization of a large support is left to the first iteration.
        """
        problem = problem.hulls or problem
        domain = problem.domain
        assert isinstance(domain, SimplexProduct)
        if x0 is None or not all(np.any(x0[of] > 0.0) for of in domain.members):
            x = equal_weights(domain, min(START_POINTS, self.candidates), rng)
        else:
            x = heaviest(
                domain,
                domain.repair(x0),
                min(MAX_START_POINTS, self.max_block_points or MAX_START_POINTS),
            )
        support = np.flatnonzero(x != 0)
        capacity = len(support) + min(self.candidates, problem.m)
        sigma = abs(problem.scale) + float(np.max(problem.gram.ridge)) or 1.0
        state = MinNormPointState(
            x, np.zeros(problem.m), empty_block(capacity, domain.n_groups, sigma)
        )
        state.max_block_points = self.max_block_points or problem.m
        if len(support) > START_POINTS:
            state.waiting, state.product[:] = support, problem.product(x)
            return state
        admit(problem, state, support)
        factor_face(state.block, np.arange(len(support)))
        state.outcome = descend(state.block, 0, WORK_PER_ITERATION, state.counts)
        update_product(problem, state, np.zeros(len(support)))
        return state

    def advance(self, problem: QP, state: MinNormPointState, n_steps: int) -> Reply:
        """Price all points and solve the block of the best ones, `n_steps` times."""
        problem = problem.hulls or problem
        for step in range(n_steps):
            if state.outcome == BLOCK_NONCONVEX:
                return Reply(step, Stop.NONCONVEX)
            if state.outcome != WORK_EXHAUSTED and not len(state.waiting):
                chosen, value, violation = price(
                    problem, state.block, state.members, state.x, state.product, self._wanted(state)
                )
                if not np.isfinite(value):
                    return Reply(step, Stop.NUMERICAL)
                done = len(chosen) == 0 and state.outcome == BLOCK_OPTIMAL
                free = state.max_block_points - int(state.block.sizes[FACE_SIZE])
                if free < min(len(chosen), 1):
                    log.warning(BLOCK_FULL, state.max_block_points)
                    return Reply(step, Stop.STALLED)
                chosen = chosen[:free]
                if done or not state.progresses(value, violation):
                    return Reply(step, Stop.STALLED)
                state.members = state.members[keep_face(state.block)]
                state.waiting, state.majors = chosen, self.candidates
            if len(state.waiting):
                admit(problem, state, state.waiting)
            before = state.block.x[: len(state.members)].copy()
            if len(state.waiting) >= MIN_CANDIDATES_FOR_SMO:
                approach_by_smo(state)
            state.waiting = NO_POINTS
            s = int(state.block.sizes[FACE_SIZE])
            work = max(WORK_PER_ITERATION, MIN_FACE_CHANGES * (s + 1.0) ** 2)
            solve_block(state, work)
            self._update_product(problem, state, before)
        return Reply(n_steps, Stop.BUDGET)

    def fits(self, problem: QP) -> bool:
        """Return whether the domain is a product of simplices, or the cone of a hard margin."""
        return super().fits(problem) or problem.hulls is not None

    def _update_product(
        self, problem: QP, state: MinNormPointState, before: NDArray[np.float64]
    ) -> None:
        """Update x and G x to the weights of the block; at a limit restore both."""
        x, product = state.x.copy(), state.product.copy()
        try:
            update_product(problem, state, before)
        except Expired:
            state.x[:], state.product[:] = x, product
            raise

    def _wanted(self, state: MinNormPointState) -> int:
        """Return the number of candidates: more for a large face, so that iterations remain few."""
        many = self.candidates >= MIN_CANDIDATES_FOR_SMO
        return max(self.candidates, int(state.block.sizes[FACE_SIZE]) // 2 if many else 0)

    def refresh(self, problem: QP, state: MinNormPointState, product: NDArray[np.float64]) -> None:
        """Replace G x by a recomputed one, for the weights in `state.x`."""
        state.product[:] = product
        if problem.hulls is not None:  # a certificate may have scaled them
            assert isinstance(problem.hulls.domain, SimplexProduct)
            scale = problem.hulls.domain.n_groups / float(np.sum(state.x))
            state.x *= scale
            state.product *= scale
        state.block.x[: len(state.members)] = state.x[state.members]
        state.least_value = state.least_violation = np.inf
        state.n_stalled = 0

    def period(self, problem: QP) -> int:
        """Return 1 where an iteration is a pass over all points; Wolfe's own steps cost less."""
        return max(1, 16 // self.candidates)

    def default_max_iter(self, problem: QP) -> int:
        """Return a finite budget far above all observed numbers of iterations."""
        return max(10_000, 10 * problem.m)


@dataclass
class MinNormPointState:
    """A point of the domain with its product, and the last block."""

    x: NDArray[np.float64]  # weights, each group sums to 1
    product: NDArray[np.float64]  # G x, without the ridge
    block: Block
    members: NDArray[np.int64] = field(  # the points of the block
        default_factory=lambda: np.empty(0, np.int64)
    )
    counts: NDArray[np.int64] = field(  # steps by STEP_KINDS
        default_factory=lambda: np.zeros(len(STEP_KINDS), np.int64)
    )
    outcome: int = BLOCK_UNFINISHED  # stop code of the last solution of the block
    waiting: NDArray[np.int64] = field(
        default_factory=lambda: NO_POINTS
    )  # to be added to the block
    majors: int = 0  # most members that a solution of the block adds to the face
    least_value: float = np.inf
    least_violation: float = np.inf
    n_stalled: int = 0  # iterations since the value or the largest violation decreased
    max_block_points: int = 1 << 40  # most members that memory allows

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind, and the bytes of the block's matrices."""
        steps = dict(zip(STEP_KINDS, map(int, self.counts), strict=True))
        return steps | {"matrix_bytes": self.block.Q.nbytes + self.block.R.nbytes}

    def progresses(self, value: float, violation: float) -> bool:
        """Record the value and the largest violation; return False once both have stalled."""
        moved = (
            value < self.least_value - 4.0 * FLOAT64_EPS * abs(self.least_value)
            or violation < 0.5 * self.least_violation
        )
        self.n_stalled = 0 if moved else self.n_stalled + 1
        self.least_value = min(value, self.least_value)
        self.least_violation = min(violation, self.least_violation)
        return self.n_stalled < MAX_STALLED_ITERATIONS


def equal_weights(
    domain: SimplexProduct, n_points: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return equal weights on a few points drawn from each group."""
    x = np.zeros(domain.m)
    for of in domain.members:
        drawn = np.unique(of[rng.integers(len(of), size=max(1, n_points // domain.n_groups))])
        x[drawn] = 1.0 / len(drawn)
    return x


def heaviest(domain: SimplexProduct, x: NDArray[np.float64], n_points: int) -> NDArray[np.float64]:
    """Return x restricted to its `n_points` heaviest points, an equal number of each group."""
    if np.count_nonzero(x) <= n_points:
        return x
    share = n_points // domain.n_groups
    for of in domain.members:
        x[of[np.argsort(x[of])[:-share]]] = 0.0
    return domain.repair(x)


def admit(problem: QP, state: MinNormPointState, points: NDArray[np.int64]) -> None:
    """Add points to the block, with their rows of Q in float64."""
    members = np.concatenate([state.members, points])
    rows = problem.gram.kernel.block(points, members, np.float64)
    add_members(problem, state, points, rows.astype(np.float64, copy=False))


def add_members(
    problem: QP,
    state: MinNormPointState,
    points: NDArray[np.int64],
    rows: NDArray[np.float64],
) -> None:
    """Add points to the block, given their kernel values with the members and with one another."""
    gram, domain = problem.gram, problem.domain
    assert isinstance(domain, SimplexProduct)
    old, new = len(state.members), len(state.members) + len(points)
    if new > len(state.block.c):
        state.block = enlarged(state.block, max(new, min(2 * new, state.max_block_points)))
    block = state.block
    members = np.concatenate([state.members, points])
    rows += gram.shift
    rows *= gram.scale * gram.sign[members]
    rows *= gram.sign[points][:, None]
    rows[np.arange(len(points)), np.arange(old, new)] += gram.ridge[points]
    block.Q[old:new, :new] = rows
    block.Q[:old, old:new] = rows[:, :old].T
    block.c[old:new] = problem.linear[points]
    block.group[old:new] = domain.group[points]
    block.x[old:new] = state.x[points]
    block.sizes[MEMBER_COUNT] = new
    state.members = members


def approach_by_smo(state: MinNormPointState) -> None:
    """Reduce the KKT violation of the block to a hundredth by SMO."""
    n = len(state.members)
    n_steps = min(10 * n, int(WORK_PER_ITERATION / n))
    state.counts[PAIR_STEPS] += approach(state.block, 0.01, n_steps)


def solve_block(state: MinNormPointState, work: float) -> None:
    """Let `descend` touch `work` entries, by chunks between which a limit may end it."""
    s = int(state.block.sizes[FACE_SIZE])
    majors, least = state.majors, MIN_FACE_CHANGES_BETWEEN_POLLS * (s + 1.0) ** 2
    while True:
        poll()
        chunk, before = min(work, max(WORK_BETWEEN_POLLS, least)), int(state.counts[MAJOR_STEPS])
        state.outcome = descend(state.block, majors, chunk, state.counts)
        work, made = work - chunk, int(state.counts[MAJOR_STEPS]) - before
        ended = state.outcome not in (WORK_EXHAUSTED, BLOCK_UNFINISHED) or made == majors
        if ended or work <= 0.0:
            return
        majors -= made


def update_product(problem: QP, state: MinNormPointState, before: NDArray[np.float64]) -> None:
    """Update x and G x to the weights of the block, which were `before`."""
    now = state.block.x[: len(state.members)]
    state.x[state.members] = now
    if problem.gram.kernel.factor() is not None:
        state.product[:] = problem.product(state.x)
        return
    assert problem.store is not None
    change = now - before
    moved = np.flatnonzero(change)
    size = min(COLUMNS_PER_CHUNK, problem.store.n_slots)
    for start in range(0, len(moved), size):
        chunk = moved[start : start + size]
        points = state.members[chunk]
        problem.store.ensure(points)
        accumulate(problem.columns(), points, change[chunk], np.ones(problem.m), state.product)
