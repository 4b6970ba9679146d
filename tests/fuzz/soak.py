"""Many solves in one process: memory, threads and files stay flat. ``python -m tests.fuzz.soak``.

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
from typing import NamedTuple

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
    problems, records = list(problems_of_seed(N_PROBLEMS, seed, LARGEST_POINTS)), []
    for k in range(n_solves):
        problem = problems[k % N_PROBLEMS]
        try:
            declared, _ = handed_over(problem)
            method = method_of(problem.method, qpsvm.methods(declared))
            qpsvm.solve(declared, method, tol=problem.tol, max_iter=MAX_ITERATIONS)
        except qpsvm.InputError:
            pass
        if (k + 1) * n_records // n_solves > len(records):
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
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("error")
    begun = time.monotonic()
    records = soak(options.solves, options.seed)
    for record in records:
        print(
            f"{record.resident_bytes / 2**20:.1f} MiB, {record.threads} threads, {record.files} files"
        )
    found = grown(records)
    print(
        f"{options.solves} solves in {time.monotonic() - begun:.0f} s; "
        + ("; ".join(found) or "flat")
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
