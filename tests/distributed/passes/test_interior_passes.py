"""The interior point method in passes: sums of normal matrices, and states of rows at the shards."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from qpsvm import HingeDual, HingePrimal, L2SVMDual, Linear, MethodMismatchError, Status, solve
from qpsvm.distributed.passes.interior.rows import RowStates, warm_states
from qpsvm.distributed.rows import open_rows
from tests.distributed.conftest import CHUNK_BYTES, N_POINTS, OTHER_KINDS, other_points
from tests.distributed.passes.test_passes import assert_bounds_are_those_of_the_points, in_chunks
from tests.distributed.test_shards import assert_bounds_overlap


def test_a_step_solves_the_equations_of_its_row():
    rng = np.random.default_rng(0)
    own = RowStates(*rng.uniform(0.5, 2.0, (4, 20)))
    y = np.where(rng.random(20) < 0.5, 1.0, -1.0)
    h, dh, e, f = rng.standard_normal((4, 20))
    change = own.step(y, h, dh, e, f)
    residual = y * h + own.xi - 1.0 - own.s
    np.testing.assert_allclose(y * dh + change.xi - change.s, -residual)
    np.testing.assert_allclose(own.s * change.alpha + own.alpha * change.s, -own.s * own.alpha - e)
    np.testing.assert_allclose(own.xi * change.u + own.u * change.xi, -own.xi * own.u - f)
    np.testing.assert_allclose(change.alpha + change.u, 0.0)
    longest = own.longest_step(change)
    least = [np.min(a + longest * da) for a, da in zip(own, change, strict=True)]
    assert min(least) == pytest.approx(0.0, abs=1e-12)


def test_states_at_the_start_have_equal_products_and_no_residual():
    C, q = np.array([1.0, 2.0, 3.0]), np.array([-5.0, 0.0, 4.0])
    own = warm_states(C, q, 0.1)
    np.testing.assert_allclose(own.alpha * own.s, own.u * own.xi)
    np.testing.assert_allclose(own.alpha + own.u, C)
    np.testing.assert_allclose(own.xi - own.s, q)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [1e-4, 0.1, 10.0, 1e4, "weighted"])
def test_the_machine_is_that_of_one_process(small_sample, cloud, C, bias):
    X, y = cloud
    C = np.linspace(0.1, 2.0, N_POINTS) if C == "weighted" else C
    here = solve(HingePrimal(X, y, C=C, bias=bias), tol=1e-7)
    there = solve(HingePrimal(in_chunks(X), y, C=C, bias=bias), "pdipm", tol=1e-7)
    assert there.method == "pdipm"
    assert_bounds_overlap(here, there)
    new = X[:50] + 0.01
    size = np.abs(here.model.decision_function(new)).max()
    difference = there.model.decision_function(new) - here.model.decision_function(new)
    assert np.abs(difference).max() <= 0.02 * max(size, 1e-9)


def test_the_bounds_are_those_of_the_returned_points(small_sample, cloud):
    X, y = cloud
    limits = ({"tol": 1e-2}, {"tol": 1e-7}, {"tol": 1e-9, "max_iter": 3})
    for bias in (True, False):
        for limit in limits:
            result = solve(HingePrimal(in_chunks(X), y, C=0.3, bias=bias), "pdipm", **limit)
            assert_bounds_are_those_of_the_points(result, X, y, 0.3, bias)
    dual = solve(HingeDual(in_chunks(X), y, C=0.3), "pdipm", tol=1e-7)
    assert_bounds_overlap(solve(HingeDual(Linear(X), y, C=0.3), tol=1e-7), dual)
    assert dual.x.max() <= 0.3


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_points(small_sample, cloud, kind):
    X, y = other_points(cloud, kind, 1e6)
    for bias in (True, False):
        here = solve(HingePrimal(X, y, C=0.2, bias=bias), tol=1e-5)
        rows = open_rows(X, chunk_bytes=CHUNK_BYTES)
        there = solve(HingePrimal(Linear(rows), y, C=0.2, bias=bias), "pdipm", tol=1e-5)
        assert there.converged  # far points without a bias may stall in one process
        assert here.certificate.lower <= there.certificate.upper
        assert there.certificate.lower <= here.certificate.upper


def test_limits_starts_and_names(small_sample, cloud):
    X, y = cloud
    problem = HingePrimal(in_chunks(X), y, C=0.3)
    late = solve(problem, "pdipm", tol=1e-9, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT and np.isfinite(late.certificate.gap)
    ended = solve(problem, "pdipm", tol=1e-9, max_iter=2)
    assert ended.status is Status.MAX_ITER and np.isfinite(ended.certificate.gap)
    best = solve(problem, "pdipm", tol=1e-6)
    again = solve(problem, "pdipm", tol=1e-6, x0=best)
    assert_bounds_overlap(best, again)
    for other in (L2SVMDual(in_chunks(X), y), HingeDual(in_chunks(X), y, C=np.arange(N_POINTS))):
        with pytest.raises(MethodMismatchError, match="pdipm"):
            solve(other, "pdipm")


def test_a_killed_worker_repeats_the_changes_of_its_rows(client, cloud):
    X, y = cloud
    left = list(client.run(os.getpid).values())
    problem = HingePrimal(in_chunks(X), y, C=0.3)
    whole = solve(problem, "pdipm", tol=1e-7)

    def kill(progress):
        if progress.iteration == 3 and left:
            os.kill(left.pop(), signal.SIGKILL)

    result = solve(problem, "pdipm", tol=1e-7, callback=kill, time_limit=100.0)
    assert result.counters["rebuilt"] >= 1
    assert_bounds_overlap(solve(HingePrimal(X, y, C=0.3), tol=1e-7), result)
    assert result.value == pytest.approx(whole.value, rel=1e-6)
    np.testing.assert_allclose(result.dual, whole.dual, atol=1e-6)
