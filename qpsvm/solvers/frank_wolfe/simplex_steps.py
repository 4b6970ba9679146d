"""The compiled steps of Frank-Wolfe on products of simplices: see `simplex`.

A step has five parts: slopes of the candidates, the columns that it reads, curvatures, the step length,
and the move of weights and gradient. The parts are functions that numba inlines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.jit import compiled, inlined, without_refcounts
from qpsvm.numerics.work_sharing import WorkSharing, join, publish
from qpsvm.solvers.base import BUDGET_CODE, NONCONVEX_CODE, NUMERICAL_CODE, STALLED_CODE
from qpsvm.solvers.frank_wolfe.step_rules import (
    AWAY_STEP,
    BLENDED_RULE,
    DROP_STEP,
    PAIR_STEP,
    SWAP_RULE,
    TOWARD_STEP,
    TRIANGLE_STEP,
    best_of_triangle,
    choose,
    decrease,
)
from qpsvm.solvers.frank_wolfe.support import (
    StepScratch,
    Support,
    extreme,
    move_weights,
    slopes,
    weight_of,
)
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING, entry, form, is_cached, own, touch
from qpsvm.solvers.shared.gradient_pass import Move, Points, min_of_group, update_gradient


@compiled
def simplex_steps(
    rule: int,
    cols: Columns,
    points: Points,
    q: Any,
    support: Support,
    keys: Any,
    made: Move,
    n_steps: int,
    scratch: StepScratch,
    counts: Any,
    sharing: WorkSharing,
) -> Any:
    """Make steps in place; return their number and the code of the stop.

    q = (G + D)x. Where columns are missing, the scratch lists them and nothing else has changed.
    """
    cols, points, q, support, keys, made = without_refcounts((cols, points, q, support, keys, made))
    low, high, missing, tile = without_refcounts(scratch)
    n_groups = keys.shape[0]
    zero: Any = np.int64(0)  # a literal would compile functions twice
    for step in range(n_steps):
        # 1. The slopes of the candidates, and the kind of step.
        xf, xqx = slopes(points, support, q)
        toward, away, pair, into, out = _candidates(
            rule, points, q, support, keys, xf, low, high, zero, tile
        )
        if not np.isfinite(xf):
            return step, NUMERICAL_CODE
        if not toward > 0.0:
            return step, STALLED_CODE
        kind = choose(rule, toward, away, pair, pair)
        tries_pair = kind == PAIR_STEP or rule == SWAP_RULE

        # 2. The columns that the step reads: a missing one is filled before anything changes.
        _list_columns(kind, tries_pair, low, high, into, out, missing)
        for j in range(len(missing)):
            if missing[j] >= 0 and not is_cached(cols, missing[j]):
                return step, COLUMN_MISSING
        for j in range(len(missing)):
            missing[j] = -1

        # 3. The curvatures of the candidates, d'(G + D)d, and the cap of the step.
        vqv, vqx, aqa, aqx, cap = _vertex_forms(kind, cols, q, support, low, high)
        to_curve = vqv - 2.0 * vqx + xqx
        from_curve = aqa - 2.0 * aqx + xqx
        slope, curvature, size, longest = toward, to_curve, vqv + xqx, 1.0
        if kind == AWAY_STEP:
            slope, curvature, size, longest = away, from_curve, aqa + xqx, cap
        if tries_pair:
            pair_curve, pair_size = _pair_forms(cols, into, out)
            weight = weight_of(support, out)
            gain_of_pair = decrease(pair, pair_curve, weight)
            if rule == SWAP_RULE and gain_of_pair > decrease(toward, to_curve, 1.0):
                kind = PAIR_STEP
            if kind == PAIR_STEP:
                slope, curvature, size, longest = pair, pair_curve, pair_size, weight

        # 4. The step length by exact line search, and the move.
        if kind == TRIANGLE_STEP and cap < np.inf:
            # x + a (v - x) + b cap (x - y): edges p = v - x and q = cap (x - y)
            cross = form(cols, low, high) - vqx - aqx + xqx
            a, b = best_of_triangle(
                to_curve, cap * cap * from_curve, -cap * cross, -toward, -cap * away
            )
            if not a + b > 0.0:
                return step, STALLED_CODE
            counts[TRIANGLE_STEP] += 1
            keep, n = 1.0 - a + b * cap, 2 * n_groups
            _set_triangle_move(made, low, high, a, b, cap)
        else:
            if curvature < -1e-6 * size:
                return step, NONCONVEX_CODE
            if curvature <= 0.0 and kind != PAIR_STEP:
                return step, STALLED_CODE
            length = min(slope / max(curvature, 1e-12 * size), longest)
            is_maximal = length >= longest
            keep, n = _set_move(
                kind, made, support, low, high, into, out, length, is_maximal, cap, counts
            )

        # 5. The weights, then the gradient of all points, by all threads where they share the pass.
        move_weights(points, support, keep, made, n)
        for j in range(n):
            touch(cols, made.at[j])
        sharing.float_arguments[0], sharing.int_arguments[0] = keep, n
        number = publish(sharing) if sharing.shared else zero
        update_gradient(cols, points, made, q, keys, tile, sharing, number, zero)
        if sharing.shared:
            join(sharing, number)
    return n_steps, BUDGET_CODE


@inlined
def _candidates(
    rule: int,
    points: Points,
    q: Any,
    support: Support,
    keys: Any,
    xf: float,
    low: Any,
    high: Any,
    zero: Any,
    tile: Any,
) -> Any:
    """Set `low` and `high`; return the slopes toward, away and of the steepest pair, and the pair."""
    toward, away, pair, into, out = xf, -xf, -np.inf, zero, zero
    for g in range(len(low)):
        f_low, low[g] = min_of_group(points, q, keys, g, tile)
        f_high, high[g] = extreme(support, g, zero - 1)
        toward -= f_low
        away += f_high
        near = low[g]
        if rule == BLENDED_RULE:  # pairs inside the support
            f_low, near = extreme(support, g, zero)
        if f_high - f_low > pair:
            pair, into, out = f_high - f_low, near, high[g]
    return toward, away, pair, into, out


@inlined
def _list_columns(
    kind: int, tries_pair: bool, low: Any, high: Any, into: int, out: int, missing: Any
) -> None:
    """Write the columns that a step of this kind reads to `missing`."""
    n_groups = len(low)
    for g in range(n_groups):
        if kind == TOWARD_STEP or kind == TRIANGLE_STEP:
            missing[g] = low[g]
        if kind == AWAY_STEP or kind == TRIANGLE_STEP:
            missing[n_groups + g] = high[g]
    if tries_pair:
        missing[2 * n_groups] = into
        missing[2 * n_groups + 1] = out


@inlined
def _vertex_forms(kind: int, cols: Columns, q: Any, support: Support, low: Any, high: Any) -> Any:
    """Return v'Qv, v'Qx, a'Qa and a'Qx with Q = G + D, and the longest away step."""
    vqv, vqx, aqa, aqx, cap = 0.0, 0.0, 0.0, 0.0, np.inf
    if kind == TOWARD_STEP or kind == TRIANGLE_STEP:
        vqv = form(cols, low, low)
        for g in range(len(low)):
            vqx += q[low[g]]
    if kind == AWAY_STEP or kind == TRIANGLE_STEP:
        aqa = form(cols, high, high)
        for g in range(len(high)):
            aqx += q[high[g]]
            weight = weight_of(support, high[g])
            if weight < 1.0:
                cap = min(cap, weight / (1.0 - weight))
    return vqv, vqx, aqa, aqx, cap


@inlined
def _pair_forms(cols: Columns, into: int, out: int) -> Any:
    """Return d'(G + D)d of the step from `out` to `into`, and the sum of its diagonal entries."""
    size = own(cols, into) + own(cols, out)
    return size - 2.0 * entry(cols, into, out), size


@inlined
def _set_triangle_move(made: Move, low: Any, high: Any, a: float, b: float, cap: float) -> None:
    """Move by a toward the vertex `low` and by b times the cap away from the vertex `high`."""
    limit, n_groups = 1e-15 if b >= 1.0 else 0.0, len(low)
    for g in range(n_groups):
        h = n_groups + g
        made.at[g], made.gain[g], made.least[g] = low[g], a, 0.0
        made.at[h], made.gain[h], made.least[h] = high[g], -b * cap, limit


@inlined
def _set_move(
    kind: int, made: Move, support: Support, low: Any, high: Any, into: int, out: int, length: float,
    is_maximal: bool, cap: float, counts: Any,
) -> Any:  # fmt: skip
    """Set the move along a line and count it; return the factor of x and the number of coordinates."""
    keep, n = 1.0, 2
    if kind == PAIR_STEP:
        counts[DROP_STEP if is_maximal else PAIR_STEP] += 1
        _set_pair_move(made, into, out, length, is_maximal)
    elif kind == AWAY_STEP:
        counts[DROP_STEP if is_maximal else AWAY_STEP] += 1
        keep, n = 1.0 + length, len(low)
        _set_away_move(made, support, high, length, is_maximal, cap)
    else:
        counts[TOWARD_STEP] += 1
        keep, n = 1.0 - length, len(low)
        _set_toward_move(made, low, length)
    return keep, n


@inlined
def _set_pair_move(made: Move, into: int, out: int, length: float, is_maximal: bool) -> None:
    """Move weight from `out` to `into`; a maximal step sets the weight of `out` to zero."""
    limit = np.inf if is_maximal else 0.0
    made.at[0], made.gain[0], made.least[0] = into, length, 0.0
    made.at[1], made.gain[1], made.least[1] = out, -length, limit


@inlined
def _set_away_move(
    made: Move, support: Support, high: Any, length: float, is_maximal: bool, cap: float
) -> None:
    """Move away from the vertex `high`; a maximal step sets the weights that attain the cap to zero."""
    for g in range(len(high)):
        weight = weight_of(support, high[g])
        drops = is_maximal and weight < 1.0 and weight / (1.0 - weight) <= cap
        limit = np.inf if drops else 0.0
        made.at[g], made.gain[g], made.least[g] = high[g], -length, limit


@inlined
def _set_toward_move(made: Move, low: Any, length: float) -> None:
    """Move toward the vertex `low`."""
    for g in range(len(low)):
        made.at[g], made.gain[g], made.least[g] = low[g], length, 0.0
