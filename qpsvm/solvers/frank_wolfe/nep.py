"""Frank-Wolfe with a nearest-extreme-point oracle (Garber and Wolf), Algorithms 1 and 3.

Problem: minimize f over a domain, f smooth with constant beta. The linear minimizer is replaced by
the vertex v that minimizes g'v + lambda/2 |v - x|^2, which is the vertex nearest to x - g/lambda::

    Algorithm 1    eta = 2 / (t + 1),  lambda = beta eta
                   v = nearest vertex,  x <- x + l (v - x),  l at least as good as 0 and eta
    Algorithm 3    g from a mini-batch,  x <- x + eta (v - x)

Error after t steps: at most 2 beta (D_*^2 + D_0^2) / t, with D_* the least diameter of a set of
vertices whose hull holds the optima and D_0 that of the initial level set (Theorem 1). With the
linear minimizer the diameter of the whole set takes their place. The theorem needs the safeguard
(line 5 of Algorithm 1), which keeps x in the initial level set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain
from qpsvm.errors import check_choice, check_number
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.frank_wolfe.general import (
    GeneralSolver,
    PointState,
    gradient,
    line_search,
    quadratic,
    starting_point,
)

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class NearestFrankWolfe(GeneralSolver):
    """Algorithm 1.

    Parameters
    ----------
    step : {"theory", "line-search"}
        eta = 2/(t+1), or the exact line search over [0, 1]. Which one is better depends on the
        problem: the theory's on the hypercube, the search for co-localization (section 4).
    safeguard : bool
        Whether the theory's step is skipped where it would increase f (line 5).
    oracle_scale : float
        Factor of beta in the oracle. 1 is the theory's; 0.25 is often better, above all where A
        has fewer rows than columns.
    """

    step: str = "theory"
    safeguard: bool = True
    oracle_scale: float = 1.0

    gap_theorem: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("step", self.step, ("theory", "line-search"))
        check_choice("safeguard", self.safeguard, (True, False))
        check_number("oracle_scale", self.oracle_scale, low=0.0, open_low=True)

    @property
    def scheduled(self) -> bool:
        """Return true: a later step may move after the safeguard has skipped many."""
        return True

    def has_oracle(self, domain: Domain) -> bool:
        """Return whether the domain has a nearest-vertex oracle."""
        return domain.has_nearest_vertex

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> NearestState:
        """Return the state at x0 or at a vertex, with t = 1."""
        return NearestState.at(problem, x0)

    def advance(self, problem: QP, state: NearestState, n_steps: int) -> Reply:
        """Make iterations of Algorithm 1."""
        quad = quadratic(problem)
        for step in range(n_steps):
            eta = 2.0 / (state.t + 1.0)
            g = gradient(problem, state.product)
            if not np.isfinite(g).all():
                return Reply(step, Stop.NUMERICAL)
            weight = self.oracle_scale * quad.smoothness * eta
            v = problem.domain.nearest_vertex(g, state.x, weight)
            d = v - state.x
            d_product = quad.product(v) - state.product
            length, slope = eta, -float(g @ d)
            if self.step == "line-search":
                length = line_search(problem, state.product, g, d, d_product, 1.0)
            elif self.safeguard and quad.increases(state.product, slope, d, d_product, eta):
                length = 0.0
            state.t += 1
            state.moves += length > 0.0
            state.x += length * d
            state.product += length * d_product
        return Reply(n_steps, Stop.BUDGET)


@dataclass
class NearestState(PointState):
    """A point of the domain with its image."""

    t: int = 1  # number of the next iteration
    moves: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """Number of steps that moved, and of those that the safeguard skipped."""
        return {"nearest": self.moves, "left_out": self.t - 1 - self.moves}


@dataclass(frozen=True)
class StochasticFrankWolfe(GeneralSolver):
    """Algorithm 3: the gradient comes from a sample of the rows of A, or from the user's oracle.

    Parameters
    ----------
    oracle : {"nearest", "linear"}
        ``"linear"`` is the classical stochastic Frank-Wolfe method.
    growth : float
        The sample of iteration t has growth (t + 1)^2 rows, the order that Theorem 7 asks for,
        drawn with replacement. Where that is no less than the number of rows, the gradient is
        exact. For a user's oracle it is the number of draws. With draws of standard deviation G, a
        domain of diameter D and D_* as above, the theorem's batches have
        growth = (2 G D / (beta D_*^2))^2 or less.
    oracle_scale : float
        Factor of beta in the oracle.
    """

    oracle: str = "nearest"
    growth: float = 0.25
    oracle_scale: float = 1.0

    gap_theorem: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("oracle", self.oracle, ("nearest", "linear"))
        check_number("growth", self.growth, low=0.0, open_low=True)
        check_number("oracle_scale", self.oracle_scale, low=0.0, open_low=True)

    @property
    def scheduled(self) -> bool:
        """Return true: the noise of a sampled gradient may hide progress for many steps."""
        return True

    def fits(self, problem: QP) -> bool:
        """Return whether gradients can be drawn."""
        return super().fits(problem) and quadratic(problem).has_draws

    def has_oracle(self, domain: Domain) -> bool:
        """Return whether the domain has the oracle."""
        return self.oracle == "linear" or domain.has_nearest_vertex

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> StochasticState:
        """Return the state at x0 or at a vertex, with t = 1."""
        return StochasticState(starting_point(problem, x0), problem, rng)

    def advance(self, problem: QP, state: StochasticState, n_steps: int) -> Reply:
        """Make iterations of Algorithm 3."""
        quad = quadratic(problem)
        for step in range(n_steps):
            eta = 2.0 / (state.t + 1.0)
            wanted = int(np.ceil(self.growth * (state.t + 1.0) ** 2))
            g, size = quad.draw(state.x, state.product, wanted, state.rng)
            if not np.isfinite(g).all():
                return Reply(step, Stop.NUMERICAL)
            if self.oracle == "linear":
                v = problem.domain.linear_min(g)
            else:
                weight = self.oracle_scale * quad.smoothness * eta
                v = problem.domain.nearest_vertex(g, state.x, weight)
            state.move(v, eta)
            state.t += 1
            state.rows += size
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: StochasticState, product: Vector) -> None:
        """Replace the image of x by a recomputed one."""
        state.product = product


class StochasticState:
    """A point of the domain; its image is computed on demand.

    Attributes
    ----------
    x : ndarray
    t : int
        Number of the next iteration.
    rows : int
        Rows of A, or draws of the user's oracle, so far.
    """

    def __init__(self, x: Vector, problem: QP, rng: np.random.Generator) -> None:
        self.x = x
        self.rng = rng
        self.t = 1
        self.rows = 0
        self._problem = problem
        self._product: Vector | None = None

    @property
    def product(self) -> Vector:
        """A x."""
        if self._product is None:
            self._product = quadratic(self._problem).product(self.x)
        return self._product

    @product.setter
    def product(self, value: Vector) -> None:
        self._product = value

    def move(self, v: Vector, eta: float) -> None:
        """Move toward v."""
        self.x += eta * (v - self.x)
        self._product = None

    @property
    def counters(self) -> dict[str, int]:
        """Rows of A read."""
        return {"rows": self.rows}
