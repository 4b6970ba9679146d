"""Steps of `smo` until an estimate of the gap passes: a check costs as much as a hundred short steps.

For fixed multipliers t_g of the groups, with the signed gradient s and r_i = z_i (s_i - t_g),

    sum over i of max over 0 <= a_i <= u_i of (x_i - a_i) (r_i - d_i (x_i - a_i) / 2)

is at least the gap at x, and equal to it at the best multipliers. These lie between the minimum of s
over I_up and its maximum over I_low. A few steps of Newton's method, or of bisection without a ridge,
come near them. Without equality constraints t is 0. The sum is an estimate, without rounding errors: it
decides when a check is made, and nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.argextremes import MAX_KEY
from qpsvm.numerics.jit import from64, inlined, vectorized
from qpsvm.numerics.work_sharing import WorkSharing
from qpsvm.solvers.base import BUDGET_CODE, NEWS_CODE
from qpsvm.solvers.smo.pair_data import PairData
from qpsvm.solvers.smo.pair_steps import pair_steps
from qpsvm.solvers.smo.single_steps import single_steps

MIN_STEPS_BETWEEN_ESTIMATES = 32
"""Minimum number of pair steps from one estimate to the next: an estimate costs a few of them."""

ESTIMATES_PER_DOUBLING = 16
"""Number of estimates while the number of pair steps doubles."""

MULTIPLIERS_PER_ESTIMATE = 3
"""Number of multipliers that are tried, where more than one may give a finite sum."""

MAX_RATIO_FOR_MULTIPLIERS = 4.0
"""Ratio of the first sum to the wanted gap above which no other multipliers are tried."""


class GapTest(NamedTuple):
    """What an estimate of the gap reads besides the data of the steps."""

    group: NDArray[np.int64]  # (m,), which equality constraint a coordinate belongs to
    linear: NDArray[np.float64]  # (m,), c
    constant: float
    tol: float  # relative gap at which a check is worth its time; 0 for no estimates
    is_bounded: bool  # whether the upper bounds are finite
    has_ridge: bool


@vectorized
def _sum_at(
    multipliers: Any, test: GapTest, ridge: Any, z: Any, upper: Any, x: Any, s: Any, slope: Any
) -> float:
    """Return the sum of the module at multipliers; write its derivatives, (2, n_groups).

    The first derivative is that of the lower bound; the second one is without its sign.
    """
    total = 0.0
    slope[:] = 0.0
    for k in range(len(x)):
        group = test.group[k]
        r, d = z[k] * (s[k] - multipliers[group]), ridge[k]
        if x[k] == 0.0 and r >= 0.0:
            continue
        move, curvature = x[k] if r > 0.0 else x[k] - upper[k] if r < 0.0 else 0.0, 0.0  # x - a
        if d > 0.0 and x[k] - upper[k] < r / d < x[k]:
            move, curvature = r / d, 1.0 / d
        total += move * r - (0.5 * d * move * move if d > 0.0 else 0.0)
        slope[0, group] += z[k] * move
        slope[1, group] += curvature
    return total


@vectorized
def _value_at(z: Any, x: Any, s: Any, test: GapTest) -> float:
    """Return the value 1/2 x'(G + D)x + c'x + constant, from the gradient."""
    value = test.constant
    for k in range(len(x)):
        value += 0.5 * x[k] * (z[k] * s[k] + test.linear[k])
    return value


@vectorized
def _wanted_gap(gap: float, value: float, test: GapTest) -> float:
    """Return the largest gap that passes at a value."""
    return test.tol * max(abs(value), abs(value - gap) if gap < np.inf else 0.0)


@vectorized
def is_closed(
    low: Any, high: Any, ridge: Any, z: Any, upper: Any, x: Any, s: Any, test: GapTest
) -> bool:
    """Return whether the estimate of the gap passes, for steps on pairs.

    `low` and `high` are the extremes of s over I_up and over I_low, (n_groups,); they are overwritten.
    """
    n_groups = len(low)
    at = np.empty(n_groups)
    for g in range(n_groups):
        if low[g] == np.inf or high[g] == -np.inf:  # a group whose weights cannot move
            low[g] = high[g] = high[g] if low[g] == np.inf else low[g]
        high[g] = max(high[g], low[g])
        at[g] = 0.5 * (low[g] + high[g]) if test.is_bounded else low[g]
    value = _value_at(z, x, s, test)
    slope = np.empty((2, n_groups))
    # above `low` the sum is infinite without bounds and ridge
    n_multipliers = MULTIPLIERS_PER_ESTIMATE if test.is_bounded or test.has_ridge else 1
    for _ in range(n_multipliers):
        gap = _sum_at(at, test, ridge, z, upper, x, s, slope)
        wanted = _wanted_gap(gap, value, test)
        if gap <= wanted:
            return True
        if gap > MAX_RATIO_FOR_MULTIPLIERS * wanted:
            return False
        for g in range(n_groups):
            if slope[0, g] > 0.0:
                low[g] = at[g]
            else:
                high[g] = at[g]
            at[g] = at[g] + slope[0, g] / slope[1, g] if slope[1, g] > 0.0 else np.inf
            if not low[g] < at[g] < high[g]:
                at[g] = 0.5 * (low[g] + high[g])
    return False


@vectorized
def _read_extremes(data: PairData, low: Any, high: Any) -> None:
    """Write the extremes of s from their keys; infinite where a set is empty."""
    for g in range(len(data.low)):
        least, greatest = data.low[g].min(), data.high[g].max()
        low[g], high[g] = np.inf, -np.inf
        if least != MAX_KEY:
            low[g] = from64(least ^ ((least >> 63) & MAX_KEY))
        if greatest != -MAX_KEY:
            high[g] = from64(greatest ^ ((greatest >> 63) & MAX_KEY))


@inlined
def _period(n_steps: int) -> int:
    """Return the number of steps to the next estimate."""
    return max(MIN_STEPS_BETWEEN_ESTIMATES, n_steps // ESTIMATES_PER_DOUBLING)


@vectorized
def pair_steps_until_closed(
    cols: Columns,
    data: PairData,
    z: Any,
    upper: Any,
    x: Any,
    s: Any,
    up_barrier: Any,
    low_barrier: Any,
    n_before: int,
    n_steps: int,
    test: GapTest,
    missing: Any,
    sharing: WorkSharing,
) -> Any:
    """Do what `pair_steps` does; end with `NEWS_CODE` where the estimate of the gap passes.

    `n_before` is the number of steps that were made before.
    """
    done, stop = np.int64(0), BUDGET_CODE
    low, high = np.empty(len(data.low)), np.empty(len(data.low))
    while done < n_steps and stop == BUDGET_CODE:
        period = _period(n_before + done)
        arrays = (z, upper, x, s, up_barrier, low_barrier)
        wanted = min(period, n_steps - done)
        made, stop = pair_steps(cols, data, *arrays, wanted, 0.0, missing, sharing)
        done += made
        is_due = made == period and test.tol > 0.0
        if is_due:
            _read_extremes(data, low, high)
            if is_closed(low, high, cols.ridge, z, upper, x, s, test):
                return done, NEWS_CODE
    return done, stop


@vectorized
def single_steps_until_closed(
    cols: Columns,
    z: Any,
    upper: Any,
    x: Any,
    s: Any,
    up_barrier: Any,
    low_barrier: Any,
    n_before: int,
    n_steps: int,
    test: GapTest,
    missing: Any,
) -> Any:
    """Do what `single_steps` does; end with `NEWS_CODE` where the estimate of the gap passes."""
    done, stop = np.int64(0), BUDGET_CODE
    zeros, slope = np.zeros(1), np.empty((2, 1))
    while done < n_steps and stop == BUDGET_CODE:
        period = _period(n_before + done)
        wanted = min(period, n_steps - done)
        made, stop = single_steps(cols, upper, x, s, up_barrier, low_barrier, wanted, missing)
        done += made
        if made == period and test.tol > 0.0:
            gap = _sum_at(zeros, test, cols.ridge, z, upper, x, s, slope)
            if gap <= _wanted_gap(gap, _value_at(z, x, s, test), test):
                return done, NEWS_CODE
    return done, stop
