"""Bounds of an optimal value, and the interface of every canonical form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram import Gram
from qpsvm.result import Certificate

FLOAT64_EPS = float(np.finfo(np.float64).eps)

LARGEST_ZERO = 2.0**-20
"""Largest share of the data's scale that counts as zero; larger errors leave a value unknown."""

ROUNDOFFS_OF_ZERO = 4.0
"""Multiple of its own rounding error up to which a value counts as zero, where it may be zero."""


def centering_noise(gram: Gram) -> float:
    """Return the square of the error of centered points: 16 ulp of the farthest one."""
    eps = float(np.finfo(gram.dtype).eps)
    return 0.0 if gram.origin is None else (16 * eps) ** 2 * float(np.max(gram.diag()))


class ApproximateProducts(NamedTuple):
    """Products that a method maintains, with a bound on their error."""

    x: NDArray[np.float64]  # the point that they belong to
    product: NDArray[np.float64]  # approximately G x
    error: NDArray[np.float64]  # a bound on the error of each entry


def update_roundoff(
    n_terms: int, scale: float, total_move: float, n_updates: int, size: float
) -> float:
    """Return a bound on the rounding of an entry of G x that is updated by the moves of x.

    A move of size t adds a sum of at most `n_terms` terms, whose rounding is at most (n_terms + 16) eps
    times t `scale`, where |G_ij| <= `scale`. Each of `n_updates` updates rounds an entry of at most
    `size`.
    """
    return FLOAT64_EPS * ((n_terms + 16) * scale * total_move + 8 * (n_updates + 1) * size)


class ProductError(NamedTuple):
    """Error of a product G x beyond the rounding of a recomputed one; entries off the support are bounds.

    Where x_i is 0 a lower bound of entry i takes its place, which leaves gap and least margin valid.
    """

    quadratic: float = 0.0  # bound on the error of x'Gx
    vertex: float = 0.0  # bound on the error of the support's part of a'Gx, for any a of the domain
    entry: float = 0.0  # bound on the error of an entry of the support


ROUNDED_PRODUCT = ProductError()
"""Error of a product that was recomputed in float64: its rounding alone."""


class Bounds(NamedTuple):
    """Upper and lower bound of the declared value, their gap, and the terms of both."""

    upper: float
    lower: float
    gap: float
    multipliers: NDArray[np.float64]  # of the domain's equality constraints
    roundoff: float = 0.0  # bound on the rounding error of `upper` and the gap; `gap` is no less
    floor: float = 0.0  # size below which the value counts as zero; 0 where it cannot be zero


class PrimalPoint(NamedTuple):
    """A primal point as a model stores it, and its objective value."""

    value: float  # as it was computed
    error: float  # bound on the rounding error of `value`
    w: NDArray[np.float64]  # a normal, or a center in the user's coordinates
    b: float  # a bias in the user's coordinates, or the squared radius of a ball
    epsilon: float = 0.0  # half the width of a tube


def enclose(
    value: float,
    gap: float,
    roundoff: float,
    least: float,
    multipliers: NDArray[np.float64],
    floor: float = 0.0,
) -> Bounds:
    """Return bounds from a rounded value and gap, and from a lower bound `least` known in advance.

    The error of a rounded value below `least` is at most the roundoff, and so is that of `least` in its
    place. The gap contains the roundoff, also where `least` is the better lower bound: the exact value
    of the point may lie that much above the rounded one. Otherwise the lower bound is the difference of
    value and gap, rounded down.
    """
    upper, floor = max(value, least), floor if np.isfinite(floor) else 0.0
    gap = min(max(gap, 0.0) + roundoff, (upper - least) + roundoff)
    lower = max(difference_below(upper, gap), least)
    return Bounds(upper, lower, gap, multipliers, roundoff, floor)


def difference_below(a: float, b: float) -> float:
    """Return a - b, rounded down."""
    rounded = a - b
    part = rounded - a
    error = (a - (rounded - part)) - (b + part)  # a - b is rounded + error (Knuth's two-sum)
    return float(np.nextafter(rounded, -np.inf)) if error < 0.0 else rounded


class Certified(NamedTuple):
    """A feasible point of the canonical form with its proof."""

    x: NDArray[np.float64]
    product: Any  # its products with the data, recomputed: G x of a QP
    multipliers: NDArray[np.float64]  # of the equality constraints
    certificate: Certificate
    approximate_products: ApproximateProducts | None = None  # where some were not recomputed
    primal: PrimalPoint | None = None  # the primal point that the bounds belong to


class Form(ABC):
    """The interface between a canonical form and the loop; x is its variable, one flat array.

    Attributes
    ----------
    m : int
        Number of points.
    work : int
        Approximate number of entries that a step touches.
    convex : bool
        Whether the problem is known to be convex; otherwise there is no lower bound.
    negated : bool
        Whether the declared problem minimizes the negative of this value.
    primal : HingePoint or BallPoint or None
        Conversion of an answer to the primal point that a model stores, where its rounding matters.
    """

    m: int
    work: int
    convex: bool
    negated: bool
    primal: Any = None

    @abstractmethod
    def product(self, x: NDArray[np.float64]) -> Any:
        """Recompute the products with the data that `bounds` needs, in float64."""

    @abstractmethod
    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a point near x that satisfies the constraints that need no product."""

    @abstractmethod
    def feasible(self, x: NDArray[np.float64], product: Any) -> tuple[NDArray[np.float64], Any]:
        """Return x and its products, moved in O(m) to a point with valid and best bounds."""

    @abstractmethod
    def bounds(self, x: NDArray[np.float64], product: Any) -> Bounds:
        """Return the bounds at a feasible x, in O(m)."""

    def n_support(self, x: NDArray[np.float64]) -> int:
        """Return the number of nonzero weights in x."""
        return int(np.count_nonzero(x != 0.0))  # several times as fast as without the comparison

    @abstractmethod
    def nonconvex(self) -> Form:
        """Return the problem marked as not convex."""

    def refuted(self, x: NDArray[np.float64], product: Any) -> bool:
        """Return whether the value is unbounded below along x."""
        return False

    @abstractmethod
    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest violation of a constraint by x."""

    @abstractmethod
    def roundoff(self, x: NDArray[np.float64], product: Any, value: float) -> float:
        """Return a bound on the rounding error of the gap from float64 products."""

    def primal_point(
        self, x: NDArray[np.float64], multipliers: NDArray[np.float64]
    ) -> PrimalPoint | None:
        """Return the primal point that a model stores and that bounds the value; None without one."""
        return None if self.primal is None else self.primal.at(self, x, multipliers)

    @abstractmethod
    def with_store(
        self, memory_limit: int, *, low_precision: bool = False, whole_columns: bool = True
    ) -> Any:
        """Return a context manager for one solve: this problem with a store of columns.

        With `low_precision` the columns may have less precision than the Gram. Without `whole_columns`
        they may be over points of which coordinates share some.
        """

    @property
    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Counters of the store."""
