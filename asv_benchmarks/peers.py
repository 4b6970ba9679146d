"""Our methods beside LIBSVM (through scikit-learn's SVC), on data sets of growing size.

Rows for `asv_benchmarks.tables`; the data come from the folder in QPSVM_DATA.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import qpsvm
from asv_benchmarks import real_data
from qpsvm import RBF, HingeDual, L2SVMDual

C = 10.0
GAMMA = "mean-distance"
SMALL = ("a1a", "a4a", "w1a", "w4a")  # by every method
LARGE = ("w8a", "a9a")  # by the one that suits them
L2_METHODS = ("fw", "mfw", "pfw", "bpfw", "smo", "decomposition", "cvm")
HINGE_METHODS = ("smo", "decomposition")


class Row(NamedTuple):
    """One run: what ran, how near it came, how well it predicts, how long it took."""

    data: str
    m: int
    problem: str
    method: str
    gap: str
    support: int
    accuracy: float
    seconds: float


def runs(tol: float, time_limit: float) -> Iterator[Row]:
    """Yield the L2-SVM by our methods, and the L1-hinge SVM by ours and by LIBSVM."""
    for name in (*SMALL, *LARGE):
        X, y = _load(name)
        points, labels = _load(f"{name}.t", X.shape[1])
        kernel = RBF(X, gamma=GAMMA)
        for declare, methods in ((L2SVMDual, L2_METHODS), (HingeDual, HINGE_METHODS)):
            for method in methods if name in SMALL else ("decomposition",):
                qpsvm.solve(declare(RBF(X[:400], gamma=0.1), y[:400], C), method, max_iter=50)
                begun = time.perf_counter()
                r = qpsvm.solve(
                    declare(kernel, y, C), method, tol=tol, time_limit=time_limit, max_iter=10**9
                )
                seconds = time.perf_counter() - begun
                gap = f"{r.certificate.relative_gap:.1e}"
                gap += "" if r.converged else f" {r.status.name}"
                right = float(np.mean(r.model.predict(points) == labels))
                kind = declare.__name__.removesuffix("Dual")
                yield Row(name, len(y), kind, method, gap, len(r.support), right, seconds)
        yield _libsvm(name, X, y, points, labels, kernel)


def _libsvm(name: str, X: Any, y: Any, points: Any, labels: Any, kernel: RBF) -> Row:
    """Return LIBSVM's run at its default tolerance, its answer judged by our certificate."""
    from sklearn.svm import SVC

    begun = time.perf_counter()
    model = SVC(C=C, gamma=kernel.gamma, cache_size=2000).fit(X.astype(np.float64), y)
    seconds = time.perf_counter() - begun
    a = np.zeros(len(y))
    a[model.support_] = np.abs(model.dual_coef_.ravel())
    judged = qpsvm.solve(HingeDual(kernel, y, C), "smo", x0=a, max_iter=0)
    right = float(np.mean(model.predict(points.astype(np.float64)) == labels))
    gap = f"{judged.certificate.relative_gap:.1e}"
    return Row(name, len(y), "Hinge", "SVC", gap, len(model.support_), right, seconds)


def _load(name: str, n_features: int | None = None) -> Any:
    """Return dense points in single precision and labels; a test set gets the features asked for."""
    X, y = real_data.load(name)
    if n_features is not None:
        X.resize(X.shape[0], n_features)
    return X.toarray(), np.where(y > 0, 1.0, -1.0)
