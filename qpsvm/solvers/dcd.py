"""Dual coordinate descent for the linear hinge SVM, with proximal Newton steps at the end.

Problem: minimize 1/2 |X'Y a|^2 - sum a over 0 <= a <= C, where w = X'Y a is kept up to date:

    a_i <- clip(a_i - (y_i x_i'w - 1) / |x_i|^2, 0, C_i)

costs one row. A sweep visits the points in a random order; a point whose gradient says that it will
stay at its bound is left out of the next sweeps (shrinking) and comes back before the end.

Source: Hsieh, Chang, Lin, Keerthi and Sundararajan, "A dual coordinate descent method for large-scale
linear SVM", ICML 2008, Algorithms 1 and 3.

Sweeps are quick to a rough answer; then, the more so the larger C is, they creep. From there on
`proximal` goes: Newton steps on the points between the bounds, whose number grows slowly with C. They
also carry a free bias, which single coordinates cannot move: y'a = 0 ties them. With one, the sweeps
work on points that have one feature more, a constant, and leave its weight to the Newton steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane, Domain, PenaltyBox
from qpsvm.domains.box_hyperplane import balance
from qpsvm.errors import check_choice
from qpsvm.forms import QP
from qpsvm.solvers import proximal
from qpsvm.solvers.base import HingeOnFactor, Reply, Stop
from qpsvm.solvers.rows import Rows, add, combination, dot, in_order, products, rows_of

Vector = NDArray[np.float64]

RUN = 16
"""A sweep takes this many neighbours in a row, which are read at the memory's speed, and the runs in a
random order: it converged no worse than with single points in a random order."""

TIGHTER = 0.2
"""Factor on the spread of the projected gradient from round to round."""

LONGEST = 4
"""Most visits of one round, in passes over all points."""

FIRST_PASSES = 8
"""Passes before Newton steps are weighed."""

AFFORDABLE = 12.0
"""Newton steps are made where one costs less than this many passes over the points."""

SMALL_MATRIX = 600
"""Order of a matrix up to which a second thread is not worth waking for its factors."""


@dataclass(frozen=True)
class DualCoordinateDescent(HingeOnFactor):
    """Coordinate descent on the dual, then proximal Newton steps.

    Parameters
    ----------
    shrinking : bool
        Whether points that stay at their bounds are left out of the sweeps.
    newton : bool, optional
        Whether Newton steps follow the sweeps; by default where they are cheap beside them, and
        always with a free bias.
    """

    shrinking: bool = True
    newton: bool | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (PenaltyBox, BoxHyperplane)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("shrinking", self.shrinking, (True, False))
        check_choice("newton", self.newton, (True, False, None))

    def period(self, problem: QP) -> int:
        """Look after every round: each is worth several passes over the points."""
        return 1

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Say so where the matrices of the Newton steps are small, and for CSR points."""
        X = problem.gram.kernel.factor()
        return X.shape[1] <= SMALL_MATRIX, sp.issparse(X)

    def default_max_iter(self, problem: QP) -> int:
        """Return a finite budget."""
        return 2000

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> State:
        """Return the state at x0 or at a = 0."""
        domain = problem.domain
        assert isinstance(domain, PenaltyBox | BoxHyperplane)
        X = problem.gram.kernel.factor()
        bias = isinstance(domain, BoxHyperplane)
        squares = problem.gram.diag()
        x = np.zeros(problem.m) if x0 is None else domain.repair(x0)
        state = State(
            X, rows_of(X), problem.gram.sign, domain.upper, squares, bias, X.shape[1], x, x.copy(),
            np.array([rng.integers(1, 2**62)], np.uint64), np.arange(problem.m),
        )  # fmt: skip
        combination(state.rows, state.y, state.a, state.w)
        state.lift = float(np.sqrt(np.mean(squares))) if bias else 0.0
        state.b = state.lift**2 * float(state.y @ x)
        state.n_active = problem.m
        return state

    def advance(self, problem: QP, state: State, n_steps: int) -> Reply:
        """Make rounds of sweeps, or stages of Newton steps."""
        for step in range(n_steps):
            state.fresh = False
            if state.stage is None and self._turns(state):
                state.stage = proximal.Stage.at(state)
            if state.stage is None:
                moved = state.sweep(2 if state.n_rounds == 0 else LONGEST, self.shrinking)
                state.report()
                if (
                    not moved and state.bias
                ):  # what the sweeps cannot see is left to Newton's method
                    state.stage, moved = proximal.Stage.at(state), True
            else:
                moved = proximal.advance(state, state.stage)
            state.n_rounds += 1
            if not np.isfinite(state.w).all():
                return Reply(step, Stop.NUMERICAL)
            if not moved:
                return Reply(step + 1, Stop.STALLED)
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: State, product: Vector) -> None:
        """Start from the feasible point and its product."""
        state.a[:] = state.x
        combination(state.rows, state.y, state.a, state.w)
        state.set_product(product)
        state.restart()

    def _turns(self, state: State) -> bool:
        """Return whether to go on by Newton steps."""
        if state.n_visits < FIRST_PASSES * len(state.y):
            return False
        if state.bias or self.newton is not None:
            return state.bias or bool(self.newton)
        return proximal.cost(state) < AFFORDABLE * state.rows.entries


@dataclass
class State:
    """Weights a with w = X'Y a, and the feasible point x that they stand for."""

    X: Any
    rows: Rows  # X for the compiled steps
    y: Vector
    upper: Vector  # C
    squares: Vector  # |x_i|^2
    bias: bool  # whether y'x = 0
    d: int
    x: Vector  # feasible: a, with a bias balanced so that y'x = 0
    a: Vector
    random: NDArray[np.uint64]  # state of the generator of permutations
    order: NDArray[np.int64]  # all points, the active ones first
    n_active: int = 0
    lift: float = 0.0  # value of the additional constant feature in the sweeps
    b: float = 0.0
    n_rounds: int = 0
    n_visits: int = 0
    n_newton: int = 0
    stage: proximal.Stage | None = None
    fresh: bool = True  # `margins` belong to x
    span: Vector = field(default_factory=lambda: np.array([np.inf, -np.inf, np.inf]))
    w: Vector = field(init=False)
    margins: Vector = field(init=False)  # y_i x_i'w at x: G x

    def __post_init__(self) -> None:
        """Allocate w and the margins."""
        self.w = np.zeros(self.d)
        self.margins = np.zeros(len(self.y))
        self.fresh = not self.x.any()

    @property
    def product(self) -> Vector:
        """G x."""
        if not self.fresh:
            w = self.w
            if self.bias:
                w = np.empty(self.d)
                combination(self.rows, self.y, self.x, w)
            self.margins = products(self.X, self.rows, self.y, w)
            self.fresh = True
        return self.margins

    def set_product(self, product: Vector) -> None:
        """Take over G x."""
        self.margins[:] = product
        self.fresh = True

    def restart(self) -> None:
        """Make every point active again."""
        self.n_active = len(self.y)
        self.span[:] = np.inf, -np.inf, np.inf
        if self.stage is not None:
            self.stage = replace(proximal.Stage.at(self), factor=self.stage.factor, b=self.stage.b)

    def sweep(self, n_passes: int, shrinking: bool) -> bool:
        """Sweep over the active points, with as many visits as `n_passes` passes over all have."""
        m = len(self.y)
        block = int(np.clip(m // 64, 1, RUN))
        self.n_active, self.b, visits, largest = sweeps(
            self.rows, self.y, self.upper, self.squares, self.order, self.n_active, block,
            self.random, shrinking, n_passes * m, self.lift, self.b, self.span, self.a, self.w,
        )  # fmt: skip
        self.n_visits += visits
        return bool(largest > 0.0)

    def report(self) -> None:
        """Set x from a: with a bias the heavier class is shrunk so that y'x = 0."""
        self.x[:] = self.a
        if self.bias:
            positive = self.y > 0
            balance(self.x, (positive, ~positive))

    @property
    def counters(self) -> dict[str, int]:
        """Visits of coordinates and Newton steps."""
        return {"visits": self.n_visits, "newton": self.n_newton}


@in_order
def _shuffle(order: Any, random: Any) -> None:
    """Permute in place (Fisher and Yates) by a xorshift generator."""
    s = random[0]
    for k in range(len(order) - 1, 0, -1):
        s ^= s << np.uint64(13)
        s ^= s >> np.uint64(7)
        s ^= s << np.uint64(17)
        j = np.int64(((s >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32))
        order[k], order[j] = order[j], order[k]
    random[0] = s


@in_order
def sweeps(
    rows: Rows,
    y: Any,
    upper: Any,
    squares: Any,
    order: Any,
    n_active: int,
    block: int,
    random: Any,
    shrinking: bool,
    visits: int,
    lift: float,
    b: float,
    span: Any,
    a: Any,
    w: Any,
) -> Any:
    """Sweep until the active points are solved to the spread asked for, or `visits` are made.

    Returns the number of active points, the bias, the visits made, and 0 where nothing moves. `span`
    holds the largest and least projected gradient of the last sweep, which decide who leaves, and the
    spread at which all points come back.
    """
    data, columns, ends = rows
    m, done, largest = len(a), 0, 0.0
    while done < visits:
        whole = n_active == m
        highest, lowest = -np.inf, np.inf
        leave_high = span[0] if span[0] > 0.0 else np.inf
        leave_low = span[1] if span[1] < 0.0 else -np.inf
        largest, kept = 0.0, 0
        blocks = np.arange((n_active + block - 1) // block)
        _shuffle(blocks, random)
        out = np.empty(n_active, np.int64)  # who leaves
        n_out = 0
        for at in blocks:  # runs of neighbours
            for k in range(int(at) * block, min(int(at) * block + block, n_active)):
                i = order[k]
                g = y[i] * (dot(data, columns, ends[i], ends[i + 1], w) + b) - 1.0
                curvature = squares[i] + lift * lift
                if a[i] <= 0.0:
                    if shrinking and g > leave_high:
                        order[k] = -1 - i
                        n_out += 1
                        continue
                    g = min(g, 0.0)
                elif a[i] >= upper[i]:
                    if shrinking and g < leave_low:
                        order[k] = -1 - i
                        n_out += 1
                        continue
                    g = max(g, 0.0)
                highest, lowest = max(highest, g), min(lowest, g)
                if abs(g) > 1e-13:
                    new = (
                        min(max(a[i] - g / curvature, 0.0), upper[i])
                        if curvature > 0.0
                        else (upper[i] if g < 0.0 else 0.0)
                    )
                    t = (new - a[i]) * y[i]
                    if t != 0.0:
                        largest = max(largest, abs(g))
                        a[i] = new
                        add(data, columns, ends[i], ends[i + 1], t, w)
                        b += t * lift * lift
        done += n_active
        if n_out:
            kept = n_out = 0
            for k in range(n_active):
                if order[k] < 0:
                    out[n_out] = -1 - order[k]
                    n_out += 1
                else:
                    order[kept] = order[k]
                    kept += 1
            order[kept:n_active] = out[:n_out]
            n_active = kept
        span[0], span[1] = highest, lowest
        if not np.isfinite(span[2]):
            span[2] = TIGHTER * (highest - lowest)
        elif n_active == 0 or highest - lowest <= span[2]:
            if whole and largest == 0.0:
                return m, b, done, 0.0
            span[2] *= TIGHTER
            n_active = m  # look at all again
            order[:] = np.arange(m)
            if 2 * done >= visits:
                break
    return n_active, b, done, 1.0
