"""Repeated points: values as of all coordinates, evaluated and stored as of the points."""

from __future__ import annotations

import numpy as np
import pytest

from problems.clouds import cloud
from qpsvm import RBF, Cached, Linear, Polynomial, Precomputed
from qpsvm.gram.psd import psd_defect
from qpsvm.gram.repeated import RepeatedGram

N_POINTS = 30
X = cloud(N_POINTS, 4, seed=51)
BOTH_SIGNS = np.tile(np.arange(N_POINTS), 2)
UNEVEN_REPETITIONS = np.random.default_rng(52).integers(N_POINTS, size=50)
UNEVEN_REPETITIONS[:N_POINTS] = np.arange(N_POINTS)
GRAM_CASES = {
    "rbf": RBF(X, 0.3),
    "float32": RBF(X.astype(np.float32), 0.3),
    "polynomial": Polynomial(X, 2, 0.5, 1.0),
    "linear": Linear(X),
    "matrix": Precomputed(RBF(X, 0.3).block(np.arange(N_POINTS))),
    "cached": Cached(RBF(X, 0.3)),
}


@pytest.fixture(params=GRAM_CASES.values(), ids=GRAM_CASES)
def points(request):
    return request.param


@pytest.fixture(params=[BOTH_SIGNS, UNEVEN_REPETITIONS], ids=["both-signs", "uneven"])
def repeated(request, points):
    return RepeatedGram(points, request.param)


def dense(gram):
    """Return the whole matrix of repeated points, from that of the points."""
    K = gram.gram.block(np.arange(N_POINTS), None, np.float64)
    return K[np.ix_(gram.index, gram.index)]


def close(gram):
    return {"rtol": 1e-5, "atol": 1e-6} if gram.dtype == np.float32 else {"atol": 1e-12}


def test_values_are_those_of_the_points(repeated):
    K, some, rows = dense(repeated), np.array([3, 33, 3, 41]), np.array([40, 7, 10, 7])
    np.testing.assert_allclose(repeated.diag(), np.diag(K), **close(repeated))
    np.testing.assert_allclose(repeated.block(some), K[some], **close(repeated))
    part = repeated.block(some, rows, np.float64)
    np.testing.assert_allclose(part, K[np.ix_(some, rows)], atol=1e-12)
    out = np.zeros((6, repeated.m), repeated.dtype)
    slots = np.array([4, 0, 2, 5])
    repeated.fill(some, out, slots)
    np.testing.assert_allclose(out[slots], K[some], **close(repeated))
    repeated.fill(some, out, slots, rows)
    np.testing.assert_allclose(out[slots, :4], K[np.ix_(some, rows)], **close(repeated))


def test_products_are_those_of_the_matrix(repeated):
    K, rng = dense(repeated), np.random.default_rng(53)
    x = np.where(rng.random(repeated.m) < 0.5, rng.standard_normal(repeated.m), 0.0)
    rows = np.array([40, 7, 10, 7])
    np.testing.assert_allclose(repeated.dot(x), K @ x, atol=1e-11)
    np.testing.assert_allclose(repeated.dot(x, rows), K[rows] @ x, atol=1e-11)
    total, some = np.ones(repeated.m), np.flatnonzero(x)
    repeated.add(some, x[some], total)
    np.testing.assert_allclose(total, 1.0 + K @ x, rtol=1e-4, atol=1e-4)


def test_part_of_the_coordinates_is_over_their_points(repeated):
    rows = np.array([40, 7, 10, 37])
    part = repeated.take(rows)
    assert part.gram.m == len(np.unique(repeated.index[rows]))
    expected = dense(repeated)[np.ix_(rows, rows)]
    np.testing.assert_allclose(part.block(np.arange(4)), expected, **close(repeated))


def test_error_bounds_are_by_coordinate():
    gram = RepeatedGram(RBF(X.astype(np.float32), 0.3), UNEVEN_REPETITIONS)
    of_points, indices = gram.gram.relative_error, np.array([45, 2])
    np.testing.assert_array_equal(gram.column_error, gram.gram.column_error[UNEVEN_REPETITIONS])
    np.testing.assert_array_equal(gram.relative_error.rows(), of_points.rows()[UNEVEN_REPETITIONS])
    expected = of_points.columns(UNEVEN_REPETITIONS[indices])
    np.testing.assert_array_equal(gram.relative_error.columns(indices), expected)
    assert gram.relative_error.of_use(indices).all()


def test_precision_changes_on_the_points():
    gram = RepeatedGram(RBF(X, 0.3), BOTH_SIGNS)
    low = gram.low_precision()
    assert low.dtype == low.gram.dtype == np.float32
    assert low.to_float64().dtype == np.float64
    assert gram.to_float64() is gram


@pytest.mark.parametrize("memory", [1 << 20, 10 * 60 * 8], ids=["all-fit", "ten-fit"])
def test_coordinates_of_a_point_share_one_expanded_column(points, memory):
    gram = RepeatedGram(points, BOTH_SIGNS)
    K = dense(gram)
    with gram.hold(memory) as store:
        assert store.n_slots <= N_POINTS
        assert store.n_slots * gram.m * gram.dtype.itemsize <= memory
        store.ensure(np.array([3, 33]))
        assert store.slot[3] == store.slot[33] >= 0
        assert np.count_nonzero(store.slot >= 0) == 2
        for start in range(0, gram.m, 7):  # columns leave where not all fit
            some = np.arange(start, min(start + 7, gram.m))
            store.ensure(some)
            np.testing.assert_allclose(store.store[store.slot[some]], K[some], **close(gram))
            mirrored = (some + N_POINTS) % gram.m
            np.testing.assert_array_equal(store.slot[some], store.slot[mirrored])
        assert np.count_nonzero(store.slot >= 0) <= 2 * store.n_slots


def test_each_point_is_evaluated_once():
    gram = RepeatedGram(RBF(X, 0.3), BOTH_SIGNS)
    with gram.hold(1 << 20) as store:
        store.ensure(np.arange(gram.m))
        store.ensure(np.arange(gram.m)[::-1])
        assert store.n_computed == N_POINTS
    with gram.hold_points(1 << 20) as store:
        store.ensure(np.arange(gram.m))
        assert store.n_computed == N_POINTS
        assert store.n_bytes == N_POINTS * N_POINTS * 8


def test_columns_kept_between_solves_are_not_evaluated_again():
    points = Cached(RBF(X, 0.3))
    gram = RepeatedGram(points, BOTH_SIGNS)
    with gram.hold_points(1 << 20) as store:
        store.ensure(np.arange(N_POINTS))
        assert store.n_computed == N_POINTS
    with gram.hold_points(1 << 20) as store:
        store.ensure(np.arange(gram.m))
        assert store.n_computed == 0
    evaluated, points.gram.__dict__["fill"] = [], lambda *args: evaluated.append(args)
    try:
        with gram.hold(1 << 20) as store:
            store.ensure(np.arange(gram.m))
            np.testing.assert_allclose(store.store[store.slot], dense(gram), atol=1e-12)
    finally:
        del points.gram.__dict__["fill"]
    assert not evaluated


def test_a_store_over_points_is_read_by_coordinate(points):
    gram = RepeatedGram(points, BOTH_SIGNS)
    K, some, rows = dense(gram), np.array([3, 33, 41]), np.array([40, 7])
    with gram.hold_points(1 << 20) as store:
        store.ensure(some)
        assert store.store.shape[1] == N_POINTS
        cached = store.store[store.slot[some]][:, store.entries_of(rows)]
        np.testing.assert_allclose(cached, K[np.ix_(some, rows)], **close(gram))
        out = np.empty((3, 2), gram.dtype)
        store.gram.fill(some, out, np.arange(3), rows)
        np.testing.assert_allclose(out, K[np.ix_(some, rows)], **close(gram))
        total = np.ones(gram.m)
        store.add(some, np.array([1.0, -3.0, 0.5]), total)
        expected = 1.0 + np.array([1.0, -3.0, 0.5]) @ K[some]
        np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(store.diag, store.points.diag[BOTH_SIGNS])


def test_a_defect_grows_with_the_repetitions():
    """A direction with equal weights on both signs of a point sees twice its eigenvalue."""
    K = RBF(X.astype(np.float32), 1e-4).block(np.arange(N_POINTS))
    of_points = psd_defect(Precomputed(K))
    repeated = RepeatedGram(Precomputed(K), BOTH_SIGNS)
    assert of_points > 0.0  # the rounding of float32
    assert psd_defect(repeated) == 2.0 * of_points
    least = np.linalg.eigvalsh(dense(repeated))[0]
    assert -psd_defect(repeated) * (1.0 + 1e-6) <= least + 1e-13 < 0.0


def test_expanded_columns_are_summed_as_those_of_the_points(repeated):
    x = np.random.default_rng(53).standard_normal(repeated.m)
    with repeated.hold(1 << 20) as store:
        store.ensure(np.arange(repeated.m))
        found = store.dot(x)
    if repeated.dtype == np.float64:
        np.testing.assert_allclose(found, dense(repeated) @ x, atol=1e-12)
    else:
        assert found is None
