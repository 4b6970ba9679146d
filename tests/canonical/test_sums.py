"""Bounds at points whose sums are met up to rounding, in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qpsvm import (
    HingePrimal,
    Linear,
    LSSVMPrimal,
    NuSVRDual,
    OneClassDual,
    Precomputed,
    QuadraticProgram,
)
from qpsvm.domains import BoxHyperplane, CappedSimplex, SimplexProduct
from qpsvm.domains.base import deviation
from qpsvm.driver.certificate import certify

FAR_SUM = 1.0 + 8e-13
"""A sum that `CappedSimplex.repair` takes for 1 where every weight is at a bound."""


def at_bounds(m, n_full, bound):
    return np.repeat([bound, 0.0], [n_full, m - n_full])


@pytest.mark.parametrize("total", [FAR_SUM, 2.0 - FAR_SUM])
@pytest.mark.parametrize("declared", ["one class", "quadratic"])
def test_bounds_on_a_capped_simplex_enclose_where_the_sum_is_missed(declared, total):
    """All points are one: the value is 1/2 |x|^2 at every feasible point, the optimum too."""
    bound = total / 5
    if declared == "one class":
        problem = OneClassDual(Linear(np.ones((10, 1))), nu=1 / (10 * bound))
        domain = problem.as_qp().domain
    else:
        domain = CappedSimplex(np.full(10, bound))
        problem = QuadraticProgram(Precomputed(np.ones((10, 10))), np.zeros(10), domain)
    x = at_bounds(10, 5, domain.upper[0])
    assert 7e-13 < abs(sum(Fraction(v) for v in x) - 1) < 1e-12
    certified = certify(problem.as_qp(), x, tol=1e-9)
    c = certified.certificate
    assert np.array_equal(certified.x, x)
    assert Fraction(c.lower) <= Fraction(1, 2) <= Fraction(c.upper) + Fraction(c.roundoff)
    assert c.gap <= 1e-11


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("share", [FAR_SUM, 2.0 - FAR_SUM])
def test_bounds_of_a_nu_regression_enclose_where_a_sum_is_missed(share, sign):
    """Equal values and a kernel of zeros: the value is y times the difference of two equal sums, 0."""
    y = sign * 1e6
    K = Precomputed(np.zeros((10, 10)))  # no primal point takes the place of these bounds
    qp = NuSVRDual(K, np.full(10, y), C=1.0, nu=0.6 / share).as_qp()
    x = np.concatenate([at_bounds(10, 3, 1.0), 0.3 / share * np.ones(10)])
    certified = certify(qp, x, tol=1e-9)
    c = certified.certificate
    assert np.array_equal(certified.x[:10], x[:10])
    assert Fraction(c.lower) <= 0 <= Fraction(c.upper) + Fraction(c.roundoff)


def exactly(terms, total=0.0):
    return abs(sum(Fraction(float(v)) for v in terms) - Fraction(float(total)))


@pytest.mark.parametrize("n", [1, 2, 10, 3000])
def test_a_deviation_is_above_the_exact_one_by_rounding_alone(n, rng):
    for size in (1e-200, 1.0, 1e200):
        terms = size * rng.standard_normal(n)
        for total in (0.0, float(np.sum(terms)), size):
            exact, found = exactly(terms, total), Fraction(deviation(terms, total))
            rounding = Fraction(float(n * size)) * Fraction(2e-14)
            assert exact <= found <= exact + rounding


def test_the_error_of_sums_is_that_of_every_group(rng):
    x, group = rng.random(12), np.repeat([0, 1], 6)
    y, levels = np.repeat([1.0, -1.0], 6), np.array([3.0, -1e6])
    capped = CappedSimplex(np.ones(12), group, total=[2.0, 3.0])
    exact = 3 * exactly(x[:6], 2.0) + 10**6 * exactly(x[6:], 3.0)
    assert capped.error_of_sums(x, levels) == pytest.approx(float(exact), rel=1e-12)
    plane = BoxHyperplane(np.ones(12), y)
    assert plane.error_of_sums(x, np.array([-7.0, 1.0])) == pytest.approx(
        7.0 * float(exactly(y * x)), rel=1e-12
    )


def test_a_repaired_simplex_misses_its_sums_by_less_than_is_counted(rng):
    group = np.repeat([0, 1], 500)
    domain = SimplexProduct(group)
    for _ in range(20):
        x = domain.repair(rng.random(1000) ** 4)
        levels = 1e3 * rng.standard_normal(2)
        parts = zip((x[:500], x[500:]), levels, strict=True)
        exact = sum(Fraction(abs(rho)) * exactly(part, 1.0) for part, rho in parts)
        assert exact <= Fraction(domain.error_of_sums(x, levels))


@pytest.mark.parametrize("C", [0.1, 0.7])
@pytest.mark.parametrize("declared", [HingePrimal, LSSVMPrimal])
def test_the_value_at_zero_is_the_sum_of_penalties_up_to_roundoff(declared, C, rng):
    """A sum of 5,000 equal terms by BLAS was off by 2.5 times the roundoff: 4 eps of the value."""
    X, y = rng.standard_normal((5000, 3)), np.tile([1.0, -1.0], 2500)
    form = declared(X, y, C=C, bias=False).as_margin()
    c = certify(form, np.zeros(3 + 1 + 5000), tol=1e-9).certificate
    assert abs(Fraction(c.upper) - 5000 * Fraction(C)) <= Fraction(c.roundoff)
    assert c.roundoff <= 1e-14 * c.upper
