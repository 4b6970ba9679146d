"""A smooth convex function that is known by its value and gradient alone.

It answers as a quadratic does (`operator.py`), so that methods on general domains apply. The image of x
is x itself, which is linear in x. A line has no single curvature; a search by slopes takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError
from qpsvm.gram.operator import WithoutColumns

Vector = NDArray[np.float64]

WORK_OF_CALL = 20_000_000
"""Multiplications that a call of a user's function counts for: its cost is not known."""

MAX_SLOPES_IN_SEARCH = 40
"""Largest number of gradients that a line search computes."""

SLOPE_FRACTION = 1e-3
"""Slope, relative to that at the start, at which a line search ends."""


@dataclass(frozen=True, eq=False)
class SmoothFunction(WithoutColumns):
    """A convex function f with a Lipschitz gradient.

    Parameters
    ----------
    of_value, of_gradient : callable
        Map an array of shape `shape` to f, and to its gradient of the same shape.
    shape : tuple of int
    given : float
        The smoothness constant: a Lipschitz constant of the gradient on the domain.
    precision : float
        Bound on the rounding error of value and gradient: see `roundoff`.
    center : ndarray, shape (m,)
        A point at which both are finite.
    of_sample : callable or None
        ``of_sample(x, size, rng)`` is the mean of `size` draws of a stochastic gradient.
    """

    of_value: Callable[[Any], Any]
    of_gradient: Callable[[Any], Any]
    shape: tuple[int, ...]
    given: float
    precision: float
    center: Vector
    of_sample: Callable[[Any, int, np.random.Generator], Any] | None = None
    _last: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def m(self) -> int:
        """Number of variables."""
        return int(np.prod(self.shape))

    @property
    def smoothness(self) -> float:
        """The smoothness constant."""
        return self.given

    @property
    def work(self) -> int:
        """Multiplications that a call counts for."""
        return WORK_OF_CALL

    @property
    def reference_point(self) -> Vector:
        """The center: f need not be defined at the origin."""
        return self.center

    @property
    def scales(self) -> tuple[float, float]:
        """Absolute value of f and norm of its gradient at the center: the sizes of the data."""
        if "scales" not in self._last:
            sizes = abs(self.value(self.center)), float(np.linalg.norm(self.slope(self.center)))
            self._last["scales"] = sizes
        return self._last["scales"]

    def product(self, x: Vector) -> Vector:
        """Return x."""
        return np.array(x, dtype=np.float64)

    def value(self, product: Vector) -> float:
        """Return f."""
        return scalar_of("value", self.of_value(self._argument(product)))

    def slope(self, product: Vector) -> Vector:
        """Return the gradient; that of the point of the last call is kept."""
        last = self._last.get("slope")
        if last is not None and np.array_equal(last[0], product):
            return last[1].copy()
        g = array_of("gradient", self.of_gradient(self._argument(product)), self.shape)
        self._last["slope"] = np.array(product), g
        return g.copy()

    @property
    def has_draws(self) -> bool:
        """Whether the user gave a stochastic gradient."""
        return self.of_sample is not None

    def draw(
        self, x: Vector, product: Vector, size: int, rng: np.random.Generator
    ) -> tuple[Vector, int]:
        """Return the mean of `size` draws of the user's stochastic gradient."""
        assert self.of_sample is not None, "see StochasticFrankWolfe.fits"
        return array_of("sample", self.of_sample(self._argument(x), size, rng), self.shape), size

    def curvature(self, d: Vector, product: Vector) -> float:
        """Return the upper bound smoothness |d|^2."""
        return self.smoothness * float(d @ d)

    def entries(self, v: Vector, image: Vector, images: Vector) -> Vector:
        """Return smoothness v'w: that of the quadratic which bounds f from above."""
        return self.smoothness * (images @ v)

    def increases(
        self, product: Vector, slope: float, d: Vector, d_product: Vector, length: float
    ) -> bool:
        """Return whether f is larger, or not a number, at the end of a step."""
        return not self.value(product + length * d_product) <= self.value(product)

    def best_step(
        self, product: Vector, slope: float, d: Vector, d_product: Vector, longest: float
    ) -> float:
        """Return a step at most `longest` that ends where f still falls, near the least value.

        The slope along d increases from -`slope`. It is bracketed and interpolated (regula falsi in the
        Illinois form, and a bisection where that is slow), so that no step increases f.
        """
        longest = longest if np.isfinite(longest) else 1.0
        low, high = 0.0, longest
        at_low, at_high = -slope, self._slope_along(product, d, longest)
        if at_high <= 0.0:
            return longest
        for step in range(MAX_SLOPES_IN_SEARCH):
            share = at_low / (at_low - at_high) if np.isfinite(at_high) else 0.5
            if step % 3 == 2 or not 0.0 < share < 1.0:
                share = 0.5
            middle = low + share * (high - low)
            at_middle = self._slope_along(product, d, middle)
            if at_middle <= 0.0:
                low, at_low, at_high = middle, at_middle, 0.5 * at_high
                if -at_middle <= SLOPE_FRACTION * slope:
                    break
            else:
                high, at_high, at_low = middle, at_middle, 0.5 * at_low
        return low

    def roundoff(self, product: Vector, value: float, g: Vector, reach: float) -> float:
        """Return a bound on the rounding error of value and gap.

        By assumption the computed f is in error by at most `precision` times the larger of |f| and its
        size at the center, and the computed gradient likewise, in the Euclidean norm. Its error enters
        the gap g'(x - a) times |x - a|, which is at most `reach` for all a of the domain.
        """
        of_value, of_slope = self.scales
        error_of_slope = max(float(np.linalg.norm(g)), of_slope)
        return self.precision * (max(abs(value), of_value) + error_of_slope * reach)

    def _argument(self, x: Vector) -> Vector:
        """Return x in its natural shape, which the user's function cannot change."""
        view = x.reshape(self.shape)
        view.flags.writeable = False
        return view

    def _slope_along(self, product: Vector, d: Vector, length: float) -> float:
        slope = float(self.slope(product + length * d) @ d)
        return slope if np.isfinite(slope) else np.inf


def scalar_of(name: str, value: Any) -> float:
    """Return what a user's function returned as a number."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name}(x) must return one real number; got {array.dtype} of shape {array.shape}"
        )
    return float(array.reshape(()))


def array_of(name: str, value: Any, shape: tuple[int, ...]) -> Vector:
    """Return a copy of what a user's function returned, flattened."""
    array = np.asarray(value)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name}(x) must return real numbers of the shape {shape} of x; got {array.dtype} of "
            f"shape {array.shape}"
        )
    return np.array(array, dtype=np.float64).ravel()
