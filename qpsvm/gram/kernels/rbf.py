"""The Gaussian kernel, whose columns are computed, stored and summed in one compiled sweep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.column_store import QUANTUM
from qpsvm.gram.engine.blocks import values_of_products
from qpsvm.gram.engine.error_bounds import RelativeError, column_error, exponent_error
from qpsvm.gram.engine.formula import Formula, gaussian
from qpsvm.gram.kernels.base import (
    MAX_COLUMN_ERROR,
    MAX_DENSE_COORDINATES,
    POINTS_PER_OUTLIER,
    PointGram,
)
from qpsvm.gram.kernels.gamma import settle_gamma
from qpsvm.gram.storage.byte_grid import ByteGrid, near_grid, suits
from qpsvm.gram.storage.integer import PackedBits, Unit, norms_of, unit_of
from qpsvm.gram.storage.points import MAX_DENSE_FEATURES, Points, mean_point, moved, products
from qpsvm.numerics.products import squared_norms

MIN_POINTS_BY_FEATURES, MAX_FEATURES_BY_FEATURES = 1 << 18, 16
"""So many points of at most so many features are moved into an array that lies feature by feature.

Products with few of them take half the time, one column a third. Of more features it would take several
times as long to gather some of the points.
"""

MAX_SCALE_EXPONENT = 20
"""Binary exponent of 1 / sqrt(gamma), either way, up to which points are multiplied as they are."""

MAX_GRID_DISTANCE = 1e-5
"""Greatest distance by which points are moved to a grid, for gamma = 1."""


@dataclass(frozen=True, eq=False)
class RBF(PointGram):
    """Gaussian kernel k(x, z) = exp(-gamma |x - z|^2).

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    gamma : float, "scale", "auto" or "mean-distance"
        In units of 1 / distance^2. ``"scale"`` is scikit-learn's 1 / (d var(X)), ``"auto"`` its 1 / d;
        ``"mean-distance"`` is 1 / (2 sigma^2) with sigma^2 the mean squared distance, as in
        Frandi et al., where the kernel is written exp(-|x - z|^2 / (2 sigma^2)). The number that
        was settled on is the attribute `gamma`.
    """

    gamma: Any = "scale"
    unit = QUANTUM
    KEPT_SETTINGS = ("_whole", "_away")
    _whole = False
    """Whether the points are whole multiples, whose inner products are exact in any order."""
    _away = 0.0
    """How far a point that is multiplied may be from the one it stands for."""

    def _settle(self) -> None:
        self._set(gamma=settle_gamma(self.gamma, self.X))

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
    def _unit(self) -> Unit | None:
        """What coordinates are whole multiples of: then these are multiplied, without rounding."""
        return unit_of(self.X)

    @cached_property
    def _scale(self) -> float:
        """Power of two that points are multiplied by, where their squares would leave float32's range.

        Gamma for the scaled points is between 1/4 and 4.
        """
        exponent = round(0.5 * math.log2(self.gamma))
        in_range = self._unit is not None or abs(exponent) <= MAX_SCALE_EXPONENT
        return 1.0 if in_range else 2.0**exponent

    @cached_property
    def _rate(self) -> float:
        """Gamma for the points that are multiplied."""
        if self._unit is not None:
            return float(self.gamma * self._unit.size**2)
        return float(self.gamma / self._scale / self._scale)

    @cached_property
    def _mean(self) -> NDArray[np.float64] | float:
        """What dense points are moved by: distances stay, and |x|^2 + |z|^2 - 2x'z keeps digits."""
        return 0.0 if sp.issparse(self.X) or self._unit else mean_point(self.X)

    @cached_property
    def _points(self) -> Points:
        """The points that are multiplied for cached columns."""
        if self._unit is not None:
            return self._unit.points
        return self._moved_by_pieces(self.dtype)

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        """Squared norms of the points that are multiplied, shape (m,)."""
        return norms_of(self._points) if self._unit is None else self._unit.norms

    @property
    def error(self) -> float:
        """A rounded squared distance, 8 eps of the largest norm, as the kernel passes it on.

        Of multiples only those that a coordinate is near count, by at most eps of it each: 16 eps.
        """
        if self._unit is not None and not self._unit.rounded:
            return 0.0
        bound = (8.0 if self._unit is None else 16.0) * float(np.finfo(np.float64).eps)
        return bound * self._rate * self._farthest

    @cached_property
    def _farthest(self) -> float:
        """The largest squared norm."""
        return float(np.max(self._norms))

    @property
    def column_error(self) -> NDArray[np.float64]:
        """Return what rounding can do to an entry of a cached column, for each row, shape (m,).

        What float64 loses of the points comes on top of what `bounds` says.
        """
        k = self._exponent_error
        if k is None:
            return np.ones(self.m)
        error = column_error(self._rate * self._norms, k, self._roundoff, self._far)
        return error + 2.0 * self.error

    @cached_property
    def relative_error(self) -> RelativeError | None:
        """Return factors by which a value may be off relative to another evaluation of it.

        What float64 loses of the points comes on top, and 2^-125, the least value.
        """
        k = self._exponent_error
        if self.dtype == np.float64 or k is None:
            return None
        norms = self._points.spread() if isinstance(self._points, ByteGrid) else self._norms
        return RelativeError(norms, self._rate, k, self._roundoff, self._far)

    @property
    def _roundoff(self) -> float:
        return 0.5 * float(np.finfo(self.dtype).eps)

    @property
    def _far(self) -> float:
        """How far points were moved to a grid, in the units of the kernel."""
        return self._away * float(np.sqrt(self._rate))

    @property
    def _exponent_error(self) -> float | None:
        """The k of `bounds`; None where features are too many for sums in this precision."""
        if isinstance(self._points, ByteGrid):
            return 0.0
        if self._whole or self._unit is not None:
            return 9.0 * self._roundoff
        return exponent_error(self._roundoff, self.X.shape[1])

    def _multiplied(self, rows: Any, dtype: Any) -> Points:
        """Return the points `rows` as they are multiplied: multiples, or moved in that precision."""
        if self._unit is not None:
            return self._points[rows]
        return super()._multiplied(rows, dtype)

    def _moved_by_pieces(self, dtype: Any) -> Points:
        """Return all points moved; whole arrays between would cost more time than their numbers."""
        if self._scale != 1.0:
            return self._multiplied(slice(None), dtype)
        if isinstance(self._mean, float):
            return self.X.astype(dtype, copy=False)
        narrow = self.m >= MIN_POINTS_BY_FEATURES and self.X.shape[1] <= MAX_FEATURES_BY_FEATURES
        return moved(self.X, self._mean, dtype, "F" if narrow else "C")

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return k(columns, rows), one product and one sweep."""
        whole, rows = rows is None, slice(None) if rows is None else rows
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        if isinstance(self._words, ByteGrid):
            return self._on_grid(columns, rows, dtype)
        a: NDArray[np.floating]
        at_hand = dtype == self.dtype and (whole or "_points" in vars(self))
        if self._unit is not None or at_hand:
            few, some = self._points[columns], self._points[rows]
            a, b = self._norms[columns], self._norms[rows]
        else:  # from X: rounding the moved points would change the problem
            few, some = self._multiplied(columns, dtype), self._multiplied(rows, dtype)
            a, b = (squared_norms(part.astype(np.float64, copy=False)) for part in (few, some))
        few = few.toarray() if sp.issparse(few) else few
        K = products(few, some).astype(dtype, copy=False)
        formula = self._formula
        return values_of_products(K, formula, formula.terms(few, a), formula.terms(some, b))

    def _on_grid(self, columns: NDArray[np.int64], rows: Any, dtype: Any) -> NDArray[np.floating]:
        from qpsvm.gram.engine.tiles import fill

        every = np.arange(self.m)
        out = np.empty((len(every[columns]), len(every[rows])), dtype)
        evaluator = self._evaluator._replace(terms=self._terms.astype(dtype, copy=False))
        fill(evaluator, every[columns], every[rows], out, np.arange(len(out)))
        return out

    @cached_property
    def _terms(self) -> NDArray[np.floating]:
        """What squared norms add to exponents, in the precision of columns, shape (m,)."""
        return self._formula.terms(self._points, self._norms).astype(self.dtype)

    @property
    def coordinates(self) -> Points:
        """Packed points, or X."""
        return self._words if isinstance(self._words, PackedBits) else self.X

    @property
    def _words(self) -> Points:
        """The multiples of the unit, packed or not, or X where there is none."""
        return self.X if self._unit is None else self._unit.points

    def take(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows`; their unit is that of all points."""
        unit = None if self._unit is None else self._unit.take(rows)
        still = {"_mean": 0.0} if isinstance(self._mean, float) else {}
        return self._over(self.X[rows], _unit=unit, **still)

    def take_for_solve(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows`; packed ones in float64 without their coordinates."""
        unit = None if self._unit is None else self._unit.take(rows)
        if unit is None or not isinstance(unit.points, PackedBits) or self.dtype != np.float64:
            return self.take(rows)
        return self._over(unit.points.astype(self.dtype), _unit=unit, _mean=0.0)

    def low_precision(self) -> Gram:
        """Return a Gram of columns in float32, where that keeps three digits of K in most rows.

        Points far out lose more; their rows are known to `column_error`. Its points are the multiples
        of the unit, if there is one, or the moved points. Sparse ones of few features become dense.
        """
        m, d = self.X.shape
        if (near := self._near_grid()) is not None:
            return near
        X = self._unit.points if self._unit is not None else self.X
        spread_out = sp.issparse(X) and d <= MAX_DENSE_FEATURES and m * d <= MAX_DENSE_COORDINATES
        if self.dtype == np.float32 and not spread_out:
            return self
        if self._unit is None:
            X = self._moved_by_pieces(np.float32)
        X = X.toarray() if spread_out else X
        known = {"_unit": None, "_mean": 0.0, "_whole": self._unit is not None}
        other = self._over(X, gamma=self._rate, **known)
        if self._unit is not None:
            return other
        error = 16.0 * float(np.finfo(np.float32).eps) * self._rate * other._norms
        if np.count_nonzero(error > MAX_COLUMN_ERROR) > m // POINTS_PER_OUTLIER:
            return self
        if "_farthest" not in vars(self):  # here is nearly known which point it is
            far = np.flatnonzero(other._norms >= (1.0 - 2.0**-21) * np.max(other._norms))
            norms = norms_of(self._multiplied(far, np.float64))
            self._set(_farthest=float(np.max(norms)))
        return other

    def _near_grid(self) -> RBF | None:
        """Return the Gram of points on a grid next to these, where that hardly changes K."""
        X = self.X
        if not isinstance(X, np.ndarray) or self._unit is not None or not suits(*X.shape):
            return None
        found = near_grid(X)
        if found is None:
            return None
        far = found.away / found.step * float(np.sqrt(X.shape[1]))
        known = {"_unit": None, "_mean": 0.0, "_whole": True, "_away": 1.001 * far}
        other = self._over(
            found.points, gamma=float(np.sqrt(self.gamma) * found.step) ** 2, **known
        )
        return other if other._far <= MAX_GRID_DISTANCE else None

    def _shifted(
        self, few: NDArray[np.float64], new: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return few - self._mean, new - self._mean
