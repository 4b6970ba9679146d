"""NuSVC and reduced hulls: what nu bounds, forbids and stands for."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import InputError
from qpsvm.estimators import SVC, MaxMarginClassifier, NuSVC


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(5)
    X = np.vstack([rng.standard_normal((40, 3)) + shift for shift in (0.0, 1.2, 2.4)])
    return X, np.repeat([3, 7, 9], 40)


def test_an_infeasible_nu(points):
    X, y = points
    few = np.r_[0:8, 40:120]
    with pytest.raises(InputError, match=r"specified nu is infeasible.*at most 0.33.*3 and 7"):
        NuSVC().fit(X[few][:48], y[few][:48])
    with pytest.raises(InputError, match="specified nu is infeasible"):
        NuSVC(nu=0.9, multi_class="ovr").fit(X, y)
    with pytest.warns(UserWarning, match=r"specified nu is infeasible.*In 2 of 3 problems"):
        fitted = NuSVC(tol=1e-6).fit(X[few], y[few])
    assert fitted.dual_gap_ <= 1e-6 and fitted.score(X, y) > 0.6
    pair = fitted.decision_function(X).shape
    assert pair == (120, 3)


def test_factors_of_classes_are_those_of_the_penalty_that_nu_stands_for(points):
    X, y = points[0][:80], points[1][:80]
    plain = NuSVC(nu=0.4, tol=1e-9).fit(X, y)
    C = np.max(np.abs(plain.dual_coef_))
    weighted = NuSVC(nu=0.4, tol=1e-9, class_weight={3: 3.0}).fit(X, y)  # of mean 2
    same = SVC(C=C, tol=1e-9, class_weight={3: 1.5, 7: 0.5}).fit(X, y)
    np.testing.assert_allclose(weighted.decision_function(X), same.decision_function(X), atol=1e-3)
    even = NuSVC(nu=0.4, tol=1e-9, class_weight={3: 5.0, 7: 5.0}).fit(X, y)
    np.testing.assert_array_equal(even.decision_function(X), plain.decision_function(X))


def test_the_share_nu_bounds_errors_and_support_vectors(points):
    X, y = points[0][:80], points[1][:80]
    fitted = NuSVC(nu=0.5, tol=1e-7).fit(X, y)
    margin = np.where(y == 7, 1.0, -1.0) * fitted.decision_function(X)
    assert np.mean(margin < 1.0 - 1e-3) <= 0.5 <= len(fitted.support_) / 80


def test_reduced_hulls_where_hulls_intersect(points):
    X, y = points[0][:80], points[1][:80]
    small, large = (
        MaxMarginClassifier(nu=nu, kernel="linear", tol=1e-6).fit(X, y) for nu in (0.8, 1.0)
    )
    assert 0.0 < small.margin_[0] < large.margin_[0]
    means = X[y == 3].mean(axis=0) - X[y == 7].mean(axis=0)
    np.testing.assert_allclose(large.margin_, np.linalg.norm(means), rtol=1e-6)
    same = NuSVC(nu=0.8, kernel="linear", tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(small.decision_function(X), same.decision_function(X))
