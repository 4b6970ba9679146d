"""The page of kernels on CSR points: ours beside SVC and scikit-learn-intelex, at equal certified gap.

    python -m docs.make.sparse > docs/benchmarks/sparse.md
    python -m docs.make.sparse --sets reuters --kernels rbf
    python -m docs.make.sparse --rows rows.json > docs/benchmarks/sparse.md   # no new runs

The rows go to the error stream too, one JSON object a line: `--rows` reads such a file. QPSVM_DATA names
the folder of the data, QPSVM_PEER_PYTHON a Python with scikit-learn-intelex.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import qpsvm
from docs.benchmarks.make import peer_run
from docs.benchmarks.make.multi_class import PEER_SCRIPT, answer
from docs.benchmarks.make.pages import head, row
from qpsvm.data import load_libsvm

DATA_SETS = ("reuters", "zipf-10k", "zipf-1M", "a9a", "w8a")
"""Sets of CSR points, chosen before they were measured."""

N_ZIPF_POINTS, N_ZIPF_WORDS = 20_000, 60
"""Number of points of the random texts, and number of words of each."""

TOL = 1e-3
"""Certified relative gap."""

PEER_TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)
"""Tolerances of a peer: the loosest whose answer our certificate proves to be within `TOL` counts."""

PROGRAM_NAMES = ("sklearnex", "SVC")
"""Peers, as `PEER_SCRIPT` names them."""

PAGE_TEXT = f"""\
L1-hinge machines with bias, C = 1, on CSR points: the RBF kernel with gamma = 1, the linear kernel, and
the quadratic kernel (x'z + 1)^2. A peer's time is that of the loosest `tol` of
{PEER_TOLERANCES} for which our certificate proves its answer to be within a
relative gap of {TOL:g}, which is our own tolerance; where none is, the gap that it reached is shown.
Peers have 2,000 MB of cache, and an untimed fit before. Seconds are the median of three calls, or one of
10 s and more. `certify` is the part of ours that the certificates take.

reuters, a9a and w8a are LIBSVM's. zipf-10k and zipf-1M are {N_ZIPF_POINTS:,} random texts of
{N_ZIPF_WORDS} words, each of rank k with a probability in proportion to 1/k, of 10,000 and 1,000,000:
(1 + log count) log(m / df), normalized; classes by the median of a random linear function, whose values
are disturbed by 0.3 of their deviation."""


def zipf(d: int) -> tuple[Any, Any]:
    """Return random texts over d words, and their classes."""
    rng, m = np.random.default_rng(0), N_ZIPF_POINTS
    share = np.cumsum(1.0 / np.arange(1, d + 1))
    words = np.searchsorted(share / share[-1], rng.random((m, N_ZIPF_WORDS))).clip(0, d - 1)
    ends = N_ZIPF_WORDS * np.arange(m + 1)
    X = sp.csr_matrix((np.ones(words.size), words.ravel(), ends), (m, d))
    X.sum_duplicates()
    frequency = np.bincount(X.indices, minlength=d)
    X.data = (1.0 + np.log(X.data)) * np.log(m / np.maximum(1, frequency))[X.indices]
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.csr_matrix(sp.diags(1.0 / np.where(norms > 0, norms, 1.0)) @ X)
    score = X @ rng.standard_normal(d)
    score += 0.3 * np.std(score) * rng.standard_normal(m)
    return X, np.where(score > np.median(score), 1.0, -1.0)


def load(name: str) -> tuple[Any, Any]:
    """Return CSR points and classes."""
    if name.startswith("zipf"):
        return zipf({"zipf-10k": 10_000, "zipf-1M": 1_000_000}[name])
    X, y = load_libsvm(name)
    return sp.csr_matrix(X), np.where(y > 0, 1.0, -1.0)


def declared(X: Any, y: Any, kernel: str) -> Any:
    """Return the problem of a kernel."""
    makes: dict[str, Any] = {
        "rbf": lambda: qpsvm.RBF(X, 1.0),
        "linear": lambda: qpsvm.Linear(X),
        "quadratic": lambda: qpsvm.Polynomial(X, 2, 1.0, 1.0),
    }
    return qpsvm.HingeDual(makes[kernel](), y, 1.0)


def ours(X: Any, y: Any, kernel: str) -> dict[str, Any]:
    """Return our figures: seconds, support, certified gap, method."""
    some = np.random.default_rng(0).permutation(len(y))[:2200]
    qpsvm.solve(declared(X[some], y[some], kernel), tol=TOL)
    runs: list[tuple[float, Any]] = []
    while not runs or (len(runs) < peer_run.N_RUNS and runs[0][0] < peer_run.LONG_SECONDS):
        begun = time.perf_counter()
        result = qpsvm.solve(declared(X, y, kernel), tol=TOL)
        runs.append((time.perf_counter() - begun, result))
    seconds = [run[0] for run in runs]
    return {
        "fit": statistics.median(seconds), "least": min(seconds), "most": max(seconds),
        "support": len(result.support), "gap": result.certificate.relative_gap,
        "method": result.method,
        "certify": statistics.median([run[1].timings["certify"] for run in runs]),
    }  # fmt: skip


def peer(program: str, path: str, X: Any, y: Any, kernel: str) -> dict[str, Any]:
    """Return the figures of a peer at the loosest tolerance that is enough, or at the last one."""
    found: dict[str, Any] = {}
    for tol in PEER_TOLERANCES:
        call = [sys.executable, str(PEER_SCRIPT), "sparse", program, path, kernel, repr(tol)]
        found = answer(call, program)
        if "note" in found:
            return found
        x = np.load(f"{path}.weights.npy")
        certified = qpsvm.solve(declared(X, y, kernel), "smo", x0=x, max_iter=0)
        found |= {"tol": tol, "gap": certified.certificate.relative_gap}
        if found["gap"] <= TOL:
            break
    return found


def measure(name: str, kernel: str, peers: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a set and a kernel."""
    X, y = load(name)
    m, d = X.shape
    common = {"set": name, "m": m, "d": d, "entries": X.nnz / m, "kernel": kernel}
    yield common | {"who": "qpsvm"} | ours(X, y, kernel)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "data.npz"))
        np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
        for program in peers:
            yield common | {"who": program} | peer(program, path, X, y, kernel)


def page(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the page of the rows."""
    yield from head("sparse", "Kernels on sparse points", PAGE_TEXT, runs=1)
    versions = {k: v for r in rows for k, v in r.get("versions", {}).items()}
    yield f"\nPeers: {', '.join(f'{name} {at}' for name, at in sorted(versions.items()))}."
    yield ""
    yield row("data", "m", "d", "entries a row", "kernel", "who", "seconds", "certify", "gap",
              "support", "fastest peer / ours")  # fmt: skip
    yield row("---", "---:", "---:", "---:", "---", "---", *["---:"] * 5)
    for r in rows:
        cells = [
            r["set"],
            f"{r['m']:,}",
            f"{r['d']:,}",
            f"{r['entries']:.0f}",
            r["kernel"],
            r["who"],
        ]
        if "note" in r:
            yield row(*cells, r["note"], "", "", "", "")
            continue
        certify = f"{r['certify']:.3f}" if "certify" in r else ""
        ratio = ""
        if r["who"] == "qpsvm":
            key = r["set"], r["kernel"]
            peers = [p["fit"] for p in rows if (p["set"], p["kernel"]) == key
                     and p["who"] in PROGRAM_NAMES and p.get("gap", np.inf) <= TOL]  # fmt: skip
            ratio = f"{min(peers) / r['fit']:.2g}" if peers else ""
        yield row(*cells, f"{r['fit']:.3g}", certify, f"{r['gap']:.1e}", f"{r['support']:,}", ratio)


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description="Print the page of CSR points in Markdown.")
    parser.add_argument("--sets", nargs="+", choices=DATA_SETS, default=list(DATA_SETS))
    kernels = list(peer_run.SPARSE_KERNELS)
    parser.add_argument("--kernels", nargs="+", choices=kernels, default=kernels)
    parser.add_argument("--rows", type=Path, help="rows of earlier runs, instead of new ones")
    parser.add_argument("--peers", nargs="*", choices=PROGRAM_NAMES, default=list(PROGRAM_NAMES))
    given = parser.parse_args()
    if given.rows:
        rows = [json.loads(line) for line in given.rows.read_text().splitlines()]
        print(*page(rows), sep="\n")
        return
    rows = []
    for name in given.sets:
        for kernel in given.kernels:
            for found in measure(name, kernel, given.peers):
                print(json.dumps(found), file=sys.stderr, flush=True)
                rows.append(found)
    print(*page(rows), sep="\n")


if __name__ == "__main__":
    main()
