"""Steps of `smo` where all columns are cached: those of `inner_smo` on the whole matrix.

They select pairs as `pair_steps` does, on a gradient in single precision, and take half of the time or
less. Each time the KKT violation has fallen to a fraction, the gradient is updated in double precision by
the weights that moved, and, once some steps were made, the gap is estimated.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

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
from qpsvm.solvers.smo.stopping import MIN_STEPS_BETWEEN_ESTIMATES, GapTest, is_closed

VIOLATION_REDUCTION = 0.5
"""Fraction of the KKT violation down to which steps are made before the gap is estimated again."""


class Round(NamedTuple):
    """The steps from one update of the gradient to the next, which a limit of steps may interrupt.

    The gradient of the steps is then kept as it is: the answer does not depend on such limits.
    """

    x: NDArray[np.float64]  # (m,), weights at its start
    s: NDArray[np.float64]  # (m,), the signed gradient there
    violation: NDArray[np.float64]  # (1,), the KKT violation there; 0 where no round has begun
    n_steps: NDArray[np.int64]  # (2,), number of its steps, and of those since the last estimate

    @classmethod
    def of(cls, m: int) -> Self:
        """Return memory for the rounds of m points."""
        return cls(np.zeros(m), np.zeros(m), np.zeros(1), np.zeros(2, np.int64))

    def discard(self) -> None:
        """End the round, since weights or gradient were set."""
        self.violation[0] = 0.0


@vectorized
def matrix_steps_until_closed(
    problem: InnerProblem,
    state: InnerState,
    begun: Round,
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
    done, most = np.int64(0), MAX_STEPS_PER_COORDINATE * n
    while done < n_steps:
        if begun.violation[0] == 0.0:
            violation = extremes_of_groups(s, up_barrier, low_barrier, low, high)
            if not 0.0 < violation < np.inf:
                return done, STALLED_CODE
            read_gradient(state, s, up_barrier, low_barrier, low, high, violation)
            begun.x[:], begun.s[:] = x, s
            begun.violation[0], begun.n_steps[0] = violation, 0
        violation, left = begun.violation[0], most - begun.n_steps[0]
        wanted = min(n_steps - done, left)
        made = make_pair_steps(
            problem, state, x, up_barrier, low_barrier, wanted, VIOLATION_REDUCTION, violation
        )
        done += made
        begun.n_steps[0] += made
        begun.n_steps[1] += made
        s[:] = begun.s
        add_moves(problem, x, begun.x.copy(), s)
        if made == wanted and wanted < left:
            return done, BUDGET_CODE
        begun.violation[0] = 0.0
        if begun.n_steps[0] == 0:
            return done, STALLED_CODE
        if test.tol > 0.0 and begun.n_steps[1] >= MIN_STEPS_BETWEEN_ESTIMATES:
            begun.n_steps[1] = 0
            extremes_of_groups(s, up_barrier, low_barrier, low, high)
            if is_closed(low, high, problem.ridge, problem.z, problem.upper, x, s, test):
                return done, NEWS_CODE
    return done, BUDGET_CODE
