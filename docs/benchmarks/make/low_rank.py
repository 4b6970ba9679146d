"""Kernel machines on low-rank Grams, beside LIBSVM and scikit-learn's Nystroem with LinearSVC.

The setting of Jung, O'Leary and Tits, section 5.2: the adult set, tau = 1, the Gaussian kernel with
sigma = sqrt(l / 2) for l features, which is gamma = 1 / (2 sigma^2) = 1 / l. Rows for
`docs.benchmarks.make.tables`; the data come from the folder in QPSVM_DATA.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import qpsvm
from asv_benchmarks import real_data
from qpsvm import RBF, HingeDual, LowRank

FACTOR_RANKS = (64, 128, 300, 600)
TOL = 1e-3  # LIBSVM's own, of its violation; here of the certified relative gap
FACTOR_METHODS = (
    "rpcholesky",
    "pivoted-cholesky",
    "nystrom",
    "nystrom-kmeans",
    "nystrom-leverage",
    "eigen",
)
POLISHED_RUNS = [(name, 300, tol) for name in ("a4a", "w4a", "w6a", "a9a") for tol in (1e-3, 1e-6)]

Row = tuple[Any, ...]


class Data(NamedTuple):
    """Points and labels to train on and to test, and the kernel's Gram."""

    X: Any
    y: np.ndarray
    points: Any
    labels: np.ndarray

    @property
    def gram(self) -> RBF:
        """The paper's kernel."""
        return RBF(self.X, gamma=1.0 / self.X.shape[1])


def load(name: str) -> Data:
    """Return a training set and its test set, CSR in single precision."""
    X, y = real_data.load(name)
    points, labels = real_data.load(f"{name}.t")
    points.resize(points.shape[0], X.shape[1])
    return Data(X, np.where(y > 0, 1.0, -1.0), points, np.where(labels > 0, 1.0, -1.0))


def warm_up(data: Data) -> None:
    """Compile what is compiled, on a few points."""
    few = Data(data.X[:1500], data.y[:1500], data.points, data.labels)
    problem = HingeDual(LowRank(few.gram, 40), few.y)
    qpsvm.solve(problem, "crsvm", tol=1e-6, polish="decomposition")
    qpsvm.solve(HingeDual(few.gram, few.y), "decomposition", tol=1e-6)
    qpsvm.solve(problem, "crsvm", sift=True).model.predict(data.points[:50])


def exact(data: Data) -> Iterator[Row]:
    """Yield LIBSVM's row: method, rank, trace error, factor, training, total, accuracy, prediction."""
    from sklearn.svm import SVC

    X, points = data.X.astype(np.float64), data.points.astype(np.float64)
    begun = time.perf_counter()
    model = SVC(C=1.0, gamma=data.gram.gamma, cache_size=2000).fit(X, data.y)
    seconds = time.perf_counter() - begun
    right, after = judged(model, points, data.labels)
    yield "LIBSVM (SVC)", "", "", "", seconds, seconds, right, after


def ours(data: Data) -> Iterator[Row]:
    """Yield the rows of `crsvm` on factors of growing rank."""
    for method in ("rpcholesky", "nystrom"):
        for rank in FACTOR_RANKS:
            begun = time.perf_counter()
            low = LowRank(data.gram, rank, method=method)
            middle = time.perf_counter()
            result = qpsvm.solve(HingeDual(low, data.y), "crsvm", tol=TOL)
            ended = time.perf_counter()
            if not result.converged:
                raise RuntimeError(f"crsvm at rank {rank}: {result.status.value}")
            right, after = judged(result.model, data.points, data.labels)
            yield (
                f"`{method}` + `crsvm`", rank, low.relative_trace_error, middle - begun,
                ended - middle, ended - begun, right, after,
            )  # fmt: skip


def peers(data: Data) -> Iterator[Row]:
    """Yield the rows of scikit-learn's Nystroem features with LinearSVC."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.svm import LinearSVC

    X, points = data.X.astype(np.float64), data.points.astype(np.float64)
    for rank in FACTOR_RANKS:
        begun = time.perf_counter()
        features = Nystroem(gamma=data.gram.gamma, n_components=rank, random_state=0)
        V = features.fit_transform(X)
        middle = time.perf_counter()
        model = LinearSVC(loss="hinge", C=1.0, tol=TOL).fit(V, data.y)
        ended = time.perf_counter()
        error = 1.0 - float(np.vdot(V, V)) / len(V)
        before = time.perf_counter()
        right = float(np.mean(model.predict(features.transform(points)) == data.labels))
        after = time.perf_counter() - before
        yield (
            "Nystroem + LinearSVC", rank, error, middle - begun, ended - middle, ended - begun,
            right, after,
        )  # fmt: skip


def judged(model: Any, points: Any, labels: np.ndarray) -> tuple[float, float]:
    """Return the share of test points that are classified rightly, and the seconds it took."""
    begun = time.perf_counter()
    right = float(np.mean(model.predict(points) == labels))
    return right, time.perf_counter() - begun


def factorizations() -> Iterator[Row]:
    """Yield method, rank, trace error and seconds on the 6,414 points of the paper's figure 5.7."""
    gram = RBF(real_data.load("a5a")[0], gamma=1.0 / 123)
    LowRank(RBF(gram.X[:1500], gamma=gram.gamma), 40)
    for rank in (64, 300):
        for method in FACTOR_METHODS:
            low = LowRank(gram, rank, method=method)
            yield f"`{method}`", rank, low.relative_trace_error, low.seconds


def polished() -> Iterator[Row]:
    """Yield cold decomposition beside crsvm and a polish: seconds, gaps, kernel columns."""
    warm_up(load(POLISHED_RUNS[0][0]))
    for name, rank, tol in POLISHED_RUNS:
        X, y = real_data.load(name)
        y = np.where(y > 0, 1.0, -1.0)
        gram = RBF(X, gamma=1.0 / X.shape[1])
        begun = time.perf_counter()
        cold = qpsvm.solve(HingeDual(gram, y), "decomposition", tol=tol)
        middle = time.perf_counter()
        low = LowRank(gram, rank)
        warm = qpsvm.solve(HingeDual(low, y), "crsvm", tol=tol, polish="decomposition")
        ended = time.perf_counter()
        for result, seconds, kind in (
            (cold, middle - begun, "`decomposition`"),
            (warm, ended - middle, f"rank {rank}, then polish"),
        ):
            gap = f"{result.certificate.relative_gap:.1e}"
            gap += "" if result.converged else f" {result.status.name}"
            yield name, tol, kind, gap, result.counters["columns"], len(result.support), seconds
