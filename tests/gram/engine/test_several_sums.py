"""Several sums of kernel values over the same points are those of one at a time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, CustomKernel, Laplacian, Linear, LowRank, Polynomial, Sigmoid

KERNEL_CASES = {
    "rbf": lambda X: RBF(X, 0.2),
    "polynomial": lambda X: Polynomial(X, 2, 0.1, 1.0),
    "sigmoid": lambda X: Sigmoid(X, 0.05, 0.1),
    "laplacian": lambda X: Laplacian(X, 0.1),
    "linear": Linear,
    "custom": lambda X: CustomKernel(X, lambda A, B: np.asarray(A @ B.T) ** 2),
    "low rank": lambda X: LowRank(RBF(X, 0.2), 20),
}


@pytest.mark.parametrize("kind", ["dense", "float32", "whole", "sparse", "wide"])
@pytest.mark.parametrize("name", KERNEL_CASES)
def test_sums_are_the_same(name, kind, rng):
    n_points = 700 if name in ("rbf", "polynomial") else 60
    X = rng.standard_normal((n_points, 6)) + 3.0
    if kind == "whole":
        X = np.round(X)
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "sparse":
        X = sp.csr_matrix(np.where(X > 3.5, X, 0.0))
    elif kind == "wide":
        if name == "custom":
            pytest.skip("the function of this test takes few features")
        X = sp.csr_matrix(sp.hstack([sp.csr_matrix(X), sp.csr_matrix((n_points, 2100))]))
    gram = KERNEL_CASES[name](X)
    columns = np.arange(0, gram.m, 2)
    coef = rng.standard_normal((len(columns), 3))
    together = gram.combine(X, columns, coef)
    assert together.shape == (n_points, 3)
    single = np.column_stack([gram.combine(X, columns, c.copy()) for c in coef.T])
    size = np.abs(single).max()
    error = 1e-3 if kind == "float32" else 1e-9
    np.testing.assert_allclose(together, single, rtol=error, atol=error * size)


@pytest.mark.parametrize(
    "kind", ["dense", "float32", "integers", "bytes", "binary", "sparse", "many"]
)
def test_groups_in_one_pass(kind, rng):
    """Sums over groups are those of each group alone; an empty one has none."""
    n_points, d = (2500, 12) if kind == "bytes" else (1300, 90 if kind == "many" else 12)
    X = rng.standard_normal((n_points, d)) + 1.0
    if kind in ("integers", "bytes"):
        X = np.clip(np.rint(30.0 * X), 0, 255)
    elif kind == "binary":
        X = (X > 1.0) * 1.0
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "sparse":
        X = sp.csr_matrix(np.where(X > 1.5, X, 0.0))
    gram = RBF(X, "scale")
    groups = [
        (np.arange(0, 700), rng.standard_normal((700, 3))),
        (np.arange(700, 710), rng.standard_normal((10, 2))),
        (np.arange(0), np.empty((0, 1))),
        (np.arange(900, 1250), rng.standard_normal((350, 3))),
    ]
    new = X[:n_points:2]
    together = gram.combine_groups(new, groups)
    assert together.shape == (9, new.shape[0])
    alone = [
        gram.cross(new, columns) @ coef if len(columns) else np.zeros((new.shape[0], 1))
        for columns, coef in groups
    ]
    expected = np.concatenate(alone, axis=1).T
    error = 1e-3 if kind == "float32" else 1e-10
    np.testing.assert_allclose(together, expected, rtol=error, atol=error * np.abs(expected).max())
