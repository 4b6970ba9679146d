"""The normal equations where nothing is left of the points, and where few weights change."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

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


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_changed_weights_give_the_matrix_of_all_rows(storage):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 12)) * (rng.random((300, 12)) < 0.5)
    normal, right = NormalEquations(storage(X), np.sum(X**2, axis=1), bias=False), np.ones(12)
    weights = np.where(rng.random(300) < 0.7, rng.random(300), 0.0)
    for n_changed in (0, 3, 200, 20, 20):  # some join, some leave, and some have another weight
        changed = rng.permutation(300)[:n_changed]
        weights[changed] = np.where(rng.random(n_changed) < 0.5, 0.0, rng.random(n_changed))
        rows = np.flatnonzero(weights)
        normal.factor_some(rows, weights[rows])
        M = np.eye(12) + X.T @ (weights[:, None] * X)
        np.testing.assert_allclose(normal.direction(right), np.linalg.solve(M, right), rtol=1e-11)


def test_heavy_rows_that_leave_take_their_rounding_with_them():
    rng = np.random.default_rng(1)
    X, right = rng.standard_normal((300, 6)), np.ones(6)
    weights = np.where(np.arange(300) < 10, 1e14, 1.0)
    normal = NormalEquations(X, np.sum(X**2, axis=1), bias=False)
    for rows in (np.arange(300), np.arange(10, 300)):
        normal.factor_some(rows, weights[rows])
    M = np.eye(6) + X[10:].T @ X[10:]
    np.testing.assert_allclose(normal.direction(right), np.linalg.solve(M, right), rtol=1e-11)
