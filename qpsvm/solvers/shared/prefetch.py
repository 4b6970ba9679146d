"""Prefetching of columns: a miss evaluates further columns, as many as proved useful before.

A block of columns costs far less than its columns one by one, since the points are read once. A column
that no step reads is wasted. A miss therefore prefetches the columns of the points that violate
optimality most. Columns that were prefetched and read earn credit, which pays for further ones; a
small credit per miss pays for trials.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.gram.column_store import ColumnStore
from qpsvm.numerics.jit import compiled

MIN_PREFETCH_COLUMNS = 16
"""Minimum number of columns of a prefetch: BLAS takes as long for two columns as for sixteen."""

MAX_PREFETCH_COLUMNS = 256
"""Maximum number of columns of a prefetch."""

MAX_PREFETCH_ENTRIES = 1 << 25
"""Maximum number of entries of a prefetch: 128 MB in float32."""

BLOCK_COST = 2.0
"""Fixed cost of a block besides the missing column, in columns evaluated alone."""

COLUMN_COST = 0.125
"""Cost of each prefetched column of a block, in columns evaluated alone."""

LONG_COLUMN_COST = 0.35
"""The same for a long column, whose memory is new: its first touch costs more than its entries."""

MIN_POINTS_OF_LONG_COLUMN = 1 << 18
"""Minimum number of points of a long column: 1 MB in float32."""

TRIAL_CREDIT = 0.125
"""Credit that each miss adds for trials, in columns evaluated alone."""

CREDIT_DECAY = 63.0 / 64.0
"""Factor of the credit from one miss to the next."""


class Prefetch:
    """Number of columns to prefetch at a miss; one object per solve.

    Attributes
    ----------
    credit : float
        Prefetched columns that were read, each of which saved a column evaluated alone, less the cost
        of all prefetched columns, plus the credit for trials.
    """

    def __init__(self, problem: QP) -> None:
        self._max_columns = min(MAX_PREFETCH_COLUMNS, MAX_PREFETCH_ENTRIES // problem.m)
        is_long = problem.m >= MIN_POINTS_OF_LONG_COLUMN
        self._column_cost = LONG_COLUMN_COST if is_long else COLUMN_COST
        self._pending = np.empty(0, np.int64)  # prefetched columns that were not read yet
        self._prefetch_times = np.empty(0, np.int64)  # clock of the store at their prefetch
        self.credit = 0.0

    def serve(
        self,
        store: ColumnStore,
        missing: NDArray[np.int64],
        candidates: Callable[[NDArray[np.int64], int], NDArray[np.int64]],
    ) -> None:
        """Cache the missing columns, and others that a step may read next.

        Parameters
        ----------
        store : ColumnStore
        missing : ndarray of int
            Columns that the step reads, cached or not.
        candidates : callable
            ``candidates(slot, count)`` returns about `count` coordinates whose columns are not cached,
            those that violate optimality most.
        """
        # 1. Earn credit for columns read since the last miss; evicted ones are pending no longer.
        slots = store.slot[self._pending]
        read = (slots >= 0) & (store.stamp[slots] > self._prefetch_times)
        self.credit = CREDIT_DECAY * self.credit + TRIAL_CREDIT + np.count_nonzero(read)
        pending = (slots >= 0) & ~read
        self._pending, self._prefetch_times = self._pending[pending], self._prefetch_times[pending]
        # 2. Cache the missing columns, and as many others as the credit pays for.
        most = min(self._max_columns, store.n_slots // 4 - len(missing))
        count = min(most, int((self.credit - BLOCK_COST) / self._column_cost))
        if count < MIN_PREFETCH_COLUMNS:
            store.ensure(missing)
            return
        others = np.setdiff1d(candidates(store.slot, count + len(missing)), missing)
        store.ensure(np.concatenate([missing, others]))
        self.credit -= BLOCK_COST + self._column_cost * len(others)
        self._pending = np.concatenate([self._pending, others])
        now = np.full(len(others), store.clock[0])
        self._prefetch_times = np.concatenate([self._prefetch_times, now])


def least_uncached(
    f: NDArray[np.float64],
    direction: float,
    mark: NDArray[np.integer],
    wanted_flags: int,
    flag_mask: int,
    slot: NDArray[np.int64],
    count: int,
) -> NDArray[np.int64]:
    """Return at most `count` coordinates with uncached columns, those with the least direction * f.

    Only coordinates with ``mark & flag_mask == wanted_flags`` are considered.
    """
    found, value = np.full(count, -1), np.full(count, np.inf)
    if count:
        _collect(f, direction, mark, wanted_flags, flag_mask, slot, found, value)
    return found[found >= 0]


@compiled
def _collect(
    f: Any,
    direction: float,
    mark: Any,
    wanted_flags: int,
    flag_mask: int,
    slot: Any,
    found: Any,
    value: Any,
) -> None:
    """Collect them in a heap whose root is the greatest."""
    for k in range(len(f)):
        v = direction * f[k]
        if not (v < value[0] and slot[k] < 0 and (mark[k] & flag_mask) == wanted_flags):
            continue
        at = 0
        while 2 * at + 1 < len(value):
            below = 2 * at + 1
            if below + 1 < len(value) and value[below + 1] > value[below]:
                below += 1
            if value[below] <= v:
                break
            value[at], found[at] = value[below], found[below]
            at = below
        value[at], found[at] = v, k
