"""Tall problems: a sample by `crsvm`, then Newton steps on the augmented Lagrangian."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from problems.clouds import two_clouds
from qpsvm import HingePrimal, Status
from qpsvm.solvers.interior_point import augmented_lagrangian as multipliers
from qpsvm.solvers.interior_point.normal_equations import NormalEquations


def solve(problem, **options):
    return qpsvm.solve(problem, "crsvm", **{"tol": 1e-8, **options})


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("form", ["dense", "csr", "unbalanced", "weighted"])
def test_a_sample_first_changes_the_cost_and_not_the_answer(C, form):
    X, y = two_clouds(3000, 4, seed=7, distance=3.0, positive=0.1 if form == "unbalanced" else 0.5)
    X = sp.csr_matrix(np.where(np.abs(X) < 0.3, 0, X)) if form == "csr" else X
    C = np.where(np.arange(3000) % 3 == 0, 2.0 * C, C) if form == "weighted" else C
    whole = solve(HingePrimal(X, y, C), sift=False)
    sifted = solve(HingePrimal(X, y, C), sift=True)
    assert sifted.status is Status.OPTIMAL
    assert sifted.counters["newton"] > 0
    assert sifted.counters["rows"] < whole.counters["rows"]
    assert sifted.value == pytest.approx(whole.value, rel=2e-8)
    again = solve(HingePrimal(X, y, C), sift=True, x0=sifted)
    assert again.status is Status.OPTIMAL


@pytest.mark.parametrize("max_iter", [0, 3, 15, 25])
def test_iterations_of_a_sample_count(max_iter):
    X, y = two_clouds(3000, 4, seed=7, distance=3.0)
    best = solve(HingePrimal(X, y), sift=True)
    assert best.n_iter > 25
    stopped = solve(HingePrimal(X, y), sift=True, max_iter=max_iter)
    assert stopped.status is Status.MAX_ITER and stopped.n_iter == max_iter
    assert stopped.certificate.lower <= best.value <= stopped.certificate.upper


@pytest.mark.parametrize("form", ["C", "F", "float32", "csr"])
def test_rows_read_in_place_are_those_of_a_copy(monkeypatch, form):
    X, y = two_clouds(2500, 5, seed=9, distance=2.0)
    X = {
        "C": X, "F": np.asfortranarray(X), "float32": X.astype(np.float32),
        "csr": sp.csr_matrix(X),
    }[form]  # fmt: skip
    copied = solve(HingePrimal(X, y), sift=True)
    monkeypatch.setattr(multipliers, "MAX_COPIED_ENTRIES", 0)
    read = solve(HingePrimal(X, y), sift=True)
    assert copied.status is read.status is Status.OPTIMAL
    assert read.value == pytest.approx(copied.value, rel=2e-8)


def test_the_weighted_sum_of_points_is_followed():
    X, y = two_clouds(2000, 4, seed=14, distance=2.0)
    points, tau = NormalEquations(X, np.sum(X**2, axis=1)), np.full(2000, 0.7)
    newton = multipliers.Multipliers(points, y, tau, np.array([0.3, 0.1, 0.0, 0.0]), 0.1)
    while newton.sigma < 1e4:
        if newton.step():
            x, w = newton.feasible()
            assert abs(y @ x) <= 1e-9 and np.all((x >= 0) & (x <= tau))
            np.testing.assert_allclose(w, X.T @ (y * x), atol=1e-10)
            excess = y * (X @ w + newton.b) - 1
            gap = (tau - x) @ np.maximum(-excess, 0) + x @ np.maximum(excess, 0)
            assert multipliers.duality_gap(y, tau, x, X @ w, newton.b) == pytest.approx(gap)
    assert len(newton._y) < 500


def test_fixed_points_are_checked_again(monkeypatch):
    monkeypatch.setattr(multipliers, "REACH_BAND_WIDTHS", 1.1)
    X, y = two_clouds(2000, 3, seed=8, distance=3.0)
    result = solve(HingePrimal(X, y), sift=True)
    assert result.status is Status.OPTIMAL
    assert result.value == pytest.approx(solve(HingePrimal(X, y), sift=False).value, rel=1e-8)


def test_a_newton_step_solves_for_the_gradient_of_the_augmented_lagrangian():
    X, y = two_clouds(400, 3, seed=13)
    points, tau = NormalEquations(X, np.sum(X**2, axis=1)), np.full(400, 0.7)
    newton = multipliers.Multipliers(points, y, tau, np.array([0.3, 0.1, 0.0]), 0.1)

    def gradient():
        t = newton.alpha + newton.sigma * tau * (1 - y * (X @ newton.w + newton.b))
        x = np.clip(t, 0, tau)
        return np.append(newton.w - X.T @ (y * x), -(y @ x)), (t > 0) & (t < tau)

    assert len(newton._y) == 400
    g, inside = gradient()
    before = np.append(newton.w, newton.b)
    newton._update = lambda: False  # test the step alone
    newton.step()
    step = np.append(newton.w, newton.b) - before
    Z = np.column_stack([X, np.ones(400)])[inside]
    hessian = newton.sigma * 0.7 * Z.T @ Z + np.diag([1.0, 1.0, 1.0, 0.0])
    full = np.linalg.solve(hessian, -g)
    np.testing.assert_allclose(step / np.linalg.norm(step), full / np.linalg.norm(full), atol=1e-9)
    assert np.linalg.norm(step) <= np.linalg.norm(full) * (1 + 1e-9)
