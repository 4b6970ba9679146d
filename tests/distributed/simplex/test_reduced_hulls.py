"""Reduced hulls over shards: two simplices with upper bounds, the certified answers of one process."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import RBF, CustomKernel, Laplacian, Linear, NuSVCDual, OneClassDual, solve
from qpsvm.clock import Clock
from qpsvm.distributed.decomposition import starting_point
from qpsvm.distributed.placement import make_group
from qpsvm.distributed.sharded_qp import qp_of
from qpsvm.solvers.shared.starting_points import corner
from tests.distributed.conftest import CHUNK_ROWS, killing_a_worker
from tests.distributed.test_simplex import assert_bounds_overlap, chunked

N_SHARDS = 4
"""Number of shards of the points."""


def square(A, B):
    return (1.0 + 0.2 * np.asarray(A @ B.T)) ** 2


KERNEL_OF_NAME = {
    "rbf": lambda X: RBF(X, gamma=0.3),
    "laplacian": lambda X: Laplacian(X, gamma=0.3),
    "linear": Linear,
    "custom": lambda X: CustomKernel(X, square),
}


@pytest.fixture(scope="module", params=["everywhere", "in one shard"])
def unequal(request, cloud):
    """Points of two classes, the smaller one 1 in 8, in all shards or in the last one alone."""
    X, _ = cloud
    y = np.where(np.arange(len(X)) % 8 == 0, -1.0, 1.0)
    X = X + np.outer(y, [4.0, 0.0, 0.0, 0.0])
    if request.param == "everywhere":
        return X, y
    order = np.argsort(-y, kind="stable")
    return X[order], y[order]


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("nu", [0.001, 0.02, 0.1, 0.2, "largest"])
def test_the_certified_answer_is_that_of_one_process(unequal, nu, kernel):
    X, y = unequal
    nu = NuSVCDual.largest_nu(y) if nu == "largest" else nu
    here = solve(NuSVCDual(KERNEL_OF_NAME[kernel](X), y, nu), tol=1e-6)
    there = solve(NuSVCDual(KERNEL_OF_NAME[kernel](chunked(X)), y, nu), tol=1e-5)
    assert there.method == "decomposition" and there.counters["shards"] == N_SHARDS
    assert there.certificate.violation <= 1e-12
    bounds = 2.0 / (nu * len(y))
    assert np.all(there.x <= bounds * (1.0 + 1e-12))
    assert there.support.tolist() == np.flatnonzero(there.x).tolist()
    assert_bounds_overlap(here, there)
    assert there.model.hulls_intersect is here.model.hulls_intersect is False
    np.testing.assert_allclose(there.model.distance, here.model.distance, rtol=1e-3)
    np.testing.assert_allclose(there.model.rho, here.model.rho, rtol=1e-2)
    one, other = (result.model.decision_function(X[:50] + 0.01) for result in (here, there))
    np.testing.assert_allclose(other, one, atol=2e-2 * np.max(np.abs(one)))
    assert there.model.n_margin_errors <= round(nu * len(y))


@pytest.mark.parametrize("kernel", ["laplacian", "custom"])
def test_other_kernels_and_weights_of_points(unequal, kernel):
    X, y = unequal
    weight = np.linspace(0.5, 2.0, len(y))
    nu = 0.5 * NuSVCDual.largest_nu(y, weight)
    here, there = (
        solve(NuSVCDual(KERNEL_OF_NAME[kernel](P), y, nu, weight), tol=1e-5)
        for P in (X, chunked(X))
    )
    assert_bounds_overlap(here, there)
    one, other = (result.model.decision_function(X[:50] + 0.01) for result in (here, there))
    np.testing.assert_allclose(other, one, atol=2e-2 * np.max(np.abs(one)))


@pytest.mark.parametrize("by_class", [False, True])
def test_the_distance_of_two_means_is_known_in_closed_form(by_class):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 3)) + 50.0, np.where(np.arange(80) % 2 == 0, 1.0, -1.0)
    X += np.outer(y, [2.0, 0.0, 0.0])
    if by_class:
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    found = solve(NuSVCDual(Linear(chunked(X, 20)), y, nu=1.0), tol=1e-8)
    w = np.mean(X[y > 0], axis=0) - np.mean(X[y < 0], axis=0)
    bounds = found.certificate
    assert found.converged and found.counters["shards"] == N_SHARDS
    assert bounds.lower <= 0.5 * float(w @ w) <= bounds.upper + bounds.roundoff
    np.testing.assert_allclose(found.model.distance, np.linalg.norm(w), rtol=1e-9)
    np.testing.assert_allclose(found.x, 2.0 / 80, rtol=1e-9)


def test_reduced_hulls_that_intersect_have_the_distance_zero(cloud):
    X, _ = cloud
    y = np.where(np.arange(len(X)) % 2 == 0, 1.0, -1.0)
    here, there = (solve(NuSVCDual(Linear(P), y, nu=0.3), tol=1e-6) for P in (X, chunked(X)))
    assert_bounds_overlap(here, there)
    assert here.model.hulls_intersect is there.model.hulls_intersect is True


@pytest.mark.parametrize("nu", [0.02, 0.2, "largest"])
def test_bounds_at_any_weights_are_those_of_one_process(unequal, nu):
    X, y = unequal
    nu = NuSVCDual.largest_nu(y) if nu == "largest" else nu
    qp = NuSVCDual(RBF(X, gamma=0.3), y, nu).as_qp()
    kernel = RBF(chunked(X), gamma=0.3)
    there = qp_of(NuSVCDual(kernel, y, nu), make_group(kernel, Clock()), translates=False)
    rng = np.random.default_rng(0)
    for slope in (rng.standard_normal(len(y)), X[:, 0]):
        vertex = qp.domain.linear_min(slope)
        for x in (vertex, qp.domain.repair(0.5 * (vertex + qp.domain.linear_min(-slope)))):
            own, other = qp.bounds(x, qp.product(x)), there.bounds(x, there.product(x))
            assert np.isclose(other.upper, own.upper, rtol=1e-6)
            gap = other.gap - other.roundoff
            assert 0.0 <= gap - (own.gap - own.roundoff) + 1e-12 and gap <= 1.02 * own.gap
            assert other.multipliers.shape == (2,) and other.roundoff > 0.0


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.25])
def test_the_starting_point_is_the_vertex_of_one_process(unequal, nu):
    X, y = unequal
    kernel = RBF(chunked(X), gamma=0.3)

    def compared(problem_of):
        with problem_of(RBF(X, gamma=0.3)).as_qp().with_store(1 << 26) as problem:
            here = corner(problem)
        shards = make_group(kernel, Clock())
        there = starting_point(qp_of(problem_of(kernel), shards, translates=False))
        np.testing.assert_allclose(there, here, atol=1e-12)

    compared(lambda K: OneClassDual(K, nu))
    compared(lambda K: NuSVCDual(K, y, nu))


def test_a_start_and_a_limit_of_iterations_hold(unequal):
    X, y = unequal
    problem = NuSVCDual(RBF(chunked(X), gamma=0.3), y, nu=0.1)
    first = solve(problem, tol=1e-5)
    again = solve(problem, x0=first, max_iter=0, tol=1e-5)
    assert first.converged and again.converged and again.n_iter == 0
    ended = solve(problem, max_iter=1, tol=1e-8)
    assert ended.certificate.lower <= first.certificate.upper <= ended.certificate.upper
    assert ended.model.hulls_intersect in (None, False)


def test_a_killed_worker_changes_no_reduced_hull(client, cloud):
    da = pytest.importorskip("dask.array")
    X, y = cloud
    kill, left = killing_a_worker(client)
    points = da.from_array(X, chunks=(CHUNK_ROWS, -1))
    problem = NuSVCDual(RBF(points, gamma=0.3), y, nu=0.3)
    there = solve(problem, tol=1e-4, callback=kill, time_limit=60.0)
    assert not left and there.counters["rebuilt"] >= 1
    assert_bounds_overlap(there, solve(NuSVCDual(RBF(X, gamma=0.3), y, nu=0.3), tol=1e-6))
