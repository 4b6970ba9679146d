"""Support vector regression whose tube has a free width, with the parameter nu.

    primal    minimize  1/2 |w|^2 + nu eps sum C_i + sum C_i (xi_i + xi*_i)
              subject to  y_i - w'z_i - b <= eps + xi_i,  w'z_i + b - y_i <= eps + xi*_i,  xi, xi* >= 0
    dual      maximize  -1/2 |sum (a_i - a*_i) z_i|^2 + sum y_i (a_i - a*_i)
              subject to  0 <= a, a* <= C,  sum a_i = sum a*_i = nu / 2 sum C_i

Some best eps is >= 0, as nu <= 1. The declared problem is the dual with its sign changed, its variable
is a followed by a*. A point with C_i = 0 is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from reference.regression.svr import SVR
from reference.textbook import EXTENDED_PRECISION, Array, Candidate, StandardForm, answers, clarabel


@answers("nu_svr")
class NuSVR(SVR):
    """Regression with a tube of free width."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__({**data, "epsilon": 0.0, "bias": True})
        self.total = EXTENDED_PRECISION(data["nu"]) * self.C.sum() / 2

    def primal(self) -> Candidate:
        """Solve for w, b, eps and both slacks; the weights are the multipliers of the tube's sides."""
        import cvxpy as cp

        y, C, total = self._in_units()
        w, b, epsilon = cp.Variable(self.Z.shape[1]), cp.Variable(), cp.Variable()
        over, under = (cp.Variable(len(y), nonneg=True) for _ in "ab")
        f = self.Z @ w + b
        tube = [y - f <= epsilon + over, f - y <= epsilon + under]
        loss = 2 * total * epsilon + C @ over + C @ under
        value = clarabel(cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + loss), tube))
        return self._candidate(-value, tube[0].dual_value, tube[1].dual_value)

    def dual(self) -> Candidate:
        """Solve for the weights."""
        import cvxpy as cp

        y, C, total = self._in_units()
        a, b = (cp.Variable(len(y), nonneg=True) for _ in "ab")
        limits = [a <= C, b <= C, cp.sum(a) == total, cp.sum(b) == total]
        objective = cp.sum_squares(self.Z.T @ (a - b)) / 2 - y @ (a - b)
        value = clarabel(cp.Problem(cp.Minimize(objective), limits))
        return self._candidate(value, a.value, b.value)

    def standard_form(self) -> StandardForm:
        """Return the quadratic program in a and a*, with the sum of each."""
        A = np.repeat(np.eye(2, dtype=EXTENDED_PRECISION), len(self.y), axis=1)
        return replace(super().standard_form(), A=A, b=np.full(2, self.total))

    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the dual's value, and minus the primal's at the w of x with the best tube.

        With its upper edge at u and its lower one at l the tube costs total (u - l) + sum C (r - u)_+
        + sum C (l - r)_+ for the residuals r: two of these are best.
        """
        a, b = np.split(x, 2)
        f = self.K @ (a - b)
        half = (a - b) @ f / 2
        r, C = (self.y - f)[self.present], self.C[self.present]
        beyond = np.maximum(r - r[:, None], 0) @ C  # by edge
        below = np.maximum(r[:, None] - r, 0) @ C
        tube = (self.total * r + beyond).min() + (below - self.total * r).min()
        return half - self.y @ (a - b), -(half + tube)

    def _in_units(self) -> tuple[Array, Array, float]:
        """Return values, penalties and the sum of each side's weights in Clarabel's units."""
        y, C, _ = self._present()
        return y, C, float(self.total * (self.unit / self.height))


def primal(data: dict[str, Any]) -> Candidate:
    """Solve the primal problem of raw data by Clarabel; the value is the declared dual's."""
    return NuSVR(data).primal()


def dual(data: dict[str, Any]) -> Candidate:
    """Solve the dual problem of raw data by Clarabel; the value is the declared dual's."""
    return NuSVR(data).dual()
