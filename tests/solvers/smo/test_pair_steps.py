"""The compiled steps of `smo` against their definition, written in plain numpy, one step at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    HingeDual,
    L2SVMDual,
    Linear,
    MEBDual,
    PolytopeDistanceDual,
    SVDDDual,
    solve,
)
from qpsvm.gram import column_store
from qpsvm.numerics.work_sharing import TILE_POINTS
from qpsvm.solvers.base import Stop
from qpsvm.solvers.smo.pair_data import pair_data
from qpsvm.solvers.smo.smo import SMO
from qpsvm.solvers.smo.stopping import GapTest, is_closed
from qpsvm.solvers.working_set.working_set import extremes
from tests.solvers.smo.cases import (
    PROBLEM_KINDS,
    assert_bounds_are_reached_exactly,
    index_sets,
    started,
)


@pytest.fixture(autouse=True)
def columns_one_by_one(monkeypatch):
    """Steps read columns, as for many points: on few points they are made on the whole matrix."""
    monkeypatch.setattr(column_store, "MAX_POINTS_FILLED_AT_ONCE", 0)


def plain_step(state, Q, s):
    """Return the first coordinate, the gain of each second one, and the step length with it.

    The first has the least s of I_up, in the group of maximum violation; with the second the decrease of
    the value along the pair, not clipped, is greatest.
    """
    in_up, in_low = index_sets(state)
    least, violation = -1, 0.0
    for g in range(len(state.up_barrier)):
        up, low = (np.flatnonzero(among & (state.group == g)) for among in (in_up, in_low))
        if len(up) and len(low) and np.max(s[low]) - np.min(s[up]) > violation:
            least, violation = up[np.argmin(s[up])], np.max(s[low]) - np.min(s[up])
    difference = s - s[least]
    is_second = in_low & (state.group == state.group[least]) & (difference > 0)
    curvature = np.diag(Q) + Q[least, least] - 2.0 * state.z[least] * state.z * Q[least]
    curvature = np.maximum(curvature, 1e-12 * np.max(np.diag(Q)))
    gains = np.where(is_second, difference**2 / curvature, 0.0)
    slack = np.where(state.z > 0, state.upper - state.x, state.x)[least]
    slacks = np.where(state.z > 0, state.x, state.upper - state.x)
    return least, gains, np.minimum(difference / curvature, np.minimum(slack, slacks))


@pytest.mark.parametrize("m", [60, TILE_POINTS + 30])
@pytest.mark.parametrize("kind", PROBLEM_KINDS)
def test_a_step_moves_the_pair_of_the_definition_by_its_length(kind, m):
    X, y = two_clouds(m, 3, seed=2)
    with started(PROBLEM_KINDS[kind](RBF(X, 0.5), y)) as (problem, state):
        Q = problem.gram.matrix() + np.diag(problem.gram.ridge)
        for _ in range(60):
            x = state.x.copy()
            s = state.z * (Q @ x + problem.linear)
            np.testing.assert_allclose(state.s, s, rtol=0, atol=1e-10)
            i, gains, lengths = plain_step(state, Q, state.s)  # rounding decides between equal ones
            assert SMO().advance(problem, state, 1).stop is Stop.BUDGET
            moved = np.flatnonzero(state.x != x)
            assert len(moved) == 2 and i in moved
            j = moved[moved != i][0]
            assert gains[j] >= (1.0 - 1e-5) * np.max(gains)  # compared in single precision
            change = state.z * (state.x - x)
            assert change[i] == pytest.approx(lengths[j], rel=1e-9)
            assert change[j] == pytest.approx(-lengths[j], rel=1e-9)


def test_a_step_on_the_box_alone_moves_the_coordinate_of_greatest_gain():
    X, y = two_clouds(90, 3, seed=2)
    with started(HingeDual(RBF(X, 0.5), y, 0.5, bias=False)) as (problem, state):
        Q = problem.gram.matrix()
        for _ in range(60):
            x = state.x.copy()
            s = Q @ x + problem.linear
            slope = np.maximum(np.where(x < state.upper, -s, 0.0), np.where(x > 0, s, 0.0))
            gains = np.maximum(slope, 0.0) ** 2 / np.diag(Q)
            SMO().advance(problem, state, 1)
            (i,) = np.flatnonzero(state.x != x)
            assert gains[i] >= (1.0 - 1e-9) * np.max(gains)
            assert state.x[i] == pytest.approx(np.clip(x[i] - s[i] / Q[i, i], 0.0, 0.5), rel=1e-9)


@pytest.mark.parametrize("kind", ["hinge", "weighted", "nu-svc", "soft ball"])
def test_weights_that_reach_a_bound_have_it_exactly(kind):
    """Otherwise a coordinate would stay in an index set by its rounding, and take steps of no length."""
    X, y = two_clouds(80, 3, seed=4)
    with started(PROBLEM_KINDS[kind](RBF(X, 0.5), y)) as (problem, state):
        assert_bounds_are_reached_exactly(problem, state)


@pytest.mark.parametrize("m", [TILE_POINTS - 1, 2 * TILE_POINTS + 5])
@pytest.mark.parametrize("declare", [HingeDual, L2SVMDual, MEBDual, PolytopeDistanceDual, SVDDDual])
def test_the_data_that_steps_maintain_equal_recomputed_data(declare, m):
    X, y = two_clouds(m, 3, seed=5)
    K = RBF(X, 0.5)
    declared = declare(K) if declare is MEBDual else declare(K, 0.01 if declare is SVDDDual else y)
    with started(declared, m) as (problem, state):
        n = 0
        while n < 150:
            n += SMO().advance(problem, state, 150 - n).steps
            data, cols = state.pair_data, problem.columns()
            recomputed = pair_data(cols, state.z, state.s, state.up_barrier, state.low_barrier)
            assert data.n_low == recomputed.n_low
            names = "side diagonal mark low high all_up max_diagonal all_positive"
            for field in names.split():
                np.testing.assert_array_equal(
                    getattr(data, field), getattr(recomputed, field), field
                )
            n_low = int(recomputed.n_low[0])
            assert set(data.low_list[:n_low]) == set(recomputed.low_list[:n_low])


def test_a_set_product_discards_the_data_of_the_steps():
    X, y = two_clouds(70, 3, seed=6)
    with started(PROBLEM_KINDS["hinge"](RBF(X, 0.5), y)) as (problem, state):
        SMO().advance(problem, state, 20)
        state.x *= 0.5  # feasible: the hyperplane goes through 0
        SMO().refresh(problem, state, problem.product(state.x))
        assert state.pair_data is None
        np.testing.assert_allclose(state.product, problem.product(state.x), atol=1e-12)
        before = 0.5 * state.x @ state.product + problem.linear @ state.x
        SMO().advance(problem, state, 20)
        after = 0.5 * state.x @ state.product + problem.linear @ state.x
        assert after < before and problem.domain.violation(state.x) < 1e-12


@pytest.mark.parametrize("kind", ["hinge", "hulls", "ball"])
def test_columns_wanted_are_those_of_the_maximum_violators(kind):
    """Half of them for each direction and group, none that is cached."""
    X, y = two_clouds(200, 3, seed=7)
    with started(PROBLEM_KINDS[kind](RBF(X, 0.5), y)) as (problem, state):
        SMO().advance(problem, state, 30)
        slot = np.where(np.arange(problem.m) % 3 == 0, 0, -1)  # some are cached
        wanted, in_up = state.wanted(slot, 16), index_sets(state)[0]
        assert np.all(slot[wanted] < 0)
        n_groups = len(state.up_barrier)
        for g in range(n_groups):
            up = np.flatnonzero(in_up & (state.group == g) & (slot < 0))
            least = up[np.argsort(state.s[up])[: 16 // n_groups // 2]]
            assert set(least) <= set(wanted)


@pytest.mark.parametrize("kind", ["hinge", "l2-svm", "ball"])
def test_eight_cached_columns_suffice(kind):
    """Columns are evicted and evaluated again; each answer lies within the bounds of the other."""
    X, y = two_clouds(300, 3, seed=8)
    problem = PROBLEM_KINDS[kind](RBF(X, 0.5), y)
    few, every = (
        solve(problem, "smo", tol=1e-5, memory_limit=limit) for limit in (8 * 8 * 300, 1 << 28)
    )
    assert few.converged and every.converged
    assert few.counters["columns"] > every.counters["columns"]
    assert few.certificate.lower <= every.certificate.upper
    assert every.certificate.lower <= few.certificate.upper


def test_steps_stall_where_the_value_is_unbounded_along_a_pair():
    """Two equal points of both classes have no curvature, and no hyperplane separates them."""
    problem = HingeDual(Linear([[1.0], [1.0]]), [1, -1], np.inf)
    with started(problem) as (form, state):
        stops = [SMO().advance(form, state, 5).stop for _ in range(2)]
        assert stops == [Stop.STALLED] * 2 and np.all(np.isfinite(state.x))


@pytest.mark.parametrize(
    ("kind", "ridge"),
    [
        *((kind, 0.0) for kind in PROBLEM_KINDS),
        ("l2-svm", 0.5), ("ball", 0.5), ("hulls", 0.5), ("hulls", [0.0, 0.1, 2.0]),
    ],
)  # fmt: skip
def test_an_estimate_of_the_gap_is_near_the_gap_and_no_less(kind, ridge):
    """It is the gap for some multipliers, and that of the best ones is the least."""
    X, y = two_clouds(300, 3, seed=2)
    with started(PROBLEM_KINDS[kind](RBF(X, 0.5), y)) as (form, state):
        if ridge:
            gram = replace(form.gram, ridge=np.resize(ridge, form.m).astype(float))
            form = replace(form, gram=gram)
            state = SMO().init(form, None, np.random.default_rng(0))
        SMO().advance(form, state, 200)
        bounds = form.bounds(state.x, state.product)
        share = bounds.gap / max(abs(bounds.upper), abs(bounds.lower))
        arrays = form.gram.ridge, state.z, state.upper, state.x, state.s
        bounded = bool(np.isfinite(state.upper[0]))
        tests = [
            GapTest(state.group, form.linear, form.constant, tol, bounded, form.gram.ridged)
            for tol in (0.999 * share, 2 * share)
        ]
        closed = []
        for test in tests:
            low, high = extremes(state.s, state.up_barrier, state.low_barrier)
            closed.append(is_closed(low, high, *arrays, test))
        assert closed == [False, True]


@pytest.mark.parametrize(
    "declare",
    [
        *(PROBLEM_KINDS[kind] for kind in ("hinge", "weighted", "l2-svm", "ball", "soft ball")),
        lambda K, y: HingeDual(K, y, 0.5, bias=False),
        lambda K, y: L2SVMDual(K, y, 0.5, bias=False),
    ],
)
def test_steps_end_for_a_check_where_the_gap_is_closed(declare):
    X, y = two_clouds(300, 3, seed=2)
    result = solve(declare(RBF(X, 0.5), y), "smo", tol=1e-4)
    assert result.converged and len(result.history) <= 3
    assert result.n_iter < SMO.first_check
