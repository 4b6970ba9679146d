"""A working set at the client over points in shards: its matrix, its inner steps, its round trips.

Shards send their maximum violators as (index, value), and the points of the first of them. Points that
are added to the working set are sent to all shards once. Afterwards only moves of weights are sent.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.kernel_sums import fill_values
from qpsvm.distributed.messages import Violators
from qpsvm.distributed.sharded_qp import Known, Product, ShardedQP
from qpsvm.distributed.violators import joined, movable
from qpsvm.solvers.base import Solver
from qpsvm.solvers.smo.inner_smo import InnerProblem, solve_inner
from qpsvm.solvers.working_set.gram_block import empty_square
from qpsvm.solvers.working_set.working_set import inner_steps

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

NO_POINTS = np.empty(0, np.int64)
"""An empty list of points."""


@dataclass
class ShardedState:
    """The working set at the client, and the latest answers of the shards."""

    x: Vector  # weights, (m,)
    product: Product
    rows: Indices  # indices of the working set
    ids: Indices  # their places among the remembered points
    s: Vector  # signed gradient there
    block: NDArray[Any]  # leading part: kernel values of the working set
    found: list[Violators] = field(default_factory=list)  # of each shard
    violation: float = np.inf
    checked_violation: float = np.inf
    n_pairs: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """Size of the working set, inner steps, bytes of its matrix."""
        return {"core": len(self.rows), "pair": self.n_pairs, "matrix_bytes": self.block.nbytes}


class OnShardedWorkingSet(Solver):
    """A method whose steps move the weights of a working set at the client."""

    seconds_between_certificates: ClassVar[float] = 30.0
    check_threshold: ClassVar[float] = 0.9  # products are accurate, and an iteration costs more

    @abstractmethod
    def n_offers(self, problem: ShardedQP, state: ShardedState) -> tuple[int, int]:
        """Return the number of violators of each direction that a shard returns, and of their points.

        They are those of a group; the points are those of both directions and of all shards.
        """

    @abstractmethod
    def max_members(self, problem: ShardedQP) -> int:
        """Return the maximum size of the working set."""

    def on_one_thread(self, problem: ShardedQP) -> tuple[bool, bool]:
        """Return true twice: threads of BLAS would wait in busy loops while shards sum kernel values."""
        return True, True

    def refresh(self, problem: ShardedQP, state: Any, product: Any) -> None:
        """Let the shards continue from the recomputed product."""
        problem.take_exact()
        self.step(problem, state, NO_POINTS, np.empty(0))

    def step(self, problem: ShardedQP, state: ShardedState, ids: Indices, moves: Vector) -> None:
        """Send moves of weights out, and take the violators and the gradient of the members back."""
        layout = problem.shards.layout
        parts = layout.split(state.rows)
        own = [(local, state.x[state.rows[at]]) for at, local in parts]
        sent = *problem.remembered.unsent(), ids, moves, *self._offers_of_shard(problem, state)
        self.take(problem, state, problem.shards.call("step", *sent, each=own))
        for (at, _), found in zip(parts, state.found, strict=True):
            state.s[at] = found.s

    def _offers_of_shard(self, problem: ShardedQP, state: ShardedState) -> tuple[int, int]:
        """Return the number of violators that a shard returns in each direction, and of their points."""
        count, n_points = self.n_offers(problem, state)
        return count, -(-n_points // (2 * problem.shards.n))

    def scaled_step(
        self,
        problem: ShardedQP,
        state: ShardedState,
        keep: float,
        rows: Indices,
        moves: Vector,
    ) -> None:
        """Send out a factor of all weights and signed moves of some points, and take violators back.

        The points were remembered. The gradient of the members stays that of the state.
        """
        parts = problem.shards.layout.split(rows)
        own = [(local, state.x[rows[at]]) for at, local in parts]
        sent = *problem.remembered.unsent(), problem.remembered.id[rows], moves
        offers = self._offers_of_shard(problem, state)
        found = problem.shards.call("scaled_step", keep, *sent, *offers, each=own)
        self.take(problem, state, found)

    @staticmethod
    def take(problem: ShardedQP, state: ShardedState, found: list[Violators]) -> None:
        """Record the violators of all shards, and the KKT violation."""
        state.found = found
        low, high = joined([(v.low, v.high) for v in found])
        problem.known["running"] = Known(state.x.copy(), low, high)
        state.violation = float(np.max(high - low))

    def add_to_working_set(self, problem: ShardedQP, state: ShardedState, rows: Indices) -> None:
        """Add points to the working set, and their kernel values to its matrix."""
        if not len(rows):
            return
        ids = problem.remember(rows, state.found)
        n, n_total = len(state.rows), len(state.rows) + len(rows)
        state.rows, state.ids = np.concatenate([state.rows, rows]), np.concatenate([state.ids, ids])
        if n_total > len(state.block):
            capacity = max(n_total, min(2 * n_total, self.max_members(problem)))
            larger = empty_square(capacity, state.block.dtype)
            larger[:n, :n] = state.block[:n, :n]
            state.block = larger
        new = state.block[n:n_total]
        fill_kernel_values(problem, ids, state.ids, new)
        state.block[:n, n:n_total] = new[:, :n].T
        state.s = np.concatenate([state.s, known_gradient(problem, state, rows)])

    def barriers(self, problem: ShardedQP, state: ShardedState) -> tuple[Vector, Vector]:
        """Return 0 where members are in I_up and in I_low of a group, else inf, shape (n_groups, n)."""
        z, upper = self.sides(problem, state)
        up, down = movable(state.x[state.rows], z, upper)
        own = problem.groups(state.rows) == np.arange(problem.n_groups)[:, None]
        return np.where(own & up, 0.0, np.inf), np.where(own & down, 0.0, np.inf)

    @staticmethod
    def sides(problem: ShardedQP, state: ShardedState) -> tuple[Vector, Vector]:
        """Return z and the upper bounds of the working set."""
        sign, _, upper = problem.coefficients(state.rows)
        return (sign if problem.kind == "hyperplane" else np.ones(len(sign))), upper

    def solve_members(
        self,
        problem: ShardedQP,
        state: ShardedState,
        tolerance: float,
        min_tolerance: float = np.inf,
        goal: float = 0.0,
    ) -> tuple[Indices, Vector]:
        """Make the inner steps; return which members moved, and their moves times their signs."""
        gram = problem.gram
        sign, ridge, _ = problem.coefficients(state.rows)
        diagonal = problem.remembered.diagonal[state.ids]
        z, upper = self.sides(problem, state)
        x = state.x[state.rows]
        barriers = self.barriers(problem, state)
        block = state.block[: len(x)]
        block.flags.writeable = False
        own_diagonal = gram.scale * (diagonal + gram.shift) + ridge
        side = (z * sign).astype(state.block.dtype)
        arrays = block, own_diagonal, side, ridge, z, upper
        inner = InnerProblem(*arrays, float(gram.shift), float(gram.scale))
        before = x.copy()
        n_done, _, _ = solve_inner(
            inner,
            x,
            before,
            state.s.copy(),
            *barriers,
            inner_steps(len(x)),
            tolerance,
            min_tolerance,
            goal,
        )
        state.n_pairs += n_done
        change = x - before
        moved = np.flatnonzero(change != 0)
        state.x[state.rows] = x
        return moved, (sign * change)[moved]


def fill_kernel_values(
    problem: ShardedQP, ids: Indices, others: Indices, out: NDArray[Any]
) -> None:
    """Write kernel values of remembered points with others to the beginning of the rows of `out`."""
    points, kernel = problem.remembered.points, problem.shards.kernel
    origin = problem.gram.kernel.origin_of_points  # type: ignore[attr-defined]
    fill_values(kernel, points[ids], points[others], origin, out)


def known_gradient(problem: ShardedQP, state: ShardedState, rows: Indices) -> Vector:
    """Return the signed gradient of points that the shards just named as violators."""
    s = np.zeros(len(rows))
    for k, found in enumerate(state.found):
        for local, values in ((found.up, found.s_up), (found.down, found.s_down)):
            index = problem.shards.layout.index(k, local)
            at = np.searchsorted(rows, index)
            at[at == len(rows)] = 0
            hit = rows[at] == index
            s[at[hit]] = values[hit]
    return s
