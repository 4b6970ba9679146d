"""Contours of one-class machines and balls: the boundary is where the function is 0."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import svm
from sklearn.exceptions import NotFittedError

import qpsvm
from qpsvm import OneClassDisplay
from tests.plot.conftest import legend_texts


@pytest.mark.parametrize("kind", [qpsvm.OneClassSVM, qpsvm.SVDD, svm.OneClassSVM])
def test_boundary_outliers_and_support_of_an_estimator(blobs, ax, kind):
    X, _ = blobs
    machine = kind(nu=0.2, gamma=0.5, tol=1e-6).fit(X)
    display = OneClassDisplay.from_estimator(machine, X, ax=ax)
    (path,) = display.boundary_.get_paths()
    size = np.ptp(display.values)
    np.testing.assert_allclose(machine.decision_function(path.vertices), 0.0, atol=0.01 * size)
    np.testing.assert_allclose(display.outside_.get_offsets(), X[machine.predict(X) < 0])
    assert len(display.support_.get_offsets()) == len(machine.support_)
    assert legend_texts(display) == ["points", "outliers", "support vectors", "boundary"]
    assert display.colorbar_.ax.get_ylabel() == "decision function"


def test_shades_cover_all_values_and_divide_at_the_boundary(blobs, ax):
    X, _ = blobs
    result = qpsvm.solve(qpsvm.OneClassDual(qpsvm.RBF(X, 0.5), 0.2))
    display = OneClassDisplay.from_result(result, X, ax=ax)
    levels = display.shades_.levels
    assert 0.0 in levels and levels[0] <= display.values.min() <= display.values.max() <= levels[-1]
    assert np.sum(levels > 0) > 2 and np.sum(levels < 0) > 2
    assert display.shades_.get_cmap().name == "cividis"
    n_labels = len(display.colorbar_.ax.get_yticklabels())
    assert n_labels == len(levels)


def test_a_ball_of_a_kernel_contains_its_points(blobs, ax):
    X, _ = blobs
    result = qpsvm.solve(qpsvm.MEBDual(qpsvm.RBF(X, 0.5)), tol=1e-8)
    display = OneClassDisplay.from_result(result, X, ax=ax, colorbar=False, legend=False)
    assert display.outside_ is None and display.colorbar_ is None and display.legend_ is None
    (path,) = display.boundary_.get_paths()
    np.testing.assert_allclose(result.model.distance(path.vertices), result.model.radius, rtol=0.01)
    np.testing.assert_allclose(display.support_.get_offsets(), X[result.support])


def test_without_a_boundary_in_the_window_none_is_drawn(ax):
    xx0, xx1 = np.meshgrid([0.0, 1.0], [0.0, 1.0])
    display = OneClassDisplay(xx0, xx1, xx0 + 1.0, points=[[0.5, 0.5]]).plot(ax)
    assert display.boundary_ is None and legend_texts(display) == ["points"]


def test_wrong_results_and_estimators_are_refused(blobs, ax):
    X, y = blobs
    with pytest.raises(NotFittedError):
        OneClassDisplay.from_estimator(qpsvm.OneClassSVM(), X)
    with pytest.raises(qpsvm.InputError, match="must detect outliers"):
        OneClassDisplay.from_estimator(qpsvm.SVC().fit(X, y), X)
    with pytest.raises(
        qpsvm.InputError, match=r"OneClassDual, MEBDual or SVDDDual; got .* Hyperplane"
    ):
        OneClassDisplay.from_result(qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X), y)), X)
    given = qpsvm.solve(qpsvm.OneClassDual(qpsvm.Precomputed(X @ X.T + 30.0), 0.5))
    with pytest.raises(qpsvm.InputError, match="precomputed K"):
        OneClassDisplay.from_result(given, X)
    machine = qpsvm.OneClassSVM().fit(X)
    with pytest.raises(qpsvm.InputError, match="two features"):
        OneClassDisplay.from_estimator(machine, X[:, :1])
    with pytest.raises(qpsvm.InputError, match="levels must be"):
        OneClassDisplay.from_estimator(machine, X, levels=0)
    with pytest.raises(qpsvm.InputError, match=r"one shape \(n, n\)"):
        OneClassDisplay(X, X, X[:3], points=X)
