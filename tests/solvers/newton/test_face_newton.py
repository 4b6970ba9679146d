"""Newton steps on a predicted support, and the panels of K that they multiply by."""

from __future__ import annotations

import numpy as np
import pytest

import qpsvm
from qpsvm import RBF, Cached, L2SVMDual, Linear, MEBDual, Status, solve
from qpsvm.driver.fallback import run_with_store
from qpsvm.driver.selection import auto
from qpsvm.driver.trace import Limits
from qpsvm.solvers.newton.face_newton import FaceNewton
from qpsvm.solvers.newton.low_rank_model import LowRankModel, sample_model
from qpsvm.solvers.newton.lower_triangle import PANEL_ROWS, LowerTriangle

FACE_NEWTON = "face-newton"


def noisy(m, d=4, seed=0):
    """Points in a cloud whose labels are half a coin: most become support vectors."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    return X, np.where(X[:, 0] + rng.standard_normal(m) > 0, 1.0, -1.0)


@pytest.mark.parametrize("limit", [1 << 40, 0, 3 * PANEL_ROWS * PANEL_ROWS * 8])
def test_panels_multiply_whether_they_are_stored_or_not(limit):
    X, _ = noisy(3000)
    gram, rng = RBF(X, 0.3), np.random.default_rng(1)
    triangle = LowerTriangle(gram, limit)
    some = rng.permutation(len(X))[:1700]
    triangle.add(some[:1100])
    triangle.add(some[1100:])
    assert triangle.n_bytes <= limit
    np.testing.assert_array_equal(triangle.rows, some)
    v, K = rng.standard_normal(len(some)), gram.block(some, some)
    np.testing.assert_allclose(triangle.product(v), K @ v, rtol=1e-12, atol=1e-12)
    wanted = rng.random(len(some)) < 0.3
    part = np.where(wanted, v, 0.0)
    found = triangle.product(part, wanted)
    np.testing.assert_allclose(found[wanted], (K @ part)[wanted], rtol=1e-12, atol=1e-12)


def test_the_low_rank_model_solves_its_own_problem_and_its_preconditioner_inverts():
    X, y = noisy(600)
    gram = L2SVMDual(RBF(X, 0.3), y, C=2.0).as_qp().gram
    model = LowRankModel(gram, gram.kernel, 100, np.random.default_rng(0))
    u, _ = model.weights()
    F = model.F.astype(np.float64)
    whole = F @ F.T + np.diag(model.B)
    slope = whole @ u - 1.0
    assert u.min() >= 0.0 and slope[u == 0.0].min() > -5e-3 and abs(slope[u > 0.0]).max() < 5e-3
    face = np.flatnonzero(u)
    for part in (face, face[::2]):  # the second is reached by removal of points of the first
        model.restrict(part)
        v = np.random.default_rng(2).standard_normal(len(part))
        inner = whole[np.ix_(part, part)]
        np.testing.assert_allclose(inner @ model.solve(v), v, atol=1e-3 * abs(v).max())


def test_a_few_steps_reach_a_tiny_gap():
    X, y = noisy(4000)
    problem = L2SVMDual(RBF(X, 0.3), y)
    ours = solve(problem, FACE_NEWTON, tol=1e-9)
    assert ours.converged and ours.n_iter <= 15
    other = solve(problem, "decomposition", tol=1e-6)
    assert ours.certificate.upper <= other.certificate.upper * (1 + 1e-9)
    assert other.certificate.lower <= ours.certificate.lower * (1 + 1e-9)


def test_points_that_the_model_missed_become_rows():
    X, y = noisy(3000)
    problem = L2SVMDual(RBF(X, 3.0), y, C=5.0)
    poor = solve(problem, FACE_NEWTON, rank=2, margin=0.0, tol=1e-6)
    assert poor.converged
    few = FaceNewton(rank=2, margin=0.0)
    qp = problem.as_qp()
    with qp.with_store(1 << 30) as stored:
        first = len(few.init(stored, None, np.random.default_rng(0)).rows)
    assert poor.counters["columns"] > first


@pytest.mark.parametrize(("gamma", "options"), [(0.3, {}), (3.0, {"rank": 2, "margin": 0.0})])
def test_the_error_of_the_maintained_product_is_within_its_bound(gamma, options):
    X, y = noisy(2500)
    found = []

    class Checked(FaceNewton):
        def approximate_products(self, problem, state):
            products = super().approximate_products(problem, state)
            exact = problem.gram.product(products.x)
            rounding = problem.entry_roundoff(products.x)
            assert np.all(np.abs(exact - products.product) <= products.error + rounding)
            found.append(np.median(products.error) / problem.scale)
            return products

    qp = L2SVMDual(RBF(X, gamma), y, C=5.0).as_qp()
    outcome = run_with_store(qp, Checked(goal=1e-9, **options), None, Limits(1e-9, 60), 1 << 30, 0)
    assert outcome.status is Status.OPTIMAL and found
    assert min(found) < 1e-3  # the bound says something


def test_memory_is_kept_and_the_answer_the_same():
    X, y = noisy(3000)
    problem = L2SVMDual(RBF(X, 0.3), y)
    limit = 8_000_000
    tight = solve(problem, FACE_NEWTON, tol=1e-6, memory_limit=limit)
    assert tight.converged and tight.counters["bytes"] <= limit
    free = solve(problem, FACE_NEWTON, tol=1e-6)
    assert tight.value == pytest.approx(free.value, rel=2e-6)


def test_a_start_and_an_early_end():
    X, y = noisy(3000)
    problem = L2SVMDual(RBF(X, 0.3), y)
    solved = solve(problem, FACE_NEWTON, tol=1e-6)
    again = solve(problem, FACE_NEWTON, x0=solved, tol=1e-6)
    assert again.converged and again.n_iter <= 1
    early = solve(problem, FACE_NEWTON, tol=1e-9, max_iter=1)
    assert early.status is Status.MAX_ITER and early.certificate.gap < np.inf
    assert early.certificate.violation <= 1e-12


def test_the_automatic_choice_solves_a_sample():
    X, y = noisy(6000)
    problem = L2SVMDual(RBF(X, 0.3), y)
    assert sample_model(problem.as_qp()).share > 0.5
    result = solve(problem)
    assert result.method == "face-newton" and "sample" in result.reason and result.converged
    few = np.where(X[:, 0] > 0, 1.0, -1.0)
    for other in (
        L2SVMDual(RBF(X, 0.05), few),  # few support vectors
        L2SVMDual(RBF(X, 0.3), y, C=1e3),  # a weak ridge
        L2SVMDual(RBF(X, 30.0), y),  # a Gram that no short factor describes
        L2SVMDual(Cached(RBF(X, 0.3)), y),  # columns to be kept
        MEBDual(RBF(X, 0.3)),  # no ridge
    ):
        assert auto(other.as_qp())[0] == "decomposition"


def test_decomposition_continues_where_it_does_not_end(monkeypatch):
    X, y = noisy(6000)
    monkeypatch.setattr(FaceNewton, "default_max_iter", lambda self, problem: 1)
    monkeypatch.setattr(qpsvm.driver.selection, "MAX_REST_RATIO", np.inf)
    result = solve(L2SVMDual(RBF(X, 2.0), y, C=1.5), tol=1e-8)
    assert result.method == "face-newton + decomposition"
    assert "warm start of decomposition" in result.reason and result.status is Status.OPTIMAL


def test_points_at_zero_are_no_exception():
    result = solve(L2SVMDual(Linear(np.zeros((5, 2))), [1, 1, -1, 1, -1]), FACE_NEWTON, tol=1e-6)
    assert result.converged
