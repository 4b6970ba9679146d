"""The orthant: its gap against a sum of minima, the box around a minimum, and where it is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar, nnls

from qpsvm import InputError, QuadraticProgram
from qpsvm.domains import Orthant

M = 9


def test_the_gap_is_the_largest_decrease_of_a_separable_function():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x, g, d = np.abs(rng.standard_normal(M)), rng.standard_normal(M), rng.uniform(0.1, 3.0, M)
        x[::3] = 0.0

        def term(a, i, g=g, d=d):
            return g[i] * a + 0.5 * d[i] * a * a

        least = [
            minimize_scalar(term, args=(i,), bounds=(0.0, 100.0), options={"xatol": 1e-12}).fun
            for i in range(M)
        ]
        gap, multipliers = Orthant(M).separable_gap(x, g, d)
        assert gap == pytest.approx(sum(term(x[i], i) - least[i] for i in range(M)), rel=1e-8)
        assert len(multipliers) == 0


def test_without_a_ridge_a_negative_slope_has_no_minimum():
    x, d = np.ones(3), np.array([0.0, 1.0, 1.0])
    assert Orthant(3).separable_gap(x, np.array([-1.0, 0.0, 0.0]), d)[0] == np.inf
    assert Orthant(3).separable_gap(x, np.array([2.0, 0.0, -1.0]), d)[0] == pytest.approx(2.5)


def test_the_box_contains_the_minimum():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        F, d = rng.standard_normal((M, 4)), 10.0 ** rng.uniform(-3.0, 3.0, M)
        c = rng.standard_normal(M)
        root = np.linalg.cholesky(F @ F.T + np.diag(d))
        x, _ = nnls(root.T, -np.linalg.solve(root, c))  # |root'x + root^-1 c|^2
        box = Orthant(M).box_around_minimum(c, d)
        assert np.all(x <= box.upper * (1.0 + 1e-9)) and len(box.sums) == 0
    assert np.all(Orthant(M).box_around_minimum(np.zeros(M), d).upper > 0.0)


def test_points_are_moved_into_it():
    domain = Orthant(3)
    assert domain.violation(np.array([1.0, -2.0, 0.0])) == 2.0
    np.testing.assert_array_equal(domain.repair(np.array([1.0, -2.0, 0.0])), [1.0, 0.0, 0.0])
    assert domain.take(np.array([0, 2])).m == 2
    assert domain.farthest(np.zeros(3)) == np.inf


def test_a_quadratic_without_a_ridge_is_refused():
    with pytest.raises(InputError, match="domain must be bounded; got an Orthant"):
        QuadraticProgram(np.eye(3), np.ones(3), Orthant(3))
