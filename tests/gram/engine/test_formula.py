"""Every kernel in every storage comes out of one sweep, within the rounding bounds of its map."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, Laplacian, Linear, Polynomial, Sigmoid
from qpsvm.gram.kernels import base

M = 300


def sparse(rng, d, density):
    """Return CSR points of which this share of the coordinates is stored."""
    return sp.csr_array(np.where(rng.random((M, d)) < density, rng.random((M, d)), 0.0))


POINT_STORAGES = {
    "dense": lambda rng: rng.standard_normal((M, 13)),
    "far": lambda rng: 1e3 + rng.standard_normal((M, 7)),
    "outlier": lambda rng: (
        rng.standard_normal((M, 5)) * np.where(np.arange(M) == 7, 300.0, 1.0)[:, None]
    ),
    "float32": lambda rng: rng.standard_normal((M, 13)).astype(np.float32),
    "binary": lambda rng: (rng.random((M, 70)) < 0.3).astype(float),
    "integers": lambda rng: np.floor(200.0 * rng.random((M, 16))),
    "csr": lambda rng: sparse(rng, 40, 0.2),
    "wide csr": lambda rng: sparse(rng, 2500, 0.01),
}

KERNEL_CASES = {
    "rbf": lambda X: RBF(X, "mean-distance"),
    "laplacian": lambda X: Laplacian(X, 0.5 / np.abs(X).sum(axis=1).mean()),
    "quadratic": lambda X: Polynomial(X, 2, "scale", 1.0),
    "cubic": lambda X: Polynomial(X, 3, "scale", 0.0),
    "degree 6": lambda X: Polynomial(X, 6, 0.3 / np.square(X).sum(axis=1).max(), 0.5),
    "sigmoid": lambda X: Sigmoid(X, "scale", -0.3, psd="assume"),
    "linear": Linear,
}


def exact_values(gram, X, columns):
    """Return k(columns, all points) in extended precision, by the definition of the kernel."""
    X = (X.toarray() if sp.issparse(X) else X).astype(np.longdouble)
    few = X[columns]
    if isinstance(gram, RBF):
        square = np.stack([np.square(X - point).sum(axis=1) for point in few])
        return np.exp(-np.longdouble(gram.gamma) * square)
    if isinstance(gram, Laplacian):
        distance = np.stack([np.abs(X - point).sum(axis=1) for point in few])
        return np.exp(-np.longdouble(gram.gamma) * distance)
    product = few @ X.T
    if isinstance(gram, Polynomial):
        return (np.longdouble(gram.gamma) * product + gram.coef0) ** gram.degree
    if isinstance(gram, Sigmoid):
        return np.tanh(np.longdouble(gram.gamma) * product + gram.coef0)
    return product


@pytest.fixture(params=KERNEL_CASES)
def make(request):
    return KERNEL_CASES[request.param]


def pairs():
    """Return all pairs; by default, a test takes one kernel in every storage, and all on dense points."""
    return [
        pytest.param(
            kernel,
            storage,
            id=f"{kernel}-{storage}",
            marks=() if kernel == "rbf" or storage == "dense" else pytest.mark.slow,
        )
        for kernel in KERNEL_CASES
        for storage in POINT_STORAGES
    ]


@pytest.mark.parametrize(("kernel", "storage"), pairs())
@pytest.mark.parametrize("precise", [True, False], ids=["as given", "low precision"])
def test_columns_are_within_their_bounds(kernel, storage, precise, rng, monkeypatch):
    monkeypatch.setattr(
        base, "MIN_ENTRIES_FOR_COMPILED_PASS", 0
    )  # compiled code, however few the points are
    monkeypatch.setattr(base, "MIN_POINTS_FOR_TILES", 0)
    X = POINT_STORAGES[storage](rng)
    given = KERNEL_CASES[kernel](X)
    gram = given if precise else given.low_precision()
    columns = rng.permutation(M)[:11]
    exact = exact_values(given, X, columns)
    eps = float(np.finfo(np.longdouble).eps)
    slack = 1e3 * eps * np.max(np.abs(exact))  # of `exact` itself
    out = np.zeros((11, M), gram.dtype)
    gram.fill(columns, out, np.arange(11))
    assert np.all(np.abs(out - exact) <= gram.column_error + slack)
    rows = rng.permutation(M)[:50]
    some = np.zeros((11, 50), gram.dtype)
    gram.fill(columns, some, np.arange(11), rows)
    assert np.all(np.abs(some - exact[:, rows]) <= gram.column_error[rows] + slack)
    weights, total = rng.standard_normal(11), np.zeros(M)
    gram.add(columns, weights, total)
    largest = np.sum(np.abs(weights))
    bound = (gram.column_error + gram.sum_error + 1e-14 * np.max(np.abs(exact))) * largest
    assert np.all(np.abs(total - weights @ exact) <= bound + slack)


@pytest.mark.parametrize(("kernel", "storage"), pairs())
def test_sums_in_float64_are_those_of_the_kernel(kernel, storage, rng, monkeypatch):
    monkeypatch.setattr(base, "MIN_ENTRIES_FOR_COMPILED_PASS", 0)
    X = POINT_STORAGES[storage](rng)
    gram = KERNEL_CASES[kernel](X)
    x = np.where(rng.random(M) < 0.4, rng.standard_normal(M), 0.0)
    some = np.flatnonzero(x)
    K = exact_values(gram, X, some).astype(float)
    exact = x[some] @ K
    atol = 1e-12 * np.max(np.abs(K)) * np.sum(np.abs(x)) * (1e3 if storage == "far" else 1.0)
    np.testing.assert_allclose(gram.dot(x), exact, rtol=0, atol=atol)
    np.testing.assert_allclose(gram.dot(x, np.arange(9)), exact[:9], rtol=0, atol=atol)
    if X.dtype == np.float64:  # sums at new points have the precision of the points
        np.testing.assert_allclose(gram.combine(X, some, x[some]), exact, rtol=0, atol=atol)


def test_low_precision_halves_the_memory_where_it_keeps_three_digits(make, rng):
    near, far = (
        make(POINT_STORAGES["dense"](rng)).low_precision(),
        Polynomial(
            POINT_STORAGES["outlier"](rng) * np.exp(3.0 * rng.standard_normal((M, 1))), 3, 1.0, 0.0
        ),
    )
    assert near.dtype == np.float32
    assert far.low_precision() is far


def test_sums_of_columns_are_swept_by_tiles(make, rng):
    gram = make(rng.standard_normal((2500, 6)).astype(np.float32))
    assert gram.break_even_reuse_count > 0


@pytest.mark.parametrize("size", [1e-60, 1e-30, 1e-22, 1e25, 1e60])
def test_points_of_any_size_keep_the_bounds_of_their_columns(size, rng, monkeypatch):
    """In float32 squares of such points underflow or overflow: they are scaled, or stay in float64."""
    monkeypatch.setattr(base, "MIN_POINTS_FOR_TILES", 0)
    X = size * rng.standard_normal((M, 5))
    columns = np.arange(7)
    for given in (RBF(X, "scale"), Laplacian(X, 0.2 / size), Polynomial(X, 3, "scale", 1.0)):
        gram, out = given.low_precision(), None
        out = np.zeros((7, M), gram.dtype)
        gram.fill(columns, out, columns)
        exact = exact_values(given, X, columns)
        assert np.all(np.abs(out - exact) <= gram.column_error + 1e-15 * np.max(np.abs(exact)))
    assert RBF(X, "scale").low_precision().dtype == np.float32
