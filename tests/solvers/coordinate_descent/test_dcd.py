"""Dual coordinate descent and Pegasos."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from problems.clouds import cloud, sparse_clouds, two_clouds, weights
from qpsvm import HingePrimal, L2SVMDual, L2SVRDual, Linear, Status, SVRDual
from qpsvm.driver.fallback import Stage, run_with_fallbacks
from qpsvm.driver.selection import find
from qpsvm.driver.trace import Limits
from qpsvm.errors import InputError
from qpsvm.numerics.csr_rows import rows_of
from qpsvm.solvers.coordinate_descent import proximal_newton as proximal
from qpsvm.solvers.coordinate_descent.dcd import (
    DualCoordinateDescent,
    SquaredLossCoordinateDescent,
)

X, Y = two_clouds(400, 12, seed=31)
C = weights(400, seed=32)


def solved(problem, method="dcd", **options):
    result = qpsvm.solve(problem, method, **options)
    assert result.status is Status.OPTIMAL
    return result


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0, C])
def test_dcd_finds_the_answer_of_the_interior_point_method(penalty, bias):
    problem = HingePrimal(X, Y, penalty, bias=bias)
    ours, other = solved(problem, tol=1e-9), solved(problem, "crsvm", tol=1e-9)
    assert ours.value == pytest.approx(other.value, rel=2e-9)
    np.testing.assert_allclose(ours.model.w, other.model.w, atol=1e-3 * np.abs(ours.x).max())


@pytest.mark.parametrize("newton", [False, True])
def test_shrinking_changes_the_way_and_not_the_answer(newton):
    problem = HingePrimal(X, Y, 1.0, bias=False)
    runs = [solved(problem, tol=1e-7, shrinking=on, newton=newton) for on in (True, False)]
    assert runs[0].value == pytest.approx(runs[1].value, rel=1e-7)
    assert runs[0].counters["visits"] != runs[1].counters["visits"]
    assert all((run.counters["newton"] > 0) == newton for run in runs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_matrix])
def test_storage_does_not_matter(make, dtype):
    """Entries that float32 holds exactly give one answer in every storage."""
    points, y = sparse_clouds(200, 20, seed=33)
    points = points.toarray().astype(np.float32)
    plain = solved(HingePrimal(points.astype(np.float64), y, bias=False), tol=1e-8)
    other = solved(HingePrimal(make(points.astype(dtype)), y, bias=False), tol=1e-8)
    assert other.value == pytest.approx(plain.value, rel=1e-8)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n_features", [30, 250])  # Newton matrices in features, and in points
def test_equal_values_are_stored_once(n_features, bias):
    rng = np.random.default_rng(35)
    points = 0.5 * (rng.random((200, n_features)) < 0.3)
    points[0] = 0.0  # a row without entries
    y = np.where(points[:, :5].sum(axis=1) + 0.3 * rng.standard_normal(200) > 0.7, 1.0, -1.0)
    assert len(rows_of(sp.csr_matrix(points)).data) == 1
    plain, binary = (
        solved(HingePrimal(make(points), y, 10.0, bias=bias), "dcd", tol=1e-8, newton=True)
        for make in (np.asarray, sp.csr_matrix)
    )
    assert plain.counters["newton"] > 0 and binary.counters["newton"] > 0
    assert binary.value == pytest.approx(plain.value, rel=1e-8)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_the_order_of_the_points_is_restored(bias, width):
    """CSR rows are rearranged inside; start, margins and answer keep the order given."""
    points, y = sparse_clouds(203, 20, seed=37)
    points = sp.csr_matrix(points)
    points.indices, points.indptr = points.indices.astype(width), points.indptr.astype(width)
    order = np.argsort(y, kind="stable")
    plain = solved(HingePrimal(points, y, C[:203], bias=bias), tol=1e-9)
    other = solved(HingePrimal(points[order], y[order], C[:203][order], bias=bias), tol=1e-9)
    np.testing.assert_allclose(other.dual, plain.dual[order], atol=1e-3 * np.max(plain.dual))
    again = qpsvm.solve(HingePrimal(points, y, C[:203], bias=bias), "dcd", tol=1e-8, x0=plain)
    assert again.n_iter == 0 and again.converged


def test_a_rearranged_matrix_has_the_same_rows():
    points, order = sp.random(40, 30, 0.2, format="csr", random_state=38), np.arange(40)[::-1]
    data, columns, ends = rows_of(points, order)
    ends = ends.astype(np.int64)
    np.testing.assert_array_equal(
        sp.csr_matrix((data, columns.astype(int), ends), (40, 30)).toarray(),
        points.toarray()[order],
    )


def test_sweeps_end_at_their_own_gap():
    """A round ends at the tolerance: a tight one continues within the round, a loose one does not."""
    points, y = sparse_clouds(400, 20, seed=39)
    problem = HingePrimal(points, y, 0.01, bias=False)
    loose, tight = (
        solved(problem, tol=tol, newton=False, max_iter=20).counters["visits"]
        for tol in (1e-2, 1e-6)
    )
    fixed = solved(problem, tol=1e-2, newton=False, target=0.0).counters["visits"]
    assert loose < tight and loose < fixed


@pytest.mark.parametrize("method", ["dcd", "pegasos"])
def test_a_seed_repeats_bit_for_bit_and_another_differs(method):
    problem = HingePrimal(X, Y, 1.0, bias=False)
    runs = [qpsvm.solve(problem, method, tol=1e-12, max_iter=2, seed=seed) for seed in (5, 5, 6)]
    assert runs[0].dual.tobytes() == runs[1].dual.tobytes()
    assert runs[0].dual.tobytes() != runs[2].dual.tobytes()


def test_more_features_than_points():
    points = cloud(60, 300, seed=34)
    y = np.where(np.arange(60) % 2, 1.0, -1.0)
    ours = solved(HingePrimal(points, y, 0.01, bias=False), tol=1e-9)
    other = solved(HingePrimal(points, y, 0.01, bias=False), "crsvm", tol=1e-9)
    assert ours.value == pytest.approx(other.value, rel=2e-9)


def test_newton_steps_do_not_multiply_with_the_penalty():
    few = [
        solved(HingePrimal(X, Y, penalty, bias=False), tol=1e-6, newton=True).counters["newton"]
        for penalty in (1.0, 1e4)
    ]
    assert few[1] <= 5 * few[0] + 30


def test_a_start_at_the_answer_stays_there():
    problem = HingePrimal(X, Y, 1.0, bias=False)
    first = solved(problem, tol=1e-8)
    again = qpsvm.solve(problem, "dcd", tol=1e-7, x0=first)
    assert again.n_iter == 0 and again.converged


def wide_points(m=300, d=900):
    """Return CSR points with more columns than rows, and labels of which one in ten is positive."""
    rng = np.random.default_rng(37)
    points = sp.random(m, d, density=0.03, format="csr", random_state=rng)
    return points, np.where(np.arange(m) % 10, -1.0, 1.0)


@pytest.mark.parametrize("bias", [False, True])
def test_newton_directions_by_conjugate_gradients_are_those_of_the_factors(bias, monkeypatch):
    points, y = wide_points()
    qp = HingePrimal(points, y, 1.0, bias=bias).as_qp()
    state = DualCoordinateDescent().init(qp, None, np.random.default_rng(0))
    rng = np.random.default_rng(38)
    s, g, free = rng.uniform(1.0, 9.0, 300), rng.standard_normal(900), np.arange(0, 300, 2)
    found = []
    monkeypatch.setattr(proximal, "CG_RESIDUAL_FRACTION", 1e-12)
    for worth in (0.0, 1e9):
        monkeypatch.setattr(proximal, "CG_COST_FRACTION", worth)
        iterated = proximal._by_conjugate_gradients(state, s[free], free, g, 0.7 * bias, 1.0)
        assert (iterated is None) == (worth == 0.0)
        found.append(proximal._direction(state, s, free, g, 0.7 * bias))
    np.testing.assert_allclose(found[1][0], found[0][0], atol=1e-9)
    assert found[1][1] == pytest.approx(found[0][1], abs=1e-9)


def test_where_no_product_is_worth_while_the_factors_give_the_answer(monkeypatch):
    """Most points are between the bounds: one class is ten times as large, the penalty small."""
    points, y = wide_points()
    problem = HingePrimal(points, y, 1e-3)
    found = solved(problem, tol=1e-9)
    assert np.count_nonzero((found.dual > 0.0) & (found.dual < 1e-3)) > 100
    monkeypatch.setattr(proximal, "CG_COST_FRACTION", 0.0)
    assert solved(problem, tol=1e-9).value == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("batch", [1, 16, 1000])
def test_pegasos_closes_its_gap_like_one_over_the_epochs(batch):
    """Ten times the epochs: at most a third of the gap."""
    problem = HingePrimal(X, Y, 0.1, bias=False)
    short, long = (
        qpsvm.solve(problem, "pegasos", tol=1e-12, max_iter=n, batch=batch) for n in (40, 400)
    )
    assert long.certificate.gap <= short.certificate.gap / 3
    assert long.certificate.violation == 0.0


@pytest.mark.parametrize("method", ["dcd", "pegasos"])
def test_an_infinite_penalty_does_not_fit(method):
    with pytest.raises(qpsvm.MethodMismatchError, match=method):
        qpsvm.solve(HingePrimal(X, Y, np.inf, bias=False), method)


def picked(points, y, penalty, m=1000, bias=True):
    return find(HingePrimal(points[:m], y[:m], penalty, bias=bias), "auto", {})[1]


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_auto_weighs_penalties_by_the_points(scale, make):
    """Without bias `crsvm` above a mean of C_i |x_i|^2 of 2; with one `dcd` below 0.3."""
    points, y = two_clouds(1000, 50, seed=36)
    mean = np.mean(np.sum((scale * points) ** 2, axis=1))
    points = make(scale * points)
    assert picked(points, y, 1.99 / mean, bias=False) == "dcd"
    assert picked(points, y, 2.01 / mean, bias=False) == "crsvm"
    assert picked(points, y, 200.0 / mean, 999, bias=False) == "dcd"
    assert picked(points, y, 0.299 / mean) == "dcd"
    assert picked(points, y, 0.301 / mean) == "crsvm"
    assert picked(points, y, 0.01 / mean, 999) == "crsvm"


def test_auto_weighs_matrices_by_the_points():
    """Of 10 cubed columns an entry they are expensive on CSR points; of 1 they are cheap."""
    points, y = two_clouds(1200, 120, seed=36)
    for make, columns, strong, weak in (
        (sp.csr_matrix, 120, "dcd", "dcd"),
        (np.asarray, 120, "crsvm", "dcd"),
        (sp.csr_matrix, 50, "crsvm", "dcd"),
        (sp.csr_matrix, 20, "crsvm", "crsvm"),
    ):
        some = points[:, :columns]
        mean = np.mean(np.sum(some**2, axis=1))
        assert picked(make(some), y, 50.0 / mean, 1200, bias=False) == strong
        assert picked(make(some), y, 50.0 / mean, 1200) == strong
        assert picked(make(some), y, 0.1 / mean, 1200) == weak


def test_auto_on_wide_points():
    """With a bias the matrices of `dcd` are dear where the points are dense."""
    points, y = wide_points(1200, 2000)
    mean = np.mean(points.multiply(points).sum(axis=1))
    for make, force, method in (
        (sp.csr_matrix, 1.9, "dcd"),
        (sp.csr_matrix, 2.1, "smo"),
        (sp.csr_matrix.toarray, 0.29, "dcd"),
        (sp.csr_matrix.toarray, 0.31, "smo"),
    ):
        assert picked(make(points), y, force / mean, 1200) == method
        assert picked(make(points), y, force / mean, 1200, bias=False) == "dcd"


def test_auto_takes_coordinate_descent_without_bias():
    assert qpsvm.solve(HingePrimal(X, Y, bias=False)).method == "dcd"
    assert qpsvm.solve(HingePrimal(X, Y, 100.0)).method == "crsvm"
    assert qpsvm.solve(HingePrimal(X[:, :2], np.sign(X[:, 0]), np.inf, bias=False)).method == "mnp"
    assert qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X, 0.1), Y, bias=False)).method == "smo"


@pytest.mark.filterwarnings("error")
def test_points_near_the_largest_ones_allowed_leak_no_warning():
    """A certificate may be out of reach; numpy's warnings of overflow say nothing to a user."""
    rows = np.arange(10)[:, None]
    points = np.where(rows % 3, np.random.default_rng(0).standard_normal((10, 10)), 0.0)
    y = np.where(np.arange(10) % 2, 1.0, -1.0)
    problem = HingePrimal(1e70 * (1e3 + points), y, C=1e150, bias=False)
    result = qpsvm.solve(problem, tol=1e-9)
    assert np.isfinite(result.x).all()


POINT_VALUES = X[:, 0] - 0.5 * X[:, 1] + 0.3 * np.sin(3.0 * X[:, 2]) + 2.0


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0, C])
def test_regressions_have_the_answer_of_the_interior_point_method(penalty, epsilon, bias):
    """Two coordinates of opposite signs share a point."""
    problem = SVRDual(Linear(X), POINT_VALUES, penalty, epsilon, bias=bias)
    ours, other = solved(problem, tol=1e-9), solved(problem, "pdipm", tol=1e-9)
    assert ours.value == pytest.approx(other.value, rel=2e-9)
    np.testing.assert_allclose(ours.model.w, other.model.w, atol=1e-4)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n_features", [15, 250])  # Newton matrices in features, and in points
def test_storage_of_a_regression_does_not_matter(n_features, bias):
    rng = np.random.default_rng(36)
    points = rng.standard_normal((150, n_features)) * (rng.random((150, n_features)) < 0.3)
    y = points[:, :3].sum(axis=1) + 0.1 * rng.standard_normal(150)
    plain, sparse = (
        solved(SVRDual(Linear(make(points)), y, C[:150], bias=bias), tol=1e-8, newton=True)
        for make in (np.asarray, sp.csr_matrix)
    )
    assert min(plain.counters["newton"], sparse.counters["newton"]) > 0
    assert sparse.value == pytest.approx(plain.value, rel=1e-8)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_unit_of_the_values_does_not_matter(unit):
    """Values in another unit scale epsilon, the weights and the bias alike, and C not at all."""
    problem = SVRDual(Linear(X), unit * POINT_VALUES, unit * C, 0.1 * unit)
    scaled, plain = (
        solved(problem, tol=1e-8),
        solved(SVRDual(Linear(X), POINT_VALUES, C, 0.1), tol=1e-8),
    )
    assert scaled.value == pytest.approx(unit**2 * plain.value, rel=1e-7)
    np.testing.assert_allclose(scaled.model.w, unit * plain.model.w, atol=1e-3 * unit)


def test_linear_regressions_are_solved_by_it_automatically():
    for bias in (False, True):
        assert find(SVRDual(Linear(X), POINT_VALUES, bias=bias), "auto", {}).name == "dcd"


def test_a_gap_that_was_zero_and_has_grown_is_silent():
    steps = [984312, 662744, 113728, 325488, 39216, 90200, 74512, 129408]
    points = np.array([[1e8, 1e8 + step] for step in steps], dtype=np.float32)
    x0 = [0.28766, -0.85737, 0.13699, 1.89318, 1.22548, -0.22754, 1.17335, 0.15205]
    y = [-1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solved(qpsvm.HingeDual(Linear(points), y, C=1e15, bias=False), "auto", tol=1e-3, x0=x0)


SQUARED_PROBLEMS = {
    "l2-svm": lambda X, y, penalty: L2SVMDual(Linear(X), y, penalty),
    "without bias": lambda X, y, penalty: L2SVMDual(Linear(X), y, penalty, bias=False),
    "regression": lambda X, y, penalty: L2SVRDual(Linear(X), X @ np.ones(X.shape[1]) + y, penalty),
}
"""Squared losses over the simplex, over the orthant, and with two coordinates to a point."""


@pytest.mark.parametrize("kind", SQUARED_PROBLEMS)
@pytest.mark.parametrize("penalty", [0.01, 1.0, C])
def test_squared_losses_have_the_answer_of_newton_steps(kind, penalty):
    problem = SQUARED_PROBLEMS[kind](X, Y, penalty)
    ours, other = solved(problem, tol=1e-9), solved(problem, "mfn", tol=1e-9)
    assert ours.certificate.upper == pytest.approx(other.certificate.upper, rel=2e-9)
    assert ours.counters["visits"] > 0
    np.testing.assert_allclose(ours.x, other.x, atol=1e-3 * np.abs(other.x).max())


def test_newton_steps_on_a_squared_loss_are_refused():
    with pytest.raises(InputError, match="newton must be None or False on squared losses"):
        qpsvm.solve(L2SVMDual(Linear(X), Y, 1.0), "dcd", newton=True)


@pytest.mark.parametrize("kind", ["l2-svm", "without bias"])
def test_sweeps_over_squared_losses_begin_at_a_given_point(kind):
    problem = SQUARED_PROBLEMS[kind](X, Y, 1.0)
    first = solved(problem, tol=1e-8)
    again = qpsvm.solve(problem, "dcd", tol=1e-6, x0=first.x)
    assert again.converged and again.n_iter == 0


@pytest.mark.parametrize(
    ("shape", "penalty", "name"),
    [
        ((200, 300), 1e3, "dcd"), ((200, 50), 1e3, "mfn"), ((100, 5000), 1.0, "dcd"),
        ((1200, 400), 1e3, "dcd"), ((5000, 50), 1e-3, "dcd"), ((5000, 50), 0.1, "mfn"),
        ((5000, 12), 1e-3, "mfn"),
    ],
)  # fmt: skip
def test_auto_tries_sweeps_where_newton_steps_cost_more(shape, penalty, name, rng):
    points, y = rng.standard_normal(shape), np.where(rng.random(shape[0]) < 0.5, 1.0, -1.0)
    found = find(L2SVMDual(Linear(points), y, penalty), "auto", {})
    assert found.name == name
    regression = find(L2SVRDual(Linear(points), points[:, 0], penalty), "auto", {})
    assert regression.name == name


def test_slow_sweeps_over_squared_losses_are_continued_by_newton_steps(rng):
    """A regression of fewer features than points at a large penalty."""
    points = rng.standard_normal((200, 50))
    problem = L2SVRDual(Linear(points), rng.standard_normal(200), 1e6)
    form, dcd = problem.as_qp(), SquaredLossCoordinateDescent()
    stage = Stage("dcd", dcd)
    outcome, after = run_with_fallbacks(form, stage, None, Limits(1e-9, 2000), 1 << 28, 0)
    assert after.name == "dcd + mfn" and outcome.certified.certificate.passed
    assert outcome.counters["visits"] <= 24 * form.m  # the sweeps alone take many more passes
