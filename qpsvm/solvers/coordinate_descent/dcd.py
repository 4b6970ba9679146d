"""Dual coordinate descent for linear machines, with proximal Newton steps at the end.

Problem: minimize 1/2 |X'Y a|^2 + 1/2 a'Da - t'a over 0 <= a <= C, where w = X'Y a is kept up to date:

    a_i <- clip(a_i - (y_i x_i'w - t_i + D_i a_i) / (|x_i|^2 + D_i), 0, C_i)

A step costs one row. Absolute losses have bounds C and no D, squared ones D = 1 / C and no bounds. For
the classification losses t = 1. In a regression two coordinates share a point, of opposite signs y and
with t = y_i (value - level) - epsilon. A penalized bias is the weight of a constant feature. Over the
simplex, with c = 0, the problem with D is the same up to the scale of x: t = 1 and x = a / sum a.

A sweep visits the points in a random order; a point whose gradient indicates that it will stay at its
bound is omitted from the next sweeps (shrinking) and checked before the end.

Source: Hsieh, Chang, Lin, Keerthi and Sundararajan, "A dual coordinate descent method for large-scale
linear SVM", ICML 2008, Algorithms 1 and 3; for regression Ho and Lin, "Large-scale linear support vector
regression", JMLR 2012, section 3.1, whose two weights of a point are two coordinates here.

Sweeps find a rough answer quickly; then they converge slowly, the more so the larger C is. From there
`proximal_newton` continues on absolute losses: Newton steps on the points between the bounds, whose
number grows slowly with C. They also handle a free bias, which single coordinates cannot move because
of y'a = 0. With a free bias, the sweeps work on points with one additional constant feature and leave
its weight to the Newton steps. Squared losses are left to the fallback of this method, `mfn`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import BoxHyperplane, Domain, Orthant, PenaltyBox, SimplexProduct
from qpsvm.errors import InputError, check_choice
from qpsvm.gram.repeated import RepeatedGram, distinct_points
from qpsvm.gram.storage.csr import without_empty_columns
from qpsvm.numerics.csr_rows import rows_of
from qpsvm.solvers.base import (
    PenaltiesOnFactor,
    Reply,
    Stop,
    WithTargetGap,
    has_squared_slacks,
)
from qpsvm.solvers.coordinate_descent import proximal_newton as proximal
from qpsvm.solvers.coordinate_descent.state import (
    MAX_PASSES_PER_ROUND,
    PASSES_BEFORE_NEWTON,
    ROUND_END_FRACTION,
    Stage,
    State,
)
from qpsvm.solvers.coordinate_descent.sweeps import RUN_POINTS

Vector = NDArray[np.float64]

FIRST_NEWTON_STEPS = 5.0
"""Newton steps before their gap begins to fall."""

NEWTON_STEPS_PER_DIGIT = 8.0
"""Newton steps for each factor of ten of the gap from there on."""

SURE_SHARE = 0.5
"""Passes over squared losses, relative to the cost of Newton steps, from which a prediction counts in
full: the rate of the gap rises at first."""

WIDE_MATRICES = 5.0
"""Number of matrices in the rows that the Newton steps of a squared loss compute; it is 2 in columns."""

MIN_DIGITS_PER_PASS = 0.01
"""Powers of ten that a pass is assumed to gain at least; later passes gain half of what the last did."""


@dataclass(frozen=True)
class DualCoordinateDescent(WithTargetGap, PenaltiesOnFactor):
    """Coordinate descent on the dual of a linear machine, then proximal Newton steps.

    Parameters
    ----------
    shrinking : bool
        Whether points that stay at their bounds are omitted from the sweeps.
    newton : bool, optional
        Whether Newton steps follow the sweeps; by default where they are cheaper, and
        always with a free bias.
    target : float, optional
        Relative gap at which the sweeps stop for a check; the tolerance of the solve by default.
    """

    shrinking: bool = True
    newton: bool | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (PenaltyBox, BoxHyperplane)
    check_threshold: ClassVar[float] = 0.98  # the products are recomputed from w

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        check_choice("shrinking", self.shrinking, (True, False))
        check_choice("newton", self.newton, (True, False, None))

    def period(self, problem: QP) -> int:
        """Check after every round: each costs several passes over the points."""
        return 1

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Use one thread where the matrices of the Newton steps are small, and for CSR points."""
        X = distinct_points(problem.gram.kernel).factor()
        return X.shape[1] <= proximal.MAX_ORDER_FOR_ONE_THREAD, sp.issparse(X)

    def default_max_iter(self, problem: QP) -> int:
        """Return a finite budget."""
        return 2000

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> State:
        """Return the state at x0, or at a = 0, on a simplex at a vertex."""
        domain, gram, kernel = problem.domain, problem.gram, problem.gram.kernel
        X = distinct_points(kernel).factor()
        bias = isinstance(domain, BoxHyperplane)
        scaled = isinstance(domain, SimplexProduct)
        if isinstance(domain, PenaltyBox | BoxHyperplane):
            upper = domain.upper
        else:
            upper = np.full(problem.m, np.inf)
        zeros = np.zeros(problem.m)
        x = domain.repair(x0) if x0 is not None else domain.linear_min(zeros) if scaled else zeros
        random = np.array([rng.integers(1, 2**62)], np.uint64)
        points: Any = slice(None)
        if sp.issparse(X):  # a run has RUN_POINTS equally spaced points
            X = without_empty_columns(X)  # each sweep reads w
            n = X.shape[0]
            stride = -(-n // RUN_POINTS)
            points = np.arange(RUN_POINTS * stride).reshape(RUN_POINTS, stride).T.ravel()
            points = points[points < n]
        at, row = points, np.arange(problem.m)
        if isinstance(kernel, RepeatedGram):  # the coordinates of a point follow each other
            number = np.empty(X.shape[0], np.int64)
            number[points] = np.arange(X.shape[0])
            at = np.argsort(number[kernel.index], kind="stable")
            row = number[kernel.index][at]
        squares = kernel.diag()
        target = np.ones(problem.m) if scaled else -problem.linear
        state = State(
            X, rows_of(X, points), row, at, gram.sign[at], target[at],
            upper[at], gram.ridge[at], squares[at], bias, X.shape[1], x, x[at].copy(), random,
            np.arange(problem.m), scaled=scaled,
        )  # fmt: skip
        state.lift = float(np.sqrt(np.mean(squares))) if bias else float(np.sqrt(gram.shift))
        state.sum_weights()
        if scaled:
            state.rescale()
        state.n_active = problem.m
        return state

    def advance(self, problem: QP, state: State, n_steps: int) -> Reply:
        """Make rounds of sweeps, or stages of Newton steps."""
        for step in range(n_steps):
            state.is_current = state.closed = False
            if state.stage is None and not state.has_ridge and self._is_newton_due(state):
                state.stage = Stage.at(state)
            if state.stage is None:
                moved = self._round(state)
                state.report()
                if not moved and state.bias:  # the bias is left to Newton's method
                    state.stage, moved = Stage.at(state), True
            else:
                moved = proximal.advance(state, state.stage)
            state.n_rounds += 1
            if not np.isfinite(state.w).all():
                return Reply(step, Stop.NUMERICAL)
            if not moved:
                return Reply(step + 1, Stop.STALLED)
            if state.closed:
                return Reply(step + 1, Stop.DONE)
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: State, product: Vector) -> None:
        """Start from the feasible point and its product."""
        state.a[:] = state.x[state.at] * state.total
        if state.bias:  # b is kept: y'a is 0
            state.sum_points(state.a, state.w)
        else:
            state.sum_weights()
        state.set_product(product)
        state.restart()

    def _round(self, state: State) -> bool:
        """Sweep until the gap looks closed or Newton steps are due; return whether a moved."""
        for _ in range(MAX_PASSES_PER_ROUND // state.passes):
            moved = state.sweep(self.shrinking, self.target or 0.0)
            if state.closed or not moved:
                break
            if not state.was_newton_due and self._is_newton_due(state):
                state.was_newton_due = True  # a method that was named continues in full rounds
                break
        return moved

    def _is_newton_due(self, state: State) -> bool:
        """Return whether Newton steps are predicted to be faster than sweeps."""
        if state.n_visits < PASSES_BEFORE_NEWTON * len(state.y):
            return False
        if state.bias or self.newton is not None:
            return state.bias or bool(self.newton)
        left, passes = self._left(state)
        steps = FIRST_NEWTON_STEPS + NEWTON_STEPS_PER_DIGIT * left
        return left > 0.0 and (
            2.0 * passes > steps * (1.0 + proximal.cost(state) / state.rows.entries)
        )

    def _left(self, state: State) -> tuple[float, float]:
        """Return the powers of ten from the gap to the tolerance, and the passes that they may take."""
        left = np.log10(state.gap / (ROUND_END_FRACTION * max(self.target or 0.0, 1e-15)))
        gain = max(state.gap_before / state.gap, 1.0)  # 0 where the gap was 0 and has grown
        gained = max(np.log10(gain) / (state.passes / 2.0), MIN_DIGITS_PER_PASS)
        return float(left), float(left / gained)


@dataclass(frozen=True)
class SquaredLossCoordinateDescent(DualCoordinateDescent):
    """The sweeps alone, on the dual of a linear machine with squared losses.

    They converge linearly, the more slowly the larger the penalties are; `mfn` is the fallback where its
    Newton steps are predicted to be faster.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct, Orthant)

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        if self.newton:
            raise InputError("newton must be None or False on squared losses; got True")

    def fits(self, problem: QP) -> bool:
        """Return whether it is the dual of squared errors on a Gram with a factor."""
        return has_squared_slacks(problem)

    def is_slow(self, problem: QP, state: State) -> bool:
        """Return whether the Newton steps of `mfn` are predicted to take less time than more sweeps."""
        return self._is_newton_due(state)

    def _is_newton_due(self, state: State) -> bool:
        newton = newton_passes(state.X)
        made = state.n_visits / len(state.y)
        certainty = min(1.0, made / (SURE_SHARE * newton))
        return certainty**2 * self._left(state)[1] > newton


def newton_passes(X: Any) -> float:
    """Return the cost of a solve of a squared loss by `mfn`, in passes of sweeps over the points X.

    The matrix in the columns is summed up in the first Newton step; later ones change it by the rows
    whose slack appears or vanishes, together by about as many. One in the rows is made in each step.
    """
    entries = X.size
    n, d = X.shape
    width = entries / max(n, 1)
    matrix = entries * width / 2.0 if d <= n else n * n * width / 2.0
    operations = matrix + min(n, d) ** 3 / 3.0
    of_matrix = operations / (proximal.BLAS_OPERATIONS_PER_ENTRY * max(entries, 1))
    return 2.0 * FIRST_NEWTON_STEPS + (2.0 if d <= n else WIDE_MATRICES) * of_matrix
