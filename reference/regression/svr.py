"""Support vector regression with the epsilon-insensitive loss, with a free bias or without.

    primal    minimize  1/2 |w|^2 + sum C_i (xi_i + xi*_i)
              subject to  y_i - w'z_i - b <= eps + xi_i,  w'z_i + b - y_i <= eps + xi*_i,  xi, xi* >= 0
    dual      maximize  -1/2 |sum (a_i - a*_i) z_i|^2 - eps sum (a_i + a*_i) + sum y_i (a_i - a*_i)
              subject to  0 <= a, a* <= C,  sum (a_i - a*_i) = 0

The declared problem is the dual with its sign changed, its variable is a followed by a*. Without bias
b = 0 and the sum is free. A point with C_i = 0 is left out.
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


@answers("svr")
class SVR(Textbook):
    """Regression with a tube."""

    def __init__(self, data: dict[str, Any]) -> None:
        y = np.asarray(data["y"], dtype=EXTENDED_PRECISION)
        self.C = np.broadcast_to(np.asarray(data["C"], dtype=EXTENDED_PRECISION), y.shape)
        self.bias = data["bias"]
        self.present = self.C > 0
        self.y = y - y[self.present].mean() if self.bias else y  # b takes the difference
        self.epsilon = EXTENDED_PRECISION(data["epsilon"])
        self.K = gram(data, translate=self.bias)
        # Clarabel sees K / unit and y / height: weights in units of height / unit.
        self.unit = self.K.diagonal().max() or EXTENDED_PRECISION(1)
        self.height = max(np.abs(self.y[self.present]).max(), self.epsilon) or EXTENDED_PRECISION(1)
        self.scale = self.height**2 / self.unit
        self.Z = factor(self.K / self.unit)[self.present]

    def primal(self) -> Candidate:
        """Solve for w, b and both slacks; the weights are the multipliers of the tube's two sides."""
        import cvxpy as cp

        y, C, epsilon = self._present()
        w, over, under = (
            cp.Variable(self.Z.shape[1]),
            *(cp.Variable(len(y), nonneg=True) for _ in "ab"),
        )
        f = self.Z @ w + (cp.Variable() if self.bias else 0.0)
        tube = [y - f <= epsilon + over, f - y <= epsilon + under]
        objective = cp.Minimize(cp.sum_squares(w) / 2 + C @ over + C @ under)
        value = clarabel(cp.Problem(objective, tube))
        return self._candidate(-value, tube[0].dual_value, tube[1].dual_value)

    def dual(self) -> Candidate:
        """Solve for the weights."""
        import cvxpy as cp

        y, C, epsilon = self._present()
        a, b = (cp.Variable(len(y), nonneg=True) for _ in "ab")
        limits = [a <= C, b <= C, *([cp.sum(a) == cp.sum(b)] if self.bias else [])]
        objective = cp.sum_squares(self.Z.T @ (a - b)) / 2 + epsilon * cp.sum(a + b) - y @ (a - b)
        value = clarabel(cp.Problem(cp.Minimize(objective), limits))
        return self._candidate(value, a.value, b.value)

    def standard_form(self) -> StandardForm:
        """Return the quadratic program in a and a*."""
        Q = np.block([[self.K, -self.K], [-self.K, self.K]])
        c = np.append(self.epsilon - self.y, self.epsilon + self.y)
        A = np.repeat([1.0, -1.0], len(self.y))[None, :] if self.bias else np.zeros((0, len(c)))
        return StandardForm(Q, c, A, np.zeros(len(A)), np.tile(self.C, 2))

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and minus the primal's at the w of x with the best bias.

        The loss is piecewise linear in b: one of its kinks y_i - f_i +- eps is best.
        """
        a, b = np.split(x, 2)
        f = self.K @ (a - b)
        half = (a - b) @ f / 2
        here, C = (self.y - f)[self.present], self.C[self.present]
        kinks = (
            np.append(here - self.epsilon, here + self.epsilon)
            if self.bias
            else [EXTENDED_PRECISION(0)]
        )
        losses = [C @ np.maximum(np.abs(here - level) - self.epsilon, 0) for level in kinks]
        return half + self.epsilon * x.sum() - self.y @ (a - b), -(half + min(losses))

    def roundoff(self, x: Array) -> float:
        """Bound the rounding errors of both ends, y at the points outside the tube included."""
        loss = self.C.sum() * (np.abs(self.y[self.present]).max() + self.epsilon)
        return super().roundoff(x) + float(8 * np.finfo(EXTENDED_PRECISION).eps * loss)

    def _present(self) -> tuple[Array, Array, float]:
        """Return values, penalties and eps, in Clarabel's units, of the points not left out."""
        y, C = self.y / self.height, self.C * (self.unit / self.height)
        return (
            y[self.present].astype(float),
            C[self.present].astype(float),
            float(self.epsilon / self.height),
        )

    def _candidate(self, value: float, a: Array, b: Array) -> Candidate:
        """Return the declared value and all weights from Clarabel's of the points present."""
        x = np.zeros((2, len(self.y)))
        x[:, self.present] = np.stack([a, b]) * float(self.height / self.unit)
        return Candidate(value * float(self.scale), x.ravel())


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel; the value is the declared dual's."""
    return SVR(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel; the value is the declared dual's."""
    return SVR(data).dual()
