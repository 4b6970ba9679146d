"""Data frames of pandas and polars: names of features are checked, answers are those of arrays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris

from qpsvm import SVC, SVR, LinearSVC, OneClassSVM

FEATURE_NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    """Return the constructor of a data frame from an array and names."""
    library = pytest.importorskip(request.param)
    if request.param == "pandas":
        return lambda X, names: library.DataFrame(X, columns=names)
    return lambda X, names: library.DataFrame(X, schema=list(names))


@pytest.mark.parametrize("kind", [SVC, LinearSVC, OneClassSVM])
def test_a_frame_gives_the_answer_of_its_array_and_its_names(frame, kind):
    X, y = load_iris(return_X_y=True)
    model = kind(tol=1e-8)
    of_array, of_frame = clone(model).fit(X, y), clone(model).fit(frame(X, FEATURE_NAMES), y)
    assert list(of_frame.feature_names_in_) == FEATURE_NAMES
    assert not hasattr(of_array, "feature_names_in_")
    values = of_frame.decision_function(
        frame(X, FEATURE_NAMES)
    )  # columns may lie one after another
    assert np.allclose(values, of_array.decision_function(X), atol=1e-3 * np.std(values))


def test_other_names_or_another_order_are_one_error(frame):
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(frame(X, FEATURE_NAMES), y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame(X, ["a", *FEATURE_NAMES[1:]]))
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame(X, FEATURE_NAMES[::-1]))


def test_an_array_after_a_frame_warns_that_names_are_missing(frame):
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(frame(X, FEATURE_NAMES), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_labels_may_be_a_column(frame):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    table = frame(np.column_stack([X, y]), [*FEATURE_NAMES, "kind"])
    model = SVC().fit(table[FEATURE_NAMES], table["kind"])
    assert np.array_equal(model.predict(table[FEATURE_NAMES]), SVC().fit(X, y).predict(X))
    assert set(SVC().fit(table[FEATURE_NAMES], names).classes_) == set(names)


def test_float32_columns_and_regression(frame):
    X, y = load_diabetes(return_X_y=True)
    columns = [f"x{k}" for k in range(X.shape[1])]
    table = frame(X.astype(np.float32), columns)
    model = SVR(C=10.0, tol=1e-6)
    expected = clone(model).fit(X.astype(np.float32), y).predict(X.astype(np.float32))
    assert np.allclose(clone(model).fit(table, y).predict(table), expected, atol=1e-2 * np.std(y))
