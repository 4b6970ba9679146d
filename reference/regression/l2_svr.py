"""Support vector regression with the squared epsilon-insensitive loss and a penalised bias, or without.

    primal    minimize  1/2 (|w|^2 + b^2) + 1/2 sum C_i xi_i^2
              subject to  y_i - w'z_i - b <= eps + xi_i,  w'z_i + b - y_i <= eps + xi_i
    dual      maximize  -1/2 |sum (a_i - a*_i) z_i|^2 - 1/2 (sum (a_i - a*_i))^2
                        - 1/2 sum (a_i^2 + a*_i^2) / C_i - eps sum (a_i + a*_i) + sum y_i (a_i - a*_i)
              subject to  a, a* >= 0;   xi_i = (a_i + a*_i) / C_i

The declared problem is the dual with its sign changed, its variable is a followed by a*. Without bias
b = 0. A point with C_i = 0 is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reference.kernels import factor
from reference.regression.svr import SVR
from reference.textbook import (
    EXTENDED_PRECISION,
    Array,
    Candidate,
    StandardForm,
    Textbook,
    answers,
    clarabel,
)


@answers("l2_svr")
class L2SVR(SVR):
    """Regression with a tube and squared slacks; the bias is the weight of a constant feature."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__({**data, "bias": False})
        self.K = self.K + EXTENDED_PRECISION(bool(data["bias"]))
        self.unit = self.K.diagonal().max() or EXTENDED_PRECISION(1)
        self.scale = self.height**2 / self.unit
        self.Z = factor(self.K / self.unit)[self.present]

    def primal(self) -> Candidate:
        """Solve for (w, b) and the slacks; the weights are the multipliers of the tube's sides."""
        import cvxpy as cp

        y, C, epsilon = self._squared_units()
        w, slack = cp.Variable(self.Z.shape[1]), cp.Variable(len(y))
        f = self.Z @ w
        tube = [y - f <= epsilon + slack, f - y <= epsilon + slack]
        squares = cp.sum_squares(w) + cp.sum_squares(cp.multiply(np.sqrt(C), slack))
        value = clarabel(cp.Problem(cp.Minimize(squares / 2), tube))
        return self._candidate(-value, tube[0].dual_value, tube[1].dual_value)

    def dual(self) -> Candidate:
        """Solve for the weights."""
        import cvxpy as cp

        y, C, epsilon = self._squared_units()
        a, b = (cp.Variable(len(y), nonneg=True) for _ in "ab")
        w, ridge = cp.Variable(self.Z.shape[1]), np.diag(1 / C)
        squares = cp.sum_squares(w) + cp.quad_form(a, ridge) + cp.quad_form(b, ridge)
        objective = squares / 2 + epsilon * cp.sum(a + b) - y @ (a - b)
        value = clarabel(cp.Problem(cp.Minimize(objective), [w == self.Z.T @ (a - b)]))
        return self._candidate(value, a.value, b.value)

    def standard_form(self) -> StandardForm:
        """Return the quadratic program in a and a*; a point that is left out has the upper bound 0."""
        form = super().standard_form()
        inverse = np.divide(1, self.C, out=np.zeros_like(self.y), where=self.present)
        upper = np.where(np.tile(self.present, 2), np.inf, 0.0)
        return StandardForm(form.Q + np.diag(np.tile(inverse, 2)), form.c, form.A, form.b, upper)

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and minus the primal's at the w and b of x with its slacks."""
        a, b = np.split(x, 2)
        f, C = self.K @ (a - b), self.C[self.present]
        half = (a - b) @ f / 2
        slack = np.maximum(np.abs(self.y - f)[self.present] - self.epsilon, 0)
        squares = ((a**2 + b**2)[self.present] / C).sum()
        upper = half + squares / 2 + self.epsilon * x.sum() - self.y @ (a - b)
        return upper, -(half + C @ slack**2 / 2)

    def roundoff(self, x: Array) -> float:
        """Bound the rounding errors of both ends, those of the squared errors included."""
        a, b = np.split(x, 2)
        unit = 8 * np.sqrt(EXTENDED_PRECISION(len(x))) * np.finfo(EXTENDED_PRECISION).eps
        entry = unit * (np.abs(self.K) @ (a + b) + np.abs(self.y) + self.epsilon)
        slack = np.maximum(np.abs(self.y - self.K @ (a - b)) - self.epsilon, 0)
        loss = (self.C * entry * (slack + entry))[self.present].sum()
        return Textbook.roundoff(self, x) + float(loss)

    def _squared_units(self) -> tuple[Array, Array, float]:
        """Return values, penalties and eps in Clarabel's units, in which a weight is C times a slack."""
        y, _, epsilon = self._present()
        return y, (self.C[self.present] * self.unit).astype(float), epsilon


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel; the value is the declared dual's."""
    return L2SVR(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel; the value is the declared dual's."""
    return L2SVR(data).dual()
