"""Gaussian kernels of points far from the origin."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, HingeDual, solve


def integers(rng, m=60):
    """Return integer points about 1,000, and labels that depend on one coordinate."""
    X = 1000.0 + rng.integers(0, 5, (m, 3))
    return X, np.where(X[:, 0] + rng.standard_normal(m) > 1002.0, 1.0, -1.0)


def values_in_80_bits(X, gamma):
    """Return the kernel matrix, whose exponents have eleven bits more than float64."""
    X = np.asarray(X, np.longdouble)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return np.exp(-np.longdouble(gamma) * squares)


@pytest.mark.parametrize("gamma", [1.125, 0.37])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_errors_of_integer_points_are_bounded(make, dtype, gamma, rng):
    """Distances of integers are exact, the terms of an exponent are not: 1,000^2 gamma is rounded."""
    X, _ = integers(rng)
    kernel = RBF(make(X.astype(dtype)), gamma)
    values = kernel.block(np.arange(len(X)), None, np.float64)
    error = float(np.max(np.abs(values - values_in_80_bits(X, gamma))))
    assert error <= kernel.error + 4.0 * 2.0**-53


def test_dense_integer_points_far_from_the_origin_keep_their_digits(rng):
    X, y = integers(rng)
    kernel = RBF(X, 1.125)
    values = kernel.block(np.arange(len(X)), None, np.float64)
    np.testing.assert_allclose(
        values, values_in_80_bits(X, 1.125).astype(float), rtol=0, atol=1e-14
    )
    far, near = (solve(HingeDual(RBF(Z, 1.125), y), tol=1e-9) for Z in (X, X - 1000.0))
    assert far.converged and near.converged
    assert far.certificate.lower <= near.certificate.upper
    assert near.certificate.lower <= far.certificate.upper
