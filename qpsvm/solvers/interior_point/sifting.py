"""From the iterate of the interior point method to a feasible point, on all points or from a sample.

Problems much taller than wide begin with a random sample of the points, its penalties scaled up, which
the interior point method solves roughly. From there Newton steps on the augmented Lagrangian go on
with all points, most of which soon keep their weights (see `multipliers`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import BoxHyperplane
from qpsvm.domains.box_hyperplane import balance
from qpsvm.solvers.interior_point.augmented_lagrangian import Multipliers, duality_gap
from qpsvm.solvers.interior_point.crossover import Vertex, crossover
from qpsvm.solvers.interior_point.iterate import Interior, cold
from qpsvm.solvers.interior_point.normal_equations import NormalEquations

Vector = NDArray[np.float64]

CROSSOVER_GAP = 1e-3
"""Complementarity relative to the value below which the crossover is tried."""

MIN_POINTS_PER_COLUMN = 30
"""Points for each column from which a sample pays."""

MIN_POINTS_FOR_SAMPLE = 8_000
"""Points from which a sample pays."""

POINTS_PER_SAMPLE_POINT = 30
"""Points for each point of the sample, at most."""

MIN_SAMPLE_PER_COLUMN = 5
"""Points of the sample for each column, at least."""

SAMPLE_GAP = 1e-2
"""Complementarity relative to the value at which the sample is left."""

MAX_FREE_AT_VERTEX = 1.2
"""Free weights for each column up to which a vertex may be near; later where their number is stable."""

FIRST_REPORTED_GAP = 1e-2
"""Gap relative to the value from which an iterate is reported."""

REPORT_IMPROVEMENT = 10.0
"""Factor by which the gap falls from one report to the next."""

COUNTER_KEYS = ("cg", "corrections", "rows")
"""Counters of the interior point method."""


def pays(m: int, n: int) -> bool:
    """Return whether a sample is worth its while."""
    return m >= max(MIN_POINTS_FOR_SAMPLE, MIN_POINTS_PER_COLUMN * n)


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

    def take_stock(self, moved: bool) -> bool:
        """Report the iterate; return whether it has to be looked at at once: it will be, anyhow."""
        core = self.core
        vertex = self.vertex()
        if vertex is not None:
            self.exact = True
            self.x, self.product = vertex.x, vertex.product
            return False
        self.x, unchanged = balanced(core)
        if not unchanged:
            scores = core.points.times(core.points.transposed(core.y * self.x))
        elif self.weight * float(np.linalg.norm(core.rw)) > 1e-3 * core.complementarity:
            scores = core.points.times(core.z)  # w is not yet X'Y alpha
        else:
            scores = core.h + core.gamma
        self.product = core.y * scores
        return False

    def iterate(self) -> bool | None:
        """Make an iteration of its own, if it has one."""
        return None

    def refresh(self) -> None:
        """Compute the scores afresh."""
        self.core.compute_scores()

    def vertex(self) -> Vertex | None:
        """Return the optimal weights where they can be read off the iterate."""
        core = self.core
        if core.complementarity > CROSSOVER_GAP * core.size:
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
    plus, minus = balance(x, core.classes)
    return x, abs(plus - minus) <= 1e-13 * (plus + minus)


class Sifted(Whole):
    """The sample, then an iterate on all points."""

    def __init__(
        self,
        points: NormalEquations,
        y: Vector,
        tau: Vector,
        rng: np.random.Generator,
        x0: Vector | None,
    ) -> None:
        super().__init__(points, y, tau, None)  # type: ignore[arg-type]
        self.reported = FIRST_REPORTED_GAP * REPORT_IMPROVEMENT
        self.updated = False  # the last step ended with new multipliers
        self.n_free = -1  # weights between their bounds at the last look
        self.newton: Multipliers | None = None
        if x0 is None:
            self._sample(rng)
        else:
            w = points.transposed(y * x0)
            excess = y * points.times(w) - 1.0
            b = BoxHyperplane(tau, y).best_multiplier(excess) if points.bias else 0.0
            self.newton = Multipliers(points, y, tau, w, b)

    @property
    def counters(self) -> dict[str, int]:
        """Add the Newton steps."""
        newton = self.newton
        before = super().counters if self.core is not None else dict.fromkeys(COUNTER_KEYS, 0)
        if newton is None:
            return before | {"newton": 0}
        return before | {"newton": newton.n_newton, "rows": before["rows"] + newton.n_rows}

    def iterate(self) -> bool | None:
        """Make a Newton step; None while the sample is at work."""
        if self.newton is None:
            return None
        if self.newton.finished and self.updated:
            return False  # rounding is all that is left
        self.updated = self.newton.step()
        return True

    def refresh(self) -> None:
        """Compute the scores afresh."""
        if self.newton is not None:
            self.newton.refresh()

    def take_stock(self, moved: bool) -> bool:
        """Return whether there is a much better point, or the sample cannot be improved."""
        if self.newton is None:
            core = self.core
            if not moved or core.complementarity <= SAMPLE_GAP * core.size:
                self.newton = Multipliers(self.points, self.y, self.tau, core.w, -core.gamma)
            return not moved  # go on with all points
        return self.updated and moved and self._report()

    def _report(self) -> bool:
        """Make the multipliers feasible and report them, if they are worth it."""
        y, newton = self.y, self.newton
        assert newton is not None
        x, w = newton.feasible()
        away = newton.w - w
        gap = duality_gap(y, self.tau, x, newton.scores, newton.b) + 0.5 * float(away @ away)
        value = float(np.sum(x)) - 0.5 * float(w @ w)
        low, high = newton.alpha <= 0.0, newton.alpha >= self.tau
        free = len(x) - int(np.count_nonzero(low | high))
        settled, self.n_free = free == self.n_free, free
        better = gap <= value * self.reported / REPORT_IMPROVEMENT or newton.finished
        if gap <= CROSSOVER_GAP * value and (
            settled or (better and free <= MAX_FREE_AT_VERTEX * self.points.n)
        ):
            vertex = crossover(self.points, y, self.tau, x, low, high, value)
            if vertex is not None:
                self.exact = True
                self.x, self.product = vertex.x, vertex.product
                return True
        if better:
            self.x, self.product = x, y * self.points.times(w)
            self.reported = gap / value if value > 0 else self.reported
        return better

    def _sample(self, rng: np.random.Generator) -> None:
        """Take half of the sample from each class, where it has so many; scale the penalties."""
        m = len(self.y)
        size = min(m, max(m // POINTS_PER_SAMPLE_POINT, MIN_SAMPLE_PER_COLUMN * self.points.n))
        factor, chosen = np.ones(m), []
        for rows in (np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)):
            count = min(len(rows), max(size // 2, size - (m - len(rows))))
            chosen.append(rng.choice(rows, count, replace=False))
            factor[rows] = len(rows) / max(count, 1)
        rows = np.sort(np.concatenate(chosen))
        points = self.points if len(rows) == m else self.points.take(rows)
        tau = (self.tau * factor)[rows]
        self.core = cold(points, self.y[rows], tau, 0.5 * tau, 0.5 * tau)
