"""Paths over a parameter and heat maps of a search."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import qpsvm
from qpsvm import PathDisplay, SearchDisplay
from tests.plot.conftest import legend_texts


@pytest.fixture(scope="module")
def path(blobs):
    X, y = blobs
    return qpsvm.solve_path(qpsvm.HingeDual(qpsvm.RBF(X), y), "C", [10.0, 0.01, 1.0])


@pytest.fixture(scope="module")
def search(three):
    return qpsvm.SVCCV(Cs=[1.0, 0.1, 1000.0], gammas=[0.1, 1.0], cv=3).fit(*three)


def test_path_shows_supports_and_accuracy_in_ascending_order(path, blobs, ax):
    X, y = blobs
    display = PathDisplay.from_path(path, X, y, ax=ax)
    order = np.argsort(path.values)
    values, sizes = display.support_.get_data()
    np.testing.assert_array_equal(values, [0.01, 1.0, 10.0])
    np.testing.assert_array_equal(sizes, [len(path[i].support) for i in order])
    shares = [100.0 * np.mean(path[i].model.predict(X) == y) for i in order]
    np.testing.assert_allclose(display.accuracy_.get_ydata(), shares)
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "C"
    assert display.accuracy_ax_.get_ylabel() == "accuracy (%)"
    assert display.accuracy_.get_linestyle() != display.support_.get_linestyle()
    assert display.accuracy_.get_marker() != display.support_.get_marker()
    assert legend_texts(display) == ["support vectors", "accuracy"]


def test_path_without_points_has_one_scale(path, ax):
    display = PathDisplay.from_path(path, ax=ax, name="penalty", scale="linear")
    assert display.accuracy_ is None and display.accuracy_ax_ is None
    assert ax.get_xlabel() == "penalty" and ax.get_xscale() == "linear"
    assert PathDisplay([1.0, 2.0], [3, 4]).plot().ax_.get_xscale() == "linear"


def test_wrong_paths_are_refused(path, blobs):
    X, y = blobs
    with pytest.raises(qpsvm.InputError, match="at least one result; got Path of length 0"):
        PathDisplay.from_path(type(path)())
    with pytest.raises(qpsvm.InputError, match="what solve_path returns"):
        PathDisplay.from_path(path[0])
    with pytest.raises(qpsvm.InputError, match="given together"):
        PathDisplay.from_path(path, X)
    with pytest.raises(qpsvm.InputError, match="finite numbers to be drawn; got 'scale'"):
        PathDisplay.from_path(type(path)(path[:1], ["scale"], "gamma"))
    with pytest.raises(qpsvm.InputError, match="got inf"):
        PathDisplay.from_path(type(path)(path[:1], [np.inf], "C"))
    with pytest.raises(qpsvm.InputError, match="scale must be 'linear'"):
        PathDisplay([0.0, 1.0], [1, 2]).plot(scale="log")
    with pytest.raises(qpsvm.InputError, match=r"accuracy must have shape \(2,\)"):
        PathDisplay([0.5, 1.0], [1, 2], [0.5])
    balls = qpsvm.solve_path(qpsvm.OneClassDual(qpsvm.RBF(X), 0.5), "nu", [0.2, 0.5])
    with pytest.raises(qpsvm.InputError, match="separate two classes; got OneClass"):
        PathDisplay.from_path(balls, X, y)


def test_heat_map_shows_the_table_and_marks_the_best(search, ax):
    display = SearchDisplay.from_search(search, ax=ax)
    table = np.asarray(search.cv_results_["mean_test_score"]).reshape(3, 2).T
    np.testing.assert_array_equal(display.scores, table)
    np.testing.assert_allclose(np.ma.getdata(display.cells_.get_array()), table)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.1", "1", "1000"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0.1", "1"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("C", "gamma")
    assert display.colorbar_.ax.get_ylabel() == "mean test score"
    row, column = display.best
    best = search.best_params_
    assert (display.columns[column], display.rows[row]) == (best["C"], best["gamma"])
    assert display.best_.get_xy() == (column - 0.5, row - 0.5)
    assert [text.get_text().endswith("*") for text in display.texts_].count(True) == 1
    assert display.cells_.get_cmap().name == "cividis"


def test_other_columns_and_searches_of_scikit_learn(search, three, ax):
    gaps = SearchDisplay.from_search(search, score="max_dual_gap", x="gamma", y="C", ax=ax)
    assert gaps.scores.shape == (3, 2)
    grid = {"C": [1.0, 10.0], "gamma": [0.1, 1.0], "kernel": ["poly", "rbf"]}
    other = GridSearchCV(qpsvm.SVC(), grid, cv=2).fit(*three)
    best = SearchDisplay.from_search(other)
    assert best.title == f"kernel = {other.best_params_['kernel']}" and best.best is not None
    fixed = SearchDisplay.from_search(other, fixed={"kernel": "poly"})
    cells = zip(other.cv_results_["params"], other.cv_results_["mean_test_score"], strict=True)
    expected = [score for cell, score in cells if cell["kernel"] == "poly"]
    np.testing.assert_array_equal(fixed.scores.T.ravel(), expected)


def test_cells_without_a_score_stay_empty(ax):
    display = SearchDisplay([[0.5, np.nan], [0.25, 1.0]], [1, 2], [3, 4]).plot(ax)
    assert [text.get_text() for text in display.texts_] == ["0.5", "0.25", "1"]
    assert np.ma.getmaskarray(display.cells_.get_array()).ravel().tolist() == [0, 1, 0, 0]
    assert display.best_ is None
    assert display.plot(annotate=False, colorbar=False).texts_ == []


def test_numbers_contrast_with_their_cells(ax):
    display = SearchDisplay([[0.0, 1.0]], [1], [1, 2]).plot(ax)
    assert [text.get_color() for text in display.texts_] == ["white", "black"]


def test_wrong_searches_are_refused(search, three):
    with pytest.raises(NotFittedError):
        SearchDisplay.from_search(qpsvm.SVCCV())
    with pytest.raises(qpsvm.InputError, match="must have the table cv_results_; got SVC"):
        SearchDisplay.from_search(qpsvm.SVC().fit(*three))
    with pytest.raises(qpsvm.InputError, match=r"y must be one of the parameters \['C', 'gamma'\]"):
        SearchDisplay.from_search(search, y="degree")
    with pytest.raises(qpsvm.InputError, match="must be two parameters"):
        SearchDisplay.from_search(search, y="C")
    with pytest.raises(qpsvm.InputError, match=r"score must be a column .* got 'loss'"):
        SearchDisplay.from_search(search, score="loss")
    with pytest.raises(qpsvm.InputError, match="fixed must have other parameters"):
        SearchDisplay.from_search(search, fixed={"C": 1.0})
    with pytest.raises(qpsvm.InputError, match=r"scores must have shape \(2, 2\)"):
        SearchDisplay([1.0, 2.0], [1, 2], [3, 4])
    with pytest.raises(qpsvm.InputError, match="best must be a row and a column"):
        SearchDisplay([[1.0]], [1], [3], best=(1, 0))
