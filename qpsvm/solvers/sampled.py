"""Frank-Wolfe on a sample: steps whose cost does not grow with the number of points.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x on the simplex or a product of simplices.

Frandi et al., section 4.3: instead of the vertex with the least gradient over all m points, take the
best of a few drawn at random (59 draws hold one of the best 5 per cent with probability 0.95) and of
the support. The gradient is then needed on the support and on the draws alone: a step costs one
small kernel block. If no draw descends, up to seven further samples are drawn. Then the loop looks
at all points: the answer is certified, or the worst of them is the next vertex.

Without that confirmation the paper's own stop is left: the gap as the last samples saw it is within
the tolerance. It may be far below the true one, so that the answer comes back as not optimal.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import SimplexProduct
from qpsvm.forms import QP, Bounds
from qpsvm.solvers.base import Reply, Stop

REDRAWS = 7
CONFIRMED, ALONE = 5000, 100  # steps between two checks: those that confirm look at all points


@dataclass
class SampledState:
    """A point by its core, the vertices met so far; the arrays are in the order of `core`."""

    problem: QP
    rng: np.random.Generator
    core: NDArray[np.int64]
    weight: NDArray[np.float64]  # x on the core, possibly 0
    gradient: NDArray[np.float64]  # f = (G + D)x + c on the core
    room: NDArray[np.float64]  # G + D over the core in its leading block
    extra: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    # vertices that the last look at all points found best; they join the next draws
    counters: Counter[str] = field(default_factory=Counter)
    full: NDArray[np.float64] | None = None  # G x over all points, until x moves
    seen: deque[float] = field(default_factory=lambda: deque(maxlen=1 + REDRAWS))
    # Frank-Wolfe gap over the core and the draws, as the last samples saw it

    @property
    def x(self) -> NDArray[np.float64]:
        """The point over all coordinates."""
        x = np.zeros(self.problem.m)
        x[self.core] = self.weight
        return x

    @property
    def product(self) -> NDArray[np.float64]:
        """G x over all points, evaluated when the loop looks."""
        if self.full is None:
            self.full = self.problem.gram.product(self.x)
            self.counters["scan"] += 1
        return self.full

    @property
    def bounds(self) -> Bounds:
        """The value, and the gap that the last samples saw: smaller than the true one."""
        linear = self.problem.linear[self.core]
        upper = 0.5 * float(self.weight @ (self.gradient + linear)) + self.problem.constant
        gap = max(self.seen) if self.seen else np.inf
        return Bounds(upper, upper - gap, gap, np.empty(0))


def start(problem: QP, x: NDArray[np.float64], rng: np.random.Generator) -> SampledState:
    """Return the state at x."""
    core = np.flatnonzero(x)
    room = signed_block(problem, core, core)
    gradient = room @ x[core] + problem.linear[core]
    return SampledState(problem, rng, core, x[core], gradient, room)


def refresh(state: SampledState, product: NDArray[np.float64]) -> None:
    """Take over a fresh G x: correct the gradient, and remember the best vertices of all points."""
    problem, domain = state.problem, state.problem.domain
    assert isinstance(domain, SimplexProduct)
    f = product + problem.gram.ridge * state.x + problem.linear
    state.full = product
    state.gradient = f[state.core]
    state.extra = np.array([of[np.argmin(f[of])] for of in domain.members])


def advance(state: SampledState, n_steps: int, size: int, away_steps: bool) -> Reply:
    """Make toward and away steps; stalled when no sample shows a way down."""
    for step in range(n_steps):
        if not _step(state, size, away_steps):
            return Reply(step, Stop.STALLED)
        if not np.isfinite(state.gradient).all():
            return Reply(step, Stop.NUMERICAL)
    return Reply(n_steps, Stop.BUDGET)


def _step(state: SampledState, size: int, away_steps: bool) -> bool:
    """Make one step in place; return False where neither draws nor core descend."""
    domain, f, n = state.problem.domain, state.gradient, len(state.core)
    assert isinstance(domain, SimplexProduct)
    value = float(state.weight @ f)
    group = domain.group[state.core]
    active = np.where(state.weight > 0.0, f, -np.inf)
    high = _best(-active, group, domain.n_groups)
    away = float(f[high].sum()) - value
    for attempt in range(1 + REDRAWS):
        drawn = _draw(state, size)
        rows = signed_block(state.problem, drawn, state.core)
        f_every = np.concatenate([f, rows @ state.weight + state.problem.linear[drawn]])
        low = _best(f_every, np.concatenate([group, domain.group[drawn]]), domain.n_groups)
        toward = value - float(f_every[low].sum())
        state.seen.append(max(toward, 0.0))
        if toward > 0.0 or (away_steps and away > 0.0):
            break
        state.counters["redraw"] += attempt < REDRAWS
    else:
        return False
    state.extra = state.extra[:0]
    if away_steps and away > toward:
        return _away(state, high)
    for k, at in enumerate(low):
        if at >= n:
            low[k] = _enter(state, int(drawn[at - n]))
    return _toward(state, low)


def _best(f: NDArray[np.float64], group: NDArray[np.int64], n_groups: int) -> list[int]:
    """Return the position of the least value in each group."""
    members = [np.flatnonzero(group == g) for g in range(n_groups)]
    return [int(of[np.argmin(f[of])]) for of in members]


def _draw(state: SampledState, size: int) -> NDArray[np.int64]:
    """Return points outside the core, an equal share of each simplex, and the extra ones."""
    domain = state.problem.domain
    assert isinstance(domain, SimplexProduct)
    share = -(-size // domain.n_groups)
    parts = [of[state.rng.integers(len(of), size=share)] for of in domain.members]
    drawn = np.unique(np.concatenate([*parts, state.extra]))
    return drawn[~np.isin(drawn, state.core)]


def signed_block(
    problem: QP, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return (G + D)[rows, columns] afresh in float64."""
    gram = problem.gram
    if len(rows) == 0:
        return np.zeros((0, len(columns)))
    block = gram.scale * (gram.kernel.block(rows, columns, np.float64) + gram.shift)
    block *= gram.sign[rows][:, None] * gram.sign[columns]
    i, j = np.nonzero(rows[:, None] == columns)
    block[i, j] += gram.ridge[rows[i]]
    return np.asarray(block)


def _enter(state: SampledState, i: int) -> int:
    """Add vertex i to the core with weight 0; return its position."""
    n = len(state.core)
    if n == len(state.room):
        grown = np.zeros((2 * n + 32, 2 * n + 32))
        grown[:n, :n] = state.room
        state.room = grown
    state.core = np.append(state.core, i)
    row = signed_block(state.problem, state.core[n:], state.core)[0]
    state.room[n, : n + 1] = state.room[: n + 1, n] = row
    state.gradient = np.append(state.gradient, row[:n] @ state.weight + state.problem.linear[i])
    state.weight = np.append(state.weight, 0.0)
    state.counters["entered"] += 1
    return n


def _toward(state: SampledState, low: list[int]) -> bool:
    """Step toward the vertex at the positions `low` of the core, by exact line search."""
    direction = -state.weight
    direction[low] += 1.0
    length = _line_search(state, direction, _vertex_product(state, low, 1.0), 1.0)
    state.counters["toward"] += length > 0.0
    return length > 0.0


def _away(state: SampledState, high: list[int]) -> bool:
    """Step away from the vertex at the positions `high`, at most until one of them is empty."""
    direction = state.weight.copy()
    direction[high] -= 1.0
    at = state.weight[high]
    caps = np.divide(at, 1.0 - at, out=np.full(len(at), np.inf), where=at < 1.0)
    cap = float(caps.min())
    length = _line_search(state, direction, _vertex_product(state, high, -1.0), cap)
    if length == cap:
        state.weight[np.array(high)[caps == cap]] = 0.0
    state.counters["drop" if length == cap else "away"] += length > 0.0
    return length > 0.0


def _vertex_product(state: SampledState, at: list[int], way: float) -> NDArray[np.float64]:
    """Return (G + D)(way (v - x)) over the core."""
    n = len(state.core)
    own = state.gradient - state.problem.linear[state.core]
    return way * (state.room[at, :n].sum(axis=0) - own)


def _line_search(
    state: SampledState,
    direction: NDArray[np.float64],
    moved: NDArray[np.float64],
    longest: float,
) -> float:
    """Move along the direction to the least value; return the step, 0 where there is none."""
    slope, curvature = -float(direction @ state.gradient), float(direction @ moved)
    if not slope > 0.0 or not curvature > 0.0:
        return 0.0
    length = min(slope / curvature, longest)
    state.weight = np.maximum(state.weight + length * direction, 0.0)
    state.gradient = state.gradient + length * moved
    state.full = None
    return length
