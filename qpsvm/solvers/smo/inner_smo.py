"""Second-order SMO whose Gram matrix is stored: on few points, and over a working set.

Problem: as in `qpsvm.solvers.smo.smo`, without the box alone; pairs are selected as there. The steps go
down to a fraction of the KKT violation at a time. They therefore keep its gradient in single precision,
centered and relative to that violation: vectors then have twice as many entries. Weights, step lengths
and curvatures are in double precision. Once the violation has fallen to a hundredth, or after many steps,
the gradient is recomputed in double precision from the weights that changed, and the steps restart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import vectorized, without_refcounts
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.smo.inner_smo_simd import (
    argextremes,
    second_index,
    update_gradient,
    update_gradient_of_two,
)
from qpsvm.solvers.smo.lazy_rows import row_of, widened, write_row
from qpsvm.solvers.smo.pair_data import is_blocked, move_pair

TOLERANCE_REDUCTION = 0.7
"""Factor of the tolerance from one evaluation of the gap over the working set to the next."""

SINGLE_PRECISION_FRACTION = 1 / 128
"""Fraction of the violation down to which the gradient is accurate in single precision."""

MAX_STEPS_PER_COORDINATE = 8
"""Maximum number of steps per coordinate in single precision: roundoff accumulates."""

ROUNDING_NOISE_FACTOR = 1.0
"""Maximum of some thousand sums of rounding errors, relative to the unit and to the norm of the moves:
three to four standard deviations, each 1 / sqrt(12) of a unit."""

MIN_CURVATURE_RATIO = 1e-12
"""Lower bound on curvatures, relative to the greatest diagonal entry."""


class InnerProblem(NamedTuple):
    """The problem over n points: g_ij = scale side_i side_j (k_ij + shift), in terms of z x.

    k_ij is the unit times an entry of the block. A block of 16-bit multiples takes half the memory, whose
    bandwidth limits the steps over thousands of coordinates.
    """

    block: Any  # (n, at least n), read-only, or other rows of `lazy_rows`
    diagonal: NDArray[np.float64]  # (n,), the diagonal of G + D
    side: NDArray[np.floating]  # (n,), z times the sign, in the precision of curvatures
    ridge: NDArray[np.float64]  # (n,)
    z: NDArray[np.float64]  # (n,), +-1
    upper: NDArray[np.float64]  # (n,)
    shift: float
    scale: float
    unit: float = 1.0


class InnerState(NamedTuple):
    """Data of the steps; e is the signed gradient less its center, relative to the KKT violation.

    Arrays have n entries, but VECTOR_LANES at least: coordinates beyond n are blocked.
    """

    e: NDArray[np.float32]
    side: NDArray[np.floating]  # as that of the problem
    diagonal: NDArray[np.floating]  # relative to `size`, in the same precision
    size: float  # the maximum of the diagonal of the problem, or 1
    up_blocked: NDArray[np.int8]  # (n_groups, ...), 0 in I_up, else 1
    low_blocked: NDArray[np.int8]  # (n_groups, ...), 0 in I_low, else 1
    argmin: NDArray[np.intp]  # (n_groups,), index of the minimum of e over I_up, or -1
    argmax: NDArray[np.intp]  # (n_groups,), index of the maximum of e over I_low, or -1


def solve_inner(
    problem: InnerProblem,
    x: NDArray[np.float64],
    x_start: NDArray[np.float64],
    s: NDArray[np.float64],
    up_barrier: NDArray[np.float64],
    low_barrier: NDArray[np.float64],
    n_steps: int,
    tolerance: float,
    min_tolerance: float,
    gap_goal: float,
) -> tuple[int, float, bool]:
    """Make steps until the KKT violation of the signed gradient s is at most `tolerance`.

    They continue down to `min_tolerance` while the gap over the working set is above `gap_goal`. Single
    precision may add a few per cent to these tolerances. Weights x and the barriers are changed in place.
    s belongs to the weights `x_start`; it is left as it was when the last steps began.

    For a unit below 1 the steps end where its rounding noise in s reaches the tolerance.

    Returns
    -------
    n_done : int
        Number of steps.
    violation : float
        KKT violation, by the block.
    rounding_limited : bool
        Whether the steps ended because of the rounding noise.
    """
    problem, state = inner_state(problem, len(up_barrier))
    limits = n_steps, tolerance, min_tolerance, gap_goal
    return _solve(problem, state, x, x_start, s, up_barrier, low_barrier, *limits)


def inner_state(problem: InnerProblem, n_groups: int) -> tuple[InnerProblem, InnerState]:
    """Return the problem, with rows of `VECTOR_LANES` entries at least, and memory for its steps."""
    n = len(problem.side)
    width = max(n, VECTOR_LANES)
    if width > n:
        problem = problem._replace(block=widened(problem.block, n, width))
    side, diagonal = np.ones((2, width), problem.side.dtype)
    side[:n] = problem.side
    greatest = float(np.max(problem.diagonal))
    size = greatest if greatest > 0.0 else 1.0
    diagonal[:n] = problem.diagonal / size
    flags, indices = np.ones((2, n_groups, width), np.int8), np.full((2, n_groups), -1, np.intp)
    e = np.zeros(width, np.float32)
    return problem, InnerState(e, side, diagonal, size, *flags, *indices)


@vectorized
def _solve(
    problem: InnerProblem,
    state: InnerState,
    x: Any,
    x_start: Any,
    s: Any,
    up_barrier: Any,
    low_barrier: Any,
    n_steps: int,
    tolerance: float,
    min_tolerance: float,
    gap_goal: float,
) -> tuple[int, float, bool]:
    """Do what `solve_inner` does, given memory for the data of the steps."""
    n_groups, n = up_barrier.shape
    low, high = np.empty(n_groups), np.empty(n_groups)
    x_before, n_done = x_start.copy(), 0
    while True:
        # 1. Update s in double precision by the weights that changed.
        add_moves(problem, x, x_before, s)
        # 2. Restart the steps with e in single precision.
        violation = extremes_of_groups(s, up_barrier, low_barrier, low, high)
        if not min(tolerance, min_tolerance) < violation < np.inf:
            return n_done, violation, False
        read_gradient(state, s, up_barrier, low_barrier, low, high, violation)
        n_recent = 0
        while True:
            # 3. Make steps; lower the tolerance while the gap is above its goal.
            # The factor 0.99 is a margin for the roundoff of the steps.
            limit = max(0.99 * tolerance / violation, SINGLE_PRECISION_FRACTION)
            most = min(n_steps - n_done, MAX_STEPS_PER_COORDINATE * n - n_recent)
            steps = make_pair_steps(
                problem, state, x, up_barrier, low_barrier, most, limit, violation
            )
            n_done, n_recent = n_done + steps, n_recent + steps
            is_reached = steps < most and limit > SINGLE_PRECISION_FRACTION
            ends = is_reached and (
                tolerance <= min_tolerance
                or violation * gap_of_steps(problem, state, x) <= gap_goal
            )
            ends = (
                ends or n_done == n_steps or (n_recent == 0 and limit == SINGLE_PRECISION_FRACTION)
            )
            tolerance = (
                max(TOLERANCE_REDUCTION * tolerance, min_tolerance)
                if is_reached and not ends
                else tolerance
            )
            rounding_limited = (
                problem.unit < 1.0 and _rounding_noise(problem, x, x_start) > tolerance
            )
            if ends or rounding_limited:
                return n_done, violation * _max_violation(state), rounding_limited
            if not is_reached:
                break


@vectorized
def _rounding_noise(problem: InnerProblem, x: Any, x_start: Any) -> float:
    """Return an estimate of the quantization noise of 16 bits in an entry of s."""
    total = 0.0
    for k in range(len(x)):
        total += (x[k] - x_start[k]) * (x[k] - x_start[k])
    return ROUNDING_NOISE_FACTOR * problem.unit * problem.scale * np.sqrt(total)


@vectorized
def _max_violation(state: InnerState) -> float:
    """Return the greatest difference of e in a pair: the relative KKT violation."""
    worst = 0.0
    for g in range(len(state.argmin)):
        if state.argmin[g] >= 0 and state.argmax[g] >= 0:
            difference = np.float64(state.e[state.argmax[g]]) - np.float64(state.e[state.argmin[g]])
            worst = max(worst, difference)
    return worst


@vectorized
def gap_of_steps(problem: InnerProblem, state: InnerState, x: Any) -> float:
    """Return the duality gap over the working set by e, summed over groups.

    The multipliers are midway between the extremes, or at the lower ones where there are no upper bounds;
    for a hinge dual the gap is infinite then.
    """
    gap, e = 0.0, state.e
    for g in range(len(state.argmin)):
        low, high = np.inf, -np.inf
        for k in range(len(x)):
            up = np.float64(e[k]) if state.up_blocked[g, k] == 0 else np.inf
            down = np.float64(e[k]) if state.low_blocked[g, k] == 0 else -np.inf
            low, high = min(low, up), max(high, down)
        if not low < high:
            continue
        center = 0.5 * (low + high) if problem.upper[0] < np.inf else low
        for k in range(len(x)):
            slope = np.float64(e[k]) - center
            if slope < 0.0 and state.up_blocked[g, k] == 0:
                gap -= slope * (problem.upper[k] - x[k] if problem.z[k] > 0.0 else x[k])
            elif slope > 0.0 and state.low_blocked[g, k] == 0:
                gap += slope * (x[k] if problem.z[k] > 0.0 else problem.upper[k] - x[k])
    return gap


@vectorized
def add_moves(problem: InnerProblem, x: Any, x_before: Any, s: Any) -> None:
    """Add the moves from `x_before`, to which s belongs, to x; `x_before` becomes x."""
    for i in range(len(x)):
        change = problem.z[i] * (x[i] - x_before[i])
        if change != 0.0:
            weight = problem.scale * problem.side[i] * change
            write_row(problem.block, i)
            row = row_of(problem.block, i)
            x_before[i] = x[i]
            for k in range(len(x)):
                s[k] += weight * problem.side[k] * (problem.unit * row[k] + problem.shift)
            s[i] += problem.ridge[i] * change


@vectorized
def extremes_of_groups(s: Any, up_barrier: Any, low_barrier: Any, low: Any, high: Any) -> float:
    """Return the KKT violation; write the minimum of s over I_up and its maximum over I_low.

    A group whose weights cannot move has no violation.
    """
    violation = -np.inf
    for g in range(len(up_barrier)):
        least, greatest = np.inf, -np.inf
        for k in range(len(s)):
            up, down = s[k] + up_barrier[g, k], s[k] - low_barrier[g, k]
            least = up if up < least else least
            greatest = down if down > greatest else greatest
        low[g], high[g] = least, greatest
        if least < np.inf and greatest > -np.inf:
            violation = max(violation, greatest - least)
    return violation


@vectorized
def read_gradient(
    state: InnerState,
    s: Any,
    up_barrier: Any,
    low_barrier: Any,
    low: Any,
    high: Any,
    violation: float,
) -> None:
    """Write the data of the steps from s, its extremes and the barriers."""
    state.e[:] = 0.0
    for g in range(len(up_barrier)):
        is_movable = low[g] < np.inf and high[g] > -np.inf
        center = low[g] + 0.5 * (high[g] - low[g]) if is_movable else 0.0
        for k in range(len(s)):
            state.up_blocked[g, k] = 0 if up_barrier[g, k] == 0.0 else 1
            state.low_blocked[g, k] = 0 if low_barrier[g, k] == 0.0 else 1
            if up_barrier[g, k] == 0.0 or low_barrier[g, k] == 0.0:
                state.e[k] = (s[k] - center) / violation
    for g in range(len(up_barrier)):
        state.argmin[g], state.argmax[g] = argextremes(
            state.e, state.up_blocked[g], state.low_blocked[g]
        )


@vectorized
def make_pair_steps(
    problem: InnerProblem,
    state: InnerState,
    x: Any,
    up_barrier: Any,
    low_barrier: Any,
    n_steps: int,
    relative_tolerance: float,
    violation: float,
) -> int:
    """Make steps until the relative KKT violation is within the tolerance; return their number."""
    problem, state, x, up_barrier, low_barrier = without_refcounts(
        (problem, state, x, up_barrier, low_barrier)
    )
    e, block, side, diagonal = state.e, problem.block, state.side, problem.diagonal
    z, upper = problem.z, problem.upper
    unit, shift, size = problem.unit, problem.shift / problem.unit, state.size
    scalars = np.empty(4, side.dtype)  # scalars in the precision of curvatures
    scalars[3], min_curvature = MIN_CURVATURE_RATIO, MIN_CURVATURE_RATIO * np.max(np.abs(diagonal))
    for step in range(n_steps):
        # 1. First coordinate: the minimum of e over I_up in the group of maximum violation.
        g, i, worst = 0, -1, np.float64(relative_tolerance)
        for h in range(len(state.argmin)):
            low, high = state.argmin[h], state.argmax[h]
            if low >= 0 and high >= 0:
                difference = np.float64(e[high] - e[low])
                if difference > worst:
                    g, i, worst = h, low, difference
        if i < 0:
            return step
        # 2. Second coordinate: the greatest decrease of the value.
        write_row(block, i)
        row_i, scalars[0], scalars[2] = row_of(block, i), diagonal[i] / size, shift
        scalars[1] = 2.0 * problem.scale * unit / size * side[i]
        terms = (scalars[0], scalars[1], scalars[2], scalars[3])
        j = second_index(row_i, side, state.diagonal, state.low_blocked[g], e, e[i], terms)
        if j < 0 or j == i:
            return step
        # 3. Step length in double precision, clipped to the box.
        write_row(block, j)
        write_row(block, i)  # where it was forgotten
        row_i, row_j, side_product = row_of(block, i), row_of(block, j), side[i] * side[j]
        curvature = (
            diagonal[i]
            + diagonal[j]
            - 2.0 * problem.scale * side_product * (unit * row_i[j] + problem.shift)
        )
        slack_i = upper[i] - x[i] if z[i] > 0.0 else x[i]
        slack_j = x[j] if z[j] > 0.0 else upper[j] - x[j]
        descent = (np.float64(e[j]) - np.float64(e[i])) * violation
        t = min(descent / max(curvature, min_curvature), slack_i, slack_j)
        if t > 1e300:  # the value is unbounded below along this pair
            return step
        # 4. Move the weights and update the index sets.
        move_pair(x, z, upper, i, j, t, t >= slack_i, t >= slack_j)
        for k in (i, j):
            up_blocked, low_blocked = is_blocked(x, z, upper, k)
            up_barrier[g, k] = np.inf if up_blocked else 0.0
            low_barrier[g, k] = np.inf if low_blocked else 0.0
            state.up_blocked[g, k] = 1 if up_blocked else 0
            state.low_blocked[g, k] = 1 if low_blocked else 0
        # 5. Update e and its extremes.
        t_relative = t / violation
        e[i] += np.float32(problem.ridge[i] * t_relative)
        e[j] -= np.float32(problem.ridge[j] * t_relative)
        scalars[0], scalars[1] = problem.scale * unit * t_relative * side[i], -side_product
        scalars[2] = shift * (1.0 - side_product)
        coefficients = (scalars[0], scalars[1], scalars[2])
        flags_0 = state.up_blocked[0], state.low_blocked[0]
        if len(state.argmin) == 2:  # as of two classes: in one pass
            flags_1 = state.up_blocked[1], state.low_blocked[1]
            low, high, low_1, high_1 = update_gradient_of_two(
                row_i, row_j, side, coefficients, e, *flags_0, *flags_1
            )
            state.argmin[0], state.argmax[0] = low, high
            state.argmin[1], state.argmax[1] = low_1, high_1
            continue
        state.argmin[0], state.argmax[0] = update_gradient(
            row_i, row_j, side, coefficients, e, *flags_0
        )
        for h in range(1, len(state.argmin)):
            state.argmin[h], state.argmax[h] = argextremes(
                e, state.up_blocked[h], state.low_blocked[h]
            )
    return n_steps
