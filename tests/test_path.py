"""Paths: each value is solved as it would be alone, from the last answer, on kept columns."""

from __future__ import annotations

import numpy as np
import pytest

from problems.clouds import two_clouds, weights
from qpsvm import (
    RBF,
    Cached,
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    L2SVRDual,
    Linear,
    LowRank,
    LPSVMPrimal,
    LSSVMPrimal,
    MEBDual,
    NuSVCDual,
    NuSVRDual,
    OneClassDual,
    PolytopeDistanceDual,
    Status,
    SVDDDual,
    SVRDual,
    solve,
    solve_path,
)

X, Y = two_clouds(150, 4, seed=41)
K = RBF(X, 0.3)
PATH_CASES = {
    "hinge": (HingeDual(K, Y), "C", [10.0, 0.1, 1.0, 100.0]),
    "l2-svm": (L2SVMDual(K, Y), "C", [1.0, 1e3, 0.01]),
    "one-class": (OneClassDual(K), "nu", [0.9, 0.1, 0.5, 1.0]),
    "nu-svc": (NuSVCDual(K, Y, 0.4), "nu", [0.7, 0.2, 0.5, 1.0]),
    "svdd": (SVDDDual(K), "C", [0.01, 0.5, 0.05, 1.0]),
    "svr": (SVRDual(K, X[:, 0] + Y), "C", [10.0, 0.1, 1.0, 100.0]),
    "svr-epsilon": (SVRDual(K, X[:, 0] + Y), "epsilon", [0.0, 1.0, 0.1]),
    "svr-no-bias": (SVRDual(K, X[:, 0] + Y, bias=False), "C", [1.0, 0.1]),
    "l2-svr": (L2SVRDual(K, X[:, 0] + Y), "C", [1.0, 10.0, 0.1]),
    "l2-svr-epsilon": (L2SVRDual(Linear(X), X[:, 0] + Y), "epsilon", [0.0, 1.0, 0.1]),
    "nu-svr": (NuSVRDual(K, X[:, 0] + Y), "nu", [0.5, 0.1, 1.0, 0.3]),
    "nu-svr-C": (NuSVRDual(K, X[:, 0] + Y), "C", [10.0, 0.1, 1.0]),
    "polytopes": (PolytopeDistanceDual(K, Y), "chi", [1.0, 0.1, 10.0]),
    "primal": (HingePrimal(X, Y), "C", [0.1, 1.0]),
    "linear": (HingeDual(Linear(X), Y), "C", [0.1, 1.0]),
    "gamma": (HingeDual(K, Y), "gamma", [1.0, 0.1, 0.3]),
    "gamma-of-a-ball": (MEBDual(Cached(K)), "gamma", [1.0, 0.1]),
}


@pytest.mark.parametrize(("problem", "name", "values"), PATH_CASES.values(), ids=PATH_CASES)
@pytest.mark.parametrize("method", ["auto", "smo"])
def test_each_answer_is_that_of_a_solve_alone(problem, name, values, method):
    path = solve_path(problem, name, values, method, tol=1e-7)
    for value, result in zip(values, path, strict=True):
        (alone,) = solve_path(problem, name, [value], method, tol=1e-7)
        assert result.converged and alone.converged
        assert result.value == pytest.approx(alone.value, rel=2e-7)


@pytest.mark.parametrize("method", ["smo", "decomposition"])
def test_columns_are_computed_once(method):
    path = solve_path(HingeDual(K, Y), "C", np.geomspace(0.1, 100, 6), method, tol=1e-6)
    assert 0 < sum(result.counters["columns"] for result in path) <= 150
    kept = Cached(K)
    solve_path(HingeDual(kept, Y), "C", [0.1, 100.0], method)
    assert sum(r.counters["columns"] for r in solve_path(HingeDual(kept, Y), "C", [1.0])) < 20


@pytest.mark.parametrize("declare", [HingeDual, L2SVMDual])
@pytest.mark.parametrize("method", ["smo", "decomposition"])
def test_a_warm_start_saves_steps(declare, method):
    """A quarter of them and more; where the start is not used the shares are equal."""
    values, steps = np.geomspace(1, 10, 11), np.zeros(2)
    for seed in (41, 42, 43, 44):  # checks come every 200 steps: one path would say little
        points, labels = two_clouds(150, 4, seed=seed)
        gram = RBF(points, 0.3)
        warm = solve_path(declare(gram, labels), "C", values, method, tol=1e-4)
        cold = [solve(declare(gram, labels, C=C), method, tol=1e-4) for C in values]
        steps += [sum(result.counters["pair"] for result in path) for path in (warm, cold)]
    assert steps[0] < 0.88 * steps[1]


def test_a_value_that_was_solved_costs_nothing():
    path = solve_path(HingeDual(K, Y), "C", [3.0, 3.0], "smo", tol=1e-6)
    assert (path.name, path.values) == ("C", [3.0, 3.0])
    assert path[0].n_iter > 0 == path[1].n_iter


def test_numbers_ascend_and_other_values_keep_their_order():
    seen = []
    C = weights(150, seed=42)

    def callback(progress):
        seen.append(progress.x.max())

    solve_path(HingeDual(K, Y), "C", [5.0, 0.5], "smo", max_iter=0, callback=callback)
    assert len(seen) == 2
    path = solve_path(HingeDual(K, Y), "C", [2.0 * C, C], "smo", tol=1e-6)
    for result, given in zip(path, (2.0 * C, C), strict=True):
        assert result.converged and np.all(result.x <= given)
        assert result.value == pytest.approx(solve(HingeDual(K, Y, C=given)).value, rel=2e-3)


def test_a_limit_stops_one_solve_alone():
    path = solve_path(HingeDual(K, Y), "C", [1e3, 1e4], "smo", tol=1e-9, max_iter=5)
    assert [result.status for result in path] == [Status.MAX_ITER] * 2


def test_infinite_penalties_start_cold():
    path = solve_path(HingeDual(RBF(X, 10.0), Y), "C", [1.0, np.inf], "smo", tol=1e-6)
    assert all(result.converged for result in path)


def test_what_cannot_vary_is_said():
    with pytest.raises(InputError, match=r"'C', 'gamma'\); got 'nu'"):
        solve_path(HingeDual(K, Y), "nu", [0.1])
    with pytest.raises(InputError, match="name"):
        solve_path(MEBDual(X @ X.T), "gamma", [0.1])
    with pytest.raises(InputError, match="nu must be"):
        solve_path(OneClassDual(K), "nu", [0.1, 2.0])
    with pytest.raises(InputError, match="x0"):
        solve_path(HingeDual(K, Y), "C", [1.0], x0=np.zeros(150))
    with pytest.raises(InputError, match="formulation"):
        solve_path(K, "C", [1.0])
    assert solve_path(HingeDual(K, Y), "C", []) == []


@pytest.mark.parametrize("C", [0.1, 0.9, 1.0, 3.0, 1e3])
def test_a_hinge_start_is_feasible_and_adds_no_support(C):
    before = HingeDual(K, Y, C=1.0)
    result = solve(before, tol=1e-6)
    x = HingeDual(K, Y, C=C).carried(before, result)
    assert abs(Y @ x) <= 1e-13 * x.sum() and np.all((0 <= x) & (x <= C))
    assert set(np.flatnonzero(x)) <= set(result.support) and x.any()
    assert (C != 1.0) or np.allclose(x, result.x, rtol=1e-9)


def test_points_may_leave_and_come_back_along_a_path():
    some, other = weights(150, seed=43), np.roll(weights(150, seed=43), 1)
    for result, C in zip(
        solve_path(HingeDual(K, Y), "C", [some, other, some]), (some, other, some), strict=True
    ):
        assert result.converged and not result.x[C == 0].any()


PRIMAL_CASES = {
    "hinge": lambda gram: HingePrimal(gram, Y, C=2.0),
    "least-squares": lambda gram: LSSVMPrimal(gram, Y, C=2.0),
    "linear-programming": lambda gram: LPSVMPrimal(gram, Y, C=2.0),
}


@pytest.mark.parametrize("declare", PRIMAL_CASES.values(), ids=PRIMAL_CASES)
def test_a_kernel_parameter_of_a_primal_machine_varies(declare):
    values = [1.0, 0.1, 0.3]
    path = solve_path(declare(RBF(X)), "gamma", values, tol=1e-5)
    for value, result in zip(values, path, strict=True):
        alone = solve(declare(RBF(X, value)), tol=1e-5)
        assert result.converged and result.value == pytest.approx(alone.value, rel=2e-5)
    path = solve_path(declare(RBF(X, 0.3)), "C", [1.0, 5.0], tol=1e-4)
    assert path[0].converged and path[1].converged and path[0].value < path[1].value


@pytest.mark.parametrize("declare", [PRIMAL_CASES["hinge"], PRIMAL_CASES["least-squares"]])
@pytest.mark.parametrize("method", ["auto", "homotopy-nesvm"])
def test_the_rank_of_a_primal_machine_varies(declare, method):
    low = LowRank(RBF(X, 0.3), rank=30)
    path = solve_path(declare(low), "rank", [10, 40], method, tol=1e-4)
    for rank, result in zip([10, 40], path, strict=True):
        alone = solve(declare(LowRank(RBF(X, 0.3), rank=rank)), method, tol=1e-4)
        assert result.converged and result.value == pytest.approx(alone.value, rel=2e-4)


def test_points_have_no_kernel_parameter():
    with pytest.raises(InputError, match=r"\('C'\); got 'gamma'"):
        solve_path(HingePrimal(X, Y), "gamma", [0.1])
