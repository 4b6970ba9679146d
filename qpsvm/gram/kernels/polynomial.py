"""The polynomial kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import check_number
from qpsvm.gram.engine.formula import Formula, polynomial
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.kernels.gamma import settle_gamma


@dataclass(frozen=True, eq=False)
class Polynomial(PointGram):
    """Polynomial kernel k(x, z) = (gamma x'z + coef0)^degree.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; stored by reference and never written.
    degree : int
        At least 1.
    gamma : float, "scale", "auto" or "mean-distance"
        As in `RBF`.
    coef0 : float
        The kernel is positive semidefinite for coef0 >= 0; otherwise this is checked.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import Polynomial
    >>> K = Polynomial([[1.0], [2.0]], degree=2, gamma=1.0, coef0=1.0)
    >>> K.dot(np.array([1.0, 0.0])).round(6).tolist()
    [4.0, 9.0]
    """

    degree: int = 3
    gamma: Any = "scale"
    coef0: float = 0.0

    by_products = True

    def _settle(self) -> None:
        check_number("degree", self.degree, low=1, integer=True)
        check_number("coef0", self.coef0, finite=True)
        self._set(
            gamma=settle_gamma(self.gamma, self.X), psd="fact" if self.coef0 >= 0 else "check"
        )

    def diag(self) -> NDArray[np.float64]:
        """Return (gamma |x|^2 + coef0)^degree, shape (m,)."""
        return (self.gamma * self._squares + self.coef0) ** self.degree

    @property
    def error(self) -> float:
        """Effect of a rounded base where coef0 is negative, so that it may be a small difference."""
        if self.coef0 >= 0:
            return 0.0
        base = self.gamma * float(np.max(self._squares)) + abs(self.coef0)
        largest = base**self.degree
        return 4.0 * float(np.finfo(np.float64).eps) * self.degree * largest

    @cached_property
    def _formula_of_points(self) -> Formula:
        return polynomial(int(self.degree), self.gamma, self.coef0)
