"""Approximate products: bounds on their errors, and certificates that use both."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from problems import INSTANCES
from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    Cached,
    CustomKernel,
    HingeDual,
    L2SVMDual,
    MEBDual,
    NuSVCDual,
    NuSVRDual,
    OneClassDual,
    PolytopeDistanceDual,
    SVDDDual,
    SVRDual,
    solve,
)
from qpsvm.canonical.base import ApproximateProducts
from qpsvm.driver import certificate, loop
from qpsvm.driver.certificate import certify
from qpsvm.gram import SignedGram
from qpsvm.gram.kernels import base
from qpsvm.gram.storage.points import mean_point
from qpsvm.solvers.working_set.gram_block import accumulate
from tests.cases import QUICK_INSTANCES

M, N_COLUMNS = 1100, 130  # enough for compiled sweeps


def points(kind, d, rng):
    """Return points of one kind."""
    X = rng.standard_normal((M, d))
    if kind == "far":
        return X + 1e4
    if kind == "outliers":
        X[::50] *= 1e3
    if kind == "few outliers":  # which do not cause float64 columns
        X[::150] *= 1e3
    if kind == "clustered":
        return np.repeat(X[:: M // 10], M // 10, axis=0)[:M] + 1e-4 * X[: 10 * (M // 10)]
    if kind == "counts":
        return np.rint(3 * X) / 255
    if kind == "binary":
        return (X > 0.5) * 0.3
    if kind == "CSR":
        return sp.csr_matrix(np.where(np.abs(X) > 1, X, 0))
    if kind == "aligned":  # not centered, all products of one sign, nearly equal: errors add up
        return sp.csr_matrix((1 + 1e-3 * np.abs(X)).astype(np.float32))
    return X.astype(np.float32) if kind == "float32" else X


def factors_of(gram):
    """Return the bounds of errors relative to values, for all rows and all columns."""
    known = gram.relative_error
    factors = known.columns(np.arange(gram.m))
    assert np.array_equal(factors > 0, known.of_use(np.arange(gram.m)))
    return known.rows(), factors


def truth(X, columns):
    """Return squared distances by differences, in extended precision where they are few."""
    X = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    if X.shape[1] > 20:
        return cdist(X[columns], X, "sqeuclidean")
    X = X.astype(np.longdouble)
    return sum(np.square(X[columns, k][:, None] - X[None, :, k]) for k in range(X.shape[1]))


@pytest.mark.parametrize("rate", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("d", [1, 3, 60, 2000])
@pytest.mark.parametrize(
    "kind",
    [
        "normal",
        "far",
        "outliers",
        "few outliers",
        "clustered",
        "counts",
        "binary",
        "CSR",
        "aligned",
        "float32",
    ],
)
def test_the_error_of_every_entry_of_a_column_is_within_its_bound(rng, kind, d, rate):
    """Columns in compiled code and in numpy, in float32 and float64; gamma from smooth to spiky."""
    X = points(kind, d, rng)
    m, gamma = X.shape[0], rate / d
    columns = rng.permutation(m)[:N_COLUMNS]
    exact = np.exp(-gamma * truth(X, columns))
    slack = (1e-18 if d <= 20 else 4e-16 * d) + 1e-3 * 2.0**-53
    gram = RBF(X, gamma)
    for kernel in (gram.low_precision(), gram):
        bound = kernel.column_error
        assert bound.shape == (m,) and np.all(bound > 0)
        evaluated = []
        for few in (columns, columns[:3]):
            K = np.empty((len(few), m), kernel.dtype)
            kernel.fill(few, K, np.arange(len(few)))
            assert np.all(np.abs(K - exact[: len(few)]) <= bound + slack)
            evaluated.append(K[:3])
        if kernel.relative_error is not None:
            rows, factors = factors_of(kernel)
            relative = rows * factors[columns[:3], None]
            for K in evaluated:
                for other in (*evaluated, exact[:3]):
                    error = np.where(relative > 0, np.abs(K - exact[:3]), 0)
                    assert np.all(error <= relative * other + 2 * kernel.error + 2.0**-124 + slack)
    if kind == "few outliers" and rate == 1e-3:
        assert (
            gram.low_precision().dtype == np.float32
            and np.max(gram.low_precision().column_error) > 1e-3
        )
    if kind == "normal" and rate == 1.0:  # sharp: not much above the true rounding
        assert np.max(gram.low_precision().column_error) < 1e-6 * (d + 30)
        rows, factors = factors_of(gram.low_precision())
        assert np.median(rows) * np.max(factors) < 1e-6 * (d + 30)


@pytest.mark.parametrize("kind", ["normal", "outliers", "aligned"])
def test_errors_of_sums_of_columns_are_within_the_returned_sizes(rng, kind, monkeypatch):
    """Columns that are summed while they are evaluated, and cached ones; weights of both signs."""
    monkeypatch.setattr(
        base, "MIN_POINTS_FOR_TILES", 0
    )  # sums in compiled code, though points are few
    X = points(kind, 60, rng)
    kernel = RBF(X.astype(np.float32), 1e-2 if kind == "aligned" else 1e-2 / 60)
    columns = rng.permutation(M)[:N_COLUMNS]
    weights = rng.standard_normal(N_COLUMNS) * 10.0 ** rng.uniform(-6, 0, N_COLUMNS)
    exact = np.exp(-kernel.gamma * truth(kernel.X, columns))
    rows, factors = factors_of(kernel)
    known = factors[columns] > 0
    sizes = (np.abs(weights) * factors[columns]) @ exact
    off = 1 + rows * np.max(factors)  # sizes are of the evaluated entries
    slack = 1e-12 * np.sum(np.abs(weights)) + 1.001 * np.abs(weights) @ (exact * ~known[:, None])
    with kernel.hold(1 << 30) as store:
        store.ensure(columns)
        signed = SignedGram(kernel, np.ones(M), np.zeros(M))
        for stored in (True, False):
            out, size = np.zeros(M), np.zeros(M)
            if stored:
                cols, z = signed.columns(store), np.ones(M)
                accumulate(cols, columns, weights, z, out, factors[columns], size)
            else:
                kernel.add(columns, weights, out, size=size)
            assert np.all(1.001 * size * off >= sizes) and np.all(size <= 2 * sizes * off + slack)
            bound = 1.001 * (rows + kernel.sum_error) * size + slack
            assert np.all(np.abs(out - weights @ exact) <= bound)
            assert kind != "normal" or np.median(bound) < 1e-4 * np.median(sizes)


def test_columns_of_kernels_that_are_only_called_have_no_bound(rng):
    X = rng.standard_normal((30, 2))
    assert CustomKernel(X, lambda A, B: A @ B.T).column_error is None
    assert np.array_equal(Cached(RBF(X, 1.0)).column_error, RBF(X, 1.0).column_error)
    wide = sp.csr_matrix((np.array([0.3, 0.7]), ([0, 5], [0, 9])), (30, 1 << 20), dtype=np.float32)
    assert np.max(RBF(wide, 1.0).column_error) < 1e-5  # sums of two terms
    dense = np.ones((2, 1 << 20), np.float32)
    assert np.all(RBF(dense, 1.0).column_error == 1.0)  # sums of a million terms in float32


FAMILY_NAMES = ("l2_svm", "meb", "polytope_distance", "hinge", "one_class", "svdd", "reduced_hulls")
TESTED_INSTANCES = [name for name, instance in INSTANCES.items() if instance.family in FAMILY_NAMES]


@pytest.fixture(
    params=[
        pytest.param(n, marks=() if n in QUICK_INSTANCES else pytest.mark.slow)
        for n in TESTED_INSTANCES
    ]
)
def stopped(request):
    """The QP of an instance, a point after a few steps, and one near the optimum."""
    problem = INSTANCES[request.param].declare()
    qp = problem.as_qp()
    found = [solve(problem, "smo", tol=1e-6, max_iter=n) for n in (max(2, qp.m // 4), 5000)]
    return qp, [qp.repair(problem.start(qp, result)) for result in found]


def noise(qp, x):
    """Return the rounding error of a gap that is computed in another order."""
    product = qp.product(x)
    return 4 * qp.roundoff(x, product, qp.bounds(x, product).upper) + 1e-300


def test_a_lower_bound_in_place_of_an_entry_never_lowers_the_gap(stopped, rng):
    qp, found = stopped
    for x in found:
        x, product = qp.feasible(x, qp.product(x))
        gap = qp.bounds(x, product).gap
        for size in (1e-6, 1e-2, 10.0):
            lower = product - size * qp.scale * rng.random(qp.m) * (x == 0)
            assert qp.bounds(x, lower).gap >= gap - noise(qp, x)


def test_certificates_from_approximate_products_equal_the_exact_ones(stopped, rng, monkeypatch):
    """For any approximate products within their bound, and any bound."""
    monkeypatch.setattr(certificate, "MAX_RECOMPUTED_SHARE", 1.0)
    qp, found = stopped
    for x in found:
        product, full = qp.product(x), certify(qp, x, 1e-6)
        for size in (0.0, 1e-9, 1e-4, 1e-1, np.inf):
            error = np.full(qp.m, np.inf)
            if size < np.inf:
                error = size * qp.scale * np.linalg.norm(x, 1) * rng.random(qp.m) + noise(qp, x)
            for sign in (1.0, -1.0, rng.uniform(-1, 1, qp.m)):
                given = product + sign * np.minimum(error, 1e9)
                some = certify(
                    qp, x, 1e-6, approximate_products=ApproximateProducts(x, given, error)
                )
                near = noise(qp, x) + 1e-9 * full.certificate.gap
                assert some.certificate.gap == pytest.approx(full.certificate.gap, abs=near)
                assert some.certificate.upper == full.certificate.upper or np.isclose(
                    some.certificate.upper, full.certificate.upper, rtol=1e-13, atol=near
                )
                if size == np.inf:
                    assert some.approximate_products is None
                if some.approximate_products is not None:
                    least = some.approximate_products.error * (
                        1 + 1e-12
                    )  # `given` is itself a rounded sum
                    assert np.all(
                        np.abs(some.approximate_products.product - product) <= least + near
                    )
                    assert np.all(
                        some.approximate_products.error[x != 0] <= 1.001 * qp.entry_roundoff(x)
                    )


def test_bounds_from_products_within_an_error_hold_for_any_products(stopped, rng):
    """Without recomputation, and with the errors that a sample of the products does not refute."""
    qp, found = stopped
    if qp.cone or qp.defect:
        given = ApproximateProducts(found[0], qp.product(found[0]), np.zeros(qp.m))
        assert certify(
            qp, found[0], 1e-6, approximate_products=given, recompute=False
        ).certificate.recomputed
        return
    best = certify(qp, found[1], 1e-6).certificate
    for x in found:
        product, full, near = qp.product(x), certify(qp, x, 1e-6).certificate, noise(qp, x)
        for size in (0.0, 1e-9, 1e-4, 1e-1):
            error = size * qp.scale * np.linalg.norm(x, 1) * rng.random(qp.m)
            for sign in (1.0, -1.0, np.where(x > 0, -1.0, 1.0), rng.uniform(-1, 1, qp.m)):
                given = ApproximateProducts(x, product + sign * error, error)
                wide = certify(qp, x, 1e-6, approximate_products=given, recompute=False).certificate
                assert not wide.recomputed
                assert wide.upper >= full.upper - near - wide.roundoff
                assert wide.lower <= best.upper + near
                assert wide.gap >= full.upper - best.upper - near
                if size == 0.0:
                    moved = 1e-14 * qp.scale * np.sum(x) ** 2  # by repair
                    assert wide.gap == pytest.approx(full.gap, rel=1e-6, abs=near + moved)


def test_products_that_a_sample_refutes_are_recomputed():
    X, y = two_clouds(400, 3, seed=2)
    problem = HingeDual(RBF(X + y[:, None], 0.5), y, 1.0)
    qp, x = problem.as_qp(), solve(problem, tol=1e-6).x
    wrong = ApproximateProducts(x, qp.product(x) + 1e-3, np.full(400, 1e-6))
    certified = certify(qp, x, 1e-3, approximate_products=wrong, recompute=False)
    assert certified.certificate == certify(qp, x, 1e-3).certificate


def test_products_of_another_point_are_used_with_its_distance(rng, monkeypatch):
    monkeypatch.setattr(certificate, "MAX_RECOMPUTED_SHARE", 1.0)
    X, y = two_clouds(300, 3, seed=2)
    problem = HingeDual(RBF(X, 0.5), y, 1.0)
    qp, exact = problem.as_qp(), solve(problem, tol=1e-8).x
    for far in (1e-9, 1e-3, 1.0):
        x = qp.repair(exact + far * rng.standard_normal(300) * (exact > 0))
        products = ApproximateProducts(exact, qp.product(exact), np.zeros(300))
        some, full = certify(qp, x, 1e-3, approximate_products=products), certify(qp, x, 1e-3)
        assert some.certificate.gap == pytest.approx(full.certificate.gap, rel=1e-9)
        assert far > 1e-9 or some.approximate_products is not None


def test_products_that_are_nan_are_not_used(rng):
    X, y = two_clouds(200, 3, seed=2)
    qp = HingeDual(RBF(X, 0.5), y, 1.0).as_qp()
    x, full = np.zeros(200), np.ones(200)
    x[np.argmax(y > 0)] = x[np.argmax(y < 0)] = 0.5
    for product, error in ((full * np.nan, full * 0), (full, full * np.nan), (full, full * np.inf)):
        certified = certify(
            qp, x, 1e-3, approximate_products=ApproximateProducts(x, product, error)
        )
        assert certified.approximate_products is None
        assert certified.certificate == certify(qp, x, 1e-3).certificate


def test_a_bound_that_a_recomputed_value_refutes_is_not_used():
    X, y = two_clouds(400, 3, seed=2)
    problem = HingeDual(RBF(X + y[:, None], 0.5), y, 1.0)
    qp, x = problem.as_qp(), solve(problem, tol=1e-6).x
    product, error = qp.product(x), np.full(400, 1e-6)
    assert (
        certify(
            qp, x, 1e-3, approximate_products=ApproximateProducts(x, product, error)
        ).approximate_products
        is not None
    )
    product[np.flatnonzero(x)[0]] += 2e-6
    certified = certify(qp, x, 1e-3, approximate_products=ApproximateProducts(x, product, error))
    assert certified.approximate_products is None
    assert certified.certificate == certify(qp, x, 1e-3).certificate


SOLVED_PROBLEMS = {
    "hinge": ("decomposition", lambda K, y: HingeDual(K, y, 10.0)),
    "hinge-weighted": ("decomposition", lambda K, y: HingeDual(K, y, np.where(y > 0, 1.0, 5.0))),
    "l2-svm": ("decomposition", lambda K, y: L2SVMDual(K, y, 1.0)),
    "one-class": ("decomposition", lambda K, y: OneClassDual(K, 0.1)),
    "nu-svc": ("decomposition", lambda K, y: NuSVCDual(K, y, 0.1)),
    "svdd": ("decomposition", lambda K, y: SVDDDual(K, 0.01)),
    "svr": ("decomposition", lambda K, y: SVRDual(K, y, 10.0, 0.2)),
    "svr-weighted": ("decomposition", lambda K, y: SVRDual(K, y, np.where(y > 0, 1.0, 5.0), 0.5)),
    "nu-svr": ("decomposition", lambda K, y: NuSVRDual(K, y, 0.1, 0.2)),
    "meb": ("decomposition", lambda K, y: MEBDual(K)),
    "meb-fcfw": ("fcfw", lambda K, y: MEBDual(K)),
    "polytope": ("decomposition", lambda K, y: PolytopeDistanceDual(K, y, chi=1.0)),
}


@pytest.mark.parametrize("m", [400, 2400])  # columns in float64 and in float32
@pytest.mark.parametrize("columns", [40, 10_000])
@pytest.mark.parametrize(("method", "make"), SOLVED_PROBLEMS.values(), ids=SOLVED_PROBLEMS)
def test_a_solve_keeps_products_within_their_bound(method, make, columns, m, monkeypatch):
    """During solves, warm and cold, with columns that are evicted and recomputed."""
    X, y = two_clouds(m, 3, seed=3)
    X = X + 1.5 * y[:, None]  # most points are not support vectors
    problem, plain, left = make(RBF(X, 0.3), y), certify, []

    def spy(form, x, tol, *rest, approximate_products=None, **more):
        given = approximate_products
        certified = plain(form, x, tol, *rest, approximate_products=given, **more)
        error = np.abs(given.product - form.product(given.x))
        assert np.all(error <= given.error + form.entry_roundoff(x))
        full = plain(form, x, tol, *rest, **more).certificate
        near = noise(form, x) + 1e-9 * full.gap
        assert certified.certificate.gap == pytest.approx(full.gap, abs=near)
        assert certified.certificate.passed == full.passed
        left.append(certified.approximate_products is not None)
        return certified

    monkeypatch.setattr(loop, "certify", spy)
    limit = columns * m * 8
    first = solve(problem, method, tol=1e-3, memory_limit=limit)
    again = solve(problem, method, tol=1e-6, memory_limit=limit, x0=first)
    assert first.converged and again.converged
    assert any(left)  # some points were not evaluated


@pytest.mark.parametrize("kind", ["normal", "outliers", "aligned"])
def test_the_farthest_point_is_known_from_rounded_ones(rng, kind):
    """The conversion to float32 gives the farthest distance, to the last bit and without a pass."""
    X = points(kind, 30, rng)
    gram, fresh = RBF(X, 0.01), RBF(X, 0.01)
    if gram.low_precision() is not gram:
        assert "_norms" not in vars(gram)
    assert gram.error == fresh.error > 0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 3), (500, 3), (29_999, 7), (300, 700)])
def test_the_mean_point_is_that_of_numpy(rng, shape, order):
    X = np.asarray(rng.standard_normal(shape) + 5.0, order=order)
    np.testing.assert_allclose(mean_point(X), X.mean(axis=0), rtol=1e-14)
    rounded = X.astype(np.float32)
    np.testing.assert_allclose(mean_point(rounded), rounded.mean(axis=0, dtype=float), rtol=1e-14)


def test_products_with_a_few_points_leave_the_others_where_they_are(rng):
    gram, x = RBF(rng.standard_normal((4000, 5)), 0.1), np.zeros(4000)
    x[[3, 50, 999]] = 1.0
    rows = np.array([0, 3, 2500])
    few = gram.dot(x, rows)
    assert "_points" not in vars(gram)
    np.testing.assert_allclose(few, gram.dot(x)[rows], rtol=1e-14)
