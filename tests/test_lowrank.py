"""Low-rank Grams: true to the kernel they stand for, at the rank or error asked for."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    CustomKernel,
    HingeDual,
    InputError,
    Linear,
    LowRank,
    MEBDual,
    Polynomial,
    Precomputed,
    Status,
)
from qpsvm.gram.lowrank import METHODS

ALL = np.arange(300)
every_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def points():
    return two_clouds(300, 4, seed=1)


@pytest.fixture(scope="module")
def kernel(points):
    return RBF(points[0], gamma=0.1)


@pytest.fixture(scope="module")
def K(kernel):
    return kernel.block(ALL, None, np.float64)


@every_method
def test_the_error_is_what_it_says(kernel, K, method):
    low = LowRank(kernel, rank=60, method=method)
    V = low.factor()
    assert V.shape == (300, 60) and low.rank == 60 and low.m == 300
    assert low.exact is kernel and low.psd == "fact" and low.seconds > 0
    assert low.trace_error == pytest.approx(np.trace(K) - np.sum(V**2), abs=1e-9)
    assert low.relative_trace_error == pytest.approx(low.trace_error / np.trace(K))
    difference = np.linalg.eigvalsh(K - V @ V.T)
    assert difference[0] > -1e-7  # so that the trace is the trace norm
    assert np.sum(np.abs(difference)) == pytest.approx(low.trace_error, rel=1e-4)
    best = np.sum(np.linalg.eigvalsh(K)[:-60])
    assert best * (1 - 1e-6) <= low.trace_error <= 8 * best


def test_the_eigendecomposition_is_best(kernel, K):
    values = np.linalg.eigvalsh(K)
    for rank in (20, 100):  # iterated, and at once
        low = LowRank(kernel, rank=rank, method="eigen")
        assert low.trace_error == pytest.approx(np.sum(values[:-rank]), rel=1e-4)


@every_method
def test_it_stops_at_a_relative_trace_error(kernel, method):
    coarse, fine = (LowRank(kernel, tol=tol, method=method) for tol in (0.2, 0.01))
    assert coarse.relative_trace_error <= 0.2
    assert fine.relative_trace_error <= 0.01
    assert coarse.rank < fine.rank < 300
    assert LowRank(kernel, rank=10, tol=0.01, method=method).rank == 10


@pytest.mark.parametrize("method", [name for name in METHODS if name != "nystrom-kmeans"])
def test_full_rank_is_the_kernel_itself(kernel, K, method):
    low = LowRank(kernel, rank=300, method=method)
    np.testing.assert_allclose(low.block(ALL), K, atol=1e-6)
    new = np.random.default_rng(3).standard_normal((5, 4))
    np.testing.assert_allclose(low.cross(new, ALL), kernel.cross(new, ALL), atol=1e-3)


@every_method
def test_it_is_a_gram(kernel, points, method):
    low = LowRank(kernel, rank=40, method=method)
    K = low.factor() @ low.factor().T
    some, x = np.array([7, 3, 250]), np.random.default_rng(4).standard_normal(300)
    np.testing.assert_allclose(low.diag(), np.diagonal(K))
    np.testing.assert_allclose(low.block(some), K[some])
    np.testing.assert_allclose(low.block(some, slice(5, 9)), K[some, 5:9])
    assert low.block(some, some, np.float32).dtype == np.float32
    np.testing.assert_allclose(low.dot(x), K @ x)
    np.testing.assert_allclose(low.dot(x, some), K[some] @ x)
    part = low.take(some)
    np.testing.assert_allclose(part.block(np.arange(3)), K[np.ix_(some, some)])
    assert part.exact.m == 3 and part.relative_trace_error <= 1
    copy = pickle.loads(pickle.dumps(low))
    np.testing.assert_array_equal(copy.factor(), low.factor())
    assert copy.centered() is copy
    # a training point is mapped to its own row of V
    X = points[0]
    np.testing.assert_allclose(low.features(X[some]), low.factor()[some], atol=1e-5)
    np.testing.assert_allclose(low.cross(X[some], ALL), K[some], atol=1e-5)
    np.testing.assert_allclose(copy.take(some).cross(X[:4], np.arange(3)), K[:4, some], atol=1e-5)


@every_method
def test_the_seed_decides(kernel, method):
    one, same = (LowRank(kernel, rank=30, method=method, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.factor(), same.factor())


@pytest.mark.parametrize("method", ["rpcholesky", "pivoted-cholesky", "nystrom"])
def test_the_kernel_matrix_is_never_formed(points, method):
    entries = []

    def counted(A, B):
        entries.append(len(A) * len(B))
        return np.exp(-0.1 * np.sum((A[:, None] - B[None]) ** 2, axis=2))

    kernel = CustomKernel(points[0], counted, psd="assume")
    kernel.diag()
    diagonal = sum(entries)
    entries.clear()
    LowRank(kernel, rank=40, method=method)
    assert sum(entries) <= 2 * diagonal + (40 + 40) * 300
    assert max(entries) <= 40 * 300


@every_method
def test_degenerate_kernels(method):
    rng = np.random.default_rng(6)
    one = LowRank(RBF(rng.standard_normal((1, 2)), gamma=1.0), method=method)
    assert one.rank == 1 and one.trace_error < 1e-12
    same = LowRank(RBF(np.ones((40, 3)), gamma=1.0), rank=5, method=method)
    np.testing.assert_allclose(same.block(np.arange(40)), 1.0, atol=1e-9)
    X = np.repeat(rng.standard_normal((10, 3)), 5, axis=0)
    twice = LowRank(RBF(X, gamma=0.5), rank=30, method=method)
    assert twice.rank <= 30 and np.isfinite(twice.factor()).all()
    if "nystrom" not in method:  # which draws what it has already
        assert twice.rank <= 10 and twice.relative_trace_error < 1e-8
    zero = LowRank(Linear(np.zeros((8, 2))), method=method)
    assert not zero.factor().any() and zero.trace_error == zero.relative_trace_error == 0
    flat = LowRank(Linear(rng.standard_normal((30, 3))), rank=10, method=method)
    assert flat.relative_trace_error < 1e-9


def test_other_grams(points):
    X, _ = points
    dense = np.round(X, 1)
    csr = LowRank(RBF(sp.csr_matrix(dense), gamma=0.1), rank=30)
    same = LowRank(RBF(dense, gamma=0.1), rank=30)
    np.testing.assert_allclose(csr.block(ALL), same.block(ALL), atol=1e-8)
    kernel = Polynomial(X, degree=2, gamma=0.1, coef0=1.0)
    exact = LowRank(kernel, rank=50)  # the feature space has 15 dimensions
    assert exact.rank <= 15 + 3 and exact.relative_trace_error < 1e-9
    K = kernel.block(ALL, None, np.float64)
    given = LowRank(Precomputed(K), rank=20, method="pivoted-cholesky")
    np.testing.assert_allclose(given.cross(K[:3], ALL), given.block(np.arange(3)), atol=1e-6)


def test_a_machine_on_a_low_rank_kernel(points):
    X, y = points
    low = LowRank(RBF(X, gamma=0.1), rank=80)
    problem = HingeDual(low, y, C=5.0)
    interior = qpsvm.solve(problem, "crsvm", tol=1e-8)
    pairs = qpsvm.solve(problem, "smo", tol=1e-8)
    assert interior.status is Status.OPTIMAL
    assert interior.value == pytest.approx(pairs.value, rel=1e-7)
    by_points = qpsvm.solve(HingeDual(Linear(low.factor()), y, C=5.0), "crsvm", tol=1e-8)
    assert interior.value == pytest.approx(by_points.value, rel=1e-7)
    new = np.random.default_rng(7).standard_normal((20, 4))
    np.testing.assert_allclose(
        interior.model.decision_function(new), pairs.model.decision_function(new), atol=1e-3
    )
    assert np.mean(interior.model.predict(X) == y) > 0.8
    # the answer is feasible for the true problem too, and nearly optimal there
    true = qpsvm.solve(HingeDual(low.exact, y, C=5.0), "smo", tol=1e-8)
    start = qpsvm.solve(HingeDual(low.exact, y, C=5.0), "smo", x0=interior, max_iter=0)
    assert start.certificate.violation < 1e-9
    assert start.value == pytest.approx(true.value, rel=0.05)


def test_other_formulations_take_it(points):
    X, _ = points
    low = LowRank(RBF(X, gamma=0.1), rank=50)
    ball, dense = (qpsvm.solve(MEBDual(K), "mfw", tol=1e-6) for K in (low, low.block(ALL)))
    assert ball.value == pytest.approx(dense.value, rel=1e-5)


def test_what_is_refused(kernel):
    for argument, value in {
        "method": "svd", "rank": 0, "tol": -1.0, "seed": -1, "exact": None,
    }.items():  # fmt: skip
        with pytest.raises(InputError, match=argument):
            LowRank(**{"exact": kernel, argument: value})
    with pytest.raises(InputError, match="nystrom-kmeans"):
        LowRank(Precomputed(np.eye(4)), method="nystrom-kmeans")
