r"""Constraint reduction in passes: the normal matrix sums the rows that matter, few near the end.

The matrix M_Q of the rows of large weights d_i (`choice`) takes the place of M, that of all rows. Of the
sums of all rows a step keeps the gradient, the certificate, and the border t = sum d_i [z_i, 1]: b is
eliminated with it, so that M_Q and M differ in a weighted covariance alone.

The pass of a predictor or a corrector gives the changes of the weights, and with them the residual
r = M (dw, db) + right-hand side, at no other pass. Where r'M_Q^-1 r is more than a small part of the
complementarity, conjugate gradients on M, preconditioned by M_Q, reduce it; a product is a pass. Where
some products do not suffice, the matrix of all rows is summed. So the number of iterations is that of
`PredictorCorrectorPasses`. With `reduction="paper"` steps are taken as they are, and more rows after a
step that is short or does not reduce the residual.

Source: Jung, O'Leary and Tits, "Adaptive constraint reduction for training support vector machines"
(2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Form
from qpsvm.distributed.passes.interior.choice import ChoiceRule, choose
from qpsvm.distributed.passes.interior.matrix_rows import MatrixRows
from qpsvm.distributed.passes.interior.method import (
    SHORTEST_STEP,
    TO_BOUNDARY,
    InteriorPasses,
    InteriorState,
    PredictorCorrectorPasses,
    factor_of,
    solved,
    target_share,
)
from qpsvm.distributed.passes.interior.shard import both, joined, plane_of
from qpsvm.distributed.passes.sums import LossSums, added
from qpsvm.errors import check_choice, check_number
from qpsvm.solvers.base import Reply, Stop

Vector = NDArray[np.float64]

SHORT_STEP = 0.1
"""Step length below which the printed form increases the number of rows."""

ROW_GROWTH = 2.0
"""Factor on the number of rows where M_Q is too far from M."""

ROW_SHRINKAGE = 1.5
"""Divisor of the number of rows where M_Q is closer to M than needed."""

DIRECTION_RESIDUAL = 0.1
"""Residual of a direction up to which it is taken: its energy is relative to the complementarity."""

POOR_RESIDUAL = 0.5
"""Residual of M_Q's solutions above which the number of rows grows."""

GOOD_RESIDUAL = 0.02
"""Residual of M_Q's solutions below which the number of rows shrinks."""

MAX_REFINEMENT_PASSES = 6
"""Number of products with M after which the matrix of all rows is summed."""


@dataclass
class Choice:
    """What the choice of rows depends on, beside their states."""

    rule: ChoiceRule | None = None  # None: all rows
    growth: float = 1.0  # factor on the number of rows
    n_choices: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class ReducedPasses(InteriorPasses):
    """The hinge machine of rows in shards, whose normal matrix sums some of them.

    Attributes
    ----------
    choice : Choice
        It changes from iteration to iteration.
    """

    choice: Choice = field(default_factory=Choice)

    def matrix_rows(self) -> MatrixRows | None:
        """Return the rows of the next normal matrix; None for all."""
        own = self.choice
        if own.rule is None:
            return None
        own.n_choices += 1
        return choose(self.shards, own.rule, self.m, self.n, own.growth, own.n_choices)

    def newton_matrix(self, x: Vector, sums: LossSums) -> Vector:
        """Return M_Q, with the border of all rows where there is a bias."""
        if len(sums.border) and self.bias:
            own, of_all = sums.hessian[-1], sums.border
            matrix = sums.hessian + np.outer(of_all, of_all) / of_all[-1]
            if own[-1] > 0.0:
                matrix -= np.outer(own, own) / own[-1]
            matrix[-1], matrix[:, -1] = of_all, of_all
            sums = sums._replace(hessian=matrix)
        return super().newton_matrix(x, sums)

    def all_rows(self, x: Vector, sums: LossSums) -> LossSums:
        """Return the sums with the normal matrix of all rows, by a pass."""
        found = added(self.shards.call("interior_sums", self.plane(x), None))
        return sums._replace(
            hessian=found.hessian, n_in_matrix=found.n_in_matrix, border=found.border
        )

    def gradient_change(self, step: Vector, moved: Vector) -> Vector:
        """Return the change of w - sum alpha_i y_i z_i and of -y'alpha by a whole step."""
        change = np.append(step[:-1], 0.0) - moved
        change[-1] *= self.bias
        return change

    def times(self, direction: Vector) -> Vector:
        """Return M times a direction of (w, b), by a pass."""
        answers = self.shards.call("interior_product", plane_of(direction))
        product = reduce(np.add, answers) + np.append(direction[:-1], 0.0)
        product[-1] *= self.bias
        return np.asarray(product)


@dataclass
class ReducedState(InteriorState):
    """The point, its sums, the factor of its matrix, and what the iterations took."""

    factor: Any = None
    residual: float = 0.0  # of the latest solution of M_Q, before conjugate gradients
    n_rows: int = 0
    n_cg: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether the matrix sums all rows."""
        return not len(self.product.border)

    @property
    def counters(self) -> dict[str, int]:
        """Number of short steps, of products with M, and of rows in all matrices."""
        return super().counters | {"cg": self.n_cg, "rows": self.n_rows}


@dataclass(frozen=True)
class ConstraintReducedPasses(PredictorCorrectorPasses):
    """Mehrotra's predictor and corrector with a reduced normal matrix.

    Attributes
    ----------
    reduction : {"preconditioner", "paper", None}
        How M_Q is used: to precondition conjugate gradients on M, in its place as printed, or, with
        None, not at all.
    balanced : bool
        Whether the rows are chosen class by class.
    adaptive : bool
        Whether the number of rows falls with the complementarity mu; otherwise it is `q_upper`.
    q_upper : int or float
        Most rows chosen by rank: a number, or a share of all (a float).
    beta, theta : float
        The number of rows falls as mu^(1/beta); rows with d_i >= theta sqrt(mu) are always taken.
    """

    reduction: str | None = "preconditioner"
    balanced: bool = True
    adaptive: bool = True
    q_upper: float = 1.0
    beta: float = 4.0
    theta: float = 100.0

    form: ClassVar[type[Form]] = ReducedPasses

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice("reduction", self.reduction, ("preconditioner", "paper", None))
        check_choice("balanced", self.balanced, (True, False))
        check_choice("adaptive", self.adaptive, (True, False))
        check_number("q_upper", self.q_upper, low=0.0, open_low=True)
        check_number("beta", self.beta, low=0.0, open_low=True)
        check_number("theta", self.theta, low=0.0)

    def init(self, problem: InteriorPasses, x0: Vector | None, rng: Any) -> ReducedState:
        """Return the state at x0."""
        assert x0 is not None and isinstance(problem, ReducedPasses)
        if self.reduction is not None:
            samples = self.reduction == "preconditioner"
            problem.choice.rule = ChoiceRule(
                self.balanced, self.adaptive, self.q_upper, self.beta, self.theta, samples
            )
        x = problem.repair(x0)
        return ReducedState(x, problem.product(x))

    def advance(self, problem: InteriorPasses, state: InteriorState, n_steps: int) -> Reply:
        """Make one iteration."""
        assert isinstance(problem, ReducedPasses) and isinstance(state, ReducedState)
        try:
            stop = self._iterate(problem, state)
        except (np.linalg.LinAlgError, ValueError):
            return Reply(0, Stop.NUMERICAL)
        return Reply(1, stop)

    def _iterate(self, problem: ReducedPasses, state: ReducedState) -> Stop:
        plane, shards = problem.plane(state.x), problem.shards
        mean = state.product.complementarity / (2.0 * problem.m)
        self._factor(problem, state)

        def predict(step: Vector) -> Any:
            arguments = plane, plane_of(step), not state.is_exact
            return reduce(joined, shards.call("interior_predict", *arguments))

        predicted, sums = self._direction(problem, state, state.product.right_side, predict)
        target = target_share(state, sums) * mean

        def correct(step: Vector) -> Any:
            arguments = plane, plane_of(predicted), target, plane_of(step), not state.is_exact
            return reduce(both, problem.change("interior_correct", *arguments))

        of_rows = sums.second_order + target * sums.centering
        step, made = self._direction(problem, state, of_rows, correct)
        length = min(1.0, TO_BOUNDARY * made.longest)
        is_reduced, is_printed = not state.is_exact, self.reduction == "paper"
        if not length > SHORTEST_STEP and not (is_reduced and is_printed):
            return Stop.STALLED
        state.n_short += length < SHORT_STEP
        if is_reduced and is_printed:
            before = problem.gradient(state.x, state.product)
            after = before + length * problem.gradient_change(step, made.moved)
            least = max(1.0 - 0.5 * length, 0.5) * np.max(np.abs(before))
            stays = bool(np.max(np.abs(after)) > least)
            problem.choice.growth *= ROW_GROWTH if length < SHORT_STEP or stays else 1.0
        self._grow(problem, state)
        problem.change("interior_move", length)
        state.x[:-1] += length * step
        state.product = problem.product(state.x)
        return Stop.BUDGET

    def _factor(self, problem: ReducedPasses, state: ReducedState) -> None:
        """Factor M_Q; M where rounding left M_Q without a factor."""
        state.residual = 0.0
        state.n_rows += state.product.n_in_matrix
        try:
            state.factor = factor_of(problem, state)
        except np.linalg.LinAlgError:
            if state.is_exact:
                raise
            self._take_all_rows(problem, state)

    @staticmethod
    def _take_all_rows(problem: ReducedPasses, state: ReducedState) -> None:
        """Factor the matrix of all rows."""
        state.product = problem.all_rows(state.x, state.product)
        state.n_rows += state.product.n_in_matrix
        state.factor = factor_of(problem, state)

    def _direction(
        self,
        problem: ReducedPasses,
        state: ReducedState,
        of_rows: Vector,
        attempt: Callable[[Vector], Any],
    ) -> tuple[Vector, Any]:
        """Return a step for a right-hand side, whose residual is small, and what rows say of it."""
        gradient = problem.gradient(state.x, state.product)
        step = -solved(problem, state.factor, gradient + of_rows)
        if not np.isfinite(step).all():
            raise np.linalg.LinAlgError("the direction is not finite")
        found = attempt(step)
        if state.is_exact or self.reduction == "paper":
            return step, found
        residual = gradient + problem.gradient_change(step, found.moved)
        energy = float(residual @ solved(problem, state.factor, residual))
        scale = state.product.complementarity
        state.residual = max(state.residual, float(np.sqrt(energy / scale)))
        goal = DIRECTION_RESIDUAL * DIRECTION_RESIDUAL * scale
        if energy <= goal:
            return step, found
        if not self._refine(problem, state, step, -residual, goal):
            self._take_all_rows(problem, state)
            step = -solved(problem, state.factor, gradient + of_rows)
        return step, attempt(step)

    @staticmethod
    def _refine(
        problem: ReducedPasses, state: ReducedState, step: Vector, residual: Vector, goal: float
    ) -> bool:
        """Reduce the residual of a step by conjugate gradients; return whether it became small."""
        scaled = solved(problem, state.factor, residual)
        direction, energy = scaled, float(residual @ scaled)
        for _ in range(MAX_REFINEMENT_PASSES):
            product = problem.times(direction)
            state.n_cg += 1
            curvature = float(direction @ product)
            if not curvature > 0.0:
                return False
            length = energy / curvature
            step += length * direction
            residual = residual - length * product
            scaled = solved(problem, state.factor, residual)
            before, energy = energy, float(residual @ scaled)
            if energy <= goal:
                return True
            direction = scaled + (energy / before) * direction
        return False

    def _grow(self, problem: ReducedPasses, state: ReducedState) -> None:
        """Adapt the number of rows to the residual of M_Q's solutions."""
        own = problem.choice
        if self.reduction != "preconditioner" or state.residual == 0.0:
            return
        own.growth *= ROW_GROWTH if state.residual > POOR_RESIDUAL else 1.0
        own.growth /= ROW_SHRINKAGE if state.residual < GOOD_RESIDUAL else 1.0
