"""SVRCV: the cells of a grid are those of separate fits, and each is certified."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.preprocessing import scale

from qpsvm.errors import InputError
from qpsvm.estimators import SVR, SVRCV

PARAMETER_GRID = {"Cs": [0.1, 1.0, 10.0], "gammas": [0.01, 0.1], "epsilons": [0.1, 0.5]}
GRID_CELLS = {
    "C": PARAMETER_GRID["Cs"],
    "gamma": PARAMETER_GRID["gammas"],
    "epsilon": PARAMETER_GRID["epsilons"],
}


@pytest.fixture(scope="module")
def data():
    X, y = load_diabetes(return_X_y=True)
    return scale(X)[:200], scale(y)[:200]


@pytest.mark.parametrize(
    "cv", [None, ShuffleSplit(3, test_size=0.3, random_state=0)], ids=["folds", "shuffled"]
)
@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
def test_cells_are_those_of_a_grid_search(data, cv, scoring):
    X, y = data
    search = SVRCV(**PARAMETER_GRID, tol=1e-5, cv=cv, scoring=scoring).fit(X, y)
    other = GridSearchCV(svm.SVR(tol=1e-6), GRID_CELLS, cv=cv, scoring=scoring).fit(X, y)
    ours, theirs = search.cv_results_, other.cv_results_
    assert ours["params"] == theirs["params"]
    for name in ("mean_test_score", "std_test_score", "split0_test_score"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=5e-3)
    assert np.all(ours["max_dual_gap"] <= 1e-5) and search.best_estimator_.dual_gap_ <= 1e-5
    assert search.best_score_ == ours["mean_test_score"].max()
    assert ours["rank_test_score"][search.best_index_] == 1
    assert search.best_params_ == {
        "C": search.C_, "epsilon": search.epsilon_, "gamma": search.gamma_
    }  # fmt: skip
    same = SVR(**search.best_params_, tol=1e-5).fit(X, y)
    np.testing.assert_array_equal(search.predict(X), same.predict(X))


def test_precomputed_and_sparse_points_give_the_same_scores(data):
    X, y = data
    plain = {"Cs": PARAMETER_GRID["Cs"], "epsilons": [0.1], "tol": 1e-5}
    dense = SVRCV(**plain, gammas=[0.1]).fit(X, y).cv_results_["mean_test_score"]
    sparse = SVRCV(**plain, gammas=[0.1]).fit(sp.csr_matrix(X), y)
    matrix = SVRCV(**plain, kernel="precomputed").fit(rbf_kernel(X, gamma=0.1), y)
    for other in (sparse, matrix):
        np.testing.assert_allclose(other.cv_results_["mean_test_score"], dense, atol=1e-3)
    assert "gamma" not in matrix.best_params_


@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian"])
def test_other_kernels(data, kernel):
    X, y = data
    grid = {"Cs": [0.01, 0.1], "gammas": [0.1], "epsilons": [0.1]}
    search = SVRCV(**grid, kernel=kernel, degree=2, coef0=1.0, tol=1e-5).fit(X, y)
    assert np.all(search.cv_results_["max_dual_gap"] <= 1e-5) and search.best_score_ > 0.2
    rows = np.arange(40, 200)  # without the first fold
    gamma = {} if kernel == "linear" else {"gamma": 0.1}
    one = SVR(C=0.1, epsilon=0.1, kernel=kernel, degree=2, coef0=1.0, tol=1e-5, **gamma)
    score = one.fit(X[rows], y[rows]).score(X[:40], y[:40])
    np.testing.assert_allclose(search.cv_results_["split0_test_score"][1], score, atol=2e-3)


def test_a_weight_counts_as_copies(data):
    X, y = data
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    half = np.arange(len(y)) % 2 == 0
    splits = [tuple(np.flatnonzero(part) for part in parts) for parts in [(half, ~half)]]
    copies = np.repeat(np.arange(len(y)), weight)
    of_copies = [tuple(np.flatnonzero(np.isin(copies, part)) for part in splits[0])]
    grid = {**PARAMETER_GRID, "gammas": ["scale"], "epsilons": 2, "tol": 1e-7}
    one = SVRCV(**grid, cv=splits).fit(X, y, sample_weight=weight)
    other = SVRCV(**grid, cv=of_copies).fit(X[copies], y[copies])
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], atol=1e-4
    )


def test_numbers_of_values_make_a_grid(data):
    X, y = data
    params = SVRCV(Cs=2, gammas=2, epsilons=2, cv=2, tol=0.1).fit(X, y).cv_results_["params"]
    assert len(params) == 8
    widths = np.unique([one["epsilon"] for one in params])
    np.testing.assert_allclose(widths, np.std(y) * np.array([0.01, 1.0]))


def test_cells_that_a_time_limit_leaves_out_are_nan(data):
    with pytest.warns(Warning, match="gap"):
        search = SVRCV(**PARAMETER_GRID, time_limit=0.0).fit(*data)
    assert np.isnan(search.cv_results_["mean_test_score"]).any()
    assert len(search.predict(data[0])) == 200


def test_a_kernel_that_is_not_positive_semidefinite_warns(data):
    with pytest.warns(Warning, match="gap"):
        search = SVRCV(Cs=[1.0], gammas=[0.5], epsilons=[0.1], kernel="sigmoid", coef0=1.0, cv=2)
        search.fit(*data)
    assert not np.all(search.cv_results_["max_dual_gap"] <= 1e-3)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"Cs": [0.0]}, "Cs must be > 0"),
        ({"Cs": [np.inf]}, "C must be finite"),
        ({"epsilons": 0}, "'epsilons'"),
        ({"epsilons": [-0.1]}, "epsilons must be >= 0"),
        ({"epsilons": ["wide"]}, "epsilons must be"),
        ({"gammas": []}, "gammas must be"),
        ({"tol": 2.0}, "'tol'"),
    ],
)
def test_wrong_parameters_are_named(data, wrong, text):
    with pytest.raises(InputError, match=text):
        SVRCV(**{**PARAMETER_GRID, **wrong}).fit(*data)
