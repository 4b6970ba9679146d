"""The box, the hypercube and the L-infinity ball; the box of a hinge dual without bias."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import BoxWithSums, Domain, OracleDomain, check_size
from qpsvm.domains.box_hyperplane import convex_gap, farthest_in_box, slack_gap
from qpsvm.errors import InputError, check_finite

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Box(OracleDomain):
    """{lower <= x <= upper}, all bounds finite.

    Parameters
    ----------
    lower, upper : array_like, shape (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import Box
    >>> Box([0.0, -1.0], [1.0, 2.0]).linear_min(np.array([1.0, -1.0])).tolist()
    [0.0, 2.0]
    """

    lower: Any
    upper: Any
    projectable = True

    def __post_init__(self) -> None:
        """Check the bounds."""
        lower, upper = (np.array(b, dtype=np.float64) for b in (self.lower, self.upper))
        if lower.ndim != 1 or lower.shape != upper.shape or len(lower) == 0:
            raise InputError(
                "lower and upper must have the same shape (m,), m >= 1; "
                f"got {lower.shape} and {upper.shape}"
            )
        check_finite("lower", lower)
        check_finite("upper", upper)
        if np.any(lower > upper):
            i = int(np.argmax(lower > upper))
            raise InputError(f"lower must be <= upper; got {lower[i]} > {upper[i]} at index {i}")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def m(self) -> int:  # type: ignore[override]
        """Dimension of the variable."""
        return len(self.lower)

    @property
    def zero_one(self) -> bool:  # type: ignore[override]
        """Whether it is the unit cube."""
        return not self.lower.any() and bool(np.all(self.upper == 1.0))

    @property
    def constant_norm(self) -> bool:  # type: ignore[override]
        """Whether it is symmetric around the origin."""
        return bool(np.all(self.lower == -self.upper))

    @property
    def has_face_oracle(self) -> bool:  # type: ignore[override]
        """Whether it is the unit cube."""
        return self.zero_one

    def linear_min(self, g: Vector) -> Vector:
        """Return the upper bound where g < 0 and the lower one elsewhere."""
        return np.where(g < 0.0, self.upper, self.lower)

    def nearest_vertex(self, g: Vector, x: Vector, weight: float) -> Vector:
        """Decide each coordinate by g + weight (middle of its bounds - x)."""
        return self.linear_min(g + weight * (0.5 * (self.lower + self.upper) - x))

    def face_vertex(self, g: Vector, x: Vector) -> Vector:
        """Keep the coordinates at a bound, maximize g'v over the others."""
        inner = np.where(g > 0.0, self.upper, self.lower)
        return np.where((x <= self.lower) | (x >= self.upper), x, inner)

    def longest(self, x: Vector, d: Vector) -> float:
        """Return the largest t <= 1 with x + t d within the bounds."""
        falls, rises = d < 0.0, d > 0.0
        down = np.min((x - self.lower)[falls] / -d[falls], initial=np.inf)
        up = np.min((self.upper - x)[rises] / d[rises], initial=np.inf)
        return float(min(1.0, down, up))

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return sum (x - lower) max(g, 0) + (upper - x) max(-g, 0)."""
        gap = (x - self.lower) @ np.maximum(g, 0.0) + (self.upper - x) @ np.maximum(-g, 0.0)
        return float(gap)

    def violation(self, x: Vector) -> float:
        """Return the largest excess over a bound."""
        return float(max(0.0, np.max(self.lower - x), np.max(x - self.upper)))

    def project(self, x: Vector) -> Vector:
        """Clip."""
        return np.clip(x, self.lower, self.upper)

    def repair(self, x: Vector) -> Vector:
        """Clip."""
        return self.project(x)


def hypercube(m: int) -> Box:
    """Return the unit cube [0, 1]^m.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import hypercube
    >>> hypercube(2).project(np.array([1.5, 0.25])).tolist()
    [1.0, 0.25]
    """
    return Box(np.zeros(m), np.ones(m))


def linf_ball(m: int, radius: float = 1.0) -> Box:
    """Return {max |x_i| <= radius}.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import linf_ball
    >>> linf_ball(2, 2.0).project(np.array([3.0, -1.0])).tolist()
    [2.0, -1.0]
    """
    radius = check_size("radius", radius)
    return Box(np.full(m, -radius), np.full(m, radius))


@dataclass(frozen=True, eq=False)
class PenaltyBox(Domain):
    """{0 <= x <= upper}: the domain of the hinge dual without bias.

    With a free bias it is cut by a hyperplane (`BoxHyperplane`), whose multiplier is the bias.

    Parameters
    ----------
    upper : ndarray, shape (m,)
        Positive; infinite for every coordinate (a cone) or for none.
    """

    upper: Vector

    @property
    def m(self) -> int:  # type: ignore[override]
        """Dimension of the variable."""
        return len(self.upper)

    @cached_property
    def bounded(self) -> bool:
        """Whether the upper bounds are finite."""
        return bool(np.isfinite(self.upper[0]))

    @cached_property
    def total(self) -> float:
        """The sum of the upper bounds."""
        return float(np.sum(self.upper))

    def linear_min(self, g: Vector) -> Vector:
        """Return the upper bound where g < 0 and 0 elsewhere."""
        return np.where(g < 0.0, self.upper, 0.0)

    def farthest(self, x: Vector) -> float:
        """Return the sum of the largest (a_i - x_i)^2 within the bounds, which is no less."""
        return farthest_in_box(x, self.upper)

    def separable_gap(
        self, x: Vector, g: Vector, d: Vector, support: NDArray[np.int64] | None = None
    ) -> tuple[float, Vector]:
        """Return sum (upper - x) max(0, -g) + x max(0, g), for d = 0."""
        return slack_gap(x, self.upper, g, support), np.empty(0)

    def entries_that_matter(
        self, g: Vector, multipliers: Vector, known: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return where g is not positive."""
        return ~(g > 0.0)

    def convex_gap(self, x: Vector, slack: Vector, defect: float) -> float:
        """Return the sum of the largest s_i (x_i - a_i) + defect / 2 (x_i - a_i)^2 within the bounds."""
        return convex_gap(x, self.upper, slack, defect)

    def cone_multiplier(self, h: Vector) -> tuple[float, float]:
        """Return the largest lo such that h_i >= lo for every i, and 0 for the bias."""
        return float(h.min()), 0.0

    def box_with_sums(self) -> BoxWithSums:
        """Return the bounds, and no sums."""
        return BoxWithSums(self.upper, np.zeros((0, self.m)), np.zeros(0))

    def violation(self, x: Vector) -> float:
        """Return the largest of -x_i and x_i - upper_i."""
        return float(max(0.0, -x.min(), np.max(x - self.upper)))

    def repair(self, x: Vector) -> Vector:
        """Clip."""
        return np.clip(x, 0.0, self.upper)

    def take(self, rows: NDArray[np.int64]) -> PenaltyBox:
        """Return the same constraints on the coordinates `rows`."""
        return PenaltyBox(self.upper[rows])
