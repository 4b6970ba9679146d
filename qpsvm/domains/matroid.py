"""The base polytope of a matroid that is known by its independence oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import OracleDomain
from qpsvm.errors import InputError, check_number

Vector = NDArray[np.float64]

MAX_ELEMENTS_FOR_FULL_CHECK = 12
"""Number of elements up to which every constraint of the polytope is checked."""

N_CHECKED_ORDERS = 16
"""Number of orders in which the greedy algorithm must find bases of one size."""


@dataclass(frozen=True, eq=False)
class MatroidBases(OracleDomain):
    """Convex combinations of the bases of a matroid on m elements.

    {x >= 0, sum x = rank, sum of x over S <= rank of S for each set S}. The greedy algorithm minimizes a
    linear function with m calls of the oracle. That `independent` is a matroid is assumed: bases of
    different sizes refute it, and few orders are tried.

    Parameters
    ----------
    m : int
    independent : callable
        ``independent(elements)`` says whether an array of different elements 0 .. m - 1 is independent.

    Raises
    ------
    InputError
        If the rank is 0, or maximal sets have different sizes.

    Examples
    --------
    Vectors in the plane, independent where they have full rank:

    >>> import numpy as np
    >>> from qpsvm.domains import MatroidBases
    >>> A = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    >>> vectors = MatroidBases(3, lambda s: np.linalg.matrix_rank(A[:, s]) == len(s))
    >>> vectors.linear_min(np.array([3.0, 1.0, 2.0])).tolist()
    [0.0, 1.0, 1.0]
    """

    m: int
    independent: Callable[[Any], Any]
    zero_one = True
    constant_norm = True

    def __post_init__(self) -> None:
        """Check the size, and the oracle as far as few calls can."""
        check_number("m", self.m, low=1, integer=True)
        if not callable(self.independent):
            raise InputError(f"independent must be callable; got {self.independent!r}")
        rng = np.random.default_rng(0)
        orders = [rng.standard_normal(self.m) for _ in range(N_CHECKED_ORDERS)]
        sizes = {int(np.sum(self.linear_min(g))) for g in orders}
        if len(sizes) > 1 or 0 in sizes:
            raise InputError(
                f"independent must be that of a matroid of rank 1 or more; got maximal sets of "
                f"{sorted(sizes)} elements"
            )

    def linear_min(self, g: Vector) -> Vector:
        """Return the greedy base: elements in the order of g, each kept where it is independent."""
        v = np.zeros(self.m)
        v[self._greedy(np.argsort(g, kind="stable"))] = 1.0
        return v

    @cached_property
    def rank(self) -> int:
        """Number of elements of a base."""
        return len(self._greedy(np.arange(self.m)))

    def violation(self, x: Vector) -> float:
        """Return the largest violation of a constraint.

        Above 12 elements only x <= 1 and the sets of all elements but one are checked.
        """
        worst = max(0.0, -float(np.min(x)), abs(float(np.sum(x)) - self.rank))
        every = np.arange(self.m)
        if self.m > MAX_ELEMENTS_FOR_FULL_CHECK:
            sets = [*every[:, None], *(np.delete(every, k) for k in every)]
        else:
            sizes = range(1, self.m)
            sets = [np.array(s) for size in sizes for s in combinations(every, size)]
        return max(worst, *(float(np.sum(x[s])) - len(self._greedy(s)) for s in sets))

    def _greedy(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a maximal independent subset, taken in this order."""
        kept = np.empty(0, np.int64)
        for element in order:
            grown = np.append(kept, element)
            if self.independent(grown):
                kept = grown
        return kept
