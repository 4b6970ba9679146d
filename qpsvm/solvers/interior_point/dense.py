"""Primal-dual interior point method with the matrix of all points: any box with sums.

Problem: minimize 1/2 x'(G + D)x + c'x subject to 0 <= x <= upper and Ax = b, where A has a row for each
sum: the signs of a bias, or the members of a simplex. With multipliers y of the sums, z of the lower and
w of the upper bounds, and the slack t = upper - x, the optimality conditions are

    (G + D)x + c - A'y - z + w = 0,   Ax = b,   x + t = upper,   x z = t w = 0,   x, t, z, w >= 0

Mehrotra's predictor-corrector method solves them to full precision in 10 to 40 iterations, also where
the optimum is nearly singular and pair steps converge slowly. An iteration factors the m x m matrix
G + D + diag(z / x + w / t), which the diagonal scales to ones; the multipliers y follow from the
matrix A (.)^-1 A' of their number.

A point inside the box has no zeros. What is certified is that point with the coordinates at their bounds
that are nearer to them, relative to the largest, than their multipliers are to zero.

Sources: Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on
Optimization 2 (1992), 575-601; Gertz and Wright, "Object-oriented software for quadratic programming",
ACM Transactions on Mathematical Software 29 (2003), 58-81.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import (
    BoxHyperplane,
    CappedSimplex,
    Domain,
    Orthant,
    PenaltyBox,
    SimplexProduct,
)
from qpsvm.domains.base import BoxWithSums
from qpsvm.gram.factor import MAX_POINTS_FOR_KERNEL_FACTOR
from qpsvm.solvers.base import Reply, Solver, Stop

Vector = NDArray[np.float64]

TO_BOUNDARY = 0.995
"""Least fraction of the step to the boundary; it tends to 1 as the gap closes."""

COMPLEMENTARITY_FLOOR = 1e-32
"""Least sum of the products of variables and multipliers that is aimed at: below it only rounding errors
of the other conditions are left to correct."""

SHORTEST_STEP = 1e-14
"""Step length below which rounding prevents further steps."""

MIN_BOUND_RATIO = 1e-4
"""Ratio of the distance from a bound to its multiplier below which a coordinate is moved to the bound,
where the complementarity is 1. It grows as the fourth root of the complementarity falls: a coordinate
whose multiplier is zero is moved below a threshold that tends to 0, and one whose distance and
multiplier are both zero, and near the square root of the complementarity, is moved in the end."""

PIVOT_ROUNDING = 4.0
"""Addition to the diagonal, in roundings of its largest entry, for matrices of low rank."""

MAX_PIVOT_ADDITIONS = 5
"""Number of times that the addition is enlarged a hundredfold where a matrix has no Cholesky factor."""

MAX_FIRST_PRODUCT = 1e6
"""Maximum product of a slack and its multiplier at the start: upper bounds may be very large."""

WARM_START_SHARE = 0.9
"""Share of the way from the starting point to a given one, which is at the boundary."""

MAX_ORDER_FOR_ONE_THREAD = 1000
"""Order of the matrix up to which one thread is faster than several."""


@dataclass(frozen=True)
class DenseInteriorPoint(Solver):
    """Mehrotra's predictor-corrector on the matrix of all points."""

    domains: ClassVar[tuple[type[Domain], ...]] = (
        BoxHyperplane,
        PenaltyBox,
        SimplexProduct,
        CappedSimplex,
        Orthant,
    )

    def fits(self, problem: QP) -> bool:
        """Return whether the minimum is in a box and the points are few enough for their matrix."""
        few = problem.m <= MAX_POINTS_FOR_KERNEL_FACTOR
        return few and super().fits(problem) and getattr(problem.domain, "bounded", True)

    def period(self, problem: QP) -> int:
        """Check every iteration: they are few."""
        return 1

    def work(self, problem: QP) -> int:
        """Return the operations of a Cholesky factor."""
        return problem.m**3 // 3 + 1

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Use one thread for matrices of small order."""
        small = problem.m <= MAX_ORDER_FOR_ONE_THREAD
        return small, small

    def default_max_iter(self, problem: QP) -> int:
        """Return several times what a problem takes."""
        return 200

    @np.errstate(all="ignore")  # as in `advance`
    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> InteriorState:
        """Return the state at a point inside, or nine tenths of the way from it to x0."""
        state = InteriorState(problem)
        if x0 is not None:
            state.approach(x0)
        state.update_point(problem)
        return state

    def advance(self, problem: QP, state: InteriorState, n_steps: int) -> Reply:
        """Make iterations: each a factor, a predictor and a corrector."""
        with np.errstate(all="ignore"):  # non-finite numbers are detected and reported
            for step in range(n_steps):
                try:
                    moved = state.move()
                except np.linalg.LinAlgError:  # the last iterate is as near as rounding permits
                    moved = False
                if not moved:
                    return Reply(step, Stop.STALLED)
                state.update_point(problem)
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: InteriorState, product: Vector) -> None:
        """Set G x; the iterate does not depend on it."""
        state.product[:] = product


class InteriorState:
    """The iterate in units in which value and weights are near 1, and the point that it gives."""

    def __init__(self, problem: QP) -> None:
        ridge, linear = problem.gram.ridge, problem.linear
        box = _box_of(problem.domain, linear, ridge)
        largest = max(float(np.max(problem.gram.diag() + ridge)), np.finfo(float).tiny)
        size = float(np.max(np.abs(linear)))
        # The unit of the weights: their sum, or the lesser of a bound and a minimizer without one.
        fixed = float(np.max(box.sums, initial=0.0))
        free = min(float(np.max(box.upper)), size / largest if size else np.inf)
        self.unit = fixed or free
        self.slope_unit = max(self.unit * largest, size)
        matrix = problem.gram.matrix()
        self.matrix = 0.5 * (matrix + matrix.T)
        self.matrix *= self.unit / self.slope_unit
        self.ridge = ridge * (self.unit / self.slope_unit)
        self.linear = linear / self.slope_unit
        self.rows, self.sums = box.rows, box.sums / self.unit
        self.upper = box.upper / self.unit
        share = 2.0 * self.sums.max() / problem.m if fixed else 1.0
        self.inside = np.minimum(0.5 * self.upper, share)
        self.slack = self.upper - self.inside
        self.multipliers = np.zeros(len(self.sums))
        self.lower_multipliers = np.ones(problem.m)
        self.upper_multipliers = np.minimum(1.0, MAX_FIRST_PRODUCT / self.slack)
        self.n_factors, self.residual = 0, np.inf
        self.x = np.zeros(problem.m)
        self.product = np.zeros(problem.m)

    @property
    def counters(self) -> dict[str, int]:
        """Number of factors, and the bytes of the matrix and its factor."""
        return {"factors": self.n_factors, "matrix_bytes": 2 * self.matrix.nbytes}

    @property
    def complementarity(self) -> float:
        """Sum of the products of variables and multipliers: the gap of a feasible iterate."""
        return float(self.inside @ self.lower_multipliers + self.slack @ self.upper_multipliers)

    def approach(self, x0: Vector) -> None:
        """Move the iterate most of the way to a given point."""
        near = np.clip(x0 / self.unit, 0.0, self.upper)
        self.inside += WARM_START_SHARE * (near - self.inside)
        self.slack = self.upper - self.inside

    def update_point(self, problem: QP) -> None:
        """Set x from the iterate, with coordinates at their bounds, and G x."""
        inside, slack = self.inside, self.slack
        nearness = max(1.0 / max(self.complementarity, np.finfo(float).tiny), 1.0)
        ratio = MIN_BOUND_RATIO * nearness**0.25
        at_zero = _is_less(inside, self.lower_multipliers, ratio)
        at_upper = _is_less(slack, self.upper_multipliers, ratio) & ~at_zero
        rounded = np.where(at_upper, self.upper, np.where(at_zero, 0.0, inside))
        if np.any((self.rows @ rounded < 0.5 * self.sums) & (self.sums > 0.0)):  # too early to tell
            rounded = inside
        if np.isfinite(rounded).all():
            self.x[:] = problem.domain.repair(self.unit * rounded)
            self.product[:] = self.slope_unit * (self.matrix @ (self.x / self.unit))
        else:
            self.x[:] = self.product[:] = np.nan

    def move(self) -> bool:
        """Take a step; return False where none is possible."""
        x, t, z, w = self.inside, self.slack, self.lower_multipliers, self.upper_multipliers
        slope = self.matrix @ x + self.ridge * x + self.linear
        stationarity = slope - self.rows.T @ self.multipliers - z + w
        off_sums, off_upper = self.sums - self.rows @ x, self.upper - x - t
        n_pairs, before = 2 * len(x), self.residual
        mu, self.residual = self.complementarity / n_pairs, float(np.max(np.abs(stationarity)))
        if self.complementarity <= 2.0 * COMPLEMENTARITY_FLOOR and self.residual >= 0.5 * before:
            return False
        solve = self._factored(z / x + w / t)
        columns = solve(self.rows.T)
        condensed = self.rows @ columns

        def direction(xz: Vector, tw: Vector) -> tuple[Vector, ...]:
            """Return the step that changes x z and t w by these amounts, to first order."""
            right = -stationarity + xz / x - (tw - w * off_upper) / t
            dx = solve(right)
            dy = np.linalg.solve(condensed, off_sums - self.rows @ dx)
            dx = dx + columns @ dy
            dt = off_upper - dx
            return dx, dt, (xz - z * dx) / x, (tw - w * dt) / t, dy

        variables = x, t, z, w
        first = direction(-x * z, -t * w)
        dx, dt, dz, dw, _ = first
        a = min(1.0, _longest(variables, first))
        after = float((x + a * dx) @ (z + a * dz) + (t + a * dt) @ (w + a * dw)) / n_pairs
        target = max(mu * (after / mu) ** 3, COMPLEMENTARITY_FLOOR / n_pairs)
        second = direction(target - x * z - dx * dz, target - t * w - dt * dw)
        a = min(1.0, max(TO_BOUNDARY, 1.0 - n_pairs * mu) * _longest(variables, second))
        if not np.isfinite(a) or not all(np.isfinite(part).all() for part in second):
            raise np.linalg.LinAlgError("the direction is not finite")
        if a <= SHORTEST_STEP:
            return False
        for variable, change in zip((*variables, self.multipliers), second, strict=True):
            variable += a * change
        return True

    def _factored(self, barrier: Vector):  # type: ignore[no-untyped-def]
        """Return a function that solves with G + D + diag(barrier), scaled to a diagonal of ones."""
        self.n_factors += 1
        diagonal = np.diag(self.matrix) + self.ridge
        addition = PIVOT_ROUNDING * np.finfo(float).eps * float(np.max(diagonal))
        for _ in range(MAX_PIVOT_ADDITIONS):
            more = self.ridge + barrier + addition
            scale = 1.0 / np.sqrt(np.diag(self.matrix) + more)
            scaled = self.matrix * scale[:, None]
            scaled *= scale
            scaled.flat[:: len(scale) + 1] = 1.0
            factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1, overwrite_a=1, clean=0)
            if not failed:
                break
            addition *= 100.0
        else:
            raise np.linalg.LinAlgError("the matrix has no Cholesky factor")

        def solve(right: Vector) -> Vector:
            by_row = scale if right.ndim == 1 else scale[:, None]
            found = scipy.linalg.cho_solve((factor, True), by_row * right, check_finite=False)
            return np.asarray(by_row * found)

        return solve


def _box_of(domain: Domain, linear: Vector, ridge: Vector) -> BoxWithSums:
    """Return the box with sums that is the domain, or one in the domain that contains the minimum."""
    if isinstance(domain, Orthant):
        return domain.box_around_minimum(linear, ridge)
    return domain.box_with_sums()


def _is_less(distance: Vector, multiplier: Vector, ratio: float) -> NDArray[np.bool_]:
    """Return where distances are less than multipliers times the ratio, each over its unit or largest."""
    largest = max(float(np.max(distance)), 1.0), max(float(np.max(multiplier)), 1.0)
    return np.asarray(distance / largest[0] < ratio * multiplier / largest[1])


def _longest(variables: tuple[Vector, ...], changes: tuple[Vector, ...]) -> float:
    """Return the longest step along the changes that keeps every variable nonnegative."""
    steepest = max(
        float(np.max(-change / variable))
        for variable, change in zip(variables, changes, strict=False)
    )
    return 1.0 / steepest if steepest > 0.0 else np.inf
