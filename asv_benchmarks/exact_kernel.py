"""Exact kernel SVMs beside what a user can install: seconds, certified gap, peak memory.

Every run has a process of its own, so that its memory is its own and no library finds what another
one has warmed up. Data are read once and kept as arrays in the folder `CACHE_FOLDER`::

    python -m asv_benchmarks.exact_kernel prepare                 # once; minutes
    python -m asv_benchmarks.exact_kernel measure a9a >> rows.jsonl
    python -m docs.benchmarks.make.exact_kernel rows.jsonl > docs/benchmarks/exact_kernel.md

LibCVM is a program, not a package: its `svm-train` is run where the variable LIBCVM names it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import qpsvm
from asv_benchmarks import real_data
from qpsvm import RBF, HingeDual, L2SVMDual, threads

PROJECT_ROOT = Path(__file__).resolve().parents[1]
CACHE_FOLDER = Path(tempfile.gettempdir()) / "qpsvm_exact_kernel"
TIME_LIMIT = 60.0
"""Seconds that we get."""

PEER_TIME_LIMIT = 420.0
"""Seconds that a peer gets."""

LARGE_SET_POINTS = 2_000
"""Points beyond which a set counts in the medians."""

LONG_CALL_SECONDS = 10.0
"""Seconds of a first call that is not repeated."""

DATA_SETS = {  # C, gamma, what it is
    "a9a": (1.0, 0.05, "adult"),
    "w8a": (10.0, 0.05, "web"),
    "mnist-3-8": (10.0, 0.02, "digits 3 against 8, divided by 255"),
    "mnist-odd": (10.0, 0.02, "the first 20,000 digits, odd against even, divided by 255"),
    "covtype": (
        1.0,
        0.05,
        "100,000 points drawn with seed 0, class 2 against the rest, standardized",
    ),
    "mc20k": (1.0, 0.02, "20,000 x 50, make_classification"),
    "gauss200k": (1.0, 0.05, "200,000 x 20, two normal clouds"),
    "letter": (10.0, 1.0, "A-M against N-Z, as distributed"),
    "shuttle": (10.0, 0.5, "class 1 against the rest, standardized"),
    "digits": (10.0, 0.05, "scikit-learn's digits, below 5 against the rest, divided by 16"),
    "breast-cancer": (1.0, 1 / 30, "scikit-learn's breast cancer, standardized"),
    "mc10k": (1.0, 0.02, "10,000 x 50, make_classification"),
    "digits, C = 1000": (1000.0, 0.05, "the same digits"),
    "breast-cancer, C = 1000": (1000.0, 1 / 30, "the same points"),
    "mc1k": (1000.0, 0.05, "1,000 x 20, make_classification, a tenth of the labels flipped"),
}
CLASSIFICATION_OPTIONS = {"n_features": 50, "n_informative": 20, "n_redundant": 10, "flip_y": 0.01}
MADE_CLASSIFICATIONS = {  # by scikit-learn's make_classification
    "mc20k": {"n_samples": 20_000, **CLASSIFICATION_OPTIONS},
    "mc10k": {"n_samples": 10_000, **CLASSIFICATION_OPTIONS},
    "mc1k": {"n_samples": 1_000, "n_features": 20, "n_informative": 10, "flip_y": 0.1},
}
PROGRAM_NAMES = (
    "qpsvm", "qpsvm 1e-6", "qpsvm one thread", "sklearnex", "SVC", "L2-SVM", "L2-SVM cvm", "LibCVM",
)  # fmt: skip


def make(name: str) -> tuple[Any, Any]:
    """Return dense points in double precision and labels -1 and +1."""
    if name in MADE_CLASSIFICATIONS or name == "gauss200k":
        return _synthetic(name)
    if name in ("digits", "breast-cancer"):
        return _shipped(name)
    X, y = real_data.load({"mnist-3-8": "mnist", "mnist-odd": "mnist", "letter": "letter.scale"}
                          .get(name, name))  # fmt: skip
    X = X.toarray().astype(np.float64)
    if name == "mnist-3-8":
        some = (y == 3) | (y == 8)
        return X[some] / 255, np.where(y[some] == 3, 1.0, -1.0)
    if name == "mnist-odd":
        return X[:20_000] / 255, np.where(y[:20_000] % 2 == 1, 1.0, -1.0)
    if name == "covtype":
        some = np.random.default_rng(0).permutation(len(y))[:100_000]
        return _standardized(X[some]), np.where(y[some] == 2, 1.0, -1.0)
    if name == "shuttle":
        return _standardized(X), np.where(y == 1, 1.0, -1.0)
    if name == "letter":
        return X, np.where(y <= 13, 1.0, -1.0)
    return X, np.where(y > 0, 1.0, -1.0)


def _synthetic(name: str) -> tuple[Any, Any]:
    if name in MADE_CLASSIFICATIONS:
        from sklearn.datasets import make_classification

        X, y = make_classification(
            **MADE_CLASSIFICATIONS[name], n_clusters_per_class=4, random_state=0
        )
        return _standardized(X), np.where(y > 0, 1.0, -1.0)
    rng = np.random.default_rng(12345)
    y = np.where(rng.random(200_000) < 0.5, 1.0, -1.0)
    X = rng.standard_normal((200_000, 20))
    X[:, :5] += y[:, None] * 2 / np.sqrt(5)
    return X, y


def _shipped(name: str) -> tuple[Any, Any]:
    from sklearn.datasets import load_breast_cancer, load_digits

    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16, np.where(y < 5, 1.0, -1.0)
    X, y = load_breast_cancer(return_X_y=True)
    return _standardized(X), np.where(y > 0, 1.0, -1.0)


def _standardized(X: Any) -> Any:
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def load(name: str) -> tuple[Any, Any]:
    """Return the arrays of a set, from the cache if they are there."""
    name = name.partition(",")[0]
    path = CACHE_FOLDER / f"{name}.npz"
    if not path.exists():
        CACHE_FOLDER.mkdir(exist_ok=True)
        X, y = make(name)
        np.savez(path, X=X, y=y)
    with np.load(path) as stored:
        return stored["X"], stored["y"]


def run(name: str, who: str) -> dict[str, Any]:
    """Return the row of one run in this process: the median of a few calls, if they are short."""
    X, y = load(name)
    C, gamma, _ = DATA_SETS[name]
    some = np.random.default_rng(0).permutation(len(y))[:2200]
    row: dict[str, Any] = {"set": name, "m": len(y), "d": X.shape[1], "who": who}
    if who == "LibCVM":
        return row | libcvm(X, y, C, gamma)
    if who in ("SVC", "sklearnex"):
        try:
            if who == "SVC":
                from sklearn.svm import SVC
            else:
                from sklearnex.svm import SVC
        except ImportError:
            return {**row, "note": "not installed"}

        def fit(X: Any, y: Any) -> Any:
            return SVC(C=C, gamma=gamma, cache_size=2000).fit(X, y)

        fit(X[some], y[some])
        model, seconds = _timed(lambda: fit(X, y))
        row |= {"seconds": seconds, "peak": _peak()}
        a = np.zeros(len(y))
        a[model.support_] = np.abs(np.asarray(model.dual_coef_).ravel())
        result = qpsvm.solve(HingeDual(RBF(X, gamma), y, C), "smo", x0=a, max_iter=0)
    else:
        kind, tol = (
            (HingeDual if who.startswith("qpsvm") else L2SVMDual),
            1e-6 if "1e-6" in who else 1e-3,
        )
        method = "cvm" if who.endswith("cvm") else "auto"
        qpsvm.solve(kind(RBF(X[some], gamma), y[some], C), method, tol=tol)
        with threads.limit(1) if "one thread" in who else nullcontext():
            result, seconds = _timed(
                lambda: qpsvm.solve(
                    kind(RBF(X, gamma), y, C), method, tol=tol, time_limit=TIME_LIMIT
                )
            )
        row |= {"seconds": seconds, "peak": _peak(), "certify": result.timings["certify"]}
        row |= {"columns": result.counters["columns"], "method": result.method}
        if not result.converged:
            row["note"] = result.status.name
        if who == "qpsvm":
            row["floor"] = floor(X, gamma, result.support)
    return row | {"gap": result.certificate.relative_gap, "support": len(result.support)}


def libcvm(X: Any, y: Any, C: float, gamma: float) -> dict[str, Any]:
    """Return the seconds that LibCVM says it took, and the gap of its weights by our certificate."""
    program = os.environ.get("LIBCVM")
    if program is None:
        return {"note": "not installed"}
    rows = [" ".join(f"{k + 1}:{x[k]:.8g}" for k in np.flatnonzero(x)) for x in X]
    twins: dict[tuple[str, bool], list[int]] = {}  # it writes its support as points, not as indices
    for i, text in enumerate(rows):
        twins.setdefault((text, bool(y[i] > 0)), []).append(i)
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "data"), Path(folder, "model")
        data.write_text("".join(f"{int(b)} {text}\n" for b, text in zip(y, rows, strict=True)))
        given = ["-s", "6", "-t", "2", "-g", repr(gamma), "-c", repr(C), "-m", "2000"]
        said = subprocess.run(
            [program, *given, str(data), str(model)], capture_output=True, text=True, check=True
        ).stdout
        header, _, support = model.read_text().partition("\nSV")
    row = {"peak": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}
    row["seconds"] = float(re.findall(r"CPU Time\s*=\s*([\d.e+-]+)", said)[-1])
    first = float(re.findall(r"label\s+(\S+)", header)[0])  # whose weights are written positive
    a = np.zeros(len(y))
    for line in support.splitlines():
        weight, _, text = line.strip().partition(" ")
        if ":" not in text:
            continue
        copies = twins[text.strip(), bool(float(weight) * first > 0)]
        a[copies.pop() if len(copies) > 1 else copies[0]] += abs(float(weight))
    judged = qpsvm.solve(L2SVMDual(RBF(X, gamma), y, C), "smo", x0=a / a.sum(), max_iter=0)
    return row | {"gap": judged.certificate.relative_gap, "support": int(np.count_nonzero(a))}


def floor(X: Any, gamma: float, support: Any) -> float:
    """Return the seconds of the support's columns by float32 products and np.exp, and no more."""
    X = X.astype(np.float32)
    out = np.empty((512, len(X)), np.float32)
    np.matmul(X[support[:512]], X.T, out=out[: len(support[:512])])
    begun = time.perf_counter()
    for start in range(0, len(support), 512):
        part = X[support[start : start + 512]]
        K = np.matmul(part, X.T, out=out[: len(part)])
        np.multiply(K, np.float32(2 * gamma), out=K)
        np.exp(K, out=K)
    return time.perf_counter() - begun


def _timed(call: Any) -> tuple[Any, float]:
    """Return what a call returns and its median seconds: of fifteen short calls, of three others."""
    seconds: list[float] = []
    while not seconds or (
        len(seconds) < (15 if seconds[0] < 0.1 else 3) and seconds[0] < LONG_CALL_SECONDS
    ):
        begun = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begun)
    return result, statistics.median(seconds)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, whos: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for everyone, each from a process of its own."""
    for who in whos:
        call = [sys.executable, "-m", "asv_benchmarks.exact_kernel", "one", name, who]
        try:
            said = subprocess.run(
                call,
                capture_output=True,
                text=True,
                check=True,
                timeout=PEER_TIME_LIMIT,
                cwd=PROJECT_ROOT,
            ).stdout
            yield json.loads(said.splitlines()[-1])
        except subprocess.TimeoutExpired:
            yield {"set": name, "who": who, "note": f"not done in {PEER_TIME_LIMIT:g} s"}
        except subprocess.CalledProcessError as failure:
            yield {"set": name, "who": who, "note": failure.stderr.strip().splitlines()[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("prepare", "measure", "one"))
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.what == "prepare":
        for name in given.names or DATA_SETS:
            load(name)
    elif given.what == "measure":
        name, *whos = given.names
        for one in measure(name, whos or list(PROGRAM_NAMES)):
            print(json.dumps(one), flush=True)
    else:
        print(json.dumps(run(*given.names)))


if __name__ == "__main__":
    main()
