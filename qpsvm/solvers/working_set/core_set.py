"""Re-optimization over a growing core set: core vector machine, fully corrective Frank-Wolfe.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x over a simplex or a product of simplices. Each iteration
adds the maximum violator of each group to the core set, solves the problem over the core set alone,
warm started, by second-order SMO on its own small Gram matrix, and then updates the gradient of all
points in one pass over the columns of weights that changed.

- ``cvm``: Frandi et al., Algorithm 1 (Badoiu and Clarkson's, as Tsang, Kwok and Cheung's core vector
  machine uses it): starts from a small random ball. With ``sampling`` the best of a sample is added, as
  in their section 5.2.3: see `qpsvm.solvers.working_set.sampled_core_set`.
- ``fcfw``: fully corrective Frank-Wolfe: the core set is solved to a hundredth of the violation at which
  the vertex was added.
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
from qpsvm.solvers.working_set.sampled_core_set import SampledCoreSet
from qpsvm.solvers.working_set.working_set import (
    OnWorkingSet,
    WorkingSetState,
    add_to_working_set,
    solve_working_set,
)


@dataclass(frozen=True)
class CoreSet(OnSamples, OnWorkingSet):
    """Re-optimize over a core set that grows in each iteration.

    Parameters
    ----------
    inner_tol : float
        KKT violation at which the core set counts as solved, relative to the violation over all points
        at the start of the iteration.
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
    ) -> WorkingSetState:
        """Return the state with the support of the starting point as its core set."""
        if x0 is not None:
            x = problem.domain.repair(x0)
        elif self.start == "ball":
            x = random_ball(problem, self.start_size, CoreSet(), rng)
        else:
            x = two_points(problem)
        if self.sampling is not None:
            assert isinstance(problem.domain, SimplexProduct)
            draws = Draws(problem.domain, self.sampling, rng)
            return SampledCoreSet.at(problem, x, draws, self.goal)
        state = WorkingSetState(PairState.at(problem, x))
        add_to_working_set(problem, state, np.flatnonzero(x != 0), cache_columns=True)
        return state

    def advance(self, problem: QP, state: WorkingSetState, n_steps: int) -> Reply:
        """Make one iteration, over all points or over samples."""
        if isinstance(state, SampledCoreSet):
            return state.advance(self.inner_tol)
        return super().advance(problem, state, n_steps)

    def iterate(self, problem: QP, state: WorkingSetState) -> Reply:
        """Add the maximum violator of each group and solve over the core set."""
        pair = state.pair
        s_up = pair.s + pair.up_barrier
        low, high = np.min(s_up, axis=1), np.max(pair.s - pair.low_barrier, axis=1)
        violation = float(np.max(high - low))
        if np.isnan(violation):
            return Reply(0, Stop.NUMERICAL)
        s_up[:, state.in_working_set] = np.inf
        new = np.unique(np.argmin(s_up, axis=1)[np.min(s_up, axis=1) < high])
        add_to_working_set(problem, state, new, cache_columns=True)
        noise = 4.0 * FLOAT64_EPS * float(np.max(np.abs(pair.s)))
        moved = solve_working_set(problem, state, max(self.inner_tol * violation, noise))
        return Reply(1, Stop.BUDGET if moved else Stop.STALLED)

    def approximate_products(
        self, problem: QP, state: WorkingSetState
    ) -> ApproximateProducts | None:
        """Return the product with a bound on its errors; with samples it is not maintained."""
        if isinstance(state, SampledCoreSet):
            return None
        return super().approximate_products(problem, state)

    def period(self, problem: QP) -> int:
        """Return a short period: an iteration solves a whole reduced problem."""
        return 16 if self.sampling is None else SAMPLED_PERIOD

    def default_max_iter(self, problem: QP) -> int:
        """Return a budget in which every coordinate could be added twice."""
        return 500 + 2 * problem.m
