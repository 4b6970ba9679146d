"""Hinge duals of two groups of points, whose rows are written when they are read."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from qpsvm import RBF, HingeDual, Laplacian, solve
from qpsvm.gram.engine.groups import PointGroups
from qpsvm.numerics.parallel import BufferPool
from qpsvm.solvers.working_set import matrix_pairs
from qpsvm.solvers.working_set.matrix_blocks import GroupBlocks, sum_rows
from qpsvm.solvers.working_set.matrix_pairs import hinge_path

PENALTY_VALUES = np.array([0.01, 1.0, 30.0, 1e3])


def check(path, y, weight, gram, tol):
    for c, C in enumerate(PENALTY_VALUES):
        x, upper = path.x[c], C * weight
        assert np.all(x >= 0.0) and np.all(x <= upper)
        assert abs(y @ x) <= 1e-12 * (1.0 + np.sum(x))
        assert path.gap[c] <= tol * abs(path.value[c])
        best = solve(HingeDual(gram, y, upper), tol=1e-10).certificate
        assert path.value[c] >= best.lower - 1e-12 * abs(best.lower)
        assert path.value[c] - path.gap[c] <= best.upper + 1e-12 * abs(best.upper)


def two_groups(sizes, rng, d=3):
    """Return points of two groups, their labels and weights, and their Gram."""
    X = rng.standard_normal((sum(sizes), d)) + np.repeat([[0.0], [1.0]], sizes, axis=0)
    y, weight = np.repeat([1.0, -1.0], sizes), rng.uniform(0.1, 3.0, sum(sizes))
    return y, weight, RBF(X, 2.1 / d)


def blocks_of(gram, n):
    """Return the blocks of the first n points and the others."""
    K = gram.block(np.arange(gram.m), None, np.float64)
    return GroupBlocks(*(np.ascontiguousarray(part) for part in (K[:n, :n], K[n:, n:], K[:n, n:])))


EACH_SIZE = pytest.mark.parametrize("sizes", [(1, 1), (1, 40), (37, 20), (90, 110)])


@EACH_SIZE
def test_two_groups_by_their_blocks(sizes, rng):
    y, weight, gram = two_groups(sizes, rng)
    blocks = blocks_of(gram, sizes[0])
    path = hinge_path(
        blocks, partial(sum_rows, blocks), gram.diag(),
        y, weight, PENALTY_VALUES, 1e-6, 1e-15, BufferPool(),
    )  # fmt: skip
    check(path, y, weight, gram, 1e-6)


@pytest.mark.parametrize(("size", "entries"), [(20, 1 << 16), (60, 1 << 16), (200, 24 * 200)])
def test_two_groups_by_small_working_sets(size, entries, rng, monkeypatch):
    monkeypatch.setattr(matrix_pairs, "MAX_WORKING_SET", size)
    monkeypatch.setattr(matrix_pairs, "WORKING_SET_ENTRIES", entries)
    y, weight, gram = two_groups((90, 110), rng)
    blocks = blocks_of(gram, 90)
    path = hinge_path(
        blocks, partial(sum_rows, blocks), gram.diag(),
        y, weight, PENALTY_VALUES, 1e-6, 1e-15, BufferPool(),
    )  # fmt: skip
    check(path, y, weight, gram, 1e-6)


@pytest.mark.parametrize("kernel", [RBF, Laplacian], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("kind", ["float64", "float32", "integers", "binary", "wide"])
@EACH_SIZE
def test_two_groups_by_their_points(sizes, kind, kernel, rng):
    y, weight, gram = two_groups(sizes, rng, d=80 if kind == "wide" else 21)
    X = gram.X.astype(np.float32) if kind == "float32" else gram.X
    X = {"integers": np.rint(2.0 * X), "binary": (X > 0.7) * 1.0}.get(kind, X)
    gram, n = kernel(X, 0.1 if kernel is RBF else 0.05), sizes[0]
    points = PointGroups(gram, [np.arange(n), np.arange(n, len(y))])
    blocks = GroupBlocks(*(points_block(points, i, j, sizes) for i, j in ((0, 0), (1, 1), (0, 1))))
    path = hinge_path(
        blocks, partial(points.sums, 0, 1), gram.diag(),
        y, weight, PENALTY_VALUES, 1e-4, 1e-13, BufferPool(),
    )  # fmt: skip
    check(path, y, weight, gram, 1e-4)


def points_block(points, i, j, sizes):
    out = np.empty((sizes[i], sizes[j]), np.float32)
    points.write(i, j, out)
    return out


@pytest.mark.parametrize(("n_rows", "is_solved"), [(200, True), (150, None), (16, False)])
def test_memory_for_few_rows_ends_the_steps_with_valid_bounds(n_rows, is_solved, rng, monkeypatch):
    y, weight, gram = two_groups((90, 110), rng)
    blocks, shapes, stored = blocks_of(gram, 90), [], matrix_pairs.StoredRows

    def reader(memory, *others):
        shapes.append(memory.shape)
        return stored(memory, *others)

    monkeypatch.setattr(matrix_pairs, "StoredRows", reader)
    monkeypatch.setattr(matrix_pairs, "MIN_ROWS", n_rows)
    monkeypatch.setattr(matrix_pairs, "MAX_ROW_ENTRIES", 0)
    one, upper, sums = np.array([30.0]), 30.0 * weight, partial(sum_rows, blocks)
    path = hinge_path(blocks, sums, gram.diag(), y, weight, one, 1e-4, 1e-13, BufferPool())
    assert shapes == [(n_rows, 200)]
    x, value, gap = path.x[0], path.value[0], path.gap[0]
    assert np.all(x >= 0.0) and np.all(x <= upper) and abs(y @ x) <= 1e-9 * np.sum(x)
    if is_solved is not None:
        assert (gap <= 1e-4 * abs(value)) == is_solved
    best = solve(HingeDual(gram, y, upper), tol=1e-8).certificate
    assert value >= best.lower - 1e-9 * abs(value) and value - gap <= best.upper + 1e-9 * abs(value)
    exact = gram.block(np.arange(200), None, np.float64)
    assert value == pytest.approx(0.5 * (y * x) @ exact @ (y * x) - np.sum(x), rel=1e-9)


def test_sums_of_points_are_those_of_the_matrix(rng):
    _, _, gram = two_groups((37, 20), rng)
    points = PointGroups(gram, [np.arange(37), np.arange(37, 57)])
    K, s = gram.block(np.arange(57), None, np.float64), np.empty(57)
    for share in (0.0, 0.1, 1.0):
        u = np.where(rng.random(57) < share, rng.standard_normal(57), 0.0)
        points.sums(0, 1, u, s)
        np.testing.assert_allclose(s, K @ u, atol=1e-13)


@pytest.mark.parametrize("d", [3, 80])
def test_blocks_in_float32_are_those_of_the_matrix(rng, d):
    _, _, gram = two_groups((37, 20), rng, d)
    points = PointGroups(gram, [np.arange(37), np.arange(37, 57)])
    K = gram.block(np.arange(57), None, np.float64)
    parts = np.split(np.arange(57), [37])
    for i, j in ((0, 0), (0, 1), (1, 1)):
        out = points_block(points, i, j, (37, 20))
        np.testing.assert_allclose(out, K[np.ix_(parts[i], parts[j])], atol=1e-5)


def test_sums_of_blocks_are_those_of_the_matrix(rng):
    _, _, gram = two_groups((17, 33), rng)
    u, s = np.where(rng.random(50) < 0.4, rng.standard_normal(50), 0.0), np.empty(50)
    sum_rows(blocks_of(gram, 17), u, s)
    np.testing.assert_allclose(s, gram.block(np.arange(50), None, np.float64) @ u, atol=1e-13)


def test_the_last_round_of_steps_is_evaluated(rng):
    y, weight, gram = two_groups((90, 110), rng)
    blocks, K = blocks_of(gram, 90), gram.block(np.arange(200), None, np.float64)
    path = hinge_path(
        blocks, partial(sum_rows, blocks), gram.diag(),
        y, weight, PENALTY_VALUES, 1e-18, 1e-15, BufferPool(),
    )  # fmt: skip
    for x, value, gap in zip(path.x, path.value, path.gap, strict=True):
        assert gap > 1e-18 * abs(value)
        assert value == pytest.approx(0.5 * (y * x) @ K @ (y * x) - np.sum(x), rel=1e-8)
