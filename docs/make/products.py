"""A page on the rate of the products of kernel columns beside sgemm, on two instruction sets.

Run from the root of the repository, when nothing else runs on the machine::

    python -m docs.make.products > products.md

With ``--measure`` it prints a line of JSON for each shape, as this process computes it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np

from docs.benchmarks.make.pages import head, row
from qpsvm import threads
from qpsvm.gram.engine import sweep, tiles
from qpsvm.gram.engine.formula import Evaluator, gaussian, linear

FEATURE_COUNTS = (10, 50, 200, 500, 780)
COLUMN_COUNTS = (8, 64, 512)
N_POINTS = 20_000
INSTRUCTION_LEVELS = ("native", "x86-64-v3")
MIN_SECONDS, MIN_RUNS = 0.15, 3
"""Seconds and number of runs at least of which the least time is taken."""
MEASURED_KINDS = ("products", "sgemm", "values", "sgemm and map", "float64", "dgemm")
LEVEL_TITLES = {"native": "All instructions of the machine", "x86-64-v3": "AVX2 (`x86-64-v3`)"}


def page(numbers_of_threads: list[int]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield from head(
        "products",
        "Products of kernel columns",
        f"Billions of floating-point operations a second: 2 n m d over the least of at least {MIN_RUNS}\n"
        f"times, for n columns of m = {N_POINTS:,} normal points of d features in single precision.\n"
        "*products*: columns of the linear kernel by tiles; *sgemm*: the same by numpy, into the same\n"
        "memory; *values*: columns of the Gaussian kernel by tiles; *sgemm and map*: sgemm, then the\n"
        "compiled map of the whole block; *float64* and *dgemm*: as the first two, in double precision.\n"
        "The last column is the first over the second. One thread is measured by processor time, two by\n"
        "the clock.",
        runs=1,
        folder="docs.make",
    )
    for level in INSTRUCTION_LEVELS:
        for n_threads in numbers_of_threads:
            yield ""
            yield f"## {LEVEL_TITLES[level]}, {n_threads} thread{'s'[: n_threads - 1]}"
            yield ""
            yield row("features", "columns", *MEASURED_KINDS, "ratio")
            yield row(*["---:"] * (3 + len(MEASURED_KINDS)))
            for found in measured(level, n_threads):
                rates = [found[kind] for kind in MEASURED_KINDS]
                ratio = f"{rates[0] / rates[1]:.2f}"
                yield row(found["d"], found["n"], *(f"{rate:.0f}" for rate in rates), ratio)


def measured(level: str, n_threads: int) -> list[dict[str, Any]]:
    """Return the rates of all shapes from a process of that instruction set."""
    command = [".ci/as_processor", level, str(n_threads), sys.executable, "-m", __spec__.name]
    run = subprocess.run([*command, "--measure"], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def measure(features: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Yield the rates of all shapes in this process."""
    rng = np.random.default_rng(0)
    for d in features:
        X = rng.standard_normal((N_POINTS, d)).astype(np.float32)
        for n in columns:
            yield {"d": d, "n": n, **rates(X, n)}


def rates(X: Any, n: int) -> dict[str, float]:
    """Return the rate of each kind for n columns."""
    m, d = X.shape
    rng = np.random.default_rng(1)
    few, slots = rng.permutation(m)[:n], np.arange(n)
    found = {}
    for dtype, names in ((np.float32, MEASURED_KINDS[:4]), (np.float64, MEASURED_KINDS[4:])):
        points, out = X.astype(dtype), np.zeros((n, m), dtype)
        evaluators = []
        for formula in (linear(), gaussian(1.0 / d)):
            terms = formula.terms(points).astype(dtype)
            evaluators.append(Evaluator(points, terms, formula.factor, formula.map))
        product, value = evaluators

        def filled(evaluator: Evaluator = product, out: Any = out) -> None:
            tiles.fill(evaluator, few, None, out, slots)

        def multiplied(points: Any = points, out: Any = out) -> None:
            np.dot(points[few], points.T, out=out)

        def values(value: Evaluator = value, out: Any = out) -> None:
            tiles.fill(value, few, None, out, slots)

        def mapped(value: Evaluator = value, out: Any = out) -> None:
            np.dot(value.points[few], value.points.T, out=out)
            sweep.map_products(out, value.factor, value.map, value.terms[few], value.terms)

        for name, task in zip(names, (filled, multiplied, values, mapped), strict=False):
            found[name] = 2e-9 * n * m * d / seconds(task)
    return found


def seconds(task: Callable[[], None]) -> float:
    """Return the least seconds of a task that was run once before: other work only adds to them."""
    clock = time.process_time if numba.get_num_threads() == 1 else time.perf_counter
    task()
    times: list[float] = []
    while len(times) < MIN_RUNS or sum(times) < MIN_SECONDS:
        begun = clock()
        task()
        times.append(clock() - begun)
    return min(times)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", action="store_true", help="print the rates of this process")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--features", type=int, nargs="+", default=FEATURE_COUNTS)
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMN_COUNTS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(threads.describe(), file=sys.stderr)
        for shape in measure(tuple(chosen.features), tuple(chosen.columns)):
            print(json.dumps(shape), flush=True)
    else:
        for text in page(chosen.threads):
            print(text, flush=True)
