"""The page of rows that do not fit the workers: a linear hinge machine and a ball from a Parquet file.

    python -m docs.make.cluster.passes --folder /var/tmp > docs/benchmarks/passes.md

The file (3.4 GB) is drawn into the folder where it is not there. It takes 6 minutes.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from docs.benchmarks.make.pages import head, section
from qpsvm import HingePrimal, Linear, MEBDual, solve
from qpsvm.distributed.rows import open_rows

N_ROWS, N_FEATURES, GROUP_ROWS = 20_000_000, 20, 250_000
"""Size of the file, and rows of a row group."""

PENALTY_OF_SLACKS, GAP_TOLERANCE = 1e-3, 1e-3
"""C of the hinge machine, and relative gap of the solves."""

N_WORKERS, WORKER_MEMORY = 4, "500MiB"
"""Number of workers, and memory of each."""

N_EPOCHS = 4
"""Number of passes of stochastic gradients over the rows."""

SECONDS_BETWEEN_READINGS = 0.2
"""Seconds from one reading of the workers' memory to the next."""

PAGE_TITLE = "Rows in passes"
PAGE_TEXT = """\
20,000,000 points of 20 features in a Parquet file of 3.4 GB (float64, not compressed), normal about a
mean that is not zero, with labels by a noisy hyperplane: a hinge machine with a bias, C = 0.001, and the
minimum enclosing ball of the points, to a certified relative gap of 1e-3. The cluster is a `LocalCluster`
of four workers with one thread and 500 MiB each: the rows are larger than all of their memory, and are
read again in every pass. *passes* counts them, the first one and the one that gathers the weights
included; *MB* is the largest resident set of a worker. *bytes sent* go between client and workers, the
labels (once) and weights (once) of a hinge machine included.

The peer is scikit-learn's `SGDClassifier` (hinge, alpha = 1 / (C m), averaged), whose `partial_fit` takes
the same chunks in this process; its *true gap* is the excess of its objective over the lower bound that
is certified here, relative to it."""


def columns() -> list[str]:
    """Return the names of the features."""
    return [f"x{j}" for j in range(N_FEATURES)]


def draw(file: Path) -> None:
    """Draw the rows and write them to a file, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    normal = np.random.default_rng(7).standard_normal(N_FEATURES)
    normal /= np.linalg.norm(normal)
    mean, scale = 0.1 * np.arange(N_FEATURES), np.linspace(0.5, 2.0, N_FEATURES)
    schema = pa.schema([(name, pa.float64()) for name in [*columns(), "label"]])
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    with parquet.ParquetWriter(file, schema, **options) as writer:
        for start in range(0, N_ROWS, GROUP_ROWS):
            rng = np.random.default_rng([1, start])
            Z = rng.standard_normal((GROUP_ROWS, N_FEATURES)) * scale
            y = np.where(Z @ normal + 0.7 * rng.standard_normal(GROUP_ROWS) > 0.3, 1.0, -1.0)
            table = [*(Z + mean).T, y]
            writer.write_table(pa.table([pa.array(c) for c in table], schema=schema), GROUP_ROWS)


def objective(rows: Any, w: np.ndarray, b: float) -> float:
    """Return the value of the hinge machine, by numpy alone."""
    total = 0.0
    for k in range(len(rows.chunks)):
        at = slice(rows.starts[k], rows.starts[k + 1])
        total += float(np.maximum(1.0 - rows.labels[at] * (rows.rows(k) @ w + b), 0.0).sum())
    return 0.5 * float(w @ w) + PENALTY_OF_SLACKS * total


def watched(client: Any, call: Any) -> tuple[Any, float, float]:
    """Return the value of a call, its seconds, and the largest memory of a worker in MB."""
    largest, ended = [0.0], threading.Event()

    def read() -> None:
        while not ended.wait(SECONDS_BETWEEN_READINGS):
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            largest[0] = max([largest[0], *(w["metrics"]["memory"] / 1e6 for w in workers)])

    reader = threading.Thread(target=read)
    reader.start()
    begun = time.perf_counter()
    try:
        return call(), time.perf_counter() - begun, largest[0]
    finally:
        ended.set()
        reader.join()


def by_ours(rows: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each problem, and its result, seconds and MB of a worker."""
    from distributed import Client, LocalCluster

    own = {"n_workers": N_WORKERS, "threads_per_worker": 1, "memory_limit": WORKER_MEMORY}
    with LocalCluster(dashboard_address=None, **own) as cluster, Client(cluster) as client:
        client.wait_for_workers(N_WORKERS)
        problems: dict[str, Any] = {
            "hinge": HingePrimal(Linear(rows), rows.labels, C=PENALTY_OF_SLACKS),
            "ball": MEBDual(Linear(rows)),
        }
        for name, problem in problems.items():
            result, seconds, memory = watched(client, partial(solve, problem, tol=GAP_TOLERANCE))
            yield name, {"result": result, "seconds": seconds, "memory": memory}


def by_gradients(rows: Any, lower: float) -> Iterator[tuple[str, ...]]:
    """Yield the cells of scikit-learn's stochastic gradients after each epoch."""
    from sklearn.linear_model import SGDClassifier

    alpha = 1.0 / (PENALTY_OF_SLACKS * N_ROWS)
    machine = SGDClassifier(loss="hinge", alpha=alpha, average=True, random_state=0)
    seconds = 0.0
    for epoch in range(1, N_EPOCHS + 1):
        begun = time.perf_counter()
        for k in range(len(rows.chunks)):
            at = slice(rows.starts[k], rows.starts[k + 1])
            machine.partial_fit(rows.rows(k), rows.labels[at], classes=[-1.0, 1.0])
        seconds += time.perf_counter() - begun
        value = objective(rows, machine.coef_[0], float(machine.intercept_[0]))
        gap = f"{(value - lower) / value:.1e}"
        yield "hinge", f"SGD, {epoch}", f"{seconds:.1f}", f"{epoch}", gap, "none", "", "", ""


def page(folder: Path) -> Iterator[str]:
    """Yield the page."""
    file = folder / "rows.parquet"
    if not file.is_file():
        draw(file)
    yield from head("passes", PAGE_TITLE, PAGE_TEXT, runs=1, folder="docs.make.cluster")
    rows = open_rows(file, "label", chunk_bytes=8 * N_FEATURES * GROUP_ROWS)
    cells, lower = [], 0.0
    for name, found in by_ours(rows):
        result = found["result"]
        c, counters = result.certificate, result.counters
        if name == "hinge":
            lower = c.lower
            again = objective(rows, result.model.w, result.model.b)
            assert abs(again - c.upper) <= 1e-9 * again
        cells.append((
            name, "qpsvm", f"{found['seconds']:.1f}", f"{counters['calls'] - 1}",
            f"{c.relative_gap:.1e}", f"{c.relative_gap:.1e}", f"{found['memory']:.0f}",
            f"{counters['bytes_sent']:,}", result.status.name,
        ))  # fmt: skip
    cells += by_gradients(rows, lower)
    names = (
        "problem", "program", "seconds", "passes", "true gap", "certified gap", "MB", "bytes sent",
        "status",
    )  # fmt: skip
    yield from section("Seconds to a gap of 1e-3", "One run each.", names, cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the page of rows in passes.")
    parser.add_argument("--folder", type=Path, required=True, help="where the file is kept")
    for line in page(parser.parse_args().folder):
        print(line, flush=True)
