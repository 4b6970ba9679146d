"""Formula (4.2): the normal matrix in the columns of the landmarks."""

from __future__ import annotations

import numpy as np
import pytest

import qpsvm
from problems.clouds import two_clouds
from qpsvm import RBF, HingeDual, InputError, Linear, LowRank
from qpsvm.solvers.interior_point.column_equations import column_equations
from qpsvm.solvers.interior_point.normal_equations import NormalEquations

X, Y = two_clouds(200, 3, seed=42, distance=2.0)
LANDMARK_METHODS = ("nystrom", "pivoted-cholesky", "rpcholesky")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("method", LANDMARK_METHODS)
def test_its_directions_are_those_of_the_factor(method, bias, rng):
    low = LowRank(RBF(X, gamma=0.5), rank=12, method=method)
    d, rhs = rng.uniform(0.1, 10.0, 200), rng.standard_normal(12)
    active = rng.permutation(200)[:60]
    found = []
    for points in (
        column_equations(low, low.diag(), bias),
        NormalEquations(low.factor(), low.diag(), bias),
    ):
        for rows in (active, active[:5], None):
            points.factor(d, points.transposed(d), rows, exact=True)
            found.append(points.direction(rhs))
    for own, other in zip(found[:3], found[3:], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-8)


@pytest.mark.parametrize("reduction", ["preconditioner", "paper", None])
@pytest.mark.parametrize("sift", [True, False])
def test_a_solve_comes_to_the_same_value(reduction, sift):
    if sift and reduction != "preconditioner":
        pytest.skip("a sample is for preconditioners")
    problem = HingeDual(LowRank(RBF(X, gamma=0.5), rank=12, method="nystrom"), Y, C=10.0)
    options = {"tol": 1e-9, "reduction": reduction, "sift": sift}
    best = qpsvm.solve(problem, "crsvm", **options)
    found = qpsvm.solve(problem, "crsvm", normal_matrix="columns", **options)
    assert found.converged and best.converged
    assert found.value == pytest.approx(best.value, rel=1e-8)


def test_points_of_a_restricted_gram_are_its_rows():
    low = LowRank(RBF(X, gamma=0.5), rank=12, method="nystrom").take(np.arange(100))
    own = column_equations(low, low.diag(), True)
    K = RBF(X, gamma=0.5).block(low.landmarks.columns, np.arange(100), np.float64)
    np.testing.assert_allclose(own.V, K.T, atol=1e-8)


def test_a_gram_without_landmarks_is_refused():
    for gram, name in ((Linear(X), "Linear"), (RBF(X, gamma=0.5), "RBF")):
        with pytest.raises(InputError, match=f"normal_matrix.*{name}"):
            qpsvm.solve(HingeDual(gram, Y), "crsvm", normal_matrix="columns")
    with pytest.raises(InputError, match="full rank"):
        low = LowRank(RBF(X, gamma=0.5), rank=12, method="eigen")
        qpsvm.solve(HingeDual(low, Y), "crsvm", normal_matrix="columns")
    with pytest.raises(InputError, match="normal_matrix must be"):
        qpsvm.solve(HingeDual(Linear(X), Y), "crsvm", normal_matrix="rows")
