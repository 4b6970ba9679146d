"""Compiled sweeps of dual coordinate descent over the linear hinge SVM, with shrinking.

Source: Hsieh, Chang, Lin, Keerthi and Sundararajan, ICML 2008, Algorithms 1 and 3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.csr_rows import Rows, add, dot, in_order
from qpsvm.solvers.coordinate_descent.anderson import extrapolate

RUN = 16
"""A sweep takes this many neighbours in a row, which are read at the memory's speed, and the runs in a
random order. CSR rows are copied once such that neighbours come from all over the data: points that are
alike often lie together, as those of one class in w8a, and then runs take three times as many sweeps."""

TIGHTER = 0.2
"""Factor on the spread of the projected gradient from round to round."""

SOONER = 0.5
"""Share of the last sweep's largest projected gradient beyond which a point at its bound is left out."""

WINDOW, FEW = 5, 4
"""Sweeps that are extrapolated, where no more than one point in `FEW` is active."""


class Window(NamedTuple):
    """Sweeps over few points that are about to be extrapolated."""

    some: NDArray[np.int64]  # (m // FEW,), the points
    A: NDArray[np.float64]  # (WINDOW + 1, m // FEW), their weights before the first and after each
    W: NDArray[np.float64]  # (WINDOW + 1, d), w
    B: NDArray[np.float64]  # (WINDOW + 1,), the bias


def window(m: int, d: int) -> Window:
    """Return room for them, which takes up memory once it is used."""
    some, n = np.empty(m // FEW, np.int64), WINDOW + 1
    return Window(some, np.empty((n, len(some))), np.empty((n, d)), np.empty(n))


@in_order
def _shuffle(order: Any, count: int, random: Any) -> None:
    """Make a permutation of 0 ... count - 1 (Fisher and Yates) by a xorshift generator."""
    s = random[0]
    for k in range(count):
        order[k] = k
    for k in range(count - 1, 0, -1):
        s ^= s << np.uint64(13)
        s ^= s >> np.uint64(7)
        s ^= s << np.uint64(17)
        j = np.int64(((s >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32))
        order[k], order[j] = order[j], order[k]
    random[0] = s


@in_order
def _sum(a: Any) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i]
    return total


@in_order
def _hold(some: Any, a: Any, w: Any, b: float, A: Any, W: Any, B: Any, held: int) -> int:
    """Put the weights of the points `some`, w and b into the next row; return the rows in use."""
    for n in range(len(some)):
        A[held, n] = a[some[n]]
    for j in range(len(w)):
        W[held, j] = w[j]
    B[held] = b
    return held + 1


@in_order
def sweeps(
    rows: Rows,
    y: Any,
    upper: Any,
    squares: Any,
    order: Any,
    n_active: int,
    random: Any,
    shrinking: bool,
    visits: int,
    target: float,
    lift: float,
    b: float,
    span: Any,
    a: Any,
    w: Any,
    window: Window,
) -> Any:
    """Sweep until the gap looks closed to `target`, or `visits` are made.

    Returns the number of active points, the bias, the visits made, 0 where nothing moves, and the
    relative gap after half of the visits and at the end: the sum of each point's term when it was
    visited. `span` holds the largest and least projected gradient of the last sweep, which decide who
    leaves, and the spread at which all points come back.
    """
    data, columns, ends = rows
    points, A, W, B = window
    m, done, one = len(a), 0, np.uint64(1)
    total, before, gap = _sum(a), np.inf, 0.0
    blocks, n_blocks = np.empty(m, np.int64), 0  # the runs in their order
    out = np.empty(m, np.int64)  # who leaves
    zero: Any = np.int64(0)  # a literal would have functions compiled twice
    some, held = points, zero
    while done < visits:
        whole = n_active == m
        if FEW * n_active > m:
            held = zero
        elif held == 0:
            some = points[:n_active]
            for k in range(n_active):
                some[k] = order[k]
            held = _hold(some, a, w, b, A, W, B, held)
        highest, lowest = -np.inf, np.inf
        leave_high = SOONER * span[0] if span[0] > 0.0 else np.inf
        leave_low = SOONER * span[1] if span[1] < 0.0 else -np.inf
        largest, kept, last, gap = 0.0, 0, gap, 0.0
        block = max(1, min(n_active // 64, RUN))
        count = (n_active + block - 1) // block
        if held <= 1 or n_blocks != count:  # the order stays while points are held
            n_blocks = count
            _shuffle(blocks, count, random)
        n_out = 0
        for run in range(count):  # of neighbours
            first = blocks[run] * block
            for k in range(first, min(first + block, n_active)):
                i = np.uint64(order[k])
                start, stop = ends[i], ends[i + one]
                g = y[i] * (dot(data, columns, start, stop, w) + b) - 1.0
                curvature = squares[i] + lift * lift
                if a[i] <= 0.0:
                    if shrinking and g > leave_high:
                        order[k] = -1 - order[k]
                        n_out += 1
                        continue
                    g = min(g, 0.0)
                elif a[i] >= upper[i]:
                    if shrinking and g < leave_low:
                        order[k] = -1 - order[k]
                        n_out += 1
                        continue
                    g = max(g, 0.0)
                highest, lowest = max(highest, g), min(lowest, g)
                gap += g * a[i] if g > 0.0 else g * (a[i] - upper[i])
                if abs(g) > 1e-13:
                    new = (
                        min(max(a[i] - g / curvature, 0.0), upper[i])
                        if curvature > 0.0
                        else (upper[i] if g < 0.0 else 0.0)
                    )
                    if new != a[i]:
                        largest = max(largest, abs(g))
                        t = (new - a[i]) * y[i]
                        total += new - a[i]
                        a[i] = new
                        add(data, columns, start, stop, t, w)
                        b += t * lift * lift
        done += n_active
        if held > 0:
            held = _hold(some, a, w, b, A, W, B, held)
            if held > WINDOW:
                b = extrapolate(rows, y, upper, lift, b, some, A, W, B, a, w)
                total, held = _sum(a), zero
        if n_out:
            kept = n_out = 0
            for k in range(n_active):
                if order[k] < 0:
                    out[n_out] = -1 - order[k]
                    n_out += 1
                else:
                    order[kept] = order[k]
                    kept += 1
            for k in range(n_out):  # a slice would compile the message of a wrong length, for 2 s
                order[kept + k] = out[k]
            n_active = kept
        span[0], span[1] = highest, lowest
        gap /= max(total - 0.5 * np.dot(w, w), 1e-300)
        ahead = gap * min(1.0, 4.0 * gap / max(last, 1e-300))  # as the sweep leaves the points
        closed = ahead <= target
        if 2 * done <= visits or before == np.inf:
            before = gap
        if not np.isfinite(span[2]):
            span[2] = TIGHTER * (highest - lowest)
        elif n_active == 0 or highest - lowest <= span[2] or closed:
            if whole and largest == 0.0:
                return m, b, done, 0.0, before, gap, ahead
            if not closed:
                span[2] *= TIGHTER
            n_active = m  # look at all again
            for k in range(m):
                order[k] = k
        if closed:
            break
    return n_active, b, done, 1.0, before, gap, ahead
