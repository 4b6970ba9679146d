r"""A primal-dual interior point method for linear hinge machines in passes over rows.

Problem: minimize 1/2 w'w + C'xi subject to y_i (w'z_i + b) + xi_i - 1 = s_i and s, xi >= 0. The
states of a row are at its shard (`rows`). An iteration reads the rows three times:

1. The sums give the certified gap, and the normal matrix: I without the entry of b, plus the sum of
   d_i [z_i, 1][z_i, 1]'.
2. The predictor, a step to products of 0, gives its longest length and the sums of second-order terms.
3. The corrector, a step with these terms to the target of Mehrotra's rule, gives its longest length.

The weights alpha, scaled in one class as in `hinge`, are the dual point of the certificate. The number
of iterations hardly depends on the penalties and on the number of rows.

Sources: Mehrotra, "On the implementation of a primal-dual interior point method" (1992); Jung, O'Leary
and Tits, "Adaptive constraint reduction for training support vector machines" (2008), for the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.canonical.base import Form
from qpsvm.distributed.passes.form import PassSolver
from qpsvm.distributed.passes.hinge import HingePasses
from qpsvm.distributed.passes.interior.matrix_rows import MatrixRows
from qpsvm.distributed.passes.interior.shard import Plane, Prediction, joined, plane_of
from qpsvm.distributed.passes.sums import LossSums, added
from qpsvm.solvers.base import Reply, Stop

Vector = NDArray[np.float64]

TO_BOUNDARY = 0.995
"""Maximum length of a step, as a fraction of the length at which the first variable becomes 0."""

SHORTEST_STEP = 1e-8
"""Length of a step below which the method has stalled."""

MIN_START_WIDTH = 0.1
"""Least value of s and xi at the start: closer to the boundary the first steps are short."""


@dataclass(frozen=True, eq=False, kw_only=True)
class InteriorPasses(HingePasses):
    """The hinge machine of rows in shards, whose states hold the weights.

    Attributes
    ----------
    changes_made : list
        Calls that changed the states, in order: a shard that was lost repeats them.
    """

    changes_made: list[tuple[Any, ...]] = field(default_factory=list)

    def plane(self, x: Vector) -> Plane:
        """Return (w, b)."""
        return Plane(x[: self.n].copy(), float(x[self.n]))

    def sums(self, x: Vector) -> LossSums:
        """Return the sums at x and at the weights that the shards hold, by a pass.

        Before the first pass the shards set weights that suit the margins at x.
        """
        if not self.changes_made:
            width = max(float(x[-1]), MIN_START_WIDTH)
            self.change("interior_start", self.plane(x), width)
        return added(self.shards.call("interior_sums", self.plane(x), self.matrix_rows()))

    def matrix_rows(self) -> MatrixRows | None:
        """Return which rows the normal matrix sums; None for all."""
        return None

    def change(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method that changes the states, and record the call for shards that are rebuilt."""
        answers = self.shards.call(method, *arguments)
        if method == "interior_correct" and self.changes_made[-1][0] == method:
            self.changes_made.pop()  # the new changes take the place of those
        self.changes_made.append((method, *arguments))
        self.last.clear()
        return answers

    def repeat_changes(self, k: int) -> None:
        """Bring a shard that was loaded again to the states of the others."""
        for method, *arguments in self.changes_made:
            self.shards.call_one(k, method, *arguments)

    @property
    def holds_weights(self) -> bool:
        """Whether the shards hold the weights of their rows."""
        return True

    def row_weights(self, x: Vector, scales: Vector) -> list[Vector]:
        """Return the weights of the rows of each shard."""
        return self.shards.call("interior_weights", scales)


@dataclass
class InteriorState:
    """The point, and its sums."""

    x: Vector
    product: LossSums
    n_short: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """Number of steps shorter than a tenth."""
        return {"short": self.n_short}


@dataclass(frozen=True)
class PredictorCorrectorPasses(PassSolver):
    """Mehrotra's predictor and corrector; an iteration is three passes over the rows."""

    form: ClassVar[type[Form]] = InteriorPasses

    def default_max_iter(self, problem: InteriorPasses) -> int:
        """Return 100 iterations."""
        return 100

    def init(self, problem: InteriorPasses, x0: Vector | None, rng: Any) -> InteriorState:
        """Return the state at x0."""
        assert x0 is not None
        x = problem.repair(x0)
        return InteriorState(x, problem.product(x))

    def advance(self, problem: InteriorPasses, state: InteriorState, n_steps: int) -> Reply:
        """Make one iteration."""
        plane, mean = problem.plane(state.x), state.product.complementarity / (2.0 * problem.m)
        try:
            factor = factor_of(problem, state)
        except (np.linalg.LinAlgError, ValueError):
            return Reply(0, Stop.NUMERICAL)
        predicted = solution(problem, state, factor, state.product.right_side)
        found = problem.shards.call("interior_predict", plane, predicted)
        sums: Prediction = reduce(joined, found)
        target = target_share(state, sums) * mean
        step = solution(problem, state, factor, sums.second_order + target * sums.centering)
        if not np.isfinite(step.w).all():
            return Reply(0, Stop.NUMERICAL)
        made = problem.change("interior_correct", plane, predicted, target, step)
        longest = min(one.longest for one in made)
        length = min(1.0, TO_BOUNDARY * longest)
        if not length > SHORTEST_STEP:
            return Reply(1, Stop.STALLED)
        state.n_short += length < 0.1
        problem.change("interior_move", length)
        state.x[:-1] += length * np.append(step.w, step.b)
        state.product = problem.product(state.x)
        return Reply(1, Stop.BUDGET)


def target_share(state: InteriorState, sums: Prediction) -> float:
    """Return the target of Mehrotra's rule, as a fraction of the mean product."""
    length, before = min(1.0, sums.longest), state.product.complementarity
    reached = before + length * (sums.slope + length * sums.curvature)
    return float((max(reached, 0.0) / before) ** 3)


def factor_of(problem: InteriorPasses, state: InteriorState) -> Any:
    """Return the Cholesky factor of the normal matrix, without the row of b where there is none."""
    size = problem.n + problem.bias
    matrix = problem.newton_matrix(state.x, state.product)[:size, :size]
    return scipy.linalg.cho_factor(matrix, lower=True)


def solution(problem: InteriorPasses, state: InteriorState, factor: Any, of_rows: Vector) -> Plane:
    """Return the step of (w, b); `of_rows`, (d + 1,), is the part of the rows in the right-hand side."""
    right = problem.gradient(state.x, state.product) + of_rows  # w - sum alpha_i y_i z_i, -y'alpha
    return plane_of(-solved(problem, factor, right))


def solved(problem: InteriorPasses, factor: Any, right: Vector) -> Vector:
    """Return the solution of the factored equations, 0 in b where there is none; (d + 1,)."""
    size = problem.n + problem.bias
    step = np.zeros(problem.n + 1)
    step[:size] = scipy.linalg.cho_solve(factor, right[:size])
    return step
