"""Frank-Wolfe on the simplex and on products of simplices, on cached columns.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x, x in a product of simplices. A vertex of the domain
is one coordinate of each simplex; f = (G + D)x + c is the gradient. In each step the candidates are
the vertex with the least gradient (toward), the one with the greatest gradient on the support
(away), and moving weight from the second to the first within one simplex (pair). `step_rules`
chooses among them.

One implementation serves all three simplex duals, with the exact line search for any kernel. It
differs from the papers as follows:

- Frandi et al. update the radius in step 21 of Algorithm 3 with the wrong sign. Here the scalars
  x'f and x'(G + D)x are recomputed in each step, without a recursion.
- Their section 4.4 uses the line search of a normalized kernel (constant diagonal of Q) for any
  kernel. That step can increase the objective; the line search here reduces to it when the diagonal
  is constant.
- Kumar and Yildirim print the cross term of <w, w> after an add step with a minus; it is a plus.

The compiled steps are those of `simplex_steps`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.numerics.work_sharing import run_shared
from qpsvm.solvers.base import BUDGET_CODE, Reply, Stop
from qpsvm.solvers.frank_wolfe import sampled
from qpsvm.solvers.frank_wolfe.simplex_steps import simplex_steps
from qpsvm.solvers.frank_wolfe.step_rules import STEP_RULES
from qpsvm.solvers.frank_wolfe.support import FrankWolfeState
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING
from qpsvm.solvers.shared.gradient_pass import assist
from qpsvm.solvers.shared.sampling import SAMPLED_PERIOD, Draws, OnSamples
from qpsvm.solvers.shared.starting_points import random_ball, two_points


@dataclass(frozen=True)
class FrankWolfe(OnSamples):
    """Frank-Wolfe with a choice of step rule and of starting point.

    Parameters
    ----------
    rule : {"toward", "away", "pairwise", "blended", "swap", "triangle"}
        Step rule, as in the table above.
    start : {"two-point", "ball"}
        ``"two-point"``: the first point and the one farthest from it, each with weight 1/2; on two
        simplices the closest pair found in two sweeps. ``"ball"``: the optimum over `start_size`
        points drawn at random (Frandi et al., section 3).
    start_size : int
        Points of the random ball; the paper uses 20 (section 5.2.2).
    sampling, confirm, target
        As in `qpsvm.solvers.shared.sampling.OnSamples`; for the rules ``"toward"`` and ``"away"``.
    """

    rule: str = "toward"
    start: str = "two-point"
    start_size: int = 20

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)
    least_period: ClassVar[int] = 100  # a check costs about ten steps

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("rule", self.rule, tuple(STEP_RULES))
        check_choice("start", self.start, ("two-point", "ball"))
        check_number("start_size", self.start_size, low=2, integer=True)
        super().__post_init__()
        if self.sampling is not None:
            check_choice("rule (with sampling)", self.rule, ("toward", "away"))

    def period(self, problem: QP) -> int:
        """Return the steps between two checks; more with sampling, where a check costs many steps."""
        return super().period(problem) if self.sampling is None else SAMPLED_PERIOD

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> FrankWolfeState | sampled.SampledState:
        """Return the state at x0 or at the starting point of the settings."""
        if x0 is not None:
            x = problem.domain.repair(x0)
        elif self.start == "ball":
            x = random_ball(problem, self.start_size, FrankWolfe(rule="away"), rng)
        else:
            x = two_points(problem)
        if self.sampling is not None:
            assert isinstance(problem.domain, SimplexProduct)
            draws = Draws(problem.domain, self.sampling, rng)
            return sampled.SampledState.at(problem, x, draws, self.goal, self.rule == "away")
        return FrankWolfeState.at(problem, x)

    def advance(self, problem: QP, state: Any, n_steps: int) -> Reply:
        """Run the compiled steps until they are done or columns are missing; then fill these."""
        if self.sampling is not None:
            return state.advance(n_steps)
        assert problem.store is not None
        scratch = state.scratch
        scratch.missing.fill(-1)
        cols = problem.columns()
        points, q, support, keys = state.points, state.gradient, state.support, state.keys
        made, sharing = state.made, state.sharing
        rule, counts = STEP_RULES[self.rule], state.counts
        done, code = run_shared(
            sharing,
            lambda: simplex_steps(
                rule, cols, points, q, support, keys, made, n_steps, scratch, counts, sharing
            ),
            lambda: assist(cols, points, made, q, keys, sharing),
        )
        state.is_stale = True
        if code == COLUMN_MISSING:
            state.prefetch.serve(problem.store, scratch.missing[scratch.missing >= 0], state.wanted)
            code = BUDGET_CODE
        return Reply(done, Stop(code))

    def refresh(self, problem: QP, state: Any, product: NDArray[np.float64]) -> None:
        """Replace G x by the recomputed one."""
        if self.sampling is not None:
            state.set_product(product)
        else:
            state.set_product(problem, product)  # x was repaired
