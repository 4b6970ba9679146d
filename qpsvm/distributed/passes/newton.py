"""Newton steps on a smoothed hinge or a squared one; an iteration is a pass over the rows.

A pass gives the loss, its gradient and its Hessian, d + 1 rows and columns. A step is exact once every
row stays on its quadratic part of the loss. Where a step does not decrease the value, one more pass
evaluates shorter ones, and the best of them is taken.

Sources: Chapelle, "Training a support vector machine in the primal" (2007); Keerthi and DeCoste, "A
modified finite Newton method for fast solution of large scale linear SVMs" (2005), for the squared hinge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Form
from qpsvm.distributed.passes.form import PassSolver
from qpsvm.distributed.passes.margin import MarginPasses
from qpsvm.distributed.passes.sums import LossSums
from qpsvm.solvers.base import Reply, Stop

Vector = NDArray[np.float64]

SUFFICIENT_DECREASE = 1e-4
"""Fraction of the predicted decrease of F_mu that a step must make."""

STEP_LENGTHS: Vector = np.asarray(0.5 ** np.arange(1, 41), np.float64)
"""Lengths of the shorter steps that one pass evaluates, in units of the Newton step."""

DIAGONAL_SHIFTS = (0.0, 1e-14, 1e-10, 1e-6)
"""Shifts of the Hessian that are tried in turn, in units of its largest diagonal entry: its rounding may
leave it without a Cholesky factor where features are far from zero."""

VALUE_ROUNDINGS = 64.0
"""Change of F_mu that counts as rounding, in units of `FLOAT64_EPS` F_mu."""


@dataclass
class PassState:
    """The point, its sums, and the step that is being tried."""

    x: Vector
    product: LossSums
    direction: Vector | None = None  # of (w, b)
    slope: float = 0.0  # of F_mu along the direction
    n_widths: int = 1

    @property
    def counters(self) -> dict[str, int]:
        """Number of widths of the smoothing."""
        return {"stage": self.n_widths}


@dataclass(frozen=True)
class NewtonPasses(PassSolver):
    """Newton steps on the loss of a linear machine."""

    form: ClassVar[type[Form]] = MarginPasses  # type: ignore[type-abstract]

    def default_max_iter(self, problem: MarginPasses) -> int:
        """Return 200 passes."""
        return 200

    def init(self, problem: MarginPasses, x0: Vector | None, rng: Any) -> PassState:
        """Return the state at x0."""
        assert x0 is not None
        x = problem.repair(x0)
        return PassState(x, problem.product(x))

    def refresh(self, problem: MarginPasses, state: PassState, product: LossSums) -> None:
        """Continue from the sums of the point."""
        state.product, state.direction = product, None

    def advance(self, problem: MarginPasses, state: PassState, n_steps: int) -> Reply:
        """Make one pass: at a Newton step, with a smaller width or not, or at shorter steps."""
        mu, before = float(state.x[-1]), problem.objective(state.x, state.product)
        noise = VALUE_ROUNDINGS * FLOAT64_EPS * abs(before)
        if state.direction is not None:  # the whole step failed
            values = before + problem.changes(state.x, state.direction, state.product, STEP_LENGTHS)
            best = int(np.argmin(values))
            if not values[best] < before - noise:
                return Reply(1, Stop.STALLED)
            self._move(problem, state, STEP_LENGTHS[best], mu)
            return Reply(2, Stop.BUDGET)
        direction, slope = newton_step(problem, state)
        if not np.isfinite(slope):
            return Reply(0, Stop.NUMERICAL)
        width = problem.next_width(state.x, state.product, self.target, -slope <= noise)
        if slope == 0.0 and width == mu:
            return Reply(0, Stop.STALLED)
        earlier = state.x.copy(), state.product
        state.direction, state.slope = direction, slope
        self._move(problem, state, 1.0, width)
        decrease = before - problem.objective(state.x, state.product)
        if width < mu:
            state.n_widths += 1
        elif decrease < -SUFFICIENT_DECREASE * slope - noise:
            state.x[:], state.product = earlier
            state.direction, state.slope = direction, slope
        return Reply(1, Stop.BUDGET)

    @staticmethod
    def _move(problem: MarginPasses, state: PassState, length: float, width: float) -> None:
        """Move along the direction, and make the pass there."""
        assert state.direction is not None
        state.x[:-1] += length * state.direction
        state.x[-1] = width
        state.product, state.direction = problem.product(state.x), None


def newton_step(problem: MarginPasses, state: PassState) -> tuple[Vector, float]:
    """Return the direction of (w, b), and the slope of F_mu along it, NaN if there is none."""
    gradient = problem.gradient(state.x, state.product)
    H, size = problem.newton_matrix(state.x, state.product), problem.n + problem.bias
    if not np.isfinite(H).all():
        return gradient, np.nan
    direction, slope = np.zeros(problem.n + 1), np.nan
    H = H[:size, :size]
    unit = np.diag(np.full(size, np.max(np.diagonal(H))))
    for shift in DIAGONAL_SHIFTS:
        try:
            factor = scipy.linalg.cho_factor(H + shift * unit, lower=True)
        except np.linalg.LinAlgError:
            continue
        direction[:size] = scipy.linalg.cho_solve(factor, -gradient[:size])
        slope = float(gradient @ direction)
        break
    return direction, slope
