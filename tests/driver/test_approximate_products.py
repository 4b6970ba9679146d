"""Certificates from products of a method: their errors, and where they are not taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qpsvm import HingeDual, Linear, MEBDual, Precomputed
from qpsvm.canonical.base import ApproximateProducts
from qpsvm.driver.certificate import certify, partly_recomputed, sampled_products

X = np.random.default_rng(0).standard_normal((12, 3))
Y = np.resize([1.0, -1.0], 12)
K = 4.0 * np.exp(-np.sum((X[:, None] - X) ** 2, axis=2))


def hinge(C=2.0):
    """Return the QP of a hinge machine, a feasible point and its product."""
    qp = HingeDual(Precomputed(K, psd="assume"), Y, C).as_qp()
    x = qp.repair(np.full(12, 0.5))
    return qp, x, qp.product(x)


def test_a_point_that_was_moved_has_the_error_of_the_move():
    qp, x, product = hinge()
    known = ApproximateProducts(x, product, np.full(12, 0.25))
    found, error = sampled_products(qp, x, known)
    np.testing.assert_array_equal(error, 0.25)
    np.testing.assert_array_equal(found, product)  # every weight is positive
    other = x.copy()
    other[:2] -= 0.125, 0.125
    _, error = sampled_products(qp, other, known)
    np.testing.assert_allclose(error, 0.25 + 0.25 * 4.0)
    assert np.all(np.abs(qp.product(other) - product) <= error)


def test_products_off_the_support_are_lowered_by_their_errors():
    qp, _, _ = hinge()
    x = np.zeros(12)
    x[:2] = 0.5
    error = np.linspace(0.1, 0.3, 12)
    product = qp.product(x)
    found, _ = sampled_products(qp, x, ApproximateProducts(x, product, error))
    np.testing.assert_array_equal(found[:2], product[:2])
    np.testing.assert_allclose(found[2:], product[2:] - error[2:])


@pytest.mark.parametrize("kind", ["cone", "defect", "not convex", "not finite", "refuted"])
def test_where_bounds_do_not_follow_products_are_not_taken(kind):
    qp, x, product = hinge(np.inf if kind == "cone" else 2.0)
    if kind == "defect":
        qp = replace(qp, defect=0.1)
    if kind == "not convex":
        qp = qp.nonconvex()
    if kind == "not finite":
        product = np.full(12, np.inf)
    if kind == "refuted":
        product = product + 1e-3
    known = ApproximateProducts(x, product, np.full(12, 1e-6))
    assert sampled_products(qp, x, known) == (None, None)
    if kind in ("not finite", "refuted"):
        assert partly_recomputed(qp, x, known) == (None, None)


@pytest.mark.parametrize("error", [1e-9, 1e-3, 1.0])
def test_bounds_from_approximate_products_enclose_those_from_exact_ones(error):
    qp, x, _ = hinge()
    x[:6] = 0.0
    x = qp.repair(x)
    rng = np.random.default_rng(1)
    wrong = qp.product(x) + error * rng.uniform(-1.0, 1.0, 12)
    known = ApproximateProducts(x, wrong, np.full(12, error))
    exact = certify(qp, x, tol=1e-3).certificate
    wide = certify(qp, x, 1e-3, approximate_products=known, recompute=False).certificate
    assert wide.lower <= exact.lower + 1e-12 and exact.upper <= wide.upper + 1e-12
    assert wide.gap <= exact.gap + 4.0 * error * 2.0 * 12 and not wide.recomputed
    narrow = certify(qp, x, 1e-3, approximate_products=known).certificate
    assert narrow.recomputed and narrow.gap <= wide.gap + 1e-12
    assert narrow.lower == pytest.approx(exact.lower, abs=1e-9)


def test_a_floor_is_that_of_values_that_may_be_zero():
    qp = MEBDual(Linear(X)).as_qp()
    found = certify(qp, np.full(12, 1.0 / 12.0), tol=1e-6).certificate
    assert found.floor >= 4.0 * found.roundoff > 0.0  # of the center as well, which is stored
    qp, x, _ = hinge()
    assert certify(qp, x, tol=1e-6).certificate.floor == 0.0
