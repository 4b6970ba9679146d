r"""Accelerated gradient steps on a smoothed hinge or a squared one; an iteration is a pass over the rows.

They need no matrix: a pass gives the value F, the gradient g, and the diagonal D of the Hessian, which
scales the steps. From the point p of a pass

    y_k = p - D^-1 g / l,    p = y_k + k / (k + 3) (y_k - y_k-1),

with l a bound on the curvature along steps, in units of D. Where two passes show that

    F(p_new) - F(p) - g(p)'(p_new - p) > l / 2 |p_new - p|^2_D,

l is increased, and the next step starts without momentum from the better of both points. Where the
momentum increases the value, it is dropped and l is reduced.

Sources: Zhou, Tao and Wu, "NESVM: a fast gradient method for support vector machines" (2010); O'Donoghue
and Candes, "Adaptive restart for accelerated gradient schemes" (2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Form
from qpsvm.distributed.passes.form import PassSolver
from qpsvm.distributed.passes.margin import MarginPasses
from qpsvm.distributed.passes.newton import VALUE_ROUNDINGS
from qpsvm.distributed.passes.sums import LossSums
from qpsvm.solvers.base import Reply, Stop

Vector = NDArray[np.float64]

CURVATURE_GROWTH = 1.5
"""Least factor by which the bound on the curvature grows where a step shows that it is too small."""

CURVATURE_REDUCTION = 0.7
"""Factor by which the bound on the curvature is reduced where the momentum is dropped."""

MAX_GRADIENT_PASSES = 5000
"""Default maximum number of passes."""

MIN_DIAGONAL_SHARE = 1e-8
"""Least entry of the diagonal that scales a step, as a fraction of the largest."""


@dataclass
class GradientState:
    """The point of the latest pass, its sums, and the end of the step before."""

    x: Vector
    product: LossSums
    y: Vector  # of (w, b)
    diagonal: Vector  # D
    curvature: float = 1.0  # l; the mean curvature in units of D is 1
    k: int = 0  # steps since the momentum was dropped
    restarts: int = 0
    n_widths: int = 1

    @property
    def counters(self) -> dict[str, int]:
        """Number of widths of the smoothing, and of restarts."""
        return {"stage": self.n_widths, "restart": self.restarts}


@dataclass(frozen=True)
class GradientPasses(PassSolver):
    """Accelerated gradient steps on the loss of a linear machine."""

    form: ClassVar[type[Form]] = MarginPasses  # type: ignore[type-abstract]

    def default_max_iter(self, problem: MarginPasses) -> int:
        """Return the default maximum number of passes."""
        return MAX_GRADIENT_PASSES

    def init(self, problem: MarginPasses, x0: Vector | None, rng: Any) -> GradientState:
        """Return the state at x0."""
        assert x0 is not None
        x = problem.repair(x0)
        product = problem.product(x)
        return GradientState(x, product, x[:-1].copy(), scaling(problem, x, product))

    def advance(self, problem: MarginPasses, state: GradientState, n_steps: int) -> Reply:
        """Make one step, and the pass at its end."""
        x, before = state.x.copy(), problem.objective(state.x, state.product)
        gradient = problem.gradient(x, state.product)
        if not np.isfinite(gradient).all():
            return Reply(0, Stop.NUMERICAL)
        noise = VALUE_ROUNDINGS * FLOAT64_EPS * abs(before)
        y = x[:-1] - gradient / (state.curvature * state.diagonal)
        gain = 0.5 * float(gradient @ (x[:-1] - y))
        width = problem.next_width(x, state.product, self.target, gain <= noise)
        if gain <= noise and width == x[-1]:
            return Reply(0, Stop.STALLED)
        moved = y - state.y
        if float(gradient @ moved) > 0.0:  # the momentum increases the value
            state.k, state.restarts = 0, state.restarts + 1
            state.curvature *= CURVATURE_REDUCTION
        momentum = state.k / (state.k + 3.0)
        earlier = x, state.product
        state.x[:-1], state.x[-1] = y + momentum * moved, width
        state.product, state.y, state.k = problem.product(state.x), y, state.k + 1
        if width < x[-1]:
            state.n_widths += 1
            self._restart(problem, state)
            return Reply(1, Stop.BUDGET)
        step = state.x[:-1] - x[:-1]
        after = problem.objective(state.x, state.product)
        change = after - before - float(gradient @ step)
        square = float(step @ (state.diagonal * step))
        if 2.0 * (change - noise) > state.curvature * square:
            state.curvature = max(CURVATURE_GROWTH * state.curvature, 2.0 * change / square)
            if after > before:
                state.x[:], state.product = earlier
            self._restart(problem, state)
        return Reply(1, Stop.BUDGET)

    @staticmethod
    def _restart(problem: MarginPasses, state: GradientState) -> None:
        """Begin without momentum, and with the diagonal of the latest pass."""
        state.y, state.k = state.x[:-1].copy(), 0
        state.diagonal = scaling(problem, state.x, state.product)


def scaling(problem: MarginPasses, x: Vector, sums: LossSums) -> Vector:
    """Return the diagonal of the Hessian, whose entries are at least a fraction of the largest."""
    diagonal = problem.hessian_diagonal(x, sums)
    return np.maximum(diagonal, MIN_DIAGONAL_SHARE * float(np.max(diagonal)))
