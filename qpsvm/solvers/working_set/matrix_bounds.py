"""Bounds of the problems of `matrix_paths` and `matrix_pairs` from sums Ku, rounding errors included."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.numerics.jit import vectorized
from qpsvm.solvers.working_set.matrix_blocks import add_rows

UNIT_ROUNDOFF = 0.5 * FLOAT64_EPS
"""Bound on the relative error of one operation in float64."""

ROUNDED_OPERATIONS = 8
"""Number of operations of a sum besides one for each of its terms, as its error bound counts them."""

Vector = NDArray[np.float64]


class SubsetPath(NamedTuple):
    """Answers for one subset; the value is that of the dual, which is minimized.

    The optimal value lies in [value - gap, value].
    """

    x: Vector  # (n_penalties, n)
    b: Vector  # (n_penalties,)
    value: Vector  # (n_penalties,)
    gap: Vector  # (n_penalties,), rounding included
    roundoff: Vector  # (n_penalties,), the part of the gap that is a bound on rounding errors
    n_steps: NDArray[np.int64]  # (n_penalties,)


class Evaluation(NamedTuple):
    """Bounds of the value of feasible weights."""

    value: float  # an upper bound, rounding included
    gap: float  # of the primal point with this bias, rounding included
    roundoff: float  # the part of the gap that is a bound on rounding errors
    bias: float
    violation: float  # of the optimality conditions


def empty_path(n_penalties: int, n: int) -> SubsetPath:
    """Return memory for the answers of n points."""
    numbers = [np.empty(n_penalties) for _ in range(4)]
    x, n_steps = np.empty((n_penalties, n)), np.empty(n_penalties, np.int64)
    return SubsetPath(x, numbers[0], numbers[1], numbers[2], numbers[3], n_steps)


@vectorized
def sum_error(n: int, largest: float) -> float:
    """Return a bound on the rounding error of an entry of Ku, summed in float64, for weights of sum 1.

    No entry of K is greater than `largest`, and n of the weights are not zero.
    """
    return (n + ROUNDED_OPERATIONS) * UNIT_ROUNDOFF * largest


@vectorized
def bounds(
    y: Any, x: Any, upper: Any, s: Any, is_exact: Any, exact_error: float, error: float, marked: Any
) -> Any:
    """Return the evaluation of feasible weights, given s = Ku - y; mark entries of s that matter for it.

    The gap is that of the primal point with a bias midway between the bounds that the index sets give.
    The error of an entry of s is at most `exact_error` where it is exact, and `error` elsewhere. Rounding
    errors of the sums here, and of y'x = 0, are added to the gap.
    """
    total, quadratic, size, unsure, balance = 0.0, 0.0, 0.0, 0.0, 0.0
    low, high = np.inf, -np.inf
    for k in range(len(y)):
        total += x[k]
        balance += y[k] * x[k]
        term = y[k] * x[k] * (s[k] + y[k])
        quadratic += term
        size += abs(term)
        unsure += x[k] * (exact_error if is_exact[k] else error)
        up = x[k] < upper[k] if y[k] > 0.0 else x[k] > 0.0
        down = x[k] > 0.0 if y[k] > 0.0 else x[k] < upper[k]
        low = s[k] if up and s[k] < low else low
        high = s[k] if down and s[k] > high else high
    if low == np.inf or high == -np.inf:  # one class, or all weights at their bounds
        bias = -high if low == np.inf else -low
    else:
        bias = -0.5 * (low + high)
    gap, roundoff = 0.0, 0.0
    for k in range(len(y)):
        slope, entry = y[k] * (s[k] + bias), exact_error if is_exact[k] else error
        matters = False
        if slope < entry and x[k] < upper[k]:
            gap += (upper[k] - x[k]) * max(-slope, 0.0)
            roundoff += (upper[k] - x[k]) * entry
            matters = True
        if slope > -entry and x[k] > 0.0:
            gap += x[k] * max(slope, 0.0)
            roundoff += x[k] * entry
            matters = True
        marked[k] = matters
    counted = size + total * (2.0 + abs(bias)) + gap + roundoff + unsure
    of_sums = (len(y) + ROUNDED_OPERATIONS) * UNIT_ROUNDOFF * counted
    roundoff += unsure + of_sums + abs(bias * balance)
    value = 0.5 * (quadratic + unsure + of_sums) - total
    return Evaluation(value, gap + roundoff, roundoff, bias, high - low)


@vectorized
def scale_weights(y: Any, x: Any, before: Any, upper: Any) -> None:
    """Set weights to their new bounds where they were at the old ones; scale one class to y'x = 0."""
    balance, heavy = 0.0, 0.0
    for k in range(len(x)):
        if before[k] > 0.0 and x[k] >= before[k]:
            x[k] = upper[k]
        balance += y[k] * x[k]
    for k in range(len(x)):
        heavy += x[k] if y[k] * balance > 0.0 else 0.0
    if heavy > 0.0:
        factor = max(1.0 - abs(balance) / heavy, 0.0)
        for k in range(len(x)):
            x[k] *= factor if y[k] * balance > 0.0 else 1.0


@vectorized
def move_sums(
    block: Any,
    y: Any,
    x: Any,
    x_before: Any,
    ratio: float,
    largest: float,
    s: Any,
    u: Any,
    error: float,
) -> float:
    """Move s = Ku - y from the weights before to x; return a bound on the rounding error of its entries.

    Either from s itself, or from its multiple by `ratio`, or from zero, whichever has to add least rows.
    The bound was `error` before.
    """
    n, n_rows = len(y), np.zeros(3, np.int64)
    factors = (1.0, ratio, 0.0)
    for a in range(3):
        for k in range(n):
            n_rows[a] += abs(x[k] - factors[a] * x_before[k]) > 4.0 * UNIT_ROUNDOFF * x[k]
    chosen = 0
    for a in range(1, 3):
        chosen = a if n_rows[a] < n_rows[chosen] else chosen
    factor, weight = factors[chosen], 0.0
    for k in range(n):
        s[k] = factor * (s[k] + y[k])
        change = x[k] - factor * x_before[k]
        u[k] = y[k] * change if abs(change) > 4.0 * UNIT_ROUNDOFF * x[k] else 0.0
        weight += factor * x_before[k] + x[k]
        x_before[k] = x[k]
    add_rows(block, u, s)
    for k in range(n):
        s[k] -= y[k]
    if weight == 0.0:
        return error
    return factor * error + sum_error(n_rows[chosen], 2.0 * largest * weight + 1.0)
