"""Accelerated projected gradient with adaptive restarts.

Problem: minimize f over a domain with a cheap projection P, f smooth with constant beta::

    x_next = P(y - grad f(y) / beta)
    y      = x_next + (t - 1) / t_next (x_next - x),   t_next = (1 + sqrt(1 + 4 t^2)) / 2

The momentum is dropped (t = 1) when grad f(y)'(x_next - x) > 0 (O'Donoghue and Candes 2015, the
gradient scheme). The restarts give linear convergence where f grows quadratically, without knowledge
of the rate. The acceleration is that of Beck and Teboulle (2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain
from qpsvm.gram.smooth import SmoothFunction
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.frank_wolfe.general import GeneralSolver, gradient, quadratic, starting_point

Vector = NDArray[np.float64]

LONGEST_STEP = 1e150
"""Largest entry of a step, where beta is tiny or not positive: longer ones would overflow."""


@dataclass(frozen=True)
class ProjectedGradient(GeneralSolver):
    """Accelerated projected gradient, restarted."""

    def fits(self, problem: QP) -> bool:
        """Return whether f is defined outside of the domain, where momentum leads."""
        return super().fits(problem) and not isinstance(problem.gram, SmoothFunction)

    def has_oracle(self, domain: Domain) -> bool:
        """Return whether the domain has a projection."""
        return domain.projectable

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> GradientState:
        """Return the state at x0 or at a vertex."""
        x = starting_point(problem, x0)
        product = quadratic(problem).product(x)
        return GradientState(x, product, x.copy(), product.copy())

    def advance(self, problem: QP, state: GradientState, n_steps: int) -> Reply:
        """Make gradient steps."""
        quad = quadratic(problem)
        beta = max(quad.smoothness, np.finfo(float).tiny)
        for step in range(n_steps):
            g = gradient(problem, state.y_product)
            if not np.isfinite(g).all():
                return Reply(step, Stop.NUMERICAL)
            size = max(beta, float(np.max(np.abs(g))) / LONGEST_STEP)
            x = problem.domain.project(state.y - g / size)
            product = quad.product(x)
            moved, moved_product = x - state.x, product - state.product
            if float(g @ moved) > 0.0:
                state.t = 1.0
                state.restarts += 1
            t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * state.t**2))
            momentum = (state.t - 1.0) / t_next
            state.y = x + momentum * moved
            state.y_product = product + momentum * moved_product
            state.t = t_next
            state.x[:], state.product[:] = x, product
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: GradientState, product: Vector) -> None:
        """Replace the image of x by a recomputed one, and drop the momentum."""
        state.product[:] = product
        state.y, state.y_product = state.x.copy(), product.copy()
        state.t = 1.0


@dataclass
class GradientState:
    """A point of the domain, the extrapolated point, and their images."""

    x: Vector
    product: Vector  # Q x, or A x
    y: Vector  # x with momentum
    y_product: Vector
    t: float = 1.0
    restarts: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """Number of restarts."""
        return {"restart": self.restarts}
