"""Support vector data description: a ball with slack.

    primal    minimize  r^2 + sum C_i xi_i    subject to  |z_i - c|^2 <= r^2 + xi_i,  xi >= 0
    dual      maximize  sum a_i k_ii - a'Ka   subject to  0 <= a <= C,  sum a = 1;  c = sum a_i z_i

The declared problem is the dual with its sign changed. With t = r^2 - |c|^2 the primal is a
quadratic program, as that of the ball without slack. No slack where C = inf; a point with C_i = 0
is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reference.kernels import factor, gram
from reference.textbook import (
    EXTENDED_PRECISION,
    Array,
    Candidate,
    StandardForm,
    Textbook,
    answers,
    clarabel,
)


@answers("svdd")
class SVDD(Textbook):
    """Smallest ball around most of the points."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.K = gram(data, translate=True)
        self.C = np.broadcast_to(np.asarray(data["C"], dtype=EXTENDED_PRECISION), (len(self.K),))
        self.scale = self.K.diagonal().max() or EXTENDED_PRECISION(1)
        self.Z = factor(self.K / self.scale)

    def primal(self) -> Candidate:
        """Solve for center, radius and slacks; the weights are the multipliers."""
        import cvxpy as cp

        Z, hard = self.Z, np.isinf(self.C)
        c, t = cp.Variable(Z.shape[1]), cp.Variable()
        xi = cp.Variable(len(Z), nonneg=True)
        inside = (Z**2).sum(axis=1) - 2 * Z @ c <= t + xi
        rules = [inside, xi[hard] == 0] if hard.any() else [inside]
        loss = np.where(hard, 1, self.C).astype(float) @ xi
        value = clarabel(cp.Problem(cp.Minimize(cp.sum_squares(c) + t + loss), rules))
        return Candidate(-value * float(self.scale), inside.dual_value)

    def dual(self) -> Candidate:
        """Solve for the weights."""
        import cvxpy as cp

        Z, soft = self.Z, np.isfinite(self.C)
        a = cp.Variable(len(Z), nonneg=True)
        box = [a[soft] <= self.C[soft].astype(float)] if soft.any() else []
        objective = cp.sum_squares(Z.T @ a) - (Z**2).sum(axis=1) @ a
        value = clarabel(cp.Problem(cp.Minimize(objective), [cp.sum(a) == 1, *box]))
        return Candidate(value * float(self.scale), a.value)

    def standard_form(self) -> StandardForm:
        """Return Q = 2K and c = -diag K over the simplex with bounds."""
        m = len(self.K)
        row = np.ones((1, m), EXTENDED_PRECISION)
        return StandardForm(2 * self.K, -self.K.diagonal(), row, np.ones(1), self.C)

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and minus the primal's at c = sum x_i z_i with the best radius."""
        k, Kx = self.K.diagonal(), self.K @ x
        squared_distances = k - 2 * Kx + x @ Kx
        there = self.C > 0
        d, C = squared_distances[there], self.C[there]
        beyond = np.maximum(d - d[:, None], 0)  # of point j, for the radius through point i
        with np.errstate(invalid="ignore"):
            prices = np.where(beyond > 0, C * beyond, 0).sum(axis=1) + d
        return x @ Kx - k @ x, -max(prices.min(), EXTENDED_PRECISION(0))


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel; the value is the declared dual's."""
    return SVDD(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel."""
    return SVDD(data).dual()
