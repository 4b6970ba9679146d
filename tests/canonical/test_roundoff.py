"""The rounding error of a certificate, against rational arithmetic on ill-conditioned factors."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

import problems
from problems.clouds import moved, two_clouds
from qpsvm import (
    HingeDual,
    L2SVMDual,
    Linear,
    LPSVMPrimal,
    LSSVMPrimal,
    MEBDual,
    OneClassDual,
    Polynomial,
    Sigmoid,
    Status,
    solve,
)
from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.gram.operator import largest_by_lanczos

Rational = list[Fraction]


def rational(values) -> Rational:
    return [Fraction(float(v)) for v in values]


def exact_bounds(X, y, C, a) -> tuple[Fraction, Fraction]:
    """Return the exact value of a / sum(a), and the lower bound at its exact w."""
    rows = [[*rational(x), Fraction(1)] for x in X]  # the bias is a feature
    signs, ridge = rational(y), 1 / Fraction(C)
    weights = rational(a)
    total = sum(weights)
    weights = [v / total for v in weights]
    w = [
        sum(v * s * row[k] for v, s, row in zip(weights, signs, rows, strict=True) if v)
        for k in range(len(rows[0]))
    ]
    square = sum(v * v for v in w)
    upper = (square + ridge * sum(v * v for v in weights)) / 2
    f = [
        s * sum(p * q for p, q in zip(row, w, strict=True))
        for s, row in zip(signs, rows, strict=True)
    ]
    low, total = sorted(f), Fraction(0)
    for k, value in enumerate(low, start=1):  # water-filling
        total += value
        level = (ridge + total) / k
        if k == len(low) or level <= low[k]:
            break
    filled = [max(level - value, 0) / ridge for value in f]
    assert sum(filled) == 1
    best = sum(v * p + ridge * p * p / 2 for v, p in zip(f, filled, strict=True))
    return upper, best - square / 2


@pytest.mark.parametrize("C", [1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e7])
def test_bounds_hold_in_exact_arithmetic(offset, C):
    X, y = moved(two_clouds(40, 4, seed=218), offset=offset)
    problem = L2SVMDual(Linear(X), y, C=C)
    solved = [solve(problem, "mnp", tol=1e-10, max_iter=k) for k in (0, 2, 5, 60)]
    exact = [exact_bounds(X, y, C, result.x) for result in solved]
    least = max(lower for _, lower in exact)
    greatest = min(upper for upper, _ in exact)
    assert least <= greatest  # the optimum lies between them
    for result, (upper, _) in zip(solved, exact, strict=True):
        c = result.certificate
        assert abs(Fraction(c.upper) - upper) <= Fraction(c.roundoff)
        assert Fraction(c.lower) <= greatest
        assert least <= Fraction(c.upper) + Fraction(c.roundoff)
        assert c.roundoff <= c.gap


@pytest.mark.parametrize("name", ["random-linear-C1e6", "offset-1e4-linear"])
def test_a_tiny_ridge_is_certified(name):
    """The bound for a Gram known by its entries alone would not let them pass."""
    (instance,) = (one for one in problems.select() if one.name == f"l2_svm/{name}")
    result = solve(instance.declare(), tol=1e-6)
    assert result.status is Status.OPTIMAL
    with_entries = 4 * np.finfo(float).eps * instance.declare().as_qp().scale
    assert with_entries > 1e-6 * result.value


def exact_hinge(X, y, C, a) -> tuple[Fraction, Fraction]:
    """Return the exact value of a, and minus the primal value of its exact w, without a bias."""
    rows, signs, weights, C = [rational(x) for x in X], rational(y), rational(a), Fraction(C)
    w = [
        sum(v * s * row[k] for v, s, row in zip(weights, signs, rows, strict=True) if v)
        for k in range(len(rows[0]))
    ]
    square = sum(v * v for v in w)
    margins = (
        s * sum(p * q for p, q in zip(row, w, strict=True))
        for s, row in zip(signs, rows, strict=True)
    )
    loss = sum(C * max(1 - margin, 0) for margin in margins)
    return square / 2 - sum(weights), -(square / 2 + loss)


@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_bounds_of_a_hinge_dual_hold_in_exact_arithmetic(offset, C):
    X, y = moved(two_clouds(40, 4, seed=218), offset=offset)
    problem = HingeDual(Linear(X), y, C, bias=False)
    solved = [solve(problem, "dcd", tol=1e-12, max_iter=k) for k in (0, 40, 400, 40_000)]
    exact = [exact_hinge(X, y, C, result.x) for result in solved]
    least = max(lower for _, lower in exact)
    greatest = min(upper for upper, _ in exact)
    assert least <= greatest  # the optimum lies between them
    for result, (upper, _) in zip(solved, exact, strict=True):
        c = result.certificate
        assert abs(Fraction(c.upper) - upper) <= Fraction(c.roundoff)
        assert Fraction(c.lower) <= greatest
        assert least <= Fraction(c.upper) + Fraction(c.roundoff)
        assert c.roundoff <= c.gap


def test_a_large_penalty_is_certified():
    """The bound for a Gram known by its entries alone would not let it pass."""
    X, y = two_clouds(3000, 20, seed=5, distance=1.0)
    result = solve(HingeDual(Linear(10.0 * X), y, C=100.0), "crsvm", tol=1e-8)
    assert result.status is Status.OPTIMAL
    entries = 4 * np.finfo(float).eps * np.max(np.sum((10.0 * X) ** 2, axis=1))
    assert entries * np.sum(result.x) ** 2 > 1e-8 * abs(result.value)


CANCELLING_POINTS = 1.0 + np.array([[3.1], [5.7], [1.3], [8.9], [2.2]]) / 2**20
"""Points of one feature whose products are near 1, so that x z - 1 has few digits."""


@pytest.mark.parametrize(
    "kernel",
    [Sigmoid(CANCELLING_POINTS, 1.0, -1.0), Polynomial(CANCELLING_POINTS, 3, 1.0, -1.0)],
    ids=type,
)
def test_the_roundoff_includes_the_difference_in_a_kernel_value(kernel):
    """K is not positive semidefinite, but the upper bound is the value of the answer all the same."""
    result = solve(OneClassDual(kernel, nu=0.5), "smo", max_iter=20)
    x, a = rational(CANCELLING_POINTS.ravel()), rational(result.x)
    exact = Fraction(0)
    for p, v in zip(x, a, strict=True):
        for q, w in zip(x, a, strict=True):
            u = p * q - 1
            exact += v * w * (u**3 if isinstance(kernel, Polynomial) else u - u**3 / 3) / 2
    total = sum(a)
    assert abs(Fraction(result.certificate.upper) - exact / total**2) <= result.certificate.roundoff


def test_the_roundoff_includes_a_tangent_of_small_arguments(rng):
    X, x = rng.uniform(1.0, 2.0, (400, 2)), rng.uniform(0.5, 1.0, 400)
    K = Sigmoid(X, gamma=1e-9, coef0=0.0)
    exact = x @ np.tanh(1e-9 * (X @ X.T))
    error = np.max(np.abs(K.dot(x) - exact))
    assert error <= (4.0 * FLOAT64_EPS * np.max(K.diag()) + K.error) * np.sum(x)


def test_a_length_that_overflows_leaks_no_warning():
    diagonal = 1e198 * np.arange(1.0, 32.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 3.1e199 <= largest_by_lanczos(31, lambda v: diagonal * v) <= 1e200


def test_a_roundoff_is_not_negative_where_all_kernel_values_are():
    K = Sigmoid([[0.1], [0.2], [-0.3]], 1.0, -1.0)
    for problem in (OneClassDual(K, nu=0.5), MEBDual(K), HingeDual(K, [1, -1, 1])):
        c = solve(problem, "smo", max_iter=20).certificate
        assert c.gap >= c.roundoff > 0.0


@pytest.mark.parametrize(("size", "C"), [(1e70, 1e-8), (1e5, 1e122), (3e30, 1e60)])
def test_a_squared_loss_includes_the_square_of_the_margins_rounding(size, C):
    """The margin is met up to rounding, whose square exceeds the rest of the value."""
    x = size * 1.1
    problem = LSSVMPrimal(np.array([[x]]), np.array([1.0]), C=C, bias=False)
    result = solve(problem, "homotopy-nesvm", tol=1e-3)
    w = Fraction(float(result.x[0]))
    exact = w * w / 2 + Fraction(C) * (1 - w * Fraction(x)) ** 2
    c = result.certificate
    assert abs(exact - Fraction(c.upper)) <= Fraction(c.roundoff)
    assert c.gap >= c.roundoff


def test_margins_without_a_normal_have_no_rounding():
    """One class: the optimum is zero, at w = 0 and b = 1, and is certified as such."""
    result = solve(LSSVMPrimal(np.array([[1.0], [3.0]]), np.ones(2), C=1e15), tol=1e-9)
    assert result.status is Status.OPTIMAL and result.certificate.upper == 0.0


@pytest.mark.parametrize("C", [1e6, 1e9, 1e15])
def test_a_hinge_loss_includes_margins_that_are_met_up_to_rounding(C):
    """w = 3 and x = 1/3: the margin is 1 when it is computed, and 1 - 1e-16 exactly."""
    for k in (3, 5, 7, 9, 11, 13):
        X = np.array([[1.0 / k], [-1.0 / k]])
        result = solve(LPSVMPrimal(X, np.array([1.0, -1.0]), C=C, bias=False), tol=1e-6)
        w = Fraction(float(result.x[0]))
        shortfall = max(1 - w * Fraction(X[0, 0]), Fraction(0))
        exact = abs(w) + 2 * Fraction(C) * shortfall
        assert abs(exact - Fraction(result.certificate.upper)) <= result.certificate.roundoff
