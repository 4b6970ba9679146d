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
from qpsvm.solvers.smo.lazy_rows import StoredRows, row_of, write_row
from qpsvm.solvers.working_set.matrix_blocks import GroupBlocks
from qpsvm.solvers.working_set.matrix_bounds import (
    SubsetPath,
    bounds,
    empty_path,
    scale_weights,
    sum_error,
)
from qpsvm.solvers.working_set.matrix_steps import (
    FIRST_TOLERANCE,
    GAP_GOAL_FRACTION,
    MAX_MET_ROUNDS,
    MAX_ROUNDS,
    MAX_STEPS_PER_POINT,
    MAX_WORKING_SET,
    TOLERANCE_DECREASE,
    WORKING_SET_ENTRIES,
    make_steps,
)

ROUGH_GOAL_FRACTION = 0.9
"""Fraction of the target gap at which a gap from rows in float32 is recomputed in float64, which may give
a slightly greater one."""

MAX_ROW_ENTRIES, MIN_ROWS = 1 << 23, 64
"""Maximum number of entries of the rows of two groups in memory at a time, unless `MIN_ROWS` rows have
more."""

MAX_EXACT_ROUNDS = 40
"""Maximum number of gaps in float64 for one C; the last one is returned as it is."""

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
    max_steps: int | None = None,
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
    max_steps : int, optional
        Number of steps for each penalty; `MAX_STEPS_PER_POINT` times n by default and at most.

    Returns
    -------
    SubsetPath
        Where steps would read more rows than memory holds, or are too many, the gap of the weights that
        they reached.
    """
    n, most_steps = len(y), MAX_STEPS_PER_POINT * len(y)
    if max_steps is not None:
        most_steps = min(max_steps, most_steps)
    path, width = empty_path(len(penalties), n), max(n, VECTOR_LANES)
    n_slots = min(n, max(MIN_ROWS, MAX_ROW_ENTRIES // width))
    rounding = entry_error + sum_error(n, float(np.max(diagonal)))
    x, before, s = np.zeros(n), np.zeros(n), np.empty(n)
    with (
        buffers.array(n_slots * width, np.float32) as memory,
        buffers.array(WORKING_SET_ENTRIES, np.float32) as working_memory,
    ):
        rows, counts = memory.reshape(n_slots, width), np.zeros(2, np.int64)
        if width > n:
            rows[:] = 0.0
        block = StoredRows(rows, np.full(n, -1), counts, *blocks)
        for c, penalty in enumerate(penalties):
            upper = penalty * weight
            scale_weights(y, x, before, upper)
            x_summed, n_steps, tolerance = np.zeros(n), 0, FIRST_TOLERANCE
            s[:] = -y
            for _ in range(MAX_EXACT_ROUNDS):
                n_steps, tolerance, is_over = _rounds(
                    block, diagonal, y, upper, x, x_summed, s, tol, rounding, n_steps, tolerance,
                    working_memory, MAX_WORKING_SET, most_steps,
                )  # fmt: skip
                found = _exact_bounds(sums, y, x, upper, s, rounding)
                if found.gap <= -tol * found.value or is_over:
                    break
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
    """Write Ku - y, u = y x, to s in float64; return the bounds at the weights x."""
    sums(y * x, s)
    s -= y
    return _bounds(y, x, upper, rounding, s)


@vectorized
def _bounds(y: Any, x: Any, upper: Any, rounding: float, s: Any) -> Any:
    """Return the bounds where the error of an entry of s is at most `rounding` times the sum of x."""
    error, marked = rounding * np.sum(x), np.empty(len(y), np.bool_)
    return bounds(y, x, upper, s, marked, error, error, marked)


@vectorized
def _rounds(
    block: Any,
    diagonal: Any,
    y: Any,
    upper: Any,
    x: Any,
    x_summed: Any,
    s: Any,
    tol: float,
    rounding: float,
    n_steps: int,
    tolerance: float,
    memory: Any,
    most: int,
    max_steps: int,
) -> tuple[int, float, bool]:
    """Make rounds of steps until the gap by s is small.

    s is Ku - y at the weights `x_summed`, which become x: rows of weights that moved are added to s.
    A working set has at most `most` points. Return the number of all steps, the tolerance of the next
    round, and whether it is the last one: memory is short for rows, or there were `max_steps`.
    """
    n_met, is_over = 0, False
    for _ in range(MAX_ROUNDS):
        _add_moved(block, y, x, x_summed, s)
        found = _bounds(y, x, upper, rounding, s)
        goal, is_over = -tol * found.value, block.counts[1] > 0 or n_steps >= max_steps
        if found.gap <= ROUGH_GOAL_FRACTION * goal or n_met > MAX_MET_ROUNDS or is_over:
            break
        steps, is_met = make_steps(
            block, diagonal, y, upper, x, s, found, tolerance, GAP_GOAL_FRACTION * goal, memory, most,
            max_steps - n_steps,
        )  # fmt: skip
        n_steps += steps
        n_met += is_met
        if is_met and n_met > 1:
            tolerance *= TOLERANCE_DECREASE
    return n_steps, tolerance, is_over


@vectorized
def _add_moved(block: Any, y: Any, x: Any, x_summed: Any, s: Any) -> None:
    """Update s from the weights `x_summed` to x by the rows of the weights that differ."""
    for i in range(len(y)):
        weight = y[i] * (x[i] - x_summed[i])
        if weight != 0.0:
            write_row(block, i)
            row = row_of(block, i)
            for k in range(len(s)):
                s[k] += weight * row[k]
            x_summed[i] = x[i]
