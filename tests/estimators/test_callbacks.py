"""Callbacks of scikit-learn 1.9 are told of fits, alone and inside searches and pipelines."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qpsvm import SVC, SVR, LinearSVC, MaxMarginClassifier, OneClassSVM

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9")


class Recorder:
    """Writes down what it is told."""

    max_propagation_depth = None

    def __init__(self):
        self.events = []

    def setup(self, estimator, context):
        self.events.append(("setup", type(estimator).__name__))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.events.append(("begin", type(estimator).__name__, np.shape(X), metadata))

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        can_predict = hasattr(fitted_estimator, "predict")  # a scaler cannot
        n_predicted = len(fitted_estimator.predict(X)) if can_predict else None
        self.events.append(("end", type(estimator).__name__, n_predicted))

    def teardown(self, estimator, context):
        self.events.append(("teardown", type(estimator).__name__))


@pytest.fixture
def data(rng):
    X = rng.standard_normal((30, 2))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("kind", [SVC, SVR, LinearSVC, MaxMarginClassifier, OneClassSVM])
def test_a_fit_is_one_task(kind, data):
    X, y = data
    recorder, name = Recorder(), kind.__name__
    model = kind().set_callbacks(recorder).fit(X, y)
    assert recorder.events == [
        ("setup", name), ("begin", name, (30, 2), None), ("end", name, 30), ("teardown", name),
    ]  # fmt: skip
    assert np.array_equal(model.predict(X), kind().fit(X, y).predict(X))


def test_weights_are_metadata(data):
    X, y = data
    recorder = Recorder()
    weight = np.ones(30)
    SVC().set_callbacks(recorder).fit(X, y, sample_weight=weight)
    assert recorder.events[1][3]["sample_weight"] is weight


def test_a_fit_that_fails_is_torn_down(data):
    recorder = Recorder()
    with pytest.raises(ValueError, match="C"):
        SVC(C=-1.0).set_callbacks(recorder).fit(*data)
    assert [event[0] for event in recorder.events] == ["setup", "begin", "teardown"]


def test_a_calibrated_fit_is_one_task(data):
    recorder = Recorder()
    SVC(probability=True).set_callbacks(recorder).fit(*data)
    assert [event[0] for event in recorder.events] == ["setup", "begin", "end", "teardown"]


def test_a_search_and_a_pipeline_pass_their_callbacks_on(data):
    recorder = Recorder()
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = GridSearchCV(pipeline, {"svc__C": [1.0, 10.0]}, cv=2).set_callbacks(recorder)
    with warnings.catch_warnings(action="error"):
        search.fit(*data)
    fits = [event for event in recorder.events if event[:2] == ("end", "SVC")]
    assert len(fits) == 5  # two folds of two values, and all points


def test_callbacks_are_cloned_and_removed(data):
    recorder = Recorder()
    model = SVC().set_callbacks(recorder)
    clone(model).fit(*data)
    assert len(recorder.events) == 4
    model.set_callbacks().fit(*data)
    assert len(recorder.events) == 4
    assert pickle.loads(pickle.dumps(model)).predict(data[0]).shape == (30,)


@pytest.mark.parametrize("kind", [SVC, SVR, LinearSVC])
def test_a_warning_names_the_line_of_the_fit(kind, data):
    with pytest.warns(ConvergenceWarning) as caught:
        kind(C=1e4, tol=1e-9, max_iter=1).fit(*data)
    assert caught[0].filename == __file__
