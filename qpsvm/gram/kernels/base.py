"""What every kernel on points shares: checks, parameters, blocks."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_choice, check_number, check_points
from qpsvm.gram.base import Gram
from qpsvm.gram.storage.integer import pack, packs
from qpsvm.gram.storage.points import Points, largest_entry, squared_norms, variance_sum

LARGEST_VALUE = {np.dtype(np.float32): 2.0**120, np.dtype(np.float64): 2.0**500}
"""Largest squared length of a point, and kernel value, by precision: sums stay finite, and in float64
products of two."""

SHORTEST = 1e-138
"""Coordinates below which the square of their last digit is no number of full precision."""

PARAMETERS = {"gamma": 1.0, "coef0": 0.0, "degree": 1}
"""What a kernel's parameters are where it does not have them."""


@dataclass(frozen=True, eq=False)
class PointGram(Gram):
    """Gram of points `X` under a kernel that subclasses define.

    A column block is one BLAS product of a few points with all points, turned into kernel values
    in place.
    """

    X: Points
    by_products: ClassVar[bool] = False
    """Whether the kernel is a function of the inner product."""

    def __post_init__(self) -> None:
        """Check the points and settle the parameters."""
        X = check_points("X", self.X)
        square = _check_lengths(X)
        self._set(X=X, m=X.shape[0], dtype=X.dtype)
        self._settle()
        self._check_values(square)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _settle(self) -> None:
        """Check the parameters of the kernel and replace the named ones by numbers."""

    def _check_values(self, square: float) -> None:
        """Raise InputError where (gamma |x|^2 + |coef0|)^degree may exceed `LARGEST_VALUE`.

        `square` is a bound on |x|^2; the exact one is computed where that bound is not enough.
        """
        names = [name for name in ("gamma", "coef0", "degree") if hasattr(self, name)]
        gamma, coef0, degree = (float(getattr(self, n, k)) for n, k in PARAMETERS.items())
        limit = LARGEST_VALUE[np.dtype(self.dtype)]

        def exponent(square: float) -> float:
            return degree * math.log2(max(gamma * square + abs(coef0), 1.0))

        if exponent(square) <= math.log2(limit):
            return
        largest = exponent(float(np.max(squared_norms(self.X))))
        if largest > math.log2(limit):
            value = "gamma |x|^2" + (" + |coef0|" if "coef0" in names else "")
            value = f"({value})^degree" if "degree" in names else value
            raise InputError(
                f"{', '.join(names)} must keep {value} below {limit:.0e} for points in {self.dtype}; "
                f"got 2^{largest:.4g}"
            )

    @abstractmethod
    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        """Return k(A, B), shape (len(A), len(B)), for A dense and B dense or CSR."""

    @cached_property
    def _points(self) -> Points:
        """The points that are multiplied: X, or packed where that says the same."""
        bits = pack(self.X) if self.by_products and packs(self.X) else None
        return self.X if bits is None else bits

    @property
    def coordinates(self) -> Points:
        """What tells the points apart: X, or packed points where they are at hand."""
        return self.X

    def to_float64(self) -> Gram:
        """Return the Gram of the points in float64."""
        return self if self.dtype == np.float64 else replace(self, X=self.X.astype(np.float64))

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return k(columns, rows), one BLAS product and one sweep."""
        dtype = self.dtype if dtype is None else dtype
        some = self._points if rows is None else self._points[rows]
        few = self._points[columns]
        few = few.toarray() if sp.issparse(few) else few
        return self._values(few.astype(dtype, copy=False), some.astype(dtype, copy=False))

    def take(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows`, with the parameters of this one."""
        return replace(self, X=self.X[rows])

    def own(self, rows: NDArray[np.int64]) -> PointGram:
        """Return the Gram of copies of the points `rows`, and nothing that was derived from all."""
        return replace(self, X=self.X[rows])

    def cross(self, points: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return k(points, columns) in float64 for new points, shape (n, len(columns))."""
        new = self._checked(points)
        few = self.X[columns]
        few = (few.toarray() if sp.issparse(few) else few).astype(np.float64)
        new = new.astype(np.float64, copy=False)
        if not sp.issparse(new):  # a translation that no such kernel sees, for fewer lost digits
            few, new = self._shifted(few, new)
        return np.ascontiguousarray(self._values(few, new).T)

    def _checked(self, points: Any) -> Points:
        """Return new points, or raise InputError where they have another number of features."""
        new = check_points("points", points)
        if new.shape[1] != self.X.shape[1]:
            raise InputError(
                f"points must have {self.X.shape[1]} features, as the training points have; "
                f"got shape {new.shape}"
            )
        return new

    def combine(
        self, points: Any, columns: NDArray[np.int64], coef: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return sum_j coef_j k(points, columns_j) for new points, shape (n,), block by block."""
        return self._combine(self._checked(points), columns, coef)

    def _combine(
        self, new: Points, columns: NDArray[np.int64], coef: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what `combine` does, for points that have been checked."""
        return Gram.combine(self, new, columns, coef)

    def _shifted(
        self, few: NDArray[np.float64], new: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return few, new

    def norms(self, points: Any) -> NDArray[np.float64]:
        """Return k(z, z) of new points, shape (n,)."""
        return replace(self, X=points).diag()


def _check_lengths(X: Points) -> float:
    """Return a bound on |x|^2; raise InputError where it would overflow in the points' precision."""
    values, limit = X.data if sp.issparse(X) else X, LARGEST_VALUE[np.dtype(X.dtype)]
    largest = largest_entry(values)
    bound = X.shape[1] * largest * largest
    if bound <= limit:
        return bound
    square = float(np.max(squared_norms(X.astype(np.float64) / largest))) * largest * largest
    if square > limit:
        raise InputError(
            f"X must hold points of squared length below {limit:.0e} in {X.dtype}; got "
            f"{square:.3g} (divide X by a common factor)"
        )
    return square


def settle_gamma(gamma: Any, X: Points) -> float:
    """Return the number that `gamma` stands for.

    ``"scale"`` is 1 / (d var(X)) over all entries and ``"auto"`` is 1 / d, as in scikit-learn;
    ``"mean-distance"`` is
    1 / (2 sigma^2) with sigma^2 the mean squared distance over all ordered pairs of points, the
    choice of Frandi et al., whose kernel is exp(-|x - z|^2 / (2 sigma^2)).
    """
    if not isinstance(gamma, str):
        return float(check_number("gamma", gamma, low=0.0, open_low=True, finite=True))
    check_choice("gamma", gamma, ("scale", "auto", "mean-distance"))
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "mean-distance":
        spread = 4.0 * variance_sum(X)  # 2 sigma^2, sigma^2 = 2 trace of the covariance
    else:
        spread = X.shape[1] * _variance(X)
    least = float(np.finfo(np.float64).tiny)
    size = largest_entry(X.data if sp.issparse(X) else X)
    if spread < least and 0.0 < size < SHORTEST:
        raise InputError(
            f"gamma must be a number for points whose squares round to zero; got {gamma!r} "
            "(or multiply X by a common factor)"
        )
    return 1.0 / spread if spread >= least else 1.0


def _variance(X: Points) -> float:
    """Return the variance over all entries."""
    if not sp.issparse(X):
        return float(np.var(X, dtype=np.float64))
    n_entries = X.shape[0] * X.shape[1]
    mean = float(np.sum(X.data, dtype=np.float64)) / n_entries
    stored = np.subtract(X.data, mean, dtype=np.float64)
    return (float(stored @ stored) + (n_entries - len(stored)) * mean * mean) / n_entries
