"""Many solves or paths in one process: what it holds stays flat. ``python -m tests.fuzz.soak``.

A fixed set of small random problems is declared and solved again and again, by `auto` and by methods
that fit. After the first third, which compiles and fills caches, nothing may grow.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import qpsvm
from tests.fuzz.campaign import handed_over, method_of
from tests.fuzz.random_problems.generator import problems_of_seed

N_PROBLEMS = 150
"""Number of problems that are solved in turn."""

LARGEST_POINTS = 60
"""Largest number of points of a problem."""

MAX_ITERATIONS = 300
"""Iterations of a solve, so that each takes milliseconds."""

GROWTH_BYTES = 4 << 20
"""Growth of the resident memory after the first third that counts as none."""


class Resources(NamedTuple):
    """What the process holds."""

    resident_bytes: int
    threads: int
    files: int


def held() -> Resources:
    """Return what this process holds, as Linux shows it."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[1])
    return Resources(
        pages * os.sysconf("SC_PAGE_SIZE"),
        len(os.listdir("/proc/self/task")),
        len(os.listdir("/proc/self/fd")),
    )


def soak(n_solves: int, seed: int, n_records: int = 12) -> list[Resources]:
    """Solve `n_solves` times; return what was held at `n_records` times."""
    problems = list(problems_of_seed(N_PROBLEMS, seed, LARGEST_POINTS))

    def solve(k: int) -> None:
        problem = problems[k % N_PROBLEMS]
        try:
            declared, _ = handed_over(problem)
            method = method_of(problem.method, qpsvm.methods(declared))
            qpsvm.solve(declared, method, tol=problem.tol, max_iter=MAX_ITERATIONS)
        except qpsvm.InputError:
            pass

    return repeated(solve, n_solves, n_records)


def soak_paths(n_paths: int, seed: int, n_records: int = 12) -> list[Resources]:
    """Solve `n_paths` paths of penalties and of gammas; return what was held at `n_records` times."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((LARGEST_POINTS, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    values = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.1, 0.3, 1.0]}

    def solve(k: int) -> None:
        kind = (qpsvm.HingeDual, qpsvm.L2SVMDual)[k % 2]
        name = ("C", "gamma")[k // 2 % 2]
        qpsvm.solve_path(kind(qpsvm.RBF(X, 0.5), y), name, values[name], tol=1e-4)

    return repeated(solve, n_paths, n_records)


def repeated(solve: Callable[[int], None], n_times: int, n_records: int) -> list[Resources]:
    """Call ``solve(k)`` for each k; return what was held at `n_records` times."""
    records: list[Resources] = []
    for k in range(n_times):
        solve(k)
        if (k + 1) * n_records // n_times > len(records):
            records.append(held())
    return records


def grown(records: list[Resources]) -> list[str]:
    """Return what grew after the first third of the records."""
    first, last = records[len(records) // 3], records[-1]
    return [
        f"{name} from {before:,} to {after:,}"
        for name, before, after, allowed in zip(
            Resources._fields, first, last, (GROWTH_BYTES, 0, 0), strict=True
        )
        if after > before + allowed
    ]


def main() -> int:
    """Solve, print what is held, and return 1 where it grows."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soak", description=__doc__)
    parser.add_argument("--solves", type=int, default=10_000)
    parser.add_argument("--paths", type=int, default=0, help="paths in place of single solves")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("error")
    begun = time.monotonic()
    n = options.paths or options.solves
    records = (soak_paths if options.paths else soak)(n, options.seed)
    for record in records:
        print(
            f"{record.resident_bytes / 2**20:.1f} MiB, {record.threads} threads, {record.files} files"
        )
    found = grown(records)
    print(
        f"{n} {'paths' if options.paths else 'solves'} in {time.monotonic() - begun:.0f} s; "
        + ("; ".join(found) or "flat")
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
