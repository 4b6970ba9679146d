"""Steps of `matrix_paths` and `matrix_pairs`: those of `inner_smo`, on all points or on a working set.

The first steps for a C go down to a violation of a tenth of the margin; those after them are made on the
points within a tenth of the margin of the bias, and on free ones. Many working sets are left after few
steps, so that a row of their matrix is gathered when steps first read it. The gradient is not recomputed
here: where it is no longer accurate the steps end, and the caller adds the rows that moved to its sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.smo.inner_smo import (
    MAX_STEPS_PER_COORDINATE,
    SINGLE_PRECISION_FRACTION,
    TOLERANCE_REDUCTION,
    InnerProblem,
    InnerState,
    extremes_of_groups,
    gap_of_steps,
    make_pair_steps,
    read_gradient,
)
from qpsvm.solvers.smo.lazy_rows import GatheredRows
from qpsvm.solvers.smo.pair_data import is_blocked

FIRST_TOLERANCE = 0.1
"""KKT violation, in units of the margin, down to which the first steps for a C go."""

LAST_TOLERANCE = 1e-4
"""KKT violation down to which steps continue while the gap is above its goal."""

GAP_GOAL_FRACTION = 0.6
"""Fraction of the gap asked for at which the steps end: the exact gap may be a little greater."""

TOLERANCE_DECREASE = 0.1
"""Factor of the tolerance where the steps ended and the exact gap is still too large."""

MAX_ROUNDS, MAX_MET_ROUNDS = 400, 12
"""Number of rounds of steps for one C after which the gap is returned as it is, and of those whose
steps met their tolerance: with a tolerance of 1e-12 rounding alone remains."""

MAX_STEPS_PER_POINT = 1000
"""Number of steps for one C, for each point, after which the gap is returned as it is."""

MAX_WORKING_SET = 2048
"""Largest working set; where more points violate the conditions, steps are made on part of them."""

WORKING_SET_ENTRIES = 1 << 22
"""Entries of the rows of a working set in memory at a time."""

MIN_STEPS_BETWEEN_SUMS = 10_000
"""Number of steps for which a gradient in single precision is accurate, however few its entries are."""

WORKING_SET_MARGIN = 0.1
"""Distance from the bias, in units of the margin, within which points at a bound join the working set."""

MAX_SHARE_OF_POINTS = 0.5
"""Share of the points up to which a working set is worth the copies of its rows."""

WORKING_SET_REDUCTION = 0.1
"""Fraction of the violation down to which steps go on a part of the points that violate."""

MIN_DIAGONAL = 1e-300
"""Least value by which a diagonal is scaled."""


@vectorized
def make_steps(
    block: Any,
    diagonal: Any,
    y: Any,
    upper: Any,
    x: Any,
    s: Any,
    found: Any,
    tolerance: float,
    goal: float,
    memory: Any,
    most: int,
    max_steps: int,
) -> tuple[int, bool]:
    """Make steps on a working set, or on all points; return their number and whether the goal was met.

    They go down to the tolerance and, where the goal is a positive gap, on until it is met. A working
    set has at most `most` points; `memory` is for its rows.
    """
    chosen, is_part = _choose(y, upper, x, s, -found.bias, most)
    n_chosen = len(chosen)
    least = min(tolerance, LAST_TOLERANCE) if goal > 0.0 else tolerance
    if n_chosen < VECTOR_LANES or n_chosen > MAX_SHARE_OF_POINTS * len(y):
        return _steps_on(block, diagonal, y, upper, x, s, tolerance, least, goal, max_steps)
    if is_part:
        tolerance = least = WORKING_SET_REDUCTION * found.violation
    n_rows = min(n_chosen, len(memory) // n_chosen)
    part = memory[: n_rows * n_chosen].reshape(n_rows, n_chosen)
    slot, counts = np.full(n_chosen, -1), np.zeros(2, np.int64)
    own_diagonal, own_y, own_upper = np.empty(n_chosen), np.empty(n_chosen), np.empty(n_chosen)
    own_x, own_s = np.empty(n_chosen), np.empty(n_chosen)
    for a in range(n_chosen):
        k = chosen[a]
        own_diagonal[a], own_y[a], own_upper[a] = diagonal[k], y[k], upper[k]
        own_x[a], own_s[a] = x[k], s[k]
    own = GatheredRows(part, slot, counts, block, chosen)
    n_steps, is_met = _steps_on(
        own, own_diagonal, own_y, own_upper, own_x, own_s, tolerance, least, goal, max_steps
    )
    for a in range(n_chosen):
        x[chosen[a]] = own_x[a]
    return n_steps, is_met and not is_part


@vectorized
def _choose(y: Any, upper: Any, x: Any, s: Any, middle: float, most: int) -> Any:
    """Return a working set in ascending order, and whether it is a part of the points that violate.

    Where there are too many of them, half of the set are those that rise most and half that fall most.
    """
    n, n_up, n_low, n_chosen = len(y), 0, 0, 0
    up, low, is_chosen = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.bool_)
    for k in range(n):
        up_blocked, low_blocked = is_blocked(x, y, upper, k)
        rises = not up_blocked and (not low_blocked or s[k] < middle + WORKING_SET_MARGIN)
        falls = not low_blocked and (not up_blocked or s[k] > middle - WORKING_SET_MARGIN)
        if rises:
            up[n_up] = k
            n_up += 1
        if falls:
            low[n_low] = k
            n_low += 1
        is_chosen[k] = rises or falls
        n_chosen += is_chosen[k]
    is_part = n_chosen > most
    if is_part:
        is_chosen[:] = False
        by_up, by_low = np.argsort(s[up[:n_up]]), np.argsort(-s[low[:n_low]])
        for a in range(min(most // 2, n_up)):
            is_chosen[up[by_up[a]]] = True
        for a in range(min(most // 2, n_low)):
            is_chosen[low[by_low[a]]] = True
    return np.flatnonzero(is_chosen), is_part


@vectorized
def _steps_on(
    block: Any,
    diagonal: Any,
    y: Any,
    upper: Any,
    x: Any,
    s: Any,
    tolerance: float,
    least: float,
    goal: float,
    max_steps: int,
) -> tuple[int, bool]:
    """Make steps from the gradient s; return their number and whether tolerance and goal were met.

    They end without where the gradient in single precision is no longer accurate: see `inner_smo`.
    """
    n, width = len(y), max(len(y), VECTOR_LANES)
    flags, extremes = np.ones((2, 1, width), np.int8), np.full((2, 1), -1, np.intp)
    e, side, scaled = (
        np.zeros(width, np.float32),
        np.ones(width, np.float32),
        np.zeros(width, np.float32),
    )
    up_barrier, low_barrier = np.empty((1, n)), np.empty((1, n))
    low, high = np.empty(1), np.empty(1)
    size = max(np.max(diagonal), MIN_DIAGONAL)
    state = InnerState(e, side, scaled, size, flags[0], flags[1], extremes[0], extremes[1])
    for k in range(n):
        up_blocked, low_blocked = is_blocked(x, y, upper, k)
        up_barrier[0, k] = np.inf if up_blocked else 0.0
        low_barrier[0, k] = np.inf if low_blocked else 0.0
        scaled[k] = diagonal[k] / size
    violation = extremes_of_groups(s, up_barrier, low_barrier, low, high)
    if not min(tolerance, least) < violation < np.inf:
        return 0, True
    problem = InnerProblem(block, diagonal, side[:n], np.zeros(n), y, upper, 0.0, 1.0, 1.0)
    read_gradient(state, s, up_barrier, low_barrier, low, high, violation)
    n_done, most = 0, min(max(MAX_STEPS_PER_COORDINATE * n, MIN_STEPS_BETWEEN_SUMS), max_steps)
    while True:
        limit = max(0.99 * tolerance / violation, SINGLE_PRECISION_FRACTION)
        steps = make_pair_steps(
            problem, state, x, up_barrier, low_barrier, most - n_done, limit, violation
        )
        n_done += steps
        if n_done == most or limit == SINGLE_PRECISION_FRACTION:
            return n_done, False
        if tolerance <= least or violation * gap_of_steps(problem, state, x) <= goal:
            return n_done, True
        tolerance = max(TOLERANCE_REDUCTION * tolerance, least)
