"""Rows that are read in passes: linear hinge machines by Newton steps, and balls by core sets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import (
    RBF,
    HingeDual,
    HingePrimal,
    InputError,
    Linear,
    MEBDual,
    MethodMismatchError,
    Status,
    solve,
)
from qpsvm.distributed.passes.projected.shard import pass_shard
from qpsvm.distributed.rows import open_rows
from qpsvm.gram.storage.chunked import ChunkedPoints
from tests.distributed.conftest import CHUNK_BYTES, CHUNK_ROWS, N_FEATURES, N_POINTS
from tests.distributed.test_shards import assert_bounds_overlap


def assert_bounds_are_those_of_the_points(result, X, y, C, bias):
    """The dual point is feasible, and the bounds are the values of it and of the hyperplane."""
    w, b, a = result.model.w, result.model.b, result.dual
    assert a.min() >= 0.0 and a.max() <= C
    assert not bias or abs(y @ a) < 1e-11 * a.sum()
    upper = 0.5 * w @ w + C * np.maximum(1.0 - y * (X @ w + b), 0.0).sum()
    v = X.T @ (y * a)
    lower = a.sum() - 0.5 * v @ v
    assert result.certificate.upper == pytest.approx(upper, rel=1e-9)
    assert result.certificate.lower == pytest.approx(lower, rel=1e-9, abs=1e-9 * upper)


def in_chunks(X):
    return Linear(open_rows(X, chunk_bytes=CHUNK_BYTES))


class CountingChunk:
    """Rows that count how often they are loaded."""

    def __init__(self, rows):
        self.rows, self.loads = rows, 0

    def load(self):
        self.loads += 1
        return self.rows


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [1e-4, 0.1, 10.0, 1e4, "weighted"])
def test_the_machine_is_that_of_one_process(cloud, C, bias):
    X, y = cloud
    C = np.linspace(0.1, 2.0, N_POINTS) if C == "weighted" else C
    here = solve(HingePrimal(X, y, C=C, bias=bias), tol=1e-6)
    there = solve(HingePrimal(in_chunks(X), y, C=C, bias=bias), tol=1e-6)
    assert there.method == "newton-passes"
    assert_bounds_overlap(here, there)
    new = X[:50] + 0.01
    size = np.abs(here.model.decision_function(new)).max()
    difference = there.model.decision_function(new) - here.model.decision_function(new)
    assert np.abs(difference).max() <= 0.02 * max(size, 1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_the_bounds_are_those_of_the_returned_points(cloud, bias):
    X, y = cloud
    for tol in (1e-2, 1e-4):
        primal = solve(HingePrimal(in_chunks(X), y, C=0.3, bias=bias), tol=tol)
        dual = solve(HingeDual(in_chunks(X), y, C=0.3, bias=bias), tol=tol)
        w, b, a = primal.model.w, primal.model.b, primal.dual
        np.testing.assert_allclose(a, dual.x, atol=1e-6)
        assert primal.x[:N_FEATURES].tolist() == w.tolist()
        assert a.min() >= 0.0 and a.max() <= 0.3 and (not bias or abs(y @ a) < 1e-12 * a.sum())
        upper = 0.5 * w @ w + 0.3 * np.maximum(1.0 - y * (X @ w + b), 0.0).sum()
        v = X.T @ (y * a)
        lower = a.sum() - 0.5 * v @ v
        assert primal.certificate.upper == pytest.approx(upper, rel=1e-9)
        assert primal.certificate.lower == pytest.approx(lower, rel=1e-9, abs=1e-9 * upper)
        assert dual.certificate.upper == pytest.approx(-lower, rel=1e-6)
        assert dual.certificate.lower == pytest.approx(-upper, rel=1e-6)
        assert primal.support.tolist() == np.flatnonzero(a).tolist()


@pytest.mark.parametrize("kind", ["float32", "csr", "far"])
def test_other_storages_and_places(cloud, kind, rng):
    X, y = cloud
    if kind == "csr":
        X = sp.random(N_POINTS, 30, density=0.2, random_state=1, format="csr")
        y = np.where(np.asarray(X.sum(axis=1)).ravel() > 3.0, 1.0, -1.0)
    points = X + 1e6 if kind == "far" else X
    points = points.astype(np.float32) if kind == "float32" else points
    rows = open_rows(points, chunk_bytes=CHUNK_BYTES)
    there = solve(HingePrimal(Linear(rows), y, C=0.2), tol=1e-5)
    assert_bounds_overlap(solve(HingePrimal(points, y, C=0.2), tol=1e-5), there)


def test_degenerate_machines():
    rng = np.random.default_rng(0)
    both = np.where(np.arange(60) % 2, 1.0, -1.0)
    apart = rng.standard_normal((60, 3)) + 10.0 * both[:, None]
    for X, y in (
        (rng.standard_normal((60, 3)), np.ones(60)),
        (np.zeros((60, 3)), both),
        (np.ones((2, 1)), np.array([1.0, -1.0])),
        (apart, both),
    ):
        for bias in (True, False):
            here = solve(HingePrimal(X, y, C=5.0, bias=bias), tol=1e-6)
            there = solve(HingePrimal(Linear(open_rows(X)), y, C=5.0, bias=bias), tol=1e-6)
            assert there.converged
            assert there.value == pytest.approx(here.value, rel=1e-5, abs=1e-9)


def test_a_ball_is_that_of_one_process(cloud):
    X, _ = cloud
    for points in (X, X + 1e5, X.astype(np.float32), sp.csr_matrix(X), np.ones((7, 2)), X[:1]):
        here = solve(MEBDual(Linear(points)), tol=1e-9)
        there = solve(MEBDual(Linear(open_rows(points, chunk_bytes=CHUNK_BYTES))), tol=1e-9)
        assert there.method == "core-set-passes" and there.converged
        assert there.model.radius == pytest.approx(here.model.radius, rel=1e-6, abs=1e-6)
        dense = points.toarray() if sp.issparse(points) else points
        farthest = np.linalg.norm(dense - there.model.center, axis=1).max()
        assert farthest <= there.model.radius * (1.0 + 1e-9) + 1e-12
        np.testing.assert_allclose(there.x @ dense, there.model.center, rtol=1e-6, atol=1e-6)


def test_every_iteration_is_a_pass_and_no_row_is_kept(cloud):
    X, y = cloud
    chunks = tuple(CountingChunk(X[k : k + 100]) for k in range(0, N_POINTS, 100))
    rows = ChunkedPoints(chunks, (100,) * 15, N_FEATURES, np.dtype(float))
    result = solve(HingePrimal(Linear(rows), y, C=0.3), tol=1e-3)
    # The first pass, that of the start, one for each iteration, and one for the weights of the rows.
    assert {chunk.loads for chunk in chunks} == {result.n_iter + 3}
    sent = result.history.bytes_sent
    assert len(sent) == len(result.history) and np.all(np.diff(sent) >= 0)


def test_limits_and_starts(cloud):
    X, y = cloud
    problem = HingePrimal(in_chunks(X), y, C=0.3)
    ended = solve(problem, tol=1e-9, max_iter=1)
    assert ended.status is Status.MAX_ITER and np.isfinite(ended.certificate.gap)
    late = solve(problem, tol=1e-9, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT and np.isfinite(late.certificate.gap)
    stopped = solve(problem, tol=1e-9, callback=lambda progress: True)
    assert stopped.status is Status.CALLBACK_STOP
    best = solve(problem, tol=1e-5)
    again = solve(problem, tol=1e-3, x0=best)
    assert again.converged and again.n_iter <= 3
    from_array = solve(problem, tol=1e-3, x0=best.x)
    assert from_array.converged and from_array.n_iter <= 3
    for bad in (best.x[1:], "no"):
        with pytest.raises(InputError, match="x0"):
            solve(problem, x0=bad)
    with pytest.raises(InputError, match=r"x0.*weights"):
        solve(HingeDual(in_chunks(X), y), x0=best.dual)
    with pytest.raises(InputError, match="x0"):
        solve(MEBDual(in_chunks(X)), x0=best)


def test_methods_by_name(cloud):
    X, y = cloud
    named = solve(HingePrimal(in_chunks(X), y), "decomposition", tol=1e-3)
    assert named.method == "decomposition"
    assert_bounds_overlap(named, solve(HingePrimal(in_chunks(X), y), "newton-passes", tol=1e-3))
    rows = open_rows(X, chunk_bytes=CHUNK_BYTES)
    with pytest.raises(MethodMismatchError, match="decomposition"):
        solve(HingeDual(RBF(rows, gamma=0.3), y), "newton-passes")
    with pytest.raises(MethodMismatchError, match="core-set-passes"):
        solve(MEBDual(Linear(rows)), "newton-passes")
    with pytest.raises(InputError, match="target"):
        solve(HingePrimal(Linear(rows), y), entering=3)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int8, sp.csr_matrix])
def test_rows_in_memory_are_not_copied(kind):
    X = np.random.default_rng(0).integers(-9, 9, (40, N_FEATURES))
    held = kind(X) if kind is sp.csr_matrix else X.astype(kind)
    shard = pass_shard(open_rows(held, chunk_bytes=1 << 20), (0,), [held])
    kept = shard.loaded[0]
    assert np.shares_memory(*(rows.data if sp.issparse(rows) else rows for rows in (kept, held)))
    found = shard.farthest(np.ones(N_FEATURES), 3)
    squares = np.sum((X - 1.0) ** 2, axis=1)
    np.testing.assert_allclose(found.squares, np.sort(squares)[:-4:-1], rtol=1e-6)
    assert found.rows.dtype == (np.float64 if kind in (np.int8, sp.csr_matrix) else kind)


def test_a_row_that_is_not_finite_is_named(cloud):
    X, y = cloud
    wrong = X.copy()
    wrong[777, 1] = np.nan
    with pytest.raises(InputError, match=r"chunk 2, from row 520"):
        solve(HingePrimal(in_chunks(wrong), y))


def test_parquet_on_a_cluster_with_a_killed_worker(client, cloud, tmp_path):
    import os
    import signal

    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    X, y = cloud
    columns = {f"x{j}": X[:, j] for j in range(N_FEATURES)} | {"label": y}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=CHUNK_ROWS)
    rows = open_rows(tmp_path / "rows.parquet", "label", chunk_bytes=CHUNK_BYTES)
    here = solve(HingePrimal(X, y, C=0.3), tol=1e-6)
    left = list(client.run(os.getpid).values())

    def kill(progress):
        if progress.iteration in (1, 2) and left:
            os.kill(left.pop(), signal.SIGKILL)

    problem = HingePrimal(Linear(rows), rows.labels, C=0.3)
    whole = solve(problem, tol=1e-6)
    result = solve(problem, tol=1e-6, callback=kill, time_limit=100.0)
    assert not left and result.counters["rebuilt"] >= 1
    assert_bounds_overlap(here, result)
    assert result.certificate == whole.certificate and np.array_equal(result.x, whole.x)


def test_a_dask_array_on_a_cluster(client, cloud):
    da = pytest.importorskip("dask.array")
    X, y = cloud
    rows = da.from_array(X, chunks=(CHUNK_ROWS, -1))
    assert_bounds_overlap(
        solve(HingePrimal(X, y, C=0.3), tol=1e-6),
        solve(HingePrimal(Linear(rows), y, C=0.3), tol=1e-6),
    )
    ball = solve(MEBDual(Linear(rows)), tol=1e-6)
    assert ball.method == "core-set-passes" and ball.converged
