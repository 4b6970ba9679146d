"""Compiled reads of held columns, shared by the solvers that work on them."""

from __future__ import annotations

from typing import Any

import numba

from qpsvm.gram.columns import Columns


def compiled(function: Any) -> Any:
    """Compile for the disk cache, free of the interpreter lock, with numpy's division rules."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(function)


def vectorized(function: Any) -> Any:
    """Compile like `compiled`, free to vectorize minima: no NaN may reach it."""
    flags = {"contract", "nnan", "nsz"}
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=flags)(function)


@compiled
def held(cols: Columns, i: int) -> bool:
    """Return whether column i can be read."""
    return cols.slot[i] >= 0


@compiled
def touch(cols: Columns, i: int) -> None:
    """Note that column i was used."""
    cols.clock[0] += 1
    cols.stamp[cols.slot[i]] = cols.clock[0]


@compiled
def entry(cols: Columns, i: int, j: int) -> float:
    """Return g_ij, without the ridge, from held column i; the diagonal comes from `diag`."""
    k = cols.diag[i] if i == j else float(cols.store[cols.slot[i], j])
    return cols.scale * cols.sign[i] * cols.sign[j] * (k + cols.shift)


@compiled
def add_column(cols: Columns, i: int, t: float, p: Any) -> None:
    """Add t times column i of G to p."""
    row = cols.store[cols.slot[i]]
    t = t * cols.scale * cols.sign[i]
    shift = cols.shift
    sign = cols.sign
    for k in range(p.shape[0]):
        p[k] += t * sign[k] * (row[k] + shift)
