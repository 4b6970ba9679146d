"""Working-set decomposition: hundreds of coordinates per iteration, SMO on a Gram matrix in cache.

Problem: minimize 1/2 x'(G + D)x + c'x over a simplex or a product of simplices, also with upper bounds,
or over a box with a hyperplane. Each iteration

1. drops coordinates at a bound that belong to no violating pair from the working set, and adds the
   maximum violators, balanced over the directions of violation (a one-sided choice oscillates); their
   kernel entries over the working set are evaluated in one block;
2. solves over the working set by second-order SMO, on its own small Gram matrix;
3. updates the gradient of all points by the columns of weights that changed: columns that are read often
   are cached, also beyond the working set; the others are summed in cache as they are evaluated.

Sources: Joachims, "Making large-scale SVM learning practical" (1999); Wen et al., "ThunderSVM"
(2018).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.canonical.qp import QP
from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.gram.column_store import ColumnStore
from qpsvm.solvers.base import Reply, Stop, WithTargetGap, shared
from qpsvm.solvers.shared.starting_points import pair_start
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set.working_set import (
    OnWorkingSet,
    WorkingSetState,
    add_to_working_set,
    drop_from_working_set,
    extremes,
    max_violation,
    solve_working_set,
)

MIN_POINTS_FOR_FLOAT32 = 2000
"""Minimum number of points at which the steps use columns in float32."""

COLUMN_ENTRY_LIMITS = (96, 1 / 3, 384)
"""Limits on the coordinates added in an iteration where each costs a column: a number that is always
allowed, a multiple of the number of positive weights that is allowed if it is larger, and the maximum.
Early violators are alike, and most of them are dropped again."""

BLOCK_ENTRY_LIMITS = (384, 2.0, 1000)
"""The same where each coordinate costs only its entries over the working set."""

CHECK_VIOLATION_FRACTION = 0.7
"""Fraction of the KKT violation at the last check at which the bounds are checked again."""

CHECK_PERIOD = 4
"""Number of iterations after which the bounds are checked in any case."""

SETTLED_NEW_FRACTION = 1 / 8
"""Fraction of new coordinates below which a working set is settled, and solved more accurately."""

MIN_TOLERANCE_FRACTION = 0.01
"""Tolerance of a settled working set, relative to the KKT violation of all points."""

INNER_GAP_FRACTION = 0.4
"""Fraction of the target gap at which the solve over a settled working set ends earlier."""

MIN_SIZE_FOR_SHRINKING = 2000
"""Size of a settled working set, whose rows exceed the cache, above which it is shrunk before its many
last steps."""

SAMPLING_RATIO = 4
"""Violators per added coordinate above which a sample predicts the threshold of selection."""

SAMPLE_SIZE = 2048
"""Size of this sample."""


@dataclass(frozen=True)
class Decomposition(WithTargetGap, OnWorkingSet):
    """Solve over a working set of the coordinates that matter.

    Parameters
    ----------
    entering : int
        Maximum number of coordinates with uncached columns that are added in one iteration.
    least : float
        Minimum violation of an added coordinate, relative to the maximum: smaller violations may
        vanish in the next iteration.
    largest : int
        Size of the working set above which the coordinates nearest to optimality are dropped.
    inner_tol : float
        KKT violation at which the working set counts as solved, relative to the violation over all
        points at the start of the iteration.
    target : float, optional
        Target relative gap, by default the tolerance of the solve.
    max_rows_ahead : int, optional
        Rows up to which the Gram matrix is allocated ahead of need; `solve` sets it by `memory_limit`.
    """

    entering: int = 1000
    least: float = 0.2
    largest: int = 4096
    inner_tol: float = 0.3
    max_rows_ahead: int | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct, BoxHyperplane, CappedSimplex)
    first_check: ClassVar[int] = CHECK_PERIOD
    whole_columns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        check_number("entering", self.entering, low=2, integer=True)
        check_number("least", self.least, low=0.0, high=0.9)
        check_number("largest", self.largest, low=2, integer=True)
        check_number("inner_tol", self.inner_tol, low=0.0, high=1.0, open_low=True)

    def within(self, problem: QP, memory_limit: int) -> tuple[Self, int]:
        """Return the solver whose Gram matrix takes at most half of the memory.

        The working set has at most 1.25 times `largest` coordinates plus those added, and while the
        matrix is enlarged, the old one exists too.
        """
        itemsize = 4 if self.low_precision(problem) else problem.gram.kernel.dtype.itemsize
        bytes_per_entry = 1.25 * itemsize
        most_rows = min(problem.m, 2 * (self.largest + self.largest // 4 + self.entering))
        own_bytes, remaining = shared(memory_limit, int(bytes_per_entry * most_rows**2))
        rows = isqrt(int(own_bytes / bytes_per_entry))
        if rows >= most_rows - 1:
            return self, remaining
        largest = max(2, 2 * rows // 3)
        entering = max(2, min(self.entering, largest // 4))
        return replace(
            self, largest=min(self.largest, largest), entering=entering, max_rows_ahead=rows
        ), remaining

    def low_precision(self, problem: QP) -> bool:
        """Return whether there are many columns: float32 halves their time and memory."""
        return problem.m >= MIN_POINTS_FOR_FLOAT32

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Return true where the library's own threads fill columns.

        The threads of BLAS wait in busy loops for their next product: for milliseconds after a short
        inner product they take processor time from the threads that fill columns.
        """
        return (problem.gram.kernel.is_parallel,) * 2

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> WorkingSetState:
        """Return the state whose working set is the weights of the start between their bounds.

        Most of those at their bounds stay there, as on a capped simplex; violators among them are added.
        """
        x = pair_start(problem, x0)
        state = WorkingSetState(
            PairState.at(problem, x), max_rows_ahead=self.max_rows_ahead or problem.m
        )
        state.extremes = extremes(state.pair.s, state.pair.up_barrier, state.pair.low_barrier)
        state.checked_violation = max_violation(*state.extremes)
        free = np.flatnonzero((x != 0) & (x < state.pair.upper))
        add_to_working_set(problem, state, free[: self.largest])
        return state

    def iterate(self, problem: QP, state: WorkingSetState) -> Reply:
        """Add violators to the working set and solve over it."""
        pair, store = state.pair, problem.store
        low, high = state.extremes or extremes(pair.s, pair.up_barrier, pair.low_barrier)
        violation = max_violation(low, high)
        if np.isnan(violation):
            return Reply(0, Stop.NUMERICAL)
        if violation <= 0.0:  # -inf where I_up or I_low is empty
            return Reply(0, Stop.STALLED)
        assert store is not None
        # 1. Drop coordinates and add violators.
        drop_from_working_set(store, state, low, high, self.largest)
        n_before, limit = len(state.working_set), self._max_uncached(store, pair)
        low_bound, high_bound = low + self.least * violation, high - self.least * violation
        outside, cached = ~state.in_working_set, store.slot >= 0
        selections = ((outside & ~cached, limit), (outside & cached, self.largest // 4))
        for among, size in selections if cached.any() else [(outside, limit)]:
            new = _max_violators(pair, among, low_bound, high_bound, size)
            add_to_working_set(problem, state, new)
        if len(state.working_set) == 0:  # no violators: the corner 0 of the box is optimal
            return Reply(0, Stop.STALLED)
        # 2. Choose the tolerances of the solve over the working set.
        noise = 4.0 * FLOAT64_EPS * float(np.max(np.abs(pair.s[state.working_set])))
        tolerance = max(self.inner_tol * violation, noise)
        min_tolerance, gap_goal, shrink_working_set = np.inf, 0.0, None
        if len(state.working_set) - n_before < SETTLED_NEW_FRACTION * len(state.working_set):
            min_tolerance = max(MIN_TOLERANCE_FRACTION * violation, noise)
            gap_goal = INNER_GAP_FRACTION * (self.target or 0.0) * _value(problem, pair)
            if len(state.working_set) > MIN_SIZE_FOR_SHRINKING:
                shrink_working_set = partial(
                    drop_from_working_set, store, state, low, high, self.largest
                )
        # 3. Solve, and check the bounds once the violation has fallen.
        moved = solve_working_set(
            problem, state, tolerance, min_tolerance, gap_goal, shrink_working_set
        )
        if not moved:
            return Reply(1, Stop.STALLED)
        state.extremes = extremes(pair.s, pair.up_barrier, pair.low_barrier)
        violation = max_violation(*state.extremes)
        if violation > CHECK_VIOLATION_FRACTION * state.checked_violation:
            return Reply(1, Stop.BUDGET)
        state.checked_violation = violation
        return Reply(1, Stop.NEWS)

    def _max_uncached(self, store: ColumnStore, pair: PairState) -> int:
        """Return the maximum number of coordinates with uncached columns that are added."""
        costs_columns = store.break_even_reuse_count < 0
        fewest, share, most = COLUMN_ENTRY_LIMITS if costs_columns else BLOCK_ENTRY_LIMITS
        return min(self.entering, most, max(fewest, int(share * np.count_nonzero(pair.x != 0))))

    def period(self, problem: QP) -> int:
        """Return a short period: an iteration solves a whole reduced problem."""
        return CHECK_PERIOD

    def default_max_iter(self, problem: QP) -> int:
        """Return a budget in which every coordinate could be added twice."""
        return 500 + 2 * problem.m // self.entering


@np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging x
def _value(problem: QP, pair: PairState) -> float:
    """Return the absolute value of the objective."""
    gradient = pair.z * pair.s
    return abs(0.5 * float(pair.x @ (gradient + problem.linear)) + problem.constant)


def _max_violators(
    pair: PairState,
    among: NDArray[np.bool_],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    size: int,
) -> NDArray[np.int64]:
    """Return at most `size` violators, sorted by index, about half of them for each direction.

    These are the coordinates of I_up with the least s and those of I_low with the greatest s; where one
    side has few, the other has more. On a simplex no coordinate of weight zero is in I_low.
    """
    chosen = np.zeros(len(among), bool)
    share = -(-size // len(low))
    for g in range(len(low)):
        up = among & (pair.up_barrier[g] == 0) & (pair.s < high[g])
        down = among & (pair.low_barrier[g] == 0) & (pair.s > low[g])
        n_up, n_down = int(np.count_nonzero(up)), int(np.count_nonzero(down))
        chosen[smallest(pair.s, up, n_up, max(share // 2, share - n_down))] = True
        chosen[smallest(-pair.s, down, n_down, max(share // 2, share - n_up))] = True
    return np.flatnonzero(chosen)


def smallest(
    values: NDArray[np.float64], among: NDArray[np.bool_], n: int, count: int
) -> NDArray[np.int64]:
    """Return the indices of the `count` smallest of n values, or of all if there are fewer.

    For many values a sample predicts an upper bound of the smallest; only values below it are gathered.
    """
    if n > max(SAMPLING_RATIO * count, SAMPLE_SIZE):
        step = -(-len(values) // SAMPLE_SIZE)
        sample = values[::step][among[::step]]
        at = count * len(sample) // n
        at += 4 * isqrt(at) + 8
        if at < len(sample):
            likely = among & (values <= np.partition(sample, at)[at])
            among = likely if np.count_nonzero(likely) >= count else among
    candidates = np.flatnonzero(among)
    if n <= count:
        return candidates
    return candidates[np.argpartition(values[candidates], count - 1)[:count]]
