"""Semismooth Newton steps on the augmented Lagrangian of the hinge loss, for tall problems.

With the margin deficits z_i = 1 - y_i (x_i'w + b), multipliers alpha and a penalty sigma, minimize

    L(w, b) = 1/2 |w|^2 + sum over i of psi(alpha_i + sigma tau_i z_i) / (sigma tau_i),

psi' = clip(., 0, tau_i), then take alpha = psi' and a larger sigma (Rockafellar 1976 for the method of
multipliers; Yan and Li 2020 for Newton's method in it). Only points with 0 < alpha + sigma tau z < tau
enter the Newton matrix I + sigma sum tau_i (x_i - xbar)(x_i - xbar)': a band of margins of width
1 / sigma, as in the constraint-reduced normal matrix. The weights of points far outside the band are
fixed at 0 or tau while w moves, and checked at each new sigma. Without a bias b = 0 and
xbar = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import compiled
from qpsvm.solvers.interior_point.normal_equations import NormalEquations

Vector = NDArray[np.float64]

FIRST_BAND_POINTS_PER_COLUMN = 4
"""Minimum number of points inside the first band, per column."""

FIRST_BAND_DIVISOR = 10
"""Maximum ratio of the number of points to that inside the first band."""

MAX_FIRST_SIGMA = 3.0
"""Largest first sigma, in units of 1 / margin."""

SIGMA_GROWTH = 4.0
"""Factor on sigma at new multipliers."""

MAX_SIGMA = 3e5
"""Largest sigma, in units of 1 / margin."""

REACH_BAND_WIDTHS = 10.0
"""Band widths from the margin beyond which the weight of a point is fixed."""

MAX_STEP_REACHES = 10.0
"""Maximum move of the score of a live point in a step, in units of `REACH_BAND_WIDTHS` band widths: fixed
weights are valid only nearby, and with all weights fixed L may have no minimum."""

MAX_LIVE_SHARE = 0.7
"""Maximum share of live points at which weights of the others are fixed."""

MAX_COPIED_ENTRIES = 1 << 21
"""Maximum number of entries of live points that are copied.

More of them are read in place: touching new memory costs more than the copy saves.
"""

INNER_GRADIENT_FRACTION = 0.1
"""Fraction of the gap; the multipliers are updated where the norm of the gradient times that of w, with
the same of b, is at most this."""

MAX_LINE_SEARCH_STEPS = 30
"""Maximum number of steps of regula falsi in a line search."""

MAX_INNER_STEPS = 30
"""Maximum number of Newton steps between two updates of the multipliers."""


class Multipliers:
    """An iterate (w, b), the multipliers of all points, and the live points with their weights."""

    def __init__(
        self, points: NormalEquations, y: Vector, tau: Vector, w: Vector, b: float
    ) -> None:
        self.points, self.y, self.tau = points, y, tau
        self.w, self.b = w.copy(), b
        self.scores = points.times(w)
        deficit = 1.0 - y * (self.scores + b)
        near = (
            min(
                points.m,
                max(FIRST_BAND_POINTS_PER_COLUMN * points.n, points.m // FIRST_BAND_DIVISOR),
            )
            - 1
        )
        self.sigma = 1.0 / max(
            float(np.partition(np.abs(deficit), near)[near]), 1.0 / MAX_FIRST_SIGMA
        )
        self.alpha = tau * np.clip(0.5 * (1.0 + self.sigma * deficit), 0.0, 1.0)
        self._next = np.empty(points.m)
        self.n_rows = self.n_newton = 0
        self._recompute_sum()
        self._choose_live()

    def _recompute_sum(self) -> None:
        """Recompute X'Y alpha, which is updated from here on."""
        self._counted = self.y * self.alpha  # the weights in the sum
        self._sum = self._of_alpha = self.points.transposed(self._counted)

    def _choose_live(self, also: NDArray[np.bool_] | bool = False) -> None:
        """Choose the live points and gather their data."""
        y, tau = self.y, self.tau
        live = (self.alpha > 0) & (self.alpha < tau) | also
        live |= np.abs(1.0 - y * (self.scores + self.b)) <= REACH_BAND_WIDTHS / self.sigma
        count = int(np.count_nonzero(live))
        self._n_inner, self._moved = 0, 0.0
        self._copy: NormalEquations | None = None
        self.fixed_balance = 0.0
        if count > MAX_LIVE_SHARE * len(y):
            self.rows: NDArray[np.int64] | slice = slice(None)
        else:
            self.rows = np.flatnonzero(live)
            self.fixed_balance = float(np.sum(self._counted[~live]))
            X = self.points.X
            if isinstance(X, np.ndarray) and (
                count * X.shape[1] <= MAX_COPIED_ENTRIES or not X.flags.c_contiguous
            ):
                self._copy = self.points.take(self.rows)
        self._y, self._tau = y[self.rows], tau[self.rows]
        self._alpha, self._h = self.alpha[self.rows], self.scores[self.rows].copy()
        self._signed = self._counted[self.rows].copy()
        self._x, self._before, self._d = (np.empty(len(self._y)) for _ in range(3))
        self._update_weights()

    def _update_weights(self) -> None:
        """Compute the weights of the live points at (w, b), and update X'Y alpha."""
        self._before, self._signed = self._signed, self._before
        self._inside, balance, self._gap = _weights(
            self._y, self._tau, self._alpha, self._h, self.b, self.sigma, self._x, self._signed,
            self._d,
        )  # fmt: skip
        self._balance = balance + self.fixed_balance if self.points.bias else 0.0
        changed = np.flatnonzero(self._signed != self._before)
        if len(changed):
            change = self._signed[changed] - self._before[changed]
            self._sum = self._sum + self.points.combination(self._among_all(changed), change)
        self._gradient = self.w - self._sum

    def _among_all(self, live: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return indices among the live points as indices among all."""
        return live if isinstance(self.rows, slice) else self.rows[live]

    def _times(self, v: Vector) -> Vector:
        """Return the products of the live points with v."""
        if self._copy is not None:
            return self._copy.times(v)
        return self.points.times(v, None if isinstance(self.rows, slice) else self.rows)

    @property
    def finished(self) -> bool:
        """Whether the penalty is so large that only rounding remains."""
        return self.sigma >= MAX_SIGMA

    def refresh(self) -> None:
        """Recompute scores and sums."""
        self.scores = self.points.times(self.w)
        self._recompute_sum()
        self._choose_live()

    def step(self) -> bool:
        """Make a Newton step; return whether it ended with new multipliers.

        Raises
        ------
        LinAlgError
            If the direction is not finite.
        """
        if self._inside == 0:
            self._center()
        gradient = self._gradient
        active = np.flatnonzero(self._d)
        self.n_rows += len(active)
        if len(active):
            points = self.points
            points.factor_some(self._among_all(active), self._d[active])
            dw = points.direction(-(gradient + self._balance * points.mean))
            db = self._balance / points.total - float(points.mean @ dw)
        else:
            dw, db = -gradient, 0.0
        dh = self._times(dw)
        slope = float(gradient @ dw) - self._balance * db
        if not np.isfinite(slope):
            raise np.linalg.LinAlgError("the direction is not finite")
        t, reach = self._search(dw, dh, db, slope), np.inf
        if not isinstance(self.rows, slice):
            reach = REACH_BAND_WIDTHS / self.sigma
            max_move = float(np.max(np.abs(dh + db), initial=0.0))
            t = min(t, MAX_STEP_REACHES * reach / max_move) if max_move > 0.0 else t
            self._moved += t * max_move
        self.w += t * dw
        self.b += t * db
        self._h += t * dh
        self.n_newton += 1
        self._n_inner += 1
        self._update_weights()
        residual = float(np.linalg.norm(self._gradient) * np.linalg.norm(self.w))
        residual += abs(self._balance) * (1.0 + abs(self.b))
        if residual <= INNER_GRADIENT_FRACTION * self._gap or self._n_inner >= MAX_INNER_STEPS:
            return self._update()
        if self._moved > reach:
            self._moved = 0.0
            self._check_fixed()
        return False

    def _search(self, dw: Vector, dh: Vector, db: float, slope: float) -> float:
        """Return 1, or a step at which the slope of L is at most a tenth of the first."""
        square = float(dw @ dw)

        def at(t: float) -> float:
            change = _slope_change(
                self._y, self._tau, self._alpha, self._h, self._signed, self.b, dh, db, self.sigma,
                t,
            )  # fmt: skip
            return slope + t * square + float(change)

        low, at_low, high, at_high = 0.0, slope, 1.0, at(1.0)
        tolerance, t = 0.1 * abs(slope), 1.0
        if at_high <= tolerance:
            return 1.0
        for _ in range(MAX_LINE_SEARCH_STEPS):
            t = low - at_low * (high - low) / (at_high - at_low)
            t = min(max(t, 0.95 * low + 0.05 * high), 0.05 * low + 0.95 * high)
            value = at(t)
            if abs(value) <= tolerance:
                break
            if value > 0:
                high, at_high = t, value
            else:
                low, at_low = t, value
        return t

    def _center(self) -> None:
        """Move b until a live point is inside the band or the weights are balanced."""
        low, high, width = -np.inf, np.inf, 1.0 / self.sigma
        for _ in range(100):
            if self._inside or self._balance == 0.0:
                return
            if self._balance > 0:
                low = self.b
            else:
                high = self.b
            bounded = np.isfinite(low) and np.isfinite(high)
            self.b = (
                0.5 * (low + high) if bounded else low + width if low > -np.inf else high - width
            )
            width *= 2.0
            self._update_weights()

    def _update(self) -> bool:
        """Take the new multipliers of all points and a larger sigma.

        Where fixed weights would change, their points become live first, and False is returned.
        """
        if self._check_fixed():
            return False
        x = self._next
        if not isinstance(self.rows, slice):
            x[self.rows] = self._x  # from updated scores: the sum has these weights
        else:
            x[:] = self._x
        self.alpha, self._next = x, self.alpha
        self._of_alpha = self._sum
        self.sigma = min(SIGMA_GROWTH * self.sigma, MAX_SIGMA)
        self._choose_live()
        return True

    def _check_fixed(self) -> bool:
        """Compute the scores and new multipliers of all points.

        Return whether fixed weights would change; their points are then made live.
        """
        self._counted[self.rows] = self._signed
        self.scores = self.points.times(self.w)
        x = self._next
        _new_multipliers(self.y, self.tau, self.alpha, self.scores, self.b, self.sigma, x)
        if isinstance(self.rows, slice):
            return False
        changed = x != self.alpha
        changed[self.rows] = False
        if not changed.any():
            return False
        changed[self.rows] = True
        self._choose_live(changed)
        return True

    def feasible(self) -> tuple[Vector, Vector]:
        """Return the multipliers with the class of larger sum scaled down so that y'x = 0, and X'Y x.

        Only the weights between their bounds are scaled where that is enough, which is cheap.
        """
        y, x, w = self.y, self.alpha.copy(), self._of_alpha
        excess = float(y @ x) if self.points.bias else 0.0
        if excess == 0.0:
            return x, w
        heavy = (y > 0) == (excess > 0)
        free = np.flatnonzero((x > 0) & (x < self.tau) & heavy)
        total = float(np.sum(x[free]))
        if total > abs(excess):
            change = x[free] * (-abs(excess) / total)
            x[free] += change
            w = w + self.points.combination(free, y[free] * change)
        else:
            x[heavy] *= 1.0 - abs(excess) / float(np.sum(x[heavy]))
            w = self.points.transposed(y * x)
        return x, w


@compiled
def _weights(
    y: Any, tau: Any, alpha: Any, h: Any, b: float, sigma: float, x: Any, signed: Any, d: Any
) -> Any:
    """Fill weights and scaling; return the number inside the band, y'x and the gap at (w, b)."""
    inside = 0
    balance = 0.0
    gap = 0.0
    for i in range(y.shape[0]):
        z = 1.0 - y[i] * (h[i] + b)
        t = alpha[i] + sigma * tau[i] * z
        v = min(max(t, 0.0), tau[i])
        x[i] = v
        signed[i] = y[i] * v
        band = t > 0.0 and t < tau[i]
        d[i] = sigma * tau[i] if band else 0.0
        inside += 1 if band else 0
        balance += signed[i]
        gap += (tau[i] - v) * max(z, 0.0) + v * max(-z, 0.0)
    return inside, balance, gap


@compiled
def _new_multipliers(y: Any, tau: Any, alpha: Any, h: Any, b: float, sigma: float, x: Any) -> None:
    """Fill the weights only."""
    for i in range(y.shape[0]):
        t = alpha[i] + sigma * tau[i] * (1.0 - y[i] * (h[i] + b))
        x[i] = min(max(t, 0.0), tau[i])


@compiled
def duality_gap(y: Any, tau: Any, x: Any, h: Any, b: float) -> float:
    """Return the gap of the weights x and the hyperplane w = X'Yx, b; h = Xw."""
    gap = 0.0
    for i in range(y.shape[0]):
        z = 1.0 - y[i] * (h[i] + b)
        gap += (tau[i] - x[i]) * max(z, 0.0) + x[i] * max(-z, 0.0)
    return gap


@compiled
def _slope_change(
    y: Any, tau: Any, alpha: Any, h: Any, signed: Any, b: float, dh: Any, db: float, sigma: float,
    s: float,
) -> float:  # fmt: skip
    """Return the change of the loss's part of the derivative of L by the step s."""
    total = 0.0
    for i in range(y.shape[0]):
        move = dh[i] + db
        t = alpha[i] + sigma * tau[i] * (1.0 - y[i] * (h[i] + b + s * move))
        total -= move * (y[i] * min(max(t, 0.0), tau[i]) - signed[i])
    return total
