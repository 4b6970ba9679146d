"""Inner SMO: single precision relative to the violation, and yet any accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm.gram.column_store import Columns
from qpsvm.solvers.smo.inner_smo import InnerProblem, solve_inner
from qpsvm.solvers.smo.pair_steps import pairs


def kernel(rng, n, kind, duplicates=False):
    """Return a positive definite K, or one in which half of the points are duplicates of the others."""
    X = rng.standard_normal((n, 5))
    if duplicates:
        X[n // 2 :] = X[: n - n // 2]
    square = np.sum((X[:, None] - X) ** 2, axis=2)
    K = np.exp(-0.3 * square).astype(kind)
    K.flags.writeable = False
    return K


def declared(rng, domain, n, kind, duplicates):
    """Return the problem, signs, the group of each coordinate, c, and a feasible x."""
    K, y = kernel(rng, n, kind, duplicates), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    one, group, upper = np.ones(n), np.zeros(n, np.int64), np.full(n, np.inf)
    z, sign, ridge, shift, scale, c = one, one, 0.0 * one, 0.0, 1.0, 0.0 * one
    x = np.zeros(n)
    if domain == "box":  # HingeDual
        z, sign, upper, c = y, y, rng.uniform(1.0, 30.0, n), -one
        upper[: n // 10] = 0.0
    elif domain == "simplex":  # L2SVMDual
        sign, ridge, shift, x[0] = y, rng.uniform(0.01, 1.0, n), 1.0, 1.0
    elif domain == "capped simplex":  # SVDDDual
        scale, c, upper, x = 2.0, -np.diag(K).astype(float), rng.uniform(1.0, 9.0, n) / n, one / n
        x = np.minimum(x, upper)
    else:  # PolytopeDistanceDual
        sign, group = y, (y > 0).astype(np.int64)
        ridge = 0.1 * one if domain == "soft simplices" else ridge
        x[np.argmax(group == 0)] = x[np.argmax(group == 1)] = 1.0
    own = scale * (np.diag(K).astype(float) + shift) + ridge
    return InnerProblem(K, own, z * sign, ridge, z, upper, shift, scale), sign, group, c, x


def gradient(problem, sign, c, x):
    """Return (G + D)x + c in double precision."""
    product = problem.block.astype(np.float64) @ (sign * x) + problem.shift * np.sum(sign * x)
    return problem.scale * sign * product + problem.ridge * x + c


def allowed(problem, group, x):
    """Return the barriers of I_up and I_low."""
    up, down = x < problem.upper, x > 0
    up, down = np.where(problem.z > 0, up, down), np.where(problem.z > 0, down, up)
    mine = group == np.arange(group.max() + 1)[:, None]
    return np.where(mine & up, 0.0, np.inf), np.where(mine & down, 0.0, np.inf)


def violation(problem, s, group, x):
    """Return the KKT violation."""
    up_barrier, low_barrier = allowed(problem, group, x)
    return np.max(np.max(s - low_barrier, axis=1) - np.min(s + up_barrier, axis=1))


@pytest.mark.parametrize(
    "domain", ["box", "simplex", "capped simplex", "simplices", "soft simplices"]
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n, duplicates", [(2, False), (90, True), (17, False), (1094, False)])
def test_a_working_set_is_solved_as_by_the_steps_of_smo(domain, kind, n, duplicates, rng):
    problem, sign, group, c, start = declared(rng, domain, n, kind, duplicates)
    if domain == "simplex" and duplicates:
        problem = problem._replace(
            diagonal=problem.diagonal - problem.ridge, ridge=0.0 * problem.ridge
        )
    if group.max() == 1:
        group[:2] = [0, 1]
        sign[:2] = [-1, 1]
        problem.side[:2] = [-1, 1]
        start[:] = 0.0
        start[:2] = 1.0
    start_violation = violation(
        problem, problem.z * gradient(problem, sign, c, start), group, start
    )
    values = []
    for share in (0.3, 1e-6):
        tolerance = share * max(start_violation, 1e-3)
        x, s = start.copy(), problem.z * gradient(problem, sign, c, start)
        up_barrier, low_barrier = allowed(problem, group, x)
        steps, _, _ = solve_inner(
            problem, x, start, s, up_barrier, low_barrier, 400_000, tolerance, np.inf, 0.0
        )
        assert (steps > 0) == (start_violation > tolerance)
        assert np.all(x >= 0) and np.all(x <= problem.upper)
        for g in range(group.max() + 1):
            mine = group == g
            np.testing.assert_allclose(problem.z[mine] @ (x - start)[mine], 0.0, atol=1e-11)
        for found, right in zip((up_barrier, low_barrier), allowed(problem, group, x), strict=True):
            np.testing.assert_array_equal(found, right)
        f = gradient(problem, sign, c, x)
        assert violation(problem, problem.z * f, group, x) <= 1.05 * tolerance
        values.append(0.5 * (f + c) @ x)
    assert values[1] <= values[0]
    x, s = start.copy(), problem.z * gradient(problem, sign, c, start)
    numbers = np.arange(n), np.zeros(n, np.int64), np.zeros(1, np.int64)
    diag = np.diag(problem.block).astype(float)
    cols = Columns(problem.block, *numbers, diag, sign, problem.ridge, problem.shift, problem.scale)
    up_barrier, low_barrier = allowed(problem, group, x)
    arrays = problem.z, problem.upper, x, s, up_barrier, low_barrier
    pairs(cols, *arrays, 400_000, tolerance, np.empty(2, np.int64))
    exact = 0.5 * (gradient(problem, sign, c, x) + c) @ x
    assert values[1] == pytest.approx(exact, abs=tolerance * np.sum(x))


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_gradients_beyond_single_precision(size, rng):
    problem, sign, group, c, x = declared(rng, "simplex", 200, np.float64, False)
    c = size * rng.standard_normal(200)
    block = size * problem.block
    problem = problem._replace(
        block=block, diagonal=size * problem.diagonal, ridge=size * problem.ridge, shift=size
    )
    block.flags.writeable = False
    start_violation = violation(problem, gradient(problem, sign, c, x), group, x)
    s, limits = gradient(problem, sign, c, x), allowed(problem, group, x)
    solve_inner(problem, x, x.copy(), s, *limits, 100_000, 1e-5 * start_violation, np.inf, 0.0)
    assert violation(problem, gradient(problem, sign, c, x), group, x) <= 1.05e-5 * start_violation


def test_it_makes_no_more_steps_than_it_may(rng):
    problem, sign, group, c, x = declared(rng, "box", 300, np.float32, False)
    s, limits = problem.z * gradient(problem, sign, c, x), allowed(problem, group, x)
    assert solve_inner(problem, x, x.copy(), s, *limits, 7, 1e-9, np.inf, 0.0)[0] == 7
    assert np.count_nonzero(x) <= 14


def test_a_value_that_is_unbounded_below():
    K = np.zeros((2, 2))
    K.flags.writeable = False
    z, none = np.array([1.0, -1.0]), np.zeros(2)
    problem = InnerProblem(K, none.copy(), z * z, none, z, np.full(2, np.inf), 0.0, 1.0)
    x, s = np.zeros(2), z * -1.0
    up_barrier, low_barrier = np.array([[0.0, np.inf]]), np.array([[np.inf, 0.0]])
    limits = 100, 1e-3, np.inf, 0.0
    assert solve_inner(problem, x, x.copy(), s, up_barrier, low_barrier, *limits)[0] == 0
    np.testing.assert_array_equal(x, 0.0)
