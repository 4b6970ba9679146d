"""The convex hull of given points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import OracleDomain
from qpsvm.errors import check_points

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Hull(OracleDomain):
    """Convex hull of the rows of `points`; points that are not vertices are allowed.

    Parameters
    ----------
    points : array_like, shape (k, m)

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import Hull
    >>> Hull([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).linear_min(np.array([-1.0, 0.0])).tolist()
    [1.0, 0.0]
    """

    points: Any

    def __post_init__(self) -> None:
        """Check the points and keep a read-only float64 copy."""
        given = check_points("points", self.points)
        points = np.array(given if isinstance(given, np.ndarray) else given.toarray(), np.float64)
        points.flags.writeable = False
        object.__setattr__(self, "points", points)

    @property
    def m(self) -> int:  # type: ignore[override]
        """Dimension of the points."""
        return int(self.points.shape[1])

    @cached_property
    def _squares(self) -> Vector:
        return np.einsum("ij,ij->i", self.points, self.points)

    def linear_min(self, g: Vector) -> Vector:
        """Return the point with the least g'v; ties go to the first."""
        return np.array(self.points[np.argmin(self.points @ g)])

    def nearest_vertex(self, g: Vector, x: Vector, weight: float) -> Vector:
        """Compare (g - weight x)'v + weight/2 |v|^2 over the points."""
        values = self.points @ (g - weight * x) + 0.5 * weight * self._squares
        return np.array(self.points[np.argmin(values)])

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return the largest g'(x - v)."""
        return float(np.max((x - self.points) @ g))

    def violation(self, x: Vector) -> float:
        """Return the distance to the hull by nonnegative least squares, in units of the points."""
        from scipy.optimize import nnls

        size = max(1.0, float(np.max(np.abs(self.points))))
        A = np.vstack([self.points.T / size, np.ones(len(self.points))])
        return float(nnls(A, np.append(x / size, 1.0))[1]) * size
