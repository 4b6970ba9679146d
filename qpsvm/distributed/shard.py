"""A shard: consecutive points at one worker, with their weights, gradient and bounds.

The points never leave it, except those that enter the working set. It keeps copies of the points with
weights of all shards, which were sent to it once; products with its own points need nothing else.

A product G x is kept twice: "running" is updated by moves of weights with kernel values in float32,
"exact" is recomputed in float64 for a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.distributed.kernel_sums import PointsOfShard, stacked
from qpsvm.domains.box_hyperplane import slack_gap
from qpsvm.solvers.working_set.decomposition import smallest

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Setup(NamedTuple):
    """Coefficients of the points of a shard in the QP, each a number or of shape (n,)."""

    kind: str  # "hyperplane", "simplex" or "capped"
    sign: Any
    ridge: Any
    upper: Any
    linear: Any
    shift: float
    scale: float


class Violators(NamedTuple):
    """What a shard says of its gradient after a step."""

    low: float  # minimum of the signed gradient over I_up
    high: float  # maximum over I_low
    up: Indices  # indices in the shard of the least values in I_up, outside the working set
    s_up: Vector
    down: Indices  # of the greatest in I_low
    s_down: Vector
    s: Vector  # at the working set


class Entering(NamedTuple):
    """Points that enter, with their coefficients."""

    points: Any
    sign: Vector
    ridge: Vector
    upper: Vector
    diagonal: Vector  # k(x, x)


@dataclass
class Shard:
    """Points `first` and following, and the state of a solve at them."""

    points: PointsOfShard
    first: int
    version: int = 0  # number of changes of its state, which tells a shard that was rebuilt
    sent: Any = None  # points with weights, of all shards, (k, d)
    kind: str = "simplex"
    x: dict[str, Vector] = field(default_factory=dict)  # weights of each product, (n,)
    product: dict[str, Vector] = field(default_factory=dict)  # "running" and "exact", (n,)
    _sorted: dict[str, Any] = field(default_factory=dict)  # breakpoints, and sums up to them

    @property
    def n(self) -> int:
        """Number of its points."""
        return self.points.n

    def summary(self) -> tuple[int, Vector]:
        """Return the number of points and their sum."""
        return self.n, self.points.total()

    def move(self, origin: Vector | None) -> tuple[float, float]:
        """Subtract the origin from the points; return the largest |k(x, x)| and the kernel's error."""
        self.points.move(origin)
        return float(np.max(np.abs(self.points.diagonal))), self.points.error

    def diagonal(self) -> Vector:
        """Return k(x, x) of its points."""
        return self.points.diagonal

    def start(self, setup: Setup) -> None:
        """Take the coefficients, with all weights zero."""
        n = self.n

        def full(value: Any) -> Vector:
            return np.broadcast_to(np.asarray(value, np.float64), (n,))

        self.kind, self.shift, self.scale = setup.kind, setup.shift, setup.scale
        self.sign, self.ridge, self.upper = full(setup.sign), full(setup.ridge), full(setup.upper)
        self.linear = full(setup.linear)
        self.z = self.sign if self.kind == "hyperplane" else np.ones(n)
        self.sent, self._sorted = None, {}
        for name in ("running", "exact"):
            self.x[name], self.product[name] = np.zeros(n), np.zeros(n)

    def remember(self, start: int, points: Any) -> None:
        """Append copies of points that have or may get weights, from place `start` on, once."""
        n_known = 0 if self.sent is None else self.sent.shape[0]
        if points is not None and n_known == start:
            self.sent = points if self.sent is None else stacked(self.sent, points)

    def rows(self, local: Indices) -> Entering:
        """Return points by their indices in the shard."""
        at = self.points.X[local], self.sign[local], self.ridge[local], self.upper[local]
        return Entering(*at, self.points.diagonal[local])

    # --- steps ------------------------------------------------------------------------------------

    def step(
        self,
        start: int,
        points: Any,
        ids: Indices,
        moves: Vector,
        count: int,
        own: Indices,
        x_own: Vector,
    ) -> Violators:
        """Take moves of weights over, and return the violators.

        Parameters
        ----------
        start, points
            Points that are new to `remember`.
        ids, moves : ndarray
            Which of the remembered points moved, and by how much times their sign.
        count : int
            Maximum number of violators of each direction.
        own, x_own : ndarray
            Points of this shard in the working set, and their weights.
        """
        self.remember(start, points)
        if len(ids):
            total = self.points.sum_fast(self.sent[ids], moves)
            total += self.shift * float(np.sum(moves))
            total *= self.scale
            total *= self.sign
            self.product["running"] += total
        self.x["running"][own] = x_own
        return self.violators(own, count)

    def violators(self, own: Indices, count: int) -> Violators:
        """Return the violators outside of the working set `own`, by the running product."""
        x, product = self.x["running"], self.product["running"]
        self._sorted.pop("running", None)
        s = self.z * (product + self.linear + self.ridge * x)
        up, down = movable(x, self.z, self.upper)
        low = float(np.min(s[up], initial=np.inf))
        high = float(np.max(s[down], initial=-np.inf))
        if np.isnan(s).any():
            low = high = np.nan
        s_own = s[own]
        up[own] = down[own] = False
        n_up, n_down = int(np.count_nonzero(up)), int(np.count_nonzero(down))
        risers, fallers = smallest(s, up, n_up, count), smallest(-s, down, n_down, count)
        return Violators(low, high, risers, s[risers], fallers, s[fallers], s_own)

    def recompute(
        self,
        start: int,
        points: Any,
        ids: Indices,
        weights: Vector,
        own: Indices,
        x_own: Vector,
    ) -> None:
        """Compute the exact product for signed weights of remembered points, in float64."""
        self.remember(start, points)
        x, total = np.zeros(self.n), np.zeros(self.n)
        x[own] = x_own
        if len(ids):
            total = self.points.sum_exact(self.sent[ids], weights)
            total += self.shift * float(np.sum(weights))
            total *= self.scale * self.sign
        self.x["exact"], self.product["exact"] = x, total
        self._sorted.pop("exact", None)

    def take_exact(self) -> None:
        """Continue from the exact product."""
        self.x["running"] = self.x["exact"].copy()
        self.product["running"] = self.product["exact"].copy()
        self._sorted.pop("running", None)

    # --- bounds -----------------------------------------------------------------------------------

    def sums(self, which: str) -> dict[str, Any]:
        """Return sums over the weights, and the range of the multiplier's breakpoints."""
        x, product = self.x[which], self.product[which]
        some = np.flatnonzero(x != 0)
        xs = x[some]
        slope = product + self.linear
        flat = slope[self.ridge == 0] if self.kind == "simplex" else slope[:0]
        values = self._breakpoints(which)[0]
        return {
            "quadratic": float(xs @ product[some]),
            "ridge": float((self.ridge[some] * xs) @ xs),
            "linear": float(self.linear[some] @ xs),
            "first": float(values[0]) if len(values) else np.inf,
            "last": float(values[-1]) if len(values) else -np.inf,
            "least_flat": float(np.min(flat, initial=np.inf)),
        }

    def _breakpoints(self, which: str) -> tuple[Vector, Vector, Vector]:
        """Return where the derivative of the dual function changes, sorted, and sums up to there."""
        if which not in self._sorted:
            values, weights = self.product[which] + self.linear, self.upper
            if self.kind == "hyperplane":
                values = -self.sign * values
            elif self.kind == "simplex":
                keep = self.ridge > 0
                values, weights = values[keep], 1.0 / self.ridge[keep]
            order = np.argsort(values)
            values, weights = values[order], weights[order]
            zero = np.zeros(1)
            sums = (np.concatenate([zero, np.cumsum(w)]) for w in (weights, weights * values))
            self._sorted[which] = values, *sums
        return self._sorted[which]

    def slopes(self, which: str, t: Vector) -> Vector:
        """Return this shard's part of the derivative of the dual function at multipliers t."""
        values, sums, moments = self._breakpoints(which)
        at = np.searchsorted(values, t, side="right")
        return sums[at] if self.kind != "simplex" else sums[at] * t - moments[at]

    def gap(self, which: str, t: float, entry: float, defect: float) -> tuple[float, float]:
        """Return this shard's parts of the gap with the multiplier t and of its roundoff.

        `entry` bounds the rounding error of an entry of the product: see `penalty_gap`.
        """
        x, product = self.x[which], self.product[which]
        slope = product + self.linear
        if self.kind == "simplex":
            slack = slope - t
            filled = (slack < 0.0) & (self.ridge > 0)
            d = self.ridge[filled]
            excess = x[filled] + slack[filled] / d
            gap = 0.5 * float(d @ (excess * excess))
            some = np.flatnonzero((x > 0) & ~filled)
            return gap + float(x[some] @ (slack[some] + 0.5 * self.ridge[some] * x[some])), 0.0
        if self.kind == "hyperplane":
            slack = slope + t * self.sign
            if defect:
                low, high = x, x - self.upper
                at_low = slack * low + 0.5 * defect * low**2
                return float(np.sum(np.maximum(at_low, slack * high + 0.5 * defect * high**2))), 0.0
        else:
            slack = slope - t
        gap, below = slack_gap(x, self.upper, slack, None), slack < entry
        roundoff = entry * float(np.sum(self.upper[below] - x[below]))
        if self.kind == "capped" and self.linear.any():
            weight = np.where(below, self.upper, x)
            own = FLOAT64_EPS * (np.abs(self.linear) + np.abs(slope) + abs(t))
            roundoff += float(weight @ own)
        return gap, roundoff

    def entries(self, which: str, local: Indices) -> Vector:
        """Return entries of a product."""
        return self.product[which][local]

    def below(self, which: str, t: float) -> Indices:
        """Return the points whose gradient without ridge is below t, by their indices in the shard."""
        return np.flatnonzero(self.product[which] + self.linear < t)


def movable(x: Vector, z: Vector, upper: Vector) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which coordinates are in I_up, where z x can grow, and which in I_low."""
    free_above, free_below = x < upper, x > 0
    return np.where(z > 0, free_above, free_below), np.where(z > 0, free_below, free_above)
