"""The domain: a feasible set, given by its oracles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError

FLOAT64_EPS = float(np.finfo(np.float64).eps)

FEASIBILITY_TOLERANCE = 1e-9
"""Violation, relative to the size of the set, up to which a starting point counts as feasible."""


class BoxWithSums(NamedTuple):
    """The set {0 <= x <= upper, rows x = sums}."""

    upper: NDArray[np.float64]  # (m,)
    rows: NDArray[np.float64]  # (n_sums, m)
    sums: NDArray[np.float64]  # (n_sums,)


class Domain(ABC):
    """Closed convex set of points x of shape (m,).

    Attributes
    ----------
    m : int
        Dimension of the variable.
    zero_one : bool
        Whether every vertex has entries 0 and 1 only.
    constant_norm : bool
        Whether all vertices have the same Euclidean norm.
    projectable : bool
        Whether `project` is implemented.
    has_face_oracle : bool
        Whether `face_vertex` and `longest` are implemented.
    """

    m: int
    zero_one: bool = False
    constant_norm: bool = False
    projectable: ClassVar[bool] = False
    has_face_oracle: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Natural shape of a point: (m,), or that of a matrix stored row by row."""
        return (self.m,)

    @abstractmethod
    def linear_min(self, g: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a vertex that minimizes g'v over the set."""

    def nearest_vertex(
        self, g: NDArray[np.float64], x: NDArray[np.float64], weight: float
    ) -> NDArray[np.float64]:
        """Return a vertex that minimizes g'v + weight/2 |v - x|^2 over the vertices.

        For entries 0 and 1, v_i^2 = v_i makes it linear; for vertices of one norm the square drops
        out (Garber and Wolf, section 1.2).
        """
        if self.zero_one:
            return self.linear_min(g + weight * (0.5 - x))
        if self.constant_norm:
            return self.linear_min(g - weight * x)
        raise NotImplementedError(f"{type(self).__name__} has no nearest-vertex oracle")

    @property
    def has_nearest_vertex(self) -> bool:
        """Whether `nearest_vertex` is implemented."""
        own = type(self).nearest_vertex is not Domain.nearest_vertex
        return own or self.zero_one or self.constant_norm

    def farthest(self, x: NDArray[np.float64]) -> float:
        """Return a bound on the largest |a - x|^2 over the set: here the square itself.

        A convex function is largest at a vertex, and the nearest-vertex oracle with a negative weight
        finds the farthest vertex, since it compares values and needs no convexity.
        """
        v = self.nearest_vertex(np.zeros(self.m), x, -1.0)
        return float((v - x) @ (v - x))

    def project(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the point of the set that is nearest to x."""
        raise NotImplementedError(f"{type(self).__name__} has no projection")

    def face_vertex(self, g: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a vertex of the smallest face around x that maximizes g'v.

        Here for {x >= 0, Ax = b} with vertices of entries 0 and 1: the face is where x is 0
        (Garber and Meshi 2016, Algorithm 1).
        """
        outside = 1.0 + 2.0 * (1.0 + self.m) * float(np.max(np.abs(g), initial=0.0))
        return self.linear_min(np.where(x > 0.0, -g, outside))

    def longest(self, x: NDArray[np.float64], d: NDArray[np.float64]) -> float:
        """Return the largest t <= 1 with x + t d >= 0."""
        falls = d < 0.0
        return float(min(1.0, np.min(x[falls] / -d[falls], initial=np.inf)))

    @abstractmethod
    def separable_gap(
        self, x: NDArray[np.float64], g: NDArray[np.float64], d: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return max over a in the set of g'(x - a) + 1/2 x'Dx - 1/2 a'Da, and the multipliers.

        D = diag(d) >= 0. The value is a sum of nonnegative terms, so that it is accurate even where it is
        tiny. With d = 0 it is the Frank-Wolfe gap g'x - min g'a. The multipliers
        belong to the equality constraints of the set, shape (n_equalities,).
        """

    def multipliers(
        self, x: NDArray[np.float64], g: NDArray[np.float64], d: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the multipliers of `separable_gap` alone."""
        return self.separable_gap(x, g, d)[1]

    def error_of_sums(self, x: NDArray[np.float64], multipliers: NDArray[np.float64]) -> float:
        """Return a bound on what `separable_gap` leaves out where x violates an equality by rounding.

        A gap with multipliers assumes that x meets the equality constraints. Where it does not, the
        products of multipliers and deviations are missing. Here 0: a gap g'(x - a) without multipliers
        holds at any x.
        """
        return 0.0

    def entries_that_matter(
        self,
        g: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        known: NDArray[np.bool_],
    ) -> NDArray[np.bool_] | None:
        """Return where the gap and its multipliers may depend on g_i though x_i is 0.

        That is where a minimizer a may be positive. Entries of g that are not `known` are lower
        bounds. None where the set does not lie in x >= 0, or where this is not implemented.
        """
        return None

    def box_with_sums(self) -> BoxWithSums:
        """Return the constraints of the set, where it is a bounded box with sums."""
        raise NotImplementedError(f"{type(self).__name__} is no box with sums")

    @abstractmethod
    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest violation of a constraint by x."""

    @abstractmethod
    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a feasible point near x, and x itself (a copy) up to rounding if it is one."""

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> Domain:
        """Return the domain of the coordinates `rows` alone."""


class OracleDomain(Domain):
    """A domain known by its linear minimizer; everything else is derived from it where possible."""

    def separable_gap(
        self, x: NDArray[np.float64], g: NDArray[np.float64], d: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the Frank-Wolfe gap (g + Dx)'(x - v), which is never less than the maximum."""
        g = g + d * x if d.any() else g
        return self.linear_gap(x, g), np.empty(0)

    def linear_gap(self, x: NDArray[np.float64], g: NDArray[np.float64]) -> float:
        """Return g'x - min g'v, summed over the coordinates in which x and v differ."""
        return float(g @ (x - self.linear_min(g)))

    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return x where it is feasible up to rounding, its projection otherwise.

        Raises
        ------
        InputError
            If x lies outside and the set has no projection.
        """
        x = np.maximum(x, 0.0) if self.zero_one else np.array(x)
        violation = self.violation(x)
        if violation <= FEASIBILITY_TOLERANCE * max(1.0, float(np.max(np.abs(x), initial=0.0))):
            return x
        if self.projectable:
            return self.project(x)
        raise InputError(
            f"x0 must lie in the {type(self).__name__}, which has no projection; it violates a "
            f"constraint by {violation:.3g}"
        )

    def take(self, rows: NDArray[np.int64]) -> Domain:
        """Raise InputError: some of the coordinates alone form no domain."""
        raise InputError(f"{type(self).__name__} cannot be restricted to some coordinates")


def project_simplex(x: NDArray[np.float64], total: float = 1.0) -> NDArray[np.float64]:
    """Return the point nearest to x with entries >= 0 that sum to `total`, by sorting."""
    falling = np.sort(x)[::-1]
    threshold = (np.cumsum(falling) - total) / np.arange(1, len(x) + 1)
    last = int(np.flatnonzero(falling > threshold)[-1]) if total > 0 else 0
    return np.maximum(x - threshold[last], 0.0)


def deviation(terms: NDArray[np.float64], total: float = 0.0) -> float:
    """Return an upper bound on |sum of the terms - total|, above it by rounding alone.

    The sum is pairwise, in extended precision where the machine has it. With n terms its error is at most
    log2(n) + 24 units of roundoff, relative to the sum of the absolute values.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains.base import deviation
    >>> round(deviation(np.array([0.5, 0.25]), total=1.0), 12)
    0.25
    """
    extended = terms.astype(np.longdouble)
    unit = float(np.finfo(np.longdouble).eps) * (32.0 + math.log2(1.0 + len(terms)))
    rounding = unit * (float(np.sum(np.abs(extended))) + abs(total))
    return (abs(float(np.sum(extended) - total)) + rounding) * (1.0 + 4.0 * FLOAT64_EPS)


def check_size(name: str, value: float) -> float:
    """Return a radius or a trace: a positive number."""
    if isinstance(value, bool) or not 0.0 < float(value) < np.inf:
        raise InputError(f"{name} must be a positive number; got {value!r}")
    return float(value)
