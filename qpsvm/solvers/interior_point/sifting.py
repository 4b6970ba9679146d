"""From the interior point iterate to a feasible point, on all points or starting with a sample.

Problems much taller than wide begin with a random sample of the points, its penalties scaled up, which
the interior point method solves roughly. From there Newton steps on the augmented Lagrangian continue
with all points, most of whose weights are soon fixed (see `augmented_lagrangian`).
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
"""Number of points for each column from which a sample pays."""

MIN_POINTS_FOR_SAMPLE = 8_000
"""Number of points from which a sample pays."""

POINTS_PER_SAMPLE_POINT = 30
"""Maximum number of points per point of the sample."""

MIN_SAMPLE_PER_COLUMN = 5
"""Minimum number of points of the sample per column."""

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


def sampling_pays(m: int, n: int) -> bool:
    """Return whether starting with a sample pays."""
    return m >= max(MIN_POINTS_FOR_SAMPLE, MIN_POINTS_PER_COLUMN * n)


class State:
    """An iterate on all rows, and its feasible point x with G x."""

    rng: np.random.Generator  # draws the first rows, where not all are taken

    def __init__(self, points: NormalEquations, y: Vector, tau: Vector, interior: Interior) -> None:
        self.points, self.y, self.tau, self.interior = points, y, tau, interior
        self.exact = False  # whether x satisfies the optimality conditions
        self.x, self.product = np.zeros(len(y)), np.zeros(len(y))
        self.weight = float(np.sqrt(np.max(points.squares)) * np.sum(tau))

    @property
    def counters(self) -> dict[str, int]:
        """Steps of conjugate gradients, centrality corrections, and rows assembled."""
        interior = self.interior
        return {"cg": interior.n_cg, "corrections": interior.n_corrections, "rows": interior.n_rows}

    def update_point(self, moved: bool) -> bool:
        """Set x from the iterate; return whether a check is due at once: never, as one is made anyway."""
        interior = self.interior
        vertex = self.vertex()
        if vertex is not None:
            self.exact = True
            self.x, self.product = vertex.x, vertex.product
            return False
        self.x, unchanged = balanced(interior)
        if not unchanged:
            scores = interior.points.times(interior.points.transposed(interior.y * self.x))
        elif self.weight * float(np.linalg.norm(interior.rw)) > 1e-3 * interior.complementarity:
            scores = interior.points.times(interior.z)  # w is not yet X'Y alpha
        else:
            scores = interior.h + interior.gamma
        self.product = interior.y * scores
        return False

    def iterate(self) -> bool | None:
        """Make an iteration of another method, if one is active; return whether it moved."""
        return None

    def refresh(self) -> None:
        """Recompute the scores."""
        self.interior.compute_scores()

    def vertex(self) -> Vertex | None:
        """Return the optimal weights where the iterate identifies their bounds."""
        interior = self.interior
        if interior.complementarity > CROSSOVER_GAP * interior.size:
            return None
        low, high = (
            interior.alpha < interior.s * interior.tau,
            interior.u < interior.xi * interior.tau,
        )
        return crossover(
            interior.points, interior.y, interior.tau, interior.alpha, low, high, interior.size
        )


def balanced(interior: Interior) -> tuple[Vector, bool]:
    """Return alpha, the heavier class scaled so that y'x = 0, and whether it hardly changed.

    Without a bias nothing is scaled.
    """
    x = np.minimum(interior.alpha, interior.tau)
    if not interior.points.bias:
        return x, True
    plus, minus = balance(x, interior.classes)
    return x, abs(plus - minus) <= 1e-13 * (plus + minus)


class SiftedState(State):
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
        self.updated = False  # whether the last step ended with new multipliers
        self.n_free = -1  # weights between their bounds at the last report
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
        before = super().counters if self.interior is not None else dict.fromkeys(COUNTER_KEYS, 0)
        if newton is None:
            return before | {"newton": 0}
        return before | {"newton": newton.n_newton, "rows": before["rows"] + newton.n_rows}

    def iterate(self) -> bool | None:
        """Make a Newton step; None while the sample is being solved."""
        if self.newton is None:
            return None
        if self.newton.finished and self.updated:
            return False  # only rounding remains
        self.updated = self.newton.step()
        return True

    def refresh(self) -> None:
        """Recompute the scores."""
        if self.newton is not None:
            self.newton.refresh()

    def update_point(self, moved: bool) -> bool:
        """Return whether there is a much better point, or the sample cannot be improved."""
        if self.newton is None:
            interior = self.interior
            if not moved or interior.complementarity <= SAMPLE_GAP * interior.size:
                self.newton = Multipliers(
                    self.points, self.y, self.tau, interior.w, -interior.gamma
                )
            return not moved  # continue with all points
        return self.updated and moved and self._report()

    def _report(self) -> bool:
        """Report the multipliers, made feasible, where their gap has fallen enough; return whether."""
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
        """Draw half of the sample from each class, where it is large enough; scale the penalties."""
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
        self.interior = cold(points, self.y[rows], tau, 0.5 * tau, 0.5 * tau)
