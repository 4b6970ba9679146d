"""Every parameter has the effect that it names, or one clear error."""

from __future__ import annotations

import time
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from qpsvm import InputError, Status
from qpsvm.estimators import (
    LSSVC,
    SVC,
    SVDD,
    SVR,
    LinearSVC,
    LinearSVR,
    MaxMarginClassifier,
    NuSVC,
    NystroemSVC,
    OneClassSVM,
)


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(5)
    X = np.vstack([rng.standard_normal((40, 3)) + shift for shift in (0.0, 1.2, 2.4)])
    return X, np.repeat([3, 7, 9], 40)


SQUARED_AND_FREE = {"loss": "squared_epsilon_insensitive", "intercept_scaling": np.inf}
"""Parameters of a squared loss with a bias that no penalty counts."""

BAD_PARAMETERS = [
    (SVC, {"C": -1.0}, r"'C' parameter of SVC must be a float in the range \(0.0, inf\]. Got -1"),
    (SVC, {"C": 0}, "'C' parameter"),
    (SVC, {"C": "1"}, "'C' parameter"),
    (SVC, {"kernel": "gauss"}, "'kernel' parameter of SVC must be a str among .* or a callable"),
    (SVC, {"gamma": 0.0}, "'gamma' parameter"),
    (SVC, {"gamma": "none"}, "'gamma' parameter .* a str among {'auto', 'scale'}"),
    (SVC, {"degree": 0}, r"'degree' parameter of SVC must be an int in the range \[1, inf\)"),
    (SVC, {"degree": 2.5}, "'degree' parameter"),
    (SVC, {"coef0": np.inf}, "'coef0' parameter"),
    (SVC, {"tol": 0.0}, r"'tol' parameter of SVC must be a float in the range \(0.0, 1.0\]"),
    (SVC, {"tol": np.nan}, "'tol' parameter"),
    (SVC, {"cache_size": 0}, "'cache_size' parameter"),
    (SVC, {"max_iter": -2}, "'max_iter' parameter"),
    (SVC, {"class_weight": "even"}, "'class_weight' parameter"),
    (SVC, {"shrinking": 1}, "'shrinking' parameter of SVC must be an instance of 'bool'"),
    (SVC, {"probability": "yes"}, "'probability' parameter"),
    (SVC, {"decision_function_shape": "dag"}, "'decision_function_shape' parameter"),
    (SVC, {"break_ties": None}, "'break_ties' parameter"),
    (SVC, {"random_state": -1}, "'random_state' parameter"),
    (SVC, {"verbose": -1}, "'verbose' parameter"),
    (SVC, {"loss": "log"}, "'loss' parameter"),
    (SVC, {"multi_class": "all"}, "'multi_class' parameter"),
    (SVC, {"method": None}, "'method' parameter"),
    (SVC, {"method": "simplex"}, "method must be one of"),
    (SVC, {"time_limit": -1.0}, "'time_limit' parameter"),
    (SVC, {"n_jobs": 1.5}, "'n_jobs' parameter"),
    (SVC, {"warm_start": 2}, "'warm_start' parameter"),
    (SVC, {"callback": 3}, "'callback' parameter of SVC must be a callable or None"),
    (SVC, {"multi_class": "ovr", "decision_function_shape": "ovo"}, "must be 'ovr'"),
    (LSSVC, {"C": np.inf}, "C must be finite"),
    (LinearSVC, {"C": np.inf}, "'C' parameter of LinearSVC"),
    (LinearSVC, {"penalty": "l1"}, "Unsupported set of arguments"),
    (LinearSVC, {"intercept_scaling": np.inf}, "Unsupported set of arguments"),
    (LinearSVC, {"multi_class": "crammer_singer"}, "'multi_class' parameter"),
    (LinearSVC, {"dual": "maybe"}, "'dual' parameter"),
    (OneClassSVM, {"nu": 0.0}, r"'nu' parameter of OneClassSVM .* \(0.0, 1.0\]"),
    (SVDD, {"kernel": "precomputed"}, "'kernel' parameter of SVDD"),
    (NystroemSVC, {"rank": 0}, "'rank' parameter"),
    (NystroemSVC, {"approximation": "svd"}, "'approximation' parameter"),
    (NuSVC, {"nu": 0.0}, r"'nu' parameter of NuSVC .* \(0.0, 1.0\]"),
    (NuSVC, {"nu": 0.01, "kernel": "linear"}, "reduced hulls of the classes .* intersect"),
    (MaxMarginClassifier, {"nu": 2.0}, "'nu' parameter .* or None"),
    (SVR, {"C": np.inf}, r"'C' parameter of SVR must be a float in the range \(0.0, inf\)"),
    (SVR, {"epsilon": -0.1}, "'epsilon' parameter"),
    (SVR, {}, "y must hold numbers"),
    (LinearSVR, {"loss": "huber"}, "'loss' parameter of LinearSVR"),
    (LinearSVR, SQUARED_AND_FREE, "Unsupported set of arguments: intercept_scaling must be finite"),
    (LinearSVR, {"intercept_scaling": 0.0}, "'intercept_scaling' parameter"),
    (MaxMarginClassifier, {"C": np.inf}, "no hyperplane separates the classes 3 and 7"),
]


@pytest.mark.parametrize(("kind", "parameters", "text"), BAD_PARAMETERS, ids=str)
def test_bad_parameters(kind, parameters, text, points):
    if parameters == {"C": np.inf} and kind is MaxMarginClassifier:
        parameters = {"C": np.inf, "kernel": "linear"}
    X, y = points
    y = np.array(["low", "mid", "high"])[(y - 3) // 3] if (kind, parameters) == (SVR, {}) else y
    with pytest.raises(InputError, match=text):
        kind(**parameters).fit(X, y)


BAD_DATA = [
    (lambda X, y: (X[:0], y[:0]), "Found array with 0 sample"),
    (lambda X, y: (X[:, :0], y), "0 feature"),
    (lambda X, y: (X[:, 0], y), "Expected 2D array, got 1D array"),
    (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
    (lambda X, y: (np.where(X > 1, np.nan, X), y), "contains NaN"),
    (lambda X, y: (np.where(X > 1, np.inf, X), y), "contains infinity"),
    (lambda X, y: (X, np.zeros(len(y))), "number of classes has to be greater than one"),
    (lambda X, y: (X, X[:, 0]), "Unknown label type"),
    (lambda X, y: (X.astype(complex), y), "Complex data not supported"),
]


@pytest.mark.parametrize(("change", "text"), BAD_DATA, ids=[text for _, text in BAD_DATA])
@pytest.mark.parametrize("kind", [SVC, LinearSVC, NystroemSVC])
def test_bad_data(kind, change, text, points):
    with pytest.raises(ValueError, match=text):
        kind().fit(*change(*points))


BAD_WEIGHTS = [
    (lambda m: np.ones(m - 1), "sample_weight.shape == "),
    (lambda m: np.ones((m, 1)), "Sample weights must be 1D array or scalar"),
    (lambda m: np.full(m, np.nan), "contains NaN"),
    (lambda m: np.zeros(m), "all samples have zero or negative weights"),
    (lambda m: -np.ones(m), "all samples have zero or negative weights"),
    (lambda m: np.arange(m) < 40, "positive weights belong to the same class"),
]


@pytest.mark.parametrize(("weight", "text"), BAD_WEIGHTS, ids=[text for _, text in BAD_WEIGHTS])
def test_bad_weights(weight, text, points):
    with pytest.raises(InputError, match=text):
        SVC().fit(*points, weight(len(points[1])))


def test_bad_kernel_matrices(points):
    X, y = points
    with pytest.raises(InputError, match="must be a square matrix"):
        SVC(kernel="precomputed").fit(X, y)
    with pytest.raises(TypeError, match="Sparse precomputed kernels are not supported"):
        SVC(kernel="precomputed").fit(sp.csr_matrix(X @ X.T), y)
    fitted = SVC(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="features"):
        fitted.predict((X @ X.T)[:, :5])


def test_prediction_needs_a_fit(points):
    with pytest.raises(NotFittedError):
        SVC().predict(points[0])
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = SVC().fit(*points).coef_
    with pytest.raises(AttributeError):
        SVC().fit(*points).predict_proba(points[0])


@pytest.mark.parametrize("multi_class", ["ovo", "ovr", "dag"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_strategies_and_shapes(multi_class, sparse, kernel, points):
    X, y = points
    X = sp.csr_array(X) if sparse else X
    fitted = SVC(multi_class=multi_class, kernel=kernel).fit(X, y)
    assert fitted.score(X, y) > 0.75
    assert fitted.decision_function(X).shape == (120, 3)
    assert fitted.dual_coef_.shape[0] == (3 if multi_class == "ovr" else 2)
    assert sp.issparse(fitted.dual_coef_) == sparse and len(fitted.result_) == 3
    if kernel == "linear":
        assert fitted.coef_.shape == (3, 3) and sp.issparse(fitted.coef_) == sparse


def test_sparse_points_with_long_indices(points):
    X, y = points
    X = sp.csr_matrix(np.where(X > 0, X, 0.0))
    plain = SVC().fit(X, y).decision_function(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    np.testing.assert_allclose(SVC().fit(X, y).decision_function(X), plain, rtol=1e-9)


def test_the_order_of_few_points_does_not_matter(points):
    X, y = points
    order = np.random.default_rng(4).permutation(len(y))
    one, other = SVC().fit(X, y), SVC().fit(X[order], y[order])
    same = [int(np.flatnonzero(order[other.support_] == row)[0]) for row in one.support_]
    np.testing.assert_array_equal(one.support_vectors_, other.support_vectors_[same])
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_[:, same])
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X), rtol=1e-12, atol=1e-12
    )


def test_many_points_are_solved_where_they_lie(rng):
    X = rng.standard_normal((1500, 4))
    y = (X[:, 0] + X[:, 1] ** 2 > 1.0).astype(int) + (X[:, 2] > 1.0)
    for labels in (y, np.minimum(y, 1)):
        weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0)
        some = SVC(tol=1e-6, gamma=0.5).fit(X, labels, weight)
        fewer = SVC(tol=1e-6, gamma=0.5).fit(X[weight > 0], labels[weight > 0])
        assert np.all(weight[some.support_] == 1.0)
        np.testing.assert_array_equal(some.n_support_, fewer.n_support_)
        np.testing.assert_allclose(some.decision_function(X), fewer.decision_function(X), atol=1e-3)
        ends = np.cumsum(some.n_support_)[:-1]
        for code, part in enumerate(np.split(some.support_, ends)):
            assert np.all(labels[part] == code)


def test_votes_of_one_against_one(points):
    X, y = points
    fitted = SVC(decision_function_shape="ovo").fit(X, y)
    values = fitted.decision_function(X)
    votes = np.zeros((len(y), 3), int)
    for column, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        for point, value in enumerate(values[:, column]):
            votes[point, i if value > 0 else j] += 1
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[votes.argmax(axis=1)])


def test_break_ties_takes_the_highest_score(points):
    X, y = points
    fitted = SVC(break_ties=True, gamma=5.0).fit(X, y)
    grid = np.random.default_rng(0).uniform(-4, 6, (2000, 3))
    expected = fitted.classes_[fitted.decision_function(grid).argmax(axis=1)]
    np.testing.assert_array_equal(fitted.predict(grid), expected)


def test_a_graph_asks_for_the_first_and_the_last_class(points):
    X, y = points
    values = SVC(decision_function_shape="ovo").fit(X, y).decision_function(X)
    expected = []
    for row in values:
        low, high = 0, 2
        while low < high:
            number = {(0, 1): 0, (0, 2): 1, (1, 2): 2}[low, high]
            low, high = (low, high - 1) if row[number] > 0 else (low + 1, high)
        expected.append([3, 7, 9][low])
    predicted = SVC(multi_class="dag").fit(X, y).predict(X)
    np.testing.assert_array_equal(predicted, expected)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_pairs_are_solved_side_by_side(backend, points):
    X, y = points
    alone = SVC().fit(X, y)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        together = SVC().fit(X, y)
    np.testing.assert_allclose(together.dual_coef_, alone.dual_coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(SVC(n_jobs=2).fit(X, y).intercept_, alone.intercept_, rtol=1e-9)


@pytest.mark.parametrize(
    "kind", [SVC, NuSVC, LinearSVC, LSSVC, NystroemSVC, SVR, LinearSVR, OneClassSVM, SVDD]
)
def test_a_weight_is_a_repetition(kind, points):
    X, y = points
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    order = np.random.default_rng(2).permutation(len(y))
    once = kind().fit(X[order], y[order], sample_weight=weight[order])
    often = kind().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    name = "decision_function" if hasattr(once, "decision_function") else "predict"
    np.testing.assert_allclose(
        getattr(once, name)(X), getattr(often, name)(X), rtol=1e-9, atol=1e-12
    )


def test_balanced_classes_and_factors(points):
    X, y = points
    rows = np.r_[0:10, 40:120]
    balanced = SVC(class_weight="balanced").fit(X[rows], y[rows])
    np.testing.assert_allclose(balanced.class_weight_, [3.0, 0.75, 0.75])
    heavy = SVC(class_weight={3: 100.0}, kernel="linear").fit(X, y)
    assert np.mean(heavy.predict(X[y == 3]) == 3) > 0.95


def test_limits_warn_and_keep_an_answer(points):
    X, y = points
    with pytest.warns(ConvergenceWarning, match=r"early \(max_iter=1\).*gap is .* above tol=1e-06"):
        stopped = SVC(max_iter=1, tol=1e-6, method="smo").fit(X, y)
    assert stopped.fit_status_ == 1 and stopped.status_ is Status.MAX_ITER
    assert stopped.dual_gap_ > 1e-6 and stopped.predict(X).shape == (120,)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        begun = time.perf_counter()
        stopped = SVC(time_limit=0.0).fit(X, y)
        assert time.perf_counter() - begun < 20.0
    assert stopped.status_ is Status.TIME_LIMIT


def test_a_tight_gap_is_certified_without_a_warning(points):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = SVC(tol=1e-9).fit(*points)
    assert fitted.dual_gap_ <= 1e-9 and fitted.fit_status_ == 0


def test_a_warm_start_saves_iterations(points):
    X, y = points
    fitted = SVC(warm_start=True, tol=1e-6, method="smo").fit(X, y)
    first = fitted.n_iter_.sum()
    assert fitted.set_params(tol=1e-5).fit(X, y).n_iter_.sum() < first
    assert fitted.fit(X[10:], y[10:]).score(X, y) > 0.75  # another number of points


def test_callback_sees_every_problem(points):
    seen = []
    SVC(callback=lambda progress: seen.append(progress.gap)).fit(*points)
    assert len(seen) >= 3


def test_methods_and_random_state(points):
    X, y = points
    plain = SVC(tol=1e-6).fit(X, y)
    for method in ("smo", "decomposition", "mfw"):
        loss = "squared_hinge" if method == "mfw" else "hinge"
        fitted = SVC(method=method, loss=loss, tol=1e-6, random_state=np.random.RandomState(0))
        fitted.fit(X, y)
        assert {result.method for result in fitted.result_} == {method}
        if loss == "hinge":
            np.testing.assert_array_equal(fitted.predict(X), plain.predict(X))


def test_probabilities_sum_to_one_and_need_two_points(points):
    X, y = points
    fitted = SVC(probability=True).fit(X, y)
    P = fitted.predict_proba(X)
    assert P.shape == (120, 3) and np.all(P >= 0)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), P)
    assert np.mean(fitted.classes_[P.argmax(axis=1)] == y) > 0.75
    with pytest.raises(InputError, match="at least 2 points"):
        SVC(probability=True).fit(X[39:], y[39:])


def test_a_hard_margin_separates_or_says_so():
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    fitted = MaxMarginClassifier(C=np.inf, kernel="linear").fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(fitted.margin_, [2.0], rtol=1e-3)
    np.testing.assert_allclose(fitted.decision_function([[1.0], [3.0]]), [-1.0, 1.0], atol=1e-3)
    with pytest.raises(InputError, match="no hyperplane separates"):
        SVC(C=np.inf, kernel="linear").fit([[0.0], [2.0], [1.0], [3.0]], [0, 0, 1, 1])


def test_balls_and_outliers(points):
    X, _ = points
    ball = SVDD(kernel="linear", nu=0.1, tol=1e-6).fit(X)
    assert np.mean(ball.predict(X) == -1) <= 0.1 + 1e-9
    distance = np.linalg.norm(X - ball.center_, axis=1)
    np.testing.assert_allclose(ball.score_samples(X), -(distance**2), rtol=1e-9)
    np.testing.assert_allclose(ball.offset_, -(ball.radius_**2))
    one_class = OneClassSVM(nu=0.2, tol=1e-6).fit(X)
    assert 0.15 <= np.mean(one_class.fit_predict(X) == -1) <= 0.2 + 1e-9
    assert len(one_class.support_) >= 0.2 * len(X)


def test_low_rank_features_approach_the_kernel(points):
    X, y = points
    low, fine = (NystroemSVC(rank=rank).fit(X, y) for rank in (5, 100))
    assert low.relative_trace_error_ > fine.relative_trace_error_
    assert low.coef_.shape == (3, 5) and low.components_.shape[1] == 3
    exact = SVC(multi_class="ovr").fit(X, y)
    assert np.mean(fine.predict(X) == exact.predict(X)) > 0.97


def test_unbiased_bias_where_all_weights_are_at_bounds():
    X, y = [[-2, 0], [-1, -1], [0, -2], [0, 2], [1, 1], [2, 0]], [1, 1, 1, 2, 2, 2]
    for kernel in ("linear", "rbf"):
        value = SVC(C=0.01, kernel=kernel).fit(X, y).decision_function([[-1.0, 1.0]])
        np.testing.assert_allclose(value, [0.0], atol=1e-4)


def test_linear_coefficients_may_be_sparse(points):
    X, y = points
    fitted = LinearSVC(penalty="l1", loss="hinge", C=0.05).fit(X, y)
    before = fitted.decision_function(X)
    np.testing.assert_allclose(fitted.sparsify().decision_function(X), before)
    assert sp.issparse(fitted.coef_) and not sp.issparse(fitted.densify().coef_)
