"""Sifting: the interior point method on the rows that may matter, for points much taller than wide.

A row far on the right side of its margin has alpha = 0 at the optimum, and the problem without it has
the same solution. A random sample with its penalties scaled up is solved roughly; the rows that it
puts far on the right side are left out; the others are solved; then all rows are looked at, and
those left out that come out on the wrong side join the next round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane
from qpsvm.solvers.crossover import Vertex
from qpsvm.solvers.crsvm import CRSVMState, balanced
from qpsvm.solvers.interior import Interior, cold
from qpsvm.solvers.normal_equations import NormalEquations

Vector = NDArray[np.float64]

TALL, LARGE = 500, 20_000
"""Sifting pays from this many rows for each column, and from this many in all."""

SHARE, FEWEST = 12, 20
"""The sample is one row in 12, at least 20 for each column."""

SAMPLE_GAP, ROUND_GAP = 1e-2, 1e-10
"""Complementarity relative to the value at which the sample is left, and a round."""

SUPPORT, SPARE = 2, 4
"""Rows kept: twice the predicted number of support vectors, and four for each column..."""

TOO_MANY = 0.7
"""...unless they are more than this share of all."""


def pays(points: NormalEquations) -> bool:
    """Return whether sifting is worth its while."""
    return points.m >= max(LARGE, TALL * points.n)


class Sifted(CRSVMState):
    """An iterate on some of the rows, and the feasible point of the whole problem."""

    def __init__(
        self,
        points: NormalEquations,
        y: Vector,
        tau: Vector,
        rng: np.random.Generator,
        x0: Vector | None,
    ) -> None:
        self.points, self.y, self.tau, self.rng = points, y, tau, rng
        self.rows: NDArray[np.int64] = np.arange(0)
        self.sampled = x0 is None  # the core is the sample
        self.since = 0  # iterations in this round
        self.before = {"cg": 0, "corrections": 0, "rows": 0, "rounds": 0}
        super().__init__(points, y, tau, rng, self._first(x0))

    @property
    def counters(self) -> dict[str, int]:
        """Add what the rounds before counted."""
        now = super().counters | {"rounds": 0}
        return {key: self.before[key] + now[key] for key in now}

    def take_stock(self, moved: bool) -> int:
        """Count nothing until a round is over; then look at all rows."""
        if not hasattr(self, "exact"):
            return 0
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

    def _first(self, x0: Vector | None) -> Interior:
        """Return the iterate of a sample, or that of the rows chosen by x0."""
        if x0 is not None:
            margins = self.y * self.points.times(self.points.transposed(self.y * x0))
            bias = BoxHyperplane(self.tau, self.y).best_multiplier(margins - 1.0)
            self._choose(margins + self.y * bias - 1.0)
            return self.core
        m = len(self.y)
        size = min(m, max(m // SHARE, FEWEST * self.points.n))
        factor, chosen = np.ones(m), []
        for rows in (np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)):
            count = min(len(rows), max(size // 2, size - (m - len(rows))))
            chosen.append(self.rng.choice(rows, count, replace=False))
            factor[rows] = len(rows) / max(count, 1)
        return self._start(np.sort(np.concatenate(chosen)), factor)

    def _choose(self, excess: Vector) -> None:
        """Keep the rows with the smallest excess y f - 1 of their margin over 1."""
        m = len(excess)
        count = SUPPORT * int(np.count_nonzero(excess <= 0)) + SPARE * self.points.n
        if count >= TOO_MANY * m:
            rows = np.arange(m)
        else:
            rows = np.sort(np.argpartition(excess, count)[:count])
        self.core = self._start(rows, 1.0)

    def _look(self, vertex: Vertex | None) -> None:
        """Report the iterate; go on with the rows that are wrong, if there are any."""
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
        wrong = excess <= -2.0 * float(np.min(excess[wrong]))
        wrong[self.rows] = True
        self.core = self._start(np.flatnonzero(wrong), 1.0)

    def _start(self, rows: NDArray[np.int64], factor: Vector | float) -> Interior:
        """Return the start on the rows asked for."""
        if hasattr(self, "core"):
            self.before = self.counters
            self.before["rounds"] += 1
        self.rows = rows
        tau = (self.tau * factor)[rows]
        whole = len(rows) == len(self.y)
        points = self.points if whole else self.points.take(rows)
        return cold(points, self.y[rows], tau, 0.5 * tau, 0.5 * tau)
