"""Balls and closest points in the plane: the artists hold what the models say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import qpsvm
from qpsvm import BallDisplay, ClosestPointsDisplay
from tests.plot.conftest import legend_texts


def test_ball_shows_circle_center_points_and_support(blobs, ax):
    X, _ = blobs
    result = qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)), tol=1e-8)
    display = BallDisplay.from_result(result, X, ax=ax, feature_names=("u (cm)", "v (cm)"))
    assert display.circle_.get_radius() == result.model.radius
    np.testing.assert_allclose(display.circle_.get_center(), result.model.center)
    np.testing.assert_allclose(np.ravel(display.center_.get_data()), result.model.center)
    np.testing.assert_allclose(display.points_.get_offsets(), X)
    np.testing.assert_allclose(display.support_.get_offsets(), X[result.support])
    assert display.outside_ is None and len(display.radii_) == len(result.support)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("u (cm)", "v (cm)")
    assert legend_texts(display) == ["points", "support vectors", "center", "ball"]


def test_points_outside_have_a_marker_of_their_own(blobs, ax):
    X, _ = blobs
    result = qpsvm.solve(qpsvm.SVDDDual(qpsvm.Linear(X), 0.1), tol=1e-6)
    assert result.model.n_outside > 0
    display = BallDisplay.from_result(result, X, ax=ax)
    out = np.linalg.norm(X - result.model.center, axis=1) > result.model.radius * (1 + 1e-9)
    np.testing.assert_allclose(display.outside_.get_offsets(), X[out])
    np.testing.assert_allclose(display.points_.get_offsets(), X[~out])
    inside, outside = display.points_.get_paths()[0], display.outside_.get_paths()[0]
    assert len(inside.vertices) != len(outside.vertices)
    assert "points outside" in legend_texts(display)


def test_ball_of_an_estimator(blobs, ax):
    X, _ = blobs
    machine = qpsvm.SVDD(kernel="linear", nu=0.2).fit(X)
    display = BallDisplay.from_estimator(machine, X, ax=ax, show_support=False, legend=False)
    assert display.circle_.get_radius() == machine.radius_
    np.testing.assert_allclose(display.outside_.get_offsets(), X[machine.predict(X) < 0])
    assert display.support_ is None and display.legend_ is None
    assert display.support.sum() == len(machine.support_)


def test_closest_points_shows_witnesses_and_the_line_between_them(blobs, ax):
    X, y = blobs
    result = qpsvm.solve(qpsvm.PolytopeDistanceDual(qpsvm.Linear(X), y), tol=1e-8)
    display = ClosestPointsDisplay.from_result(result, X, y, ax=ax, class_names=["low", "high"])
    model = result.model
    ends = np.column_stack(display.segment_.get_data())
    np.testing.assert_allclose(ends, [model.p, model.q])
    on_line = np.array([display.boundary_.get_xy1(), display.boundary_.get_xy2()])
    np.testing.assert_allclose((on_line - 0.5 * (model.p + model.q)) @ model.w, 0.0, atol=1e-9)
    np.testing.assert_allclose(display.points_[1].get_offsets(), X[y > 0])
    np.testing.assert_allclose(display.support_.get_offsets(), X[result.support])
    hulls = [patch.get_xy() for patch in display.hulls_]
    assert all(any(np.allclose(corner, point) for point in X) for xy in hulls for corner in xy)
    assert legend_texts(display) == [
        "low", "high", "support vectors", "closest points", "separating line",
    ]  # fmt: skip


def test_closest_points_of_flat_hulls(ax):
    points, y = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.5]]), [1, 1, -1]
    result = qpsvm.solve(qpsvm.PolytopeDistanceDual(qpsvm.Linear(points), y), tol=1e-8)
    display = ClosestPointsDisplay.from_result(result, points, y, ax=ax)
    np.testing.assert_allclose(result.model.distance, 2.0)
    assert len(display.hulls_) == 2
    np.testing.assert_allclose(display.q, [2.0, 0.5])


def test_closest_points_of_an_estimator_are_those_of_the_problem(blobs, ax):
    X, y = blobs
    machine = qpsvm.MaxMarginClassifier(C=np.inf, kernel="linear", tol=1e-8).fit(X, y)
    display = ClosestPointsDisplay.from_estimator(machine, X, y, ax=ax)
    model = qpsvm.solve(qpsvm.PolytopeDistanceDual(qpsvm.Linear(X), y), tol=1e-8).model
    np.testing.assert_allclose([display.p, display.q], [model.p, model.q], atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(display.p - display.q), machine.margin_[0], rtol=1e-6)


def test_wrong_results_and_points_are_refused(blobs, ax):
    X, y = blobs
    ball = qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)))
    round_ball = qpsvm.solve(qpsvm.MEBDual(qpsvm.RBF(X, 0.5)))
    plane = qpsvm.solve(qpsvm.HingeDual(qpsvm.Linear(X), y))
    with pytest.raises(qpsvm.InputError, match="two features"):
        BallDisplay.from_result(ball, np.ones((4, 3)))
    for result in (plane, round_ball):
        with pytest.raises(qpsvm.InputError, match="of a ball in the plane"):
            BallDisplay.from_result(result, X)
    with pytest.raises(qpsvm.InputError, match="what solve returns; got str"):
        BallDisplay.from_result("ball", X)
    with pytest.raises(qpsvm.InputError, match="two hulls in the plane"):
        ClosestPointsDisplay.from_result(plane, X, y)
    with pytest.raises(NotFittedError):
        BallDisplay.from_estimator(qpsvm.SVDD(kernel="linear"), X)
    with pytest.raises(qpsvm.InputError, match="SVDD with a linear kernel"):
        BallDisplay.from_estimator(qpsvm.SVDD().fit(X), X)
    with pytest.raises(qpsvm.InputError, match="must be a MaxMarginClassifier"):
        ClosestPointsDisplay.from_estimator(qpsvm.SVC(kernel="linear").fit(X, y), X, y)
    with pytest.raises(
        qpsvm.InputError, match=r"support must be an array of bool of shape \(40,\)"
    ):
        BallDisplay([0, 0], 1.0, X, support=[1, 2])
    with pytest.raises(qpsvm.InputError, match="codes must be 0 or 1"):
        ClosestPointsDisplay([0, 0], [1, 1], X, y)
