"""Solves on a Dask cluster: the same answers, workers that are killed, rows that are wrong."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from qpsvm import RBF, HingeDual, InputError, Linear, MEBDual, Status, solve
from qpsvm.distributed.cluster import shards as cluster_module
from qpsvm.distributed.cluster.worker import LIVE_SHARDS
from qpsvm.distributed.rows import open_rows
from qpsvm.errors import ClusterError
from tests.distributed.conftest import CHUNK_ROWS

da = pytest.importorskip("dask.array")


def chunked(X):
    return da.from_array(X, chunks=(CHUNK_ROWS, -1))


def same(one, other):
    a, b = one.certificate, other.certificate
    return a.lower <= b.upper and b.lower <= a.upper


def test_a_dask_array_is_solved_where_it_lies(client, cloud):
    X, y = cloud
    here = solve(HingeDual(RBF(X, gamma=0.3), y), tol=1e-5)
    held = chunked(X).persist()
    first, again = (solve(HingeDual(RBF(held, gamma=0.3), y), tol=1e-5) for _ in range(2))
    assert first.converged and same(first, here)
    assert first.certificate == again.certificate and np.array_equal(first.x, again.x)
    assert (
        first.counters["shards"] <= 2 and first.counters["rebuilt"] == 0
    )  # Dask chose where they lie
    ball = solve(MEBDual(RBF(held, gamma=0.3)), tol=1e-5)
    assert same(ball, solve(MEBDual(RBF(X, gamma=0.3)), tol=1e-5))


def test_a_killed_worker_changes_no_answer(client, cloud):
    X, y = cloud
    here = solve(HingeDual(RBF(X, gamma=0.3), y), tol=1e-6)
    left = list(client.run(os.getpid).values())
    seen = []

    def kill(progress):
        seen.append(progress.iteration)
        if len(seen) in (2, 4):
            os.kill(left.pop(), signal.SIGKILL)

    result = solve(
        HingeDual(RBF(chunked(X), gamma=0.3), y), tol=1e-6, callback=kill, time_limit=60.0
    )
    assert len(left) < 2 and result.counters["rebuilt"] >= 1
    assert result.converged and same(result, here)


def test_rows_are_loaded_elsewhere_where_their_first_place_is_gone(client, cloud, monkeypatch):
    X, y = cloud
    stale, addresses = [["tcp://127.0.0.1:9"]], cluster_module._addresses
    monkeypatch.setattr(
        cluster_module, "_addresses", lambda client: stale.pop() if stale else addresses(client)
    )
    result = solve(HingeDual(RBF(chunked(X), gamma=0.3), y), tol=1e-5, time_limit=30.0)
    assert result.converged and result.counters["rebuilt"] == 1


def test_workers_to_which_the_client_cannot_connect_are_called_by_the_scheduler(
    client, cloud, monkeypatch
):
    X, y = cloud
    monkeypatch.setattr(cluster_module, "SECONDS_TO_CONNECT", 0.0)
    monkeypatch.setattr(cluster_module.ClusterShards, "_direct_answers", None)
    result = solve(HingeDual(RBF(chunked(X), gamma=0.3), y), tol=1e-5)
    assert result.converged and same(result, solve(HingeDual(RBF(X, gamma=0.3), y), tol=1e-5))


def test_shards_of_rows_that_the_workers_hold_need_no_task(client, cloud, monkeypatch):
    X, y = cloud
    held = chunked(X).persist()
    monkeypatch.setattr(cluster_module.ClusterShards, "_load", None)
    for there, here in ((RBF(held, gamma=0.3), RBF(X, gamma=0.3)), (Linear(held), Linear(X))):
        assert same(solve(HingeDual(there, y), tol=1e-5), solve(HingeDual(here, y), tol=1e-5))


def test_rows_that_another_worker_holds_are_loaded_by_tasks(client, cloud, monkeypatch):
    X, y = cloud
    first, second = sorted(client.scheduler_info()["workers"])
    homes, load, loaded = cluster_module._homes, cluster_module.ClusterShards._load, []
    other = {first: second, second: first}
    monkeypatch.setattr(cluster_module, "_homes", lambda *own: [other[at] for at in homes(*own)])

    def recorded(group, k):
        loaded.append(k)
        return load(group, k)

    monkeypatch.setattr(cluster_module.ClusterShards, "_load", recorded)
    held = chunked(X).persist()
    there, here = (solve(HingeDual(RBF(points, gamma=0.3), y)) for points in (held, X))
    assert same(there, here)
    assert loaded


@pytest.mark.parametrize("is_held", [True, False])
def test_a_wrong_row_at_a_worker_is_named_and_no_shard_is_left(client, cloud, is_held):
    X, y = cloud
    bad = X.copy()
    bad[300, 2] = np.inf
    points = chunked(bad).persist() if is_held else chunked(bad)
    with pytest.raises(InputError, match="chunk 1, from row 260"):
        solve(HingeDual(RBF(points, gamma=0.3), y))
    assert client.run(lambda: len(LIVE_SHARDS)) == dict.fromkeys(client.run(os.getpid), 0)


def test_workers_read_files_themselves(client, cloud, tmp_path):
    X, y = cloud
    np.save(tmp_path / "points.npy", X)
    rows = open_rows(tmp_path / "points.npy", chunk_bytes=10_000)
    result = solve(HingeDual(RBF(rows, gamma=0.3), y), tol=1e-5)
    assert result.converged and result.counters["shards"] == 2
    assert same(result, solve(HingeDual(RBF(X, gamma=0.3), y), tol=1e-5))


def test_a_time_limit_holds_across_the_cluster(client, cloud):
    X, y = cloud
    result = solve(HingeDual(RBF(chunked(X), gamma=0.3), y), time_limit=0.0, tol=1e-9)
    assert result.status is Status.TIME_LIMIT and np.isfinite(result.certificate.gap)


def test_a_lost_client_is_one_error(client, cloud):
    X, y = cloud

    def close(progress):
        if progress.iteration >= 1:
            client.close()

    with pytest.raises(ClusterError, match="connection") as lost:
        solve(HingeDual(RBF(chunked(X), gamma=0.3), y), tol=1e-9, callback=close)
    here = HingeDual(RBF(X, gamma=0.3), y)
    begun, continued = (
        solve(here, "decomposition", max_iter=0, x0=x) for x in (None, lost.value.x)
    )
    assert continued.certificate.gap < begun.certificate.gap
