"""Sequential minimal optimization with second-order selection, on cached columns.

Problem: minimize 1/2 x'(G + D)x + c'x over 0 <= x <= u with sum z_i x_i fixed in each group, z = +-1.
That covers the simplex and the product of simplices, also with upper bounds (z = 1), and the box with a
hyperplane (z = y). On the box alone and on the orthant, which have no equality constraint, each step
moves the coordinate that decreases the value most.

Otherwise a step moves weight between two coordinates of one group. The first has the minimum of the
signed gradient over I_up; the second maximizes the decrease of the value (Fan, Chen and Lin, "Working
set selection using second order information for training support vector machines", WSS 2; on the
simplex it is pairwise Frank-Wolfe with a second-order away vertex). Where all columns are cached at once,
as those of few points are, these are the steps of `inner_smo` on the whole matrix, else of `pair_steps`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import (
    BoxHyperplane,
    CappedSimplex,
    Domain,
    Orthant,
    PenaltyBox,
    SimplexProduct,
)
from qpsvm.gram.kernels.base import PointGram
from qpsvm.numerics.work_sharing import WorkSharing, run_shared, work_sharing_for
from qpsvm.solvers.base import Reply, Stop, WithTargetGap
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING
from qpsvm.solvers.shared.prefetch import Prefetch, least_uncached
from qpsvm.solvers.shared.starting_points import pair_start
from qpsvm.solvers.smo.face_step import face_step, first_face_step, pair_steps_worth
from qpsvm.solvers.smo.inner_smo import InnerProblem, InnerState, inner_state
from qpsvm.solvers.smo.lazy_rows import CachedRows
from qpsvm.solvers.smo.pair_data import GROUP_STEP, IN_LOW, IN_UP, PairData, pair_data
from qpsvm.solvers.smo.pair_steps import assist_pairs
from qpsvm.solvers.smo.stopping import (
    GapTest,
    pair_steps_until_closed,
    single_steps_until_closed,
)
from qpsvm.solvers.smo.trial import max_trial_steps
from qpsvm.solvers.smo.whole_matrix import Round, matrix_steps_until_closed

UNCOUPLED_DOMAINS = (PenaltyBox, Orthant)
"""Domains without an equality constraint, on which steps move one coordinate."""

MAX_DOUBLINGS = 4
"""Number of times that the pair steps before the next Newton step double where these fail."""


@dataclass(frozen=True)
class SMO(WithTargetGap):
    """Second-order SMO.

    Parameters
    ----------
    target : float, optional
        Relative gap at which the steps stop for a check, by an estimate; the tolerance of the solve by
        default.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (
        SimplexProduct,
        BoxHyperplane,
        CappedSimplex,
        PenaltyBox,
        Orthant,
    )

    check_threshold: ClassVar[float] = 0.9  # cached columns update the gradient with small errors
    first_check: ClassVar[int] = 4000  # earlier ones are made where an estimate passes
    least_period: ClassVar[int] = 100

    def next_check(self, n_iter: int, period: int) -> int:
        """Return the number of the next check: 24 sqrt(n) steps after n steps, at first 4000.

        A check takes as long as 70 to 1,000 steps. Most are made where an estimate of the gap passes;
        others correct products near a value of zero, and find out that steps have no effect.
        """
        return n_iter + min(max(self.first_check, 24 * isqrt(n_iter)), period)

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> SMOState:
        """Return the state at x0, or at two points of a simplex, or at a corner of a box."""
        assert problem.store is not None
        is_whole = problem.store.is_filled_at_once
        if is_whole:
            problem.store.ensure(np.arange(problem.m))
        state = SMOState.at(problem, pair_start(problem, x0))
        if is_whole and not isinstance(problem.domain, UNCOUPLED_DOMAINS):
            state.inner = _inner_problem(problem, state)
            state.last_face_step = state.next_face_step = first_face_step(problem.m)
        return state

    def advance(self, problem: QP, state: SMOState, n_steps: int) -> Reply:
        """Run the compiled steps until they are done or a column is missing; then fill the column."""
        assert problem.store is not None
        if state.n_steps >= state.next_face_step and self._makes_face_step(problem, state):
            return Reply(1, Stop.BUDGET)
        n_steps = int(min(n_steps, max(1.0, state.next_face_step - state.n_steps)))
        test, missing = self._test(problem, state), np.full(2, -1, np.int64)
        if state.inner is not None:
            done, stop = matrix_steps_until_closed(*state.inner, *state.arrays()[2:], n_steps, test)
        elif isinstance(problem.domain, UNCOUPLED_DOMAINS):
            limits = state.n_steps, n_steps, test
            done, stop = single_steps_until_closed(
                problem.columns(), *state.arrays(), *limits, missing
            )
        else:
            done, stop = _pair_steps(problem, state, n_steps, test, missing)
        state.n_steps += done
        if stop == COLUMN_MISSING:
            state.prefetch.serve(problem.store, np.unique(missing), state.wanted)
            stop = Stop.BUDGET.value
        return Reply(done, Stop(stop))

    def _test(self, problem: QP, state: SMOState) -> GapTest:
        """Return when the steps stop for a check."""
        tol = self.check_threshold * (self.target or 0.0)
        is_bounded = bool(np.isfinite(state.upper[0]))
        has_ridge = problem.gram.ridged
        return GapTest(state.group, problem.linear, problem.constant, tol, is_bounded, has_ridge)

    def _makes_face_step(self, problem: QP, state: SMOState) -> bool:
        """Make a Newton step on the face of the free weights where it is due and possible."""
        x, upper = state.x, state.upper
        worth = pair_steps_worth(int(np.count_nonzero((x > 0.0) & (x < upper))), problem.m)
        if state.n_steps < state.last_face_step + worth:
            state.next_face_step = state.last_face_step + worth
            return False
        state.last_face_step = state.n_steps
        state.next_face_step = state.n_steps + worth
        found = face_step(problem, state.group, state.z, x, upper, state.z * state.s)
        if found is None:
            state.n_failed_face_steps += 1  # as on a face of dependent points
            doublings = min(state.n_failed_face_steps, MAX_DOUBLINGS)
            state.next_face_step = state.n_steps + worth * 2.0**doublings
            return False
        state.n_failed_face_steps = 0
        product = state.product + found[1]
        x[:] = found[0]
        state.set_product(product)
        state.n_face_steps += 1
        return True

    def is_slow(self, problem: QP, state: SMOState) -> bool:
        """Return whether a fallback is likely to be faster: on a factor, the interior-point method."""
        kernel, m = problem.gram.kernel, problem.m
        is_tried = isinstance(problem.domain, BoxHyperplane) and isinstance(kernel, PointGram)
        if is_tried and (X := kernel.factor()) is not None and X.shape[1] <= m:
            return state.n_steps >= max_trial_steps(m, X.shape[1])
        return super().is_slow(problem, state)

    def refresh(self, problem: QP, state: SMOState, product: NDArray[np.float64]) -> None:
        """Set the gradient by a recomputed G x."""
        state.set_product(product)


def _inner_problem(problem: QP, state: SMOState) -> tuple[InnerProblem, InnerState, Round]:
    """Return the problem over all points on their cached columns, and memory for its steps."""
    gram, store = problem.gram, problem.store
    assert store is not None
    diagonal = gram.scale * (store.diag + gram.shift) + gram.ridge
    side = (state.z * gram.sign).astype(store.store.dtype)
    arrays = CachedRows(store.store, store.slot), diagonal, side, gram.ridge, state.z, state.upper
    whole = InnerProblem(*arrays, float(gram.shift), float(gram.scale))
    return *inner_state(whole, len(state.up_barrier)), Round.of(problem.m)


def _pair_steps(
    problem: QP, state: SMOState, n_steps: int, test: GapTest, missing: NDArray[np.int64]
) -> tuple[int, int]:
    """Make steps on cached columns, in threads that share the passes; return number and stop code."""
    cols, sharing = problem.columns(), state.sharing
    if state.pair_data is None:
        state.pair_data = pair_data(cols, state.z, state.s, state.up_barrier, state.low_barrier)
    data = state.pair_data
    arrays, limits = state.arrays(), (state.n_steps, n_steps, test)
    return run_shared(
        sharing,
        lambda: pair_steps_until_closed(cols, data, *arrays, *limits, missing, sharing),
        lambda: assist_pairs(cols, data, state.s, sharing),
    )


@dataclass
class PairState:
    """A point of the domain with its signed gradient, and the domain as the steps see it."""

    problem: QP
    group: NDArray[np.int64]  # which equality constraint a coordinate belongs to
    z: NDArray[np.float64]  # its coefficient there
    upper: NDArray[np.float64]  # u
    x: NDArray[np.float64]  # weights
    s: NDArray[np.float64]  # z f, f = (G + D)x + c the gradient
    up_barrier: NDArray[np.float64]  # (n_groups, m): 0 in I_up, where z x can grow, else inf
    low_barrier: NDArray[np.float64]  # (n_groups, m): 0 in I_low, where z x can shrink, else inf
    scratch: NDArray[np.float64]  # (m,), for products, which cost less than new memory

    @classmethod
    def at(cls, problem: QP, x: NDArray[np.float64]) -> Self:
        """Return the state at a feasible x."""
        domain, m = problem.domain, problem.m
        if isinstance(domain, SimplexProduct):
            group, z, upper = domain.group, np.ones(m), np.full(m, np.inf)
        elif isinstance(domain, CappedSimplex):
            group, z, upper = domain.group, np.ones(m), domain.upper
        elif isinstance(domain, Orthant):
            group, z, upper = np.zeros(m, np.int64), np.ones(m), np.full(m, np.inf)
        else:
            assert isinstance(domain, BoxHyperplane | PenaltyBox)
            group, upper = np.zeros(m, np.int64), domain.upper
            z = domain.y if isinstance(domain, BoxHyperplane) else np.ones(m)
        shape = (int(group.max()) + 1, m)
        empty = np.empty(m), np.empty(shape), np.empty(shape)
        state = cls(problem, group, z, upper, x, *empty, np.empty(m))
        state.set_product(problem.product(x) if x.any() else np.zeros(m))
        return state

    def set_product(self, product: NDArray[np.float64]) -> None:
        """Set the gradient by G x, and I_up and I_low by x."""
        ridge, c = self.problem.gram.ridge, self.problem.linear
        np.multiply(ridge, self.x, out=self.s)  # in place: new memory costs more than the sums
        self.s += product
        self.s += c
        self.s *= self.z
        up, has_slack, positive = self.z > 0, self.x < self.upper, self.x > 0
        in_up, in_low = (up & has_slack) | (~up & positive), (up & positive) | (~up & has_slack)
        for g in range(len(self.up_barrier)):
            mine = self.group == g
            self.up_barrier[g] = np.where(mine & in_up, 0.0, np.inf)
            self.low_barrier[g] = np.where(mine & in_low, 0.0, np.inf)

    @property
    def product(self) -> NDArray[np.float64]:
        """G x, from the maintained gradient."""
        ridge, level, product = self.problem.gram.ridge, self.problem.level, self.scratch
        if level is not None:  # on simplices z = 1
            np.subtract(self.s, level, out=product)
        else:
            np.multiply(self.z, self.s, out=product)
            product -= self.problem.linear
        if self.problem.gram.ridged:
            nonzero = np.flatnonzero(self.x != 0)  # ten times faster than flatnonzero(x)
            product[nonzero] -= ridge[nonzero] * self.x[nonzero]
        return product


@dataclass
class SMOState(PairState):
    """The state of steps on cached columns."""

    prefetch: Prefetch = field(init=False)
    sharing: WorkSharing = field(init=False)  # shared state of the passes
    n_steps: int = 0
    n_face_steps: int = 0
    n_failed_face_steps: int = 0  # since the last that succeeded
    last_face_step: float = np.inf  # number of pair steps at the last Newton step
    next_face_step: float = np.inf  # and before the next one; they are made on the whole matrix
    inner: tuple[InnerProblem, InnerState, Round] | None = None  # of steps on the whole matrix
    pair_data: PairData | None = None  # data of the steps on columns; None after s was set

    def __post_init__(self) -> None:
        """Set up what the steps share, and no prefetch so far."""
        self.prefetch, self.sharing = Prefetch(self.problem), work_sharing_for(self.problem.m)

    def set_product(self, product: NDArray[np.float64]) -> None:
        """Set the gradient by G x, and I_up and I_low by x."""
        super().set_product(product)
        self.pair_data = None
        if self.inner is not None:
            self.inner[2].discard()

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        """Return the arrays of the compiled steps."""
        return self.z, self.upper, self.x, self.s, self.up_barrier, self.low_barrier

    def wanted(self, slot: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return maximum violators, of I_up and I_low, whose columns are not cached."""
        if self.pair_data is None:  # on the box alone: by the steepest feasible descent
            slope = np.maximum(-self.s - self.up_barrier[0], self.s - self.low_barrier[0])
            return least_uncached(slope, -1.0, self.group, 0, -1, slot, count)
        mark, n_groups = self.pair_data.mark, len(self.up_barrier)
        share, found = -(-count // n_groups), []
        for g in range(n_groups):
            down = IN_LOW + GROUP_STEP * g
            found.append(least_uncached(self.s, -1.0, mark, down, ~IN_UP, slot, share // 2))
            left, up = share - len(found[-1]), IN_UP + GROUP_STEP * g
            found.append(least_uncached(self.s, 1.0, mark, up, ~IN_LOW, slot, left))
        return np.unique(np.concatenate(found))

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind."""
        single = isinstance(self.problem.domain, UNCOUPLED_DOMAINS)
        return {"single" if single else "pair": self.n_steps, "newton": self.n_face_steps}
