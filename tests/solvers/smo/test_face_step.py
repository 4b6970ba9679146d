"""Newton steps on the face of the free weights, between pair steps."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import RBF, HingeDual, L2SVMDual, MEBDual, NuSVCDual, PolytopeDistanceDual, solve
from qpsvm.solvers.smo.face_step import face_step
from qpsvm.solvers.smo.smo import PairState


def noisy(m, d=4, seed=0):
    """Points in a cloud whose labels are half a coin: many become support vectors."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    return X, np.where(X[:, 0] + rng.standard_normal(m) > 0, 1.0, -1.0)


def stepped(qp, x):
    """Return the weights after a step from x and the change of G x, or None."""
    with qp.with_store(1 << 30) as problem:
        problem.store.ensure(np.arange(qp.m))
        state = PairState.at(problem, x)
        f = state.z * state.s
        return face_step(problem, state.group, state.z, state.x, state.upper, f)


def value(qp, x):
    Q = qp.gram.matrix() + np.diag(qp.gram.ridge)
    return 0.5 * x @ Q @ x + qp.linear @ x


def test_where_no_bound_is_met_the_step_solves_the_linear_system():
    X, y = noisy(50)
    qp = L2SVMDual(RBF(X, 0.3), y, 0.01).as_qp()
    x = np.random.default_rng(1).random(50)
    found, change = stepped(qp, x / x.sum())
    u = np.linalg.solve(qp.gram.matrix() + np.diag(qp.gram.ridge), np.ones(50))
    assert u.min() > 0.0
    np.testing.assert_allclose(found, u / u.sum(), rtol=1e-9)
    np.testing.assert_allclose(change, qp.gram.product(found - x / x.sum()), atol=1e-12)


PROBLEM_KINDS = {
    "l2-svm": lambda K, y: L2SVMDual(K, y, 100.0),
    "hinge": lambda K, y: HingeDual(K, y, 0.4),
    "ball": lambda K, y: MEBDual(K),
    "distance": lambda K, y: PolytopeDistanceDual(K, y, chi=0.01),
    "capped": lambda K, y: NuSVCDual(K, y, 0.7),
}


@pytest.mark.parametrize("kind", PROBLEM_KINDS)
@pytest.mark.parametrize("n_free", [2, 20, 60])
def test_a_step_stays_in_the_domain_and_decreases_the_value(kind, n_free):
    X, y = noisy(60)
    qp = PROBLEM_KINDS[kind](RBF(X, 0.3), y).as_qp()
    rng, n_made = np.random.default_rng(2), 0
    for _ in range(10):
        n_pairs = min(n_free // 2, np.count_nonzero(y > 0), np.count_nonzero(y < 0))
        x, weights = np.zeros(60), rng.uniform(0.05, 0.35, n_pairs)
        for label in (-1.0, 1.0):  # equal sums of both classes, as a hinge dual has them
            x[np.flatnonzero(y == label)[:n_pairs]] = weights
        x = x if kind == "hinge" else qp.domain.project(x)
        found = stepped(qp, x)
        if found is None:
            continue
        n_made += 1
        assert qp.violation(found[0]) <= 1e-12
        assert value(qp, found[0]) < value(qp, x)
        assert not np.any(found[0][(x == 0.0)])
        np.testing.assert_allclose(found[1], qp.gram.product(found[0] - x), atol=1e-10)
    assert n_made > 0


@pytest.mark.parametrize("C", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("loss", [L2SVMDual, HingeDual])
def test_large_penalties_are_solved_by_newton_steps(loss, C):
    X, y = noisy(200)
    problem = loss(RBF(X, 0.3), y, C)
    result = solve(problem, "smo", tol=1e-8)
    assert result.converged and result.counters["newton"] > 0
    fallback = "mnp" if loss is L2SVMDual else "pdipm"
    assert result.value == pytest.approx(solve(problem, fallback, tol=1e-7).value, rel=2e-7)


def test_a_singular_face_has_no_step():
    X = np.repeat(np.eye(3), 20, axis=0)
    y = np.tile([1.0, -1.0], 30)
    qp = HingeDual(X @ X.T, y, 1.0).as_qp()
    assert stepped(qp, np.full(60, 0.5)) is None
    assert solve(HingeDual(X @ X.T, y, 1.0), "smo").converged
