"""Newton steps on the support that a low-rank Gram foretells, by conjugate directions.

Problem: minimize 1/2 x'(G + D)x over the simplex, D > 0. Up to the scale of x it is the dual of

    minimize P(u) = 1/2 u'G u + 1/2 sum_i max(0, 1 - g_i)^2 / D_i,    g = G u,

the L2-SVM whose margins are g. P is convex and piecewise quadratic: a Newton step solves

    (G_SS + D_SS) z_S = 1,  z = 0 elsewhere,  S = {i: g_i < 1},

and goes towards z as far as P falls. With the right S it is exact, and S is right after a few steps.

1. A factor of low rank, G ~ F F', costs little, and so does the problem with F F' + B, B diagonal: its
   solution foretells the support, and all margins.
2. Points whose margin may be below 1 become rows. K over the rows is held; K over others is never
   evaluated by the steps.
3. Newton steps over the rows, with F F' + B as preconditioner.
4. A point of the simplex is made from u without its negative weights, solved again on what is left.
5. The certificate looks at all points; those outside that violate become rows too.

Sources: Chapelle, "Training a support vector machine in the primal" (2007); Keerthi and DeCoste, "A
modified finite Newton method for fast solution of large scale linear SVMs" (2005), for the exact
line search.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.gram.column_store import FEWEST_COLUMNS
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.newton.low_rank_model import LowRankModel, least_ahead
from qpsvm.solvers.newton.lower_triangle import LowerTriangle

NARROW = 2000
"""Points from which K over the rows is held in float32."""

WEAKEST = 1e-4
"""Least ridge, relative to the diagonal: below it a factor in float32 says too little; steps stall."""

NEAR = 1.0
"""A point of the simplex is made once a step's decrease of P, relative, is this many times the gap."""

STEPS, REMEMBERED = 50, 5
"""Most directions of a Newton step, and those that the next one is made conjugate to."""

SHARE, MENDED = 1e-5, 1e-3
"""What may be left of the squared residual, in a Newton step and where negative weights were cut."""

DOUBT = 4.5
"""How much more of a margin is needed where the ridge is nothing beside what the factor leaves out."""

NO_LIMIT = 1 << 60
"""Bytes, where no limit was set."""

RANK, WEAK = 512, 0.3
"""Columns of the factor, and the mean ridge over the diagonal below which they are twice as many."""

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass
class FaceState:
    """A point of the simplex, and the weights on which the steps work."""

    x: Vector
    product: Vector  # G x; of points that are no rows as foretold, or as last certified
    u: Vector  # weights, some of them negative; 0 but for rows
    g: Vector  # G u, the margins; of points that are no rows like the product
    forecast: LowRankModel
    strips: LowerTriangle  # K over the rows
    foretold: bool  # whether the weights say more about S than the margins
    counters: dict[str, int] = field(default_factory=lambda: {"cg": 0, "columns": 0, "bytes": 0})

    @property
    def rows(self) -> NDArray[np.int64]:
        """The points that are solved over."""
        return self.strips.rows

    def grow(self, margin: float) -> None:
        """Let points become rows that have weight, or a margin below 1 + `margin`."""
        wanted = (self.g < 1.0 + margin) | (self.u != 0.0)
        wanted[self.rows] = False
        if wanted.any():
            new = np.flatnonzero(wanted)
            self.strips.add(new[np.argsort(self.g[new])])  # the likely ones side by side
            self.counters["columns"] = len(self.rows)
            self.counters["bytes"] = self.strips.n_bytes + self.forecast.n_bytes

    def take(self, u: Vector, g: Vector) -> None:
        """Let x be the weights u >= 0 of the rows, scaled, and the margins g its product."""
        total = float(np.sum(u))
        if 0.0 < total < np.inf:
            self.x[self.rows], self.product[:] = u / total, self.g / total
            self.product[self.rows] = g / total


@dataclass(frozen=True)
class FaceNewton(Solver):
    """Solve over the points that may be support vectors.

    Parameters
    ----------
    rank : int, optional
        Most columns of the factor, by default 512, or 1024 where the ridge is weak; fewer where half
        of the memory holds no more.
    margin : float
        A point becomes a row where its margin is foretold to be below 1 + this, or up to 5.5 times
        this, the more the factor leaves out beside the ridge.
    goal : float
        Relative gap near which points of the simplex are made; `solve` sets it to its `tol`.
    room : int, optional
        Bytes for the factor and for K over the rows; `solve` sets it by its `memory_limit`.
    """

    rank: int | None = None
    margin: float = 0.1
    goal: float = 1e-3
    room: int | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)
    check_threshold: ClassVar[float] = 0.9  # products over the rows do not drift
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
        """Return the solver that takes what the fewest columns leave: it reads none."""
        columns = min(memory_limit, 8 * FEWEST_COLUMNS * problem.m)
        return replace(self, room=max(memory_limit - columns, 1)), columns

    def fits(self, problem: QP) -> bool:
        """Return whether it is one simplex with a ridge to divide by, and x may be scaled."""
        return (
            super().fits(problem)
            and problem.domain.n_groups == 1  # type: ignore[attr-defined]
            and bool(np.min(problem.gram.ridge) > max(WEAKEST * problem.scale, 0.0))
            and not problem.linear.any()
        )

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Return true for both: threads of our own divide the work."""
        return True, True

    def period(self, problem: QP) -> int:
        """Return 1: an iteration is a Newton step."""
        return 1

    def default_max_iter(self, problem: QP) -> int:
        """Return 60: where a few steps are not enough, many hardly are."""
        return 60

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> FaceState:
        """Return the state that is foretold, or that of the starting point."""
        gram, m = problem.gram, problem.m
        kernel = gram.kernel.low_precision() if m >= NARROW else gram.kernel
        memory = self.room or NO_LIMIT
        firm = float(np.mean(gram.ridge)) >= WEAK * float(np.mean(gram.diag()))
        most = self.rank or (RANK if firm else 2 * RANK)
        rank = max(1, min(most, m, memory // (16 * m)))  # two arrays in float32
        forecast = LowRankModel(gram, kernel, rank, rng)
        strips = LowerTriangle(kernel, max(memory - forecast.n_bytes, 0))
        x, product, u, g = np.zeros((4, m))
        state = FaceState(x, product, u, g, forecast, strips, x0 is None)
        if x0 is None:
            state.u[:], state.g[:] = forecast.weights()
        else:
            state.x[:] = problem.domain.repair(x0)
            self._look(problem, state, gram.product(state.x))
        left = float(np.sum(forecast.rest))
        state.grow(self.margin * (1.0 + DOUBT * left / (left + float(np.sum(gram.ridge)))))
        u = state.u[state.rows]
        g = _times(problem, state, u)
        state.g[state.rows] = g
        if x0 is None:
            state.take(u, g)
        if not state.x.any():  # nothing of use was foretold
            state.x[0] = 1.0
            self._look(problem, state, gram.column(0))
            state.grow(0.0)
        return state

    def advance(self, problem: QP, state: FaceState, n_steps: int) -> Reply:
        """Make a Newton step; one iteration a call."""
        rows, D = state.rows, problem.gram.ridge[state.rows]
        u, g = state.u[rows], state.g[rows]
        before = _primal(u, g, D)
        S = u > 0.0 if state.foretold else g < 1.0
        state.foretold = False
        z = np.where(S, u, 0.0)
        _solve(problem, state, S, z, g - _times(problem, state, u - z, S | (u != 0.0)), D, SHARE)
        d = z - u
        change = _times(problem, state, d)
        t = least_ahead(float(d @ g), float(d @ change), g, change, D)
        u, g = u + t * d, g + t * change
        gain = before - _primal(u, g, D)
        if np.isnan(gain):
            return Reply(1, Stop.NUMERICAL)
        state.u[rows], state.g[rows] = u, g
        if gain <= NEAR * self.goal * before:
            _settle(problem, state, self.check_threshold * self.goal)
        return Reply(1, Stop.BUDGET if gain > 1e-14 * before else Stop.STALLED)

    def refresh(self, problem: QP, state: FaceState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x, and let those points in that violate."""
        self._look(problem, state, product)
        state.grow(0.2 * self.margin)  # what was seen is surer than what was foretold

    def _look(self, problem: QP, state: FaceState, product: NDArray[np.float64]) -> None:
        """Take over the weights of x, at their best scale, and their margins."""
        x = state.x
        scale = 1.0 / float(x @ product + problem.gram.ridge @ (x * x))
        state.product[:], state.u[:], state.g[:] = product, scale * x, scale * product


def _times(problem: QP, state: FaceState, v: Vector, wanted: Mask | None = None) -> Vector:
    """Return G v over the rows, or where it is wanted, as it must be where v is not 0."""
    if not v.any():
        return np.zeros(len(v))
    gram = problem.gram
    sign = gram.sign[state.rows]
    signed = sign * v
    total = state.strips.product(signed, wanted) + gram.shift * float(np.sum(signed))
    return gram.scale * sign * total


def _primal(u: Vector, g: Vector, D: Vector) -> float:
    """Return P(u) over the rows."""
    room = np.maximum(1.0 - g, 0.0)
    return 0.5 * float(u @ g) + 0.5 * float(room @ (room / D))


def _solve(
    problem: QP, state: FaceState, S: Mask, u: Vector, g: Vector, D: Vector, share: float
) -> None:
    """Approach (G_SS + D) u_S = 1 in place, where u = 0 elsewhere and g_S = (G u)_S at the start.

    Directions are preconditioned residuals, conjugate to the last few in the Hessian of P on this
    face, G + G_S D^-1 G_S: P falls with each, whatever is left. With those of conjugate gradients,
    which decrease the dual value, a step that ends early may be no descent of P.
    """
    at = np.flatnonzero(S)
    state.forecast.restrict(state.rows[at])
    own, first = D[at], 0.0
    rest, v = 1.0 - g[at] - own * u[at], np.zeros(len(u))
    old: list[tuple[Vector, Vector, float]] = []
    for n in range(STEPS):
        direction = state.forecast.solve(rest)
        size = float(rest @ direction)
        first = max(first, size)
        if n and not size > share * first:
            break
        v[at] = direction
        image = _times(problem, state, v, S)[at]
        for other, its, square in old[-REMEMBERED:]:
            overlap = float(other @ image) + float(its @ (image / own))
            direction -= (overlap / square) * other
            image -= (overlap / square) * its
        square = float(direction @ image) + float(image @ (image / own))
        if not square > 0.0:
            break
        old.append((direction, image, square))
        step = float((rest / own) @ image) / square
        u[at] += step * direction
        rest -= step * (image + own * direction)
        state.counters["cg"] += 1


def _settle(problem: QP, state: FaceState, goal: float) -> None:
    """Make the point of the simplex from the weights: without the negative ones, or solved again."""
    rows, D = state.rows, problem.gram.ridge[state.rows]
    u, g = state.u[rows], state.g[rows]
    S = (u > 0.0) & (g < 1.0)
    if not S.any():
        return
    v = np.where(S, u, 0.0)
    if np.any(v != u):
        g = g + _times(problem, state, v - u)
    state.take(v, g)
    bounds = problem.bounds(state.x, state.product)
    if bounds.gap > goal * bounds.upper:
        _solve(problem, state, S, u := v.copy(), g, D, MENDED)
        u = np.maximum(u, 0.0)
        state.take(u, g + _times(problem, state, u - v))
