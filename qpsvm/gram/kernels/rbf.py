"""The Gaussian kernel, whose columns are computed, stored and summed in one compiled sweep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.base import Gram, slices
from qpsvm.gram.column_store import QUANTUM
from qpsvm.gram.engine.blocks import values_of_products
from qpsvm.gram.engine.error_bounds import (
    RelativeError,
    column_error,
    exponent_error,
    term_counts,
)
from qpsvm.gram.engine.formula import Formula, gaussian
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.kernels.gamma import settle_gamma
from qpsvm.gram.kernels.limits import (
    MAX_COLUMN_ERROR,
    MAX_DENSE_COORDINATES,
    POINTS_PER_OUTLIER,
)
from qpsvm.gram.kernels.near_points import NearPoints
from qpsvm.gram.storage.base import StoredPoints
from qpsvm.gram.storage.byte_grid import ByteGrid, fits_byte_grid, near_grid
from qpsvm.gram.storage.integer import IntegerPoints, PackedBits, integer_points, norms_of
from qpsvm.gram.storage.points import Points, is_far_and_full, mean_point, moved, products
from qpsvm.numerics.products import squared_norms

MIN_POINTS_BY_FEATURES, MAX_FEATURES_BY_FEATURES = 1 << 18, 16
"""Minimum number of points and maximum number of features for storage feature by feature.

Products with few points then take half the time, one column a third. With more features it would take
several times as long to gather a subset of the points.
"""

MAX_SCALE_EXPONENT = 20
"""Maximum absolute binary exponent of sqrt(gamma) at which points are multiplied unscaled."""

MAX_GRID_DISTANCE = 1e-5
"""Maximum distance of a point from its approximation on a grid, times sqrt(gamma)."""

NEGLIGIBLE_ERROR = 2.0**-40
"""Error of an entry below which one bound serves all entries, of near and of distant points."""

NEGLIGIBLE_VALUE = 2.0**-98
"""Bound on kernel values, exact and rounded, at `NEGLIGIBLE_EXPONENT` with an error of at most 1."""

NEGLIGIBLE_EXPONENT = 100.0 * math.log(2.0)
"""Exponent of a kernel value of 2^-100."""

NORM_PANEL_POINTS = 4096
"""Number of points whose norms are computed at once where no points are stored."""

MAX_INTEGER_OFFSET = 64.0
"""Squared norm of the mean of dense integer points, in units of their variance, up to which they are
multiplied as integers."""


@dataclass(frozen=True, eq=False)
class RBF(PointGram):
    """Gaussian kernel k(x, z) = exp(-gamma |x - z|^2).

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; stored by reference and never written.
    gamma : float, "scale", "auto" or "mean-distance"
        In units of 1 / distance^2. ``"scale"`` is scikit-learn's 1 / (d var(X)), ``"auto"`` its 1 / d;
        ``"mean-distance"`` is 1 / (2 sigma^2) with sigma^2 the mean squared distance, as in
        Frandi et al., where the kernel is written exp(-|x - z|^2 / (2 sigma^2)). The attribute
        `gamma` is the resulting number.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import RBF
    >>> RBF([[0.0], [1.0]], gamma=0.5).dot(np.array([1.0, 0.0])).round(4).tolist()
    [1.0, 0.6065]
    """

    gamma: Any = "scale"
    unit = QUANTUM
    _KEPT_SETTINGS = ("_is_integer", "_grid_offset")
    _is_integer = False
    """Whether the points are integer, so that inner products are exact in any order."""
    _grid_offset = 0.0
    """Maximum distance of a point that is multiplied from the one that it approximates."""

    def _settle(self) -> None:
        self._set(gamma=settle_gamma(self.gamma, self.X))
        if is_far_and_full(self.X):
            self._set(X=self.X.toarray())

    def diag(self) -> NDArray[np.float64]:
        """Return ones, shape (m,)."""
        return np.ones(self.m)

    @cached_property
    def _formula_of_points(self) -> Formula:
        return gaussian(self.gamma)

    @cached_property
    def _formula(self) -> Formula:
        return gaussian(self._rate)

    @cached_property
    def _unit(self) -> IntegerPoints | None:
        """The points as multiples of a quantum, which are multiplied without rounding, or None.

        It is None for dense points far from the origin: centered, their distances lose no digits.
        """
        found = integer_points(self.X)
        if found is not None and isinstance(found.points, np.ndarray):
            mean = mean_point(found.points)
            square = float(mean @ mean)
            if square > MAX_INTEGER_OFFSET * (float(np.mean(found.norms)) - square):
                return None
        return found

    @cached_property
    def _scale(self) -> float:
        """Power of two by which points are scaled, where their squares would leave the range of float32.

        Gamma for the scaled points is between 1/4 and 4.
        """
        exponent = round(0.5 * math.log2(self.gamma))
        in_range = self._unit is not None or abs(exponent) <= MAX_SCALE_EXPONENT
        return 1.0 if in_range else 2.0**exponent

    @cached_property
    def _rate(self) -> float:
        """Gamma for the points that are multiplied."""
        if self._unit is not None:
            return float(self.gamma * self._unit.quantum**2)
        return float(self.gamma / self._scale / self._scale)

    @cached_property
    def _mean(self) -> NDArray[np.float64] | float:
        """Point that is subtracted from dense points: |x|^2 + |z|^2 - 2x'z loses fewer digits."""
        return 0.0 if sp.issparse(self.X) or self._unit else mean_point(self.X)

    @cached_property
    def _stored(self) -> Points | None:
        """The integer points, which are multiplied in every precision; None where there are none."""
        return None if self._unit is None else self._unit.points

    @cached_property
    def _points(self) -> Points:
        """The points that are multiplied for cached columns."""
        return self._centered_points(self.dtype) if self._stored is None else self._stored

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        """Squared norms of the points that are multiplied, shape (m,)."""
        return norms_of(self._points) if self._unit is None else self._unit.norms

    @property
    def error(self) -> float:
        """Effect of a rounded squared distance on the kernel: its error is 8 eps of the largest norm."""
        return min(1.0, 2.0 * self._error_of_norm * self._max_norm)

    @property
    def _error_of_norm(self) -> float:
        """Factor of the squared norms in the exponent's error: 4 eps of both, and exact for integers.

        The terms of the exponent are rounded in any case. Where coordinates were rounded to multiples of
        the quantum, by at most eps each, the factor is 8 eps.
        """
        is_rounded = self._unit is not None and self._unit.rounded
        return (8.0 if is_rounded else 4.0) * float(np.finfo(np.float64).eps) * self._rate

    def dot_error(
        self,
        x: NDArray[np.float64],
        support: NDArray[np.int64],
        rows: NDArray[np.int64] | None = None,
    ) -> float | NDArray[np.float64]:
        """Return a bound on the effect of the entries' `error` on K x, one for all or one for each.

        The norms of both points bound the error of an entry. Where the norms alone prove that the points
        are distant, the entry is negligible and so is its error. That is used above `NEGLIGIBLE_ERROR`.
        """
        if not NEGLIGIBLE_ERROR < self.error < 1.0:
            return super().dot_error(x, support, rows)
        weights = np.abs(x)
        near = self._near_points.square_sums(weights, support, rows)
        return self._error_of_norm * near + NEGLIGIBLE_VALUE * float(np.sum(weights))

    @cached_property
    def _near_points(self) -> NearPoints:
        """The points by their norms; kernel values are negligible where these prove a distance."""
        return NearPoints(self._lengths, math.sqrt(NEGLIGIBLE_EXPONENT / self._rate))

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        """Norms, not squared, of the points as a recomputed product multiplies them, shape (m,)."""
        panels = slices(self.m, NORM_PANEL_POINTS)
        norms = [norms_of(self._multiplied(at, np.float64)) for at in panels]
        return np.sqrt(np.concatenate(norms))

    @cached_property
    def _max_norm(self) -> float:
        """The largest squared norm."""
        return float(np.max(self._norms))

    @property
    def column_error(self) -> NDArray[np.float64]:
        """Return a bound on the rounding error of an entry of a cached column, for each row, shape (m,).

        It is that of `error_bounds` plus the error of the points in float64.
        """
        k = self._exponent_error
        if k is None:
            return np.ones(self.m)
        error = column_error(self._rate * self._norms, k, self._roundoff, self._relative_offset)
        return error + 2.0 * self.error

    @cached_property
    def relative_error(self) -> RelativeError | None:
        """Return factors that bound the error of a value relative to another evaluation of it.

        The error of the points in float64 is to be added, and 2^-125, the least value.
        """
        k = self._exponent_error
        if self.dtype == np.float64 or k is None:
            return None
        norms = (
            self._points.distances_to_center()
            if isinstance(self._points, ByteGrid)
            else self._norms
        )
        return RelativeError(norms, self._rate, k, self._roundoff, self._relative_offset)

    @property
    def _roundoff(self) -> float:
        return 0.5 * float(np.finfo(self.dtype).eps)

    @property
    def _relative_offset(self) -> float:
        """Maximum distance of a point from its approximation on a grid, times sqrt(gamma)."""
        return self._grid_offset * float(np.sqrt(self._rate))

    @property
    def _exponent_error(self) -> Any:
        """The k of `error_bounds`, for CSR one for each point; None for too many terms."""
        if isinstance(self._points, ByteGrid):
            return 0.0
        if self._is_integer or self._unit is not None:
            return 9.0 * self._roundoff
        return exponent_error(self._roundoff, term_counts(self.X))

    def _centered_points(self, dtype: Any) -> Points:
        """Return all points centered, chunk by chunk: temporary arrays of full size would cost time."""
        if self._scale != 1.0:
            return self._multiplied(slice(None), dtype)
        if isinstance(self._mean, float):
            return self.X.astype(dtype, copy=False)
        by_features = (
            self.m >= MIN_POINTS_BY_FEATURES and self.X.shape[1] <= MAX_FEATURES_BY_FEATURES
        )
        return moved(self.X, self._mean, dtype, "F" if by_features else "C")

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return k(columns, rows), one product and one sweep."""
        all_rows, rows = rows is None, slice(None) if rows is None else rows
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        points = self._stored_points
        if isinstance(points, StoredPoints) and not points.has_products:
            return self._by_sweep(columns, rows, dtype)
        a: NDArray[np.floating]
        is_available = dtype == self.dtype and (all_rows or "_points" in vars(self))
        if self._unit is not None or is_available:
            A, B = self._points[columns], self._points[rows]
            a, b = self._norms[columns], self._norms[rows]
        else:  # from X: rounding the centered points would change the problem
            A, B = self._multiplied(columns, dtype), self._multiplied(rows, dtype)
            a, b = (squared_norms(points.astype(np.float64, copy=False)) for points in (A, B))
        formula = self._formula
        a, b = formula.terms(A, a), formula.terms(B, b)
        if sp.issparse(B):
            A, B = A.astype(dtype, copy=False), B.astype(dtype, copy=False)
            return self._swept(A, B, formula, a, b)
        return values_of_products(products(A, B).astype(dtype, copy=False), formula, a, b)

    def _by_sweep(self, columns: NDArray[np.int64], rows: Any, dtype: Any) -> NDArray[np.floating]:
        from qpsvm.gram.engine.tiles import fill

        indices = np.arange(self.m)
        out = np.empty((len(indices[columns]), len(indices[rows])), dtype)
        evaluator = self._evaluator._replace(terms=self._terms.astype(dtype, copy=False))
        fill(evaluator, indices[columns], indices[rows], out, np.arange(len(out)))
        return out

    @cached_property
    def _terms(self) -> NDArray[np.floating]:
        """Terms of the exponents from squared norms, in the precision of columns, shape (m,)."""
        return self._formula.terms(self._points, self._norms).astype(self.dtype)

    @property
    def coordinates(self) -> Points:
        """Packed points, or X."""
        return self._stored_points if isinstance(self._stored_points, PackedBits) else self.X

    @property
    def _stored_points(self) -> Points:
        """The integer points, packed or not, or X where it is not integer."""
        return self.X if self._unit is None else self._unit.points

    def take(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows`; their quantum is that of all points."""
        unit = None if self._unit is None else self._unit.take(rows)
        known = {"_mean": 0.0} if isinstance(self._mean, float) else {}
        return self._over(self.X[rows], _unit=unit, **known)

    def take_for_solve(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows`; in float64 packed points replace X."""
        unit = None if self._unit is None else self._unit.take(rows)
        if unit is None or not isinstance(unit.points, PackedBits) or self.dtype != np.float64:
            return self.take(rows)
        return self._over(unit.points.astype(self.dtype), _unit=unit, _mean=0.0)

    def low_precision(self) -> Gram:
        """Return a Gram of columns in float32, if three digits of K remain in most rows.

        Rows of points far from the mean lose more, by `column_error`. The points are the integer ones if
        there are any, else the centered ones. CSR points with many stored coordinates become dense.
        """
        m, d = self.X.shape
        if (near := self._near_grid()) is not None:
            return near
        X = self._unit.points if self._unit is not None else self.X
        densifies = sp.issparse(X) and not self._is_sparse and m * d <= MAX_DENSE_COORDINATES
        if self.dtype == np.float32 and not densifies:
            return self
        if self._unit is None:
            X = self._centered_points(np.float32)
        X = X.toarray() if densifies else X
        known = {"_unit": None, "_mean": 0.0, "_is_integer": self._unit is not None}
        other = self._over(X, gamma=self._rate, **known)
        if self._unit is not None:
            return other
        error = 16.0 * float(np.finfo(np.float32).eps) * self._rate * other._norms
        if np.count_nonzero(error > MAX_COLUMN_ERROR) > m // POINTS_PER_OUTLIER:
            return self
        if "_max_norm" not in vars(self):  # its point is among the largest rounded norms
            candidates = np.flatnonzero(other._norms >= (1.0 - 2.0**-21) * np.max(other._norms))
            norms = norms_of(self._multiplied(candidates, np.float64))
            self._set(_max_norm=float(np.max(norms)))
        return other

    def _near_grid(self) -> RBF | None:
        """Return the Gram of nearby points on a grid, if K hardly changes."""
        X = self.X
        if not isinstance(X, np.ndarray) or self._unit is not None or not fits_byte_grid(*X.shape):
            return None
        found = near_grid(X)
        if found is None:
            return None
        offset = found.max_offset / found.step * float(np.sqrt(X.shape[1]))
        known = {"_unit": None, "_mean": 0.0, "_is_integer": True, "_grid_offset": 1.001 * offset}
        other = self._over(
            found.points, gamma=float(np.sqrt(self.gamma) * found.step) ** 2, **known
        )
        return other if other._relative_offset <= MAX_GRID_DISTANCE else None

    def _shifted(
        self, few: NDArray[np.float64], new: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return few - self._mean, new - self._mean
