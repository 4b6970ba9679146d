"""The base of all kernels on points: checks, parameters, and values by the engine.

A kernel says which `Formula` it is, and the points how they are stored; columns, sums, exact products
and predictions follow. A kernel without a formula gives blocks of values: see `PointGram._values`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_points
from qpsvm.gram.base import Gram
from qpsvm.gram.engine.blocks import values_in_compiled_pass, values_of_products
from qpsvm.gram.engine.error_bounds import formula_error, term_counts
from qpsvm.gram.engine.formula import Evaluator, Formula, L1Exponential
from qpsvm.gram.kernels.limits import (
    LARGEST_VALUE,
    MAX_COLUMN_ERROR,
    MAX_DENSE_COORDINATES,
    POINTS_PER_OUTLIER,
    check_lengths,
    check_values,
)
from qpsvm.gram.storage.base import StoredPoints
from qpsvm.gram.storage.chunked import as_chunked
from qpsvm.gram.storage.csr import is_sparse, stored_alike
from qpsvm.gram.storage.points import Points, products, stored
from qpsvm.numerics.products import MIN_ENTRIES_FOR_COMPILED_PASS, squared_norms_in_float64

DERIVED_ATTRIBUTES = ("relative_error", "break_even_reuse_count")
"""Public attributes that are derived from the points of a Gram and cached."""

MIN_POINTS_FOR_TILES = 2000
"""Number of points from which float32 columns are always swept by tiles, and may be summed unstored."""

MAX_FEATURES_FOR_SINGLE_COLUMN = {np.dtype(np.float32): 128, np.dtype(np.float64): 64}
"""Maximum number of features with which a single column has a separate loop, by precision."""

EVALUATED_FEATURES, FEATURES_PER_ENTRY = 160, 1.5
"""Number of features times evaluations of a column that cost as much as a first touch of its memory;
number of features of dense points that cost as much as a stored entry of CSR points."""

FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, eq=False)
class PointGram(Gram):
    """Gram of points `X` under a kernel that subclasses define."""

    X: Points
    is_parallel = True
    is_kernel = True
    _KEPT_SETTINGS: ClassVar[tuple[str, ...]] = ()
    """Private attributes that are settings of the Gram, not derived from its points."""
    by_products: ClassVar[bool] = False
    """Whether the kernel is a function of the inner product."""

    def __post_init__(self) -> None:
        """Check the points and settle the parameters; chunks are checked where they are loaded."""
        chunked = as_chunked(self.X)
        X = check_points("X", self.X) if chunked is None else chunked
        square = check_lengths(X) if chunked is None else 0.0
        self._set(X=X, m=X.shape[0], dtype=X.dtype)
        self._settle()
        if chunked is None:
            check_values(self, square)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _settle(self) -> None:
        """Check the parameters of the kernel and replace the named ones by numbers."""

    @cached_property
    def _formula_of_points(self) -> Formula | None:
        """The kernel as a map of products of the given points; None where it is no such map."""
        return None

    @cached_property
    def _formula(self) -> Formula | None:
        """The kernel as a map of products of the points that are multiplied."""
        return self._formula_of_points

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        """Return k(A, B), shape (len(A), len(B)), for A dense and B dense or CSR."""
        formula = self._formula_of_points
        assert formula is not None, "a kernel has a formula or evaluates itself"
        return values_of_products(products(A, B), formula, formula.terms(A), formula.terms(B))

    @property
    def _unit(self) -> Any:
        """The points as integer multiples of a quantum, where the kernel uses them."""
        return None

    @property
    def _mean(self) -> Any:
        """What is subtracted from points before they are multiplied: a point of shape (d,), or 0."""
        return 0.0

    @property
    def _scale(self) -> float:
        """Factor by which points are scaled after that."""
        return 1.0

    @cached_property
    def _stored(self) -> Points | None:
        """The points as they are multiplied in every precision, where one storage serves all."""
        return stored(self.X) if self.by_products else None

    @cached_property
    def _is_sparse(self) -> bool:
        """Whether the points are CSR and multiplied as such, also with new points."""
        return is_sparse(self.X)

    @cached_property
    def _points(self) -> Points:
        """The points that are multiplied: packed, centered, or X itself."""
        if self._stored is not None:
            return self._stored
        is_moved = not isinstance(self._mean, float)
        return self._multiplied(slice(None), self.dtype) if is_moved else self.X

    def _multiplied(self, rows: Any, dtype: Any) -> Points:
        """Return the points `rows` as they are multiplied: packed, or centered and scaled."""
        if self._stored is not None:
            return self._stored[rows]
        part, is_moved = self.X[rows], not isinstance(self._mean, float)
        if self._scale != 1.0:  # in float64, whose range is sufficient for both
            part = part.astype(np.float64)
            return ((part - self._mean if is_moved else part) * self._scale).astype(dtype)
        part = part.astype(dtype, copy=False)
        return (part - self._mean).astype(dtype, copy=False) if is_moved else part

    @cached_property
    def _squares(self) -> NDArray[np.float64]:
        """Squared norms of the points in float64, shape (m,), read-only."""
        return squared_norms_in_float64(self.X)

    @cached_property
    def _terms(self) -> NDArray[np.floating]:
        """Terms of the points that are multiplied, in the precision of columns, shape (m,)."""
        assert self._formula is not None
        return self._formula.terms(self._points).astype(self.dtype)

    @cached_property
    def _evaluator(self) -> Evaluator:
        """The data from which the sweep over tiles computes columns."""
        assert self._formula is not None
        return Evaluator(self._points, self._terms, self._formula.factor, self._formula.map)

    @cached_property
    def _single_column(self) -> Any:
        """The loop that writes a single column; None where blocks or tiles are used for it too."""
        points = self._points
        is_dense = self._formula is not None and isinstance(points, np.ndarray)
        if not is_dense or self.m < MIN_POINTS_FOR_TILES or points.dtype != self.dtype:
            return None
        is_product = not isinstance(self._evaluator.map, L1Exponential)
        if not is_product or points.shape[1] > MAX_FEATURES_FOR_SINGLE_COLUMN[self.dtype]:
            return None
        from qpsvm.gram.engine.single_column import SingleColumn

        return SingleColumn(self._evaluator)

    def _by_tiles(self, n_entries: int) -> bool:
        """Return whether tiles are swept for columns: of many entries, and always of packed points."""
        is_large = self.dtype == np.float32 and self.m >= MIN_POINTS_FOR_TILES
        is_large |= n_entries >= MIN_ENTRIES_FOR_COMPILED_PASS
        return self._formula is not None and (is_large or isinstance(self._points, StoredPoints))

    def fill(
        self,
        columns: NDArray[np.int64],
        out: NDArray[np.floating],
        slots: NDArray[np.int64],
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Write k(columns, rows) to rows of `out` by tiles, each swept while it is in cache."""
        if len(columns) == 1 and rows is None and (single := self._single_column) is not None:
            return single.write(columns[0], out[slots[0]])
        m = self.m if rows is None else len(rows)
        if not self._by_tiles(len(columns) * m):
            return super().fill(columns, out, slots, rows)
        from qpsvm.gram.engine.tiles import fill

        fill(self._evaluator, columns, rows, out, slots)

    @cached_property
    def break_even_reuse_count(self) -> int:
        """As in `Gram`: kernel values are summed in cache."""
        points = self._points
        if self._formula is None or self.m < MIN_POINTS_FOR_TILES:
            return -1
        if sp.issparse(points):
            return int(EVALUATED_FEATURES * self.m // max(1.0, FEATURES_PER_ENTRY * points.nnz))
        at_once = points.features_at_once if isinstance(points, StoredPoints) else 1
        return EVALUATED_FEATURES // -(-points.shape[1] // at_once)

    def add(
        self,
        columns: NDArray[np.int64],
        weights: NDArray[np.float64],
        out: NDArray[np.float64],
        *,
        size: NDArray[np.float64] | None = None,
    ) -> None:
        """Add the weighted sum of columns to `out`, and that for `size`; no column is written."""
        if not (self.break_even_reuse_count >= 0 and self._by_tiles(len(columns) * self.m)):
            return super().add(columns, weights, out, size=size)
        from qpsvm.gram.engine.tiles import add

        known = None if size is None else self.relative_error
        sizes = [] if known is None else [np.abs(weights) * known.columns(columns)]
        add(self._evaluator, columns, [weights, *sizes], out, size if sizes else None)

    @property
    def sum_error(self) -> float:
        """As in `Gram`: groups of columns are summed in float32, by weights rounded to it."""
        from qpsvm.gram.engine.tiles import SUM_ERROR

        if self.break_even_reuse_count < 0 or self.dtype != np.float32:
            return 0.0
        return SUM_ERROR * self._largest_value

    @cached_property
    def _largest_value(self) -> float:
        """Bound on the absolute kernel values: sqrt(k(x, x) k(z, z)) where K is positive semidefinite."""
        return float(np.max(np.abs(self.diag())))

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return K x, or its entries `rows`, recomputed in float64."""
        formula = self._formula
        n_entries = np.count_nonzero(x) * (self.m if rows is None else len(rows))
        if formula is None or n_entries < MIN_ENTRIES_FOR_COMPILED_PASS:
            return super().dot(x, rows)
        from qpsvm.gram.engine.exact_products import kernel_product

        def multiplied(indices: NDArray[np.int64]) -> Points:
            points = self._multiplied(indices, np.float64)
            return stored_alike(points, self._is_sparse) if sp.issparse(points) else points

        return kernel_product(multiplied, self.m, formula, x, rows)

    @property
    def coordinates(self) -> Points:
        """Coordinates that distinguish the points: X, or packed points where they are known."""
        return self.X

    def to_float64(self) -> Gram:
        """Return the Gram of the points in float64."""
        return self if self.dtype == np.float64 else self._over(self.X.astype(np.float64))

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return k(columns, rows), one product and one sweep."""
        dtype = self.dtype if dtype is None else dtype
        every, at_hand = rows is None, np.dtype(dtype) == self.dtype
        rows = slice(None) if every else rows
        at_hand = at_hand and (every or "_points" in vars(self))

        def taken(at: Any) -> Points:  # X, since rounding centered points would change the problem
            return self._points[at] if at_hand else self._multiplied(at, dtype)

        some = taken(rows)
        alike = every and len(columns) == self.m and bool(np.all(columns[1:] > columns[:-1]))
        few = some if alike else taken(columns)
        few, some = few.astype(dtype, copy=False), some.astype(dtype, copy=False)
        if self._formula is not None and sp.issparse(some):
            return self._swept(few, some, self._formula)
        return self._values(few.toarray() if sp.issparse(few) else few, some)

    def _swept(self, few: Any, some: Any, formula: Formula, *terms: Any) -> NDArray[np.floating]:
        """Return the values of a formula at CSR points, whose terms may be known."""
        a, b = terms or (formula.terms(few), formula.terms(some))
        if few.shape[0] * some.shape[0] >= MIN_ENTRIES_FOR_COMPILED_PASS:
            return values_in_compiled_pass(few, some, formula, a, b)
        return values_of_products(products(few, some), formula, a, b)

    @property
    def column_error(self) -> NDArray[np.float64] | None:
        """Return a bound on the rounding error of an entry of a stored column, for each row."""
        return None if self._formula is None else self._column_error

    @cached_property
    def _column_error(self) -> NDArray[np.float64] | None:
        formula, X = self._formula_of_points, self.X
        assert formula is not None
        if isinstance(formula.map, L1Exponential):
            size = np.asarray(abs(X).sum(axis=1, dtype=np.float64)).ravel()
        else:
            size = np.sqrt(self._squares)
        roundoff = 0.5 * float(np.finfo(self.dtype).eps)
        return formula_error(formula, size, term_counts(X), roundoff, sp.issparse(X))

    def low_precision(self) -> Gram:
        """Return a Gram of columns in float32, if three digits of the diagonal remain in most rows.

        CSR points of which many coordinates are stored become dense.
        """
        m, d = self.X.shape
        densifies = sp.issparse(self.X) and not self._is_sparse and m * d <= MAX_DENSE_COORDINATES
        if self._formula is None or (self.dtype == np.float32 and not densifies):
            return self
        longest = float(np.max(self._squares))
        if max(longest, self._largest_value) > LARGEST_VALUE[FLOAT32]:
            return self
        X = self._multiplied(slice(None), np.float32)
        X = self.X.astype(np.float32) if isinstance(X, StoredPoints) else X
        other = self._over(X.toarray() if densifies else X)
        error = other.column_error
        if error is None:
            return self
        middle = float(np.median(np.abs(self.diag())))
        n_outliers = np.count_nonzero(error > MAX_COLUMN_ERROR * middle)
        return self if n_outliers > m // POINTS_PER_OUTLIER else other

    def _over(self, X: Points, **known: Any) -> Self:
        """Return the Gram of other points with these parameters; the points are not checked again."""
        other = copy(self)
        for name in [name for name in vars(other) if name[0] == "_" or name in DERIVED_ATTRIBUTES]:
            if name not in self._KEPT_SETTINGS:  # it was derived from the points
                other.__dict__.pop(name)
        other._set(X=X, m=X.shape[0], dtype=np.dtype(X.dtype), **known)
        return other

    def take(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows`, with the parameters of this one."""
        return replace(self, X=self.X[rows])

    def own(self, rows: NDArray[np.int64]) -> PointGram:
        """Return the Gram of copies of the points `rows`, without what is derived from all points."""
        return self._over(self.X[rows])

    def cross(self, points: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return k(points, columns) in float64 for new points, shape (n, len(columns))."""
        new = self._checked(points)
        few, new = self.X[columns].astype(np.float64), new.astype(np.float64, copy=False)
        formula = self._formula_of_points
        if formula is not None and sp.issparse(few) and sp.issparse(new):
            return np.ascontiguousarray(self._swept(few, new, formula).T)
        few = few.toarray() if sp.issparse(few) else few
        new = new.toarray() if sp.issparse(new) and np.any(self._mean) else new
        if not sp.issparse(new):  # a translation that keeps the kernel: fewer digits are lost
            few, new = self._shifted(few, new)
        return np.ascontiguousarray(self._values(few, new).T)

    def _checked(self, points: Any) -> Points:
        """Return new points, or raise InputError where they have another number of features."""
        new = check_points("points", points)
        if new.shape[1] != self.X.shape[1]:
            wanted = f"{self.X.shape[1]} features, as the training points have"
            raise InputError(f"points must have {wanted}; got shape {new.shape}")
        return new

    def combine(
        self, points: Any, columns: NDArray[np.int64], coef: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return sum_j coef_j k(points, columns_j) for new points, shape (n,) or (n, p)."""
        new = self._checked(points)
        if not self._combines(new.shape[0] * len(columns), several=coef.ndim == 2):
            return Gram.combine(self, new, columns, coef)
        from qpsvm.gram.engine.prediction import kernel_combination  # which is compiled

        return kernel_combination(self, columns, coef, new)

    def combine_groups(
        self, points: Any, groups: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
    ) -> NDArray[np.float64]:
        """As in `Gram`: in one pass over the new points, where compiled code evaluates them."""
        new, n_columns = self._checked(points), sum(len(columns) for columns, _ in groups)
        if not self._combines(new.shape[0] * n_columns, several=True):
            return Gram.combine_groups(self, new, groups)
        from qpsvm.gram.engine.prediction import kernel_combinations

        return kernel_combinations(self, groups, new)

    def _combines(self, n_values: int, several: bool) -> bool:
        """Return whether compiled code sums up this many kernel values at new points."""
        formula = self._formula_of_points
        if formula is None or (several and isinstance(formula.map, L1Exponential)):
            return False
        return n_values >= MIN_ENTRIES_FOR_COMPILED_PASS

    def _shifted(
        self, few: NDArray[np.float64], new: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return few, new

    def norms(self, points: Any) -> NDArray[np.float64]:
        """Return k(z, z) of new points, shape (n,)."""
        return replace(self, X=points).diag()
