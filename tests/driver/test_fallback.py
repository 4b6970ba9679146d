"""Fallbacks of `auto` are named, their work is counted, and the answer is never worse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm.solvers.smo.smo
from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    HingeDual,
    L2SVMDual,
    LowRank,
    MEBDual,
    OneClassDual,
    PolytopeDistanceDual,
    Status,
    SVDDDual,
    solve,
)
from qpsvm.driver import fallback
from qpsvm.driver.fallback import (
    Stage,
    run_with_fallbacks,
    run_with_store,
)
from qpsvm.driver.loop import Limits
from qpsvm.solvers.base import SLOW_MIN_STEPS
from qpsvm.solvers.methods import METHODS
from qpsvm.solvers.smo.smo import SMO


@pytest.fixture(autouse=True)
def pair_steps_alone(monkeypatch):
    """Make `smo` stall: without Newton steps."""
    monkeypatch.setattr(qpsvm.solvers.smo.smo, "first_face_step", lambda m: np.inf)


def low_rank_kernel(m=120, seed=0):
    """Points in the plane under a wide kernel, labels at random: pair steps are slow at a large C."""
    rng = np.random.default_rng(seed)
    return RBF(rng.standard_normal((m, 2)), gamma=0.1), np.where(rng.random(m) < 0.5, 1.0, -1.0)


K, Y = low_rank_kernel()

STALLING_PROBLEMS = {
    "smo + crsvm": HingeDual(K, Y, C=1e4),
    "smo + mnp": L2SVMDual(K, Y, C=1e5),
    "decomposition + mnp": PolytopeDistanceDual(*low_rank_kernel(2000), chi=1e4),
}


@pytest.mark.parametrize("name", STALLING_PROBLEMS)
def test_a_fallback_is_warm_started_and_the_answer_reports_it(name):
    seen = []
    result = solve(
        STALLING_PROBLEMS[name], tol=1e-5, callback=lambda p: seen.append((p.iteration, p.time))
    )
    assert result.converged and result.method == name
    first, second = name.split(" + ")
    assert f"warm start of {second}" in result.reason and name in str(result)
    h = result.history
    assert (
        len(h) == len(seen) and (np.diff(h.iteration) >= 0).all() and (np.diff(h.time) >= 0).all()
    )
    assert h.iteration[-1] <= result.n_iter and h.time[-1] <= result.timings["total"]
    assert sum(v for k, v in result.timings.items() if k != "total") == pytest.approx(
        result.timings["total"]
    )
    assert result.counters["pair"] > 0
    alone = solve(
        STALLING_PROBLEMS[name], first, tol=1e-5, max_iter=int(h.iteration[-1]), time_limit=1.0
    )
    assert not alone.converged and alone.method == first
    assert alone.certificate.upper >= result.certificate.lower - result.certificate.gap


def test_a_method_that_was_named_and_a_given_limit_are_kept():
    problem = STALLING_PROBLEMS["smo + crsvm"]
    few = solve(problem, max_iter=500)
    assert few.method == "smo" and few.status is Status.MAX_ITER and few.n_iter == 500
    some = SLOW_MIN_STEPS + SMO.slow_steps_per_point * problem.n_points + 10_000
    named = solve(problem, "smo", tol=1e-5, max_iter=some)
    assert named.method == "smo" and named.status is Status.MAX_ITER


def test_a_time_limit_counts_both():
    solve(STALLING_PROBLEMS["smo + crsvm"])  # compiled
    result = solve(STALLING_PROBLEMS["smo + crsvm"], tol=1e-5, time_limit=0.0)
    assert result.status is Status.TIME_LIMIT and result.method == "smo"
    assert np.isfinite(result.certificate.gap)


def test_a_stop_in_the_fallback_returns_the_better_answer():
    form = STALLING_PROBLEMS["smo + crsvm"].as_qp()
    first = run_with_store(form, METHODS["smo"].solver(), None, Limits(1e-9, 20_000), 1 << 30, 0)
    limits = Limits(1e-9, first.n_iter)  # not one iteration of the second
    second = run_with_store(form, METHODS["crsvm"].solver(), None, limits, 1 << 30, 0, after=first)
    assert second.status is Status.MAX_ITER and second.n_iter == first.n_iter
    best = min(first.certified.certificate.gap, second.history.gap.min())
    assert second.certified.certificate.gap == pytest.approx(best, rel=1e-6)


def test_dense_matrices_keep_to_the_memory_limit():
    form = STALLING_PROBLEMS["smo + crsvm"].as_qp()
    stage = Stage("smo", METHODS["smo"].solver())
    outcome, last = run_with_fallbacks(
        form, stage, None, Limits(1e-5, 50_000), 24 * form.m**2 - 1, 0
    )
    assert last == stage and outcome.status is Status.MAX_ITER


@pytest.mark.parametrize("kind", [OneClassDual, SVDDDual])
def test_columns_in_float64_follow_where_float32_is_not_enough(kind):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 2)).astype(np.float32) + np.float32(10_000)  # far from zero
    X[:, 1] = 0.0  # half of the coordinates are not stored: the points are not centered
    value = {"nu": 0.3} if kind is OneClassDual else {"C": 0.05}
    too_little = 8 * len(X) ** 2 - 1  # for all columns in float64
    result = solve(kind(RBF(sp.csr_matrix(X), 0.1), **value), tol=1e-6, memory_limit=too_little)
    assert result.converged and "columns in float64" in result.reason
    exact = solve(kind(RBF(sp.csr_matrix(X.astype(np.float64)), gamma=0.1), **value), tol=1e-9)
    assert result.value == pytest.approx(exact.value, rel=2e-6)


@pytest.mark.parametrize("method", ["auto", "decomposition"])
def test_columns_in_float64_follow_where_the_method_chose_float32(method):
    """Of points on a grid that are merged, whose weights are large."""
    rng, n = np.random.default_rng(0), 8000
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = rng.standard_normal((n, 2))
    X[:, 0] += 2.5 * y
    X = np.clip(np.round(10.0 * X) + 128.0, 0.0, 255.0)
    gram = RBF(X, gamma=0.5 / float(np.sum(np.var(X, axis=0))))
    result = solve(HingeDual(gram, y, C=1e3), method, tol=1e-8, memory_limit=30_000_000)
    assert result.converged and result.method == "decomposition"
    assert "columns in float64" in result.reason
    assert result.certificate.relative_gap <= 1e-8


def test_any_small_kernel_has_an_interior_point_method():
    X, y = two_clouds(80, 3, seed=4)
    for gram in (RBF(X, gamma=0.5), qpsvm.Precomputed(RBF(X, gamma=0.5).block(np.arange(80)))):
        for C in (1.0, 1e5):
            problem = HingeDual(gram, y, C=C)
            exact = solve(problem, "crsvm", tol=1e-8)
            assert exact.converged and exact.n_iter < 40
            other = solve(problem, "smo", tol=1e-6)
            assert exact.certificate.lower <= other.certificate.upper
            assert other.certificate.lower <= exact.certificate.upper
    both = np.array([[0.0, 1.0], [1.0, 0.0]])  # eigenvalues 1 and -1
    indefinite = solve(HingeDual(qpsvm.Precomputed(both), [1, -1], C=1.0), "crsvm")
    assert indefinite.status is Status.NONCONVEX


def test_rounding_on_a_nearly_dependent_face_is_no_negative_curvature():
    """Points far away have rows of nearly zero in a low-rank factor."""
    rng = np.random.default_rng(1512)
    X = (rng.standard_normal((150, 30)) > 0).astype(float)
    low = LowRank(RBF(X, gamma=1.0), 5)
    assert low.diag().min() < 1e-12
    for seed in range(5):
        result = solve(MEBDual(low), "mnp", tol=1e-9, seed=seed)
        assert result.converged
    assert solve(MEBDual(low), tol=1e-6).value == pytest.approx(result.value, rel=1e-5)


def test_points_are_copied_to_float64_only_where_a_fallback_runs(monkeypatch):
    X, y = two_clouds(80, 3, seed=4)
    gram = RBF(X.astype(np.float32), gamma=0.5)
    monkeypatch.setattr(RBF, "to_float64", lambda self: pytest.fail("the first method was enough"))
    assert solve(HingeDual(gram, y), tol=1e-3, memory_limit=8 * 80**2 - 1).converged


def test_few_points_in_float32_have_columns_in_float64(monkeypatch):
    X, y = two_clouds(80, 3, seed=4)
    gram = RBF(X.astype(np.float32), gamma=0.5)
    monkeypatch.setattr(RBF, "dot", lambda *given: pytest.fail("the columns are cached"))
    result = solve(HingeDual(gram, y), tol=1e-6)
    assert result.converged and result.counters["bytes"] == 8 * 80**2


def test_a_fallback_that_meets_no_number_leaves_a_stalled_solve():
    """Points of size 1e8: `dcd` stalls with a valid gap, and the directions of `crsvm` are not finite."""
    rng = np.random.default_rng(302)
    X = rng.standard_normal((9, 10)) + 1e11
    y = np.where(rng.random(9) > 0.5, 1.0, -1.0)
    problem = HingeDual(qpsvm.Linear(X), y, C=100.0, bias=False)
    result = solve(problem)
    assert result.status is Status.STALLED and result.method == "dcd + crsvm"
    assert np.isfinite(result.certificate.gap)
    started = solve(problem, "dcd")
    assert started.status is Status.STALLED


def test_a_gram_that_is_refuted_in_float64_leaves_no_bound_of_the_first_method(monkeypatch):
    X = np.array([[2.0, 2.0], [2.0, 3.0], [-1.0, -3.0]], dtype=np.float32)
    K = qpsvm.Sigmoid(X, gamma=9.638554216867469e-08, coef0=0.0)
    problem = qpsvm.NuSVCDual(K, [1.0, -1.0, -1.0], nu=1e-6)
    assert solve(problem, tol=1e-12).status is Status.NONCONVEX
    monkeypatch.setattr(fallback, "MAX_POINTS_FILLED_AT_ONCE", 0)  # columns in float32 at first
    result = solve(problem, tol=1e-12)
    assert "columns in float64" in result.reason and result.status is Status.NONCONVEX
    assert result.certificate.lower == -np.inf


@pytest.mark.parametrize("method", ["swap", "fw"])
def test_rounding_far_from_zero_is_no_negative_curvature(method):
    """The squared norms are 1e28, beside distances of 1; the kernel is positive semidefinite."""
    X = np.array(
        [[100000000041122.16], [99999999.83362412], [100000000.73360196], [100000000.5654632]]
    )
    other = np.array(
        [[99999970.8797774], [100000003.5246027], [99999999.51271993], [1.00000000253438e14]]
    )
    for points, y in ((X, [1.0, 1.0, -1.0, -1.0]), (other, [-1.0, 1.0, -1.0, 1.0])):
        result = solve(PolytopeDistanceDual(qpsvm.Linear(points), y, chi=1e-3), method, tol=1e-9)
        assert result.status in (Status.STALLED, Status.OPTIMAL)
        assert np.isfinite(result.certificate.gap)


def test_curvature_within_the_rounding_of_a_tested_matrix_is_no_negative_curvature():
    X = np.array([[2459999.75], [2460000.75], [2460000.0]], dtype=np.float32)
    K = qpsvm.CustomKernel(X, lambda A, B: np.asarray(1.0 + A @ B.T) ** 2)
    result = solve(PolytopeDistanceDual(K, [1.0, 1.0, -1.0], chi=1e150), "fw", tol=1e-9)
    assert result.status is Status.STALLED and np.isfinite(result.certificate.gap)
