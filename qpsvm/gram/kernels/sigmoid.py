"""The sigmoid kernel, which need not be positive semidefinite."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import check_choice, check_number
from qpsvm.gram.engine.formula import Formula, sigmoid
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.kernels.gamma import settle_gamma


@dataclass(frozen=True, eq=False)
class Sigmoid(PointGram):
    """Sigmoid kernel k(x, z) = tanh(gamma x'z + coef0), which need not be positive semidefinite.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; stored by reference and never written.
    gamma : float, "scale", "auto" or "mean-distance"
        As in `RBF`.
    coef0 : float
    psd : {"check", "assume"}
        Whether positive semidefiniteness is checked, on which lower bounds rest.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import Sigmoid
    >>> Sigmoid([[0.0], [1.0]], gamma=1.0).dot(np.array([1.0, 0.0])).round(4).tolist()
    [0.0, 0.0]
    """

    gamma: Any = "scale"
    coef0: float = 0.0
    psd: str = "check"

    by_products = True

    def _settle(self) -> None:
        check_number("coef0", self.coef0, finite=True)
        check_choice("psd", self.psd, ("check", "assume"))
        self._set(gamma=settle_gamma(self.gamma, self.X))

    def diag(self) -> NDArray[np.float64]:
        """Return tanh(gamma |x|^2 + coef0), shape (m,)."""
        return np.tanh(self.gamma * self._squares + self.coef0)

    @cached_property
    def _formula_of_points(self) -> Formula:
        return sigmoid(self.gamma, self.coef0)

    @property
    def error(self) -> float:
        """Effect of a rounded argument of the hyperbolic tangent, which may be a small difference.

        The tangent itself is a quotient of differences from 1, off by 12 units of 2^-53 at most.
        """
        argument = self.gamma * float(np.max(self._squares)) + abs(self.coef0)
        return min(1.0, float(np.finfo(np.float64).eps) * (4.0 * argument + 6.0))

    @property
    def _largest_value(self) -> float:
        return 1.0  # the diagonal is no bound: K may be indefinite
