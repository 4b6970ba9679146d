"""A core's Gaussian kernel values in 16 bits: as good as they can be, and replaced where they are not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from qpsvm import RBF, HingeDual, solve
from qpsvm.gram.column_store import QUANTUM, ColumnStore
from qpsvm.solvers.shared.starting_points import pair_start
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set import working_set as core_of
from qpsvm.solvers.working_set.gram_block import compact, extend, square
from qpsvm.solvers.working_set.inner_smo import Core, solve_inner
from qpsvm.solvers.working_set.working_set import CoreState, enter, solve_core


def packed(K):
    return np.rint(K / QUANTUM).astype(np.uint16)


@pytest.mark.parametrize("m", [400, 2500])  # few values are numpy's
@pytest.mark.parametrize("binary", [False, True])
def test_values_are_the_nearest_multiples(m, binary, rng):
    X = rng.standard_normal((m, 6))
    X[1] = X[0]
    kernel = RBF((X > 0.3 if binary else X).astype(np.float32), 0.1)
    columns, rows = np.array([0, 7, 1]), rng.permutation(m)
    K = kernel.block(columns, rows, np.float64)
    out = np.zeros((4, m + 1), np.uint16)
    kernel.fill(columns, out, np.array([3, 0, 1]), rows)
    assert np.max(np.abs(QUANTUM * out[[3, 0, 1], :m] - K)) <= 0.51 * QUANTUM
    assert out[3, :m][rows == 1] == 65535  # 1, and no overflow
    assert not out[2].any() and not out[:, m].any()


@pytest.mark.parametrize(
    "first, more", [(0, 3), (5, 150), (64, 64), (131, 97), (150, 5), (33, 47), (190, 32)]
)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_a_core_is_extended_and_compacted(first, more, held, bits, rng):
    kernel = RBF(rng.standard_normal((300, 4)), 0.2)
    kernel = kernel if bits == 64 else kernel.low_precision()
    store, core = ColumnStore(kernel, 1 << 24), rng.permutation(300)[: first + more]
    if held:
        store.ensure(core)
    block = square(300, np.uint16 if bits == 16 else kernel.dtype)
    block[:] = 1
    assert block.ctypes.data % 64 == 0 and block.strides[0] % 128 == 64
    if first:
        extend(block, store, core[:first], core[:first])
    extend(block, store, core[first:], core)
    unit = QUANTUM if bits == 16 else 1.0
    exact = kernel.block(core, core, np.float64)
    n = len(core)
    error = {16: 0.52 * QUANTUM, 32: 1e-6, 64: 1e-14}[bits]
    np.testing.assert_allclose(unit * block[:n, :n], exact, rtol=0, atol=error)
    np.testing.assert_array_equal(block[:first, first:n], block[first:n, :first].T)
    np.testing.assert_array_equal(unit * np.diag(block)[:n], 1.0)
    assert np.all(block[n:] == 1) and np.all(block[:, n:] == 1)
    wanted, before = rng.random(n) < 0.6, block[:n, :n].copy()
    order = compact(block, wanted)
    np.testing.assert_array_equal(block[: len(order), : len(order)], before[np.ix_(order, order)])


def hinge_core(K, y, C, block, unit):
    n = len(y)
    block.flags.writeable = False
    kind = np.float32 if block.dtype == np.uint16 else np.float64
    side, own = np.ones(n, kind), np.diag(K).copy()  # z and the sign are both y
    core = Core(block, own, side, np.zeros(n), y, np.full(n, C), 0.0, 1.0, unit)
    up, down = np.where(y > 0, 0.0, np.inf)[None], np.where(y > 0, np.inf, 0.0)[None]
    return core, np.zeros(n), np.zeros(n), -y, up, down


@pytest.mark.parametrize("C, spread", [(1.0, 1e-3), (10.0, 2e-2)])
def test_steps_on_16_bits_against_float64(C, spread, rng):
    X = rng.standard_normal((700, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(700) > 0, 1.0, -1.0)
    K = RBF(X, 0.5).block(np.arange(700), None, np.float64)
    values = []
    for block, unit in ((K.copy(), 1.0), (packed(K), QUANTUM)):
        core, x, begun, s, up, down = hinge_core(K, y, C, block, unit)
        limits = 300_000, spread, np.inf, 0.0
        _, left, blurred = solve_inner(core, x, begun, s.copy(), up, down, *limits)
        assert left <= spread and not blurred
        v = y * x
        s = K @ v - y  # of the exact kernel: off by half of a unit for each weight at most
        apart = np.max(s[down[0] == 0.0]) - np.min(s[up[0] == 0.0])
        bound = 1.05 * spread + (QUANTUM * np.sum(x) if unit < 1.0 else 0.0)
        assert apart <= bound
        values.append((0.5 * v @ K @ v - np.sum(x), bound * np.sum(x)))
    assert abs(values[0][0] - values[1][0]) <= max(values[0][1], values[1][1])


def test_steps_say_where_16_bits_blur_them(rng):
    X = rng.standard_normal((300, 2))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    K = RBF(X, 0.5).block(np.arange(300), None, np.float64)
    for block, unit, blurs in ((K.copy(), 1.0, False), (packed(K), QUANTUM, True)):
        core, x, begun, s, up, down = hinge_core(K, y, 1e3, block, unit)
        limits = 300_000, 0.1, 1e-6, 0.0
        steps, left, blurred = solve_inner(core, x, begun, s, up, down, *limits)
        assert blurred == blurs
        assert steps > 100
        assert (left > 1e-5) == blurs


def started(problem):
    state = CoreState(PairState.at(problem, pair_start(problem, None)))
    enter(problem, state, np.arange(problem.m))
    return state


def apart(state):
    pair = state.pair
    return np.max(np.max(pair.s - pair.shrink, axis=1) - np.min(pair.s + pair.grow, axis=1))


def test_the_matrix_is_made_anew_and_the_steps_go_on(rng):
    X = rng.standard_normal((300, 2))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    with (
        HingeDual(RBF(X, 0.5), y, 100.0).as_qp().with_store(1 << 24, low_precision=True) as problem
    ):
        state = started(problem)
        assert state.block.dtype == np.uint16
        solve_core(problem, state, 0.05, 1e-3, 0.0)
        assert state.block.dtype == np.float32 and state.unit == 1.0
        assert apart(state) <= 3e-3


def test_a_matrix_that_is_further_off_is_noticed_by_the_gradient(rng):
    X = rng.standard_normal((300, 2))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    with HingeDual(RBF(X, 0.5), y, 1.0).as_qp().with_store(1 << 24, low_precision=True) as problem:
        state = started(problem)
        state.block &= 0xFF00  # as if all roundings were downwards, and larger
        solve_core(problem, state, 1e-2)
        assert state.coarse and state.block.dtype == np.uint16
        solve_core(problem, state, 1e-2)
        assert not state.coarse and state.block.dtype == np.float32
        assert apart(state) <= 1.1e-2


@pytest.mark.parametrize("C, tol", [(1e3, 1e-3), (10.0, 1e-8)])
def test_whole_solves_that_16_bits_cannot_finish_alone(C, tol, rng, monkeypatch):
    made = []

    def noted(problem, state):
        made.append(len(state.core))
        refine(problem, state)

    refine = core_of._refine
    monkeypatch.setattr(core_of, "_refine", noted)
    X = rng.standard_normal((2400, 2))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(2400) > 0, 1.0, -1.0)
    result = solve(HingeDual(RBF(X, 0.5), y, C), "decomposition", tol=tol)
    assert result.converged and result.certificate.relative_gap <= tol
    assert len(made) == 1


def test_columns_that_are_not_narrow_keep_their_precision(rng):
    X = rng.standard_normal((300, 2))
    with HingeDual(RBF(X, 0.5), np.sign(X[:, 0]), 1.0).as_qp().with_store(1 << 24) as problem:
        assert started(problem).block.dtype == np.float64


def test_memory_of_a_core_is_used_again_once_nothing_lies_in_it():
    n = 2100  # 9 MB
    first = square(n, np.uint16)
    first[:] = 7
    second = square(n, np.uint16)
    assert not np.shares_memory(first, second)
    second[:] = 8
    assert (first == 7).all()
    row = first[3]
    del first
    assert not np.shares_memory(row, square(n, np.uint16)) and (row == 7).all()
    del row, second
    kept = square(n, np.uint16)
    kept[:] = 9
    del kept
    assert (square(n, np.uint16) == 9).all()


def test_threads_never_share_the_memory_of_a_core():
    def fill(k):
        for _ in range(20):
            block = square(2100, np.uint16)
            block[:] = k
            if not (block == k).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(fill, range(1, 9)))
