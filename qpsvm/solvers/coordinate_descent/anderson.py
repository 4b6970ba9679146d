"""Anderson acceleration of slow sweeps of coordinate descent.

With the points between the bounds and their order fixed, a sweep is an affine map of the weights a, and
of w = X'Y a. From successive a_0 ... a_K the combination sum c_k a_k, sum c_k = 1, is formed that
minimizes |sum c_k (w_k - w_k-1)|; it is clipped to the bounds, and rejected where the value is no
better.

Source: Bertrand and Massias, "Anderson acceleration of coordinate descent", AISTATS 2021, Algorithm 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.numerics.csr_rows import Rows, add, in_order

REGULARIZATION_FRACTION = 1e-10
"""Fraction of the trace that is added to the diagonal of the equations for c."""


@in_order
def extrapolate(
    rows: Rows, row: Any, y: Any, target: Any, upper: Any, ridge: Any, lift: float, b: float,
    some: Any, A: Any, W: Any, B: Any, a: Any, w: Any,
) -> float:  # fmt: skip
    """Move a, w from the last of the rows of A, W, B to their extrapolation; return the bias.

    Column k of A holds the weights of the coordinate `some[k]`; further columns are unused. B is the bias
    lift^2 y'a.
    """
    data, columns, ends = rows
    c = _coefficients(W)
    square = lift * lift if lift > 0.0 else 1.0
    last = len(W) - 1
    new, new_b, moved, gain = np.empty(len(w)), 0.0, np.empty(len(some)), 0.0
    new[:] = 0.0
    for k in range(last):
        new_b += c[k] * B[k + 1]
        for j in range(len(w)):
            new[j] += c[k] * W[k + 1, j]
    for n in range(len(some)):
        i = np.uint64(some[n])
        free = 0.0
        for k in range(last):
            free += c[k] * A[k + 1, n]
        moved[n] = min(max(free, 0.0), upper[i])
        gain += target[i] * (moved[n] - a[i])
        gain -= 0.5 * ridge[i] * (moved[n] * moved[n] - a[i] * a[i])
        if moved[n] != free:
            t, r = (moved[n] - free) * y[i], np.uint64(row[i])
            add(data, columns, ends[r], ends[r + np.uint64(1)], t, new)
            new_b += lift * lift * t
    rise = (new_b * new_b - b * b) / square
    for j in range(len(w)):
        rise += new[j] * new[j] - w[j] * w[j]
    if not 0.5 * rise < gain:
        return b
    for n in range(len(some)):
        a[some[n]] = moved[n]
    for j in range(len(w)):
        w[j] = new[j]
    return new_b


@in_order
def _coefficients(W: Any) -> Any:
    """Return c of sum 1 with the least |sum c_k (w_k+1 - w_k)|, slightly regularized."""
    n = len(W) - 1
    M, c = np.empty((n, n)), np.empty(n)
    for k in range(n):
        c[k] = 1.0
        for j in range(k + 1):
            total = 0.0
            for i in range(W.shape[1]):
                total += (W[k + 1, i] - W[k, i]) * (W[j + 1, i] - W[j, i])
            M[k, j] = M[j, k] = total
    trace = 0.0
    for k in range(n):
        trace += M[k, k]
    for k in range(n):
        M[k, k] += REGULARIZATION_FRACTION * trace + 1e-300
    for k in range(n):  # elimination; the matrix is positive definite
        for j in range(k + 1, n):
            f = M[j, k] / M[k, k]
            for i in range(k, n):
                M[j, i] -= f * M[k, i]
            c[j] -= f * c[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            c[k] -= M[k, j] * c[j]
        c[k] /= M[k, k]
    total = 0.0
    for k in range(n):
        total += c[k]
    for k in range(n):
        c[k] /= total
    return c
