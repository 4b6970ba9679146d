"""Re-optimization over a growing core: core vector machine, fully corrective FW, decomposition.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x over a simplex, a product of simplices, or a box with a
hyperplane. Each iteration adds the coordinates that violate optimality most to the core, solves the
problem over the core alone, warm started, by second-order SMO on the core's own small Gram matrix,
and then updates the gradient of all points in one pass over the columns that changed.

- ``cvm``: Frandi et al., Algorithm 1 (Badoiu and Clarkson's, as Tsang, Kwok and Cheung's core vector
  machine uses it): one point enters; starts from a small random ball.
- ``fcfw``: fully corrective Frank-Wolfe: one vertex enters, the core is solved to a hundredth of the
  violation at which it entered.
- ``decomposition``: working-set decomposition (Joachims; Wen et al.'s ThunderSVM): hundreds of
  columns enter at once, computed in one BLAS block, balanced over the directions of violation (a
  one-sided choice oscillates).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.forms import EPS, QP
from qpsvm.gram.columns import Columns
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.frank_wolfe import FrankWolfe
from qpsvm.solvers.passes import accumulate, extend
from qpsvm.solvers.smo import PairState, pairs
from qpsvm.solvers.starts import corner, random_ball, two_points


def _inner_steps(n: int) -> int:
    """Return the most inner steps of one iteration: enough for n coordinates, about 0.2 s at most."""
    return max(1000, min(10_000 + 20 * n, 200_000_000 // n))


@dataclass(frozen=True)
class CoreSet(Solver):
    """Re-optimize over a core that grows in each iteration.

    Parameters
    ----------
    entering : int
        Most coordinates that enter the core in one iteration.
    inner_tol : float
        Spread of the gradient over the core at which it counts as solved, relative to the violation
        over all points at which the iteration began.
    start : {"two-point", "ball"}
        As in ``fw``, for simplices; a box starts at 0.
    start_size : int
        Points of the random ball; the paper uses 20.
    """

    entering: int = 1
    inner_tol: float = 0.1
    start: str = "two-point"
    start_size: int = 20

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct, BoxHyperplane, CappedSimplex)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("entering", self.entering, low=1, integer=True)
        check_number("inner_tol", self.inner_tol, low=0.0, high=1.0, open_low=True)
        check_choice("start", self.start, ("two-point", "ball"))
        check_number("start_size", self.start_size, low=2, integer=True)

    def fits(self, problem: QP) -> bool:
        """Return whether the domain suits: a single vertex can enter only on simplices."""
        return super().fits(problem) and (
            self.entering > 1 or isinstance(problem.domain, SimplexProduct)
        )

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> CoreState:
        """Return the state with the support of the starting point as its core."""
        if x0 is not None:
            x = problem.domain.repair(x0)
        elif not isinstance(problem.domain, SimplexProduct):
            x = corner(problem)
        elif self.start == "ball":
            x = random_ball(problem, self.start_size, FrankWolfe(rule="away"), rng)
        else:
            x = two_points(problem)
        state = CoreState(PairState.at(problem, x))
        _enter(problem, state, np.flatnonzero(x))
        return state

    def advance(self, problem: QP, state: CoreState, n_steps: int) -> Reply:
        """Let violators enter the core and solve over the core; one iteration a call."""
        pair = state.pair
        low = [np.min(pair.s + bar) for bar in pair.grow]
        high = [np.max(pair.s - bar) for bar in pair.shrink]
        violation = max(b - a for a, b in zip(low, high, strict=True))
        if np.isnan(violation):
            return Reply(0, Stop.NUMERICAL)
        if self.entering > 1:
            _leave(state, low, high)
        share = -(-self.entering // len(low))
        new = [_violators(state, g, low[g], high[g], share) for g in range(len(low))]
        _enter(problem, state, np.unique(np.concatenate(new)))
        if len(state.core) == 0:  # nothing violates: the box's corner 0 is optimal
            return Reply(0, Stop.STALLED)
        noise = 4.0 * EPS * float(np.max(np.abs(pair.s)))
        moved = _solve_core(problem, state, max(self.inner_tol * violation, noise))
        return Reply(1, Stop.BUDGET if moved else Stop.STALLED)

    def refresh(self, problem: QP, state: CoreState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x."""
        state.pair.set_product(product)

    def period(self, problem: QP) -> int:
        """Return a short period: an iteration solves a whole reduced problem."""
        return 16 if self.entering < 16 else 1

    def default_max_iter(self, problem: QP) -> int:
        """Return a budget in which every coordinate could enter twice."""
        return 500 + 2 * problem.m // self.entering


@dataclass
class CoreState:
    """A point of the domain, and the Gram matrix of the core."""

    pair: PairState  # the point, its signed gradient, what can move
    core: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # by entry
    block: NDArray[np.floating] | None = None  # K over the core, in its leading part
    n_pairs: int = 0  # inner SMO steps
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
        """Size of the core and inner steps."""
        return {"core": len(self.core), "pair": self.n_pairs}


def _violators(state: CoreState, g: int, low: float, high: float, share: int) -> NDArray[np.int64]:
    """Return at most `share` coordinates of group g outside the core, half for each direction.

    Those with the least s that can grow, and those with the greatest s that can shrink; on a
    simplex nothing outside the core can shrink, and all of them can grow.
    """
    pair = state.pair
    up = np.where(state.inside, np.inf, pair.s + pair.grow[g])
    down = np.where(state.inside, np.inf, pair.shrink[g] - pair.s)
    two_sided = bool(np.isfinite(down).any())
    half = -(-share // 2) if two_sided else share
    chosen = [_smallest(up, half, high)]
    if two_sided:
        chosen.append(_smallest(down, half, -low))
    return np.concatenate(chosen)


def _smallest(values: NDArray[np.float64], count: int, below: float) -> NDArray[np.int64]:
    """Return the indices of the `count` smallest values below a bound."""
    candidates = np.flatnonzero(values < below)
    if len(candidates) > count:
        candidates = candidates[np.argpartition(values[candidates], count - 1)[:count]]
    return candidates


def _leave(state: CoreState, low: list[float], high: list[float]) -> None:
    """Shrink the core: coordinates at a bound that no pair wants leave, once they are many.

    Their columns stay held, so that one that violates again comes back for a gather.
    """
    pair, core = state.pair, state.core
    s = pair.s[core]
    wanted = np.zeros(len(core), bool)
    for g in range(len(low)):
        free = (pair.grow[g, core] == 0) & (pair.shrink[g, core] == 0)
        wanted |= free | (s + pair.grow[g, core] < high[g]) | (s - pair.shrink[g, core] > low[g])
    keep = np.flatnonzero(wanted)
    if len(core) - len(keep) < max(256, len(core) // 4) or state.block is None:
        return
    state.inside[core[~wanted]] = False
    state.core = core[keep]
    compact = np.empty((2 * len(keep) + 1024,) * 2, state.block.dtype)
    compact[: len(keep), : len(keep)] = state.block[np.ix_(keep, keep)]
    state.block = compact


def _enter(problem: QP, state: CoreState, new: NDArray[np.int64]) -> None:
    """Add coordinates to the core, and their rows and columns to the core's Gram matrix."""
    store = problem.store
    assert store is not None
    for part in np.array_split(new, -(-len(new) // store.n_slots)) if len(new) else []:
        store.ensure(part)
        n, total = len(state.core), len(state.core) + len(part)
        if state.block is None or total > len(state.block):
            grown = np.empty((max(64, 2 * n, total),) * 2, store.store.dtype)
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
    x, s = pair.x[core], pair.s[core]
    grow, shrink = (
        np.ascontiguousarray(pair.grow[:, core]),
        np.ascontiguousarray(pair.shrink[:, core]),
    )
    missing = np.empty(2, np.int64)
    z, upper = pair.z[core], pair.upper[core]
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
