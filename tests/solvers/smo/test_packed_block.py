"""RBF kernel values of a working set in 16 bits: rounded to nearest, exact where that is not enough."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from qpsvm import RBF, HingeDual, solve
from qpsvm.gram.column_store import QUANTUM, ColumnStore
from qpsvm.solvers.shared.starting_points import pair_start
from qpsvm.solvers.smo.inner_smo import InnerProblem, solve_inner
from qpsvm.solvers.smo.smo import PairState
from qpsvm.solvers.working_set import working_set
from qpsvm.solvers.working_set.gram_block import compact, empty_square, extend
from qpsvm.solvers.working_set.working_set import (
    WorkingSetState,
    add_to_working_set,
    solve_working_set,
)


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
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_a_block_is_extended_and_compacted(first, more, cached, bits, rng):
    kernel = RBF(rng.standard_normal((300, 4)), 0.2)
    kernel = kernel if bits == 64 else kernel.low_precision()
    store, indices = ColumnStore(kernel, 1 << 24), rng.permutation(300)[: first + more]
    if cached:
        store.ensure(indices)
    block = empty_square(300, np.uint16 if bits == 16 else kernel.dtype)
    block[:] = 1
    assert block.ctypes.data % 64 == 0 and block.strides[0] % 128 == 64
    if first:
        extend(block, store, indices[:first], indices[:first])
    extend(block, store, indices[first:], indices)
    unit = QUANTUM if bits == 16 else 1.0
    exact = kernel.block(indices, indices, np.float64)
    n = len(indices)
    error = {16: 0.52 * QUANTUM, 32: 1e-6, 64: 1e-14}[bits]
    np.testing.assert_allclose(unit * block[:n, :n], exact, rtol=0, atol=error)
    np.testing.assert_array_equal(block[:first, first:n], block[first:n, :first].T)
    np.testing.assert_array_equal(unit * np.diag(block)[:n], 1.0)
    assert np.all(block[n:] == 1) and np.all(block[:, n:] == 1)
    wanted, before = rng.random(n) < 0.6, block[:n, :n].copy()
    order = compact(block, wanted)
    np.testing.assert_array_equal(block[: len(order), : len(order)], before[np.ix_(order, order)])


def hinge_problem(K, y, C, block, unit):
    n = len(y)
    block.flags.writeable = False
    kind = np.float32 if block.dtype == np.uint16 else np.float64
    side, own = np.ones(n, kind), np.diag(K).copy()  # z and the sign are both y
    problem = InnerProblem(block, own, side, np.zeros(n), y, np.full(n, C), 0.0, 1.0, unit)
    up, down = np.where(y > 0, 0.0, np.inf)[None], np.where(y > 0, np.inf, 0.0)[None]
    return problem, np.zeros(n), np.zeros(n), -y, up, down


@pytest.mark.parametrize("C, tolerance", [(1.0, 1e-3), (10.0, 2e-2)])
def test_steps_on_16_bits_against_float64(C, tolerance, rng):
    X = rng.standard_normal((700, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(700) > 0, 1.0, -1.0)
    K = RBF(X, 0.5).block(np.arange(700), None, np.float64)
    values = []
    for block, unit in ((K.copy(), 1.0), (packed(K), QUANTUM)):
        problem, x, begun, s, up, down = hinge_problem(K, y, C, block, unit)
        limits = 300_000, tolerance, np.inf, 0.0
        _, left, rounding_limited = solve_inner(problem, x, begun, s.copy(), up, down, *limits)
        assert left <= tolerance and not rounding_limited
        v = y * x
        s = K @ v - y  # of the exact kernel: off by half of a unit for each weight at most
        max_violation = np.max(s[down[0] == 0.0]) - np.min(s[up[0] == 0.0])
        bound = 1.05 * tolerance + (QUANTUM * np.sum(x) if unit < 1.0 else 0.0)
        assert max_violation <= bound
        values.append((0.5 * v @ K @ v - np.sum(x), bound * np.sum(x)))
    assert abs(values[0][0] - values[1][0]) <= max(values[0][1], values[1][1])


def test_steps_report_where_16_bits_limit_them(rng):
    X = rng.standard_normal((300, 2))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    K = RBF(X, 0.5).block(np.arange(300), None, np.float64)
    for block, unit, limited in ((K.copy(), 1.0, False), (packed(K), QUANTUM, True)):
        problem, x, begun, s, up, down = hinge_problem(K, y, 1e3, block, unit)
        limits = 300_000, 0.1, 1e-6, 0.0
        steps, left, rounding_limited = solve_inner(problem, x, begun, s, up, down, *limits)
        assert rounding_limited == limited
        assert steps > 100
        assert (left > 1e-5) == limited


def started(problem):
    state = WorkingSetState(PairState.at(problem, pair_start(problem, None)))
    add_to_working_set(problem, state, np.arange(problem.m))
    return state


def max_violation(state):
    pair = state.pair
    return np.max(
        np.max(pair.s - pair.low_barrier, axis=1) - np.min(pair.s + pair.up_barrier, axis=1)
    )


def test_the_matrix_is_recomputed_and_the_steps_continue(rng):
    X = rng.standard_normal((300, 2))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    with (
        HingeDual(RBF(X, 0.5), y, 100.0).as_qp().with_store(1 << 24, low_precision=True) as problem
    ):
        state = started(problem)
        assert state.block.dtype == np.uint16
        solve_working_set(problem, state, 0.05, 1e-3, 0.0)
        assert state.block.dtype == np.float32 and state.unit == 1.0
        assert max_violation(state) <= 3e-3


def test_the_gradient_reveals_a_matrix_with_larger_errors(rng):
    X = rng.standard_normal((300, 2))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    with HingeDual(RBF(X, 0.5), y, 1.0).as_qp().with_store(1 << 24, low_precision=True) as problem:
        state = started(problem)
        state.block &= 0xFF00  # as if all roundings were downwards, and larger
        solve_working_set(problem, state, 1e-2)
        assert state.quantization_limited and state.block.dtype == np.uint16
        solve_working_set(problem, state, 1e-2)
        assert not state.quantization_limited and state.block.dtype == np.float32
        assert max_violation(state) <= 1.1e-2


@pytest.mark.parametrize("C, tol", [(1e3, 1e-3), (10.0, 1e-8)])
def test_whole_solves_that_16_bits_cannot_finish_alone(C, tol, rng, monkeypatch):
    made = []

    def noted(problem, state):
        made.append(len(state.working_set))
        refine(problem, state)

    refine = working_set._refine
    monkeypatch.setattr(working_set, "_refine", noted)
    X = rng.standard_normal((2400, 2))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(2400) > 0, 1.0, -1.0)
    result = solve(HingeDual(RBF(X, 0.5), y, C), "decomposition", tol=tol)
    assert result.converged and result.certificate.relative_gap <= tol
    assert len(made) == 1


def test_columns_in_float64_keep_their_precision(rng):
    X = rng.standard_normal((300, 2))
    with HingeDual(RBF(X, 0.5), np.sign(X[:, 0]), 1.0).as_qp().with_store(1 << 24) as problem:
        assert started(problem).block.dtype == np.float64


def test_memory_of_a_block_is_reused_once_it_is_free():
    n = 2100  # 9 MB
    first = empty_square(n, np.uint16)
    first[:] = 7
    second = empty_square(n, np.uint16)
    assert not np.shares_memory(first, second)
    second[:] = 8
    assert (first == 7).all()
    row = first[3]
    del first
    assert not np.shares_memory(row, empty_square(n, np.uint16)) and (row == 7).all()
    del row, second
    kept = empty_square(n, np.uint16)
    kept[:] = 9
    del kept
    assert (empty_square(n, np.uint16) == 9).all()


def test_threads_never_share_the_memory_of_a_block():
    def fill(k):
        for _ in range(20):
            block = empty_square(2100, np.uint16)
            block[:] = k
            if not (block == k).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(fill, range(1, 9)))
