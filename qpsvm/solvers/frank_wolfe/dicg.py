"""Decomposition-invariant conditional gradient (Garber and Meshi 2016).

Problem: minimize f over a polytope {x >= 0, Ax = b} whose vertices have entries 0 and 1. A step
moves from the worst vertex of the smallest face that contains x to the best vertex of the domain.
Both come from the linear minimizer, so that no vertices are stored::

    v_plus  = argmin over vertices of g'v
    v_minus = argmax over vertices of the face {v_i = 0 where x_i = 0} of g'v
    x <- x + t (v_plus - v_minus),  0 < t <= max{t : x stays feasible}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain
from qpsvm.errors import check_choice
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.frank_wolfe.general import (
    GeneralSolver,
    PointState,
    gradient,
    line_search,
    quadratic,
)

Vector = NDArray[np.float64]

BOUND_TOLERANCE = 1e-14
"""Distance below which an entry is set to its bound 0 or 1: such a distance is rounding error."""


@dataclass(frozen=True)
class DecompositionInvariant(GeneralSolver):
    """Pairwise steps without an active set.

    Parameters
    ----------
    step : {"line-search", "dyadic"}
        Exact line search, or 2^-s with the least s such that 2^-s <= 2/(t+1) and the step stays
        feasible, which keeps x on a dyadic lattice (the fixed-step option of the paper).
    """

    step: str = "line-search"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("step", self.step, ("line-search", "dyadic"))

    def has_oracle(self, domain: Domain) -> bool:
        """Return whether the domain finds vertices of a face."""
        return domain.has_face_oracle

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> InvariantState:
        """Return the state at x0 or at a vertex."""
        return InvariantState.at(problem, x0)

    def advance(self, problem: QP, state: InvariantState, n_steps: int) -> Reply:
        """Make pairwise steps."""
        quad, domain = quadratic(problem), problem.domain
        for step in range(n_steps):
            g = gradient(problem, state.product)
            if not np.isfinite(g).all():
                return Reply(step, Stop.NUMERICAL)
            d = domain.linear_min(g) - domain.face_vertex(g, state.x)
            if not d.any():
                return Reply(step, Stop.STALLED)
            d_product = quad.product(d)
            longest = domain.longest(state.x, d)
            length = line_search(problem, state.product, g, d, d_product, longest)
            if self.step == "dyadic":
                allowed = min(2.0 / (state.t + 1.0), longest)
                length = 0.5 ** np.ceil(-np.log2(allowed)) if allowed > 0.0 else 0.0
            state.t += 1
            if length <= 0.0:
                return Reply(step, Stop.STALLED)
            state.x += length * d
            state.product += length * d_product
            state.x[np.abs(state.x) < BOUND_TOLERANCE] = 0.0
            state.x[np.abs(state.x - 1.0) < BOUND_TOLERANCE] = 1.0
        return Reply(n_steps, Stop.BUDGET)


@dataclass
class InvariantState(PointState):
    """A point of the domain with its image."""

    t: int = 1  # number of the next iteration

    @property
    def counters(self) -> dict[str, int]:
        """Number of steps."""
        return {"pair": self.t - 1}
