"""Columns that come along with missing ones, as many as turned out to be of use.

A block of columns costs far less than its columns one by one: the points are read once for all of
them. But a column that no step asks for is wasted. So a miss brings the columns of those points
along that violate optimality most, and how many these are follows from what became of earlier ones:
twice as many where most of them were used, half as many where most were not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.forms import QP
from qpsvm.gram.columns import ColumnStore
from qpsvm.solvers.steps import compiled

MOST = 256
"""Columns of a block, at most: beyond that a column does not become cheaper."""

ENTRIES = 1 << 24
"""Entries of a block, at most: 64 MB in float32."""


class Prefetch:
    """How many columns come along with missing ones; one for each solve.

    Attributes
    ----------
    ahead : int
        Columns that come along now.
    """

    def __init__(self, problem: QP) -> None:
        self.ahead = 1
        self._most = min(MOST, ENTRIES // problem.m)
        self._batches: list[tuple[NDArray[np.int64], int]] = []  # columns, when they came

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
            ``candidates(slot, count)`` returns at most so many coordinates whose columns are not held,
            those that violate optimality most.
        """
        self._judge(store)
        room = min(self.ahead, store.n_slots // 4 - len(missing))
        if room <= 0:
            store.ensure(missing)
            return
        others = np.setdiff1d(candidates(store.slot, room + len(missing)), missing)[:room]
        store.ensure(np.concatenate([missing, others]))
        self._batches.append((others, int(store.clock[0])))

    def _judge(self, store: ColumnStore) -> None:
        """Adapt to the use of the last columns that came along."""


def least_unheld(
    f: NDArray[np.float64],
    group: NDArray[np.int32],
    n_groups: int,
    slot: NDArray[np.int64],
    count: int,
) -> NDArray[np.int64]:
    """Return coordinates of each group with the least f whose columns are not held."""
    share = -(-count // n_groups)
    found = np.empty((n_groups, share), np.int64)
    for g in range(n_groups):
        _collect(f, group, g, slot, found[g], np.empty(share))
    return found[found >= 0]


@compiled
def _collect(f: Any, group: Any, g: int, slot: Any, found: Any, value: Any) -> None:
    """Collect the coordinates of a group with the least f in a heap, the greatest of them first."""
    found[:] = -1
    value[:] = np.inf
    for k in range(len(f)):
        if f[k] < value[0] and slot[k] < 0 and group[k] == g:
            at = 0
            while 2 * at + 1 < len(value):
                below = 2 * at + 1
                if below + 1 < len(value) and value[below + 1] > value[below]:
                    below += 1
                if value[below] <= f[k]:
                    break
                value[at], found[at] = value[below], found[below]
                at = below
            value[at], found[at] = f[k], k
