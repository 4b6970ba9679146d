"""CSR points far from the origin, of which most coordinates are stored, have the values of dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, HingeDual, L2SVMDual, solve
from qpsvm.gram.storage.points import is_far_and_full


def far_points(offset, n_points=60):
    return offset + np.random.default_rng(3).standard_normal((n_points, 4))


@pytest.mark.parametrize("offset", [1e5, 1e8])
def test_values_and_predictions_are_those_of_dense_points(offset):
    X, y = far_points(offset), np.resize([1.0, -1.0], 60)
    kernels = {"dense": RBF(X, 0.3), "csr": RBF(sp.csr_matrix(X), 0.3)}
    rows = np.arange(60)
    differences = X[:, None] - X
    exact = np.exp(-0.3 * np.sum(differences * differences, axis=2))
    for kernel in kernels.values():
        np.testing.assert_allclose(kernel.block(rows, None, np.float64), exact, rtol=0, atol=1e-13)
        np.testing.assert_allclose(kernel.cross(sp.csr_matrix(X), rows), exact, rtol=0, atol=1e-13)
    for problem in (HingeDual, L2SVMDual):
        results = [solve(problem(kernel, y, C=10.0), tol=1e-9) for kernel in kernels.values()]
        assert all(result.converged for result in results)
        predictions = [
            result.model.decision_function(new)
            for result in results
            for new in (X, sp.csr_matrix(X))
        ]
        for found in predictions[1:]:
            np.testing.assert_allclose(found, predictions[0], atol=1e-4)


def test_only_far_and_full_points_become_dense():
    X = far_points(1e8)
    assert is_far_and_full(sp.csr_matrix(X))
    assert not is_far_and_full(X)
    assert not is_far_and_full(sp.csr_matrix(X - 1e8))
    thinned = np.where(np.random.default_rng(4).random(X.shape) < 0.5, X, 0.0)
    assert not is_far_and_full(sp.csr_matrix(thinned))
    assert sp.issparse(RBF(sp.csr_matrix(thinned), 0.3).X)
    assert isinstance(RBF(sp.csr_matrix(X), 0.3).X, np.ndarray)
