"""Re-optimization over a growing core: core vector machine, fully corrective Frank-Wolfe.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x over a simplex or a product of simplices. Each iteration
adds the coordinate that violates optimality most to the core, solves the problem over the core alone,
warm started, by second-order SMO on the core's own small Gram matrix, and then updates the gradient
of all points in one pass over the columns that changed.

- ``cvm``: Frandi et al., Algorithm 1 (Badoiu and Clarkson's, as Tsang, Kwok and Cheung's core vector
  machine uses it): starts from a small random ball. With ``sampling`` the best of a sample enters, as
  in their section 5.2.3: see `qpsvm.solvers.working_set.sampled_core_set`.
- ``fcfw``: fully corrective Frank-Wolfe: the core is solved to a hundredth of the violation at which
  the vertex entered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, ApproximateProducts
from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.shared.sampling import SAMPLED_PERIOD, Draws, OnSamples
from qpsvm.solvers.shared.starting_points import random_ball, two_points
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set.sampled_core_set import SampledCore
from qpsvm.solvers.working_set.working_set import CoreState, OnCore, enter, solve_core


@dataclass(frozen=True)
class CoreSet(OnSamples, OnCore):
    """Re-optimize over a core that grows in each iteration.

    Parameters
    ----------
    inner_tol : float
        Spread of the gradient over the core at which it counts as solved, relative to the violation
        over all points at which the iteration began.
    start : {"two-point", "ball"}
        As in ``fw``.
    start_size : int
        Points of the random ball; the paper uses 20 (section 5.2.2).
    sampling, confirm, target
        As in `qpsvm.solvers.shared.sampling.OnSamples`.
    """

    inner_tol: float = 0.1
    start: str = "two-point"
    start_size: int = 20

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("inner_tol", self.inner_tol, low=0.0, high=1.0, open_low=True)
        check_choice("start", self.start, ("two-point", "ball"))
        check_number("start_size", self.start_size, low=2, integer=True)
        super().__post_init__()

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> CoreState:
        """Return the state with the support of the starting point as its core."""
        if x0 is not None:
            x = problem.domain.repair(x0)
        elif self.start == "ball":
            x = random_ball(problem, self.start_size, CoreSet(), rng)
        else:
            x = two_points(problem)
        if self.sampling is not None:
            assert isinstance(problem.domain, SimplexProduct)
            draws = Draws(problem.domain, self.sampling, rng)
            return SampledCore.at(problem, x, draws, self.goal)
        state = CoreState(PairState.at(problem, x))
        enter(problem, state, np.flatnonzero(x != 0), hold=True)
        return state

    def advance(self, problem: QP, state: CoreState, n_steps: int) -> Reply:
        """Make one iteration, over all points or over samples."""
        if isinstance(state, SampledCore):
            return state.advance(self.inner_tol)
        return super().advance(problem, state, n_steps)

    def iterate(self, problem: QP, state: CoreState) -> Reply:
        """Let the worst violator of each group enter and solve over the core."""
        pair = state.pair
        barred = pair.s + pair.grow
        low, high = np.min(barred, axis=1), np.max(pair.s - pair.shrink, axis=1)
        violation = float(np.max(high - low))
        if np.isnan(violation):
            return Reply(0, Stop.NUMERICAL)
        barred[:, state.inside] = np.inf
        new = np.unique(np.argmin(barred, axis=1)[np.min(barred, axis=1) < high])
        enter(problem, state, new, hold=True)
        noise = 4.0 * FLOAT64_EPS * float(np.max(np.abs(pair.s)))
        moved = solve_core(problem, state, max(self.inner_tol * violation, noise))
        return Reply(1, Stop.BUDGET if moved else Stop.STALLED)

    def approximate_products(self, problem: QP, state: CoreState) -> ApproximateProducts | None:
        """Return the product with a bound on its errors; on samples it is not maintained."""
        return (
            None if isinstance(state, SampledCore) else super().approximate_products(problem, state)
        )

    def period(self, problem: QP) -> int:
        """Return a short period: an iteration solves a whole reduced problem."""
        return 16 if self.sampling is None else SAMPLED_PERIOD

    def default_max_iter(self, problem: QP) -> int:
        """Return a budget in which every coordinate could enter twice."""
        return 500 + 2 * problem.m
