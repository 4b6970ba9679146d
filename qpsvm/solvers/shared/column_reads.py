"""Compiled reads of cached columns, shared by the solvers that work on columns."""

from __future__ import annotations

from typing import Any

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.jit import compiled, inlined

COLUMN_MISSING = 4
"""Stop code besides the values of `Stop`: a column must be filled before the step can be made."""


@inlined
def is_cached(cols: Columns, i: int) -> bool:
    """Return whether column i can be read."""
    return cols.slot[i] >= 0


@inlined
def touch(cols: Columns, i: int) -> None:
    """Record a use of column i, for the least-recently-used order."""
    cols.clock[0] += 1
    cols.stamp[cols.slot[i]] = cols.clock[0]


@inlined
def own(cols: Columns, i: int) -> float:
    """Return g_ii + d_i."""
    return cols.scale * (cols.diag[i] + cols.shift) + cols.ridge[i]


@compiled
def entry(cols: Columns, i: int, j: int) -> float:
    """Return g_ij without the ridge, from cached column i; the diagonal comes from `diag`."""
    k = cols.diag[i] if i == j else float(cols.store[cols.slot[i], j])
    return cols.scale * cols.sign[i] * cols.sign[j] * (k + cols.shift)


@compiled
def form(cols: Columns, a: Any, b: Any) -> float:
    """Return a'(G + D)b for two vertices given by their coordinates; reads the columns of `a`."""
    total = 0.0
    for g in range(a.shape[0]):
        for h in range(b.shape[0]):
            total += entry(cols, a[g], b[h])
        if a[g] == b[g]:
            total += cols.ridge[a[g]]
    return total
