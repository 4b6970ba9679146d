"""The core vector machine on a sample: the best of a few points drawn at random enters the core.

Frandi et al., Algorithm 1 with section 5.2.3. The gradient is maintained on the core, by its own Gram
matrix, and evaluated at the draws; no column over all points is. Once eight samples in a row see a gap
within the tolerance, or none of eight holds a point that descends, the loop evaluates the gradient at all
points.
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
from qpsvm.solvers.working_set.working_set import CoreState, enter, extremes, solve_weights

log = logging.getLogger("qpsvm")

FIRST_CORE_ROOM = 64
"""Core points for which there is room from the start."""


@dataclass
class SampledCore(CoreState):
    """A core with its Gram matrix; of the gradient in `pair` the part over the core is maintained."""

    draws: Draws | None = None
    goal: float = 0.0  # relative gap that samples are to see
    is_whole: bool = True  # whether the gradient is that of x at all points
    is_fresh: bool = True  # whether the next iteration begins with it
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_PER_STEP))
    n_scans: int = 0

    def __post_init__(self) -> None:
        """Start with an empty core, whose Gram matrix is to have the precision of columns."""
        super().__post_init__()
        self.unit = 1.0

    @classmethod
    def at(cls, problem: QP, x: NDArray[np.float64], draws: Draws, goal: float) -> SampledCore:
        """Return the state at x."""
        state = cls(PairState.at(problem, x), draws=draws, goal=goal)
        enter(problem, state, np.flatnonzero(x != 0), hold=False)
        return state

    def settle(self, error: float | NDArray[np.float64]) -> None:
        """Note that the gradient is known at all points."""
        super().settle(error)
        self.is_whole = self.is_fresh = True

    @property
    def product(self) -> NDArray[np.float64]:
        """G x over all points, evaluated when the loop asks for it."""
        if not self.is_whole:
            self.pair.set_product(self.pair.problem.gram.product(self.x))
            self.is_whole = self.is_fresh = True
            self.n_scans += 1
        return self.pair.product

    @property
    def bounds(self) -> Bounds:
        """The value, and the gap that the last samples saw: smaller than the true one."""
        problem, upper = self.pair.problem, self._value()
        gap = max(self.gaps) if self.gaps else np.inf
        if problem.negated:
            return Bounds(gap - upper, -upper, gap, np.empty(0))
        return Bounds(upper, upper - gap, gap, np.empty(0))

    @property
    def counters(self) -> dict[str, int]:
        """Size of the core, SMO steps, passes over all points, bytes of the core's Gram matrix."""
        n_bytes = 0 if self.block is None else self.block.nbytes
        return super().counters | {"scan": self.n_scans, "bytes": n_bytes}

    def advance(self, inner_tol: float) -> Reply:
        """Let the best point of a sample enter, and solve over the core: one iteration."""
        pair, problem, draws = self.pair, self.pair.problem, self.draws
        assert draws is not None
        if self.is_fresh:
            self.is_fresh = False
            worst = draws.worst(pair.s, pair.x)
            new, f = worst[~self.inside[worst]], pair.s[worst[~self.inside[worst]]]
            self.gaps.clear()
        else:
            new, f = self._drawn()
        if not np.isfinite(pair.s[self.core]).all():
            return Reply(0, Stop.NUMERICAL)
        if not self._make_room(len(new)):
            return Reply(0, Stop.STALLED)
        pair.s[new] = f
        enter(problem, self, new, hold=False)
        core = self.core
        low, high = extremes(
            pair.s[core], pair.grow.take(core, axis=1), pair.shrink.take(core, axis=1)
        )
        noise = 4.0 * FLOAT64_EPS * float(np.max(np.abs(pair.s[core])))
        before = pair.x[core]
        spread = max(inner_tol * float(np.max(high - low)), noise)
        solve_weights(problem, self, spread)
        if not np.any(pair.x[core] != before):
            return Reply(1, Stop.STALLED)
        self.is_whole = False
        quiet = len(self.gaps) == SAMPLES_PER_STEP and max(self.gaps) <= self._small()
        if quiet:
            self.gaps.clear()
        return Reply(1, Stop.NEWS if quiet else Stop.BUDGET)

    def _value(self) -> float:
        """Return the value that is minimized."""
        pair, core = self.pair, self.core
        slope = pair.s[core] + pair.problem.linear[core]
        return 0.5 * float(pair.x[core] @ slope) + pair.problem.constant

    def _small(self) -> float:
        """Return the gap over samples at which it is worth while to look at all points."""
        problem = self.pair.problem
        return max(
            self.goal * abs(self._value()),
            problem.floor(FLOAT64_EPS * problem.scale) if self.goal else 0.0,
        )

    def _drawn(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the best point of a sample for each simplex, where it descends, and the gradient there.

        Where none descends further samples are drawn.
        """
        pair, core, draws = self.pair, self.core, self.draws
        assert draws is not None
        group, n_groups = pair.group, len(pair.grow)
        lowest = np.full(n_groups, np.inf)
        np.minimum.at(lowest, group[core], pair.s[core])
        level = np.bincount(group[core], pair.x[core] * pair.s[core], n_groups)
        for _ in range(SAMPLES_PER_STEP):
            drawn = np.unique(draws.draw(1))
            drawn = drawn[~self.inside[drawn]]
            f, best = self._gradient(drawn), list[int]()
            least = lowest.copy()
            for g in range(n_groups):
                mine = np.flatnonzero(group[drawn] == g)
                if len(mine):
                    at = mine[np.argmin(f[mine])]
                    least[g] = min(least[g], f[at])
                    best += [int(at)] if f[at] < level[g] else []
            self.gaps.append(max(float(np.sum(level - least)), 0.0))
            if best:
                break
        return drawn[best], f[best]

    def _gradient(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the gradient at points outside the core."""
        problem, core = self.pair.problem, self.core
        gram, store = problem.gram, problem.store
        assert store is not None
        if len(points) == 0:
            return np.empty(0)
        signed = gram.sign[core] * self.pair.x[core]
        product = signed @ store.gram.block(core, points) + gram.shift * float(np.sum(signed))
        return np.asarray(gram.scale * gram.sign[points] * product + problem.linear[points])

    def _make_room(self, count: int) -> bool:
        """Return whether so many points may enter; those of weight 0 leave where memory is short."""
        problem, core = self.pair.problem, self.core
        store, block = problem.store, self.block
        assert store is not None

        def needed(n: int) -> int:  # what is added has twice the room that it needs
            return min(problem.m, max(FIRST_CORE_ROOM, 2 * n)) ** 2

        total, limit = len(core) + count, max(store.n_entries, FIRST_CORE_ROOM**2)
        if block is not None and (total <= len(block) or needed(total) + block.size <= limit):
            return True
        stay = core[self.x[core] > 0.0]
        if needed(len(stay) + count) > limit:
            log.warning("the Gram matrix of a core of %d points fills the memory_limit", len(stay))
            return False
        self.core, self.block = core[:0], None
        self.inside[:] = False
        enter(problem, self, stay, hold=False)
        return True
