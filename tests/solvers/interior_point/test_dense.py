"""The interior point method on the matrix of all points, and as a fallback of slow pair steps."""

from __future__ import annotations

import numpy as np
import pytest

import qpsvm
import reference
from problems import INSTANCES
from qpsvm import (
    RBF,
    L2SVMDual,
    Linear,
    NuSVCDual,
    OneClassDual,
    PolytopeDistanceDual,
    Status,
    SVDDDual,
    SVRDual,
)
from qpsvm.gram.factor import MAX_POINTS_FOR_KERNEL_FACTOR


def intersecting_hulls():
    """Return reduced hulls that intersect to working precision: pair steps need 1e5 and more."""
    rng = np.random.RandomState(2)
    X = rng.uniform(size=(80, 3))
    X[X < 0.6] = 0.0
    labels = (4.0 * rng.uniform(size=80)).astype(int)
    return NuSVCDual(RBF(X, "scale"), np.where(labels == 1, 1, -1), 0.2)


def test_auto_goes_on_with_it_where_pair_steps_are_slow():
    problem = intersecting_hulls()
    slow = qpsvm.solve(problem, "smo", tol=1e-6, max_iter=20_000)
    assert not slow.converged
    result = qpsvm.solve(problem, tol=1e-6)
    assert result.status is Status.OPTIMAL
    assert result.method == "smo + pdipm" and "warm start of pdipm" in result.reason
    assert result.counters["factors"] <= 60


@pytest.mark.parametrize(
    "name",
    [
        "svr/random-rbf-C10",
        "svr/random-weighted",
        "nu_svr/random-rbf-nu0.5",
        "one_class/breast-cancer-rbf",
        "svdd/breast-cancer-rbf",
        "l2_svm/random-linear-C1e3",
        "meb/two-points",
    ],
)
def test_the_answer_is_that_of_the_reference(name):
    instance = INSTANCES[name]
    result = qpsvm.solve(instance.declare(), "pdipm", tol=1e-8)
    assert result.status is Status.OPTIMAL and result.n_iter <= 60
    assert result.value == pytest.approx(reference.answer(instance).value, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-60, 1e-8, 1e8, 1e60])
def test_units_do_not_matter(scale):
    rng = np.random.default_rng(1)
    X, C = rng.standard_normal((60, 4)), 2.0
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    unit = qpsvm.solve(SVRDual(Linear(X), y, C, epsilon=0.1), "pdipm", tol=1e-8)
    other = SVRDual(Linear(scale * X), scale * y, C / scale, epsilon=0.1 * scale)
    result = qpsvm.solve(other, "pdipm", tol=1e-8)
    assert result.status is unit.status is Status.OPTIMAL
    assert result.value == pytest.approx(unit.value, rel=1e-7)


def test_weights_at_their_bounds_are_there_exactly():
    X = np.random.default_rng(2).standard_normal((200, 3))
    result = qpsvm.solve(OneClassDual(RBF(X, 0.5), 0.2), "pdipm", tol=1e-9)
    exact = qpsvm.solve(OneClassDual(RBF(X, 0.5), 0.2), "smo", tol=1e-9)
    assert result.status is Status.OPTIMAL
    assert np.array_equal(result.x == 0.0, exact.x == 0.0)
    assert np.array_equal(result.x == result.x.max(), exact.x == exact.x.max())


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_a_start_is_taken_up(ratio):
    X = np.random.default_rng(3).standard_normal((80, 3))
    problem = SVDDDual(RBF(X, 0.5), 0.1)
    best = qpsvm.solve(problem, "pdipm", tol=1e-8)
    start = ratio * best.x + (1.0 - ratio) / len(X)
    again = qpsvm.solve(problem, "pdipm", tol=1e-8, x0=start)
    assert again.status is Status.OPTIMAL
    assert again.value == pytest.approx(best.value, rel=2e-8)


def test_a_limit_returns_bounds_that_enclose_the_optimum():
    X = np.random.default_rng(4).standard_normal((100, 3))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    best = qpsvm.solve(L2SVMDual(RBF(X, 0.5), y), "pdipm", tol=1e-9)
    for max_iter in range(8):
        result = qpsvm.solve(L2SVMDual(RBF(X, 0.5), y), "pdipm", tol=1e-9, max_iter=max_iter)
        c = result.certificate
        assert c.lower <= best.value * (1.0 + 1e-9) and best.value <= c.upper * (1.0 + 1e-9)


def test_many_points_and_unbounded_sets_are_left_to_others():
    one = np.ones((MAX_POINTS_FOR_KERNEL_FACTOR + 1, 1))
    assert "pdipm" not in qpsvm.methods(OneClassDual(Linear(one), 0.5))
    assert "pdipm" in qpsvm.methods(OneClassDual(Linear(one[:-1]), 0.5))
    hard = PolytopeDistanceDual(Linear([[0.0], [2.0]]), [-1, 1])
    assert "pdipm" in qpsvm.methods(hard)
    assert "pdipm" not in qpsvm.methods(qpsvm.HingeDual(Linear([[0.0], [2.0]]), [-1, 1], np.inf))
