"""The linear L2-SVM over rows that are read in passes: finite Newton steps and their certificate."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import RBF, InputError, L2SVMDual, Linear, MethodMismatchError, Status, solve
from qpsvm.distributed.rows import open_rows
from tests.distributed.conftest import CHUNK_ROWS, N_FEATURES, N_POINTS, OTHER_KINDS, other_points
from tests.distributed.passes.test_passes import in_chunks
from tests.distributed.test_shards import assert_bounds_overlap


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [1e-4, 0.1, 10.0, 1e4, "weighted"])
def test_the_machine_is_that_of_one_process(small_sample, cloud, C, bias):
    X, y = cloud
    C = np.linspace(0.1, 2.0, N_POINTS) if C == "weighted" else C
    here = solve(L2SVMDual(Linear(X), y, C=C, bias=bias), tol=1e-8)
    there = solve(L2SVMDual(in_chunks(X), y, C=C, bias=bias), tol=1e-8)
    assert there.method == "mfn"
    assert_bounds_overlap(here, there)
    np.testing.assert_allclose(there.x, here.x, atol=1e-4 * here.x.max())
    np.testing.assert_allclose(there.dual, here.dual, rtol=1e-6)
    np.testing.assert_allclose(there.model.w, here.model.w, atol=1e-4)
    assert there.model.b == pytest.approx(here.model.b, abs=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_the_bounds_are_those_of_the_returned_points(small_sample, cloud, bias):
    X, y = cloud
    C = np.linspace(0.0, 0.5, N_POINTS)
    Z = np.column_stack([X, np.full(N_POINTS, float(bias))])
    for tol in (1e-1, 1e-6):
        result = solve(L2SVMDual(in_chunks(X), y, C=C, bias=bias), tol=tol)
        a, v = result.x, np.append(result.model.w, result.model.b)
        assert a.min() >= 0.0 and a.sum() == pytest.approx(1.0) and a[0] == 0.0
        ridge = np.divide(a * a, C, out=np.zeros(N_POINTS), where=a > 0.0).sum()
        normal = Z.T @ (y * a)
        upper = 0.5 * (normal @ normal + ridge)
        losses = C @ np.maximum(1.0 - y * (Z @ v), 0.0) ** 2
        lower = 0.25 / (0.5 * v @ v + 0.5 * losses)
        assert result.certificate.upper == pytest.approx(upper, rel=1e-9)
        assert result.certificate.lower == pytest.approx(lower, rel=1e-9)
        assert result.certificate.gap >= upper - lower - 1e-12 * upper
        assert result.support.tolist() == np.flatnonzero(a).tolist()


@pytest.mark.parametrize("n_features", [2, N_FEATURES])
def test_points_far_from_zero_are_solved_as_far_as_rounding_allows(cloud, n_features):
    X, y = cloud
    X = X[:, :n_features] + 1e6  # the rounding of the Hessian leaves it without a Cholesky factor
    here = solve(L2SVMDual(Linear(X), y, C=1e6), tol=1e-3, time_limit=20.0).certificate
    there = solve(L2SVMDual(in_chunks(X), y, C=1e6), tol=1e-3, time_limit=20.0).certificate
    assert there.lower <= here.upper and here.lower <= there.upper and np.isfinite(there.gap)


def test_one_point_has_the_value_of_its_closed_form():
    for bias in (True, False):
        problem = L2SVMDual(Linear(open_rows(np.array([[3.0]]))), [1], C=4.0, bias=bias)
        result = solve(problem, tol=1e-9)
        assert result.value == pytest.approx(0.5 * (9.0 + bias + 0.25), rel=1e-9)


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_points(small_sample, cloud, kind):
    X, y = other_points(cloud, kind, 1e4)
    rows = open_rows(X, chunk_bytes=8 * CHUNK_ROWS * X.shape[1])
    there = solve(L2SVMDual(Linear(rows), y, C=0.2), tol=1e-7)
    assert_bounds_overlap(solve(L2SVMDual(Linear(X), y, C=0.2), tol=1e-7), there)


def test_limits_and_starts(small_sample, cloud):
    X, y = cloud
    problem = L2SVMDual(in_chunks(X), y, C=0.3)
    ended = solve(problem, tol=1e-8, max_iter=1)
    assert ended.status is Status.MAX_ITER and np.isfinite(ended.certificate.gap)
    late = solve(problem, tol=1e-8, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT and np.isfinite(late.certificate.gap)
    best = solve(problem, tol=1e-8)
    again = solve(problem, tol=1e-6, x0=best)
    assert again.converged and again.n_iter <= 1
    with pytest.raises(InputError, match="x0"):
        solve(problem, x0=best.x)


def test_a_start_without_a_row_on_the_wrong_side_of_its_margin():
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    rows = Linear(open_rows(y[:, None] * np.ones((1, 2))))
    far = solve(L2SVMDual(Linear(y[:, None] * np.full((1, 2), 1e-3)), y, C=1e9), tol=1e-6)
    assert np.all(y * far.model.decision_function(y[:, None] * np.ones((1, 2))) > 1.0)
    result = solve(L2SVMDual(rows, y, C=0.5), x0=far, tol=1e-8)
    # P = t^2 + 10 (1 - 2 t)^2 at v = (t, t, 0)
    assert result.converged and result.model.w == pytest.approx(np.full(2, 20.0 / 41.0))
    stopped = solve(L2SVMDual(rows, y, C=0.5), x0=far, max_iter=0)
    assert np.isfinite(stopped.certificate.gap) and stopped.x.sum() == pytest.approx(1.0)


def test_methods_by_name(cloud):
    X, y = cloud
    problem = L2SVMDual(in_chunks(X), y)
    by_name = solve(problem, "decomposition", tol=1e-4)
    assert by_name.method == "decomposition"
    assert_bounds_overlap(by_name, solve(problem, "mfn", tol=1e-4))
    rows = in_chunks(X).X
    for other in (L2SVMDual(RBF(rows, gamma=0.3), y), L2SVMDual(Linear(rows), y, C=np.inf)):
        with pytest.raises(MethodMismatchError, match="decomposition"):
            solve(other, "mfn")
    with pytest.raises(MethodMismatchError, match="mfn"):
        solve(problem, "newton-passes")


def test_it_is_solved_on_a_cluster(client, cloud):
    da = pytest.importorskip("dask.array")
    X, y = cloud
    rows = da.from_array(X, chunks=(CHUNK_ROWS, N_FEATURES))
    there = solve(L2SVMDual(Linear(rows), y, C=0.3), tol=1e-8)
    assert there.method == "mfn"
    assert_bounds_overlap(solve(L2SVMDual(Linear(X), y, C=0.3), tol=1e-8), there)
