"""What is special to the smoothed methods: smoothing, rate, homotopy, the paper as printed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    HingeDual,
    HingePrimal,
    InputError,
    LowRank,
    LPSVMPrimal,
    LSSVMPrimal,
    MEBDual,
    MethodMismatchError,
    Precomputed,
    Status,
    methods,
    solve,
)
from qpsvm.gram.feature_map import GramFeatures, PointFeatures
from qpsvm.solvers.smoothing.nesvm import NESVM, HomotopyNESVM
from qpsvm.solvers.smoothing.smoothed_loss import divergence, smoothed

X, Y = two_clouds(150, 6, seed=701)
HINGE_CASES = [
    instance
    for family in ("hinge_primal", "hinge")
    for instance in problems.select(family=family, exclude=("hard-margin",))
    if family == "hinge_primal" or instance.data()["kernel"][0] != "linear"
]
each = pytest.mark.parametrize("instance", HINGE_CASES, ids=str)


def in_the_primal(instance):
    """Return the problem in w and b; a dual with a kernel, by its Gram in place of points."""
    problem = instance.declare()
    if instance.family == "hinge_primal":
        return problem
    return HingePrimal(problem.K, problem.y, problem.C)


def state_of(problem, x0=None, **settings):
    """Return the form, the solver and its first state."""
    form, solver = problem.as_margin(), NESVM(**settings)
    return form, solver, solver.init(form, x0, np.random.default_rng(0))


def smooth_hinge(q, width, center):
    """Return max of u q - width/2 (u - center)^2 over 0 <= u <= 1, by trying many u."""
    u = np.linspace(0.0, 1.0, 20_001)[:, None]
    return (u * q - 0.5 * width * (u - center) ** 2).max(axis=0)


def value(form, state, w, values):
    """Return the smoothed objective at w with its best bias."""
    a = np.empty(form.m)
    b = state.weights(form, values, 0.0, a)
    u, q = a / form.C, 1.0 - form.y * (values + b)
    return 0.5 * w @ w + form.C @ (u * q - 0.5 * state.width * u**2)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_smoothed_hinge_is_the_maximum_that_defines_it(share, rng):
    """The middle zone ends at 1 - mu d_i: with 1 - mu in its place the two would differ."""
    m = 60
    f, width = rng.normal(0.0, 2.0, m), rng.uniform(0.05, 3.0, m)
    y, C, center = np.ones(m), np.ones(m), share * rng.random(m)
    a = np.empty(m)
    smoothed(f, y, C, width, center, True, False, 0.0, a)
    q = 1.0 - f
    found = a * q - 0.5 * width * (a - center) ** 2
    np.testing.assert_allclose(found, smooth_hinge(q, width, center), atol=1e-7)
    in_zone = (q > -width * center) & (q < width * (1.0 - center))
    assert in_zone.any()
    np.testing.assert_array_equal(in_zone, (a > 0.0) & (a < 1.0))


@pytest.mark.parametrize("clipped", [True, False])
def test_the_loss_is_minimized_over_the_bias(clipped, rng):
    f, y = rng.normal(size=80), np.where(rng.random(80) < 0.2, 1.0, -1.0)
    C, width, a = rng.uniform(0.1, 9.0, 80), rng.uniform(1e-4, 1e-2, 80), np.empty(80)
    center = 0.4 * clipped * rng.random(80)
    b = smoothed(f, y, C, width, center, clipped, True, 100.0, a)
    assert abs(y @ a) <= 1e-12 * np.abs(a).sum()
    ahead = smoothed(f + 5.0, y, C, width, center, clipped, True, 0.0, a)
    assert ahead == pytest.approx(b - 5.0)


def test_divergence_is_the_distance_from_the_tangent(rng):
    f, ahead = rng.normal(size=(2, 50))
    y, C, width = np.sign(rng.normal(size=50)), rng.uniform(1, 2, 50), rng.uniform(0.1, 2, 50)
    center = rng.random(50)
    u = np.clip(center + (1 - y * f) / width, 0, 1)
    h, h_ahead = (smooth_hinge(1 - y * g, width, center) for g in (f, ahead))
    expected = C @ (h_ahead - h - u * y * (f - ahead))
    found = divergence(f, ahead, y, C, width, center, True, 0.0)
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_the_error_falls_with_the_square_of_the_steps(bias):
    """Fixed mu, no restart: F_mu(y_k) - F_mu* <= 2 L |w0 - w*|^2 / (k + 1)^2."""
    form, solver, state = state_of(HingePrimal(X, Y, C=10.0, bias=bias), mu=0.01, restart=False)
    _, _, best = state_of(HingePrimal(X, Y, C=10.0, bias=bias), mu=0.01)
    solver.advance(form, state, 0)
    replace(solver, restart=True).advance(form, best, 40_000)
    least, R = value(form, best, best.y, best.y_values), best.y
    errors = []
    for _ in range(300):
        state.step(form, restart=False)
        errors.append(value(form, state, state.y, state.y_values) - least)
    k = np.arange(1, 301)
    errors = np.array(errors)
    assert errors[-1] > 1e-9 * least  # far from roundoff: it is the rate that is seen
    assert np.all(errors * (k + 1) ** 2 <= 2.0 * (1.0 + state.bound / state.mu) * R @ R)
    assert errors[299] * 300**2 <= 4.0 * np.max(errors[9:30] * k[9:30] ** 2)


@each
def test_homotopy_needs_fewer_products_than_the_last_problem_alone(instance):
    """From w = 0 to a gap of 1e-4; also fewer than with the smoothing made for that gap.

    Where the last problem alone needs one step, there is nothing to save: then as many.
    """
    problem = in_the_primal(instance)
    path = solve(problem, "homotopy-nesvm", tol=1e-4, max_iter=20_000)
    assert path.status is Status.OPTIMAL
    spent = path.counters["product"]
    for mu in (last_smoothing(problem, path.n_iter), None):
        alone = solve(problem, "nesvm", tol=1e-4, mu=mu, max_iter=spent + 1)  # a product each
        if alone.n_iter <= 1:
            assert alone.counters["product"] == spent
        else:
            assert alone.counters["product"] > spent


def last_smoothing(problem, n_iter):
    """Return the mu with which the homotopy from w = 0 ends."""
    solver = HomotopyNESVM().for_tolerance(1e-4)
    with problem.as_margin().with_store(1 << 30) as form:
        state = solver.init(form, None, np.random.default_rng(0))
        solver.advance(form, state, n_iter)
    return state.mu


@pytest.mark.parametrize("bias", [True, False])
def test_a_moving_center_closes_the_gap_that_a_smoothing_leaves(bias):
    problem = HingePrimal(X, Y, bias=bias)
    fixed = solve(problem, "nesvm", tol=1e-8, mu=0.5, max_iter=20_000)
    moving = solve(problem, "nesvm", tol=1e-8, mu=0.5, max_iter=20_000, recenter=True)
    assert fixed.certificate.relative_gap > 1e-2
    assert moving.status is Status.OPTIMAL


def test_a_centered_problem_is_a_proximal_point_step_of_the_dual():
    """Its u maximizes the dual less |a - Cc|^2 mu d / (2 C), as quadratic programming finds too."""
    form, solver, state = state_of(HingePrimal(X, Y, C=2.0, bias=False), mu=0.2)
    state.center = np.random.default_rng(5).uniform(size=150)
    state.smooth(form, state.mu)
    solver.advance(form, state, 0)
    for _ in range(5_000):
        state.step(form, restart=True)
    a, upper = state.a, form.C
    slope = 1.0 - Y * (X @ (X.T @ (Y * a))) - state.width * (a / upper - state.center)
    inside = (a > 0.0) & (a < upper)
    assert 0 < np.count_nonzero(inside) < 150
    assert np.abs(slope[inside]).max() <= 1e-9
    assert slope[a == 0.0].max() <= 1e-9
    assert slope[a == upper].min() >= -1e-9


def test_the_harmonic_schedule_of_the_paper():
    solver = HomotopyNESVM(schedule="harmonic", mu0=6.0)
    mu, seen = 6.0, []
    for stage in range(4):
        mu = solver.next_mu(mu, stage)
        seen.append(mu)
    np.testing.assert_allclose(seen, [6.0 / 2, 6.0 / 3, 6.0 / 4, 6.0 / 5])
    result = solve(HingePrimal(X, Y), "homotopy-nesvm", tol=1e-3, schedule="harmonic")
    assert result.status is Status.OPTIMAL


def test_mu_star_is_the_last_smoothing():
    result = solve(
        HingePrimal(X, Y), "homotopy-nesvm", tol=1e-9, mu_star=0.1, max_iter=20_000, recenter=False
    )
    assert result.status is not Status.OPTIMAL
    d = np.abs(X - X.mean(axis=0)).max(axis=1)
    assert result.certificate.gap <= 0.25 * 0.1 * d.sum()


def test_a_given_mu_stays_and_leaves_its_gap():
    gaps = []
    for mu in (0.4, 0.1, 0.025):
        result = solve(HingePrimal(X, Y), "nesvm", tol=1e-9, mu=mu, max_iter=20_000)
        assert result.status is not Status.OPTIMAL
        gaps.append(result.certificate.gap)
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]


def test_curvature_bounds_the_hessian():
    rng = np.random.default_rng(3)
    for shape in ((40, 300), (300, 40), (300, 300)):
        A, weight = rng.normal(2.0, 1.0, shape), rng.uniform(0.1, 5.0, shape[0])
        for center in (True, False):
            Z = A - (weight @ A / weight.sum()) * center
            exact = np.linalg.eigvalsh(Z.T @ (weight[:, None] * Z))[-1]
            found = [PointFeatures(P).curvature(weight, center) for P in (A, sp.csr_matrix(A))]
            found.append(GramFeatures(Precomputed(A @ A.T)).curvature(weight, center))
            for one in found:
                assert exact * (1 - 1e-9) <= one <= 1.2 * exact


@pytest.mark.parametrize("method", ["nesvm", "homotopy-nesvm"])
@pytest.mark.parametrize("formulation", [HingePrimal, LSSVMPrimal])
def test_a_kernel_and_its_factor_have_the_same_iterates(method, formulation, monkeypatch):
    """With K = XX' the coefficients c give w = X'c: same values, same bounds, step by step.

    Each point has one entry, so that |x_i|_inf is |x_i|, and both smooth alike.
    """
    monkeypatch.setattr(
        "qpsvm.gram.feature_map.MAX_ORDER_FOR_EXACT_EIGENVALUE", 0
    )  # the curvature of both by Lanczos steps
    points = np.eye(6)[np.arange(150) % 6] * X[:, :1]
    K = Precomputed(points @ points.T)
    a = solve(formulation(points, Y, bias=False), method, tol=1e-9, max_iter=16)
    b = solve(formulation(K, Y, bias=False), method, tol=1e-9, max_iter=16)
    np.testing.assert_allclose(a.history.upper, b.history.upper, rtol=1e-6)
    np.testing.assert_allclose(a.history.lower, b.history.lower, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(points.T @ b.x, a.x, atol=1e-6)
    assert b.counters["product"] < 0.7 * a.counters["product"]  # one product a step for two


def test_kernel_machines_agree_with_the_dual():
    K = RBF(X, gamma=0.2)
    for gram in (K, LowRank(K, rank=40)):
        dual = solve(HingeDual(gram, Y, C=5.0), tol=1e-8)
        result = solve(HingePrimal(gram, Y, C=5.0), "homotopy-nesvm", tol=1e-5)
        assert result.status is Status.OPTIMAL
        assert result.value == pytest.approx(-dual.value, rel=2e-5)
        agree = result.model.predict(X) == dual.model.predict(X)
        assert agree.mean() >= 0.99
        through_qp = solve(HingePrimal(gram, Y, C=5.0), "smo", tol=1e-6)
        assert through_qp.x.shape == result.x.shape
        np.testing.assert_allclose(
            through_qp.model.decision_function(X), result.model.decision_function(X), atol=0.05
        )


@pytest.mark.parametrize("formulation", [HingePrimal, LPSVMPrimal, LSSVMPrimal])
@pytest.mark.parametrize("bias", [True, False])
def test_storage_and_precision_make_no_difference(formulation, bias):
    single = X.astype(np.float32)
    double = single.astype(float)
    stored = (single, sp.csr_matrix(single), double, sp.csr_matrix(double))
    results = [solve(formulation(A, Y, bias=bias), "homotopy-nesvm", tol=1e-5) for A in stored]
    for result in results:
        assert result.status is Status.OPTIMAL
        assert result.value == pytest.approx(results[0].value, rel=2e-5)
        shown = result.x[:6] @ X[0] + (result.x[6] if bias else 0.0)
        assert result.model.decision_function(X[:1])[0] == pytest.approx(shown)


@pytest.mark.parametrize("formulation", [HingePrimal, LPSVMPrimal, LSSVMPrimal])
def test_an_earlier_answer_is_a_start(formulation):
    problem = formulation(X + 30.0, Y, C=2.0)
    cold = solve(problem, "homotopy-nesvm", tol=1e-6)
    warm = solve(problem, "homotopy-nesvm", tol=1e-5, x0=cold)
    assert warm.n_iter == 0
    assert warm.status is Status.OPTIMAL
    from_w = solve(problem, "homotopy-nesvm", tol=1e-5, x0=cold.x)
    assert from_w.status is Status.OPTIMAL
    assert from_w.history.upper[0] == pytest.approx(cold.value, rel=1e-4)
    with pytest.raises(InputError, match="x0"):
        solve(problem, "nesvm", x0=np.ones(3))


def test_both_forms_are_listed_and_named():
    primal = methods(HingePrimal(X, Y))
    assert {"smo", "crsvm", "nesvm", "homotopy-nesvm"} <= set(primal)
    assert methods(LPSVMPrimal(X, Y)) == methods(LSSVMPrimal(X, Y)) == ["nesvm", "homotopy-nesvm"]
    assert "nesvm" not in methods(HingePrimal(X, Y, C=np.inf))
    with pytest.raises(MethodMismatchError, match=r"'smo' cannot solve LPSVMPrimal.*'nesvm'"):
        solve(LPSVMPrimal(X, Y), "smo")
    with pytest.raises(MethodMismatchError, match=r"'nesvm' cannot solve MEBDual.*'mfw'"):
        solve(MEBDual(RBF(X)), "nesvm")
    assert solve(LSSVMPrimal(X, Y)).status is Status.OPTIMAL


def test_bad_settings_are_named():
    problem = HingePrimal(X, Y)
    for options in (
        {"mu": 0.0},
        {"mu": "small"},
        {"variant": "new"},
        {"restart": 3},
        {"w_star": np.zeros(7)},
    ):
        with pytest.raises(InputError, match=next(iter(options))):
            solve(problem, "nesvm", **options)
    for options in ({"schedule": "slow"}, {"mu0": -1.0}, {"mu_star": 0.0}, {"mu": 1.0}):
        with pytest.raises(InputError, match=next(iter(options))):
            solve(problem, "homotopy-nesvm", **options)
    for bad in ({"C": np.inf}, {"C": -1.0}, {"bias": "yes"}):
        with pytest.raises(InputError, match=next(iter(bad))):
            LPSVMPrimal(X, Y, **bad)
    with pytest.raises(InputError, match="change_tol"):
        solve(HingePrimal(X, Y), "nesvm", change_tol=1e-3)


@pytest.mark.parametrize("formulation", [HingePrimal, LPSVMPrimal, LSSVMPrimal])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("method", ["nesvm", "homotopy-nesvm"])
def test_degenerate_points(formulation, bias, method):
    """One point, two alike with both labels, nothing but zeros, one class, points far and near."""
    cloud, one = np.random.default_rng(2).normal(size=(30, 3)), np.ones(30)
    both = np.where(np.arange(30) % 2, 1.0, -1.0)
    for points, labels in (
        (np.array([[2.0, 0.0]]), np.ones(1)),
        (np.ones((2, 1)), np.array([1.0, -1.0])),
        (np.zeros((4, 2)), np.array([1.0, 1.0, 1.0, -1.0])),
        (cloud, one),
        (cloud * 1e-8, both),
        (cloud * 1e6, both),
        (np.repeat(cloud[:3], 10, axis=0), both),
    ):
        for stored in (points, sp.csr_matrix(points)):
            result = solve(formulation(stored, labels, bias=bias), method, tol=1e-3)
            assert result.status is Status.OPTIMAL
            assert np.isfinite(result.x).all()
            if bias and np.all(labels == labels[0]):
                assert result.value == pytest.approx(0.0, abs=1e-12)


def test_tiny_and_weighted_penalties():
    C = np.where(np.arange(150) % 3, 1e-6, 1e3)
    for formulation in (HingePrimal, LPSVMPrimal, LSSVMPrimal):
        assert solve(formulation(X, Y, C=1e-10), "homotopy-nesvm").status is Status.OPTIMAL
        result = solve(formulation(X, Y, C=C), "homotopy-nesvm", tol=1e-4)
        heavy = solve(formulation(X[C > 1], Y[C > 1], C=1e3), "homotopy-nesvm", tol=1e-4)
        assert result.status is heavy.status is Status.OPTIMAL
        assert result.value == pytest.approx(heavy.value, rel=1e-3)


def test_a_kernel_without_a_lower_bound_is_reported():
    K = np.diag([1.0, 1.0, -0.5, 1.0])
    result = solve(HingePrimal(Precomputed(K), np.array([1.0, -1.0, 1.0, -1.0])), "nesvm")
    assert result.status is Status.NONCONVEX
    assert result.certificate.gap == np.inf
