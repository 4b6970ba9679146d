"""What is shown while a solve runs, and what is returned when a limit ends it."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import RBF, HingeDual, HingePrimal, LeastSquares, Linear, MEBDual, Status, solve
from qpsvm.canonical.base import Bounds
from qpsvm.clock import Clock
from qpsvm.domains import simplex
from qpsvm.driver.certificate import certify
from qpsvm.driver.trace import Limits, Trace


def rounded_problem(m=300, C=1e3):
    """Points in float32, whose columns have rounding errors as large as the last digits of the gap."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, 6)).astype(np.float32)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(m) > 0, 1.0, -1.0)
    return HingeDual(RBF(X, gamma=0.1), y, C=C)


@pytest.mark.parametrize("method", ["smo", "decomposition"])
def test_bounds_that_are_not_proved_are_called_estimates(method):
    seen = []
    result = solve(rounded_problem(), method, tol=1e-4, callback=lambda p: seen.append(p.estimated))
    history, optimum = result.history, result.certificate
    assert result.converged and seen == history.estimated.tolist()
    assert history.estimated[0] and not history.estimated[-1]  # the last check is the certificate
    assert (history.upper[-1], history.lower[-1]) == (optimum.upper, optimum.lower)
    proved = ~history.estimated
    slack = optimum.roundoff
    assert np.all(history.lower[proved] <= optimum.upper + slack)
    assert np.all(history.upper[proved] >= optimum.lower - slack)


@pytest.mark.parametrize("method", ["mfw", "nesvm"])
def test_each_check_counts_the_points_with_a_weight(method):
    X = np.random.default_rng(3).standard_normal((80, 3))
    is_ball, seen = method == "mfw", []
    problem = MEBDual(Linear(X)) if is_ball else HingePrimal(X, np.sign(X[:, 0]))

    def callback(progress):
        weights = progress.x if is_ball else progress.x[-len(X) :]
        seen.append(np.count_nonzero(weights))

    result = solve(problem, method, tol=1e-3, callback=callback)
    history = result.history
    assert len(history.n_support) == len(history) > 2 and history.n_support.dtype == np.int64
    estimated = history.estimated  # a certificate may repair the point
    np.testing.assert_array_equal(history.n_support[estimated], np.array(seen)[estimated])
    assert history.n_support[-1] == len(result.support)


def test_a_solve_that_continues_another_keeps_its_counts():
    problem = rounded_problem(60, C=1.0)
    form, trace = trace_of(problem)
    x = solve(problem, tol=1e-4).x
    certified = trace.certify(x, None)
    trace.record(x, form.bounds(x, form.product(x)), certified)
    _, later = trace_of(problem)
    later.resume_from(7, trace.history(), {"iterate": 0.0, "certify": 0.0}, certified)
    assert later.history().n_support.tolist() == [np.count_nonzero(certified.x)]


@pytest.mark.parametrize("method", ["smo", "decomposition"])
def test_a_callback_can_have_the_bounds_proved(method):
    """The answer has the gap at which the callback stops."""
    problem, goal, asked = rounded_problem(), 1e-5, []

    def callback(progress):
        if progress.relative_gap < goal:
            asked.append(progress.certificate)
            assert progress.certificate is asked[-1]  # it is computed once
            return progress.certificate.relative_gap < goal
        return False

    result = solve(problem, method, tol=1e-10, callback=callback)
    assert asked and result.status in (Status.CALLBACK_STOP, Status.STALLED)
    assert result.certificate.gap <= min(c.gap for c in asked)
    if result.status is Status.CALLBACK_STOP:
        assert result.certificate.relative_gap < goal


def trace_of(problem):
    form = problem.as_qp()
    return form, Trace(form, Limits(1e-10, 100, clock=Clock()), np.zeros(form.m), 0.0, certify)


def test_an_underestimated_gap_does_not_displace_a_certified_point():
    """Its gap by maintained products is smaller, its certified gap is not."""
    problem = rounded_problem(60, C=1.0)
    _, trace = trace_of(problem)
    good = solve(problem, tol=1e-6).x
    bad, none = 0.5 * good, np.array([0.0])
    certified = trace.certify(good, None)
    gap = certified.certificate.gap
    trace.consider(Bounds(-1.0, -2.0, 0.01 * gap, none), bad)  # as rounded products may give it
    choice = trace.choose(good, None)
    assert choice.certified.certificate.gap == gap
    np.testing.assert_array_equal(choice.certified.x, certified.x)


def test_a_certificate_corrects_earlier_estimates():
    problem = rounded_problem(60, C=1.0)
    form, trace = trace_of(problem)
    good = solve(problem, tol=1e-6).x
    rough, none = 0.9 * good, np.array([0.0])
    true_gap = form.bounds(rough, form.product(rough)).gap
    trace.consider(Bounds(-1.0, -2.0, 1e-9 * true_gap, none), rough)
    trace.certify(rough, None, 1e-9 * true_gap)  # refuted
    better = form.bounds(good, form.product(good))
    trace.consider(better, good)
    assert trace.choose(good, None).certified.certificate.gap <= 1.01 * better.gap < true_gap


def test_where_the_best_estimate_is_refuted_the_current_point_is_certified_too():
    problem = rounded_problem(60, C=1.0)
    form, trace = trace_of(problem)
    good = solve(problem, tol=1e-6).x
    rough, none = 0.9 * good, np.array([0.0])
    better = form.bounds(good, form.product(good))
    trace.consider(Bounds(-1.0, -2.0, 0.01 * better.gap, none), rough)
    trace.consider(better, good)
    assert trace.choose(good, None).certified.certificate.gap <= 1.01 * better.gap


def nearly_exact_squares():
    """Least squares with an optimum far below the first values: Algorithm 1 mostly rejects steps."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((30, 10))
    return A, A @ rng.dirichlet(np.ones(10)) + 1e-4 * rng.standard_normal(30)


def by_hand(A, b, n_steps):
    """Algorithm 1 of Garber and Wolf on the simplex, as printed; return the last value."""
    beta, x = np.linalg.norm(A, 2) ** 2, np.zeros(A.shape[1])
    x[np.argmin(-A.T @ b)] = 1.0
    value = 0.5 * np.sum((A @ x - b) ** 2)
    for t in range(1, n_steps + 1):
        eta = 2.0 / (t + 1.0)
        v = np.zeros(len(x))
        v[np.argmax(x - A.T @ (A @ x - b) / (beta * eta))] = 1.0
        new = x + eta * (v - x)
        new_value = 0.5 * np.sum((A @ new - b) ** 2)
        if new_value <= value:
            x, value = new, new_value
    return value


def test_steps_that_the_safeguard_leaves_out_are_no_stall():
    A, b = nearly_exact_squares()
    n_steps = 20_000
    result = solve(LeastSquares(A, b, simplex(10)), "nep-fw", tol=1e-9, max_iter=n_steps)
    assert result.status is Status.MAX_ITER and result.n_iter == n_steps
    assert result.counters["left_out"] > 0.8 * n_steps
    assert result.value <= 1.1 * by_hand(A, b, n_steps)


@pytest.mark.parametrize("method", ["nep-sfw", "sfw"])
def test_noise_of_samples_is_no_stall(method):
    A, b = nearly_exact_squares()
    problem, values = LeastSquares(A, b, simplex(10)), []
    for n_steps in (2_000, 20_000):
        result = solve(problem, method, tol=1e-12, max_iter=n_steps)
        assert result.status is Status.MAX_ITER and result.n_iter == n_steps
        values.append(result.value)
    assert values[1] < 0.2 * values[0]  # at most in proportion to 1 / t, by the theorem


def test_steps_of_the_theory_are_no_stall():
    A, b = nearly_exact_squares()
    problem = LeastSquares(A, b, simplex(10))
    result = solve(problem, "fw", step="theory", tol=1e-12, max_iter=20_000)
    assert result.status is Status.MAX_ITER and result.n_iter == 20_000


def test_a_method_without_a_gap_theorem_returns_the_least_value_beside_the_least_gap():
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((40, 8)), 3.0 * rng.standard_normal(40)
    problem, checks = LeastSquares(A, b, simplex(8)), []

    def callback(progress):
        checks.append((progress.upper, progress.gap))

    result = solve(problem, "sfw", tol=1e-12, max_iter=37, callback=callback)
    value, gap = np.min(checks, axis=0)
    assert result.status is Status.MAX_ITER and result.selection == "least value"
    assert result.value == pytest.approx(value, rel=1e-9)
    other = result.least_gap or result
    assert other.certificate.gap == pytest.approx(gap, rel=1e-6)
    assert "least value" in str(result) and "least gap" in str(result)
    if result.least_gap is not None:
        assert result.least_gap.certificate.upper >= result.value
        image = A @ result.least_gap.x - b
        assert 0.5 * image @ image == pytest.approx(result.least_gap.certificate.upper, rel=1e-9)


def test_a_method_with_a_gap_theorem_returns_the_least_gap():
    A, b = nearly_exact_squares()
    result = solve(LeastSquares(A, b, simplex(10)), "fw", tol=1e-12, max_iter=50)
    assert result.selection == "least gap" and result.least_gap is None
    assert result.certificate.gap <= result.history.gap.min() * (1 + 1e-6)


def test_a_gap_underestimated_by_rounded_columns_is_not_accepted():
    """The first running gap below the goal is 7e-6, and the point's certified gap 1.3e-3."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 20))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(6000) > 0, 1.0, -1.0)
    goal, asked = 1e-5, []

    def callback(progress):
        if progress.relative_gap >= goal:
            return False
        asked.append(progress.certificate.relative_gap)
        return asked[-1] < goal

    problem = HingeDual(RBF(X, gamma=0.02), y, C=1e3)
    result = solve(problem, tol=1e-10, callback=callback, max_iter=200)
    assert result.status is Status.CALLBACK_STOP and asked[-1] == min(asked)
    assert result.certificate.relative_gap <= asked[-1] * (1 + 1e-9)
    assert result.certificate.lower <= -186878.50 and result.certificate.upper >= -186878.61
