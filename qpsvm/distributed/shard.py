"""A shard: the points of some chunks at one worker, with their weights, gradient and bounds.

The points stay at the worker, except those that join the working set. The shard keeps copies of the
points with weights of all shards, which were sent to it once; products with its own points need no more.

A product G x is kept twice: "running" is updated by moves of weights with kernel values in float32,
"exact" is recomputed in float64 for a certificate, at the entries on which the bounds may depend. The
others are replaced by lower bounds: see `qpsvm.driver.certificate.partly_recomputed`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, update_roundoff
from qpsvm.distributed.breakpoints import sums_up_to
from qpsvm.distributed.kernel_sums import Limits, PointsOfShard, stacked
from qpsvm.distributed.messages import AtWeights, PointCopies, Setup, Sums, Violators
from qpsvm.distributed.violators import extremes_of, least_of_each, members_of, movable
from qpsvm.domains.box_hyperplane import convex_gap, slack_gap
from qpsvm.driver.certificate import MAX_RECOMPUTED_SHARE
from qpsvm.solvers.working_set.gradient_error import GradientError

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass
class Shard:
    """The points of a shard, and the state of a solve at them."""

    points: PointsOfShard
    version: int = 0  # number of changes of its state, by which a rebuilt shard is recognized
    sent: Any = None  # points with weights, of all shards, (k, d)
    kind: str = "simplex"
    x: dict[str, Vector] = field(default_factory=dict)  # weights of each product, (n,)
    product: dict[str, Vector] = field(default_factory=dict)  # "running" and "exact", (n,)
    changes: GradientError = field(init=False)  # moves of the running product, and its error before
    exact_error: Vector | float = 0.0  # bound on the errors of `unlowered`
    unlowered: Vector = field(init=False)  # the exact product without lower bounds

    @property
    def n(self) -> int:
        """Number of its points."""
        return self.points.n

    def summary(self) -> tuple[int, Vector]:
        """Return the number of points and their sum."""
        return self.n, self.points.total()

    def move(self, origin: Vector | None) -> Limits:
        """Subtract the origin from the points; return the limits of their kernel values."""
        self.points.move(origin)
        return self.points.limits()

    def diagonal(self) -> Vector:
        """Return k(x, x) of its points."""
        return self.points.diagonal

    def start(self, setup: Setup) -> None:
        """Take the coefficients, with all weights zero."""
        n = self.n

        def full(value: Any) -> Vector:
            return np.broadcast_to(np.asarray(value, np.float64), (n,))

        self.kind, self.shift, self.scale = setup.kind, setup.shift, setup.scale
        self.m, self.limits, self.largest = setup.m, setup.limits, setup.largest
        self.sign, self.ridge, self.upper = full(setup.sign), full(setup.ridge), full(setup.upper)
        self.linear = full(setup.linear)
        self.group = np.broadcast_to(np.asarray(setup.group, np.int64), (n,))
        self.members = members_of(self.group, setup.n_groups)
        self.z = self.sign if self.kind == "hyperplane" else np.ones(n)
        self.sent, self.unlowered = None, np.zeros(n)
        self.changes = GradientError(0.0, np.zeros(n))
        for name in ("running", "exact"):
            self.x[name], self.product[name] = np.zeros(n), np.zeros(n)

    def remember(self, start: int, points: Any) -> None:
        """Append copies of points that have or may get weights, unless place `start` is filled."""
        n_known = 0 if self.sent is None else self.sent.shape[0]
        if points is not None and n_known == start:
            self.sent = points if self.sent is None else stacked(self.sent, points)

    def rows(self, local: Indices) -> PointCopies:
        """Return points by their indices in the shard."""
        return PointCopies(self.points.X[local], self.points.diagonal[local])

    # --- steps ------------------------------------------------------------------------------------

    def step(
        self,
        start: int,
        points: Any,
        ids: Indices,
        moves: Vector,
        count: int,
        n_first: int,
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
        count, n_first : int
            Maximum number of violators of each group and direction, and how many come with their points.
        own, x_own : ndarray
            Points of this shard in the working set, and their weights.
        """
        self._take_moves(start, points, ids, moves)
        self.x["running"][own] = x_own
        return self.violators(own, count, n_first)

    def scaled_step(
        self,
        keep: float,
        start: int,
        points: Any,
        ids: Indices,
        moves: Vector,
        count: int,
        n_first: int,
        own: Indices,
        x_own: Vector,
    ) -> Violators:
        """Multiply all weights by `keep`, take moves over, and return violators without weight.

        `own` and `x_own` are the points of this shard that moved besides; otherwise as in `step`.
        """
        x = self.x["running"]
        self.product["running"] *= keep
        self.changes.rescale(keep)
        self._take_moves(start, points, ids, moves)
        x *= keep
        x[own] = x_own
        return self.violators(np.flatnonzero(x != 0), count, n_first)._replace(s=np.empty(0))

    def _take_moves(self, start: int, points: Any, ids: Indices, moves: Vector) -> None:
        """Add moves of signed weights to the running product."""
        self.remember(start, points)
        if len(ids):
            total = self.points.sum_fast(self.sent[ids], moves, self.changes)
            total += self.shift * float(np.sum(moves))
            total *= self.scale
            total *= self.sign
            self.product["running"] += total

    def sampled(
        self,
        start: int,
        points: Any,
        ids: Indices,
        weights: Vector,
        count: int,
        seed: int,
        n_draws: int,
    ) -> Violators:
        """Return the best of a few rows drawn at random, for signed weights of remembered points.

        The gradient is evaluated at these rows alone, without the ridge of those with weight, and the
        running product is left as it is.
        """
        self.remember(start, points)
        rows = np.unique(np.random.default_rng(seed).integers(self.n, size=n_draws))
        s = self._exact(ids, weights, rows) + self.linear[rows]
        drawn = members_of(self.group[rows], len(self.members))
        every, nowhere = np.ones(len(rows), bool), np.zeros(len(rows), bool)
        best = least_of_each(s, every, drawn, count)
        up, s_up, none, nothing = rows[best], s[best], np.empty(0, np.int64), np.empty(0)
        first = self.rows(up), self.rows(none)
        extremes = extremes_of(s, every, nowhere, drawn)
        return Violators(*extremes, up, s_up, none, nothing, nothing, *first)

    def farthest(self) -> tuple[float, int]:
        """Return the largest squared distance from a vertex, up to a constant, and the index there.

        The exact product is that of the vertex e_i. The distance in the metric of G + D is, up to a
        constant, g_jj + d_j - 2 g_ij. The index is that in the shard.
        """
        own = self.scale * (self.points.diagonal + self.shift) + self.ridge
        distance = own - 2.0 * self.product["exact"]
        distance[self.x["exact"] > 0] = -np.inf
        at = int(np.argmax(distance))
        return float(distance[at]), at

    def nearest(self, group: int) -> tuple[float, int]:
        """Return the least value of a vertex of one group with those of others, and its index here.

        The exact product is that of the others' sum; a group without points here has the value inf.
        """
        of = np.flatnonzero(self.group == group)
        if not len(of):
            return np.inf, 0
        own = self.scale * (self.points.diagonal[of] + self.shift) + self.ridge[of]
        value = 0.5 * own + self.linear[of] + self.product["exact"][of]
        at = int(np.argmin(value))
        return float(value[at]), int(of[at])

    def violators(self, own: Indices, count: int, n_first: int) -> Violators:
        """Return the violators outside of the working set `own`, by the running product."""
        s, up, down = self._signed("running")
        low, high = extremes_of(s, up, down, self.members)
        s_own = s[own]
        up[own] = down[own] = False
        risers = least_of_each(s, up, self.members, count)
        fallers = least_of_each(-s, down, self.members, count)
        n_points = n_first * len(self.members)
        points = self.rows(risers[:n_points]), self.rows(fallers[:n_points])
        return Violators(low, high, risers, s[risers], fallers, s[fallers], s_own, *points)

    def _signed(self, which: str) -> tuple[Vector, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the signed gradient, and which coordinates are in I_up and in I_low."""
        x = self.x[which]
        s = self.product[which] + self.linear
        s += self.ridge * x
        s *= self.z
        return s, *movable(x, self.z, self.upper)

    def recompute(
        self,
        start: int,
        points: Any,
        ids: Indices,
        weights: Vector,
        at: AtWeights,
        own: Indices,
        x_own: Vector,
    ) -> tuple[Vector, Vector]:
        """Compute the exact product for signed weights of remembered points, in float64.

        With `at.level` it is recomputed at the points with weights, and at those on which the bounds may
        depend. Returns, for each group, the least signed gradient over I_up and the greatest over I_low.
        """
        self.remember(start, points)
        x = np.zeros(self.n)
        x[own] = x_own
        self.x["exact"] = x
        if not self._recompute_partly(ids, weights, at):
            self.product["exact"] = self.unlowered = self._exact(ids, weights, None)
            self.exact_error = at.entry
        return extremes_of(*self._signed("exact"), self.members)

    def _recompute_partly(self, ids: Indices, weights: Vector, at: AtWeights) -> bool:
        """Recompute the entries that matter, and lower the others; return whether that was done.

        It is not done where too many entries matter, or no error bound is known or it is refuted.
        """
        error = None if at.level is None else self._running_error(at)
        if error is None or at.level is None:
            return False
        rows = self._undecided(at.level, error)
        if len(rows) > MAX_RECOMPUTED_SHARE * self.n:
            return False
        running, known = self.product["running"], self.product["running"].copy()
        known[rows] = self._exact(ids, weights, rows)
        difference = np.abs(known[rows] - running[rows])
        if not np.all(difference <= error[rows] + at.entry):
            return False
        lowered = known - error
        lowered[rows], error[rows] = known[rows], at.entry
        self.product["exact"], self.unlowered, self.exact_error = lowered, known, error
        return True

    def _exact(self, ids: Indices, weights: Vector, rows: Indices | None) -> Vector:
        """Return the product for signed weights of remembered points, or its entries `rows`."""
        total = np.zeros(self.n if rows is None else len(rows))
        if len(ids):
            total = self.points.sum_exact(self.sent[ids], weights, rows)
            total += self.shift * float(np.sum(weights))
            total *= self.scale
            total *= self.sign if rows is None else self.sign[rows]
        return total

    def _running_error(self, at: AtWeights) -> Vector | None:
        """Return a bound on the errors of the running product; None if it is unknown."""
        points, changes = self.points, self.changes
        entry = points.entry_error(self.limits.size)
        if entry is None:
            return None
        value, linear, ridge = self.largest
        sum_error = points.sum_error * self.limits.diagonal
        error = changes.of_sums(entry, points.relative_error, sum_error, self.limits.error)
        error *= self.scale
        size = linear + (value + ridge) * (at.total + changes.total_move)
        error += at.moved + update_roundoff(
            self.m, value, changes.total_move, changes.n_passes, size
        )
        error += changes.error
        return error

    def _undecided(self, level: Vector, error: Vector) -> Indices:
        """Return the points with weights, and those whose slack may be negative.

        A point whose slack exceeds twice the error keeps a nonnegative one with its lower bound.
        """
        slack = self._slack("running", level)
        slack -= 2.0 * error
        return np.flatnonzero((self.x["exact"] != 0) | ~(slack > 0.0))

    def _slack(self, which: str, t: Vector) -> Vector:
        """Return the gradient without ridge, less what the multipliers t take from it."""
        slope = self.product[which] + self.linear
        own = self._at_each(t)
        return slope + own * self.sign if self.kind == "hyperplane" else slope - own

    def _at_each(self, t: Vector) -> Any:
        """Return the multiplier of each point."""
        return t[0] if len(t) == 1 else t[self.group]

    def take_exact(self) -> None:
        """Continue from the exact product."""
        self.x["running"] = self.x["exact"].copy()
        self.product["running"] = self.unlowered.copy()
        self.changes = GradientError(self.exact_error, np.zeros(self.n))

    # --- bounds -----------------------------------------------------------------------------------

    def along(self, which: str, grids: list[Vector]) -> list[tuple[Sums, NDArray[np.float64]]]:
        """Return, for each group and a grid of its multiplier, what gives the gap as a function of it.

        These are sums over the weights, and sums over the breakpoints up to each multiplier. The latter,
        shape (3, len(grid)), are those of w, of w v and of w v^2, where w is the upper bound or, on a
        simplex, 1 / ridge.
        """
        return [self._along(which, *own) for own in zip(self.members, grids, strict=True)]

    def _along(self, which: str, of: Any, grid: Vector) -> tuple[Sums, NDArray[np.float64]]:
        """Return these sums over the points of one group."""
        x, product, linear = self.x[which][of], self.product[which][of], self.linear[of]
        sign, ridge = self.sign[of], self.ridge[of]
        values, weights = product + linear, self.upper[of]
        some, least_flat, positive = np.flatnonzero(x != 0), np.inf, 0.0
        xs = signed = x[some]
        if self.kind == "hyperplane":
            values *= -sign
            positive = float(np.where(sign > 0, weights, 0.0) @ values)
            signed = xs * sign[some]
        elif self.kind == "simplex":
            keep = ridge > 0
            least_flat = float(np.min(values[~keep], initial=np.inf))
            values, weights = values[keep], 1.0 / ridge[keep]
        sums = Sums(
            quadratic=float(xs @ product[some]),
            ridge=float((ridge[some] * xs) @ xs),
            linear=float(linear[some] @ xs),
            signed=float(np.sum(signed)),
            positive=positive,
            least_flat=least_flat,
            first=float(np.min(values, initial=np.inf)),
            last=float(np.max(values, initial=-np.inf)),
        )
        return sums, sums_up_to(grid, values, weights)

    def gap(self, which: str, t: Vector, entry: float, defect: float) -> tuple[float, float]:
        """Return this shard's parts of the gap with the multipliers t and of its roundoff.

        `entry` bounds the rounding error of an entry of the product: see `penalty_gap`.
        """
        x, product = self.x[which], self.product[which]
        slope = product + self.linear
        slack = self._slack(which, t)
        if self.kind == "simplex":
            filled = (slack < 0.0) & (self.ridge > 0)
            d = self.ridge[filled]
            excess = x[filled] + slack[filled] / d
            gap = 0.5 * float(d @ (excess * excess))
            some = np.flatnonzero((x > 0) & ~filled)
            return gap + float(x[some] @ (slack[some] + 0.5 * self.ridge[some] * x[some])), 0.0
        if self.kind == "hyperplane" and defect:
            return convex_gap(x, self.upper, slack, defect), 0.0
        gap, below = slack_gap(x, self.upper, slack, None), slack < entry
        roundoff = entry * float(np.sum(self.upper[below] - x[below]))
        if self.kind == "capped" and self.linear.any():
            weight = np.where(below, self.upper, x)
            sizes = np.abs(self.linear) + np.abs(slope) + np.abs(self._at_each(t))
            own = FLOAT64_EPS * sizes
            roundoff += float(weight @ own)
        return gap, roundoff

    def entries(self, which: str, local: Indices) -> Vector:
        """Return entries of a product."""
        return self.product[which][local]

    def below(self, which: str, t: Vector) -> Indices:
        """Return the points whose gradient without ridge is below t, by their indices in the shard."""
        return np.flatnonzero(self.product[which] + self.linear < self._at_each(t))
