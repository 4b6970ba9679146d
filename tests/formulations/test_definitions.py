"""Balls, regressions and quadratics beside their definitions, at random points of the domain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from qpsvm import (
    HingeDual,
    InputError,
    L2SVRDual,
    LeastSquares,
    Linear,
    LSSVMPrimal,
    MEBDual,
    NuSVCDual,
    NuSVRDual,
    OneClassDual,
    PolytopeDistanceDual,
    QuadraticProgram,
    SmoothProgram,
    SVDDDual,
    SVRDual,
)
from qpsvm.domains import hypercube, simplex
from tests.formulations.points import (
    GRAM_OF_NAME,
    POINT_PENALTIES,
    SAMPLE_WEIGHTS,
    TARGET_VALUES,
    X,
    Y,
    best_bias,
    every_gram,
    every_seed,
    with_point,
)


@every_gram
@every_seed
def test_a_ball(gram, seed):
    make, K = GRAM_OF_NAME[gram]
    problem = MEBDual(make())
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    a, ball = recovery.x, recovery.model
    square = np.diag(K) - 2.0 * K @ a + a @ K @ a  # squared distances from the center
    assert -found.certificate.upper == pytest.approx(np.diag(K) @ a - a @ K @ a, rel=1e-9)
    assert ball.radius**2 == pytest.approx(square.max(), rel=1e-9)
    assert ball.radius_lower**2 == pytest.approx(-found.certificate.upper, rel=1e-12)
    if gram == "points":
        np.testing.assert_allclose(ball.center, a @ X)
    assert ball.center_square == pytest.approx(a @ K @ a, rel=1e-9)


@every_gram
@every_seed
def test_a_ball_with_slack(gram, seed):
    make, K = GRAM_OF_NAME[gram]
    C = np.where(POINT_PENALTIES > 0.0, 0.2 + 0.05 * np.arange(9), 0.0)
    problem = SVDDDual(make(), C)
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    a, ball = recovery.x, recovery.model
    assert np.all(a <= C + 1e-12) and a.sum() == pytest.approx(1.0)
    assert found.certificate.upper == pytest.approx(a @ K @ a - np.diag(K) @ a, rel=1e-9)
    square = np.diag(K) - 2.0 * K @ a + a @ K @ a
    kept = C > 0.0
    levels = np.append(square[kept], 0.0)
    primal = [level + C @ np.maximum(square - level, 0.0) for level in levels]
    assert found.certificate.lower == pytest.approx(-min(primal), rel=1e-6)
    level = ball.radius**2
    assert level + C @ np.maximum(square - level, 0.0) == pytest.approx(min(primal), rel=1e-9)
    assert ball.slack == pytest.approx(C @ np.maximum(square - level, 0.0), rel=1e-9)
    at_bound = kept & (np.abs(a - C) < 1e-12)
    assert ball.n_outside == np.count_nonzero(at_bound & (square > level * (1.0 + 1e-9)))
    assert ball.radius_lower == pytest.approx(
        max(ball.radius - np.sqrt(found.certificate.gap), 0.0)
    )
    assert ball.center_square == pytest.approx(a @ K @ a, rel=1e-9)


def test_a_ball_without_room_for_slack_is_the_smallest_one():
    problem = SVDDDual(Linear(X), 1.0)
    qp, found = with_point(problem, 0)
    ball = problem.recover(qp, found).model
    assert (ball.n_outside, ball.slack) == (0, 0.0)
    assert ball.radius**2 == pytest.approx(-found.certificate.lower)
    assert ball.radius_lower**2 == pytest.approx(-found.certificate.upper)


@every_gram
@every_seed
@pytest.mark.parametrize("nu", [0.4, 0.9])
def test_a_one_class_machine(gram, seed, nu):
    make, K = GRAM_OF_NAME[gram]
    problem = OneClassDual(make(), nu, sample_weight=SAMPLE_WEIGHTS)
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    a, model = recovery.x, recovery.model
    upper = SAMPLE_WEIGHTS / (nu * SAMPLE_WEIGHTS.sum())
    np.testing.assert_allclose(problem.upper, upper)
    assert np.all(a <= upper + 1e-12) and a.sum() == pytest.approx(1.0)
    assert found.certificate.upper == pytest.approx(0.5 * a @ K @ a, rel=1e-12)
    f, kept = K @ a, SAMPLE_WEIGHTS > 0.0
    primal = [0.5 * a @ K @ a - r + upper @ np.maximum(r - f, 0.0) for r in f[kept]]
    assert found.certificate.lower == pytest.approx(max(-min(primal), 0.0), rel=1e-6, abs=1e-12)
    rho = model.rho
    best = 0.5 * a @ K @ a - rho + upper @ np.maximum(rho - f, 0.0)
    assert best == pytest.approx(min(primal), rel=1e-9)
    at_bound = kept & (np.abs(a - upper) < 1e-12)
    assert model.n_outside == np.count_nonzero(at_bound & (f < rho - 1e-12))
    values = model.decision_function(X if gram == "points" else K)
    np.testing.assert_allclose(values, f - rho, atol=1e-12)
    np.testing.assert_array_equal(problem.support(qp, found.x), np.flatnonzero(a))


def tube_loss(values, b, epsilon):
    return np.maximum(np.abs(TARGET_VALUES - values - b) - epsilon, 0.0)


@every_gram
@every_seed
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("squared", [True, False])
def test_a_regression_with_a_tube(gram, seed, bias, squared):
    make, K = GRAM_OF_NAME[gram]
    epsilon, kept = 0.3, POINT_PENALTIES > 0.0
    kind = L2SVRDual if squared else SVRDual
    problem = kind(make(), TARGET_VALUES, POINT_PENALTIES, epsilon, bias=bias)
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    both = recovery.x.reshape(2, -1)
    coef = both[0] - both[1]
    np.testing.assert_array_equal(recovery.dual, coef)
    assert not both[:, ~kept].any() and np.all(both >= 0.0)
    shifted = K + (bias and squared)
    value = 0.5 * coef @ shifted @ coef + epsilon * both.sum() - TARGET_VALUES @ coef
    if squared:
        value += 0.5 * np.sum(both[:, kept] ** 2 / POINT_PENALTIES[kept])
    else:
        assert np.all(both <= POINT_PENALTIES) and (not bias or abs(coef.sum()) < 1e-12)
    assert found.certificate.upper == pytest.approx(value, rel=1e-9, abs=1e-12)
    f, size = K @ coef, 0.5 * coef @ K @ coef
    b = recovery.model.b
    if squared:
        assert b == pytest.approx(coef.sum() if bias else 0.0, abs=1e-12)
        primal = size + 0.5 * b * b + 0.5 * POINT_PENALTIES @ tube_loss(f, b, epsilon) ** 2
        assert found.certificate.lower >= -primal * (1.0 + 1e-9)
    else:
        loss, _ = best_bias(lambda v: POINT_PENALTIES @ tube_loss(f, v, epsilon)) if bias else (
            POINT_PENALTIES @ tube_loss(f, 0.0, epsilon), 0.0
        )  # fmt: skip
        assert found.certificate.lower == pytest.approx(-(size + loss), rel=1e-6)
        assert POINT_PENALTIES @ tube_loss(f, b, epsilon) == pytest.approx(loss, rel=1e-6)
    values = recovery.model.predict(X if gram == "points" else K)
    np.testing.assert_allclose(values, f + b, atol=1e-9)
    np.testing.assert_array_equal(problem.support(qp, found.x), np.flatnonzero(both.any(axis=0)))
    np.testing.assert_array_equal(problem.start(qp, recovery.x), found.x)


@every_gram
@every_seed
def test_a_regression_with_nu(gram, seed):
    make, K = GRAM_OF_NAME[gram]
    nu, kept = 0.4, POINT_PENALTIES > 0.0
    problem = NuSVRDual(make(), TARGET_VALUES, POINT_PENALTIES, nu)
    assert problem.total == pytest.approx(0.5 * nu * POINT_PENALTIES.sum())
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    both = recovery.x.reshape(2, -1)
    np.testing.assert_allclose(both.sum(axis=1), problem.total)
    assert np.all(both <= POINT_PENALTIES * (1.0 + 1e-12)) and not both[:, ~kept].any()
    coef = both[0] - both[1]
    value = 0.5 * coef @ K @ coef - TARGET_VALUES @ coef
    assert found.certificate.upper == pytest.approx(value, rel=1e-9, abs=1e-12)
    model = recovery.model
    rest, C = (TARGET_VALUES - K @ coef)[kept], POINT_PENALTIES[kept]
    # minimize nu sum(C) epsilon + C'slack over b, epsilon and slack, a linear program
    one, eye = np.ones((len(C), 1)), np.eye(len(C))
    best = linprog(
        np.concatenate([[0.0, nu * C.sum()], C]),
        A_ub=np.vstack([np.hstack([-one, -one, -eye]), np.hstack([one, -one, -eye])]),
        b_ub=np.concatenate([-rest, rest]),
        bounds=[(None, None)] + [(0.0, None)] * (1 + len(C)),
    ).fun
    assert found.certificate.lower == pytest.approx(-(0.5 * coef @ K @ coef + best), rel=1e-6)
    slack = np.maximum(np.abs(rest - model.b) - model.epsilon, 0.0)
    assert nu * C.sum() * model.epsilon + C @ slack == pytest.approx(best, rel=1e-9)


def test_an_answer_with_nu_is_carried_as_shares_of_the_bounds():
    earlier, later = (
        NuSVRDual(Linear(X), TARGET_VALUES, f * POINT_PENALTIES, 0.4) for f in (1.0, 3.0)
    )
    qp, found = with_point(earlier, 0)

    class Answer:
        x = earlier.recover(qp, found).x

    np.testing.assert_allclose(later.carried(earlier, Answer), 3.0 * Answer.x)


@every_seed
def test_quadratics_over_a_domain(seed):
    rng = np.random.default_rng(seed)
    A, b, c = rng.standard_normal((5, 4)), rng.standard_normal(5), rng.standard_normal(4)
    squares = LeastSquares(A, b, hypercube(4))
    qp, found = with_point(squares, seed)
    recovery = squares.recover(qp, found)
    residual = A @ recovery.x - b
    assert found.certificate.upper == pytest.approx(0.5 * residual @ residual, rel=1e-9)
    np.testing.assert_allclose(recovery.model.residual, residual, atol=1e-12)
    slope = A.T @ residual
    gap = slope @ recovery.x - np.minimum(slope, 0.0).sum()
    upper = found.certificate.upper  # no value is negative
    assert found.certificate.gap == pytest.approx(min(gap, upper), rel=1e-6)
    program = QuadraticProgram(A.T @ A, c, simplex(4))
    qp, found = with_point(program, seed)
    x = program.recover(qp, found).x
    assert found.certificate.upper == pytest.approx(0.5 * x @ A.T @ A @ x + c @ x, rel=1e-9)
    smooth = SmoothProgram(lambda v: 0.5 * float(v @ v), lambda v: v, simplex(4), smoothness=1.0)
    qp, found = with_point(smooth, seed)
    x = smooth.recover(qp, found).x
    assert found.certificate.upper == pytest.approx(0.5 * x @ x, rel=1e-9)
    assert found.certificate.gap == pytest.approx(x @ x - x.min(), rel=1e-6)


REFUSED_ARGUMENTS = {
    "mixture": (lambda: HingeDual(Linear(X), Y, [np.inf, *[1.0] * 8]), "C must be infinite"),
    "bias": (lambda: HingeDual(Linear(X), Y, bias=2), "bias"),
    "hard margin": (lambda: LSSVMPrimal(X, Y, np.inf), "C must be finite"),
    "hard tube": (lambda: SVRDual(Linear(X), TARGET_VALUES, np.inf), "C must be finite"),
    "epsilon": (lambda: SVRDual(Linear(X), TARGET_VALUES, 1.0, -0.1), "epsilon"),
    "nu": (lambda: OneClassDual(Linear(X), 1.5), "nu"),
    "nu of zero": (lambda: OneClassDual(Linear(X), 0.0), "nu"),
    "weights": (lambda: OneClassDual(Linear(X), 0.5, sample_weight=np.zeros(9)), "sample_weight"),
    "negative": (lambda: NuSVCDual(Linear(X), Y, 0.5, sample_weight=-np.ones(9)), "weight"),
    "a sum": (lambda: SVDDDual(Linear(X), 0.1), "C must sum to at least 1"),
    "one class": (lambda: PolytopeDistanceDual(Linear(X), np.ones(9)), "y must hold both"),
    "chi": (lambda: PolytopeDistanceDual(Linear(X), Y, 0.0), "chi"),
    "features": (lambda: PolytopeDistanceDual.from_points(X, X[:, :1]), "Q must have"),
    "class": (lambda: NuSVCDual(Linear(X), np.ones(9), 0.5), "got no -1"),
    "a total": (lambda: NuSVRDual(Linear(X), TARGET_VALUES, 1e308, 1.0), "nu must be such"),
    "domain": (lambda: LeastSquares(np.eye(3), np.ones(3), 3), "domain must be a Domain"),
    "dimension": (lambda: LeastSquares(np.eye(3), np.ones(3), simplex(2)), "dimension 3"),
    "smoothness": (
        lambda: LeastSquares(np.eye(3), np.ones(3), simplex(3), smoothness=0.0), "smoothness"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_ARGUMENTS)
def test_malformed_arguments_are_refused_by_name(name):
    make, message = REFUSED_ARGUMENTS[name]
    with pytest.raises(InputError, match=message):
        make()


def test_a_sum_of_penalties_of_one_is_enough():
    SVDDDual(Linear(X), 1.0 / 9.0)
    np.testing.assert_array_equal(
        SVDDDual(Linear(X), POINT_PENALTIES).kept, np.flatnonzero(POINT_PENALTIES)
    )
