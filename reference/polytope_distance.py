"""Distance of two polytopes, P the hull of the points with y = +1 and Q of those with y = -1.

    primal    minimize  1/2 |w|^2 + chi/2 (sum xi_i^2 + sum psi_j^2) - alpha + beta
              subject to  w'p_i >= alpha - xi_i,  w'q_j <= beta + psi_j
    dual      minimize  1/2 |Pu - Qv|^2 + (|u|^2 + |v|^2) / (2 chi)   over two simplices;
              w = Pu - Qv,  xi = u / chi,  psi = v / chi

The declared problem is the dual; the primal's value is minus that. No slacks without chi.
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


@answers("polytope_distance")
class PolytopeDistance(Textbook):
    """Closest points of two hulls."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.y = np.asarray(data["y"], dtype=EXTENDED_PRECISION)
        self.ridge = (
            EXTENDED_PRECISION(0) if data["chi"] is None else 1 / EXTENDED_PRECISION(data["chi"])
        )
        self.K = gram(data, translate=True)
        self.scale = (self.K.diagonal().max() + self.ridge) or EXTENDED_PRECISION(1)
        self.Z = factor(self.K / self.scale)
        self.slack = float(np.sqrt(self.ridge / self.scale))

    def primal(self) -> Candidate:
        """Solve for w, alpha, beta and t = sqrt(chi) (xi, psi); the weights are the multipliers."""
        import cvxpy as cp

        Z, y = self.Z, self.y.astype(float)
        w, t, alpha, beta = cp.Variable(Z.shape[1]), cp.Variable(len(Z)), *cp.Variable(2)
        threshold = (y > 0) * alpha - (y < 0) * beta
        margin = cp.multiply(y, Z @ w) + self.slack * t >= threshold
        squares = cp.sum_squares(w) + cp.sum_squares(t)
        value = clarabel(cp.Problem(cp.Minimize(squares / 2 - alpha + beta), [margin]))
        return Candidate(-value * float(self.scale), margin.dual_value)

    def dual(self) -> Candidate:
        """Solve for the weights of both hulls."""
        import cvxpy as cp

        Z, y = self.Z, self.y.astype(float)
        x = cp.Variable(len(Z), nonneg=True)
        squares = cp.sum_squares(Z.T @ cp.multiply(y, x)) + cp.sum_squares(self.slack * x)
        simplices = [cp.sum(x[y > 0]) == 1, cp.sum(x[y < 0]) == 1]
        value = clarabel(cp.Problem(cp.Minimize(squares / 2), simplices))
        return Candidate(value * float(self.scale), x.value)

    def standard_form(self) -> StandardForm:
        """Return Q = yy'K + I/chi over the product of two simplices."""
        m = len(self.y)
        Q = np.outer(self.y, self.y) * self.K + self.ridge * np.eye(m)
        A = np.array([self.y > 0, self.y < 0], dtype=EXTENDED_PRECISION)
        return StandardForm(Q, np.zeros(m, EXTENDED_PRECISION), A, np.ones(2), np.full(m, np.inf))

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and the primal's at w = Pu - Qv; without chi at its best length.

        Along w the hulls lie `width` apart, so their distance is at least width / |w|.
        """
        P, Q = self.y > 0, self.y < 0
        h = self.K @ (self.y * x)  # w'p_i and w'q_j
        squared_length = max((self.y * x) @ h, EXTENDED_PRECISION(0))
        if self.ridge == 0:
            width = max(h[P].min() - h[Q].max(), EXTENDED_PRECISION(0))
            lower = width**2 / (2 * squared_length) if width > 0 else EXTENDED_PRECISION(0)
            return squared_length / 2, lower
        alpha = x[P] @ (h[P] + self.ridge * x[P])
        beta = x[Q] @ (h[Q] - self.ridge * x[Q])
        slacks = np.concatenate([np.maximum(alpha - h[P], 0), np.maximum(h[Q] - beta, 0)])
        lower = alpha - beta - (squared_length + (slacks**2).sum() / self.ridge) / 2
        return (squared_length + self.ridge * (x @ x)) / 2, max(lower, EXTENDED_PRECISION(0))


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel."""
    return PolytopeDistance(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel."""
    return PolytopeDistance(data).dual()
