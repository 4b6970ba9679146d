"""The cost and the blocks of the check for positive semidefiniteness."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise

from problems.clouds import cloud
from qpsvm import CustomKernel, HingeDual, Laplacian, Precomputed, solve
from qpsvm.gram.psd import psd_defect
from qpsvm.gram.storage.points import products


def test_the_matrix_that_is_checked_becomes_the_columns_of_the_solve():
    X, pairs = cloud(150, 3, seed=3), []

    def values(A, B):
        pairs.append(len(A) * len(B))
        return pairwise.rbf_kernel(A, B, gamma=0.5)

    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, 1.0, -1.0)
    problem = HingeDual(CustomKernel(X, values), y, C=1.0)
    pairs.clear()
    result = solve(problem, "smo")
    n_support = len(result.support)
    of_diagonals = 4 * 32 * 150  # evaluated in blocks of 32 points
    assert result.converged and result.counters["columns"] == 150
    assert sum(pairs) <= 150**2 + n_support * 150 + of_diagonals


@pytest.mark.parametrize("m", [255, 256, 257, 600])
@pytest.mark.parametrize("least", [0.0, -1e-9, -1e-3])
def test_blocks_of_any_number_of_points_find_the_least_eigenvalue(m, least):
    rng = np.random.default_rng(m)
    Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
    eigenvalues = np.linspace(0.5, 1.0, m)
    eigenvalues[m // 2] = least
    K = (Q * eigenvalues) @ Q.T
    defect = psd_defect(Precomputed(0.5 * (K + K.T)))
    assert defect == np.inf if least < 0.0 else defect <= 1e-14 * m


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_a_large_matrix_are_those_of_numpy(dtype):
    rng = np.random.default_rng(5)
    K = rng.standard_normal((700, 700))
    K = (K + K.T).astype(dtype)
    x = np.where(rng.random(700) < 0.6, rng.standard_normal(700), 0.0)
    exact = K.astype(np.float64) @ x
    assert np.allclose(Precomputed(K, psd="assume").dot(x), exact, rtol=0.0, atol=1e-10)


def test_few_sparse_points_have_the_products_and_distances_of_dense_ones():
    rng = np.random.default_rng(6)
    for density in (0.05, 0.6):
        X = sp.random(40, 30, density, "csr", random_state=rng)
        assert np.allclose(products(X, X), (X @ X.T).toarray(), rtol=0.0, atol=1e-13)
        K = Laplacian(X, 0.3).block(np.arange(40))
        assert np.allclose(K, pairwise.laplacian_kernel(X.toarray(), gamma=0.3), atol=1e-13)
