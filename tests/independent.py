"""The bounds of an answer once more: dense, in float64, sharing no code with qpsvm or reference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from problems import Instance
from problems.data.kernels import dense_gram

EPS = float(np.finfo(float).eps)


class Bounds(NamedTuple):
    """Bounds of the declared minimum at an answer; `error` bounds the rounding of both."""

    upper: float
    lower: float
    error: float
    scale: float  # largest entry of the Hessian's diagonal
    violation: float  # of the constraints, relative to the size of the variable


def check(instance: Instance, result: Any) -> Bounds:
    """Return the bounds that the answer of `result` proves, from the instance's raw data."""
    return FAMILY_CHECKS[instance.family](instance.data(), result)


def gram(data: dict[str, Any], translate: bool) -> np.ndarray:
    """Return K; linear points are centered where the problem does not change when all move."""
    if data["kernel"][0] != "linear":
        return dense_gram(data)
    X = points(data["X"])
    X = X - X.mean(axis=0) if translate else X
    return X @ X.T


def points(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, dtype=float)


def l2_svm(data: dict[str, Any], result: Any) -> Bounds:
    kept = np.broadcast_to(data["C"], data["y"].shape) > 0
    y, C = data["y"][kept], np.broadcast_to(data["C"], kept.shape)[kept]
    G = np.outer(y, y) * (gram(data, translate=False)[np.ix_(kept, kept)] + 1.0)
    assert not result.x[~kept].any()
    return on_simplices(G, 1.0 / C, np.zeros(len(y)), result.x[kept], [np.full(len(y), True)])


def meb(data: dict[str, Any], result: Any) -> Bounds:
    K = gram(data, translate=True)
    everything = [np.full(len(K), True)]
    return on_simplices(2.0 * K, np.zeros(len(K)), -np.diag(K), result.x, everything)


def polytope_distance(data: dict[str, Any], result: Any) -> Bounds:
    y, chi = data["y"], data["chi"]
    ridge = np.full(len(y), 0.0 if chi is None else 1.0 / chi)
    G = np.outer(y, y) * gram(data, translate=True)
    found = on_simplices(G, ridge, np.zeros(len(y)), result.x, [y > 0, y < 0])
    return found._replace(lower=max(found.lower, 0.0))


def one_class(data: dict[str, Any], result: Any) -> Bounds:
    K = gram(data, translate=False)
    w = np.asarray(data.get("sample_weight", np.ones(len(K))))
    found = with_bounds(K, np.zeros(len(K)), w / w.sum() / data["nu"], result.x)
    return found._replace(lower=max(found.lower, 0.0))


def reduced_hulls(data: dict[str, Any], result: Any) -> Bounds:
    """Bound half the squared distance: along w the reduced hulls are `width` / |w| apart."""
    y, x = data["y"], result.x
    K = gram(data, translate=True)
    w = np.asarray(data.get("sample_weight", np.ones(len(y))))
    bounds = 2.0 * w / w.sum() / data["nu"]
    h = y * (K @ (y * x))
    square, width, violation = x @ h, 0.0, max(-x.min(), (x - bounds).max())
    for own in (y > 0, y < 0):
        g, upper = h[own & (bounds > 0)], bounds[own & (bounds > 0)]
        below = np.maximum(g[:, None] - g, 0.0)
        width += (g - (np.where(below > 0, upper, 0.0) * below).sum(axis=1)).max()
        violation = max(violation, abs(x[own].sum() - 1.0))
    scale = float(np.max(np.diag(K)))
    lower = max(width - 0.5 * square, 0.0)  # of the linearization, as solve has it
    return Bounds(0.5 * square, lower, 64 * EPS * scale, scale, violation)


def svdd(data: dict[str, Any], result: Any) -> Bounds:
    K = gram(data, translate=True)
    return with_bounds(2.0 * K, -np.diag(K), np.broadcast_to(data["C"], len(K)), result.x)


def with_bounds(G: Any, c: Any, bounds: Any, x: Any) -> Bounds:
    """Bound min 1/2 x'Gx + c'x, weights on a simplex with upper bounds.

    For any rho, min g'a >= rho - sum bounds max(rho - g, 0); one of the g is the best rho.
    """
    product = G @ x
    quadratic = x @ product
    g, upper = (product + c)[bounds > 0], bounds[bounds > 0]
    below = np.maximum(g[:, None] - g, 0.0)
    least = (g - (np.where(below > 0, upper, 0.0) * below).sum(axis=1)).max()
    scale = float(np.max(np.diag(G)))
    violation = max(-x.min(), (x - bounds).max(), abs(x.sum() - 1.0))
    value = 0.5 * quadratic + c @ x
    return Bounds(value, least - 0.5 * quadratic, 32 * EPS * scale, scale, violation)


def on_simplices(G: Any, d: Any, c: Any, x: Any, groups: list[Any]) -> Bounds:
    """Bound min 1/2 x'(G + D)x + c'x, weights of each group on a simplex.

    By convexity 1/2 a'Ga >= (Gx)'a - 1/2 x'Gx, so the rest is separable in a. With c = 0 the ridge
    alone is another lower bound, since a'Ga >= 0.
    """
    product = G @ x
    quadratic = x @ product
    upper = 0.5 * quadratic + 0.5 * d @ x**2 + c @ x
    lower = sum(least(product[of] + c[of], d[of]) for of in groups) - 0.5 * quadratic
    if not c.any():
        lower = max(lower, sum(least(np.zeros(of.sum()), d[of]) for of in groups))
    scale = float(np.max(np.diag(G) + d))
    sums = [abs(x[of].sum() - 1.0) for of in groups]
    return Bounds(upper, lower, 32 * EPS * scale, scale, max(-x.min(), *sums))


def least(g: np.ndarray, d: np.ndarray) -> float:
    """Return min g'a + 1/2 a'Da over the simplex, from below.

    The Lagrangian gives rho - sum max(rho - g, 0)^2 / (2 d) <= min for any rho, which is concave
    in rho; rho may not exceed g where d = 0.
    """
    hard, soft = g[d == 0], d > 0
    g, d = g[soft], d[soft]
    low, high = min(g.min(initial=np.inf), hard.min(initial=np.inf)), hard.min(initial=np.inf)
    high = min(high, (g + d).min(initial=np.inf))
    for _ in range(100):
        rho = 0.5 * (low + high)
        low, high = (rho, high) if np.sum(np.maximum(rho - g, 0.0) / d) < 1.0 else (low, rho)
    rho = high if np.sum(np.maximum(high - g, 0.0) / d) < 1.0 else low
    return float(rho - np.sum(np.maximum(rho - g, 0.0) ** 2 / (2.0 * d)))


def hinge(data: dict[str, Any], result: Any) -> Bounds:
    """Return the dual's value, and minus the primal's at w of the answer with its best bias.

    Where w separates the classes it may be stretched until no slack is left.
    """
    y = data["y"]
    C = np.broadcast_to(data["C"], y.shape)
    K = gram(data, translate=data["bias"])
    f = K @ (y * result.x)
    quadratic = y * result.x @ f
    kinks, here = (y - f)[C > 0] if data["bias"] else np.zeros(1), C > 0
    short = np.maximum(1.0 - y * (f + kinks[:, None]), 0.0)
    primal = 0.5 * quadratic + (np.where(short > 0, C, 0.0) * short).sum(axis=1).min()
    plus, minus = f[here & (y > 0)], f[here & (y < 0)]
    half_strip = 0.5 * (plus.min(initial=np.inf) - minus.max(initial=-np.inf))
    if not data["bias"]:
        half_strip = min(plus.min(initial=np.inf), -minus.max(initial=-np.inf))
    if 0 < half_strip < np.inf:
        primal = min(primal, 0.5 * quadratic / half_strip**2)
    upper = 0.5 * quadratic - result.x.sum()
    return box_bounds(upper, -primal, K, y * data["bias"], C, result.x)


def hinge_primal(data: dict[str, Any], result: Any) -> Bounds:
    """Return the primal's value at (w, b) of the answer and the dual's at its weights."""
    X, y, a = points(data["X"]), data["y"], result.dual
    C = np.broadcast_to(data["C"], y.shape)
    d = X.shape[1]
    origin = X.mean(axis=0) if data["bias"] else np.zeros(d)
    w, b = result.x[:d], (result.x[d] if data["bias"] else 0.0) + result.x[:d] @ origin
    short = np.maximum(1.0 - y * ((X - origin) @ w + b), 0.0)
    if np.isinf(C).any():
        assert short.max() <= 1e-9, "a hard margin is violated"
        loss = 0.0
    else:
        loss = C @ short
    v = (X - origin).T @ (y * a)
    upper, lower = 0.5 * w @ w + loss, a.sum() - 0.5 * v @ v
    found = box_bounds(upper, lower, X @ X.T, y * data["bias"], C, a)
    lost = 0.0 if np.isinf(C).any() else C.sum() * 8 * EPS * (np.abs(origin) @ np.abs(w) + abs(b))
    return found._replace(error=found.error + lost)


def svr(data: dict[str, Any], result: Any) -> Bounds:
    """Return the dual's value, and minus the primal's at w of the answer with its best bias."""
    y, epsilon = data["y"], data["epsilon"]
    C, K = np.broadcast_to(data["C"], y.shape), gram(data, translate=data["bias"])
    y = y - np.median(y) if data["bias"] else y
    a, b = np.split(result.x, 2)
    f, size = K @ (a - b), result.x.sum()
    half = 0.5 * (a - b) @ f
    kinks = np.append(y - f - epsilon, y - f + epsilon)[np.tile(C > 0, 2)]
    kinks = kinks if data["bias"] else np.zeros(1)
    missed = np.maximum(np.abs(y - f - kinks[:, None]) - epsilon, 0.0)
    primal = half + (missed @ C).min()
    scale = float(np.diag(K).max())
    error = 32 * EPS * (scale * size**2 + (np.abs(y).max() + epsilon) * (size + C.sum()))
    sum_ = abs((a - b).sum()) * data["bias"]
    violation = max(-result.x.min(), (result.x - np.tile(C, 2)).max(), sum_) / max(size, 1e-300)
    return Bounds(half + epsilon * size - y @ (a - b), -primal, error, scale, violation)


def l2_svr(data: dict[str, Any], result: Any) -> Bounds:
    """Return the dual's value, and minus the primal's at w and b of the answer."""
    y, epsilon = data["y"], data["epsilon"]
    C, K = np.broadcast_to(data["C"], y.shape), gram(data, translate=False) + data["bias"]
    here = C > 0
    a, b = np.split(result.x, 2)
    f, size = K @ (a - b), result.x.sum()
    half = 0.5 * (a - b) @ f
    squares = 0.5 * np.sum((a**2 + b**2)[here] / C[here])
    missed = np.maximum(np.abs(y - f) - epsilon, 0.0)
    primal = half + 0.5 * C @ missed**2
    scale = float(np.diag(K).max() + 1.0 / C[here].min())
    error = 32 * EPS * (scale * size**2 + (np.abs(y).max() + epsilon) * size)
    entry = EPS * (np.diag(K).max() * size + np.abs(y) + epsilon)  # of f and of what is missed
    error += 32 * float(C @ (missed * entry + entry**2))
    assert not result.x[~np.tile(here, 2)].any()
    violation = max(-result.x.min(), 0.0) / max(size, 1e-300)
    upper = half + squares + epsilon * size - y @ (a - b)
    return Bounds(upper, -primal, error, scale, violation)


def nu_svr(data: dict[str, Any], result: Any) -> Bounds:
    """Return the dual's value, and minus the primal's at w of the answer with its best tube.

    Its edges are residuals with at most, and at least, half of the share nu of all penalties beyond.
    """
    C, K = np.broadcast_to(data["C"], data["y"].shape), gram(data, translate=True)
    y, total = data["y"] - np.median(data["y"]), 0.5 * data["nu"] * C.sum()
    a, b = np.split(result.x, 2)
    f, size = K @ (a - b), result.x.sum()
    half, order = 0.5 * (a - b) @ f, np.argsort(y - f)
    r, C_sorted = (y - f)[order], C[order]
    edges = []
    for at in (1, -1):  # from below, from above
        first = np.argmax(np.cumsum(C_sorted[::at]) >= total * (1.0 - 1e-12))
        edges.append(r[::at][first])
    low, high = edges
    missed = np.maximum(r - high, 0.0) + np.maximum(low - r, 0.0)
    primal = half + total * (high - low) + missed @ C_sorted
    scale = float(np.diag(K).max())
    error = 32 * EPS * (scale * size**2 + np.abs(y).max() * (size + C.sum()))
    sums = max(abs(a.sum() - total), abs(b.sum() - total))
    violation = max(-result.x.min(), (result.x - np.tile(C, 2)).max(), sums) / max(size, 1e-300)
    return Bounds(half - y @ (a - b), -primal, error, scale, violation)


def box_bounds(upper: float, lower: float, K: Any, y: Any, C: Any, a: Any) -> Bounds:
    scale, size = float(np.diag(K).max()), max(a.sum(), 1e-300)
    error = 32 * EPS * (scale * size**2 + size)
    violation = max(-a.min(), (a - C).max(), abs(y @ a)) / size
    return Bounds(upper, lower, error, scale, violation)


def lp_svm(data: dict[str, Any], result: Any) -> Bounds:
    """Return the value at (w, b) of the answer, and the sum of its weights."""
    if data["kernel"][0] != "linear":  # the rows of K stand for the points
        here = np.broadcast_to(data["C"], data["y"].shape) > 0
        assert not result.x[: len(here)][~here].any()
        K = dense_gram(data)
        data = {**data, "X": np.where(here, K, 0.0), "kernel": ("linear", {})}
    X, y, C, w, b, a = machine(data, result)
    short = np.maximum(1.0 - y * (X @ w + b), 0.0)
    steepest = float(np.abs(X.T @ (y * a)).max())
    error = 32 * EPS * (1.0 + C.sum()) * (1.0 + np.abs(X).max() * (np.abs(w).sum() + a.sum()))
    broken = max(-a.min(), (a - C).max(), abs(y @ a) * data["bias"], steepest - 1.0 - error)
    upper = float(np.abs(w).sum() + C @ short)
    return Bounds(upper, float(a.sum()), error, float(C.sum()), broken / max(a.sum(), 1.0))


def ls_svm(data: dict[str, Any], result: Any) -> Bounds:
    """Return the value at (w, b) of the answer, and the dual's at its weights."""
    X, y, C, w, b, a = machine(data, result)
    here = C > 0
    if data["kernel"][0] == "linear":
        f, square, v = X @ w, w @ w, X.T @ (y * a)
        dual_square = v @ v
    else:
        K = dense_gram(data)
        f, square, dual_square = K @ w, w @ K @ w, (y * a) @ K @ (y * a)
    upper = 0.5 * square + C @ (1.0 - y * (f + b)) ** 2
    lower = a.sum() - 0.5 * dual_square - np.sum(a[here] ** 2 / (4.0 * C[here]))
    size = np.abs(a).sum()
    error = 64 * EPS * (C.sum() * (1.0 + np.abs(f).max() + abs(b)) ** 2 + size + dual_square)
    broken = abs(y @ a) * data["bias"] / max(size, 1.0)
    assert not a[~here].any()
    return Bounds(float(upper), float(lower), float(error), float(C.sum()), float(broken))


def machine(data: dict[str, Any], result: Any) -> tuple[Any, ...]:
    """Return points, labels, penalties, w, b and weights, the points moved to their mean."""
    X, y, bias = points(data["X"]), data["y"], data["bias"]
    linear = data["kernel"][0] == "linear"
    w, b = (result.x[:-1], result.x[-1]) if bias else (result.x, 0.0)
    if bias and linear:
        origin = X.mean(axis=0)
        X, b = X - origin, b + w @ origin
    return X, y, np.broadcast_to(data["C"], y.shape), w, b, result.dual


FAMILY_CHECKS = {
    "l2_svm": l2_svm,
    "meb": meb,
    "polytope_distance": polytope_distance,
    "hinge": hinge,
    "hinge_primal": hinge_primal,
    "lp_svm": lp_svm,
    "ls_svm": ls_svm,
    "one_class": one_class,
    "svdd": svdd,
    "reduced_hulls": reduced_hulls,
    "svr": svr,
    "l2_svr": l2_svr,
    "nu_svr": nu_svr,
}
