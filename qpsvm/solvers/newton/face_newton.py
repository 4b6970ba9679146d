"""Newton steps on the support that a low-rank Gram predicts, by conjugate directions.

Problem: minimize 1/2 x'(G + D)x over the simplex, D > 0. Up to the scale of x it is the dual of

    minimize P(u) = 1/2 u'G u + 1/2 sum_i max(0, 1 - g_i)^2 / D_i,    g = G u,

the L2-SVM whose margins are g. P is convex and piecewise quadratic: a Newton step solves

    (G_SS + D_SS) z_S = 1,  z = 0 elsewhere,  S = {i: g_i < 1},

and moves toward z to the minimum of P. With the right S it is exact, and S is right after a few steps.

1. A factor of low rank, G ~ F F', costs little, and so does the problem with F F' + B, B diagonal. Its
   solution predicts the support and all margins.
2. Points whose margin may be below 1 become rows. K over the rows is kept in memory; the steps evaluate
   no other entries of K.
3. Newton steps over the rows, with F F' + B as preconditioner.
4. A point of the simplex is made from u without its negative weights, solved again on the others.
5. The certificate checks all points; violators outside the rows become rows too.

Sources: Chapelle, "Training a support vector machine in the primal" (2007); Keerthi and DeCoste, "A
modified finite Newton method for fast solution of large scale linear SVMs" (2005), for the exact
line search.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import ApproximateProducts, update_roundoff
from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.gram.column_store import FEWEST_COLUMNS
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.newton.low_rank_model import LowRankModel, line_minimizer
from qpsvm.solvers.newton.lower_triangle import LowerTriangle

MIN_POINTS_FOR_FLOAT32 = 2000
"""Number of points from which K over the rows is kept in float32."""

MIN_RELATIVE_RIDGE = 1e-4
"""Least ridge, relative to the diagonal: below it a float32 factor is too inexact and steps stall."""

SETTLING_DECREASE = 1.0
"""A point of the simplex is made once a step's relative decrease of P is this many times the gap."""

MAX_DIRECTIONS = 50
"""Maximum number of directions of a Newton step."""

MAX_CONJUGATE_DIRECTIONS = 5
"""Number of earlier directions to which the next one is made conjugate."""

NEWTON_RESIDUAL_FRACTION = 1e-5
"""Fraction of the squared residual that a Newton step may leave."""

SETTLING_RESIDUAL_FRACTION = 1e-3
"""The same fraction where negative weights were set to zero."""

UNCERTAINTY_FACTOR = 4.5
"""Relative increase of the margin where the ridge is negligible beside the factor's error."""

UNLIMITED_BYTES = 1 << 60
"""Bytes, where no limit is set."""

DEFAULT_RANK = 512
"""Number of columns of the factor."""

WEAK_RIDGE_RATIO = 0.3
"""Mean ridge over mean diagonal below which the factor has twice as many columns."""

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass
class FaceState:
    """A point of the simplex, and the weights on which the steps work."""

    x: Vector
    product: Vector  # G x; outside the rows as predicted, or as last certified
    u: Vector  # weights, some of them negative; 0 outside the rows
    g: Vector  # G u, the margins; outside the rows like the product
    error: Vector  # bound on the error of each entry of the product
    model: LowRankModel
    triangle: LowerTriangle  # K over the rows
    is_predicted: bool  # whether the weights predict S better than the margins
    margin_error: float | Vector = 0.0  # bound on the error of g when it was set
    total_move: float = 0.0  # sum of the sizes of all moves of u since then
    n_moves: int = 0
    counters: dict[str, int] = field(default_factory=lambda: {"cg": 0, "columns": 0, "bytes": 0})

    @property
    def rows(self) -> NDArray[np.int64]:
        """The points over which the Newton systems are solved."""
        return self.triangle.rows

    def add_rows(self, margin: float) -> None:
        """Make rows of the points with a weight, or with a margin below 1 + `margin`."""
        wanted = (self.g < 1.0 + margin) | (self.u != 0.0)
        wanted[self.rows] = False
        if wanted.any():
            new = np.flatnonzero(wanted)
            self.triangle.add(new[np.argsort(self.g[new])])  # likely support vectors side by side
            self.counters["columns"] = len(self.rows)
            self.counters["bytes"] = self.triangle.n_bytes + self.model.n_bytes

    def record_move(self, size: float) -> None:
        """Record that the weights of the rows moved by this size, and their margins with them."""
        self.total_move += size
        self.n_moves += 1


@dataclass(frozen=True)
class FaceNewton(Solver):
    """Newton steps over the points that may be support vectors.

    Parameters
    ----------
    rank : int, optional
        Most columns of the factor, by default 512, or 1024 where the ridge is weak; fewer where they
        do not fit in half of the memory.
    margin : float
        A point becomes a row where its predicted margin is below 1 + `margin`, or up to 5.5 times
        `margin`: the larger the factor's error beside the ridge, the more.
    goal : float
        Relative gap near which points of the simplex are made; `solve` sets it to its `tol`.
    memory_bytes : int, optional
        Bytes for the factor and for K over the rows; `solve` sets it by its `memory_limit`.
    """

    rank: int | None = None
    margin: float = 0.1
    goal: float = 1e-3
    memory_bytes: int | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)
    check_threshold: ClassVar[float] = 0.9  # errors of products over the rows do not add up
    is_abandonable: ClassVar[bool] = (
        True  # x and its product are set together, at the end of a step
    )

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.rank is not None:
            check_number("rank", self.rank, low=1, integer=True)
        check_number("margin", self.margin, low=0.0)
        check_number("goal", self.goal, low=0.0, high=1.0, open_low=True)

    def for_tolerance(self, tol: float) -> Self:
        """Return the solver for this relative gap."""
        return replace(self, goal=tol)

    def within(self, problem: QP, memory_limit: int) -> tuple[Self, int]:
        """Return the solver with all memory but that of the fewest columns: it reads none."""
        columns = min(memory_limit, 8 * FEWEST_COLUMNS * problem.m)
        return replace(self, memory_bytes=max(memory_limit - columns, 1)), columns

    def fits(self, problem: QP) -> bool:
        """Return whether it is one simplex with a sufficient ridge, and x may be scaled."""
        return (
            super().fits(problem)
            and problem.domain.n_groups == 1  # type: ignore[attr-defined]
            and bool(np.min(problem.gram.ridge) > max(MIN_RELATIVE_RIDGE * problem.scale, 0.0))
            and not problem.linear.any()
        )

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Return true for both: `parallel_for` divides the work."""
        return True, True

    def period(self, problem: QP) -> int:
        """Return 1: an iteration is a Newton step."""
        return 1

    def default_max_iter(self, problem: QP) -> int:
        """Return 60: where a few steps do not suffice, more seldom do."""
        return 60

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> FaceState:
        """Return the predicted state, or that of the starting point."""
        gram, m = problem.gram, problem.m
        kernel = gram.kernel.low_precision() if m >= MIN_POINTS_FOR_FLOAT32 else gram.kernel
        memory = self.memory_bytes or UNLIMITED_BYTES
        is_strong = float(np.mean(gram.ridge)) >= WEAK_RIDGE_RATIO * float(np.mean(gram.diag()))
        max_rank = self.rank or (DEFAULT_RANK if is_strong else 2 * DEFAULT_RANK)
        rank = max(1, min(max_rank, m, memory // (16 * m)))  # two arrays in float32
        model = LowRankModel(gram, kernel, rank, rng)
        triangle = LowerTriangle(kernel, max(memory - model.n_bytes, 0))
        x, product, u, g, error = np.zeros((5, m))
        state = FaceState(x, product, u, g, error, model, triangle, x0 is None)
        if x0 is None:
            state.u[:], state.g[:] = model.weights()
        else:
            state.x[:] = problem.domain.repair(x0)
            self._set_product(problem, state, gram.product(state.x))
        rest = float(np.sum(model.rest))
        uncertainty = UNCERTAINTY_FACTOR * rest / (rest + float(np.sum(gram.ridge)))
        state.add_rows(self.margin * (1.0 + uncertainty))
        u = state.u[state.rows]
        g = _times(problem, state, u)
        state.g[state.rows] = g
        if x0 is None:
            state.margin_error = np.abs(state.g)  # predicted margins have no bound of their own
            state.margin_error[state.rows] = 0.0
            state.record_move(float(np.sum(u)))
            _set_point(problem, state, u, g, 0.0)
        if not state.x.any():  # the prediction is of no use
            state.x[0] = 1.0
            self._set_product(problem, state, problem.product(state.x))
            state.add_rows(0.0)
        return state

    def advance(self, problem: QP, state: FaceState, n_steps: int) -> Reply:
        """Make one Newton step, for any `n_steps`."""
        rows, D = state.rows, problem.gram.ridge[state.rows]
        u, g = state.u[rows], state.g[rows]
        before = _primal(u, g, D)
        S = u > 0.0 if state.is_predicted else g < 1.0
        state.is_predicted = False
        z = np.where(S, u, 0.0)
        Gz = g - _times(problem, state, u - z, S | (u != 0.0))
        _solve(problem, state, S, z, Gz, D, NEWTON_RESIDUAL_FRACTION)
        d = z - u
        change = _times(problem, state, d)
        t = line_minimizer(float(d @ g), float(d @ change), g, change, D)
        u, g = u + t * d, g + t * change
        decrease = before - _primal(u, g, D)
        if np.isnan(decrease):
            return Reply(1, Stop.NUMERICAL)
        state.u[rows], state.g[rows] = u, g
        state.record_move(t * float(np.sum(np.abs(d))))
        if decrease <= SETTLING_DECREASE * self.goal * before:
            _settle(problem, state, self.check_threshold * self.goal)
        return Reply(1, Stop.BUDGET if decrease > 1e-14 * before else Stop.STALLED)

    def refresh(self, problem: QP, state: FaceState, product: NDArray[np.float64]) -> None:
        """Replace G x by a recomputed one, and make rows of the violators."""
        self._set_product(problem, state, product)
        state.add_rows(0.2 * self.margin)  # computed margins need less safety than predicted ones

    def refresh_partly(self, problem: QP, state: FaceState, products: ApproximateProducts) -> None:
        """Replace G x by one that is recomputed in part, and make rows of the violators."""
        self._set_product(problem, state, products.product, products.error)
        state.add_rows(0.2 * self.margin)

    def approximate_products(self, problem: QP, state: FaceState) -> ApproximateProducts | None:
        """Return the product with a bound on the error of each entry, where the kernel has one.

        Over the rows it is that of the moves; elsewhere a move t changes an entry by at most
        t max_j |G_ij|, which the product does not contain.
        """
        if state.triangle.column_error is None:
            return None
        return ApproximateProducts(state.x.copy(), state.product.copy(), state.error.copy())

    def _set_product(
        self,
        problem: QP,
        state: FaceState,
        product: NDArray[np.float64],
        error: float | Vector | None = None,
    ) -> None:
        """Set the weights to x at its best scale, and the margins to theirs."""
        x = state.x
        curvature = float(x @ product + problem.gram.ridge @ (x * x))
        scale = 1.0 / curvature if curvature > 0.0 else 1.0  # without a best scale
        state.product[:], state.u[:], state.g[:] = product, scale * x, scale * product
        state.error[:] = problem.entry_roundoff(x) if error is None else error
        state.margin_error, state.total_move, state.n_moves = scale * state.error, 0.0, 0


def _times(problem: QP, state: FaceState, v: Vector, wanted: Mask | None = None) -> Vector:
    """Return G v over the rows, or over the wanted ones, which must include those where v is not 0."""
    if not v.any():
        return np.zeros(len(v))
    gram = problem.gram
    sign = gram.sign[state.rows]
    signed = sign * v
    total = state.triangle.product(signed, wanted) + gram.shift * float(np.sum(signed))
    return gram.scale * sign * total


def _set_point(problem: QP, state: FaceState, u: Vector, g: Vector, moved: float) -> None:
    """Set x to the weights u >= 0 of the rows, scaled, and its product to the scaled margins g.

    These weights were `moved` from those of the state. A sum over the rows has the errors of its
    entries and the rounding of its terms; the margins of other points do not follow the moves.
    """
    total, rows = float(np.sum(u)), state.rows
    if not 0.0 < total < np.inf:
        return
    state.x[rows], state.product[:] = u / total, state.g / total
    state.product[rows] = g / total
    entry_error = state.triangle.column_error
    if entry_error is None:
        return
    moved += state.total_move
    size = problem.scale * (total + moved)
    error = np.full(problem.m, moved * problem.scale)
    error[rows] = moved * problem.gram.scale * entry_error[rows]
    error += state.margin_error + update_roundoff(
        len(rows), problem.scale, moved, state.n_moves + 1, size
    )
    state.error[:] = error / total


def _primal(u: Vector, g: Vector, D: Vector) -> float:
    """Return P(u) over the rows."""
    slack = np.maximum(1.0 - g, 0.0)
    return 0.5 * float(u @ g) + 0.5 * float(slack @ (slack / D))


def _solve(
    problem: QP, state: FaceState, S: Mask, u: Vector, g: Vector, D: Vector, fraction: float
) -> None:
    """Solve (G_SS + D) u_S = 1 approximately in place; u = 0 elsewhere, g_S = (G u)_S at the start.

    Directions are preconditioned residuals, conjugate to the last few in the Hessian of P on this
    face, G + G_S D^-1 G_S: each decreases P, for any residual. Those of conjugate gradients
    decrease the dual value; a step that ends early may then increase P.
    """
    at = np.flatnonzero(S)
    state.model.restrict(state.rows[at])
    own, largest = D[at], 0.0
    residual, v = 1.0 - g[at] - own * u[at], np.zeros(len(u))
    old: list[tuple[Vector, Vector, float]] = []
    for n in range(MAX_DIRECTIONS):
        direction = state.model.solve(residual)
        size = float(residual @ direction)
        largest = max(largest, size)
        if n and not size > fraction * largest:
            break
        v[at] = direction
        image = _times(problem, state, v, S)[at]
        for other, other_image, square in old[-MAX_CONJUGATE_DIRECTIONS:]:
            overlap = float(other @ image) + float(other_image @ (image / own))
            direction -= (overlap / square) * other
            image -= (overlap / square) * other_image
        square = float(direction @ image) + float(image @ (image / own))
        if not square > 0.0:
            break
        old.append((direction, image, square))
        step = float((residual / own) @ image) / square
        u[at] += step * direction
        residual -= step * (image + own * direction)
        state.counters["cg"] += 1


def _settle(problem: QP, state: FaceState, goal: float) -> None:
    """Set x from the weights without the negative ones; where the gap is too large, solve again."""
    rows, D = state.rows, problem.gram.ridge[state.rows]
    u, g = state.u[rows], state.g[rows]
    S = (u > 0.0) & (g < 1.0)
    if not S.any():
        return
    v = np.where(S, u, 0.0)
    moved = float(np.sum(np.abs(v - u)))
    if moved > 0.0:
        g = g + _times(problem, state, v - u)
    _set_point(problem, state, v, g, moved)
    bounds = problem.bounds(state.x, state.product)
    if bounds.gap > goal * bounds.upper:
        _solve(problem, state, S, u := v.copy(), g, D, SETTLING_RESIDUAL_FRACTION)
        u = np.maximum(u, 0.0)
        change = _times(problem, state, u - v)
        _set_point(problem, state, u, g + change, moved + float(np.sum(np.abs(u - v))))
