"""Inputs that once crashed, passed unnoticed or ended in an error of a library below."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import (
    RBF,
    CustomKernel,
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    L2SVRDual,
    Laplacian,
    LeastSquares,
    Linear,
    LowRank,
    LPSVMPrimal,
    LSSVMPrimal,
    MEBDual,
    Polynomial,
    PolytopeDistanceDual,
    Precomputed,
    QuadraticProgram,
    Sigmoid,
    Status,
    solve,
)
from qpsvm.domains import simplex

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(40) > 0, 1.0, -1.0)
K = X @ X.T
SMALL_GRAM = np.eye(3)


def is_refused(name, call, *, containing=""):
    with pytest.raises(InputError) as caught:
        call()
    said = str(caught.value)
    assert said.startswith(f"{name} "), said
    assert containing in said


def edited(kind, **arrays):
    """Return a sparse matrix whose arrays are replaced after scipy has looked at them."""
    matrix = getattr(sp, f"{kind}_matrix")(SMALL_GRAM)
    assert kind != "csr" or matrix.has_canonical_format
    for name, values in arrays.items():
        setattr(matrix, name, np.array(values, np.int32))
    return matrix


BROKEN_MATRICES = {
    "csr-index-too-large": edited("csr", indices=[0, 7, 1]),
    "csr-index-negative": edited("csr", indices=[0, -1, 1]),
    "csr-rows-that-run-back": edited("csr", indptr=[0, 3, 1, 3]),
    "csr-rows-beyond-the-end": edited("csr", indptr=[0, 1, 2, 9]),
    "csc-index-too-large": edited("csc", indices=[0, 7, 1]),
    "csc-index-negative": edited("csc", indices=[0, -4, 1]),
    "bsr-index-too-large": edited("bsr", indices=[0, 7, 1]),
    "coo-row-too-large": edited("coo", row=[0, 7, 1]),
    "coo-column-negative": edited("coo", col=[0, -7, 1]),
}


@pytest.mark.parametrize("matrix", BROKEN_MATRICES.values(), ids=BROKEN_MATRICES)
@pytest.mark.parametrize(
    ("name", "declare"),
    [
        ("X", Linear),
        ("X", RBF),
        ("X", lambda A: HingePrimal(A, [1, -1, 1])),
        ("P", lambda A: PolytopeDistanceDual.from_points(A, SMALL_GRAM)),
        ("K", MEBDual),
        ("A", lambda A: LeastSquares(A, np.ones(3), simplex(3))),
        ("Q", lambda A: QuadraticProgram(A, np.ones(3), simplex(3))),
    ],
    ids=["Linear", "RBF", "primal", "hull", "matrix", "least-squares", "quadratic"],
)
def test_sparse_indices_out_of_range(name, declare, matrix):
    is_refused(name, lambda: declare(matrix), containing="sparse")


@pytest.mark.parametrize("indices", [[2, 1, 0] * 3, [1, 1, 0] * 3], ids=["unsorted", "duplicate"])
@pytest.mark.parametrize("kernel", [Linear, RBF, Polynomial, Laplacian])
def test_sparse_indices_edited_behind_the_flags(kernel, indices):
    A = sp.csr_matrix(np.arange(1.0, 10.0).reshape(3, 3))
    assert A.has_canonical_format
    A.indices[:] = indices
    dense = sp.coo_matrix((A.data, (np.repeat(np.arange(3), 3), indices)), (3, 3)).toarray()
    before = A.indices.copy()
    found = kernel(A, **({} if kernel is Linear else {"gamma": 0.1}))
    assert found.X.has_sorted_indices and len(found.X.data) == np.count_nonzero(dense)
    np.testing.assert_array_equal(found.X.toarray(), dense)
    np.testing.assert_array_equal(A.indices, before)


def test_coo_duplicates_are_summed():
    A = sp.coo_matrix(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 2])), (2, 3))
    np.testing.assert_array_equal(Linear(A).X.toarray(), [[0, 3, 0], [0, 0, 4]])


class ObjectSparse(sp.csr_matrix):
    """Sparse matrix that claims Python objects, as older versions of scipy can make."""

    dtype = np.dtype(object)


def three_dimensional():
    """Return a sparse array that is no matrix, which scipy makes since 1.15."""
    try:
        return sp.coo_array((np.ones(1), ([0], [1], [1])), shape=(2, 2, 2))
    except ValueError:
        return np.ones((2, 2, 2))


@pytest.mark.parametrize(
    "bad",
    [
        sp.coo_array(np.arange(3.0)),
        three_dimensional(),
        ObjectSparse(SMALL_GRAM),
        np.ma.masked_array(X, X > 1),
        [[10**400, 1], [2, 3]],
        np.array([[10**400, 1], [2, 3]], dtype=object),
    ],
    ids=["1-d", "3-d", "objects", "masked", "10**400", "10**400-objects"],
)
@pytest.mark.parametrize("declare", [Linear, RBF, lambda A: HingePrimal(A, Y)])
def test_points_that_are_none(declare, bad):
    is_refused("X", lambda: declare(bad))


def test_a_mask_that_hides_nothing_is_none():
    np.testing.assert_array_equal(Linear(np.ma.masked_array(X, np.zeros(X.shape, bool))).X, X)


BOOLEAN_MASK = np.arange(40) == 3


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("K", lambda: MEBDual(np.ma.masked_array(K, np.diag(BOOLEAN_MASK)))),
        ("y", lambda: HingeDual(K, np.ma.masked_array(Y, BOOLEAN_MASK))),
        ("C", lambda: HingeDual(K, Y, np.ma.masked_array(np.ones(40), BOOLEAN_MASK))),
        ("x0", lambda: solve(MEBDual(K), x0=np.ma.masked_array(np.ones(40), BOOLEAN_MASK))),
        ("b", lambda: LeastSquares(K, np.ma.masked_array(Y, BOOLEAN_MASK), simplex(40))),
        ("c", lambda: QuadraticProgram(K, np.ma.masked_array(Y, BOOLEAN_MASK), simplex(40))),
        ("b", lambda: LeastSquares(K, ["a"] * 40, simplex(40))),
        ("C", lambda: HingeDual(K, Y, True)),
        ("C", lambda: HingeDual(K, Y, BOOLEAN_MASK)),
        ("C", lambda: HingeDual(K, Y, 10**400)),
        ("C", lambda: HingeDual(K, Y, [[1.0], [1.0, 2.0]])),
        ("tol", lambda: solve(MEBDual(K), tol=10**400)),
        ("gamma", lambda: RBF(X, gamma=10**400)),
        ("merge", lambda: solve(MEBDual(K), merge=np.array([True, False]))),
        ("merge", lambda: solve(MEBDual(K), merge=[True])),
        ("original", lambda: solve(MEBDual(K), original=np.array([True, False]))),
        ("bias", lambda: HingeDual(K, Y, bias=np.array([True, False]))),
        ("method", lambda: solve(MEBDual(K), method=np.array(["smo", "fw"]))),
        ("polish", lambda: solve(HingeDual(LowRank(RBF(X)), Y), polish="foo")),
        ("polish", lambda: solve(HingeDual(LowRank(RBF(X)), Y), polish=np.ones(2))),
        ("slack", lambda: solve(MEBDual(Linear(X))).model.contains(X, slack="a")),
        ("slack", lambda: solve(MEBDual(Linear(X))).model.contains(X, slack=np.nan)),
    ],
)
def test_arguments(name, call):
    is_refused(name, call)


@pytest.mark.parametrize(
    "function",
    [
        lambda A, B: (A @ B.T) * (1 + 0j),
        lambda A, B: (A @ B.T).astype(str),
        lambda A, B: (A @ B.T).astype(object),
        lambda A, B: np.ma.masked_array(A @ B.T, A @ B.T > 0),
        lambda A, B: None,
        lambda A, B: [[1.0, 2.0], [3.0]],
    ],
    ids=["complex", "strings", "objects", "masked", "nothing", "ragged"],
)
def test_values_of_a_function(function):
    is_refused("function", lambda: solve(MEBDual(CustomKernel(X, function))))


def test_values_of_a_function_that_overflow_in_float32():
    kernel = CustomKernel(X.astype(np.float32), lambda A, B: 1e300 * (A @ B.T))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        is_refused("function", lambda: solve(MEBDual(kernel)), containing="float32")


@pytest.mark.parametrize("order", [">", "<"])
def test_byte_order_of_the_other_machine(order):
    native = np.float32(X) @ np.float32(X).T
    given = Precomputed(native.astype(f"{order}f4"))
    assert given.dtype == np.float32 and given.K.dtype.isnative
    np.testing.assert_array_equal(given.K, native)
    assert solve(HingeDual(given, Y)).status is solve(HingeDual(native, Y)).status


HUGE_POINTS = np.float32(1e19) * np.float32(X)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("gamma, coef0, degree", lambda: Polynomial(X, degree=1000)),
        ("gamma, coef0, degree", lambda: Polynomial(sp.csr_matrix(X), degree=1000)),
        ("gamma, coef0, degree", lambda: Polynomial(np.float32(X), degree=100, gamma=1e3)),
        ("gamma must be below", lambda: Sigmoid(np.float32(1e-20 * X), gamma=3.5e42, coef0=-1.0)),
        ("gamma, coef0", lambda: Sigmoid(X, gamma=1e300)),
        ("gamma", lambda: RBF(X, gamma=1e300)),
        ("K", lambda: Precomputed(K * 1e300)),
        ("K", lambda: Precomputed(np.float32(K) * np.float32(1e37))),
        ("X", lambda: RBF(HUGE_POINTS)),
        ("X", lambda: Linear(HUGE_POINTS)),
        ("X", lambda: Linear(sp.csr_matrix(HUGE_POINTS))),
        ("X", lambda: RBF(X * 1e200)),
        ("X", lambda: Laplacian(X * 1e200)),
        ("gamma", lambda: Laplacian(X * 1e-200)),
        ("gamma", lambda: RBF(sp.csr_matrix(X * 1e-200), gamma="mean-distance")),
    ],
)
def test_kernels_that_overflow(name, call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        is_refused(name, call)


@pytest.mark.parametrize("size", [1e-60, 1e60])
@pytest.mark.parametrize("kernel", [RBF, Laplacian])
def test_scales_within_range_do_not_matter(kernel, size):
    values = [solve(HingeDual(kernel(s * X, "mean-distance"), Y)).value for s in (1.0, size)]
    if kernel is RBF:  # of gamma in 1 / distance the scale is not that of the Laplacian kernel
        assert values[0] == pytest.approx(values[1], rel=2e-3)
    assert np.isfinite(values).all()


def test_variance_of_sparse_points_far_from_zero():
    far = X + 1e8
    assert RBF(sp.csr_matrix(far)).gamma == pytest.approx(RBF(far).gamma, rel=1e-6)


def test_gamma_by_the_number_of_features():
    assert RBF(X, "auto").gamma == Polynomial(X, gamma="auto").gamma == 1 / 3


@pytest.mark.parametrize("C", [1e155, 1e160, 1e300])
@pytest.mark.parametrize("declare", [HingeDual, HingePrimal, L2SVMDual, LSSVMPrimal, LPSVMPrimal])
def test_penalties_whose_squares_overflow(declare, C):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solve(declare(Linear(X), Y, C), max_iter=300)
    bounds = result.certificate
    assert not np.isnan([bounds.upper, bounds.lower, bounds.gap, bounds.roundoff]).any()
    assert bounds.lower <= bounds.upper
    history = result.history
    assert not np.isnan([history.upper, history.lower, history.gap]).any()


@pytest.mark.parametrize("m", [7, 20, 64])
@pytest.mark.parametrize("C", [1.0, 0.3])
@pytest.mark.parametrize(
    "kernel",
    [lambda m: np.ones((m, m)), lambda m: np.full((m, m), 3.7), lambda m: RBF(np.ones((m, 3)))],
    ids=["ones", "constant", "identical-points"],
)
def test_points_that_are_all_the_same(kernel, C, m):
    y = np.where(np.random.default_rng(m).random(m) < 0.5, 1.0, -1.0)
    K = kernel(m)
    gram = K if isinstance(K, RBF) else Precomputed(K)
    result = solve(LSSVMPrimal(gram, y, C), tol=1e-6)
    assert result.status is Status.OPTIMAL
    # w = 0 with the mean of y as the bias
    assert result.value == pytest.approx(C * np.sum((y - np.mean(y)) ** 2), rel=1e-6)


SYMMETRIC_MATRIX = (lambda A: A + A.T)(RNG.standard_normal((40, 40)))


@pytest.mark.parametrize("K", [SYMMETRIC_MATRIX, -np.eye(40), 1e6 * SYMMETRIC_MATRIX])
@pytest.mark.parametrize("method", ["homotopy-nesvm", "nesvm"])
def test_least_squares_on_an_indefinite_matrix_is_said_and_silent(method, K):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solve(LSSVMPrimal(Precomputed(K), Y), method, max_iter=1000)
    assert result.status in (Status.NONCONVEX, Status.MAX_ITER)
    assert result.certificate.lower == -np.inf


def test_steps_that_diverge_on_a_matrix_that_was_vouched_for_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solve(LSSVMPrimal(Precomputed(SYMMETRIC_MATRIX, psd="assume"), Y), max_iter=1000)
    assert result.status is not Status.OPTIMAL


@pytest.mark.parametrize("K", [SYMMETRIC_MATRIX, -np.eye(40)])
def test_newton_steps_on_an_indefinite_matrix(K):
    result = solve(L2SVMDual(Precomputed(K), Y), "face-newton")
    assert result.status is Status.NONCONVEX
    assert result.certificate.lower == -np.inf


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("offset", "spread"), [(1e6, 1e-3), (1e8, 1.0)])
@pytest.mark.parametrize("method", ["auto", "dcd"])
def test_coordinate_descent_far_from_the_origin(method, offset, spread, seed):
    rng = np.random.default_rng(seed)
    far = offset + spread * rng.standard_normal((200, 10))
    y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    result = solve(HingeDual(Linear(far), y, 10.0, bias=False), method, tol=1e-9)
    bounds = result.certificate
    assert bounds.lower <= bounds.upper <= 0.0
    # w = 0 has the primal value sum C, so that no proved bound is below its negative
    assert bounds.lower >= -2000.0 * (1.0 + 1e-9)


@pytest.mark.parametrize(
    ("method", "constants"),
    [("smo", "domains sure"), ("mfw", "domains least_period"), ("mfn", "on_columns")],
)
def test_options_are_settings_alone(method, constants):
    problem = L2SVMDual(Linear(X), Y)
    with pytest.raises(InputError, match="options of method") as caught:
        solve(problem, method, nonsense=1)
    assert not any(f"'{name}'" in str(caught.value) for name in constants.split())


POINTS_IN_PLACE_OF_A_KERNEL = [HingeDual, L2SVMDual, lambda X, y: MEBDual(X)]


@pytest.mark.parametrize("declare", POINTS_IN_PLACE_OF_A_KERNEL)
@pytest.mark.parametrize(
    "points", [X, X.tolist(), sp.csr_matrix(X), X[:3]], ids=["array", "list", "sparse", "square"]
)
def test_points_in_place_of_a_kernel_name_the_kernels(declare, points):
    is_refused("K", lambda: declare(points, Y), containing="Linear(X) or RBF(X)")


def test_two_sets_of_points_name_the_constructor():
    call = "PolytopeDistanceDual.from_points(P, Q)"
    is_refused("K", lambda: PolytopeDistanceDual(X, X[:20]), containing=call)
    assert solve(PolytopeDistanceDual.from_points(X, X[:20])).value >= 0


@pytest.mark.parametrize("kernel", [Linear, RBF])
def test_one_new_point_is_a_row(kernel):
    model = solve(HingeDual(kernel(X), Y)).model
    is_refused("points", lambda: model.predict(X[0]), containing="points.reshape(1, -1)")
    assert model.predict(X[0].reshape(1, -1)).shape == (1,)


def test_steps_that_overflow_are_said_and_silent():
    x = np.array([[0.4030347168445587], [0.36191830039024353], [-0.5363567471504211]])
    near = Laplacian(x.astype(np.float32), gamma=6.294229985821969e-07)
    steep = Sigmoid(
        np.array([[0.15490196078431373], [0.30980392156862746]]), 95.79488461018016, 0.0
    )
    far = Linear(np.array([[1.2000000000000001e51, -8.004e50]]))
    cases = [
        (HingeDual(near, [1.0, -1.0, 1.0], C=np.inf), "smo", 1e-3, 60),  # columns in float32
        (HingePrimal(steep, [1.0, -1.0], C=np.inf), "decomposition", 1e-4, None),
        (L2SVRDual(far, [-1.0], C=1e15, epsilon=1e-6), "mfn", 1e-6, None),
    ]
    for problem, method, tol, memory_limit in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = solve(problem, method, tol=tol, memory_limit=memory_limit)
        assert result.status in (Status.STALLED, Status.NONCONVEX, Status.NUMERICAL_ERROR)
