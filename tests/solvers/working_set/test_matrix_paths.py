"""Hinge duals of subsets of one matrix: feasible weights, valid bounds, and the gap asked for."""

from __future__ import annotations

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import RBF, HingeDual, Linear, Polynomial, Precomputed, solve
from qpsvm.gram.engine.matrices import entry_error, kernel_matrices
from qpsvm.solvers.working_set import matrix_paths
from qpsvm.solvers.working_set.matrix_blocks import (
    MatrixRows,
    add_rows,
    copy_matrix,
    exact_entries,
)
from qpsvm.solvers.working_set.matrix_paths import Subset, hinge_paths

PENALTY_VALUES = np.array([0.01, 1.0, 30.0, 1e3])


def subset_of(rows, y, weight=None):
    """Return a subset of rows."""
    return Subset(rows, y[rows], np.ones(len(rows)) if weight is None else weight)


def matrix_of(gram):
    return next(iter(kernel_matrices([gram])))


def check(path, subset, rows, gram, tol):
    for c, C in enumerate(PENALTY_VALUES):
        x, upper = path.x[c], C * subset.weight
        assert np.all(x >= 0.0) and np.all(x <= upper)
        assert abs(subset.y @ x) <= 1e-12 * (1.0 + np.sum(x))
        assert path.gap[c] <= tol * abs(path.value[c])
        best = solve(HingeDual(gram.take(rows), subset.y, upper), tol=1e-10).certificate
        assert path.value[c] >= best.lower - 1e-12 * abs(best.lower)
        assert path.value[c] - path.gap[c] <= best.upper + 1e-12 * abs(best.upper)


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("kernel", [lambda X: RBF(X, 0.7), Linear], ids=["rbf", "linear"])
def test_paths_are_feasible_and_their_bounds_hold(kernel, tol, rng):
    X, y = two_clouds(150, 3, seed=1)
    gram = kernel(X)
    chosen = [np.arange(150), np.flatnonzero(rng.random(150) < 0.6), np.arange(20, 50)]
    subsets = [subset_of(rows, y, rng.uniform(0.1, 3.0, len(rows))) for rows in chosen]
    found = hinge_paths([matrix_of(gram)], subsets, PENALTY_VALUES, tol, [1e-15])[0]
    for rows, subset, path in zip(chosen, subsets, found, strict=True):
        check(path, subset, rows, gram, tol)


@pytest.mark.parametrize("n", [2, 3, 9])
def test_subsets_of_a_few_points(n):
    X, y = two_clouds(40, 2, seed=3)
    rows = np.sort(np.concatenate([np.flatnonzero(y > 0)[:1], np.flatnonzero(y < 0)[: n - 1]]))
    gram = RBF(X, 1.0)
    subset = subset_of(rows, y)
    path = hinge_paths([matrix_of(gram)], [subset], PENALTY_VALUES, 1e-6, [1e-15])[0][0]
    check(path, subset, rows, gram, 1e-6)


@pytest.mark.parametrize("size", [20, 60, 200])
def test_a_large_subset_is_read_in_place_on_a_working_set(size, monkeypatch, rng):
    monkeypatch.setattr(matrix_paths, "MAX_COPIED_POINTS", 10)
    monkeypatch.setattr(matrix_paths, "MAX_WORKING_SET", size)
    X, y = two_clouds(120, 3, seed=1)
    gram, weight = RBF(X, 0.7), np.zeros(120)
    rows = np.concatenate([np.arange(10, 60), np.arange(70, 110)])
    weight[rows] = rng.uniform(0.1, 3.0, len(rows))
    subset = Subset(np.arange(120), y, weight)
    path = hinge_paths([matrix_of(gram)], [subset], PENALTY_VALUES, 1e-4, [1e-15])[0][0]
    others = np.setdiff1d(np.arange(120), rows)
    assert not path.x[:, others].any()
    check(path._replace(x=path.x[:, rows]), subset_of(rows, y, weight[rows]), rows, gram, 1e-4)


def test_a_working_set_may_have_more_rows_than_memory(monkeypatch):
    monkeypatch.setattr(matrix_paths, "MAX_COPIED_POINTS", 10)
    monkeypatch.setattr(matrix_paths, "WORKING_SET_ENTRIES", 24 * 120)
    X, y = two_clouds(120, 3, seed=1)
    gram, rows = RBF(X, 0.7), np.arange(120)
    subset = subset_of(rows, y)
    path = hinge_paths([matrix_of(gram)], [subset], PENALTY_VALUES, 1e-4, [1e-15])[0][0]
    assert np.max(np.count_nonzero(path.x, axis=1)) > 24
    check(path, subset, rows, gram, 1e-4)


def test_several_matrices_are_solved_together():
    X, y = two_clouds(120, 3, seed=1)
    chosen, grams = [np.arange(120), np.arange(15, 90)], [RBF(X, 0.7), RBF(X, 0.1)]
    subsets, matrices = [subset_of(rows, y) for rows in chosen], list(kernel_matrices(grams, 2))
    found = hinge_paths(matrices, subsets, PENALTY_VALUES, 1e-4, [1e-15, 1e-15])
    for gram, paths in zip(grams, found, strict=True):
        for rows, subset, path in zip(chosen, subsets, paths, strict=True):
            check(path, subset, rows, gram, 1e-4)


def test_copies_and_sums_are_those_of_the_matrix(rng):
    X = rng.standard_normal((80, 3))
    rows = np.concatenate([np.arange(5, 30), [31], np.arange(40, 64)])
    gram = RBF(X, 0.3)
    K = gram.block(np.arange(80), None, np.float64)[np.ix_(rows, rows)]
    u = np.where(rng.random(50) < 0.4, rng.standard_normal(50), 0.0)
    marked, source = rng.random(50) < 0.5, MatrixRows(matrix_of(gram), rows)
    copy, s, exact = np.zeros((50, 56), np.float32), np.ones(50), np.full(50, 7.0)
    copy_matrix(source, copy)
    add_rows(copy, u, s)
    exact_entries(source, u, marked, exact)
    np.testing.assert_allclose(copy[:, :50], K, atol=1e-7)
    assert not copy[:, 50:].any()
    np.testing.assert_allclose(s, 1.0 + K @ u, atol=1e-6)
    np.testing.assert_allclose(exact, np.where(marked, K @ u, 7.0), atol=1e-13)


def exact_kernel(kernel, X, *parameters):
    """Return kernel values of the points in the precision of long double."""
    X = X.astype(np.longdouble)
    if kernel is RBF:
        squares = np.sum((X[:, None] - X[None]) ** 2, axis=2)
        return np.exp(-np.longdouble(parameters[0]) * squares)
    degree, gamma, coef0 = (np.longdouble(p) for p in parameters)
    return (gamma * (X @ X.T) + coef0) ** degree


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="long double is double")
@pytest.mark.parametrize("tol", [1e-3, 1e-7, 1e-12])
@pytest.mark.parametrize(
    ("kernel", "parameters", "offset"),
    [
        (RBF, (0.7,), 0.0),
        (RBF, (0.7,), 3e4),
        (RBF, (1e-4,), 0.0),
        (RBF, (200.0,), 0.0),
        (Polynomial, (3, 1.0, 1.0), 0.0),
        (Polynomial, (2, 1e-6, 1.0), 1e3),
    ],
)
@pytest.mark.parametrize("n", [30, 600])
def test_gaps_enclose_the_optimum_of_the_exact_kernel(n, kernel, parameters, offset, tol, rng):
    """Whatever the tolerance: the bounds are those of the same weights and bias in long double."""
    X, y = two_clouds(n, 3, seed=2)
    X = X + offset
    gram, penalties = kernel(X, *parameters), np.array([0.01, 0.3, 1.0, 64.0, 1e6])
    K, weight = exact_kernel(kernel, X, *parameters), rng.uniform(0.1, 3.0, n)
    subset, given = Subset(np.arange(n), y, weight), entry_error(gram)
    path = hinge_paths([matrix_of(gram)], [subset], penalties, tol, [given])[0][0]
    for x, b, value, gap, roundoff, C in zip(
        path.x, path.b, path.value, path.gap, path.roundoff, penalties, strict=True
    ):
        upper, u = C * weight, (y * x).astype(np.longdouble)
        assert np.all(x >= 0.0) and np.all(x <= upper) and 0.0 < roundoff <= gap
        sums = K @ u
        exact = 0.5 * u @ sums - np.sum(x.astype(np.longdouble))
        slope = y * (sums + b) - 1.0
        steepest = np.where(slope < 0.0, -slope * (upper - x), slope * x)
        assert value >= exact
        assert value - gap <= exact - np.sum(steepest) + b * np.sum(u)


@pytest.mark.parametrize("label", [1.0, -1.0])
def test_one_class_has_no_support(label):
    subset, gram = Subset(np.arange(5), np.full(5, label), np.ones(5)), Precomputed(np.eye(5))
    path = hinge_paths([matrix_of(gram)], [subset], PENALTY_VALUES, 1e-3, [1e-15])[0][0]
    assert not path.x.any()
    assert np.all(path.gap <= 1e-13) and np.all(path.b == label)


def test_the_gap_contains_the_error_of_the_matrix(rng):
    """Whatever the matrix is within that error."""
    X, y = two_clouds(80, 3, seed=1)
    gram, error = RBF(X, 0.7), 1e-6
    exact = gram.block(np.arange(80), None, np.float64)
    noise = np.tril(rng.uniform(-error, error, exact.shape))
    matrix = matrix_of(Precomputed(exact + noise + noise.T))
    subset = subset_of(np.arange(80), y)
    path = hinge_paths([matrix], [subset], PENALTY_VALUES, 1e-4, [2 * error])[0][0]
    for c, C in enumerate(PENALTY_VALUES):
        u = y * path.x[c]
        value = 0.5 * u @ exact @ u - np.sum(path.x[c])
        best = solve(HingeDual(gram, y, C), tol=1e-10).certificate
        assert value - path.gap[c] <= best.upper + 1e-12 * abs(best.upper)
