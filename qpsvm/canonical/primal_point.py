"""The primal point of a dual QP as a model stores it, with its objective there, rounding included.

A dual answer x determines w = sum x_i y_i phi(x_i), or a center. What a user gets are floating-point
numbers near it, in the coordinates of the points as they were given; far from zero their rounding is no
longer small beside the gap. Any primal point bounds the optimum, so that the certificate takes the one
that is stored: `upper` of a primal formulation is the objective there, and so is `-lower` of a dual one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import EPS, PrimalPoint
from qpsvm.domains import CappedSimplex
from qpsvm.gram.translation import bias_of, level_at, square_distances
from qpsvm.numerics.products import times, transposed_times

Vector = NDArray[np.float64]

MAX_STRETCHES = 5
"""Most corrections of a hard margin's scale, each by the rounding of the last."""


@dataclass(frozen=True, eq=False)
class HingePoint:
    """(w, b) of a hinge machine whose Gram has a factor: of other Grams w is known by x itself.

    Attributes
    ----------
    origin : ndarray, shape (d,), or None
        What the points of the QP were moved by.
    """

    origin: Vector | None = None

    def at(self, qp: Any, x: Vector, multipliers: Vector) -> PrimalPoint | None:
        """Return the point (t w, b) for the multipliers (b, t) of a hinge dual.

        With t other than 1, or a hard margin, every margin is to be at least 1: the pair is stretched by
        what rounding lacks.
        """
        kernel = qp.gram.kernel
        X = kernel.factor()
        if X is None:
            return None
        y, C = qp.gram.sign, qp.domain.upper
        level, t = (float(value) for value in multipliers)
        w = np.asarray(transposed_times(X, y * x))
        if not np.isfinite(t):  # no hyperplane separates the classes: a direction
            return PrimalPoint(np.inf, 0.0, w, bias_of(w, level, self.origin))
        w, soft = t * w, t == 1.0 and np.isfinite(C).all()
        lengths = np.sqrt(np.maximum(kernel.diag(), 0.0))
        for _ in range(MAX_STRETCHES):
            b = bias_of(w, level, self.origin)
            stored = level_at(w, b, self.origin)
            margin = y * (times(X, w) + stored)
            size = float(np.linalg.norm(w))
            errors = 4.0 * EPS * (size * lengths + (abs(stored) if size else 0.0))
            sure = margin - errors
            least = float(np.min(sure))
            if soft or least >= 1.0 or not least > 0.0:
                break
            w, level = w * ((1.0 + 4.0 * EPS) / least), level * ((1.0 + 4.0 * EPS) / least)
        short = np.flatnonzero(~(sure >= 1.0))
        if np.isinf(C[short]).any():  # a hard margin that rounding leaves open
            return PrimalPoint(np.inf, 0.0, w, b)
        value = 0.5 * float(w @ w) + float(C[short] @ np.maximum(1.0 - margin[short], 0.0))
        error = float(C[short] @ errors[short]) + 8.0 * EPS * value
        return PrimalPoint(value, error, w, b)


@dataclass(frozen=True, eq=False)
class BallPoint:
    """The center of a ball about dense points, rounded in their own coordinates.

    Attributes
    ----------
    origin : ndarray, shape (d,)
        What the points of the QP were moved by.
    """

    origin: Vector

    def center(self, qp: Any, x: Vector) -> Vector:
        """Return sum x_i phi(x_i) in the user's coordinates."""
        return self.origin + np.asarray(transposed_times(qp.gram.kernel.factor(), x))

    def squares(self, qp: Any, center: Vector) -> Vector:
        """Return the squared distances of the points from the center, shape (m,)."""
        return square_distances(qp.gram.kernel.factor(), center - self.origin)

    def at(self, qp: Any, x: Vector, multipliers: Vector) -> PrimalPoint | None:
        """Return the ball about this center with its price: squared radius, and slack if allowed."""
        center = self.center(qp, x)
        square = self.squares(qp, center)
        farthest = float(np.max(square))
        level, slack = farthest, 0.0
        if isinstance(qp.domain, CappedSimplex):
            level = max(-qp.domain.level(-square), 0.0)
            slack = float(qp.domain.upper @ np.maximum(square - level, 0.0))
        longest = float(np.sqrt(np.max(qp.gram.kernel.diag())))
        reach = longest + float(np.linalg.norm(center - self.origin))
        error = 8.0 * EPS * (farthest + level + slack) + 2.0 * EPS * np.sqrt(farthest) * reach
        return PrimalPoint(level + slack, float(error), center, level)
