"""Grams against scikit-learn; conventions, cached columns, caches, pickles, convexity checks."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise

from problems.clouds import cloud
from qpsvm import (
    RBF,
    Cached,
    CustomKernel,
    InputError,
    L2SVMDual,
    Laplacian,
    Linear,
    MEBDual,
    Polynomial,
    Precomputed,
    Sigmoid,
    Status,
    solve,
)
from qpsvm.gram import SignedGram, psd
from qpsvm.gram.column_store import FEWEST_COLUMNS, ColumnStore
from qpsvm.gram.psd import is_psd

X = cloud(40, 6, seed=1)
Y = np.where(np.arange(40) % 2, 1.0, -1.0)
NEW_X, SOME_AT = cloud(9, 6, seed=2), np.array([3, 17, 17, 0])

KERNEL_CASES = {
    "linear": (Linear, pairwise.linear_kernel, {}),
    "rbf": (RBF, pairwise.rbf_kernel, {"gamma": 0.2}),
    "polynomial": (
        Polynomial,
        pairwise.polynomial_kernel,
        {"degree": 3, "gamma": 0.5, "coef0": 1.0},
    ),
    "degree-7": (Polynomial, pairwise.polynomial_kernel, {"degree": 7, "gamma": 0.1, "coef0": 0.5}),
    "sigmoid": (Sigmoid, pairwise.sigmoid_kernel, {"gamma": 0.1, "coef0": -0.5}),
    "laplacian": (Laplacian, pairwise.laplacian_kernel, {"gamma": 0.2}),
    "custom": (CustomKernel, pairwise.rbf_kernel, {"function": pairwise.rbf_kernel}),
}
STORAGE_CASES = {"dense": np.asarray, "CSR": sp.csr_matrix}


@pytest.fixture(params=KERNEL_CASES.values(), ids=KERNEL_CASES)
def kernel(request):
    """A Gram class with parameters, and what it must be equal to."""
    gram, theirs, parameters = request.param
    apart = {k: v for k, v in parameters.items() if k != "function"}
    return lambda X: gram(X, **parameters), lambda A, B: theirs(A, B, **apart)


@pytest.mark.parametrize("storage", STORAGE_CASES.values(), ids=STORAGE_CASES)
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 2e-5)])
def test_values_are_those_of_scikit_learn(kernel, storage, dtype, rtol):
    points = X.astype(dtype)
    gram, K = kernel[0](storage(points)), kernel[1](points.astype(float), points.astype(float))
    everything = np.arange(40)

    def same(got, want, rtol):
        np.testing.assert_allclose(got, want, rtol=0, atol=rtol * np.abs(want).max())

    assert (gram.m, gram.dtype) == (40, dtype)
    same(gram.block(everything), K, rtol)
    assert gram.block(everything).dtype == dtype and gram.block(SOME_AT).flags.c_contiguous
    same(gram.block(SOME_AT, slice(5, 9)), K[SOME_AT, 5:9], rtol)
    # whatever the points are stored in, certificates get float64
    same(gram.block(SOME_AT, None, np.float64), K[SOME_AT], 1e-13)
    same(gram.diag(), np.diag(K), 1e-13)
    same(gram.dot(Y), K @ Y, 1e-12)
    same(gram.dot(Y, SOME_AT), (K @ Y)[SOME_AT], 1e-12)
    same(gram.take(SOME_AT).block(np.arange(4)), K[np.ix_(SOME_AT, SOME_AT)], rtol)
    expected = kernel[1](NEW_X, points[SOME_AT].astype(float))
    same(gram.cross(NEW_X, SOME_AT), expected, 1e-13)
    same(gram.cross(sp.csr_matrix(NEW_X), SOME_AT), expected, 1e-13)


def test_many_columns_of_sparse_points_are_those_of_dense_ones(rng):
    """Large blocks go another way than small ones."""
    points = sp.random(3000, 50, 0.1, format="csr", random_state=rng)
    columns = np.arange(0, 3000, 50)
    dense, sparse = (RBF(p, gamma=0.3).block(columns) for p in (points.toarray(), points))
    np.testing.assert_allclose(sparse, dense, rtol=0, atol=1e-13)


def test_precomputed_is_the_matrix():
    K = X @ X.T
    gram = Precomputed(K)
    np.testing.assert_array_equal(gram.block(SOME_AT, slice(3)), K[SOME_AT, :3])
    np.testing.assert_array_equal(gram.cross(K[:5], SOME_AT), K[:5, SOME_AT])
    np.testing.assert_array_equal(gram.take(SOME_AT).K, K[np.ix_(SOME_AT, SOME_AT)])
    np.testing.assert_allclose(gram.dot(Y), K @ Y)
    for given in (K, np.asfortranarray(K), K.astype(np.float32)):  # read in place, never written
        stored = Precomputed(given).K
        assert np.shares_memory(stored, given) and stored.flags.c_contiguous
        assert given.flags.writeable and not stored.flags.writeable


def test_gamma_by_name():
    variance, pairs = X.var(), pairwise.euclidean_distances(X, squared=True)
    for storage in STORAGE_CASES.values():
        for gram in (RBF, Polynomial, Sigmoid, Laplacian):
            assert gram(storage(X)).gamma == pytest.approx(1.0 / (6 * variance), rel=1e-12)
            named = gram(storage(X), gamma="mean-distance").gamma
            assert named == pytest.approx(1.0 / (2.0 * pairs.mean()), rel=1e-12)
    # the first paper's kernel is exp(-|x - z|^2 / (2 sigma^2))
    K = RBF(X, gamma="mean-distance").block(np.arange(40))
    np.testing.assert_allclose(K, np.exp(-pairs / (2.0 * pairs.mean())), rtol=1e-12)


def test_gamma_by_name_does_not_fail_on_identical_points():
    for gamma in ("scale", "mean-distance"):
        assert RBF(np.ones((5, 2)), gamma=gamma).gamma == 1.0


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_distant_points_keep_their_digits(offset):
    far = np.round(X * 2**20) / 2**20 + offset
    near = far - offset
    np.testing.assert_allclose(
        RBF(far, 0.2).block(np.arange(40)), pairwise.rbf_kernel(near, gamma=0.2), rtol=1e-12
    )
    K = Linear(far).centered().block(np.arange(40))  # where the origin is does not matter
    squares = np.add.outer(np.diag(K), np.diag(K)) - 2.0 * K
    np.testing.assert_allclose(
        squares, pairwise.euclidean_distances(near, squared=True), atol=1e-11
    )


def test_signed_gram_is_the_formula():
    C, K = np.linspace(1, 2, 40), X @ X.T
    gram = SignedGram(Linear(X), Y, 1.0 / C, shift=1.0, scale=3.0)
    G = 3.0 * np.outer(Y, Y) * (K + 1.0)
    np.testing.assert_allclose(gram.diag(), np.diag(G))
    np.testing.assert_allclose(gram.product(np.eye(gram.m)[7]), G[7])
    np.testing.assert_allclose(gram.product(C), G @ C)
    part = gram.take(SOME_AT)
    np.testing.assert_allclose(part.product(C[SOME_AT]), G[np.ix_(SOME_AT, SOME_AT)] @ C[SOME_AT])


# Cached columns.


def test_least_recently_used_column_leaves_first():
    gram = RBF(X, 0.2)
    store = ColumnStore(gram, 8 * 8 * 40)
    for i in range(8):
        store.ensure(np.array([i]))
    store.ensure(np.array([0]))  # used again: now 1 is the oldest
    store.ensure(np.array([20, 21]))
    assert set(np.flatnonzero(store.slot >= 0)) == {0, 3, 4, 5, 6, 7, 20, 21}
    store.ensure(np.array([21, 1, 1]))
    assert set(np.flatnonzero(store.slot >= 0)) == {0, 1, 4, 5, 6, 7, 20, 21}
    assert store.n_computed == 11
    K = gram.block(np.arange(40))
    for i in np.flatnonzero(store.slot >= 0):
        np.testing.assert_allclose(store.store[store.slot[i]], K[i], rtol=1e-14)


def test_a_released_column_leaves_before_new_memory_is_used():
    store = ColumnStore(RBF(X, 0.2), 1 << 20)
    store.ensure(np.arange(6))
    store.release(np.array([2, 4, 5]))
    store.ensure(np.array([4]))  # asked for again: it stays
    store.ensure(np.array([30, 31]))
    assert set(np.flatnonzero(store.slot >= 0)) == {0, 1, 3, 4, 30, 31}
    assert sorted(store.slot[[0, 1, 3, 4, 30, 31]]) == list(range(6))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_blocks_agree_with_the_formula(kind, dtype):
    """Recomputed sums and columns in chunks; several blocks, panels and threads."""
    points = cloud(1700, 5, seed=3).astype(dtype)
    gram = RBF(kind(points), 0.3)
    K = pairwise.rbf_kernel(points.astype(np.float64), gamma=0.3)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1700) * (rng.random(1700) < 0.7)
    rows = rng.permutation(1700)[:900]
    np.testing.assert_allclose(gram.dot(x), K @ x, atol=1e-11)
    np.testing.assert_allclose(gram.dot(x, rows), (K @ x)[rows], atol=1e-11)
    for one in (gram, gram.low_precision()):
        store = ColumnStore(one, 1 << 26)
        store.ensure(rows)
        atol = 1e-5 if one.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(store.store[store.slot[rows]], K[rows], atol=atol)


def test_columns_stay_precise_where_rounded_points_would_move_the_kernel():
    near, far = RBF(X, 0.2), RBF(1e3 * X, 0.2)
    assert near.low_precision().dtype == np.float32
    assert far.low_precision() is far


def test_columns_asked_for_together_are_held_together():
    store = ColumnStore(RBF(X, 0.2), FEWEST_COLUMNS * 8 * 40)
    rng = np.random.default_rng(0)
    for _ in range(200):
        wanted = rng.integers(0, 40, rng.integers(1, FEWEST_COLUMNS + 1))
        store.ensure(wanted)
        slots = store.slot[np.unique(wanted)]
        assert np.all(slots >= 0) and len(set(slots)) == len(slots)
    assert not store.store.flags.writeable


def test_a_store_holds_no_more_than_its_limit_or_its_matrix():
    assert ColumnStore(RBF(X), 1 << 40).store.shape == (40, 40)
    assert ColumnStore(RBF(X), 10 * 8 * 40 + 7).store.nbytes == 10 * 8 * 40
    assert ColumnStore(RBF(X.astype(np.float32)), 20 * 4 * 40).store.shape == (20, 40)
    with pytest.raises(InputError, match="memory_limit"):
        ColumnStore(RBF(X), 7 * 8 * 40)


def test_columns_are_computed_once_or_again_as_memory_allows():
    problem = L2SVMDual(RBF(X, 0.2), Y, C=100.0)
    free, tight = (solve(problem, "mfw", tol=1e-6, memory_limit=n * 320) for n in (40, 8))
    assert free.counters["columns"] <= 40 < tight.counters["columns"]
    assert len(free.support) <= free.counters["columns"]
    assert solve(L2SVMDual(X @ X.T, Y), "mfw").counters["columns"] == 0


def test_fifty_thousand_points_need_no_matrix():
    """The matrix would take 20 GB; the memory allowed is 100 columns."""
    points = cloud(50_000, 3, seed=3)
    tracemalloc.start()
    result = solve(MEBDual(RBF(points, 0.1)), "mfw", tol=1e-4, memory_limit=100 * 8 * 50_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.converged and result.model.contains(points[:100]).all()
    assert peak < 500e6


# Caches.


def test_a_cache_never_computes_a_column_twice():
    K = Cached(RBF(X, 0.2))
    computed = 0
    for C in (1.0, 10.0, 100.0, 1000.0):
        for problem in (L2SVMDual(K, Y, C=C), L2SVMDual(K, -Y, C=C), MEBDual(K)):
            result = solve(problem, tol=1e-6)
            assert result.converged
            computed += result.counters["columns"]
    assert 0 < computed <= 40
    again = solve(L2SVMDual(K, Y, C=1000.0), tol=1e-6)
    assert again.counters["columns"] == 0


def test_a_cache_under_its_own_limit():
    K = Cached(RBF(X, 0.2), memory_limit=8 * 8 * 40)
    for C in (1.0, 100.0):
        cached, plain = (solve(L2SVMDual(gram, Y, C=C), tol=1e-6) for gram in (K, K.gram))
        assert cached.converged
        assert cached.certificate.lower <= plain.value and plain.certificate.lower <= cached.value


def test_a_cache_of_a_matrix_and_of_a_cache():
    for K in (Cached(Precomputed(X @ X.T)), Cached(Cached(Linear(X)))):
        assert solve(L2SVMDual(K, Y), tol=1e-6).converged


def test_a_cache_answers_like_the_gram_behind():
    gram = RBF(X, 0.2)
    K = Cached(gram)
    np.testing.assert_array_equal(K.block(SOME_AT), gram.block(SOME_AT))
    np.testing.assert_array_equal(K.diag(), gram.diag())
    np.testing.assert_array_equal(K.dot(Y), gram.dot(Y))
    np.testing.assert_array_equal(K.take(SOME_AT).diag(), gram.take(SOME_AT).diag())
    np.testing.assert_array_equal(K.cross(NEW_X, SOME_AT), gram.cross(NEW_X, SOME_AT))
    assert (K.factor() is None) and Cached(Linear(X)).factor() is X


# Pickles.


@pytest.mark.parametrize("wrap", [lambda gram: gram, Cached])
def test_pickles(kernel, wrap):
    gram = wrap(kernel[0](X))
    copy = pickle.loads(pickle.dumps(gram))
    np.testing.assert_array_equal(copy.block(SOME_AT), gram.block(SOME_AT))
    assert (copy.m, copy.dtype, copy.psd) == (gram.m, gram.dtype, gram.psd)


def test_a_pickle_drops_the_columns():
    K = Cached(RBF(X, 0.2))
    solve(MEBDual(K), tol=1e-6)
    assert len(pickle.dumps(K)) < 2 * X.nbytes + 2000
    copy = pickle.loads(pickle.dumps(K))
    assert solve(MEBDual(copy), tol=1e-6).counters["columns"] > 0


def test_problems_and_results_pickle():
    problem = L2SVMDual(Cached(RBF(X, 0.2)), Y)
    result = solve(pickle.loads(pickle.dumps(problem)), tol=1e-6)
    copy = pickle.loads(pickle.dumps(result))
    assert copy.certificate == result.certificate and copy.status is Status.OPTIMAL
    np.testing.assert_array_equal(copy.model.predict(NEW_X), result.model.predict(NEW_X))


# Convexity.


def low_eigenvalue(value, m):
    """Return a matrix of unit diagonal's size with one eigenvalue `value`, the others 1."""
    v = np.ones(m) / np.sqrt(m)
    return np.eye(m) + (value - 1.0) * np.outer(v, v)


@pytest.mark.parametrize("dense", [2000, 10], ids=["factored", "sampled"])
@pytest.mark.parametrize("value", [-1.0, -1e-3])
def test_a_negative_eigenvalue_is_found(dense, value, monkeypatch):
    monkeypatch.setattr(psd, "MAX_POINTS_FOR_FACTOR", dense)
    assert not is_psd(Precomputed(low_eigenvalue(value, 60)))
    assert not is_psd(Cached(Precomputed(low_eigenvalue(value, 60))))


@pytest.mark.parametrize("dense", [2000, 10], ids=["factored", "sampled"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_not_called_negative(dense, dtype, monkeypatch):
    monkeypatch.setattr(psd, "MAX_POINTS_FOR_FACTOR", dense)
    for points in (
        X,
        cloud(200, 3, seed=5),
        1e4 + X,
        1e-8 * X,
        np.zeros((20, 2)),
        np.ones((20, 2)),
    ):
        assert is_psd(Precomputed((points @ points.T).astype(dtype)))
        assert is_psd(Precomputed(pairwise.rbf_kernel(points, gamma=0.01).astype(dtype)))
    assert is_psd(Precomputed(low_eigenvalue(0.0, 60).astype(dtype)))


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_rounding_to_float32_is_bounded_from_above_and_not_far(scale):
    K = scale * pairwise.polynomial_kernel(cloud(300, 2, seed=6), degree=2, coef0=1.0)
    rounded = Precomputed(K.astype(np.float32))
    least = float(np.linalg.eigvalsh(rounded.K.astype(np.float64))[0])
    assert least < 0.0
    assert -least <= psd.psd_defect(rounded) <= -4.0 * least


def test_of_a_kernel_a_sample_is_checked_and_of_a_matrix_all_of_it(monkeypatch):
    monkeypatch.setattr(psd, "MAX_POINTS_FOR_FACTOR", 100)
    points, pairs = cloud(400, 3, seed=7), []

    def values(A, B):
        pairs.append(len(A) * len(B))
        return pairwise.rbf_kernel(A, B, gamma=0.5)

    kernel = CustomKernel(points, values)
    pairs.clear()
    assert is_psd(kernel) and sum(pairs) <= 100**2
    indefinite = Sigmoid(points, gamma=1.0, coef0=-1.0)
    assert not is_psd(indefinite) and not is_psd(Cached(indefinite))
    K = pairwise.rbf_kernel(points, gamma=0.5)
    left_out = sorted(set(range(400)) - set(np.linspace(0, 399, 100).astype(int)))[:20]
    K[np.ix_(left_out, left_out)] -= 50.0
    assert is_psd(CustomKernel(points[left_out[0] + 1 :], pairwise.rbf_kernel))
    assert not is_psd(Precomputed(K))


@pytest.mark.parametrize("gram", [Linear(X), RBF(X), Laplacian(X), Polynomial(X, coef0=1.0)])
def test_facts_are_not_checked(gram, monkeypatch):
    monkeypatch.setattr(type(gram), "block", None)
    assert gram.psd == "fact" and is_psd(gram)


def test_what_may_be_indefinite_is_checked_unless_the_user_vouches():
    bad = Sigmoid(X, gamma=1.0, coef0=-1.0)
    assert bad.psd == "check" and not is_psd(bad)
    result = solve(L2SVMDual(bad, Y), max_iter=100)
    assert result.status is Status.NONCONVEX and result.certificate.lower == -np.inf
    assert is_psd(Sigmoid(X, gamma=1.0, coef0=-1.0, psd="assume"))
    assert Polynomial(X, coef0=-1.0).psd == "check" and CustomKernel(X, min).psd == "check"
    vouched = CustomKernel(X, pairwise.rbf_kernel, psd="assume")
    assert solve(L2SVMDual(vouched, Y)).converged


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("largest", [3, 400])
def test_small_integers_are_multiplied_exactly_in_single_precision(rng, form, largest):
    """Squared norms up to 2^24 make float32 products exact; beyond, points stay in float64."""
    X = rng.integers(-largest, largest + 1, (1100, 130)).astype(np.float64)
    X[0] = largest  # the largest squared norm: 130 * largest^2
    kernel = RBF(form(X), 1.0 / (40 * largest**2))
    assert (kernel._unit is not None) == (largest == 3)
    x = np.where(rng.random(1100) < 0.5, rng.standard_normal(1100), 0.0)
    expected = np.exp(-kernel.gamma * cdist(X, X, "sqeuclidean")) @ x
    np.testing.assert_allclose(kernel.dot(x), expected, atol=1e-13 * np.sum(np.abs(x)))
    assert RBF(X + np.sqrt(2.0), 0.1)._unit is None
