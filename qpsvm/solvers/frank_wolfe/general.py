"""Frank-Wolfe on any domain with a linear minimizer: the vertex driver.

Problem: minimize f(x) = 1/2 x'Qx + c'x or 1/2 |Ax - b|^2, x in a domain. The point is a mixture of
vertices met so highest, x = sum_k weights_k v_k. A step moves toward the vertex of the linear
minimizer, away from the worst vertex of the mixture, or moves weight from the worst to another. The
rule is the function of the compiled driver (`step_rules.choose`); on the simplex both give the same
iterates. The step length comes from the exact line search (Frandi et al. for the simplex;
Lacoste-Julien and Jaggi 2015, Algorithms 1 and 2; Tsuji, Tanaka and Pokutta 2022 for ``blended``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain
from qpsvm.errors import check_choice
from qpsvm.gram.operator import General
from qpsvm.solvers.base import WORK_BETWEEN_CHECKS, Reply, Solver, Stop
from qpsvm.solvers.frank_wolfe.step_rules import (
    AWAY_STEP,
    PAIR_STEP,
    STEP_RULES,
    TOWARD_STEP,
    VERTEX_STEP_RULES,
    choose,
)

Vector = NDArray[np.float64]

VERTEX_STEP_KINDS = ("toward", "away", "pair", "drop")
"""Names of the step counts."""

DROP_COUNT = 3
"""Entry of the step counts for drop steps; the others have the numbers of their kinds."""


class GeneralSolver(Solver):
    """Base of the solvers on general domains."""

    domains: ClassVar[tuple[type[Domain], ...]] = (Domain,)
    on_columns: ClassVar[bool] = False

    def fits(self, problem: QP) -> bool:
        """Return whether the problem is declared by its operator, and the domain has the oracle."""
        return isinstance(problem.gram, General) and self.has_oracle(problem.domain)

    def has_oracle(self, domain: Domain) -> bool:
        """Return whether the domain has the oracle that the method needs."""
        return True

    def refresh(self, problem: QP, state: Any, product: Vector) -> None:
        """Replace the image of x by a recomputed one."""
        state.product[:] = product

    def period(self, problem: QP) -> int:
        """Return the number of iterations between two checks; a check costs about one step."""
        return int(np.clip(WORK_BETWEEN_CHECKS / quadratic(problem).work, 1, 16))

    def default_max_iter(self, problem: QP) -> int:
        """Return a finite default of `max_iter`."""
        return 100_000


def quadratic(problem: QP) -> General:
    """Return the operator by which a problem is declared."""
    assert isinstance(problem.gram, General)
    return problem.gram


def gradient(problem: QP, product: Vector) -> Vector:
    """Return the gradient from the image of x."""
    return quadratic(problem).slope(product) + problem.linear


def starting_point(problem: QP, x0: Vector | None) -> Vector:
    """Return x0 made feasible, or the vertex that is best for the gradient at the reference point."""
    if x0 is not None:
        return problem.domain.repair(x0)
    quad = quadratic(problem)
    return problem.domain.linear_min(gradient(problem, quad.product(quad.reference_point)))


def line_search(
    problem: QP, product: Vector, g: Vector, d: Vector, d_product: Vector, longest: float
) -> float:
    """Return the best step along d, at most `longest`; infinite where f is unbounded below."""
    slope = -float(g @ d)
    return quadratic(problem).best_step(product, slope, d, d_product, longest) if slope > 0 else 0.0


@dataclass(frozen=True)
class VertexFrankWolfe(GeneralSolver):
    """Frank-Wolfe with a choice of step rule, on an explicit active set.

    Parameters
    ----------
    rule : {"toward", "away", "pairwise", "blended"}
        The step rule. ``"toward"`` needs no active set.
    step : {"line-search", "theory"}
        Exact line search, or 2/(t+1), for ``"toward"`` only.
    """

    rule: str = "toward"
    step: str = "line-search"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("rule", self.rule, VERTEX_STEP_RULES)
        steps = ("line-search", "theory") if self.rule == "toward" else ("line-search",)
        check_choice("step", self.step, steps)

    @property
    def scheduled(self) -> bool:
        """Whether the step length is the theory's."""
        return self.step == "theory"

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> VertexState:
        """Return the state at x0, which counts as a vertex, or at a vertex."""
        x = starting_point(problem, x0)
        product = quadratic(problem).product(x)
        return VertexState(x, product, ActiveSet(x, product))

    def advance(self, problem: QP, state: VertexState, n_steps: int) -> Reply:
        """Make steps of the rule."""
        for step in range(n_steps):
            stop = self._step(problem, state)
            if stop is not Stop.BUDGET:
                return Reply(step, stop)
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: VertexState, product: Vector) -> None:
        """Recompute the point from its vertices, so that both agree."""
        if self.rule == "toward":
            state.product[:] = product
        else:
            state.compose(problem)

    def _step(self, problem: QP, state: VertexState) -> Stop:
        """Make a step of the rule; return BUDGET, or the reason to stop."""
        # 1. The slopes of the candidates, and the kind of step.
        quad, active = quadratic(problem), state.active
        g = gradient(problem, state.product)
        xg = float(g @ state.x)
        v = problem.domain.linear_min(g)
        toward = xg - float(g @ v)
        if not np.isfinite(toward):
            return Stop.NUMERICAL
        if not toward > 0.0:
            return Stop.STALLED
        if self.rule == "toward":
            kind, highest, lowest = TOWARD_STEP, -1, -1
        else:
            slopes = active.points @ g
            highest, lowest = int(np.argmax(slopes)), int(np.argmin(slopes))
            away, inner = float(slopes[highest]) - xg, float(slopes[highest] - slopes[lowest])
            kind = choose(STEP_RULES[self.rule], toward, away, away + toward, inner)

        # 2. The direction, and the length by exact line search.
        longest = 1.0
        if kind == AWAY_STEP:
            weight = active.weights[highest]
            longest = weight / (1.0 - weight) if weight < 1.0 else np.inf
            d, d_product = state.x - active.points[highest], state.product - active.images[highest]
        elif kind == PAIR_STEP:
            longest = float(active.weights[highest])
            if self.rule == "blended":
                to, to_image = active.points[lowest], active.images[lowest]
            else:
                to, to_image = v, quad.product(v)
            d, d_product = to - active.points[highest], to_image - active.images[highest]
        else:
            to, to_image = v, quad.product(v)
            d, d_product = to - state.x, to_image - state.product
        length = line_search(problem, state.product, g, d, d_product, longest)
        if self.step == "theory":
            length = 2.0 / (state.counts[TOWARD_STEP] + 2.0)
        if length == 0.0 or not np.isfinite(length):
            return Stop.STALLED

        # 3. The move of the point, then that of the weights.
        is_maximal = length >= longest
        state.counts[DROP_COUNT if is_maximal and kind != TOWARD_STEP else kind] += 1
        state.x += length * d
        state.product += length * d_product
        if self.rule == "toward":
            return Stop.BUDGET
        if kind == TOWARD_STEP:
            active.weights *= 1.0 - length
            active.add(v, to_image, length)
            if is_maximal:
                state.x[:], state.product[:] = v, to_image
        elif kind == AWAY_STEP:
            active.weights *= 1.0 + length
            active.weights[highest] -= length
        else:
            active.weights[highest] -= length
            if self.rule == "blended":
                active.weights[lowest] += length
            else:
                active.add(v, to_image, length)
        if is_maximal and kind != TOWARD_STEP:
            active.weights[highest] = 0.0
        active.prune()
        return Stop.BUDGET


class ActiveSet:
    """Vertices with positive weights that sum to 1, and their images.

    Attributes
    ----------
    points, images : ndarray, shapes (k, m) and (k, n)
        Views of growing arrays.
    weights : ndarray, shape (k,)
    """

    def __init__(self, x: Vector, image: Vector) -> None:
        self._points = np.array(x)[None]
        self._images = np.array(image)[None]
        self._weights = np.ones(1)
        self._place = {_key(x): 0}
        self.size = 1

    @property
    def points(self) -> Vector:
        """The vertices, one a row."""
        return self._points[: self.size]

    @property
    def images(self) -> Vector:
        """Their images, one a row."""
        return self._images[: self.size]

    @property
    def weights(self) -> Vector:
        """Their weights."""
        return self._weights[: self.size]

    @weights.setter
    def weights(self, values: Vector) -> None:
        self._weights[: self.size] = values

    def find(self, v: Vector) -> int:
        """Return the row of a vertex, or -1."""
        return self._place.get(_key(v), -1)

    def add(self, v: Vector, image: Vector, weight: float) -> int:
        """Add weight to a vertex, and the vertex itself if it is new; return its row."""
        k = self.find(v)
        if k < 0:
            k = self.size
            if k == len(self._weights):
                self._points, self._images = _doubled(self._points), _doubled(self._images)
                self._weights = _doubled(self._weights)
            self._points[k], self._images[k], self._weights[k] = v, image, 0.0
            self._place[_key(v)] = k
            self.size += 1
        self._weights[k] += weight
        return k

    def prune(self) -> NDArray[np.int64]:
        """Remove the vertices without weight; return the former rows of the others."""
        places = np.arange(self.size)
        for k in np.flatnonzero(self.weights <= 0.0)[::-1]:
            del self._place[_key(self._points[k])]
            self.size -= 1
            if k < self.size:  # the last row fills the gap
                last = self.size
                for array in (self._points, self._images, self._weights, places):
                    array[k] = array[last]
                self._place[_key(self._points[k])] = int(k)
        return places[: self.size]


@dataclass
class PointState:
    """A point of the domain with its image: the start of the states of these methods."""

    x: Vector
    product: Vector  # Q x, or A x

    @classmethod
    def at(cls, problem: QP, x0: Vector | None) -> Self:
        """Return the state at x0, or at the vertex that is best for the gradient at the origin."""
        x = starting_point(problem, x0)
        return cls(x, quadratic(problem).product(x))


@dataclass
class VertexState:
    """A point of the domain, its image, and the active set of vertices."""

    x: Vector  # sum of weights times vertices
    product: Vector  # Q x, or A x
    active: ActiveSet
    counts: NDArray[np.int64] = field(  # steps by VERTEX_STEP_KINDS
        default_factory=lambda: np.zeros(len(VERTEX_STEP_KINDS), np.int64)
    )

    def compose(self, problem: QP) -> None:
        """Set the point and its image to those of the combination."""
        weights = self.active.weights
        weights /= weights.sum()
        self.x[:] = weights @ self.active.points
        self.product[:] = quadratic(problem).product(self.x)

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind, and the number of vertices in use."""
        steps = dict(zip(VERTEX_STEP_KINDS, map(int, self.counts), strict=True))
        return {**steps, "vertices": self.active.size}


def _key(v: Vector) -> bytes:
    return (v + 0.0).tobytes()  # -0.0 and 0.0 are the same vertex


def _doubled(array: Vector) -> Vector:
    enlarged = np.empty((max(4, 2 * len(array)), *array.shape[1:]))
    enlarged[: len(array)] = array
    return enlarged
