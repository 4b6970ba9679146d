"""Proximal Newton steps for linear machines: the end of dual coordinate descent.

A stage minimizes the dual plus a proximal term around the current weights c,

    1/2 |X'Y a|^2 - t'a + sum (a_i - c_i)^2 / (2 s_i)   over 0 <= a <= C (and y'a = 0),

through its own dual, which is smooth and has d + 1 variables: with z_i = t_i - y_i (x_i'w + b),

    minimize 1/2 |w|^2 + sum h_i(z_i),   h_i' = a_i = clip(c_i + s_i z_i, 0, C_i).

Newton's method on it, with an exact line search, has the matrix I + sum over F of s_i x_i x_i', F the
points with 0 < a_i < C_i: for large s approximately the unbounded support vectors. The larger s, the
faster the stages converge. Where F and d are large and X is CSR, the equations are solved by
conjugate gradients.

Source: Rockafellar, "Monotone operators and the proximal point algorithm", 1976; Li, Sun and Toh, "A
highly efficient semismooth Newton augmented Lagrangian method", 2018, for the use of sparsity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from qpsvm.numerics.csr_rows import (
    Rows,
    add,
    add_outer_products,
    add_products,
    combination,
    gather,
    in_order,
    moments,
)
from qpsvm.numerics.jit import reassociating
from qpsvm.solvers.coordinate_descent.state import (
    FIRST_PROXIMAL_FACTOR,
    MAX_PROXIMAL_FACTOR,
    PROXIMAL_GROWTH,
    Stage,
    State,
)

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

STAGE_GRADIENT_FRACTION = 0.1
"""Norm of the gradient at which a stage ends, relative to the proximal step."""

BLAS_OPERATIONS_PER_ENTRY = 20.0
"""Number of multiplications of a matrix product in the time in which a sweep reads one entry."""

MAX_FREE_PER_FEATURE = 4
"""Maximum number of points between the bounds, per feature, after the first Newton steps."""

MAX_ORDER_FOR_ONE_THREAD = 600
"""Order of a matrix up to which a second thread does not pay in its factorization."""

CG_COST_FRACTION = 0.25
"""Maximum cost of conjugate gradients, as a fraction of the cost of factors."""

MIN_CG_PRODUCTS = 30
"""Minimum number of products with the matrix that this cost must allow."""

CG_RESIDUAL_FRACTION = 0.1
"""Residual, relative to the first, at which conjugate gradients end."""

MAX_NEWTON_STEPS = 30
"""Maximum number of Newton steps between two checks; a stage that needs more continues with smaller s."""


def cost(state: State) -> float:
    """Return the cost of a Newton step at the current weights, in entries read by a sweep."""
    free = int(np.count_nonzero((state.a > 0) & (state.a < state.upper)))
    return _cost(state, min(free, MAX_FREE_PER_FEATURE * state.d))


def _cost(state: State, free: int) -> float:
    """Return the cost of a matrix of `free` points between the bounds, and of its factors."""
    d, width = state.d, state.rows.entries / state.n_points
    if free < d:
        return free * d + free * free * (d + free / 3.0) / BLAS_OPERATIONS_PER_ENTRY
    if len(state.rows.columns):
        return free * width * width / 2.0 + d**3 / 3.0 / BLAS_OPERATIONS_PER_ENTRY
    return free * d + (free * d * d / 2.0 + d**3 / 3.0) / BLAS_OPERATIONS_PER_ENTRY


@np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging w
def advance(state: State, stage: Stage) -> bool:
    """Make at most `MAX_NEWTON_STEPS` steps of a stage; return whether a changed."""
    rows, row, y, upper, a, w = state.rows, state.row, state.y, state.upper, state.a, stage.w
    before = a.copy()
    if not stage.unfinished:
        stage.center[:] = a
    s = stage.factor / state.unit * upper
    z, u = state.target - state.times(w) - stage.b * y, np.zeros(len(y))
    state.sum_points(a, state.w)
    g = w - state.w  # gradient in w: w - X'Y a
    moved = _move(rows, row, y, upper, stage.center, s, u, 0.0, z, a, g)
    stage.unfinished = True
    for _ in range(MAX_NEWTON_STEPS):
        free = np.flatnonzero((a > 0) & (a < upper))
        slope = -float(y @ a) if state.bias else 0.0  # gradient in b
        square = float(g @ g) + slope * slope / _curvature(s, s[free])
        if square <= STAGE_GRADIENT_FRACTION**2 * moved:
            stage.unfinished = False
            break
        dw, db = _direction(state, s, free, g, slope)
        u = state.times(dw)
        if state.bias:
            u += db * y
        descent = float(g @ dw) + slope * db
        if not descent < 0.0:
            stage.unfinished = False
            break
        t = _line(stage.center, s, upper, z, u, float(w @ dw), float(dw @ dw), descent)
        w += t * dw
        g += t * dw
        stage.b += t * db
        moved = _move(rows, row, y, upper, stage.center, s, u, t, z, a, g)
        state.n_newton += 1
    if stage.unfinished:  # Newton's method is slow here: the same center with a smaller s
        stage.factor = max(FIRST_PROXIMAL_FACTOR, stage.factor / PROXIMAL_GROWTH)
    else:
        stage.factor = min(stage.factor * PROXIMAL_GROWTH, MAX_PROXIMAL_FACTOR)
    np.subtract(w, g, out=state.w)
    state.report()
    return bool(np.any(a != before))


def _curvature(s: Vector, s_free: Vector) -> float:
    """Return the second derivative in b, a little more than the sum of s over the free coordinates."""
    return float(np.sum(s_free)) + 1e-3 * float(np.mean(s))


def _direction(
    state: State, s: Vector, free: NDArray[np.int64], g: Vector, slope: float
) -> tuple[Vector, float]:
    """Solve (I + X_F'S X_F) dw + X_F's db = -g,  s'X_F dw + (sum s_F + tiny) db = -slope.

    The coordinates `free` are replaced by their points, with the sums of their weights s.
    """
    rows, d = state.rows, state.d
    free, s_free = state.merged(free, s[free])
    total = _curvature(s, s_free)
    solution = _by_conjugate_gradients(state, s_free, free, g, slope, total)
    if solution is not None:
        return solution
    right = -g

    def chunks() -> Iterator[Matrix]:
        size = max(256, (1 << 19) // d)
        for start in range(0, len(free), size):
            chunk = slice(start, start + size)
            A = np.empty((len(free[chunk]), d))
            gather(rows, free[chunk], np.sqrt(s_free[chunk]), A)
            yield A

    if len(free) < d:
        A = np.empty((len(free), d))
        gather(rows, free, np.sqrt(s_free), A)
        root = np.sqrt(s_free)
        K = A @ A.T
        K[np.diag_indices_from(K)] += 1.0
        factor = _factored(K, lambda: iter([A.T]))

        def solve(v: Vector) -> Vector:
            inner = scipy.linalg.cho_solve(factor, A @ v, check_finite=False)
            return np.asarray(v - A.T @ inner)

        moment = A.T @ root if state.bias else None
    else:
        weights = np.zeros(state.n_points)
        weights[free] = s_free
        if len(rows.columns):
            M = np.zeros((d, d))
            add_outer_products(rows, free, weights, M)
            M = M.T
        else:
            M = np.zeros((d, d), order="F")
            for A in chunks():
                M = dsyrk(1.0, A.T, beta=1.0, c=M, lower=1, overwrite_c=1)
        M[np.diag_indices_from(M)] += 1.0
        factor = _factored(M, chunks)

        def solve(v: Vector) -> Vector:
            return np.asarray(scipy.linalg.cho_solve(factor, v, check_finite=False))

        if state.bias:
            moment = np.empty(d)
            combination(rows, np.ones(len(weights)), weights, moment)
    dw = solve(right)
    if not state.bias:
        return dw, 0.0
    assert moment is not None
    p = solve(moment)
    db = (-slope - float(moment @ dw)) / max(total - float(moment @ p), 1e-12 * total)
    return dw - db * p, db


def _factored(M: Matrix, chunks: Callable[[], Iterator[Matrix]]) -> tuple[Matrix, bool]:
    """Return a Cholesky factor of M = I + sum A'A over the chunks A, for `cho_solve`; M is overwritten.

    Far from the origin the entries of A'A are so large that M is not positive definite as rounded. The
    triangle of a QR factorization of I stacked on the chunks is the same factor, without squares.
    """
    try:
        return scipy.linalg.cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        R: Matrix = np.eye(len(M))
        for A in chunks():
            stack = np.vstack([R, A])
            R = scipy.linalg.qr(stack, overwrite_a=True, mode="r", check_finite=False)[0][: len(M)]
        return R, False


def _by_conjugate_gradients(
    state: State, s_free: Vector, free: NDArray[np.int64], g: Vector, slope: float, total: float
) -> tuple[Vector, float] | None:
    """Solve the same by conjugate gradients; None for dense rows, or where factors are cheaper.

    A product with the matrix reads each row in F once; the number of products is limited by a fraction
    of the cost of the factors. db is eliminated.
    """
    rows, d = state.rows, state.d
    if len(rows.columns) == 0:
        return None
    entries = 2.0 * len(free) * rows.entries / state.n_points + 4.0 * d
    max_products = int(CG_COST_FRACTION * _cost(state, len(free)) / entries)
    if max_products < MIN_CG_PRODUCTS:
        return None
    diagonal, moment = np.ones(d), np.zeros(d)
    moments(rows, free, s_free, moment, diagonal)
    if not state.bias:
        moment[:] = 0.0
    diagonal -= moment * moment / total
    right = moment * (slope / total) - g
    dw, converged = conjugate(
        rows, s_free, free, diagonal, right, max_products, CG_RESIDUAL_FRACTION, moment, total
    )
    if not converged:
        return None
    return dw, (-slope - float(moment @ dw)) / total if state.bias else 0.0


def conjugate(
    rows: Rows,
    s_free: Vector,
    free: NDArray[np.int64],
    diagonal: Vector,
    right: Vector,
    max_products: int,
    fraction: float,
    moment: Vector | None = None,
    total: float = np.inf,
) -> tuple[Vector, bool]:
    """Solve (I + X_F'S X_F - m m' / total) v = right by conjugate gradients, with the CSR rows F.

    S = diag(`s_free`), m = `moment`; `diagonal` is the preconditioner. Returns v, and whether the
    residual fell to this fraction of the first within `max_products` products.
    """
    r = right.copy()
    v, p, q = np.zeros(len(r)), np.zeros(len(r)), np.empty(len(r))
    goal, z_r_before = fraction * float(np.linalg.norm(r)), np.inf
    for _ in range(max_products):
        if float(np.linalg.norm(r)) <= goal:
            return v, True
        z = r / diagonal
        z_r = float(r @ z)
        p = z + (z_r / z_r_before) * p
        z_r_before = z_r
        q[:] = p
        add_products(rows, free, s_free, p, q)
        if moment is not None:
            q -= moment * (float(moment @ p) / total)
        t = z_r / float(p @ q)
        v += t * p
        r -= t * q
    return v, False


@in_order
def _move(
    rows: Rows,
    row: Any,
    y: Any,
    upper: Any,
    center: Any,
    s: Any,
    u: Any,
    t: float,
    z: Any,
    a: Any,
    g: Any,
) -> float:
    """Replace z by z - t u, update a and g = w - X'Y a; return sum (a - c)^2 / s."""
    data, columns, ends = rows
    total = 0.0
    for i in range(len(a)):
        z[i] -= t * u[i]
        new = min(max(center[i] + s[i] * z[i], 0.0), upper[i])
        if new != a[i]:
            r = row[i]
            add(data, columns, ends[r], ends[r + 1], (a[i] - new) * y[i], g)
            a[i] = new
        total += (new - center[i]) * (new - center[i]) / s[i]
    return total


@reassociating
def _line(
    center: Any, s: Any, upper: Any, z: Any, u: Any, wd: float, dd: float, first: float
) -> float:
    """Return a step at which the absolute slope is at most a tenth of the `first` one.

    Between 0 and a step that is too long most points stay at one bound: once such a step is known, the
    other points are listed, and only these are evaluated.
    """
    t, low, high = 1.0, 0.0, np.inf
    listed, n_listed, fixed = np.empty(0, np.int64), -1, 0.0
    for _ in range(40):
        slope, bend = wd + t * dd - fixed, dd
        for k in range(len(z) if n_listed < 0 else n_listed):
            i = k if n_listed < 0 else listed[k]
            v = center[i] + s[i] * (z[i] - t * u[i])
            inside = (v > 0.0) & (v < upper[i])
            slope -= min(max(v, 0.0), upper[i]) * u[i]
            bend += s[i] * u[i] * u[i] if inside else 0.0
        if abs(slope) <= 0.1 * abs(first):
            break
        if slope > 0.0:
            high = t
            if n_listed < 0:
                listed = np.empty(len(z), np.int64)
                n_listed, fixed = _moving(center, s, upper, z, u, low, high, listed)
        else:
            low = t
        t = t - slope / bend
        if not low < t < high:
            t = 0.5 * (low + high) if high < np.inf else 2.0 * low
    return t


@reassociating
def _moving(
    center: Any, s: Any, upper: Any, z: Any, u: Any, low: float, high: float, listed: Any
) -> Any:
    """List the points that are not at one bound from `low` to `high`; return their number.

    Also returns the sum of a_i u_i over the others, all of which are at a bound.
    """
    n, fixed = 0, 0.0
    for i in range(len(z)):
        v, last = center[i] + s[i] * (z[i] - low * u[i]), center[i] + s[i] * (z[i] - high * u[i])
        if max(v, last) > 0.0 and min(v, last) < upper[i]:
            listed[n] = i
            n += 1
        elif max(v, last) > 0.0:
            fixed += upper[i] * u[i]
    return n, fixed
