"""scikit-learn's own checks of estimators: none fails, none is expected to."""

from __future__ import annotations

import pickle
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as SklearnSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import qpsvm
from qpsvm.estimators import (
    LSSVC,
    SVC,
    SVCCV,
    SVDD,
    SVR,
    SVRCV,
    LinearSVC,
    LinearSVR,
    MaxMarginClassifier,
    NuSVC,
    NuSVR,
    NystroemSVC,
    OneClassSVM,
)

CLASSIFIER_CLASSES = [SVC, NuSVC, LinearSVC, LSSVC, MaxMarginClassifier, NystroemSVC]
REGRESSOR_CLASSES = [SVR, NuSVR, LinearSVR]
ESTIMATOR_CLASSES = [*CLASSIFIER_CLASSES, *REGRESSOR_CLASSES, OneClassSVM, SVDD]
ESTIMATOR_VARIANTS = [
    *(kind() for kind in ESTIMATOR_CLASSES),
    SVC(loss="squared_hinge"),
    SVC(kernel="linear"),
    SVC(kernel="precomputed"),
    SVC(multi_class="ovr"),
    LinearSVC(loss="hinge"),
    LinearSVC(penalty="l1", loss="hinge"),
    NuSVC(nu=0.3, multi_class="ovr"),
    MaxMarginClassifier(nu=0.5),
    SVR(kernel="linear"),
    SVR(kernel="precomputed"),
    LinearSVR(intercept_scaling=np.inf),
    LinearSVR(loss="squared_epsilon_insensitive"),
    SVRCV(Cs=[0.1, 10.0], gammas=["scale"], epsilons=[0.1]),
    SVCCV(Cs=[0.1, 10.0], gammas=["scale"]),
]


@parametrize_with_checks(ESTIMATOR_VARIANTS)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(3)
    X = np.vstack([rng.standard_normal((20, 3)) + shift for shift in (0.0, 1.5, 3.0)])
    return X, np.repeat(["a", "b", "c"], 20)


def labels_for(kind, y):
    return np.searchsorted(["a", "b", "c"], y).astype(float) if kind in REGRESSOR_CLASSES else y


def scores(estimator, X):
    is_regressor = type(estimator) in REGRESSOR_CLASSES
    return estimator.predict(X) if is_regressor else estimator.decision_function(X)


@pytest.mark.parametrize("kind", ESTIMATOR_CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "copied", [deepcopy, lambda e: pickle.loads(pickle.dumps(e))], ids=["deepcopy", "pickle"]
)
def test_copies_predict_the_same(kind, copied, points):
    X, y = points
    fitted = kind().fit(X, labels_for(kind, y))
    other = copied(fitted)
    np.testing.assert_allclose(scores(other, X), scores(fitted, X), rtol=1e-12, atol=1e-12)
    assert other.dual_gap_ == fitted.dual_gap_ and other.status_ is fitted.status_


@pytest.mark.parametrize("kind", ESTIMATOR_CLASSES, ids=lambda kind: kind.__name__)
def test_a_clone_is_not_fitted(kind, points):
    X, y = points
    copy = clone(kind(tol=0.01).fit(X, labels_for(kind, y)))
    assert copy.tol == 0.01 and not hasattr(copy, "dual_gap_")


def test_a_pickle_is_no_larger_than_scikit_learns_by_half(rng):
    X = rng.standard_normal((600, 8))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(600), [-0.5, 0.5])
    ours, theirs = (len(pickle.dumps(kind().fit(X, y))) for kind in (SVC, SklearnSVC))
    assert ours <= 1.5 * theirs


def test_results_hold_no_points(points):
    fitted = SVC().fit(*points)
    assert len(fitted.result_) == 3
    assert all(result.model is None for result in fitted.result_)


def test_searches_and_pipelines_take_them(points):
    X, y = points
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.7
    assert cross_val_score(LinearSVC(), X, y, cv=3).mean() > 0.6
    assert OneVsRestClassifier(SVC()).fit(X, y).score(X, y) > 0.7


def test_sample_weight_is_routed(points):
    X, y = points
    weight = np.ones(len(y))
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(SVC().set_fit_request(sample_weight=True))
        weight[40:] = 0.0
        assert set(pipeline.fit(X, y, sample_weight=weight).predict(X)) <= {"a", "b"}


def test_reprs_show_what_was_set():
    assert repr(SVC(C=3.0, method="smo")) == "SVC(C=3.0, method='smo')"
    assert "SVC" in SVC()._repr_html_()


def test_names_are_those_of_the_package():
    assert all(getattr(qpsvm, kind.__name__) is kind for kind in ESTIMATOR_CLASSES)
    assert qpsvm.estimators.__all__ == sorted(qpsvm.estimators.__all__)


@pytest.mark.parametrize("kind", ESTIMATOR_CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "laid_out",
    [np.asfortranarray, partial(np.array, dtype=np.float32), np.ndarray.tolist],
    ids=["fortran", "float32", "list"],
)
def test_layouts_and_precisions_of_points(kind, laid_out, points):
    X, y = points
    y, given = labels_for(kind, y), laid_out(X)
    if isinstance(given, np.ndarray):
        given.flags.writeable = False
    fitted, plain = kind().fit(given, y), kind().fit(X, y)
    if kind in REGRESSOR_CLASSES:
        np.testing.assert_allclose(fitted.predict(given), plain.predict(X), atol=1e-2)
    else:
        # Two answers within `tol` may put a point near the boundary on different sides.
        values = np.abs(plain.decision_function(X).reshape(len(X), -1)).min(axis=1)
        is_clear = values > 0.05 * values.max()
        assert np.mean(is_clear) > 0.5
        np.testing.assert_array_equal(fitted.predict(given)[is_clear], plain.predict(X)[is_clear])
    if isinstance(given, np.ndarray) and hasattr(fitted, "support_vectors_"):
        assert fitted.support_vectors_.dtype == given.dtype
