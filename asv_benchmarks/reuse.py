"""What is done with kernels once they are known: prediction, and paths of parameters.

Rows for `docs.benchmarks.make.tables`, and the same for asv at a smaller size.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import qpsvm
from asv_benchmarks import real_data
from qpsvm import RBF, HingeDual
from qpsvm.expansion import Expansion
from qpsvm.models import Hyperplane

N_POINTS = 50_000
N_RUNS = 3


def synthetic(m: int, d: int = 50, seed: int = 0) -> tuple[Any, Any]:
    """Return points of two noisy classes, in single precision, and their labels."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        m, d, n_informative=d // 2, flip_y=0.1, class_sep=0.7, random_state=seed
    )
    return X.astype(np.float32), np.where(y > 0, 1.0, -1.0)


def predictions() -> Iterator[tuple[Any, ...]]:
    """Yield data, support vectors, precision, SVC's seconds and ours, largest difference.

    The model is SVC's own: its support vectors and weights, handed to our expansion.
    """
    from sklearn.svm import SVC

    for name, X, y, train, gamma in _models():
        svc = SVC(C=1.0, gamma=gamma, cache_size=1000).fit(X[:train].astype(np.float64), y[:train])
        new = X[-N_POINTS:]
        double = new.astype(np.float64)
        begun = time.perf_counter()
        theirs = svc.predict(double)
        seconds = time.perf_counter() - begun
        some = svc.decision_function(double[:1000])
        for dtype in (np.float64, np.float32):
            given, own = new.astype(dtype), svc.support_vectors_.astype(dtype)
            coef = svc.dual_coef_
            coef = (coef.toarray() if sp.issparse(coef) else coef).ravel()
            indices = np.arange(len(coef))
            expansion = Expansion(RBF(own, gamma), indices, coef)
            plane = Hyperplane(float(svc.intercept_[0]), expansion, None)
            plane.predict(given[:1000])  # compile
            ours = []
            for _ in range(N_RUNS):
                begun = time.perf_counter()
                labels = plane.predict(given)
                ours.append(time.perf_counter() - begun)
            far = float(np.max(np.abs(plane.decision_function(given[:1000]) - some)))
            agree = float(np.mean(labels == theirs))
            yield name, len(coef), np.dtype(dtype).name, seconds, float(np.median(ours)), far, agree


def _models() -> Iterator[tuple[Any, ...]]:
    X, y = synthetic(N_POINTS + 10_000)
    yield "synthetic, 50 features", X, y, 9_500, 1.0 / 50 / float(X.var())
    X, y = real_data.load("a9a")
    more, labels = real_data.load("a9a.t")
    more.resize(more.shape[0], X.shape[1])
    X = sp.vstack([X, more, more], format="csr")
    y = np.concatenate([y, labels, labels])
    yield "a9a, CSR", X, y, 13_500, 0.05
    yield "a9a, dense", X.toarray(), y, 13_500, 0.05


def paths() -> Iterator[tuple[Any, ...]]:
    """Yield the path, its length, the seconds of solves alone and of the path, and the columns."""
    X, y = synthetic(10_000, 20)
    problem, values = HingeDual(RBF(X, 1.0 / 20 / float(X.var())), y), np.geomspace(0.1, 10, 10)
    cold = [qpsvm.solve_path(problem, "C", [value])[0] for value in values]
    begun = time.perf_counter()
    path = qpsvm.solve_path(problem, "C", values)
    seconds = time.perf_counter() - begun
    assert all(result.converged for result in (*cold, *path))
    alone = sum(result.timings["total"] for result in cold)
    columns = [sum(result.counters["columns"] for result in each) for each in (cold, path)]
    yield f"C from {values[0]:.3g} to {values[-1]:.3g}", len(values), alone, seconds, *columns


class Prediction:
    """Seconds of 20,000 decisions on 2,000 support vectors."""

    params = (["dense", "CSR"], ["float64", "float32"])
    param_names = ("storage", "precision")

    def setup(self, storage: str, precision: str) -> None:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((22_000, 50)).astype(precision)
        if storage == "CSR":
            X = sp.csr_matrix(np.where(rng.random(X.shape) < 0.1, X, 0).astype(precision))
        self.plane = Expansion(RBF(X[:2000], 0.02), np.arange(2000), rng.standard_normal(2000))
        self.points = X[2000:]
        self.plane(self.points[:1000])

    def time_decision(self, storage: str, precision: str) -> None:
        self.plane(self.points)


class Path:
    """Seconds of ten solves along C."""

    def setup(self) -> None:
        X, y = synthetic(2000, 20)
        self.problem = HingeDual(RBF(X, 0.01), y)
        self.time_path()

    def time_path(self) -> None:
        qpsvm.solve_path(self.problem, "C", np.geomspace(0.1, 10, 10))
