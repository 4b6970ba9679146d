"""Regression with a tube: scikit-learn's answers, the primal point, sizes of values, bad input."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVR

import qpsvm
from problems.clouds import cloud, weights
from problems.regression.svr import waves
from qpsvm import (
    RBF,
    Cached,
    InputError,
    Linear,
    LowRank,
    Polynomial,
    Precomputed,
    SVRDual,
    solve,
    solve_path,
)

X, Y = waves(150, 3, seed=61)
NEW_POINTS = cloud(40, 3, seed=62)
TESTED_METHODS = ("smo", "decomposition")
EXTENDED_PRECISION = np.longdouble

as_fractions = np.frompyfunc(lambda value: Fraction(float(value)), 1, 1)


def answers(problem, tol=1e-9):
    for method in TESTED_METHODS:
        result = solve(problem, method, tol=tol)
        assert result.converged and result.certificate.violation <= 1e-12 * (
            1.0 + result.x.sum()
        ), f"{result}"
        yield result


def loss(model, points, y, C, epsilon):
    """Return the part of the primal objective that depends on the predictions."""
    return float(np.sum(C * np.maximum(np.abs(y - model.predict(points)) - epsilon, 0.0)))


@pytest.mark.parametrize(("C", "epsilon"), [(1.0, 0.1), (30.0, 0.3), (0.05, 0.0)])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_the_answer_is_that_of_scikit_learn(C, epsilon, storage):
    theirs = SVR(C=C, epsilon=epsilon, gamma=0.5, tol=1e-10).fit(X, Y)
    for result in answers(SVRDual(RBF(storage(X), 0.5), Y, C, epsilon), tol=1e-9):
        model, found = result.model, np.zeros(len(Y))
        found[theirs.support_] = theirs.dual_coef_[0]
        np.testing.assert_allclose(result.dual, found, atol=1e-3 * C)
        predicted = model.predict(storage(NEW_POINTS))
        np.testing.assert_allclose(predicted, theirs.predict(NEW_POINTS), atol=1e-3)
        assert model.b == pytest.approx(theirs.intercept_[0], abs=1e-3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gram", [RBF(X, 0.5), Linear(X), Polynomial(X, 2, 0.5, 1.0)], ids=repr)
def test_the_lower_bound_is_the_objective_of_the_model(gram, bias):
    """And its bias is a best one for its w."""
    C = weights(len(Y), seed=63)
    problem = SVRDual(gram, Y, C, 0.1, bias=bias)
    for method in qpsvm.methods(problem):
        result = solve(problem, method, tol=1e-3)
        model, coef = result.model, result.dual
        objective = 0.5 * coef @ gram.dot(coef) + loss(model, X, Y, C, 0.1)
        assert -result.certificate.lower == pytest.approx(objective, rel=1e-9)
        assert result.certificate.upper == pytest.approx(
            0.5 * coef @ gram.dot(coef) + 0.1 * result.x.sum() - Y @ coef, rel=1e-9
        )
        if not bias:
            assert model.b == 0.0
            continue
        for step in (-1e-3, 1e-3):
            moved = np.abs(Y - model.predict(X) - step) - 0.1
            assert C @ np.maximum(moved, 0.0) >= loss(model, X, Y, C, 0.1) - 1e-9


def test_the_rounding_of_a_far_kernel_is_in_the_bounds():
    """Kernel values of 1e12, which nearly cancel: the lower bound holds in extended precision."""
    rng = np.random.default_rng(67)
    for _ in range(200):
        m, gamma = int(rng.integers(2, 8)), 10.0 ** rng.integers(-2, 2)
        points, y = 1e3 + rng.standard_normal((m, 2)), rng.standard_normal(m)
        result = solve(SVRDual(Polynomial(points, 2, gamma, 1.0), y, 0.1), "smo", max_iter=2000)
        far, coef = (
            points.astype(EXTENDED_PRECISION),
            result.x[:m].astype(EXTENDED_PRECISION) - result.x[m:],
        )
        values = (EXTENDED_PRECISION(gamma) * far @ far.T + 1) ** 2 @ coef
        kinks = np.append(
            y - values - EXTENDED_PRECISION(0.1), y - values + EXTENDED_PRECISION(0.1)
        )
        losses = [
            np.maximum(np.abs(y - values - b) - EXTENDED_PRECISION(0.1), 0).sum() for b in kinks
        ]
        assert (
            coef @ values / 2 + EXTENDED_PRECISION(0.1) * min(losses) <= -result.certificate.lower
        )


def test_large_penalties_are_certified_up_to_rounding():
    points, y = waves(80, 4, seed=68)
    for C, tol in ((1e4, 1e-6), (1e6, 1e-4)):
        for result in answers(SVRDual(RBF(points, 0.5), y, C, 0.1), tol=tol):
            assert result.certificate.roundoff <= tol * abs(result.value)


def test_rounding_of_many_steps_makes_no_support():
    result = solve(SVRDual(RBF(X, 0.5), Y, 30.0, 0.3), "smo", tol=1e-9)
    assert result.counters["pair"] > 1000
    assert len(result.support) < len(Y) // 2
    assert abs(result.dual.sum()) <= 1e-14 * result.x.sum()


def test_the_variable_holds_both_signs():
    result = solve(SVRDual(RBF(X, 0.5), Y, 1.0, 0.1), tol=1e-6)
    above, below = np.split(result.x, 2)
    np.testing.assert_array_equal(result.dual, above - below)
    np.testing.assert_array_equal(result.support, np.flatnonzero((above > 0) | (below > 0)))
    assert abs(result.dual.sum()) <= 1e-12
    residual = Y - result.model.predict(X)
    assert np.all(above[residual < 0.09] == 0.0)  # a lies above the tube, a* below
    assert np.all(below[residual > -0.09] == 0.0)
    assert "tube +- 0.1" in str(result.model)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(
    "gram", [RBF(X, 0.5), Linear(X), Precomputed(RBF(X, 0.5).block(np.arange(150)))]
)
def test_a_tube_that_holds_all_values_gives_their_middle(gram, scale):
    y = scale * np.linspace(2.0, 5.0, len(X))
    for epsilon in (1.5 * scale, 2.0 * scale):
        for result in answers(SVRDual(gram, y, 3.0, epsilon)):
            assert abs(result.value) <= result.certificate.floor
            points = gram.block(np.arange(150)) if isinstance(gram, Precomputed) else X
            np.testing.assert_allclose(result.model.predict(points), 3.5 * scale, rtol=1e-9)


def test_equal_values_need_no_tube():
    for gram in (RBF(X, 0.5), Linear(X)):
        for result in answers(SVRDual(gram, np.full(len(X), 0.1), 2.0, 0.0)):
            np.testing.assert_allclose(result.model.predict(X), 0.1, rtol=1e-12)
            assert abs(result.value) <= 1e-14


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e8])
def test_values_of_any_size_give_the_same_machine(scale):
    """With y, C and epsilon multiplied by s, weights are multiplied by s and the value by s^2."""
    K = Precomputed(RBF(X, 0.5).block(np.arange(len(X))))
    for gram in (RBF(X, 0.5), K):
        one = solve(SVRDual(gram, Y, 2.0, 0.1), tol=1e-8)
        for result in answers(SVRDual(gram, scale * Y, 2.0 * scale, 0.1 * scale), tol=1e-8):
            assert result.certificate.test == "relative"
            assert result.value == pytest.approx(scale**2 * one.value, rel=1e-7)
            np.testing.assert_allclose(result.dual / scale, one.dual, atol=1e-2)


def test_the_bias_takes_a_translation_of_the_values():
    one = solve(SVRDual(RBF(X, 0.5), Y, 2.0, 0.1), tol=1e-8)
    for result in answers(SVRDual(RBF(X, 0.5), Y + 2.0**20, 2.0, 0.1), tol=1e-8):
        assert result.value == pytest.approx(one.value, rel=1e-7)
        assert result.model.b == pytest.approx(one.model.b + 2.0**20, abs=1e-3)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e7])
@pytest.mark.parametrize("level", [0.0, 1e6])
def test_the_certificate_holds_for_the_stored_numbers(offset, level):
    """The objective at (w, b), in exact arithmetic, is no more than minus the lower bound."""
    points, y = X + offset, Y + level
    for tol in (1e-3, 1e-9):
        result = solve(SVRDual(Linear(points), y, 5.0, 0.1), "decomposition", tol=tol)
        w, b = as_fractions(result.model.w), Fraction(result.model.b)
        missed = np.abs(as_fractions(y) - as_fractions(points) @ w - b) - Fraction(0.1)
        objective = w @ w / 2 + 5 * np.maximum(missed, 0).sum()
        assert objective <= Fraction(-result.certificate.lower)
        assert -result.certificate.upper <= objective


def test_points_of_penalty_zero_do_not_count():
    C = weights(len(Y), seed=64)
    kept = C > 0
    for gram, some in ((RBF(X, 0.5), RBF(X[kept], 0.5)), (Linear(X), Linear(X[kept]))):
        whole = solve(SVRDual(gram, Y, C, 0.1), tol=1e-9)
        part = solve(SVRDual(some, Y[kept], C[kept], 0.1), tol=1e-9)
        assert whole.value == pytest.approx(part.value, rel=1e-8)
        assert not whole.dual[~kept].any() and whole.x.shape == (2 * len(Y),)
        expected = part.model.predict(NEW_POINTS)
        np.testing.assert_allclose(whole.model.predict(NEW_POINTS), expected, atol=1e-4)


def test_duplicates_of_a_point_count_as_its_penalty():
    """Merged or not; other values make other points."""
    C = np.where(np.arange(150) < 50, 3.0, 1.0)
    again = np.concatenate([np.arange(150), np.arange(50), np.arange(50)])
    problem = SVRDual(RBF(X[again], 0.5), Y[again], 1.0, 0.1)
    one = solve(SVRDual(RBF(X, 0.5), Y, C, 0.1), tol=1e-9)
    for merge in (False, True):
        merged = solve(problem, tol=1e-9, merge=merge)
        assert merged.value == pytest.approx(one.value, rel=1e-8)
        expected = one.model.predict(NEW_POINTS)
        np.testing.assert_allclose(merged.model.predict(NEW_POINTS), expected, atol=1e-3)
    assert merged.counters["merged"] == 100
    assert "100 of 250 points are duplicates" in merged.reason
    different = SVRDual(RBF(X[again], 0.5), np.arange(250.0), 1.0, 0.1)
    assert "merged" not in solve(different, tol=1e-3, merge=True).counters


def test_a_path_starts_from_feasible_points_and_keeps_columns():
    for name, values in (("C", [0.1, 1.0, 30.0]), ("epsilon", [0.0, 0.1, 0.5])):
        for method in TESTED_METHODS:
            problem = SVRDual(Cached(RBF(X, 0.5)), Y, 1.0, 0.1)
            path = solve_path(problem, name, values, method, tol=1e-6)
            assert sum(result.counters["columns"] for result in path) <= len(Y) or method == "smo"
            for value, result in zip(values, path, strict=True):
                alone = solve(SVRDual(RBF(X, 0.5), Y, **{"C": 1.0, "epsilon": 0.1, name: value}))
                assert result.converged
                assert result.value == pytest.approx(alone.value, rel=1e-3)


def test_weights_for_another_penalty_are_feasible():
    C = weights(len(Y), seed=65)
    before, now = SVRDual(RBF(X, 0.5), Y, C, 0.1), SVRDual(RBF(X, 0.5), Y, 7.0 * C, 0.1)
    start = now.carried(before, solve(before, tol=1e-3))
    form = now.as_qp()
    assert form.violation(now.start(form, start)) <= 1e-12 * start.sum()
    assert solve(now, x0=start, tol=1e-6).converged


@pytest.mark.parametrize("method", TESTED_METHODS)
def test_columns_are_of_the_points(method):
    """Not of both signs: no more of them than points are evaluated, and they fit in little memory."""
    points, y = waves(400, 3, seed=66)
    problem = SVRDual(RBF(points, 0.5), y, 10.0, 0.1)
    every = solve(problem, method, tol=1e-6).counters
    assert every["columns"] <= 2 * len(y) if method == "decomposition" else len(y)
    limit = 40 * 2 * len(y) * 8
    result = solve(problem, method, tol=1e-6, memory_limit=limit)
    assert result.converged and result.counters["bytes"] <= 2 * limit


def test_every_gram_of_points_serves():
    low_rank = solve(SVRDual(LowRank(RBF(X, 0.5), rank=30), Y, 1.0, 0.1), tol=1e-6, original=True)
    assert low_rank.converged and np.isfinite(low_rank.original.gap)
    single = solve(SVRDual(RBF(X.astype(np.float32), 0.5), Y, 1.0, 0.1), tol=1e-6)
    double = solve(SVRDual(RBF(X.astype(np.float32).astype(float), 0.5), Y, 1.0, 0.1), tol=1e-6)
    assert single.value == pytest.approx(double.value, rel=1e-5)
    model = pickle.loads(pickle.dumps(double.model))
    expected = double.model.predict(NEW_POINTS)
    np.testing.assert_allclose(model.predict(NEW_POINTS), expected, rtol=1e-12)


def test_a_matrix_that_is_not_psd_has_no_lower_bound():
    K = X @ X.T - 3.0 * np.eye(len(X))
    result = solve(SVRDual(K, Y, 1.0, 0.1), "smo")
    assert result.status is qpsvm.Status.NONCONVEX and result.certificate.lower == -np.inf


def test_only_methods_for_any_linear_term_fit():
    """Those of the hinge dual alone take it that c = -1."""
    assert qpsvm.methods(SVRDual(Linear(X), Y)) == ["decomposition", "smo", "dcd", "pdipm"]
    assert qpsvm.methods(SVRDual(Linear(X), Y, bias=False)) == ["smo", "dcd", "pdipm"]
    assert qpsvm.methods(SVRDual(RBF(X, 0.5), Y)) == ["decomposition", "smo", "pdipm"]
    assert solve(SVRDual(RBF(X, 0.5), Y)).method == "smo"
    many = np.random.default_rng(0).standard_normal((500, 2))
    assert solve(SVRDual(RBF(many, 0.5), many[:, 0] ** 2)).method == "decomposition"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"C": np.inf}, "C must be finite"),
        ({"C": 0.0}, "C must be > 0"),
        ({"C": -np.ones(150)}, "C must be >= 0"),
        ({"epsilon": -0.1}, "epsilon must be a finite number >= 0"),
        ({"epsilon": np.nan}, "epsilon must be a finite number >= 0"),
        ({"epsilon": np.inf}, "epsilon must be a finite number >= 0"),
        ({"y": Y[:-1]}, r"y must have shape \(150,\)"),
        ({"y": np.where(Y > 0, np.nan, 0.0)}, "y must be finite"),
        ({"bias": 2}, "bias must be one of True, False"),
        ({"K": X}, "K must be a kernel of points"),
    ],
)
def test_bad_input_is_named(given, message):
    arguments = {"K": RBF(X, 0.5), "y": Y, **given}
    with pytest.raises(InputError, match=message):
        SVRDual(**arguments)


def test_a_start_has_both_signs():
    with pytest.raises(InputError, match=r"x0 must have shape \(300,\)"):
        solve(SVRDual(RBF(X, 0.5), Y), x0=np.zeros(150))
