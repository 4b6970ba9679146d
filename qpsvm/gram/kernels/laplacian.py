"""The Laplacian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.column_store import QUANTUM
from qpsvm.gram.engine.blocks import values_in_compiled_pass
from qpsvm.gram.engine.formula import Formula, laplacian
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.kernels.gamma import settle_gamma
from qpsvm.gram.storage.points import Points, mean_point

MAX_EXPONENT = 64.0
"""Sum of gamma |x|_1 and gamma |z|_1, in units of log 2, up to which a kernel value is computed from
them: its rounding error is at most so many units of roundoff."""

LARGEST_GAMMA_IN_FLOAT32 = 2.0**100
"""Largest gamma with which points are evaluated in float32, whose numbers end at 2^128."""


@dataclass(frozen=True, eq=False)
class Laplacian(PointGram):
    """Laplacian kernel k(x, z) = exp(-gamma |x - z|_1).

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; stored by reference and never written.
    gamma : float, "scale", "auto" or "mean-distance"
        As in `RBF`, in units of 1 / distance.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import Laplacian
    >>> Laplacian([[0.0], [1.0]], gamma=1.0).dot(np.array([1.0, 0.0])).round(4).tolist()
    [1.0, 0.3679]
    """

    gamma: Any = "scale"
    unit = QUANTUM

    def _settle(self) -> None:
        self._set(gamma=settle_gamma(self.gamma, self.X))
        if self.dtype == np.float32 and self.gamma > LARGEST_GAMMA_IN_FLOAT32:
            self._set(X=self.X.astype(np.float64), dtype=np.dtype(np.float64))

    def diag(self) -> NDArray[np.float64]:
        """Return ones, shape (m,)."""
        return np.ones(self.m)

    @cached_property
    def error(self) -> float:
        """Effect of the rounding of centered coordinates on the kernel, whose slope is at most 1.

        Each coordinate of both points is off by half an eps of its distance from the mean, at most.
        """
        mean = self._mean
        if isinstance(mean, float):
            return 0.0
        reach = np.maximum(np.max(self.X, axis=0) - mean, mean - np.min(self.X, axis=0))
        return min(1.0, float(np.finfo(np.float64).eps) * self.gamma * float(np.sum(reach)))

    @cached_property
    def _formula_of_points(self) -> Formula:
        return laplacian(self.gamma)

    @cached_property
    def _mean(self) -> NDArray[np.float64] | float:
        """Point that is subtracted from dense points: coordinates in float32 keep more digits."""
        return 0.0 if sp.issparse(self.X) else mean_point(self.X)

    def _swept(self, few: Any, some: Any, formula: Formula, *terms: Any) -> NDArray[np.floating]:
        """Return the values at CSR points: by differences where digits would be lost otherwise.

        The compiled pass takes a distance as |x|_1 + |z|_1 less what both have in common.
        """
        a, b = terms or (formula.terms(few), formula.terms(some))
        largest = np.max(np.abs(a), initial=0.0) + np.max(np.abs(b), initial=0.0)
        if largest > MAX_EXPONENT:
            return self._values(few, some)
        return values_in_compiled_pass(few, some, formula, a, b)

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        if sp.issparse(B):
            from sklearn.metrics.pairwise import manhattan_distances

            distances = manhattan_distances(sp.csr_matrix(A), B)
        else:
            from scipy.spatial.distance import cdist  # the import takes 0.1 s

            distances = cdist(A, B, "cityblock")
        distances *= -self.gamma
        return np.exp(distances, out=distances).astype(A.dtype, copy=False)
