"""nu-SVMs: scikit-learn's answers, hinge machines, the bounds of nu, intersecting reduced hulls."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import NuSVC

import qpsvm
from problems.clouds import cloud, two_clouds, weights
from qpsvm import (
    RBF,
    Cached,
    HingeDual,
    InputError,
    Linear,
    NuSVCDual,
    PolytopeDistanceDual,
    Precomputed,
    QuadraticProgram,
    Status,
    solve,
)
from qpsvm.domains import CappedSimplex, SimplexProduct

X, Y = two_clouds(150, 3, seed=41, positive=0.4)
NEW_POINTS = cloud(40, 3, seed=42)
TESTED_METHODS = ("smo", "decomposition")


def answers(problem, tol=1e-9):
    for method in TESTED_METHODS:
        result = solve(problem, method, tol=tol)
        assert result.converged and result.certificate.violation <= 1e-14, f"{result}"
        yield result


@pytest.mark.parametrize("nu", [0.15, 0.4, 0.6, 0.79])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_the_decision_function_is_that_of_scikit_learn(nu, storage):
    theirs = NuSVC(nu=nu, gamma=0.5, tol=1e-12).fit(X, Y)
    for result in answers(NuSVCDual(RBF(storage(X), 0.5), Y, nu), tol=2e-9):
        model = result.model
        np.testing.assert_allclose(
            model.decision_function(storage(NEW_POINTS)),
            theirs.decision_function(NEW_POINTS),
            atol=1e-4,
        )
        np.testing.assert_array_equal(model.predict(NEW_POINTS), theirs.predict(NEW_POINTS))
        assert set(theirs.support_) <= set(result.support)
        coef = np.zeros(len(Y))
        coef[model.expansion.indices] = model.expansion.coef
        dense = np.zeros(len(Y))
        dense[theirs.support_] = theirs.dual_coef_[0]
        np.testing.assert_allclose(coef, dense, atol=1e-3 * np.abs(dense).max())


def test_sample_weights_are_those_of_scikit_learn():
    w, nu = weights(150, seed=43), 0.3
    theirs = NuSVC(nu=nu, gamma=0.5, tol=1e-12).fit(X, Y, sample_weight=w)
    for result in answers(NuSVCDual(RBF(X, 0.5), Y, nu, sample_weight=w)):
        np.testing.assert_allclose(
            result.model.decision_function(NEW_POINTS),
            theirs.decision_function(NEW_POINTS),
            atol=1e-3,
        )
        bounds = 2.0 * w / (nu * w.sum())
        assert not result.x[w == 0].any() and np.all(result.x <= bounds * (1 + 1e-12))


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1e300])
def test_the_scale_of_sample_weights_does_not_matter(scale):
    w = weights(150, seed=43) * 1e-2
    one, other = (NuSVCDual(RBF(X, 0.5), Y, 0.3, sample_weight=k * w) for k in (1.0, scale))
    np.testing.assert_allclose(other.upper, one.upper, rtol=1e-12)


def test_a_weight_of_two_is_the_point_twice():
    w = np.where(np.arange(150) % 3 == 0, 2.0, 1.0)
    problem = NuSVCDual(RBF(X, 0.5), Y, 0.3, sample_weight=w)
    twice = NuSVCDual(RBF(np.vstack([X, X[::3]]), 0.5), np.append(Y, Y[::3]), 0.3)
    for one, other in zip(answers(problem), answers(twice), strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-8)
        assert one.model.rho == pytest.approx(other.model.rho, rel=1e-6)


@pytest.mark.parametrize(
    ("nu", "kernel"),
    [
        *((nu, lambda X: RBF(X, 0.5)) for nu in (0.2, 0.5, 0.75)),
        *((nu, lambda X: Linear(X + 100.0)) for nu in (0.6, 0.75)),
    ],
)
def test_it_is_a_hinge_machine(nu, kernel):
    """Schoelkopf et al. (2000): with C_i = upper_i / rho, where rho > 0."""
    problem = NuSVCDual(kernel(X), Y, nu)
    for result in answers(problem, tol=2e-9):
        rho = result.model.rho
        hinge = solve(HingeDual(kernel(X), Y, problem.upper / rho), "smo", tol=1e-10)
        assert hinge.value == pytest.approx(result.value / rho**2 - 2.0 / rho, rel=1e-6)
        np.testing.assert_allclose(
            result.model.decision_function(NEW_POINTS),
            hinge.model.decision_function(NEW_POINTS),
            rtol=1e-4,
            atol=1e-4 * np.abs(hinge.model.decision_function(NEW_POINTS)).max(),
        )


@pytest.mark.parametrize("nu", [0.15, 0.3, 0.5, 0.7, 0.8])
def test_nu_bounds_the_margin_errors_and_the_support(nu):
    for result in answers(NuSVCDual(RBF(X, 0.5), Y, nu)):
        model, n = result.model, nu * 150
        assert model.n_margin_errors <= n + 1e-9 <= len(result.support) + 1e-9
        margins = Y * model.decision_function(X)
        assert np.sum(margins < 1.0 - 1e-4) <= model.n_margin_errors
        assert f"{model.n_margin_errors} margin errors" in str(result)
        free = (result.x > 1e-6) & (result.x < 0.999999 * 2.0 / n)
        np.testing.assert_allclose(margins[free], 1.0, atol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_the_margin_of_a_linear_machine(offset):
    """The hyperplane in the user's coordinates has the stated width 2 / |w|."""
    for result in answers(NuSVCDual(Linear(X + offset), Y, 0.7), tol=1e-7):
        model = result.model
        assert model.margin == pytest.approx(2.0 / np.linalg.norm(model.w), rel=1e-6)
        assert model.distance**2 / 2 == pytest.approx(result.value, rel=1e-9)
        near = (X + offset) @ model.w + model.b
        np.testing.assert_allclose(model.decision_function(X + offset), near, atol=1e-4)
        assert not model.hulls_intersect and model.separable


def test_thresholds_where_all_weights_are_at_their_bounds():
    """Weights 1/4 on 1 .. 4 and 3 .. 6: the best thresholds are between 0 and 1, and 6 and 7."""
    own = np.arange(5.0)
    points, y = np.concatenate([own, own + 3.0])[:, None], np.repeat([-1.0, 1.0], 5)
    for result in answers(NuSVCDual(Linear(points), y, 0.8)):
        model = result.model
        np.testing.assert_allclose(result.x, [0, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0])
        assert model.n_margin_errors == 8
        decisions = model.decision_function([[0.5], [3.5], [6.5]])
        np.testing.assert_allclose(decisions, [-1.0, 0.0, 1.0], atol=1e-12)
        assert model.margin == pytest.approx(6.0) and model.distance == pytest.approx(2.0)


def test_the_largest_nu_fixes_the_smaller_class():
    largest = NuSVCDual.largest_nu(Y)
    assert largest == pytest.approx(0.8)
    for result in answers(NuSVCDual(RBF(X, 0.5), Y, largest)):
        np.testing.assert_allclose(result.x[Y > 0], 1.0 / 60.0, rtol=1e-12)
        assert np.isfinite(result.model.rho) and result.certificate.relative_gap <= 1e-9
    balanced = np.repeat([-1.0, 1.0], 75)
    for result in answers(NuSVCDual(RBF(X, 0.5), balanced, 1.0)):
        np.testing.assert_allclose(result.x, 1.0 / 75.0)
        assert result.n_iter == 0 and np.isfinite(result.model.b)


@pytest.mark.parametrize("nu", [1e-300, 1e-9, 2.0 / 150.0])
def test_tiny_nu_is_the_distance_of_the_hulls(nu):
    problem = NuSVCDual(RBF(X, 5.0), Y, nu)
    assert isinstance(problem.as_qp().domain, SimplexProduct) and "mnp" in qpsvm.methods(problem)
    hulls = solve(PolytopeDistanceDual(RBF(X, 5.0), Y), "mnp", tol=1e-9)
    for result in answers(problem):
        assert result.value == pytest.approx(hulls.value, rel=2e-9)
        assert result.model.n_margin_errors == 0
        assert (Y * result.model.decision_function(X)).min() >= 1.0 - 1e-4


def test_intersecting_reduced_hulls_are_reported():
    own = np.arange(5.0)
    points, y = np.concatenate([own, own + 3.0])[:, None], np.repeat([-1.0, 1.0], 5)
    for nu in (0.2, 0.3, 0.4):
        for result in answers(NuSVCDual(Linear(points), y, nu)):
            assert result.model.hulls_intersect is True and result.certificate.test == "absolute"
            assert "intersect" in str(result.model) and result.model.margin == 0.0
    for result in answers(NuSVCDual(Linear(points), y, 0.41)):
        assert result.model.hulls_intersect is False and result.certificate.lower > 0.0
    for result in answers(NuSVCDual(RBF(np.ones((20, 2))), np.repeat([1.0, -1.0], 10), 0.5)):
        assert result.model.hulls_intersect is True and result.value == 0.0


def test_an_early_stop_is_undecided_or_proved():
    problem = NuSVCDual(RBF(X, 0.5), Y, 0.15)
    decided = [solve(problem, "smo", tol=1e-9, max_iter=n) for n in (0, 1, 10, 100, 100_000)]
    assert decided[0].model.hulls_intersect is None and decided[0].status is Status.MAX_ITER
    assert "Undecided" in str(decided[0].model)
    assert decided[-1].model.hulls_intersect is False
    for result in decided:
        proved = result.certificate.lower > 0.0
        assert result.model.hulls_intersect is (False if proved else None) or not proved


@pytest.mark.parametrize("nu", [0.0, -0.1, 1.5, np.nan, np.inf, "0.5", None])
def test_nu_is_checked(nu):
    with pytest.raises(InputError, match=r"nu must be a number > 0 and <= 1"):
        NuSVCDual(RBF(X), Y, nu)


def test_an_infeasible_nu_is_refused_with_the_largest():
    with pytest.raises(InputError, match=r"nu must be at most 0\.8 .* got 0\.81, which is infeas"):
        NuSVCDual(RBF(X), Y, 0.81)
    w = np.where(Y > 0, 3.0, 1.0)
    assert NuSVCDual.largest_nu(Y, w) == pytest.approx(2.0 * 90.0 / 270.0)
    assert solve(NuSVCDual(RBF(X, 0.5), Y, 2.0 / 3.0, sample_weight=w), tol=1e-6).converged
    with pytest.raises(InputError, match=r"at most 0\.6666"):
        NuSVCDual(RBF(X), Y, 0.67, sample_weight=w)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.full(150, -1.0), "sample_weight must be >= 0"),
        (np.ones(3), "sample_weight must have shape"),
        (np.full(150, np.nan), "sample_weight must be finite"),
        (np.zeros(150), "y must hold both labels"),
        (np.where(Y > 0, 0.0, 1.0), r"y must hold both labels.* got no \+1"),
    ],
)
def test_sample_weights_are_checked(bad, message):
    with pytest.raises(InputError, match=message):
        NuSVCDual(RBF(X), Y, 0.1, sample_weight=bad)


def test_labels_are_checked():
    with pytest.raises(InputError, match=r"y must hold both labels.* got no -1"):
        NuSVCDual(RBF(X), np.ones(150), 0.1)
    with pytest.raises(InputError, match="y must hold the labels -1 and"):
        NuSVCDual(RBF(X), np.arange(150.0), 0.1)
    assert NuSVCDual.largest_nu(np.ones(5)) == 0.0


# Everything else that takes such a problem.


def test_every_gram():
    K = RBF(X, 0.5)
    values = [
        solve(NuSVCDual(gram, Y, 0.3), tol=1e-9).value
        for gram in (
            K,
            RBF(sp.csr_matrix(X), 0.5),
            Cached(K),
            Precomputed(K.block(np.arange(150), None)),
            K.block(np.arange(150), None),
        )
    ]
    np.testing.assert_allclose(values, values[0], rtol=2e-9)
    single = solve(NuSVCDual(RBF(X.astype(np.float32), 0.5), Y, 0.3), tol=1e-6)
    assert single.value == pytest.approx(values[0], rel=1e-4) and single.converged


@pytest.mark.parametrize("method", TESTED_METHODS)
def test_duplicates_are_merged_within_their_class(method):
    """Equal points of both labels stay two; of one label they become one with the sum of the bounds."""
    points, y = np.repeat(X[:40], 3, axis=0), np.repeat(Y[:40], 3)
    y[::9] *= -1.0
    problem = NuSVCDual(RBF(points, 0.5), y, 0.5)
    whole, merged = (solve(problem, method, tol=1e-9, merge=merge) for merge in (False, True))
    assert merged.counters["merged"] > 0 and merged.certificate.violation <= 1e-14
    assert merged.value == pytest.approx(whole.value, rel=2e-9)
    assert merged.model.rho == pytest.approx(whole.model.rho, rel=1e-5)


@pytest.mark.parametrize("method", ["fw", "mfw", "pfw", "bpfw", "fcfw", "apg", "smo"])
def test_the_quadratic_over_the_domain_has_the_general_methods(method):
    rows = slice(0, 40)
    Q = RBF(X[rows], 0.5).block(np.arange(40)) * np.outer(Y[rows], Y[rows])
    ours = solve(NuSVCDual(RBF(X[rows], 0.5), Y[rows], 0.5), tol=1e-9)
    domain = CappedSimplex(np.full(40, 2.0 / (0.5 * 40)), Y[rows] < 0)
    tol = 1e-2 if method == "fw" else 1e-5
    result = solve(QuadraticProgram(Q, np.zeros(40), domain), method, tol=tol, max_iter=50_000)
    assert result.converged and result.value == pytest.approx(ours.value, rel=2 * tol)


@pytest.mark.parametrize("method", TESTED_METHODS)
def test_a_linear_term_and_other_totals(method, rng):
    """Both signs of one point, as in regression: against the projected gradient."""
    K, target = RBF(X[:40], 0.5).block(np.arange(40)), rng.standard_normal(40)
    sign = np.repeat([1.0, -1.0], 40)
    Q = np.outer(sign, sign) * np.tile(K, (2, 2))
    domain = CappedSimplex(np.full(80, 0.7), np.repeat([0, 1], 40), 5.0)
    problem = QuadraticProgram(Q, -sign * np.tile(target, 2), domain)
    found, other = (solve(problem, name, tol=1e-7) for name in (method, "apg"))
    assert found.converged and found.value == pytest.approx(other.value, rel=1e-6)
    assert found.certificate.violation <= 1e-13


@pytest.mark.parametrize("method", TESTED_METHODS)
def test_any_start(method):
    problem = NuSVCDual(RBF(X, 0.5), Y, 0.3)
    cold = solve(problem, method, tol=1e-9)
    assert solve(problem, method, tol=1e-6, x0=cold).n_iter == 0
    rng = np.random.default_rng(44)
    for x0 in (np.zeros(150), rng.standard_normal(150), 1e9 * rng.random(150), np.eye(150)[3]):
        warm = solve(problem, method, tol=1e-9, x0=x0)
        assert warm.converged and warm.value == pytest.approx(cold.value, rel=2e-9)


def test_a_path_of_nu():
    problem = NuSVCDual(RBF(X, 0.5), Y, 0.3)
    values = [0.7, 0.2, 0.5, 0.8]
    for nu, result in zip(values, qpsvm.solve_path(problem, "nu", values, tol=1e-8), strict=True):
        cold = solve(NuSVCDual(RBF(X, 0.5), Y, nu), tol=1e-8)
        assert result.converged and result.value == pytest.approx(cold.value, rel=2e-8)
