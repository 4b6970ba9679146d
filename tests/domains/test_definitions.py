"""Minima, gaps and violations of domains beside their definitions, also inside of them and at ties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from qpsvm.domains import BoxHyperplane, MatroidBases
from qpsvm.domains.ball import L2Ball
from qpsvm.domains.box_hyperplane import convex_gap


@pytest.mark.parametrize("seed", range(8))
def test_ties_of_a_linear_minimum_are_filled_until_the_sum_is_zero(seed):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(9) < 0.5, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    g, upper = rng.integers(-1, 2, 9).astype(float), rng.integers(1, 5, 9) / 4.0
    v = BoxHyperplane(upper, y).linear_min(g)
    best = linprog(g, A_eq=y[None, :], b_eq=[0.0], bounds=[(0.0, u) for u in upper])
    assert abs(y @ v) <= 1e-12 and np.all(v >= 0.0) and np.all(v <= upper)
    assert g @ v == pytest.approx(best.fun, abs=1e-9)


@pytest.mark.parametrize("length", [0.0, 0.3, 2.0])
def test_the_gap_of_a_ball_is_that_of_the_definition_inside_of_it(length, rng):
    ball, g = L2Ball(5, radius=2.0), rng.standard_normal(5)
    x = rng.standard_normal(5)
    x *= length / np.linalg.norm(x)
    assert ball.linear_gap(x, g) == pytest.approx(g @ x + 2.0 * np.linalg.norm(g), rel=1e-12)


@pytest.mark.parametrize("m", [6, 14])
def test_the_violation_of_a_matroid_is_that_of_its_constraints(m):
    uniform = MatroidBases(m, lambda s: len(s) <= 3)
    inside = np.full(m, 3.0 / m)
    assert uniform.violation(inside) <= 1e-15
    above = inside.copy()
    above[0] = 1.25
    above[1:] -= (above.sum() - 3.0) / (m - 1)
    assert uniform.violation(above) == pytest.approx(0.25)
    assert uniform.violation(inside + 0.5 / m) == pytest.approx(0.5)
    below = inside.copy()
    below[0], below[1] = -0.125, below[1] + below[0] + 0.125
    assert uniform.violation(below) == pytest.approx(0.125)


def test_a_violated_pair_of_a_small_matroid_is_found():
    """No element and no complement of one violates its constraint."""
    matroid = MatroidBases(6, lambda s: len(s) <= 3 and not {0, 1} <= set(s.tolist()))
    x = np.array([0.75, 0.75, 0.375, 0.375, 0.375, 0.375])
    assert matroid.violation(x) == pytest.approx(0.5)


def test_the_gap_with_a_defect_is_the_largest_at_a_bound(rng):
    upper = rng.uniform(0.5, 1.5, 7)
    x, slack, defect = rng.random(7) * upper, rng.standard_normal(7), 0.4
    corners = np.array(np.meshgrid(*[(0.0, u) for u in upper])).reshape(7, -1).T
    values = (x - corners) @ slack + 0.5 * defect * np.sum((x - corners) ** 2, axis=1)
    assert convex_gap(x, upper, slack, defect) == pytest.approx(float(np.max(values)))
