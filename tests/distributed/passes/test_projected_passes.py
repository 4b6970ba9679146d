"""Accelerated projected gradient in passes: weights of rows at the shards."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import (
    HingeDual,
    HingePrimal,
    L2SVMDual,
    Linear,
    MethodMismatchError,
    Status,
    solve,
)
from qpsvm.distributed.passes.projected.multiplier import best_bias, projection_multiplier
from qpsvm.distributed.passes.projected.rows import (
    Coefficients,
    RowWeights,
    hinge_sums,
    sums_along,
)
from qpsvm.distributed.rows import open_rows
from qpsvm.domains.base import project_simplex
from tests.distributed.conftest import CHUNK_ROWS, N_FEATURES, N_POINTS
from tests.distributed.passes.test_passes import in_chunks
from tests.distributed.test_shards import assert_bounds_overlap


def coefficients(y, upper, ridge=0.0, linear=-1.0):
    sign = y if np.isfinite(upper).all() else np.ones(len(y))
    return Coefficients(y, sign, upper, np.full(len(y), ridge), linear)


class HeldWeights:
    """Shards of given weights."""

    def __init__(self, parts, size, C=None):
        self.parts, self.size, self.C = parts, size, C

    def call(self, method, *arguments):
        return [getattr(self, method)(of, own, *arguments) for of, own in self.parts]

    def projected_range(self, of, own, size):
        p = own.ahead(of, size)
        ends = np.concatenate([p - of.upper * of.sign, p, of.sign * p])
        return np.min(ends[np.isfinite(ends)]), np.max(ends[np.isfinite(ends)])

    def projected_values(self, of, own, size, grid):
        return sums_along(of, own.ahead(of, size), grid)

    def projected_bias_range(self, of, own):
        return np.min(of.y - own.x_score), np.max(of.y - own.x_score)

    def projected_hinges(self, of, own, biases):
        return hinge_sums(of.y, of.upper, own.x_score, biases)


@pytest.mark.parametrize("domain", ["hyperplane", "simplex"])
def test_the_projection_is_that_of_the_domain(domain):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.3, 1.0, -1.0)
    upper = rng.uniform(0.1, 1.0, 300) if domain == "hyperplane" else np.full(300, np.inf)
    of, own = coefficients(y, upper), RowWeights(*rng.standard_normal((4, 300)))
    some, others = slice(0, 100), slice(100, 300)
    shards = HeldWeights([(of.at(some), own.at(some)), (of.at(others), own.at(others))], 2.0)
    goal = 1.0 if domain == "simplex" else 0.0
    t = projection_multiplier(shards, 2.0, goal, domain == "simplex")
    x = own.projected(of, 2.0, t)
    assert float(of.sign @ x) == pytest.approx(goal, abs=1e-12)
    ahead = own.ahead(of, 2.0)
    if domain == "simplex":
        np.testing.assert_allclose(x, project_simplex(ahead), atol=1e-12)
    other = rng.uniform(0.0, 0.1, 300)
    other *= np.where(y > 0, 1.0 / other[y > 0].sum(), 1.0 / other[y < 0].sum())
    other *= 0.5 if domain == "simplex" else 1.0  # in the domain, too
    assert (ahead - x) @ (other - x) <= 1e-9  # so x is the nearest point


def test_sums_along_multipliers_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    y, upper = np.where(rng.random(40) < 0.5, 1.0, -1.0), rng.uniform(0.1, 1.0, 40)
    ahead, grid = rng.standard_normal(40), np.linspace(-6.0, 6.0, 50)
    sums, ends = sums_along(coefficients(y, upper), ahead, grid)
    direct = [y @ np.clip(ahead - t * y, 0.0, upper) for t in grid]
    np.testing.assert_allclose(sums, direct, atol=1e-12)
    assert ends[-1] == 80 and ends[0] == 0
    sums, ends = sums_along(coefficients(y, np.full(40, np.inf)), ahead, grid)
    np.testing.assert_allclose(sums, [np.maximum(ahead - t, 0.0).sum() for t in grid], atol=1e-12)
    assert ends[-1] == 40


def test_the_bias_is_the_best_one():
    rng = np.random.default_rng(2)
    y, C = np.where(rng.random(200) < 0.4, 1.0, -1.0), rng.uniform(0.1, 1.0, 200)
    own, of = RowWeights(*rng.standard_normal((4, 200))), coefficients(y, C)
    sums = hinge_sums(y, C, own.x_score, np.linspace(-4.0, 4.0, 30))
    losses = [C @ np.maximum(1.0 - y * (own.x_score + b), 0.0) for b in np.linspace(-4.0, 4.0, 30)]
    np.testing.assert_allclose(sums, losses)
    b = best_bias(HeldWeights([(of, own)], 1.0))
    least = min(C @ np.maximum(1.0 - y * (own.x_score + e), 0.0) for e in y - own.x_score)
    assert C @ np.maximum(1.0 - y * (own.x_score + b), 0.0) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [1e-3, 0.1, "weighted"])
@pytest.mark.parametrize("problem", [HingeDual, L2SVMDual])
def test_the_machine_is_that_of_one_process(small_sample, cloud, problem, C, bias):
    X, y = cloud
    C = np.linspace(0.05, 0.2, N_POINTS) if C == "weighted" else C
    there = solve(problem(in_chunks(X), y, C=C, bias=bias), "apg", tol=1e-4)
    assert there.method == "apg" and there.converged
    assert_bounds_overlap(solve(problem(Linear(X), y, C=C, bias=bias), tol=1e-6), there)


@pytest.mark.parametrize("bias", [True, False])
def test_the_bounds_are_those_of_the_returned_points(small_sample, cloud, bias):
    X, y = cloud
    for limit in ({"tol": 1e-3}, {"tol": 1e-9, "max_iter": 7}):
        result = solve(HingePrimal(in_chunks(X), y, C=0.1, bias=bias), "apg", **limit)
        w, b, a = result.model.w, result.model.b, result.dual
        assert a.min() >= 0.0 and a.max() <= 0.1 and (not bias or abs(y @ a) < 1e-11 * a.sum())
        upper = 0.5 * w @ w + 0.1 * np.maximum(1.0 - y * (X @ w + b), 0.0).sum()
        v = X.T @ (y * a)
        assert result.certificate.upper == pytest.approx(upper, rel=1e-9)
        lower = a.sum() - 0.5 * v @ v
        assert result.certificate.lower == pytest.approx(lower, rel=1e-9, abs=1e-9 * upper)
        squared = solve(L2SVMDual(in_chunks(X), y, C=0.1, bias=bias), "apg", **limit)
        x = squared.x
        assert x.min() >= 0.0 and x.sum() == pytest.approx(1.0, abs=1e-12)
        v, s = X.T @ (y * x), bias * (y @ x)
        value = 0.5 * (v @ v + s * s + x @ x / 0.1)
        assert squared.certificate.upper == pytest.approx(value, rel=1e-9)
        best = solve(L2SVMDual(Linear(X), y, C=0.1, bias=bias), tol=1e-8)
        assert squared.certificate.lower <= best.certificate.upper


@pytest.mark.parametrize("kind", ["float32", "csr", "one class", "zeros"])
def test_other_points(small_sample, cloud, kind):
    X, y = cloud
    if kind == "csr":
        X = sp.random(N_POINTS, 30, density=0.2, random_state=1, format="csr")
        y = np.where(np.asarray(X.sum(axis=1)).ravel() > 3.0, 1.0, -1.0)
    else:
        y = np.ones(N_POINTS) if kind == "one class" else y
        X = {"float32": X.astype(np.float32), "zeros": 0.0 * X}.get(kind, X)
    rows = Linear(open_rows(X, chunk_bytes=8 * N_FEATURES * CHUNK_ROWS))
    for problem in (HingeDual, L2SVMDual):
        there = solve(problem(rows, y, C=0.02), "apg", tol=1e-3)
        here = solve(problem(Linear(X), y, C=0.02), tol=1e-6)
        assert there.converged
        assert there.value == pytest.approx(here.value, rel=2e-3, abs=1e-9)


def test_limits_starts_and_names(small_sample, cloud):
    X, y = cloud
    for kind in (HingeDual, L2SVMDual):
        problem = kind(in_chunks(X), y, C=0.1)
        late = solve(problem, "apg", tol=1e-9, time_limit=0.0)
        assert late.status is Status.TIME_LIMIT and np.isfinite(late.certificate.gap)
        assert solve(problem).method != "apg"
        best = solve(problem, tol=1e-6)
        assert_bounds_overlap(best, solve(problem, "apg", tol=1e-3, x0=best))
    with pytest.raises(MethodMismatchError, match="apg"):
        solve(HingeDual(in_chunks(X), y, C=np.arange(N_POINTS)), "apg")


@pytest.mark.parametrize("problem", [HingeDual, L2SVMDual])
def test_a_killed_worker_repeats_the_steps_of_its_rows(client, small_sample, cloud, problem):
    X, y = cloud
    left = list(client.run(os.getpid).values())
    machine = problem(in_chunks(X), y, C=0.02)
    whole = solve(machine, "apg", tol=1e-5)
    assert whole.n_iter > 5

    def kill(progress):
        if progress.iteration >= 5 and len(left) == 2:
            os.kill(left.pop(), signal.SIGKILL)

    result = solve(machine, "apg", tol=1e-5, callback=kill, time_limit=100.0)
    assert result.counters["rebuilt"] >= 1
    assert_bounds_overlap(solve(problem(Linear(X), y, C=0.02), tol=1e-7), result)
    assert result.value == pytest.approx(whole.value, rel=1e-4)
