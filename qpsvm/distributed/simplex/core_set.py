"""The core vector machine over shards: the client solves a core set, and adds the best vertices to it.

An iteration is that of `qpsvm.solvers.working_set.core_set`, by the inner steps of decomposition. With
one vertex for each round trip it adds the maximum violator of each simplex, as in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.distributed.kernel_sums import step_precision
from qpsvm.distributed.sharded_qp import ShardedQP
from qpsvm.distributed.simplex.vertices import OnVertices, VertexState, first_state, is_news
from qpsvm.errors import check_number
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.working_set.core_set import CoreSet

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ShardedCoreSet(OnVertices):
    """Re-optimize over a core set that grows in each iteration.

    Parameters
    ----------
    vertices_per_trip, start, start_size, max_vertices
        As in `OnVertices`; one vertex for each round trip is the method of one process.
    inner_tol : float
        KKT violation at which the core set counts as solved, relative to the violation over all points
        at the start of the iteration.
    """

    start: str = "ball"
    inner_tol: float = 0.1

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        check_number("inner_tol", self.inner_tol, low=0.0, high=1.0, open_low=True)

    def start_solver(self) -> CoreSet:
        """Return the solver of the problem over a few random points."""
        return CoreSet()

    def default_max_iter(self, problem: ShardedQP) -> int:
        """Return a budget in which every coordinate could be added twice."""
        return 500 + 2 * problem.m

    def init(self, problem: ShardedQP, x0: Vector | None, rng: Any) -> VertexState:
        """Return the state with the support of the starting point as its core set."""
        x = self.starting_point(problem, x0, rng)
        dtype = step_precision(problem.shards.kernel, problem.largest)
        state: VertexState = first_state(VertexState, x, dtype)
        self.begin(problem, state)
        return state

    def advance(self, problem: ShardedQP, state: VertexState, n_steps: int) -> Reply:
        """Add the maximum violators, and solve over the core set."""
        violation = state.violation
        if np.isnan(violation):
            return Reply(0, Stop.NUMERICAL)
        self.add_offered(problem, state, problem.known["running"].high)
        noise = 4.0 * FLOAT64_EPS * float(np.max(np.abs(state.s)))
        tolerance = max(self.inner_tol * violation, noise)
        moved, moves = self.solve_members(problem, state, tolerance)
        if not len(moved):
            return Reply(1, Stop.STALLED)
        self.step(problem, state, state.ids[moved], moves)
        return Reply(1, Stop.NEWS if is_news(state) else Stop.BUDGET)
