"""Sums over breakpoints, beside their definition."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm.distributed.breakpoints import sums_up_to


@pytest.mark.parametrize("n", [0, 1, 2, 257])
def test_sums_are_those_of_the_breakpoints_up_to_each_multiplier(n):
    rng = np.random.default_rng(n)
    values, weights = rng.standard_normal(500), rng.uniform(size=500)
    grid = np.linspace(-0.7, 0.4, n)
    values[:n] = grid  # a breakpoint at a multiplier counts
    found = sums_up_to(grid, values, weights)
    powers = np.array([weights, weights * values, weights * values**2])
    expected = [powers[:, values <= t].sum(axis=1) for t in grid]
    np.testing.assert_allclose(found, np.reshape(expected, (n, 3)).T, rtol=1e-12, atol=1e-12)
    assert found.shape == (3, n)


def test_points_outside_of_the_grid():
    grid, none = np.array([1.0, 2.0]), np.zeros((3, 2))
    np.testing.assert_array_equal(sums_up_to(grid, np.array([2.5, np.nan]), np.ones(2)), none)
    found = sums_up_to(grid, np.array([-1.0, 2.0]), np.array([2.0, 1.0]))
    np.testing.assert_array_equal(found, [[2.0, 3.0], [-2.0, 0.0], [2.0, 6.0]])
