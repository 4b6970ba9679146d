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
    L2SVMDual,
    Linear,
    LowRank,
    MEBDual,
    Polynomial,
    Precomputed,
    Status,
)
from qpsvm.driver.polish import at_bounds
from qpsvm.gram.lowrank import APPROXIMATION_METHODS, COLUMNS_PER_DRAW

ALL_ROWS = np.arange(300)
every_method = pytest.mark.parametrize("method", APPROXIMATION_METHODS)


@pytest.fixture(scope="module")
def points():
    return two_clouds(300, 4, seed=1)


@pytest.fixture(scope="module")
def kernel(points):
    return RBF(points[0], gamma=0.1)


@pytest.fixture(scope="module")
def K(kernel):
    return kernel.block(ALL_ROWS, None, np.float64)


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
    low, fine = (LowRank(kernel, tol=tol, method=method) for tol in (0.2, 0.01))
    assert low.relative_trace_error <= 0.2
    assert fine.relative_trace_error <= 0.01
    assert low.rank < fine.rank < 300
    assert LowRank(kernel, rank=10, tol=0.01, method=method).rank == 10


@pytest.mark.parametrize(
    "method", [name for name in APPROXIMATION_METHODS if name != "nystrom-kmeans"]
)
def test_full_rank_is_the_kernel_itself(kernel, K, method):
    low = LowRank(kernel, rank=300, method=method)
    np.testing.assert_allclose(low.block(ALL_ROWS), K, atol=1e-6)
    new = np.random.default_rng(3).standard_normal((5, 4))
    np.testing.assert_allclose(low.cross(new, ALL_ROWS), kernel.cross(new, ALL_ROWS), atol=1e-3)


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
    np.testing.assert_allclose(low.cross(X[some], ALL_ROWS), K[some], atol=1e-5)
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
    np.testing.assert_allclose(csr.block(ALL_ROWS), same.block(ALL_ROWS), atol=1e-8)
    kernel = Polynomial(X, degree=2, gamma=0.1, coef0=1.0)
    exact = LowRank(kernel, rank=50)  # the feature space has 15 dimensions
    assert exact.rank <= 15 + 3 and exact.relative_trace_error < 1e-9
    K = kernel.block(ALL_ROWS, None, np.float64)
    given = LowRank(Precomputed(K), rank=20, method="pivoted-cholesky")
    np.testing.assert_allclose(given.cross(K[:3], ALL_ROWS), given.block(np.arange(3)), atol=1e-6)


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
    ball, dense = (qpsvm.solve(MEBDual(K), "mfw", tol=1e-6) for K in (low, low.block(ALL_ROWS)))
    assert ball.value == pytest.approx(dense.value, rel=1e-5)


def test_what_is_refused(kernel):
    for argument, value in {
        "method": "svd", "rank": 0, "tol": -1.0, "seed": -1, "exact": None,
    }.items():  # fmt: skip
        with pytest.raises(InputError, match=argument):
            LowRank(**{"exact": kernel, argument: value})
    with pytest.raises(InputError, match="nystrom-kmeans"):
        LowRank(Precomputed(np.eye(4)), method="nystrom-kmeans")


def test_prediction_reads_the_landmarks_alone(points):
    X, y = points
    entries = []

    def counted(A, B):
        entries.append(len(A) * len(B))
        return np.exp(-0.1 * np.sum((A[:, None] - B[None]) ** 2, axis=2))

    low = LowRank(CustomKernel(X, counted, psd="assume"), rank=20)
    model = qpsvm.solve(HingeDual(low, y, C=5.0), "crsvm", tol=1e-4).model
    assert model.w is None and len(model.expansion.indices) > 100
    new = np.random.default_rng(8).standard_normal((50, 4))
    direct = low.cross(new, model.expansion.indices) @ model.expansion.coef + model.b
    entries.clear()
    np.testing.assert_allclose(model.decision_function(new), direct, atol=1e-9)
    assert sum(entries) <= 50 * (20 + COLUMNS_PER_DRAW)


@every_method
def test_a_ball_judges_new_points(points, method):
    X, _ = points
    low = LowRank(RBF(X, gamma=0.1), rank=40, method=method)
    ball = qpsvm.solve(MEBDual(low), "mnp", tol=1e-8).model
    V = low.factor()
    center = V[ball.expansion.indices].T @ ball.expansion.coef
    assert ball.center is None
    # the squares of nearly equal numbers: half of the digits
    np.testing.assert_allclose(ball.distance(X), np.linalg.norm(V - center, axis=1), atol=1e-4)
    assert ball.contains(X, slack=1e-3).all()


def test_single_precision_and_sparse_points_lose_nothing(points):
    X = np.round(points[0], 1)
    reference = LowRank(RBF(X.astype(np.float32).astype(np.float64), gamma=0.1), rank=60)
    for given in (X.astype(np.float32), sp.csr_matrix(X.astype(np.float32))):
        low = LowRank(RBF(given, gamma=0.1), rank=60)
        np.testing.assert_allclose(low.block(ALL_ROWS), reference.block(ALL_ROWS), atol=1e-9)
        assert low.exact.dtype == np.float32 and low.landmarks.gram is low.exact


def declared(formulation, K, y):
    return formulation(K) if formulation is MEBDual else formulation(K, y, 5.0)


EACH_FORMULATION = pytest.mark.parametrize(
    ("formulation", "method"), [(HingeDual, "crsvm"), (L2SVMDual, "mnp"), (MEBDual, "mnp")]
)


@EACH_FORMULATION
def test_both_gaps(points, formulation, method):
    X, y = points
    low = LowRank(RBF(X, gamma=0.1), rank=40)
    plain = qpsvm.solve(declared(formulation, low, y), method, tol=1e-6)
    assert plain.original is None and "original" not in plain.timings
    result = qpsvm.solve(declared(formulation, low, y), method, tol=1e-6, original=True)
    assert result.certificate == plain.certificate and result.timings["original"] > 0
    true = declared(formulation, low.exact, y)
    again = qpsvm.solve(true, "smo", x0=result.x, max_iter=0).certificate
    both = result.original, again
    assert both[0].upper == pytest.approx(both[1].upper, rel=1e-9)
    assert both[0].gap == pytest.approx(both[1].gap, rel=1e-6)
    best = qpsvm.solve(true, "smo", tol=1e-9).value
    assert result.original.lower <= best <= result.original.upper
    assert result.original.relative_gap > 100 * result.certificate.relative_gap
    assert "On the kernel itself" in str(result) and "kernel itself" not in str(plain)
    # the better the approximation, the smaller the original gap
    full = LowRank(low.exact, rank=300)
    close = qpsvm.solve(declared(formulation, full, y), method, tol=1e-6, original=True)
    assert close.original.relative_gap < 1e-2 * result.original.relative_gap


@EACH_FORMULATION
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_polish_ends_on_the_kernel_itself(points, formulation, method, tol):
    X, y = points
    low = LowRank(RBF(X, gamma=0.1), rank=40)
    problem = declared(formulation, low, y)
    result = qpsvm.solve(problem, method, tol=tol, polish=True)
    assert result.status is Status.OPTIMAL and result.method == f"{method} + smo"
    assert result.original is result.certificate and result.certificate.relative_gap <= tol
    best = qpsvm.solve(declared(formulation, low.exact, y), "smo", tol=1e-9).value
    assert result.value == pytest.approx(best, rel=tol)
    kept = result.model.expansion
    np.testing.assert_array_equal(kept.gram.X, X[kept.indices])
    assert result.timings["total"] == pytest.approx(
        sum(seconds for key, seconds in result.timings.items() if key != "total"), abs=1e-6
    )
    approximate = qpsvm.solve(problem, method, tol=tol)
    assert abs(approximate.value - best) > 10 * abs(result.value - best)


def test_polish_by_name_and_from_a_good_start(points):
    X, y = points
    kernel = RBF(X, gamma=0.1)
    problem = L2SVMDual(LowRank(kernel, rank=250), y, 5.0)
    assert qpsvm.solve(problem, "mnp", tol=1e-9, polish="mnp").method == "mnp + mnp"
    hinge = HingeDual(LowRank(kernel, rank=250), y, 5.0)
    warm = qpsvm.solve(hinge, "crsvm", tol=1e-6, polish="smo")
    cold = qpsvm.solve(HingeDual(kernel, y, 5.0), "smo", tol=1e-6)
    assert warm.counters["pair"] < 0.5 * cold.counters["pair"]
    assert warm.value == pytest.approx(cold.value, rel=1e-6)


def test_limits_of_a_polish(points):
    X, y = points
    low = LowRank(RBF(X, gamma=0.1), rank=40)
    problem = HingeDual(low, y, 5.0)
    for limits, status in (
        ({"time_limit": 0.0}, Status.TIME_LIMIT),
        ({"callback": lambda progress: True}, Status.CALLBACK_STOP),
        ({"max_iter": 0}, Status.MAX_ITER),
    ):
        result = qpsvm.solve(problem, "crsvm", tol=1e-8, polish=True, **limits)
        assert result.status is status
        judged = qpsvm.solve(HingeDual(low.exact, y, 5.0), "smo", x0=result, max_iter=0)
        assert result.certificate.gap == pytest.approx(judged.certificate.gap, rel=1e-6)
        assert 1e-8 < result.certificate.relative_gap < np.inf


def test_weights_at_bounds_stay_there(points):
    X, y = points
    C = np.where(y > 0, 2.0, 5.0)
    C[:10] = 0.0  # left out
    problem = HingeDual(LowRank(RBF(X, gamma=0.1), rank=40), y, C)
    rough = qpsvm.solve(problem, "crsvm", tol=1e-5)
    x = at_bounds(problem, rough.x)
    fine = qpsvm.solve(problem, "crsvm", tol=1e-12).x
    assert abs(y @ x) <= 1e-14 * np.sum(x) and (x >= 0).all() and (x <= C).all()
    np.testing.assert_array_equal(x == 0, fine < 1e-6 * np.maximum(C, 1))
    np.testing.assert_allclose(x, fine, atol=0.05)
    result = qpsvm.solve(problem, "crsvm", tol=1e-6, polish=True)
    assert result.converged and not result.x[:10].any()
    hard = HingeDual(LowRank(Linear(X + 9 * y[:, None]), rank=4), y, np.inf)
    np.testing.assert_array_equal(at_bounds(hard, rough.x), rough.x)


def test_what_the_original_needs(points, kernel):
    y = points[1]
    for option in ("original", "polish"):
        with pytest.raises(InputError, match="low-rank"):
            qpsvm.solve(HingeDual(kernel, y), "smo", **{option: True})
    low = HingeDual(LowRank(kernel, rank=10), y)
    with pytest.raises(InputError, match=r"^polish must be one of"):
        qpsvm.solve(low, "crsvm", polish="newton")
    with pytest.raises(qpsvm.MethodMismatchError, match="mnp"):
        qpsvm.solve(low, "crsvm", polish="mnp")
    with pytest.raises(InputError, match="original"):
        qpsvm.solve(low, "crsvm", original="yes")


def test_the_factor_makes_the_step_of_formula_4_2():
    """Jung, O'Leary and Tits (4.2): K_BB in place of the identity, K_mB in place of the factor."""
    rng = np.random.default_rng(42)
    X = rng.standard_normal((60, 3))
    low = LowRank(RBF(X, gamma=0.5), 12, method="nystrom", seed=3)
    B, V = low.landmarks.columns, low.factor()
    K = RBF(X, gamma=0.5).block(np.arange(60), None, np.float64)
    d, r = rng.uniform(0.1, 10.0, 60), rng.standard_normal(60)
    ours = V @ np.linalg.solve(np.eye(12) + V.T @ (d[:, None] * V), V.T @ r)
    normal = K[np.ix_(B, B)] + K[B] @ (d[:, None] * K[:, B])
    printed = K[:, B] @ np.linalg.solve(normal, K[B] @ r)
    np.testing.assert_allclose(ours, printed, rtol=1e-7, atol=1e-9)
