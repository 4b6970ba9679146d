"""Starts of solves in passes: the machine of a sample, or a given hyperplane."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.clock import Clock
from qpsvm.distributed.passes.hinge import SMOOTHING_SHARE
from qpsvm.distributed.passes.margin import MIN_WIDTH, MarginPasses
from qpsvm.distributed.passes.part import solve_part
from qpsvm.distributed.passes.squared_hinge import SquaredHingePasses
from qpsvm.formulations import Formulation, HingePrimal, L2SVMDual
from qpsvm.gram import Linear
from qpsvm.gram.translation import level_at

Vector = NDArray[np.float64]

MIN_SAMPLE_ROWS, MAX_SAMPLE_ROWS = 10_000, 50_000
"""Least and largest number of rows, about, of the sample that is solved first, if there are so many."""

ROWS_PER_SAMPLED = 8
"""Number of rows for each of the sample, between these: a larger one takes longer than what it spares."""

SAMPLE_TOLERANCE = 1e-4
"""Relative gap of the machine of the sample."""

SAMPLE_ERROR_WIDTHS = 2.0
"""Least first width of the smoothing, in units of sqrt((d + 1) / rows of the sample), the estimated error
of the sample's margins."""

MAX_FIRST_WIDTH = 1.0
"""Maximum of that least first width: the width of the margin."""

WIDTH_BISECTIONS = 60
"""Number of bisections of the logarithm of the first width."""


def sample_size(m: int) -> int:
    """Return about how many of m rows the sample has."""
    return min(MAX_SAMPLE_ROWS, max(MIN_SAMPLE_ROWS, m // ROWS_PER_SAMPLED))


def first_width(q: Vector, C: Vector, goal: float, least: float) -> float:
    """Return the largest mu, at least `least`, at which sum C_i q_i (1 - u_i) is at most `goal`."""
    low, high = least, max(2.0 * least, float(np.max(q, initial=0.0)))
    for _ in range(WIDTH_BISECTIONS):
        mu = np.sqrt(low * high)
        inside = (q > 0.0) & (q < mu)
        gap = float(C[inside] @ (q[inside] * (1.0 - q[inside] / mu)))
        low, high = (mu, high) if gap <= goal else (low, mu)
    return low


def sample_start(
    problem: MarginPasses, X: Any, y: Vector, C: Vector, tol: float, clock: Clock
) -> Vector:
    """Return (w, b, mu) from the machine of a sample.

    X has rows that are not moved, and C their penalties, scaled to the sum of those of all rows. Where a
    hinge sample with a bias has one class alone, w = 0 and b is its label.
    """
    x = np.zeros(problem.n + 2)
    x[-1] = 1.0
    is_squared = isinstance(problem, SquaredHingePasses)
    if np.all(y == y[0]) and problem.bias and not is_squared:
        x[problem.n] = y[0]
        return x
    machine: Formulation = HingePrimal(X, y, C, bias=problem.bias)
    if is_squared:
        machine = L2SVMDual(Linear(X), y, C, bias=problem.bias)
    model = solve_part(machine, SAMPLE_TOLERANCE, clock).model
    assert model.w is not None
    error = min(SAMPLE_ERROR_WIDTHS * np.sqrt((problem.n + 1.0) / len(y)), MAX_FIRST_WIDTH)
    return restart(problem, model.w, model.b, X, y, C, tol, error)


def restart(
    problem: MarginPasses,
    w: Vector,
    b: float,
    X: Any,
    y: Vector,
    C: Vector,
    tol: float,
    error: float = MIN_WIDTH,
) -> Vector:
    """Return (w, b, mu) for a hyperplane in the user's coordinates.

    The width is the largest at which the smoothing error of a sample is at most `SMOOTHING_SHARE` of the
    tolerance, and at least `error`.
    """
    q = 1.0 - y * (np.asarray(X @ w) + b)
    value = 0.5 * float(w @ w) + float(C @ np.maximum(q, 0.0))
    mu = first_width(q, C, SMOOTHING_SHARE * tol * value, error)
    return np.concatenate([w, [level_at(w, b, problem.origin), mu]])
