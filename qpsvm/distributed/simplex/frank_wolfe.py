"""Frank-Wolfe on simplices over shards: several local steps for each round trip.

The client knows the vertices with weight and the best ones that the shards offered. It makes the compiled
steps of one process among them (`qpsvm.solvers.frank_wolfe.simplex_steps`), until the gap over them is a
fraction of that over all points. With one step for each round trip these are the steps of one process:
the best vertex of all points is the best one of a shard.

With sampling, a round trip asks for the best of a few rows that the shards draw, and no shard updates its
gradient. After `SAMPLES_PER_STEP` successive samples whose gap is small, the shards add all moves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.sharded_qp import ShardedQP
from qpsvm.distributed.simplex.vertices import OnVertices, VertexState, first_state, is_news
from qpsvm.distributed.violators import members_of
from qpsvm.distributed.working_set import ShardedState
from qpsvm.errors import check_choice, check_number
from qpsvm.gram.column_store import Columns
from qpsvm.numerics.row_products import all_read_only
from qpsvm.numerics.work_sharing import TILE_POINTS, work_sharing_for
from qpsvm.solvers.base import BUDGET_CODE, STALLED_CODE, Reply, Stop, WithTargetGap
from qpsvm.solvers.frank_wolfe.simplex import FrankWolfe
from qpsvm.solvers.frank_wolfe.simplex_steps import simplex_steps
from qpsvm.solvers.frank_wolfe.step_rules import STEP_KINDS, STEP_RULES, VERTEX_STEP_RULES
from qpsvm.solvers.frank_wolfe.support import Support, step_scratch
from qpsvm.solvers.shared.gradient_pass import Points, find_tile_minima, move
from qpsvm.solvers.shared.sampling import SAMPLES_PER_STEP

Vector = NDArray[np.float64]

LOCAL_GAP_FRACTION = 0.1
"""Fraction of the gap over all points at which the local steps of a round trip end."""

LOCAL_STEPS_PER_VERTEX = 10
"""Maximum number of local steps of a round trip by default, for each known vertex."""

MIN_LOCAL_STEPS = 100
"""Number of local steps of a round trip that the default limit adds to those for each known vertex."""

STEPS_BETWEEN_GAPS = 16
"""Number of local steps between two evaluations of the gap over the known vertices."""

MAX_SAMPLES_PER_ITERATION = 256
"""Maximum number of samples before the shards add the moves to their gradients."""

SAME_RATIO_TOLERANCE = 1e-11
"""Maximum relative difference of a weight's factor from the common one that counts as rounding."""


@dataclass
class FrankWolfeShardedState(VertexState):
    """The known vertices, and the steps so far."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STEP_KINDS), np.int64))
    rng: Any = None  # of the samples
    n_samples: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind, samples, known vertices, bytes of their matrix."""
        steps = dict(zip(STEP_KINDS, map(int, self.counts), strict=True))
        own = {"samples": self.n_samples, "known": len(self.rows)}
        return steps | own | {"matrix_bytes": self.block.nbytes}

    def means(self, problem: ShardedQP) -> Vector:
        """Return the mean of the gradient on each simplex by weight.

        A step toward a vertex below it decreases the value.
        """
        weighted = self.x[self.rows] * self.s
        means = np.bincount(problem.groups(self.rows), weighted, problem.n_groups)
        return np.asarray(means, np.float64)


@dataclass(frozen=True)
class ShardedFrankWolfe(WithTargetGap, OnVertices):
    """Frank-Wolfe with a choice of step rule.

    Parameters
    ----------
    vertices_per_trip, start, start_size, max_vertices
        As in `OnVertices`.
    rule : {"toward", "away", "pairwise", "blended"}
        Step rule, as in one process.
    steps_per_trip : int, optional
        Maximum number of local steps for each round trip; 1 is the method of one process. By default it
        grows with the number of known vertices.
    sampling : int or None
        Number of points that all shards draw at random for a round trip, each in proportion to its
        points, 59 in the paper; for the rules ``"toward"`` and ``"away"``. Before it ends, and after each
        iteration of many samples, the gradient at all points is evaluated.
    target : float, optional
        Target relative gap, by default the tolerance of the solve: local steps go little further.
    """

    rule: str = "toward"
    steps_per_trip: int | None = None
    sampling: int | None = None

    def __post_init__(self) -> None:
        """Check the settings; a single step needs a single vertex."""
        WithTargetGap.__post_init__(self)
        OnVertices.__post_init__(self)
        check_choice("rule", self.rule, VERTEX_STEP_RULES)
        if self.steps_per_trip is not None:
            check_number("steps_per_trip", self.steps_per_trip, low=1, integer=True)
            fewest = min(self.vertices_per_trip, self.steps_per_trip)
            object.__setattr__(self, "vertices_per_trip", fewest)
        if self.sampling is not None:
            check_number("sampling", self.sampling, low=1, integer=True)
            check_choice("rule (with sampling)", self.rule, ("toward", "away"))

    def start_solver(self) -> FrankWolfe:
        """Return the solver of the problem over a few random points."""
        return FrankWolfe(rule="away")

    def default_max_iter(self, problem: ShardedQP) -> int:
        """Return a budget of round trips: that of one process where each makes a single step."""
        return super().default_max_iter(problem) if self.steps_per_trip else 500 + 2 * problem.m

    def init(self, problem: ShardedQP, x0: Vector | None, rng: Any) -> FrankWolfeShardedState:
        """Return the state at x0 or at the starting point of the settings."""
        x = self.starting_point(problem, x0, rng)
        state: FrankWolfeShardedState = first_state(FrankWolfeShardedState, x, np.float64)
        state.rng = rng
        self.begin(problem, state)
        return state

    def advance(self, problem: ShardedQP, state: FrankWolfeShardedState, n_steps: int) -> Reply:
        """Make the local steps of one round trip, or with sampling of many."""
        if np.isnan(state.violation):
            return Reply(0, Stop.NUMERICAL)
        if self.sampling is not None:
            return self._advance_on_samples(problem, state)
        # 1. Add the offered vertices toward which the value decreases, and make the local steps.
        before, code = self._move(problem, state, problem.known["running"].low)
        if code != BUDGET_CODE:
            return Reply(0, Stop(code))
        # 2. The shards update their gradients.
        moved = split_move(before, state.x[state.rows])
        state.x[state.rows] = moved.weights
        rows = state.rows[moved.at]
        sign = problem.coefficients(rows).sign
        self.scaled_step(problem, state, moved.keep, rows, sign * moved.moves)
        return Reply(1, Stop.NEWS if is_news(state) else Stop.BUDGET)

    def _move(
        self, problem: ShardedQP, state: FrankWolfeShardedState, least: Vector
    ) -> tuple[Vector, int]:
        """Make steps among the known vertices and those offered, whose least gradients are given.

        Return the weights before, and the code of the stop where no step was made.
        """
        means = state.means(problem)
        self.add_offered(problem, state, means)
        before = state.x[state.rows]
        gap = max(float(np.sum(means - least)), self._small_gap(problem, state))
        after, n_done, code = self._local_steps(problem, state, LOCAL_GAP_FRACTION * gap)
        state.x[state.rows] = after
        return before, BUDGET_CODE if n_done else code

    def _advance_on_samples(self, problem: ShardedQP, state: FrankWolfeShardedState) -> Reply:
        """Make steps on samples until these show no progress; then let the shards add the moves."""
        begun, n_small, code = state.x.copy(), 0, BUDGET_CODE
        for _ in range(MAX_SAMPLES_PER_ITERATION):
            least = least_of_groups(state.s, problem.groups(state.rows), problem.n_groups)
            least = np.min([least, *(found.low for found in state.found)], axis=0)
            gap = float(np.sum(state.means(problem) - least))
            n_small = n_small + 1 if gap <= self._small_gap(problem, state) else 0
            if n_small == SAMPLES_PER_STEP:
                break
            if gap > 0.0:
                _, code = self._move(problem, state, least)
                if code not in (BUDGET_CODE, STALLED_CODE):
                    break
            self._draw(problem, state)
        rows = np.flatnonzero(state.x != begun)  # forgotten vertices included
        moves = problem.coefficients(rows).sign * (state.x - begun)[rows]
        self.scaled_step(problem, state, 1.0, rows, moves)
        if code not in (BUDGET_CODE, STALLED_CODE):
            return Reply(1, Stop(code))
        return Reply(1, Stop.NEWS if len(rows) else Stop.STALLED)

    def _small_gap(self, problem: ShardedQP, state: FrankWolfeShardedState) -> float:
        """Return the gap at which a certificate is worth trying."""
        x, linear = state.x[state.rows], problem.linear[state.rows]
        value = 0.5 * float(x @ (state.s + linear)) + problem.constant
        return self.check_threshold * (self.target or 0.0) * abs(value)

    def _draw(self, problem: ShardedQP, state: FrankWolfeShardedState) -> None:
        """Let the shards draw rows in proportion to their number, and offer the best of them."""
        shards, layout = problem.shards, problem.shards.layout
        assert self.sampling is not None
        some = state.x[state.rows] > 0
        weights = problem.coefficients(state.rows).sign[some] * state.x[state.rows[some]]
        sizes = [sum(layout.points.sizes[c] for c in own) for own in layout.chunks]
        draws = [max(1, round(self.sampling * size / problem.m)) for size in sizes]
        seeds = state.rng.integers(1 << 62, size=shards.n)
        own = list(zip(seeds.tolist(), draws, strict=True))
        count, _ = self.n_offers(problem, state)
        sent = *problem.remembered.unsent(), state.ids[some], weights, count
        state.found = shards.call("sampled", *sent, each=own)
        state.n_samples += 1

    def _local_steps(
        self, problem: ShardedQP, state: FrankWolfeShardedState, goal: float
    ) -> tuple[Vector, int, int]:
        """Make steps among the known vertices, and update their gradients.

        Return their weights, the number of steps, and the code of the stop.
        """
        local = local_problem(problem, state)
        q, support = local.gradient, local.support
        n = len(q)
        limit = self.steps_per_trip or MIN_LOCAL_STEPS + LOCAL_STEPS_PER_VERTEX * n
        n_groups, group = problem.n_groups, problem.groups(state.rows)
        made, scratch = move(2 * n_groups + 2), step_scratch(n_groups)
        sharing = work_sharing_for(n, alone=True)
        arrays = STEP_RULES[self.rule], local.columns, local.points, q, support, local.keys, made
        n_done, code = 0, BUDGET_CODE
        while n_done < limit and code == BUDGET_CODE:
            wanted = min(STEPS_BETWEEN_GAPS, limit - n_done)
            n_made, code = simplex_steps(*arrays, wanted, scratch, state.counts, sharing)
            n_done += int(n_made)
            f, some = q + local.points.linear, slice(0, int(support.size[0]))
            mean = support.weight[some] @ f[support.at[some]]
            if mean - np.sum(least_of_groups(f, group, n_groups)) <= goal:
                break
        state.s = q + local.points.linear
        weights = np.zeros(n)
        weights[support.at[: support.size[0]]] = support.weight[: support.size[0]]
        return weights, n_done, int(code)


class LocalProblem(NamedTuple):
    """The problem over the known vertices, as compiled steps read and change it."""

    columns: Columns
    points: Points
    gradient: Vector  # (G + D)x
    support: Support
    keys: NDArray[np.int64]


def local_problem(problem: ShardedQP, state: ShardedState) -> LocalProblem:
    """Return the problem over the known vertices, with the gradients that the shards returned."""
    rows, n, gram = state.rows, len(state.rows), problem.gram
    sign, ridge, _ = problem.coefficients(rows)
    linear = problem.linear[rows]
    used = np.arange(n), np.zeros(n, np.int64), np.zeros(1, np.int64)
    block, diagonal = all_read_only(state.block[:n], problem.remembered.diagonal[state.ids])
    columns = Columns(
        block, *used, diagonal, sign, ridge * 1.0, float(gram.shift), float(gram.scale)
    )
    points = Points(
        side=sign.astype(np.int8),
        group=problem.groups(rows).astype(np.int8 if problem.n_groups < 128 else np.int32),
        linear=linear,
        plain=bool(np.all(sign > 0)),
        flat=bool(np.all(linear == linear[0])),
    )
    gradient, keys = state.s - linear, np.empty((problem.n_groups, -(-n // TILE_POINTS)), np.int64)
    find_tile_minima(points, gradient, keys)
    return LocalProblem(columns, points, gradient, support_of(state.x[rows], points.group), keys)


def support_of(x: Vector, group: NDArray[np.integer]) -> Support:
    """Return the support of weights on simplices."""
    n, positive = len(x), np.flatnonzero(x > 0)
    support = Support(
        at=np.empty(n, np.int64),
        weight=np.empty(n),
        mark=np.zeros(n, group.dtype),
        slope=np.empty(n),
        place=np.full(n, -1, np.int32),
        size=np.array([len(positive)]),
    )
    support.at[: len(positive)], support.weight[: len(positive)] = positive, x[positive]
    support.mark[: len(positive)] = group[positive]
    support.place[positive] = np.arange(len(positive))
    return support


def least_of_groups(values: Vector, group: NDArray[np.integer], n_groups: int) -> Vector:
    """Return the least value of each group, none of which is empty."""
    return np.array([np.min(values[of]) for of in members_of(group, n_groups)])


class SplitMove(NamedTuple):
    """A change of weights x as x = keep x + moves at a few places."""

    keep: float
    at: NDArray[np.int64]
    moves: Vector
    weights: Vector  # afterwards


def split_move(before: Vector, after: Vector) -> SplitMove:
    """Return a change of weights as a factor of all of them, and moves of as few as possible.

    A step toward a vertex, or away from one, multiplies the other weights by one factor. Those that have
    this factor up to rounding get it exactly. Where most weights moved by themselves, the factor is 1.
    """
    support = np.flatnonzero(before > 0)
    keep = float(np.median(after[support] / before[support]))
    scaled = np.abs(after - keep * before) <= SAME_RATIO_TOLERANCE * keep * before
    if 2 * np.count_nonzero(scaled[support]) < len(support):
        keep, scaled = 1.0, after == before
    weights = np.where(scaled, keep * before, after)
    at = np.flatnonzero(~scaled)
    return SplitMove(keep, at, weights[at] - keep * before[at], weights)
