"""The normal equations where nothing is left of the points."""

from __future__ import annotations

import numpy as np

import qpsvm
from qpsvm import HingePrimal
from qpsvm.solvers.interior_point.normal_equations import NormalEquations


def test_no_rows_at_all_leave_the_identity():
    """Every row may be left out of a preconditioner, as where all penalties are 1e-150."""
    X = np.random.default_rng(0).standard_normal((58, 40)) * 1e-150
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    result = qpsvm.solve(HingePrimal(X, y, C=1e-150), "crsvm", tol=1e-12)
    assert result.certificate.relative_gap < 1.0
    normal, b = NormalEquations(X, np.sum(X**2, axis=1)), np.arange(40.0)
    normal.factor(np.ones(58), np.sum(X, axis=0), np.empty(0, np.int64), exact=False)
    np.testing.assert_array_equal(normal._factor.solve(b), b)
