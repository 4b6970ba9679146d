"""Support vector machine with squared slacks and penalised bias, scaled to weights of sum one.

    primal    minimize  1/2 (|w|^2 + b^2 + sum C_i xi_i^2) - rho
              subject to  y_i (w'z_i + b) >= rho - xi_i
    dual      minimize  1/2 |sum a_i y_i z_i|^2 + 1/2 (sum a_i y_i)^2 + 1/2 sum a_i^2 / C_i
              over the simplex;   w = sum a_i y_i z_i,  b = sum a_i y_i,  xi_i = a_i / C_i

The declared problem is the dual; the primal's value is minus that. No slack where C_i = inf; a
point with C_i = 0 is left out.
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


@answers("l2_svm")
class L2SVM(Textbook):
    """Machine with squared slacks."""

    def __init__(self, data: dict[str, Any]) -> None:
        y = np.asarray(data["y"], dtype=EXTENDED_PRECISION)
        C = np.broadcast_to(np.asarray(data["C"], dtype=EXTENDED_PRECISION), y.shape)
        self.present = C > 0
        self.y, self.C = y[self.present], C[self.present]
        self.K = gram(data)[np.ix_(self.present, self.present)]
        # Everything Clarabel sees is divided by the largest diagonal entry of Q.
        self.scale = (self.K.diagonal() + 1 + 1 / self.C).max()
        self.Z = factor(self.K / self.scale)
        self.one = float(1 / np.sqrt(self.scale))
        self.slack = np.sqrt(1 / (self.C * self.scale)).astype(float)

    def primal(self) -> Candidate:
        """Solve for w, b, rho and t_i = sqrt(C_i) xi_i; the weights are the multipliers."""
        import cvxpy as cp

        Z, y = self.Z, self.y.astype(float)
        w, b, rho, t = cp.Variable(Z.shape[1]), cp.Variable(), cp.Variable(), cp.Variable(len(Z))
        margin = cp.multiply(y, Z @ w + self.one * b) + cp.multiply(self.slack, t) >= rho
        squares = cp.sum_squares(w) + cp.square(b) + cp.sum_squares(t)
        value = clarabel(cp.Problem(cp.Minimize(squares / 2 - rho), [margin]))
        return Candidate(-value * float(self.scale), self._embed(margin.dual_value))

    def dual(self) -> Candidate:
        """Solve for the weights."""
        import cvxpy as cp

        Z, y = self.Z, self.y.astype(float)
        a = cp.Variable(len(Z), nonneg=True)
        w, b = Z.T @ cp.multiply(y, a), self.one * (y @ a)
        squares = cp.sum_squares(w) + cp.square(b) + cp.sum_squares(cp.multiply(self.slack, a))
        value = clarabel(cp.Problem(cp.Minimize(squares / 2), [cp.sum(a) == 1]))
        return Candidate(value * float(self.scale), self._embed(a.value))

    def standard_form(self) -> StandardForm:
        """Return Q over the simplex; a point that is left out has the upper bound 0."""
        m = len(self.present)
        Q = np.zeros((m, m), EXTENDED_PRECISION)
        signed = np.outer(self.y, self.y) * (self.K + 1) + np.diag(1 / self.C)
        Q[np.ix_(self.present, self.present)] = signed
        upper = np.where(self.present, np.inf, 0.0)
        return StandardForm(
            Q,
            np.zeros(m, EXTENDED_PRECISION),
            np.ones((1, m), EXTENDED_PRECISION),
            np.ones(1),
            upper,
        )

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and the primal's at the w and b of x with a fair rho."""
        a = x[self.present]
        f = self.y * (self.K @ (self.y * a) + self.y @ a)
        squares = a @ f
        upper = max((squares + (a**2 / self.C).sum()) / 2, EXTENDED_PRECISION(0))
        hard = np.isinf(self.C)
        if hard.all():  # the best multiple of (w, b, rho): minimize s^2/2 squares - s min f
            return upper, max(f.min(), EXTENDED_PRECISION(0)) ** 2 / (
                2 * squares
            ) if squares > 0 else EXTENDED_PRECISION(0)
        rho = min(2 * upper, f[hard].min(initial=np.inf))
        xi = np.where(hard, 0, np.maximum(rho - f, 0))
        slacks = (self.C[~hard] * xi[~hard] ** 2).sum()
        return upper, max(rho - (squares + slacks) / 2, EXTENDED_PRECISION(0))

    def _embed(self, a: Array) -> Array:
        """Return the weights of all points from those of the points that are present."""
        x = np.zeros(len(self.present))
        x[self.present] = a
        return x


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel."""
    return L2SVM(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel."""
    return L2SVM(data).dual()
