"""Bounds of the formulations at a stored answer, by the formulas of the textbooks, in plain numpy.

This file is a part of the verification and imports nothing of the library beside its other parts: see
`qpsvm.files.verification`. A dual answer x bounds the optimal value from above by its value, and from
below by that of the primal at its own w with the best offset; a primal answer (w, b) the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.files.kernel_values import FLOAT64_EPS, KernelMatrix, Sums, exact_sum, lengths
from qpsvm.files.minima import (
    capped_minimum,
    filled,
    hinge_bias,
    ridged_minimum,
    tube_bias,
    vertex,
    violation,
)

Vector = NDArray[np.float64]


class Evaluated(NamedTuple):
    """What an evaluation proves of the value that is minimized."""

    upper: float
    lower: float
    upper_error: float
    """Bound on the rounding of `upper`."""
    lower_error: float
    """Bound on the rounding of `lower`."""
    violation: float
    """Largest amount by which the answer breaks a constraint."""
    scale: float
    """Sum of the weights, to which a violation is compared; at least 1."""


class Quadratic(NamedTuple):
    """The products of an answer."""

    g: Vector
    e: Vector
    """Bounds on the rounding of g."""
    value: float
    """c'g."""
    error: float


def quadratic(K: KernelMatrix, coef: Vector) -> Quadratic:
    """Return g = K coef, coef'g and bounds on their rounding."""
    g, e = K.times(coef)
    error = float(e @ np.abs(coef)) + 2.0 * FLOAT64_EPS * float(np.abs(g) @ np.abs(coef))
    return Quadratic(g, e, exact_sum(coef * g), error)


def rounding(*terms: Any) -> float:
    """Return a bound on the rounding of sums of these terms, which are exact up to four roundings each."""
    return 4.0 * FLOAT64_EPS * sum(float(np.sum(np.abs(t))) for t in terms)


def hinge_dual(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate the dual of the hinge machine: see `HingeDual`."""
    y, C, bias = data["y"], data["C"], data["bias"]
    rows = np.flatnonzero(C > 0)
    q = quadratic(K.centered() if bias else K, y * x)
    y, C, a, g, e = y[rows], C[rows], x[rows], q.g[rows], q.e[rows]
    upper = 0.5 * q.value - exact_sum(x)
    broken = max(float(np.max(-a)), float(np.max(a - C)), float(np.max(np.abs(x[data["C"] <= 0]), initial=0.0)))
    broken = max(broken, abs(exact_sum(a * y)) if bias else 0.0, 0.0)
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
    """Return -1/2 |w|^2 of w scaled to margins of 1, and a bound on its rounding; -inf where it has none."""
    if bias and np.all(y == y[0]):
        return 0.0, 0.0  # w = 0 and a bias separate one class
    margin = 0.5 * (np.min(g[y > 0]) - np.max(g[y < 0])) if bias else np.min(y * g)
    least = float(margin) - float(np.max(e))
    if least <= 0.0:
        return -np.inf, 0.0
    worst = -0.5 * (q.value + q.error) / least**2
    return worst, rounding(worst)


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
    slope, levels, error, broken = y * q.g, [], 0.0, 0.0
    for k in range(int(group.max()) + 1):
        at = np.flatnonzero((group == k) & (upper > 0))
        top = np.minimum(upper[at], 1.0)
        if ridge:
            levels.append(ridged_minimum(slope[at], np.full(len(at), ridge)))
            error += float(np.max(q.e[at]))
        else:
            levels.append(capped_minimum(slope[at], top, 1.0))
            error += float(q.e[at] @ filled(-q.e[at], top, 1.0))
        error += rounding(np.max(np.abs(slope[at])))
        broken = max(broken, simplex_violation(x[group == k], upper[group == k]))
    level, own = exact_sum(levels), q.value
    value = 0.5 * own + (0.5 * ridge * exact_sum(x * x) if ridge else 0.0)
    lower, total = max(0.0, level - 0.5 * own), 0.5 * q.error + rounding(value) + error
    if not ridge and level > 0.0 and own > 0.0:
        lower = max(lower, 0.5 * level**2 / own)
        total = max(total, 2.0 * (error * level / own) + 0.5 * q.error * (level / own) ** 2 + rounding(lower))
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


def margin_primal(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate a machine in w and b and its dual weights: `HingePrimal`, `LSSVMPrimal`, `LPSVMPrimal`."""
    y, C, bias, a = data["y"], data["C"], data["bias"], data["dual"]
    w, b = (x[:-1], float(x[-1])) if bias else (x, 0.0)
    f, penalty, penalty_error = primal_values(K, w, b, data)
    q = quadratic(K.centered() if bias else K, y * a)
    rows = np.flatnonzero(C > 0)
    slack = (1.0 - y * f.values)[rows]
    e = f.errors[rows] + 2.0 * FLOAT64_EPS * (np.abs(f.values[rows]) + 1.0)
    squared, one_norm = data["loss"] == "squared", data["penalty"] == "l1"
    C, part = C[rows], a[rows]
    if squared:
        loss, slope = C * slack**2, 2.0 * C * np.abs(slack) + C * e
        dual = exact_sum(a) - 0.5 * q.value - exact_sum(part**2 / (4.0 * C))
    elif np.isinf(C).any():
        least = float(1.0 - np.max(slack + e))
        loss, slope = np.zeros(len(C)), np.zeros(len(C))
        penalty = penalty / min(least, 1.0) ** 2 if least > 0 else np.inf
        dual = exact_sum(a) - 0.5 * q.value
    else:
        loss, slope = C * np.maximum(0.0, slack), np.where(slack > -e, C, 0.0)
        dual = exact_sum(a) - 0.5 * q.value
    dual_error = 0.5 * q.error + rounding(a, q.value, 0.0 if not squared else part**2 / C)
    if one_norm:
        size, size_error = dual_norm(K, y * a, data)
        dual = exact_sum(a) / max(1.0, size)
        dual_error = rounding(a) + abs(dual) * size_error
    upper = penalty + exact_sum(loss)
    upper_error = penalty_error + float(slope @ e) + rounding(loss, penalty)
    broken = max(0.0, abs(exact_sum(y * a))) if bias else 0.0
    if not squared:
        broken = max(broken, float(np.max(-part)), float(np.max(part - C)))
    # an excess of y'a is moved to points of the larger class: it changes the dual by its size times f
    dual_error += broken * float(np.max(np.abs(q.g) + q.e) + 1.0)
    return Evaluated(upper, dual, upper_error, dual_error, broken, max(1.0, float(np.sum(np.abs(a)))))


def primal_values(
    K: KernelMatrix, w: Vector, b: float, data: dict[str, Any]
) -> tuple[Sums, float, float]:
    """Return f(x_i), the penalty of w and a bound on its rounding; w are features or coefficients."""
    one_norm = data["penalty"] == "l1"
    if data["by_coefficients"]:
        q = quadratic(K, w)
        f = Sums(q.g + b, q.e + FLOAT64_EPS * (np.abs(q.g) + abs(b)))
        penalty = exact_sum(np.abs(w)) if one_norm else 0.5 * q.value
        return f, penalty, rounding(penalty) + (0.0 if one_norm else 0.5 * q.error)
    X = K.X
    penalty = exact_sum(np.abs(w)) if one_norm else 0.5 * exact_sum(w * w)
    own = 0.0 if K.X_errors is None else K.X_errors
    size = float(np.linalg.norm(w))
    if sp.issparse(X):
        values, reach, level = np.asarray(X @ w).ravel(), lengths(X), b
    else:
        origin = X.mean(axis=0)
        moved = X - origin
        level = exact_sum(np.concatenate([w * origin, [b]]))
        values, reach = moved @ w, lengths(moved)
        own = own + FLOAT64_EPS * float(np.linalg.norm(origin)) * (4 if level != b else 0)
    errors = (FLOAT64_EPS * (X.shape[1] + 4) * reach + own) * size + FLOAT64_EPS * abs(level)
    return Sums(values + level, errors), penalty, rounding(penalty)


def dual_norm(K: KernelMatrix, coef: Vector, data: dict[str, Any]) -> tuple[float, float]:
    """Return the largest entry of X'coef, or of K coef, in size, and a bound on its rounding."""
    if data["by_coefficients"]:
        rows = np.flatnonzero(data["C"] > 0)
        g, e = K.times(coef)
        return float(np.max(np.abs(g[rows]))), float(np.max(e[rows]))
    v = np.asarray(K.X.T @ coef).ravel()
    reach = np.asarray(abs(K.X).T @ np.abs(coef)).ravel()
    return float(np.max(np.abs(v))), FLOAT64_EPS * (len(coef) + 4) * float(np.max(reach))


def quadratic_program(K: KernelMatrix, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate 1/2 x'Qx + c'x over a domain: see `QuadraticProgram`."""
    q, c, domain = quadratic(K, x), data["c"], data["domain"]
    slope = q.g + c
    corner = vertex(slope, domain)
    upper = 0.5 * q.value + exact_sum(c * x)
    lower = exact_sum(slope * corner) - 0.5 * q.value
    top = 0.5 * q.error + rounding(c * x, q.value)
    e = q.e + 4.0 * FLOAT64_EPS * (np.abs(q.g) + np.abs(c))
    error = 0.5 * q.error + spread(e, domain) + rounding(slope * corner, q.value)
    scale = max(1.0, float(np.sum(np.abs(x))))
    return Evaluated(upper, lower, top, error, violation(x, domain), scale)


def spread(e: Vector, domain: dict[str, Any]) -> float:
    """Return the most that errors e of a slope change its least value over a domain."""
    signs = (1.0, -1.0)
    return max(float(e @ np.abs(vertex(sign * e, domain))) for sign in signs)


def least_squares(A: Any, x: Vector, data: dict[str, Any]) -> Evaluated:
    """Evaluate 1/2 |A x - b|^2 over a domain: see `LeastSquares`."""
    b, domain = data["b"], data["domain"]
    residual = np.asarray(A @ x).ravel() - b
    size = np.asarray(abs(A) @ np.abs(x)).ravel() + np.abs(b)
    e = FLOAT64_EPS * (A.shape[1] + 4) * size
    slope = np.asarray(A.T @ residual).ravel()
    reach = np.asarray(abs(A).T @ np.abs(residual)).ravel()
    slope_error = FLOAT64_EPS * (A.shape[0] + 4) * reach + np.asarray(abs(A).T @ e).ravel()
    upper = 0.5 * exact_sum(residual**2)
    corner = vertex(slope, domain)
    gap = exact_sum(slope * (x - corner))
    top = float(np.abs(residual) @ e) + 0.5 * float(e @ e) + rounding(upper)
    error = top + spread(slope_error, domain) + float(slope_error @ np.abs(x))
    error += rounding(slope * x, slope * corner)
    scale = max(1.0, float(np.sum(np.abs(x))))
    return Evaluated(upper, max(0.0, upper - gap), top, error, violation(x, domain), scale)


EVALUATION_OF: dict[str, Callable[[KernelMatrix, Vector, dict[str, Any]], Evaluated]] = {
    "HingeDual": hinge_dual,
    "L2SVMDual": l2_svm_dual,
    "MEBDual": ball_dual,
    "SVDDDual": ball_dual,
    "OneClassDual": one_class_dual,
    "NuSVCDual": nu_svc_dual,
    "PolytopeDistanceDual": polytope_distance_dual,
    "SVRDual": svr_dual,
    "NuSVRDual": nu_svr_dual,
    "HingePrimal": margin_primal,
    "LSSVMPrimal": margin_primal,
    "LPSVMPrimal": margin_primal,
    "QuadraticProgram": quadratic_program,
}
"""The evaluation of each formulation on a kernel matrix; least squares have a matrix of their own."""
