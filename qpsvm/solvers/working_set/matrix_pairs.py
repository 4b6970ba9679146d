"""The hinge dual of two groups of points, for many penalties: steps read few rows of the matrix.

The problem is that of `matrix_paths`. Rows in low precision are written when the steps first read them
(`lazy_rows`); every bound comes from sums in float64, by code that the steps do not use.

Sources: as in `matrix_paths`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.engine.groups import Sweep
from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.parallel import BufferPool
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.smo.pair_data import is_blocked
from qpsvm.solvers.working_set.inner_smo import InnerProblem, InnerState, _solve
from qpsvm.solvers.working_set.lazy_rows import ComputedRows, StoredRows, row_of, write_row
from qpsvm.solvers.working_set.matrix_blocks import GroupBlocks, sum_rows
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

MAX_ROUNDS = 40
"""Number of rounds of steps for one C, after which the gap is returned as it is; more than
`MAX_ROUGH_ROUNDS`."""

STEPS_PER_POINT, MIN_ROUND_STEPS = 100, 10_000
"""Number of steps of a round: so many for each point, and so many at least."""

Vector = NDArray[np.float64]


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
    with buffers.array(n_slots * width, np.float32) as memory:
        block = memory.reshape(n_slots, width)
        if width > n:
            block[:] = 0.0
        counts = np.zeros(2, np.int64)
        own, limits = rows(block, np.full(n, -1), counts), (n_slots, counts)
        _path(source, y, weight, own, diagonal, penalties, tol, rounding, *limits, *path)
    return path


@vectorized
def _exact_sums(source: Any, y: Any, x: Any, u: Any, s: Any) -> None:
    """Write y x to u and Ku - y to s."""
    for k in range(len(y)):
        u[k] = y[k] * x[k]
    sum_rows(source, u, s)
    for k in range(len(y)):
        s[k] -= y[k]


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
        s[i] -= y[i]


@vectorized
def _bounds(y: Any, x: Any, upper: Any, rounding: float, s: Any, marked: Any) -> Any:
    """Return the evaluation where an entry of s is off by at most `rounding` times the sum of x."""
    error = rounding * np.sum(x)
    return bounds(y, x, upper, s, marked, error, error, marked)


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
    before, upper, marked = np.zeros(n), np.empty(n), np.empty(n, np.bool_)
    up_barrier, low_barrier = np.empty((1, n)), np.empty((1, n))
    problem = InnerProblem(block, diagonal, ones, no_ridge, y, upper, 0.0, 1.0, 1.0)
    for c in range(len(penalties)):
        for k in range(n):
            upper[k] = penalties[c] * weight[k]
        scale_weights(y, x, before, upper)
        tolerance, total_steps, is_exact = FIRST_TOLERANCE, 0, False
        for attempt in range(MAX_ROUNDS + 1):
            if not is_exact:
                _rough_sums(block, y, x, state.e, flags[0, 0], u, s)
                found = _bounds(y, x, upper, rounding, s, marked)
                is_small = found.gap <= -ROUGH_GOAL_FRACTION * tol * found.value
                is_exact = is_small or attempt >= MAX_ROUGH_ROUNDS
            if is_exact:
                _exact_sums(source, y, x, u, s)
                found = _bounds(y, x, upper, rounding, s, marked)
                if found.gap <= -tol * found.value or attempt == MAX_ROUNDS:
                    break
            for k in range(n):
                up_blocked, low_blocked = is_blocked(x, y, upper, k)
                up_barrier[0, k] = np.inf if up_blocked else 0.0
                low_barrier[0, k] = np.inf if low_blocked else 0.0
                start[k] = x[k]
            goal = -GAP_GOAL_FRACTION * tol * found.value
            least = tolerance if goal == 0.0 else min(tolerance, 1e-3 * FIRST_TOLERANCE)
            most = STEPS_PER_POINT * n + MIN_ROUND_STEPS if n_slots >= n else n_slots
            steps, _, _ = _solve(
                problem, state, x, start, s, up_barrier, low_barrier, most, tolerance, least, goal
            )
            total_steps += steps
            if counts[1] > 0:
                _exact_sums(source, y, x, u, s)
                found = _bounds(y, x, upper, rounding, s, marked)
                break
            if attempt > 1 and steps < most:
                tolerance *= TOLERANCE_DECREASE
        for k in range(n):
            weights[c, k], before[k] = x[k], upper[k]
        biases[c], values[c], gaps[c] = found.bias, found.value, found.gap
        roundoffs[c], n_steps[c] = found.roundoff, total_steps
