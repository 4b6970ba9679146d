"""The compiled steps of Frank-Wolfe on a sample, and the arrays that they read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import inlined, njit
from qpsvm.solvers.base import (
    BUDGET_CODE,
    NEWS_CODE,
    NONCONVEX_CODE,
    NUMERICAL_CODE,
    STALLED_CODE,
)
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING
from qpsvm.solvers.shared.sampling import SAMPLES_PER_STEP

CORE_POINT_MISSING = 6
"""Stop code: a drawn point must be added to the core before the step."""

DRAW_MISSING = 7
"""Stop code: the next draw, or the product there, must be evaluated before the step."""

CORE_SIZE, HELD_POINTS, DRAWS_USED = 0, 1, 2
SAMPLE_DRAWS, FAILED_SAMPLES, SMALL_SAMPLES, EVALUATED_SAMPLES = 3, 4, 5, 6
"""Entries of `Work.progress`."""

SAMPLED_STEP_KINDS = ("toward", "away", "drop", "redraw")
"""Names of the step counts."""

TOWARD_COUNT, AWAY_COUNT, DROP_COUNT, REDRAW_COUNT = 0, 1, 2, 3
"""Entries of `Work.counts`, in the order of SAMPLED_STEP_KINDS."""


class Work(NamedTuple):
    """The points that are held, with columns of the core over them, and the current sample.

    The first ``progress[HELD_POINTS]`` of `capacity` entries are in use, those of the core first.
    """

    columns: NDArray[np.floating]  # (n_columns, capacity), k(core, held)
    column: NDArray[np.int32]  # (capacity,), the row of `columns` of a core point, or -1
    place: NDArray[np.int32]  # (m,), position of a point among those held, or -1
    points: NDArray[np.int64]  # (capacity,), the points that are held
    group: NDArray[np.int64]  # (capacity,), simplex of a point
    sign: NDArray[np.float64]  # (capacity,)
    linear: NDArray[np.float64]  # (capacity,), c
    ridge: NDArray[np.float64]  # (capacity,), D
    weight: NDArray[np.float64]  # (capacity,), x, which is 0 outside of the core and may be in it
    product: NDArray[np.float64]  # (capacity,), G x
    gradient: NDArray[np.float64]  # (capacity,), f = (G + D)x + c on the core, as of the last step
    vertex: NDArray[np.int64]  # (n_groups,), positions in the core of the vertex of the step
    high: NDArray[np.int64]  # (n_groups,), position of the greatest gradient on the support
    best: NDArray[np.int64]  # (n_groups,), the sample's point of least gradient
    least: NDArray[np.float64]  # (n_groups,), that gradient
    gaps: NDArray[np.float64]  # (SAMPLES_PER_STEP,), Frank-Wolfe gaps of the last samples
    # (7,): core size, points held, draws used, draws of this sample used, samples of this step that
    # do not descend, samples in a row within the goal, samples evaluated
    progress: NDArray[np.int64]
    counts: NDArray[np.int64]  # (4,), steps by SAMPLED_STEP_KINDS


class Numbers(NamedTuple):
    """Constants of the steps: g_ij = scale s_i s_j (k_ij + shift), and the tolerances."""

    scale: float
    shift: float
    constant: float
    goal: float  # relative gap over core and sample
    floor: float  # absolute gap
    sample_size: int
    takes_away: bool  # whether there are away steps


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def sampled_steps(work: Work, numbers: Numbers, drawn: Any, n_steps: int) -> Any:
    """Make steps in place; return their number and the code of the stop."""
    progress, counts, vertex, gradient = work.progress, work.counts, work.vertex, work.gradient
    n, n_groups, sample_size = progress[CORE_SIZE], len(vertex), numbers.sample_size
    for step in range(n_steps):
        # 1. Sums over the core, and the extremes of each simplex.
        xf, xc = _core_sums(work, n)
        if not np.isfinite(xf):
            return step, NUMERICAL_CODE
        away = -xf
        for g in range(n_groups):
            away += gradient[work.high[g]]

        # 2. Samples, until one shows a direction of descent.
        while True:
            if not _draw_sample(work, numbers, drawn, n):
                return step, DRAW_MISSING
            toward = xf
            for g in range(n_groups):
                toward -= min(gradient[vertex[g]], work.least[g])
            if progress[SAMPLE_DRAWS] == sample_size:  # a sample is evaluated once
                progress[SAMPLE_DRAWS] += 1
                work.gaps[progress[EVALUATED_SAMPLES] % SAMPLES_PER_STEP] = max(toward, 0.0)
                progress[EVALUATED_SAMPLES] += 1
                value = abs(0.5 * (xf + xc) + numbers.constant)
                small = max(numbers.goal * value, numbers.floor)
                progress[SMALL_SAMPLES] = progress[SMALL_SAMPLES] + 1 if toward <= small else 0
                if progress[SMALL_SAMPLES] == SAMPLES_PER_STEP:
                    progress[SMALL_SAMPLES] = 0
                    return step, NEWS_CODE
            if toward > 0.0 or (numbers.takes_away and away > 0.0):
                break
            progress[SAMPLE_DRAWS] = 0
            progress[FAILED_SAMPLES] += 1
            if progress[FAILED_SAMPLES] == SAMPLES_PER_STEP:
                progress[FAILED_SAMPLES] = 0
                return step, STALLED_CODE
            counts[REDRAW_COUNT] += 1

        # 3. The vertex of the step, and its columns.
        is_away = numbers.takes_away and away > toward
        if not _take_vertex(work, is_away):
            return step, CORE_POINT_MISSING
        for g in range(n_groups):
            if work.column[vertex[g]] < 0:
                return step, COLUMN_MISSING

        # 4. Exact line search.
        vqv, vqx, longest = _vertex_forms(work, numbers, is_away)
        xqx = xf - xc
        curvature, size = vqv - 2.0 * vqx + xqx, vqv + xqx
        if curvature < -1e-6 * size:
            return step, NONCONVEX_CODE
        if curvature <= 0.0:
            return step, STALLED_CODE
        slope = away if is_away else toward
        length = min(slope / max(curvature, 1e-12 * size), longest)
        is_maximal = is_away and length >= longest
        counts[DROP_COUNT if is_maximal else AWAY_COUNT if is_away else TOWARD_COUNT] += 1

        # 5. The move.
        _move(work, numbers, -length if is_away else length, longest, is_maximal)
        progress[SAMPLE_DRAWS] = 0
        progress[FAILED_SAMPLES] = 0
    return n_steps, BUDGET_CODE


@inlined
def _core_sums(work: Work, n: int) -> Any:
    """Set the gradient over the core and both extremes of each simplex; return x'f and x'c."""
    gradient, weight, vertex, high = work.gradient, work.weight, work.vertex, work.high
    xf, xc = 0.0, 0.0
    for g in range(len(vertex)):
        vertex[g], high[g] = -1, -1
    for a in range(n):
        f, g = work.product[a] + work.ridge[a] * weight[a] + work.linear[a], work.group[a]
        gradient[a] = f
        xf += weight[a] * f
        xc += weight[a] * work.linear[a]
        if vertex[g] < 0 or f < gradient[vertex[g]]:
            vertex[g] = a
        if weight[a] > 0.0 and (high[g] < 0 or f > gradient[high[g]]):
            high[g] = a
    return xf, xc


@inlined
def _draw_sample(work: Work, numbers: Numbers, drawn: Any, n: int) -> bool:
    """Set the least gradients of a sample; return whether all draws and products were available."""
    progress, least, is_whole = work.progress, work.least, True
    while is_whole and progress[SAMPLE_DRAWS] < numbers.sample_size:
        if progress[SAMPLE_DRAWS] == 0:
            for g in range(len(least)):
                least[g], work.best[g] = np.inf, -1
        is_whole = progress[DRAWS_USED] < len(drawn)
        if is_whole:
            i = drawn[progress[DRAWS_USED]]
            at = work.place[i]
            is_whole = at >= 0
            if at >= n:  # those of the core are known
                f, g = work.product[at] + work.linear[at], work.group[at]
                if f < least[g]:
                    least[g], work.best[g] = f, i
        if is_whole:
            progress[DRAWS_USED] += 1
            progress[SAMPLE_DRAWS] += 1
    return is_whole


@inlined
def _take_vertex(work: Work, is_away: bool) -> bool:
    """Set the vertex of the step; return whether the core has all of its points."""
    vertex, n, is_in_core = work.vertex, work.progress[CORE_SIZE], True
    for g in range(len(vertex)):
        if is_away:
            vertex[g] = work.high[g]
        elif is_in_core and work.least[g] < work.gradient[vertex[g]]:
            at = work.place[work.best[g]]
            is_in_core = 0 <= at < n
            if is_in_core:
                vertex[g] = at
    return is_in_core


@inlined
def _vertex_forms(work: Work, numbers: Numbers, is_away: bool) -> Any:
    """Return v'(G + D)v and v'(G + D)x of the vertex v, and the longest step."""
    sign, vertex, weight = work.sign, work.vertex, work.weight
    vqv, vqx, longest = 0.0, 0.0, 1.0
    if is_away:
        longest = np.inf
    for g in range(len(vertex)):
        a = vertex[g]
        vqx += work.gradient[a] - work.linear[a]
        vqv += work.ridge[a]
        for h in range(len(vertex)):
            b = vertex[h]
            entry = work.columns[work.column[a], b] + numbers.shift
            vqv += numbers.scale * sign[a] * sign[b] * entry
        if is_away and weight[a] < 1.0:
            longest = min(longest, weight[a] / (1.0 - weight[a]))
    return vqv, vqx, longest


@inlined
def _move(work: Work, numbers: Numbers, gain: float, longest: float, is_maximal: bool) -> None:
    """Move the weights to (1 - gain) x + gain v, and the product at all points held with them."""
    sign, vertex, weight, keep = work.sign, work.vertex, work.weight, 1.0 - gain
    held, product, shift = work.progress[HELD_POINTS], work.product, numbers.shift
    for g in range(len(vertex)):
        values, factor = work.columns[work.column[vertex[g]]], 1.0 if g else keep
        t = gain * numbers.scale * sign[vertex[g]]
        for a in range(held):
            product[a] = factor * product[a] + t * sign[a] * (values[a] + shift)
        w = weight[vertex[g]]
        if is_maximal and w < 1.0 and w / (1.0 - w) <= longest:
            weight[vertex[g]] = 0.0  # exactly: gain < 0 below keeps it
    for a in range(work.progress[CORE_SIZE]):
        weight[a] *= keep
    for g in range(len(vertex)):
        weight[vertex[g]] = max(weight[vertex[g]] + gain, 0.0)
