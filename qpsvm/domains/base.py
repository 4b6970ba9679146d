"""The domain: the feasible set, seen through its oracles."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray


class Domain(ABC):
    """Closed convex set of points x of shape (m,).

    Attributes
    ----------
    m : int
        Dimension of the variable.
    """

    m: int

    @abstractmethod
    def linear_min(self, g: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a vertex that minimises g'v over the set."""

    @abstractmethod
    def separable_gap(
        self, x: NDArray[np.float64], g: NDArray[np.float64], d: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return max over a in the set of g'(x - a) + 1/2 x'Dx - 1/2 a'Da, and the multipliers.

        D = diag(d) >= 0. The value is summed from nonnegative terms only, so that it is accurate
        even where it is tiny. With d = 0 it is the Frank-Wolfe gap g'x - min g'a. The multipliers
        belong to the equality constraints of the set, shape (n_equalities,).
        """

    @abstractmethod
    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest violation of a constraint by x."""

    @abstractmethod
    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a feasible point near x, and x itself (a copy) up to rounding if it is one."""

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> Domain:
        """Return the domain of the coordinates `rows` alone."""
