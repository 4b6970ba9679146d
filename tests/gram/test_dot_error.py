"""Rounded distances of far points: their effect on products is bounded row by row."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, Cached, HingeDual, Status, solve
from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.gram.kernels.near_points import BINS_OF_REACH, MAX_LENGTH_BINS, NearPoints
from qpsvm.gram.repeated import RepeatedGram

KERNEL_GAMMA = 10.0


def points_with_far_ones(seed, n_near=60, n_far=6, distance=1e6):
    """Return two clouds of a few tenths in size, the second one far away."""
    rng = np.random.default_rng(seed)
    near, far = 0.3 * rng.standard_normal((n_near, 2)), 0.3 * rng.standard_normal((n_far, 2))
    return rng.permutation(np.concatenate([near, far + distance]))


def exact_product(X, x):
    """Return K x from exact squared distances."""
    rows = [[Fraction(float(v)) for v in row] for row in X]
    out = []
    for p in rows:
        squares = [sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for q in rows]
        out.append(
            math.fsum(
                w * math.exp(-KERNEL_GAMMA * float(s)) for w, s in zip(x, squares, strict=True)
            )
        )
    return np.array(out)


STORAGE_OF_NAME = {"dense": np.asarray, "csr": sp.csr_matrix, "columns": np.asfortranarray}


@pytest.mark.parametrize("storage", STORAGE_OF_NAME)
@pytest.mark.parametrize("seed", range(4))
def test_the_error_of_each_entry_is_within_its_bound(storage, seed):
    X = points_with_far_ones(seed)
    x = np.random.default_rng(seed + 100).uniform(-1.0, 1.0, len(X))
    x[::3] = 0.0
    support = np.flatnonzero(x)
    kernel = RBF(STORAGE_OF_NAME[storage](X), KERNEL_GAMMA)
    assert 1e-6 < kernel.error < 1.0
    bound = kernel.dot_error(x[support], support)
    total = np.abs(x).sum()
    error = np.abs(kernel.dot(x) - exact_product(X, x))
    assert np.all(error <= bound + 4.0 * FLOAT64_EPS * total)
    assert np.max(error) > 1e-8  # those of far points are wrong by more than roundings
    rows = np.array([5, 3, 40])
    np.testing.assert_array_equal(kernel.dot_error(x[support], support, rows), bound[rows])
    np.testing.assert_array_equal(Cached(kernel).dot_error(x[support], support), bound)


@pytest.mark.parametrize("farthest", [1.0, 50.0, 1e9])
def test_sums_over_near_points_are_bounds_and_close_to_those_of_pairs(rng, farthest):
    lengths = np.append(rng.uniform(0.0, 10.0, 200), farthest)
    support = np.flatnonzero(rng.random(201) < 0.5)
    weights, rows = rng.random(len(support)), np.array([200, 3, 17])
    found = NearPoints(lengths, 1.0).square_sums(weights, support, None)

    def sums(reach):
        near = np.abs(lengths[:, None] - lengths[support]) <= reach
        return np.sum(near * weights * (lengths[:, None] ** 2 + lengths[support] ** 2), axis=1)

    width = max(1.0 / BINS_OF_REACH, farthest / MAX_LENGTH_BINS)
    rounding = 8.0 * len(support) * FLOAT64_EPS * float(weights @ lengths[support] ** 2)
    assert np.all(found >= sums(1.0))
    assert np.all(found <= 1.00001 * sums(1.0 + 4.0 * width) + rounding + 1e-9)
    same = NearPoints(lengths, 1.0).square_sums(weights, support, rows)
    np.testing.assert_array_equal(same, found[rows])


def test_near_points_have_small_bounds_beside_far_ones():
    X = points_with_far_ones(7)
    x, everyone = np.ones(len(X)), np.arange(len(X))
    kernel = RBF(sp.csr_matrix(X), KERNEL_GAMMA)
    bound = kernel.dot_error(x, everyone)
    is_far = X[:, 0] > 1.0
    assert np.max(bound[~is_far]) < 1e-9 < 1e-3 * kernel.error * len(X)
    assert np.min(bound[is_far]) > 1e-6


def test_merged_points_have_the_bounds_of_all_their_copies():
    X = points_with_far_ones(8)
    index = np.random.default_rng(8).integers(0, len(X), 150)
    x = np.random.default_rng(9).uniform(0.1, 1.0, 150)
    merged = RepeatedGram(RBF(X, KERNEL_GAMMA), index)
    weights = np.bincount(index, weights=x, minlength=len(X))
    plain = RBF(X, KERNEL_GAMMA).dot_error(weights, np.arange(len(X)))[index]
    np.testing.assert_allclose(merged.dot_error(x, np.arange(150)), plain, rtol=1e-9)


def test_ordinary_points_have_one_bound():
    X = np.random.default_rng(0).standard_normal((50, 3))
    kernel, x = RBF(X, 0.5), np.full(50, 0.5)
    assert kernel.dot_error(x, np.arange(50)) == kernel.error * 25.0


def test_a_few_far_points_do_not_prevent_an_optimal_answer():
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.standard_normal((400, 2)), 1e4 * rng.standard_normal((8, 2))])
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0, 1.0, -1.0)
    result = solve(HingeDual(RBF(X, 2.0), y, C=100.0), tol=1e-5)
    assert result.status is Status.OPTIMAL
