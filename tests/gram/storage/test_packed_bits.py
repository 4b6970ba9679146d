"""Packed points and multiples of a unit against products in float64; the exponential of sweeps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from qpsvm import RBF, HingeDual, Laplacian, Linear, Polynomial, Sigmoid, solve
from qpsvm.gram.storage import integer as units
from qpsvm.gram.storage.integer import PackedBits, integer_points, pack
from qpsvm.gram.storage.points import products
from qpsvm.numerics.products import squared_norms

M = 1100
KERNEL_CASES = {
    "linear": Linear,
    "rbf": lambda X: RBF(X, 0.07),
    "polynomial": lambda X: Polynomial(X, 3, 0.1, 1.0),
    "sigmoid": lambda X: Sigmoid(X, 0.01, -0.5),
    "laplacian": lambda X: Laplacian(X, 0.1),
}
POINT_STORAGES = {"dense": np.asarray, "CSR": sp.csr_matrix}


def binary(rng, d, value=1.0, m=M, share=0.3):
    """Return points with coordinates 0 and `value`; one is zero and one has no zero."""
    X = np.where(rng.random((m, d)) < share, value, 0.0)
    X[5], X[7] = 0.0, value
    return X


@pytest.mark.parametrize("d", [1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300])
@pytest.mark.parametrize("storage", POINT_STORAGES.values(), ids=POINT_STORAGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_common_bits_are_inner_products(rng, d, storage, dtype):
    X = binary(rng, d).astype(dtype)
    bits = pack(storage(X))
    assert bits.shape == X.shape and bits.dtype == dtype
    some, few = rng.permutation(M)[:700], np.array([5, 7, 3, 3, M - 1])
    for rows in (slice(None), slice(250, 801), some):  # beyond a tile, and off its border
        K = products(bits[few], bits[rows])
        assert K.dtype == dtype and np.array_equal(K, X[few] @ X[rows].T)
    assert np.array_equal(squared_norms(bits[some]), squared_norms(X[some]))


@pytest.mark.parametrize("value", [1.0, 3.0, 0.1])
@pytest.mark.parametrize("storage", POINT_STORAGES.values(), ids=POINT_STORAGES)
@pytest.mark.parametrize("make", KERNEL_CASES.values(), ids=KERNEL_CASES)
def test_kernels_of_binary_points(rng, make, storage, value):
    """Columns, few and many, over all rows and some; the recomputed product; restrictions."""
    X = binary(rng, 70, value)
    kernel = make(storage(X))
    new = binary(rng, 70, value, m=300)  # enough for compiled sums
    K = kernel.cross(X, np.arange(M)).T  # from the points as they are, in float64
    columns, rows = rng.permutation(M)[:200], rng.permutation(M)[:400]
    near = {"rtol": 1e-12, "atol": 1e-14 * np.max(np.abs(K))}
    for few in (columns[:1], columns):
        np.testing.assert_allclose(kernel.block(few), K[few], **near)
        np.testing.assert_allclose(kernel.block(few, rows), K[np.ix_(few, rows)], **near)
    out, slots = np.zeros((210, M)), rng.permutation(210)[:200]
    kernel.fill(columns, out, slots)
    np.testing.assert_allclose(out[slots], K[columns], **near)
    x = np.where(rng.random(M) < 0.6, rng.standard_normal(M), 0.0)
    size = 1e-13 * np.max(np.abs(K)) * np.sum(np.abs(x))
    np.testing.assert_allclose(kernel.dot(x), K @ x, rtol=0, atol=size)
    np.testing.assert_allclose(kernel.dot(x, rows), (K @ x)[rows], rtol=0, atol=size)
    part = kernel.take(rows)
    np.testing.assert_allclose(part.block(np.arange(9)), K[np.ix_(rows[:9], rows)], **near)
    np.testing.assert_allclose(
        part.dot(x[rows]), K[np.ix_(rows, rows)] @ x[rows], rtol=0, atol=size
    )
    support = np.flatnonzero(x)
    for given in (storage(new), new + 0.25):  # binary, and not
        expected = kernel.cross(given, support) @ x[support]
        values = kernel.combine(given, support, x[support])
        np.testing.assert_allclose(values, expected, rtol=0, atol=size)


@pytest.mark.parametrize("storage", POINT_STORAGES.values(), ids=POINT_STORAGES)
def test_narrow_columns_of_binary_points(rng, storage):
    X = binary(rng, 65)
    narrow = RBF(storage(X), 0.05).low_precision()
    assert narrow.dtype == np.float32
    rows = rng.permutation(M)[:300]
    for gram, points in ((narrow, X), (narrow.take(rows), X[rows])):
        out = np.zeros((130, gram.m), np.float32)
        gram.fill(np.arange(130), out, np.arange(130))
        expected = np.exp(-0.05 * cdist(points[:130], points, "sqeuclidean"))
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        assert gram.take(np.arange(5)).dtype == np.float32


def test_what_is_packed(rng):
    """Only points of 0 and one other value, and only many and dense enough ones."""
    X = binary(rng, 40)
    assert isinstance(integer_points(X).points, PackedBits) and isinstance(
        integer_points(7.0 * X).points, PackedBits
    )
    stored = sp.csr_matrix(X)
    stored.data[::2] = 0.0  # stored zeros are zeros
    assert np.array_equal(pack(stored).ones, stored.toarray().sum(axis=1))
    for change in (2.0, -1.0, 0.5):  # in the last point: found at the end only
        other = X.copy()
        other[-1, -1] = change
        unit = integer_points(other)
        assert unit is None or not isinstance(unit.points, PackedBits)
        assert pack(other) is None
    assert not isinstance(integer_points(X[:1000]).points, PackedBits)
    thin = sp.csr_matrix(np.eye(M))
    assert not units.packs(thin) and units.packs(thin.toarray())
    assert integer_points(rng.standard_normal((M, 3))) is None
    assert (
        integer_points(np.full((M, 2), 5e-324)) is not None
        and integer_points(np.zeros((M, 2))) is not None
    )


@pytest.mark.parametrize("storage", POINT_STORAGES.values(), ids=POINT_STORAGES)
@pytest.mark.parametrize(("divisor", "rounded"), [(1, False), (16, False), (255, True)])
def test_levels_of_grey(rng, storage, divisor, rounded):
    """Multiples of 1/255 are exact in float32 where their quotients are not in float64."""
    X = np.where(rng.random((M, 60)) < 0.5, rng.integers(0, 256, (M, 60)), 0) / divisor
    X[0, 0] = 1 / divisor
    kernel = RBF(storage(X), 0.02 * (divisor / 255) ** 2)
    unit = kernel._unit
    assert (
        unit.quantum == 1 / divisor and unit.rounded == rounded and unit.points.dtype == np.float32
    )
    factor = 16.0 if rounded else 8.0
    assert kernel.error == pytest.approx(
        factor * 2.0**-52 * kernel.gamma * np.max(np.sum(X * X, axis=1)), rel=1e-6
    )
    exact = np.exp(-kernel.gamma * cdist(X, X, "sqeuclidean"))
    x = np.where(rng.random(M) < 0.5, rng.standard_normal(M), 0.0)
    size = np.sum(np.abs(x))
    np.testing.assert_allclose(kernel.dot(x), exact @ x, rtol=0, atol=(kernel.error + 1e-14) * size)
    np.testing.assert_allclose(kernel.low_precision().block(np.arange(200)), exact[:200], rtol=1e-5)
    support, new = np.flatnonzero(x), np.round(255 * rng.random((300, 60))) / divisor
    for given in (storage(new), new + 1e-7):
        expected = kernel.cross(given, support) @ x[support]
        values = kernel.combine(given, support, x[support])
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * size)


def test_large_multiples_are_left_to_float64(rng):
    X = rng.integers(0, 2000, (M, 30)).astype(float)
    assert integer_points(X) is None and integer_points(X / 100) is None


def test_binary_problem(rng):
    """The same optimum as from the kernel matrix."""
    X = binary(rng, 90, m=2100, share=0.15)
    y = np.where(X[:, :9].sum(axis=1) + 0.5 * rng.standard_normal(2100) > 1.2, 1.0, -1.0)
    ours = solve(HingeDual(RBF(X, 0.05), y, 1.0), "decomposition", tol=1e-7)
    K = np.exp(-0.05 * cdist(X, X, "sqeuclidean"))
    from_matrix = solve(HingeDual(K, y, 1.0), "decomposition", tol=1e-7)
    assert ours.converged and ours.value == pytest.approx(from_matrix.value, rel=3e-7)


def test_exponential():
    from qpsvm.gram.engine.formula import gaussian
    from qpsvm.gram.engine.sweep import map_products

    formula = gaussian(1.0)
    distance = np.concatenate([[0.0, 1e-300, 1e-17], np.logspace(-16, 2.8, 3000), [750.0, 1e9]])
    for dtype, rtol, least in ((np.float64, 2e-16, 1e-300), (np.float32, 1.2e-7, 1e-36)):
        K = (-distance / 2).astype(dtype)[None]
        exact = np.exp(2.0 * K.astype(np.float64))[0]
        out, zero = K.copy(), np.zeros(K.shape[1])
        map_products(out, formula.factor, formula.map, np.zeros(1), zero)
        clear = exact > least
        slack = rtol * (2.0 + 2.0 * distance[clear])  # the argument is rounded, too
        assert np.all(np.abs(out[0, clear] / exact[clear] - 1.0) <= slack)
        assert np.all(out[0, ~clear] <= 2 * least)
