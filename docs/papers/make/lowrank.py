"""Jung, O'Leary and Tits, figures 5.7 and 5.8 and table 5.2: low-rank Grams of the adult sets.

The kernel of section 5.2, sigma^2 = l / 2 for l = 123 features. `eigen` plays EIGS, without the fast
Gauss transform, and `pivoted-cholesky` plays CHOL. Figure 5.7: the error of V V' in the paper's norm, the
largest sum of absolute values in a row, relative to that of K, and the ratio of the seconds of both; the
two run one after the other. Figure 5.8: seconds of approximation and training relative to those of
LIBSVM's SVC at its default tolerance, and the accuracies of table 5.2.

Formula (4.2): `crsvm` to a gap of 1e-8 with the matrix of the landmarks' columns, beside that of the
factor, by turns; landmarks by pivoted Cholesky.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from docs.papers.make.runs import Case
from problems.clouds import two_clouds
from qpsvm import RBF, HingeDual, LowRank, solve
from qpsvm.data import load_libsvm

PAGE_TITLE = "Low-rank Grams"
FACTOR_METHODS = {"EIGS": "eigen", "CHOL": "pivoted-cholesky"}
SIZE_RANKS = {"EIGS": 64, "CHOL": 300}
"""Ranks of the figures against the size."""

RANK_SET, FACTOR_RANKS = "a5a", (16, 32, 64, 128, 256)
SIZE_SETS = ("a1a", "a2a", "a3a", "a4a", "a5a", "a8a")
N_FEATURES = 123
CHUNK_ROWS = 500
GAP_TOLERANCE, MATRIX_GAP_TOLERANCE = 1e-3, 1e-8
N_ROUNDS, N_MATRIX_ROUNDS = 1, 5
MATRIX_KINDS = ("factor", "columns")
"""M_Q of the factor, and (4.2)."""

MATRIX_CASES = ((64, 1.0), (300, 1.0), (64, 1e-2), (300, 1e-2))
"""Ranks, and multiples of the paper's 1 / (2 sigma^2)."""


def cases(quick: bool = False) -> list[Case]:
    """Return ranks on one set, and sets at one rank."""
    if quick:
        return [
            {"figure": "5.7", "set": "drawn", "EIGS": 8, "CHOL": 8},
            {"figure": "(4.2)", "set": "drawn", "rank": 8, "width": 1.0},
        ]
    by_size = [
        {"figure": figure, "set": name, **SIZE_RANKS}
        for name in SIZE_SETS
        for figure in ("5.7", "5.8")
    ]
    by_rank = [{"figure": "5.7", "set": RANK_SET, "EIGS": r, "CHOL": r} for r in FACTOR_RANKS]
    in_both = [{"figure": "(4.2)", "set": RANK_SET, "rank": r, "width": w} for r, w in MATRIX_CASES]
    return by_size + by_rank + in_both


@cache
def data(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return training and test points and labels."""
    if name == "drawn":
        X, y = two_clouds(300, 4, seed=2, distance=2.0)
        return X, y, X, y
    train = load_libsvm(name, n_features=N_FEATURES)
    if name != "a5a":
        return *train, *load_libsvm(f"{name}.t", n_features=N_FEATURES)
    return *train, *rest_of("a9a", train)


def rest_of(name: str, train: tuple[Any, np.ndarray]) -> tuple[Any, np.ndarray]:
    """Return the points of a set less those of another one, of which it is a superset."""
    X, y = load_libsvm(name, n_features=N_FEATURES)
    left: dict[bytes, int] = {}
    for row, label in zip(train[0].toarray(), train[1], strict=True):
        word = row.tobytes() + str(label > 0).encode()
        left[word] = left.get(word, 0) + 1
    kept = np.ones(len(y), np.bool_)
    for i, (row, label) in enumerate(zip(X.toarray(), y, strict=True)):
        word = row.tobytes() + str(label > 0).encode()
        if left.get(word, 0) > 0:
            left[word] -= 1
            kept[i] = False
    return X[kept], y[kept]


def gram(X: Any) -> RBF:
    """Return the Gram of the paper's kernel."""
    return RBF(X, gamma=1.0 / N_FEATURES)


def errors(exact: RBF, factors: dict[str, LowRank]) -> Case:
    """Return the errors in the norm of the paper, relative to the norm of K."""
    norm, left = 0.0, dict.fromkeys(factors, 0.0)
    for begin in range(0, exact.m, CHUNK_ROWS):
        rows = np.arange(begin, min(begin + CHUNK_ROWS, exact.m))
        K = np.asarray(exact.block(rows), np.float64)
        norm = max(norm, float(np.abs(K).sum(axis=1).max()))
        for name, factor in factors.items():
            V = factor.factor()
            error = float(np.abs(K - V[rows] @ V.T).sum(axis=1).max())
            left[name] = max(left[name], error)
    return {f"{name} error": float(f"{error / norm:.3g}") for name, error in left.items()}


def approximated(case: Case) -> Case:
    """Return errors of both factors, and the ratio of their seconds."""
    exact = gram(data(case["set"])[0])
    seconds: dict[str, list[float]] = {name: [] for name in FACTOR_METHODS}
    factors = {}
    for _ in range(N_ROUNDS):
        for name, method in FACTOR_METHODS.items():
            factors[name] = LowRank(exact, case[name], method=method)
            seconds[name].append(factors[name].seconds)
    EIGS, CHOL = (min(each) for each in seconds.values())
    return {
        "m": exact.m,
        **errors(exact, factors),
        "EIGS over CHOL": float(f"{EIGS / CHOL:.3g}"),
    }


def trained(case: Case) -> Case:
    """Return seconds relative to those of LIBSVM, and accuracies, of a set."""
    from sklearn.svm import SVC

    X, y, points, labels = data(case["set"])
    begun = time.perf_counter()
    machine = SVC(C=1.0, gamma=1.0 / N_FEATURES, cache_size=1000).fit(X, y)
    reference = time.perf_counter() - begun
    found: Case = {"m": len(y), "LIBSVM accuracy": percent(machine.predict(points), labels)}
    for name, method in FACTOR_METHODS.items():
        parts = []
        for _ in range(N_ROUNDS):
            begun = time.perf_counter()
            low = LowRank(gram(X), case[name], method=method)
            middle = time.perf_counter()
            result = solve(HingeDual(low, y, C=1.0), "crsvm", tol=GAP_TOLERANCE)
            parts.append((middle - begun, time.perf_counter() - middle))
        approximation, training = np.min(parts, axis=0) / reference
        found |= {
            f"{name} approximation": float(f"{approximation:.3g}"),
            f"{name} training": float(f"{training:.3g}"),
            f"{name} accuracy": percent(result.model.predict(points), labels),
            f"{name} gap": float(f"{result.certificate.relative_gap:.1e}"),
        }
    return found


def in_columns(case: Case) -> Case:
    """Return iterations, gaps and the ratio of the seconds of both matrices."""
    X, y, *_ = data(case["set"])
    exact = RBF(X, gamma=case["width"] / N_FEATURES)
    low = LowRank(exact, case["rank"], method=FACTOR_METHODS["CHOL"])
    problem = HingeDual(low, y, C=1.0)
    seconds: dict[str, list[float]] = {kind: [] for kind in MATRIX_KINDS}
    landmarks = low.landmarks  # type: ignore[attr-defined]
    K = exact.block(landmarks.columns, landmarks.columns, np.float64)
    found: Case = {"condition": float(f"{np.linalg.cond(K):.1e}")}
    for _ in range(N_MATRIX_ROUNDS):
        for kind in MATRIX_KINDS:
            begun = time.perf_counter()
            result = solve(
                problem, "crsvm", tol=MATRIX_GAP_TOLERANCE, normal_matrix=kind, sift=False
            )
            seconds[kind].append(time.perf_counter() - begun)
            found |= {
                f"{kind} iterations": result.n_iter,
                f"{kind} gap": float(f"{result.certificate.relative_gap:.1e}"),
            }
    ratio = np.median(np.divide(seconds["columns"], seconds["factor"]))
    return {"m": len(y), **found, "columns over factor": float(f"{ratio:.3g}")}


def percent(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of labels that are predicted, in percent."""
    return round(100.0 * float(np.mean(predicted == labels)), 2)


def run(case: Case) -> Case:
    """Return what the figure of the case shows."""
    return {"5.7": approximated, "5.8": trained, "(4.2)": in_columns}[case["figure"]](case)


def check(case: Case, found: Case) -> None:
    """Fail where the eigendecomposition is worse than the Cholesky factor, or (4.2) not solved."""
    if case["figure"] == "(4.2)":
        assert found["columns gap"] <= MATRIX_GAP_TOLERANCE
        return
    assert found["EIGS error"] <= 1.5 * found["CHOL error"] < 1.0
