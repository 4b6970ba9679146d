"""Accelerated gradients in passes: hinge and L2 machines of few and of many features."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import (
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    Linear,
    MethodMismatchError,
    Status,
    solve,
)
from qpsvm.distributed.passes import declare
from qpsvm.distributed.rows import ArrayChunk, open_rows
from qpsvm.gram.storage.chunked import ChunkedPoints
from tests.distributed.conftest import N_FEATURES, N_POINTS
from tests.distributed.passes.test_passes import in_chunks
from tests.distributed.test_shards import assert_bounds_overlap

MANY_FEATURES = 50_000
"""Number of features of the sparse points: a matrix of this order would take 20 GB."""


@pytest.fixture(scope="module")
def text():
    """Sparse rows of many features, of which few occur often, and noisy labels."""
    rng = np.random.default_rng(5)
    columns = np.minimum((20.0 * rng.pareto(0.6, (N_POINTS, 40))).astype(int), MANY_FEATURES - 1)
    rows = np.repeat(np.arange(N_POINTS), 40)
    values = rng.random(columns.size) + 0.2
    X = sp.csr_matrix((0.2 * values, (rows, columns.ravel())), (N_POINTS, MANY_FEATURES))
    f = X @ rng.standard_normal(MANY_FEATURES) + 0.3 * rng.standard_normal(N_POINTS)
    return X, np.where(f > np.median(f), 1.0, -1.0)


def chunks_of(X):
    starts = range(0, N_POINTS, 500)
    chunks = tuple(ArrayChunk(X, k, min(k + 500, N_POINTS)) for k in starts)
    sizes = tuple(chunk.stop - chunk.start for chunk in chunks)
    return Linear(ChunkedPoints(chunks, sizes, X.shape[1], np.dtype(float)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [1e-3, 0.3, 30.0, "weighted"])
def test_the_machine_is_that_of_one_process(small_sample, cloud, C, bias):
    X, y = cloud
    C = np.linspace(0.1, 2.0, N_POINTS) if C == "weighted" else C
    for problem, points in ((HingePrimal, X), (L2SVMDual, Linear(X))):
        there = solve(problem(in_chunks(X), y, C=C, bias=bias), "nesvm", tol=1e-4)
        assert there.method == "nesvm"
        assert_bounds_overlap(solve(problem(points, y, C=C, bias=bias), tol=1e-4), there)


@pytest.mark.parametrize("problem", [HingePrimal, HingeDual, L2SVMDual])
def test_many_features_need_no_matrix(small_sample, text, problem):
    X, y = text
    there = solve(problem(chunks_of(X), y, C=0.1), "nesvm", tol=1e-2)
    points = X if problem is HingePrimal else Linear(X)
    assert_bounds_overlap(solve(problem(points, y, C=0.1), tol=1e-2), there)


def test_the_bounds_are_those_of_the_returned_points(small_sample, text):
    X, y = text
    result = solve(HingePrimal(chunks_of(X), y, C=0.1), "nesvm", tol=1e-2)
    w, b, a = result.model.w, result.model.b, result.dual
    assert a.min() >= 0.0 and a.max() <= 0.1 and abs(y @ a) < 1e-12 * a.sum()
    upper = 0.5 * w @ w + 0.1 * np.maximum(1.0 - y * (X @ w + b), 0.0).sum()
    v = X.T @ (y * a)
    assert result.certificate.upper == pytest.approx(upper, rel=1e-9)
    assert result.certificate.lower == pytest.approx(a.sum() - 0.5 * v @ v, rel=1e-9)


def test_wide_dense_rows(small_sample):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((300, 1200)).astype(np.float32) + 2.0
    y = np.where(rng.random(300) < 0.4, 1.0, -1.0)
    rows = Linear(open_rows(X, chunk_bytes=1 << 20))
    there = solve(HingePrimal(rows, y, C=1e-3), "nesvm", tol=1e-4)
    assert_bounds_overlap(solve(HingePrimal(X, y, C=1e-3), tol=1e-4), there)
    assert solve(HingePrimal(rows, y, C=1e-3), tol=1e-2).method == "decomposition"
    with pytest.raises(MethodMismatchError, match="nesvm or decomposition"):
        solve(HingePrimal(rows, y, C=1e-3), "newton-passes")


def test_a_sample_of_wide_dense_rows_is_smaller(monkeypatch, cloud):
    from qpsvm.distributed.passes import shard

    X, y = cloud
    sizes = []
    solved = declare.sample_start

    def noted(form, X, *rest):
        sizes.append(X.shape[0])
        return solved(form, X, *rest)

    monkeypatch.setattr(declare, "sample_start", noted)
    monkeypatch.setattr(shard, "MAX_SAMPLE_ENTRIES", 100 * N_FEATURES)
    assert solve(HingePrimal(in_chunks(X), y)).converged
    assert 50 <= sizes[0] <= 110


def test_limits_and_starts(small_sample, cloud):
    X, y = cloud
    problem = HingePrimal(in_chunks(X), y, C=0.3)
    ended = solve(problem, "nesvm", tol=1e-9, max_iter=3)
    assert ended.status is Status.MAX_ITER and np.isfinite(ended.certificate.gap)
    late = solve(problem, "nesvm", tol=1e-9, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT and np.isfinite(late.certificate.gap)
    best = solve(problem, tol=1e-6)
    again = solve(problem, "nesvm", tol=1e-3, x0=best)
    assert again.converged and again.n_iter <= 3
    with pytest.raises(InputError, match="restart"):
        solve(problem, "nesvm", restart=False)


def test_it_is_solved_on_a_cluster(client, text):
    X, y = text
    there = solve(HingePrimal(chunks_of(X), y, C=0.05), "nesvm", tol=1e-2)
    assert there.method == "nesvm" and there.counters["shards"] == 2
    assert_bounds_overlap(solve(HingePrimal(X, y, C=0.05), tol=1e-2), there)
