"""The hinge dual of two groups of points, for many penalties: steps read few rows of the matrix.

The problem is that of `matrix_paths`. Rows in float32 are copied from stored blocks when the steps first
read them (`lazy_rows`); every bound comes from sums in float64, by code that the steps do not use. What
depends on the kernel is a function that the caller gives: the steps are compiled once for all kernels.

Sources: as in `matrix_paths`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.parallel import BufferPool
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.smo.pair_data import is_blocked
from qpsvm.solvers.working_set.inner_smo import InnerProblem, InnerState, _solve
from qpsvm.solvers.working_set.lazy_rows import StoredRows, row_of, write_row
from qpsvm.solvers.working_set.matrix_blocks import GroupBlocks
from qpsvm.solvers.working_set.matrix_bounds import (
    SubsetPath,
    bounds,
    empty_path,
    scale_weights,
    sum_error,
)

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

MAX_EXACT_ROUNDS = 37
"""Number of rounds after these whose gaps are exact, after which the gap is returned as it is."""

STEPS_PER_POINT, MIN_ROUND_STEPS = 100, 10_000
"""Number of steps of a round: so many for each point, and so many at least."""

Vector = NDArray[np.float64]


def hinge_path(
    blocks: GroupBlocks,
    sums: Callable[[Vector, Vector], None],
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
    blocks : GroupBlocks
        The matrix K in the precision of the steps.
    sums : callable
        ``sums(u, s)`` writes Ku to s in float64.
    diagonal : ndarray, shape (n,)
    y, weight, penalties, tol, entry_error, buffers
        As in `matrix_paths.hinge_paths`.

    Returns
    -------
    SubsetPath
        Where steps read more rows than memory holds, the gap of the weights that they came to.
    """
    n = len(y)
    path, width = empty_path(len(penalties), n), max(n, VECTOR_LANES)
    n_slots = min(n, max(MIN_ROWS, MAX_ROW_ENTRIES // width))
    rounding = entry_error + sum_error(n, float(np.max(diagonal)))
    x, before, s = np.zeros(n), np.zeros(n), np.empty(n)
    with buffers.array(n_slots * width, np.float32) as memory:
        rows, counts = memory.reshape(n_slots, width), np.zeros(2, np.int64)
        if width > n:
            rows[:] = 0.0
        block = StoredRows(rows, np.full(n, -1), counts, *blocks)
        for c, penalty in enumerate(penalties):
            upper = penalty * weight
            scale_weights(y, x, before, upper)
            own = block, diagonal, y, upper, x, s
            n_steps, tolerance = _rough_rounds(*own, tol, rounding)
            found = _exact_bounds(sums, y, x, upper, s, rounding)
            for _ in range(MAX_EXACT_ROUNDS):
                if found.gap <= -tol * found.value or counts[1] > 0:
                    break
                steps, is_finished = _round(*own, tolerance, -GAP_GOAL_FRACTION * tol * found.value)
                n_steps += steps
                tolerance *= TOLERANCE_DECREASE if is_finished else 1.0
                found = _exact_bounds(sums, y, x, upper, s, rounding)
            path.x[c], path.b[c], path.n_steps[c] = x, found.bias, n_steps
            path.value[c], path.gap[c], path.roundoff[c] = found.value, found.gap, found.roundoff
            before = upper
    return path


def _exact_bounds(
    sums: Callable[[Vector, Vector], None],
    y: Vector,
    x: Vector,
    upper: Vector,
    s: Vector,
    rounding: float,
) -> Any:
    """Write Ku - y to s and return the evaluation."""
    sums(y * x, s)
    s -= y
    return _bounds(y, x, upper, rounding, s)


@vectorized
def _bounds(y: Any, x: Any, upper: Any, rounding: float, s: Any) -> Any:
    """Return the evaluation where an entry of s is off by at most `rounding` times the sum of x."""
    error, marked = rounding * np.sum(x), np.empty(len(y), np.bool_)
    return bounds(y, x, upper, s, marked, error, error, marked)


@vectorized
def _rough_rounds(
    block: Any, diagonal: Any, y: Any, upper: Any, x: Any, s: Any, tol: float, rounding: float
) -> tuple[int, float]:
    """Make rounds of steps until the gap from rows in float32 is small, or memory is short for rows.

    Return the number of steps, and the tolerance of the next round.
    """
    n_steps, tolerance = 0, FIRST_TOLERANCE
    for attempt in range(MAX_ROUGH_ROUNDS):
        _rough_sums(block, y, x, s)
        found = _bounds(y, x, upper, rounding, s)
        if found.gap <= -ROUGH_GOAL_FRACTION * tol * found.value:
            break
        goal = -GAP_GOAL_FRACTION * tol * found.value
        steps, is_finished = _round(block, diagonal, y, upper, x, s, tolerance, goal)
        n_steps += steps
        if block.counts[1] > 0:
            break
        if attempt > 1 and is_finished:
            tolerance *= TOLERANCE_DECREASE
    return n_steps, tolerance


@vectorized
def _rough_sums(block: Any, y: Any, x: Any, s: Any) -> None:
    """Write Ku - y to s by the rows that the steps read."""
    s[:] = 0.0
    for i in range(len(y)):
        if x[i] != 0.0:
            write_row(block, i)
            row, weight = row_of(block, i), y[i] * x[i]
            for k in range(len(s)):
                s[k] += weight * row[k]
        s[i] -= y[i]


@vectorized
def _round(
    block: Any, diagonal: Any, y: Any, upper: Any, x: Any, s: Any, tolerance: float, goal: float
) -> tuple[int, bool]:
    """Make a round of steps from s = Ku - y; return their number, and whether there were few enough."""
    n, width, n_slots = len(y), max(len(y), VECTOR_LANES), len(block.rows)
    side, sizes = np.ones(width, np.float32), np.zeros(width, np.float32)
    flags, extremes = np.ones((2, 1, width), np.int8), np.full((2, 1), -1, np.intp)
    state = InnerState(
        np.zeros(width, np.float32), side, sizes, flags[0], flags[1], extremes[0], extremes[1]
    )
    problem = InnerProblem(
        block, diagonal, np.ones(n, np.float32), np.zeros(n), y, upper, 0.0, 1.0, 1.0
    )
    up_barrier, low_barrier = np.empty((1, n)), np.empty((1, n))
    for k in range(n):
        up_blocked, low_blocked = is_blocked(x, y, upper, k)
        up_barrier[0, k] = np.inf if up_blocked else 0.0
        low_barrier[0, k] = np.inf if low_blocked else 0.0
    least = tolerance if goal == 0.0 else min(tolerance, 1e-3 * FIRST_TOLERANCE)
    most = STEPS_PER_POINT * n + MIN_ROUND_STEPS if n_slots >= n else n_slots
    start = x.copy()
    steps, _, _ = _solve(
        problem, state, x, start, s, up_barrier, low_barrier, most, tolerance, least, goal
    )
    return steps, steps < most
