"""The Gram: the operator behind K, described once and evaluated on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.clock import poll
from qpsvm.gram.column_store import FEWEST_COLUMNS, ColumnStore
from qpsvm.gram.engine.error_bounds import RelativeError

BLOCK_ENTRIES = 1 << 21
"""Kernel entries evaluated at a time by recomputed products: 16 MB in float64, which the allocator
reuses; above 32 MB the pages of each block would be mapped again."""


class Gram(ABC):
    """Positive semidefinite matrix K of m points; immutable and picklable.

    Attributes
    ----------
    m : int
        Number of points.
    dtype : dtype
        float32 or float64: the precision of cached columns, which compiled steps read.
        Certificates are computed in float64 in either case.
    psd : str
        ``"fact"`` if the kernel is known to be positive semidefinite, ``"check"`` if lower bounds
        require a check of it, ``"assume"`` if the user guarantees it.
    """

    m: int
    dtype: np.dtype[Any]
    psd: str = "fact"
    is_kernel: bool = False
    """Whether the entries are values of one function at the points: then a sample of them is typical."""
    by_factor: bool = False
    """Whether `dot` computes X (X'x): its error is then that of X w for some w near X'x."""
    unit: float = 1.0
    """Quantum of 16-bit entries: below 1, values lie in [0, 1] and `fill` may write multiples of it."""
    is_parallel: bool = False
    """Whether `fill` and `dot` run on threads of the library, with one thread of BLAS each."""

    @abstractmethod
    def diag(self) -> NDArray[np.float64]:
        """Return the diagonal, shape (m,)."""

    @abstractmethod
    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return k(columns, rows), shape (len(columns), len(rows)), C-ordered.

        `rows` is an index array or slice, all rows by default; `dtype` is `self.dtype` by default.
        """

    def fill(
        self,
        columns: NDArray[np.int64],
        out: NDArray[np.floating],
        slots: NDArray[np.int64],
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Write k(columns, rows) to the beginning of the rows `slots` of `out`.

        `out` has this Gram's `dtype`, or 16 bits for multiples of `unit`; all rows by default.
        """
        n_rows = self.m if rows is None else len(rows)
        for at in slices(len(columns), max(FEWEST_COLUMNS, BLOCK_ENTRIES // n_rows)):
            block = self.block(columns[at], rows)
            if out.dtype == np.uint16:
                block = np.rint(block / block.dtype.type(self.unit))
            out[slots[at], :n_rows] = block

    @property
    def break_even_reuse_count(self) -> int:
        """Number of evaluations of a column by `add` that cost as much as memory for caching it.

        It is -1 where `add` is no faster than filling a column and reading it.
        """
        return -1

    def add(
        self,
        columns: NDArray[np.int64],
        weights: NDArray[np.float64],
        out: NDArray[np.float64],
        *,
        size: NDArray[np.float64] | None = None,
    ) -> None:
        """Add the weighted sum of k(column, all rows) to `out`, as accurate as cached columns are.

        With a `relative_error`, add to `size`, if given, the sum by other weights: the absolute weights
        times the factors of the columns. It is too small by a thousandth at most.
        """
        known = None if size is None else self.relative_error
        for at in slices(len(columns), max(1, BLOCK_ENTRIES // self.m)):
            K = self.block(columns[at])
            out += weights[at] @ K
            if known is not None:
                size += (np.abs(weights[at]) * known.columns(columns[at])) @ K

    @property
    def sum_error(self) -> float:
        """Bound on the error of `add` beyond the errors of columns, per unit of weight."""
        return 0.0

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows`."""

    def take_for_solve(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows` for a solve: it need not evaluate new points."""
        return self.take(rows)

    def own(self, rows: NDArray[np.int64]) -> Any:
        """Return the part of this Gram that evaluates sums over the points `rows` at new points.

        A model stores it: it shares no memory with this Gram, nor with the user's arrays.
        """
        return self.take(rows)

    @abstractmethod
    def cross(self, points: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return k(points, columns) in float64 for new points, shape (n, len(columns))."""

    def combine(
        self, points: Any, columns: NDArray[np.int64], coef: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return sum_j coef_j k(points, columns_j) for new points, shape (n,), block by block.

        Or, for coefficients of shape (len(columns), p), all p sums, shape (n, p).
        """
        n = np.shape(points)[0] if np.ndim(points) or hasattr(points, "shape") else 0
        size = max(1, BLOCK_ENTRIES // max(1, len(columns)))
        if n <= size:
            return self.cross(points, columns) @ coef
        return np.concatenate([self.cross(points[at], columns) @ coef for at in slices(n, size)])

    def combine_groups(
        self, points: Any, groups: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
    ) -> NDArray[np.float64]:
        """Return the sums of several groups of columns at new points, shape (total of p, n).

        A group has its columns and their coefficients, shapes (k,) and (k, p).
        """
        return np.concatenate([self.combine(points, *group).T for group in groups])

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return K x, or its entries `rows`, recomputed in float64, block by block."""
        support = np.flatnonzero(x != 0)
        wanted = np.arange(self.m) if rows is None else np.asarray(rows)
        out = np.zeros(len(wanted))
        for part in _blocks(support, 512):
            for at in slices(len(wanted), max(1, BLOCK_ENTRIES // len(part))):
                which = at if rows is None else wanted[at]
                out[at] += x[part] @ self.block(part, which, np.float64)
        return out

    def factor(self) -> Any:
        """Return X with K = X X', or None where no factor is known."""
        return None

    @property
    def error(self) -> float:
        """Bound on the error of a float64 entry beyond the rounding of a sum of its size."""
        return 0.0

    def dot_error(
        self,
        x: NDArray[np.float64],
        support: NDArray[np.int64],
        rows: NDArray[np.int64] | None = None,
    ) -> float | NDArray[np.float64]:
        """Return a bound on the effect of the entries' `error` on K x, one for all or one for each.

        x has the entries `support`, and others are 0; the bounds are those of `rows`, or of all.
        """
        return self.error * float(np.linalg.norm(x, 1))

    @property
    def column_error(self) -> NDArray[np.float64] | None:
        """Bound on the error of a cached column's entry, for each row, shape (m,); None if unknown."""
        return None

    @property
    def relative_error(self) -> RelativeError | None:
        """Bound on the error of an entry relative to it: factors for rows and for columns.

        The error of an entry of a cached column is at most the product of both factors and the entry,
        as cached or as evaluated again; the factor is 0 for a column without such a bound. None where no
        column has one, and in float64, where none is needed.
        """
        return None

    @property
    def origin(self) -> NDArray[np.float64] | None:
        """The point that `centered` moves to zero, shape (d,), or None where no point is moved."""
        return None

    def centered(self) -> Gram:
        """Return the Gram of the points minus `origin`: fewer digits are lost far from zero."""
        return self

    def low_precision(self) -> Gram:
        """Return a Gram of lower precision whose columns suffice for steps; itself where there is none.

        Steps from its columns approach the optimum of a slightly different problem; recomputed products
        of this Gram correct that, as in iterative refinement.
        """
        return self

    def to_float64(self) -> Gram:
        """Return the Gram with columns in float64; itself where that needs no conversion."""
        return self

    @contextmanager
    def hold(self, memory_limit: int) -> Iterator[ColumnStore]:
        """Provide one solve with a store of cached columns of at most `memory_limit` bytes."""
        yield ColumnStore(self, memory_limit)

    def hold_points(self, memory_limit: int) -> AbstractContextManager[ColumnStore]:
        """Lend a store whose columns are over distinct points: see `RepeatedGram`."""
        return self.hold(memory_limit)


def _blocks(indices: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def slices(length: int, size: int) -> Iterator[slice]:
    """Yield the chunks of a range, of `size` each but for the last; limits are polled before each."""
    for start in range(0, length, size):
        poll()
        yield slice(start, min(start + size, length))
