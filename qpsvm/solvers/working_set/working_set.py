"""A working set with its own Gram matrix, and SMO over it: shared by decomposition and core sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import ApproximateProducts
from qpsvm.canonical.qp import QP
from qpsvm.clock import Expired, poll
from qpsvm.gram import SignedGram
from qpsvm.gram.column_store import ColumnStore
from qpsvm.gram.repeated import PointStore
from qpsvm.solvers.base import WORK_BETWEEN_POLLS, Reply, Solver
from qpsvm.solvers.smo.inner_smo import InnerProblem, solve_inner
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set.gradient_error import GradientError
from qpsvm.solvers.working_set.gram_block import accumulate, compact, empty_square, extend

MAX_VIOLATION_RATIO = 4.0
"""Ratio of the KKT violation of the gradient to that which the inner steps report, above which random
rounding to 16 bits is an unlikely cause: its share is below two where these steps end."""

ROUNDING_LIMITED_FRACTION = 0.1
"""Fraction of the tolerance at which a rounding-limited solve is accepted: the next one starts with an
exact gradient and moves less."""

MAX_COLUMNS_OF_AN_EVALUATION = 1024
"""Columns that an update of the gradient evaluates at once: between polls, an evaluation computes its
columns on a few tiles of points."""

SHRINKING_MARGIN = 0.1
"""Fraction of the KKT violation within which a coordinate at a bound is kept in the working set."""

MIN_DROPPED_MEMBERS, DROPPED_SHARE = 64, 8
"""Minimum number of coordinates that are dropped at a time, and of the working set one in so many."""


@dataclass
class WorkingSetState:
    """A point of the domain, and the Gram matrix of the working set."""

    pair: PairState  # the point, its signed gradient, I_up and I_low
    working_set: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    block: NDArray[Any] | None = (
        None  # leading part: K over the working set, in multiples of `unit`
    )
    max_rows_ahead: int = 1 << 40  # rows up to which the block is allocated ahead of need
    n_pairs: int = 0  # SMO steps
    quantization_limited: bool = False  # whether 16 bits were found to be too few
    checked_violation: float = np.inf  # KKT violation at the last check
    extremes: Any = None  # minima of s over I_up and maxima over I_low, where known
    x: NDArray[np.float64] = field(init=False)  # the point, that of `pair`
    unit: float = field(init=False)  # quantum of the block; below 1 if it is of 16 bits
    in_working_set: NDArray[np.bool_] = field(init=False)  # membership by coordinate
    gradient_error: GradientError = field(init=False)  # error of `product` since it was set

    def __post_init__(self) -> None:
        """Start with an empty working set."""
        self.x, store = self.pair.x, self.pair.problem.store
        self.unit = 1.0 if store is None else store.unit
        self.in_working_set = np.zeros(len(self.pair.x), bool)
        self.reset_gradient_error(self.pair.problem.entry_roundoff(self.x))

    def reset_gradient_error(self, error: float | NDArray[np.float64]) -> None:
        """Restart the error bound at that of a product that was just set."""
        self.extremes = None
        self.gradient_error = GradientError(error, np.zeros(len(self.x)))

    @property
    def product(self) -> NDArray[np.float64]:
        """G x."""
        return self.pair.product

    @property
    def counters(self) -> dict[str, int]:
        """Size of the working set, SMO steps, bytes of its Gram matrix."""
        n_bytes = 0 if self.block is None else self.block.nbytes
        return {"core": len(self.working_set), "pair": self.n_pairs, "matrix_bytes": n_bytes}


class OnWorkingSet(Solver):
    """A method on working sets: an iteration solves over the working set, and may be abandoned."""

    is_abandonable: ClassVar[bool] = True

    @abstractmethod
    def iterate(self, problem: QP, state: WorkingSetState) -> Reply:
        """Add coordinates to the working set and solve over it."""

    def advance(self, problem: QP, state: WorkingSetState, n_steps: int) -> Reply:
        """Make one iteration; at a limit return to the point at which it began."""
        pair = state.pair
        x, s = pair.x.copy(), pair.s.copy()
        try:
            return self.iterate(problem, state)
        except Expired:
            pair.x[:], pair.s[:] = x, s
            raise

    def refresh(self, problem: QP, state: WorkingSetState, product: NDArray[np.float64]) -> None:
        """Set the gradient by a recomputed G x."""
        state.pair.set_product(product)
        state.reset_gradient_error(problem.entry_roundoff(state.x))

    def refresh_partly(
        self, problem: QP, state: WorkingSetState, products: ApproximateProducts
    ) -> None:
        """Set the gradient by an approximate G x."""
        state.pair.set_product(products.product)
        state.reset_gradient_error(products.error)

    def approximate_products(
        self, problem: QP, state: WorkingSetState
    ) -> ApproximateProducts | None:
        """Return the product with a bound on the error of each entry, where the columns have one."""
        return state.gradient_error.approximate_products(problem, state.x, state.product)


def add_to_working_set(
    problem: QP, state: WorkingSetState, new: NDArray[np.int64], cache_columns: bool | None = None
) -> None:
    """Add coordinates to the working set, and their rows and columns to its Gram matrix.

    With `cache_columns` their columns over all points are cached; otherwise only the entries over the
    working set are evaluated, since many of the coordinates may keep their weights. None: columns are
    cached where they always are.
    """
    store = problem.store
    assert store is not None
    cache_columns = store.break_even_reuse_count < 0 if cache_columns is None else cache_columns
    for start in range(0, len(new), store.n_slots):
        chunk = new[start : start + store.n_slots]
        if cache_columns:
            store.ensure(chunk)
        n, n_total = len(state.working_set), len(state.working_set) + len(chunk)
        if state.block is None or n_total > len(state.block):
            dtype = np.uint16 if state.unit < 1.0 else store.store.dtype
            ahead = min(2 * n_total, state.max_rows_ahead)
            larger = empty_square(min(problem.m, max(64, n_total, ahead)), dtype)
            if state.block is not None:
                larger[:n, :n] = state.block[:n, :n]
            state.block = larger
        state.working_set = np.concatenate([state.working_set, chunk])
        state.in_working_set[chunk] = True
        extend(state.block, store, chunk, state.working_set)


def drop_from_working_set(
    store: ColumnStore,
    state: WorkingSetState,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    largest: int,
) -> None:
    """Drop coordinates as `members_to_keep` says.

    Columns of a coordinate that is dropped only because the working set is large stay cached; those of
    the others may be overwritten.
    """
    pair, working_set = state.pair, state.working_set
    if state.block is None or not len(working_set):
        return
    up_barrier = pair.up_barrier.take(working_set, axis=1)
    low_barrier = pair.low_barrier.take(working_set, axis=1)
    violation = float(np.max(high - low))
    found = members_to_keep(pair.s[working_set], up_barrier, low_barrier, violation, largest)
    if found is None:
        return
    kept, wanted = found
    state.in_working_set[working_set[~kept]] = False
    store.release(working_set[~wanted])
    state.working_set = working_set[compact(state.block, kept)]


def members_to_keep(
    s: NDArray[np.float64], up_barrier: Any, low_barrier: Any, violation: float, largest: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Return which members a working set keeps, and which it would keep if it were small.

    A coordinate at a bound that belongs to no violating pair is dropped. Shrinking uses the thresholds of
    the working set alone: outside violators would keep almost all. From one of more than `largest`, a
    quarter is dropped: the coordinates with the least gain. None while few would be dropped.

    `s` is the signed gradient, shape (n,); barriers, shape (n_groups, n), are 0 in I_up and in I_low of a
    group and else inf; `violation` is the KKT violation over all coordinates.
    """
    n, margin = len(s), SHRINKING_MARGIN * violation
    low, high = extremes(s, up_barrier, low_barrier)
    low, high = low - margin, high + margin
    gain = np.full(n, -np.inf)
    free = np.zeros(n, bool)
    for g in range(len(low)):
        free |= (up_barrier[g] == 0) & (low_barrier[g] == 0)
        up_gain, low_gain = high[g] - s - up_barrier[g], s - low_barrier[g] - low[g]
        gain = np.maximum(gain, np.maximum(up_gain, low_gain))
    wanted = free | (gain > 0)
    kept = wanted.copy()
    if np.count_nonzero(wanted) > largest:
        kept[np.argpartition(gain, n - 3 * largest // 4)[: -3 * largest // 4]] = False
    few = np.count_nonzero(~kept) < max(MIN_DROPPED_MEMBERS, n // DROPPED_SHARE)
    return None if few else (kept, wanted)


def solve_working_set(
    problem: QP,
    state: WorkingSetState,
    tolerance: float,
    min_tolerance: float = np.inf,
    gap_goal: float = 0.0,
    shrink: Callable[[], None] | None = None,
) -> bool:
    """Solve over the working set by SMO from the current weights; return whether any weight moved.

    SMO stops at a KKT violation of at most `tolerance`; it continues down to `min_tolerance` while the
    gap of the problem over the working set, the other weights fixed, is above `gap_goal`. Between these
    two solves `shrink` may drop coordinates, so that the remaining steps are over fewer.
    """
    pair, working_set, ridge = state.pair, state.working_set, problem.gram.ridge
    x_start, s = pair.x[working_set], pair.s[working_set]
    if shrink is not None:
        _solve(problem, state, tolerance, np.inf, 0.0, update_s=True)
        shrink()
    violation = _solve(problem, state, tolerance, min_tolerance, gap_goal)
    pair.s[working_set] = s
    change = pair.x[working_set] - x_start
    changed = np.flatnonzero(change != 0)
    _update_gradient(problem, state, working_set[changed], change[changed])
    pair.s[working_set] += pair.z[working_set] * ridge[working_set] * change
    if state.unit < 1.0:
        indices = state.working_set
        barriers = pair.up_barrier.take(indices, axis=1), pair.low_barrier.take(indices, axis=1)
        low, high = extremes(pair.s[indices], *barriers)
        expected = max(violation, ROUNDING_LIMITED_FRACTION * tolerance)
        state.quantization_limited = bool(np.max(high - low) > MAX_VIOLATION_RATIO * expected)
    return len(changed) > 0


def solve_weights(problem: QP, state: WorkingSetState, tolerance: float) -> None:
    """Solve over the working set to a KKT violation; the gradient of other points is not updated."""
    _solve(problem, state, tolerance, np.inf, 0.0, update_s=True)


def _solve(
    problem: QP,
    state: WorkingSetState,
    tolerance: float,
    min_tolerance: float,
    gap_goal: float,
    update_s: bool = False,
) -> float:
    """Make the steps over the working set; return its KKT violation, by its Gram matrix.

    With `update_s` the gradient over the working set is updated by this matrix. Where 16 bits are too
    few, the matrix is replaced by one in the precision of columns: at once if the steps end limited by
    rounding before the accepted fraction of the tolerance, and before the next solve if the exact
    gradient shows a much larger violation.
    """
    gram, store, pair, working_set = problem.gram, problem.store, state.pair, state.working_set
    assert store is not None
    if state.quantization_limited:
        _refine(problem, state)
    x, z, ridge = pair.x[working_set], pair.z[working_set], gram.ridge[working_set]
    diagonal = gram.scale * (store.diag[working_set] + gram.shift) + ridge
    side = (z * gram.sign[working_set]).astype(store.store.dtype)
    upper, constants = pair.upper[working_set], (float(gram.shift), float(gram.scale))
    barriers = pair.up_barrier.take(working_set, axis=1), pair.low_barrier.take(working_set, axis=1)
    limits: Any = (tolerance, min_tolerance, gap_goal)
    n_polled = _steps_between_polls(len(working_set))
    x_start, rounding_limited = x.copy(), True
    while rounding_limited:
        arrays = _matrix(state), diagonal, side, ridge, z, upper
        inner, n_left = InnerProblem(*arrays, *constants, state.unit), inner_steps(len(x))
        is_cut = True
        while is_cut:
            most = min(n_left, n_polled)
            n_done, violation, rounding_limited = solve_inner(
                inner, x, x_start, pair.s[working_set], *barriers, most, *limits
            )
            state.n_pairs += n_done
            n_left -= n_done
            is_cut = n_done == most and n_left > 0 and not rounding_limited
            if is_cut:
                poll()
        rounding_limited = rounding_limited and violation > ROUNDING_LIMITED_FRACTION * tolerance
        if rounding_limited:
            _refine(problem, state)
    if update_s:  # by no further steps
        s = pair.s[working_set]
        solve_inner(inner, x, x_start, s, *barriers, 0, *limits)
        pair.s[working_set] = s
    pair.x[working_set] = x
    for g in range(len(pair.up_barrier)):  # group by group: half the time
        pair.up_barrier[g][working_set] = barriers[0][g]
        pair.low_barrier[g][working_set] = barriers[1][g]
    return float(violation)


def _steps_between_polls(size: int) -> int:
    """Return the inner steps, each of which reads two rows, after which limits are polled."""
    return max(1, int(WORK_BETWEEN_POLLS / (2 * size)))


def extremes(
    s: Any, up_barrier: Any, low_barrier: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the minimum of s over I_up and the maximum over I_low, of each group."""
    return np.min(s + up_barrier, axis=1), np.max(s - low_barrier, axis=1)


@np.errstate(invalid="ignore")  # NaN tells of a diverging gradient
def max_violation(low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
    """Return the greatest KKT violation of a group."""
    return float(np.max(high - low))


def _update_gradient(
    problem: QP, state: WorkingSetState, moved: NDArray[np.int64], change: NDArray[np.float64]
) -> None:
    """Update the gradient of all points by a change of weights, without the ridge.

    A weight that reached a bound seldom changes again: its column is evaluated and summed, and not cached
    where this is its only use.
    """
    gram, store, pair = problem.gram, problem.store, state.pair
    assert store is not None
    at_bound = (pair.x[moved] <= 0) | (pair.x[moved] >= pair.upper[moved])
    uncached = store.passing(moved, ~at_bound)
    if uncached.any():
        weights = (change * gram.sign[moved])[uncached]
        total = pair.scratch
        total[:] = gram.shift * float(np.sum(weights))
        store.add(moved[uncached], weights, total, size=state.gradient_error.size)
        factors = store.relative_error
        state.gradient_error.record_moves(factors, moved[uncached], weights, cached=False)
        total *= pair.z
        total *= gram.sign
        if gram.scale != 1.0:
            total *= gram.scale
        pair.s += total
    released, moved, change = moved[at_bound], moved[~uncached], change[~uncached]
    factors = store.relative_error
    step = min(store.n_slots, MAX_COLUMNS_OF_AN_EVALUATION)
    for start in range(0, len(moved), step):  # none where all were summed uncached
        at = slice(start, start + step)
        store.ensure(moved[at])
        state.gradient_error.record_moves(factors, moved[at], change[at], cached=True)
        sizes = state.gradient_error.size
        if isinstance(store, PointStore):
            _add_columns_of_points(problem, state, moved[at], change[at])
            continue
        by_size = () if factors is None else (factors.columns(moved[at]), sizes)
        accumulate(problem.columns(), moved[at], change[at], pair.z, pair.s, *by_size)
    store.release(released)


def _add_columns_of_points(
    problem: QP, state: WorkingSetState, moved: NDArray[np.int64], change: NDArray[np.float64]
) -> None:
    """Update the gradient by cached columns over points, each summed once for all its coordinates."""
    gram, store, pair = problem.gram, problem.store, state.pair
    assert isinstance(store, PointStore)
    points, weights = store.merged(moved, change * gram.sign[moved])
    n_points, known = store.points.gram.m, store.points.relative_error
    one, total, size = np.ones(n_points), np.zeros(n_points), np.zeros(n_points)
    plain = SignedGram(store.points.gram, one, np.zeros(n_points), gram.shift, gram.scale)
    by_size = () if known is None else (known.columns(points), size)
    accumulate(plain.columns(store.points), points, weights, one, total, *by_size)
    pair.s += pair.z * gram.sign * total[store.index]
    if known is not None:
        state.gradient_error.size += size[store.index]


def _matrix(state: WorkingSetState) -> NDArray[Any]:
    """Return the rows of the Gram matrix of the working set, read-only for compiled code."""
    assert state.block is not None
    block = state.block[: len(state.working_set)]
    block.flags.writeable = False
    return block


def _refine(problem: QP, state: WorkingSetState) -> None:
    """Recompute the Gram matrix of the working set in the precision of columns."""
    working_set, state.working_set = state.working_set, state.working_set[:0]
    state.unit, state.block, state.quantization_limited = 1.0, None, False
    add_to_working_set(problem, state, working_set)


def inner_steps(n: int) -> int:
    """Return the maximum number of inner steps: enough for n coordinates, about 0.2 s at most."""
    return max(1000, min(10_000 + 20 * n, 200_000_000 // n))
