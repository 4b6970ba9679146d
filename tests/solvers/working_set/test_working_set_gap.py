"""The gap over a working set, which determines the accuracy to which `decomposition` solves it."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import (
    RBF,
    HingeDual,
    L2SVMDual,
    NuSVCDual,
    OneClassDual,
    PolytopeDistanceDual,
    SVDDDual,
    solve,
)
from qpsvm.solvers.shared.starting_points import pair_start
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set import decomposition, working_set
from qpsvm.solvers.working_set.decomposition import CHECK_PERIOD, Decomposition, _max_violators
from qpsvm.solvers.working_set.working_set import (
    WorkingSetState,
    add_to_working_set,
    extremes,
    solve_working_set,
)

PROBLEM_KINDS = {
    "hinge": lambda K, y: HingeDual(K, y, 10.0),
    "weighted": lambda K, y: HingeDual(K, y, np.where(y > 0, 1.0, 5.0)),
    "hard": lambda K, y: HingeDual(K, y, np.inf),
    "l2-svm": lambda K, y: L2SVMDual(K, y, 1.0),
    "one-class": lambda K, y: OneClassDual(K, 0.1),
    "nu-svc": lambda K, y: NuSVCDual(K, y, 0.2),
    "svdd": lambda K, y: SVDDDual(K, 0.01),
    "polytope": lambda K, y: PolytopeDistanceDual(K, y),
}


@pytest.fixture
def points(rng):
    X = rng.standard_normal((120, 3))
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(120) > 0, 1.0, -1.0)


def started(problem, working_set):
    state = WorkingSetState(PairState.at(problem, pair_start(problem, None)))
    add_to_working_set(problem, state, working_set)
    return state


def value(problem, x):
    product = problem.product(x)
    return 0.5 * x @ (product + problem.gram.ridge * x) + problem.linear @ x + problem.constant


@pytest.mark.parametrize("kind", PROBLEM_KINDS)
@pytest.mark.parametrize("goal", [1e-1, 1e-3, 1e-5])
def test_a_working_set_is_solved_until_the_gain_left_is_below_the_goal(points, kind, goal):
    X, y = points
    form = PROBLEM_KINDS[kind](RBF(X, 0.5), y).as_qp()
    with form.with_store(1 << 24) as problem:
        support = np.flatnonzero(pair_start(problem, None))
        state = started(problem, np.union1d(support, np.arange(0, problem.m, 2)))
        solve_working_set(problem, state, 1.0, 1e-10, goal)
        now, steps = value(problem, state.x), state.n_pairs
        solve_working_set(problem, state, 1e-10)
        gained = now - value(problem, state.x)
    assert -1e-9 <= gained <= goal
    if goal >= 1e-3 and kind != "hard":  # whose gap is infinite until it is solved to the end
        assert state.n_pairs > steps


def test_a_working_set_is_solved_until_its_gap_is_small_enough_and_no_further(points):
    X, y = points
    form = HingeDual(RBF(X, 0.5), y, 10.0).as_qp()
    with form.with_store(1 << 24) as problem:
        steps = []
        for least, goal in ((np.inf, 0.0), (1e-8, 1.0), (1e-8, 1e-4), (1e-8, 0.0), (0.1, 0.0)):
            state = started(problem, np.arange(problem.m))
            solve_working_set(problem, state, 1.0, least, goal)
            steps.append(state.n_pairs)
    plain, rough, fine, most, limited = steps
    assert plain < limited < most
    assert plain <= rough < fine < most


def test_the_last_working_sets_are_solved_for_the_target_gap(points):
    """The target gap is the tolerance of the solve, or the option `target`."""
    X, y = points
    problem = HingeDual(RBF(X, 0.5), y, 10.0)
    assert Decomposition().for_tolerance(1e-5).target == 1e-5
    assert Decomposition(target=1e-2).for_tolerance(1e-5).target == 1e-2
    loose, same, sharp = (
        solve(problem, "decomposition", tol=1e-3, target=target) for target in (0.9, 1e-3, 1e-9)
    )
    asked = solve(problem, "decomposition", tol=1e-3)
    assert asked.counters == same.counters and np.array_equal(asked.x, same.x)
    assert loose.converged and sharp.converged
    assert sharp.counters["pair"] > same.counters["pair"]


@pytest.mark.parametrize("kind", PROBLEM_KINDS)
@pytest.mark.parametrize("size", [2, 9, 400])
def test_maximum_violators_are_added_about_half_of_them_for_each_direction(points, kind, size):
    X, y = points
    form = PROBLEM_KINDS[kind](RBF(X, 0.5), y).as_qp()
    with form.with_store(1 << 24) as problem:
        state = started(problem, np.union1d(np.flatnonzero(pair_start(problem, None)), [0, 1, 2]))
        solve_working_set(problem, state, 0.1)
        pair, outside = state.pair, ~state.in_working_set
        low, high = extremes(pair.s, pair.up_barrier, pair.low_barrier)
        chosen = _max_violators(pair, outside, low, high, size)
    assert np.array_equal(chosen, np.unique(chosen)) and outside[chosen].all()
    n_groups = len(low)
    up = [
        np.flatnonzero(outside & (pair.s + pair.up_barrier[g] < high[g])) for g in range(n_groups)
    ]
    down = [
        np.flatnonzero(outside & (pair.s - pair.low_barrier[g] > low[g])) for g in range(n_groups)
    ]
    if size == 400:
        np.testing.assert_array_equal(chosen, np.unique(np.concatenate(up + down)))
        return
    assert len(chosen) <= size + n_groups
    for s, some in [(pair.s, some) for some in up] + [(-pair.s, some) for some in down]:
        taken = s[np.intersect1d(some, chosen)]
        assert len(taken) >= min(len(some), -(-size // n_groups) // 2)
        ways = [np.setdiff1d(some, chosen)] if n_groups == 1 and len(down[0]) == 0 else []
        assert all(s[dropped].min() >= taken.max() for dropped in ways if len(dropped))


def test_bounds_are_checked_once_the_violation_falls(rng):
    """Not while it is above that at the start, but after a few iterations in any case."""
    X = rng.standard_normal((2500, 5))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(2500) > 0, 1.0, -1.0)
    result = solve(HingeDual(RBF(X, 0.2), y, 10.0), "decomposition")
    checks = result.history.iteration.tolist()
    assert result.converged and result.n_iter > CHECK_PERIOD
    assert checks[:2] == [0, CHECK_PERIOD] and checks[-1] == result.n_iter


def test_coordinates_dropped_before_the_last_steps_keep_their_moves(points, monkeypatch):
    X, y = points
    form = HingeDual(RBF(X, 0.5), y, 10.0).as_qp()
    with form.with_store(1 << 24) as problem:
        state, dropped = started(problem, np.arange(problem.m)), []

        def shrink():
            s, settled = state.pair.s.copy(), problem.linear + problem.product(state.x)
            assert np.allclose(s, state.pair.z * settled, atol=1e-9)  # up to date, for it is read
            found = extremes(s, state.pair.up_barrier, state.pair.low_barrier)
            monkeypatch.setattr(working_set, "SHRINKING_MARGIN", 0.0)
            working_set.drop_from_working_set(problem.store, state, *found, problem.m)
            dropped.append(problem.m - len(state.working_set))

        solve_working_set(problem, state, 0.1, 1e-8, 0.0, shrink)
        assert dropped[0] >= 64 and len(state.working_set) == problem.m - dropped[0]
        gradient = problem.linear + problem.product(state.x)
        assert np.allclose(state.pair.s, state.pair.z * gradient, atol=1e-9)  # of all points
        low, high = extremes(*(a[..., state.working_set] for a in (
            state.pair.s, state.pair.up_barrier, state.pair.low_barrier)))  # fmt: skip
        assert np.max(high - low) <= 1.1e-8


def test_a_large_settled_working_set_is_shrunk_and_the_result_is_certified(points, monkeypatch):
    X, y = points
    drops = []
    drop = working_set.drop_from_working_set
    monkeypatch.setattr(decomposition, "MIN_SIZE_FOR_SHRINKING", 40)
    monkeypatch.setattr(
        decomposition, "drop_from_working_set", lambda *a: (drops.append(1), drop(*a))[1]
    )
    result = solve(HingeDual(RBF(X, 0.5), y, 10.0), "decomposition", tol=1e-6, merge=False)
    assert result.converged and len(drops) > result.n_iter


WITH_FULL_WEIGHTS = {
    "one-class": lambda K, y: OneClassDual(K, 0.5),
    "nu-svc": lambda K, y: NuSVCDual(K, y, 0.4),
    "hinge": lambda K, y: HingeDual(K, y, 1.0),
}


@pytest.mark.parametrize("kind", WITH_FULL_WEIGHTS)
def test_weights_at_their_bounds_start_outside_of_the_working_set(points, kind):
    """They are added where they violate, and the answer is that of a start with all of them."""
    X, y = points
    declared = WITH_FULL_WEIGHTS[kind](RBF(X, 0.5), y)
    exact = solve(declared, "smo", tol=1e-8)
    form = declared.as_qp()
    with form.with_store(1 << 24) as problem:
        full = exact.x >= form.domain.upper * (1.0 - 1e-9)
        x0 = np.where(full, form.domain.upper, exact.x)
        state = Decomposition().init(problem, x0, np.random.default_rng(0))
        free = (state.x > 0) & (state.x < form.domain.upper)
        assert full.sum() > 3
        np.testing.assert_array_equal(np.sort(state.working_set), np.flatnonzero(free))
    # the wrong points at their bounds
    start = form.domain.linear_min(exact.x)
    result = solve(declared, "decomposition", tol=1e-8, x0=start)
    assert result.converged and result.value == pytest.approx(exact.value, rel=2e-8)
