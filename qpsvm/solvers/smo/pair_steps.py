"""Compiled pair steps of `smo`, with second-order selection of the second coordinate.

A step makes one pass over the tiles that may contain the second coordinate, and one over all points,
which updates the signed gradient s and its extremes. Sources and problem: `qpsvm.solvers.smo.smo`;
index sets I_up and I_low: `qpsvm.solvers.smo.pair_data`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.argextremes import MAX_KEY, first_of, greatest32, ordered_key
from qpsvm.numerics.jit import from64, inlined, vectorized, without_refcounts
from qpsvm.numerics.work_sharing import (
    TILE_POINTS,
    WorkSharing,
    claim,
    closed,
    finish,
    join,
    publish,
    published,
    register,
    work_sharing_for,
)
from qpsvm.solvers.base import BUDGET_CODE, STALLED_CODE
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING, is_cached, touch
from qpsvm.solvers.shared.gradient_pass import add_least, add_least_signed
from qpsvm.solvers.smo.pair_data import (
    GROUP_STEP,
    IN_LOW,
    IN_UP,
    PairData,
    is_blocked,
    move_pair,
    pair_data,
    set_mark,
)

MIN_CURVATURE_RATIO = np.float32(1e-12)
"""Lower bound on curvatures, relative to the greatest diagonal entry."""

MIN_POINTS_PER_CANDIDATE = 8
"""Number of points per coordinate of I_low from which its coordinates are evaluated one by one."""


@vectorized
def _extremes(s: Any, mark: Any, group: int) -> Any:
    """Return the keys of the minimum of s over I_up and of the maximum over I_low, in a tile."""
    low, high = MAX_KEY, -MAX_KEY
    for k in range(len(s)):
        key = ordered_key(s[k])
        excluded = -np.int64((mark[k] & ~IN_LOW) != IN_UP + group)  # all bits or none: no branch
        below = (key & ~excluded) | (MAX_KEY & excluded)
        low = below if below < low else low
        excluded = -np.int64((mark[k] & ~IN_UP) != IN_LOW + group)
        above = (key & ~excluded) | (-MAX_KEY & excluded)
        high = above if above > high else high
    return low, high


@vectorized
def _add_columns(
    column_i: Any,
    column_j: Any,
    side: Any,
    a: float,
    b: float,
    shift_term: float,
    s: Any,
    mark: Any,
    group: int,
) -> Any:
    """Add two signed columns to a tile; return its extremes as `_extremes` does."""
    low, high = MAX_KEY, -MAX_KEY
    for k in range(len(s)):
        value = s[k] + side[k] * (a * column_i[k] + b * column_j[k] + shift_term)
        s[k], key = value, ordered_key(value)
        excluded = -np.int64((mark[k] & ~IN_LOW) != IN_UP + group)
        below = (key & ~excluded) | (MAX_KEY & excluded)
        low = below if below < low else low
        excluded = -np.int64((mark[k] & ~IN_UP) != IN_LOW + group)
        above = (key & ~excluded) | (-MAX_KEY & excluded)
        high = above if above > high else high
    return low, high


@vectorized
def _gains(
    row: Any, side: Any, diagonal: Any, mark: Any, wanted: int, s_tile: Any, terms: Any, gain: Any
) -> None:
    """Write the decrease of the value, up to a factor, of the pair with each point of a tile.

    It is (s_k - low)^2 / curvature, both relative to their upper bounds. float32 suffices, since the
    quotient only selects the second coordinate.
    """
    low, diagonal_i, factor, shift, inverse_violation, inverse_diagonal = terms
    for k in range(len(s_tile)):
        is_candidate = np.float64((mark[k] & ~IN_UP) == wanted)
        difference = (s_tile[k] - low) * inverse_violation * is_candidate
        gap = np.float32(difference if difference > 0.0 else 0.0)
        curvature = np.float32(
            (diagonal_i + diagonal[k] - factor * side[k] * (row[k] + shift)) * inverse_diagonal
        )
        gain[k] = (
            gap * gap / (curvature if curvature > MIN_CURVATURE_RATIO else MIN_CURVATURE_RATIO)
        )


@vectorized
def _second_index(
    row: Any,
    data: PairData,
    s: Any,
    g: int,
    i: int,
    low: float,
    low_key: int,
    group_violation: float,
    constants: Any,
) -> int:
    """Return the coordinate from which moving weight to i decreases the value most, or -1.

    `row` is column i of K.
    """
    scale, shift, max_diagonal = constants
    diagonal, best_index, group = data.diagonal, -1, GROUP_STEP * g
    factor = 2.0 * scale * data.side[i]
    # On a simplex few weights are positive.
    if MIN_POINTS_PER_CANDIDATE * data.n_low[0] <= len(s):
        best, min_curvature = 0.0, MIN_CURVATURE_RATIO * max_diagonal
        for a in range(data.n_low[0]):
            k = data.low_list[a]
            if (data.mark[k] & ~IN_UP) != IN_LOW + group or s[k] <= low:
                continue
            difference = s[k] - low
            curvature = diagonal[i] + diagonal[k] - factor * data.side[k] * (row[k] + shift)
            gain = difference * (
                difference / (curvature if curvature > min_curvature else min_curvature)
            )
            if gain > best or (gain == best and k < best_index):
                best, best_index = gain, k
        return best_index
    max_bits = np.int32(0)  # the bits of 0
    diagonal_i = diagonal[i]
    if data.all_positive:  # the same shift for all points
        diagonal_i, shift = diagonal_i - factor * shift, 0.0
    terms = (low, diagonal_i, factor, shift, 1.0 / group_violation, 1.0 / max_diagonal)
    for tile in range(data.high.shape[1]):
        if data.high[g, tile] <= low_key:  # no violator in this tile
            continue
        start = tile * TILE_POINTS
        gains = data.scratch[: len(s) - start]
        stop = start + len(gains)
        _gains(
            row[start:stop],
            data.side[start:stop],
            diagonal[start:stop],
            data.mark[start:stop],
            IN_LOW + group,
            s[start:stop],
            terms,
            gains,
        )
        bits, k = greatest32(gains)
        if bits > max_bits:
            max_bits, best_index = bits, start + k
    return best_index


@inlined
def _add_ridge(s: Any, k: int, ridge: float, t: float, low: int, high: int) -> bool:
    """Add the ridge term to one entry; return whether it was or may now be an extreme."""
    if ridge == 0.0:
        return False
    before = ordered_key(s[k])
    s[k] += ridge * t
    after = ordered_key(s[k])
    return before <= low or after <= low or before >= high or after >= high


@vectorized
def _update_gradient(
    cols: Columns, data: PairData, s: Any, sharing: WorkSharing, pass_number: int, worker: int
) -> None:
    """Update s and its extremes for the pair of the published pass, in the chunks claimed."""
    i, j, t = sharing.int_arguments[0], sharing.int_arguments[1], sharing.float_arguments[0]
    a, b = cols.scale * t * data.side[i], -cols.scale * t * data.side[j]
    shift_term = (a + b) * cols.shift
    row_i, row_j = cols.store[cols.slot[i]], cols.store[cols.slot[j]]
    n_groups, first, last = len(data.low), 0, sharing.n_tiles
    for chunk in range(len(sharing.claimed) if sharing.shared else 1):
        if sharing.shared:
            first, last = claim(sharing, pass_number, worker, chunk)
        for tile in range(first, last):
            start = tile * TILE_POINTS
            s_tile = s[start : start + TILE_POINTS]
            stop = start + len(s_tile)
            column_i, column_j = row_i[start:stop], row_j[start:stop]
            side, mark = data.side[start:stop], data.mark[start:stop]
            at_i, at_j = start <= i < stop, start <= j < stop
            if at_i or at_j:
                if n_groups == 1:
                    n_grow = 0
                    for k in range(len(mark)):
                        n_grow += mark[k] & IN_UP
                    data.all_up[tile] = n_grow == len(mark)
            elif data.all_up[tile] and data.high[0, tile] == -MAX_KEY:
                if data.all_positive:
                    data.low[0, tile] = add_least(column_i, column_j, 1.0, a, b, shift_term, s_tile)
                else:
                    data.low[0, tile] = add_least_signed(
                        column_i, column_j, side, 1.0, a, b, shift_term, s_tile
                    )
                continue
            low, high = _add_columns(column_i, column_j, side, a, b, shift_term, s_tile, mark, 0)
            data.low[0, tile], data.high[0, tile] = low, high
            rescan = at_i and _add_ridge(s, i, cols.ridge[i], t, low, high)
            rescan = (at_j and _add_ridge(s, j, cols.ridge[j], -t, low, high)) or rescan
            for g in range(0 if rescan else 1, n_groups):
                data.low[g, tile], data.high[g, tile] = _extremes(s_tile, mark, GROUP_STEP * g)
        if sharing.shared and first < last:
            finish(sharing)


@vectorized
def assist_pairs(cols: Columns, data: PairData, s: Any, sharing: WorkSharing) -> None:
    """Claim chunks of published passes until the steps are closed."""
    worker, last = register(sharing), 0
    while not closed(sharing):
        pass_number = published(sharing)
        if pass_number > last:
            _update_gradient(cols, data, s, sharing, pass_number, worker)
            last = pass_number


def pairs(
    cols: Columns,
    z: Any,
    upper: Any,
    x: Any,
    s: Any,
    up_barrier: Any,
    low_barrier: Any,
    n_steps: int,
    kkt_tolerance: float,
    missing: Any,
) -> Any:
    """Make steps in place; return the number of steps and the stop code.

    The steps stall once the KKT violation is at most `kkt_tolerance`.
    """
    data = pair_data(cols, z, s, up_barrier, low_barrier)
    arrays, limits = (z, upper, x, s, up_barrier, low_barrier), (n_steps, kkt_tolerance)
    sharing = work_sharing_for(len(x), alone=True)
    return pair_steps(cols, data, *arrays, *limits, missing, sharing)


@vectorized
def pair_steps(
    cols: Columns,
    data: PairData,
    z: Any,
    upper: Any,
    x: Any,
    s: Any,
    up_barrier: Any,
    low_barrier: Any,
    n_steps: int,
    kkt_tolerance: float,
    missing: Any,
    sharing: WorkSharing,
) -> Any:
    """Do what `pairs` does, given its data."""
    cols, data, z, upper, x, s = without_refcounts((cols, data, z, upper, x, s))
    up_barrier, low_barrier = without_refcounts((up_barrier, low_barrier))
    n_groups, n_tiles = data.low.shape
    side, diagonal = data.side, data.diagonal
    max_diagonal = data.max_diagonal[0]
    min_curvature = MIN_CURVATURE_RATIO * max_diagonal
    constants = (cols.scale, cols.shift, max_diagonal)
    zero: Any = np.int64(0)  # a literal would compile functions twice
    for step in range(n_steps):
        # 1. First coordinate: the minimum of s over I_up in the group of maximum violation.
        g, i = zero, zero - 1
        low, low_key, violation = 0.0, MAX_KEY, 0.0
        for h in range(n_groups):
            tile, least, high = 0, MAX_KEY, -MAX_KEY
            for t in range(n_tiles):
                if data.low[h, t] < least:
                    tile, least = t, data.low[h, t]
                if data.high[h, t] > high:
                    high = data.high[h, t]
            if least == MAX_KEY or high == -MAX_KEY:
                continue
            start = tile * TILE_POINTS
            stop = start + TILE_POINTS
            mark = data.mark[start:stop]
            k = start + first_of(s[start:stop], least, mark, IN_UP + GROUP_STEP * h, ~IN_LOW)
            group_violation = from64(high ^ ((high >> 63) & MAX_KEY)) - s[k]
            if group_violation > violation:
                g, i, low, low_key, violation = h, k, s[k], least, group_violation
        if i < 0 or violation <= kkt_tolerance:
            return step, STALLED_CODE
        if not is_cached(cols, i):
            missing[0], missing[1] = i, i
            return step, COLUMN_MISSING
        # 2. Second coordinate: the greatest decrease of the value.
        row_i = cols.store[cols.slot[i]]
        j = _second_index(row_i, data, s, g, i, low, low_key, violation, constants)
        if j < 0 or j == i:
            return step, STALLED_CODE
        if not is_cached(cols, j):
            missing[0], missing[1] = i, j
            return step, COLUMN_MISSING
        touch(cols, i)
        touch(cols, j)
        # 3. Step length, clipped to the box.
        curvature = (
            diagonal[i]
            + diagonal[j]
            - 2.0 * cols.scale * side[i] * side[j] * (row_i[j] + cols.shift)
        )
        slack_i = upper[i] - x[i] if z[i] > 0.0 else x[i]
        slack_j = x[j] if z[j] > 0.0 else upper[j] - x[j]
        t = (s[j] - low) / (curvature if curvature > min_curvature else min_curvature)
        t = slack_i if slack_i < t else t
        t = slack_j if slack_j < t else t
        if t > 1e300:  # the value is unbounded below along this pair
            return step, STALLED_CODE
        # 4. Move the weights and update the index sets.
        move_pair(x, z, upper, i, j, t, t >= slack_i, t >= slack_j)
        for k in (i, j):
            up_blocked, low_blocked = is_blocked(x, z, upper, k)
            up_barrier[g, k] = np.inf if up_blocked else 0.0
            low_barrier[g, k] = np.inf if low_blocked else 0.0
            flags = (0 if up_blocked else IN_UP) + (0 if low_blocked else IN_LOW)
            set_mark(data, k, flags + GROUP_STEP * g)
        # 5. Update the gradient.
        sharing.int_arguments[0], sharing.int_arguments[1], sharing.float_arguments[0] = i, j, t
        pass_number = publish(sharing) if sharing.shared else zero
        _update_gradient(cols, data, s, sharing, pass_number, zero)
        if sharing.shared:
            join(sharing, pass_number)
    return n_steps, BUDGET_CODE
