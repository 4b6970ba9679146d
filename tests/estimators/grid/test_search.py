"""SVCCV: the cells of a grid are those of separate fits, and each is certified."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit
from sklearn.preprocessing import scale

from qpsvm.errors import InputError
from qpsvm.estimators import SVC, SVCCV
from qpsvm.estimators.grid import cells

PARAMETER_GRID = {"Cs": [0.1, 1.0, 10.0], "gammas": [0.01, 0.1, 1.0]}
GRID_CELLS = {"C": PARAMETER_GRID["Cs"], "gamma": PARAMETER_GRID["gammas"]}
DATA_SETS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


def data(name):
    X, y = DATA_SETS[name](return_X_y=True)
    return scale(X), y


def same_cells(search, other):
    ours, theirs = search.cv_results_, other.cv_results_
    assert ours["params"] == theirs["params"]
    for at in range(search.n_splits_):
        # a point that lies on the boundary up to the tolerance may fall on either side
        difference = ours[f"split{at}_test_score"] - theirs[f"split{at}_test_score"]
        assert np.max(np.abs(difference)) <= 0.035
    assert np.mean(np.abs(ours["mean_test_score"] - theirs["mean_test_score"])) <= 2e-3


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_cells_are_those_of_a_grid_search(name, class_weight):
    X, y = data(name)
    search = SVCCV(**PARAMETER_GRID, tol=1e-4, class_weight=class_weight).fit(X, y)
    other = GridSearchCV(svm.SVC(tol=1e-5, class_weight=class_weight), GRID_CELLS).fit(X, y)
    same_cells(search, other)
    assert np.all(search.cv_results_["max_dual_gap"] <= 1e-4)
    assert search.best_estimator_.dual_gap_ <= 1e-4
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    assert search.best_params_ == {"C": search.C_, "gamma": search.gamma_}
    assert search.score(X, y) >= search.best_score_ - 0.05


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("n_gammas", [1, 2, 3])
def test_kernels_that_are_solved_together_have_the_cells_of_each_alone(
    kernel, n_gammas, monkeypatch
):
    X, y = data("wine")
    search = SVCCV(
        Cs=PARAMETER_GRID["Cs"], gammas=PARAMETER_GRID["gammas"][:n_gammas], kernel=kernel
    )
    monkeypatch.setattr(cells, "MIN_CHUNKS_PER_THREAD", 1 << 40)
    together = clone(search).fit(X, y).cv_results_
    monkeypatch.setattr(cells, "MIN_CHUNKS_PER_THREAD", 0)
    alone = clone(search).fit(X, y).cv_results_
    for name in ("mean_test_score", "max_dual_gap"):
        np.testing.assert_array_equal(together[name], alone[name])


@pytest.mark.parametrize(
    "cv", [3, ShuffleSplit(4, test_size=0.3, random_state=0)], ids=["folds", "shuffled"]
)
def test_any_splits(cv):
    X, y = data("wine")
    search = SVCCV(**PARAMETER_GRID, tol=1e-4, cv=cv).fit(X, y)
    same_cells(search, GridSearchCV(svm.SVC(tol=1e-5), GRID_CELLS, cv=cv).fit(X, y))


def test_a_class_may_be_absent_from_a_training_set():
    X, y = data("iris")
    splits = list(GroupKFold(3).split(X, y, groups=y))
    search = SVCCV(**PARAMETER_GRID, cv=splits).fit(X, y)
    assert np.all(search.cv_results_["mean_test_score"] == 0.0)


def test_a_small_memory_limit_gives_the_same_cells():
    X, y = data("wine")
    matrix = SVCCV(**PARAMETER_GRID, tol=1e-5).fit(X, y).cv_results_
    single = SVCCV(**PARAMETER_GRID, tol=1e-5, memory_limit=1000).fit(X, y).cv_results_
    assert np.max(np.abs(matrix["mean_test_score"] - single["mean_test_score"])) <= 0.012
    assert np.all(single["max_dual_gap"] <= 1e-5)


def test_a_kernel_that_is_not_positive_semidefinite_is_fitted_cell_by_cell():
    X, y = data("wine")
    with pytest.warns(Warning, match="gap"):
        search = SVCCV(Cs=[1.0], gammas=[0.1], kernel="sigmoid", coef0=1.0, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert not np.all(search.cv_results_["max_dual_gap"] <= 1e-3)


@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian"])
def test_other_kernels(kernel):
    X, y = data("iris")
    search = SVCCV(Cs=[0.1, 1.0], gammas=[0.1, 0.5], kernel=kernel, coef0=1.0).fit(X, y)
    assert np.all(search.cv_results_["max_dual_gap"] <= 1e-3)
    assert search.best_score_ > 0.9
    assert ("gamma" in search.best_params_) == (kernel != "linear")


def test_precomputed_and_sparse_points_give_the_same_scores():
    X, y = data("wine")
    dense = SVCCV(Cs=PARAMETER_GRID["Cs"], gammas=[0.1]).fit(X, y)
    sparse = SVCCV(Cs=PARAMETER_GRID["Cs"], gammas=[0.1]).fit(sp.csr_matrix(X), y)
    matrix = SVCCV(Cs=PARAMETER_GRID["Cs"], kernel="precomputed").fit(rbf_kernel(X, gamma=0.1), y)
    for other in (sparse, matrix):
        assert np.allclose(
            other.cv_results_["mean_test_score"], dense.cv_results_["mean_test_score"], atol=0.012
        )
    assert np.mean(sparse.predict(sp.csr_matrix(X)) == dense.predict(X)) > 0.98


@pytest.mark.parametrize("name", DATA_SETS)
def test_scores_are_those_of_separate_fits_where_the_gap_is_small(name):
    X, y = data(name)
    search = SVCCV(**PARAMETER_GRID, tol=1e-7).fit(X, y)
    other = GridSearchCV(SVC(tol=1e-7), GRID_CELLS).fit(X, y)
    ours, theirs = search.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-12)
    assert search.best_params_ == other.best_params_


def test_a_kernel_beyond_single_precision_is_fitted_cell_by_cell():
    X, y = data("iris")
    small = SVCCV(Cs=[1.0, 10.0], kernel="linear").fit(X[50:], y[50:])
    large = SVCCV(Cs=[2.0**-140, 10.0 * 2.0**-140], kernel="linear").fit(X[50:] * 2.0**70, y[50:])
    assert np.all(large.cv_results_["max_dual_gap"] <= 1e-3)
    difference = large.cv_results_["mean_test_score"] - small.cv_results_["mean_test_score"]
    assert np.max(np.abs(difference)) <= 0.05


def test_scores_other_than_accuracy():
    X, y = data("breast cancer")
    search = SVCCV(**PARAMETER_GRID, tol=1e-4, scoring="roc_auc").fit(X, y)
    other = GridSearchCV(svm.SVC(tol=1e-5), GRID_CELLS, scoring="roc_auc").fit(X, y)
    assert np.allclose(
        search.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], atol=5e-3
    )


def test_a_weight_counts_as_copies():
    X, y = data("iris")
    X, y = X[50:], y[50:]
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    half = np.arange(len(y)) % 2 == 0
    splits = [
        (np.flatnonzero(half), np.flatnonzero(~half)),
        (np.flatnonzero(~half), np.flatnonzero(half)),
    ]
    copies = np.repeat(np.arange(len(y)), weight)
    of_copies = [tuple(np.flatnonzero(np.isin(copies, part)) for part in split) for split in splits]
    one = SVCCV(**PARAMETER_GRID, tol=1e-7, cv=splits).fit(X, y, sample_weight=weight)
    other = SVCCV(**PARAMETER_GRID, tol=1e-7, cv=of_copies).fit(X[copies], y[copies])
    assert np.allclose(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])


def test_numbers_of_values_make_a_grid():
    X, y = data("iris")
    search = SVCCV(Cs=3, gammas=2, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 6
    values = np.unique([one["C"] for one in search.cv_results_["params"]])
    assert values[0] == pytest.approx(1e-2) and values[-1] == pytest.approx(1e3)


def test_cells_that_a_time_limit_leaves_out_are_nan():
    X, y = data("wine")
    with pytest.warns(Warning, match="gap"):
        search = SVCCV(**PARAMETER_GRID, time_limit=0.0).fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_estimator_.result_


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"Cs": 0}, "'Cs'"),
        ({"Cs": []}, "Cs must be"),
        ({"Cs": [1.0, -1.0]}, "Cs must be > 0"),
        ({"gammas": ["wide"]}, "gamma"),
        ({"kernel": "rational"}, "'kernel'"),
        ({"tol": 0.0}, "'tol'"),
    ],
)
def test_wrong_parameters_are_named(wrong, text):
    with pytest.raises(InputError, match=text):
        SVCCV(**wrong).fit(*data("iris"))
