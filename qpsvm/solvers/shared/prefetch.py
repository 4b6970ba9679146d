"""Columns that come along with missing ones, as many as turned out to be of use.

A block of columns costs far less than its columns one by one: the points are read once for all of
them. But a column that no step asks for is wasted. So a miss brings the columns of those points
along that violate optimality most, and what earlier ones have saved, by being read, may be spent on
further ones; a little is spent on trial.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.gram.column_store import ColumnStore
from qpsvm.numerics.jit import compiled

FEWEST, MOST = 16, 256
"""Columns that come along, if any do: BLAS takes as long for two as for sixteen of them."""

ENTRIES = 1 << 25
"""Entries of what comes along, at most: 128 MB in float32."""

FIXED, EACH, EACH_LONG = 2.0, 0.125, 0.35
"""What a block costs beyond the missing column, in columns evaluated alone, and each one in it; a long
one lies in memory that was never touched, and to touch it first costs more than its numbers."""

LONG = 1 << 18
"""Points from which a column is long: 1 MB in float32."""

SLACK = 0.125
"""What may be spent on trial at each miss, in columns evaluated alone."""

FADE = 63.0 / 64.0
"""How much of what was earned and spent counts on at the next miss."""


class Prefetch:
    """How many columns come along with missing ones; one for each solve.

    Attributes
    ----------
    credit : float
        Columns that came along and were read, each of which saved a column evaluated alone, less the
        cost of all that came along, plus what may be tried.
    """

    def __init__(self, problem: QP) -> None:
        self._most = min(MOST, ENTRIES // problem.m)
        self._each = EACH if problem.m < LONG else EACH_LONG
        self._waiting = np.empty(0, np.int64)  # columns that came along and were not read yet
        self._since = np.empty(0, np.int64)  # when they came
        self.credit = 0.0

    def serve(
        self,
        store: ColumnStore,
        missing: NDArray[np.int64],
        candidates: Callable[[NDArray[np.int64], int], NDArray[np.int64]],
    ) -> None:
        """Make the missing columns held, and others that a step may ask for next.

        Parameters
        ----------
        store : ColumnStore
        missing : ndarray of int
            What the step reads, held or not.
        candidates : callable
            ``candidates(slot, count)`` returns about so many coordinates whose columns are not held,
            those that violate optimality most.
        """
        self._look(store)
        most = min(self._most, store.n_slots // 4 - len(missing))
        count = min(most, int((self.credit - FIXED) / self._each))
        if count < FEWEST:
            store.ensure(missing)
            return
        others = np.setdiff1d(candidates(store.slot, count + len(missing)), missing)
        store.ensure(np.concatenate([missing, others]))
        self.credit -= FIXED + self._each * len(others)
        self._waiting = np.concatenate([self._waiting, others])
        self._since = np.concatenate([self._since, np.full(len(others), store.clock[0])])

    def _look(self, store: ColumnStore) -> None:
        """Count which columns were read since the last miss, forget those that were evicted."""
        slots = store.slot[self._waiting]
        read = (slots >= 0) & (store.stamp[slots] > self._since)
        self.credit = FADE * self.credit + SLACK + np.count_nonzero(read)
        wait = (slots >= 0) & ~read
        self._waiting, self._since = self._waiting[wait], self._since[wait]


def least_unheld(
    f: NDArray[np.float64],
    way: float,
    mark: NDArray[np.integer],
    wanted: int,
    bits: int,
    slot: NDArray[np.int64],
    count: int,
) -> NDArray[np.int64]:
    """Return at most `count` coordinates whose columns are not held, those with the least way * f.

    Only those with ``mark & bits == wanted`` count.
    """
    found, value = np.full(count, -1), np.full(count, np.inf)
    if count:
        _collect(f, way, mark, wanted, bits, slot, found, value)
    return found[found >= 0]


@compiled
def _collect(
    f: Any, way: float, mark: Any, wanted: int, bits: int, slot: Any, found: Any, value: Any
) -> None:
    """Collect them in a heap, the greatest of them first."""
    for k in range(len(f)):
        v = way * f[k]
        if not (v < value[0] and slot[k] < 0 and (mark[k] & bits) == wanted):
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
