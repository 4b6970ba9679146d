"""One program on one cell of the grid, in a process of its own.

    python -m docs.make.grid_run data.npz "hinge rbf ..." SVC 30

It solves a small problem of the same kind, says so, and then reads orders from its input, a tolerance and
the greatest number of runs a line: `1e-2 9`. It answers each by a line of JSON. The weights go to a file
beside the data. A fit that takes longer than the limit of seconds is ended by an alarm, and the process
with it. The Python of a peer needs scikit-learn, and not this package.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from asv_benchmarks import grid
from asv_benchmarks.grid_cells import Cell

CACHE_MEGABYTES = 2000
"""Memory for kernel columns that a peer gets."""

WARM_POINTS = 2200
"""Points of the solve before those that are timed."""

MAX_WARM_POINTS_OF_A_PEER = 500
"""The same of a peer, which has nothing to compile."""

LONG_SECONDS, SHORT_SECONDS = 2.0, 0.1
"""Seconds from which a first call is not repeated, and below which it is repeated most often."""

FEWEST_RUNS = 3
"""Runs of a call of seconds between these."""

MOST_CALLS_WITH_COMPILATION = 2
"""Maximum number of calls that are not counted because machine code was compiled or loaded in them."""

HARD_MARGIN = 1e12
"""C of a machine without slack, which has the ridge in its matrix."""


def save(path: str, data: grid.Data) -> None:
    """Write the data of a cell."""
    arrays: dict[str, Any] = {"y": data.y, "gamma": data.gamma}
    if sp.issparse(data.X):
        arrays |= {key: getattr(data.X, key) for key in ("data", "indices", "indptr", "shape")}
    else:
        arrays["X"] = data.X
    if data.K is not None:
        arrays["K"] = data.K
    np.savez(path, **arrays)


def load(path: str) -> grid.Data:
    """Return the data of a cell."""
    with np.load(path) as stored:
        a = dict(stored)
    sparse = "indptr" in a
    X = sp.csr_matrix((a["data"], a["indices"], a["indptr"]), a["shape"]) if sparse else a["X"]
    return grid.Data(X, a["y"], float(a["gamma"]), a.get("K"))


def answer_file(path: Any, who: str, tol: float | None = None) -> Path:
    """Return the file of the weights of a program, of the last run or of the one that counts."""
    return Path(f"{path}.{who.replace('/', ' by ')}{'' if tol is None else f'.{tol:g}'}.npy")


def ours(cell: Cell, data: grid.Data, tol: float) -> Any:
    """Return our answer."""
    import qpsvm

    return qpsvm.solve(grid.declare(cell, data), tol=tol)


def kernel_of(cell: Cell, data: grid.Data) -> dict[str, Any]:
    """Return the arguments of scikit-learn that name the kernel of a cell."""
    if cell.kernel == "laplacian":
        from sklearn.metrics.pairwise import laplacian_kernel

        return {"kernel": lambda A, B: laplacian_kernel(A, B, gamma=data.gamma)}
    if cell.kernel == "custom":
        return {"kernel": grid.rational(data.gamma)}
    if cell.kernel in ("poly2", "poly3"):
        return {"kernel": "poly", "degree": int(cell.kernel[-1]), "gamma": data.gamma, "coef0": 1.0}
    return {"kernel": cell.kernel, "gamma": data.gamma}


def matrix(cell: Cell, data: grid.Data) -> Any:
    """Return the kernel matrix as a user of scikit-learn computes it."""
    from sklearn.metrics import pairwise

    X, gamma = data.X, data.gamma
    if cell.kernel == "precomputed":
        return data.K.astype(np.float64)
    if cell.kernel == "custom":
        return grid.rational(gamma)(X, X)
    given: dict[str, Any] = {} if cell.kernel == "linear" else {"gamma": gamma}
    if cell.kernel in ("poly2", "poly3"):
        given |= {"degree": int(cell.kernel[-1]), "coef0": 1.0}
    name = "poly" if cell.kernel.startswith("poly") else cell.kernel
    if name == "sigmoid":
        given["coef0"] = 0.0
    K = pairwise.pairwise_kernels(X, metric=name, **given)
    return np.asarray(K.toarray() if sp.issparse(K) else K, dtype=np.float64)


def fit(who: str, cell: Cell, data: grid.Data, tol: float) -> Any:
    """Return the fitted machine of a peer."""
    if who == "Clarabel":
        from docs.make.grid_clarabel import solve

        return solve(cell, data, tol, matrix)
    from sklearn import svm

    y, m = data.y, len(data.y)
    points = data.K if cell.kernel == "precomputed" else data.X
    given = {"tol": tol, "cache_size": CACHE_MEGABYTES}
    if who.startswith("LinearSVC"):
        hinge = cell.formulation == "hinge"
        return svm.LinearSVC(
            loss="hinge" if hinge else "squared_hinge", C=cell.C if hinge else cell.C / 2.0, tol=tol,
            fit_intercept=not hinge, dual=not who.endswith("primal"), max_iter=10**9,
        ).fit(data.X, y)  # fmt: skip
    if who == "OneClassSVM of Q":
        Q = matrix(cell, data)
        Q += 1.0
        Q *= y
        Q *= y[:, None]
        Q[np.diag_indices(m)] += 1.0 / cell.C
        return svm.OneClassSVM(kernel="precomputed", nu=1.0 / m, **given).fit(Q)
    if who == "SVC of K + I/C":
        K = matrix(cell, data)
        K[np.diag_indices(m)] += 1.0 / cell.C
        return svm.SVC(kernel="precomputed", C=HARD_MARGIN, **given).fit(K, y)
    if who.startswith("OneClassSVM"):
        nu = 1.0 / m if cell.formulation == "ball" else max(cell.support / 100, 1.0 / m)
        return svm.OneClassSVM(nu=nu, **kernel_of(cell, data), **given).fit(points)
    return svm.SVC(C=cell.C, **kernel_of(cell, data), **given).fit(points, y)


def weights(who: str, cell: Cell, data: grid.Data, model: Any) -> Any:
    """Return the dual weights of an answer; of LinearSVC, w and b."""
    if who == "qpsvm":
        return model.x
    if who == "Clarabel":
        return model
    if who.startswith("LinearSVC"):
        return np.append(model.coef_.ravel(), model.intercept_)
    x, coef = np.zeros(len(data.y)), model.dual_coef_
    x[model.support_] = np.abs(coef.toarray() if sp.issparse(coef) else coef).ravel()
    return x / x.sum() if who.startswith("OneClassSVM") else x


def peak() -> float:
    """Return the greatest resident memory since it was forgotten, in MB."""
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def once(call: Any) -> tuple[Any, float]:
    """Return what a call returns, and its seconds."""
    begun = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begun


def without_compilation(call: Any) -> tuple[Any, float]:
    """Return the same of the first call, of a few, in which numba neither compiled nor loaded code."""
    from numba.core.event import TimingListener, install_listener

    for _ in range(MOST_CALLS_WITH_COMPILATION + 1):
        with install_listener("numba:compiler_lock", TimingListener()) as clock:
            found = once(call)
        if not clock.done:
            break
    return found


def timed(call: Any, limit: float, most: int, measure: Any) -> tuple[Any, dict[str, Any]]:
    """Return what a call returns, its seconds, and the greatest memory of the first one."""
    seconds: list[float] = []
    memory = 0.0
    while True:
        signal.setitimer(signal.ITIMER_REAL, limit)
        result, took = measure(call)
        seconds.append(took)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        memory = memory or peak()
        wanted = 1 if seconds[0] >= LONG_SECONDS else FEWEST_RUNS
        if len(seconds) >= min(most, most if seconds[0] < SHORT_SECONDS else wanted):
            break
    return result, {
        "seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds),
        "runs": len(seconds), "peak": memory,
    }  # fmt: skip


def few(cell: Cell, data: grid.Data, n_points: int) -> tuple[Cell, grid.Data]:
    """Return a small problem of the same kind."""
    some = np.random.default_rng(0).permutation(len(data.y))[:n_points]
    K = None if data.K is None else np.ascontiguousarray(data.K[np.ix_(some, some)])
    return cell._replace(m=len(some)), grid.Data(data.X[some], data.y[some], data.gamma, K)


def main() -> None:
    path, name, who, limit = sys.argv[1:]
    cell, data = grid.cells()[name][0], load(path)
    packages = ["qpsvm"] if who == "qpsvm" else ["scikit-learn"]
    if who.startswith("sklearnex"):
        from sklearnex import patch_sklearn

        patch_sklearn(verbose=False)
        packages.append("scikit-learn-intelex")
    if who == "Clarabel":
        packages = ["clarabel"]
    warm = few(cell, data, WARM_POINTS if who == "qpsvm" else MAX_WARM_POINTS_OF_A_PEER)
    if who == "qpsvm":
        ours(*warm, tol=1e-3)
    elif len(np.unique(warm[1].y)) == 2:
        signal.setitimer(signal.ITIMER_REAL, float(limit))
        fit(who, *warm, tol=1e-2)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    versions = {package: importlib.metadata.version(package) for package in packages}
    print(json.dumps({"versions": versions}), flush=True)
    for line in sys.stdin:
        tol, most = float(line.split()[0]), int(line.split()[1])
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            pass

        def call(tol: float = tol) -> Any:
            return ours(cell, data, tol) if who == "qpsvm" else fit(who, cell, data, tol)

        if who == "qpsvm":
            seconds = (1 + MOST_CALLS_WITH_COMPILATION) * float(limit)
            model, row = timed(call, seconds, most, without_compilation)
        else:
            model, row = timed(call, float(limit), most, once)
        x = weights(who, cell, data, model)
        np.save(answer_file(path, who), x)
        if who == "qpsvm":
            c = model.certificate
            row |= {
                "method": model.method, "status": model.status.name, "gap": c.relative_gap,
                "upper": c.upper, "lower": c.lower, "support": len(model.support),
                "timings": {k: round(v, 5) for k, v in model.timings.items()},
                "n_iter": model.n_iter,
            }  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
