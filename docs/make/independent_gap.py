"""The gap of an answer in double precision, computed by numpy without any code of the library.

`bounds` returns an upper and a lower bound of the optimum of a problem of the grid from its points and
an answer, after the weights were clipped to their bounds, and the violation of the equality.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

BLOCK_ROWS, BLOCK_COLUMNS = 512, 4096
"""Shape of a block of kernel values, which stays in a cache of 16 MB."""

FREQUENT_SHARE = 0.02
"""Share of the CSR rows; a column that more of them store is multiplied as a dense one."""


def inner(A: Any, B: Any) -> Any:
    """Return all inner products; BLAS multiplies the frequent columns of CSR points."""
    if not sp.issparse(A):
        return A @ B.T
    often = np.bincount(B.indices, minlength=B.shape[1]) > FREQUENT_SHARE * B.shape[0]
    P = A[:, often].toarray() @ B[:, often].toarray().T
    P += (A[:, ~often] @ B[:, ~often].T).toarray()
    return P


def distances(A: Any, B: Any) -> Any:
    """Return all l1 distances; for CSR points it is |a|_1 changed in the columns of b alone."""
    if not sp.issparse(A):
        return cdist(A, B, "cityblock")
    columns, length = A.tocsc(), np.asarray(abs(A).sum(axis=1)).ravel()
    found = np.empty((A.shape[0], B.shape[0]))
    for j in range(B.shape[0]):
        b = B[j]
        part = columns[:, b.indices].toarray()
        found[:, j] = length + (np.abs(part - b.data) - np.abs(part)).sum(axis=1)
    return found


def values(kernel: str, gamma: float, A: Any, B: Any) -> Any:
    """Return the kernel values of two sets of points."""
    if kernel == "laplacian":
        return np.exp(-gamma * distances(A, B))
    P = inner(A, B)
    if kernel in ("poly2", "poly3"):
        P *= gamma
        P += 1.0
        return P * P if kernel == "poly2" else P * P * P
    if kernel == "sigmoid":
        return np.tanh(gamma * P)
    a, b = (np.asarray((x.multiply(x) if sp.issparse(x) else x * x).sum(axis=1)) for x in (A, B))
    P *= -2.0
    P += a.reshape(-1, 1)
    P += b.reshape(1, -1)
    np.maximum(P, 0.0, out=P)
    return (
        np.exp(np.multiply(P, -gamma, out=P), out=P) if kernel == "rbf" else 1.0 / (1.0 + gamma * P)
    )


def product(data: Any, kernel: str, v: Any) -> tuple[Any, Any]:
    """Return K v, computed from the columns with v_j != 0 alone, and the diagonal of K."""
    if kernel == "precomputed":
        K = data.K.astype(np.float64)
        return K @ v, np.diag(K)
    X, rows = data.X.astype(np.float64), np.flatnonzero(v)
    squares = np.asarray((X.multiply(X) if sp.issparse(X) else X * X).sum(axis=1)).ravel()
    if kernel == "linear":
        return X @ (X.T @ v), squares
    m = X.shape[0]
    columns = [rows[j : j + BLOCK_COLUMNS] for j in range(0, len(rows), BLOCK_COLUMNS)]
    supports = [(X[some], v[some]) for some in columns]

    def part(i: int) -> Any:
        A = X[i : i + BLOCK_ROWS]
        return sum(
            (values(kernel, data.gamma, A, S) @ u for S, u in supports), np.zeros(A.shape[0])
        )

    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(part, range(0, m, BLOCK_ROWS)))
    at_zero = {"poly2": (data.gamma * squares + 1.0) ** 2, "poly3": (data.gamma * squares + 1.0) ** 3,
               "sigmoid": np.tanh(data.gamma * squares)}  # fmt: skip
    return np.concatenate(parts), at_zero.get(kernel, np.ones(m))


def least(g: Any, cap: float) -> float:
    """Return the minimum of sum g_i s_i over 0 <= s <= cap with sum s_i = 1."""
    g = np.sort(g)
    n = min(len(g), int(1.0 / cap * (1.0 + 1e-12)))
    return float(cap * g[:n].sum() + (g[n] * max(0.0, 1.0 - n * cap) if n < len(g) else 0.0))


def bounds(
    form: str, data: Any, kernel: str, x: Any, C: float = 1.0, bias: bool = True
) -> tuple[float, float, float]:
    """Return an upper and a lower bound of the minimum, and the violation of the equality.

    C is the penalty of a machine, and the upper bound of the weights on a capped simplex.
    """
    y = data.y
    x = np.clip(x, 0.0, None if form.startswith("l2") else C)
    if form == "hinge":
        f, _ = product(data, kernel, y * x)
        b = np.sort(y - f)[int(np.sum(y > 0)) - 1] if bias else 0.0  # slopes count the points
        square = float((y * x) @ f)
        primal = square / 2.0 + C * float(np.maximum(0.0, 1.0 - y * (f + b)).sum())
        margin = (f[y > 0].min() - f[y < 0].max()) / 2.0 if bias else float(np.min(y * f))
        if margin > 0.0:  # w may be scaled until no point has slack
            primal = min(primal, square / (2.0 * margin**2))
        return square / 2.0 - float(x.sum()), -primal, abs(float(y @ x)) if bias else 0.0
    if form == "l2 with a free bias":
        f, _ = product(data, kernel, y * x)
        square = float((y * x) @ f)
        b = minimize_scalar(lambda b: float(np.sum(np.maximum(0.0, 1.0 - y * (f + b)) ** 2))).x
        primal = square / 2.0 + C / 2.0 * float(np.sum(np.maximum(0.0, 1.0 - y * (f + b)) ** 2))
        return (square + float(x @ x) / C) / 2.0 - float(x.sum()), -primal, abs(float(y @ x))
    violation = abs(float(x.sum()) - 1.0)
    x = x / x.sum()
    if form == "l2":  # Q = y y' (K + 1) + I / C
        g = y * (product(data, kernel, y * x)[0] + float(y @ x)) + x / C
        h, R = g - x / C, float(x @ g)  # the optimum is 1 / (4 P) for the least primal value P

        def primal_at(t: float) -> float:
            slack = np.maximum(0.0, 1.0 - t / R * h)
            return float((t / R) ** 2 * (x @ h) + C * (slack @ slack)) / 2.0

        return R / 2.0, 0.25 / primal_at(minimize_scalar(primal_at, (0.9, 1.1)).x), violation
    f, diagonal = product(data, kernel, x)
    square = float(x @ f)
    if form == "one-class":
        return square / 2.0, max(0.0, least(f, C)) ** 2 / (2.0 * square), violation
    value = square - float(diagonal @ x)
    g = 2.0 * f - diagonal
    return value, value - (float(g @ x) - least(g, C)), violation


def primal_value(form: str, data: Any, w: Any, C: float) -> float:
    """Return the primal value of w, its last entry the bias, of a linear hinge machine or L2-SVM."""
    slack = np.maximum(0.0, 1.0 - data.y * (data.X.astype(np.float64) @ w[:-1] + w[-1]))
    return float(w @ w) / 2.0 + C * float(slack.sum() if form == "hinge" else slack @ slack / 2.0)


def relative(upper: float, lower: float) -> float:
    """Return the relative gap of two bounds."""
    return (upper - lower) / max(abs(upper), abs(lower))
