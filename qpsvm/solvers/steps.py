"""Compiled reads of held columns, shared by the solvers that work on them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from qpsvm.gram.columns import Columns

MISSING = 4
"""Beside the values of Stop: columns have to be filled before the step can be made."""

LANES = 16
"""Extremes are searched in this many interleaved lanes, which become vector registers."""


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
def _update(cols: Columns, keep: float, i: int, t: float, p: Any) -> None:
    """Let p = keep p + t times column i of G."""
    row = cols.store[cols.slot[i]]
    t = t * cols.scale * cols.sign[i]
    shift = cols.shift
    sign = cols.sign
    for k in range(p.shape[0]):
        p[k] = keep * p[k] + t * sign[k] * (row[k] + shift)


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
def move(
    cols: Columns, keep: float, vertex: Any, gain: float, weights: Any, x: Any, p: Any
) -> None:
    """Let x = keep x + gain times a vertex, and p = G x; `weights` are the coordinates of x > 0."""
    if keep != 1.0:
        for index in weights:
            x[np.uintp(index)] *= keep
    for g in range(vertex.shape[0]):
        touch(cols, vertex[g])
        x[vertex[g]] += gain
        _update(cols, keep if g == 0 else 1.0, vertex[g], gain, p)


@vectorized
def least(s: Any, barred: Any, best: Any, at: Any) -> Any:
    """Return the least s + barred and its first index, -1 if all are barred."""
    for l in range(LANES):
        best[l], at[l] = np.inf, -1
    whole = len(s) // LANES * LANES
    for start in range(0, whole, LANES):
        a, bar = s[start : start + LANES], barred[start : start + LANES]
        for l in range(LANES):
            v = a[l] + bar[l]
            better = v < best[l]
            best[l] = v if better else best[l]
            at[l] = start + l if better else at[l]
    low, where = np.inf, -1
    for l in range(LANES):
        if at[l] >= 0 and (best[l] < low or (best[l] == low and at[l] < where)):
            low, where = best[l], at[l]
    for k in range(whole, len(s)):
        if s[k] + barred[k] < low:
            low, where = s[k] + barred[k], k
    return low, where


@compiled
def scan(
    ridge: Any,
    group: Any,
    c: Any,
    x: Any,
    p: Any,
    weights: Any,
    bar: Any,
    low: Any,
    high: Any,
    near: Any,
    f_low: Any,
    f_high: Any,
    f_near: Any,
    best: Any,
    at: Any,
) -> Any:
    """Find the extremes of the gradient f = Gx + Dx + c by group; return x'f and x'(G + D)x.

    `weights` holds every coordinate with x > 0, and no other has an infinite `bar` in its group.
    """
    xf = 0.0
    xqx = 0.0
    for g in range(bar.shape[0]):  # where x = 0 the ridge adds nothing
        least_f, i = least(p, bar[g], best, at)
        most, j = -np.inf, -1
        within, l = np.inf, -1
        for index in weights:
            k = np.uintp(index)  # an unsigned index is not looked at for its sign
            if group[k] != g:
                continue
            weight = x[k]
            q = p[k] + ridge[k] * weight
            f = q + c[k]
            if f <= least_f and (f < least_f or index < i):
                least_f, i = f, index
            if weight > 0.0:
                xf += weight * f
                xqx += weight * q
                if f >= most and (f > most or index < j):
                    most, j = f, index
                if f <= within and (f < within or index < l):
                    within, l = f, index
        f_low[g], low[g] = least_f, i
        f_high[g], high[g] = most, j
        f_near[g], near[g] = within, l
    return xf, xqx


@compiled
def note(k: int, g: int, c: Any, x: Any, support: Any, n_support: Any, bar: Any) -> None:
    """Let coordinate k of group g enter or leave the list of the support, as x says."""
    n = n_support[0]
    if x[k] > 0.0 and bar[g, k] < np.inf:
        bar[g, k] = np.inf
        support[n] = k
        n_support[0] = n + 1
    elif x[k] <= 0.0 and bar[g, k] == np.inf:
        bar[g, k] = c[k]
        for a in range(n):
            if support[a] == k:
                support[a] = support[n - 1]
                break
        n_support[0] = n - 1
