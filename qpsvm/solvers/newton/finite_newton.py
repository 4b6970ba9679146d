"""Newton steps in w for machines with squared slacks on a Gram with a factor.

Problem: minimize 1/2 x'(G + D)x + c'x over x >= 0, g_ij = s_i s_j (x_i'x_j + 1), D > 0. It is the dual of

    minimize P(v) = 1/2 |v|^2 + 1/2 sum_i max(0, t_i - g_i)^2 / D_i,   g_i = s_i z_i'v,   t = -c,

with z_i = (x_i, 1) and v = (w, b), or z_i = x_i without a bias. P has d + 1 variables, is strictly convex
and piecewise quadratic: a Newton step solves

    (I + sum over A of z_i z_i' / D_i) dv = Z'S a - v,   A = {i: g_i < t_i},   a = max(0, t - g) / D,

and moves to the minimum of P, S = diag(s). With the right A it is exact. The weights are x = a, and
1/2 |v - Z'S a|^2 is the duality gap of v and a.

Over the simplex, with c = 0, the problem is the same up to the scale of x: t = 1 and x = a / sum a.

In a regression two coordinates share a point, of opposite signs: products are those of the points.

The matrix has the smaller order of d + 1 and |S|. For CSR points of many features the system is first
solved by conjugate gradients; a small matrix is formed where these do not converge.

Sources: Mangasarian, "A finite Newton method for classification" (2002); Keerthi and DeCoste, "A
modified finite Newton method for fast solution of large scale linear SVMs" (2005).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain, Orthant, SimplexProduct
from qpsvm.gram.repeated import RepeatedGram, distinct_points
from qpsvm.numerics.csr_rows import moments
from qpsvm.numerics.jit import reassociating
from qpsvm.solvers.base import (
    WORK_BETWEEN_CHECKS,
    Reply,
    Stop,
    WithTargetGap,
    has_squared_slacks,
)
from qpsvm.solvers.coordinate_descent.proximal_newton import MAX_ORDER_FOR_ONE_THREAD, conjugate
from qpsvm.solvers.interior_point.normal_equations import MAX_DENSE_ORDER, NormalEquations

Vector = NDArray[np.float64]

MIN_FEATURES_FOR_CG = 1000
"""Number of features of CSR points above which Newton systems are solved by conjugate gradients."""

MAX_CG_PRODUCTS = 300
"""Maximum number of their products."""

CG_RESIDUAL_FRACTION = 0.03
"""Fraction of the first residual at which they end."""

LINE_SEARCH_SLOPE_FRACTION = 0.1
"""Fraction of the first absolute slope at which a line search ends."""

MAX_LINE_SEARCH_STEPS = 40
"""Maximum number of evaluations in a line search."""

MAX_STEPS_BETWEEN_CHECKS = 10
"""Maximum number of Newton steps from one check to the next; each is one where steps take long."""

CHECKED_GAP_RATIO = 4.0
"""Ratio of the relative gap of v and a to the tolerance below which x is checked: its gap is less."""

MIN_RELATIVE_DECREASE = 1e-15
"""Relative decrease of P below which the method has stalled."""


@dataclass(frozen=True)
class FiniteNewton(WithTargetGap):
    """Newton's method on the primal of a linear machine with squared slacks, by exact line searches.

    Parameters
    ----------
    target : float, optional
        Relative gap near which every step is checked; the tolerance of the solve by default.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct, Orthant)
    on_columns: ClassVar[bool] = False
    check_threshold: ClassVar[float] = 0.98  # the products are recomputed
    first_check: ClassVar[int] = MAX_STEPS_BETWEEN_CHECKS

    def fits(self, problem: QP) -> bool:
        """Return whether it is such a problem with finite penalties on a Gram with a factor."""
        return super().fits(problem) and has_squared_slacks(problem)

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Return true for scipy where the matrices are small, and for numpy on CSR points."""
        X = distinct_points(problem.gram.kernel).factor()
        return min(X.shape) <= MAX_ORDER_FOR_ONE_THREAD, sp.issparse(X)

    def period(self, problem: QP) -> int:
        """Return the number of Newton steps between two checks: 1 where a step takes long."""
        X = distinct_points(problem.gram.kernel).factor()
        entries = X.size
        return int(np.clip(WORK_BETWEEN_CHECKS / max(entries, 1), 1, MAX_STEPS_BETWEEN_CHECKS))

    def default_max_iter(self, problem: QP) -> int:
        """Return a finite budget far above all observed numbers of steps."""
        return 200

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> State:
        """Return the state at v = Z'S x for x0, on the simplex at its best scale, or at v = 0."""
        gram, kernel = problem.gram, distinct_points(problem.gram.kernel)
        repeated = gram.kernel if isinstance(gram.kernel, RepeatedGram) else None
        points = Augmented.of(kernel.factor(), kernel.diag(), bias=gram.shift > 0.0)
        target = -problem.linear if isinstance(problem.domain, Orthant) else None
        state = State(points, gram.sign, gram.ridge, target, repeated)
        state.compute_margins()
        if x0 is not None:
            state.start_at(problem.domain.repair(x0))
        return state

    def advance(self, problem: QP, state: State, n_steps: int) -> Reply:
        """Make Newton steps."""
        for step in range(n_steps):
            try:
                gain = state.step()
            except np.linalg.LinAlgError:
                return Reply(step, Stop.NUMERICAL)
            if not gain > MIN_RELATIVE_DECREASE * state.value:
                return Reply(step + 1, Stop.STALLED)
            if state.gap <= CHECKED_GAP_RATIO * (self.target or 0.0) * state.value:
                return Reply(step + 1, Stop.NEWS)
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: State, product: Vector) -> None:
        """Recompute the margins."""
        state.compute_margins()


@dataclass
class Augmented:
    """The points, with a constant feature where there is a bias, and their normal equations.

    CSR points get it as a column. For dense points, which that would copy, it is treated separately.
    """

    equations: NormalEquations
    is_separate: bool  # whether the constant feature is no column

    @classmethod
    def of(cls, X: Any, squares: Vector, *, bias: bool) -> Augmented:
        """Return those of the points X; `squares` are the squared norms of the rows."""
        if bias and sp.issparse(X):
            constant = sp.csr_matrix(np.ones((X.shape[0], 1), X.dtype))  # CSR blocks join faster
            X = sp.hstack([X, constant], format="csr")
            return cls(NormalEquations(X, squares + 1.0, bias=False), False)
        return cls(NormalEquations(X, squares, bias=False), bias)

    @property
    def n(self) -> int:
        """Number of variables."""
        return self.equations.n + self.is_separate

    def times(self, v: Vector) -> Vector:
        """Return Z v."""
        return self.equations.times(v[:-1]) + v[-1] if self.is_separate else self.equations.times(v)

    def combination(self, rows: NDArray[np.int64], a: Vector) -> Vector:
        """Return Z[rows]'a."""
        total = self.equations.combination(rows, a)
        return np.append(total, np.sum(a)) if self.is_separate else total

    def solve(self, S: NDArray[np.int64], d: Vector, right: Vector) -> Vector:
        """Return (I + Z_S' diag(d) Z_S)^-1 times the right-hand side, approximately."""
        equations = self.equations
        if self.is_separate:
            moment = equations.combination(S, d)
            equations.factor_some(S, d)
            p, t = equations.direction(moment), equations.direction(right[:-1])
            complement = 1.0 + float(np.sum(d)) - float(moment @ p)
            last = (right[-1] - float(moment @ t)) / max(complement, 1.0)
            return np.append(t - last * p, last)
        if equations.n > MIN_FEATURES_FOR_CG and sp.issparse(equations.X):
            diagonal = np.ones(equations.n)
            moments(equations.rows, S, d, np.zeros(equations.n), diagonal)
            v, converged = conjugate(
                equations.rows, d, S, diagonal, right, MAX_CG_PRODUCTS, CG_RESIDUAL_FRACTION
            )
            if converged or min(len(S), equations.n) > MAX_DENSE_ORDER:
                return v
        equations.factor_some(S, d)
        return equations.direction(right)


@dataclass
class State:
    """Variables v, and the weights that follow from them."""

    points: Augmented
    sign: Vector
    D: Vector
    given: Vector | None = None  # t; 1 on the simplex, where the weights are scaled
    repeated: RepeatedGram | None = None  # where several coordinates share a point
    v: Vector = field(init=False)  # w, then b
    margins: Vector = field(init=False)  # g
    x: Vector = field(init=False)  # a / total
    total: float = 1.0  # on the simplex sum a
    slope: Vector = field(init=False)  # of P: v - Z'S a
    value: float = np.inf  # P
    n_newton: int = 0
    _product: Vector | None = None

    def __post_init__(self) -> None:
        """Start at v = 0."""
        self.v, self.slope = np.zeros((2, self.points.n))
        self.margins, self.x = np.zeros((2, len(self.sign)))

    @property
    def target(self) -> Any:
        """Margins from which on there is no slack: t."""
        return 1.0 if self.given is None else self.given

    def times(self, v: Vector) -> Vector:
        """Return S Z v, by coordinate."""
        values = self.points.times(v)
        return self.sign * (values if self.repeated is None else values[self.repeated.index])

    def merged(self, some: NDArray[np.int64], weights: Vector) -> tuple[NDArray[np.int64], Vector]:
        """Return the points of some coordinates and the sums of their weights."""
        return (some, weights) if self.repeated is None else self.repeated.merged(some, weights)

    def combination(self, some: NDArray[np.int64], a: Vector) -> Vector:
        """Return Z'S a of the weights of some coordinates, the others 0."""
        return self.points.combination(*self.merged(some, self.sign[some] * a))

    @property
    @np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging v
    def gap(self) -> float:
        """The duality gap of v and a in P: at least that of x on the simplex, relative to the value."""
        return 0.5 * float(self.slope @ self.slope)

    @property
    @np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging v
    def product(self) -> Vector:
        """G x, by a pass over the points: Z'S a equals v only at the optimum."""
        if self._product is None:
            self._product = self.margins - self.times(self.slope)
            self._product /= self.total
        return self._product

    @np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging v
    def compute_margins(self) -> None:
        """Recompute the margins of v, the weights, the value and the slope."""
        self.margins[:] = self.times(self.v)
        self._weigh()

    @np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging v
    def start_at(self, x: Vector) -> None:
        """Set x to a feasible point, and v from 0 to the best multiple of Z'S x.

        Far from the optimum Z'S x itself may have a value many orders above that of 0.
        """
        support = np.flatnonzero(x)
        d = self.combination(support, x[support])
        change = self.times(d)
        first, curvature = float(self.slope @ d), float(d @ d)
        total = curvature + float(self.D @ (x * x)) if self.given is None else 1.0
        if first < 0.0 < total:
            # 1 / total is the best multiple where x is optimal
            t = self._line(change, 0.0, curvature, first, 1.0 / total)
            self.v[:], self.margins[:] = t * d, t * change
            self._weigh()
        self.x[:], self._product = x, change

    def _weigh(self) -> None:
        """Set the weights, the value of P and its slope from the margins."""
        slack = np.maximum(self.target - self.margins, 0.0)
        a = slack / self.D
        total = float(np.sum(a)) if self.given is None else 1.0
        active = np.flatnonzero(slack)
        self.slope[:] = self.v - self.combination(active, a[active])
        self.value = 0.5 * float(self.v @ self.v) + 0.5 * float(slack @ a)
        self._product = None
        if total > 0.0:  # else no margin is below 1: the last weights are kept
            self.x[:], self.total = a / total, total

    @np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging v
    def step(self) -> float:
        """Make a Newton step; return the decrease of P."""
        active, before = np.flatnonzero(self.margins < self.target), self.value
        rows, weights = self.merged(active, 1.0 / self.D[active])
        d = self.points.solve(rows, weights, -self.slope) if len(active) else -self.slope
        first = float(self.slope @ d)
        if not np.isfinite(first):
            raise np.linalg.LinAlgError("the direction is not finite")
        if first >= 0.0:
            return 0.0
        change = self.times(d)
        t = self._line(change, float(self.v @ d), float(d @ d), first)
        self.v += t * d
        self.margins += t * change
        self.n_newton += 1
        self._weigh()
        return before - self.value

    def _line(
        self, change: Vector, slope: float, curvature: float, first: float, t: float = 1.0
    ) -> float:
        """Return a step, from t on, at which the absolute slope of P is at most a tenth of the first."""
        low, high = 0.0, np.inf
        rest = self.target - self.margins
        for _ in range(MAX_LINE_SEARCH_STEPS):
            loss_slope, loss_curvature = _loss_derivatives(rest, change, self.D, t)
            value = slope + t * curvature - loss_slope
            if abs(value) <= LINE_SEARCH_SLOPE_FRACTION * abs(first):
                break
            low, high = (low, t) if value > 0.0 else (t, high)
            t -= value / (curvature + loss_curvature)
            if not low < t < high:
                t = 0.5 * (low + high) if high < np.inf else 2.0 * low
        return t

    @property
    def counters(self) -> dict[str, int]:
        """Newton steps."""
        return {"newton": self.n_newton}


@reassociating
def _loss_derivatives(rest: Any, change: Any, D: Any, t: float) -> Any:
    """Return the sums of max(0, r - t u) u / D and, where it is positive, of u^2 / D."""
    first = second = 0.0
    for i in range(len(rest)):
        slack = rest[i] - t * change[i]
        if slack > 0.0:
            scaled = change[i] / D[i]
            first += slack * scaled
            second += change[i] * scaled
    return first, second
