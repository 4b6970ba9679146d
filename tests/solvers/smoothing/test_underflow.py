"""Smoothing widths after so many reductions that they could underflow."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import RBF, Linear, LPSVMPrimal, solve
from qpsvm.solvers.smoothing.nesvm import NESVM


@pytest.mark.parametrize("mu", [5.0, 1e-12, 1e-200])
def test_a_smoothing_does_not_reach_zero(mu):
    """Each stage divides it by four, and 540 divisions would underflow."""
    solver, first = NESVM(), mu
    for stage in range(2000):
        mu = solver.next_mu(mu, stage)
    assert 0.0 < mu <= first and np.isfinite(1.0 / mu)


def test_stages_that_end_at_once_leave_bounds_that_hold():
    """On the identity with C = 1 every stage is solved when it begins."""
    X = 1e70 * np.random.default_rng(0).standard_normal((52, 40))
    y = np.where(np.arange(52) % 2, 1.0, -1.0)
    result = solve(LPSVMPrimal(RBF(X, gamma=2.6e-138), y, bias=False), "nesvm", tol=1e-9)
    c = result.certificate
    assert c.lower <= 52.0 * (1 + 1e-9) and c.upper >= 52.0 * (1 - 1e-9)


def test_restarts_on_points_near_zero_leave_a_curvature_to_divide_by():
    """Each restart halves the curvature, whose bound is the square of 1e-150."""
    problem = LPSVMPrimal(Linear(np.array([[1e-150]])), [1.0], C=10.0, bias=False)
    result = solve(problem, tol=1e-12)
    assert result.converged and result.value == pytest.approx(10.0)
