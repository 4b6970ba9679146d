"""Norm balls and scaled simplices (Garber and Wolf, section 1.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import OracleDomain, check_size, project_simplex
from qpsvm.errors import check_number

Vector = NDArray[np.float64]


class _Sized(OracleDomain):
    """A domain with a dimension and a radius."""

    m: int
    radius: float

    def __post_init__(self) -> None:
        """Check dimension and size."""
        check_number("m", self.m, low=1, integer=True)
        object.__setattr__(self, "radius", check_size("radius", self.radius))


@dataclass(frozen=True, eq=False)
class ScaledSimplex(_Sized):
    """{x >= 0, sum x = radius}, or sum x <= radius if `solid`.

    Parameters
    ----------
    m : int
    radius : float
    solid : bool
        Whether the sum may be smaller: the origin is a vertex then.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import ScaledSimplex
    >>> ScaledSimplex(2, 3.0).linear_min(np.array([1.0, -1.0])).tolist()
    [0.0, 3.0]
    """

    m: int
    radius: float = 1.0
    solid: bool = False
    projectable = True

    @property
    def zero_one(self) -> bool:  # type: ignore[override]
        """Whether every vertex has entries 0 and 1 only."""
        return self.radius == 1.0

    @property
    def constant_norm(self) -> bool:  # type: ignore[override]
        """Whether the origin is no vertex."""
        return not self.solid

    @property
    def has_face_oracle(self) -> bool:  # type: ignore[override]
        """Whether the set is {x >= 0, Ax = b} with entries 0 and 1."""
        return self.zero_one and not self.solid

    def linear_min(self, g: Vector) -> Vector:
        """Return radius times the unit vector of the least g; ties go to the first."""
        v = np.zeros(self.m)
        i = int(np.argmin(g))
        if not (self.solid and g[i] >= 0.0):
            v[i] = self.radius
        return v

    def nearest_vertex(self, g: Vector, x: Vector, weight: float) -> Vector:
        """Compare the corners by g_i + weight (radius/2 - x_i), the origin counting 0."""
        return self.linear_min(g + weight * (0.5 * self.radius - x))

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return the gap as a sum of nonnegative terms."""
        low = min(float(np.min(g)), 0.0) if self.solid else float(np.min(g))
        slack = self.radius - float(np.sum(x))
        return float(x @ (g - low)) - low * (max(slack, 0.0) if self.solid else slack)

    def violation(self, x: Vector) -> float:
        """Return the largest of -x_i and the excess of the sum."""
        excess = float(np.sum(x)) - self.radius
        return float(max(0.0, -np.min(x), excess if self.solid else abs(excess)))

    def project(self, x: Vector) -> Vector:
        """Return the nearest point."""
        inside = np.maximum(x, 0.0)
        if self.solid and np.sum(inside) <= self.radius:
            return inside
        return project_simplex(x, self.radius)


@dataclass(frozen=True, eq=False)
class L1Ball(_Sized):
    """{sum |x_i| <= radius}; its vertices are +-radius times a unit vector.

    Parameters
    ----------
    m : int
    radius : float

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import L1Ball
    >>> L1Ball(2, 1.0).linear_min(np.array([3.0, -4.0])).tolist()
    [0.0, 1.0]
    """

    m: int
    radius: float = 1.0
    projectable = True
    constant_norm = True

    def linear_min(self, g: Vector) -> Vector:
        """Return the corner opposite to the largest entry of g; where it is 0, the negative one."""
        v = np.zeros(self.m)
        i = int(np.argmax(np.abs(g)))
        v[i] = -self.radius if g[i] >= 0.0 else self.radius
        return v

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return radius max|g| + g'x as a sum of nonnegative terms."""
        top = float(np.max(np.abs(g)))
        slack = max(self.radius - float(np.sum(np.abs(x))), 0.0)
        return float(np.sum(top * np.abs(x) + g * x)) + top * slack

    def violation(self, x: Vector) -> float:
        """Return the excess of the norm."""
        return max(0.0, float(np.sum(np.abs(x))) - self.radius)

    def project(self, x: Vector) -> Vector:
        """Return the nearest point."""
        size = np.abs(x)
        if np.sum(size) <= self.radius:
            return np.array(x)
        return np.sign(x) * project_simplex(size, self.radius)


@dataclass(frozen=True, eq=False)
class L2Ball(_Sized):
    """{|x| <= radius}; every point of the sphere is extreme.

    Parameters
    ----------
    m : int
    radius : float

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import L2Ball
    >>> L2Ball(2, 1.0).linear_min(np.array([3.0, -4.0])).round(3).tolist()
    [-0.6, 0.8]
    """

    m: int
    radius: float = 1.0
    projectable = True
    constant_norm = True

    def linear_min(self, g: Vector) -> Vector:
        """Return -radius g / |g|, and the first unit vector where g = 0."""
        norm = float(np.linalg.norm(g))
        if norm == 0.0:
            v = np.zeros(self.m)
            v[0] = -self.radius
            return v
        return g * (-self.radius / norm)

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return g'x + radius |g|, without cancellation near the optimum.

        With u = -g/|g|: radius - u'x = |x - radius u|^2 / (2 radius) + (radius^2 - |x|^2) /
        (2 radius).
        """
        difference = x - self.linear_min(g)
        slack = max((self.radius - float(np.linalg.norm(x))), 0.0)
        slack *= self.radius + float(np.linalg.norm(x))
        return (
            float(np.linalg.norm(g))
            * (float(difference @ difference) + slack)
            / (2.0 * self.radius)
        )

    def violation(self, x: Vector) -> float:
        """Return the excess of the norm."""
        return max(0.0, float(np.linalg.norm(x)) - self.radius)

    def project(self, x: Vector) -> Vector:
        """Return the nearest point."""
        return x * min(1.0, self.radius / max(float(np.linalg.norm(x)), np.finfo(float).tiny))
