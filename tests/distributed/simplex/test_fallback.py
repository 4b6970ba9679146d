"""Where decomposition over shards stalls, `auto` continues with `mnp` and keeps the better answer."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import RBF, L2SVMDual, MEBDual, NuSVCDual, PolytopeDistanceDual, Status, solve
from qpsvm.distributed.decomposition import ShardedDecomposition
from qpsvm.distributed.simplex.min_norm_point import ShardedMinNormPoint
from qpsvm.errors import ClusterError
from qpsvm.solvers import base
from qpsvm.solvers.base import Reply, Stop
from tests.distributed.test_simplex import assert_bounds_overlap, chunked

STALLED_ITERATION = 3
"""Iteration at which a decomposition is made to stall."""

PROBLEM_OF_NAME = {
    "ball": lambda K, y: MEBDual(K),
    "l2": lambda K, y: L2SVMDual(K, y, C=2.0),
    "distance": lambda K, y: PolytopeDistanceDual(K, y, chi=2.0),
}


@pytest.fixture
def stalling(monkeypatch):
    """Let every decomposition over shards stall after a few iterations."""
    advance = ShardedDecomposition.advance

    def stalled(solver, problem, state, n_steps):
        if getattr(state, "n_made", 0) >= STALLED_ITERATION:
            return Reply(0, Stop.STALLED)
        state.n_made = getattr(state, "n_made", 0) + 1
        return advance(solver, problem, state, n_steps)

    monkeypatch.setattr(ShardedDecomposition, "advance", stalled)


@pytest.mark.parametrize("name", PROBLEM_OF_NAME)
def test_a_stalled_decomposition_is_continued_by_mnp(cloud, stalling, name):
    X, y = cloud
    here = solve(PROBLEM_OF_NAME[name](RBF(X, gamma=0.3), y), tol=1e-7)
    problem = PROBLEM_OF_NAME[name](RBF(chunked(X), gamma=0.3), y)
    stopped = solve(problem, "decomposition", tol=1e-6)
    there = solve(problem, tol=1e-6)
    assert stopped.status is Status.STALLED and stopped.method == "decomposition"
    assert there.method == "decomposition + mnp"
    assert "warm start of mnp at a relative gap of" in there.reason
    assert_bounds_overlap(here, there)
    assert there.n_iter > stopped.n_iter == STALLED_ITERATION
    iterations, sent = there.history.iteration, there.history.bytes_sent
    assert np.all(np.diff(iterations) >= 0) and np.all(np.diff(sent) >= 0)
    assert stopped.counters["bytes_sent"] < sent[-1] <= there.counters["bytes_sent"]
    assert there.counters["shards"] == 4 and there.counters["calls"] > stopped.counters["calls"]


def test_slow_pair_steps_end_the_decomposition(cloud, monkeypatch):
    X, _ = cloud
    monkeypatch.setattr(base, "SLOW_MIN_STEPS", 0)
    monkeypatch.setattr(ShardedDecomposition, "slow_steps_per_point", 0)
    there = solve(MEBDual(RBF(chunked(X), gamma=0.3)), tol=1e-6)
    assert there.method == "decomposition + mnp"
    assert_bounds_overlap(there, solve(MEBDual(RBF(X, gamma=0.3)), tol=1e-7))


def test_the_better_certified_answer_is_kept(cloud, stalling, monkeypatch):
    X, _ = cloud
    problem = MEBDual(RBF(chunked(X), gamma=0.3))
    stopped = solve(problem, "decomposition", tol=1e-6)
    monkeypatch.setattr(ShardedMinNormPoint, "advance", lambda *_: Reply(0, Stop.STALLED))
    monkeypatch.setattr("qpsvm.distributed.simplex.min_norm_point.MAX_START_POINTS", 2)
    there = solve(problem, tol=1e-6)
    assert there.status is Status.STALLED and there.method == "decomposition + mnp"
    gap = stopped.certificate.gap
    assert there.certificate.gap <= gap * (1.0 + 1e-9)
    np.testing.assert_allclose(there.x, stopped.x, atol=1e-9)


def test_a_cluster_that_is_lost_then_leaves_the_first_answer(cloud, stalling, monkeypatch):
    X, _ = cloud
    problem = MEBDual(RBF(chunked(X), gamma=0.3))
    stopped = solve(problem, "decomposition", tol=1e-6)

    def lost(solver, qp, x0, rng):
        qp.shards.loss = "the connection was lost"
        raise ClusterError(qp.shards.loss)

    monkeypatch.setattr(ShardedMinNormPoint, "init", lost)
    there = solve(problem, tol=1e-6)
    assert there.status is Status.CLUSTER_LOST
    assert there.certificate.gap <= stopped.certificate.gap * (1.0 + 1e-9)
    assert len(there.model.distance(X[:5])) == 5


def test_no_other_method_continues_where_a_limit_was_given_or_bounds_hold(cloud, stalling):
    X, y = cloud
    K = RBF(chunked(X), gamma=0.3)
    assert solve(MEBDual(K), max_iter=50, tol=1e-6).method == "decomposition"
    bounded = solve(NuSVCDual(K, y, nu=0.3), tol=1e-6)
    assert bounded.method == "decomposition" and bounded.status is Status.STALLED
    late = solve(MEBDual(K), time_limit=0.0, tol=1e-6)
    assert late.method == "decomposition" and late.status is Status.TIME_LIMIT


def test_flat_kernels_have_the_distance_of_one_process():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 4)), np.where(np.arange(600) % 2 == 0, 1.0, -1.0)
    X[:, 0] = y * (1e-3 + np.abs(X[:, 0]))
    here, there = (
        solve(PolytopeDistanceDual(RBF(P, gamma=1e-7), y, chi=1e6), tol=1e-5)
        for P in (X, chunked(X))
    )
    assert_bounds_overlap(here, there)
