"""What counts as zero: values below their rounding error, unless that leaves no digit of the data."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import (
    RBF,
    HingeDual,
    L2SVMDual,
    Laplacian,
    Linear,
    MEBDual,
    OneClassDual,
    PolytopeDistanceDual,
    Status,
    solve,
)

N_POINTS = 50
X = np.random.default_rng(0).standard_normal((N_POINTS, 3))
Y = np.resize([1.0, -1.0], N_POINTS)
VALUE_OF_UNIT_MATRIX = {
    "one-class": (lambda k: OneClassDual(k, 0.5), 0.5 / N_POINTS),
    "ball": (MEBDual, 1.0 / N_POINTS - 1.0),
    "distance": (lambda k: PolytopeDistanceDual(k, Y), 2.0 / N_POINTS),
    "hard margin": (lambda k: L2SVMDual(k, Y, np.inf), 0.5 / N_POINTS),
}
"""Formulations, with their optima where K is the unit matrix, as it is for a huge gamma."""


@pytest.mark.parametrize("gamma", [1e6, 1e10, 1e12, 1e14, 1e17, 1e20])
@pytest.mark.parametrize("kernel", [RBF, Laplacian])
@pytest.mark.parametrize("name", VALUE_OF_UNIT_MATRIX)
def test_a_rounding_error_as_large_as_the_data_makes_no_value_zero(name, kernel, gamma):
    make, exact = VALUE_OF_UNIT_MATRIX[name]
    result = solve(make(kernel(X, gamma)), tol=1e-6)
    bounds = result.certificate
    assert bounds.lower <= exact * (1.0 + 1e-12 * np.sign(exact)) <= bounds.upper + bounds.roundoff
    if result.status is Status.OPTIMAL:
        assert bounds.test == "relative" and abs(bounds.upper - exact) <= 1.1e-6 * abs(exact)
    else:
        assert result.status is Status.STALLED and gamma >= 1e10


def test_intersecting_hulls_still_have_the_distance_zero():
    result = solve(PolytopeDistanceDual(Linear(X), Y), tol=1e-6)
    assert result.status is Status.OPTIMAL and result.certificate.test == "absolute"
    assert result.model.hulls_intersect is True


@pytest.mark.parametrize("gamma", [1e6, 1e12, 1e14, 1e20])
@pytest.mark.parametrize("kernel", [RBF, Laplacian])
@pytest.mark.parametrize("bias", [True, False])
def test_no_direction_refutes_a_hard_margin_by_rounding_alone(kernel, gamma, bias):
    result = solve(HingeDual(kernel(X, gamma), Y, np.inf, bias=bias), tol=1e-6)
    assert result.status is not Status.INFEASIBLE and result.direction is None
    assert result.model.separable is not False
