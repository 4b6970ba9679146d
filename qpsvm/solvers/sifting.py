"""From the iterate of the interior point method to a feasible point, on all rows or by sifting.

Sifting is for points much taller than wide. A row far on the right side of its margin has alpha = 0 at
the optimum, and the problem without it has the same solution. A random sample with its penalties
scaled up is solved roughly; the rows that it puts far on the right side are left out; the others are
solved; then all rows are looked at, and those left out that come out on the wrong side join the next
round. Only such rows are left out: with alpha fixed at tau on the other side the problem could lose
its lower bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane
from qpsvm.solvers.crossover import Vertex, crossover
from qpsvm.solvers.interior import Interior, cold
from qpsvm.solvers.normal_equations import NormalEquations

Vector = NDArray[np.float64]
Rows = NDArray[np.int64]

NEAR = 1e-3
"""Complementarity relative to the value below which the crossover is tried."""

TALL, LARGE = 500, 20_000
"""Sifting pays from this many rows for each column, and from this many in all."""

SHARE, FEWEST = 12, 20
"""The sample is one row in 12, at least 20 for each column."""

SAMPLE_GAP, ROUND_GAP = 1e-2, 1e-10
"""Complementarity relative to the value at which the sample is left, and a round."""

SUPPORT, SPARE = 2, 4
"""Rows kept: twice the predicted number of support vectors, and four for each column..."""

TOO_MANY = 0.7
"""...or all, if these are more than that share of them."""


def pays(points: NormalEquations) -> bool:
    """Return whether sifting is worth its while."""
    return points.m >= max(LARGE, TALL * points.n)


class Whole:
    """An iterate on all rows, and the feasible point x that it stands for, with G x."""

    rng: np.random.Generator  # draws the first rows, where not all are taken

    def __init__(self, points: NormalEquations, y: Vector, tau: Vector, core: Interior) -> None:
        self.points, self.y, self.tau, self.core = points, y, tau, core
        self.exact = False  # x meets the optimality conditions
        self.x, self.product = np.zeros(len(y)), np.zeros(len(y))
        self.weight = float(np.sqrt(np.max(points.squares)) * np.sum(tau))

    @property
    def counters(self) -> dict[str, int]:
        """Steps of conjugate gradients, centrality corrections, and rows assembled."""
        core = self.core
        return {"cg": core.n_cg, "corrections": core.n_corrections, "rows": core.n_rows}

    def take_stock(self, moved: bool) -> int:
        """Report the iterate; return the number of iterations that may be counted: 1 if it moved."""
        core = self.core
        vertex = self.vertex()
        if vertex is not None:
            self.exact = True
            self.x, self.product = vertex.x, vertex.product
            return 1
        self.x, unchanged = balanced(core)
        if not unchanged:
            scores = core.points.times(core.points.transposed(core.y * self.x))
        elif self.weight * float(np.linalg.norm(core.rw)) > 1e-3 * core.complementarity:
            scores = core.points.times(core.z)  # w is not yet X'Y alpha
        else:
            scores = core.h + core.gamma
        self.product = core.y * scores
        return int(moved)

    def vertex(self) -> Vertex | None:
        """Return the optimal weights where they can be read off the iterate."""
        core = self.core
        if core.complementarity > NEAR * core.size:
            return None
        low, high = core.alpha < core.s * core.tau, core.u < core.xi * core.tau
        return crossover(core.points, core.y, core.tau, core.alpha, low, high, core.size)


def balanced(core: Interior) -> tuple[Vector, bool]:
    """Return alpha with the heavier class shrunk so that y'x = 0, and whether it hardly changed.

    Without a bias nothing is shrunk.
    """
    x = np.minimum(core.alpha, core.tau)
    if not core.points.bias:
        return x, True
    plus, minus = (float(np.sum(x[rows])) for rows in core.classes)
    heavy = core.classes[0] if plus > minus else core.classes[1]
    if plus != minus:
        x[heavy] *= min(plus, minus) / max(plus, minus)
    return x, abs(plus - minus) <= 1e-13 * (plus + minus)


class Sifted(Whole):
    """An iterate on some of the rows, and the feasible point of the whole problem."""

    def __init__(
        self,
        points: NormalEquations,
        y: Vector,
        tau: Vector,
        rng: np.random.Generator,
        x0: Vector | None,
    ) -> None:
        super().__init__(points, y, tau, None)  # type: ignore[arg-type]
        self.rows: Rows  # those of the core
        self.before = dict.fromkeys(("cg", "corrections", "rows", "rounds"), 0)  # of earlier rounds
        self.since = 0  # iterations in this round
        self.sampled = x0 is None  # the core is the sample
        if x0 is None:
            self._sample(rng)
        else:
            margins = y * points.times(points.transposed(y * x0))
            bias = BoxHyperplane(tau, y).best_multiplier(margins - 1.0) if points.bias else 0.0
            self._choose(margins + y * bias - 1.0)

    @property
    def counters(self) -> dict[str, int]:
        """Add what the rounds before counted."""
        now = super().counters | {"rounds": 1}
        return {key: self.before[key] + now[key] for key in now}

    def take_stock(self, moved: bool) -> int:
        """Count nothing until a round is over; then look at all rows."""
        core = self.core
        self.since += moved
        vertex = None if self.sampled else self.vertex()
        goal = SAMPLE_GAP if self.sampled else ROUND_GAP
        if moved and vertex is None and core.complementarity > goal * core.size:
            return 0
        counted, self.since = self.since, 0
        if self.sampled:
            self.sampled = False
            self._choose(self.y * (self.points.times(core.w) - core.gamma) - 1.0)
        else:
            self._look(vertex)
        return counted

    def _sample(self, rng: np.random.Generator) -> None:
        """Take half of the sample from each class, where it has so many; scale the penalties."""
        m = len(self.y)
        size = min(m, max(m // SHARE, FEWEST * self.points.n))
        factor, chosen = np.ones(m), []
        for rows in (np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)):
            count = min(len(rows), max(size // 2, size - (m - len(rows))))
            chosen.append(rng.choice(rows, count, replace=False))
            factor[rows] = len(rows) / max(count, 1)
        self._start(np.sort(np.concatenate(chosen)), self.tau * factor)

    def _choose(self, excess: Vector) -> None:
        """Keep the rows with the smallest excess of their margin over 1."""
        m = len(excess)
        count = int(SUPPORT * np.count_nonzero(excess <= 0)) + SPARE * self.points.n
        rows = np.arange(m)
        if count < TOO_MANY * m:
            rows = np.sort(np.argpartition(excess, count)[:count])
        self._start(rows, self.tau)

    def _look(self, vertex: Vertex | None) -> None:
        """Report the iterate; go on with the rows that come out wrong, if there are any."""
        core = self.core
        x, bias = (balanced(core)[0], -core.gamma) if vertex is None else (vertex.x, vertex.bias)
        self.x = np.zeros(len(self.y))
        self.x[self.rows] = x
        self.product = self.y * self.points.times(core.points.transposed(core.y * x))
        excess = self.product + self.y * bias - 1.0
        wrong = excess < -1e-9
        wrong[self.rows] = False
        if not wrong.any():
            self.exact = vertex is not None
            return
        joins = excess <= -2.0 * float(np.min(excess[wrong]))
        joins[self.rows] = True
        self._start(np.flatnonzero(joins), self.tau)

    def _start(self, rows: Rows, tau: Vector) -> None:
        """Begin a round on the rows asked for."""
        if self.core is not None:
            self.before = self.counters
        self.rows = rows
        points = self.points if len(rows) == len(self.y) else self.points.take(rows)
        self.core = cold(points, self.y[rows], tau[rows], 0.5 * tau[rows], 0.5 * tau[rows])
