r"""Linear hinge machines in passes over rows, with a smoothed hinge and a certified gap.

Problem: minimize P(w, b) = 1/2 w'w + sum C_i max(0, q_i), q_i = 1 - y_i (w'z_i + b). With

    F_mu(w, b) = 1/2 w'w + sum C_i (u_i q_i - mu u_i^2 / 2),    u_i = clip(q_i / mu, 0, 1),

(the smoothed hinge of `qpsvm.solvers.smoothing` with one width), a pass over the rows gives P, F_mu and
its gradient. The same pass gives a dual point: a_i = C_i u_i, multiplied by min(1, s_-/s_+) in the class
+1 and by min(1, s_+/s_-) in the class -1 where there is a bias, s the sums of both classes, so that
y'a = 0. All weights are then multiplied by the factor in (0, 1] at which the dual value is largest. The
value needs the sums of a_i and a_i z_i alone. So the gap of each iterate is certified by its own pass,
and no row has a state.

At the optimum of F_mu the gap is sum C_i q_i (1 - u_i) over 0 < q_i < mu, about in proportion to mu^2: mu
is reduced where that is most of the gap.

Source: Zhou, Tao and Wu (2010), (5) and (6), for the smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Bounds, enclose
from qpsvm.distributed.passes.margin import MIN_WIDTH, MarginPasses
from qpsvm.distributed.passes.sums import LossSums

Vector = NDArray[np.float64]

SMOOTHING_SHARE = 0.25
"""Fraction of the tolerance that the smoothing error may be at the sample, and at a new mu."""

SMOOTHING_SHARE_OF_GAP = 0.5
"""Fraction of the gap; mu is reduced where the smoothing error is larger."""

MAX_WIDTH_REDUCTION = 4.0
"""Maximum factor by which mu is reduced at a time: few rows are between 0 and mu afterwards."""


@dataclass(frozen=True, eq=False, kw_only=True)
class HingePasses(MarginPasses):
    """The hinge machine of rows in shards.

    Attributes
    ----------
    declares_dual : bool
        Whether the declared problem is the dual: it minimizes the negative of the dual value.
    """

    declares_dual: bool

    def dual(self, sums: LossSums) -> tuple[Vector, Vector]:
        """Return the scales of both classes, (2,), and v = sum y_i a_i z_i of scaled weights, (d,)."""
        scales, weight = np.ones(2), sums.weight
        if self.bias:
            least = float(np.min(weight))
            scales = np.divide(least, weight, out=np.zeros(2), where=weight > least)
            scales[weight == least] = 1.0
        v = scales[0] * sums.moment[0] - scales[1] * sums.moment[1]
        square, total = float(v @ v), float(scales @ weight)
        best = min(1.0, total / square) if square > 0.0 else 1.0  # C bounds the weights
        return best * scales, best * v

    @np.errstate(invalid="ignore", over="ignore")
    def bounds(self, x: Vector, product: LossSums) -> Bounds:
        """Return the bounds of the declared value: P at (w, b), and the value of the scaled weights."""
        w, b, _ = self.split(x)
        scales, v = self.dual(product)
        primal = 0.5 * float(w @ w) + product.hinge
        lower = float(scales @ product.weight) - 0.5 * float(v @ v)
        roundoff = self.roundoff(x, product, primal)
        value = -lower if self.declares_dual else primal
        least = -np.inf if self.declares_dual else 0.0
        return enclose(value, primal - lower, roundoff, least, np.array([b]), floor=roundoff)

    def roundoff(self, x: Vector, product: LossSums, value: float) -> float:
        """Return a bound on the rounding error of the gap.

        The dual point has the weights as they were computed, so that their rounding is no error.
        """
        w, b, _ = self.split(x)
        longest, size = float(np.sqrt(product.largest)), float(np.linalg.norm(w))
        margins = self.total_penalty * self.margin_roundings(x, product)
        total = float(np.sum(product.weight))
        _, v = self.dual(product)
        length = float(np.linalg.norm(v))
        sums = value + total * (1.0 + (length + size) * longest + abs(b))
        return FLOAT64_EPS * (2.0 * margins + self.sum_depth * sums)

    def violation(self, x: Vector) -> float:
        """Return |y'a| of the scaled weights."""
        sums = self.product(x)
        scales = self.scales(sums)
        return abs(float(scales[0] * sums.weight[0] - scales[1] * sums.weight[1])) * self.bias

    def scales(self, sums: LossSums) -> Vector:
        """Return the scales of both classes, (2,)."""
        return self.dual(sums)[0]

    def next_width(self, x: Vector, sums: LossSums, target: float, is_solved: bool) -> float:
        """Return a smaller mu where the smoothing makes up most of the gap, or `is_solved`; else mu."""
        mu = float(x[-1])
        found = self.bounds(x, sums)
        error = self.smoothing_error(x, sums)
        goal = SMOOTHING_SHARE * target * max(abs(found.upper), abs(found.lower))
        if error <= goal or (error <= SMOOTHING_SHARE_OF_GAP * found.gap and not is_solved):
            return mu
        reduction = np.sqrt(error / max(goal, np.finfo(float).tiny))
        return max(mu / float(np.clip(reduction, 1.0, MAX_WIDTH_REDUCTION)), MIN_WIDTH)

    def smoothing_error(self, x: Vector, sums: LossSums) -> float:
        """Return sum C_i q_i (1 - u_i) where 0 < q_i < mu: the gap at the optimum of F_mu."""
        w, b, _ = self.split(x)
        balance = float(sums.weight @ [1.0, -1.0])
        of_values = float(w @ (sums.moment[0] - sums.moment[1])) + b * balance
        return sums.hinge - (float(np.sum(sums.weight)) - of_values)  # less sum C_i u_i q_i
