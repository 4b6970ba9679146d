"""SVR and LinearSVR: tubes of any width, limits and warm starts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning

from qpsvm import InputError, Status, from_sklearn
from qpsvm.estimators import SVR, LinearSVR, NuSVR


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(5)
    X = np.vstack([rng.standard_normal((40, 3)) + shift for shift in (0.0, 1.2, 2.4)])
    return X, np.repeat([3, 7, 9], 40)


def test_a_tube_of_any_width(points):
    X, y = points
    wide = SVR(epsilon=10.0).fit(X, y)
    assert len(wide.support_) == 0 and wide.dual_gap_ == 0.0
    np.testing.assert_allclose(wide.predict(X), 6.0)
    exact = SVR(epsilon=0.0, C=1e3, gamma=5.0, tol=1e-3).fit(X, y)
    assert np.max(np.abs(exact.predict(X) - y)) < 0.05
    constant = SVR().fit(X, np.full(120, 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0)


@pytest.mark.parametrize("kind", [SVR, LinearSVR])
def test_a_regression_keeps_limits_and_warm_starts(kind, points):
    X, y = points
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        stopped = kind(max_iter=1, tol=1e-9, method="smo").fit(X, y)
    assert stopped.status_ is Status.MAX_ITER and stopped.dual_gap_ > 1e-9
    fitted = kind(warm_start=True, tol=1e-6, method="smo").fit(X, y)
    first = fitted.n_iter_
    assert fitted.set_params(tol=1e-5).fit(X, y).n_iter_ < first
    seen = []
    kind(callback=lambda progress: seen.append(progress.gap)).fit(X[10:], y[10:])
    assert seen


SQUARED_LOSS = "squared_epsilon_insensitive"
"""The other loss of LinearSVR."""


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix, np.float32])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"C": 0.05, "epsilon": 0.3},
        {"C": 20.0, "intercept_scaling": 5.0},
        {"fit_intercept": False, "epsilon": 0.1},
    ],
    ids=str,
)
def test_the_squared_loss_is_that_of_scikit_learn(storage, given):
    rng = np.random.default_rng(17)
    X = rng.standard_normal((200, 6)).astype(np.float32)
    y = X @ rng.standard_normal(6) + 0.5 * rng.standard_normal(200) + 1.0
    weight = rng.integers(0, 4, 200)
    ours = LinearSVR(loss=SQUARED_LOSS, tol=1e-10, **given).fit(storage(X), y, weight)
    theirs = svm.LinearSVR(loss=SQUARED_LOSS, tol=1e-10, max_iter=10**6, dual=True, **given)
    theirs.fit(X, y, weight)
    np.testing.assert_allclose(ours.predict(storage(X)), theirs.predict(X), atol=2e-5)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert ours.intercept_.shape == (1,) and ours.coef_.shape == (6,)
    assert ours.dual_gap_ <= 1e-10 and ours.status_ is Status.OPTIMAL
    np.testing.assert_allclose(ours.to_sklearn().predict(X), ours.predict(X), atol=1e-5)
    again = np.repeat(np.arange(200), weight)
    repeated = LinearSVR(loss=SQUARED_LOSS, tol=1e-10, **given).fit(storage(X[again]), y[again])
    np.testing.assert_allclose(repeated.coef_, ours.coef_, atol=1e-5)


def test_from_sklearn_certifies_a_regression_with_the_squared_loss():
    rng = np.random.default_rng(18)
    X = rng.standard_normal((150, 4))
    y, weight = X[:, 0] + 0.3 * rng.standard_normal(150), rng.uniform(0.5, 2.0, 150)
    for given in ({}, {"fit_intercept": False}, {"intercept_scaling": 3.0}):
        theirs = svm.LinearSVR(loss=SQUARED_LOSS, epsilon=0.1, dual=False, tol=1e-8, **given)
        theirs.fit(X, y, weight)
        assert 0.0 <= from_sklearn(theirs, X, y, weight).dual_gap < 1e-7
        assert from_sklearn(theirs, X, y).dual_gap > 1e-5  # another problem
    with pytest.raises(InputError, match=r"loss \(of a LinearSVR\)"):
        from_sklearn(svm.LinearSVR().fit(X, y), X, y)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("nu", [0.1, 0.5, 1.0])
def test_nu_svr_is_scikit_learns(kernel, nu):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (90, 3))
    y = X[:, 0] - X[:, 1] ** 2 + 0.1 * rng.standard_normal(90)
    ours = NuSVR(kernel=kernel, nu=nu, C=2.0, tol=1e-9).fit(X, y)
    theirs = svm.NuSVR(kernel=kernel, nu=nu, C=2.0, tol=1e-9).fit(X, y)
    assert np.allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
    assert np.mean(np.abs(y - ours.predict(X)) > ours.epsilon_ + 1e-6) <= nu + 1e-12
    assert len(ours.support_) >= nu * 90 - 1
    assert ours.dual_gap_ <= 1e-9
