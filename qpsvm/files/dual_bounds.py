"""Bounds of the dual formulations at a stored answer, by the formulas of the textbooks.

This file is a part of the verification and imports nothing of the library beside its other parts: see
`qpsvm.files.verification`. The value of x bounds the optimal value from above. From below it
is bounded by the primal at the w of x, with the best offset and the best slacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.files.evaluation import Evaluated, Quadratic, quadratic, rounding
from qpsvm.files.kernel_values import FLOAT64_EPS, KernelMatrix, exact_sum
from qpsvm.files.minima import (
    capped_minimum,
    filled,
    hinge_bias,
    ridged_minimum,
    tube_bias,
)

Vector = NDArray[np.float64]


def hinge_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the dual of the hinge machine: see `HingeDual`."""
    y, C, bias = data["y"], data["C"], data["bias"]
    rows = np.flatnonzero(C > 0)
    q = quadratic(K.centered() if bias else K, y * x)
    y, C, a, g, e = y[rows], C[rows], x[rows], q.g[rows], q.e[rows]
    upper = 0.5 * q.value - exact_sum(x)
    broken = max(0.0, float(np.max(-x)), float(np.max(x - data["C"])))
    broken = max(broken, abs(exact_sum(a * y)) if bias else 0.0)
    candidates = [hinge_price(q, y, C, g, e, bias), separating_price(q, y, g, e, bias)]
    lower, error = max(candidates, key=lambda pair: pair[0] - pair[1])
    top = 0.5 * q.error + rounding(x) + rounding(0.5 * q.value)
    return Evaluated(upper, lower, top, error, broken, max(1.0, float(np.sum(np.abs(x)))))


def hinge_price(
    q: Quadratic, y: Vector, C: Vector, g: Vector, e: Vector, bias: bool
) -> tuple[float, float]:
    """Return -(1/2 |w|^2 + the loss at the best bias), and a bound on its rounding; for finite C."""
    if np.isinf(C).any():
        return -np.inf, 0.0
    b = hinge_bias(g, y, C) if bias else 0.0
    loss = np.maximum(0.0, 1.0 - y * (g + b))
    e = e + 2.0 * FLOAT64_EPS * (np.abs(g) + abs(b) + 1.0)
    near = 1.0 - y * (g + b) > -e
    error = 0.5 * q.error + float(C[near] @ e[near]) + rounding(C * loss, 0.5 * q.value)
    return -(0.5 * q.value + exact_sum(C * loss)), error


def separating_price(
    q: Quadratic, y: Vector, g: Vector, e: Vector, bias: bool
) -> tuple[float, float]:
    """Return -1/2 |w|^2 of w with margins of 1, and a bound on its rounding; -inf where there is none."""
    if bias and np.all(y == y[0]):
        return 0.0, 0.0  # w = 0 and a bias separate one class
    margin = 0.5 * (np.min(g[y > 0]) - np.max(g[y < 0])) if bias else np.min(y * g)
    least = float(margin) - float(np.max(e))
    if least <= 0.0:
        return -np.inf, 0.0
    price, worst = 0.5 * q.value / float(margin) ** 2, 0.5 * (q.value + q.error) / least**2
    return -price, worst - price + rounding(worst)


def l2_svm_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the dual of the machine with squared slacks: see `L2SVMDual`."""
    y, C, bias = data["y"], data["C"], data["bias"]
    rows = np.flatnonzero(C > 0)
    q = quadratic(K, y * x)
    b = exact_sum(y * x) if bias else 0.0
    slope = (y * (q.g + b))[rows]
    e = q.e[rows] + 4.0 * FLOAT64_EPS * (np.abs(q.g[rows]) + float(np.sum(np.abs(x))))
    ridge = 1.0 / C[rows]
    own = q.value + b * b
    extra = q.error + rounding(own, b * float(np.sum(np.abs(x))))
    upper = 0.5 * own + 0.5 * exact_sum(ridge * x[rows] ** 2)
    lower = max(ridged_minimum(slope, ridge) - 0.5 * own, 0.0)
    if np.min(ridge) > 0:
        lower = max(lower, 0.5 / float(np.sum(C)))
    least = float(np.min(slope)) - float(np.max(e))
    if least > 0.0 and np.max(ridge) == 0.0:
        lower = max(lower, 0.5 * least**2 / (own + extra))
    error = 0.5 * extra + float(np.max(e)) + rounding(upper, np.max(np.abs(slope)))
    broken = max(0.0, float(np.max(-x)), abs(exact_sum(x) - 1.0))
    return Evaluated(upper, lower, 0.5 * extra + rounding(upper), error, broken, 1.0)


def ball_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the dual of the ball, with slack where C is given: see `MEBDual` and `SVDDDual`."""
    K = K.centered()
    C = data.get("C", np.ones(len(x)))
    rows = np.flatnonzero(C > 0)
    q, (diag, diag_error) = quadratic(K, x), K.diagonal()
    squares = diag - 2.0 * q.g + q.value  # squared distances from the center
    e = diag_error + 2.0 * q.e + q.error + 4.0 * FLOAT64_EPS * (diag + 2.0 * np.abs(q.g) + q.value)
    upper = q.value - exact_sum(diag * x)
    top = np.minimum(C[rows], 1.0)
    lower = capped_minimum(-squares[rows], top, 1.0)
    error = float(e[rows] @ filled(-e[rows], top, 1.0)) + rounding(np.max(np.abs(squares)))
    upper_error = q.error + float(diag_error @ np.abs(x)) + rounding(q.value, diag * x)
    return Evaluated(upper, lower, upper_error, error, simplex_violation(x, C), 1.0)


def simplex_violation(x: Vector, upper: Vector, total: float = 1.0) -> float:
    """Return the largest violation of 0 <= x <= upper and of the sum."""
    return max(0.0, float(np.max(-x)), float(np.max(x - upper)), abs(exact_sum(x) - total))


def one_class_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the dual of the one-class machine: see `OneClassDual`."""
    w = data.get("sample_weight")
    w = np.ones(len(x)) if w is None else w / np.max(w)
    upper = w / (data["nu"] * np.sum(w))
    return distance(K, x, np.ones(len(x)), upper, np.zeros(len(x), np.int64), None)


def nu_svc_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the distance of two reduced hulls: see `NuSVCDual`."""
    y, w = data["y"], data.get("sample_weight")
    w = np.ones(len(x)) if w is None else w / np.max(w)
    upper = 2.0 * w / (data["nu"] * np.sum(w))
    return distance(K.centered(), x, y, upper, (y < 0).astype(np.int64), None)


def polytope_distance_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the distance of two hulls: see `PolytopeDistanceDual`."""
    y, chi = data["y"], data.get("chi")
    ridge = 0.0 if chi is None else 1.0 / chi
    return distance(K.centered(), x, y, np.ones(len(x)), (y < 0).astype(np.int64), ridge)


def distance(
    K: KernelMatrix, x: Vector, y: Vector, upper: Vector, group: Any, ridge: float | None
) -> Evaluated:
    """Evaluate 1/2 |sum x_i y_i phi(x_i)|^2 over one or two simplices with upper bounds, or with a ridge.

    With levels that sum to s, every multiple t of w bounds the value by t s - 1/2 t^2 |w|^2.
    """
    q = quadratic(K, y * x)
    slope, levels, error, broken, known = y * q.g, [], 0.0, 0.0, 0.0
    for k in range(int(group.max()) + 1):
        at = np.flatnonzero((group == k) & (upper > 0))
        top = np.minimum(upper[at], 1.0)
        if ridge:
            levels.append(ridged_minimum(slope[at], np.full(len(at), ridge)))
            error += float(np.max(q.e[at]))
            known += 0.5 * ridge / len(at)  # the least sum of squares of weights that sum to 1
        else:
            levels.append(capped_minimum(slope[at], top, 1.0))
            error += float(q.e[at] @ filled(-q.e[at], top, 1.0))
        error += rounding(np.max(np.abs(slope[at])))
        broken = max(broken, simplex_violation(x[group == k], upper[group == k]))
    level, own = exact_sum(levels), q.value
    value = 0.5 * own + (0.5 * ridge * exact_sum(x * x) if ridge else 0.0)
    lower, total = max(known, level - 0.5 * own), 0.5 * q.error + rounding(value) + error
    if not ridge and level > 0.0 and own > 0.0:
        lower = max(lower, 0.5 * level**2 / own)
        share = level / own
        total = max(total, 2.0 * error * share + 0.5 * q.error * share**2 + rounding(lower))
    return Evaluated(value, lower, 0.5 * q.error + rounding(value), total, broken, 1.0)


def svr_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the dual of the regression with a tube: see `SVRDual`."""
    y, C, epsilon, bias = data["y"], data["C"], data["epsilon"], data["bias"]
    both = x.reshape(2, -1)
    rows = np.flatnonzero(C > 0)
    coef = both[0] - both[1]
    q = quadratic(K.centered() if bias else K, coef)
    middle = 0.5 * float(np.min(y[rows])) + 0.5 * float(np.max(y[rows])) if bias else 0.0
    y = y - middle  # the bias absorbs it, and so does the sum of 0
    upper = 0.5 * q.value + epsilon * exact_sum(x) - exact_sum(y * coef)
    residual = (y - q.g)[rows]
    b = tube_bias(residual, C[rows], epsilon) if bias else 0.0
    e = q.e[rows] + 4.0 * FLOAT64_EPS * (np.abs(q.g[rows]) + np.abs(y[rows]) + abs(b) + abs(middle))
    excess = np.abs(residual - b) - epsilon
    loss = C[rows] * np.maximum(0.0, excess)
    lower = -(0.5 * q.value + exact_sum(loss))
    error = 0.5 * q.error + float(C[rows] @ np.where(excess > -e, e, 0.0)) + rounding(loss, lower)
    top = 0.5 * q.error + rounding(epsilon * x, y * coef, middle * coef, q.value)
    broken = max(float(np.max(-x)), float(np.max(both - C)), abs(exact_sum(coef)) if bias else 0.0)
    return Evaluated(upper, lower, top, error, max(0.0, broken), max(1.0, float(np.sum(np.abs(x)))))


def l2_svr_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the dual of the regression with a tube and squared errors: see `L2SVRDual`."""
    y, C, epsilon = data["y"], data["C"], data["epsilon"]
    both = x.reshape(2, -1)
    rows = np.flatnonzero(C > 0)
    coef = both[0] - both[1]
    q, size = quadratic(K, coef), float(np.sum(np.abs(x)))
    b = exact_sum(coef) if data["bias"] else 0.0
    own, squares = q.value + b * b, np.sum(both[:, rows] ** 2 / C[rows], axis=0)
    upper = 0.5 * own + 0.5 * exact_sum(squares) + epsilon * exact_sum(x) - exact_sum(y * coef)
    f, C = (q.g + b)[rows], C[rows]
    e = q.e[rows] + 4.0 * FLOAT64_EPS * (np.abs(q.g[rows]) + np.abs(y[rows]) + size + epsilon)
    excess = np.maximum(0.0, np.abs(y[rows] - f) - epsilon)
    loss = C * excess**2
    near = np.where(np.abs(y[rows] - f) - epsilon > -e, excess + e, 0.0)
    lower = -0.5 * (own + exact_sum(loss))
    own_error = q.error + rounding(own, b * size)
    error = 0.5 * own_error + float((C * e) @ near) + rounding(loss, lower)
    top = 0.5 * own_error + rounding(squares, epsilon * x, y * coef, own)
    broken = max(0.0, float(np.max(-x)))
    left_out = np.delete(both, rows, axis=1)
    broken = max(broken, float(np.max(np.abs(left_out), initial=0.0)))
    return Evaluated(upper, lower, top, error, broken, max(1.0, size))


def nu_svr_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the dual of the regression with nu: see `NuSVRDual`."""
    y, C = data["y"], data["C"]
    both, total = x.reshape(2, -1), 0.5 * data["nu"] * exact_sum(C)
    rows = np.flatnonzero(C > 0)
    coef = both[0] - both[1]
    q = quadratic(K.centered(), coef)
    middle = 0.5 * float(np.min(y[rows])) + 0.5 * float(np.max(y[rows]))
    y = y - middle
    upper = 0.5 * q.value - exact_sum(y * coef)
    residual, top = (y - q.g)[rows], C[rows]
    e = q.e[rows] + 4.0 * FLOAT64_EPS * (np.abs(q.g[rows]) + np.abs(y[rows]) + abs(middle))
    minima = [capped_minimum(sign * residual, top, total) for sign in (-1.0, 1.0)]
    lower = minima[0] + minima[1] - 0.5 * q.value
    error = 0.5 * q.error + 2.0 * float(e @ filled(-e, top, total))
    error += rounding(lower, *minima, total * np.max(np.abs(residual)))
    upper_error = 0.5 * q.error + rounding(y * coef, middle * coef, q.value)
    broken = max(simplex_violation(both[0], C, total), simplex_violation(both[1], C, total))
    return Evaluated(upper, lower, upper_error, error, broken, max(1.0, 2.0 * total))
