"""A cluster of two processes, started once, and points in chunks."""

from __future__ import annotations

import os
import signal
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


OTHER_KINDS = ["float32", "csr", "far", "one class", "zeros", "separable"]
"""Kinds of points and labels that `other_points` knows."""


def other_points(cloud, kind, offset):
    """Return points and labels of a kind; those of "far" are moved by the offset."""
    import scipy.sparse as sp

    X, y = cloud
    if kind == "csr":
        X = sp.random(N_POINTS, 30, density=0.2, random_state=1, format="csr")
        return X, np.where(np.asarray(X.sum(axis=1)).ravel() > 3.0, 1.0, -1.0)
    if kind == "separable":
        return X + 10.0 * y[:, None], y
    y = np.ones(N_POINTS) if kind == "one class" else y
    changed = {"float32": X.astype(np.float32), "far": X + offset, "zeros": 0.0 * X}
    return changed.get(kind, X), y


@pytest.fixture(scope="session")
def cluster():
    """A cluster of two workers, each a process with one thread; it starts every killed one again."""
    distributed = pytest.importorskip("distributed")
    import dask

    own = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1GiB"}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(dashboard_address=None, **own) as found,
    ):
        yield found


@pytest.fixture
def client(cluster):
    """A client of the cluster, with both workers alive."""
    from distributed import Client

    with Client(cluster, set_as_default=True) as found:
        found.wait_for_workers(2, timeout=60)
        yield found


def killing_a_worker(client):
    """Return a callback that kills a worker at its first call, and the processes that it is to kill."""
    left = list(client.run(os.getpid).values())[:1]

    def kill(progress):
        if left:
            os.kill(left.pop(), signal.SIGKILL)

    return kill, left
