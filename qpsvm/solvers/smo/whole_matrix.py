"""Steps of `smo` where all columns are cached: those of `inner_smo` on the whole matrix.

They select pairs as `pair_steps` does, on a gradient in single precision, and take half of the time or
less. Each time the KKT violation has fallen to a fraction, the gradient is updated in double precision by
the weights that moved, and the gap is estimated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.numerics.jit import vectorized
from qpsvm.solvers.base import BUDGET_CODE, NEWS_CODE, STALLED_CODE
from qpsvm.solvers.smo.inner_smo import (
    MAX_STEPS_PER_COORDINATE,
    InnerProblem,
    InnerState,
    add_moves,
    extremes_of_groups,
    make_pair_steps,
    read_gradient,
)
from qpsvm.solvers.smo.stopping import GapTest, is_closed

VIOLATION_REDUCTION = 0.5
"""Fraction of the KKT violation down to which steps are made before the gap is estimated again."""


@vectorized
def matrix_steps_until_closed(
    problem: InnerProblem,
    state: InnerState,
    x: Any,
    s: Any,
    up_barrier: Any,
    low_barrier: Any,
    n_steps: int,
    test: GapTest,
) -> Any:
    """Make steps until an estimate of the gap passes, in place; return their number and the stop code."""
    n_groups, n = up_barrier.shape
    low, high = np.empty(n_groups), np.empty(n_groups)
    x_before, done = x.copy(), np.int64(0)
    while done < n_steps:
        violation = extremes_of_groups(s, up_barrier, low_barrier, low, high)
        if not 0.0 < violation < np.inf:
            return done, STALLED_CODE
        read_gradient(state, s, up_barrier, low_barrier, low, high, violation)
        most = min(n_steps - done, MAX_STEPS_PER_COORDINATE * n)
        made = make_pair_steps(
            problem, state, x, up_barrier, low_barrier, most, VIOLATION_REDUCTION, violation
        )
        if made == 0:
            return done, STALLED_CODE
        done += made
        add_moves(problem, x, x_before, s)
        if test.tol > 0.0:
            extremes_of_groups(s, up_barrier, low_barrier, low, high)
            if is_closed(low, high, problem.ridge, problem.z, problem.upper, x, s, test):
                return done, NEWS_CODE
    return done, BUDGET_CODE
