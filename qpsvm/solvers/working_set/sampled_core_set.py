"""The core vector machine with sampling: the best of a few random points is added to the core set.

Frandi et al., Algorithm 1 with section 5.2.3. The gradient is maintained over the core set, by its own
Gram matrix, and evaluated at the draws; no column over all points is evaluated. The loop evaluates the
gradient at all points once eight consecutive samples have a gap within the tolerance, or none of eight
contains a descent point.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Bounds
from qpsvm.canonical.qp import QP
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.shared.sampling import SAMPLES_PER_STEP, Draws
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set.working_set import (
    WorkingSetState,
    add_to_working_set,
    extremes,
    solve_weights,
)

log = logging.getLogger("qpsvm")

INITIAL_CORE_SET_SIZE = 64
"""Size of the core set for which memory is allocated at the start."""


@dataclass
class SampledCoreSet(WorkingSetState):
    """A core set with its Gram matrix; the gradient in `pair` is maintained over the core set only."""

    draws: Draws | None = None
    goal: float = 0.0  # target relative gap over samples
    covers_all_points: bool = True  # whether the gradient of x is known at all points
    was_refreshed: bool = True  # whether the next iteration starts with it
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_PER_STEP))
    n_scans: int = 0

    def __post_init__(self) -> None:
        """Start with an empty core set; its Gram matrix has the precision of columns."""
        super().__post_init__()
        self.unit = 1.0

    @classmethod
    def at(cls, problem: QP, x: NDArray[np.float64], draws: Draws, goal: float) -> SampledCoreSet:
        """Return the state at x."""
        state = cls(PairState.at(problem, x), draws=draws, goal=goal)
        add_to_working_set(problem, state, np.flatnonzero(x != 0), cache_columns=False)
        return state

    def reset_gradient_error(self, error: float | NDArray[np.float64]) -> None:
        """Record that the gradient is known at all points."""
        super().reset_gradient_error(error)
        self.covers_all_points = self.was_refreshed = True

    @property
    def product(self) -> NDArray[np.float64]:
        """G x over all points, evaluated when the loop asks for it."""
        if not self.covers_all_points:
            self.pair.set_product(self.pair.problem.gram.product(self.x))
            self.covers_all_points = self.was_refreshed = True
            self.n_scans += 1
        return self.pair.product

    @property
    def bounds(self) -> Bounds:
        """The value, and the gap over the last samples, which is smaller than the true one."""
        problem, upper = self.pair.problem, self._value()
        gap = max(self.gaps) if self.gaps else np.inf
        if problem.negated:
            return Bounds(gap - upper, -upper, gap, np.empty(0))
        return Bounds(upper, upper - gap, gap, np.empty(0))

    @property
    def counters(self) -> dict[str, int]:
        """Size of the core set, SMO steps, passes over all points, bytes of the Gram matrix."""
        n_bytes = 0 if self.block is None else self.block.nbytes
        return super().counters | {"scan": self.n_scans, "bytes": n_bytes}

    def advance(self, inner_tol: float) -> Reply:
        """Make one iteration: add the best point of a sample and solve over the core set."""
        pair, problem, draws = self.pair, self.pair.problem, self.draws
        assert draws is not None
        if self.was_refreshed:
            self.was_refreshed = False
            worst = draws.worst(pair.s, pair.x)
            new, f = worst[~self.in_working_set[worst]], pair.s[worst[~self.in_working_set[worst]]]
            self.gaps.clear()
        else:
            new, f = self._best_of_sample()
        if not np.isfinite(pair.s[self.working_set]).all():
            return Reply(0, Stop.NUMERICAL)
        if not self._make_space(len(new)):
            return Reply(0, Stop.STALLED)
        pair.s[new] = f
        add_to_working_set(problem, self, new, cache_columns=False)
        core = self.working_set
        low, high = extremes(
            pair.s[core], pair.up_barrier.take(core, axis=1), pair.low_barrier.take(core, axis=1)
        )
        noise = 4.0 * FLOAT64_EPS * float(np.max(np.abs(pair.s[core])))
        before = pair.x[core]
        tolerance = max(inner_tol * float(np.max(high - low)), noise)
        solve_weights(problem, self, tolerance)
        if not np.any(pair.x[core] != before):
            return Reply(1, Stop.STALLED)
        self.covers_all_points = False
        small_gaps = len(self.gaps) == SAMPLES_PER_STEP and max(self.gaps) <= self._gap_tolerance()
        if small_gaps:
            self.gaps.clear()
        return Reply(1, Stop.NEWS if small_gaps else Stop.BUDGET)

    def _value(self) -> float:
        """Return the value of the objective."""
        pair, core = self.pair, self.working_set
        slope = pair.s[core] + pair.problem.linear[core]
        return 0.5 * float(pair.x[core] @ slope) + pair.problem.constant

    def _gap_tolerance(self) -> float:
        """Return the gap over samples at which all points are worth evaluating."""
        problem = self.pair.problem
        return max(
            self.goal * abs(self._value()),
            problem.floor(FLOAT64_EPS * problem.scale) if self.goal else 0.0,
        )

    def _best_of_sample(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the best descent point of a sample for each simplex, and the gradient there.

        Further samples are drawn while there is no descent point.
        """
        pair, core, draws = self.pair, self.working_set, self.draws
        assert draws is not None
        group, n_groups = pair.group, len(pair.up_barrier)
        lowest = np.full(n_groups, np.inf)
        np.minimum.at(lowest, group[core], pair.s[core])
        mean = np.bincount(group[core], pair.x[core] * pair.s[core], n_groups)
        for _ in range(SAMPLES_PER_STEP):
            drawn = np.unique(draws.draw(1))
            drawn = drawn[~self.in_working_set[drawn]]
            f, best = self._gradient(drawn), list[int]()
            least = lowest.copy()
            for g in range(n_groups):
                of_group = np.flatnonzero(group[drawn] == g)
                if len(of_group):
                    at = of_group[np.argmin(f[of_group])]
                    least[g] = min(least[g], f[at])
                    best += [int(at)] if f[at] < mean[g] else []
            self.gaps.append(max(float(np.sum(mean - least)), 0.0))
            if best:
                break
        return drawn[best], f[best]

    def _gradient(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the gradient at points outside the core set."""
        problem, core = self.pair.problem, self.working_set
        gram, store = problem.gram, problem.store
        assert store is not None
        if len(points) == 0:
            return np.empty(0)
        signed = gram.sign[core] * self.pair.x[core]
        product = signed @ store.gram.block(core, points) + gram.shift * float(np.sum(signed))
        return np.asarray(gram.scale * gram.sign[points] * product + problem.linear[points])

    def _make_space(self, count: int) -> bool:
        """Return whether `count` points may be added; drop points of weight 0 if memory is short."""
        problem, core = self.pair.problem, self.working_set
        store, block = problem.store, self.block
        assert store is not None

        def needed(n: int) -> int:  # twice the size is allocated
            return min(problem.m, max(INITIAL_CORE_SET_SIZE, 2 * n)) ** 2

        total, limit = len(core) + count, max(store.n_entries, INITIAL_CORE_SET_SIZE**2)
        if block is not None and (total <= len(block) or needed(total) + block.size <= limit):
            return True
        kept = core[self.x[core] > 0.0]
        if needed(len(kept) + count) > limit:
            log.warning(
                "the Gram matrix of a core set of %d points fills the memory_limit", len(kept)
            )
            return False
        self.working_set, self.block = core[:0], None
        self.in_working_set[:] = False
        add_to_working_set(problem, self, kept, cache_columns=False)
        return True
