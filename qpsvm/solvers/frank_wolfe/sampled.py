"""Frank-Wolfe on a sample: steps whose cost does not grow with the number of points.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x on the simplex or a product of simplices.

Frandi et al., section 5.2.3: instead of the vertex with the least gradient over all m points, a step
takes the best of a few draws (59 draws hold one of the best 5 per cent with probability 0.95) and of
the core, the vertices met so far. The gradient is maintained on the core and evaluated at the draws, from
kernel values between the two. Samples are drawn some steps ahead, so that their kernel values are
evaluated in blocks. Values are kept for later draws while memory lasts (section 5.2.4).

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
from qpsvm.gram import Gram
from qpsvm.gram.base import slices
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.frank_wolfe.sampled_steps import (
    CORE_POINT_MISSING,
    CORE_SIZE,
    DRAWS_USED,
    SAMPLE_DRAWS,
    SAMPLED_STEP_KINDS,
    Numbers,
    Work,
    sampled_steps,
)
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING
from qpsvm.solvers.shared.sampling import SAMPLES_PER_STEP, Draws

MAX_ROWS = 4096
"""Maximum number of points whose kernel values with the core are stored at once."""

DRAWS_AHEAD = 2048
"""Number of points drawn at once, for this and the following steps."""

FIRST_CORE_CAPACITY = 64
"""Least capacity of the core, in points."""

CHUNK_POINTS = 1024
"""Number of points whose kernel values are evaluated at once."""


def fill_rows(
    kernel: Gram,
    points: NDArray[np.int64],
    core: NDArray[np.int64],
    out: NDArray[np.floating],
    slots: NDArray[np.int64],
    first: int,
) -> None:
    """Write k(points, core) to ``out[slots, first : first + len(core)]``, by chunks."""
    if len(points) <= len(core):
        for at in slices(len(core), CHUNK_POINTS):
            to = slice(first + at.start, first + at.stop)
            out[slots, to] = kernel.block(points, core[at])
        return
    for at in slices(len(points), CHUNK_POINTS):
        out[slots[at], first : first + len(core)] = kernel.block(core, points[at]).T


@dataclass
class SampledState:
    """A point of the domain by its core, with kernel values of the core and the points of interest."""

    problem: QP
    draws: Draws
    numbers: Numbers
    work: Work
    owner: NDArray[np.int64]  # (n_rows,), the point whose kernel values a row holds, or -1
    drawn: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    full: NDArray[np.float64] | None = None  # G x over all points, until x moves
    has_new_product: bool = False  # whether `full` was set after the last step
    n_bytes: int = 0  # peak memory of kernel values
    n_entered: int = 0
    n_scans: int = 0

    @classmethod
    def at(
        cls, problem: QP, x: NDArray[np.float64], draws: Draws, tol: float, takes_away: bool
    ) -> SampledState:
        """Return the state at x; `tol` is the relative gap over samples that ends the steps."""
        domain, gram, m, store = problem.domain, problem.gram, problem.m, problem.store
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
            rows=np.empty((0, 0), store.gram.dtype),
            row=np.full(m, -1, np.int32),
            place=np.full(m, -1, np.int32),
            group=domain.group.astype(np.int64, copy=False),
            sign=gram.sign,
            linear=problem.linear,
            core=np.empty(0, np.int64),
            weight=np.empty(0),
            gradient=np.empty(0),
            signed=np.empty(0, store.gram.dtype),
            ridge=np.empty(0),
            vertex=np.zeros(domain.n_groups, np.int64),
            high=np.zeros(domain.n_groups, np.int64),
            best=np.zeros(domain.n_groups, np.int64),
            least=np.empty(domain.n_groups),
            gaps=np.full(SAMPLES_PER_STEP, np.inf),
            progress=np.zeros(6, np.int64),
            counts=np.zeros(len(SAMPLED_STEP_KINDS), np.int64),
        )
        state = cls(problem, draws, numbers, work, np.empty(0, np.int64))
        core = np.flatnonzero(x)
        product = problem.gram.take(core).product(x[core])
        state.append(core, product + gram.ridge[core] * x[core] + problem.linear[core])
        work = state.work
        work.weight[: len(core)] = x[core]
        return state

    @property
    def core(self) -> NDArray[np.int64]:
        """The points of the core."""
        return self.work.core[: self.work.progress[CORE_SIZE]]

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
        slope = work.gradient[:n] + self.problem.linear[self.core]
        upper = 0.5 * float(work.weight[:n] @ slope) + self.problem.constant
        gap = float(np.max(work.gaps))
        if self.problem.negated:
            return Bounds(gap - upper, -upper, gap, np.empty(0))
        return Bounds(upper, upper - gap, gap, np.empty(0))

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind, points added to the core, passes over all points, bytes of kernel values."""
        counts = dict(zip(SAMPLED_STEP_KINDS, map(int, self.work.counts), strict=True))
        found = {"entered": self.n_entered, "scan": self.n_scans, "bytes": self.n_bytes}
        return counts | found

    def advance(self, n_steps: int) -> Reply:
        """Make steps until kernel values are missing; then evaluate these."""
        if self.has_new_product:
            self.start_from_product()
        done, code = sampled_steps(self.work, self.numbers, self.drawn, n_steps)
        if done:
            self.full = None
        if code == CORE_POINT_MISSING:
            self.add_best_to_core()
        elif code == COLUMN_MISSING:
            self.evaluate_rows()
        return Reply(
            done, Stop.BUDGET if code in (CORE_POINT_MISSING, COLUMN_MISSING) else Stop(code)
        )

    def start_from_product(self) -> None:
        """Replace the gradient by that of G x over all points, and add the worst points to the core.

        Points of weight 0 are dropped from the core.
        """
        problem, work, n = self.problem, self.work, len(self.core)
        self.has_new_product = False
        assert self.full is not None
        x = problem.domain.repair(self.x)
        f = self.full + problem.gram.ridge * x + problem.linear
        kept = np.flatnonzero(work.weight[:n] > 0.0)
        work.place[self.core] = -1
        for array in (work.core, work.ridge):
            array[: len(kept)] = array[kept]
        work.rows[:, : len(kept)] = work.rows[:, kept]
        work.progress[CORE_SIZE] = len(kept)
        core = self.core
        work.place[core] = np.arange(len(core))
        work.weight[: len(core)], work.gradient[: len(core)] = x[core], f[core]
        worst = self.draws.worst(f, x)
        new = worst[work.place[worst] < 0]
        self.append(new, f[new])
        work.progress[SAMPLE_DRAWS:] = 0  # a new sample: the last one was evaluated on another core
        work.gaps[:] = np.inf

    def add_best_to_core(self) -> None:
        """Add the best points of the sample to the core, one of each simplex."""
        work = self.work
        better = work.least < work.gradient[work.vertex]
        new, f = work.best[better], work.least[better]
        outside = work.place[new] < 0
        self.append(new[outside], f[outside])

    def append(self, new: NDArray[np.int64], gradient: NDArray[np.float64]) -> None:
        """Add points to the core with weight 0, and their kernel values to the rows."""
        n, total, store = len(self.core), len(self.core) + len(new), self.problem.store
        assert store is not None
        if total > len(self.work.core):
            self._enlarge(total)
        work, problem = self.work, self.problem
        work.core[n:total], work.gradient[n:total], work.weight[n:total] = new, gradient, 0.0
        work.ridge[n:total] = problem.gram.ridge[new]
        work.place[new] = np.arange(n, total)
        work.progress[CORE_SIZE] = total
        self.n_entered += len(new)
        slots = np.flatnonzero(self.owner >= 0)
        if len(slots) and len(new):
            fill_rows(store.gram, self.owner[slots], new, work.rows, slots, n)
            self._set_diagonal(new)

    def _enlarge(self, total: int) -> None:
        """Enlarge the core to `total` points; where memory is short, keep fewer rows."""
        store, work = self.problem.store, self.work
        assert store is not None
        m, n = self.problem.m, len(self.core)
        capacity = min(m, max(FIRST_CORE_CAPACITY, 2 * total))
        n_rows = min(m, MAX_ROWS, store.n_entries // capacity)
        kept = np.flatnonzero(self.owner >= 0)[:n_rows]
        if n_rows * capacity + work.rows.size > store.n_entries:  # not both at once
            kept = kept[:0]
        owner, before = self.owner[kept], work.rows
        work.row[self.owner[self.owner >= 0]] = -1
        enlarged = {}
        for name in ("core", "weight", "gradient", "signed", "ridge"):
            array = getattr(work, name)
            enlarged[name] = np.zeros(capacity, array.dtype)
            enlarged[name][:n] = array[:n]
        if not len(kept):
            del before
            self.work = work = work._replace(rows=work.rows[:0, :0].copy())
        rows = np.empty((n_rows, capacity), store.gram.dtype)
        if len(kept):
            rows[: len(kept), :n] = before[kept, :n]
        work.row[owner] = np.arange(len(kept))
        self.owner = np.full(n_rows, -1, np.int64)
        self.owner[: len(kept)] = owner
        self.work = work._replace(rows=rows, **enlarged)
        self.n_bytes = max(self.n_bytes, rows.nbytes)

    def evaluate_rows(self) -> None:
        """Draw samples if none are left, and evaluate the kernel values that the steps read next."""
        work = self.work
        if work.progress[DRAWS_USED] == len(self.drawn):
            self.drawn = self.draws.draw(max(1, DRAWS_AHEAD // self.draws.size))
            work.progress[DRAWS_USED] = 0
        if work.progress[SAMPLE_DRAWS] > self.draws.size:  # evaluated: its vertex is missing
            needed = self.core[work.vertex]
        else:
            ahead = self.drawn[work.progress[DRAWS_USED] :][: max(1, len(self.owner) // 2)]
            needed = ahead[work.place[ahead] < 0]
        self._fill_rows(np.unique(needed))

    def _fill_rows(self, points: NDArray[np.int64]) -> None:
        """Evaluate the missing rows of points; where none is free, drop rows of other points."""
        work, store = self.work, self.problem.store
        assert store is not None
        missing = points[work.row[points] < 0]
        free = np.flatnonzero(self.owner < 0)
        if len(free) < len(missing):
            wanted = np.zeros(self.problem.m, bool)
            wanted[points], wanted[self.core] = True, True
            self._release(wanted)
            free = np.flatnonzero(self.owner < 0)
        if len(free) < len(missing):
            wanted[self.core], wanted[points] = False, True
            self._release(wanted)
            free = np.flatnonzero(self.owner < 0)
        slots = free[: len(missing)]
        fill_rows(store.gram, missing, self.core, work.rows, slots, 0)
        self.owner[slots], work.row[missing] = missing, slots
        self._set_diagonal(missing[work.place[missing] >= 0])

    def _release(self, wanted: NDArray[np.bool_]) -> None:
        """Drop the rows of the points that are not wanted."""
        dropped = np.flatnonzero((self.owner >= 0) & ~wanted[self.owner])
        self.work.row[self.owner[dropped]] = -1
        self.owner[dropped] = -1

    def _set_diagonal(self, points: NDArray[np.int64]) -> None:
        """Set k(i, i) in the rows of core points to the diagonal entries of the store."""
        work, store = self.work, self.problem.store
        assert store is not None
        present = points[work.row[points] >= 0]
        work.rows[work.row[present], work.place[present]] = store.diag[present]
