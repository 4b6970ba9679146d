"""Frandi et al., table 8: `fw` and `mfw` with the kernel (gamma x'z)^2, which `cvm` cannot have.

The paper's protocol: gamma is the inverse of the mean squared distance, C of 2^0 to 2^12 has the
greatest accuracy on a random 30 % of the training points (by `mfw`, the least of several), samples of 59
points, the ball of 20 random points to begin with, five repetitions with their own seeds. One thing
differs: the paper stops by epsilon = 1e-6 for the ball, which has no meaning for a kernel that is not
normalized; here a certified relative gap of `GAP_TOLERANCE` is asked for, within `MAX_ITERATIONS`.
"""

from __future__ import annotations

import numpy as np

from docs.papers.make.runs import Case
from qpsvm import L2SVMDual, Polynomial, solve
from qpsvm.data import load_libsvm

PAGE_TITLE = "Table 8"
DATA_SETS = ("w1a", "reuters", "w4a", "w6a", "w8a")
GAP_TOLERANCE, MAX_ITERATIONS = 0.1, 20_000
PENALTY_EXPONENTS = range(13)
HELD_OUT_SHARE = 0.3


def cases(quick: bool = False) -> list[Case]:
    """Return a case for each set and method."""
    if quick:
        return [{"set": "drawn", "method": method, "repetitions": 1} for method in ("fw", "mfw")]
    return [
        {"set": name, "method": method, "repetitions": 5}
        for name in DATA_SETS
        for method in ("fw", "mfw")
    ]


def data(name: str) -> tuple:
    """Return training and test points; of "drawn" a few that need no file."""
    if name != "drawn":
        return *load_libsvm(name, np.float32), *load_libsvm(f"{name}.t", np.float32)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = np.where(np.sum(X**2, axis=1) > 4.0, 1.0, -1.0)
    return X[:200], y[:200], X[200:], y[200:]


def squared_distance(X: np.ndarray) -> float:
    """Return the mean squared distance of two points."""
    mean = np.asarray(X.mean(axis=0)).ravel()
    squares = X.multiply(X).sum() if hasattr(X, "multiply") else np.sum(X.astype(float) ** 2)
    return 2.0 * (float(squares) / X.shape[0] - float(mean @ mean))


def trained(X: np.ndarray, y: np.ndarray, gamma: float, C: float, method: str, seed: int):
    """Return the answer of a method on samples."""
    problem = L2SVMDual(Polynomial(X, 2, gamma, 0.0), y, C=C)
    options = {"sampling": 59, "start": "ball", "seed": seed}
    return solve(problem, method, tol=GAP_TOLERANCE, max_iter=MAX_ITERATIONS, **options)


def run(case: Case) -> Case:
    """Return the accuracies, and the iterations and supports, of the repetitions."""
    X, y, X_test, y_test = data(case["set"])
    n_features = max(X.shape[1], X_test.shape[1])
    X, X_test = (widened(points, n_features) for points in (X, X_test))
    gamma = 1.0 / squared_distance(X)
    order = np.random.default_rng(0).permutation(len(y))
    out, rest = np.split(order, [int(HELD_OUT_SHARE * len(y))])
    score = [
        np.mean(trained(X[rest], y[rest], gamma, 2.0**k, "mfw", 0).model.predict(X[out]) == y[out])
        for k in PENALTY_EXPONENTS
    ]
    C = 2.0 ** PENALTY_EXPONENTS[int(np.argmax(score))]
    results = [trained(X, y, gamma, C, case["method"], seed) for seed in range(case["repetitions"])]
    share = [100.0 * np.mean(result.model.predict(X_test) == y_test) for result in results]
    return {
        "C": C,
        "accuracy": round(float(np.mean(share)), 3),
        "deviation": round(float(np.std(share)), 4),
        "iterations": int(np.mean([result.n_iter for result in results])),
        "support": int(np.mean([len(result.support) for result in results])),
        "gap": round(float(np.max([r.certificate.relative_gap for r in results])), 4),
    }


def widened(X: np.ndarray, n_features: int) -> np.ndarray:
    """Return the points with zeros for features that only the other set has."""
    if X.shape[1] == n_features:
        return X
    wider = X.copy()
    wider.resize((X.shape[0], n_features))
    return wider


def check(case: Case, found: Case) -> None:
    """Fail where the smallest case learns nothing: the classes are a ball and its outside."""
    assert found["accuracy"] > 85.0
