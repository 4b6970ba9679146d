"""Fully corrective Frank-Wolfe, with a linear or a nearest-extreme-point oracle.

Problem: minimize f over a domain. Each iteration adds one vertex to the active set and re-optimizes
the weights of all of them (Garber and Wolf, Algorithm 2)::

    u      = argmin over vertices of g'v + smoothness lambda_t / 2 |v - x|^2
    x_next = argmin over conv(active + u) of
             option 1:  g'x + smoothness / 2 |x - x_t|^2
             option 2:  f itself

With lambda = 0 the oracle is linear: the fully corrective method of Holloway (1974), ``fcfw``. The
choices of lambda:

=========  =========================================================================================
linear     lambda = 0
fixed      lambda_t = `first`
scheduled  lambda_t = `first` times `decay`^(t-1)
adaptive   the better of lambda_(t-1) and half of it, by f after the correction; on ties the smaller
           one; otherwise the method stalls. The linear vertex is a third candidate if `safe`.
search     Theorem 6: the best of 1, 1/2, 1/4, ... down to `least`
=========  =========================================================================================

The constants that the paper prints for the schedules of Theorems 3 and 4 are not recovered; any
geometric schedule has their form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain
from qpsvm.errors import check_choice, check_number
from qpsvm.gram.operator import FLOAT64_EPS
from qpsvm.gram.smooth import SmoothFunction
from qpsvm.numerics.jit import compiled
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.frank_wolfe.general import (
    ActiveSet,
    GeneralSolver,
    gradient,
    quadratic,
    starting_point,
)

Vector = NDArray[np.float64]

TIE_TOLERANCE = 1e-12
"""Relative difference of values below which two candidates tie."""

MIN_WEIGHT = 1e-12
"""Weights below this are set to zero, and the others scaled to sum 1."""

STALL_LAMBDA = 1e-15
"""Lambda below which an iteration without a change ends the method."""

MIN_WEIGHT_CHANGE = 1e-15
"""Change of a weight above which an iteration counts as a move."""


@dataclass(frozen=True)
class FullyCorrective(GeneralSolver):
    """Fully corrective Frank-Wolfe: add a vertex, correct all weights.

    Parameters
    ----------
    weight : {"linear", "fixed", "scheduled", "adaptive", "search"}
        Choice of lambda, as in the table above.
    option : {1, 2}
        Objective of the correction.
    first : float
        lambda_1.
    decay : float
        Ratio of the schedule.
    least : float
        Smallest lambda of the search.
    safe : bool
        Whether ``"adaptive"`` also tries the linear vertex.
    corrector : {"exact", "fista"}
        An active-set method, or a fixed number of FISTA steps as in the paper.
    inner_steps : int
        FISTA steps; the paper uses 50 on the hypercube and 10 for co-localization.
    """

    weight: str = "linear"
    option: int = 2
    first: float = 1.0
    decay: float = 0.95
    least: float = 1e-6
    safe: bool = False
    corrector: str = "exact"
    inner_steps: int = 50

    def __post_init__(self) -> None:
        """Check the settings."""
        kinds = ("linear", "fixed", "scheduled", "adaptive", "search")
        check_choice("weight", self.weight, kinds)
        check_choice("option", self.option, (1, 2))
        check_number("first", self.first, low=0.0)
        check_number("decay", self.decay, low=0.0, high=1.0)
        check_number("least", self.least, low=0.0, high=1.0, open_low=True)
        check_choice("corrector", self.corrector, ("exact", "fista"))
        check_number("inner_steps", self.inner_steps, low=1, integer=True)

    def has_oracle(self, domain: Domain) -> bool:
        """Return whether the domain has a nearest-vertex oracle where one is needed."""
        return self.weight == "linear" or domain.has_nearest_vertex

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> CorrectiveState:
        """Return the state at x0, which counts as a vertex, or at a vertex."""
        x = starting_point(problem, x0)
        product = quadratic(problem).product(x)
        return CorrectiveState(x, product, Mixture(problem, x, product), self.first)

    def advance(self, problem: QP, state: CorrectiveState, n_steps: int) -> Reply:
        """Make iterations of Algorithm 2."""
        for step in range(n_steps):
            stop = self._step(problem, state)
            if stop is not Stop.BUDGET:
                return Reply(step, stop)
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: CorrectiveState, product: Vector) -> None:
        """Recompute the point from its vertices, so that both agree."""
        state.compose(problem)

    def _step(self, problem: QP, state: CorrectiveState) -> Stop:
        """Try the candidates for lambda and keep the one with the least value."""
        g = gradient(problem, state.product)
        if not np.isfinite(g).all():
            return Stop.NUMERICAL
        best = (np.inf, 0.0, b"")
        tried: dict[bytes, Candidate] = {}
        for weight in self._weights(state):  # decreasing: on a tie the smaller one is kept
            u = self._vertex(problem, state.x, g, weight)
            key = (u + 0.0).tobytes()
            if key not in tried:
                tried[key] = self._correct(problem, state, g, u)
            value = tried[key].value
            if value <= best[0] + TIE_TOLERANCE * abs(best[0]) or not best[2]:
                best = (value, weight, key)
        _, weight, key = best
        state.n_iter += 1
        if self.weight == "adaptive":
            state.weight = weight if weight > 0.0 else 0.5 * state.weight
        moved = state.take(problem, tried[key])
        if not moved and (self.weight in ("linear", "fixed") or state.weight < STALL_LAMBDA):
            return Stop.STALLED
        return Stop.BUDGET

    def _weights(self, state: CorrectiveState) -> list[float]:
        """Return the candidates for lambda in decreasing order."""
        if self.weight == "linear":
            return [0.0]
        if self.weight == "fixed":
            return [self.first]
        if self.weight == "scheduled":
            return [self.first * self.decay**state.n_iter]
        if self.weight == "adaptive":
            candidates = [state.weight, 0.5 * state.weight]
            return [*candidates, 0.0] if self.safe else candidates
        n = int(np.ceil(-np.log2(self.least)))
        return [0.5**k for k in range(n + 1)]

    def _vertex(self, problem: QP, x: Vector, g: Vector, weight: float) -> Vector:
        """Return the vertex that the oracle of the domain finds."""
        if weight == 0.0:
            return problem.domain.linear_min(g)
        return problem.domain.nearest_vertex(g, x, weight * quadratic(problem).smoothness)

    def _correct(self, problem: QP, state: CorrectiveState, g: Vector, u: Vector) -> Candidate:
        """Return the weights after the correction over the active set with u, and their value."""
        quad = quadratic(problem)
        image = quad.product(u)
        active = state.active.with_vertex(problem, u, image)
        start = np.zeros(active.size)
        start[: state.active.size] = state.active.weights
        if self.option == 1:
            beta = quad.smoothness
            H = beta * (active.points @ active.points.T)
            q = active.points @ (g - beta * state.x)
        else:
            H, q = active.hessian, active.linear
        if isinstance(quad, SmoothFunction):
            n_steps = 1 if self.option == 1 else self.inner_steps
            return smooth_candidate(quad, active, start, u, n_steps)
        if self.corrector == "fista":
            weights = start.copy()
            fista(H, q, float(np.linalg.eigvalsh(H)[-1]), self.inner_steps, weights)
        else:
            weights = minimize_on_simplex(H, q, start, active.find(u))
        weights = np.where(weights > MIN_WEIGHT, weights, 0.0)
        weights /= weights.sum()
        value = float(active.linear @ weights + 0.5 * weights @ (active.hessian @ weights))
        return Candidate(value, weights, u, image)


class Candidate(NamedTuple):
    """A vertex, and the corrected weights of the active set with it."""

    value: float  # of f, up to a constant
    weights: Vector  # (k,) or (k + 1,)
    vertex: Vector
    image: Vector


def smooth_candidate(
    f: SmoothFunction, active: Mixture, start: Vector, u: Vector, n_steps: int
) -> Candidate:
    """Return the weights after steps to the least of the quadratic that bounds f from above.

    Each is a gradient step, exactly projected on the hull of the active set; none increases f.
    """
    weights, beta = start, f.smoothness
    for _ in range(n_steps):
        x = weights @ active.points
        q = active.points @ (f.slope(x) - beta * x)
        following = minimize_on_simplex(active.hessian, q, weights, active.find(u))
        moved = float(np.max(np.abs(following - weights)))
        weights = np.where(following > MIN_WEIGHT, following, 0.0)
        weights = weights / weights.sum()
        if moved <= MIN_WEIGHT:
            break
    return Candidate(f.value(weights @ active.points), weights, u, u)


class Mixture(ActiveSet):
    """An active set with the restriction of f to its hull: 1/2 c'Hc + q'c."""

    def __init__(self, problem: QP, x: Vector, image: Vector) -> None:
        super().__init__(x, image)
        quad = quadratic(problem)
        # c, or -A'b; of a smooth function the gradient at its center, which is not used
        self._at_zero = gradient(problem, quad.product(quad.reference_point))
        self.hessian = quad.entries(x, image, self.images)[:, None]  # (k, k)
        self.linear = self.points @ self._at_zero  # (k,)

    def with_vertex(self, problem: QP, u: Vector, image: Vector) -> Mixture:
        """Return the set with u, at weight 0 if it is new; earlier rows share their arrays."""
        if self.find(u) >= 0:
            return self
        quad = quadratic(problem)
        grown = Mixture.__new__(Mixture)
        grown.__dict__.update(self.__dict__)
        grown._place = dict(self._place)
        grown.add(u, image, 0.0)
        row = quad.entries(u, image, grown.images)
        k = self.size
        grown.hessian = np.empty((k + 1, k + 1))
        grown.hessian[:k, :k] = self.hessian
        grown.hessian[k, :] = grown.hessian[:, k] = row
        grown.linear = np.append(self.linear, float(u @ self._at_zero))
        return grown

    def prune(self) -> NDArray[np.int64]:
        """Remove the vertices without weight, and their rows of the restriction."""
        places = super().prune()
        self.hessian = self.hessian[np.ix_(places, places)]
        self.linear = self.linear[places]
        return places


@dataclass
class CorrectiveState:
    """A point of the domain, its image, and the active set of vertices."""

    x: Vector  # sum of weights times vertices
    product: Vector  # Q x, or A x
    active: Mixture
    weight: float  # lambda of the adaptive rule
    n_iter: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """Number of iterations, and of vertices in use."""
        return {"correction": self.n_iter, "vertices": self.active.size}

    def take(self, problem: QP, found: Candidate) -> bool:
        """Set the weights to the corrected ones; return whether they changed."""
        active = self.active.with_vertex(problem, found.vertex, found.image)
        before = np.zeros(active.size)
        before[: self.active.size] = self.active.weights
        moved = np.any(np.abs(found.weights - before) > MIN_WEIGHT_CHANGE)
        active.weights = found.weights
        active.prune()
        self.active = active
        self.compose(problem)
        return bool(moved)

    def compose(self, problem: QP) -> None:
        """Set the point and its image to those of the mixture."""
        self.x[:] = self.active.weights @ self.active.points
        self.product[:] = self.active.weights @ self.active.images


def minimize_on_simplex(H: Vector, q: Vector, start: Vector, entering: int) -> Vector:
    """Minimize 1/2 c'Hc + q'c over the simplex by an active set, from `start` with one more index.

    As Wolfe (1976) for the nearest point. Where the minimizer over the affine hull of the set is
    positive, it is the next point, and the index with the least gradient joins the set. Otherwise
    the step toward it ends at the first weight that vanishes, and that index leaves. Finite, and
    exact up to rounding.
    """
    c = start.copy()
    inside = c > 0.0
    inside[entering] = True
    best, best_value = start, float(q @ start + 0.5 * start @ (H @ start))
    for _ in range(10 * len(c) + 10):
        at = np.flatnonzero(inside)
        z = _on_affine_hull(H[np.ix_(at, at)], q[at])
        if np.min(z) > 0.0:
            c[:] = 0.0
            c[at] = z
            g = H @ c + q
            value = float(0.5 * c @ (g + q))
            if value <= best_value + 4.0 * FLOAT64_EPS * abs(
                best_value
            ):  # the gap may decrease where f cannot
                best, best_value = c.copy(), min(value, best_value)
            lowest = int(np.argmin(g))
            slope = float(c @ g - g[lowest])
            if inside[lowest] or slope <= 8.0 * FLOAT64_EPS * float(np.max(np.abs(H))):
                break
            inside[lowest] = True
        else:
            falls = z <= 0.0
            ratio = c[at][falls] / np.maximum(c[at][falls] - z[falls], np.finfo(float).tiny)
            step = float(np.min(ratio))
            c[at] += step * (z - c[at])
            dropped = at[falls][ratio <= step]
            c[dropped] = 0.0
            inside[dropped] = False
            if not inside.any():
                break
    return best


def _on_affine_hull(H: Vector, q: Vector) -> Vector:
    """Minimize 1/2 z'Hz + q'z subject to sum z = 1; of several minimizers return the shortest.

    H + sigma 11' has the same minimum and is regular for affinely independent points.
    """
    sigma = max(float(np.max(np.diag(H))), np.finfo(float).tiny)
    shifted = H + sigma
    both = np.stack([np.ones(len(q)), -q], axis=1)
    try:
        factor = scipy.linalg.cho_factor(shifted, check_finite=False)
        one, other = scipy.linalg.cho_solve(factor, both, check_finite=False).T
        if np.min(np.abs(np.diag(factor[0]))) ** 2 < 1e-13 * sigma:
            raise np.linalg.LinAlgError
    except np.linalg.LinAlgError:
        one, other = np.linalg.lstsq(shifted, both, rcond=1e-13)[0].T
    total = float(one.sum())
    z = other + one * ((1.0 - float(other.sum())) / total) if total > 0.0 else one
    return z / float(z.sum()) if float(z.sum()) > 0.0 else np.full(len(q), 1.0 / len(q))


@compiled
def fista(H: Any, q: Any, L: float, n_steps: int, c: Any) -> None:
    """Make steps of FISTA (Beck and Teboulle 2009) for 1/2 c'Hc + q'c on the simplex, in place."""
    k = c.shape[0]
    y = c.copy()
    new = np.empty(k)
    falling = np.empty(k)
    t = 1.0
    for _ in range(n_steps):
        for i in range(k):
            s = q[i]
            for j in range(k):
                s += H[i, j] * y[j]
            new[i] = y[i] - s / L if L > 0.0 else y[i] - s
        falling[:] = -np.sort(-new)
        total = 0.0
        threshold = 0.0
        for i in range(k):
            total += falling[i]
            if falling[i] > (total - 1.0) / (i + 1):
                threshold = (total - 1.0) / (i + 1)
        t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        for i in range(k):
            new[i] = max(new[i] - threshold, 0.0)
            y[i] = new[i] + (t - 1.0) / t_next * (new[i] - c[i])
            c[i] = new[i]
        t = t_next
