"""SMO over a core: in single precision relative to the violation, and yet to any violation."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm.gram.column_store import Columns
from qpsvm.solvers.smo.pair_steps import pairs
from qpsvm.solvers.working_set.inner_smo import Core, solve_inner


def kernel(rng, n, kind, copies=False):
    """Return a positive definite K, or one in which half of the points are copies of the others."""
    X = rng.standard_normal((n, 5))
    if copies:
        X[n // 2 :] = X[: n - n // 2]
    square = np.sum((X[:, None] - X) ** 2, axis=2)
    K = np.exp(-0.3 * square).astype(kind)
    K.flags.writeable = False
    return K


def declared(rng, domain, n, kind, copies):
    """Return the core, the group of each coordinate, c, and a feasible x."""
    K, y = kernel(rng, n, kind, copies), np.where(rng.random(n) < 0.5, 1.0, -1.0)
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
    return Core(K, own, z * sign, ridge, z, upper, shift, scale), sign, group, c, x


def gradient(core, sign, c, x):
    """Return (G + D)x + c in double precision."""
    product = core.block.astype(np.float64) @ (sign * x) + core.shift * np.sum(sign * x)
    return core.scale * sign * product + core.ridge * x + c


def allowed(core, group, x):
    """Return the arrays of what z x can do."""
    up, down = x < core.upper, x > 0
    up, down = np.where(core.z > 0, up, down), np.where(core.z > 0, down, up)
    mine = group == np.arange(group.max() + 1)[:, None]
    return np.where(mine & up, 0.0, np.inf), np.where(mine & down, 0.0, np.inf)


def violation(core, s, group, x):
    """Return by how much the s of a pair of one group differ."""
    grow, shrink = allowed(core, group, x)
    return np.max(np.max(s - shrink, axis=1) - np.min(s + grow, axis=1))


@pytest.mark.parametrize(
    "domain", ["box", "simplex", "capped simplex", "simplices", "soft simplices"]
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n, copies", [(2, False), (90, True), (17, False), (1094, False)])
def test_a_core_is_solved_as_by_the_steps_of_smo(domain, kind, n, copies, rng):
    core, sign, group, c, start = declared(rng, domain, n, kind, copies)
    if domain == "simplex" and copies:
        core = core._replace(own=core.own - core.ridge, ridge=0.0 * core.ridge)
    if group.max() == 1:
        group[:2] = [0, 1]
        sign[:2] = [-1, 1]
        core.side[:2] = [-1, 1]
        start[:] = 0.0
        start[:2] = 1.0
    begun = violation(core, core.z * gradient(core, sign, c, start), group, start)
    values = []
    for share in (0.3, 1e-6):
        spread = share * max(begun, 1e-3)
        x, s = start.copy(), core.z * gradient(core, sign, c, start)
        grow, shrink = allowed(core, group, x)
        steps, _, _ = solve_inner(core, x, start, s, grow, shrink, 400_000, spread, np.inf, 0.0)
        assert (steps > 0) == (begun > spread)
        assert np.all(x >= 0) and np.all(x <= core.upper)
        for g in range(group.max() + 1):
            mine = group == g
            np.testing.assert_allclose(core.z[mine] @ (x - start)[mine], 0.0, atol=1e-11)
        for found, right in zip((grow, shrink), allowed(core, group, x), strict=True):
            np.testing.assert_array_equal(found, right)
        f = gradient(core, sign, c, x)
        assert violation(core, core.z * f, group, x) <= 1.05 * spread
        values.append(0.5 * (f + c) @ x)
    assert values[1] <= values[0]
    x, s = start.copy(), core.z * gradient(core, sign, c, start)
    numbers = np.arange(n), np.zeros(n, np.int64), np.zeros(1, np.int64)
    diag = np.diag(core.block).astype(float)
    cols = Columns(core.block, *numbers, diag, sign, core.ridge, core.shift, core.scale)
    grow, shrink = allowed(core, group, x)
    pairs(cols, core.z, core.upper, x, s, grow, shrink, 400_000, spread, np.empty(2, np.int64))
    exact = 0.5 * (gradient(core, sign, c, x) + c) @ x
    assert values[1] == pytest.approx(exact, abs=spread * np.sum(x))


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_gradients_beyond_single_precision(size, rng):
    core, sign, group, c, x = declared(rng, "simplex", 200, np.float64, False)
    c = size * rng.standard_normal(200)
    block = size * core.block
    core = core._replace(block=block, own=size * core.own, ridge=size * core.ridge, shift=size)
    block.flags.writeable = False
    begun = violation(core, gradient(core, sign, c, x), group, x)
    s, limits = gradient(core, sign, c, x), allowed(core, group, x)
    solve_inner(core, x, x.copy(), s, *limits, 100_000, 1e-5 * begun, np.inf, 0.0)
    assert violation(core, gradient(core, sign, c, x), group, x) <= 1.05e-5 * begun


def test_it_makes_no_more_steps_than_it_may(rng):
    core, sign, group, c, x = declared(rng, "box", 300, np.float32, False)
    s, limits = core.z * gradient(core, sign, c, x), allowed(core, group, x)
    assert solve_inner(core, x, x.copy(), s, *limits, 7, 1e-9, np.inf, 0.0)[0] == 7
    assert np.count_nonzero(x) <= 14


def test_a_value_that_falls_without_end():
    K = np.zeros((2, 2))
    K.flags.writeable = False
    z, none = np.array([1.0, -1.0]), np.zeros(2)
    core = Core(K, none.copy(), z * z, none, z, np.full(2, np.inf), 0.0, 1.0)
    x, s = np.zeros(2), z * -1.0
    grow, shrink = np.array([[0.0, np.inf]]), np.array([[np.inf, 0.0]])
    assert solve_inner(core, x, x.copy(), s, grow, shrink, 100, 1e-3, np.inf, 0.0)[0] == 0
    np.testing.assert_array_equal(x, 0.0)
