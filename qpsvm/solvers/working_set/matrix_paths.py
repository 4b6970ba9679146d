"""Hinge duals of many subsets of the points of one stored kernel matrix, each for many penalties.

Problem, for each subset and each C, with u_i = y_i x_i: minimize 1/2 u'Ku - sum x subject to
0 <= x_i <= C w_i and sum u = 0.

Pairs of classes, folds and grids of C make thousands of such problems of some hundred points: a solve of
each one alone would spend its time outside of the steps. Here a subset's part of the matrix is copied to
float32 once. For each C, in ascending order, the previous weights are scaled to the new bounds, and
`inner_smo` makes steps. Every bound comes from sums in float64 over the matrix as it was given, by code
that the steps do not use: `_bounds`.

Sources: the steps are those of `inner_smo`. Warm starts along C: DeCoste and Wagstaff (2000),
"Alpha seeding for support vector machines".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.gram.engine.groups import Sweep
from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.parallel import BufferPool, parallel_for, scratch
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.smo.pair_data import is_blocked
from qpsvm.solvers.working_set.inner_smo import InnerProblem, InnerState, _solve
from qpsvm.solvers.working_set.lazy_rows import ComputedRows, StoredRows, row_of, write_row
from qpsvm.solvers.working_set.matrix_blocks import (
    GroupBlocks,
    MatrixRuns,
    copy_matrix,
    sum_rows,
)

CHUNK_ENTRIES = 1 << 20
"""Entries of matrices that a thread solves before it takes another chunk and limits are polled."""

MAX_COPIED_POINTS = 1024
"""Number of points up to which a subset's part of the matrix is copied in float64 too: rows of short runs
are slow to read from a matrix beyond the caches."""

FIRST_TOLERANCE = 0.1
"""KKT violation, in units of the margin, down to which the first steps for a C go."""

GAP_GOAL_FRACTION, ROUGH_GOAL_FRACTION = 0.6, 0.9
"""Fractions of the gap asked for at which the steps end, and at which a gap from rows in float32 is
computed again exactly: the exact gap may be a little greater."""

TOLERANCE_DECREASE = 0.1
"""Factor of the tolerance where the steps ended and the exact gap is still too large."""

MAX_ROW_ENTRIES, MIN_ROWS = 1 << 23, 64
"""Entries of the rows of two groups in memory at a time, and least number of rows."""

MAX_ROUGH_ROUNDS = 3
"""Number of rounds whose gaps are computed from the rows in float32, until one is small enough."""

MAX_ROUNDS = 40
"""Number of rounds of steps for one C, after which the gap is returned as it is."""

STEPS_PER_POINT, MIN_ROUND_STEPS = 100, 10_000
"""Number of steps of a round: so many for each point, and so many at least."""

Vector = NDArray[np.float64]


class Subset(NamedTuple):
    """Points of one problem: runs of consecutive rows of the matrix."""

    runs: NDArray[np.int64]  # (n_runs, 2): first row of a run, and the row after its last
    y: Vector  # (n,), -1 or +1
    weight: Vector  # (n,), upper bounds are C times these; positive


class SubsetPath(NamedTuple):
    """Answers for one subset; the value is that of the dual, which is minimized.

    The optimal value lies in [value - gap, value].
    """

    x: Vector  # (n_penalties, n)
    b: Vector  # (n_penalties,)
    value: Vector  # (n_penalties,)
    gap: Vector  # (n_penalties,), rounding included
    roundoff: Vector  # (n_penalties,), the part of the gap that is a bound on rounding errors
    n_steps: NDArray[np.int64]  # (n_penalties,)


def hinge_paths(
    matrix: Vector,
    subsets: Sequence[Subset],
    penalties: Vector,
    tol: float,
    entry_error: float,
    buffers: BufferPool | None = None,
) -> list[SubsetPath]:
    """Solve the hinge dual of each subset for each penalty, in parallel.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        Kernel matrix in float64, positive semidefinite, C-ordered.
    subsets : sequence of Subset
    penalties : ndarray, shape (n_penalties,)
        C, ascending and finite.
    tol : float
        Relative gap to be reached.
    entry_error : float
        Bound on the error of an entry of the matrix.
    buffers : BufferPool, optional
        Shared by several calls.

    Returns
    -------
    list of SubsetPath
        One for each subset. A gap is above `tol` where the rounds of steps did not reach it.

    Raises
    ------
    Expired
        If a limit is met between two chunks of subsets: see `qpsvm.clock`.
    """
    paths = [empty_path(len(penalties), len(subset.y)) for subset in subsets]
    rounding = entry_rounding(np.diag(matrix), entry_error)
    buffers = BufferPool() if buffers is None else buffers

    def solve_chunk(chunk: list[int]) -> None:
        for k in chunk:
            subset, path = subsets[k], paths[k]
            n, source = len(subset.y), MatrixRuns(matrix, subset.runs)
            own = subset.y, subset.weight
            if n > MAX_COPIED_POINTS:
                _solve_subset(source, *own, penalties, tol, rounding, path, buffers)
                continue
            with scratch(n * n, np.float64) as memory:
                exact = memory.reshape(n, n)
                copy_matrix(source, exact)
                source = MatrixRuns(exact, np.array([[0, n]]))
                _solve_subset(source, *own, penalties, tol, rounding, path, buffers)

    parallel_for(solve_chunk, chunks_of([len(subset.y) for subset in subsets]))
    return paths


def hinge_path(
    source: GroupBlocks | Sweep,
    rows: Callable[..., StoredRows | ComputedRows],
    diagonal: Vector,
    y: Vector,
    weight: Vector,
    penalties: Vector,
    tol: float,
    entry_error: float,
    buffers: BufferPool,
) -> SubsetPath:
    """Solve the hinge dual of two groups of points for each penalty, in this thread.

    Parameters
    ----------
    source : GroupBlocks or Sweep
        The matrix in float64.
    rows : callable
        ``rows(memory, slot, counts)`` returns what writes its rows in float32 to memory.
    diagonal : ndarray, shape (n,)
    y, weight, penalties, tol, entry_error, buffers
        As in `hinge_paths`.

    Returns
    -------
    SubsetPath
        Where steps read more rows than memory holds, the gap of the weights that they came to.
    """
    n = len(y)
    path, width = empty_path(len(penalties), n), max(n, VECTOR_LANES)
    n_slots = min(n, max(MIN_ROWS, MAX_ROW_ENTRIES // width))
    rounding = entry_rounding(diagonal, entry_error)
    with buffers.array(n_slots * width, np.float32) as memory:
        block = memory.reshape(n_slots, width)
        if width > n:
            block[:] = 0.0
        counts = np.zeros(2, np.int64)
        own, limits = rows(block, np.full(n, -1), counts), (n_slots, counts)
        _path(source, y, weight, own, diagonal, penalties, tol, rounding, *limits, *path)
    return path


def entry_rounding(diagonal: Vector, entry_error: float) -> float:
    """Return a bound on the error of an entry of Ku for weights of sum 1, rounding included."""
    return entry_error + 4.0 * FLOAT64_EPS * float(np.max(diagonal))


def empty_path(n_penalties: int, n: int) -> SubsetPath:
    """Return memory for the answers of n points."""
    numbers = [np.empty(n_penalties) for _ in range(4)]
    return SubsetPath(
        np.empty((n_penalties, n)),
        numbers[0],
        numbers[1],
        numbers[2],
        numbers[3],
        np.empty(n_penalties, np.int64),
    )


def _solve_subset(
    source: MatrixRuns,
    y: Vector,
    weight: Vector,
    penalties: Vector,
    tol: float,
    rounding: float,
    path: SubsetPath,
    buffers: BufferPool,
) -> None:
    """Solve one subset in this thread; its steps read a copy of the matrix in float32."""
    n = len(y)
    width = max(n, VECTOR_LANES)
    block_of = buffers.array if n > MAX_COPIED_POINTS else scratch
    with block_of(n * width, np.float32) as memory:
        block = memory.reshape(n, width)
        if width > n:
            block[:] = 0.0
        copy_matrix(source, block)
        block.flags.writeable = False
        diagonal, limits = np.diagonal(block).astype(np.float64), (n, np.zeros(2, np.int64))
        _path(source, y, weight, block, diagonal, penalties, tol, rounding, *limits, *path)


def chunks_of(sizes: list[int]) -> list[list[int]]:
    """Return numbers of subsets in chunks of about `CHUNK_ENTRIES`, the largest subsets first."""
    chunks: list[list[int]] = []
    left = 0
    for k in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        if left <= 0:
            chunks.append([])
            left = CHUNK_ENTRIES
        chunks[-1].append(k)
        left -= sizes[k] * sizes[k]
    return chunks


@vectorized
def _exact_sums(source: Any, y: Any, x: Any, u: Any, s: Any) -> None:
    """Write y x to u and Ku to s."""
    for k in range(len(y)):
        u[k] = y[k] * x[k]
    sum_rows(source, u, s)


@vectorized
def _rough_sums(block: Any, y: Any, x: Any, e: Any, blocked: Any, u: Any, s: Any) -> None:
    """Do the same with the rows that the steps read."""
    s[:] = 0.0
    for i in range(len(y)):
        u[i] = y[i] * x[i]
        if u[i] != 0.0:
            write_row(block, i, e, blocked, 1.0)
            row, weight = row_of(block, i), u[i]
            for k in range(len(s)):
                s[k] += weight * row[k]


@vectorized
def _bounds(
    y: Any, x: Any, upper: Any, rounding: float, u: Any, s: Any
) -> tuple[float, float, float, float]:
    """Return value, gap, its roundoff and the bias of feasible weights, given Ku; write Ku - y to s.

    The gap is that of the primal point with this bias, which is midway between the bounds that the index
    sets give. An entry of Ku is off by at most `rounding` times the sum of x.
    """
    total, quadratic = 0.0, 0.0
    low, high = np.inf, -np.inf
    for k in range(len(y)):
        total += x[k]
        quadratic += u[k] * s[k]
        s[k] -= y[k]
        up = x[k] < upper[k] if y[k] > 0.0 else x[k] > 0.0
        down = x[k] > 0.0 if y[k] > 0.0 else x[k] < upper[k]
        low = s[k] if up and s[k] < low else low
        high = s[k] if down and s[k] > high else high
    if low == np.inf or high == -np.inf:  # one class, or all weights at their bounds
        bias = -high if low == np.inf else -low
    else:
        bias = -0.5 * (low + high)
    entry, gap, roundoff = rounding * total, 0.0, 0.0
    for k in range(len(y)):
        slope = y[k] * (s[k] + bias)
        if slope < entry:
            gap += (upper[k] - x[k]) * max(-slope, 0.0)
            roundoff += (upper[k] - x[k]) * entry
        if x[k] > 0.0:
            gap += x[k] * max(slope, 0.0)
            roundoff += x[k] * entry
    return 0.5 * quadratic - total, gap + roundoff, roundoff, bias


@vectorized
def _scale_weights(y: Any, x: Any, before: Any, upper: Any) -> None:
    """Set weights to their new bounds where they were at the old ones; scale one class to y'x = 0."""
    balance, heavy = 0.0, 0.0
    for k in range(len(x)):
        if before[k] > 0.0 and x[k] >= before[k]:
            x[k] = upper[k]
        balance += y[k] * x[k]
    for k in range(len(x)):
        heavy += x[k] if y[k] * balance > 0.0 else 0.0
    if heavy > 0.0:
        factor = max(1.0 - abs(balance) / heavy, 0.0)
        for k in range(len(x)):
            x[k] *= factor if y[k] * balance > 0.0 else 1.0


@vectorized
def _path(
    source: Any,
    y: Any,
    weight: Any,
    block: Any,
    diagonal: Any,
    penalties: Any,
    tol: float,
    rounding: float,
    n_slots: int,
    counts: Any,
    weights: Any,
    biases: Any,
    values: Any,
    gaps: Any,
    roundoffs: Any,
    n_steps: Any,
) -> None:
    """Solve one subset for all penalties; give up where memory is short for the rows that are read."""
    n, width = len(y), max(len(y), VECTOR_LANES)
    side, sizes = np.ones(width, np.float32), np.zeros(width, np.float32)
    flags, extremes = np.ones((2, 1, width), np.int8), np.full((2, 1), -1, np.intp)
    state = InnerState(
        np.zeros(width, np.float32), side, sizes, flags[0], flags[1], extremes[0], extremes[1]
    )
    ones, no_ridge = np.ones(n, np.float32), np.zeros(n)
    x, start, u, s = np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
    before, upper = np.zeros(n), np.empty(n)
    up_barrier, low_barrier = np.empty((1, n)), np.empty((1, n))
    problem = InnerProblem(block, diagonal, ones, no_ridge, y, upper, 0.0, 1.0, 1.0)
    for c in range(len(penalties)):
        for k in range(n):
            upper[k] = penalties[c] * weight[k]
        _scale_weights(y, x, before, upper)
        tolerance, total_steps, is_exact = FIRST_TOLERANCE, 0, False
        for attempt in range(MAX_ROUNDS):
            if not is_exact:
                _rough_sums(block, y, x, state.e, flags[0, 0], u, s)
                value, gap, roundoff, bias = _bounds(y, x, upper, rounding, u, s)
                is_exact = gap <= -ROUGH_GOAL_FRACTION * tol * value or attempt >= MAX_ROUGH_ROUNDS
            if is_exact:
                _exact_sums(source, y, x, u, s)
                value, gap, roundoff, bias = _bounds(y, x, upper, rounding, u, s)
                if gap <= -tol * value:
                    break
            for k in range(n):
                up_blocked, low_blocked = is_blocked(x, y, upper, k)
                up_barrier[0, k] = np.inf if up_blocked else 0.0
                low_barrier[0, k] = np.inf if low_blocked else 0.0
                start[k] = x[k]
            goal = -GAP_GOAL_FRACTION * tol * value
            least = tolerance if goal == 0.0 else min(tolerance, 1e-3 * FIRST_TOLERANCE)
            most = STEPS_PER_POINT * n + MIN_ROUND_STEPS if n_slots >= n else n_slots
            steps, _, _ = _solve(
                problem, state, x, start, s, up_barrier, low_barrier, most, tolerance, least, goal
            )
            total_steps += steps
            if counts[1] > 0:
                _exact_sums(source, y, x, u, s)
                value, gap, roundoff, bias = _bounds(y, x, upper, rounding, u, s)
                break
            if attempt > 1 and steps < most:
                tolerance *= TOLERANCE_DECREASE
        for k in range(n):
            weights[c, k], before[k] = x[k], upper[k]
        biases[c], values[c], gaps[c], n_steps[c] = bias, value, gap, total_steps
        roundoffs[c] = roundoff
