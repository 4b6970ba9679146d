"""What an answer means: balls, hyperplanes and closest points, judged by direct formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise
from sklearn.svm import SVC, LinearSVC

import qpsvm.gram.base
from problems.clouds import cloud, separable_clouds, two_clouds
from qpsvm import (
    RBF,
    Cached,
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    Linear,
    MEBDual,
    Polynomial,
    PolytopeDistanceDual,
    Precomputed,
    solve,
    threads,
)
from qpsvm.expansion import Expansion
from qpsvm.gram.engine import prediction as expansion
from qpsvm.gram.kernels import base
from qpsvm.gram.storage import csr

X, Y = two_clouds(80, 3, seed=21)
NEW_POINTS = cloud(30, 3, seed=22)
TOL = 1e-8

# a Gram of X; its values between two sets of points; what the model is given for new points
KERNEL_CASES = {
    "linear": (Linear(X), pairwise.linear_kernel, lambda Z: Z),
    "linear-CSR": (Linear(sp.csr_matrix(X)), pairwise.linear_kernel, sp.csr_matrix),
    "rbf": (RBF(X, 0.5), lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.5), lambda Z: Z),
    "cached": (
        Cached(RBF(X, 0.5)),
        lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.5),
        sp.csr_matrix,
    ),
    "precomputed": (Precomputed(X @ X.T), pairwise.linear_kernel, lambda Z: Z @ X.T),
    "array": (X @ X.T, pairwise.linear_kernel, lambda Z: sp.csr_matrix(Z @ X.T)),
}


@pytest.fixture(params=KERNEL_CASES.values(), ids=KERNEL_CASES)
def kernel(request):
    return request.param


def is_linear(gram):
    return isinstance(gram, Linear)


def test_ball_contains_all_points_and_no_smaller_one_does(kernel):
    gram, k, given = kernel
    result = solve(MEBDual(gram), "mfw", tol=TOL)
    ball, x = result.model, result.x
    K = k(X, X)
    square = np.diag(K) - 2 * K @ x + x @ K @ x
    assert np.sqrt(square.max()) <= ball.radius * (1 + 1e-12)
    assert ball.radius_lower <= ball.radius <= ball.radius_lower * (1 + TOL)
    assert result.value == pytest.approx(-(ball.radius_lower**2), rel=1e-14)
    assert f"{ball.radius:.10g}" in str(ball)
    if isinstance(gram, np.ndarray | Precomputed):
        return
    distance = np.sqrt(k(NEW_POINTS, NEW_POINTS).diagonal() - 2 * k(NEW_POINTS, X) @ x + x @ K @ x)
    np.testing.assert_allclose(ball.distance(given(NEW_POINTS)), distance, rtol=1e-9)
    np.testing.assert_array_equal(ball.contains(given(NEW_POINTS)), distance <= ball.radius)
    assert ball.contains(given(X)).all()
    np.testing.assert_allclose(ball.distance(given(X))[result.support], ball.radius, rtol=1e-3)
    assert (ball.center is not None) == is_linear(gram)
    if is_linear(gram):
        np.testing.assert_allclose(ball.center, x @ X)


@pytest.mark.parametrize("declare", [L2SVMDual, HingeDual])
def test_hyperplane_is_its_formula(kernel, declare):
    gram, k, given = kernel
    result = solve(declare(gram, Y, C=3.0), tol=TOL)
    plane, x = result.model, result.x
    scale = x.sum() / (x @ (np.outer(Y, Y) * (k(X, X) + 1) + np.eye(80) / 3) @ x)
    weights = Y * x * (scale if declare is L2SVMDual else 1.0)
    decision = k(NEW_POINTS, X) @ weights + plane.b
    np.testing.assert_allclose(plane.decision_function(given(NEW_POINTS)), decision, atol=1e-9)
    np.testing.assert_array_equal(
        plane.predict(given(NEW_POINTS)), np.where(decision >= 0, 1.0, -1.0)
    )
    assert plane.separable and (plane.w is not None) == is_linear(gram)
    if is_linear(gram):
        np.testing.assert_allclose(plane.w, weights @ X, atol=1e-12)
    if declare is L2SVMDual:
        assert plane.b == pytest.approx(weights.sum())


@pytest.mark.parametrize("C", [0.1, 3.0, 100.0])
def test_l2_svm_is_optimal_in_its_standard_form(C):
    """Minimize 1/2 (|w|^2 + b^2) + C/2 sum max(0, 1 - y f)^2: zero gradient, LIBLINEAR's answer."""
    plane = solve(L2SVMDual(Linear(X), Y, C=C), tol=1e-10).model
    slack = np.maximum(0.0, 1.0 - Y * plane.decision_function(X))
    np.testing.assert_allclose(plane.w, C * (Y * slack) @ X, atol=1e-5 * C)
    assert plane.b == pytest.approx(C * (Y * slack).sum(), abs=1e-5 * C)
    theirs = LinearSVC(C=C / 2, tol=1e-10, max_iter=10**6, dual=True).fit(X, Y)
    np.testing.assert_allclose(plane.w, theirs.coef_[0], atol=1e-3)
    assert plane.b == pytest.approx(theirs.intercept_[0], abs=1e-3)


@pytest.mark.parametrize("C", [0.1, 3.0, 100.0])
def test_hinge_is_libsvm(C):
    result = solve(HingeDual(RBF(X, 0.5), Y, C=C), tol=1e-9)
    theirs = SVC(C=C, gamma=0.5, tol=1e-9).fit(X, Y)
    assert sorted(result.support) == sorted(theirs.support_)
    decision = result.model.decision_function(NEW_POINTS)
    np.testing.assert_allclose(decision, theirs.decision_function(NEW_POINTS), atol=1e-3)


def test_hinge_satisfies_its_optimality_conditions():
    C, result = 3.0, solve(HingeDual(RBF(X, 0.5), Y, C=3.0), tol=1e-12)
    margin = Y * result.model.decision_function(X)
    a, close = result.x, 1e-4
    assert np.all(margin[a == 0] >= 1 - close) and np.all(margin[a == C] <= 1 + close)
    np.testing.assert_allclose(margin[(a > 0) & (a < C)], 1.0, atol=close)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_primal_and_dual_hinge_are_one_model(storage):
    primal = solve(HingePrimal(storage(X), Y, C=2.0), tol=TOL)
    dual = solve(HingeDual(Linear(storage(X)), Y, C=2.0), tol=TOL)
    assert primal.value == pytest.approx(-dual.value, rel=2 * TOL)
    np.testing.assert_allclose(primal.x, np.append(primal.model.w, primal.model.b))
    np.testing.assert_array_equal(primal.dual, dual.x)
    np.testing.assert_array_equal(primal.support, dual.support)
    np.testing.assert_allclose(
        primal.model.decision_function(NEW_POINTS), NEW_POINTS @ primal.x[:-1] + primal.x[-1]
    )
    loss = np.maximum(0, 1 - Y * primal.model.decision_function(X)).sum()
    assert primal.value == pytest.approx(0.5 * primal.x[:-1] @ primal.x[:-1] + 2.0 * loss)


def test_witness_points_are_the_closest_points():
    P, y = separable_clouds(80, 3, seed=23, gap=1.0)
    result = solve(PolytopeDistanceDual(Linear(P), y), "mfw", tol=TOL)
    m, x = result.model, result.x
    np.testing.assert_allclose(m.p, x[y > 0] @ P[y > 0], atol=1e-12)
    np.testing.assert_allclose(m.q, x[y < 0] @ P[y < 0], atol=1e-12)
    np.testing.assert_allclose(m.w, m.p - m.q, atol=1e-12)
    assert m.distance == pytest.approx(np.linalg.norm(m.p - m.q))
    assert m.margin <= m.distance <= m.margin * (1 + TOL) and not m.hulls_intersect
    # all of P lies on p's side of the strip, all of Q on q's; the hyperplane is half-way
    along = P @ m.w / m.distance
    assert along[y > 0].min() - along[y < 0].max() >= m.margin * (1 - 1e-9)
    np.testing.assert_array_equal(m.predict(P), y)
    np.testing.assert_allclose(m.decision_function([m.p, m.q]) @ [1.0, 1.0], 0.0, atol=1e-6)
    np.testing.assert_allclose(m.decision_function(NEW_POINTS), NEW_POINTS @ m.w + m.b)


def test_from_points_stacks_the_hulls():
    P, Q = X[Y > 0] + 5.0, sp.csr_matrix(X[Y < 0])
    result = solve(PolytopeDistanceDual.from_points(P, Q), tol=TOL)
    np.testing.assert_allclose(result.model.p, result.x[: len(P)] @ P)
    np.testing.assert_allclose(result.model.q, result.x[len(P) :] @ Q.toarray())
    lifted = PolytopeDistanceDual.from_points(P, Q, chi=2.0, kernel=lambda X: RBF(X, 0.5))
    assert isinstance(lifted.K, RBF) and lifted.chi == 2.0 and solve(lifted).converged


def test_closest_points_in_feature_space(kernel):
    gram, k, given = kernel
    # the hulls meet unless they are lifted
    for chi in (5.0,) if k is pairwise.linear_kernel else (5.0, None):
        result = solve(PolytopeDistanceDual(gram, Y, chi=chi), "mfw", tol=TOL)
        m, signed = result.model, Y * result.x
        assert m.distance == pytest.approx(np.sqrt(signed @ k(X, X) @ signed))
        decision = k(NEW_POINTS, X) @ signed + m.b
        np.testing.assert_allclose(m.decision_function(given(NEW_POINTS)), decision, atol=1e-9)
        np.testing.assert_array_equal(
            m.predict(given(NEW_POINTS)), np.where(decision >= 0, 1.0, -1.0)
        )
        assert (m.p is not None) == is_linear(gram)


@pytest.mark.parametrize("make", [lambda X: RBF(X, 0.5), lambda X: Polynomial(X, 2, 0.5, 1.0)])
@pytest.mark.parametrize("densified", [False, True])
def test_prediction_in_blocks_is_prediction(monkeypatch, make, densified):
    """Whatever is dense or sparse, multiplied as it is or made dense."""
    plane = solve(HingeDual(make(X), Y)).model
    whole = plane.decision_function(NEW_POINTS)
    indices, coef = plane.expansion.indices, plane.expansion.coef
    K = make(X).cross(NEW_POINTS, indices)
    np.testing.assert_allclose(whole, K @ coef + plane.b, rtol=1e-12, atol=1e-13)
    monkeypatch.setattr(base, "MIN_ENTRIES_FOR_COMPILED_PASS", 0)
    monkeypatch.setattr(expansion, "PANEL_POINTS", 7)
    monkeypatch.setattr(expansion, "BLOCK_POINTS", 11)
    monkeypatch.setattr(csr, "MAX_STORED_FRACTION", 0.0 if densified else 1.0)
    monkeypatch.setattr(qpsvm.gram.base, "BLOCK_ENTRIES", 7 * len(indices))
    for trained in (np.asarray, sp.csr_matrix):
        model = replace(plane.expansion, gram=make(trained(X[indices])))
        for given in (
            np.asarray,
            np.asfortranarray,
            sp.csr_matrix,
            sp.csc_matrix,
            np.ndarray.tolist,
        ):
            np.testing.assert_allclose(
                model(given(NEW_POINTS)) + plane.b, whole, rtol=1e-12, atol=1e-13
            )
    single = replace(plane.expansion, gram=make(X[indices].astype(np.float32)))
    np.testing.assert_allclose(single(NEW_POINTS) + plane.b, whole, atol=2e-6 * np.abs(coef).sum())
    assert single(NEW_POINTS).dtype == np.float64


def test_prediction_does_not_depend_on_the_threads():
    rng = np.random.default_rng(36)
    model = Expansion(RBF(rng.random((1500, 4)), 1.0), np.arange(1500), rng.standard_normal(1500))
    points = rng.random((3000, 4))
    with threads.limit(1):
        one = model(points)
    assert one.tobytes() == model(points).tobytes() == model(points).tobytes()
    wrong = points[:, :3]
    with pytest.raises(InputError, match="4 features"):
        model(wrong)


def test_an_expansion_of_nothing_is_zero():
    nothing = Expansion(RBF(X, 0.5), np.empty(0, np.int64), np.empty(0))
    assert not nothing(NEW_POINTS).any() and nothing(NEW_POINTS).shape == (30,)


def test_a_result_reads_like_a_sentence():
    result = solve(MEBDual(Linear(X)), "mfw", tol=1e-6)
    text = str(result)
    assert (
        text.startswith("mfw: optimal") and f"{len(result.support)} points in the support" in text
    )
    assert "tol 1e-06" in text and "Ball of radius" in text


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("C", [0.5, np.inf])
def test_without_bias_the_hyperplane_passes_through_the_origin(storage, C):
    """The same as a machine with a bias on every point and its mirror image: that bias is 0."""
    X, y = separable_clouds(40, 3, seed=11, gap=0.5)
    primal = solve(HingePrimal(storage(X), y, C, bias=False), "smo", tol=1e-10)
    dual = solve(HingeDual(Linear(storage(X)), y, C, bias=False), "smo", tol=1e-10)
    twice = HingePrimal(np.vstack([X, -X]), np.append(y, -y), 0.5 * C)
    mirrored = solve(twice, "smo", tol=1e-10)
    assert primal.model.b == dual.model.b == 0.0
    assert primal.x.shape == (3,) and len(dual.dual) == 0
    assert primal.value == pytest.approx(-dual.value, rel=1e-9)
    assert primal.value == pytest.approx(mirrored.value, rel=1e-9)
    np.testing.assert_allclose(primal.model.decision_function(X), X @ primal.x, rtol=1e-12)
    again = solve(HingePrimal(X, y, C, bias=False), "smo", x0=primal.x, max_iter=0)
    assert again.x.shape == (3,)
