"""The linear kernel: products are those with the points themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.engine.formula import Formula, linear
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.points import Points, products
from qpsvm.numerics.products import (
    MIN_ENTRIES_FOR_COMPILED_PASS,
    squared_norms,
    times,
    transposed_times,
)

MIN_CENTERING_VARIANCES = 4.0
"""Squared distance of the mean from zero, in variances, above which the mean is subtracted."""


@dataclass(frozen=True, eq=False)
class Linear(PointGram):
    """Linear kernel k(x, z) = x'z.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; stored by reference and never written.

    Examples
    --------
    >>> from qpsvm import Linear
    >>> Linear([[1.0, 0.0], [1.0, 1.0]]).m
    2
    """

    by_factor = True
    is_parallel = False  # `dot` is two products with X, by threads of BLAS
    by_products = True

    def diag(self) -> NDArray[np.float64]:
        """Return the squared norms, shape (m,), read-only, computed once."""
        return self._squares

    @cached_property
    def _formula_of_points(self) -> Formula:
        return linear()

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        return products(A, B)

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return X (X'x): a pass over the points of the support and a pass over all points."""
        X = self.X if rows is None else self.X[rows]
        return times(X, transposed_times(self.X, x, compensated=True))

    def combine(
        self, points: Any, columns: NDArray[np.int64], coef: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the products of new points with the combination of points, shape (n,) or (n, p)."""
        new, few = self._checked(points), self.X[columns]
        if coef.ndim == 2:
            return np.column_stack([times(new, transposed_times(few, one)) for one in coef.T])
        return times(new, transposed_times(few, coef))

    def combine_groups(
        self, points: Any, groups: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
    ) -> NDArray[np.float64]:
        """As in `Gram`, group by group: kernel values are not needed."""
        return Gram.combine_groups(self, points, groups)

    def factor(self) -> Points:
        """Return X itself."""
        return self.X

    @cached_property
    def origin(self) -> NDArray[np.float64] | None:
        """An estimate of the mean of dense points, or None where centering is not worth a copy.

        Few points are always centered. Many are if they are far from zero: if the squared norm of their
        mean is above `MIN_CENTERING_VARIANCES` times their variance. Otherwise a copy gains a few bits
        only. The origin need not be the exact mean: a sample of a thousand points suffices.
        """
        if sp.issparse(self.X):
            return None
        sample = self.X[:: max(1, self.m // 1000)].astype(np.float64)
        first = sample[0].copy()
        sample -= first
        mean = sample.mean(axis=0)
        variance = float(np.mean(squared_norms(sample - mean)))
        mean += first
        is_far = float(mean @ mean) > MIN_CENTERING_VARIANCES * variance
        return mean if is_far or self.X.size < MIN_ENTRIES_FOR_COMPILED_PASS else None

    def centered(self) -> Linear:
        """Return the Gram of X minus `origin`, in float64: the differences are exact there."""
        return self if self.origin is None else Linear(self.X - self.origin)
