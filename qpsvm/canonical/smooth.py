"""A smooth convex function over a domain, bounded by the linear oracle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, ROUNDED_PRODUCT, Bounds, ProductError, enclose
from qpsvm.canonical.qp import QP
from qpsvm.gram.smooth import SmoothFunction

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SmoothForm(QP):
    """Minimize f over a domain; `gram` is a `SmoothFunction`, `linear` is 0, a product is x itself."""

    gram: Any

    @cached_property
    def scale(self) -> float:
        """The size of f."""
        return self.function.scales[0]

    @property
    def function(self) -> SmoothFunction:
        """The function f."""
        assert isinstance(self.gram, SmoothFunction)
        return self.gram

    def reach(self, x: Vector) -> float:
        """Return a bound on |x - a| over all a of the domain."""
        if self.domain.has_nearest_vertex:
            return (1.0 + 16.0 * FLOAT64_EPS) * float(np.sqrt(self.domain.farthest(x)))
        low, high = self._extent
        return float(np.linalg.norm(np.maximum(high - x, x - low)))

    @cached_property
    def _extent(self) -> tuple[Vector, Vector]:
        """Least and largest value of each coordinate, by two calls of the oracle for each."""
        units = np.eye(self.m)
        low = np.array([self.domain.linear_min(e) @ e for e in units])
        return low, np.array([self.domain.linear_min(-e) @ e for e in units])

    def roundoff(self, x: Vector, product: Vector, value: float) -> float:
        """Return a bound on the rounding error of value and gap."""
        g = self.function.slope(product)
        rounding = 2.0 * FLOAT64_EPS * (self.m + 8.0) * float(np.linalg.norm(g))  # of g'(x - a)
        reach = self.reach(x)
        return self.function.roundoff(product, value, g, reach) + rounding * reach

    @np.errstate(invalid="ignore", over="ignore")  # the loop detects numbers that are not finite
    def bounds(self, x: Vector, product: Vector, error: ProductError = ROUNDED_PRODUCT) -> Bounds:
        """Return f(x) and f(x) - max over a in the domain of g'(x - a), g the gradient at x.

        The lower bound rests on f(a) >= f(x) + g'(a - x): on the convexity of f, and on g being its
        gradient.
        """
        value, g = self.function.value(product), self.function.slope(product)
        if not (np.isfinite(value) and np.isfinite(g).all()):
            return Bounds(np.inf, -np.inf, np.inf, np.empty(0))
        gap, multipliers = self.domain.separable_gap(x, g, np.zeros(self.m))
        roundoff = self.roundoff(x, product, value) + self.domain.error_of_sums(x, multipliers)
        floor = self.floor(roundoff)
        return enclose(value, gap, roundoff, self.known_least, multipliers, floor)

    @property
    def known_least(self) -> float:
        """A lower bound that was stated by the user."""
        return self.least
