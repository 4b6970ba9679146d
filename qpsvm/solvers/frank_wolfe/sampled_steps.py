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
"""Stop code besides COLUMN_MISSING: a drawn point must be added to the core before the step."""

CORE_SIZE, DRAWS_USED, SAMPLE_DRAWS, FAILED_SAMPLES, SMALL_SAMPLES, EVALUATED_SAMPLES = range(6)
"""Entries of `Work.progress`."""

SAMPLED_STEP_KINDS = ("toward", "away", "drop", "redraw")
"""Names of the step counts."""

TOWARD_COUNT, AWAY_COUNT, DROP_COUNT, REDRAW_COUNT = 0, 1, 2, 3
"""Entries of `Work.counts`, in the order of SAMPLED_STEP_KINDS."""


class Work(NamedTuple):
    """The core, its kernel values with core and drawn points, and the current sample.

    Of arrays with `capacity` entries the first ``progress[CORE_SIZE]`` are in use.
    """

    rows: NDArray[np.floating]  # (n_rows, capacity), k(point, core)
    row: NDArray[np.int32]  # (m,), the row that holds a point's kernel values, or -1
    place: NDArray[np.int32]  # (m,), position of a point in the core, or -1
    group: NDArray[np.int64]  # (m,), simplex of a point
    sign: NDArray[np.float64]  # (m,)
    linear: NDArray[np.float64]  # (m,), c
    core: NDArray[np.int64]  # (capacity,), the points
    weight: NDArray[np.float64]  # (capacity,), x on the core, possibly 0
    gradient: NDArray[np.float64]  # (capacity,), f = (G + D)x + c on the core
    signed: NDArray[
        np.floating
    ]  # (capacity,), scratch: weights by sign, in the precision of `rows`
    ridge: NDArray[np.float64]  # (capacity,), D on the core
    vertex: NDArray[np.int64]  # (n_groups,), positions in the core of the vertex of the step
    high: NDArray[np.int64]  # (n_groups,), position of the greatest gradient on the support
    best: NDArray[np.int64]  # (n_groups,), the sample's point of least gradient
    least: NDArray[np.float64]  # (n_groups,), that gradient
    gaps: NDArray[np.float64]  # (SAMPLES_PER_STEP,), Frank-Wolfe gaps of the last samples
    # (6,): core size, draws used, draws of this sample used, samples of this step that do not
    # descend, samples in a row within the goal, samples evaluated
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
        xf, xc, total = _core_sums(work, n)
        if not np.isfinite(xf):
            return step, NUMERICAL_CODE
        away = -xf
        for g in range(n_groups):
            away += gradient[work.high[g]]

        # 2. Samples, until one shows a direction of descent.
        while True:
            if not _draw_sample(work, numbers, drawn, n, total):
                return step, COLUMN_MISSING
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

        # 3. The vertex of the step, and its rows.
        is_away = numbers.takes_away and away > toward
        if not _take_vertex(work, is_away):
            return step, CORE_POINT_MISSING
        for g in range(n_groups):
            if work.row[work.core[vertex[g]]] < 0:
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
        _move(work, numbers, n, -length if is_away else length, longest, is_maximal)
        progress[SAMPLE_DRAWS] = 0
        progress[FAILED_SAMPLES] = 0
    return n_steps, BUDGET_CODE


@inlined
def _core_sums(work: Work, n: int) -> Any:
    """Return x'f, x'c and the sum of signed weights; set both extremes of each simplex, and `signed`."""
    gradient, weight, vertex, high = work.gradient, work.weight, work.vertex, work.high
    xf, xc, total = 0.0, 0.0, 0.0
    for g in range(len(vertex)):
        vertex[g], high[g] = -1, -1
    for a in range(n):
        f, i = gradient[a], work.core[a]
        g = work.group[i]
        xf += weight[a] * f
        xc += weight[a] * work.linear[i]
        work.signed[a] = weight[a] * work.sign[i]
        total += weight[a] * work.sign[i]
        if vertex[g] < 0 or f < gradient[vertex[g]]:
            vertex[g] = a
        if weight[a] > 0.0 and (high[g] < 0 or f > gradient[high[g]]):
            high[g] = a
    return xf, xc, total


@inlined
def _draw_sample(work: Work, numbers: Numbers, drawn: Any, n: int, total: float) -> bool:
    """Set the least gradients of a sample; return whether all draws and their rows were at hand."""
    progress, rows, least, is_whole = work.progress, work.rows, work.least, True
    while is_whole and progress[SAMPLE_DRAWS] < numbers.sample_size:
        if progress[SAMPLE_DRAWS] == 0:
            for g in range(len(least)):
                least[g] = np.inf
        is_whole = progress[DRAWS_USED] < len(drawn)
        if is_whole:
            i = drawn[progress[DRAWS_USED]]
            is_whole = work.place[i] >= 0 or work.row[i] >= 0
            if work.place[i] < 0 and is_whole:
                r, product = work.row[i], rows.dtype.type(0.0)
                for a in range(n):
                    product += rows[r, a] * work.signed[a]
                f = numbers.scale * work.sign[i] * (product + numbers.shift * total)
                f, g = f + work.linear[i], work.group[i]
                if f < least[g]:
                    least[g], work.best[g] = f, i
        if is_whole:
            progress[DRAWS_USED] += 1
            progress[SAMPLE_DRAWS] += 1
    return is_whole


@inlined
def _take_vertex(work: Work, is_away: bool) -> bool:
    """Set the vertex of the step; return whether the core has all of its points."""
    vertex, is_in_core = work.vertex, True
    for g in range(len(vertex)):
        if is_away:
            vertex[g] = work.high[g]
        elif is_in_core and work.least[g] < work.gradient[vertex[g]]:
            is_in_core = work.place[work.best[g]] >= 0
            if is_in_core:
                vertex[g] = work.place[work.best[g]]
    return is_in_core


@inlined
def _vertex_forms(work: Work, numbers: Numbers, is_away: bool) -> Any:
    """Return v'(G + D)v and v'(G + D)x of the vertex v, and the longest step."""
    core, sign, vertex, weight = work.core, work.sign, work.vertex, work.weight
    vqv, vqx, longest = 0.0, 0.0, 1.0
    if is_away:
        longest = np.inf
    for g in range(len(vertex)):
        a = vertex[g]
        i = core[a]
        vqx += work.gradient[a] - work.linear[i]
        vqv += work.ridge[a]
        for h in range(len(vertex)):
            b = vertex[h]
            entry = work.rows[work.row[i], b] + numbers.shift
            vqv += numbers.scale * sign[i] * sign[core[b]] * entry
        if is_away and weight[a] < 1.0:
            longest = min(longest, weight[a] / (1.0 - weight[a]))
    return vqv, vqx, longest


@inlined
def _move(
    work: Work, numbers: Numbers, n: int, gain: float, longest: float, is_maximal: bool
) -> None:
    """Move the weights to (1 - gain) x + gain v, and the gradient over the core with them."""
    core, sign, vertex, weight = work.core, work.sign, work.vertex, work.weight
    gradient, rows, keep = work.gradient, work.rows, 1.0 - gain
    for a in range(n):
        c = work.linear[core[a]]
        gradient[a] = keep * (gradient[a] - c) + c
    for g in range(len(vertex)):
        i = core[vertex[g]]
        r, t = work.row[i], gain * numbers.scale * sign[i]
        for a in range(n):
            gradient[a] += t * sign[core[a]] * (rows[r, a] + numbers.shift)
        gradient[vertex[g]] += gain * work.ridge[vertex[g]]
        w = weight[vertex[g]]
        if is_maximal and w < 1.0 and w / (1.0 - w) <= longest:
            weight[vertex[g]] = 0.0  # exactly: gain < 0 below keeps it
    for a in range(n):
        weight[a] *= keep
    for g in range(len(vertex)):
        weight[vertex[g]] = max(weight[vertex[g]] + gain, 0.0)
