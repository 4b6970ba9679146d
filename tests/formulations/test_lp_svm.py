"""The linear-programming machine of a kernel: the l1 norm of the expansion's coefficients."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    Cached,
    Linear,
    LowRank,
    LPSVMPrimal,
    Precomputed,
    Status,
    methods,
    solve,
)

X, Y = two_clouds(60, 4, seed=31)
SQUARED_DISTANCES = np.sum((X[:, None] - X[None]) ** 2, axis=2)
K = np.exp(-0.3 * SQUARED_DISTANCES)


def by_linear_programming(K, y, C, bias):
    """Return the least |c|_1 + sum C_i xi_i by scipy's HiGHS, in c = p - n."""
    m = len(y)
    margins = y[:, None] * K
    A = -np.hstack([margins, -margins, np.eye(m), bias * y[:, None]])
    bounds = [(0, None)] * (3 * m) + [(None, None)]
    costs = np.concatenate([np.ones(2 * m), np.broadcast_to(C, m), [0.0]])
    return scipy.optimize.linprog(costs, A_ub=A, b_ub=-np.ones(m), bounds=bounds).fun


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [0.3, 3.0])
def test_every_way_to_give_a_kernel_is_one_problem(bias, C):
    least = by_linear_programming(K, Y, C, bias)
    for gram in (RBF(X, 0.3), RBF(sp.csr_matrix(X), 0.3), Precomputed(K), Cached(RBF(X, 0.3))):
        result = solve(LPSVMPrimal(gram, Y, C, bias=bias), tol=1e-5)
        assert result.status is Status.OPTIMAL and result.x.shape == (60 + bias,)
        assert result.value == pytest.approx(least, rel=1e-5)
        c, b = result.x[:60], result.model.b
        loss = np.maximum(1.0 - Y * (K @ c + b), 0.0).sum()
        assert result.value == pytest.approx(np.abs(c).sum() + C * loss, rel=1e-9)


def test_three_factors_of_one_kernel_give_one_value():
    values = []
    for method in ("rpcholesky", "pivoted-cholesky", "eigen"):
        low = LowRank(RBF(X, 0.3), tol=1e-12, method=method)
        result = solve(LPSVMPrimal(low, Y), tol=1e-5)
        assert result.status is Status.OPTIMAL
        values.append(result.value)
    assert values == pytest.approx([by_linear_programming(K, Y, 1.0, True)] * 3, rel=3e-5)


def test_the_linear_kernel_is_a_kernel_and_points_are_points():
    least = by_linear_programming(X @ X.T, Y, 1.0, True)
    assert solve(LPSVMPrimal(Linear(X), Y), tol=1e-5).value == pytest.approx(least, rel=2e-5)
    direct = by_linear_programming(np.eye(4), np.ones(4), 1.0, False)  # a check of the reference
    assert direct == pytest.approx(4.0)
    assert solve(LPSVMPrimal(X, Y), tol=1e-5).x.shape == (5,)


def test_the_model_is_the_expansion_by_its_coefficients():
    result = solve(LPSVMPrimal(RBF(X, 0.3), Y, 3.0), tol=1e-6)
    model, c = result.model, result.x[:60]
    np.testing.assert_array_equal(model.expansion.indices, np.flatnonzero(c))
    new = np.random.default_rng(4).standard_normal((20, 4))
    k = np.exp(-0.3 * np.sum((new[:, None] - X[None]) ** 2, axis=2))
    np.testing.assert_allclose(model.decision_function(new), k @ c + model.b, atol=1e-10)
    again = solve(LPSVMPrimal(RBF(X, 0.3), Y, 3.0), "homotopy-nesvm", x0=result, tol=1e-5)
    assert again.n_iter == 0 and again.status is Status.OPTIMAL


def test_an_indefinite_kernel_is_solved_too():
    S = np.tanh(0.2 * X @ X.T + 0.5)
    assert np.linalg.eigvalsh(S)[0] < -1e-3
    result = solve(LPSVMPrimal(Precomputed(S), Y), tol=1e-4)
    assert result.status is Status.OPTIMAL
    assert result.value == pytest.approx(by_linear_programming(S, Y, 1.0, True), rel=1e-4)


def test_the_bounds_hold_in_exact_arithmetic():
    rows = [[Fraction(float(v)) for v in row] for row in K]
    result = solve(LPSVMPrimal(Precomputed(K), Y, 3.0), tol=1e-4)
    c, b = [Fraction(float(v)) for v in result.x[:60]], Fraction(float(result.x[60]))
    loss = sum(
        max(1 - int(s) * (sum(p * q for p, q in zip(row, c, strict=True)) + b), Fraction(0))
        for row, s in zip(rows, Y, strict=True)
    )
    value, found = sum(abs(v) for v in c) + 3 * loss, result.certificate
    assert abs(Fraction(found.upper) - value) <= Fraction(found.roundoff)
    assert found.lower <= by_linear_programming(K, Y, 3.0, True) * (1 + 1e-9)


def test_without_memory_for_the_matrix_it_is_read_block_by_block():
    problem = LPSVMPrimal(RBF(X, 0.3), Y)
    assert methods(problem) == ["nesvm", "homotopy-nesvm"]
    whole, blocks = solve(problem, tol=1e-4), solve(problem, tol=1e-4, memory_limit=1000)
    assert blocks.counters["columns"] == 0 < whole.counters["columns"]
    assert blocks.value == pytest.approx(whole.value, rel=2e-4)
    printed = solve(problem, "nesvm", variant="paper", max_iter=200)
    assert np.isfinite(printed.certificate.gap)
