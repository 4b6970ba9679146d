"""Grams of repeated points: several coordinates of a dual problem share one point and one column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.column_store import ColumnStore
from qpsvm.gram.engine.error_bounds import RelativeError

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class RepeatedError:
    """The factors of a `RelativeError` of points, by coordinate."""

    def __init__(self, of_points: RelativeError, index: Indices) -> None:
        self.of_points = of_points
        self.index = index

    def rows(self) -> Vector:
        """Return the factors of the rows."""
        return self.of_points.rows()[self.index]

    def columns(self, indices: Indices) -> Vector:
        """Return the factors of some columns."""
        return self.of_points.columns(self.index[indices])

    def of_use(self, indices: Indices) -> NDArray[np.bool_]:
        """Return for which columns the factor is not 0."""
        return self.of_points.of_use(self.index[indices])


@dataclass(frozen=True, eq=False)
class RepeatedGram(Gram):
    """Gram of points of which some occur several times: G_ij = k_(index_i, index_j).

    A product merges the weights of a point and reads each of its kernel values once. So do columns, of
    which there is one for each point: see `PointStore` and `ExpandedStore`.

    Parameters
    ----------
    gram : Gram
        Of n points.
    index : ndarray of int, shape (m,)
        The point of each coordinate.

    Examples
    --------
    The two signs of each point of a regression:

    >>> RepeatedGram(RBF(X), np.tile(np.arange(len(X)), 2))  # doctest: +SKIP
    """

    gram: Gram
    index: Indices

    def __post_init__(self) -> None:
        """Take over what is true of the points."""
        object.__setattr__(self, "m", len(self.index))
        for name in ("dtype", "psd", "by_factor", "unit", "is_parallel"):
            object.__setattr__(self, name, getattr(self.gram, name))

    @cached_property
    def first(self) -> Indices:
        """The first coordinate of the point of each coordinate, shape (m,)."""
        first = np.full(self.gram.m, self.m)
        np.minimum.at(first, self.index, np.arange(self.m))
        return first[self.index]

    @property
    def n_copies(self) -> int:
        """How often the coordinates are all points, in their order; 0 where they are anything else."""
        n, left = divmod(self.m, self.gram.m)
        tiled = left == 0 and np.array_equal(self.index, np.tile(np.arange(self.gram.m), n))
        return n if tiled else 0

    @property
    def multiplicity(self) -> int:
        """How often a point occurs at most: (sum of its weights)^2 <= multiplicity sum of squares."""
        return int(np.max(np.bincount(self.index)))

    def merged(self, indices: Indices, weights: Vector) -> tuple[Indices, Vector]:
        """Return the points of some coordinates, ascending, and the sums of their weights."""
        points = self.points_of(indices)
        total = np.bincount(self.index[indices], weights=weights, minlength=self.gram.m)
        return points, total[points].astype(np.float64, copy=False)

    def points_of(self, indices: Indices) -> Indices:
        """Return the points of some coordinates, ascending, each once."""
        among = np.zeros(self.gram.m, np.bool_)  # faster than to sort them
        among[self.index[indices]] = True
        return np.flatnonzero(among)

    def diag(self) -> Vector:
        """Return the diagonal, shape (m,)."""
        return self.gram.diag()[self.index]

    def block(self, columns: Indices, rows: Any = None, dtype: Any = None) -> NDArray[np.floating]:
        """Return k(columns, rows)."""
        columns = self.index[columns]
        if rows is None:
            return np.ascontiguousarray(self.gram.block(columns, None, dtype)[:, self.index])
        return self.gram.block(columns, self.index[rows], dtype)

    def fill(
        self,
        columns: Indices,
        out: NDArray[np.floating],
        slots: Indices,
        rows: Indices | None = None,
    ) -> None:
        """Write k(columns, rows) to rows of `out`; over all rows the values of a point are copied."""
        if rows is not None:
            return self.gram.fill(self.index[columns], out, slots, self.index[rows])
        self.gram.fill(self.index[columns], out, slots)
        self.expand(out, slots)

    def expand(self, out: NDArray[np.floating], slots: Indices) -> None:
        """Replace the values of all points at the beginning of rows of `out` by those of coordinates."""
        for slot in slots:
            out[slot, : self.m] = out[slot, : self.gram.m][self.index]

    @property
    def break_even_reuse_count(self) -> int:
        """That of the points."""
        return self.gram.break_even_reuse_count

    def add(
        self, columns: Indices, weights: Vector, out: Vector, *, size: Vector | None = None
    ) -> None:
        """Add the sum of columns by weight to `out`, and of their sizes; a point is summed once."""
        points, merged = self.merged(columns, weights)
        total = np.zeros(self.gram.m)
        sizes = None if size is None else np.zeros(self.gram.m)
        self.gram.add(points, merged, total, size=sizes)
        out += total[self.index]
        if size is not None and sizes is not None:
            size += sizes[self.index]

    @property
    def sum_error(self) -> float:
        """That of the points."""
        return self.gram.sum_error

    def take(self, rows: Indices) -> RepeatedGram:
        """Return the Gram of the coordinates `rows`, over their points."""
        points, index = np.unique(self.index[rows], return_inverse=True)
        every = len(points) == self.gram.m
        return RepeatedGram(self.gram if every else self.gram.take(points), index)

    def own(self, rows: Indices) -> Any:
        """Return what the Gram of points keeps of the points of `rows`."""
        return self.gram.own(self.index[rows])

    def cross(self, points: Any, columns: Indices) -> Vector:
        """Return k(points, columns) in float64 for new points."""
        return self.gram.cross(points, self.index[columns])

    def dot(self, x: Vector, rows: Any = None) -> Vector:
        """Return K x, or its entries `rows`, by the product of the points with merged weights."""
        weights = np.bincount(self.index, weights=x, minlength=self.gram.m).astype(np.float64)
        if rows is None:
            return self.gram.dot(weights)[self.index]
        points = self.points_of(rows)
        of_points = np.empty(self.gram.m)
        of_points[points] = self.gram.dot(weights, points)
        return of_points[self.index[rows]]

    @property
    def error(self) -> float:
        """That of the points."""
        return self.gram.error

    def dot_error(
        self, x: Vector, support: NDArray[np.int64], rows: NDArray[np.int64] | None = None
    ) -> float | Vector:
        """Return that of the points, for each coordinate."""
        index = self.index if rows is None else self.index[rows]
        return self.gram.dot_error(x, self.index[support], index)

    @cached_property
    def column_error(self) -> Vector | None:
        """That of the points, for each coordinate."""
        of_points = self.gram.column_error
        return None if of_points is None else of_points[self.index]

    @property
    def relative_error(self) -> Any:
        """That of the points, for each coordinate."""
        of_points = self.gram.relative_error
        return None if of_points is None else RepeatedError(of_points, self.index)

    def low_precision(self) -> Gram:
        """Return the Gram on points whose columns have less precision, or itself."""
        return self._on(self.gram.low_precision())

    def to_float64(self) -> Gram:
        """Return the Gram on points in float64, or itself."""
        return self._on(self.gram.to_float64())

    def _on(self, gram: Gram) -> RepeatedGram:
        return self if gram is self.gram else RepeatedGram(gram, self.index)

    @contextmanager
    def hold(self, memory_limit: int) -> Iterator[ColumnStore]:
        """Lend a store of columns over all coordinates, one for each point."""
        with self.gram.hold(memory_limit) as points:  # which takes no memory before it is used
            yield ExpandedStore(self, memory_limit, points)

    @contextmanager
    def hold_points(self, memory_limit: int) -> Iterator[ColumnStore]:
        """Lend the store of columns over the points."""
        with self.gram.hold(memory_limit) as points:
            yield PointStore(self, points)


class ExpandedStore(ColumnStore):
    """Columns over all coordinates, which a step reads as they lie; the coordinates of a point share one.

    Where the points keep columns between solves, values are copied from there.
    """

    gram: RepeatedGram

    def __init__(self, gram: RepeatedGram, memory_limit: int, points: ColumnStore) -> None:
        super().__init__(gram, memory_limit)
        self.n_slots = min(self.n_slots, gram.gram.m)
        self._owner, self.stamp = self._owner[: self.n_slots], self.stamp[: self.n_slots]
        self._points = points
        if points.lasting:
            self._evaluate = self._copy

    @property
    def n_columns(self) -> int:
        """Number of points."""
        return self.gram.gram.m

    def ensure(self, indices: Indices) -> None:
        """Cache the columns `indices`, evaluating those of missing points in one block."""
        first, computed = self.gram.first, self.n_computed
        super().ensure(np.unique(first[indices]))
        if self.n_computed > computed:
            self.slot[:] = self.slot[first]

    def dot(self, x: Vector) -> Vector | None:
        """Return K x, with the weights of a point merged, as `RepeatedGram.dot` has it."""
        merged = np.bincount(self.gram.first, weights=x, minlength=self.gram.m)
        return super().dot(merged.astype(np.float64, copy=False))

    def _copy(self, missing: Indices, base: Any, slots: Indices) -> None:
        """Write columns of the points, where they are kept, and expand them."""
        rows = self.gram.index[missing]
        for start in range(0, len(rows), self._points.n_slots):
            at = slice(start, start + self._points.n_slots)
            self._points.ensure(rows[at])
            cached = self._points.slot[rows[at]]
            base[slots[at], : self.gram.gram.m] = self._points.store[cached]
        self.gram.expand(base, slots)


class PointStore(ColumnStore):
    """Columns over the points, read and summed by coordinate.

    `store` has a row for each cached column, over the points; `slot` is by coordinate.

    Attributes
    ----------
    points : ColumnStore
        The store of the points.
    """

    def __init__(self, gram: RepeatedGram, points: ColumnStore) -> None:
        self.gram: RepeatedGram = gram
        self.points = points
        self.index = gram.index
        self.lasting = points.lasting
        self.n_slots = points.n_slots
        self.diag = points.diag[gram.index]

    @property
    def slot(self) -> Indices:  # type: ignore[override]
        """The row of the column of each coordinate; -1 while it is not cached."""
        return self.points.slot[self.gram.index]

    @property
    def n_computed(self) -> int:  # type: ignore[override]
        """Columns evaluated, each over the points."""
        return self.points.n_computed

    @property
    def store(self) -> NDArray[np.floating]:
        """The cached columns, over the points."""
        return self.points.store

    @property
    def n_entries(self) -> int:
        """Kernel values that fit in the memory limit."""
        return self.points.n_entries

    @property
    def n_bytes(self) -> int:
        """Memory of the cached columns, in bytes."""
        return self.points.n_bytes

    def entries_of(self, indices: Indices) -> Indices:
        """Return the entries of a column that belong to coordinates."""
        return self.gram.index[indices]

    def merged(self, indices: Indices, weights: Vector) -> tuple[Indices, Vector]:
        """Return the points of some coordinates, ascending, and the sums of their weights."""
        return self.gram.merged(indices, weights)

    def ensure(self, indices: Indices) -> None:
        """Cache the columns of coordinates."""
        self.points.ensure(self.gram.points_of(indices))

    @property
    def break_even_reuse_count(self) -> int:
        """That of the points."""
        return self.points.break_even_reuse_count

    def passing(self, indices: Indices, again: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which columns are better evaluated to be read than cached."""
        return self.points.passing(self.gram.index[indices], again)

    def add(
        self, indices: Indices, weights: Vector, out: Vector, *, size: Vector | None = None
    ) -> None:
        """Add columns by weight to `out`, and what bounds the error of that to `size`."""
        points, merged = self.merged(indices, weights)
        total = np.zeros(self.points.gram.m)
        sizes = None if size is None else np.zeros(len(total))
        self.points.add(points, merged, total, size=sizes)
        out += total[self.gram.index]
        if size is not None and sizes is not None:
            size += sizes[self.gram.index]

    def release(self, indices: Indices) -> None:
        """Let the columns of coordinates be the first to leave."""
        self.points.release(self.gram.index[indices])


def distinct_points(gram: Gram) -> Gram:
    """Return the Gram of the points of a problem, each once."""
    return gram.gram if isinstance(gram, RepeatedGram) else gram
