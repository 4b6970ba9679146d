"""Faults of a cluster: workers that stop, rows that no worker can load, Ctrl-C, a lost connection."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from qpsvm import RBF, HingeDual, HingePrimal, Linear, MEBDual, Status, solve
from qpsvm.distributed import group
from qpsvm.distributed.working_set import OnShardedWorkingSet
from qpsvm.errors import ClusterError
from qpsvm.gram.storage.chunked import ChunkedPoints
from tests.distributed.conftest import CHUNK_ROWS

da = pytest.importorskip("dask.array")

SECONDS_STOPPED = 1.5
"""Seconds for which a worker is stopped."""


def chunked(X):
    return da.from_array(X, chunks=(CHUNK_ROWS, -1))


def assert_encloses(result, exact):
    """The certificate holds: the optimal value lies between its bounds."""
    one, other = result.certificate, exact.certificate
    assert np.isfinite(one.gap)
    assert one.lower <= other.upper and other.lower <= one.upper


@pytest.fixture
def certified_always(monkeypatch):
    """Certify at every check of a decomposition; by default it is done every ten seconds at least."""
    monkeypatch.setattr(OnShardedWorkingSet, "seconds_between_certificates", 0.0)


@pytest.fixture
def impatient(monkeypatch):
    """Stop waiting for answers half a second after a limit."""
    monkeypatch.setattr(group, "ANSWER_SECONDS", 0.5)


@pytest.fixture
def stopper(client):
    """A callback that stops a worker at its second call; it continues at the latest with the test."""
    process = next(iter(client.run(os.getpid).values()))
    timers = []

    def of(seconds=None, also=lambda: None):
        n_calls = 0

        def stop(progress):
            nonlocal n_calls
            n_calls += 1
            if n_calls == 2:
                os.kill(process, signal.SIGSTOP)
                if seconds is not None:
                    timers.append(threading.Timer(seconds, os.kill, (process, signal.SIGCONT)))
                    timers[-1].start()
                also()

        return stop

    yield of
    for timer in timers:
        timer.join()
    os.kill(process, signal.SIGCONT)


def test_a_slow_worker_is_waited_for(cloud, stopper):
    X, y = cloud
    problem = HingeDual(RBF(chunked(X), gamma=0.3), y)
    result = solve(problem, tol=1e-6, callback=stopper(SECONDS_STOPPED))
    assert result.converged and result.counters["rebuilt"] == 0
    assert result.timings["total"] > SECONDS_STOPPED
    assert_encloses(result, solve(HingeDual(RBF(X, gamma=0.3), y), tol=1e-6))


@pytest.mark.usefixtures("certified_always", "impatient")
def test_a_time_limit_ends_the_wait_for_a_stopped_worker(cloud, stopper):
    X, y = cloud
    problem = HingeDual(RBF(chunked(X), gamma=0.3), y)
    result = solve(problem, tol=1e-9, callback=stopper(), time_limit=2.0)
    assert result.status is Status.TIME_LIMIT and result.timings["total"] < 30.0
    assert_encloses(result, solve(HingeDual(RBF(X, gamma=0.3), y), tol=1e-6))


@pytest.mark.usefixtures("certified_always", "impatient")
def test_ctrl_c_ends_the_wait_for_a_stopped_worker(cloud, stopper):
    X, y = cloud
    problem = HingeDual(RBF(chunked(X), gamma=0.3), y)
    main = threading.main_thread().ident
    after = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT))
    press = stopper(also=after.start)
    result = solve(problem, tol=1e-9, callback=press)
    assert result.status is Status.INTERRUPTED and result.timings["total"] < 30.0
    assert_encloses(result, solve(HingeDual(RBF(X, gamma=0.3), y), tol=1e-6))


@pytest.mark.parametrize("in_passes", [False, True])
def test_ctrl_c_returns_the_answer_so_far(client, cloud, in_passes):
    X, y = cloud
    kernel = Linear if in_passes else (lambda P: RBF(P, gamma=0.3))

    def press(progress):
        if progress.iteration >= 1:
            signal.raise_signal(signal.SIGINT)

    result = solve(HingeDual(kernel(chunked(X)), y), tol=1e-12, callback=press)
    assert result.status is Status.INTERRUPTED
    assert_encloses(result, solve(HingeDual(kernel(X), y), tol=1e-6))


def closing(client, iteration):
    """Return a callback that closes the connection to the cluster."""

    def close(progress):
        if progress.iteration >= iteration:
            client.close()

    return close


@pytest.mark.usefixtures("certified_always")
@pytest.mark.parametrize("kind", [HingeDual, HingePrimal, MEBDual])
def test_a_lost_cluster_leaves_the_certified_answer(client, cloud, kind):
    X, y = cloud
    labels = () if kind is MEBDual else (y,)
    problem = kind(RBF(chunked(X), gamma=0.3), *labels)
    result = solve(problem, tol=1e-9, callback=closing(client, 2))
    assert result.status is Status.CLUSTER_LOST
    here = solve(kind(RBF(X, gamma=0.3), *labels), tol=1e-9)
    assert_encloses(result, here)
    if kind is MEBDual:
        model = result.model
        distances = np.sqrt(model.expansion.square_distances(X, model.center_square))
        assert np.all(distances <= model.radius * (1.0 + 1e-9))
    else:
        assert result.model.predict(X).shape == y.shape
        assert result.certificate.gap < 0.5 * len(y)


def test_a_primal_machine_in_passes_survives_the_cluster(client, cloud):
    X, y = cloud
    problem = HingePrimal(Linear(chunked(X)), y, C=0.3)
    result = solve(problem, tol=1e-12, callback=closing(client, 1))
    assert result.status is Status.CLUSTER_LOST and result.dual is None
    assert_encloses(result, solve(HingePrimal(X, y, C=0.3), tol=1e-8))


def test_weights_of_rows_in_passes_are_lost_with_the_cluster(client, cloud):
    X, y = cloud
    with pytest.raises(ClusterError):
        solve(HingeDual(Linear(chunked(X)), y), tol=1e-12, callback=closing(client, 1))


@dataclass(frozen=True)
class FatalChunk:
    """Rows that end each process which loads them, but that of the client."""

    array: Any
    client: int

    def load(self):
        """End the process."""
        if os.getpid() != self.client:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.array


def test_rows_that_no_worker_survives_end_the_solve(client, cloud):
    X, y = cloud
    chunks = FatalChunk(X[:700], os.getpid()), FatalChunk(X[700:], os.getpid())
    rows = ChunkedPoints(chunks, (700, len(X) - 700), X.shape[1], X.dtype)
    with pytest.raises(ClusterError, match="may not fit the memory of a worker"):
        solve(HingeDual(RBF(rows, gamma=0.3), y), time_limit=60.0)
    client.wait_for_workers(2, timeout=60)
