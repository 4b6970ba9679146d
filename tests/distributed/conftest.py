"""A cluster of two processes, started once, and points in chunks."""

from __future__ import annotations

import sys

import numpy as np
import pytest

N_POINTS, N_FEATURES, CHUNK_ROWS = 1500, 4, 260
"""Shape of the points, and number of rows of a chunk."""

CHUNK_BYTES = 8 * N_FEATURES * CHUNK_ROWS
"""Bytes of a chunk in float64."""


@pytest.fixture(autouse=True)
def default_scheduler():
    """Restore Dask's own scheduler: a client that was lost remains the default."""
    yield
    if "dask" in sys.modules:
        sys.modules["dask"].config.set(scheduler=None)


@pytest.fixture(scope="session")
def cloud():
    """Points far from zero and labels of two overlapping classes, read-only."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N_POINTS, N_FEATURES)) + 4.0
    noise = 0.4 * rng.standard_normal(N_POINTS)
    y = np.where((X[:, 0] - 4.0) ** 2 + X[:, 1] - 4.0 + noise > 0.5, 1.0, -1.0)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(scope="session")
def cluster():
    """A cluster of two workers, each a process with one thread."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="1GiB"
    ) as found:
        yield found


@pytest.fixture
def client(cluster):
    """A client of the cluster, with both workers alive."""
    from distributed import Client

    with Client(cluster, set_as_default=True) as found:
        found.wait_for_workers(2, timeout=60)
        yield found
