"""Least-squares machine.

    primal    minimize  1/2 |w|^2 + sum C_i (1 - y_i (w'z_i + b))^2
    dual      maximize  sum a - 1/2 |sum a_i y_i z_i|^2 - sum a_i^2 / (4 C_i)   subject to  y'a = 0

Without bias b = 0 and y'a is free. A point with C_i = 0 is left out. w = sum a_i y_i z_i, and the
optimum solves the linear system  (yy'K + diag(1 / (2C))) a + y b = 1,  y'a = 0.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from reference.solving.pairs import SOLVER_FUNCTIONS, Pair, PairTextbook
from reference.textbook import EXTENDED_PRECISION, Array, answers

MAX_REFINEMENTS = 8
"""Corrections of the linear system's solution by residuals in extended precision."""


@answers("ls_svm")
class LSSVM(PairTextbook):
    """Machine with squared losses; its primal is the declared problem."""

    def pair(self, solver: str) -> Pair:
        """Solve both problems; OSQP's weights are kept, Clarabel's are refined."""
        import cvxpy as cp

        Z, y, C = self.Z.astype(float), self.y.astype(float), self.C.astype(float)
        level = 1.0 / float(C.max())
        w, b = cp.Variable(Z.shape[1]), cp.Variable() if self.bias else 0.0
        residual = cp.multiply(np.sqrt(level * C), 1 - cp.multiply(y, Z @ w + b))
        objective = 0.5 * level * cp.sum_squares(w) + cp.sum_squares(residual)
        primal = SOLVER_FUNCTIONS[solver](cp.Problem(cp.Minimize(objective))) / level
        a = cp.Variable(len(y))  # in units of C's largest
        squares = 0.5 / level * cp.sum_squares(Z.T @ cp.multiply(y, a))
        squares += 0.25 * cp.sum_squares(cp.multiply(np.sqrt(1 / (level * C)), a))
        rows = [y @ a == 0] if self.bias else []
        dual = SOLVER_FUNCTIONS[solver](cp.Problem(cp.Maximize(cp.sum(a) - squares), rows)) / level
        weights = np.asarray(a.value, EXTENDED_PRECISION) / level
        if solver == "Clarabel":
            weights = self.refined()
        return Pair(self.Z.T @ (self.y * weights), weights, primal, dual)

    def refined(self) -> Array:
        """Solve the linear system, with residuals in extended precision."""
        m = len(self.y)
        size = m + bool(self.bias)
        system, right = (
            np.zeros((size, size), EXTENDED_PRECISION),
            np.ones(size, EXTENDED_PRECISION),
        )
        system[:m, :m] = np.outer(self.y, self.y) * (self.Z @ self.Z.T) + np.diag(1 / (2 * self.C))
        if self.bias:
            system[m, :m] = system[:m, m] = self.y
            right[m] = 0
        factored = scipy.linalg.lu_factor(system.astype(float))
        x = np.zeros(size, EXTENDED_PRECISION)
        for _ in range(MAX_REFINEMENTS):
            x += scipy.linalg.lu_solve(factored, (right - system @ x).astype(float))
        return x[:m]

    def best_bias(self, f: Array) -> np.longdouble:
        """Return the weighted mean of y - f."""
        return self.C @ (self.y - f) / self.C.sum()

    def bounds(self, w: Array, a: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return both values; an imbalance of a is spread over all points."""
        f = self.values(w)
        b = self.best_bias(f) if self.bias else EXTENDED_PRECISION(0)
        upper = w @ w / 2 + self.C @ (1 - self.y * (f + b)) ** 2
        if self.bias:
            a = a - self.C * self.y * ((self.y @ a) / self.C.sum())
        v = self.Z.T @ (self.y * a)
        return upper, a.sum() - v @ v / 2 - (a**2 / (4 * self.C)).sum()
