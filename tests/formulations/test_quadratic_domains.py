"""Quadratic programs over boxes with a hyperplane and without, by every method; sparse matrices."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from qpsvm import QuadraticProgram, Status, solve
from qpsvm.domains import Box, BoxHyperplane, CappedSimplex, PenaltyBox, simplex
from qpsvm.gram.operator import QuadraticGram, SparseGram
from reference import answer

N_VARIABLES = 7
HYPERPLANE_SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
DOMAIN_OF_NAME = {
    "box with a hyperplane": lambda: BoxHyperplane(np.full(N_VARIABLES, 2.0), HYPERPLANE_SIGNS),
    "box": lambda: PenaltyBox(np.full(N_VARIABLES, 2.0)),
    "simplex": lambda: simplex(N_VARIABLES),
    "simplex with bounds": lambda: CappedSimplex(np.full(N_VARIABLES, 0.4)),
}
every_domain = pytest.mark.parametrize("name", DOMAIN_OF_NAME)


def program(name, sign=1.0):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((N_VARIABLES, N_VARIABLES))
    return QuadraticProgram(
        sign * A @ A.T, rng.standard_normal(N_VARIABLES), DOMAIN_OF_NAME[name]()
    )


@every_domain
def test_every_method_finds_the_value_of_the_reference(name):
    problem = program(name)
    exact = answer(problem).value
    for method in qpsvm.methods(problem):
        result = solve(problem, method, tol=1e-4, max_iter=100_000)
        assert result.status is Status.OPTIMAL, method
        assert result.certificate.lower <= exact + 1e-9 <= result.certificate.upper + 1e-4, method
        assert result.value == pytest.approx(exact, abs=2e-4)


@every_domain
def test_a_negative_definite_matrix_is_not_convex(name):
    problem = program(name, -1.0)
    for method in qpsvm.methods(problem):
        result = solve(problem, method, max_iter=1000)
        assert result.status is Status.NONCONVEX and result.certificate.lower == -np.inf, method


@pytest.mark.parametrize("name", ["box with a hyperplane", "box"])
def test_no_point_is_farther_than_the_bound(name):
    domain, rng = DOMAIN_OF_NAME[name](), np.random.default_rng(1)
    x = domain.linear_min(rng.standard_normal(N_VARIABLES))
    farthest = max(
        np.sum((domain.linear_min(rng.standard_normal(N_VARIABLES)) - x) ** 2) for _ in range(300)
    )
    assert farthest <= domain.farthest(x) <= 4.0 * N_VARIABLES


@pytest.mark.parametrize("seed", range(5))
def test_roundings_of_a_sparse_product_are_those_of_its_own_terms(seed):
    rng = np.random.default_rng(seed)
    A = sp.random_array((40, 40), density=0.1, rng=rng, format="csr")
    K = sp.csr_matrix(A + A.T)
    x = rng.standard_normal(40) * 10.0 ** rng.integers(-3, 4, 40)
    x[::4] = 0.0
    gram = SparseGram(K, psd="assume")
    rows = K.toarray()
    exact = [
        sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, x, strict=True))
        for row in rows
    ]
    bound = gram.product_roundoff(x)
    errors = [abs(Fraction(float(v)) - e) for v, e in zip(gram.dot(x), exact, strict=True)]
    assert all(error <= Fraction(float(b)) for error, b in zip(errors, bound, strict=True))
    quadratic, support = QuadraticGram.of(gram, None), np.flatnonzero(x)
    form = sum(Fraction(float(a)) * e for a, e in zip(x, exact, strict=True))
    computed = Fraction(float(x @ quadratic.product(x)))
    allowed = quadratic.roundoff(1.0, x[support], support, 0.0, np.inf)
    assert abs(computed - form) <= Fraction(allowed) + Fraction(1e-15) * abs(form)
    dense = QuadraticGram.of(qpsvm.Precomputed(rows, psd="assume"), None)
    assert allowed < dense.roundoff(float(np.abs(rows).max()), x[support], support, 0.0, np.inf)


def test_the_torsion_of_a_bar_is_solved_to_1e_9():
    n = 30
    second = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    P = sp.kron(sp.eye_array(n), second) + sp.kron(second, sp.eye_array(n))
    s, t = (v.ravel() for v in np.meshgrid(*[np.arange(1.0, n + 1) / (n + 1)] * 2))
    distance = np.minimum.reduce([s, 1.0 - s, t, 1.0 - t])
    problem = QuadraticProgram(
        sp.csr_matrix(P), np.full(n * n, -5.0 / (n + 1) ** 2), Box(-distance, distance)
    )
    result = solve(problem, tol=1e-9)
    assert result.status is Status.OPTIMAL
    slope = P @ result.x + problem.c
    gap = slope @ result.x + np.abs(slope) @ distance
    assert gap <= 1e-9 * abs(result.value) * 1.1
