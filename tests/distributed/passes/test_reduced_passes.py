"""Constraint reduction in passes: normal matrices of the rows that matter."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from qpsvm import (
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    Linear,
    MethodMismatchError,
    Status,
    solve,
)
from qpsvm.distributed.passes.interior import choice
from qpsvm.distributed.passes.interior.matrix_rows import MatrixRows, counts_above
from qpsvm.distributed.rows import open_rows
from tests.distributed.conftest import CHUNK_ROWS, N_FEATURES, N_POINTS, OTHER_KINDS, other_points
from tests.distributed.passes.test_passes import assert_bounds_are_those_of_the_points, in_chunks
from tests.distributed.test_shards import assert_bounds_overlap


@pytest.fixture(scope="module")
def wide():
    """Points of 40 features of different scales, and noisy labels."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((N_POINTS, 40)) * np.linspace(0.1, 3.0, 40)
    f = X @ rng.standard_normal(40) + 2.0 * rng.standard_normal(N_POINTS)
    return X, np.where(f > 1.0, 1.0, -1.0)


class StatesOfShards:
    """Shards that hold weights and labels, and count what they are asked."""

    def __init__(self, shards):
        self.shards = shards

    def call(self, method, grid):
        assert method == "interior_counts"
        answers = []
        for y, d in self.shards:
            groups = [y > 0, y < 0] if len(grid) == 2 else [np.ones(len(y), bool)]
            answers.append(counts_above(d, groups, grid))
        return answers


def test_counts_are_those_of_the_definition():
    d, y = np.array([1.0, 2.0, 2.0, 5.0, 7.0]), np.array([1.0, 1.0, -1.0, -1.0, 1.0])
    grid = np.array([[1.0, 2.0, 7.0], [2.0, 3.0, 6.0]])
    counts, sums = counts_above(d, [y > 0, y < 0], grid)
    assert counts.tolist() == [[3.0, 2.0, 1.0], [2.0, 1.0, 0.0]]
    assert sums.tolist() == [[10.0, 9.0, 7.0], [7.0, 5.0, 0.0]]


@pytest.mark.parametrize("n_groups", [1, 2])
@pytest.mark.parametrize("count", [1, 30, 900, 1500])
def test_thresholds_take_the_rows_of_largest_weights_across_shards(n_groups, count):
    rng = np.random.default_rng(1)
    d, y = np.exp(10.0 * rng.standard_normal(1500)), np.where(rng.random(1500) < 0.2, 1.0, -1.0)
    d[100:140] = d[100]  # equal ones are taken together
    parts = [(y[:400], d[:400]), (y[400:], d[400:])]
    low, total, taken = choice._thresholds(StatesOfShards(parts), count, d.min(), d.max(), n_groups)
    is_chosen = MatrixRows(low, np.inf, 0).weights(y, d, 0) > 0.0
    assert count <= np.count_nonzero(is_chosen) <= 1.05 * count + 42
    assert total == pytest.approx(d.sum()) and taken == pytest.approx(d[is_chosen].sum())
    if n_groups == 2 and count == 30:
        assert min(np.count_nonzero(is_chosen[y > 0]), np.count_nonzero(is_chosen[y < 0])) >= 15


def test_a_sample_represents_the_rows_that_are_omitted():
    rng = np.random.default_rng(2)
    d, y = rng.uniform(0.1, 1.0, 5000), np.ones(5000)
    rows = MatrixRows(np.array([0.9]), d[d < 0.9].sum() / 400, 3)
    weights = rows.weights(y, d, 0)
    chosen = d >= 0.9
    np.testing.assert_array_equal(weights[chosen], d[chosen])
    assert np.count_nonzero(weights[~chosen]) in (399, 400, 401)
    assert weights.sum() == pytest.approx(d.sum(), rel=0.01)
    np.testing.assert_array_equal(weights, rows.weights(y, d, 0))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [1e-4, 0.1, 10.0, 1e4, "weighted"])
def test_the_machine_is_that_of_one_process_and_of_all_rows(small_sample, cloud, C, bias):
    X, y = cloud
    C = np.linspace(0.1, 2.0, N_POINTS) if C == "weighted" else C
    here = solve(HingePrimal(X, y, C=C, bias=bias), tol=1e-7)
    there = solve(HingePrimal(in_chunks(X), y, C=C, bias=bias), "crsvm", tol=1e-7)
    assert there.method == "crsvm" and there.converged
    assert_bounds_overlap(here, there)
    unreduced = solve(HingePrimal(in_chunks(X), y, C=C, bias=bias), "pdipm", tol=1e-7)
    assert_bounds_overlap(unreduced, there)
    few = solve(HingePrimal(in_chunks(X), y, C=C, bias=bias), "crsvm", tol=1e-7, q_upper=0.2)
    assert_bounds_overlap(here, few)
    assert few.counters["rows"] < 0.75 * N_POINTS * (few.n_iter + 1)
    new = X[:50] + 0.01
    size = np.abs(here.model.decision_function(new)).max()
    difference = there.model.decision_function(new) - here.model.decision_function(new)
    assert np.abs(difference).max() <= 0.02 * max(size, 1e-9)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("options", [{"q_upper": 25}, {"q_upper": 1, "theta": np.inf}, {}])
def test_poor_directions_are_refined(small_sample, wide, C, bias, options):
    X, y = wide
    rows = Linear(open_rows(X, chunk_bytes=8 * 40 * CHUNK_ROWS))
    here = solve(HingePrimal(X, y, C=C, bias=bias), tol=1e-6)
    there = solve(HingePrimal(rows, y, C=C, bias=bias), "crsvm", tol=1e-6, **options)
    assert there.converged
    assert_bounds_overlap(here, there)
    if C == 1.0 and "q_upper" in options:
        assert there.counters["cg"] > 0


@pytest.mark.parametrize(
    "options",
    [
        {"reduction": "paper"},
        {"reduction": "paper", "q_upper": 0.05},
        {"reduction": None},
        {"balanced": False},
        {"adaptive": False, "q_upper": 200},
        {"beta": 2.0, "theta": 10.0},
    ],
)
def test_the_options_of_one_process(small_sample, cloud, options):
    X, y = cloud
    for bias in (True, False):
        here = solve(HingePrimal(X, y, C=0.3, bias=bias), tol=1e-6)
        there = solve(HingePrimal(in_chunks(X), y, C=0.3, bias=bias), "crsvm", tol=1e-6, **options)
        assert there.converged
        assert_bounds_overlap(here, there)
        if options.get("reduction", "") is None:
            assert there.counters["rows"] == N_POINTS * there.n_iter


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_points(small_sample, cloud, kind):
    X, y = other_points(cloud, kind, 1e6)
    for bias in (True, False):
        here = solve(HingePrimal(X, y, C=0.2, bias=bias), tol=1e-5)
        rows = open_rows(X, chunk_bytes=8 * N_FEATURES * CHUNK_ROWS)
        there = solve(HingePrimal(Linear(rows), y, C=0.2, bias=bias), "crsvm", tol=1e-5)
        assert there.converged  # far points without a bias may stall in one process
        assert here.certificate.lower <= there.certificate.upper
        assert there.certificate.lower <= here.certificate.upper


def test_the_bounds_are_those_of_the_returned_points(small_sample, cloud):
    X, y = cloud
    for limit in ({"tol": 1e-2}, {"tol": 1e-7}, {"tol": 1e-9, "max_iter": 3}):
        for bias in (True, False):
            problem = HingePrimal(in_chunks(X), y, C=0.3, bias=bias)
            result = solve(problem, "crsvm", q_upper=0.1, **limit)
            assert_bounds_are_those_of_the_points(result, X, y, 0.3, bias)
    dual = solve(HingeDual(in_chunks(X), y, C=0.3), "crsvm", tol=1e-7)
    assert_bounds_overlap(solve(HingeDual(Linear(X), y, C=0.3), tol=1e-7), dual)


def test_limits_starts_and_names(small_sample, cloud):
    X, y = cloud
    problem = HingePrimal(in_chunks(X), y, C=0.3)
    late = solve(problem, "crsvm", tol=1e-9, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT and np.isfinite(late.certificate.gap)
    best = solve(problem, "crsvm", tol=1e-6)
    assert_bounds_overlap(best, solve(problem, "crsvm", tol=1e-6, x0=best))
    for other in (L2SVMDual(in_chunks(X), y), HingeDual(in_chunks(X), y, C=np.arange(N_POINTS))):
        with pytest.raises(MethodMismatchError, match="crsvm"):
            solve(other, "crsvm")
    for options in ({"reduction": "none"}, {"beta": 0.0}, {"q_upper": 0}, {"sift": True}):
        with pytest.raises(InputError, match=next(iter(options))):
            solve(problem, "crsvm", **options)


def test_a_killed_worker_repeats_the_changes_of_its_rows(client, wide):
    X, y = wide
    left = list(client.run(os.getpid).values())
    problem = HingePrimal(Linear(open_rows(X, chunk_bytes=8 * 40 * CHUNK_ROWS)), y, C=0.3)
    whole = solve(problem, "crsvm", tol=1e-7, q_upper=25)

    def kill(progress):
        if progress.iteration == 5 and left:
            os.kill(left.pop(), signal.SIGKILL)

    options = {"tol": 1e-7, "q_upper": 25}
    result = solve(problem, "crsvm", callback=kill, time_limit=100.0, **options)
    assert result.counters["rebuilt"] >= 1
    assert_bounds_overlap(solve(HingePrimal(X, y, C=0.3), tol=1e-7), result)
    assert result.value == pytest.approx(whole.value, rel=1e-6)
    np.testing.assert_allclose(result.dual, whole.dual, atol=1e-5)
