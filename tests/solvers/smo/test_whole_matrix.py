"""Steps of `smo` where all columns are cached: on the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import RBF, HingeDual, NuSVRDual, Precomputed, SVRDual, solve
from qpsvm.gram import column_store
from qpsvm.solvers.base import Stop
from qpsvm.solvers.smo.smo import SMO
from tests.solvers.smo.cases import (
    PROBLEM_KINDS,
    assert_bounds_are_reached_exactly,
    assert_index_sets_are_those_of_the_weights,
    started,
)


@pytest.mark.parametrize("m", [5, 15, 16, 17, 250])
@pytest.mark.parametrize("kind", PROBLEM_KINDS)
def test_the_gradient_and_the_index_sets_are_those_of_the_weights(kind, m):
    """Also where a row is shorter than a vector."""
    X, y = two_clouds(m, 3, seed=4)
    with started(PROBLEM_KINDS[kind](RBF(X, 0.5), y)) as (problem, state):
        Q = problem.gram.matrix() + np.diag(problem.gram.ridge)
        value = 0.5 * state.x @ Q @ state.x + problem.linear @ state.x
        for n_steps in (1, 7, 40, 1000):
            reply = SMO().advance(problem, state, n_steps)
            assert reply.steps <= n_steps and problem.domain.violation(state.x) < 1e-12
            s = state.z * (Q @ state.x + problem.linear)
            np.testing.assert_allclose(state.s, s, rtol=0, atol=1e-11)
            assert_index_sets_are_those_of_the_weights(state)
            before, value = value, 0.5 * state.x @ Q @ state.x + problem.linear @ state.x
            assert value <= before + 1e-12


@pytest.mark.parametrize("kind", ["hinge", "weighted", "nu-svc", "soft ball"])
def test_weights_that_reach_a_bound_have_it_exactly(kind):
    X, y = two_clouds(80, 3, seed=4)
    with started(PROBLEM_KINDS[kind](RBF(X, 0.5), y)) as (problem, state):
        assert_bounds_are_reached_exactly(problem, state)


REGRESSION_KINDS = {
    "svr": lambda K, y: SVRDual(K, y, 5.0),
    "nu-svr": lambda K, y: NuSVRDual(K, y, 5.0),
}
"""Two coordinates share each column."""


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("kind", [*PROBLEM_KINDS, *REGRESSION_KINDS])
def test_the_answer_is_that_of_steps_on_columns(kind, tol, monkeypatch):
    """Each answer lies within the bounds of the other."""
    X, y = two_clouds(300, 3, seed=8)
    problem = (PROBLEM_KINDS | REGRESSION_KINDS)[kind](RBF(X, 0.5), y)
    whole = solve(problem, "smo", tol=tol)
    monkeypatch.setattr(column_store, "MAX_POINTS_FILLED_AT_ONCE", 0)
    by_columns = solve(problem, "smo", tol=tol)
    assert whole.converged  # without Newton steps the others may end at a limit, with bounds
    assert whole.certificate.lower <= by_columns.certificate.upper
    assert by_columns.certificate.lower <= whole.certificate.upper


def test_a_matrix_in_single_precision_is_read_as_it_is():
    X, y = two_clouds(200, 3, seed=3)
    K = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2)).astype(np.float32)
    result = solve(HingeDual(Precomputed(K, psd="assume"), y, 2.0), "smo", tol=1e-6)
    assert result.converged and result.counters["columns"] == 0


def test_steps_stall_at_the_optimum():
    """Nothing can move where all weights are at their bounds."""
    X, y = two_clouds(60, 2, seed=1)
    problem = PROBLEM_KINDS["hinge"](RBF(X, 0.5), np.where(y > 0, 1.0, 1.0))
    with started(problem) as (form, state):
        reply = SMO().advance(form, state, 5)
        assert reply.stop is Stop.STALLED and reply.steps == 0
