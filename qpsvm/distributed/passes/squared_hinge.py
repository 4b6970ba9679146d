r"""The linear L2-SVM in passes over rows, with a certified gap.

The declared problem is: minimize V(x) = 1/2 x'Qx over the simplex, where Q has the entries
y_i y_j (z_i'z_j + 1), without a bias y_i y_j z_i'z_j, and 1 / C_i is added on its diagonal. A pass at
v = (w, b) gives the value and the derivatives of

    P(v) = 1/2 |v|^2 + 1/2 sum C_i max(0, q_i)^2,    q_i = 1 - y_i (w'z_i + b),

whose dual is: maximize D(a) = sum a_i - 1/2 a'Qa over a >= 0. Along the ray a = t x its best value is
1 / (2 x'Qx) = 1 / (4 V(x)). So min V = 1 / (4 min P), and every v gives the lower bound 1 / (4 P(v)).
The same pass gives the weights a_i = C_i max(0, q_i), and with x = a / sum a the upper bound

    V(x) = (|sum a_i y_i (z_i, 1)|^2 + sum C_i max(0, q_i)^2) / (2 (sum a_i)^2).

Both meet at the optimum, where v = sum a_i y_i (z_i, 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Bounds, enclose
from qpsvm.distributed.passes.margin import MarginPasses
from qpsvm.distributed.passes.sums import LossSums

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class SquaredHingePasses(MarginPasses):
    """The L2-SVM of rows in shards; the width of its variable is 1."""

    max_slope: ClassVar[float] = np.inf
    penalizes_bias: ClassVar[bool] = True

    def repair(self, x: Vector) -> Vector:
        """Return x with the width 1, and with b = 0 where there is no bias."""
        x = super().repair(x)
        x[-1] = 1.0
        return x

    def feasible(self, x: Vector, product: Any) -> tuple[Vector, Any]:
        """Return x and its sums, or those of w = 0 where no row has a weight at x."""
        if np.any(product.weight > 0.0):
            return x, product
        x = np.zeros(len(x))
        x[-1] = 1.0
        return x, self.product(x)

    def scales(self, sums: LossSums) -> Vector:
        """Return the factors of the weights in both classes, (2,), by which the weights sum to 1."""
        return np.full(2, 1.0 / float(np.sum(sums.weight)))

    @np.errstate(invalid="ignore", over="ignore", divide="ignore")
    def bounds(self, x: Vector, product: LossSums) -> Bounds:
        """Return the bounds of the declared value: V of the scaled weights, and 1 / (4 P)."""
        upper, lower = self.weights_value(product), 0.25 / self.objective(x, product)
        roundoff = self.roundoff(x, product, upper)
        return enclose(upper, upper - lower, roundoff, 0.0, np.array([2.0 * lower]))

    def weights_value(self, sums: LossSums) -> float:
        """Return V of the scaled weights."""
        v, b = self._normal(sums)
        total = np.sum(sums.weight)  # 0 where no row has a weight
        return float(0.5 * (float(v @ v) + b * b + 2.0 * sums.smooth) / (total * total))

    def _normal(self, sums: LossSums) -> tuple[Vector, float]:
        """Return sum a_i y_i z_i, and sum a_i y_i where there is a bias."""
        balance = float(sums.weight[0] - sums.weight[1])
        return sums.moment[0] - sums.moment[1], self.bias * balance

    def roundoff(self, x: Vector, product: LossSums, value: float) -> float:
        """Return a bound on the rounding error of the gap.

        The dual point has the weights as they were computed, so that their rounding is no error.
        """
        v, b = self._normal(product)
        total = np.sum(product.weight)  # 0 where no row has a weight: there is no dual point then
        primal = self.objective(x, product)
        of_sums = FLOAT64_EPS * self.sum_depth
        longest = float(np.sqrt(product.largest)) + 1.0  # bound on |(z_i, 1)|
        error_of_normal = of_sums * total * longest
        of_square = error_of_normal * (float(np.linalg.norm(v)) + abs(b) + error_of_normal)
        of_upper = of_square / (total * total) + 4.0 * of_sums * value
        margin = FLOAT64_EPS * self.margin_roundings(x, product)
        of_primal = margin * (product.hinge + self.total_penalty * margin) + 2.0 * of_sums * primal
        return float(of_upper + 0.25 * of_primal / (primal * primal))

    def violation(self, x: Vector) -> float:
        """Return the error of the sum of the weights: they are divided by it."""
        return 0.0
