"""The primal point of a dual QP as a model stores it, with its objective there, rounding included.

A dual answer x determines w = sum x_i y_i phi(x_i), or a center. The user gets rounded numbers near it,
in the coordinates of the given points; far from zero their rounding is not small relative to the gap.
Any primal point bounds the optimum, so the certificate uses the stored one: its objective is `upper` of
a primal formulation and `-lower` of a dual one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, PrimalPoint
from qpsvm.domains import CappedSimplex
from qpsvm.gram.translation import bias_of, level_at, square_distances
from qpsvm.numerics.products import times, transposed_times

Vector = NDArray[np.float64]

MAX_RESCALINGS = 5
"""Maximum number of corrections of a hard margin's scale, each by the rounding of the last."""


@dataclass(frozen=True, eq=False)
class HingePoint:
    """(w, b) of a hinge machine whose Gram has a factor; of other Grams x itself represents w.

    Attributes
    ----------
    origin : ndarray, shape (d,), or None
        Translation that was subtracted from the points of the QP.
    """

    origin: Vector | None = None

    def at(self, qp: Any, x: Vector, multipliers: Vector) -> PrimalPoint | None:
        """Return the point (t w, b) for the multipliers (b, t) of a hinge dual.

        With t other than 1, or a hard margin, every margin must be at least 1: the pair is rescaled to
        make up for rounding, from the second time on with a margin to spare for the rounding of the new
        pair.
        """
        kernel = qp.gram.kernel
        X = kernel.factor()
        if X is None:
            return None
        y, C = qp.gram.sign, qp.domain.upper
        bias, t = (float(value) for value in multipliers)
        w = np.asarray(transposed_times(X, y * x))
        if not np.isfinite(t):  # not separable: w is a direction
            return PrimalPoint(np.inf, 0.0, w, bias_of(w, bias, self.origin))
        w = w if t == 1.0 else t * w  # of text, new memory of w costs more than the products
        soft = t == 1.0 and np.isfinite(C).all()
        lengths = np.sqrt(np.maximum(kernel.diag(), 0.0))
        for rescalings in range(MAX_RESCALINGS + 1):
            b = bias_of(w, bias, self.origin)
            stored = level_at(w, b, self.origin)
            margin = y * (times(X, w) + stored)
            size = float(np.linalg.norm(w))
            errors = 4.0 * FLOAT64_EPS * (size * lengths + (abs(stored) if size else 0.0))
            proven = margin - errors
            least = float(np.min(proven))
            if soft or least >= 1.0 or not least > 0.0 or rescalings == MAX_RESCALINGS:
                break
            scale = (1.0 + 4.0 * FLOAT64_EPS + rescalings * float(np.max(errors))) / least
            w, bias = w * scale, bias * scale
        violating = np.flatnonzero(~(proven >= 1.0))
        if np.isinf(C[violating]).any():  # a hard margin that rounding violates
            return PrimalPoint(np.inf, 0.0, w, b)
        value = 0.5 * float(w @ w) + float(C[violating] @ np.maximum(1.0 - margin[violating], 0.0))
        error = float(C[violating] @ errors[violating]) + 8.0 * FLOAT64_EPS * value
        return PrimalPoint(value, error, w, b)


@dataclass(frozen=True, eq=False)
class TubePoint:
    """(w, b) of a regression with a tube of given or free width, whose Gram of points has a factor.

    Attributes
    ----------
    values : ndarray, shape (m,)
        y of the points of the QP.
    epsilon : float or None
        Half the width of the tube; None where it is a variable of the problem, on simplices with bounds.
    level : float
        Number that was subtracted from y in the QP.
    origin : ndarray, shape (d,), or None
        Translation that was subtracted from the points of the QP.
    squared : bool
        Whether the loss is 1/2 C max(0, |y - f| - epsilon)^2 and b is penalized, where there is one.
    """

    values: Vector
    epsilon: float | None
    level: float = 0.0
    origin: Vector | None = None
    squared: bool = False

    def take(self, rows: NDArray[np.int64]) -> TubePoint:
        """Return the same over the points `rows`."""
        return replace(self, values=self.values[rows])

    def tube(self, qp: Any, x: Vector, multipliers: Vector) -> tuple[float, float]:
        """Return the bias, before the level is added, and epsilon.

        A penalized bias is the weight of a constant feature. Where epsilon is free the multipliers are
        the levels of the two signs: -(b + epsilon) of the values above the tube and b - epsilon of
        those below.
        """
        if self.squared and self.epsilon is not None:
            return qp.gram.shift * float(np.sum(qp.gram.sign * x)), self.epsilon
        if self.epsilon is not None:
            return float(multipliers[0]), self.epsilon
        above, below = (float(value) for value in multipliers)
        return 0.5 * (below - above), max(0.0, -0.5 * (below + above))

    def at(self, qp: Any, x: Vector, multipliers: Vector) -> PrimalPoint | None:
        """Return (w, b) with 1/2 |w|^2 and the loss: sum C_i max(0, |y_i - f(x_i)| - epsilon).

        Where epsilon is free, it costs the sum of all weights, and the tube holds the points whose C_i is
        no less than the sum of a sign, rounding included: the QP knows no greater C_i. A squared loss
        has a penalty 1/2 b^2 besides. The QP has the weights of both signs, one half after the other, of
        repeated points.
        """
        kernel = qp.gram.kernel.gram
        X = kernel.factor()
        if X is None:
            return None
        m = len(self.values)
        w = np.asarray(transposed_times(X, x[:m] - x[m:]))
        bias, epsilon = self.tube(qp, x, multipliers)
        b = bias_of(w, bias + self.level, self.origin)
        stored = level_at(w, b, self.origin)
        residual = np.abs((self.values - stored) - times(X, w))
        lengths = np.sqrt(np.maximum(kernel.diag(), 0.0))
        rounding = 0.0 if self.origin is None or not w.any() else abs(stored)
        errors = 4.0 * FLOAT64_EPS * (
            float(np.linalg.norm(w)) * lengths + residual + rounding
        ) + FLOAT64_EPS * np.abs(self.values - stored)
        least = epsilon
        if self.epsilon is None:
            # The domain lowered bounds above its sum: no slack is allowed there.
            without_slack = qp.domain.upper[:m] >= float(np.min(qp.domain.total))
            epsilon = max(least, float(np.max((residual + errors)[without_slack], initial=0.0)))
        outside = np.flatnonzero(~(residual + errors <= epsilon))
        beyond, errors = np.maximum(residual[outside] - epsilon, 0.0), errors[outside]
        if self.squared:
            C = 1.0 / qp.gram.ridge[outside]
            loss = 0.5 * float(C @ (beyond * beyond)) + 0.5 * b * b
            errors = errors * (beyond + errors)
        else:
            C = qp.domain.upper[outside]
            loss = float(C @ beyond)
        error = float(C @ errors)
        if self.epsilon is None:  # what rounding adds to the tube is no part of the value
            total = float(np.sum(qp.domain.total))
            loss, error = loss + total * least, error + total * (epsilon - least)
        value = 0.5 * float(w @ w) + loss
        return PrimalPoint(value, error + 8.0 * FLOAT64_EPS * value, w, b, epsilon)


@dataclass(frozen=True, eq=False)
class BallPoint:
    """The center of a ball around dense points, rounded in their own coordinates.

    Attributes
    ----------
    origin : ndarray, shape (d,)
        Translation that was subtracted from the points of the QP.
    """

    origin: Vector

    def center(self, qp: Any, x: Vector) -> Vector:
        """Return sum x_i phi(x_i) in the user's coordinates."""
        return self.origin + np.asarray(transposed_times(qp.gram.kernel.factor(), x))

    def squares(self, qp: Any, center: Vector) -> Vector:
        """Return the squared distances of the points from the center, shape (m,)."""
        return square_distances(qp.gram.kernel.factor(), center - self.origin)

    def at(self, qp: Any, x: Vector, multipliers: Vector) -> PrimalPoint | None:
        """Return the ball around this center with its objective: squared radius, and slack if any."""
        center = self.center(qp, x)
        square = self.squares(qp, center)
        farthest = float(np.max(square))
        level, slack = farthest, 0.0
        if isinstance(qp.domain, CappedSimplex):
            level = max(-float(qp.domain.levels(-square)[0]), 0.0)
            slack = float(qp.domain.upper @ np.maximum(square - level, 0.0))
        longest = float(np.sqrt(np.max(qp.gram.kernel.diag())))
        reach = longest + float(np.linalg.norm(center - self.origin))
        error = (
            8.0 * FLOAT64_EPS * (farthest + level + slack)
            + 2.0 * FLOAT64_EPS * np.sqrt(farthest) * reach
        )
        return PrimalPoint(level + slack, float(error), center, level)
