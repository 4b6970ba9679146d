"""Methods on one simplex over shards: the steps of one process, and its certified answers."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from qpsvm import (
    RBF,
    HingeDual,
    InputError,
    L2SVMDual,
    Laplacian,
    Linear,
    MEBDual,
    MethodMismatchError,
    OneClassDual,
    Polynomial,
    Status,
    solve,
)
from qpsvm.canonical.base import update_roundoff
from qpsvm.clock import Clock
from qpsvm.distributed.kernel_sums import PointsOfShard
from qpsvm.distributed.placement import make_group
from qpsvm.distributed.rows import open_rows
from qpsvm.distributed.shard import Shard
from qpsvm.distributed.sharded_qp import qp_of
from qpsvm.distributed.simplex.frank_wolfe import ShardedFrankWolfe, split_move
from qpsvm.distributed.simplex.methods import SIMPLEX_METHODS
from qpsvm.distributed.solve import SHARDED_METHODS
from qpsvm.solvers.methods import METHODS
from qpsvm.solvers.working_set.gradient_error import GradientError
from tests.distributed.conftest import CHUNK_ROWS, N_FEATURES, N_POINTS
from tests.distributed.test_shards import assert_bounds_overlap

N_SAME_STEPS = 30
"""Number of steps in which a method over shards is compared with that of one process."""

PROBLEM_OF_NAME = {
    "ball": lambda K, y: MEBDual(K),
    "l2": lambda K, y: L2SVMDual(K, y, C=2.0),
    "weighted l2": lambda K, y: L2SVMDual(K, y, C=np.linspace(0.5, 2.0, K.m)),
    "l2 without bias": lambda K, y: L2SVMDual(K, y, C=2.0, bias=False),
}
FRANK_WOLFE_METHODS = ("fw", "mfw", "pfw", "bpfw")


def chunked(X, chunk_rows=CHUNK_ROWS):
    return open_rows(X, chunk_bytes=X.shape[1] * X.itemsize * chunk_rows)


def sharded(problem_of, X, y, n_shards):
    kernel = RBF(chunked(X, -(-len(X) // n_shards)), gamma=0.3)
    shards = make_group(kernel, Clock())
    assert shards.n == n_shards
    return qp_of(problem_of(kernel, y), shards, translates=False)


def values_along(problem, solver, value):
    """Return the objective at the start and after each step."""
    state = solver.init(problem, None, np.random.default_rng(0))
    values = [value(state.x)]
    while len(values) <= N_SAME_STEPS:
        if solver.advance(problem, state, 1).steps:  # none where columns were filled
            values.append(value(state.x))
    return np.array(values)


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("name", ["ball", "weighted l2"])
@pytest.mark.parametrize("method", [*FRANK_WOLFE_METHODS, "cvm"])
def test_one_step_a_trip_is_the_method_of_one_process(cloud, method, name, n_shards):
    X, y = cloud[0][:600], cloud[1][:600]
    problem_of, options = PROBLEM_OF_NAME[name], {}
    if method == "cvm":
        options["inner_tol"] = 1e-6  # else the core's solution depends on roundings
    qp = problem_of(RBF(X, gamma=0.3), y).as_qp()
    matrix = qp.gram.matrix() + np.diag(qp.gram.ridge)

    def value(x):
        return 0.5 * float(x @ matrix @ x) + float(qp.linear @ x)

    with qp.with_store(1 << 26) as problem:
        here = values_along(problem, METHODS[method].solver(**options), value)
    option = "vertices_per_trip" if method == "cvm" else "steps_per_trip"
    solver = SIMPLEX_METHODS[method](**{option: 1}, **options)
    there = values_along(sharded(problem_of, X, y, n_shards), solver, value)
    # Vertices that are level up to rounding may be taken in another order later on.
    np.testing.assert_allclose(there[:4], here[:4], rtol=1e-5)
    np.testing.assert_allclose(there, here, rtol=0.3)
    assert here[-1] < here[0]


@pytest.mark.parametrize("start", ["two-point", "ball"])
@pytest.mark.parametrize("name", ["ball", "weighted l2"])
def test_starting_points_are_those_of_one_process(cloud, name, start):
    X, y = cloud[0][:600], cloud[1][:600]
    problem_of = PROBLEM_OF_NAME[name]
    with problem_of(RBF(X, gamma=0.3), y).as_qp().with_store(1 << 26) as problem:
        solver = METHODS["mfw"].solver(start=start)
        here = solver.init(problem, None, np.random.default_rng(0)).x
    solver = SIMPLEX_METHODS["mfw"](start=start)
    there = solver.init(sharded(problem_of, X, y, 3), None, np.random.default_rng(0)).x
    np.testing.assert_allclose(there, here, atol=1e-6)


@pytest.mark.parametrize("name", PROBLEM_OF_NAME)
@pytest.mark.parametrize("method", SIMPLEX_METHODS)
def test_the_certified_answer_is_that_of_one_process(cloud, method, name):
    X, y = cloud
    tol = 1e-2 if method == "fw" else 1e-5
    here = solve(PROBLEM_OF_NAME[name](RBF(X, gamma=0.3), y), tol=1e-6)
    rows = chunked(X)
    there = solve(PROBLEM_OF_NAME[name](RBF(rows, gamma=0.3), y), method, tol=tol)
    assert there.status is Status.OPTIMAL and there.method == method
    assert_bounds_overlap(here, there)
    assert there.certificate.relative_gap <= tol and there.certificate.violation <= 1e-9
    assert there.support.tolist() == np.flatnonzero(there.x).tolist()
    value = "distance" if name == "ball" else "decision_function"
    one, other = (getattr(r.model, value)(X[:50] + 0.01) for r in (here, there))
    np.testing.assert_allclose(other, one, atol=5.0 * np.sqrt(tol) * np.max(np.abs(one)))


KERNEL_OF_NAME = {
    "laplacian": lambda X: Laplacian(X, gamma=0.3),
    "polynomial": lambda X: Polynomial(X, degree=2, gamma=0.1, coef0=1.0),
    "linear": Linear,
}


@pytest.mark.parametrize("kernel", KERNEL_OF_NAME)
@pytest.mark.parametrize("method", ["mfw", "cvm", "mnp"])
def test_other_kernels_have_the_ball_of_one_process(cloud, method, kernel):
    X, _ = cloud
    here = solve(MEBDual(KERNEL_OF_NAME[kernel](X)), tol=1e-6)
    there = solve(MEBDual(KERNEL_OF_NAME[kernel](chunked(X))), method, tol=1e-5)
    assert_bounds_overlap(here, there)


@pytest.mark.parametrize("method", ["mfw", "pfw", "cvm", "mnp"])
def test_the_ball_of_a_cross_is_known_in_closed_form(method):
    X = np.concatenate([np.eye(3), -np.eye(3), 0.1 * np.ones((30, 3))]) + 2.0
    ball = solve(MEBDual(Linear(chunked(X, 10))), method, tol=1e-8)
    assert ball.converged
    assert ball.certificate.lower <= -1.0 <= ball.certificate.upper
    np.testing.assert_allclose(ball.model.center, 2.0, atol=1e-3)


def test_many_local_steps_need_few_trips_and_a_single_one_few_bytes(cloud):
    X, _ = cloud
    problem = MEBDual(RBF(chunked(X), gamma=0.3))
    many, single = (solve(problem, "mfw", tol=1e-4, **o) for o in ({}, {"steps_per_trip": 1}))
    assert_bounds_overlap(many, single)
    assert 5 * many.counters["calls"] < single.counters["calls"]
    assert many.counters["bytes_sent"] < single.counters["bytes_sent"]
    assert single.counters["bytes_sent"] < 100 * N_FEATURES * 8 * single.counters["calls"]


def test_a_start_and_the_memory_limit_hold(cloud):
    X, y = cloud
    problem = L2SVMDual(RBF(chunked(X), gamma=0.3), y, C=2.0)
    first = solve(problem, "mfw", tol=1e-5)
    again = solve(problem, "pfw", x0=first, max_iter=0, tol=1e-5)
    assert first.converged and again.converged and again.n_iter == 0
    small = ShardedFrankWolfe(rule="away", max_vertices=40)
    qp = sharded(PROBLEM_OF_NAME["l2"], X, y, 3)
    state = small.init(qp, first.x, np.random.default_rng(0))
    for _ in range(20):
        small.advance(qp, state, 1)
        assert len(state.rows) <= 40
    assert set(np.flatnonzero(state.x)) <= set(state.rows)


@pytest.mark.parametrize("keep", [0.0, 0.4, 1.0, 1.7])
def test_a_change_of_weights_is_a_factor_and_few_moves(keep):
    rng = np.random.default_rng(0)
    before = np.where(rng.random(50) < 0.5, rng.random(50), 0.0)
    after = keep * before * (1.0 + 1e-14 * rng.standard_normal(50))
    after[:3] += 0.2
    split = split_move(before, after)
    known = split.keep * before
    known[split.at] += split.moves
    np.testing.assert_allclose(known, split.weights, rtol=1e-15)
    np.testing.assert_allclose(split.weights, after, rtol=1e-12)
    assert set(split.at) <= {0, 1, 2}


def test_what_does_not_fit_is_said_in_one_sentence(cloud):
    X, y = cloud
    assert set(SIMPLEX_METHODS) < set(SHARDED_METHODS)
    K = RBF(chunked(X), gamma=0.3)
    for problem in (HingeDual(K, y), OneClassDual(K, nu=0.1)):
        with pytest.raises(MethodMismatchError, match="must be decomposition for this problem"):
            solve(problem, "mfw")
    with pytest.raises(MethodMismatchError, match="fw or mfw"):
        solve(MEBDual(K), "newton-passes")
    with pytest.raises(InputError, match=r"steps_per_trip.*got.*entering"):
        solve(MEBDual(K), "mfw", entering=5)
    with pytest.raises(InputError, match="vertices_per_trip must"):
        solve(MEBDual(K), "cvm", vertices_per_trip=0)


def test_the_minimum_norm_point_is_exact(cloud):
    X, y = cloud
    for problem in (MEBDual(RBF(chunked(X), gamma=0.3)), L2SVMDual(RBF(chunked(X), gamma=0.3), y)):
        exact = solve(problem, "mnp", tol=1e-9)
        assert exact.converged and exact.certificate.relative_gap <= 1e-9
        assert_bounds_overlap(exact, solve(problem, tol=1e-6))


@pytest.mark.parametrize("name", ["ball", "weighted l2"])
@pytest.mark.parametrize("method", ["fw", "mfw"])
def test_samples_of_the_shards_lead_to_the_certified_answer(cloud, method, name):
    X, y = cloud
    tol = 5e-2 if method == "fw" else 1e-4
    here = solve(PROBLEM_OF_NAME[name](RBF(X, gamma=0.3), y), tol=1e-6)
    K = RBF(chunked(X), gamma=0.3)
    there, again = (
        solve(PROBLEM_OF_NAME[name](K, y), method, tol=tol, sampling=59, seed=3) for _ in range(2)
    )
    assert_bounds_overlap(here, there)
    assert there.counters["samples"] > there.n_iter
    assert np.array_equal(there.x, again.x)


def test_shards_draw_in_proportion_to_their_points(cloud, monkeypatch):
    X, _ = cloud
    drawn = []
    sampled = Shard.sampled

    def recorded(shard, *arguments):
        drawn.append((shard.n, arguments[-1]))
        return sampled(shard, *arguments)

    monkeypatch.setattr(Shard, "sampled", recorded)
    assert solve(MEBDual(RBF(chunked(X), gamma=0.3)), "mfw", sampling=60, tol=1e-3).converged
    assert len(set(drawn)) > 1
    for n, n_draws in drawn:
        assert abs(n_draws - 60 * n / N_POINTS) <= 0.5


def test_the_error_bound_of_a_running_product_holds_after_factors(cloud):
    X = cloud[0] - 4.0
    points = PointsOfShard(RBF(X[:1], gamma=0.3), X[:500])
    points.move(points.total() / 500)
    changes, running, exact = GradientError(0.0, np.zeros(500)), np.zeros(500), np.zeros(500)
    rng = np.random.default_rng(0)
    for keep in (1.0, 0.3, 1.9, 1.9, 0.9, 1.9):
        rows, weights = rng.choice(N_POINTS, 40, replace=False), rng.standard_normal(40)
        running *= keep
        exact *= keep
        changes.rescale(keep)
        running += points.sum_fast(X[rows], weights, changes)
        exact += points.sum_exact(X[rows], weights)
    limits = PointsOfShard(points.kernel, X)
    limits.move(points.origin)
    entry = points.entry_error(limits.limits().size)
    error = changes.of_sums(entry, points.relative_error, points.sum_error, points.error)
    own = update_roundoff(N_POINTS, 1.0, changes.total_move, changes.n_passes, 100.0)
    assert np.all(np.abs(running - exact) <= error + own)
    assert np.max(error) <= 1e-3 * changes.total_move


@pytest.mark.parametrize("method", ["mfw", "cvm", "mnp"])
def test_a_dask_array_is_solved_where_it_lies(client, cloud, method):
    da = pytest.importorskip("dask.array")
    X, y = cloud
    held = da.from_array(X, chunks=(CHUNK_ROWS, -1)).persist()
    there = solve(L2SVMDual(RBF(held, gamma=0.3), y, C=2.0), method, tol=1e-5)
    assert there.counters["rebuilt"] == 0
    assert_bounds_overlap(there, solve(L2SVMDual(RBF(X, gamma=0.3), y, C=2.0), tol=1e-6))


@pytest.mark.parametrize(
    ("method", "after", "options"),
    [("pfw", 8, {"steps_per_trip": 1}), ("mfw", 0, {"sampling": 59}), ("mnp", 0, {})],
)
def test_a_killed_worker_changes_no_answer(client, cloud, method, after, options):
    da = pytest.importorskip("dask.array")
    X, _ = cloud
    left = list(client.run(os.getpid).values())[:1]

    def kill(progress):
        if left and progress.iteration >= after:
            os.kill(left.pop(), signal.SIGKILL)

    points = da.from_array(X, chunks=(CHUNK_ROWS, -1))
    problem = MEBDual(RBF(points, gamma=0.3))
    there = solve(problem, method, tol=1e-4, callback=kill, time_limit=60.0, **options)
    assert not left and there.counters["rebuilt"] >= 1
    assert_bounds_overlap(there, solve(MEBDual(RBF(X, gamma=0.3)), tol=1e-6))


@pytest.mark.parametrize("options", [{"max_vertices": 60}, {"max_vertices": 60, "sampling": 40}])
def test_shards_know_the_weights_also_of_vertices_that_were_forgotten(cloud, options):
    X, y = cloud
    qp = sharded(PROBLEM_OF_NAME["ball"], X, y, 3)
    solver = ShardedFrankWolfe(rule="away", vertices_per_trip=30, target=1e-3, **options)
    state = solver.init(qp, None, np.random.default_rng(0))
    for _ in range(6):
        solver.advance(qp, state, 1)
        assert len(state.rows) <= 60
        exact = -np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) @ state.x
        for k, shard in enumerate(qp.shards.shards):
            own = qp.shards.layout.rows(k)
            np.testing.assert_array_equal(shard.x["running"], state.x[own])
            np.testing.assert_allclose(shard.product["running"], -2.0 * exact[own], atol=1e-5)
