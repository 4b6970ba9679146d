"""Distance of two reduced convex hulls, of the points with y = +1 and of those with y = -1: the nu-SVM.

With the bounds u_i = 2 w_i / (nu sum w):

    primal    minimize  1/2 |w|^2 - alpha + beta + sum u_i xi_i
              subject to  w'p_i >= alpha - xi_i,  w'q_j <= beta + xi_j,  xi >= 0
    dual      minimize  1/2 |sum y_i a_i z_i|^2    subject to  0 <= a <= u,  each class of sum 1

The declared problem is the dual; the primal's value is minus that.
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


@answers("reduced_hulls")
class ReducedHulls(Textbook):
    """Closest points of two reduced hulls."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.y = np.asarray(data["y"], dtype=EXTENDED_PRECISION)
        self.K = gram(data, translate=True)
        self.scale = self.K.diagonal().max() or EXTENDED_PRECISION(1)
        weight = np.asarray(
            data.get("sample_weight", np.ones(len(self.y))), dtype=EXTENDED_PRECISION
        )
        self.u = 2 * weight / (EXTENDED_PRECISION(data["nu"]) * weight.sum())
        for own in (self.y > 0, self.y < 0):
            if self.u[own].sum() < 1:  # the largest nu: one point, feasible to the last digit
                self.u[own] /= self.u[own].sum()
        self.Z = factor(self.K / self.scale)

    def primal(self) -> Candidate:
        """Solve for w, alpha, beta and xi; the weights are the multipliers."""
        import cvxpy as cp

        Z, y, u = self.Z, self.y.astype(float), self.u.astype(float)
        w, alpha, beta = cp.Variable(Z.shape[1]), *cp.Variable(2)
        xi = cp.Variable(len(Z), nonneg=True)
        threshold = (y > 0) * alpha - (y < 0) * beta
        margin = cp.multiply(y, Z @ w) + xi >= threshold
        objective = cp.sum_squares(w) / 2 - alpha + beta + u @ xi
        value = clarabel(cp.Problem(cp.Minimize(objective), [margin]))
        return Candidate(-value * float(self.scale), margin.dual_value)

    def dual(self) -> Candidate:
        """Solve for the weights of both reduced hulls."""
        import cvxpy as cp

        Z, y = self.Z, self.y.astype(float)
        a = cp.Variable(len(Z), nonneg=True)
        squares = cp.sum_squares(Z.T @ cp.multiply(y, a))
        capped = [a <= self.u.astype(float), cp.sum(a[y > 0]) == 1, cp.sum(a[y < 0]) == 1]
        value = clarabel(cp.Problem(cp.Minimize(squares / 2), capped))
        return Candidate(value * float(self.scale), a.value)

    def standard_form(self) -> StandardForm:
        """Return Q = yy'K over two simplices with bounds."""
        Q = np.outer(self.y, self.y) * self.K
        A = np.array([self.y > 0, self.y < 0], dtype=EXTENDED_PRECISION)
        return StandardForm(Q, np.zeros(len(Q), EXTENDED_PRECISION), A, np.ones(2), self.u)

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and the primal's along the w of x, at its best length.

        With the best thresholds alpha - beta less the losses is `width`, the least of w'(p - q) over
        points of the reduced hulls, whose distance is at least width / |w|.
        """
        h = self.y * (self.K @ (self.y * x))
        square = max(x @ h, EXTENDED_PRECISION(0))
        width = EXTENDED_PRECISION(0)
        for own in (self.y > 0, self.y < 0):
            g, u = h[own], self.u[own]
            missed = np.maximum(g[:, None] - g, 0)  # by point i as the level, by point j
            width += (g - (missed * u).sum(axis=1)).max()
        return square / 2, width**2 / (2 * square) if width > 0 else EXTENDED_PRECISION(0)


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel; the value is the declared dual's."""
    return ReducedHulls(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel."""
    return ReducedHulls(data).dual()
