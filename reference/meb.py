"""Minimum enclosing ball.

    primal    minimize  r^2                   subject to  |z_i - c|^2 <= r^2
    dual      maximize  sum a_i k_ii - a'Ka   over the simplex;   c = sum a_i z_i

The declared problem is the dual with its sign changed: its value is -radius^2.
With t = r^2 - |c|^2 the primal is a quadratic program (Elzinga and Hearn 1972):

    minimize  |c|^2 + t    subject to  |z_i|^2 - 2 z_i'c <= t
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


@answers("meb")
class MEB(Textbook):
    """Smallest ball around the points."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.K = gram(data, translate=True)
        self.scale = self.K.diagonal().max() or EXTENDED_PRECISION(1)
        self.Z = factor(self.K / self.scale)

    def primal(self) -> Candidate:
        """Solve for center and radius; the weights are the multipliers."""
        import cvxpy as cp

        Z = self.Z
        c, t = cp.Variable(Z.shape[1]), cp.Variable()
        inside = (Z**2).sum(axis=1) - 2 * Z @ c <= t
        value = clarabel(cp.Problem(cp.Minimize(cp.sum_squares(c) + t), [inside]))
        return Candidate(-value * float(self.scale), inside.dual_value)

    def dual(self) -> Candidate:
        """Solve for the weights."""
        import cvxpy as cp

        Z = self.Z
        a = cp.Variable(len(Z), nonneg=True)
        objective = cp.sum_squares(Z.T @ a) - (Z**2).sum(axis=1) @ a
        value = clarabel(cp.Problem(cp.Minimize(objective), [cp.sum(a) == 1]))
        return Candidate(value * float(self.scale), a.value)

    def standard_form(self) -> StandardForm:
        """Return Q = 2K and c = -diag K over the simplex."""
        m = len(self.K)
        return StandardForm(
            2 * self.K,
            -self.K.diagonal(),
            np.ones((1, m), EXTENDED_PRECISION),
            np.ones(1),
            np.full(m, np.inf),
        )

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and the ball about sum x_i z_i that holds every point."""
        k, Kx = self.K.diagonal(), self.K @ x
        squared_distances = k - 2 * Kx + x @ Kx
        return x @ Kx - k @ x, -max(squared_distances.max(), EXTENDED_PRECISION(0))


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel."""
    return MEB(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel."""
    return MEB(data).dual()
