"""Bounds of the problems in w and b and of general quadratics, and the evaluation of each formulation.

This file is a part of the verification and imports nothing of the library beside its other parts: see
`qpsvm.files.verification`. A point (w, b) bounds the optimal value from above by its value, and
its dual weights from below by theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.files import dual_bounds as duals
from qpsvm.files.evaluation import Evaluated, quadratic, rounding
from qpsvm.files.kernel_values import FLOAT64_EPS, KernelMatrix, Sums, exact_sum, lengths
from qpsvm.files.minima import vertex, violation

Vector = NDArray[np.float64]


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
        penalty, penalty_error = stretched(penalty, penalty_error, 1.0 - slack, e)
        loss, slope = np.zeros(len(C)), np.zeros(len(C))
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
    return Evaluated(
        upper, dual, upper_error, dual_error, broken, max(1.0, float(np.sum(np.abs(a))))
    )


def stretched(penalty: float, error: float, margins: Vector, e: Vector) -> tuple[float, float]:
    """Return the penalty of w scaled to margins of at least 1, and a bound on its rounding."""
    least = min(float(np.min(margins)), 1.0)
    worst = min(float(np.min(margins - e)), 1.0)
    if worst <= 0.0:
        return np.inf, 0.0
    price = penalty / least**2
    return price, (penalty + error) / worst**2 - price


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
    error = 0.5 * q.error + error_over_domain(e, domain) + rounding(slope * corner, q.value)
    scale = max(1.0, float(np.sum(np.abs(x))))
    return Evaluated(upper, lower, top, error, violation(x, domain), scale)


def error_over_domain(e: Vector, domain: dict[str, Any]) -> float:
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
    error = top + error_over_domain(slope_error, domain) + float(slope_error @ np.abs(x))
    error += rounding(slope * x, slope * corner)
    scale = max(1.0, float(np.sum(np.abs(x))))
    return Evaluated(upper, max(0.0, upper - gap), top, error, violation(x, domain), scale)


EVALUATION_OF: dict[str, Callable[[KernelMatrix, Vector, dict[str, Any]], Evaluated]] = {
    "HingeDual": duals.hinge_dual,
    "L2SVMDual": duals.l2_svm_dual,
    "MEBDual": duals.ball_dual,
    "SVDDDual": duals.ball_dual,
    "OneClassDual": duals.one_class_dual,
    "NuSVCDual": duals.nu_svc_dual,
    "PolytopeDistanceDual": duals.polytope_distance_dual,
    "SVRDual": duals.svr_dual,
    "L2SVRDual": duals.l2_svr_dual,
    "NuSVRDual": duals.nu_svr_dual,
    "HingePrimal": margin_primal,
    "LSSVMPrimal": margin_primal,
    "LPSVMPrimal": margin_primal,
    "QuadraticProgram": quadratic_program,
}
"""The evaluation of each formulation on a kernel matrix; least squares have a matrix of their own."""
