"""Matrices of many parameters of a kernel equal those of each Gram alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, CustomKernel, Laplacian, Linear, Polynomial, Precomputed, Sigmoid
from qpsvm.gram.engine.formula import Identity
from qpsvm.gram.engine.matrices import kernel_matrices, write_block
from qpsvm.gram.engine.sweep import map_block
from qpsvm.gram.storage.byte_grid import MIN_GRID_POINTS, ByteGrid

M = 300
KERNEL_CASES = {
    "rbf": lambda X, g: RBF(X, g),
    "laplacian": lambda X, g: Laplacian(X, g),
    "polynomial": lambda X, g: Polynomial(X, 3, g, 1.0),
    "sigmoid": lambda X, g: Sigmoid(X, g, 0.1),
    "linear": lambda X, g: Linear(X),
    "custom": lambda X, g: CustomKernel(X, lambda A, B: g * (A @ B.T)),
}


def points(kind, rng):
    X = rng.standard_normal((M, 6))
    if kind == "float32":
        return X.astype(np.float32)
    if kind == "binary":
        return (rng.random((M, 40)) > 0.6) * 1.0
    if kind == "integers":
        return rng.integers(0, 16, (M, 12)) * 1.0
    if kind == "CSR":
        return sp.csr_matrix(rng.standard_normal((M, 3000)) * (rng.random((M, 3000)) < 0.01))
    return X


@pytest.mark.parametrize("kind", ["float64", "float32", "binary", "integers", "CSR"])
@pytest.mark.parametrize("name", KERNEL_CASES)
def test_matrices_are_those_of_the_grams(name, kind, rng):
    X = points(kind, rng)
    if kind == "CSR" and name == "custom":
        pytest.skip("a custom kernel takes dense points")
    grams = [KERNEL_CASES[name](X, gamma) for gamma in (0.01, 0.3, 1e-9)]
    for gram, K in zip(grams, kernel_matrices(grams), strict=True):
        alone = gram.block(np.arange(M), None, np.float64)
        assert K.values.dtype == np.float32
        assert np.allclose(K.values, alone, rtol=6e-8, atol=6e-8 * np.abs(alone).max())
        K64 = K.terms[:, None] + K.terms + K.factor * K.inner
        map_block(K64, 1.0, K.map, np.zeros(len(K64)), np.zeros(len(K64)))
        assert np.allclose(K64, alone, rtol=1e-12, atol=1e-13 * np.abs(alone).max())
        rows, columns, part = np.arange(0, M, 7), np.arange(20, 50), np.empty((43, 30))
        write_block(gram, rows, columns, part)
        limit = 1e-13 * np.abs(alone).max()
        assert np.allclose(part, alone[np.ix_(rows, columns)], rtol=1e-13, atol=limit)


def test_a_precomputed_matrix_is_itself(rng):
    A = rng.standard_normal((5, 5))
    K = A @ A.T
    found = next(kernel_matrices([Precomputed(K)]))
    assert np.array_equal(found.inner, K) and isinstance(found.map, Identity)
    assert np.array_equal(found.values, K.astype(np.float32))


def test_points_of_bytes():
    X = np.random.default_rng(0).integers(0, 256, (MIN_GRID_POINTS, 9)) / 255
    rows = np.arange(5, 300, 3)
    squares = ((X[rows][:, None] - X[rows][None]) ** 2).sum(axis=2)
    gammas = (0.1, 0.5)
    grams = [RBF(X, gamma) for gamma in gammas]
    assert isinstance(grams[0]._points, ByteGrid)
    for gamma, gram, K in zip(gammas, grams, kernel_matrices(grams), strict=True):
        np.testing.assert_allclose(
            K.values[np.ix_(rows, rows)], np.exp(-gamma * squares), rtol=1e-7
        )
        part = np.empty((10, len(rows)))
        write_block(gram, rows[:10], rows, part)
        np.testing.assert_allclose(part, np.exp(-gamma * squares[:10]), rtol=1e-12)
