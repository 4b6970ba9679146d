"""Zhou, Tao and Wu, table I and figures 3 and 4: NESVM as printed beside other solvers, census data.

The printed protocol: w0 = w* = 0, mu = 5, the end where F_mu changes by less than 1e-3 in a step, C from
1e-3 to 1e3, a linear machine. LIBLINEAR plays SVM-Perf and LIBSVM plays SVM-Light, at a tolerance of
1e-3; `pegasos` ends at a certified gap of 1e-3, or at `TIME_LIMIT`. No machine has a bias but LIBSVM's.
The paper says neither the set of figure 3 nor the C of figure 4: here a4a and C = 1.

Seconds are relative to those of the printed NESVM at C = 1 on the same set (figure 3), or on a1a (figure
4), which run by turns with all others; the least of `N_ROUNDS` counts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from docs.papers.make.lowrank import N_FEATURES, data, percent
from docs.papers.make.runs import Case
from qpsvm import HingePrimal, solve

PAGE_TITLE = "Census income"
SMOOTHING_VALUE, END_OF_CHANGE = 5.0, 1e-3
MAX_ITERATIONS, TIME_LIMIT = 20_000, 10.0
PENALTY_SET, PENALTY_VALUES = "a4a", tuple(10.0**k for k in range(-3, 4))
SIZE_SETS, SIZE_PENALTY = ("a1a", "a2a", "a3a", "a4a", "a5a"), 1.0
GAP_TOLERANCE, NO_GAP_TOLERANCE = 1e-3, 1e-12
"""Relative gaps of the certified solves, and one that the printed stop never waits for."""

N_ROUNDS = 2


class Fitted(NamedTuple):
    """What a solver returns: w, its bias, its iterations."""

    w: np.ndarray
    bias: float
    iterations: int


def cases(quick: bool = False) -> list[Case]:
    """Return values of C on one set, and sets at one C."""
    if quick:
        return [{"figure": 3, "set": "drawn", "C": 1.0}]
    against_C = [{"figure": 3, "set": PENALTY_SET, "C": C} for C in PENALTY_VALUES]
    return against_C + [{"figure": 4, "set": name, "C": SIZE_PENALTY} for name in SIZE_SETS]


def printed(X: Any, y: np.ndarray, C: float) -> Fitted:
    """Return Algorithm 1 with its own stop."""
    result = solve(
        HingePrimal(X, y, C=C, bias=False), "nesvm", tol=NO_GAP_TOLERANCE, max_iter=MAX_ITERATIONS,
        variant="paper", mu=SMOOTHING_VALUE, change_tol=END_OF_CHANGE,
    )  # fmt: skip
    return Fitted(np.asarray(result.x)[: X.shape[1]], 0.0, result.n_iter)


def certified(method: str) -> Callable[..., Fitted]:
    """Return a method of this library, to a certified gap."""

    def fit(X: Any, y: np.ndarray, C: float) -> Fitted:
        problem = HingePrimal(X, y, C=C, bias=False)
        result = solve(problem, method, tol=GAP_TOLERANCE, time_limit=TIME_LIMIT)
        return Fitted(np.asarray(result.x)[: X.shape[1]], 0.0, result.n_iter)

    return fit


def liblinear(X: Any, y: np.ndarray, C: float) -> Fitted:
    """Return LIBLINEAR's machine."""
    from sklearn.svm import LinearSVC

    machine = LinearSVC(loss="hinge", C=C, tol=GAP_TOLERANCE, fit_intercept=False, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the limit of its iterations
        machine.fit(X, y)
    return Fitted(machine.coef_.ravel(), 0.0, int(np.max(machine.n_iter_)))


def libsvm(X: Any, y: np.ndarray, C: float) -> Fitted:
    """Return LIBSVM's machine, which has a bias."""
    from sklearn.svm import SVC

    machine = SVC(kernel="linear", C=C, tol=GAP_TOLERANCE, cache_size=1000).fit(X, y)
    w = machine.coef_.toarray() if hasattr(machine.coef_, "toarray") else machine.coef_
    return Fitted(w.ravel(), float(machine.intercept_[0]), int(np.sum(machine.n_iter_)))


SOLVER_FUNCTIONS: dict[str, Callable[..., Fitted]] = {
    "NESVM": printed,
    "homotopy-nesvm": certified("homotopy-nesvm"),
    "Pegasos": certified("pegasos"),
    "LIBLINEAR": liblinear,
    "LIBSVM": libsvm,
}


def timed(fit: Callable[..., Fitted], *problem: Any) -> tuple[Fitted, float]:
    """Return what a solver gives, and its seconds."""
    begun = time.perf_counter()
    found = fit(*problem)
    return found, time.perf_counter() - begun


def run(case: Case) -> Case:
    """Return seconds relative to the base, iterations, accuracies and excess of the objective."""
    X, y, points, labels = data(case["set"])
    base = data("a1a" if case["figure"] == 4 else case["set"])
    best = solve(HingePrimal(X, y, C=case["C"], bias=False), tol=1e-6).value
    base_seconds, seconds = [], {name: [] for name in SOLVER_FUNCTIONS}
    found: Case = {"m": len(y), "test": len(labels), "n": N_FEATURES}
    for _ in range(N_ROUNDS):
        base_seconds.append(timed(printed, base[0], base[1], 1.0)[1])
        for name, fit in SOLVER_FUNCTIONS.items():
            fitted, lasted = timed(fit, X, y, case["C"])
            seconds[name].append(lasted)
            scores = np.asarray(points @ fitted.w).ravel() + fitted.bias
            margin = y * (np.asarray(X @ fitted.w).ravel() + fitted.bias)
            value = 0.5 * fitted.w @ fitted.w + case["C"] * np.maximum(0.0, 1.0 - margin).sum()
            found |= {
                f"{name} iterations": fitted.iterations,
                f"{name} accuracy": percent(np.where(scores >= 0, 1.0, -1.0), labels),
                f"{name} excess": float(f"{value / best - 1.0:.2g}"),
            }
    for name, each in seconds.items():
        found[f"{name} time"] = float(f"{min(each) / min(base_seconds):.3g}")
    return found


def check(case: Case, found: Case) -> None:
    """Fail where the certified machine is not the best one."""
    assert found["homotopy-nesvm excess"] <= 2.0 * GAP_TOLERANCE
    assert found["NESVM iterations"] < MAX_ITERATIONS
