"""The page of kernel machines over shards: seconds beside one process, and a model of larger clusters.

    python -m docs.make.cluster.shards > docs/benchmarks/shards.md

It takes 9 minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from docs.benchmarks.make.pages import head, section
from docs.make.cluster.model import Rates, Size, kernel_seconds, pass_seconds
from docs.make.cluster.passes import watched
from docs.make.cluster.simulation import fitted, predicted, simulated
from qpsvm import RBF, HingeDual, HingePrimal, Linear, MEBDual, solve
from qpsvm.distributed.passes.shard import PassShard
from qpsvm.distributed.rows import open_rows

ROW_COUNTS, N_FEATURES = (100_000, 500_000, 2_000_000), 10
"""Numbers of rows of the measured problems, and their number of features."""

LEAST_MARGIN = {100_000: 0.5, 500_000: 0.5, 2_000_000: 0.15}
"""Least distance of a point from the boundary, by the number of rows: about one per cent are support
vectors."""

KERNEL_GAMMA, PENALTY_OF_SLACKS = 0.1, 1.0
"""gamma of the kernel, and C of the machine."""

LINEAR_ROW_COUNTS, N_LINEAR_FEATURES, N_LINEAR_RUNS = (200_000, 2_000_000), 20, 5
"""Numbers of rows and of features of the measured linear problems, and of runs of each."""

TOTAL_PENALTY = 1000.0
"""C times the number of rows of the linear machines."""

N_WORKERS, CHUNKS_PER_WORKER = 4, 2
"""Number of workers, and of the chunks that each holds."""

RUN_COUNTS = {100_000: 5, 500_000: 3, 2_000_000: 2}
"""Number of runs of which the least seconds are taken, by the number of rows."""

SIMULATED_CASES = (
    (200_000, 1),
    (200_000, 4),
    (200_000, 16),
    (500_000, 4),
    (500_000, 16),
    (500_000, 64),
)
"""Numbers of rows and of shards of the simulated clusters."""

FITTED_CASE = 1
"""Index in `SIMULATED_CASES` of the run to which the model is fitted."""

NETWORK_RATES = Rates(0.0, 0.0, 0.0, 0.0, latency=0.02, bandwidth=1.25e9)
"""20 ms for a round trip of Dask, as measured here, and 10 Gb/s."""

CLIENT_SECONDS = 0.05
"""Seconds of the client for an iteration with a working set of 4,096 points, as measured here."""

PAGE_TITLE = "Shards on a cluster"
PAGE_TEXT = """\
A hinge machine with a Gaussian kernel (gamma 0.1, C = 1) on normal points of 10 features, float32, of two
classes that a parabola separates with a margin, to a certified relative gap of 1e-3. *one process* has
both processors; *4 workers* are those of a `LocalCluster` with one thread each on the same two
processors, which hold the rows as a Dask array; *4 shards* are in one process."""


REMARK_ON_RUNS = """\
The host of this virtual machine changes its speed: over ten runs of 2026-11-28 the ratio of workers to
one process was 1.1 to 1.5 with 500,000 rows, 1.2 and 1.4 in two with 2,000,000, and 1.5 to 2.2 with
100,000. Four workers and the scheduler share two processors here. A round trip takes 6 to 12 ms: a solve
with four workers takes 0.03 to 0.3 s more than one process where it takes less than a second."""


def draw(m: int, d: int, margin: float) -> tuple[Any, Any]:
    """Return points in float32, none closer to the boundary than the margin, and their labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * m, d)).astype(np.float32)
    f = X[:, 0] ** 2 + X[:, 1] - 0.5
    kept = np.flatnonzero(np.abs(f) > margin)[:m]
    assert len(kept) == m
    return X[kept], np.sign(f[kept])


def problem_of(rows: Any, y: Any) -> HingeDual:
    """Return the machine over points."""
    return HingeDual(RBF(rows, gamma=KERNEL_GAMMA), y, C=PENALTY_OF_SLACKS)


def least(call: Any, n_runs: int = 3) -> tuple[Any, float]:
    """Return the answer and the least seconds of some runs."""
    seconds = []
    for _ in range(n_runs):
        begun = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begun)
    return result, min(seconds)


def measured() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table beside one process."""
    import dask.array as da
    from distributed import Client, LocalCluster

    for m in ROW_COUNTS:
        X, y = draw(m, N_FEATURES, LEAST_MARGIN[m])
        width = -(-m // (N_WORKERS * CHUNKS_PER_WORKER))
        n_runs = RUN_COUNTS[m]
        here, one = least(partial(solve, problem_of(X, y)), n_runs)
        rows = open_rows(X, chunk_bytes=8 * N_FEATURES * width)
        _, shards = least(partial(solve, problem_of(rows, y)), n_runs)
        own = {"n_workers": N_WORKERS, "threads_per_worker": 1}
        with LocalCluster(dashboard_address=None, **own) as cluster, Client(cluster) as client:
            client.wait_for_workers(N_WORKERS)
            held = da.from_array(X, chunks=(width, -1)).persist()
            call = partial(least, partial(solve, problem_of(held, y)), n_runs)
            (there, four), _, memory = watched(client, call)
        assert there.certificate.lower <= here.certificate.upper
        assert here.certificate.lower <= there.certificate.upper
        yield (
            f"{m:,}", f"{100 * len(there.support) / m:.2f}", f"{one:.2f}", f"{shards:.2f}",
            f"{four:.2f}", f"{four / one:.2f}", f"{there.certificate.relative_gap:.1e}",
            f"{there.counters['calls']}", f"{there.counters['bytes_sent'] / 1e6:.0f}",
            f"{memory:.0f}",
        )  # fmt: skip


def measured_linear() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of linear kernels."""
    import dask.array as da
    from distributed import Client, LocalCluster

    own = {"n_workers": N_WORKERS, "threads_per_worker": 1}
    for m in LINEAR_ROW_COUNTS:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((m, N_LINEAR_FEATURES)) + 1.0
        f = (X - 1.0) @ rng.standard_normal(N_LINEAR_FEATURES)
        y = np.where(f + 2.0 * rng.standard_normal(m) > 0, 1.0, -1.0)
        machine = partial(HingePrimal, y=y, C=TOTAL_PENALTY / m)
        with LocalCluster(dashboard_address=None, **own) as cluster, Client(cluster) as client:
            client.wait_for_workers(N_WORKERS)
            held = da.from_array(X, chunks=(-(-m // (N_WORKERS * CHUNKS_PER_WORKER)), -1)).persist()
            for name, problem in {"hinge": machine, "ball": MEBDual}.items():
                here, one = least(partial(solve, problem(Linear(X))), N_LINEAR_RUNS)
                there, four = least(partial(solve, problem(Linear(held))), N_LINEAR_RUNS)
                assert there.certificate.lower <= here.certificate.upper
                assert here.certificate.lower <= there.certificate.upper
                yield (
                    name, f"{m:,}", f"{one:.3f}", f"{four:.3f}", f"{four / one:.2f}",
                    f"{there.certificate.relative_gap:.1e}", f"{there.counters['calls']}",
                    f"{there.counters['bytes_sent'] / 1e6:.1f}",
                )  # fmt: skip


@cache
def simulations() -> list[dict[str, Any]]:
    """Return the simulated runs."""
    found: list[dict[str, Any]] = []
    for m, n_shards in SIMULATED_CASES:
        X, y = draw(m, N_FEATURES, 0.3)
        rows = open_rows(X, chunk_bytes=8 * N_FEATURES * -(-m // n_shards))
        results: list[Any] = []

        def call(rows: Any = rows, y: Any = y, results: list[Any] = results) -> None:
            results.append(solve(problem_of(rows, y)))

        size = Size(m, N_FEATURES, len(rows.chunks), 4)
        seconds, client, made = simulated(call, n_shards, NETWORK_RATES)
        support = len(results[0].support)
        one = {"size": size, "support": support, "seconds": seconds, "client": client, "made": made}
        found.append(one)
    return found


def rates() -> Rates:
    """Return the rates that fit one of the runs."""
    one = simulations()[FITTED_CASE]
    return fitted(one["made"], one["size"], one["support"], NETWORK_RATES)


def checked() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of the model beside the simulation."""
    for k, one in enumerate(simulations()):
        calls = predicted(one["made"], one["size"], one["support"], rates())
        model = one["client"] + calls
        note = " (fitted)" if k == FITTED_CASE else ""
        yield (
            f"{one['size'].m:,}", f"{one['size'].n_shards}{note}", f"{one['support']:,}",
            f"{one['client']:.2f}", f"{one['seconds']:.2f}", f"{model:.2f}",
            f"{model / one['seconds']:.2f}",
        )  # fmt: skip


def moves_of_support() -> float:
    """Return the moves of weights of the largest simulated run, as a multiple of its support."""
    one = simulations()[-1]
    return sum(call.n_moved for call in one["made"]) / one["support"]


def row_seconds(d: int) -> float:
    """Return the seconds of one worker for a row in a pass of a linear hinge machine."""
    from qpsvm import threads

    rng = np.random.default_rng(0)
    rows = open_rows(rng.standard_normal((100_000, d)), chunk_bytes=1 << 25)
    shard = PassShard(rows, tuple(range(len(rows.chunks))), None)
    shard.start(np.where(rng.random(rows.shape[0]) < 0.5, 1, -1).astype(np.int8), 1.0, None)
    w = rng.standard_normal(d) / d
    with threads.limit(1):
        _, seconds = least(partial(shard.loss, w, 0.0, 0.1, 1.0, True))
    return seconds / rows.shape[0]


def large_kernel() -> Iterator[tuple[str, ...]]:
    """Yield the seconds of the parts of a solve of 100,000,000 rows of 50 features, 1,000 workers."""
    own = rates()
    size = Size(100_000_000, 50, 1000, 4)
    slower = own._replace(values=own.values * N_FEATURES / size.d)  # no less than by features
    parts = kernel_seconds(size, slower, 1_000_000, moves_of_support(), 1000, CLIENT_SECONDS)
    for name, seconds in sorted(parts.items(), key=lambda part: -part[1]):
        yield name, f"{seconds:,.1f}"
    yield "together", f"{sum(parts.values()):,.0f}"


def large_linear() -> Iterator[tuple[str, ...]]:
    """Yield the seconds of the parts of a solve of 1,000,000,000 rows of 100 features, 1,000 workers."""
    size = Size(1_000_000_000, 100, 1000)
    parts = pass_seconds(size, NETWORK_RATES, 5, row_seconds(size.d))
    for name, seconds in sorted(parts.items(), key=lambda part: -part[1]):
        yield name, f"{seconds:,.1f}"
    yield "together", f"{sum(parts.values()):,.0f}"


def page() -> Iterator[str]:
    """Yield the page."""
    yield from head("shards", PAGE_TITLE, PAGE_TEXT, runs=1, folder="docs.make.cluster")
    names = (
        "rows", "support, %", "one process", "4 shards", "4 workers", "workers / one process",
        "gap", "round trips", "MB sent", "MB of a worker",
    )  # fmt: skip
    counts = [f"{n_runs} with {m:,} rows" for m, n_runs in RUN_COUNTS.items()]
    text = f"The least of several runs each: {', '.join(counts)}."
    yield from section("Seconds to a gap of 1e-3", text, names, measured())
    yield from ("", REMARK_ON_RUNS, "")
    names = (
        "problem", "rows", "one process", "4 workers", "workers / one process", "gap",
        "round trips", "MB sent",
    )  # fmt: skip
    text = f"""\
Hinge machines with a bias and minimum enclosing balls of normal points of {N_LINEAR_FEATURES} features,
float64, by passes at the workers. The least of {N_LINEAR_RUNS} runs each."""
    yield from section("Linear kernels", text, names, measured_linear())
    names = ("rows", "shards", "support", "client", "simulated", "model", "model / simulated")
    text = """\
The simulation runs the shards one after the other on one processor; a call counts as its slowest shard,
a round trip of 20 ms and its bytes at 10 Gb/s. The model (`docs/make/cluster/model.py`) has a rate of
kernel values in either precision and two rates of rows, fitted to one run; it takes the moves of weights
and the client's seconds of each run as they were."""
    yield from section(
        "Seconds of larger clusters: a simulation and the model", text, names, checked()
    )
    own = rates()
    text = f"""\
100,000,000 rows of 50 features, a support of 1,000,000, 1,000 points that an iteration adds. By the
run of the last line above the moves of weights are {moves_of_support():.1f} times the support. A worker
sums {own.values / 1e9:.1f}e9 kernel values of 10 features a second, and a fifth of that is taken here."""
    yield from section(
        "A prediction: a kernel machine on 1,000 workers", text, ("part", "seconds"), large_kernel()
    )
    text = f"""\
1,000,000,000 rows of 100 features, five passes over rows in the memory of the workers, at
{1e6 * row_seconds(100):.2f} microseconds for a row, as measured here. The client holds 80 bytes
of a row."""
    yield from section(
        "A prediction: a linear machine on 1,000 workers", text, ("part", "seconds"), large_linear()
    )


if __name__ == "__main__":
    for line in page():
        print(line, flush=True)
