"""The iterate of the interior point method for the hinge loss, and the parts of one iteration.

Notation of Jung, O'Leary and Tits, section 3.1: residuals

    rw = w - X'Y alpha,  ra = y'alpha,  ru = tau - alpha - u,  rs = YXw - gamma y + xi - 1 - s,

complementarity mu = (s'alpha + xi'u) / (2m), omega = s / alpha + xi / u, and for targets
s alpha + e -> 0, xi u + f -> 0 the elimination

    rO = rs + s + e / alpha - (xi ru + xi u + f) / u,   q = Y rO / omega,
    M dw = -(rw + X'q + (ra - sum q) xbar),             dgamma = xbar'dw - (ra - sum q) / c,
    dalpha = -(rO + Y(X dw - dgamma)) / omega,  du = ru - dalpha,
    ds = -s - (e + s dalpha) / alpha,           dxi = -xi - (f + xi du) / u.

The predictor has e = f = 0; the corrector e = ds dalpha - sigma mu, f = du dxi - sigma mu.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import compiled
from qpsvm.solvers.interior_point.normal_equations import NormalEquations

Vector = NDArray[np.float64]

ZERO_RESIDUAL_FRACTION = 1e-15
"""Residuals below this fraction of their terms are set to zero; rs and ru then only shrink, by 1 - a.

Divided by a vanishing omega, the rounding of their terms would be larger than alpha.
"""

MIN_STEP_GAIN = 0.01
"""Minimum increase of the step length for which a centrality correction is kept."""


class Direction:
    """Step in every variable, the targets it was computed for, its longest length."""

    def __init__(self, m: int, n: int) -> None:
        self.w, self.gamma, self.h = np.zeros(n), 0.0, np.zeros(m)
        self.alpha, self.u, self.s, self.xi = (np.zeros(m) for _ in range(4))
        self.r, self.e, self.f = (np.zeros(m) for _ in range(3))  # rO and the targets
        self.rhs, self.shift = np.zeros(n), 0.0
        self.refined = False  # whether its residual has been computed
        self.longest = 0.0  # step to the boundary
        self.second = 0.0  # sum of ds dalpha + dxi du


@dataclass
class Interior:
    """An iterate with alpha, u, s, xi > 0.

    `complementarity` is its gap, except for `off`, a bound on the contribution of the residual rw.
    """

    points: NormalEquations
    y: Vector
    tau: Vector
    alpha: Vector
    u: Vector
    s: Vector
    xi: Vector
    w: Vector
    gamma: float = 0.0

    def __post_init__(self) -> None:
        """Allocate the work space."""
        self.m, n = self.points.m, self.points.n
        self.classes = [np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)]
        # Y alpha, d = 1 / omega, q = Y rO / omega: what X' multiplies
        self.columns = np.zeros((3, self.m))
        self.d, self.q = self.columns[1], self.columns[2]
        self.delta, self._spare_direction = Direction(self.m, n), Direction(self.m, n)
        self.n_cg = self.n_corrections = self.n_rows = self.n_steps = 0
        self.unit = max(float(np.mean(self.points.squares)), np.finfo(float).tiny)
        self.growth = 1.0  # factor on the number of rows
        self.residual = np.inf  # |rw| before the last step
        self.is_exact = True  # whether the last factor was that of M
        self.raw_residual = 0.0  # residual of its solutions before conjugate gradients
        self.compute_scores()
        self.prepare_iteration()

    @property
    def longest(self) -> float:
        """Longest step along the direction that keeps every variable nonnegative."""
        return self.delta.longest

    def compute_scores(self) -> None:
        """Recompute h = Xw - gamma, and rs and ru with it."""
        self.h = self.points.times(self.w) - self.gamma
        self._change_of_h = 0.0
        self.rs = self.y * self.h + self.xi - 1.0 - self.s
        self.ru = self.tau - self.alpha - self.u
        self.rs[np.abs(self.rs) <= ZERO_RESIDUAL_FRACTION * (2.0 + np.abs(self.h) + self.xi)] = 0.0
        self.ru[np.abs(self.ru) <= ZERO_RESIDUAL_FRACTION * self.tau] = 0.0

    def prepare_iteration(self) -> None:
        """Scale, eliminate for the predictor, multiply by X', and compute rw, ra, mu, the value."""
        delta = self.delta
        _scale(
            self.y, self.alpha, self.u, self.s, self.xi, self.rs, self.ru, self.columns[0],
            self.d, self.q, delta.r, delta.e, delta.f,
        )  # fmt: skip
        self.z, self.moment, self.rhs = self.points.transposed_all(self.columns)
        self.rw = self.w - self.z
        self.ra = float(self.y @ self.alpha) if self.points.bias else 0.0
        self.complementarity = float(self.s @ self.alpha + self.xi @ self.u)
        self.mu = self.complementarity / (2 * self.m)
        total, quadratic = float(np.sum(self.alpha)), float(self.z @ self.z)
        self.off = total * np.sqrt(self.unit) * float(np.linalg.norm(self.rw))
        self.size = total - 0.5 * quadratic if total > 0.5 * quadratic else total

    def factor(self, active: NDArray[np.int64] | None, exact: bool, **options: Any) -> None:
        """Factor the normal matrix of the rows `active`, None for all; without reductions if `exact`."""
        self.n_rows += self.m if active is None else len(active)
        self.points.factor(self.d, self.moment, active, exact, **options)
        is_exact = self.points.is_exact
        if is_exact != self.is_exact:  # the last residual is of another kind of factor
            self.raw_residual = 0.0 if is_exact else np.inf
        self.is_exact = is_exact

    def solve(self, rtol: float) -> None:
        """Compute the direction of the current elimination to a residual `rtol`: see `crsvm`."""
        of, delta = self.points, self.delta
        moment = self.ra - float(np.sum(self.q))
        delta.rhs = -(self.rw + self.rhs + moment * of.mean)
        delta.shift = moment / of.total
        delta.refined = bool(np.isfinite(rtol))
        if delta.refined:
            goal = rtol * rtol * self.complementarity
            delta.w, delta.h, n_cg, energy = of.refined(delta.rhs, goal)
            self.raw_residual = float(np.sqrt(energy / self.complementarity))
            self.n_cg += n_cg
        else:
            delta.w, delta.h = of.solve(delta.rhs)
        delta.h += delta.shift
        self._expand()

    def refine(self, rtol: float) -> None:
        """Reduce the residual of the direction."""
        delta = self.delta
        if not np.isfinite(rtol):
            return
        delta.h -= delta.shift
        goal = rtol * rtol * self.complementarity
        *_, n_cg, energy = self.points.refined(delta.rhs, goal, delta.w, delta.h)
        delta.h += delta.shift
        if not delta.refined:
            self.raw_residual = float(np.sqrt(energy / self.complementarity))
            delta.refined = True
        if n_cg:
            self.n_cg += n_cg
            self._expand()

    def _expand(self) -> None:
        delta = self.delta
        delta.gamma = float(self.points.mean @ delta.w) - delta.shift
        delta.longest, delta.second = _expand(
            self.y, self.ru, self.alpha, self.u, self.s, self.xi, self.d, delta.r, delta.e, delta.f,
            delta.h, delta.alpha, delta.u, delta.s, delta.xi,
        )  # fmt: skip

    def affine(self) -> float:
        """Return the complementarity after the longest step along the predictor."""
        a = min(1.0, self.delta.longest)
        return (1.0 - a) * self.mu + a * a * self.delta.second / (2 * self.m)

    def correct(self, target: float) -> None:
        """Eliminate for Mehrotra's corrector: complementarity `target`, second-order terms."""
        delta = self.delta
        np.multiply(delta.s, delta.alpha, out=delta.e)
        delta.e -= target
        np.multiply(delta.xi, delta.u, out=delta.f)
        delta.f -= target
        self._eliminate()

    def center(self, target: float, rtol: float) -> bool:
        """Try a correction toward products between a tenth and ten times the target (Gondzio)."""
        old = self.delta
        if old.longest >= 1.0:
            return False
        new = self._spare_direction
        _recenter(
            min(1.0, old.longest + 0.3), target, self.alpha, self.u, self.s, self.xi,
            old.alpha, old.u, old.s, old.xi, old.e, old.f, new.e, new.f,
        )  # fmt: skip
        self.delta, self._spare_direction = new, old
        self.n_corrections += 1
        self._eliminate()
        self.solve(rtol)
        if new.longest >= old.longest + MIN_STEP_GAIN:
            return True
        self.delta, self._spare_direction = old, new
        return False

    def _eliminate(self) -> None:
        delta = self.delta
        _eliminate(
            self.y, self.alpha, self.u, self.s, self.xi, self.rs, self.ru, self.d, delta.e, delta.f,
            delta.r, self.q,
        )  # fmt: skip
        self.rhs = self.points.transposed(self.q)

    def move(self, a: float) -> None:
        """Take the step a, the same for every variable."""
        delta = self.delta
        self.n_steps += 1
        self.w += a * delta.w
        self.gamma += a * delta.gamma
        largest, change = _move(
            a, self.alpha, self.u, self.s, self.xi, self.h, self.rs, self.ru,
            delta.alpha, delta.u, delta.s, delta.xi, delta.h,
        )  # fmt: skip
        self._change_of_h += change
        if self._change_of_h > 1e3 * (1.0 + largest):  # its rounding would affect the margins
            self.compute_scores()
        before, complementarity = self.rw, self.complementarity
        self.prepare_iteration()
        if not delta.refined:  # rhs - M dw, from the remaining rw
            energy = self.points.energy(((1.0 - a) * before - self.rw) / a)
            self.raw_residual = float(np.sqrt(energy / complementarity))


def cold(points: NormalEquations, y: Vector, tau: Vector, alpha: Vector, u: Vector) -> Interior:
    """Return the iterate with s = xi = 2, w = 0 and gamma = 0."""
    two = np.full(len(y), 2.0)
    return Interior(points, y, tau, alpha, u, two, two.copy(), np.zeros(points.n))


@compiled
def _scale(
    y: Any, alpha: Any, u: Any, s: Any, xi: Any, rs: Any, ru: Any, signed: Any, d: Any, q: Any,
    r: Any, e: Any, f: Any,
) -> None:  # fmt: skip
    """Fill Y alpha, d = 1 / omega and the elimination for e = f = 0."""
    for i in range(y.shape[0]):
        signed[i] = y[i] * alpha[i]
        ratio = xi[i] / u[i]
        d[i] = 1.0 / (s[i] / alpha[i] + ratio)
        r[i] = rs[i] + s[i] - xi[i] - ratio * ru[i]
        q[i] = y[i] * d[i] * r[i]
        e[i] = 0.0
        f[i] = 0.0


@compiled
def _eliminate(
    y: Any, alpha: Any, u: Any, s: Any, xi: Any, rs: Any, ru: Any, d: Any, e: Any, f: Any, r: Any,
    q: Any,
) -> None:  # fmt: skip
    """Fill rO and q."""
    for i in range(y.shape[0]):
        excess = xi[i] * ru[i] + f[i]
        r[i] = rs[i] + s[i] - xi[i] + e[i] / alpha[i] - excess / u[i]
        q[i] = y[i] * d[i] * r[i]


@compiled
def _expand(
    y: Any, ru: Any, alpha: Any, u: Any, s: Any, xi: Any, d: Any, r: Any, e: Any, f: Any,
    dh: Any, dalpha: Any, du: Any, ds: Any, dxi: Any,
) -> Any:  # fmt: skip
    """Fill the direction; return the longest step and the second-order sum."""
    steepest = 0.0
    second = 0.0
    for i in range(y.shape[0]):
        a = -d[i] * (r[i] + y[i] * dh[i])
        b = ru[i] - a
        per_alpha = 1.0 / alpha[i]
        per_u = 1.0 / u[i]
        c = -s[i] - (e[i] + s[i] * a) * per_alpha
        g = -xi[i] - (f[i] + xi[i] * b) * per_u
        dalpha[i] = a
        du[i] = b
        ds[i] = c
        dxi[i] = g
        second += a * c + b * g
        rate = max(max(-a * per_alpha, -b * per_u), max(-c / s[i], -g / xi[i]))
        steepest = rate if rate > steepest else steepest
    return 1.0 / steepest, second


@compiled
def _recenter(
    a: float, target: float, alpha: Any, u: Any, s: Any, xi: Any, dalpha: Any, du: Any, ds: Any,
    dxi: Any, e: Any, f: Any, new_e: Any, new_f: Any,
) -> None:  # fmt: skip
    """Fill the targets that bring the products after the step a into [target / 10, 10 target]."""
    low = 0.1 * target
    high = 10.0 * target
    for i in range(alpha.shape[0]):
        v = (s[i] + a * ds[i]) * (alpha[i] + a * dalpha[i])
        new_e[i] = e[i] - max(min(max(v, low), high) - v, -high)
        v = (xi[i] + a * dxi[i]) * (u[i] + a * du[i])
        new_f[i] = f[i] - max(min(max(v, low), high) - v, -high)


@compiled
def _move(
    a: float, alpha: Any, u: Any, s: Any, xi: Any, h: Any, rs: Any, ru: Any,
    dalpha: Any, du: Any, ds: Any, dxi: Any, dh: Any,
) -> Any:  # fmt: skip
    """Take the step a; return the largest score and its largest change."""
    largest = 0.0
    change = 0.0
    for i in range(alpha.shape[0]):
        alpha[i] += a * dalpha[i]
        u[i] += a * du[i]
        s[i] += a * ds[i]
        xi[i] += a * dxi[i]
        h[i] += a * dh[i]
        rs[i] *= 1.0 - a
        ru[i] *= 1.0 - a
        largest = max(largest, abs(h[i]))
        change = max(change, abs(a * dh[i]))
    return largest, change
