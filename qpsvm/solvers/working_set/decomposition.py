"""Working-set decomposition: hundreds of columns enter at once, SMO on the core in cache.

Problem: minimize 1/2 x'(G + D)x + c'x over a simplex, a product of simplices, or a box with a
hyperplane. Each iteration

1. lets the coordinates leave the core that no step wants, and those enter that violate optimality
   most, balanced over the directions of violation (a one-sided choice oscillates); their kernel
   entries among the core are evaluated in one block;
2. solves over the core by second-order SMO, on the core's own Gram matrix, which is small;
3. updates the gradient of all points by the columns of weights that changed: those that are read often
   are held, whoever leaves, and the others are summed up in cache as they are evaluated.

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

from qpsvm.canonical.base import EPS
from qpsvm.canonical.qp import QP
from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.gram.column_store import ColumnStore
from qpsvm.solvers.base import Reply, Stop, shared
from qpsvm.solvers.shared.starting_points import pair_start
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set.gram_block import compact
from qpsvm.solvers.working_set.working_set import CoreState, OnCore, enter, extremes, solve_core

NARROW = 2000
"""Points from which the steps use columns in float32."""

BY_COLUMNS, BY_ENTRIES = (96, 1 / 3, 384), (384, 2.0, 1000)
"""Coordinates that may always enter, beyond these the share of the number that have weight, and the
most: where each costs a column, and where it costs entries among the core alone. The first violators
are of a kind, and most of them leave again."""

LESS, PERIOD = 0.7, 4
"""Share of the violation at the last look at the bounds from which they are worth another one, and
iterations after which they are looked at anyway."""

MARGIN = 0.1
"""A coordinate at a bound stays while a tenth of the violation would make a pair want it."""

SETTLED, SHARPEST, CLOSED = 1 / 8, 0.01, 0.4
"""Where the share of the core that is new is below the first number there is little left that other
coordinates could change: the core is solved to a spread of the second at least, relative to the
violation, unless its gap is below the third of what is asked for."""

WIDE = 2000
"""Coordinates of a core whose rows lie far from the processor: before the many steps of a last core those
leave that no pair wants by then."""

SPARSE, SAMPLE = 4, 2048
"""Violators for each one that enters beyond which a sample tells which are gathered, and its size."""


@dataclass(frozen=True)
class Decomposition(OnCore):
    """Solve over a core of the coordinates that matter now.

    Parameters
    ----------
    entering : int
        Most coordinates that enter the core in one iteration whose columns are not held.
    least : float
        Least violation of one that enters, relative to the greatest: what violates less may not do
        so after the next iteration.
    largest : int
        Coordinates of the core beyond which those leave that are nearest to optimal.
    inner_tol : float
        Spread of the gradient over the core at which it counts as solved, relative to the violation
        over all points at which the iteration began.
    target : float, optional
        Relative gap that is asked for; the tolerance of the solve by default.
    room : int, optional
        Rows for which the matrix of the core has room; `solve` sets it by its `memory_limit`.
    """

    entering: int = 1000
    least: float = 0.2
    largest: int = 4096
    inner_tol: float = 0.3
    target: float | None = None
    room: int | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct, BoxHyperplane, CappedSimplex)
    first_check: ClassVar[int] = PERIOD

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("entering", self.entering, low=2, integer=True)
        check_number("least", self.least, low=0.0, high=0.9)
        check_number("largest", self.largest, low=2, integer=True)
        check_number("inner_tol", self.inner_tol, low=0.0, high=1.0, open_low=True)
        if self.target is not None:
            check_number("target", self.target, low=0.0)

    def for_tolerance(self, tol: float) -> Self:
        """Return the solver that solves the last cores for this gap."""
        return self if self.target is not None else replace(self, target=tol)

    def within(self, problem: QP, memory_limit: int) -> tuple[Self, int]:
        """Return the solver whose core's matrix keeps to half of the memory.

        A quarter more than `largest` and those that enter are in the core at once, and where its matrix
        grows, the old one is there too.
        """
        each = 1.25 * (4 if self.low_precision(problem) else problem.gram.kernel.dtype.itemsize)
        most = min(problem.m, 2 * (self.largest + self.largest // 4 + self.entering))
        own, left = shared(memory_limit, int(each * most**2))
        rows = isqrt(int(own / each))
        if rows >= most - 1:
            return self, left
        largest = max(2, 2 * rows // 3)
        entering = max(2, min(self.entering, largest // 4))
        return replace(self, largest=min(self.largest, largest), entering=entering, room=rows), left

    def low_precision(self, problem: QP) -> bool:
        """Return whether the columns are many: float32 halves their time and memory."""
        return problem.m >= NARROW

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Return true where columns are filled by threads of our own.

        The threads of BLAS wait in busy loops for their next product: milliseconds after a short
        inner product they still take the processors from those that fill columns.
        """
        return (problem.gram.kernel.spreads,) * 2

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> CoreState:
        """Return the state with the support of the starting point as its core."""
        x = pair_start(problem, x0)
        state = CoreState(PairState.at(problem, x), room=self.room or problem.m)
        state.extremes = extremes(state.pair.s, state.pair.grow, state.pair.shrink)
        state.looked = _apart(*state.extremes)
        support = np.flatnonzero(x != 0)
        enter(problem, state, support[: self.largest])
        return state

    def iterate(self, problem: QP, state: CoreState) -> Reply:
        """Let violators enter the core and solve over the core."""
        pair, store = state.pair, problem.store
        low, high = state.extremes or extremes(pair.s, pair.grow, pair.shrink)
        violation = _apart(low, high)
        if np.isnan(violation):
            return Reply(0, Stop.NUMERICAL)
        if violation <= 0.0:  # -inf where none can grow, or none can shrink
            return Reply(0, Stop.STALLED)
        assert store is not None
        _leave(store, state, low, high, self.largest)
        before, bar, few = len(state.core), self.least * violation, self._few(store, pair)
        outside, held = ~state.inside, store.slot >= 0
        some = ((outside & ~held, few), (outside & held, self.largest // 4))
        for among, size in some if held.any() else [(outside, few)]:
            enter(problem, state, _worst(pair, among, low + bar, high - bar, size))
        if len(state.core) == 0:  # nothing violates: the box's corner 0 is optimal
            return Reply(0, Stop.STALLED)
        noise = 4.0 * EPS * float(np.max(np.abs(pair.s[state.core])))
        spread, least, goal, shed = max(self.inner_tol * violation, noise), np.inf, 0.0, None
        if len(state.core) - before < SETTLED * len(state.core):
            least = max(SHARPEST * violation, noise)
            goal = CLOSED * (self.target or 0.0) * _value(problem, pair)
            if len(state.core) > WIDE:
                shed = partial(_leave, store, state, low, high, self.largest)
        moved = solve_core(problem, state, spread, least, goal, shed)
        if not moved:
            return Reply(1, Stop.STALLED)
        state.extremes = extremes(pair.s, pair.grow, pair.shrink)
        violation = _apart(*state.extremes)
        if violation > LESS * state.looked:
            return Reply(1, Stop.BUDGET)
        state.looked = violation
        return Reply(1, Stop.NEWS)

    def _few(self, store: ColumnStore, pair: PairState) -> int:
        """Return how many may enter whose columns are not held."""
        fewest, share, most = BY_COLUMNS if store.break_even_reuse_count < 0 else BY_ENTRIES
        return min(self.entering, most, max(fewest, int(share * np.count_nonzero(pair.x != 0))))

    def period(self, problem: QP) -> int:
        """Return a short period: an iteration solves a whole reduced problem."""
        return PERIOD

    def default_max_iter(self, problem: QP) -> int:
        """Return a budget in which every coordinate could enter twice."""
        return 500 + 2 * problem.m // self.entering


def _value(problem: QP, pair: PairState) -> float:
    """Return the size of the value at the current point."""
    gradient = pair.z * pair.s
    return abs(0.5 * float(pair.x @ (gradient + problem.linear)) + problem.constant)


@np.errstate(invalid="ignore")  # a diverging gradient is noticed by this
def _apart(low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
    """Return the greatest violation of a group."""
    return float(np.max(high - low))


def _worst(
    pair: PairState,
    among: NDArray[np.bool_],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    size: int,
) -> NDArray[np.int64]:
    """Return at most `size` violators, rising, about half of them for each direction.

    Those with the least s that can grow, and those with the greatest s that can shrink; where one
    side has few, the other has more. On a simplex nothing of weight zero can shrink.
    """
    chosen = np.zeros(len(among), bool)
    share = -(-size // len(low))
    for g in range(len(low)):
        up = among & (pair.grow[g] == 0) & (pair.s < high[g])
        down = among & (pair.shrink[g] == 0) & (pair.s > low[g])
        n_up, n_down = int(np.count_nonzero(up)), int(np.count_nonzero(down))
        chosen[_smallest(pair.s, up, n_up, max(share // 2, share - n_down))] = True
        chosen[_smallest(-pair.s, down, n_down, max(share // 2, share - n_up))] = True
    return np.flatnonzero(chosen)


def _smallest(
    values: NDArray[np.float64], among: NDArray[np.bool_], n: int, count: int
) -> NDArray[np.int64]:
    """Return the indices of the `count` smallest of n values, or of all if there are fewer.

    Of many, a sample says which may be among them: only these are gathered.
    """
    if n > max(SPARSE * count, SAMPLE):
        step = -(-len(values) // SAMPLE)
        some = values[::step][among[::step]]
        at = count * len(some) // n
        at += 4 * isqrt(at) + 8
        if at < len(some):
            few = among & (values <= np.partition(some, at)[at])
            among = few if np.count_nonzero(few) >= count else among
    left = np.flatnonzero(among)
    if n <= count:
        return left
    return left[np.argpartition(values[left], count - 1)[:count]]


def _leave(
    store: ColumnStore,
    state: CoreState,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    largest: int,
) -> None:
    """Let coordinates leave the core that are at a bound and that no pair wants, once they are many.

    What counts is the core as it was solved: whoever violates outside would keep almost everyone.

    In a core of more than `largest`, a quarter leaves: those whose pairs have least to gain. Their
    columns stay held; those of the others may be overwritten.
    """
    pair, core = state.pair, state.core
    if state.block is None or not len(core):
        return
    s = pair.s[core]
    margin = MARGIN * float(np.max(high - low))
    grow, shrink = pair.grow.take(core, axis=1), pair.shrink.take(core, axis=1)
    low, high = extremes(s, grow, shrink)
    low, high = low - margin, high + margin
    gain = np.full(len(core), -np.inf)
    free = np.zeros(len(core), bool)
    for g in range(len(low)):
        free |= (grow[g] == 0) & (shrink[g] == 0)
        gain = np.maximum(gain, np.maximum(high[g] - s - grow[g], s - shrink[g] - low[g]))
    wanted = free | (gain > 0)
    idle = core[~wanted]
    if np.count_nonzero(wanted) > largest:
        wanted[np.argpartition(gain, len(core) - 3 * largest // 4)[: -3 * largest // 4]] = False
    if np.count_nonzero(~wanted) < max(64, len(core) // 8):
        return
    state.inside[core[~wanted]] = False
    store.release(idle)
    state.core = core[compact(state.block, wanted)]
