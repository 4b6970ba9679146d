"""Classifiers beside their definitions: values, bounds and models at random points of the domain."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import (
    RBF,
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    Linear,
    LPSVMPrimal,
    LSSVMPrimal,
    NuSVCDual,
    PolytopeDistanceDual,
    Precomputed,
)
from qpsvm.driver.certificate import certify
from qpsvm.formulations.base import scaled_weights
from tests.formulations.points import (
    GRAM_OF_NAME,
    KERNEL_MATRIX,
    POINT_PENALTIES,
    SAMPLE_WEIGHTS,
    X,
    Y,
    best_bias,
    every_gram,
    every_seed,
    with_point,
)

UNIT_LIKE_MATRIX = np.eye(9) + 0.1 * KERNEL_MATRIX
"""A matrix whose rows are nearly orthogonal, so that equal weights separate the classes."""


def hinge_loss(values, b, C=POINT_PENALTIES):
    return float(C @ np.maximum(0.0, 1.0 - Y * (values + b)))


@every_gram
@every_seed
@pytest.mark.parametrize("bias", [True, False])
def test_a_hinge_dual(gram, seed, bias):
    make, K = GRAM_OF_NAME[gram]
    problem = HingeDual(make(), Y, POINT_PENALTIES, bias=bias)
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    a, model = recovery.x, recovery.model
    assert np.all(a >= 0.0) and np.all(a <= POINT_PENALTIES) and (not bias or abs(Y @ a) < 1e-12)
    signed = Y * a
    value = 0.5 * signed @ K @ signed - a.sum()
    assert found.certificate.upper == pytest.approx(value, rel=1e-12, abs=1e-14)
    blow_up = found.multipliers[1]
    scaled = K @ signed * (blow_up if model.separable else 1.0)
    values = model.decision_function(X if gram == "points" else K)
    np.testing.assert_allclose(values, scaled + model.b, atol=1e-12)
    size = 0.5 * signed @ K @ signed
    least, _ = best_bias(lambda b: hinge_loss(K @ signed, b)) if bias else (
        hinge_loss(K @ signed, 0.0), 0.0
    )  # fmt: skip
    assert found.certificate.lower >= -(size + least) * (1.0 + 1e-9) - 1e-12
    if not model.separable:
        assert found.certificate.lower == pytest.approx(-(size + least), rel=1e-6)
        assert hinge_loss(K @ signed, model.b) == pytest.approx(least, rel=1e-6, abs=1e-9)
    np.testing.assert_array_equal(problem.support(qp, found.x), np.flatnonzero(a))
    np.testing.assert_array_equal(recovery.dual, [model.b] if bias else [])
    np.testing.assert_array_equal(problem.start(qp, a), found.x)


def test_a_ray_of_a_hinge_dual_is_a_pair_of_convex_combinations():
    x = np.arange(1.0, 8.0)
    for bias, total in ((True, 2.0), (False, 1.0)):
        ray = HingeDual(Linear(X), Y, POINT_PENALTIES, bias=bias).ray(x)
        assert ray.sum() == pytest.approx(total)
        np.testing.assert_array_equal(np.flatnonzero(ray), np.flatnonzero(POINT_PENALTIES))
        primal = HingePrimal(Linear(X), Y, POINT_PENALTIES, bias=bias)
        np.testing.assert_array_equal(primal.ray(x), ray)


def test_weights_for_other_penalties_are_at_their_bounds_where_they_were():
    before, now = np.full(9, 1.0), np.full(9, 3.0)
    x = np.array([1.0, 1.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0])
    assert Y @ x == 0.0
    scaled = scaled_weights(x, before, now, Y)
    np.testing.assert_array_equal(scaled, [3.0, 3.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0])
    down = scaled_weights(x, before, np.full(9, 0.25), Y)
    np.testing.assert_array_equal(down, np.minimum(x, 0.25))
    uneven = np.array([3.0, 1.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0])
    moved = scaled_weights(x, before, uneven, Y)
    assert abs(Y @ moved) < 1e-12 and np.all(moved <= uneven) and moved[1] == 1.0
    # positive weights are heavier by 2, more than the free ones hold: all of that side are scaled
    np.testing.assert_allclose(moved, [3.0 * 3.0 / 7.0, 1.0, 1.5 / 7.0, 0, 0, 0.5, 0, 0, 0])
    free = scaled_weights(x, before, np.array([1.2, 1.0, 1.0, 1, 1, 1, 1, 1, 1]), Y)
    np.testing.assert_allclose(free, [1.2, 1.0, 0.3, 0, 0, 0.5, 0, 0, 0])


@pytest.mark.parametrize("bias", [True, False])
def test_a_hinge_answer_is_carried_to_other_penalties(bias):
    earlier = HingeDual(Linear(X), Y, POINT_PENALTIES, bias=bias)
    later = HingeDual(Linear(X), Y, 2.0 * POINT_PENALTIES, bias=bias)
    _, found = with_point(earlier, 1)

    class Answer:
        x = earlier.scatter(found.x)

    expected = scaled_weights(Answer.x, POINT_PENALTIES, 2.0 * POINT_PENALTIES, Y)
    np.testing.assert_array_equal(later.carried(earlier, Answer), expected)
    hard = HingeDual(Linear(X), Y, np.inf, bias=bias)
    assert hard.carried(earlier, Answer) is Answer and later.carried(hard, Answer) is Answer


@every_seed
@pytest.mark.parametrize("bias", [True, False])
def test_a_hinge_primal_from_its_dual_weights(seed, bias):
    problem = HingePrimal(X, Y, POINT_PENALTIES, bias=bias)
    form, found = with_point(problem, seed)
    recovery = problem.recover(form, found)
    w = recovery.x[:2]
    b = recovery.x[2] if bias else 0.0
    assert len(recovery.x) == 2 + bias and recovery.model.b == b
    value = 0.5 * w @ w + hinge_loss(X @ w, b)
    assert found.certificate.upper == pytest.approx(value, rel=1e-9)
    a = recovery.dual
    assert np.all(a[POINT_PENALTIES == 0.0] == 0.0)
    dual = a.sum() - 0.5 * np.sum((X.T @ (Y * a)) ** 2)
    assert found.certificate.lower == pytest.approx(dual, rel=1e-9)
    margin = Y * (X @ w + b)
    start = problem.start(form, recovery.x)
    kept = POINT_PENALTIES > 0.0
    start[np.abs(margin[kept] - 1.0) < 1e-9] = 0.0  # the best bias meets a margin
    np.testing.assert_array_equal(start, np.where(margin < 1.0 - 1e-9, POINT_PENALTIES, 0.0)[kept])
    np.testing.assert_array_equal(problem.support(form, found.x), np.flatnonzero(a))


MARGIN_FORMULATIONS = {
    "hinge": (HingePrimal, lambda w, m: 0.5 * w @ w + POINT_PENALTIES @ np.maximum(0.0, 1.0 - m)),
    "squares": (LSSVMPrimal, lambda w, m: 0.5 * w @ w + POINT_PENALTIES @ (1.0 - m) ** 2),
    "l1": (LPSVMPrimal, lambda w, m: np.abs(w).sum() + POINT_PENALTIES @ np.maximum(0.0, 1.0 - m)),
}


@every_seed
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", MARGIN_FORMULATIONS)
def test_the_value_of_a_problem_in_w_and_b(name, bias, seed):
    kind, value = MARGIN_FORMULATIONS[name]
    problem = kind(X, Y, POINT_PENALTIES, bias=bias)
    form, rng = problem.as_margin(), np.random.default_rng(seed)
    given = rng.standard_normal(2 + bias)
    x = problem.start(form, given)
    w, b, a = form.split(x)
    np.testing.assert_array_equal(w, given[:2])
    assert not a.any() and (bias or b == 0.0)
    if bias and problem.origin is not None:  # the solve is about the mean
        b -= w @ problem.origin
    assert not bias or b == pytest.approx(given[2])
    found = certify(form, x, tol=1e-3)
    recovery = problem.recover(form, found)
    w, b = recovery.x[:2], recovery.x[2] if bias else 0.0
    margins = Y * (X @ w + b)
    assert found.certificate.upper == pytest.approx(value(w, margins), rel=1e-9)
    np.testing.assert_allclose(recovery.model.decision_function(X), X @ w + b, atol=1e-12)


@every_gram
@every_seed
@pytest.mark.parametrize("bias", [True, False])
def test_an_l2_svm(gram, seed, bias):
    make, K = GRAM_OF_NAME[gram]
    problem = L2SVMDual(make(), Y, POINT_PENALTIES, bias=bias)
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    a, kept = recovery.x, POINT_PENALTIES > 0.0
    assert np.all(a >= 0.0) and a.sum() == pytest.approx(1.0) and not a[~kept].any()
    Q = np.outer(Y, Y) * (K + bias)
    value = 0.5 * a @ Q @ a + 0.5 * np.sum(a[kept] ** 2 / POINT_PENALTIES[kept])
    assert found.certificate.upper == pytest.approx(value, rel=1e-12)
    model = recovery.model
    values = model.decision_function(X if gram == "points" else K)
    signed = Y * a / (2.0 * value)
    np.testing.assert_allclose(values, K @ signed + (signed.sum() if bias else 0.0), rtol=1e-9)
    assert model.separable is True
    np.testing.assert_array_equal(recovery.dual, found.multipliers)


@every_gram
@every_seed
@pytest.mark.parametrize("chi", [None, 2.0])
def test_a_distance_of_polytopes(gram, seed, chi):
    make, K = GRAM_OF_NAME[gram]
    problem = PolytopeDistanceDual(make(), Y, chi)
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    a, model = recovery.x, recovery.model
    assert a[Y > 0].sum() == pytest.approx(1.0) == a[Y < 0].sum()
    signed = Y * a
    square = signed @ K @ signed
    ridge = 0.0 if chi is None else 1.0 / chi
    assert found.certificate.upper == pytest.approx(0.5 * square + 0.5 * ridge * a @ a, rel=1e-9)
    assert model.distance == pytest.approx(np.sqrt(square), rel=1e-6)
    f, (alpha, minus_beta) = K @ signed, found.multipliers
    if chi is None:
        least = [(Y * f)[Y == s].min() for s in (1.0, -1.0)]
        assert alpha + minus_beta == pytest.approx(sum(least), rel=1e-9)
        if gram == "matrix":  # points are centered, which moves the levels apart
            np.testing.assert_allclose((alpha, minus_beta), least, rtol=1e-9)
        width = max(alpha + minus_beta, 0.0)
        assert model.margin == pytest.approx(width / model.distance, rel=1e-6, abs=1e-9)
        half = 0.5 * (f[Y > 0].min() + f[Y < 0].max())
        values = f - half
        np.testing.assert_allclose(
            model.decision_function(X if gram == "points" else K), values, atol=1e-9
        )
    if gram == "points":
        np.testing.assert_allclose(model.p, (np.where(Y > 0, a, 0.0)) @ X, atol=1e-12)
        np.testing.assert_allclose(model.q, (np.where(Y < 0, a, 0.0)) @ X, atol=1e-12)
        np.testing.assert_allclose(model.w, signed @ X, atol=1e-12)
    diag = np.diag(K) + ridge
    pairs = diag[:, None] + diag - 2.0 * K
    largest = pairs[np.ix_(Y > 0, Y < 0)].max()
    assert problem.delta() == pytest.approx(0.5 * largest, rel=1e-9)


@every_gram
@every_seed
@pytest.mark.parametrize("weighted", [False, True])
def test_reduced_hulls(gram, seed, weighted):
    make, K = GRAM_OF_NAME[gram]
    weight, nu = (SAMPLE_WEIGHTS if weighted else np.ones(9)), 0.6
    problem = NuSVCDual(make(), Y, nu, sample_weight=weight if weighted else None)
    sums = weight[Y > 0].sum(), weight[Y < 0].sum()
    largest = 2.0 * min(sums) / sum(sums)
    assert NuSVCDual.largest_nu(Y, weight) == pytest.approx(largest)
    qp, found = with_point(problem, seed)
    recovery = problem.recover(qp, found)
    a, model = recovery.x, recovery.model
    upper = 2.0 * weight / (nu * weight.sum())
    np.testing.assert_allclose(problem.upper, upper)
    assert np.all(a <= upper + 1e-12)
    assert a[Y > 0].sum() == pytest.approx(1.0) == a[Y < 0].sum()
    signed = Y * a
    square = signed @ K @ signed
    assert found.certificate.upper == pytest.approx(0.5 * square, rel=1e-9)
    assert model.distance == pytest.approx(np.sqrt(square), rel=1e-9)
    margins = Y * (K @ signed)
    alpha, minus_beta = found.multipliers
    if alpha + minus_beta > 0.0 and model.separable is not False:
        rho = 0.5 * (alpha + minus_beta)
        assert model.rho == pytest.approx(rho, rel=1e-9)
        assert model.margin == pytest.approx(2.0 * rho / model.distance, rel=1e-9)
    else:
        assert model.margin == 0.0
        rho = 1.0
    b = -0.5 * (alpha - minus_beta) / rho
    values = model.decision_function(X if gram == "points" else K)
    if gram == "matrix":  # points are centered: the levels are relative to their mean
        np.testing.assert_allclose(values, (K @ signed) / rho + b, atol=1e-9)
        levels = np.where(Y > 0, alpha, minus_beta)
        at_bound = (weight > 0.0) & (np.abs(a - upper) < 1e-12)
        assert model.n_margin_errors == np.count_nonzero(at_bound & (margins < levels - 1e-12))
    np.testing.assert_array_equal(problem.support(qp, found.x), np.flatnonzero(a))


def test_largest_nu_without_weights_is_that_of_the_classes():
    assert NuSVCDual.largest_nu(Y) == pytest.approx(8.0 / 9.0)
    assert NuSVCDual.largest_nu(Y, np.zeros(9)) == 0.0
    NuSVCDual(Linear(X), Y, 8.0 / 9.0)
    with pytest.raises(InputError, match="nu must be at most"):
        NuSVCDual(Linear(X), Y, 0.9)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "make", [lambda: Precomputed(UNIT_LIKE_MATRIX, psd="assume"), lambda: RBF(X, 3.0)]
)
def test_a_hard_margin_is_scaled_until_every_margin_is_1(make, bias):
    problem = HingeDual(make(), Y, np.inf, bias=bias)
    qp = problem.as_qp()
    found = certify(qp, qp.repair(np.ones(len(Y))), tol=1e-3)
    recovery = problem.recover(qp, found)
    model = recovery.model
    assert np.isfinite(found.multipliers[1]) and model.separable is True
    K = problem.K.block(np.arange(len(Y)), None, np.float64)
    signed = Y * recovery.x * found.multipliers[1]
    values = K @ signed + model.b
    assert np.min(Y * values) == pytest.approx(1.0, rel=1e-6)
    coef = np.zeros(len(Y))
    coef[model.expansion.indices] = model.expansion.coef
    np.testing.assert_allclose(coef, signed, rtol=1e-9)
    assert -found.certificate.lower == pytest.approx(0.5 * signed @ K @ signed, rel=1e-6)


@every_seed
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["hinge", "squares"])
def test_the_lower_bound_of_weights_is_that_of_their_best_multiple(name, bias, seed):
    form = MARGIN_FORMULATIONS[name][0](X, Y, POINT_PENALTIES, bias=bias).as_margin()
    kept = POINT_PENALTIES > 0.0
    rng, y, C = np.random.default_rng(seed), Y[kept], POINT_PENALTIES[kept]
    a = 0.5 * C * rng.random(len(C))
    if bias:
        heavy = y > 0 if y @ a > 0.0 else y < 0
        a[heavy] *= a[~heavy].sum() / a[heavy].sum()
    v = (y * a) @ (X[kept] - (X.mean(axis=0) if bias else 0.0))
    curvature = v @ v + (np.sum(a * a / (2.0 * C)) if name == "squares" else 0.0)
    best = a.sum() / curvature  # the best multiple of the weights, within their bounds
    best = min(best, np.min(C / a)) if name == "hinge" else best
    dual = best * a.sum() - 0.5 * best * best * curvature
    found = certify(form, form.join(v, 0.0, a), tol=1e-3)
    assert found.certificate.lower == pytest.approx(dual, rel=1e-9, abs=1e-12)
