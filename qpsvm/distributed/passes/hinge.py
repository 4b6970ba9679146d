r"""Linear hinge machines in passes over rows: Newton steps on a smoothed hinge, with a certified gap.

Problem: minimize P(w, b) = 1/2 w'w + sum C_i max(0, q_i), q_i = 1 - y_i (w'z_i + b). With

    F_mu(w, b) = 1/2 w'w + sum C_i (u_i q_i - mu u_i^2 / 2),    u_i = clip(q_i / mu, 0, 1),

(the smoothed hinge of `qpsvm.solvers.smoothing` with one width), a pass over the rows gives P, F_mu, its
gradient and its Hessian, d + 1 rows and columns. The same pass gives a dual point: a_i = C_i u_i,
multiplied by min(1, s_-/s_+) in the class +1 and by min(1, s_+/s_-) in the class -1 where there is a
bias, s the sums of both classes, so that y'a = 0. Its value needs the sums of a_i and a_i z_i alone.
So the gap of each iterate is certified by its own pass, and no row has a state.

A Newton step is exact once no row changes its piece. Where it does not decrease F_mu, one more pass
evaluates F_mu at shorter steps, and the best of them is taken. At the optimum of F_mu the gap is
sum C_i q_i (1 - u_i) over 0 < q_i < mu, about in proportion to mu^2: mu is reduced where that is most of
the gap. The first (w, b) is the machine of a sample, whose margins are off by about the first mu.

Sources: Chapelle, "Training a support vector machine in the primal" (2007), for Newton steps; Zhou, Tao
and Wu (2010), (5) and (6), for the smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Bounds, Form, enclose
from qpsvm.clock import Clock
from qpsvm.distributed.passes.form import PassForm
from qpsvm.distributed.passes.part import solve_part
from qpsvm.distributed.passes.shard import HingeSums, added
from qpsvm.domains import Domain
from qpsvm.formulations import HingePrimal
from qpsvm.gram.translation import level_at
from qpsvm.solvers.base import Reply, Solver, Stop

Vector = NDArray[np.float64]

SAMPLE_ROWS = 50_000
"""Number of rows of the sample that is solved first."""

SAMPLE_TOLERANCE = 1e-4
"""Relative gap of the machine of the sample."""

SMOOTHING_SHARE = 0.25
"""Fraction of the tolerance that the smoothing may take at the sample, and at a new mu."""

SAMPLE_ERROR_WIDTHS = 2.0
"""Width of the smoothing in units of sqrt((d + 1) / rows of the sample), the error of its margins."""

SMOOTHING_SHARE_OF_GAP = 0.5
"""Fraction of the gap above which the error of the smoothing is what is left."""

MAX_WIDTH_REDUCTION = 4.0
"""Maximum factor by which mu is reduced at a time: few rows are between 0 and mu afterwards."""

SUFFICIENT_DECREASE = 1e-4
"""Fraction of the predicted decrease of F_mu that a step must make."""

STEP_LENGTHS = 0.5 ** np.arange(1, 41)
"""Lengths of the shorter steps."""

VALUE_ROUNDINGS = 64.0
"""Change of F_mu, in units of its last digit, that rounding may make: few of its roundings add up."""

MIN_WIDTH = 1e-13
"""Width of the smoothing below which it is within the rounding of margins."""

SUM_DEPTH = 1e5
"""Bound on the number of roundings of a sum over rows: those of a block, of a chunk and of all."""


class Position(NamedTuple):
    """The variable of the form: a hyperplane on the moved rows, and the width of the smoothing."""

    w: Vector
    b: float
    mu: float


@dataclass(frozen=True, eq=False, kw_only=True)
class HingePasses(PassForm):
    """The hinge machine of rows in shards; its variable is (w, b, mu), shape (d + 2,).

    Attributes
    ----------
    total_penalty : float
        Sum of all C_i.
    bias : bool
        Whether there is a b.
    declares_dual : bool
        Whether the declared problem is the dual: it minimizes the negative of the dual value.
    """

    total_penalty: float
    bias: bool
    declares_dual: bool

    def split(self, x: Vector) -> Position:
        """Return (w, b, mu)."""
        return Position(x[: self.n], float(x[self.n]), float(x[self.n + 1]))

    def sums(self, x: Vector) -> HingeSums:
        """Return the sums at x, by a pass."""
        return added(self.shards.call("hinge", *self.split(x)))

    def repair(self, x: Vector) -> Vector:
        """Return x with a positive mu, and with b = 0 where there is no bias."""
        x = x.copy()
        x[self.n] *= self.bias
        x[self.n + 1] = max(x[self.n + 1], MIN_WIDTH)
        return x

    def dual(self, sums: HingeSums) -> tuple[Vector, Vector]:
        """Return the scales of both classes, (2,), and v = sum y_i a_i z_i of the scaled weights."""
        scales, weight = np.ones(2), sums.weight
        if self.bias:
            least = float(np.min(weight))
            scales = np.divide(least, weight, out=np.zeros(2), where=weight > least)
            scales[weight == least] = 1.0
        v = scales[0] * sums.moment[0] - scales[1] * sums.moment[1]
        square, total = float(v @ v), float(scales @ weight)
        best = min(1.0, total / square) if square > 0.0 else 1.0  # C bounds the weights
        return best * scales, best * v

    @np.errstate(invalid="ignore", over="ignore")
    def bounds(self, x: Vector, product: HingeSums) -> Bounds:
        """Return the bounds of the declared value: P at (w, b), and the value of the scaled weights."""
        w, b, _ = self.split(x)
        scales, v = self.dual(product)
        primal = 0.5 * float(w @ w) + product.hinge
        lower = float(scales @ product.weight) - 0.5 * float(v @ v)
        roundoff = self.roundoff(x, product, primal)
        value = -lower if self.declares_dual else primal
        least = -np.inf if self.declares_dual else 0.0
        return enclose(value, primal - lower, roundoff, least, np.array([b]), floor=roundoff)

    def roundoff(self, x: Vector, product: HingeSums, value: float) -> float:
        """Return a bound on the rounding error of the gap.

        A margin is a sum of d + 1 terms, a sum over rows has at most `SUM_DEPTH` roundings in a row. The
        weights are those that were computed; a bias that is rounded to the user's origin moves margins.
        """
        w, b, _ = self.split(x)
        longest, size = float(np.sqrt(product.largest)), float(np.linalg.norm(w))
        moved = 0.0 if self.origin is None else size * float(np.linalg.norm(self.origin))
        margins = self.total_penalty * ((self.n + 4.0) * (size * longest + abs(b) + 1.0) + moved)
        total = float(np.sum(product.weight))
        _, v = self.dual(product)
        length = float(np.linalg.norm(v))
        sums = value + total * (1.0 + (length + size) * longest + abs(b))
        return FLOAT64_EPS * (2.0 * margins + SUM_DEPTH * sums)

    def violation(self, x: Vector) -> float:
        """Return |y'a| of the scaled weights."""
        sums = self.product(x)
        scales, _ = self.dual(sums)
        return abs(float(scales[0] * sums.weight[0] - scales[1] * sums.weight[1])) * self.bias

    def n_support(self, x: Vector) -> int:
        """Return the number of rows with a weight."""
        return self.product(x).n_support


@dataclass
class PassState:
    """The point, its sums, and the step that is being tried."""

    x: Vector
    product: HingeSums
    direction: Vector | None = None  # of (w, b)
    slope: float = 0.0  # of F_mu along the direction
    n_widths: int = 1

    @property
    def counters(self) -> dict[str, int]:
        """Number of widths of the smoothing."""
        return {"stage": self.n_widths}


@dataclass(frozen=True)
class NewtonPasses(Solver):
    """Newton steps on the smoothed hinge; an iteration is a pass over the rows.

    Attributes
    ----------
    target : float
        Relative gap; `solve` sets it to its `tol`.
    """

    target: float = 1e-3

    form: ClassVar[type[Form]] = HingePasses
    domains: ClassVar[tuple[type[Domain], ...]] = ()
    on_columns: ClassVar[bool] = False
    check_threshold: ClassVar[float] = 1.0  # nothing is maintained: the bounds are exact

    def period(self, problem: HingePasses) -> int:
        """Return 1: every pass gives bounds."""
        return 1

    def default_max_iter(self, problem: HingePasses) -> int:
        """Return 200 passes."""
        return 200

    def init(self, problem: HingePasses, x0: Vector | None, rng: Any) -> PassState:
        """Return the state at x0."""
        assert x0 is not None
        x = problem.repair(x0)
        return PassState(x, problem.product(x))

    def refresh(self, problem: HingePasses, state: PassState, product: HingeSums) -> None:
        """Continue from the sums of the point."""
        state.product, state.direction = product, None

    def advance(self, problem: HingePasses, state: PassState, n_steps: int) -> Reply:
        """Make one pass: at a Newton step, with a smaller width or not, or at shorter steps."""
        mu, before = float(state.x[-1]), smoothed(problem, state.x, state.product)
        noise = VALUE_ROUNDINGS * FLOAT64_EPS * abs(before)
        if state.direction is not None:  # the whole step failed
            values = before + self._changes(problem, state)
            best = int(np.argmin(values))
            if not values[best] < before - noise:
                return Reply(1, Stop.STALLED)
            self._move(problem, state, STEP_LENGTHS[best], mu)
            return Reply(2, Stop.BUDGET)
        direction, slope = newton_step(problem, state)
        if not np.isfinite(slope):
            return Reply(0, Stop.NUMERICAL)
        width = self._next_width(problem, state, is_solved=-slope <= noise)
        if slope == 0.0 and width == mu:
            return Reply(0, Stop.STALLED)
        earlier = state.x.copy(), state.product
        state.direction, state.slope = direction, slope
        self._move(problem, state, 1.0, width)
        decrease = before - smoothed(problem, state.x, state.product)
        if width < mu:
            state.n_widths += 1
        elif decrease < -SUFFICIENT_DECREASE * slope - noise:
            state.x[:], state.product = earlier
            state.direction, state.slope = direction, slope
        return Reply(1, Stop.BUDGET)

    @staticmethod
    def _move(problem: HingePasses, state: PassState, length: float, width: float) -> None:
        """Move along the direction, and make the pass there."""
        assert state.direction is not None
        state.x[:-1] += length * state.direction
        state.x[-1] = width
        state.product, state.direction = problem.product(state.x), None

    @staticmethod
    def _changes(problem: HingePasses, state: PassState) -> Vector:
        """Return the changes of F_mu at the shorter steps, by a pass."""
        assert state.direction is not None
        w, b, mu = problem.split(state.x)
        dw, db = state.direction[:-1], float(state.direction[-1])
        sums = problem.shards.call("along", w, b, mu, dw, db, STEP_LENGTHS)
        losses = np.sum(sums, axis=0) - state.product.smooth
        t = STEP_LENGTHS
        return t * float(w @ dw) + 0.5 * t * t * float(dw @ dw) + losses

    def _next_width(self, problem: HingePasses, state: PassState, is_solved: bool) -> float:
        """Return a smaller mu where the smoothing makes up most of the gap, or all that steps reach."""
        mu = float(state.x[-1])
        found = problem.bounds(state.x, state.product)
        error = smoothing_error(problem, state.x, state.product)
        goal = SMOOTHING_SHARE * self.target * max(abs(found.upper), abs(found.lower))
        if error <= goal or (error <= SMOOTHING_SHARE_OF_GAP * found.gap and not is_solved):
            return mu
        reduction = np.sqrt(error / max(goal, np.finfo(float).tiny))
        return max(mu / float(np.clip(reduction, 1.0, MAX_WIDTH_REDUCTION)), MIN_WIDTH)


def smoothed(problem: HingePasses, x: Vector, sums: HingeSums) -> float:
    """Return F_mu."""
    w = problem.split(x).w
    return 0.5 * float(w @ w) + sums.smooth


def smoothing_error(problem: HingePasses, x: Vector, sums: HingeSums) -> float:
    """Return sum C_i q_i (1 - u_i) where 0 < q_i < mu: the gap at the optimum of F_mu."""
    w, b, _ = problem.split(x)
    of_values = float(w @ (sums.moment[0] - sums.moment[1])) + b * float(sums.weight @ [1.0, -1.0])
    return sums.hinge - (float(np.sum(sums.weight)) - of_values)  # less sum C_i u_i q_i


def newton_step(problem: HingePasses, state: PassState) -> tuple[Vector, float]:
    """Return the direction of (w, b), and the slope of F_mu along it."""
    sums, n = state.product, problem.n
    gradient = np.zeros(n + 1)
    gradient[:n] = problem.split(state.x).w - (sums.moment[0] - sums.moment[1])
    gradient[n] = sums.weight[1] - sums.weight[0]
    H = sums.hessian.copy()
    H[np.arange(n), np.arange(n)] += 1.0
    if H[n, n] == 0.0:  # no row is between, and b has no curvature: that of one row is taken
        H[n, n] = problem.total_penalty / (problem.m * state.x[-1])
    if not np.isfinite(H).all():
        return gradient, np.nan
    size = n + problem.bias
    direction = np.zeros(n + 1)
    direction[:size] = scipy.linalg.solve(H[:size, :size], -gradient[:size], assume_a="pos")
    return direction, float(gradient[:size] @ direction[:size])


def first_width(q: Vector, C: Vector, goal: float, least: float) -> float:
    """Return the largest mu, at least `least`, at which sum C_i q_i (1 - u_i) is at most `goal`."""
    low, high = least, max(2.0 * least, float(np.max(q, initial=0.0)))
    for _ in range(60):
        mu = np.sqrt(low * high)
        inside = (q > 0.0) & (q < mu)
        gap = float(C[inside] @ (q[inside] * (1.0 - q[inside] / mu)))
        low, high = (mu, high) if gap <= goal else (low, mu)
    return low


def sample_start(
    problem: HingePasses, X: Any, y: Vector, C: Vector, tol: float, clock: Clock
) -> Vector:
    """Return (w, b, mu) from the machine of a sample; C are its penalties, which sum to all.

    X holds rows that are not moved. With one class alone w = 0 and b is its label.
    """
    x = np.zeros(problem.n + 2)
    x[-1] = 1.0
    if np.all(y == y[0]) and problem.bias:
        x[problem.n] = y[0]
        return x
    model = solve_part(HingePrimal(X, y, C, bias=problem.bias), SAMPLE_TOLERANCE, clock).model
    assert model.w is not None
    error = SAMPLE_ERROR_WIDTHS * np.sqrt((problem.n + 1.0) / len(y))
    return restart(problem, model.w, model.b, X, y, C, tol, error)


def restart(
    problem: HingePasses,
    w: Vector,
    b: float,
    X: Any,
    y: Vector,
    C: Vector,
    tol: float,
    error: float = MIN_WIDTH,
) -> Vector:
    """Return (w, b, mu) for a hyperplane in the user's coordinates.

    The width is the largest at which the smoothing takes a part of the tolerance at a sample, and at
    least the `error` of its margins.
    """
    q = 1.0 - y * (np.asarray(X @ w) + b)
    value = 0.5 * float(w @ w) + float(C @ np.maximum(q, 0.0))
    mu = first_width(q, C, SMOOTHING_SHARE * tol * value, error)
    return np.concatenate([w, [level_at(w, b, problem.origin), mu]])
