"""Nine points with labels, values and penalties, and a random point of a problem's domain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from qpsvm import Linear, Precomputed
from qpsvm.driver.certificate import certify

N_POINTS = 9
RNG_OF_DATA = np.random.default_rng(5)
X = RNG_OF_DATA.standard_normal((N_POINTS, 2)) + [1.0, -0.5]
Y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0])
TARGET_VALUES = RNG_OF_DATA.standard_normal(N_POINTS) + 3.0
POINT_PENALTIES = np.array([0.7, 1.1, 0.0, 2.0, 0.4, 1.5, 0.9, 0.0, 1.3])
SAMPLE_WEIGHTS = np.array([1.0, 2.0, 0.0, 1.0, 3.0, 1.0, 2.0, 0.0, 1.0])
KERNEL_MATRIX = np.exp(-0.4 * np.sum((X[:, None] - X) ** 2, axis=2))
INNER_PRODUCTS = X @ X.T
GRAM_OF_NAME = {
    "matrix": (lambda: Precomputed(KERNEL_MATRIX, psd="assume"), KERNEL_MATRIX),
    "points": (lambda: Linear(X), INNER_PRODUCTS),
}
every_gram = pytest.mark.parametrize("gram", GRAM_OF_NAME)
every_seed = pytest.mark.parametrize("seed", range(3))


def with_point(problem, seed):
    """Return the QP, a random point of its domain, and it certified."""
    qp = problem.as_qp()
    x = qp.repair(np.random.default_rng(seed).random(qp.m) ** 2)
    return qp, certify(qp, x, tol=1e-3)


def best_bias(function):
    """Return the least value of a convex piecewise function of b, and b."""
    grid = np.linspace(-20.0, 20.0, 4001)
    b = grid[np.argmin([function(v) for v in grid])]
    found = minimize_scalar(function, bounds=(b - 0.01, b + 0.01), options={"xatol": 1e-12})
    return found.fun, found.x
