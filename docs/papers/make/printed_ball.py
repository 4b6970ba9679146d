"""Frandi et al., Algorithms 2 and 3 with the stop as printed: one sample of r points without a violation.

The methods of the library search a sample and the vertices met so far, and end after eight samples in a
row (`qpsvm.solvers.shared.sampling`). The paper's implementation is not at hand; this one follows
section 5.2.3 to the letter. In each iteration it draws r points from all, takes the farthest one i* from
the center, and ends where its squared distance is at most (1 + epsilon)^2 r_k^2. The misprints of steps
8, 9 and 21 are corrected.

Notation: K = y y' (k + 1) + I / C, Delta^2 = 2 + 1 / C, R = a'Ka, r_k^2 = Delta^2 - R, and the squared
distance of point i from the center is Delta^2 - 2 (Ka)_i + R.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from qpsvm import RBF, L2SVMDual, solve

EPSILON = 1e-6
"""Section 5.2.2."""

SAMPLE_SIZE, FIRST_BALL_SIZE = 59, 20
"""r and p, sections 5.2.3 and 5.2.2."""

CHECK_PERIOD = 256
"""Iterations between two looks at the clock."""


@dataclass
class Ball:
    """The center by its core: points, weights, and (Ka)_i on the core where it is maintained."""

    gram: RBF
    y: np.ndarray
    C: float
    core: np.ndarray
    a: np.ndarray
    place: np.ndarray  # of each point in the core, or -1
    R: float = 0.0
    size: int = 0
    h: np.ndarray | None = None
    iterations: int = 0
    ended: bool = False  # by the stop as printed, not by a limit

    @property
    def square(self) -> float:
        """Return Delta^2."""
        return 2.0 + 1.0 / self.C

    @property
    def points(self) -> np.ndarray:
        """Return the points of the core."""
        return self.core[: self.size]

    def values(self, drawn: np.ndarray) -> np.ndarray:
        """Return (Ka)_i at points."""
        signed = self.y[self.points] * self.a[: self.size]
        K = self.gram.block(drawn, self.points)
        own = np.where(self.place[drawn] >= 0, self.a[self.place[drawn]], 0.0)
        return self.y[drawn] * (K @ signed + signed.sum()) + own / self.C

    def column(self, i: int) -> np.ndarray:
        """Return K_ij for the points j of the core."""
        k = self.gram.block(np.array([i]), self.points)[0]
        found = self.y[i] * self.y[self.points] * (k + 1.0)
        found[self.place[i]] += 1.0 / self.C
        return found

    def add(self, i: int, value: float) -> None:
        """Add a point with weight 0 where it is not in the core."""
        if self.place[i] >= 0:
            return
        if self.size == len(self.core):
            self.core = np.append(self.core, np.zeros_like(self.core))
            self.a = np.append(self.a, np.zeros_like(self.a))
            self.h = None if self.h is None else np.append(self.h, np.zeros_like(self.h))
        self.core[self.size], self.a[self.size], self.place[i] = i, 0.0, self.size
        if self.h is not None:
            self.h[self.size] = value
        self.size += 1

    def move(self, i: int, at: float, step: float) -> None:
        """Set a to (1 - step) a + step e_i; a negative step goes away from i. `at` is (Ka)_i."""
        if self.h is not None:
            self.h[: self.size] = (1.0 - step) * self.h[: self.size] + step * self.column(i)
        self.a[: self.size] *= 1.0 - step
        self.a[self.place[i]] += step
        rest = 1.0 - step
        self.R = rest * rest * self.R + 2.0 * step * rest * at + step * step * self.square

    def drop(self, i: int) -> None:
        """Remove a point from the core."""
        last, at = self.size - 1, self.place[i]
        arrays = (self.core, self.a) if self.h is None else (self.core, self.a, self.h)
        for array in arrays:
            array[at] = array[last]
        self.place[self.core[at]], self.place[i] = at, -1
        self.size = last


def first_ball(gram: RBF, y: np.ndarray, C: float, away: bool, rng: np.random.Generator) -> Ball:
    """Return the ball of p random points."""
    m = len(y)
    some = rng.choice(m, min(FIRST_BALL_SIZE, m), replace=False)
    x = solve(L2SVMDual(gram.take(some), y[some], C=C), tol=1e-6).x
    core, place = some[x > 0.0], np.full(m, -1, np.int64)
    place[core] = np.arange(len(core))
    ball = Ball(gram, y, C, core, x[x > 0.0] / x.sum(), place, size=len(core))
    h = ball.values(core)
    ball.R = float(ball.a @ h)
    ball.h = h if away else None
    return ball


def trained(
    gram: RBF, y: np.ndarray, C: float, away: bool, seed: int, limit: float = np.inf
) -> Ball:
    """Return the ball of Algorithm 2, or of Algorithm 3 with `away`."""
    rng, begun = np.random.default_rng(seed), time.perf_counter()
    ball = first_ball(gram, y, C, away, rng)
    square, most = ball.square, (1.0 + EPSILON) ** 2
    while ball.iterations % CHECK_PERIOD or time.perf_counter() - begun < limit:
        drawn = rng.integers(len(y), size=SAMPLE_SIZE)
        h = ball.values(drawn)
        best = int(np.argmin(h))
        r2, far = square - ball.R, square - 2.0 * h[best] + ball.R
        if far <= most * r2:
            ball.ended = True
            break
        ball.iterations += 1
        if away and ball.h is not None:
            j = int(np.argmax(ball.h[: ball.size]))
            near = square - 2.0 * ball.h[j] + ball.R
            if 1.0 - near / r2 > far / r2 - 1.0:  # delta_minus > delta_plus
                step = (ball.h[j] - ball.R) / near
                longest = ball.a[j] / (1.0 - ball.a[j])
                i = int(ball.core[j])
                ball.move(i, float(ball.h[j]), -min(step, longest))
                if step >= longest:
                    ball.drop(i)
                continue
        i = int(drawn[best])
        ball.add(i, float(h[best]))
        ball.move(i, float(h[best]), 0.5 * (1.0 - r2 / far))  # step 14
    return ball


def scores(ball: Ball, points: Any) -> np.ndarray:
    """Return the decision values at new points."""
    signed = ball.y[ball.points] * ball.a[: ball.size]
    return np.asarray(ball.gram.cross(points, ball.points) @ signed) + signed.sum()
