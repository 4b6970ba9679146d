"""Accelerated projected gradient on the dual of a linear machine; an iteration is two passes.

From the extrapolated weights z of the shards a step goes to x_new = P(z - gradient / size). One pass sums
w = sum x_i y_i z_i, the next computes the scores of the rows at w. The projection needs one multiplier,
which is found from the weights alone. With t_k+1 = (1 + sqrt(1 + 4 t_k^2)) / 2 the next point is
z = x_new + (t_k - 1) / t_k+1 (x_new - x); t is 1 again where gradient'(x_new - x) > 0. A certificate
takes one more pass.

Sources: Beck and Teboulle (2009); O'Donoghue and Candes, "Adaptive restart for accelerated gradient
schemes" (2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Form
from qpsvm.distributed.passes.form import PassSolver
from qpsvm.distributed.passes.projected.form import WeightsAtShards
from qpsvm.distributed.passes.projected.shard import StepSums
from qpsvm.distributed.passes.sums import LossSums
from qpsvm.solvers.base import Reply, Stop

Vector = NDArray[np.float64]

STEPS_BETWEEN_CHECKS = 5
"""Number of steps from one certificate to the next: it takes half as many passes as a step."""

MAX_GRADIENT_STEPS = 5000
"""Default number of steps."""


@dataclass
class ProjectedState:
    """The momentum, and the point that the weights at the shards give, computed where it is asked for."""

    problem: WeightsAtShards
    point: Vector  # (w, b, mu)
    latest: StepSums | None  # of the weights, where the point is not theirs yet
    t: float = 1.0
    restarts: int = 0

    @property
    def x(self) -> Vector:
        """The point of the present weights."""
        if self.latest is not None:
            self.point[:-1], self.latest = self.problem.position(self.latest), None
        return self.point

    @property
    def product(self) -> LossSums:
        """Its sums."""
        sums: LossSums = self.problem.product(self.x)
        return sums

    @property
    def counters(self) -> dict[str, int]:
        """Number of restarts."""
        return {"restart": self.restarts}


@dataclass(frozen=True)
class ProjectedGradientPasses(PassSolver):
    """Accelerated projected gradient, restarted."""

    form: ClassVar[type[Form]] = WeightsAtShards  # type: ignore[type-abstract]

    def period(self, problem: WeightsAtShards) -> int:
        """Return the number of steps between certificates."""
        return STEPS_BETWEEN_CHECKS

    def default_max_iter(self, problem: WeightsAtShards) -> int:
        """Return the default number of steps."""
        return MAX_GRADIENT_STEPS

    def init(self, problem: WeightsAtShards, x0: Vector | None, rng: Any) -> ProjectedState:
        """Return the state at the weights that the losses have at x0."""
        assert x0 is not None
        x = problem.repair(x0)
        return ProjectedState(problem, x, problem.begin(x))

    def refresh(self, problem: WeightsAtShards, state: ProjectedState, product: LossSums) -> None:
        """Continue from the weights at the shards."""

    def advance(self, problem: WeightsAtShards, state: ProjectedState, n_steps: int) -> Reply:
        """Make gradient steps."""
        for step in range(n_steps):
            multiplier = problem.multiplier()
            sums = problem.step_sums(multiplier)
            if not (np.isfinite(sums.normal).all() and np.isfinite(sums.slope)):
                return Reply(step, Stop.NUMERICAL)
            if sums.slope > 0.0:
                state.t, state.restarts = 1.0, state.restarts + 1
            t = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * state.t**2))
            problem.move(multiplier, (state.t - 1.0) / t, sums)
            state.t, state.latest = t, sums
        return Reply(n_steps, Stop.BUDGET)
