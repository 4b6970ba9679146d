"""Laplacian kernels of points far from the origin."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from qpsvm import Laplacian, LSSVMPrimal, SVDDDual, solve


@pytest.mark.parametrize("m", [51, 700])
def test_a_laplacian_of_sparse_points_keeps_its_digits_far_from_the_origin(m, rng):
    points = 1e6 + rng.standard_normal((m, 10))
    K, rows = Laplacian(sp.csr_matrix(points), 0.3), rng.permutation(m)[:40]
    exact = np.exp(-0.3 * cdist(points[rows], points, "cityblock"))
    np.testing.assert_allclose(K.block(rows, None, np.float64), exact, rtol=0, atol=1e-14)
    every = np.exp(-0.3 * cdist(points, points, "cityblock"))
    np.testing.assert_allclose(K.block(np.arange(m), None, np.float64), every, rtol=0, atol=1e-14)
    y = np.where(points[:, 0] > np.median(points[:, 0]), 1.0, -1.0)
    sparse, dense = (
        solve(LSSVMPrimal(Laplacian(X, 0.3), y, C=10.0), tol=1e-9).certificate
        for X in (sp.csr_matrix(points), points)
    )
    assert sparse.lower <= dense.upper and dense.lower <= sparse.upper


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_a_gamma_beyond_float32_is_evaluated_in_float64(storage):
    X = (1e-44 * np.random.default_rng(5).standard_normal((20, 2))).astype(np.float32)
    gram = Laplacian(storage(X), 1e44)
    assert gram.dtype == np.float64
    wide = X.astype(np.float64)
    expected = np.exp(-1e44 * np.abs(wide[:, None] - wide).sum(axis=2))
    np.testing.assert_allclose(gram.block(np.arange(20)), expected, rtol=1e-12)
    with np.errstate(over="raise", invalid="raise"):
        result = solve(SVDDDual(gram, 0.3), tol=1e-6)
    assert result.converged
