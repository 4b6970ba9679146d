"""Frandi et al., Algorithms 2 and 3 with the stop as printed: one sample of r points without a violation.

The methods of the library search a sample and the vertices met so far, and end after eight samples in a
row (`qpsvm.solvers.shared.sampling`). The paper's implementation is not at hand; this one follows
section 5.2.3 to the letter. In each iteration it draws r points from all, takes the farthest one i* from
the center, and ends where its squared distance is at most (1 + epsilon)^2 r_k^2. The misprints of steps
8, 9 and 21 are corrected. Columns of points of the core are kept (section 5.2.4).

Notation: K = y y' (k + 1) + I / C, Delta^2 = 2 + 1 / C, R = a'Ka, r_k^2 = Delta^2 - R, and the squared
distance of point i from the center is Delta^2 - 2 (Ka)_i + R.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

from qpsvm import RBF, L2SVMDual, solve

BALL_TOLERANCE = 1e-6
"""Section 5.2.2."""

SAMPLE_SIZE, FIRST_BALL_SIZE = 59, 20
"""r and p, sections 5.2.3 and 5.2.2."""

CHECK_PERIOD = 2048
"""Iterations between two looks at the clock."""

FIRST_CAPACITY = 64
"""Points of the core for which there is room at first."""

STOP_REACHED, NEW_POINT, BUDGET_USED = range(3)
"""Why `steps` returns."""


@dataclass
class Ball:
    """The center by its core: points, weights, and (Ka)_i on the core where it is maintained."""

    gram: RBF
    y: np.ndarray
    C: float
    away: bool
    core: np.ndarray
    a: np.ndarray
    h: np.ndarray
    place: np.ndarray  # of each point in the core, or -1
    columns: np.ndarray  # (m, capacity), y_i y_j (k(i, j) + 1) without the ridge
    numbers: np.ndarray = field(
        default_factory=lambda: np.zeros(5)
    )  # R, Delta^2, 1/C, pending h, far
    counts: np.ndarray = field(
        default_factory=lambda: np.zeros(3, np.int64)
    )  # size, pending, steps
    ended: bool = False  # by the stop as printed, not by a limit

    @property
    def size(self) -> int:
        """Return the number of points in the core."""
        return int(self.counts[0])

    @property
    def iterations(self) -> int:
        """Return the number of steps."""
        return int(self.counts[2])

    @property
    def points(self) -> np.ndarray:
        """Return the points of the core."""
        return self.core[: self.size]

    def add(self, i: int, value: float) -> None:
        """Add a point with weight 0; `value` is (Ka)_i."""
        n = self.size
        if n == len(self.core):
            for name in ("core", "a", "h"):
                array = getattr(self, name)
                setattr(self, name, np.append(array, np.zeros_like(array)))
            self.columns = np.hstack([self.columns, np.zeros_like(self.columns)])
        self.core[n], self.a[n], self.h[n], self.place[i] = i, 0.0, value, n
        self.columns[:, n] = self.y[i] * self.y * (self.gram.block(np.array([i]))[0] + 1.0)
        self.counts[0] += 1


@numba.njit(cache=True, fastmath=True)
def value_at(i, columns, a, place, size, ridge):
    """Return (Ka)_i."""
    total = 0.0
    for p in range(size):
        total += columns[i, p] * a[p]
    return total + (ridge * a[place[i]] if place[i] >= 0 else 0.0)


@numba.njit(cache=True, fastmath=True)
def move(i, at, step, columns, core, a, h, place, numbers, counts, away):
    """Set a to (1 - step) a + step e_i, which goes away from i where step < 0; `at` is (Ka)_i."""
    size, rest = counts[0], 1.0 - step
    for p in range(size):
        a[p] *= rest
    if away:
        for p in range(size):
            h[p] = rest * h[p] + step * columns[i, p]
        h[place[i]] += step * numbers[2]
    a[place[i]] += step
    numbers[0] = rest * rest * numbers[0] + 2.0 * step * rest * at + step * step * numbers[1]
    counts[2] += 1


@numba.njit(cache=True, fastmath=True)
def steps(rng, columns, core, a, h, place, numbers, counts, away, r, most, budget):
    """Make steps until the stop as printed, a point that is not in the core, or the budget."""
    m, square, ridge = columns.shape[0], numbers[1], numbers[2]
    for _ in range(budget):
        size, R = counts[0], numbers[0]
        best, least = -1, np.inf
        for _ in range(r):
            i = rng.integers(0, m)
            at = value_at(i, columns, a, place, size, ridge)
            if at < least:
                best, least = i, at
        r2, far = square - R, square - 2.0 * least + R
        if far <= most * r2:
            return STOP_REACHED
        if away:
            j = 0
            for p in range(size):
                if a[p] > 0.0 and (h[p] > h[j] or a[j] <= 0.0):
                    j = p
            near = square - 2.0 * h[j] + R
            if 1.0 - near / r2 > far / r2 - 1.0:  # delta_minus > delta_plus
                longest = a[j] / (1.0 - a[j])
                step = min((h[j] - R) / near, longest)
                move(core[j], h[j], -step, columns, core, a, h, place, numbers, counts, away)
                if step == longest:
                    a[j] = 0.0  # it stays in the core with its column
                continue
        if place[best] < 0:
            counts[1], numbers[3], numbers[4] = best, least, far
            return NEW_POINT
        step = 0.5 * (1.0 - r2 / far)  # step 14
        move(best, least, step, columns, core, a, h, place, numbers, counts, away)
    return BUDGET_USED


def first_ball(gram: RBF, y: np.ndarray, C: float, away: bool, rng: np.random.Generator) -> Ball:
    """Return the ball of p random points."""
    m = len(y)
    some = rng.choice(m, min(FIRST_BALL_SIZE, m), replace=False)
    x = solve(L2SVMDual(gram.take(some), y[some], C=C), tol=1e-6).x
    n = FIRST_CAPACITY
    ball = Ball(
        gram, y, C, away, np.zeros(n, np.int64), np.zeros(n), np.zeros(n), np.full(m, -1, np.int64),
        np.zeros((m, n), np.float32),
    )  # fmt: skip
    ball.numbers[1], ball.numbers[2] = 2.0 + 1.0 / C, 1.0 / C
    for i in some[x > 0.0]:
        ball.add(int(i), 0.0)
    size = ball.size
    ball.a[:size] = x[x > 0.0] / x.sum()
    ball.h[:size] = ball.columns[ball.points, :size] @ ball.a[:size] + ball.a[:size] / C
    ball.numbers[0] = ball.a[:size] @ ball.h[:size]
    return ball


def trained(
    gram: RBF, y: np.ndarray, C: float, away: bool, seed: int, limit: float = np.inf
) -> Ball:
    """Return the ball of Algorithm 2, or of Algorithm 3 with `away`."""
    rng, begun = np.random.default_rng(seed), time.perf_counter()
    ball = first_ball(gram, y, C, away, rng)
    most = (1.0 + BALL_TOLERANCE) ** 2
    while time.perf_counter() - begun < limit:
        arrays = (ball.columns, ball.core, ball.a, ball.h, ball.place, ball.numbers, ball.counts)
        code = steps(rng, *arrays, away, SAMPLE_SIZE, most, CHECK_PERIOD)
        if code == STOP_REACHED:
            ball.ended = True
            break
        if code == NEW_POINT:
            i, value, far = int(ball.counts[1]), float(ball.numbers[3]), float(ball.numbers[4])
            step = 0.5 * (1.0 - (ball.numbers[1] - ball.numbers[0]) / far)
            ball.add(i, value)
            arrays = (
                ball.columns,
                ball.core,
                ball.a,
                ball.h,
                ball.place,
                ball.numbers,
                ball.counts,
            )
            move(i, value, step, *arrays, away)
    return ball


def scores(ball: Ball, points: Any) -> np.ndarray:
    """Return the decision values at new points."""
    signed = ball.y[ball.points] * ball.a[: ball.size]
    return np.asarray(ball.gram.cross(points, ball.points) @ signed) + signed.sum()
