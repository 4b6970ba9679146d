"""The page on geometry in explicit space: balls and polytope distances by ``mnp`` beside peers.

Run from the root of the repository, when nothing else runs on the machine::

    export CYMINIBALL_PYTHON=/path/to/python
    python -m docs.benchmarks.make.geometry > docs/benchmarks/geometry.md

cyminiball, the exact C++ miniball, needs numpy below 2: CYMINIBALL_PYTHON is an interpreter that has
both.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import qpsvm
from docs.benchmarks.make.pages import head, row

INTERPRETER_VARIABLE = "CYMINIBALL_PYTHON"
"""Environment variable with the interpreter that runs cyminiball."""

N_RUNS = 3
"""Number of runs of which the median seconds are taken."""

MINIBALL_SCRIPT = """
import sys, time, numpy, cyminiball
X = numpy.load(sys.argv[1])
cyminiball.compute(X[:10])
for _ in range(int(sys.argv[2])):
    begun = time.perf_counter()
    cyminiball.compute(X)
    print(time.perf_counter() - begun)
"""
"""Program that prints the seconds of cyminiball, from a file of points and a number of runs."""

BALL_CASES = (
    (1_000_000, 10, 1e-6, True),
    (1_000_000, 100, 1e-6, False),
    (100_000, 784, 1e-6, False),
)
"""m, d and tol of each ball, and whether cyminiball, exponential in d, is run."""

HULL_CASES = ((100_000, 20), (5_000, 500))
"""m and d of each pair of clouds."""


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    text = (
        "Balls around normal points and distances of two normal clouds a strip of width 1 apart, in\n"
        "double precision, by `mnp`. cyminiball is the exact C++ miniball, SVC scikit-learn's LIBSVM\n"
        "with C = 1e10 and tol = 1e-7. Ratios are ours over theirs, in one run of this page."
    )
    text += f"\nSeconds are the median of {N_RUNS} runs after one that compiles; "
    text += "ours declare the problem as well."
    yield from head("geometry", "Balls and distances in explicit space", text, runs=1)
    yield ""
    yield row("problem", "m", "d", "tol", "certified gap", "support", "mnp", "peer", "ratio")
    yield row("---", *["---:"] * 6, "---", "---:")
    for m, d, tol, exact in BALL_CASES:
        X = np.random.default_rng(7).standard_normal((m, d))
        theirs = miniball(X) if exact else "cyminiball: not run, exponential in d"
        yield line("ball", m, d, tol, lambda X=X: qpsvm.MEBDual(qpsvm.Linear(X)), theirs)
    for m, d in HULL_CASES:
        X, y = separated_clouds(m, d)
        yield line(
            "distance",
            m,
            d,
            1e-9,
            lambda X=X, y=y: qpsvm.PolytopeDistanceDual(qpsvm.Linear(X), y),
            svc(X, y),
        )


def line(
    name: str, m: int, d: int, tol: float, declare: Callable[[], Any], peer: float | str
) -> str:
    """Return a row: median seconds of our declaration and solve, beside a peer's seconds."""
    seconds, result = [], None
    for _ in range(N_RUNS + 1):  # the first one compiles
        begun = time.perf_counter()
        result = qpsvm.solve(declare(), "mnp", tol=tol)
        seconds.append(time.perf_counter() - begun)
    ours = statistics.median(seconds[1:])
    assert result is not None
    gap = f"{result.certificate.relative_gap:.1e}" + (
        "" if result.converged else f" {result.status.name}"
    )
    known = not isinstance(peer, str)
    theirs, ratio = (f"{peer:.3g}", f"{ours / peer:.2f}") if known else (peer, "")
    print(name, m, d, gap, ours, theirs, file=sys.stderr)
    return row(
        name, f"{m:,}", d, f"{tol:.0e}", gap, len(result.support), f"{ours:.3g}", theirs, ratio
    )


def miniball(X: Any) -> float | str:
    """Return the median seconds of cyminiball, or why there are none."""
    python = os.environ.get(INTERPRETER_VARIABLE)
    if not python:
        return f"cyminiball: not installed ({INTERPRETER_VARIABLE} is not set)"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.npy"
        np.save(path, X)
        call = [python, "-c", MINIBALL_SCRIPT, str(path), str(N_RUNS)]
        done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        return f"cyminiball: failed ({done.stderr.strip().splitlines()[-1]})"
    return statistics.median(map(float, done.stdout.split()))


def svc(X: Any, y: Any) -> float:
    """Return the median seconds of a hard-margin SVC."""
    from sklearn.svm import SVC

    seconds = []
    for _ in range(N_RUNS):
        begun = time.perf_counter()
        SVC(C=1e10, kernel="linear", tol=1e-7, cache_size=2000).fit(X, y)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def separated_clouds(m: int, d: int) -> tuple[Any, Any]:
    """Return two normal clouds, moved along the first axis until a strip of width 1 separates them."""
    rng = np.random.default_rng(11)
    A, B = rng.standard_normal((m // 2, d)), rng.standard_normal((m - m // 2, d))
    B[:, 0] += A[:, 0].max() - B[:, 0].min() + 1.0
    return np.vstack([A, B]), np.repeat([1.0, -1.0], [len(A), len(B)])


if __name__ == "__main__":
    for text in page():
        print(text, flush=True)
