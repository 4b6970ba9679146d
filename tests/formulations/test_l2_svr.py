"""Regression with squared errors beyond the tube: objective, scikit-learn, bounds, bad input."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.svm import LinearSVR

import qpsvm
from problems.clouds import cloud, weights
from problems.regression.svr import waves
from qpsvm import (
    RBF,
    InputError,
    L2SVRDual,
    Linear,
    LowRank,
    Polynomial,
    Precomputed,
    solve,
)

X, Y = waves(150, 3, seed=81)
NEW_POINTS = cloud(40, 3, seed=82)

as_fractions = np.frompyfunc(lambda value: Fraction(float(value)), 1, 1)


def objective(w, b, points, y, C, epsilon):
    """Return 1/2 (|w|^2 + b^2) + 1/2 sum C max(0, |y - f| - epsilon)^2."""
    missed = np.maximum(np.abs(y - points @ w - b) - epsilon, 0.0)
    return 0.5 * (w @ w + b * b) + 0.5 * float(np.sum(C * missed**2))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix, np.float32])
def test_the_linear_answer_is_that_of_scikit_learn(epsilon, bias, storage):
    points = X.astype(np.float32).astype(float)
    theirs = LinearSVR(
        loss="squared_epsilon_insensitive", C=3.0, epsilon=epsilon, fit_intercept=bias,
        dual=False, tol=1e-12, max_iter=100_000,
    ).fit(points, Y)  # fmt: skip
    problem = L2SVRDual(Linear(storage(points)), Y, 6.0, epsilon, bias=bias)
    result = solve(problem, tol=1e-10)
    assert result.method == "mfn" and result.converged
    np.testing.assert_allclose(result.model.w, theirs.coef_, atol=1e-5)
    assert result.model.b == pytest.approx(float(np.ravel(theirs.intercept_)[0]), abs=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_every_method_minimizes_the_objective(bias):
    C = weights(len(Y), seed=83)

    def value(v):
        return objective(v[:3], v[3] if bias else 0.0, X, Y, C, 0.1)

    best = minimize(value, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
    problem = L2SVRDual(Linear(X), Y, C, 0.1, bias=bias)
    assert qpsvm.methods(problem) == ["smo", "mfn", "dcd", "pdipm"]
    for method in qpsvm.methods(problem):
        result = solve(problem, method, tol=1e-9)
        assert result.converged
        assert -result.value == pytest.approx(best.fun, rel=1e-8)
        np.testing.assert_allclose(result.model.w, best.x[:3], atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gram", [RBF(X, 0.5), Linear(X), Polynomial(X, 2, 0.5, 1.0)], ids=repr)
def test_the_lower_bound_is_the_objective_of_the_model(gram, bias):
    C = weights(len(Y), seed=84)
    problem = L2SVRDual(gram, Y, C, 0.1, bias=bias)
    for method in qpsvm.methods(problem):
        result = solve(problem, method, tol=1e-3)
        model, coef, kept = result.model, result.dual, C > 0
        assert model.b == pytest.approx(coef.sum() if bias else 0.0, rel=1e-12)
        half = 0.5 * (coef @ gram.dot(coef) + model.b**2)
        missed = np.maximum(np.abs(Y - model.predict(X)) - 0.1, 0.0)
        certificate = result.certificate
        assert -certificate.lower == pytest.approx(half + 0.5 * C @ missed**2, rel=1e-9)
        both = result.x.reshape(2, -1)
        squares = 0.5 * np.sum(both[:, kept] ** 2 / C[kept])
        value = half + squares + 0.1 * result.x.sum() - Y @ coef
        assert certificate.upper == pytest.approx(value, rel=1e-9)


def test_a_weight_is_the_penalty_times_the_error_beyond_the_tube():
    result = solve(L2SVRDual(RBF(X, 0.5), Y, 4.0, 0.2), tol=1e-10)
    above, below = np.split(result.x, 2)
    rest = Y - result.model.predict(X)
    np.testing.assert_allclose(above, 4.0 * np.maximum(rest - 0.2, 0.0), atol=1e-3)
    np.testing.assert_allclose(below, 4.0 * np.maximum(-rest - 0.2, 0.0), atol=1e-3)
    np.testing.assert_array_equal(result.dual, above - below)
    np.testing.assert_array_equal(result.support, np.flatnonzero((above > 0) | (below > 0)))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("C", [0.1, 1e4])
def test_the_certificate_holds_for_the_stored_numbers(offset, C):
    """The objective at (w, b), in exact arithmetic, is no more than minus the lower bound."""
    points = X[:40] + offset
    for tol in (1e-3, 1e-9):
        for method in ("mfn", "pdipm"):
            result = solve(L2SVRDual(Linear(points), Y[:40], C, 0.1), method, tol=tol)
            w, b = as_fractions(result.model.w), Fraction(result.model.b)
            missed = np.abs(as_fractions(Y[:40]) - as_fractions(points) @ w - b) - Fraction(0.1)
            squares = (np.maximum(missed, 0) ** 2).sum()
            found = (w @ w + b * b) / 2 + Fraction(C) * squares / 2
            assert found <= Fraction(-result.certificate.lower)


def test_the_rounding_of_a_far_kernel_is_in_the_bounds():
    """Kernel values of 1e12, which nearly cancel: the lower bound holds in extended precision."""
    rng, extended = np.random.default_rng(85), np.longdouble
    for _ in range(100):
        m, gamma = int(rng.integers(2, 8)), 10.0 ** rng.integers(-2, 2)
        points, y = 1e3 + rng.standard_normal((m, 2)), rng.standard_normal(m)
        for C in (1.0, 1e6):
            problem = L2SVRDual(Polynomial(points, 2, gamma, 1.0), y, C)
            result = solve(problem, "smo", max_iter=2000)
            far = points.astype(extended)
            coef = result.x[:m].astype(extended) - result.x[m:]
            f = ((extended(gamma) * far @ far.T + 1) ** 2 + 1) @ coef
            missed = np.maximum(np.abs(y - f) - extended(0.1), 0)
            primal = coef @ f / 2 + extended(C) / 2 * (missed**2).sum()
            assert primal <= -result.certificate.lower


def test_a_tube_around_all_values_gives_zero():
    for gram in (RBF(X, 0.5), Linear(X), Precomputed(RBF(X, 0.5).block(np.arange(150)))):
        for y in (np.linspace(-1.0, 1.0, 150), np.zeros(150)):
            for method in qpsvm.methods(L2SVRDual(gram, y, 2.0, 1.0)):
                result = solve(L2SVRDual(gram, y, 2.0, 1.0), method)
                assert result.converged and abs(result.value) <= result.certificate.floor + 1e-300
                assert np.abs(result.x).max() <= 1e-9


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e8, 1e100])
def test_values_of_any_size_give_the_same_machine(scale):
    """With y and epsilon multiplied by s, weights are multiplied by s and the value by s^2."""
    for gram, tol in ((RBF(X, 0.5), 1e-7), (Linear(X), 1e-9)):
        one = solve(L2SVRDual(gram, Y, 2.0, 0.1), tol=tol)
        result = solve(L2SVRDual(gram, scale * Y, 2.0, 0.1 * scale), tol=tol)
        assert result.certificate.test == "relative"
        assert result.value / scale == pytest.approx(scale * one.value, rel=10 * tol)
        np.testing.assert_allclose(result.dual / scale, one.dual, atol=1e-2)


def test_points_of_penalty_zero_do_not_count():
    C = weights(len(Y), seed=86)
    kept = C > 0
    for gram, some in ((RBF(X, 0.5), RBF(X[kept], 0.5)), (Linear(X), Linear(X[kept]))):
        whole = solve(L2SVRDual(gram, Y, C, 0.1), tol=1e-9)
        part = solve(L2SVRDual(some, Y[kept], C[kept], 0.1), tol=1e-9)
        assert whole.value == pytest.approx(part.value, rel=1e-8)
        assert not whole.dual[~kept].any() and whole.x.shape == (2 * len(Y),)
        expected = part.model.predict(NEW_POINTS)
        np.testing.assert_allclose(whole.model.predict(NEW_POINTS), expected, atol=1e-4)


def test_a_start_is_taken():
    for gram, method in ((Linear(X), "mfn"), (RBF(X, 0.5), "smo"), (RBF(X, 0.5), "pdipm")):
        problem = L2SVRDual(gram, Y, 2.0, 0.1)
        first = solve(problem, method, tol=1e-8)
        again = solve(problem, method, x0=first, tol=1e-7)
        assert again.converged and (method == "pdipm" or again.n_iter == 0)
    with pytest.raises(InputError, match=r"x0 must have shape \(300,\)"):
        solve(problem, x0=np.zeros(150))


def test_every_gram_of_points_serves():
    low_rank = LowRank(RBF(X, 0.5), rank=30)
    found = solve(L2SVRDual(low_rank, Y, 1.0, 0.1), tol=1e-6, original=True)
    assert found.converged and found.method == "dcd" and np.isfinite(found.original.gap)
    single = L2SVRDual(Precomputed(RBF(X, 0.5).block(np.arange(150)).astype(np.float32)), Y, 10.0)
    exact = solve(L2SVRDual(RBF(X, 0.5), Y, 10.0), tol=1e-6)
    result = solve(single, tol=1e-6)
    assert result.converged and result.value == pytest.approx(exact.value, rel=1e-4)


def test_a_matrix_that_is_not_psd_has_no_lower_bound():
    K = X @ X.T - 3.0 * np.eye(len(X))
    result = solve(L2SVRDual(K, Y, 1e3, 0.1), "smo", max_iter=5000)
    assert result.certificate.lower == -np.inf and not result.converged
    assert np.isfinite(result.x).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"C": np.inf}, "C must be finite"),
        ({"C": 0.0}, "C must be > 0"),
        ({"epsilon": -0.1}, "epsilon must be a finite number >= 0"),
        ({"epsilon": np.inf}, "epsilon must be a finite number >= 0"),
        ({"y": Y[:-1]}, r"y must have shape \(150,\)"),
        ({"bias": 2}, "bias must be one of True, False"),
        ({"K": X}, "K must be a kernel of points"),
    ],
)
def test_bad_input_is_named(given, message):
    arguments = {"K": RBF(X, 0.5), "y": Y, **given}
    with pytest.raises(InputError, match=message):
        L2SVRDual(**arguments)
