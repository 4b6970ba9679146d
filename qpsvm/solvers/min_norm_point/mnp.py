"""Wolfe's minimum-norm-point method: an active-set method that ends at roundoff.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x over a product of simplices. One text serves the
L2-SVM dual (one simplex), the minimum enclosing ball (one simplex with a linear term) and the
distance of polytopes (two simplices). The hinge dual of a hard margin is solved as the distance of
the hulls of its classes: the same point, scaled.

An iteration prices all m points by their gradient f = (G + D)x + c, takes the support and the most
violating points (smallest f) of either label into a dense block of float64 kernel entries, and
solves this block. SMO goes ahead as far as a hundredth of the violation; then `active_set` makes it
exact: enter the one member with the largest violation, go to the minimizer on the affine hull of
the face, drop what becomes negative. Each such major decreases h, so the method is finite.
``candidates=1`` is Wolfe's own method, one point and one major at a time.

The gradient of all points follows from columns held in the store, or, where the kernel has an
explicit factor X, from one pass over X.

Source: Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11 (1976),
128-149; the candidates are the multiple pricing of linear programming.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.canonical.qp import QP
from qpsvm.clock import Expired, poll
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.numerics.jit import compiled
from qpsvm.solvers.base import Reply, Solver, Stop, shared
from qpsvm.solvers.min_norm_point.face import (
    FACE,
    MEMBERS,
    Block,
    approach,
    empty_block,
    enlarged,
    factor_face,
    keep_face,
)
from qpsvm.solvers.min_norm_point.wolfe import CUT, MAJOR, NONCONVEX, OPTIMAL, UNFINISHED, descend
from qpsvm.solvers.working_set.gram_block import accumulate

log = logging.getLogger("qpsvm")

STEP_KINDS = ("major", "minor", "pair")  # a member enters; a member leaves; an SMO step
PAIR = 2
START = 64  # points drawn for the starting point
MANY = 64  # candidates from which SMO goes ahead of the active set
WORK = 5e8  # entries that the majors, or the pairs, of one iteration touch at most
LARGEST_START = 4096  # most points of x0 that are kept: a face is factored in dense arrays
FEWEST = 16  # changes of the face that one iteration may make in any case
WORK_AT_ONCE, FEWEST_AT_ONCE = 1e8, 4  # the same between two looks at the clock
MEMBER_BYTES = 32  # for each pair of members: Q, R, and what is copied while they change
FULL = "the support needs more than the %d points for which memory_limit has room"
NOBODY = np.empty(0, np.int64)
IDLE = 3  # iterations without progress after which the rounding of the products is in the way
COLUMNS_AT_ONCE = 512


@dataclass(frozen=True)
class MinNormPoint(Solver):
    """Wolfe's active-set method with multiple pricing.

    Parameters
    ----------
    candidates : int
        Points that an iteration takes into the block, half of them of each label where there are
        two, and the most majors that it makes; 1 is Wolfe's method.
    room : int, optional
        Most points of the block, the face among them; `solve` sets it by its `memory_limit`. The method
        stalls where the face needs more.
    """

    candidates: int = 512
    room: int | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)
    is_abandonable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("candidates", self.candidates, low=1, integer=True)

    def within(self, problem: QP, memory_limit: int) -> tuple[Self, int]:
        """Return the solver whose block keeps to half of the memory, or to what all points need."""
        own, left = shared(memory_limit, MEMBER_BYTES * problem.m**2)
        return replace(self, room=isqrt(own // MEMBER_BYTES)), left

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> MinNormPointState:
        """Return the state at x0, or at equal weights on a few points drawn from each group.

        Points of the support that depend affinely on others are freed on the way, downhill. To
        factor thousands takes long: that is left to the first iteration.
        """
        problem = problem.hulls or problem
        domain = problem.domain
        assert isinstance(domain, SimplexProduct)
        if x0 is None or not all(np.any(x0[of] > 0.0) for of in domain.members):
            x = some_mean(domain, min(START, self.candidates), rng)
        else:
            x = heaviest(domain, domain.repair(x0), min(LARGEST_START, self.room or LARGEST_START))
        support = np.flatnonzero(x != 0)
        capacity = len(support) + min(self.candidates, problem.m)
        sigma = abs(problem.scale) + float(np.max(problem.gram.ridge)) or 1.0
        state = MinNormPointState(
            x, np.zeros(problem.m), empty_block(capacity, domain.n_groups, sigma)
        )
        state.room = self.room or problem.m
        if len(support) > START:
            state.waiting, state.product[:] = support, problem.gram.product(x)
            return state
        admit(problem, state, support)
        factor_face(state.block, np.arange(len(support)))
        state.outcome = descend(state.block, 0, WORK, state.counts)
        take_over(problem, state, np.zeros(len(support)))
        return state

    def advance(self, problem: QP, state: MinNormPointState, n_steps: int) -> Reply:
        """Price all points and solve the block of the best, `n_steps` times."""
        problem = problem.hulls or problem
        for step in range(n_steps):
            if state.outcome == NONCONVEX:
                return Reply(step, Stop.NONCONVEX)
            if state.outcome != CUT and not len(state.waiting):
                chosen, value, violation = price(problem, state, self._wanted(state))
                if not np.isfinite(value):
                    return Reply(step, Stop.NUMERICAL)
                done = len(chosen) == 0 and state.outcome == OPTIMAL
                free = state.room - int(state.block.sizes[FACE])
                if free < min(len(chosen), 1):
                    log.warning(FULL, state.room)
                    return Reply(step, Stop.STALLED)
                chosen = chosen[:free]
                if done or not state.progresses(value, violation):
                    return Reply(step, Stop.STALLED)
                state.members = state.members[keep_face(state.block)]
                state.waiting, state.majors = chosen, self.candidates
            if len(state.waiting):
                admit(problem, state, state.waiting)
            before = state.block.x[: len(state.members)].copy()
            if len(state.waiting) >= MANY:
                go_ahead(state)
            state.waiting = NOBODY
            s = int(state.block.sizes[FACE])
            work = max(WORK, FEWEST * (s + 1.0) ** 2)
            solve_block(state, work)
            self._take_over(problem, state, before)
        return Reply(n_steps, Stop.BUDGET)

    def fits(self, problem: QP) -> bool:
        """Return whether the domain is a product of simplices, or the cone of a hard margin."""
        return super().fits(problem) or problem.hulls is not None

    def _take_over(
        self, problem: QP, state: MinNormPointState, before: NDArray[np.float64]
    ) -> None:
        """Bring x and G x up to the weights of the block; at a limit leave both as they were."""
        x, product = state.x.copy(), state.product.copy()
        try:
            take_over(problem, state, before)
        except Expired:
            state.x[:], state.product[:] = x, product
            raise

    def _wanted(self, state: MinNormPointState) -> int:
        """Return the number of candidates: more for a large face, so that the iterations stay few."""
        large = int(state.block.sizes[FACE]) // 2 if self.candidates >= MANY else 0
        return max(self.candidates, large)

    def refresh(self, problem: QP, state: MinNormPointState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x and the weights that it belongs to."""
        state.product[:] = product
        if problem.hulls is not None:  # a certificate moved them along their ray
            assert isinstance(problem.hulls.domain, SimplexProduct)
            scale = problem.hulls.domain.n_groups / float(np.sum(state.x))
            state.x *= scale
            state.product *= scale
        state.block.x[: len(state.members)] = state.x[state.members]
        state.least_value = state.least_violation = np.inf
        state.idle = 0

    def period(self, problem: QP) -> int:
        """Return 1 where an iteration is a pass over all points; Wolfe's own steps are lighter."""
        return max(1, 16 // self.candidates)

    def default_max_iter(self, problem: QP) -> int:
        """Return a finite budget far beyond the iterations that were ever seen."""
        return max(10_000, 10 * problem.m)


@dataclass
class MinNormPointState:
    """A point of the domain with its product, and the block that was solved last."""

    x: NDArray[np.float64]  # weights, each group sums to 1
    product: NDArray[np.float64]  # G x, without the ridge
    block: Block
    members: NDArray[np.int64] = field(  # the points of the block
        default_factory=lambda: np.empty(0, np.int64)
    )
    counts: NDArray[np.int64] = field(  # steps by STEP_KINDS
        default_factory=lambda: np.zeros(len(STEP_KINDS), np.int64)
    )
    outcome: int = UNFINISHED  # how the last solution of the block ended
    waiting: NDArray[np.int64] = field(default_factory=lambda: NOBODY)  # to enter the block
    majors: int = 0  # most members that enter the face in a solution of the block
    least_value: float = np.inf
    least_violation: float = np.inf
    idle: int = 0  # iterations since the value or the largest violation became smaller
    room: int = 1 << 40  # members for which there is memory

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind, and the bytes of the block's matrices."""
        steps = dict(zip(STEP_KINDS, map(int, self.counts), strict=True))
        return steps | {"matrix_bytes": self.block.Q.nbytes + self.block.R.nbytes}

    def progresses(self, value: float, violation: float) -> bool:
        """Note the value and the largest violation; return False once both stand still."""
        moved = (
            value < self.least_value - 4.0 * FLOAT64_EPS * abs(self.least_value)
            or violation < 0.5 * self.least_violation
        )
        self.idle = 0 if moved else self.idle + 1
        self.least_value = min(value, self.least_value)
        self.least_violation = min(violation, self.least_violation)
        return self.idle < IDLE


def some_mean(
    domain: SimplexProduct, n_points: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return equal weights on a few points drawn from each group."""
    x = np.zeros(domain.m)
    for of in domain.members:
        drawn = np.unique(of[rng.integers(len(of), size=max(1, n_points // domain.n_groups))])
        x[drawn] = 1.0 / len(drawn)
    return x


def heaviest(domain: SimplexProduct, x: NDArray[np.float64], n_points: int) -> NDArray[np.float64]:
    """Return x with no more than its heaviest points, an equal share for each group."""
    if np.count_nonzero(x) <= n_points:
        return x
    share = n_points // domain.n_groups
    for of in domain.members:
        x[of[np.argsort(x[of])[:-share]]] = 0.0
    return domain.repair(x)


def price(
    problem: QP, state: MinNormPointState, wanted: int
) -> tuple[NDArray[np.int64], float, float]:
    """Return the most violating points, h(x) and the largest violation.

    A point violates optimality by the level of its group, the mean of f weighted by x, minus f.
    """
    domain, gram, block = problem.domain, problem.gram, state.block
    assert isinstance(domain, SimplexProduct)
    face = block.face[: block.sizes[FACE]]
    support = state.members[face]
    x, c = state.x[support], problem.linear[support]
    f = state.product[support] + gram.ridge[support] * x + c
    value = 0.5 * float(x @ (f + c))
    level = np.bincount(block.group[face], weights=x * f, minlength=domain.n_groups)
    # label by label, so that neither crowds out the other
    bar = np.full(2, 4.0 * FLOAT64_EPS * abs(problem.scale))
    found = np.empty((2, 2 * wanted), np.int64)
    by = np.empty((2, 2 * wanted))
    n_found = np.zeros(2, np.int64)
    lists = (bar, found, by, n_found)
    at = 0
    while at < problem.m:
        at = collect(
            at, state.product, problem.linear, domain.group, gram.sign, state.x, level, *lists
        )
        for side in np.flatnonzero(n_found > wanted):
            best = np.argpartition(-by[side, : n_found[side]], wanted - 1)[:wanted]
            found[side, :wanted], by[side, :wanted] = found[side, best], by[side, best]
            n_found[side], bar[side] = wanted, by[side, :wanted].min()
    best_first = [np.argsort(-by[side, :n], kind="stable") for side, n in enumerate(n_found)]
    points = np.concatenate([found[side, order] for side, order in enumerate(best_first)])
    violation = np.concatenate([by[side, order] for side, order in enumerate(best_first)])
    rank = np.concatenate([np.arange(n) for n in n_found])
    chosen = points[np.lexsort((-violation, rank))[:wanted]]
    return chosen, value, float(violation.max(initial=0.0))


def admit(problem: QP, state: MinNormPointState, points: NDArray[np.int64]) -> None:
    """Add points to the block with the rows of Q that they bring, in float64."""
    gram, domain = problem.gram, problem.domain
    assert isinstance(domain, SimplexProduct)
    old, new = len(state.members), len(state.members) + len(points)
    if new > len(state.block.c):
        state.block = enlarged(state.block, max(new, min(2 * new, state.room)))
    block = state.block
    members = np.concatenate([state.members, points])
    rows = gram.kernel.block(points, members, np.float64)
    rows += gram.shift
    rows *= gram.scale * gram.sign[members]
    rows *= gram.sign[points][:, None]
    rows[np.arange(len(points)), np.arange(old, new)] += gram.ridge[points]
    block.Q[old:new, :new] = rows
    block.Q[:old, old:new] = rows[:, :old].T
    block.c[old:new] = problem.linear[points]
    block.group[old:new] = domain.group[points]
    block.x[old:new] = state.x[points]
    block.sizes[MEMBERS] = new
    state.members = members


def go_ahead(state: MinNormPointState) -> None:
    """Let SMO solve the block down to a hundredth of its violation."""
    n = len(state.members)
    state.counts[PAIR] += approach(state.block, 0.01, min(10 * n, int(WORK / n)))


def solve_block(state: MinNormPointState, work: float) -> None:
    """Let `descend` touch so many entries, by parts: between them a limit may end it."""
    majors, least = state.majors, FEWEST_AT_ONCE * (int(state.block.sizes[FACE]) + 1.0) ** 2
    while True:
        poll()
        part, before = min(work, max(WORK_AT_ONCE, least)), int(state.counts[MAJOR])
        state.outcome = descend(state.block, majors, part, state.counts)
        work, made = work - part, int(state.counts[MAJOR]) - before
        ended = state.outcome not in (CUT, UNFINISHED) or made == majors
        if ended or work <= 0.0:
            return
        majors -= made


def take_over(problem: QP, state: MinNormPointState, before: NDArray[np.float64]) -> None:
    """Bring x and G x up to the weights of the block, which were `before`."""
    now = state.block.x[: len(state.members)]
    state.x[state.members] = now
    if problem.gram.kernel.factor() is not None:
        state.product[:] = problem.gram.product(state.x)
        return
    assert problem.store is not None
    change = now - before
    moved = np.flatnonzero(change)
    size = min(COLUMNS_AT_ONCE, problem.store.n_slots)
    for start in range(0, len(moved), size):
        part = moved[start : start + size]
        points = state.members[part]
        problem.store.ensure(points)
        accumulate(problem.columns(), points, change[part], np.ones(problem.m), state.product)


@compiled
def collect(
    at: int,
    p: Any,
    c: Any,
    group: Any,
    sign: Any,
    x: Any,
    level: Any,
    bar: Any,
    found: Any,
    by: Any,
    n_found: Any,
) -> int:
    """Collect points off the support that violate by more than the bar of their label.

    Start at point `at`; return where to go on after the list of a label is full.
    """
    room = found.shape[1]
    for k in range(at, p.shape[0]):
        v = level[group[k]] - p[k] - c[k]
        side = 0 if sign[k] > 0.0 else 1
        if v > bar[side] and x[k] == 0.0:
            n = n_found[side]
            found[side, n] = k
            by[side, n] = v
            n_found[side] = n + 1
            if n + 1 == room:
                return k + 1
    return p.shape[0]
