"""Newton steps in w for the L2-SVM on a Gram with a factor."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, L2SVMDual, Linear, LowRank, MEBDual, Status, methods, solve
from qpsvm.solvers.newton import finite_newton
from qpsvm.solvers.newton.finite_newton import Augmented


def noisy(m, d, seed=0, share=1.0):
    """Points whose labels follow their first feature with noise; CSR where `share` is below 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d)) * (rng.random((m, d)) < share)
    y = np.where(X[:, :3].sum(axis=1) + rng.standard_normal(m) > 0.3, 1.0, -1.0)
    return (sp.csr_matrix(X) if share < 1.0 else X), y


@pytest.mark.parametrize("C", [0.02, 2.0, 200.0])
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_it_is_the_machine_of_liblinear(C, share):
    svm = pytest.importorskip("sklearn.svm")
    X, y = noisy(400, 12, share=share)
    ours = solve(L2SVMDual(Linear(X), y, C), "mfn", tol=1e-12)
    assert ours.converged
    theirs = svm.LinearSVC(loss="squared_hinge", dual=False, C=C / 2, tol=1e-10, max_iter=10_000)
    theirs.fit(X, y)
    np.testing.assert_allclose(ours.model.w, theirs.coef_.ravel(), rtol=1e-4, atol=1e-6)
    assert ours.model.b == pytest.approx(float(theirs.intercept_[0]), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("shape", [(900, 7), (60, 300), (300, 60)])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, np.float32])
def test_whatever_the_points_are_stored_as(shape, make):
    X, y = noisy(*shape, seed=1)
    X = X.astype(np.float32).astype(np.float64)
    C = np.random.default_rng(2).uniform(0.1, 30.0, len(y))
    result = solve(L2SVMDual(Linear(make(X)), y, C), "mfn", tol=1e-10)
    assert result.converged and result.n_iter <= 20
    other = solve(L2SVMDual(Linear(X), y, C), "mnp", tol=1e-10)
    np.testing.assert_allclose(result.x, other.x, atol=1e-5 * other.x.max())


@pytest.mark.parametrize("bias", [True, False])
def test_dense_points_of_more_than_a_thousand_features(bias, rng):
    """Conjugate gradients are for CSR points; dense ones have a matrix in their number."""
    X, y = rng.standard_normal((60, 1001)), np.where(rng.random(60) < 0.5, 1.0, -1.0)
    assert solve(L2SVMDual(Linear(X), y, 1.0, bias=bias), "mfn", tol=1e-8).converged


@pytest.mark.parametrize("products", [0, 3, 300])
def test_conjugate_gradients_on_wide_rows(monkeypatch, products):
    X, y = noisy(3000, 1200, seed=3, share=0.01)
    monkeypatch.setattr(finite_newton, "MAX_CG_PRODUCTS", products)
    if products:  # steps descend after any number of products
        monkeypatch.setattr(finite_newton, "MAX_DENSE_ORDER", 0)
    result = solve(L2SVMDual(Linear(X), y, 5.0), "mfn", tol=1e-8)
    assert result.converged
    assert solve(L2SVMDual(Linear(X), y, 5.0), "mfn", x0=result, tol=1e-8).n_iter == 0
    near = solve(L2SVMDual(Linear(X), y, 5.2), "mfn", x0=result, tol=1e-8)
    assert near.converged and near.n_iter < result.n_iter


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_a_start_is_no_worse_than_zero_and_one_at_the_answer_is_kept(C):
    """Z'S x of weights far from the optimum has a value many orders above that of 0 at a large C."""
    X, y = noisy(300, 20, seed=5)
    problem = L2SVMDual(Linear(X), y, C)
    qp, method = problem.as_qp(), finite_newton.FiniteNewton()
    at_zero = method.init(qp, None, np.random.default_rng(0))
    x = np.random.default_rng(1).random(300) ** 8
    state = method.init(qp, x / x.sum(), np.random.default_rng(0))
    assert state.value <= at_zero.value
    np.testing.assert_allclose(state.product, qp.gram.product(state.x), rtol=1e-9, atol=1e-12)
    cold, warm = (solve(problem, "mfn", tol=1e-8, x0=x0) for x0 in (None, x / x.sum()))
    assert warm.converged and warm.n_iter <= cold.n_iter + 2
    assert solve(problem, "mfn", tol=1e-6, x0=cold).n_iter == 0


def test_the_gap_of_v_and_a_is_half_the_square_of_the_slope():
    X, y = noisy(200, 5)
    qp = L2SVMDual(Linear(X), y, 3.0).as_qp()
    state = finite_newton.FiniteNewton().init(qp, None, np.random.default_rng(0))
    for _ in range(2):
        state.step()
    a = state.x * state.total
    dual = a.sum() - 0.5 * a @ qp.gram.product(a) - 0.5 * qp.gram.ridge @ (a * a)
    assert state.value - dual == pytest.approx(0.5 * float(state.slope @ state.slope), rel=1e-9)
    np.testing.assert_allclose(state.product, qp.gram.product(state.x), rtol=1e-9, atol=1e-12)


def test_normal_equations_with_the_constant_apart_or_among_the_columns():
    X, _ = noisy(50, 6, seed=4)
    rng = np.random.default_rng(5)
    S, v = np.flatnonzero(rng.random(50) < 0.6), rng.standard_normal(7)
    d = rng.uniform(1.0, 1e3, len(S))
    Z = np.column_stack([X, np.ones(50)])
    exact = np.linalg.solve(np.eye(7) + (Z[S].T * d) @ Z[S], v)
    for points in (X, sp.csr_matrix(X)):
        found = Augmented.of(points, np.sum(X * X, axis=1), bias=True)
        np.testing.assert_allclose(found.times(v), Z @ v, atol=1e-12)
        np.testing.assert_allclose(found.combination(S, d), Z[S].T @ d, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(found.solve(S, d, v), exact, rtol=1e-8, atol=1e-12)


def test_it_is_the_automatic_choice_where_there_is_a_factor():
    X, y = noisy(1500, 20)
    for gram in (Linear(X), Linear(sp.csr_matrix(X)), LowRank(RBF(X, 0.1), rank=50)):
        result = solve(L2SVMDual(gram, y, 10.0), tol=1e-6)
        assert result.method == "mfn" and result.status is Status.OPTIMAL
    for problem in (MEBDual(Linear(X)), L2SVMDual(Linear(X), y, np.inf), L2SVMDual(RBF(X), y)):
        assert "mfn" not in methods(problem)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(3))
def test_points_near_the_largest_ones_allowed_leak_no_warning(seed):
    rng = np.random.default_rng(seed)
    points = 1e70 * (1e3 + rng.standard_normal((10, 10)))
    problem = L2SVMDual(Linear(points), np.where(np.arange(10) % 2, 1.0, -1.0), C=1e9)
    assert np.isfinite(solve(problem, "mfn", tol=1e-9).x).all()
