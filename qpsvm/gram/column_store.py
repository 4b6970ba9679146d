"""Cached columns: the arrays that compiled steps read, and the store that fills them."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError
from qpsvm.gram.engine.error_bounds import RelativeError
from qpsvm.numerics.products import MIN_ENTRIES_FOR_COMPILED_PASS

Gram = Any  # `qpsvm.gram.base.Gram`, which hands out these stores

log = logging.getLogger("qpsvm")

QUANTUM = 1.0 / 65535.0
"""Quantum of values in [0, 1] stored in 16 bits; their rounding error is at most half of it."""

MAX_POINTS_FILLED_AT_ONCE = 2000
"""Maximum number of points all of whose columns are cached together, in milliseconds."""

COLUMNS_OF_PRODUCT = 512
"""Number of columns that a product sums at a time."""

FEWEST_COLUMNS = 8
"""Minimum number of columns of a store: no step needs more at once."""


class Columns(NamedTuple):
    """Signed Gram as compiled steps see it: g_ij = scale s_i s_j (k_ij + shift), Q = G + ridge.

    Row ``store[slot[i]]`` is column i of K; ``slot[i]`` is -1 while it is not cached. `stamp` has
    the last use of each slot and `clock` counts the uses. `diag` is rounded to the store's
    precision, so that a step formula never mixes two roundings of the same kernel.
    """

    store: NDArray[np.floating]  # (n_slots, m), read-only
    slot: NDArray[np.int64]  # (m,)
    stamp: NDArray[np.int64]  # (n_slots,)
    clock: NDArray[np.int64]  # (1,)
    diag: NDArray[np.float64]  # (m,)
    sign: NDArray[np.float64]  # (m,)
    ridge: NDArray[np.float64]  # (m,)
    shift: float
    scale: float


class ColumnStore:
    """Columns of a Gram, cached under a memory limit; the least recently used are evicted first.

    Parameters
    ----------
    gram : Gram
    memory_limit : int
        Bytes for the columns; at least eight columns must fit.

    Attributes
    ----------
    gram : Gram
        The Gram whose columns are cached.
    n_slots : int
        Number of columns that can be cached at once.
    n_computed : int
        Columns evaluated so far (0 for a precomputed Gram).
    lasting : bool
        Whether columns are kept for later solves: none is released then.
    """

    lasting = False
    index: NDArray[np.int64] | None = None
    """The point of each coordinate, where columns are over points: see `PointStore`."""

    def __init__(self, gram: Gram, memory_limit: int) -> None:
        width = gram.m * gram.dtype.itemsize
        n_slots = min(gram.m, memory_limit // width)
        if n_slots < min(gram.m, FEWEST_COLUMNS):
            raise InputError(
                f"memory_limit must allow {FEWEST_COLUMNS} columns of {width:,} bytes; "
                f"got {memory_limit:,} bytes"
            )
        log.info(
            "caching at most %d of %d columns: %d bytes, of a memory_limit of %d",
            *(n_slots, gram.m, n_slots * width, memory_limit),
        )
        self.n_slots = n_slots
        self._owner = np.full(n_slots, -1, np.int64)
        self._n_filled = 0
        self._open(gram, np.full(gram.m, -1, np.int64))

    @classmethod
    def of_matrix(cls, gram: Gram, matrix: NDArray[np.floating]) -> ColumnStore:
        """Return a store of all columns of a precomputed matrix, without a copy."""
        self = cls.__new__(cls)
        self.n_slots, self._n_filled, self._base = len(matrix), 0, matrix
        self._open(gram, np.arange(gram.m))
        return self

    def _open(self, gram: Gram, slot: NDArray[np.int64]) -> None:
        self.gram = gram
        self._evaluate = gram.fill  # called as Gram.fill is
        self.slot = slot
        self.stamp = np.zeros(self.n_slots, np.int64)
        self.clock = np.zeros(1, np.int64)
        self.diag = gram.diag().astype(gram.dtype, copy=False).astype(np.float64, copy=False)
        self.n_computed = 0
        self._reads = np.zeros(gram.m, np.int32)  # evaluations of a column without caching it

    @cached_property
    def _base(self) -> NDArray[np.floating]:
        """The memory of the columns, allocated when the first of them is cached."""
        return np.empty((self.n_slots, self.gram.m), self.gram.dtype)

    @cached_property
    def store(self) -> NDArray[np.floating]:
        """The columns as compiled steps read them, shape (n_slots, m), read-only."""
        view = self._base.view()
        view.flags.writeable = False
        return view

    @property
    def n_entries(self) -> int:
        """Number of kernel values that fit into the memory limit, at most all of them."""
        return self.n_slots * self.gram.m

    @property
    def n_columns(self) -> int:
        """Number of different columns."""
        return int(self.gram.m)

    @property
    def is_filled_at_once(self) -> bool:
        """Whether all columns are cached together."""
        return self.n_columns <= min(MAX_POINTS_FILLED_AT_ONCE, self.n_slots)

    @property
    def n_bytes(self) -> int:
        """Memory of the cached columns, in bytes; 0 for a precomputed matrix."""
        return self._n_filled * self.gram.dtype.itemsize * self.gram.m

    @cached_property
    def error(self) -> NDArray[np.float64] | None:
        """Bound on the error of an entry of a column, for each row, shape (m,); None if unknown."""
        return self.gram.column_error

    @cached_property
    def relative_error(self) -> RelativeError | None:
        """Factors for rows and columns that bound the error relative to the entry; None if unknown."""
        return self.gram.relative_error

    @cached_property
    def sum_error(self) -> float:
        """Bound on the error of `add` beyond the errors of columns, per unit of weight."""
        return self.gram.sum_error

    @cached_property
    def unit(self) -> float:
        """Quantum of entries that may be stored in 16 bits; 1 where they may not."""
        return self.gram.unit if self.gram.dtype == np.float32 else 1.0

    def ensure(self, indices: NDArray[np.int64]) -> None:
        """Cache the columns `indices`, evaluating the missing ones in one block."""
        self.clock[0] += 1
        slots = self.slot[indices]
        self.stamp[slots[slots >= 0]] = self.clock[0]
        missing = indices[slots < 0]
        if len(missing) == 0:
            return
        if np.any(missing[1:] <= missing[:-1]):
            missing = np.unique(missing)
        # Free slots: released ones, else slots never used, else the least recently used.
        n = len(missing)
        slots = np.flatnonzero(self.stamp[: self._n_filled] < 0)[:n]
        first, last = self._n_filled, self._n_filled + n - len(slots)
        if last <= self.n_slots:
            self._n_filled = last
            slots = np.concatenate([slots, np.arange(first, last)])
        else:
            self._n_filled = self.n_slots
            slots = np.sort(np.argpartition(self.stamp, n - 1)[:n])
        evicted = self._owner[slots]
        self.slot[evicted[evicted >= 0]] = -1
        self._evaluate(missing, self._base, slots)
        self._owner[slots] = missing
        self.slot[missing] = slots
        self.stamp[slots] = self.clock[0]
        self.n_computed += n

    def dot(self, x: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return K x, as `Gram.dot` does, by columns that this solve evaluated.

        None where they are not in float64, or are kept between solves, or where one that is needed is not
        cached.
        """
        if self.gram.dtype != np.float64 or self.lasting or self.index is not None:
            return None
        support = np.flatnonzero(x != 0)
        slots, weights = self.slot[support], x[support]
        if np.any(slots < 0):
            return None
        if len(slots) * self.gram.m >= MIN_ENTRIES_FOR_COMPILED_PASS:
            from qpsvm.numerics.row_products import row_combination  # which is compiled

            return row_combination(self.store, slots, weights)
        out = np.zeros(self.gram.m)
        for first in range(0, len(slots), COLUMNS_OF_PRODUCT):
            at = slice(first, first + COLUMNS_OF_PRODUCT)
            out += weights[at] @ self.store[slots[at]]
        return out

    def entries_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the entries of a column that belong to coordinates."""
        return indices

    @cached_property
    def break_even_reuse_count(self) -> int:
        """Number of evaluations of a column before it is cached; -1 where it is cached at once."""
        return -1 if self.lasting else self.gram.break_even_reuse_count

    def passing(self, indices: NDArray[np.int64], again: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the columns `indices` are evaluated for one use rather than cached.

        These are uncached columns that are not read `again`, or that were evaluated less often than
        `break_even_reuse_count`.
        """
        if self.break_even_reuse_count < 0:
            return np.zeros(len(indices), bool)
        often = self._reads[indices] >= self.break_even_reuse_count
        return (self.slot[indices] < 0) & ~(again & often)

    def add(
        self,
        indices: NDArray[np.int64],
        weights: NDArray[np.float64],
        out: NDArray[np.float64],
        *,
        size: NDArray[np.float64] | None = None,
    ) -> None:
        """Add the columns `indices` of K by weight to `out`; they are evaluated and not cached.

        With `size`, add the sum that bounds the error too: see `Gram.add`.
        """
        self.gram.add(indices, weights, out, size=size)
        self._reads[indices] += 1
        self.n_computed += len(indices)

    def release(self, indices: NDArray[np.int64]) -> None:
        """Mark the columns `indices` as the first to be evicted, unless they are used again.

        Reused memory is cheaper than new memory: on a virtual machine the first touch of a page may
        cost more than the evaluation of its kernel entries.
        """
        slots = self.slot[indices]
        if not self.lasting:
            self.stamp[slots[slots >= 0]] = -1
