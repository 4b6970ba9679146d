"""Regression with the parameter nu: scikit-learn's answers, the tube, its bounds, bad input."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import NuSVR

import qpsvm
from problems.clouds import cloud, weights
from problems.regression.svr import duplicates, waves
from qpsvm import (
    RBF,
    Cached,
    InputError,
    Linear,
    LowRank,
    NuSVRDual,
    Polynomial,
    Precomputed,
    QuadraticProgram,
    SVRDual,
    solve,
    solve_path,
)
from qpsvm.domains import CappedSimplex

X, Y = waves(150, 3, seed=71)
NEW_POINTS = cloud(40, 3, seed=72)
TESTED_METHODS = ("smo", "decomposition")
EXTENDED_PRECISION = np.longdouble


def answers(problem, tol=1e-8):
    for method in TESTED_METHODS:
        result = solve(problem, method, tol=tol)
        assert result.converged and result.certificate.violation <= 1e-12 * (
            1.0 + result.x.sum()
        ), f"{result}"
        yield result


def exact(values):
    """Return numbers as fractions."""
    as_fractions = np.frompyfunc(lambda value: Fraction(float(value)), 1, 1)
    return as_fractions(values)


def objective(problem, result, gram, points):
    """Return the primal objective of the model, from its predictions."""
    coef, model = result.dual, result.model
    missed = np.abs(problem.y - model.predict(points)) - model.epsilon
    loss = problem.C @ np.maximum(missed, 0.0) + problem.nu * problem.C.sum() * model.epsilon
    return 0.5 * coef @ gram.dot(coef) + loss


@pytest.mark.parametrize(
    ("C", "nu"), [(1.0, 0.5), (30.0, 0.2), (0.05, 0.7), (1.0, 0.01), (1.0, 1.0)]
)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_the_answer_is_that_of_scikit_learn(C, nu, storage):
    theirs = NuSVR(C=C, nu=nu, gamma=0.5, tol=1e-10).fit(X, Y)
    for result in answers(NuSVRDual(RBF(storage(X), 0.5), Y, C, nu)):
        model, found = result.model, np.zeros(len(Y))
        found[theirs.support_] = theirs.dual_coef_[0]
        np.testing.assert_allclose(result.dual, found, atol=1e-2 * C)
        predicted = model.predict(storage(NEW_POINTS))
        np.testing.assert_allclose(predicted, theirs.predict(NEW_POINTS), atol=1e-3)
        assert model.b == pytest.approx(theirs.intercept_[0], abs=1e-3)


def test_penalties_of_points_are_the_weights_of_scikit_learn():
    w = weights(150, seed=73)
    theirs = NuSVR(C=2.0, nu=0.3, gamma=0.5, tol=1e-12).fit(X, Y, sample_weight=w)
    for result in answers(NuSVRDual(RBF(X, 0.5), Y, 2.0 * w, 0.3)):
        predicted = result.model.predict(NEW_POINTS)
        np.testing.assert_allclose(predicted, theirs.predict(NEW_POINTS), atol=1e-3)
        assert not result.dual[w == 0].any()


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("gram", [RBF(X, 0.5), Linear(X)], ids=repr)
def test_it_is_the_regression_with_the_width_that_it_finds(nu, gram):
    """Schoelkopf et al. (2000), proposition 1: and the values differ by nu epsilon sum C."""
    for result in answers(NuSVRDual(gram, Y, 2.0, nu)):
        epsilon = result.model.epsilon
        assert epsilon > 0.0
        same = solve(SVRDual(gram, Y, 2.0, epsilon), tol=1e-8)
        assert same.value == pytest.approx(result.value + nu * epsilon * 300.0, rel=1e-6)
        expected = same.model.predict(NEW_POINTS)
        np.testing.assert_allclose(result.model.predict(NEW_POINTS), expected, atol=1e-3)


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.5, 0.8])
def test_nu_bounds_the_errors_and_the_support(nu):
    for result in answers(NuSVRDual(RBF(X, 0.5), Y, 1.0, nu)):
        missed = np.abs(Y - result.model.predict(X)) - result.model.epsilon
        assert np.sum(missed > 1e-3) <= nu * 150 + 1e-9 <= len(result.support) + 1e-9


@pytest.mark.parametrize("nu", [0.001, 0.2, 1.0])
@pytest.mark.parametrize("gram", [RBF(X, 0.5), Linear(X), Polynomial(X, 2, 0.5, 1.0)], ids=repr)
def test_the_lower_bound_is_the_objective_of_the_model(gram, nu):
    """And its epsilon and b are best ones for its w: at tight and loose tolerances."""
    problem = NuSVRDual(gram, Y, weights(len(Y), seed=74), nu)
    for method in TESTED_METHODS:
        result = solve(problem, method, tol=1e-3)
        value = objective(problem, result, gram, X)
        assert -result.certificate.lower == pytest.approx(value, rel=1e-9)
        upper = 0.5 * result.dual @ gram.dot(result.dual) - Y @ result.dual
        assert result.certificate.upper == pytest.approx(upper, rel=1e-9)
        model, residual = result.model, Y - result.model.predict(X)
        for db, de in ((1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3), (1e-3, 1e-3)):
            missed = np.abs(residual - db) - max(model.epsilon + de, 0.0)
            change = problem.C @ np.maximum(missed, 0.0) + nu * problem.C.sum() * (
                max(model.epsilon + de, 0.0) - model.epsilon
            )
            now = problem.C @ np.maximum(np.abs(residual) - model.epsilon, 0.0)
            assert change >= now - 1e-8 * value


def test_a_tiny_nu_gives_the_narrowest_tube_around_a_constant():
    for nu in (1e-300, 1e-6):
        for gram in (RBF(X, 0.5), Linear(X), Precomputed(RBF(X, 0.5).block(np.arange(150)))):
            for result in answers(NuSVRDual(gram, Y, 1.0, nu), tol=1e-3):
                assert result.certificate.test == "relative"
                assert result.model.epsilon == pytest.approx(np.ptp(Y) / 2, rel=1e-3)
                assert result.model.b == pytest.approx((Y.max() + Y.min()) / 2, abs=1e-3)


@pytest.mark.parametrize("y", [np.full(150, 0.1), np.full(150, 5e7), np.zeros(150)])
@pytest.mark.parametrize("nu", [1e-300, 0.3, 1.0])
def test_equal_values_are_the_answer(y, nu):
    for gram in (RBF(X, 0.5), Linear(X)):
        for result in answers(NuSVRDual(gram, y, 2.0, nu)):
            np.testing.assert_allclose(result.model.predict(X), y, rtol=1e-12)
            assert result.value == 0.0 and result.model.epsilon == 0.0


def test_few_points():
    assert solve(NuSVRDual(Linear([[2.0]]), [7.0])).model.predict([[3.0]]) == pytest.approx(7.0)
    for nu in (0.1, 0.5, 1.0):
        theirs = NuSVR(C=1.0, nu=nu, gamma=0.5, tol=1e-12).fit(X[:4], Y[:4])
        for result in answers(NuSVRDual(RBF(X[:4], 0.5), Y[:4], 1.0, nu)):
            expected = theirs.predict(NEW_POINTS)
            np.testing.assert_allclose(result.model.predict(NEW_POINTS), expected, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e8])
def test_values_of_any_size_give_the_same_machine(scale):
    K = Precomputed(RBF(X, 0.5).block(np.arange(len(X))))
    for gram in (RBF(X, 0.5), K):
        one = solve(NuSVRDual(gram, Y, 2.0, 0.3), tol=1e-8)
        for result in answers(NuSVRDual(gram, scale * Y, 2.0 * scale, 0.3)):
            assert result.certificate.test == "relative"
            assert result.value == pytest.approx(scale**2 * one.value, rel=1e-7)
            assert result.model.epsilon == pytest.approx(scale * one.model.epsilon, rel=1e-3)


def test_the_bias_takes_a_translation_of_the_values():
    one = solve(NuSVRDual(RBF(X, 0.5), Y, 2.0, 0.3), tol=1e-8)
    for result in answers(NuSVRDual(RBF(X, 0.5), Y + 2.0**20, 2.0, 0.3)):
        assert result.value == pytest.approx(one.value, rel=1e-7)
        assert result.model.b == pytest.approx(one.model.b + 2.0**20, abs=1e-3)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e7])
@pytest.mark.parametrize("level", [0.0, 1e6])
def test_the_certificate_holds_for_the_stored_numbers(offset, level):
    """The objective at (w, b, epsilon), in exact arithmetic, is no more than minus the lower bound."""
    points, y = X + offset, Y + level
    for tol in (1e-3, 1e-9):
        problem = NuSVRDual(Linear(points), y, 5.0, 0.3)
        result = solve(problem, "decomposition", tol=tol)
        w, b, epsilon = map(exact, (result.model.w, result.model.b, result.model.epsilon))
        missed = abs(exact(y) - exact(points) @ w - b) - epsilon
        price = w @ w / 2 + 5 * sum(max(value, 0) for value in missed)
        price += 2 * exact(problem.total) * epsilon
        assert -exact(result.certificate.upper) <= price <= -exact(result.certificate.lower)


def test_the_rounding_of_a_far_kernel_is_in_the_bounds():
    """Kernel values of 1e12, which nearly cancel: the lower bound holds in extended precision."""
    rng = np.random.default_rng(75)
    for _ in range(100):
        m, gamma = int(rng.integers(2, 8)), 10.0 ** rng.integers(-2, 2)
        points, y = 1e3 + rng.standard_normal((m, 2)), rng.standard_normal(m)
        problem = NuSVRDual(Polynomial(points, 2, gamma, 1.0), y, 0.1, 0.5)
        result = solve(problem, "smo", max_iter=2000)
        far, coef = (
            points.astype(EXTENDED_PRECISION),
            result.x[:m].astype(EXTENDED_PRECISION) - result.x[m:],
        )
        values = (EXTENDED_PRECISION(gamma) * far @ far.T + 1) ** 2 @ coef
        r, total = y - values, EXTENDED_PRECISION(problem.total)
        above = [total * u + EXTENDED_PRECISION(0.1) * np.maximum(r - u, 0).sum() for u in r]
        below = [EXTENDED_PRECISION(0.1) * np.maximum(u - r, 0).sum() - total * u for u in r]
        assert coef @ values / 2 + min(above) + min(below) <= -result.certificate.lower


def test_points_of_penalty_zero_do_not_count():
    C = weights(len(Y), seed=76)
    kept = C > 0
    for gram, some in ((RBF(X, 0.5), RBF(X[kept], 0.5)), (Linear(X), Linear(X[kept]))):
        whole = solve(NuSVRDual(gram, Y, C, 0.3), tol=1e-8)
        part = solve(NuSVRDual(some, Y[kept], C[kept], 0.3), tol=1e-8)
        assert whole.value == pytest.approx(part.value, rel=1e-7)
        assert not whole.x.reshape(2, -1)[:, ~kept].any() and whole.x.shape == (2 * len(Y),)


def test_duplicates_of_a_point_count_as_its_penalty():
    C = np.where(np.arange(150) < 50, 3.0, 1.0)
    again = np.concatenate([np.arange(150), np.arange(50), np.arange(50)])
    problem = NuSVRDual(RBF(X[again], 0.5), Y[again], 1.0, 0.3)
    one = solve(NuSVRDual(RBF(X, 0.5), Y, C, 0.3), tol=1e-8)
    for merge in (False, True):
        several = solve(problem, tol=1e-8, merge=merge)
        assert several.value == pytest.approx(one.value, rel=1e-7)
        assert several.model.epsilon == pytest.approx(one.model.epsilon, rel=1e-4)
        expected = one.model.predict(NEW_POINTS)
        np.testing.assert_allclose(several.model.predict(NEW_POINTS), expected, atol=1e-3)
    assert several.counters["merged"] == 100
    different = NuSVRDual(RBF(duplicates(150, 3, seed=77)[0], 0.5), np.arange(150.0))
    assert "merged" not in solve(different, tol=1e-3, merge=True).counters


def test_the_variable_holds_both_signs():
    problem = NuSVRDual(RBF(X, 0.5), Y, 1.0, 0.3)
    result = solve(problem, tol=1e-6)
    above, below = np.split(result.x, 2)
    np.testing.assert_array_equal(result.dual, above - below)
    np.testing.assert_array_equal(result.support, np.flatnonzero((above > 0) | (below > 0)))
    assert above.sum() == pytest.approx(problem.total) == below.sum()
    residual, epsilon = Y - result.model.predict(X), result.model.epsilon
    assert np.all(above[residual < epsilon - 0.01] == 0.0)
    assert np.all(below[residual > -epsilon + 0.01] == 0.0)
    assert f"tube +- {epsilon:.6g}" in str(result.model)


@pytest.mark.parametrize("method", TESTED_METHODS)
def test_columns_are_of_the_points(method):
    points, y = waves(400, 3, seed=78)
    problem = NuSVRDual(RBF(points, 0.5), y, 10.0, 0.3)
    every = solve(problem, method, tol=1e-6).counters
    assert every["columns"] <= 2 * len(y) if method == "decomposition" else len(y)
    limit = 40 * 2 * len(y) * 8
    result = solve(problem, method, tol=1e-6, memory_limit=limit)
    assert result.converged and result.counters["bytes"] <= 2 * limit


@pytest.mark.parametrize("method", TESTED_METHODS)
def test_weights_for_another_penalty_are_feasible(method):
    C = weights(len(Y), seed=79)
    before, now = (NuSVRDual(RBF(X, 0.5), Y, s * C, 0.3) for s in (1.0, 7.0))
    start = now.carried(before, solve(before, tol=1e-3))
    form = now.as_qp()
    assert form.violation(now.start(form, start)) <= 1e-12 * start.sum()
    assert solve(now, method, x0=start, tol=1e-6).converged


def test_a_path_of_nu_keeps_columns():
    problem, values = NuSVRDual(Cached(RBF(X, 0.5)), Y), [0.1, 0.3, 0.9]
    path = solve_path(problem, "nu", values, "decomposition", tol=1e-6)
    assert sum(result.counters["columns"] for result in path) <= len(Y)
    widths = [result.model.epsilon for result in path]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("method", TESTED_METHODS)
def test_any_start(method):
    problem = NuSVRDual(RBF(X, 0.5), Y, 1.0, 0.3)
    cold = solve(problem, method, tol=1e-8)
    assert solve(problem, method, tol=1e-6, x0=cold).n_iter == 0
    for x0 in (np.zeros(300), 1e9 * np.random.default_rng(80).random(300), np.eye(300)[3]):
        warm = solve(problem, method, tol=1e-8, x0=x0)
        assert warm.converged and warm.value == pytest.approx(cold.value, rel=2e-8)
    with pytest.raises(InputError, match=r"x0 must have shape \(300,\)"):
        solve(problem, x0=np.zeros(150))


def test_every_gram_of_points_serves():
    low_rank = LowRank(RBF(X, 0.5), rank=30)
    result = solve(NuSVRDual(low_rank, Y, 1.0, 0.3), tol=1e-6, original=True)
    assert result.converged and np.isfinite(result.original.gap)
    single = solve(NuSVRDual(RBF(X.astype(np.float32), 0.5), Y, 1.0, 0.3), tol=1e-6)
    double = solve(NuSVRDual(RBF(X.astype(np.float32).astype(float), 0.5), Y, 1.0, 0.3), tol=1e-6)
    assert single.value == pytest.approx(double.value, rel=1e-5)
    K = X @ X.T - 3.0 * np.eye(len(X))
    assert solve(NuSVRDual(K, Y, 1.0, 0.3), "smo").status is qpsvm.Status.NONCONVEX


def test_the_projected_gradient_agrees():
    K, m = RBF(X[:40], 0.5), 40
    found = solve(NuSVRDual(K, Y[:m], 1.0, 0.5), tol=1e-8)
    sign = np.repeat([1.0, -1.0], m)
    Q = np.outer(sign, sign) * np.tile(K.block(np.arange(m)), (2, 2))
    domain = CappedSimplex(np.ones(2 * m), np.repeat([0, 1], m), 0.25 * m)
    problem = QuadraticProgram(Q, -sign * np.tile(Y[:m], 2), domain)
    assert solve(problem, "apg", tol=1e-6).value == pytest.approx(found.value, rel=2e-6)


def test_methods():
    for gram in (Linear(X), RBF(X, 0.5)):
        assert qpsvm.methods(NuSVRDual(gram, Y)) == ["decomposition", "smo", "pdipm"]
        assert solve(NuSVRDual(gram, Y)).method == "smo"
    many = np.random.default_rng(0).standard_normal((500, 2))
    assert solve(NuSVRDual(RBF(many, 0.5), many[:, 0] ** 2)).method == "decomposition"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"C": np.inf}, "C must be finite"),
        ({"C": 0.0}, "C must be > 0"),
        ({"C": -np.ones(150)}, "C must be >= 0"),
        ({"C": np.zeros(150)}, "C must be > 0 for at least one point"),
        ({"nu": 0.0}, "nu must be a number > 0 and <= 1"),
        ({"nu": 1.01}, "nu must be a number > 0 and <= 1"),
        ({"nu": np.nan}, "nu must be a number > 0 and <= 1"),
        ({"nu": "half"}, "nu must be a number > 0 and <= 1"),
        ({"nu": 1e-300, "C": 1e-300}, "nu must be such that .* is positive"),
        ({"C": 1e308}, "nu must be such that .* finite"),
        ({"y": Y[:-1]}, r"y must have shape \(150,\)"),
        ({"y": np.where(Y > 0, np.nan, 0.0)}, "y must be finite"),
        ({"K": X}, "K must be a kernel of points"),
    ],
)
def test_bad_input_is_named(given, message):
    arguments = {"K": RBF(X, 0.5), "y": Y, **given}
    with pytest.raises(InputError, match=message):
        NuSVRDual(**arguments)
