"""A core of coordinates with its own Gram matrix, and SMO over it: what the core methods share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import ApproximateProducts
from qpsvm.canonical.qp import QP
from qpsvm.clock import Expired
from qpsvm.gram.base import slices
from qpsvm.solvers.base import Reply, Solver
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set.gradient_error import GradientError
from qpsvm.solvers.working_set.gram_block import accumulate, extend, square
from qpsvm.solvers.working_set.inner_smo import Core, solve_inner

FAR_OFF = 4.0
"""Spread of the gradient over the core, relative to what the steps believed, that random roundings to 16
bits hardly explain: where these steps end the roundings' share is below two."""

ENOUGH = 0.1
"""Share of the spread that was asked for down to which steps that are blurred did enough: the next ones
begin with a gradient that is not, and move less."""


@dataclass
class CoreState:
    """A point of the domain, and the Gram matrix of the core."""

    pair: PairState  # the point, its signed gradient, what can move
    core: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # by entry
    block: NDArray[Any] | None = None  # K over the core, in units, in its leading part
    room: int = 1 << 40  # rows up to which the matrix grows ahead of need
    n_pairs: int = 0  # SMO steps
    coarse: bool = False  # whether the block was found to be so
    looked: float = np.inf  # the violation at which the bounds were last worth a look
    extremes: Any = None  # least s that can grow and greatest that can shrink, where known
    unit: float = field(init=False)  # below 1 where the block holds 16 bits
    inside: NDArray[np.bool_] = field(init=False)  # whether a coordinate is in the core
    drift: GradientError = field(init=False)  # what `product` may have lost since it was set

    def __post_init__(self) -> None:
        """Start with an empty core."""
        store = self.pair.problem.store
        self.unit = 1.0 if store is None else store.unit
        self.inside = np.zeros(len(self.pair.x), bool)
        self.settle(self.pair.problem.entry_roundoff(self.x))

    def settle(self, error: float | NDArray[np.float64]) -> None:
        """Note a bound on the error of the product that was just set."""
        self.extremes = None
        self.drift = GradientError(error, np.zeros(len(self.x)))

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
        """Size of the core, SMO steps, bytes of the core's matrix."""
        n_bytes = 0 if self.block is None else self.block.nbytes
        return {"core": len(self.core), "pair": self.n_pairs, "matrix_bytes": n_bytes}


class OnCore(Solver):
    """A method that works on a core; an iteration solves over the core, and may be given up."""

    is_abandonable: ClassVar[bool] = True

    @abstractmethod
    def iterate(self, problem: QP, state: CoreState) -> Reply:
        """Let coordinates enter and solve over the core."""

    def advance(self, problem: QP, state: CoreState, n_steps: int) -> Reply:
        """Make one iteration; at a limit go back to the point at which it began."""
        pair = state.pair
        x, s = pair.x.copy(), pair.s.copy()
        try:
            return self.iterate(problem, state)
        except Expired:
            pair.x[:], pair.s[:] = x, s
            raise

    def refresh(self, problem: QP, state: CoreState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x."""
        state.pair.set_product(product)
        state.settle(problem.entry_roundoff(state.x))

    def refresh_partly(self, problem: QP, state: CoreState, held: ApproximateProducts) -> None:
        """Take over what is known of G x."""
        state.pair.set_product(held.product)
        state.settle(held.error)

    def approximate_products(self, problem: QP, state: CoreState) -> ApproximateProducts | None:
        """Return the product with a bound on the error of each entry, where the columns have one."""
        return state.drift.approximate_products(problem, state.x, state.product)


def enter(problem: QP, state: CoreState, new: NDArray[np.int64], hold: bool | None = None) -> None:
    """Add coordinates to the core, and their rows and columns to the core's Gram matrix.

    With `hold` theirs over all points are held from now on; otherwise only what the core's matrix needs
    is evaluated, for many of them may keep their weights. None: held where columns always are.
    """
    store = problem.store
    assert store is not None
    hold = store.break_even_reuse_count < 0 if hold is None else hold
    for at in slices(len(new), store.n_slots):
        part = new[at]
        if hold:
            store.ensure(part)
        n, total = len(state.core), len(state.core) + len(part)
        if state.block is None or total > len(state.block):
            kind = np.uint16 if state.unit < 1.0 else store.store.dtype
            grown = square(min(problem.m, max(64, total, min(2 * total, state.room))), kind)
            if state.block is not None:
                grown[:n, :n] = state.block[:n, :n]
            state.block = grown
        state.core = np.concatenate([state.core, part])
        state.inside[part] = True
        extend(state.block, store, part, state.core)


def solve_core(
    problem: QP,
    state: CoreState,
    spread: float,
    least: float = np.inf,
    goal: float = 0.0,
    shed: Callable[[], None] | None = None,
) -> bool:
    """Solve over the core by SMO from the current weights; return whether anything moved.

    Until the signed gradient spreads by no more than `spread`, and on down to `least` while the gap of
    the problem over the core, the other weights fixed, is above `goal`. Between the two `shed` may let
    coordinates leave: the many steps to come are then over fewer.
    """
    pair, core, ridge = state.pair, state.core, problem.gram.ridge
    begun, s = pair.x[core], pair.s[core]
    if shed is not None:
        _solve(problem, state, spread, np.inf, 0.0, follow=True)
        shed()
    left = _solve(problem, state, spread, least, goal)
    pair.s[core] = s
    change = pair.x[core] - begun
    changed = np.flatnonzero(change != 0)
    state.drift.moved += float(np.sum(np.abs(change)))
    _follow(problem, state, core[changed], change[changed])
    pair.s[core] += pair.z[core] * ridge[core] * change
    if state.unit < 1.0:
        now = state.core
        moves = pair.grow.take(now, axis=1), pair.shrink.take(now, axis=1)
        low, high = extremes(pair.s[now], *moves)
        state.coarse = bool(np.max(high - low) > FAR_OFF * max(left, ENOUGH * spread))
    return len(changed) > 0


def solve_weights(problem: QP, state: CoreState, spread: float) -> None:
    """Solve over the core until the gradient spreads by `spread`; over the other points it is left."""
    _solve(problem, state, spread, np.inf, 0.0, follow=True)


def _solve(
    problem: QP, state: CoreState, spread: float, least: float, goal: float, follow: bool = False
) -> float:
    """Make the steps over the core; return by how much its gradient spreads then.

    With `follow` the gradient over the core is brought up to date, as far as the core's matrix tells.
    Where 16 bits are too few for this matrix it is made anew in the precision of columns, for good: at
    once if the steps end blurred and did not do enough, and before the next ones if the gradient shows
    these far off.
    """
    gram, store, pair, core = problem.gram, problem.store, state.pair, state.core
    assert store is not None
    if state.coarse:
        _refine(problem, state)
    x, z, ridge = pair.x[core], pair.z[core], gram.ridge[core]
    own = gram.scale * (store.diag[core] + gram.shift) + ridge
    side = (z * gram.sign[core]).astype(store.store.dtype)
    numbers = own, side, ridge, z, pair.upper[core], float(gram.shift), float(gram.scale)
    moves = pair.grow.take(core, axis=1), pair.shrink.take(core, axis=1)
    limits: Any = (_inner_steps(len(core)), spread, least, goal)
    begun, blurred = x.copy(), True
    while blurred:
        inner = Core(_matrix(state), *numbers, state.unit)
        done, left, blurred = solve_inner(inner, x, begun, pair.s[core], *moves, *limits)
        state.n_pairs += done
        blurred = blurred and left > ENOUGH * spread
        if blurred:
            _refine(problem, state)
    if follow:
        s = pair.s[core]
        solve_inner(inner, x, begun, s, *moves, 0, *limits[1:])  # no steps
        pair.s[core] = s
    pair.x[core] = x
    for g in range(len(pair.grow)):  # one after the other: half the time
        pair.grow[g][core], pair.shrink[g][core] = moves[0][g], moves[1][g]
    return float(left)


def extremes(s: Any, grow: Any, shrink: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least s that can grow and the greatest that can shrink, of each group."""
    return np.min(s + grow, axis=1), np.max(s - shrink, axis=1)


def _follow(
    problem: QP, state: CoreState, moved: NDArray[np.int64], change: NDArray[np.float64]
) -> None:
    """Let the gradient of all points follow a change of weights, but for the ridge.

    A weight that came to a bound will seldom change again: its column is read once, and not held
    where reading is all that it would be held for.
    """
    gram, store, pair = problem.gram, problem.store, state.pair
    assert store is not None
    resting = (pair.x[moved] <= 0) | (pair.x[moved] >= pair.upper[moved])
    once = store.passing(moved, ~resting)
    if once.any():
        weights = (change * gram.sign[moved])[once]
        total = pair.room
        total[:] = gram.shift * float(np.sum(weights))
        state.drift.note(store, moved[once], weights, held=False)
        store.add(moved[once], weights, total, size=state.drift.size)
        total *= pair.z
        total *= gram.sign
        if gram.scale != 1.0:
            total *= gram.scale
        pair.s += total
    rested, moved, change = moved[resting], moved[~once], change[~once]
    factors = store.relative_error
    for at in slices(len(moved), store.n_slots):  # none where all were read and not held
        store.ensure(moved[at])
        state.drift.note(store, moved[at], change[at], held=True)
        sizes = () if factors is None else (factors.columns(moved[at]), state.drift.size)
        accumulate(problem.columns(), moved[at], change[at], pair.z, pair.s, *sizes)
    store.release(rested)


def _matrix(state: CoreState) -> NDArray[Any]:
    """Return the rows of the core's matrix for compiled code, which must not write to them."""
    assert state.block is not None
    block = state.block[: len(state.core)]
    block.flags.writeable = False
    return block


def _refine(problem: QP, state: CoreState) -> None:
    """Make the core's matrix anew in the precision of columns."""
    core, state.core = state.core, state.core[:0]
    state.unit, state.block, state.coarse = 1.0, None, False
    enter(problem, state, core)


def _inner_steps(n: int) -> int:
    """Return the most inner steps of one iteration: enough for n coordinates, about 0.2 s at most."""
    return max(1000, min(10_000 + 20 * n, 200_000_000 // n))
