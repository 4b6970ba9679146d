"""Presolve: duplicates are merged; the answer has all points, is certified for them, and unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    Cached,
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    L2SVRDual,
    Laplacian,
    Linear,
    LSSVMPrimal,
    MEBDual,
    NuSVCDual,
    NuSVRDual,
    OneClassDual,
    PolytopeDistanceDual,
    Status,
    SVDDDual,
    SVRDual,
    solve,
    solve_path,
)
from qpsvm.driver.certificate import certify
from qpsvm.driver.presolve import MIN_POINTS_FOR_SEARCH, equal_points, presolve
from qpsvm.gram.storage.integer import pack

M = 240
TOL = 1e-6


def with_duplicates(X, y, m, seed=0):
    """Draw m points with replacement; every distinct point has its own label."""
    pick = np.random.default_rng(seed).integers(0, len(X), m)
    return X[pick], y[pick], pick


DATA_X, DATA_Y, ROW_OF = with_duplicates(*two_clouds(70, 3, seed=5), M)
MIXED_Y = np.where(np.arange(M) % 11 == 0, -DATA_Y, DATA_Y)  # some duplicates have the other label
RNG = np.random.default_rng(6)
C = RNG.uniform(0.5, 4.0, M)
C[::13] = 0.0
C[100:140] = 2.0
REAL_Y = DATA_X[:, 0] + MIXED_Y
K, SHARP_K = RBF(DATA_X, 0.5), RBF(DATA_X, 30.0)
PROBLEM_CASES = {
    "l2-svm": L2SVMDual(K, MIXED_Y, 3.0),
    "l2-svm-weighted": L2SVMDual(K, MIXED_Y, C),
    "l2-svm-hard": L2SVMDual(SHARP_K, DATA_Y, np.inf),
    "l2-svm-partly-hard": L2SVMDual(SHARP_K, MIXED_Y, np.where(np.arange(M) % 5 == 0, np.inf, 1.0)),
    "hinge": HingeDual(K, MIXED_Y, 3.0),
    "hinge-weighted": HingeDual(K, MIXED_Y, C),
    "hinge-hard": HingeDual(SHARP_K, DATA_Y, np.inf),
    "hinge-no-bias": HingeDual(K, MIXED_Y, C, bias=False),
    "hinge-linear": HingeDual(Linear(DATA_X + 50.0), MIXED_Y, C),
    "hinge-sparse": HingeDual(Laplacian(sp.csr_matrix(DATA_X), 0.5), MIXED_Y, C),
    "hinge-float32": HingeDual(RBF(DATA_X.astype(np.float32), 0.5), MIXED_Y, C),
    "primal": HingePrimal(DATA_X, MIXED_Y, C),
    "ball": MEBDual(K),
    "ball-linear": MEBDual(Linear(DATA_X)),
    "polytopes": PolytopeDistanceDual(SHARP_K, DATA_Y),
    "polytopes-soft": PolytopeDistanceDual(K, MIXED_Y, 2.0),
    "one-class": OneClassDual(K, 0.3),
    "one-class-weighted": OneClassDual(K, 0.3, sample_weight=C),
    "nu-svc": NuSVCDual(K, MIXED_Y, 0.5),
    "nu-svc-weighted": NuSVCDual(K, MIXED_Y, 0.4, sample_weight=C),
    "svdd": SVDDDual(K, 0.02),
    "svdd-all-full": SVDDDual(K, 1.0 / M),
    "svr": SVRDual(K, REAL_Y, 3.0),
    "svr-weighted": SVRDual(K, REAL_Y, C, 0.3),
    "svr-no-bias": SVRDual(K, REAL_Y, C, bias=False),
    "svr-linear": SVRDual(Linear(DATA_X + 50.0), REAL_Y, C),
    "l2-svr": L2SVRDual(K, REAL_Y, C, 0.3),
    "l2-svr-linear": L2SVRDual(Linear(DATA_X), REAL_Y, C, bias=False),
    "nu-svr": NuSVRDual(K, REAL_Y, 3.0, 0.3),
    "nu-svr-weighted": NuSVRDual(K, REAL_Y, C, 0.5),
    "nu-svr-linear": NuSVRDual(Linear(DATA_X + 50.0), REAL_Y, C, 0.3),
}
every_problem = pytest.mark.parametrize("problem", PROBLEM_CASES.values(), ids=PROBLEM_CASES)


def weights(problem, result):
    """Return the weights of all points."""
    return result.dual if isinstance(problem, HingePrimal) else result.x


def kept(problem):
    """Return the points in the solve."""
    rows = getattr(problem, "kept", np.arange(M))
    return np.append(rows, M + rows) if hasattr(problem, "level") else rows


@every_problem
def test_the_answer_is_that_over_all_points(problem):
    plain = solve(problem, tol=TOL, merge=False)
    merged = solve(problem, tol=TOL, merge=True)
    assert merged.converged and "merged" not in plain.counters
    assert merged.counters["merged"] > M // 3
    c = merged.certificate
    assert c.upper == pytest.approx(plain.certificate.upper, rel=2 * TOL)
    # the certificate of the full problem, without presolve, agrees
    again = certify(problem.as_qp(), weights(problem, merged)[kept(problem)], TOL).certificate
    assert again.passed and c.violation <= 1e-12
    assert again.upper == pytest.approx(c.upper, rel=1e-10, abs=1e-14)
    assert again.lower == pytest.approx(c.lower, rel=1e-10, abs=1e-14)
    used = weights(problem, merged).reshape(-1, M).any(axis=0)  # by either sign
    np.testing.assert_array_equal(merged.support, np.flatnonzero(used))
    np.testing.assert_array_equal(weights(problem, merged) >= 0.0, True)
    np.testing.assert_allclose(merged.dual.shape, plain.dual.shape)


@every_problem
def test_its_model_predicts_like_that_of_all_weights(problem):
    result = solve(problem, tol=TOL, merge=True)
    recovered = problem.recover(
        problem.as_qp(), certify(problem.as_qp(), weights(problem, result)[kept(problem)], TOL)
    )
    new = np.random.default_rng(7).standard_normal((50, 3))
    judges = "decision_function", "distance", "predict"
    judge = next(judge for judge in judges if hasattr(result.model, judge))
    ours, theirs = (getattr(model, judge)(new) for model in (result.model, recovered.model))
    size = np.abs(theirs).max()
    np.testing.assert_allclose(ours, theirs, atol=1e-6 * size)


def test_equal_bounds_are_filled_and_others_shared():
    result = solve(HingeDual(K, DATA_Y, 3.0), tol=TOL, merge=True)
    assert result.counters["merged"] == M - len(np.unique(ROW_OF))
    for point in np.unique(ROW_OF):
        own = result.x[point == ROW_OF]
        assert np.count_nonzero((own > 0.0) & (own < 3.0)) <= 1
        assert np.all(np.diff(own) <= 0.0)
    plain = solve(HingeDual(K, DATA_Y, 3.0), tol=TOL, merge=False)
    assert len(result.support) <= len(plain.support)
    weighted = HingeDual(K, DATA_Y, RNG.uniform(0.5, 4.0, M))
    shared = solve(weighted, tol=TOL, merge=True).x / weighted.C
    ridged = L2SVMDual(K, DATA_Y, weighted.C)
    soft = solve(ridged, tol=TOL, merge=True).x / ridged.C
    for point in np.unique(ROW_OF):
        for share in (shared, soft):
            assert np.ptp(share[point == ROW_OF]) <= 1e-12


def test_redundant_duplicates_have_no_weight():
    x = solve(MEBDual(K), tol=TOL, merge=True).x
    assert np.all(np.isin(np.flatnonzero(x), np.unique(ROW_OF, return_index=True)[1]))


def test_other_labels_are_other_points():
    X = np.tile(DATA_X[np.unique(ROW_OF, return_index=True)[1]], (3, 1))  # each point three times
    n = len(X) // 3
    y = np.where(np.arange(3 * n) < 2 * n, 1.0, -1.0)  # and with both labels
    signed = presolve(HingeDual(RBF(X, 0.5), y).as_qp(), 1 << 30, asked=True)
    assert signed.n_duplicates == n
    np.testing.assert_array_equal(signed.duplicates.label[n : 2 * n], np.arange(n))
    assert presolve(MEBDual(RBF(X, 0.5)).as_qp(), 1 << 30, asked=True).n_duplicates == 2 * n


def many(m=MIN_POINTS_FOR_SEARCH, n=400, seed=8, binary=False):
    """As many points as are searched by default, a few hundred of them distinct."""
    X, y = two_clouds(n, 6, seed=seed)
    X = (X > 0.3).astype(float) if binary else X
    return with_duplicates(X, y, m, seed)[:2]


def test_auto_merges_where_it_pays_and_reports_it():
    X, y = many()
    result = solve(HingeDual(RBF(X, 0.3), y, 2.0), tol=TOL)
    n = len(np.unique(np.column_stack([X, y]), axis=0))
    assert result.converged and result.counters["merged"] == MIN_POINTS_FOR_SEARCH - n
    assert (
        f"{MIN_POINTS_FOR_SEARCH - n:,} of {MIN_POINTS_FOR_SEARCH:,} points are duplicates, merged"
        in result.reason
    )
    assert "duplicates" in str(result) and len(result.x) == MIN_POINTS_FOR_SEARCH
    few = slice(0, MIN_POINTS_FOR_SEARCH - 1)
    assert "merged" not in solve(HingeDual(RBF(X[few], 0.3), y[few], 2.0)).counters
    assert "merged" not in solve(HingeDual(RBF(X, 0.3), y, 2.0), merge=False).counters
    assert "merged" not in solve(HingeDual(RBF(X, 0.3), y, 2.0), "smo").counters
    assert "merged" not in solve(HingeDual(Linear(X), y, 2.0)).counters
    assert "merged" not in solve(MEBDual(Linear(X))).counters
    assert "merged" not in solve(L2SVMDual(Linear(X), y, 2.0)).counters
    assert "merged" in solve(PolytopeDistanceDual(Linear(X), y, 2.0)).counters
    K = RBF(X, 0.3).block(np.arange(MIN_POINTS_FOR_SEARCH))
    assert "merged" not in solve(HingeDual(K, y, 2.0)).counters
    X[: MIN_POINTS_FOR_SEARCH - 40] += 1e-3 * np.random.default_rng(0).standard_normal(
        (MIN_POINTS_FOR_SEARCH - 40, 6)
    )
    assert "merged" not in solve(HingeDual(RBF(X, 0.3), y, 2.0)).counters  # too few are left
    assert solve(HingeDual(RBF(X, 0.3), y, 2.0), merge=True).counters["merged"] > 0


@pytest.mark.parametrize("method", ["mfw", "smo", "decomposition", "mnp", "cvm"])
def test_a_named_method_merges_when_asked(method):
    result = solve(MEBDual(K), method, tol=1e-4, merge=True)
    assert result.converged and result.counters["merged"] > 0 and result.reason == ""
    assert result.method == method and len(result.x) == M


def test_a_gram_without_points_is_unchanged():
    y = DATA_Y
    for problem, method in (
        (HingeDual(K.block(np.arange(M)), y), "smo"),
        (HingeDual(Cached(K), y), "smo"),
        (LSSVMPrimal(DATA_X, y), "auto"),
    ):
        if isinstance(getattr(problem, "K", None), Cached):
            solve(problem, method, merge=False)  # its columns are over all points from now on
        result = solve(problem, method, merge=True)
        assert result.converged and "merged" not in result.counters
    with pytest.raises(InputError, match="merge must be one of"):
        solve(PROBLEM_CASES["ball"], merge="yes")


@pytest.mark.parametrize("kind", ["dense", "float32", "fortran", "csr", "packed"])
def test_equal_points_are_those_of_a_sort(kind):
    X, y = many(3000, 700, binary=kind == "packed")
    forms = {
        "dense": X,
        "float32": X.astype(np.float32),
        "fortran": np.asfortranarray(X),
        "csr": sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0)),
        "packed": pack(X),
    }
    points = forms[kind]
    whole = points.toarray() if sp.issparse(points) else X.astype(points.dtype)
    rows = np.column_stack([whole, y])
    _, first, label = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    found = equal_points(points, [y], 1)
    np.testing.assert_array_equal(found.first, np.sort(first))
    np.testing.assert_array_equal(rows[found.first[found.label]], rows)
    np.testing.assert_array_equal(found.first[found.label], first[label.ravel()])
    assert equal_points(points, [y], 3000 - len(first)) is not None
    assert equal_points(points, [y], 3000 - len(first) + 1) is None


def test_points_that_only_look_equal_are_not():
    far = np.full((4, 2), 1e200)
    far[:, 1] = [1.0, 2.0, 1.0, 3.0]  # no product in float64 sees the second coordinate
    first, label = equal_points(far, [], 1)
    np.testing.assert_array_equal(first, [0, 1, 3])
    np.testing.assert_array_equal(label, [0, 1, 0, 2])
    assert equal_points(far[[0, 1, 3]], [], 1) is None
    sparse = sp.csr_matrix(far)
    np.testing.assert_array_equal(equal_points(sparse, [], 1).first, [0, 1, 3])
    huge = np.full((3, 2), 1e308) * [[1.0, -1.0]]  # the products overflow
    assert equal_points(huge, [], 1) is None or len(equal_points(huge, [], 1).first) == 1


def test_points_of_more_features_than_a_chunk(monkeypatch):
    monkeypatch.setattr("qpsvm.driver.presolve.CHUNK_ENTRIES", 4)
    points = np.random.default_rng(0).standard_normal((6, 9))[[0, 1, 2, 1, 0, 5]]
    np.testing.assert_array_equal(equal_points(points, [], 1).label, [0, 1, 2, 1, 0, 3])


def test_warm_starts_are_merged():
    for name in ("hinge-weighted", "l2-svm-weighted", "ball", "polytopes-soft", "one-class"):
        problem = PROBLEM_CASES[name]
        plain = solve(problem, "smo", tol=1e-8, merge=False)
        for x0 in (plain, plain.x):
            again = solve(problem, "smo", x0=x0, tol=1e-5, merge=True)
            assert again.converged and again.n_iter == 0, name
            assert again.value == pytest.approx(plain.value, rel=1e-5)
        assert solve(problem, x0=solve(problem, merge=True), merge=False, tol=1e-2).n_iter == 0
    with pytest.raises(InputError, match="x0"):
        solve(PROBLEM_CASES["ball"], x0=np.ones(3), merge=True)
    outside = solve(PROBLEM_CASES["hinge"], x0=np.full(M, 1e3), merge=True, max_iter=0)
    assert outside.certificate.violation <= 1e-9


def test_callbacks_see_all_points():
    problem, seen = PROBLEM_CASES["hinge-weighted"], []

    def record(progress):
        seen.append(progress.x)
        return len(seen) == 3

    result = solve(problem, "smo", tol=1e-12, merge=True, callback=record)
    assert result.status is Status.CALLBACK_STOP and len(result.history) == 3
    C, y = problem.C[problem.kept], problem.y[problem.kept]
    for x in seen:
        assert x.shape == C.shape and np.all(x >= 0.0) and np.all(x <= C)
        assert abs(y @ x) <= 1e-9


def test_limits_hold():
    X, y = many(4000, 1500)
    problem = HingeDual(RBF(X, 0.3), y, 10.0)
    none = solve(problem, time_limit=0.0)
    assert none.status is Status.TIME_LIMIT and none.n_iter == 0
    assert none.counters["merged"] > 0 and none.certificate.violation <= 1e-9
    assert solve(problem, max_iter=0).status is Status.MAX_ITER
    distinct = 8 * 6 * 1500
    assert "merged" in solve(problem, memory_limit=20 * distinct, max_iter=0).counters
    # not where the distinct points take more memory than shorter columns save
    wide = np.hstack([X, np.zeros((4000, 94))])
    tight = HingeDual(RBF(wide, 0.3), y, 10.0)
    limit = 8 * 8 * 4000
    result = solve(tight, memory_limit=limit, max_iter=3)
    assert "merged" not in result.counters and result.counters["bytes"] <= limit


def test_paths_keep_the_columns_of_the_distinct_points():
    X, y = many(1500, 300)
    values = [0.1, 1.0, 10.0]
    path = solve_path(HingeDual(RBF(X, 0.3), y), "C", values, tol=TOL)
    n = 1500 - path[0].counters["merged"]
    assert sum(result.counters["columns"] for result in path) <= n
    for value, result in zip(values, path, strict=True):
        alone = solve(HingeDual(RBF(X, 0.3), y, value), tol=TOL, merge=False)
        assert result.converged and len(result.x) == 1500
        assert result.value == pytest.approx(alone.value, rel=2 * TOL)


def test_a_kept_gram_has_one_store_at_a_time():
    X, y = many()
    kept = Cached(RBF(X, 0.3))
    assert "merged" in solve(HingeDual(kept, y)).counters
    assert solve(HingeDual(kept, y)).counters["columns"] == 0
    assert solve(HingeDual(kept, -y)).counters["columns"] == 0
    assert solve(MEBDual(kept)).counters["merged"] == MIN_POINTS_FOR_SEARCH - len(
        np.unique(X, axis=0)
    )
    other = np.where(np.arange(MIN_POINTS_FOR_SEARCH) % 2 == 0, 1.0, -1.0)
    assert "merged" not in solve(HingeDual(kept, other)).counters  # other points are distinct
    assert (
        "merged" not in solve(HingeDual(kept, y)).counters
    )  # and columns of all points are cached


@pytest.mark.parametrize("classes", [1, 2])
def test_all_points_are_one(classes):
    X = np.ones((MIN_POINTS_FOR_SEARCH, 3))
    y = (
        np.where(np.arange(MIN_POINTS_FOR_SEARCH) < MIN_POINTS_FOR_SEARCH // 3, -1.0, 1.0)
        if classes == 2
        else np.ones(MIN_POINTS_FOR_SEARCH)
    )
    problems = [
        L2SVMDual(RBF(X, 1.0), y, 2.0),
        HingeDual(RBF(X, 1.0), y, 2.0),
        HingeDual(RBF(X, 1.0), y, 2.0, bias=False),
        MEBDual(RBF(X, 1.0)),
        OneClassDual(RBF(X, 1.0), 0.2),
        SVDDDual(Linear(X), 0.01),
    ]
    if classes == 2:
        problems.append(PolytopeDistanceDual(RBF(X, 1.0), y, 3.0))
        problems.append(PolytopeDistanceDual(RBF(X, 1.0), y))
        problems.append(NuSVCDual(RBF(X, 1.0), y, 0.6))
    for problem in problems:
        result = solve(problem, tol=TOL)
        signed = not isinstance(problem, MEBDual | OneClassDual | SVDDDual)
        assert result.converged, (problem, result)
        assert result.counters["merged"] == MIN_POINTS_FOR_SEARCH - (classes if signed else 1)
        assert certify(problem.as_qp(), result.x, TOL).certificate.passed


def test_the_same_bits_again():
    X, y = many(2000, 700)
    first, second = (solve(L2SVMDual(RBF(X, 0.3), y, 2.0), tol=1e-4) for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes() and "merged" in first.counters


def test_packed_points_are_merged_and_taken_without_their_coordinates():
    X, y = many(3000, 2000, binary=True)
    problem = L2SVMDual(RBF(X, 0.5), y, 1.0)
    merged = presolve(problem.as_qp(), 1 << 30, asked=False)
    n = len(np.unique(np.column_stack([X, y]), axis=0))
    assert merged.reduced.m == n <= 128
    x = np.random.default_rng(0).random(n)
    full = np.zeros(3000)
    full[merged.duplicates.first] = x
    whole = problem.as_qp().gram.product(full)
    np.testing.assert_allclose(
        merged.reduced.gram.product(x), whole[merged.duplicates.first], rtol=1e-12
    )
    rows = np.arange(5)
    dense = RBF(X[merged.duplicates.first], 0.5).block(rows)
    np.testing.assert_allclose(merged.reduced.gram.kernel.block(rows), dense, rtol=1e-12)
    for given in (X, X.astype(np.float32), sp.csr_matrix(X)):
        result = solve(L2SVMDual(RBF(given, 0.5), y, 1.0), tol=TOL)
        assert result.converged and result.counters["merged"] == 3000 - n
        assert result.model.decision_function(X[:9]).shape == (9,)
    for_solve, taken = (
        getattr(problem.K, how)(merged.duplicates.first) for how in ("take_for_solve", "take")
    )
    assert for_solve.X.shape == taken.X.shape and for_solve.to_float64() is for_solve
    np.testing.assert_array_equal(for_solve.column_error, taken.column_error)
    np.testing.assert_array_equal(
        for_solve.low_precision().block(rows), taken.low_precision().block(rows)
    )
