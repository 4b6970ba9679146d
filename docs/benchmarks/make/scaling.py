"""The page on the time of an iteration against the number of points, with its figure.

Run from the root of the repository, when nothing else runs on the machine::

    python -m docs.benchmarks.make.scaling > docs/benchmarks/scaling.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median

import numpy as np

import qpsvm
from docs.benchmarks.make.pages import head, row
from qpsvm import RBF, Cached, MEBDual, PolytopeDistanceDual

FIGURE_FILE = Path(__file__).resolve().parents[1] / "scaling.png"
"""File of the figure."""

POINT_COUNTS = (10_000, 100_000, 1_000_000)
"""Numbers of points of the measured problems."""

MEASURED_METHODS = ("fw", "mfw", "pfw", "bpfw", "smo", "gilbert", "mdm")
"""Methods of the table, in its order."""

DISTANCE_METHODS = ("gilbert", "mdm")
"""Methods of the distance of two polytopes."""

N_STEPS, N_REPEATS = 1000, 3
"""Maximum number of iterations of a solve, and number of solves of which the median is taken."""

N_FEATURES = 10
"""Number of features of the points."""

TOUCHED_COLUMNS = 250
"""Number of columns whose memory is touched before a fresh solve."""

COMPILING_POINTS = 300_000
"""Number of points of the solve that compiles the steps, those on several threads and on long columns
too."""


def page() -> Iterator[str]:
    """Yield the lines of the page and write the figure."""
    yield from head(
        "scaling",
        "Time of an iteration",
        f"The ball of normal points in {N_FEATURES} dimensions, RBF, single precision; for `gilbert` "
        "and\n"
        "`mdm` the distance between two clouds of them.\n"
        "*miss*: microseconds of an iteration of a fresh solve, the columns that it computes and the\n"
        "checks included; *cached*: the same iterations once more, every column cached (`Cached`);\n"
        "both the median of three; *a column*: the difference of both, for each column computed.\n"
        f"Before a fresh solve memory for {TOUCHED_COLUMNS} columns is touched and released: the host "
        "of a\n"
        "virtual machine takes back memory that was free for some seconds, and takes longer to give it\n"
        "again than a column takes.",
        runs=1,
    )
    yield ""
    names = ("miss, us", "cached, us", "cached, ns a point", "a column, us")
    yield row("method", "m", "iterations", "columns", *names)
    yield row("---", *["---:"] * 7)
    curves: dict[str, list[float]] = {}
    for method in MEASURED_METHODS:
        measure(method, COMPILING_POINTS, 20)
        for m in POINT_COUNTS:
            n, columns, miss, cached = measure(method, m)
            column = n * (miss - cached) / columns
            curves.setdefault(f"{method}, misses", []).append(miss)
            curves.setdefault(f"{method}, cached", []).append(cached)
            curves.setdefault(f"{method}, a column", []).append(column)
            print(method, m, n, columns, miss, cached, file=sys.stderr)
            cells = (f"{n:,}", f"{columns:,}", f"{miss * 1e6:.0f}", f"{cached * 1e6:.0f}")
            yield row(method, f"{m:,}", *cells, f"{cached * 1e9 / m:.2f}", f"{column * 1e6:.0f}")
    draw(curves)
    yield ""
    yield "![Time of an iteration against the number of points](scaling.png)"
    yield ""
    yield "From one size to the next, ten times as many points, the time grows by the factors shown, and"
    yield "from the first to the last as m to the power of the last column:"
    yield ""
    yield row("method", *(f"to {m:,}" for m in POINT_COUNTS[1:]), "power of m")
    yield row("---", *["---:"] * len(POINT_COUNTS))
    for name, times in curves.items():
        growth = (b / a for a, b in pairwise(times))
        power = log(times[-1] / times[0]) / log(POINT_COUNTS[-1] / POINT_COUNTS[0])
        yield row(name, *(f"{g:.1f}" for g in growth), f"{power:.2f}")


def measure(method: str, m: int, steps: int = N_STEPS) -> tuple[int, int, float, float]:
    """Return iterations, columns, and seconds an iteration with misses and with cached columns."""
    X = np.random.default_rng(0).standard_normal((m, N_FEATURES)).astype(np.float32)
    y = np.where(np.arange(m) % 2, 1.0, -1.0)
    X[y > 0, 0] += 8.0 * (method in DISTANCE_METHODS)
    kernel = RBF(X, "mean-distance")
    kernel.block(np.arange(2))  # moves and squares the points once
    fresh, again = [], []
    for _ in range(N_REPEATS):
        problem = cached = None  # releases the columns of the last one
        # Otherwise the host of a virtual machine gives the memory during the solve.
        np.zeros(TOUCHED_COLUMNS * m, np.float32).fill(1.0)
        cached = Cached(kernel, 3 << 30)
        problem = PolytopeDistanceDual(cached, y) if method in DISTANCE_METHODS else MEBDual(cached)
        first, second = (
            qpsvm.solve(problem, method, tol=1e-12, max_iter=steps) for _ in ("misses", "cached")
        )
        assert second.n_iter == first.n_iter and second.counters["columns"] == 0
        fresh.append(first.timings["iterate"] / first.n_iter)
        again.append(second.timings["iterate"] / second.n_iter)
    return first.n_iter, first.counters["columns"], median(fresh), median(again)


def draw(curves: dict[str, list[float]]) -> None:
    """Write the figure: seconds against points, both in powers of ten, and the slope of m."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    for k, method in enumerate(MEASURED_METHODS):
        for what, style in (("cached", "o-"), ("misses", "s--")):
            name = f"{method}, {what}"
            axes.loglog(POINT_COUNTS, curves[name], style, color=f"C{k}", label=name, markersize=4)
    first = min(times[0] for times in curves.values())
    axes.loglog(
        POINT_COUNTS,
        [first * m / POINT_COUNTS[0] for m in POINT_COUNTS],
        ":",
        color="gray",
        label="slope of m",
    )
    axes.set_xlabel("points")
    axes.set_ylabel("seconds an iteration")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    figure.tight_layout()
    figure.savefig(FIGURE_FILE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    for text in page():
        print(text, flush=True)
