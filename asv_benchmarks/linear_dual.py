"""Linear hinge SVMs at equal certified gap: time against C, and against the size of the data.

Rows and figures for `asv_benchmarks.tables`; the data come from the folder in QPSVM_DATA. Ours are
judged by their own certificate. LIBLINEAR (through scikit-learn's LinearSVC, no intercept: the same
problem) does not give its dual weights: it counts as done when its primal value is within the tolerance
of a certified lower bound, which is less than is asked of ours. Its tolerance is loosened as far as that
allows. LIBSVM (through SVC) has a free bias; its dual weights are judged by our certificate of that
problem.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import qpsvm
from asv_benchmarks import real_data
from qpsvm import HingeDual, HingePrimal, Linear
from qpsvm.solvers import METHODS

TOL = 1e-3
LIMIT = 2.0  # seconds of a run of ours; a peer that took longer is not asked for the next point
OURS = ("dcd", "pegasos", "crsvm", "nesvm", "homotopy-nesvm")
PENALTIES = tuple(10.0**k for k in range(-3, 4))
ON = "a4a"  # the set on which C grows
SIZES = ("a1a", "a2a", "a3a", "a4a", "a5a", "a8a", "a9a")
C = 1.0
LADDER = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4, 1e-5)


class Row(NamedTuple):
    """One run: the point on the axis, who ran, how near it came, how long it took."""

    data: str
    m: int
    C: float
    who: str
    gap: float
    seconds: float

    @property
    def reached(self) -> bool:
        """Whether the gap is within the tolerance."""
        return self.gap <= TOL


def against_penalty() -> Iterator[Row]:
    """Yield the runs at growing C on one set."""
    yield from _runs([(ON, C) for C in PENALTIES])


def against_size() -> Iterator[Row]:
    """Yield the runs on the growing adult set."""
    yield from _runs([(name, C) for name in SIZES])


def draw(rows: list[Row], axis: str, path: Path) -> None:
    """Draw seconds against "C" or "m", one line for each who; only runs that reached the gap."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for who in dict.fromkeys(row.who for row in rows):
        reached = [row for row in rows if row.who == who and row.reached]
        axes.loglog(
            [getattr(row, axis) for row in reached],
            [row.seconds for row in reached],
            "o-",
            label=who,
        )
    axes.set(xlabel=axis, ylabel=f"seconds to a relative gap of {TOL:g}")
    axes.legend()
    figure.savefig(path, dpi=120)


def _runs(points: list[tuple[str, float]]) -> Iterator[Row]:
    """Yield what everyone needs at each point, dropping the peers that have become too slow."""
    peers: dict[str, Callable[[Any, Any, float], tuple[float, float]]] = {
        "LIBLINEAR": _liblinear,
        "LIBSVM": _libsvm,
    }
    for name, penalty in points:
        X, y = real_data.load(name)
        X = X.astype(np.float64)
        for who in OURS:
            if who in METHODS:
                yield Row(name, len(y), penalty, who, *_ours(X, y, penalty, who))
        for who in list(peers):
            gap, seconds = peers[who](X, y, penalty)
            yield Row(name, len(y), penalty, who, gap, seconds)
            if seconds > LIMIT:
                del peers[who]


def _ours(X: Any, y: Any, penalty: float, method: str) -> tuple[float, float]:
    problem = HingePrimal(X[:300], y[:300], penalty, bias=False)
    qpsvm.solve(problem, method, max_iter=20)  # compiles
    begun = time.perf_counter()
    result = qpsvm.solve(
        HingePrimal(X, y, penalty, bias=False), method, tol=TOL, time_limit=LIMIT, max_iter=10**9
    )
    return result.certificate.relative_gap, time.perf_counter() - begun


def _liblinear(X: Any, y: Any, penalty: float) -> tuple[float, float]:
    from sklearn.svm import LinearSVC

    exact = qpsvm.solve(HingePrimal(X, y, penalty, bias=False), "dcd", tol=1e-6, time_limit=LIMIT)
    gap, seconds = np.inf, 0.0
    for tol in LADDER:
        model = LinearSVC(
            loss="hinge", dual=True, C=penalty, tol=tol, fit_intercept=False, max_iter=10**5,
            random_state=0,
        )  # fmt: skip
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            w = model.fit(X, y).coef_.ravel()
        seconds = time.perf_counter() - begun
        value = 0.5 * w @ w + penalty * np.sum(np.maximum(0.0, 1.0 - y * (X @ w)))
        gap = float((value - exact.certificate.lower) / value)
        if gap <= TOL or seconds > LIMIT:
            break
    return gap, seconds


def _libsvm(X: Any, y: Any, penalty: float) -> tuple[float, float]:
    from sklearn.svm import SVC

    model = SVC(kernel="linear", C=penalty, cache_size=1000, max_iter=500_000)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.perf_counter() - begun
    a = np.zeros(len(y))
    a[model.support_] = np.abs(model.dual_coef_.ravel())
    judged = qpsvm.solve(HingeDual(Linear(X), y, penalty), "smo", x0=a, max_iter=0)
    return judged.certificate.relative_gap, seconds
