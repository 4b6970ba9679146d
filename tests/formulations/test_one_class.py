"""One-class machines and balls with slack: scikit-learn's answers, degenerate inputs, one another."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import OneClassSVM

import qpsvm
from problems.clouds import cloud, weights
from qpsvm import (
    RBF,
    Cached,
    InputError,
    Linear,
    MEBDual,
    OneClassDual,
    Precomputed,
    QuadraticProgram,
    SVDDDual,
    solve,
)
from qpsvm.domains import CappedSimplex, SimplexProduct

X = cloud(150, 3, seed=31)
NEW_POINTS = cloud(40, 3, seed=32)
TESTED_METHODS = ("smo", "decomposition")


def answers(problem, tol=1e-9):
    for method in TESTED_METHODS:
        result = solve(problem, method, tol=tol)
        assert result.converged and result.certificate.violation <= 1e-14, f"{result}"
        yield result


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 0.73, 0.98])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_the_answer_is_that_of_scikit_learn(nu, storage):
    """Theirs is nu m times ours: weights, offset and decision function."""
    theirs = OneClassSVM(nu=nu, gamma=0.5, tol=1e-12).fit(X)
    for result in answers(OneClassDual(RBF(storage(X), 0.5), nu), tol=1e-12):
        unit, model = nu * len(X), result.model
        np.testing.assert_allclose(
            unit * model.decision_function(storage(NEW_POINTS)),
            theirs.decision_function(NEW_POINTS),
            atol=1e-4,
        )
        np.testing.assert_allclose(
            unit * model.score_samples(NEW_POINTS), theirs.score_samples(NEW_POINTS), atol=1e-4
        )
        assert unit * model.rho == pytest.approx(theirs.offset_[0], abs=1e-4)
        np.testing.assert_array_equal(model.predict(NEW_POINTS), theirs.predict(NEW_POINTS))
        assert set(theirs.support_) <= set(result.support)
        dense = np.zeros(len(X))
        dense[theirs.support_] = theirs.dual_coef_[0]
        np.testing.assert_allclose(unit * result.x, dense, atol=1e-3)


def test_sample_weights_are_those_of_scikit_learn():
    w, nu = weights(150, seed=33), 0.3
    theirs = OneClassSVM(nu=nu, gamma=0.5, tol=1e-12).fit(X, sample_weight=w)
    for result in answers(OneClassDual(RBF(X, 0.5), nu, sample_weight=w)):
        unit = nu * w.sum()
        np.testing.assert_allclose(
            unit * result.model.decision_function(NEW_POINTS),
            theirs.decision_function(NEW_POINTS),
            atol=1e-3,
        )
        assert not result.x[w == 0].any() and np.all(unit * result.x <= w * (1 + 1e-12))


def test_a_weight_of_two_is_the_point_twice():
    w = np.where(np.arange(150) % 3 == 0, 2.0, 1.0)
    twice = np.vstack([X, X[::3]])
    (one, _), (other, _) = (
        answers(OneClassDual(RBF(X, 0.5), 0.2, sample_weight=w)),
        answers(OneClassDual(RBF(twice, 0.5), 0.2)),
    )
    assert one.value == pytest.approx(other.value, rel=1e-8)
    assert one.model.rho == pytest.approx(other.model.rho, rel=1e-6)


@pytest.mark.parametrize("nu", [0.05, 0.25, 0.5, 0.77])
def test_nu_bounds_the_outside_and_the_support(nu):
    for result in answers(OneClassDual(RBF(X, 0.5), nu)):
        assert result.model.n_outside <= nu * 150 + 1e-9 <= len(result.support) + 1e-9
        assert f"{result.model.n_outside} points outside" in str(result)


def test_rho_where_all_support_vectors_are_at_their_bounds():
    """nu m = 3 of 1, 2, ..., 10: w = 2, and every rho between 2 * 3 and 2 * 4 is optimal."""
    for result in answers(OneClassDual(Linear(np.arange(1.0, 11.0)[:, None]), 0.3)):
        np.testing.assert_allclose(result.x[:3], 1.0 / 3.0)
        assert result.model.rho == pytest.approx(7.0) and result.dual == pytest.approx([7.0])
        assert result.model.n_outside == 3
        np.testing.assert_array_equal(result.model.predict([[3.0], [4.0]]), [-1.0, 1.0])


def test_nu_1_has_a_finite_rho():
    """LIBSVM's rho is infinite here, and scikit-learn raises."""
    for result in answers(OneClassDual(RBF(X, 0.5), 1.0)):
        np.testing.assert_allclose(result.x, 1.0 / 150.0)
        scores = result.model.score_samples(X)
        assert result.model.rho == pytest.approx(scores.max()) and result.n_iter == 0
        assert result.certificate.relative_gap <= 1e-12


@pytest.mark.parametrize("nu", [1e-300, 1e-9, 1.0 / 150.0])
def test_tiny_nu_lets_no_point_outside(nu):
    problem = OneClassDual(RBF(X, 0.5), nu)
    assert isinstance(problem.as_qp().domain, SimplexProduct) and "mnp" in qpsvm.methods(problem)
    for result in answers(problem):
        assert result.model.n_outside == 0
        assert result.model.decision_function(X).min() >= -1e-6 * result.model.rho


@pytest.mark.parametrize("nu", [0.1, 0.3, 1.0])
def test_duplicates_and_zeros(nu):
    for result in answers(OneClassDual(RBF(np.tile([1.0, 2.0], (30, 1))), nu)):
        assert result.value == pytest.approx(0.5) and result.model.rho == pytest.approx(1.0)
    for result in answers(OneClassDual(Linear(np.zeros((20, 3))), nu)):
        assert result.value == 0.0 == result.model.rho
        np.testing.assert_array_equal(result.model.predict(NEW_POINTS), 1.0)
    for result in answers(SVDDDual(Linear(np.tile([1e4, -3.0], (30, 1))), C=0.1)):
        assert result.model.radius <= 1e-6


@pytest.mark.parametrize("point", [[3.0, 4.0], [0.0, 0.0]])
def test_one_point(point):
    for result in answers(OneClassDual(Linear([point]), 0.5)):
        assert result.x == [1.0] and result.value == 0.5 * np.dot(point, point)
        assert result.model.rho == np.dot(point, point) and result.n_iter == 0
    for result in answers(SVDDDual(Linear([point]), 1.0)):
        assert result.model.radius <= 1e-7 and result.x == [1.0]


# Balls with slack.


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.75])
def test_under_a_gaussian_kernel_the_two_are_one(nu):
    """k(x, x) = 1: the SVDD with C = 1 / (nu m) has the same weights, and value 2 v - 1."""
    pairs = zip(
        answers(OneClassDual(RBF(X, 0.5), nu), tol=1e-11),
        answers(SVDDDual(RBF(X, 0.5), 1.0 / (nu * 150)), tol=1e-11),
        strict=True,
    )
    for plane, ball in pairs:
        assert ball.value == pytest.approx(2.0 * plane.value - 1.0, rel=1e-10)
        np.testing.assert_allclose(plane.x, ball.x, atol=1e-5)
        assert plane.model.n_outside == ball.model.n_outside
        inside = ball.model.distance(NEW_POINTS) <= ball.model.radius
        np.testing.assert_array_equal(inside, plane.model.decision_function(NEW_POINTS) >= 0)
        # |phi(x) - c|^2 - R^2 = 2 (rho - f(x))
        power = ball.model.distance(NEW_POINTS) ** 2 - ball.model.radius**2
        np.testing.assert_allclose(power, -2 * plane.model.decision_function(NEW_POINTS), atol=1e-5)


@pytest.mark.parametrize("C", [1.0, 7.0, np.inf])
@pytest.mark.parametrize("kernel", [Linear, lambda X: RBF(X, 0.5), lambda X: X @ X.T])
def test_without_room_for_slack_it_is_the_ball(C, kernel):
    hard, soft = MEBDual(kernel(X)), SVDDDual(kernel(X), C)
    assert qpsvm.methods(hard) == qpsvm.methods(soft)
    one, other = (solve(problem, "mnp", tol=1e-9) for problem in (hard, soft))
    assert one.x.tobytes() == other.x.tobytes() and one.certificate == other.certificate
    assert one.model.radius == other.model.radius and other.model.n_outside == 0
    assert one.model.radius_lower == other.model.radius_lower


@pytest.mark.parametrize("C", [0.008, 0.03, 0.2])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_a_ball_with_slack_is_its_formula(C, storage):
    for result in answers(SVDDDual(Linear(storage(X + 5.0)), C)):
        ball, x = result.model, result.x
        center = x @ (X + 5.0)
        square = ((X + 5.0 - center) ** 2).sum(axis=1)
        excess = np.maximum(square - ball.radius**2, 0.0)
        np.testing.assert_allclose(ball.center, center)
        np.testing.assert_allclose(ball.distance(storage(NEW_POINTS))[:2], [
            np.linalg.norm(z - center) for z in NEW_POINTS[:2]
        ])  # fmt: skip
        assert ball.radius**2 + C * excess.sum() == pytest.approx(-result.value, rel=1e-8)
        assert ball.slack == pytest.approx(C * excess.sum(), rel=1e-4)
        assert ball.n_outside <= np.sum(x > C * (1 - 1e-9)) <= 1.0 / C + 1e-9
        assert ball.radius_lower <= ball.radius <= ball.radius_lower + 1e-3


def test_the_lower_bound_of_the_radius_holds_for_rough_answers():
    problem = SVDDDual(RBF(X, 0.5), 0.02)
    exact = solve(problem, "smo", tol=1e-12).model.radius
    for steps in (0, 1, 3, 10, 30):
        rough = solve(problem, "smo", tol=1e-12, max_iter=steps).model
        assert rough.radius_lower <= exact


def test_a_penalty_per_point():
    C = 0.02 * weights(150, seed=34)
    for result in answers(SVDDDual(RBF(X, 0.5), C)):
        assert not result.x[C == 0].any() and np.all(result.x <= C)
    half = np.where(np.arange(150) < 75, np.inf, 0.01)
    for result in answers(SVDDDual(Linear(X), half)):
        assert result.model.distance(X[:75]).max() <= result.model.radius * (1 + 1e-4)


def test_infeasible_penalties_are_refused():
    with pytest.raises(InputError, match=r"C must sum to at least 1 .* at least 1/m = 0\.00666667"):
        SVDDDual(RBF(X), C=0.006)
    assert solve(SVDDDual(RBF(X), C=1.0 / 150.0)).converged


@pytest.mark.parametrize("nu", [0.0, -0.1, 1.5, np.nan, np.inf, "0.5", None])
def test_nu_is_checked(nu):
    with pytest.raises(InputError, match=r"nu must be a number > 0 and <= 1"):
        OneClassDual(RBF(X), nu)


@pytest.mark.parametrize(
    "bad", [np.zeros(150), np.full(150, -1.0), np.ones(3), np.full(150, np.nan)]
)
def test_sample_weights_are_checked(bad):
    with pytest.raises(InputError, match="sample_weight"):
        OneClassDual(RBF(X), 0.5, sample_weight=bad)


# Everything else that takes such a problem.


@pytest.mark.parametrize("declare", [lambda K: OneClassDual(K, 0.2), lambda K: SVDDDual(K, 0.05)])
def test_every_gram(declare):
    K = RBF(X, 0.5)
    values = [
        solve(declare(gram), tol=1e-9).value
        for gram in (
            K,
            RBF(sp.csr_matrix(X), 0.5),
            Cached(K),
            Precomputed(K.block(np.arange(150), None)),
            K.block(np.arange(150), None),
        )
    ]
    np.testing.assert_allclose(values, values[0], rtol=2e-9)
    single = solve(declare(RBF(X.astype(np.float32), 0.5)), tol=1e-6)
    assert single.value == pytest.approx(values[0], rel=1e-5) and single.converged


@pytest.mark.parametrize("method", ["fw", "mfw", "pfw", "bpfw", "fcfw", "apg", "smo"])
def test_the_quadratic_over_the_domain_has_the_general_methods(method):
    K = RBF(X[:40], 0.5).block(np.arange(40))
    ours = solve(OneClassDual(K, 0.2), tol=1e-9)
    tol = 1e-2 if method == "fw" else 1e-5
    problem = QuadraticProgram(K, np.zeros(40), CappedSimplex(np.full(40, 1.0 / (0.2 * 40))))
    result = solve(problem, method, tol=tol, max_iter=50_000)
    assert result.converged and result.value == pytest.approx(ours.value, rel=2 * tol)


@pytest.mark.parametrize("method", TESTED_METHODS)
def test_any_start(method):
    problem = OneClassDual(RBF(X, 0.5), 0.2)
    cold = solve(problem, method, tol=1e-9)
    assert solve(problem, method, tol=1e-6, x0=cold).n_iter == 0
    rng = np.random.default_rng(35)
    for x0 in (np.zeros(150), rng.standard_normal(150), 1e9 * rng.random(150), np.eye(150)[3]):
        warm = solve(problem, method, tol=1e-9, x0=x0)
        assert warm.converged and warm.value == pytest.approx(cold.value, rel=2e-9)
