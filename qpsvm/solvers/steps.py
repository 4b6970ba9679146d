"""Compiled reads of held columns, shared by the solvers that work on them."""

from __future__ import annotations

from typing import Any

import numba

from qpsvm.gram.columns import Columns

MISSING = 4
"""Beside the values of Stop: columns have to be filled before the step can be made."""


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


@compiled
def form(cols: Columns, a: Any, b: Any) -> float:
    """Return a'(G + D)b for two vertices given by their coordinates; reads the columns of a."""
    total = 0.0
    for g in range(a.shape[0]):
        for h in range(b.shape[0]):
            total += entry(cols, a[g], b[h])
        if a[g] == b[g]:
            total += cols.ridge[a[g]]
    return total


@compiled
def shrink(keep: float, x: Any, p: Any) -> None:
    """Scale the point and its product."""
    for k in range(x.shape[0]):
        x[k] *= keep
        p[k] *= keep


@compiled
def move(cols: Columns, vertex: Any, gain: float, x: Any, p: Any) -> None:
    """Add `gain` to the coordinates of a vertex."""
    for g in range(vertex.shape[0]):
        touch(cols, vertex[g])
        x[vertex[g]] += gain
        add_column(cols, vertex[g], gain, p)


@compiled
def best_of_triangle(pp: float, qq: float, pq: float, p: float, q: float) -> Any:
    """Minimize (p a + q b) + 1/2 (pp a^2 + 2 pq ab + qq b^2) over a, b >= 0, a + b <= 1.

    p and q are the slopes of the two edges at the corner, both <= 0.
    """
    determinant = pp * qq - pq * pq
    if determinant > 1e-12 * pp * qq:
        a = (pq * q - qq * p) / determinant
        b = (pq * p - pp * q) / determinant
        if a >= 0.0 and b >= 0.0 and a + b <= 1.0:
            return a, b
    best, best_a, best_b = 0.0, 0.0, 0.0
    for edge in range(3):
        if edge == 0:  # b = 0
            a = min(1.0, -p / pp) if pp > 0.0 else 1.0
            b = 0.0
        elif edge == 1:  # a = 0
            a = 0.0
            b = min(1.0, -q / qq) if qq > 0.0 else 1.0
        else:  # a + b = 1
            bend = pp + qq - 2.0 * pq
            a = (q - p + qq - pq) / bend if bend > 0.0 else 0.0
            a = min(1.0, max(0.0, a))
            b = 1.0 - a
        value = p * a + q * b + 0.5 * (pp * a * a + qq * b * b) + pq * a * b
        if value < best:
            best, best_a, best_b = value, a, b
    return best_a, best_b
