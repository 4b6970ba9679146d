"""The stored model is the certified one: checked in exact rational arithmetic."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

from problems.clouds import separable_clouds, two_clouds
from qpsvm import (
    RBF,
    Cached,
    HingeDual,
    HingePrimal,
    L2SVMDual,
    L2SVRDual,
    Linear,
    LowRank,
    LPSVMPrimal,
    LSSVMPrimal,
    MEBDual,
    NuSVCDual,
    NuSVRDual,
    OneClassDual,
    Polynomial,
    PolytopeDistanceDual,
    Precomputed,
    Status,
    SVDDDual,
    SVRDual,
    solve,
)
from qpsvm.gram.translation import exact_dot
from qpsvm.models import Ball, Regressor


def exact_values(X, w, b) -> list[Fraction]:
    """Return X w + b."""
    w = [Fraction(float(v)) for v in w]
    rows = ([Fraction(float(v)) for v in row] for row in X)
    return [sum(p * q for p, q in zip(row, w, strict=True)) + Fraction(float(b)) for row in rows]


def exact_objective(X, y, C, w, b, penalty="l2", loss="hinge") -> Fraction:
    """Return the primal objective of a machine at (w, b)."""
    short = [1 - int(s) * f for s, f in zip(y, exact_values(X, w, b), strict=True)]
    short = [q * q if loss == "squared" else max(q, Fraction(0)) for q in short]
    w = [Fraction(float(v)) for v in w]
    size = sum(abs(v) for v in w) if penalty == "l1" else sum(v * v for v in w) / 2
    return size + sum(
        Fraction(float(c)) * q for c, q in zip(np.broadcast_to(C, y.shape), short, strict=True)
    )


def exact_squares(X, center) -> list[Fraction]:
    """Return the squared distances of the points from a center."""
    center = [Fraction(float(v)) for v in center]
    rows = ([Fraction(float(v)) for v in row] for row in X)
    return [sum((p - q) ** 2 for p, q in zip(row, center, strict=True)) for row in rows]


def satellite(kind: str):
    """Two useful features beside coordinates that lie far from zero."""
    rng = np.random.default_rng(0)
    z, t = rng.standard_normal((400, 2)), rng.uniform(0, 1, 400)
    y = np.where(z[:, 0] + 0.5 * rng.standard_normal(400) > 0, 1.0, -1.0)
    if kind == "julian days":
        return np.c_[2460000.5 + 365 * t, z], y
    return np.c_[4.2e6 + 1e4 * t, 1.7e5 + 1e4 * rng.random(400), z], y


def cloud_at(offset: float):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    return X + offset, np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0, 1.0, -1.0)


@pytest.mark.parametrize("kind", ["metres", "julian days"])
@pytest.mark.parametrize("declare", [HingeDual, HingePrimal])
def test_predictions_are_the_signs_of_the_stored_machine(kind, declare):
    X, y = satellite(kind)
    given = Linear(X) if declare is HingeDual else X
    result = solve(declare(given, y, 100.0), tol=1e-4)
    model = result.model
    signs = np.array([1.0 if f >= 0 else -1.0 for f in exact_values(X, model.w, model.b)])
    np.testing.assert_array_equal(model.predict(X), signs)
    assert np.mean(signs == y) > 0.8


@pytest.mark.parametrize("offset", [3.0, 1e4, 1e7])
@pytest.mark.parametrize("declare", ["distance", "l2", "nu-svc", "one-class"])
def test_other_machines_predict_from_their_stored_data(declare, offset):
    X, y = separable_clouds(60, 3, seed=1, gap=0.01)
    X = X + offset
    problem = {
        "distance": PolytopeDistanceDual(Linear(X), y),
        "l2": L2SVMDual(Linear(X), y, C=1.0),
        "nu-svc": NuSVCDual(Linear(X), y, 0.5),
        "one-class": OneClassDual(Linear(X), 0.3),
    }[declare]
    model = solve(problem, tol=1e-6).model
    b = -model.rho if declare == "one-class" else model.b
    exact = exact_values(X, model.w, b)
    far = max(abs(f) for f in exact) * Fraction(1, 10**9)
    signs = np.array([1.0 if f >= 0 else -1.0 for f in exact])
    sure = np.array([abs(f) > far for f in exact])
    np.testing.assert_array_equal(model.predict(X)[sure], signs[sure])
    if declare == "distance":
        np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7])
@pytest.mark.parametrize("C", [1.0, 1e6])
def test_the_upper_bound_is_the_objective_at_the_returned_point(offset, C):
    X, y = cloud_at(offset)
    cases = (
        (HingePrimal(X, y, C), "auto", {}),
        (HingePrimal(X, y, C), "homotopy-nesvm", {}),
        (LPSVMPrimal(X, y, C), "homotopy-nesvm", {"penalty": "l1"}),
        (LSSVMPrimal(X, y, C), "homotopy-nesvm", {"loss": "squared"}),
    )
    for problem, method, kind in cases:
        result = solve(problem, method, tol=1e-9, max_iter=2000)
        c = result.certificate
        value = exact_objective(X, y, C, result.x[:-1], result.x[-1], **kind)
        assert abs(Fraction(c.upper) - value) <= Fraction(c.roundoff)
        assert value - Fraction(c.lower) <= Fraction(c.gap) * Fraction(1 + 1e-9) + Fraction(
            c.roundoff
        )
        if result.status is Status.OPTIMAL:
            assert value - Fraction(c.lower) <= Fraction(1.01e-9) * value


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_minus_the_lower_bound_of_the_dual_is_the_price_of_its_model(bias, storage):
    for offset in (0.0, 1e3, 1e6):
        X, y = cloud_at(offset)
        problem = HingeDual(Linear(storage(X)), y, 10.0, bias=bias)
        result = solve(problem, "smo", tol=1e-6, max_iter=20_000)
        value = exact_objective(X, y, 10.0, result.model.w, result.model.b)
        assert value <= -Fraction(result.certificate.lower)


def test_an_outlier_and_a_large_penalty_are_not_certified_beyond_rounding():
    rng = np.random.default_rng(7)
    X = rng.integers(-5, 6, (40, 3)).astype(float)
    X[0] = [9e6, -9e6, 9e6]
    y = np.where(rng.random(40) > 0.5, 1.0, -1.0)
    for C in (4e3, 1e12):
        for problem, kind in ((HingePrimal(X, y, C), "l2"), (LPSVMPrimal(X, y, C), "l1")):
            result = solve(problem, tol=1e-6, max_iter=5000)
            c = result.certificate
            value = exact_objective(X, y, C, result.x[:-1], result.x[-1], kind)
            assert abs(Fraction(c.upper) - value) <= Fraction(c.roundoff)


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_a_hard_margin_is_kept_in_exact_arithmetic(offset):
    X, y = separable_clouds(60, 3, seed=3, gap=0.5)
    X = X + offset
    result = solve(HingePrimal(X, y, np.inf), "smo", tol=1e-6)
    assert result.status is Status.OPTIMAL
    margins = [
        int(s) * f for s, f in zip(y, exact_values(X, result.x[:3], result.x[3]), strict=True)
    ]
    assert min(margins) >= 1
    assert exact_objective(X, y, 0.0, result.x[:3], 0.0) <= Fraction(result.certificate.upper)


@pytest.mark.parametrize("offset", [0.0, 1e5, 1e9])
def test_a_certified_ball_holds_its_points_in_exact_arithmetic(offset):
    X = np.random.default_rng(0).standard_normal((100, 3)) + offset
    ball = solve(MEBDual(Linear(X)), "mnp", tol=1e-4).model
    squares = exact_squares(X, ball.center)
    assert max(squares) <= Fraction(ball.radius) ** 2
    assert ball.contains(X).all() and ball.contains(sp.csr_matrix(X)).all()
    exact = np.sqrt(np.array([float(v) for v in squares]))
    np.testing.assert_allclose(ball.distance(X), exact, rtol=1e-12)
    assert ball.radius == pytest.approx(exact.max(), rel=1e-10)


@pytest.mark.parametrize("offset", [0.0, 1e5, 1e9])
def test_the_price_of_a_ball_with_slack_is_that_of_the_stored_one(offset):
    X = np.random.default_rng(0).standard_normal((100, 3)) + offset
    result = solve(SVDDDual(Linear(X), C=0.05), "smo", tol=1e-4)
    ball = result.model
    level = Fraction(ball.radius) ** 2
    over = [max(s - level, Fraction(0)) for s in exact_squares(X, ball.center)]
    price = level + Fraction(0.05) * sum(over)
    assert price <= -Fraction(result.certificate.lower)
    assert float(Fraction(0.05) * sum(over)) == pytest.approx(ball.slack, rel=1e-9)
    np.testing.assert_array_equal(
        ball.contains(X), [v <= level * Fraction(1.0 + 2e-9) for v in exact_squares(X, ball.center)]
    )


def test_an_exact_dot_is_rounded_once():
    rng = np.random.default_rng(2)
    for scale in (1.0, 1e7, 1e200):
        a, b = rng.standard_normal(20) * scale, rng.standard_normal(20)
        exact = sum(
            (Fraction(p) * Fraction(q) for p, q in zip(a.tolist(), b.tolist(), strict=True)),
            Fraction(0),
        )
        assert exact_dot(a, b, -float(exact)) == float(exact - Fraction(float(exact)))


def test_a_hard_margin_of_points_far_away_holds_where_it_is_stored():
    """C is so large that only a hyperplane without slack bounds the value; its b is 25 million."""
    far = [
        1000000.431372549, 1000000.8039215687, 1000000.6039215686, 1000000.8980392157,
        1000000.6823529411, 1000000.431372549, 1000000.8588235294,
    ]  # fmt: skip
    X = np.array(far)[:, None]
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    result = solve(HingePrimal(sp.csc_matrix(X), y, 3e15), tol=1e-3)
    c = result.certificate
    exact = exact_objective(X, y, 3e15, result.model.w, result.model.b)
    assert exact <= Fraction(c.upper) <= exact * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("C", [1.0, 1e6, 1e15])
def test_the_tube_holds_points_whose_penalty_exceeds_the_sum_of_weights(C):
    X, y, nu = np.array([[-0.3], [0.1], [0.7], [1.1]]), np.array([1.0, 0.2, -0.3, 0.9]), 1e-6
    result = solve(NuSVRDual(Linear(X), y, C=C, nu=nu), "smo", tol=1e-9)
    model, c = result.model, result.certificate
    epsilon = Fraction(float(model.epsilon))
    values = exact_values(X, model.w, model.b)
    missed = [abs(Fraction(v) - f) for v, f in zip(y.tolist(), values, strict=True)]
    assert max(missed) <= epsilon <= max(missed) + Fraction(1, 10**12)
    square = sum(Fraction(float(v)) ** 2 for v in model.w)
    exact = square / 2 + Fraction(nu) * 4 * Fraction(C) * epsilon
    assert exact <= -Fraction(c.lower) <= exact + Fraction(c.gap)


OWNER_CASES = {
    "linear": lambda X, y: HingeDual(Linear(X), y),
    "rbf": lambda X, y: HingeDual(RBF(X, 0.3), y),
    "cached": lambda X, y: L2SVMDual(Cached(RBF(X, 0.3)), y),
    "polynomial": lambda X, y: OneClassDual(Polynomial(X, 2, 0.5, 1.0), 0.2),
    "ball": lambda X, y: MEBDual(RBF(X, 0.3)),
    "ball-linear": lambda X, y: SVDDDual(Linear(X), 0.1),
    "regression": lambda X, y: SVRDual(RBF(X, 0.3), y),
    "regression-linear": lambda X, y: SVRDual(Linear(X), y),
    "squared-regression": lambda X, y: L2SVRDual(RBF(X, 0.3), y),
    "squared-regression-linear": lambda X, y: L2SVRDual(Linear(X), y),
    "nu-regression-linear": lambda X, y: NuSVRDual(Linear(X), y),
    "distance": lambda X, y: PolytopeDistanceDual(RBF(X, 0.3), y),
    "low-rank": lambda X, y: HingeDual(LowRank(RBF(X, 0.3), rank=20), y),
    "least-squares": lambda X, y: LSSVMPrimal(RBF(X, 0.3), y),
    "primal": lambda X, y: HingePrimal(X, y),
}


def judgement(model):
    """Return the prediction of a model for new points."""
    if isinstance(model, Regressor):
        return model.predict
    return model.distance if isinstance(model, Ball) else model.decision_function


@pytest.mark.parametrize("declare", OWNER_CASES.values(), ids=OWNER_CASES)
@pytest.mark.parametrize("storage", [np.array, sp.csr_matrix])
def test_a_model_owns_what_it_needs(declare, storage):
    X, y = two_clouds(80, 3, seed=21)
    X = storage(X)
    model = solve(declare(X, y), tol=1e-3).model
    judge = judgement(model)
    new = np.random.default_rng(3).standard_normal((20, 3))
    before = judge(new)
    (X.data if sp.issparse(X) else X)[...] = 7.0
    np.testing.assert_array_equal(judge(new), before)
    again = judgement(pickle.loads(pickle.dumps(model)))
    np.testing.assert_allclose(again(new), before, rtol=1e-12, atol=1e-12)


def test_a_model_on_a_given_matrix_does_not_hold_it():
    X, y = two_clouds(300, 3, seed=21)
    K = X @ X.T
    model = solve(HingeDual(Precomputed(K), y), tol=1e-4).model
    new = np.random.default_rng(3).standard_normal((20, 3)) @ X.T
    before = model.decision_function(new)
    assert len(pickle.dumps(model)) < 20_000 < K.nbytes
    K[...] = 0.0
    np.testing.assert_array_equal(model.decision_function(new), before)
    with pytest.raises(ValueError, match="300 columns"):
        model.decision_function(new[:, :50])


def test_a_pickled_model_is_hardly_larger_than_that_of_scikit_learn():
    X, y = separable_clouds(1000, 8, seed=5, gap=3.0)
    theirs = SVC(C=1.0, gamma=0.02).fit(X, y)
    model = solve(HingeDual(RBF(X, 0.02), y, C=1.0), tol=1e-4).model
    model.predict(X)
    assert len(theirs.support_) < 60
    assert abs(len(model.expansion.indices) - len(theirs.support_)) <= 10
    assert len(pickle.dumps(model)) <= 1.5 * len(pickle.dumps(theirs))
