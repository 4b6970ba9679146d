"""Support vector machine with the hinge loss, with a free bias or without.

    primal    minimize  1/2 |w|^2 + sum C_i xi_i
              subject to  y_i (w'z_i + b) >= 1 - xi_i,  xi >= 0
    dual      maximize  sum a - 1/2 |sum a_i y_i z_i|^2
              subject to  0 <= a <= C,  y'a = 0;   w = sum a_i y_i z_i

Two problems are declared: the dual with its sign changed (`Hinge`), and the primal in w and b for
the linear kernel (`HingePrimal`). No slack where C = inf; a point with C_i = 0 is left out. Without
bias b = 0 and y'a is free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reference.kernels import centered, factor, gram, points
from reference.textbook import (
    EXTENDED_PRECISION,
    Array,
    Candidate,
    StandardForm,
    Textbook,
    answers,
    clarabel,
)


@answers("hinge")
class Hinge(Textbook):
    """Machine with the hinge loss; the dual is the declared problem."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.y = np.asarray(data["y"], dtype=EXTENDED_PRECISION)
        self.C = np.broadcast_to(np.asarray(data["C"], dtype=EXTENDED_PRECISION), self.y.shape)
        self.bias = data["bias"]
        self.K = gram(data, translate=self.bias)
        # Clarabel gets K / unit, C unit and a unit: entries and weights of about one.
        largest = self.C[np.isfinite(self.C)].max(initial=0)
        self.unit = max(
            self.K.diagonal().max(), 1 / largest if largest > 0 else 0
        ) or EXTENDED_PRECISION(1)
        self.scale = 1 / self.unit
        self.present = self.C > 0
        self.Z = factor(self.K / self.unit)[self.present]

    def primal(self) -> Candidate:
        """Solve for w, b and xi; the weights are the multipliers of the margins."""
        import cvxpy as cp

        y, C = self._present()
        w, xi = cp.Variable(self.Z.shape[1]), cp.Variable(len(y), nonneg=True)
        b = cp.Variable() if self.bias else 0.0
        soft = np.isfinite(C)
        margin = cp.multiply(y, self.Z @ w + b) + cp.multiply(soft, xi) >= 1
        loss = np.where(soft, C, 1.0) @ xi
        value = clarabel(cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + loss), [margin]))
        return Candidate(-value * float(self.scale), self._embed(margin.dual_value))

    def dual(self) -> Candidate:
        """Solve for the weights."""
        import cvxpy as cp

        y, C = self._present()
        a = cp.Variable(len(y), nonneg=True)
        soft = np.isfinite(C)
        box = [a[soft] <= C[soft]] if soft.any() else []
        objective = cp.sum_squares(self.Z.T @ cp.multiply(y, a)) / 2 - cp.sum(a)
        balance = [y @ a == 0] if self.bias else []
        value = clarabel(cp.Problem(cp.Minimize(objective), [*balance, *box]))
        return Candidate(value * float(self.scale), self._embed(a.value))

    def standard_form(self) -> StandardForm:
        """Return Q = yy'K and c = -1 over the box and, with a bias, the hyperplane y'a = 0."""
        Q = np.outer(self.y, self.y) * self.K
        A = self.y[None, :] if self.bias else np.zeros((0, len(Q)))
        return StandardForm(Q, -np.ones(len(Q), EXTENDED_PRECISION), A, np.zeros(len(A)), self.C)

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and minus the primal's at the w of x with the best bias."""
        f = self.K @ (self.y * x)
        squared_length = (self.y * x) @ f
        upper = squared_length / 2 - x.sum()
        if np.isinf(self.C[self.present]).all():
            stretch, _ = self.hard_margin(f)
            return upper, -(stretch**2) * squared_length / 2 if stretch < np.inf else -np.inf
        loss, _ = self.best_bias(f)
        return upper, -(squared_length / 2 + loss)

    def best_bias(self, f: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the least sum of C_i max(0, 1 - y_i (f_i + b)) and its b.

        It is piecewise linear in b, so one of its kinks y_i - f_i is best.
        """
        y, f, C = self.y[self.present], f[self.present], self.C[self.present]
        kinks = y - f if self.bias else np.zeros(1, EXTENDED_PRECISION)
        short = np.maximum(1 - y * (f + kinks[:, None]), 0)
        losses = np.where(short > 0, C * short, 0).sum(axis=1)
        best = losses.argmin()
        return losses[best], kinks[best]

    def hard_margin(self, f: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the factor by which w meets every margin, inf where none does, and the new bias."""
        if not self.bias:
            lowest = (self.y * f)[self.present].min()
            return (1 / lowest if lowest > 0 else EXTENDED_PRECISION(np.inf)), EXTENDED_PRECISION(0)
        plus, minus = self.present & (self.y > 0), self.present & (self.y < 0)
        if not (plus.any() and minus.any()):
            return EXTENDED_PRECISION(0), self.y[self.present].sum()
        lowest, highest = f[plus].min(), f[minus].max()
        if lowest <= highest:
            return EXTENDED_PRECISION(np.inf), EXTENDED_PRECISION(0)
        stretch = 2 / (lowest - highest)
        return stretch, -stretch * (lowest + highest) / 2

    def _present(self) -> tuple[Array, Array]:
        """Return labels and penalties, in Clarabel's units, of the points that are not left out."""
        C = (self.C * self.unit)[self.present]
        return self.y[self.present].astype(float), C.astype(float)

    def _embed(self, a: Array) -> Array:
        """Return the weights of all points from Clarabel's of the points that are present."""
        x = np.zeros(len(self.y))
        x[self.present] = a * float(self.scale)
        return x


@answers("hinge_primal")
class HingePrimal(Hinge):
    """The same machine; the primal is the declared problem, its variable is w and b."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__({**data, "kernel": ("linear", {})})
        self.X = points(data["X"])

    def primal(self) -> Candidate:
        """Solve the primal; the candidate's x is the dual one, from which `report` makes w, b."""
        value, x = super().primal()
        return Candidate(-value, x)

    def dual(self) -> Candidate:
        """Solve the dual."""
        value, x = super().dual()
        return Candidate(-value, x)

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the bounds of the primal: those of the dual with their signs changed."""
        upper, lower = super().bounds(x)
        return -lower, -upper

    def report(self, x: Array) -> Array:
        """Return w and b, or w alone; b is translated from the centered points to the user's."""
        if not self.bias:
            w = self.X.T @ (self.y * x)
            hard = np.isinf(self.C[self.present]).all()
            return ((self.hard_margin(self.K @ (self.y * x))[0] if hard else 1) * w).astype(float)
        w = centered(self.X).T @ (self.y * x)
        f = self.K @ (self.y * x)
        if np.isinf(self.C[self.present]).all():
            stretch, b = self.hard_margin(f)
            w = stretch * w
        else:
            _, b = self.best_bias(f)
        return np.append(w, b - w @ self.X.mean(axis=0)).astype(float)


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel; the value is the declared dual's."""
    return Hinge(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel; the value is the declared dual's."""
    return Hinge(data).dual()
