"""Linear-programming machine: the L1 norm of w and the hinge loss.

    primal    minimize  |w|_1 + sum C_i xi_i   subject to  y_i (w'z_i + b) >= 1 - xi_i,  xi >= 0
    dual      maximize  sum a   subject to  |sum a_i y_i z_i|_inf <= 1,  0 <= a <= C,  y'a = 0

Without bias b = 0 and y'a is free. A point with C_i = 0 is left out. With a kernel z_i is row
i of K, over the points that are not left out, and w holds the coefficients of an expansion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reference.kernels import gram
from reference.solving.pairs import SOLVER_FUNCTIONS, Pair, PairTextbook
from reference.textbook import EXTENDED_PRECISION, Array, answers


@answers("lp_svm")
class LPSVM(PairTextbook):
    """Machine with the l1 norm; its primal is the declared problem."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.expansion = data["kernel"][0] != "linear"
        if self.expansion:
            C = np.broadcast_to(
                np.asarray(data["C"], dtype=EXTENDED_PRECISION), np.shape(data["y"])
            )
            data = {**data, "X": gram(data)[:, C > 0], "kernel": ("linear", {})}
        super().__init__(data)

    def report(self, w: Array, a: Array) -> Array:
        """Return w and b; of an expansion a coefficient for every point."""
        if not self.expansion:
            return super().report(w, a)
        c = np.zeros(len(self.present), EXTENDED_PRECISION)
        c[self.present] = w
        b = self.best_bias(self.values(w)) - w @ self.origin if self.bias else EXTENDED_PRECISION(0)
        return (np.append(c, b) if self.bias else c).astype(float)

    def pair(self, solver: str) -> Pair:
        """Solve both linear programs; entries are divided by the largest of Z."""
        import cvxpy as cp

        unit = float(np.abs(self.Z).max()) or 1.0
        Z, y, C = (self.Z / unit).astype(float), self.y.astype(float), self.C.astype(float)
        level = 1.0 / float(C.max())  # the losses have weights of about one
        w, xi = cp.Variable(Z.shape[1]), cp.Variable(len(y), nonneg=True)
        b = cp.Variable() if self.bias else 0.0
        margin = cp.multiply(y, Z @ w + b) + xi >= 1
        objective = (level / unit) * cp.norm1(w) + (level * C) @ xi
        primal = SOLVER_FUNCTIONS[solver](cp.Problem(cp.Minimize(objective), [margin])) / level
        a = cp.Variable(len(y), nonneg=True)
        rows = [a <= level * C, cp.norm_inf(Z.T @ cp.multiply(y, a)) <= level / unit]
        rows += [y @ a == 0] if self.bias else []
        dual = SOLVER_FUNCTIONS[solver](cp.Problem(cp.Maximize(cp.sum(a)), rows)) / level
        return Pair(
            np.asarray(w.value, EXTENDED_PRECISION) / unit,
            np.asarray(a.value, EXTENDED_PRECISION) / level,
            primal,
            dual,
        )

    def best_bias(self, f: Array) -> np.longdouble:
        """Return the best of the kinks y_i - f_i of the loss in b."""
        kinks = self.y - f
        losses = np.maximum(1 - self.y * (f + kinks[:, None]), 0) @ self.C
        return kinks[losses.argmin()]

    def bounds(self, w: Array, a: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return both values; the heavier class is scaled down, then all weights."""
        f = self.values(w)
        b = self.best_bias(f) if self.bias else EXTENDED_PRECISION(0)
        upper = np.abs(w).sum() + self.C @ np.maximum(1 - self.y * (f + b), 0)
        a = np.clip(a, 0, self.C)
        if self.bias:
            plus, minus = a[self.y > 0].sum(), a[self.y < 0].sum()
            a = a * np.where(self.y > 0, min(1, minus / plus) if plus > 0 else 0, 1)
            a = a * np.where(self.y < 0, min(1, plus / minus) if minus > 0 else 0, 1)
        steepest = np.abs(self.Z.T @ (self.y * a)).max()
        return upper, a.sum() / max(1, steepest)
