"""Rows for the page on large problems: one run in a process of its own, with its peak of memory.

For example, when nothing else runs on the machine::

    python -m docs.benchmarks.make.large dense ball mfw --limit 15
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import qpsvm
from docs.benchmarks.make.pages import row
from qpsvm import RBF, L2SVMDual, MEBDual

MATRIX_SHAPES = {"dense": (1_000_000, 50), "csr": (500_000, 8_000)}
ENTRIES_PER_ROW = 40  # entries of a row of the CSR matrix
MEMORY_LIMIT = 4 << 30
"""Bytes for cached columns."""


def points(kind: str) -> tuple[Any, Any]:
    """Return points in single precision and labels that a hyperplane nearly decides."""
    rng = np.random.default_rng(0)
    m, d = MATRIX_SHAPES[kind]
    if kind == "dense":
        X = rng.standard_normal((m, d), dtype=np.float32)
        return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(m, dtype=np.float32) > 0, 1.0, -1.0)
    where = np.sort(rng.integers(0, d, (m, ENTRIES_PER_ROW), dtype=np.int32), axis=1)
    rows = np.arange(0, m * ENTRIES_PER_ROW + 1, ENTRIES_PER_ROW)
    X = sp.csr_matrix(
        (rng.random(m * ENTRIES_PER_ROW, dtype=np.float32), where.ravel(), rows), (m, d)
    )
    X.sum_duplicates()
    score = X @ rng.standard_normal(d)
    return X, np.where(score > np.median(score), 1.0, -1.0)


def peak() -> float:
    """Return the most memory that the process had so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def run(kind: str, problem: str, method: str, limit: float) -> str:
    """Return a row of the table."""
    X, y = points(kind)
    K, before = RBF(X, gamma="mean-distance"), peak()
    some = RBF(X[:300], gamma=K.gamma)
    qpsvm.solve(L2SVMDual(some, np.where(np.arange(300) % 2, 1.0, -1.0)), method, max_iter=5)
    declared = MEBDual(K) if problem == "ball" else L2SVMDual(K, y, C=1.0)
    begun = time.perf_counter()
    r = qpsvm.solve(declared, method, time_limit=limit, memory_limit=MEMORY_LIMIT)
    seconds = time.perf_counter() - begun
    gap = f"{r.certificate.relative_gap:.1e}" + ("" if r.converged else f" {r.status.name}")
    counts = (r.n_iter, len(r.support), r.counters["columns"])
    return row(
        kind, problem, method, gap, *(f"{n:,}" for n in counts), f"{seconds:.1f}",
        f"{r.timings['certify']:.1f}", f"{before:.1f}", f"{peak():.1f}",
    )  # fmt: skip


def main() -> None:
    """Print the row of one run."""
    parser = argparse.ArgumentParser(description="Print a row of the page on large problems.")
    parser.add_argument("data", choices=MATRIX_SHAPES)
    parser.add_argument("problem", choices=("ball", "machine"))
    parser.add_argument("method")
    parser.add_argument("--limit", type=float, default=15.0, help="seconds of iterations")
    given = parser.parse_args()
    print(run(given.data, given.problem, given.method, given.limit))


if __name__ == "__main__":
    main()
