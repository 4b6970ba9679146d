"""The state of dual coordinate descent: weights, w, active points, the stage of Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.box_hyperplane import balance
from qpsvm.numerics.csr_rows import Rows, combination, products
from qpsvm.solvers.coordinate_descent.sweeps import Window, sweeps, window

Vector = NDArray[np.float64]

PASSES_BEFORE_NEWTON = 8
"""Number of passes over all points, counted in visits, after which Newton steps are considered."""

TRIAL_PASSES = 4
"""The same number over squared losses, whose Newton steps cost less."""

MAX_PASSES_PER_ROUND = 24
"""Maximum number of passes in a round."""

ROUND_END_FRACTION = 0.9
"""Fraction of the tolerance below which the gap of the last sweep ends a round.

A check of all points, which costs half a sweep, then mostly passes. Each check that fails halves the
fraction."""

FIRST_PROXIMAL_FACTOR = 4.0
"""s in units of C at the first stage."""

PROXIMAL_GROWTH = 6.0
"""Factor on s from stage to stage."""

MAX_PROXIMAL_FACTOR = 1e4
"""Largest s in units of C."""


@dataclass
class Stage:
    """The iterate of the proximal Newton stages."""

    w: Vector  # variables of the smooth problem, with the bias below
    b: float
    center: Vector  # c
    factor: float = FIRST_PROXIMAL_FACTOR  # s / C
    unfinished: bool = False  # whether the stage continues

    @classmethod
    def at(cls, state: State) -> Stage:
        """Begin at w = X'Y a."""
        return cls(state.w.copy(), state.b, state.a.copy())


@dataclass
class State:
    """Weights a with w = X'Y a, and their feasible point x."""

    X: Any
    rows: Rows  # X for the compiled steps, rearranged where it is CSR
    row: NDArray[np.int64]  # number in `rows` of the point of each coordinate
    at: Any  # given indices of the coordinates
    y: Vector
    target: Vector  # t: 1 for the hinge loss
    upper: Vector  # C
    ridge: Vector  # D
    squares: Vector  # |x_i|^2
    bias: bool  # whether y'x = 0
    d: int
    x: Vector  # feasible, in the order given: a, with a bias balanced so that y'x = 0
    a: Vector
    random: NDArray[np.uint64]  # state of the generator of permutations
    order: NDArray[np.int64]  # all points, the active ones first
    n_active: int = 0
    scaled: bool = False  # whether x is a over its sum
    total: float = 1.0  # the sum, or 1
    lift: float = 0.0  # value of the additional constant feature in the sweeps
    b: float = 0.0
    n_rounds: int = 0
    gap: float = np.inf  # relative, as found during the last sweep
    predicted_gap: float = np.inf  # its prediction after that sweep
    gap_before: float = np.inf  # its value half a round earlier
    share: float = ROUND_END_FRACTION  # fraction of the tolerance at which a round ends
    closed: bool = False  # whether the gap ended the last round
    was_newton_due: bool = False  # whether a round ended since other steps were due
    n_visits: int = 0
    n_newton: int = 0
    stage: Stage | None = None
    is_current: bool = True  # whether `margins` belong to x
    gradient_range: Vector = field(default_factory=lambda: np.array([np.inf, -np.inf, np.inf]))
    unit: float = field(init=False)  # mean |t|
    is_shared: bool = field(init=False)  # whether coordinates share points
    has_ridge: bool = field(init=False)
    passes: int = field(init=False)  # of a call of the sweeps
    window: Window = field(init=False)
    w: Vector = field(init=False)
    margins: Vector = field(init=False)  # y_i x_i'w at x: G x, in the order given

    def __post_init__(self) -> None:
        """Allocate w, the margins and the window."""
        self.unit = float(np.mean(np.abs(self.target))) or 1.0
        self.is_shared = len(self.y) > self.n_points
        self.has_ridge = bool(np.any(self.ridge > 0.0))
        self.passes = TRIAL_PASSES if self.has_ridge else PASSES_BEFORE_NEWTON
        self.window = window(len(self.y), self.d)
        self.w = np.zeros(self.d)
        self.margins = np.zeros(len(self.y))
        self.is_current = not self.x.any()

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.rows.ends) - 1

    def times(self, w: Vector) -> Vector:
        """Return y_i x_i'w, by coordinate."""
        if not self.is_shared:
            return products(self.X, self.rows, self.y, w)
        return self.y * products(self.X, self.rows, np.ones(self.n_points), w)[self.row]

    def merged(self, some: NDArray[np.int64], weights: Vector) -> tuple[NDArray[np.int64], Vector]:
        """Return the points of some coordinates, ascending, and the sums of their weights."""
        if not self.is_shared:
            return some, weights
        points, at = np.unique(self.row[some], return_inverse=True)
        return points, np.bincount(at, weights=weights, minlength=len(points)).astype(np.float64)

    def sum_points(self, a: Vector, w: Vector) -> None:
        """Fill w = X'Y a."""
        if not self.is_shared:
            return combination(self.rows, self.y, a, w)
        weights = np.bincount(self.row, weights=self.y * a, minlength=self.n_points)
        return combination(self.rows, np.ones(len(weights)), weights, w)

    def sum_weights(self) -> None:
        """Set w and b from a."""
        self.sum_points(self.a, self.w)
        self.b = self.lift**2 * float(self.y @ self.a)

    def rescale(self) -> None:
        """Scale a to the multiple of x of least value, t'a = 1/2 a'(G + D)a."""
        square = float(self.w @ self.w) + float(self.ridge @ (self.a * self.a))
        square += (self.b / self.lift) ** 2 if self.lift else 0.0
        self.total = 1.0 / square
        self.a *= self.total
        self.sum_weights()

    @property
    def product(self) -> Vector:
        """G x."""
        if not self.is_current:
            w = self.w
            if self.bias:
                w = np.empty(self.d)
                self.sum_points(self.x[self.at], w)
            margins = self.times(w)
            if self.has_ridge:
                margins = (margins + self.b * self.y) / self.total
            self.margins[self.at] = margins
            self.is_current = True
        return self.margins

    def set_product(self, product: Vector) -> None:
        """Set G x."""
        self.margins[:] = product
        self.is_current = True

    def restart(self) -> None:
        """Make every point active again."""
        self.n_active = len(self.y)
        self.gradient_range[:] = np.inf, -np.inf, np.inf
        if self.stage is not None:
            self.stage = replace(Stage.at(self), factor=self.stage.factor, b=self.stage.b)

    def sweep(self, shrinking: bool, target: float) -> bool:
        """Sweep over the active points, with as many visits as in `passes` over all points."""
        m = len(self.y)
        goal = 0.0 if self.bias else self.share * target
        self.n_active, self.b, visits, largest, self.gap_before, self.gap, self.predicted_gap = sweeps(
            self.rows, self.row, self.y, self.target, self.upper, self.ridge, self.squares,
            self.order, self.n_active, self.random, shrinking, self.passes * m, goal,
            self.lift, self.b, self.gradient_range, self.a, self.w, self.window,
        )  # fmt: skip
        self.n_visits += visits
        self.closed = not self.bias and self.predicted_gap <= goal
        self.share *= 0.5 if self.closed else 1.0
        return bool(largest > 0.0)

    def report(self) -> None:
        """Set x from a: with a bias the class of larger sum is scaled down so that y'x = 0."""
        if self.scaled:
            self.total = float(np.sum(self.a)) or 1.0
        self.x[self.at] = self.a / self.total if self.scaled else self.a
        if self.bias:
            positive = np.empty(len(self.y), bool)
            positive[self.at] = self.y > 0
            balance(self.x, (positive, ~positive))

    @property
    def counters(self) -> dict[str, int]:
        """Visits of coordinates, and Newton steps."""
        return {"visits": self.n_visits, "newton": self.n_newton}
