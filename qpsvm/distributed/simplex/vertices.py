"""The base of methods on simplices over shards: the client knows a few vertices, shards offer others.

Every vertex with weight is known. A round trip sends the points that get weight for the first time, a
factor of all weights, and the moves of some weights. Each shard returns its best vertices among those
that are not known, with their gradients and points.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.sharded_qp import Product, ShardedQP
from qpsvm.distributed.simplex.starts import feasible, random_ball, two_points
from qpsvm.distributed.violators import by_turns
from qpsvm.distributed.working_set import NO_POINTS, OnShardedWorkingSet, ShardedState
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.solvers.base import FLOOR_BYTES, Solver
from qpsvm.solvers.working_set.decomposition import CHECK_PERIOD, CHECK_VIOLATION_FRACTION
from qpsvm.solvers.working_set.gram_block import compact
from qpsvm.solvers.working_set.working_set import members_to_keep

log = logging.getLogger("qpsvm")

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

BYTES_PER_PAIR = 10
"""Bytes for each pair of known vertices: 8 of a kernel value, and 2 of a matrix of half the order, from
which the values are copied when it is enlarged."""

STEPS_BETWEEN_CHECKS = 64
"""Number of round trips between two checks where each adds a single vertex."""


@dataclass
class VertexState(ShardedState):
    """The known vertices."""

    is_full: bool = False  # whether vertices with weight have filled the memory


@dataclass(frozen=True)
class OnVertices(OnShardedWorkingSet):
    """A method on simplices that knows a few vertices, each a point of one simplex.

    Parameters
    ----------
    vertices_per_trip : int
        Maximum number of vertices of each simplex that become known in a round trip, an equal share of
        each shard.
    start : {"two-point", "ball"}
        As in one process: the first point and the one farthest from it, of several simplices a near pair;
        or the optimum over `start_size` random points.
    start_size : int
    max_vertices : int, optional
        Maximum number of known vertices; `solve` sets it by `memory_limit`.
    """

    vertices_per_trip: int = 256
    start: str = "two-point"
    start_size: int = 20
    max_vertices: int | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)
    first_check: ClassVar[int] = CHECK_PERIOD

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("vertices_per_trip", self.vertices_per_trip, low=1, integer=True)
        check_choice("start", self.start, ("two-point", "ball"))
        check_number("start_size", self.start_size, low=2, integer=True)

    def within(self, problem: Any, memory_limit: int) -> tuple[Self, int]:
        """Return the solver whose matrix fits the limit or, if that is larger, `FLOOR_BYTES`."""
        n_bytes = max(memory_limit, FLOOR_BYTES)
        return replace(self, max_vertices=isqrt(n_bytes // BYTES_PER_PAIR)), 0

    def max_members(self, problem: ShardedQP) -> int:
        """Return the maximum number of known vertices."""
        return min(problem.m, self.max_vertices or problem.m)

    def n_offers(self, problem: ShardedQP, state: ShardedState) -> tuple[int, int]:
        """Return the number of vertices that each shard offers, all of them with their points."""
        n_shards = problem.shards.n
        share = -(-self.vertices_per_trip // n_shards)
        return share, 2 * share * n_shards

    def period(self, problem: ShardedQP) -> int:
        """Return a short period, or a longer one where a round trip adds a single vertex."""
        return CHECK_PERIOD if self.vertices_per_trip > 1 else STEPS_BETWEEN_CHECKS

    def start_solver(self) -> Solver:
        """Return the solver of the problem over a few random points; a subclass has one."""
        raise NotImplementedError

    def starting_point(self, problem: ShardedQP, x0: Vector | None, rng: Any) -> Vector:
        """Return x0 on the simplex, or the starting point of the settings."""
        if x0 is not None:
            return feasible(problem, x0, max(problem.n_groups, self.max_members(problem) - 1))
        if self.start == "ball":
            return random_ball(problem, self.start_size, self.start_solver(), rng)
        return two_points(problem)

    def begin(self, problem: ShardedQP, state: ShardedState) -> None:
        """Let the shards begin at the weights of the state, whose vertices become known."""
        problem.product(state.x)
        problem.take_exact()
        state.found = []
        self.add_to_working_set(problem, state, np.flatnonzero(state.x > 0))
        self.step(problem, state, NO_POINTS, np.empty(0))
        state.checked_violation = state.violation

    def add_offered(self, problem: ShardedQP, state: VertexState, levels: Vector) -> int:
        """Add the offered vertices below the level of their simplex; return their number.

        Known vertices without weight are dropped once they are many, or where memory is short.
        """
        self._drop_known(problem, state)
        rows, gradients = offered(problem, state)
        rows = rows[(gradients < levels[problem.groups(rows)]) & ~np.isin(rows, state.rows)]
        rows = rows[: self.vertices_per_trip * problem.n_groups]
        limit = self.max_members(problem)
        if len(rows) > limit - len(state.rows):
            keep_members(state, state.x[state.rows] > 0)
            rows = rows[: limit - len(state.rows)]
            if not len(rows) and not state.is_full:
                state.is_full = True
                log.warning("%d vertices with weight fill the memory_limit", len(state.rows))
        self.add_to_working_set(problem, state, np.sort(rows))
        return len(rows)

    def _drop_known(self, problem: ShardedQP, state: ShardedState) -> None:
        """Drop the known vertices without weight whose gradients are the largest, once they are many."""
        n = len(state.rows)
        found = members_to_keep(state.s, *self.barriers(problem, state), state.violation, n)
        if found is not None:
            keep_members(state, found[1])


def is_news(state: ShardedState) -> bool:
    """Return whether the KKT violation has decreased enough since the last check for another one."""
    if state.violation > CHECK_VIOLATION_FRACTION * state.checked_violation:
        return False
    state.checked_violation = state.violation
    return True


def offered(problem: ShardedQP, state: ShardedState) -> tuple[Indices, Vector]:
    """Return the vertices that the shards offer, and their gradients.

    Simplices take turns, each by its ascending gradients.
    """
    index = problem.shards.layout.index
    rows = np.concatenate([index(k, found.up) for k, found in enumerate(state.found)])
    gradients = np.concatenate([found.s_up for found in state.found])
    order = by_turns(gradients, problem.groups(rows))
    return rows[order], gradients[order]


def keep_members(state: ShardedState, wanted: NDArray[np.bool_]) -> None:
    """Drop the known vertices that are not wanted."""
    order = compact(state.block, wanted)
    state.rows, state.ids, state.s = state.rows[order], state.ids[order], state.s[order]


def first_state(kind: Any, x: Vector, dtype: Any) -> Any:
    """Return a state at x without known vertices, its matrix of this precision."""
    empty = np.empty(0), np.empty((0, 0), dtype)
    return kind(x, Product("running"), NO_POINTS, NO_POINTS, *empty)
