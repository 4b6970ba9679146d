"""Core vector machine and fully corrective Frank-Wolfe: exact re-optimization over a growing core.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x, x in a product of simplices. Each iteration adds the
vertex with the least gradient to the core set and solves the problem over the core anew, warm
started, by our own SMO.

- ``cvm``: Frandi et al., Algorithm 1 (Badoiu and Clarkson's, as Tsang, Kwok and Cheung's core vector
  machine uses it): starts from a small random ball, solves the reduced problem to a moderate gap.
- ``fcfw``: fully corrective Frank-Wolfe: starts from two points, solves the reduced problem to a
  thousandth of the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.forms import QP
from qpsvm.gram.columns import Columns
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.frank_wolfe import random_ball, two_points
from qpsvm.solvers.smo import pairs


@dataclass(frozen=True)
class CoreSet(Solver):
    """Re-optimize over a core set that grows by one vertex an iteration.

    Parameters
    ----------
    inner_tol : float
        Spread of the gradient over the support at which the reduced problem counts as solved,
        relative to the Frank-Wolfe gap at which the new vertex was found.
    start : {"two-point", "ball"}
        As in ``fw``.
    start_size : int
        Points of the random ball; the paper uses 20.
    """

    inner_tol: float = 0.1
    start: str = "ball"
    start_size: int = 20

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("inner_tol", self.inner_tol, low=0.0, high=1.0, open_low=True)
        check_choice("start", self.start, ("two-point", "ball"))
        check_number("start_size", self.start_size, low=2, integer=True)

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> CoreSetState:
        """Return the state with the support of the starting point as its core."""
        if x0 is not None:
            x = problem.domain.repair(x0)
        elif self.start == "ball":
            x = random_ball(problem, self.start_size, rng)
        else:
            x = two_points(problem)
        state = CoreSetState(x, problem.gram.product(x))
        for i in np.flatnonzero(x):
            _enter(problem, state, int(i))
        return state

    def advance(self, problem: QP, state: CoreSetState, n_steps: int) -> Reply:
        """Add one vertex to the core and solve over the core."""
        domain = problem.domain
        assert isinstance(domain, SimplexProduct)
        f = state.product + problem.gram.ridge * state.x + problem.linear
        low = [int(of[np.argmin(f[of])]) for of in domain.members]
        gap = float(state.x @ f - f[low].sum())
        if not np.isfinite(gap):
            return Reply(0, Stop.NUMERICAL)
        for i in low:
            if state.place[i] < 0:
                _enter(problem, state, i)
        moved = _solve_core(problem, state, self.inner_tol * max(gap, 0.0))
        return Reply(1, Stop.BUDGET if moved else Stop.STALLED)

    def refresh(self, problem: QP, state: CoreSetState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x."""
        state.product[:] = product

    def period(self, problem: QP) -> int:
        """Return a short period: an iteration solves a whole reduced problem."""
        return 16


@dataclass
class CoreSetState:
    """A point of the domain with its product, and the Gram of the core."""

    x: NDArray[np.float64]  # weights
    product: NDArray[np.float64]  # G x, without the ridge
    core: list[int] = field(default_factory=list)  # indices of the core, in order of entry
    block: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))  # K over the core
    n_pairs: int = 0  # inner SMO steps
    place: NDArray[np.int64] = field(init=False)  # position in the core, or -1

    def __post_init__(self) -> None:
        """Start with an empty core."""
        self.place = np.full(len(self.x), -1, np.int64)

    @property
    def counters(self) -> dict[str, int]:
        """Size of the core and inner steps."""
        return {"core": len(self.core), "pair": self.n_pairs}


def _enter(problem: QP, state: CoreSetState, i: int) -> None:
    """Add a point to the core and its row and column to the core's Gram."""
    store = problem.store
    assert store is not None
    store.ensure(np.array([i]))
    n = len(state.core)
    if n == len(state.block):
        grown = np.zeros((max(32, 2 * n), max(32, 2 * n)), store.store.dtype)
        grown[:n, :n] = state.block
        state.block = grown
    state.place[i] = n
    state.core.append(i)
    row = store.store[store.slot[i], state.core]
    row[n] = store.diag[i]
    state.block[n, : n + 1] = row
    state.block[: n + 1, n] = row


def _solve_core(problem: QP, state: CoreSetState, spread: float) -> bool:
    """Solve over the core by SMO from the current weights; return whether anything moved."""
    domain, gram, store = problem.domain, problem.gram, problem.store
    assert isinstance(domain, SimplexProduct) and store is not None
    core = np.array(state.core)
    n = len(core)
    block = np.ascontiguousarray(state.block[:n, :n])
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
    x, product = state.x[core], state.product[core]
    before = x.copy()
    missing = np.empty(2, np.int64)
    done, _ = pairs(
        cols,
        domain.group[core],
        domain.n_groups,
        np.ones(n),
        np.full(n, np.inf),
        problem.linear[core],
        x,
        product,
        1000 * n,
        spread,
        missing,
    )
    state.n_pairs += done
    changed = np.flatnonzero(x != before)
    state.x[core] = x
    for part in np.array_split(changed, max(1, -(-len(changed) // 64))):
        if len(part):
            store.ensure(core[part])
            _add_columns(problem, state, core[part], (x - before)[part])
    return len(changed) > 0


def _add_columns(
    problem: QP, state: CoreSetState, indices: NDArray[np.int64], weights: NDArray[np.float64]
) -> None:
    """Add G[:, indices] weights to the product, from held columns."""
    gram, store = problem.gram, problem.store
    assert store is not None
    signed = weights * gram.sign[indices]
    rows = store.store[store.slot[indices]]
    # the diagonal of a step formula comes from `diag`, rounded as the store is
    total = signed @ rows if rows.dtype == np.float64 else signed @ rows.astype(np.float64)
    total += gram.shift * float(signed.sum())
    state.product += gram.scale * gram.sign * total
