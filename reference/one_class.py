"""One-class support vector machine.

With the bounds u_i = w_i / (nu sum w):

    primal    minimize  1/2 |w|^2 - rho + sum u_i xi_i
              subject to  w'z_i >= rho - xi_i,  xi >= 0
    dual      maximize  -1/2 |sum a_i z_i|^2    subject to  0 <= a <= u,  sum a = 1

The declared problem is the dual with its sign changed.
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


@answers("one_class")
class OneClass(Textbook):
    """Hyperplane between most of the points and the origin."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.K = gram(data)
        self.scale = self.K.diagonal().max() or EXTENDED_PRECISION(1)
        weight = np.asarray(
            data.get("sample_weight", np.ones(len(self.K))), dtype=EXTENDED_PRECISION
        )
        self.u = weight / (EXTENDED_PRECISION(data["nu"]) * weight.sum())
        if data["nu"] == 1:
            self.u /= self.u.sum()  # the mean is feasible to the last digit
        self.Z = factor(self.K / self.scale)

    def primal(self) -> Candidate:
        """Solve for w, rho and xi; the weights are the multipliers."""
        import cvxpy as cp

        w, rho = cp.Variable(self.Z.shape[1]), cp.Variable()
        xi = cp.Variable(len(self.Z), nonneg=True)
        beyond = self.Z @ w + xi >= rho
        objective = cp.sum_squares(w) / 2 - rho + self.u.astype(float) @ xi
        value = clarabel(cp.Problem(cp.Minimize(objective), [beyond]))
        return Candidate(-value * float(self.scale), beyond.dual_value)

    def dual(self) -> Candidate:
        """Solve for the weights."""
        import cvxpy as cp

        a = cp.Variable(len(self.Z), nonneg=True)
        box = [a <= self.u.astype(float), cp.sum(a) == 1]
        value = clarabel(cp.Problem(cp.Minimize(cp.sum_squares(self.Z.T @ a) / 2), box))
        return Candidate(value * float(self.scale), a.value)

    def standard_form(self) -> StandardForm:
        """Return Q = K over the simplex with bounds."""
        m = len(self.K)
        return StandardForm(
            self.K,
            np.zeros(m, EXTENDED_PRECISION),
            np.ones((1, m), EXTENDED_PRECISION),
            np.ones(1),
            self.u,
        )

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and minus the primal's at the w of x with the best rho."""
        f = self.K @ x
        half = x @ f / 2
        missed = np.maximum(f[:, None] - f, 0)  # by point i as the level, by point j
        losses = (missed * self.u).sum(axis=1) - f
        return half, -(half + losses.min())


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel; the value is the declared dual's."""
    return OneClass(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel."""
    return OneClass(data).dual()
