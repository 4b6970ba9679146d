"""Compiled sweeps of dual coordinate descent over linear machines, with shrinking.

Source: Hsieh, Chang, Lin, Keerthi and Sundararajan, ICML 2008, Algorithms 1 and 3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.csr_rows import Rows, add, dot, in_order
from qpsvm.solvers.coordinate_descent.anderson import extrapolate

RUN_POINTS = 16
"""Consecutive points of a run, which are read at memory bandwidth; the order of the runs is random.

CSR rows are copied once so that neighbors come from all over the data: similar points are often stored
together, as are those of one class in w8a, and runs of them take three times as many sweeps."""

KKT_TOLERANCE_FACTOR = 0.2
"""Factor on the KKT tolerance, the range of the projected gradients, from round to round."""

SHRINKING_FRACTION = 0.5
"""Fraction of the last sweep's extreme projected gradients beyond which points at bounds are shrunk."""

NEGLIGIBLE_GRADIENT = 1e-13
"""Gradient, relative to the largest target of a margin, up to which a weight is not moved."""

WINDOW_SWEEPS = 5
"""Sweeps that are extrapolated."""

WINDOW_DIVISOR = 4
"""Number of all points over that of the active ones from which sweeps are extrapolated."""


class Window(NamedTuple):
    """Iterates of consecutive sweeps over few points, for extrapolation."""

    some: NDArray[np.int64]  # (m // WINDOW_DIVISOR,), the points
    A: NDArray[np.float64]  # (WINDOW_SWEEPS + 1, len(some)), weights before the first, after each
    W: NDArray[np.float64]  # (WINDOW_SWEEPS + 1, d), w
    B: NDArray[np.float64]  # (WINDOW_SWEEPS + 1,), the bias


def window(m: int, d: int) -> Window:
    """Return the arrays of a window; their memory is used once they are written."""
    some, n = np.empty(m // WINDOW_DIVISOR, np.int64), WINDOW_SWEEPS + 1
    return Window(some, np.empty((n, len(some))), np.empty((n, d)), np.empty(n))


@in_order
def _shuffle(order: Any, count: int, random: Any) -> None:
    """Fill a random permutation of 0 ... count - 1 (Fisher and Yates) by a xorshift generator."""
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
def _dot(target: Any, a: Any) -> float:
    total = 0.0
    for i in range(len(a)):
        total += target[i] * a[i]
    return total


@in_order
def _weighted_square(ridge: Any, a: Any) -> float:
    total = 0.0
    for i in range(len(a)):
        total += ridge[i] * a[i] * a[i]
    return total


@in_order
def _store_iterate(
    some: Any, a: Any, w: Any, b: float, A: Any, W: Any, B: Any, n_stored: int
) -> int:
    """Store the weights of the points `some`, w and b in the next row; return the rows in use."""
    for n in range(len(some)):
        A[n_stored, n] = a[some[n]]
    for j in range(len(w)):
        W[n_stored, j] = w[j]
    B[n_stored] = b
    return n_stored + 1


@in_order
def _partition(order: Any, n_active: int, shrunk: Any) -> int:
    """Move the shrunk points i, stored as -1 - i, behind the active ones; return the number of these."""
    kept = n_shrunk = 0
    for k in range(n_active):
        if order[k] < 0:
            shrunk[n_shrunk] = -1 - order[k]
            n_shrunk += 1
        else:
            order[kept] = order[k]
            kept += 1
    for k in range(n_shrunk):  # a slice would compile the message of a wrong length, for 2 s
        order[kept + k] = shrunk[k]
    return kept


@in_order
def _visit_runs(
    rows: Rows, row: Any, y: Any, target: Any, upper: Any, ridge: Any, squares: Any, order: Any,
    n_active: int, run_order: Any, n_runs: int, run_length: int, shrinking: bool, thresholds: Any,
    negligible: float, lift: float, b: float, total: float, a: Any, w: Any,
) -> Any:  # fmt: skip
    """Visit the active points once, run by run; the index i of a shrunk point is set to -1 - i.

    Returns the number of shrunk points, the least, the largest and the largest absolute projected
    gradient, the gap, the bias, and the sum of the weights times their targets.
    """
    data, columns, ends = rows
    shrink_below, shrink_above = thresholds
    n_shrunk, one = 0, np.uint64(1)
    highest, lowest, largest, gap = -np.inf, np.inf, 0.0, 0.0
    for run in range(n_runs):
        first = run_order[run] * run_length
        for k in range(first, min(first + run_length, n_active)):
            i = np.uint64(order[k])
            r = np.uint64(row[i])
            start, stop = ends[r], ends[r + one]
            d = ridge[i]
            g = y[i] * (dot(data, columns, start, stop, w) + b) - target[i] + d * a[i]
            curvature = squares[i] + lift * lift + d
            if a[i] <= 0.0:
                if shrinking and g > shrink_above:
                    order[k] = -1 - order[k]
                    n_shrunk += 1
                    continue
                g = min(g, 0.0)
            elif a[i] >= upper[i]:
                if shrinking and g < shrink_below:
                    order[k] = -1 - order[k]
                    n_shrunk += 1
                    continue
                g = max(g, 0.0)
            highest, lowest = max(highest, g), min(lowest, g)
            if d > 0.0:
                gap += 0.5 * g * g / d if g < d * a[i] else a[i] * (g - 0.5 * d * a[i])
            else:
                gap += g * a[i] if g > 0.0 else g * (a[i] - upper[i])
            if abs(g) > negligible:
                new = (
                    min(max(a[i] - g / curvature, 0.0), upper[i])
                    if curvature > 0.0
                    else (upper[i] if g < 0.0 else 0.0)
                )
                if new != a[i]:
                    largest = max(largest, abs(g))
                    t = (new - a[i]) * y[i]
                    total += target[i] * (new - a[i])
                    a[i] = new
                    add(data, columns, start, stop, t, w)
                    b += t * lift * lift
    return n_shrunk, lowest, highest, largest, gap, b, total


@in_order
def sweeps(
    rows: Rows,
    row: Any,
    y: Any,
    target: Any,
    upper: Any,
    ridge: Any,
    squares: Any,
    order: Any,
    n_active: int,
    random: Any,
    shrinking: bool,
    visits: int,
    goal: float,
    lift: float,
    b: float,
    gradient_range: Any,
    a: Any,
    w: Any,
    window: Window,
) -> Any:
    """Sweep until the gap looks closed to `goal`, or `visits` are made.

    Coordinate i has the point `row[i]`, the sign y_i, the target t_i of its margin, and the upper bound
    C_i or the ridge D_i. Where D_i > 0 and there is no bound, a term of the gap is g^2 / (2 D_i) for the
    projected gradient g, or a_i (g - D_i a_i / 2) where g > D_i a_i.

    Returns the number of active points, the bias, the visits made, 0.0 where nothing moves, and the
    relative gap after half of the visits, at the end, and as predicted after the end; it is the sum of
    each point's term at its visit. `gradient_range` holds the largest and least projected gradient of
    the last sweep, which decide which points are shrunk, and the KKT tolerance, the difference of the
    two at which all points become active again.
    """
    points, A, W, B = window
    m, done = len(a), 0
    total, before, gap = _dot(target, a), np.inf, 0.0
    negligible = NEGLIGIBLE_GRADIENT * np.max(np.abs(target))
    run_order, n_shuffled = np.empty(m, np.int64), 0
    shrunk = np.empty(m, np.int64)
    zero: Any = np.int64(0)  # a literal would compile functions twice
    some, n_stored, has_ridge = points, zero, np.max(ridge) > 0.0
    while done < visits:
        # 1. Begin a window of iterates where few points are active.
        all_active = n_active == m
        if WINDOW_DIVISOR * n_active > m:
            n_stored = zero
        elif n_stored == 0:
            some = points[:n_active]
            for k in range(n_active):
                some[k] = order[k]
            n_stored = _store_iterate(some, a, w, b, A, W, B, n_stored)

        # 2. Choose the shrinking thresholds and the order of the runs.
        above, below = gradient_range[0], gradient_range[1]
        shrink_above = SHRINKING_FRACTION * above if above > 0.0 else np.inf
        shrink_below = SHRINKING_FRACTION * below if below < 0.0 else -np.inf
        last = gap
        run_length = max(1, min(n_active // 64, RUN_POINTS))
        n_runs = (n_active + run_length - 1) // run_length
        if n_stored <= 1 or n_shuffled != n_runs:  # the order is fixed within a window
            n_shuffled = n_runs
            _shuffle(run_order, n_runs, random)

        # 3. Visit the active points: shrink a point, or minimize over its weight.
        thresholds = shrink_below, shrink_above
        found = _visit_runs(
            rows, row, y, target, upper, ridge, squares, order, n_active, run_order, n_runs,
            run_length, shrinking, thresholds, negligible, lift, b, total, a, w,
        )  # fmt: skip
        n_shrunk, lowest, highest, largest, gap, b, total = found
        done += n_active

        # 4. Extrapolate a full window.
        if n_stored > 0:
            n_stored = _store_iterate(some, a, w, b, A, W, B, n_stored)
            if n_stored > WINDOW_SWEEPS:
                b = extrapolate(rows, row, y, target, upper, ridge, lift, b, some, A, W, B, a, w)
                total, n_stored = _dot(target, a), zero

        # 5. Remove the shrunk points from the active ones.
        if n_shrunk:
            n_active = _partition(order, n_active, shrunk)
        gradient_range[0], gradient_range[1] = highest, lowest

        # 6. Predict the gap after the sweep, and test for convergence.
        quadratic = np.dot(w, w) + (b / lift) ** 2 if lift > 0.0 else np.dot(w, w)
        if has_ridge:
            quadratic += _weighted_square(ridge, a)
        gap /= max(total - 0.5 * quadratic, 1e-300)
        predicted = gap * min(1.0, 4.0 * gap / max(last, 1e-300))
        closed = predicted <= goal
        if 2 * done <= visits or before == np.inf:
            before = gap

        # 7. Make all points active where the active ones have converged.
        if not np.isfinite(gradient_range[2]):
            gradient_range[2] = KKT_TOLERANCE_FACTOR * (highest - lowest)
        elif n_active == 0 or highest - lowest <= gradient_range[2] or closed:
            if all_active and largest == 0.0:
                return m, b, done, 0.0, before, gap, predicted
            if not closed:
                gradient_range[2] *= KKT_TOLERANCE_FACTOR
            n_active = m
            for k in range(m):
                order[k] = k
        if closed:
            break
    return n_active, b, done, 1.0, before, gap, predicted
