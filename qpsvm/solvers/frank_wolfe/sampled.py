"""Frank-Wolfe on a sample: steps whose cost does not grow with the number of points.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x on the simplex or a product of simplices.

Frandi et al., section 5.2.3: instead of the vertex with the least gradient over all m points, a step
takes the best of a few draws (59 draws hold one of the best 5 per cent with probability 0.95) and of
the core, the vertices met so far. Samples are drawn some steps ahead. The core and some thousands of
drawn points are held: the product G x is maintained there, by the column of each vertex over them. A
step costs one pass over the points held, and a point that is drawn again costs nothing. A point that
is drawn for the first time costs its kernel values with the core, which are evaluated in blocks.

If no draw descends, up to seven further samples are drawn. Then, or once eight samples in a row have a
gap within the tolerance, the loop evaluates the gradient at all points: either the answer is certified,
or the worst points join the core.

Without that confirmation the paper's own stopping rule remains: the gap over the last samples is within
the tolerance. The true gap may be far larger, so that the answer is not reported as optimal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Bounds
from qpsvm.canonical.qp import QP
from qpsvm.domains import SimplexProduct
from qpsvm.gram.base import slices
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.frank_wolfe.sampled_steps import (
    CORE_POINT_MISSING,
    CORE_SIZE,
    DRAW_MISSING,
    DRAWS_USED,
    HELD_POINTS,
    SAMPLE_DRAWS,
    SAMPLED_STEP_KINDS,
    Numbers,
    Work,
    sampled_steps,
)
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING
from qpsvm.solvers.shared.sampling import SAMPLES_PER_STEP, Draws

SPACE_FOR_DRAWS = 4096
"""Number of points for which there is space besides the core, where memory lasts."""

DRAWS_AHEAD = 2048
"""Number of points drawn at once, for this and the following steps."""

FIRST_CORE_CAPACITY = 64
"""Least capacity of the core, in points."""

CHUNK_ENTRIES = 1 << 19
"""Number of kernel values that are evaluated at once."""

FEWEST_POINTS = 64
"""Minimum number of points whose kernel values are evaluated at once."""

CHUNK_ROWS = 64
"""Number of columns, rows of an array, whose entries are moved at once."""

VALUE_MISSING_CODES = (CORE_POINT_MISSING, COLUMN_MISSING, DRAW_MISSING)
"""Stop codes after which the steps go on once something was evaluated."""

OF_POINTS = ("points", "group", "sign", "linear", "ridge", "weight", "product", "column")
"""Arrays of `Work` with one entry for each point that is held."""


@dataclass
class SampledState:
    """A point of the domain by its core, with the product G x at the points that are held."""

    problem: QP
    draws: Draws
    numbers: Numbers
    work: Work
    owner: NDArray[np.int64]  # (n_columns,), the point of a column, or -1
    core_capacity: int = 0  # size of the core for which there is memory
    last_column: int = -1  # the row of `columns` that was filled last
    next_place: int = 0  # of the draw that is dropped next, once no place is free
    drawn: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    full: NDArray[np.float64] | None = None  # G x over all points, until x moves
    has_new_product: bool = False  # whether `full` was set after the last step
    n_bytes: int = 0  # peak memory of columns
    n_entered: int = 0
    n_scans: int = 0

    @classmethod
    def at(
        cls, problem: QP, x: NDArray[np.float64], draws: Draws, tol: float, takes_away: bool
    ) -> SampledState:
        """Return the state at x; `tol` is the relative gap over samples that ends the steps."""
        domain, gram, store = problem.domain, problem.gram, problem.store
        assert isinstance(domain, SimplexProduct)
        assert store is not None
        numbers = Numbers(
            scale=float(gram.scale),
            shift=float(gram.shift),
            constant=float(problem.constant),
            goal=float(tol),
            floor=float(tol and problem.floor(FLOAT64_EPS * problem.scale)),
            sample_size=draws.size,
            takes_away=takes_away,
        )
        work = Work(
            columns=np.empty((0, 0), store.gram.dtype),
            column=np.empty(0, np.int32),
            place=np.full(problem.m, -1, np.int32),
            points=np.empty(0, np.int64),
            group=np.empty(0, np.int64),
            sign=np.empty(0),
            linear=np.empty(0),
            ridge=np.empty(0),
            weight=np.empty(0),
            product=np.empty(0),
            gradient=np.empty(0),
            vertex=np.zeros(domain.n_groups, np.int64),
            high=np.zeros(domain.n_groups, np.int64),
            best=np.full(domain.n_groups, -1, np.int64),
            least=np.empty(domain.n_groups),
            gaps=np.full(SAMPLES_PER_STEP, np.inf),
            progress=np.zeros(7, np.int64),
            counts=np.zeros(len(SAMPLED_STEP_KINDS), np.int64),
        )
        state = cls(problem, draws, numbers, work, np.empty(0, np.int64))
        core = np.flatnonzero(x)
        state.add_to_core(core)
        n, work = len(core), state.work
        work.weight[:n], work.product[:n] = x[core], gram.take(core).product(x[core])
        return state

    @property
    def core(self) -> NDArray[np.int64]:
        """The points of the core."""
        return self.work.points[: self.work.progress[CORE_SIZE]]

    @property
    def held(self) -> NDArray[np.int64]:
        """The points that are held, those of the core first."""
        return self.work.points[: self.work.progress[HELD_POINTS]]

    @property
    def gradient(self) -> NDArray[np.float64]:
        """The gradient f = (G + D)x + c on the core."""
        work, n = self.work, len(self.core)
        return np.asarray(work.product[:n] + work.ridge[:n] * work.weight[:n] + work.linear[:n])

    @property
    def x(self) -> NDArray[np.float64]:
        """The point over all coordinates."""
        x = np.zeros(self.problem.m)
        x[self.core] = self.work.weight[: len(self.core)]
        return x

    @property
    def product(self) -> NDArray[np.float64]:
        """G x over all points, evaluated on demand."""
        if self.full is None:
            self.set_product(self.problem.gram.product(self.x))
            self.n_scans += 1
        assert self.full is not None
        return self.full

    def set_product(self, product: NDArray[np.float64]) -> None:
        """Set G x; the next step begins with it."""
        self.full, self.has_new_product = product, True

    @property
    def bounds(self) -> Bounds:
        """The value, and the gap over the last samples: at most the true gap."""
        n, work = len(self.core), self.work
        slope = self.gradient + work.linear[:n]
        upper = 0.5 * float(work.weight[:n] @ slope) + self.problem.constant
        gap = float(np.max(work.gaps))
        if self.problem.negated:
            return Bounds(gap - upper, -upper, gap, np.empty(0))
        return Bounds(upper, upper - gap, gap, np.empty(0))

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind, points added to the core, passes over all points, bytes of the columns."""
        counts = dict(zip(SAMPLED_STEP_KINDS, map(int, self.work.counts), strict=True))
        found = {"entered": self.n_entered, "scan": self.n_scans, "bytes": self.n_bytes}
        return counts | found

    def advance(self, n_steps: int) -> Reply:
        """Make steps until a column or the product at a draw is missing; then evaluate it."""
        if self.has_new_product:
            self.start_from_product()
        done, code = sampled_steps(self.work, self.numbers, self.drawn, n_steps)
        if done:
            self.full = None
        if code == CORE_POINT_MISSING:
            self.add_best_to_core()
        elif code == COLUMN_MISSING:
            self.evaluate_columns(self.work.vertex)
        elif code == DRAW_MISSING:
            self.evaluate_draws()
        return Reply(done, Stop.BUDGET if code in VALUE_MISSING_CODES else Stop(code))

    def start_from_product(self) -> None:
        """Replace the product by that over all points, and add the worst points to the core.

        Points of weight 0 are dropped from the core.
        """
        problem, work, n = self.problem, self.work, len(self.core)
        self.has_new_product = False
        assert self.full is not None
        x = problem.domain.repair(self.x)
        f = self.full + problem.gram.ridge * x + problem.linear
        in_use = work.weight[:n] > 0.0
        self._drop_columns(np.flatnonzero(~in_use))
        self._arrange(np.argsort(~in_use, kind="stable"))
        work.progress[CORE_SIZE] = n = int(np.count_nonzero(in_use))
        work.weight[:n] = x[self.core]
        worst = self.draws.worst(f, x)
        place = work.place[worst]
        self.add_to_core(worst[(place < 0) | (place >= n)])
        work = self.work
        work.product[: len(self.held)] = self.full[self.held]
        work.progress[SAMPLE_DRAWS:] = 0  # a new sample: the last one was evaluated on another core
        work.gaps[:] = np.inf

    def add_best_to_core(self) -> None:
        """Add the best points of the sample to the core, one of each simplex, with their columns."""
        work, n = self.work, len(self.core)
        new = work.best[work.least < work.gradient[work.vertex]]
        self.add_to_core(new[(work.place[new] < 0) | (work.place[new] >= n)])
        self.evaluate_columns(np.arange(n, len(self.core)))

    def add_to_core(self, new: NDArray[np.int64]) -> None:
        """Add points to the core with weight 0."""
        self._reserve(len(self.core) + len(new))
        self._hold(new)
        work, n = self.work, len(self.core)
        for j, i in enumerate(new):
            work.progress[CORE_SIZE] += 1
            self._exchange(n + j, int(work.place[i]))
        self.n_entered += len(new)

    def evaluate_draws(self) -> None:
        """Draw samples if none are left, and hold the draws of the next steps."""
        work = self.work
        if work.progress[DRAWS_USED] == len(self.drawn):
            self.drawn = self.draws.draw(max(1, DRAWS_AHEAD // self.draws.size))
            work.progress[DRAWS_USED] = 0
        room = len(work.points) - len(self.core)
        ahead = self.drawn[work.progress[DRAWS_USED] :][: max(1, room // 2)]
        self._hold(np.unique(ahead))

    def evaluate_columns(self, places: NDArray[np.int64]) -> None:
        """Evaluate the missing columns at these places; where memory is short, drop others."""
        work, store = self.work, self.problem.store
        assert store is not None
        missing = np.unique(places[work.column[places] < 0])
        rows = self._free_rows(len(missing), work.points[places])
        held = self.held
        for at in slices(len(held), CHUNK_ENTRIES // max(len(missing), 1)):
            work.columns[rows, at] = store.gram.block(held[missing], held[at])
        work.columns[rows, missing] = store.diag[held[missing]]
        self.owner[rows], work.column[missing] = held[missing], rows

    def _free_rows(self, count: int, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return rows of `columns` for new ones: free ones, or those filled first that are not wanted."""
        n_rows = len(self.owner)
        order = (self.last_column + 1 + np.arange(n_rows)) % n_rows
        usable = order[~np.isin(self.owner[order], wanted)]
        rows = usable[np.argsort(self.owner[usable] >= 0, kind="stable")][:count]
        owners = self.owner[rows]
        self.work.column[self.work.place[owners[owners >= 0]]] = -1
        if count:
            self.last_column = int(rows[-1])
        return rows

    def _hold(self, points: NDArray[np.int64]) -> None:
        """Hold points, with their kernel values and products."""
        work, problem, n = self.work, self.problem, len(self.core)
        gram, store, domain = problem.gram, problem.store, problem.domain
        assert isinstance(domain, SimplexProduct)
        assert store is not None
        first, new = self._make_room(points)
        present = np.flatnonzero(work.column[:n] >= 0)
        signed = work.sign[:n] * work.weight[:n]
        shifted, signed = gram.shift * float(np.sum(signed)), signed.astype(work.columns.dtype)
        for at in slices(len(new), max(FEWEST_POINTS, CHUNK_ENTRIES // max(n, 1))):
            to = slice(first + at.start, first + at.stop)
            values = store.gram.block(self.core, new[at])
            work.product[to] = gram.scale * gram.sign[new[at]] * (signed @ values + shifted)
            work.columns[work.column[present], to] = (
                values if len(present) == n else values[present]
            )
        to = slice(first, first + len(new))
        work.points[to], work.place[new] = new, np.arange(first, to.stop)
        work.group[to] = domain.group[new]
        work.sign[to], work.linear[to] = gram.sign[new], problem.linear[new]
        work.ridge[to], work.weight[to], work.column[to] = gram.ridge[new], 0.0, -1
        work.progress[HELD_POINTS] = max(len(self.held), to.stop)

    def _make_room(self, points: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """Return those of the points that are not held, and the first place for them.

        Where no place is free, the points that were drawn first are dropped for them.
        """
        work, n, n_held = self.work, len(self.core), len(self.held)
        new = points[work.place[points] < 0]
        if n_held + len(new) <= len(work.points):
            return n_held, new
        first = self.next_place
        if first < n or first + len(points) > n_held:
            first = n
        end = first
        while end - first < len(new):  # those dropped may be among the points
            dropped = slice(end, first + len(new))
            work.place[work.points[dropped]] = -1
            end, new = dropped.stop, points[work.place[points] < 0]
        self.next_place = end
        return first, new

    def _arrange(self, order: NDArray[np.int64]) -> None:
        """Move the points at the places `order` to the first places."""
        work, first = self.work, slice(0, len(order))
        moved = np.flatnonzero(order != np.arange(len(order)))
        for name in OF_POINTS:
            array = getattr(work, name)
            array[first] = array[order]
        rows = np.flatnonzero(self.owner >= 0)
        for at in slices(len(rows), CHUNK_ROWS):
            work.columns[np.ix_(rows[at], moved)] = work.columns[np.ix_(rows[at], order[moved])]
        work.place[work.points[first]] = np.arange(len(order))

    def _exchange(self, a: int, b: int) -> None:
        """Exchange the points at two places."""
        work, pair, other = self.work, [a, b], [b, a]
        for name in OF_POINTS:
            array = getattr(work, name)
            array[pair] = array[other]
        work.columns[:, pair] = work.columns[:, other]
        work.place[work.points[pair]] = pair

    def _drop_columns(self, places: NDArray[np.int64]) -> None:
        """Drop the columns at these places."""
        column = self.work.column
        self.owner[column[places[column[places] >= 0]]] = -1
        column[places] = -1

    def _reserve(self, total: int) -> None:
        """Make space for a core of `total` points; where memory is short, for fewer draws and columns."""
        store, work, m = self.problem.store, self.work, self.problem.m
        assert store is not None
        if total <= self.core_capacity:
            return
        core_capacity = min(m, max(FIRST_CORE_CAPACITY, 2 * total))
        room = self.draws.size + 2 * len(work.vertex)
        capacity = min(core_capacity + SPACE_FOR_DRAWS, store.n_entries // core_capacity)
        capacity = min(m, max(capacity, total + room))
        if capacity < m:
            core_capacity = min(core_capacity, capacity - room)
        n_columns = min(core_capacity, store.n_entries // capacity)
        self.core_capacity, kept = core_capacity, np.flatnonzero(self.owner >= 0)[:n_columns]
        if n_columns * capacity + work.columns.size > store.n_entries:  # not both at once
            kept = kept[:0]
        if len(self.held) > capacity:
            work.place[self.held[capacity:]] = -1
            work.progress[HELD_POINTS] = capacity
        owner, n_held, before = self.owner[kept], len(self.held), work.columns
        enlarged = {}
        for name in (*OF_POINTS, "gradient"):
            array = getattr(work, name)
            enlarged[name] = np.zeros(capacity, array.dtype)
            enlarged[name][:n_held] = array[:n_held]
        if not len(kept):
            del before
            self.work = work = work._replace(columns=work.columns[:0, :0].copy())
        columns = np.empty((n_columns, capacity), store.gram.dtype)
        if len(kept):
            columns[: len(kept), :n_held] = before[kept, :n_held]
        enlarged["column"][:] = -1
        enlarged["column"][work.place[owner]] = np.arange(len(kept))
        self.owner = np.full(n_columns, -1, np.int64)
        self.owner[: len(kept)] = owner
        self.last_column = len(kept) - 1
        self.work = work._replace(columns=columns, **enlarged)
        self.n_bytes = max(self.n_bytes, columns.nbytes)
