"""Working-set decomposition: hundreds of columns enter at once, SMO on the core in cache.

Problem: minimize 1/2 x'(G + D)x + c'x over a simplex, a product of simplices, or a box with a
hyperplane. Each iteration

1. lets the coordinates leave the core that no step wants, and those enter that violate optimality
   most, balanced over the directions of violation (a one-sided choice oscillates); their kernel
   columns are evaluated in one BLAS block and stay held, whoever leaves;
2. solves over the core by second-order SMO, on the core's own Gram matrix, which is small;
3. updates the gradient of all points in one pass over the columns that changed.

Sources: Joachims, "Making large-scale SVM learning practical" (1999); Wen et al., "ThunderSVM"
(2018).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane, Domain, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.forms import EPS, QP
from qpsvm.gram.columns import Columns
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.passes import accumulate, compact, extend
from qpsvm.solvers.smo import PairState, pairs
from qpsvm.solvers.starts import two_points

NARROW = 2000
"""Points from which the steps use columns in float32."""


@dataclass(frozen=True)
class Decomposition(Solver):
    """Solve over a core of the coordinates that matter now.

    Parameters
    ----------
    entering : int
        Most coordinates that enter the core in one iteration.
    largest : int
        Coordinates of the core beyond which those leave that are nearest to optimal.
    inner_tol : float
        Spread of the gradient over the core at which it counts as solved, relative to the violation
        over all points at which the iteration began.
    """

    entering: int = 512
    largest: int = 4096
    inner_tol: float = 0.1

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct, BoxHyperplane)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("entering", self.entering, low=2, integer=True)
        check_number("largest", self.largest, low=2, integer=True)
        check_number("inner_tol", self.inner_tol, low=0.0, high=1.0, open_low=True)

    def narrow(self, problem: QP) -> bool:
        """Return whether the columns are many: float32 halves their time and memory."""
        return problem.m >= NARROW

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> CoreState:
        """Return the state with the support of the starting point as its core."""
        if x0 is not None:
            x = problem.domain.repair(x0)
        elif isinstance(problem.domain, SimplexProduct):
            x = two_points(problem)
        else:
            x = np.zeros(problem.m)
        state = CoreState(PairState.at(problem, x))
        support = np.flatnonzero(x)
        _enter(problem, state, support[: self.largest])
        return state

    def advance(self, problem: QP, state: CoreState, n_steps: int) -> Reply:
        """Let violators enter the core and solve over the core; one iteration a call."""
        pair = state.pair
        low, high = _extremes(pair.s, pair.grow, pair.shrink)
        violation = float(np.max(high - low))
        if np.isnan(violation):
            return Reply(0, Stop.NUMERICAL)
        _leave(state, low, high, self.largest)
        outside = np.flatnonzero(~state.inside)
        if len(outside):
            _enter(problem, state, outside[_worst(pair, outside, low, high, self.entering)])
        if len(state.core) == 0:  # nothing violates: the box's corner 0 is optimal
            return Reply(0, Stop.STALLED)
        noise = 4.0 * EPS * float(np.max(np.abs(pair.s)))
        moved = _solve_core(problem, state, max(self.inner_tol * violation, noise))
        return Reply(1, Stop.BUDGET if moved else Stop.STALLED)

    def refresh(self, problem: QP, state: CoreState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x."""
        state.pair.set_product(product)

    def period(self, problem: QP) -> int:
        """Return 1: an iteration solves a whole reduced problem."""
        return 1

    def default_max_iter(self, problem: QP) -> int:
        """Return a budget in which every coordinate could enter twice."""
        return 500 + 2 * problem.m // self.entering


@dataclass
class CoreState:
    """A point of the domain, and the Gram matrix of the core."""

    pair: PairState  # the point, its signed gradient, what can move
    core: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # by entry
    block: NDArray[np.floating] | None = None  # K over the core, in its leading part
    n_pairs: int = 0  # SMO steps
    inside: NDArray[np.bool_] = field(init=False)  # whether a coordinate is in the core

    def __post_init__(self) -> None:
        """Start with an empty core."""
        self.inside = np.zeros(len(self.pair.x), bool)

    @property
    def x(self) -> NDArray[np.float64]:
        """The point."""
        return self.pair.x

    @property
    def product(self) -> NDArray[np.float64]:
        """G x."""
        return self.pair.product

    @property
    def counters(self) -> dict[str, int]:
        """Size of the core and SMO steps."""
        return {"core": len(self.core), "pair": self.n_pairs}


def _extremes(s: Any, grow: Any, shrink: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least s that can grow and the greatest that can shrink, of each group."""
    return np.min(s + grow, axis=1), np.max(s - shrink, axis=1)


def _worst(
    pair: PairState,
    among: NDArray[np.int64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    size: int,
) -> NDArray[np.int64]:
    """Return positions in `among` of at most `size` violators, about half for each direction.

    Those with the least s that can grow, and those with the greatest s that can shrink; where one
    side has few, the other has more. On a simplex nothing of weight zero can shrink.
    """
    n_groups = len(low)
    share = -(-size // n_groups)
    chosen = []
    for g in range(n_groups):
        s = pair.s[among]
        up, down = s + pair.grow[g, among], pair.shrink[g, among] - s
        n_up, n_down = np.count_nonzero(up < high[g]), np.count_nonzero(down < -low[g])
        half = max(share // 2, share - n_down)
        chosen.append(_smallest(up, half, high[g]))
        chosen.append(_smallest(down, max(share // 2, share - n_up), -low[g]))
    return np.unique(np.concatenate(chosen))


def _smallest(values: NDArray[np.float64], count: int, below: float) -> NDArray[np.int64]:
    """Return the indices of the `count` smallest values below a bound."""
    candidates = np.flatnonzero(values < below)
    if len(candidates) > count:
        candidates = candidates[np.argpartition(values[candidates], count - 1)[:count]]
    return candidates


def _leave(
    state: CoreState, low: NDArray[np.float64], high: NDArray[np.float64], largest: int
) -> None:
    """Let coordinates leave the core that are at a bound and that no pair wants, once they are many.

    In a core of more than `largest`, a quarter leaves: those whose pairs have least to gain. Columns
    stay held, so that a coordinate that violates again comes back for a gather.
    """
    pair, core = state.pair, state.core
    if state.block is None or not len(core):
        return
    s = pair.s[core]
    gain = np.full(len(core), -np.inf)
    free = np.zeros(len(core), bool)
    for g in range(len(low)):
        up, down = pair.grow[g, core], pair.shrink[g, core]
        free |= (up == 0) & (down == 0)
        gain = np.maximum(gain, np.maximum(high[g] - s - up, s - down - low[g]))
    wanted = free | (gain > 0)
    if np.count_nonzero(wanted) > largest:
        wanted[np.argpartition(gain, len(core) - 3 * largest // 4)[: -3 * largest // 4]] = False
    keep = np.flatnonzero(wanted)
    if len(core) - len(keep) < max(256, len(core) // 4):
        return
    state.inside[core[~wanted]] = False
    state.core = core[keep]
    compact(state.block, keep)


def _enter(problem: QP, state: CoreState, new: NDArray[np.int64]) -> None:
    """Add coordinates to the core, and their rows and columns to the core's Gram matrix."""
    store = problem.store
    assert store is not None
    for part in np.array_split(new, -(-len(new) // store.n_slots)) if len(new) else []:
        store.ensure(part)
        n, total = len(state.core), len(state.core) + len(part)
        if state.block is None or total > len(state.block):
            grown = np.empty((min(problem.m, max(64, 2 * total)),) * 2, store.store.dtype)
            if state.block is not None:
                grown[:n, :n] = state.block[:n, :n]
            state.block = grown
        state.core = np.concatenate([state.core, part])
        state.inside[part] = True
        extend(state.block, store.store, store.slot[part], state.core, store.diag[part])


def _solve_core(problem: QP, state: CoreState, spread: float) -> bool:
    """Solve over the core by SMO from the current weights; return whether anything moved."""
    gram, store, pair, core = problem.gram, problem.store, state.pair, state.core
    assert store is not None and state.block is not None
    n = len(core)
    block = state.block[:n]
    block.flags.writeable = False
    cols = Columns(
        block,
        np.arange(n),
        np.zeros(n, np.int64),
        np.zeros(1, np.int64),
        store.diag[core],
        gram.sign[core],
        gram.ridge[core],
        float(gram.shift),
        float(gram.scale),
    )
    x, s, z, upper = pair.x[core], pair.s[core], pair.z[core], pair.upper[core]
    grow = np.ascontiguousarray(pair.grow[:, core])
    shrink = np.ascontiguousarray(pair.shrink[:, core])
    missing = np.empty(2, np.int64)
    done, _ = pairs(cols, z, upper, x, s, grow, shrink, _inner_steps(n), spread, missing)
    state.n_pairs += done
    change = x - pair.x[core]
    changed = np.flatnonzero(change)
    pair.x[core], pair.grow[:, core], pair.shrink[:, core] = x, grow, shrink
    for part in np.array_split(changed, max(1, -(-len(changed) // store.n_slots))):
        store.ensure(core[part])
        accumulate(problem.columns(), core[part], change[part], pair.z, pair.s)
    pair.s[core] += z * gram.ridge[core] * change
    return len(changed) > 0


def _inner_steps(n: int) -> int:
    """Return the most inner steps of one iteration: enough for n coordinates, about 0.2 s at most."""
    return max(1000, min(10_000 + 20 * n, 200_000_000 // n))
