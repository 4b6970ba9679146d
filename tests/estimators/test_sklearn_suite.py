"""scikit-learn's own test files run on our estimators: see `docs/make/sklearn_tests.py`."""

from __future__ import annotations

import ast

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.exceptions import NotFittedError

from docs.make import sklearn_tests
from docs.make.sklearn_tests import Outcome, adapted, contradictions, folder_of_tests, run
from docs.make.sklearn_tests_reasons import CLOSE_ANSWERS, FAILURE_REASONS
from qpsvm import InputError
from qpsvm.estimators import SVC, LinearSVC, OneClassSVM


@pytest.mark.slow
def test_the_installed_tests_pass_or_have_a_reason():
    if not sklearn.__version__.startswith("1.9."):
        pytest.skip("the reasons are those of scikit-learn 1.9")
    folder = folder_of_tests()
    if folder is None:
        pytest.skip("scikit-learn is installed without its tests")
    outcomes = run(folder)
    assert contradictions(outcomes) == []
    assert sum(one.outcome == "passed" for one in outcomes) > 100
    assert any("| pass |" in line for line in sklearn_tests.page(outcomes))


def test_only_imports_are_adapted():
    text = (
        "from sklearn import base, svm\n"
        "from sklearn.svm import (\n    SVR,\n    _libsvm,\n)\n"
        "from sklearn.svm._classes import hidden\n"
        "from sklearn.svm.tests import test_svm\n"
        "X = svm.SVC  # from sklearn import svm\n"
    )
    expected = (
        "from sklearn import base\nimport adapted_svm as svm\n"
        "from adapted_svm import SVR\nfrom sklearn.svm import _libsvm\n"
        "from sklearn.svm._classes import hidden\nimport test_svm\n"
        "X = svm.SVC  # from sklearn import svm\n"
    )
    assert adapted(text) == expected
    ast.parse(sklearn_tests.module_text())


def test_what_contradicts_the_tables_is_named():
    named = next(key for key in FAILURE_REASONS if "*" not in key)
    close = next(iter(CLOSE_ANSWERS))
    outcomes = [
        Outcome("test_svm.py::test_new", "failed", "E   AssertionError: 1 != 2"),
        Outcome("test_svm.py::test_fine", "passed", ""),
        Outcome(named, "failed", ""),
        Outcome(close, "passed", ""),
        Outcome(close, "failed", ""),
    ]
    assert contradictions(outcomes) == ["failed: test_svm.py::test_new: AssertionError: 1 != 2"]
    assert contradictions([Outcome(named, "passed", "")]) == [
        f"passed, but named in REASONS: {named}"
    ]


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((1200, 6)) * (rng.random((1200, 6)) < 0.5)
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int) + (X[:, 2] > 1.0)


@pytest.mark.parametrize("kind", [SVC, LinearSVC, OneClassSVM])
def test_sparse_points_have_the_fit_of_dense_ones(kind, points):
    X, y = points
    for n_points, accuracy in ((300, 1e-7), (1200, 1e-3)):  # few are solved as dense ones
        dense = kind(tol=1e-8).fit(X[:n_points], y[:n_points])
        sparse = kind(tol=1e-8).fit(sp.csr_matrix(X[:n_points]), y[:n_points])
        values = dense.decision_function(X)
        np.testing.assert_allclose(
            sparse.decision_function(sp.csr_matrix(X)), values, atol=accuracy, rtol=accuracy
        )
    if kind is not LinearSVC:
        assert sp.issparse(sparse.support_vectors_) and sp.issparse(sparse.dual_coef_)


def test_support_vectors_stand_in_the_order_of_the_points(points):
    X, y = points[0][:300], points[1][:300]
    fitted = SVC().fit(X, y)
    for part in np.split(fitted.support_, np.cumsum(fitted.n_support_)[:-1]):
        assert np.all(np.diff(part) > 0)
    np.testing.assert_array_equal(fitted.support_vectors_, X[fitted.support_])


def test_break_ties_needs_scores_in_prediction_alone(points):
    X, y = points[0][:300], points[1][:300]
    fitted = SVC(break_ties=True, decision_function_shape="ovo").fit(X, y)
    assert fitted.decision_function(X).shape == (300, 3)
    with pytest.raises(InputError, match="break_ties must be False"):
        fitted.predict(X)


def test_probabilities_need_a_fit_with_them(points):
    X, y = points[0][:300], points[1][:300]
    fitted = SVC().fit(X, y).set_params(probability=True)
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        fitted.predict_proba(X)
