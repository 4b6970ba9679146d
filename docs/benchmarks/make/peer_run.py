"""One run of scikit-learn's or scikit-learn-intelex's SVC, in a Python that need not have this package.

    python peer_run.py fit SVC data.npz C gamma
    python peer_run.py search sklearnex data.npz n_jobs
    python peer_run.py sparse sklearnex data.npz kernel tol

The file holds X, y, Z, z (training and test points and classes) for `fit`, and X, y, Cs, gammas for
`search`. For `sparse` it holds data, indices, indptr, shape and y; the dual weights go to a file beside
it. The answer is a line of JSON: seconds, accuracy, peak memory in MB, versions.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

CACHE_MEGABYTES = 2000
"""Memory for kernel columns that a peer gets."""

LONG_SECONDS = 10.0
"""Seconds of a first call that is not repeated."""

N_RUNS = 3
"""Runs of a short call, of which the median counts."""

WARM_POINTS = 1000
"""Points of the fit before those that are timed."""


def timed(call: Any) -> tuple[Any, float]:
    """Return what a call returns, and the median of its seconds."""
    seconds: list[float] = []
    while not seconds or (len(seconds) < N_RUNS and seconds[0] < LONG_SECONDS):
        begun = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begun)
    return result, statistics.median(seconds)


def peak() -> float:
    """Return the greatest resident memory of this process so far, in MB."""
    try:  # getrusage begins with the memory of the process that started this one
        found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    except OSError:
        found = None
    return int(found[1] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def some_rows(n_points: int) -> Any:
    """Return rows for a first, untimed fit: the same for all libraries."""
    return np.random.default_rng(0).permutation(n_points)[:WARM_POINTS]


def measure_fit(make: Any, data: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the fitted estimator and the figures of fit and prediction."""
    X, y, some = data["X"], data["y"], some_rows(len(data["y"]))
    make().fit(X[some], y[some]).predict(data["Z"][:100])
    model, seconds = timed(lambda: make().fit(X, y))
    after = peak()
    predicted, prediction = timed(lambda: model.predict(data["Z"]))
    return model, {
        "fit": seconds, "predict": prediction, "peak": after,
        "accuracy": float(np.mean(predicted == data["z"])),
        "support": int(np.sum(np.asarray(model.n_support_))),
    }  # fmt: skip


SPARSE_KERNELS: dict[str, dict[str, Any]] = {
    "rbf": {"kernel": "rbf", "gamma": 1.0},
    "linear": {"kernel": "linear"},
    "quadratic": {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0},
}
"""Kernels of the fits to CSR points."""


def measure_sparse(make: Any, path: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of fits to CSR points; write the weights and the bias."""
    import scipy.sparse as sp

    X, y = sp.csr_matrix((data["data"], data["indices"], data["indptr"]), data["shape"]), data["y"]
    some = some_rows(len(y))
    make().fit(X[some], y[some])
    seconds: list[float] = []
    while not seconds or (len(seconds) < N_RUNS and seconds[0] < LONG_SECONDS):
        begun = time.perf_counter()
        model = make().fit(X, y)
        seconds.append(time.perf_counter() - begun)
    x, coef = np.zeros(len(y)), model.dual_coef_
    x[model.support_] = np.abs(coef.toarray() if sp.issparse(coef) else coef).ravel()
    np.save(f"{path}.weights.npy", x)
    return {
        "fit": statistics.median(seconds), "least": min(seconds), "most": max(seconds),
        "support": int(np.sum(np.asarray(model.n_support_))), "peak": peak(),
    }  # fmt: skip


def main() -> None:
    what, who, path, *rest = sys.argv[1:]
    packages = ["scikit-learn"]
    if who == "sklearnex":
        from sklearnex import patch_sklearn

        patch_sklearn(verbose=False)
        packages.append("scikit-learn-intelex")
    from sklearn.svm import SVC

    with np.load(path) as stored:
        data = dict(stored)
    if what == "fit":
        C, gamma = map(float, rest)
        row = measure_fit(lambda: SVC(C=C, gamma=gamma, cache_size=CACHE_MEGABYTES), data)[1]
    elif what == "sparse":
        given = SPARSE_KERNELS[rest[0]] | {"tol": float(rest[1]), "cache_size": CACHE_MEGABYTES}
        row = measure_sparse(lambda: SVC(C=1.0, **given), path, data)
    else:
        from sklearn.model_selection import GridSearchCV

        grid = {"C": data["Cs"].tolist(), "gamma": data["gammas"].tolist()}
        X, y, some = data["X"], data["y"], some_rows(len(data["y"]))
        SVC(gamma=float(data["gammas"][0])).fit(X[some], y[some])
        kind = SVC(cache_size=CACHE_MEGABYTES)
        found, seconds = timed(lambda: GridSearchCV(kind, grid, n_jobs=int(rest[0])).fit(X, y))
        row = {
            "seconds": seconds, "score": found.best_score_, **found.best_params_
        }  # fmt: skip
    row["versions"] = {name: importlib.metadata.version(name) for name in packages}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
