"""Regions of classes: colors where the classifier says, lines where its functions are 0, -1 and +1."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import svm
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import qpsvm
from qpsvm import DecisionRegionDisplay
from tests.plot.conftest import legend_texts


def vertices(contours):
    """Return the points of contour sets by their level."""
    found = {}
    for one in contours:
        for level, path in zip(one.levels, one.get_paths(), strict=True):
            found.setdefault(float(level), []).extend(path.vertices)
    return {level: np.array(points) for level, points in found.items()}


@pytest.mark.parametrize("kind", [qpsvm.Linear, qpsvm.RBF])
def test_contours_are_where_the_decision_function_says(blobs, ax, kind):
    X, y = blobs
    result = qpsvm.solve(qpsvm.HingeDual(kind(X), y, C=10.0), tol=1e-6)
    display = DecisionRegionDisplay.from_result(result, X, y, ax=ax, grid_resolution=150)
    found = {**vertices(display.boundaries_), **vertices(display.margins_)}
    assert sorted(found) == [-1.0, 0.0, 1.0]
    for level, points in found.items():
        np.testing.assert_allclose(result.model.decision_function(points), level, atol=0.02)
    np.testing.assert_allclose(display.support_.get_offsets(), X[result.support])
    np.testing.assert_allclose(display.points_[1].get_offsets(), X[y > 0])
    assert legend_texts(display) == [
        "class -1", "class +1", "support vectors", "decision boundary", "margin",
    ]  # fmt: skip
    assert [ax.get_xlabel(), ax.get_ylabel()] == ["feature 0", "feature 1"]


def test_regions_of_two_classes_have_their_colors_and_hatches(blobs, ax):
    X, y = blobs
    machine = qpsvm.SVC(C=10.0).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(machine, X, y, ax=ax, feature_names=["u", "v"])
    for code, area in enumerate(display.regions_):
        inside = [path for path in area.get_paths() if len(path.vertices)]
        own = X[y == machine.classes_[code]]
        assert sum(path.contains_points(own).sum() for path in inside) >= 0.9 * len(own)
    assert display.regions_[0].hatches != display.regions_[1].hatches
    assert ax.get_xlabel() == "u"
    plain = display.plot(hatches=False, show_margins=False, show_support=False, legend=False)
    assert plain.regions_[1].hatches == [""] and plain.margins_ == []
    assert plain.support_ is None and plain.legend_ is None


def test_closest_points_of_a_kernel_have_margins_at_the_witnesses(blobs, ax):
    X, y = blobs
    result = qpsvm.solve(qpsvm.PolytopeDistanceDual(qpsvm.RBF(X, 0.5), y), tol=1e-8)
    display = DecisionRegionDisplay.from_result(result, X, y, ax=ax)
    level = 0.5 * result.model.distance**2
    for sign, points in vertices(display.margins_).items():
        values = result.model.decision_function(points)
        np.testing.assert_allclose(values, sign * level, atol=0.02 * level)
    of_support = result.model.decision_function(X[result.support])
    np.testing.assert_allclose(np.abs(of_support), level, rtol=1e-3)


@pytest.mark.parametrize(
    "machine",
    [
        qpsvm.SVC(C=10.0),
        qpsvm.SVC(C=10.0, decision_function_shape="ovo"),
        qpsvm.SVC(C=10.0, multi_class="dag"),
        qpsvm.SVC(C=10.0, multi_class="ovr"),
        qpsvm.LinearSVC(),
        svm.SVC(C=10.0),
        make_pipeline(StandardScaler(), qpsvm.SVC(C=10.0)),
        qpsvm.SVCCV(Cs=[10.0], gammas=["scale"]),
    ],
    ids=["ovo", "ovo-shape", "dag", "ovr", "linear", "scikit-learn", "pipeline", "search"],
)
def test_regions_and_boundaries_of_three_classes(three, ax, machine):
    X, y = three
    machine.fit(X, y)
    display = DecisionRegionDisplay.from_estimator(machine, X, y, ax=ax)
    nodes = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    expected = machine.predict(nodes).reshape(display.regions.shape)
    np.testing.assert_array_equal(machine.classes_[display.regions], expected)
    points = vertices(display.boundaries_)[0.0]
    step = np.array([np.ptp(display.xx0), np.ptp(display.xx1)]) / (len(display.xx0) - 1)
    around = [machine.predict(points + step * shift) for shift in np.random.default_rng(0).uniform(
        -1.0, 1.0, (24, 1, 2))]  # fmt: skip
    assert np.mean([len(set(column)) > 1 for column in np.array(around).T]) > 0.95
    assert len(display.points_) == 3 and display.margins_
    markers = {one.get_paths()[0].vertices.tobytes() for one in display.points_}
    assert len(markers) == 3
    assert legend_texts(display)[:3] == ["ash", "birch", "cedar"]


def test_margins_of_pairs_are_those_of_their_machines(three, ax):
    X, y = three
    machine = qpsvm.SVC(C=10.0, tol=1e-6, decision_function_shape="ovo").fit(X, y)
    display = DecisionRegionDisplay.from_estimator(machine, X, y, ax=ax, grid_resolution=300)
    points = np.concatenate(list(vertices(display.margins_).values()))
    values = machine.decision_function(points)
    distance = np.min(np.abs(np.abs(values) - 1.0), axis=1)
    assert np.max(distance) < 0.02


def test_only_support_vectors_among_the_points_are_marked(three, ax):
    X, y = three
    machine = qpsvm.SVC(C=10.0).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(machine, X, y, ax=ax)
    marked = np.asarray(display.support_.get_offsets())
    np.testing.assert_allclose(marked, X[np.sort(machine.support_)])
    other = DecisionRegionDisplay.from_estimator(machine, X + 0.01, ax=ax)
    assert other.support_ is None and len(other.points_) == 1


def test_columns_of_a_frame_name_the_axes(three, ax, recwarn):
    pandas = pytest.importorskip("pandas")
    X, y = pandas.DataFrame(three[0], columns=["length (cm)", "width (cm)"]), three[1]
    machine = make_pipeline(StandardScaler(), qpsvm.SVC(C=10.0)).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(machine, X, y, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length (cm)", "width (cm)")
    assert len(display.support_.get_offsets()) == len(machine[-1].support_)
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_models_without_a_scale_have_no_margins(ax):
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), [1, 1, -1, -1]
    result = qpsvm.solve(qpsvm.HingeDual(qpsvm.Linear(X), y, C=np.inf))
    assert not result.model.separable
    display = DecisionRegionDisplay.from_result(result, X, y, ax=ax)
    assert display.margins == [] and display.margins_ == []


def test_wrong_points_results_and_estimators_are_refused(blobs, three, ax):
    X, y = blobs
    result = qpsvm.solve(qpsvm.HingeDual(qpsvm.Linear(X), y))
    machine = qpsvm.SVC().fit(X, y)
    with pytest.raises(qpsvm.InputError, match=r"two features .* got shape \(40, 3\)"):
        DecisionRegionDisplay.from_result(result, np.ones((40, 3)), y)
    with pytest.raises(qpsvm.InputError, match="y must have shape"):
        DecisionRegionDisplay.from_result(result, X, y[:3])
    with pytest.raises(qpsvm.InputError, match="X must hold the points of the problem"):
        DecisionRegionDisplay.from_result(result, X[:2], y[:2])
    with pytest.raises(qpsvm.InputError, match="separates two classes; got Ball"):
        DecisionRegionDisplay.from_result(qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X))), X, y)
    given = qpsvm.solve(qpsvm.HingeDual(qpsvm.Precomputed(X @ X.T), y))
    with pytest.raises(qpsvm.InputError, match="precomputed K"):
        DecisionRegionDisplay.from_result(given, X, y)
    with pytest.raises(NotFittedError):
        DecisionRegionDisplay.from_estimator(qpsvm.SVC(), X, y)
    wide = qpsvm.SVC().fit(np.column_stack([X, X]), y)
    with pytest.raises(qpsvm.InputError, match="got one of 4 features"):
        DecisionRegionDisplay.from_estimator(wide, X, y)
    for estimator in (LinearRegression().fit(X, y), qpsvm.OneClassSVM().fit(X)):
        with pytest.raises(qpsvm.InputError, match="must be a classifier"):
            DecisionRegionDisplay.from_estimator(estimator, X, y)
    with pytest.raises(qpsvm.InputError, match="must be a fitted estimator"):
        DecisionRegionDisplay.from_estimator(qpsvm.SVC, X, y)
    with pytest.raises(qpsvm.InputError, match=r"y must hold the classes .* got \[7"):
        DecisionRegionDisplay.from_estimator(machine, X, np.full(40, 7.0))
    with pytest.raises(qpsvm.InputError, match="class_names must be 2 names"):
        DecisionRegionDisplay.from_estimator(machine, X, y, class_names=["one"])
    with pytest.raises(qpsvm.InputError, match="feature_names must be two names"):
        DecisionRegionDisplay.from_estimator(machine, X, y, feature_names="uv")
    with pytest.raises(qpsvm.InputError, match="grid_resolution must be"):
        DecisionRegionDisplay.from_estimator(machine, X, y, grid_resolution=1)
    with pytest.raises(qpsvm.InputError, match="alpha must be"):
        DecisionRegionDisplay.from_estimator(machine, X, y, alpha=2.0)
