"""Frandi et al.: section 4.4 is wrong for kernels that are not normalized; ball and machine agree.

Their section 4.4 runs the code of the normalized case, with its line search
lambda = 1/2 (1 - r^2 / gamma^2), on any Mercer kernel. That is the exact line search only where
Q_ii is constant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    InputError,
    L2SVMDual,
    Linear,
    MEBDual,
    Polynomial,
    PolytopeDistanceDual,
    Precomputed,
    Status,
    solve,
)
from qpsvm.solvers.methods import METHODS

X, Y = two_clouds(60, 3, seed=31)
C = 10.0


def hessian(kernel):
    K = kernel(X).block(np.arange(len(X)))
    return np.outer(Y, Y) * (K + 1.0) + np.eye(len(X)) / C


def as_printed(Q, steps):
    """Run Algorithm 3 as section 4.4 has it, Delta^2 = Q_11; return the values a'Qa."""
    delta_square = Q[0, 0]
    a = np.zeros(len(Q))
    a[[0, np.argmax(np.diag(Q) - 2.0 * Q[0])]] = 0.5
    values = [a @ Q @ a]
    for _ in range(steps):
        s, R = Q @ a, values[-1]
        radius = delta_square - R
        distance = delta_square - 2.0 * s + R  # gamma_i^2
        support = np.flatnonzero(a > 0)
        i, j = np.argmax(distance), support[np.argmin(distance[support])]
        up, down = distance[i] / radius - 1.0, 1.0 - distance[j] / radius
        if up >= down:
            length = 0.5 * (1.0 - radius / distance[i])
            a *= 1.0 - length
            a[i] += length
        else:
            length = min(down / (2.0 * (1.0 - down)), a[j] / (1.0 - a[j]))
            a *= 1.0 + length
            a[j] = max(a[j] - length, 0.0)
        values.append(a @ Q @ a)
    return np.array(values)


def increases(values):
    return int(np.sum(np.diff(values) > 1e-12 * np.abs(values[:-1])))


def quadratic(X):
    return Polynomial(X, degree=2, gamma=1.0, coef0=1.0)


def iterates(problem, method, x0, steps):
    """Return the points after each single step."""
    qp = problem.as_qp()
    solver = METHODS[method].maker(qp)()
    with qp.gram.kernel.hold(1 << 24) as store:
        qp = replace(qp, store=store)
        state = solver.init(qp, x0, np.random.default_rng(0))
        path = [state.x.copy()]
        while len(path) <= steps:
            if solver.advance(qp, state, 1).steps:
                path.append(state.x.copy())
        return path


def test_the_printed_step_is_right_for_a_normalized_kernel():
    Q = hessian(lambda X: RBF(X, 0.3))
    values = as_printed(Q, 200)
    assert increases(values) == 0
    path = iterates(L2SVMDual(RBF(X, 0.3), Y, C=C), "mfw", None, 200)
    np.testing.assert_allclose(values, [a @ Q @ a for a in path], rtol=1e-9)


@pytest.mark.parametrize("kernel", [quadratic, Linear])
def test_the_printed_step_increases_the_value_with_other_kernels(kernel):
    values = as_printed(hessian(kernel), 200)
    assert increases(values) >= 10 or values[-1] > 1.5 * values.min()


@pytest.mark.parametrize("kernel", [quadratic, Linear])
@pytest.mark.parametrize("method", ["fw", "mfw"])
def test_this_step_never_does(kernel, method):
    Q = hessian(kernel)
    values = np.array(
        [a @ Q @ a for a in iterates(L2SVMDual(kernel(X), Y, C=C), method, None, 500)]
    )
    assert increases(values) == 0
    assert values[-1] < values[0]


def test_steps_that_the_printed_rule_misses_are_found():
    Q = hessian(quadratic)
    result = solve(L2SVMDual(quadratic(X), Y, C=C), "mfw", tol=1e-6)
    assert result.converged
    assert as_printed(Q, 2000)[-1] > 2.0 * result.value * (1.0 + 1e-3)


@pytest.mark.parametrize("method", ["fw", "mfw"])
def test_ball_and_machine_are_one_path_where_the_diagonal_is_constant(method):
    """a'Qa - diag(Q)'a = a'Qa - Delta^2 on the simplex: the same steps, one after the other."""
    Q = hessian(lambda X: RBF(X, 0.3))
    assert np.ptp(np.diag(Q)) <= 1e-15
    x0 = np.zeros(len(X))
    x0[[3, 11, 20]] = 0.5, 0.25, 0.25
    ball = iterates(MEBDual(Precomputed(Q)), method, x0, 300)
    machine = iterates(L2SVMDual(RBF(X, 0.3), Y, C=C), method, x0, 300)
    for one, other in zip(ball, machine, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [2, 20, 1000])
def test_the_random_ball_is_the_optimum_over_points_drawn_by_the_seed(size):
    problem = L2SVMDual(RBF(X, 0.3), Y, C=C)
    options = {"start": "ball", "start_size": size, "tol": 1e-6}
    starts = [solve(problem, "mfw", seed=s, max_iter=0, **options) for s in (0, 0, 1)]
    assert starts[0].x.tobytes() == starts[1].x.tobytes()
    assert starts[0].x.tobytes() != starts[2].x.tobytes() or size == 1000
    for start in starts:
        rows = start.support
        assert 1 <= len(rows) <= size
        part = solve(L2SVMDual(RBF(X, 0.3).take(rows), Y[rows], C=C), "mfw", tol=1e-6)
        assert start.value == pytest.approx(part.value, rel=2e-3)
    assert solve(problem, "mfw", **options).converged


def test_the_two_points_are_the_first_and_the_farthest_from_it():
    Q = hessian(quadratic)
    start = solve(L2SVMDual(quadratic(X), Y, C=C), "mfw", start="two-point", max_iter=0)
    far = int(np.argmax(np.diag(Q) + Q[0, 0] - 2.0 * Q[0]))
    np.testing.assert_array_equal(start.support, sorted([0, far]))
    np.testing.assert_array_equal(start.x[start.support], 0.5)


SAMPLED_PROBLEMS = {
    "ball": lambda K: MEBDual(K),
    "machine": lambda K: L2SVMDual(K, MANY_LABELS, C=C),
    "distance": lambda K: PolytopeDistanceDual(K, MANY_LABELS, chi=C),
}
MANY_POINTS, MANY_LABELS = two_clouds(2000, 3, seed=32, distance=5.0)


class Counting(RBF):
    """Counts the columns that are evaluated over all points."""

    whole: ClassVar[list[int]] = []

    def _gaussian(self, K, a, b):
        if K.shape[1] == len(MANY_POINTS):
            self.whole.append(len(K))
        return super()._gaussian(K, a, b)


@pytest.mark.parametrize("method", ["fw", "mfw"])
@pytest.mark.parametrize("declare", SAMPLED_PROBLEMS.values(), ids=SAMPLED_PROBLEMS)
def test_a_sample_with_confirmation_is_optimal(declare, method):
    result = solve(declare(RBF(MANY_POINTS, 0.05)), method, sampling=59, tol=0.2)
    assert result.status is Status.OPTIMAL
    exact = solve(declare(RBF(MANY_POINTS, 0.05)), "mnp", tol=1e-8)
    assert result.certificate.lower <= exact.value <= result.value


@pytest.mark.parametrize("method", ["fw", "mfw"])
@pytest.mark.parametrize("declare", SAMPLED_PROBLEMS.values(), ids=SAMPLED_PROBLEMS)
def test_a_sample_alone_is_never_optimal(declare, method):
    Counting.whole.clear()
    problem = declare(Counting(MANY_POINTS, 0.05))
    result = solve(problem, method, sampling=59, confirm=False, tol=0.2)
    c = result.certificate
    assert result.status is Status.SAMPLED and not result.converged
    assert "sample" in str(result)
    assert c.lower == -np.inf and c.gap == np.inf and c.test == "none"  # nothing is claimed
    # the value is exact all the same, and not far off
    exact = solve(declare(RBF(MANY_POINTS, 0.05)), "mnp", tol=1e-8)
    assert exact.value * (1.0 - 1e-8) <= c.upper <= exact.value + 0.3 * abs(exact.value)
    recertified = solve(declare(RBF(MANY_POINTS, 0.05)), "mfw", x0=result, max_iter=0)
    assert recertified.value == pytest.approx(c.upper, rel=1e-9)
    assert sum(Counting.whole) <= 3  # only the start evaluates all points


def test_a_sample_that_is_interrupted_claims_nothing_either():
    problem = L2SVMDual(RBF(MANY_POINTS, 0.05), MANY_LABELS, C=C)
    result = solve(problem, "mfw", sampling=59, confirm=False, tol=1e-9, max_iter=200)
    assert result.status is Status.MAX_ITER and result.certificate.gap == np.inf
    assert np.mean(result.model.predict(MANY_POINTS) == MANY_LABELS) > 0.6


def test_without_a_sample_there_is_nothing_to_confirm():
    with pytest.raises(InputError, match="confirm"):
        solve(L2SVMDual(RBF(X, 0.3), Y, C=C), "mfw", confirm=False)
