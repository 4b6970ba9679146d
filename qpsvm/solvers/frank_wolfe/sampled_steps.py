"""The compiled steps of Frank-Wolfe on a sample: what they read, and one function."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import njit
from qpsvm.solvers.base import Stop
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING
from qpsvm.solvers.shared.sampling import SAMPLES_PER_STEP

ENTERS = 6
"""Besides the values of Stop and COLUMN_MISSING: a drawn point must join the core before the step."""

BUDGET_CODE, STALLED_CODE, NONCONVEX_CODE = (
    Stop.BUDGET.value,
    Stop.STALLED.value,
    Stop.NONCONVEX.value,
)
NUMERICAL_CODE, NEWS_CODE = Stop.NUMERICAL.value, Stop.NEWS.value

SIZE, DRAWN, WITHIN, ATTEMPT, QUIET, JUDGED = 0, 1, 2, 3, 4, 5
"""Entries of `Work.now`."""

WORK_KINDS = ("toward", "away", "drop", "redraw")
TOWARD_COUNT, AWAY_COUNT, DROP_COUNT, REDRAW_COUNT = 0, 1, 2, 3


class Work(NamedTuple):
    """The core, the kernel values between it and the points of interest, and the sample in hand.

    Where shapes have `room` entries, the first ``now[SIZE]`` of them count.
    """

    rows: NDArray[np.floating]  # (n_rows, room), k(point, core)
    row: NDArray[np.int32]  # (m,), the row that holds a point's kernel values, or -1
    place: NDArray[np.int32]  # (m,), position of a point in the core, or -1
    group: NDArray[np.int64]  # (m,), simplex of a point
    sign: NDArray[np.float64]  # (m,)
    linear: NDArray[np.float64]  # (m,), c
    core: NDArray[np.int64]  # (room,), the points
    weight: NDArray[np.float64]  # (room,), x on the core, possibly 0
    gradient: NDArray[np.float64]  # (room,), f = (G + D)x + c on the core
    signed: NDArray[np.floating]  # (room,), scratch: weights by sign, in the precision of `rows`
    ridge: NDArray[np.float64]  # (room,), D on the core
    vertex: NDArray[np.int64]  # (n_groups,), positions in the core that the step is about
    high: NDArray[np.int64]  # (n_groups,), where the gradient is greatest on the support
    best: NDArray[np.int64]  # (n_groups,), the sample's point of least gradient
    least: NDArray[np.float64]  # (n_groups,), that gradient
    gaps: NDArray[np.float64]  # (SAMPLES_PER_STEP,), Frank-Wolfe gaps that the last samples saw
    now: NDArray[
        np.int64
    ]  # (6,): core size, draws used, draws of this sample used, samples of this
    # step without a way down, samples in a row within the goal, samples judged
    counts: NDArray[np.int64]  # (4,), WORK_KINDS


class Numbers(NamedTuple):
    """What does not change: g_ij = scale s_i s_j (k_ij + shift), and when the goal is met."""

    scale: float
    shift: float
    constant: float
    goal: float  # relative gap over core and sample
    floor: float  # absolute gap
    sample_size: int
    takes_away: bool  # whether there are away steps


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def sampled_steps(work: Work, numbers: Numbers, drawn: Any, n_steps: int) -> Any:
    """Make steps in place; return the number done and why it came back."""
    (rows, row, place, group, sign, linear, core, weight, gradient, signed, ridge,
     vertex, high, best, least, gaps, now, counts) = work  # fmt: skip
    scale, shift, constant, goal, floor, sample_size, takes_away = numbers
    n, n_groups = now[SIZE], len(vertex)
    for step in range(n_steps):
        # the core: sums, and the extremes of each simplex
        xf, xc, total = 0.0, 0.0, 0.0
        for g in range(n_groups):
            vertex[g], high[g] = -1, -1
        for a in range(n):
            f, i = gradient[a], core[a]
            g = group[i]
            xf += weight[a] * f
            xc += weight[a] * linear[i]
            signed[a] = weight[a] * sign[i]
            total += weight[a] * sign[i]
            if vertex[g] < 0 or f < gradient[vertex[g]]:
                vertex[g] = a
            if weight[a] > 0.0 and (high[g] < 0 or f > gradient[high[g]]):
                high[g] = a
        if not np.isfinite(xf):
            return step, NUMERICAL_CODE
        away = -xf
        for g in range(n_groups):
            away += gradient[high[g]]

        # samples, until one shows a way down
        while True:
            while now[WITHIN] < sample_size:
                if now[WITHIN] == 0:
                    for g in range(n_groups):
                        least[g] = np.inf
                if now[DRAWN] == len(drawn):
                    return step, COLUMN_MISSING
                i = drawn[now[DRAWN]]
                if place[i] < 0:
                    r = row[i]
                    if r < 0:
                        return step, COLUMN_MISSING
                    product = rows.dtype.type(0.0)
                    for a in range(n):
                        product += rows[r, a] * signed[a]
                    f, g = scale * sign[i] * (product + shift * total) + linear[i], group[i]
                    if f < least[g]:
                        least[g], best[g] = f, i
                now[DRAWN] += 1
                now[WITHIN] += 1
            toward = xf
            for g in range(n_groups):
                toward -= min(gradient[vertex[g]], least[g])
            if now[WITHIN] == sample_size:  # a sample is judged once
                now[WITHIN] += 1
                gaps[now[JUDGED] % SAMPLES_PER_STEP] = max(toward, 0.0)
                now[JUDGED] += 1
                small = max(goal * abs(0.5 * (xf + xc) + constant), floor)
                now[QUIET] = now[QUIET] + 1 if toward <= small else 0
                if now[QUIET] == SAMPLES_PER_STEP:
                    now[QUIET] = 0
                    return step, NEWS_CODE
            if toward > 0.0 or (takes_away and away > 0.0):
                break
            now[WITHIN] = 0
            now[ATTEMPT] += 1
            if now[ATTEMPT] == SAMPLES_PER_STEP:
                now[ATTEMPT] = 0
                return step, STALLED_CODE
            counts[REDRAW_COUNT] += 1

        # the vertex, and its rows
        is_away = takes_away and away > toward
        for g in range(n_groups):
            if is_away:
                vertex[g] = high[g]
            elif least[g] < gradient[vertex[g]]:
                if place[best[g]] < 0:
                    return step, ENTERS
                vertex[g] = place[best[g]]
        for g in range(n_groups):
            if row[core[vertex[g]]] < 0:
                return step, COLUMN_MISSING

        # exact line search
        vqv, vqx, xqx, longest = 0.0, 0.0, xf - xc, 1.0
        if is_away:
            longest = np.inf
        for g in range(n_groups):
            a = vertex[g]
            i = core[a]
            vqx += gradient[a] - linear[i]
            vqv += ridge[a]
            for h in range(n_groups):
                b = vertex[h]
                vqv += scale * sign[i] * sign[core[b]] * (rows[row[i], b] + shift)
            if is_away and weight[a] < 1.0:
                longest = min(longest, weight[a] / (1.0 - weight[a]))
        curvature, size = vqv - 2.0 * vqx + xqx, vqv + xqx
        if curvature < -1e-6 * size:
            return step, NONCONVEX_CODE
        if curvature <= 0.0:
            return step, STALLED_CODE
        slope = away if is_away else toward
        length = min(slope / max(curvature, 1e-12 * size), longest)
        whole = is_away and length >= longest
        gain = -length if is_away else length
        keep = 1.0 - gain
        counts[DROP_COUNT if whole else AWAY_COUNT if is_away else TOWARD_COUNT] += 1

        # the move
        for a in range(n):
            c = linear[core[a]]
            gradient[a] = keep * (gradient[a] - c) + c
        for g in range(n_groups):
            i = core[vertex[g]]
            r, t = row[i], gain * scale * sign[i]
            for a in range(n):
                gradient[a] += t * sign[core[a]] * (rows[r, a] + shift)
            gradient[vertex[g]] += gain * ridge[vertex[g]]
            w = weight[vertex[g]]
            if whole and w < 1.0 and w / (1.0 - w) <= longest:
                weight[vertex[g]] = 0.0  # exactly, and gain < 0 below leaves it so
        for a in range(n):
            weight[a] *= keep
        for g in range(n_groups):
            weight[vertex[g]] = max(weight[vertex[g]] + gain, 0.0)
        now[WITHIN] = 0
        now[ATTEMPT] = 0
    return n_steps, BUDGET_CODE
