"""Fits with a tight tolerance predict what scikit-learn's do, and convert into them."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)
from sklearn.preprocessing import StandardScaler

from qpsvm import InputError, Status
from qpsvm.estimators import (
    SVC,
    SVR,
    LinearSVC,
    LinearSVR,
    NuSVC,
    OneClassSVM,
    from_sklearn,
)

DATA_SETS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": lambda **kw: tuple(part[:500] for part in load_digits(**kw)),
}
TIGHT_TOLERANCE = 1e-8


@pytest.fixture(scope="module", params=DATA_SETS)
def data(request):
    X, y = DATA_SETS[request.param](return_X_y=True)
    return StandardScaler().fit_transform(X), y


KERNEL_CASES = [
    {},
    {"kernel": "linear", "C": 0.05},
    {"kernel": "poly", "degree": 2, "coef0": 1.0},
    {"gamma": "auto", "C": 5.0},
]


@pytest.mark.parametrize("parameters", KERNEL_CASES, ids=str)
def test_svc_predicts_the_same(data, parameters):
    X, y = data
    ours = SVC(tol=TIGHT_TOLERANCE, **parameters).fit(X, y)
    theirs = svm.SVC(tol=1e-10, **parameters).fit(X, y)
    assert ours.dual_gap_ <= TIGHT_TOLERANCE and ours.status_ is Status.OPTIMAL
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.dual_coef_.shape[0] == theirs.dual_coef_.shape[0]
    assert ours.n_support_.sum() == len(ours.support_) == ours.dual_coef_.shape[1]
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-3)
    if ours.kernel == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize(
    ("kernel", "sparse"),
    [
        *(
            (kernel, sparse)
            for kernel in ("rbf", "linear", "laplacian")
            for sparse in (False, True)
        ),
        ("callable", False),  # scikit-learn hands sparse points to callables as they are
    ],
)
def test_to_sklearn_decides_the_same(data, shape, kernel, sparse):
    X, y = data
    if sparse:
        X = sp.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    function = product_kernel if kernel == "callable" else kernel
    ours = SVC(kernel=function, decision_function_shape=shape).fit(X, y)
    theirs = pickle.loads(pickle.dumps(ours.to_sklearn()))
    assert type(theirs) is svm.SVC
    np.testing.assert_allclose(
        theirs.decision_function(X), ours.decision_function(X), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_array_equal(theirs.predict(X), ours.predict(X))


def product_kernel(A, B):
    return 0.1 * np.asarray(A) @ np.asarray(B).T


def test_to_sklearn_of_a_kernel_matrix(data):
    X, y = data
    K = X @ X.T / X.shape[1]
    ours = SVC(kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(
        ours.to_sklearn().decision_function(K), ours.decision_function(K), atol=1e-6
    )


def test_to_sklearn_needs_one_against_one(data):
    X, y = data
    if len(np.unique(y)) > 2:
        with pytest.raises(InputError, match="multi_class='ovo'"):
            SVC(multi_class="ovr").fit(X, y).to_sklearn()


def test_one_class_svm_is_scikit_learns(data):
    X, _ = data
    ours, theirs = OneClassSVM(tol=TIGHT_TOLERANCE).fit(X), svm.OneClassSVM(tol=1e-9).fit(X)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-4)
    np.testing.assert_allclose(ours.offset_, theirs.offset_[0], rtol=1e-5)
    back = pickle.loads(pickle.dumps(ours.to_sklearn()))
    np.testing.assert_allclose(back.decision_function(X), ours.decision_function(X), atol=1e-6)
    report = from_sklearn(svm.OneClassSVM(tol=1e-6).fit(X), X)
    assert 0.0 <= report.dual_gap < 1e-3


@pytest.mark.parametrize("parameters", [{}, {"nu": 0.3, "kernel": "poly", "coef0": 1.0}], ids=str)
def test_nu_svc_is_scikit_learns(data, parameters):
    X, y = data
    ours, theirs = NuSVC(tol=TIGHT_TOLERANCE, **parameters), svm.NuSVC(tol=1e-10, **parameters)
    ours.fit(X, y), theirs.fit(X, y)
    assert ours.dual_gap_ <= TIGHT_TOLERANCE and ours.status_ is Status.OPTIMAL
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    back = pickle.loads(pickle.dumps(ours.to_sklearn()))
    assert type(back) is svm.NuSVC
    np.testing.assert_allclose(back.decision_function(X), ours.decision_function(X), atol=1e-9)
    assert 0.0 <= from_sklearn(theirs, X, y).dual_gap < 1e-4  # its kernel columns are float32


REGRESSION_CASES = [
    {},
    {"kernel": "linear", "C": 0.1},
    {"kernel": "poly", "C": 10.0, "epsilon": 0.5, "coef0": 1.0, "degree": 2},
    {"kernel": "laplacian", "epsilon": 0.0},
    {"epsilon": 10.0},
    {"C": 1e-3},
]


@pytest.fixture(scope="module")
def values():
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    return X[:300], y[:300]


@pytest.mark.parametrize("parameters", REGRESSION_CASES, ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_svr_is_scikit_learns(values, parameters, sparse):
    X, y = values
    X = sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0)) if sparse else X
    ours = SVR(tol=TIGHT_TOLERANCE, **parameters).fit(X, y)
    back = pickle.loads(pickle.dumps(ours.to_sklearn()))
    assert type(back) is svm.SVR and ours.dual_gap_ <= TIGHT_TOLERANCE
    np.testing.assert_allclose(back.predict(X), ours.predict(X), rtol=1e-9, atol=1e-9)
    if ours.kernel == "laplacian":
        return
    theirs = svm.SVR(tol=1e-10, **parameters).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    assert ours.dual_coef_.shape == (1, len(ours.support_)) and sp.issparse(X) == sparse
    assert ours.n_support_.tolist() == [len(ours.support_)]
    if ours.kernel == "linear":
        difference = ours.coef_ - theirs.coef_
        np.testing.assert_allclose(difference.toarray() if sparse else difference, 0.0, atol=1e-3)
    assert 0.0 <= from_sklearn(theirs, X, y).dual_gap < 1e-4  # its kernel columns are float32


def test_svr_of_a_kernel_matrix_and_weights(values):
    X, y = values
    weight = 1.0 + np.arange(len(y)) % 3
    K = 0.1 * X @ X.T
    ours = SVR(kernel="precomputed", tol=TIGHT_TOLERANCE).fit(K, y, weight)
    theirs = svm.SVR(kernel="precomputed", tol=1e-10).fit(K, y, weight)
    np.testing.assert_allclose(ours.predict(K), theirs.predict(K), atol=1e-3)
    assert from_sklearn(theirs, K, y, weight).dual_gap < 1e-5
    assert from_sklearn(theirs, K, y).dual_gap > 1e-3  # another problem


@pytest.mark.parametrize(
    "parameters",
    [{"epsilon": 0.1}, {"C": 0.05, "intercept_scaling": 3.0, "epsilon": 0.3}],
    ids=str,
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_linear_svr_solves_scikit_learns_problem(values, parameters, fit_intercept):
    X, y = values
    given = {"fit_intercept": fit_intercept, **parameters}
    ours = LinearSVR(tol=1e-9, **given).fit(X, y + 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LIBLINEAR does not always reach its tol
        theirs = svm.LinearSVR(tol=1e-9, max_iter=10**6, random_state=0, **given).fit(X, y + 0.5)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-3)
    np.testing.assert_allclose(ours.to_sklearn().predict(X), ours.predict(X), rtol=1e-12)


def test_a_free_bias_of_linear_svr_is_that_of_svr(values):
    X, y = values
    free = LinearSVR(epsilon=0.1, tol=1e-8, intercept_scaling=np.inf).fit(X, y + 3.0)
    same = SVR(kernel="linear", tol=1e-8).fit(X, y + 3.0)
    np.testing.assert_allclose(free.predict(X), same.predict(X), atol=1e-4)


LINEAR_CASES = [
    {},
    {"loss": "hinge", "C": 0.1},
    {"intercept_scaling": 3.0},
    {"loss": "hinge", "intercept_scaling": 3.0, "C": 0.1},
    {"fit_intercept": False},
    {"loss": "hinge", "fit_intercept": False, "C": 0.1},
    {"class_weight": "balanced"},
]


@pytest.mark.parametrize("parameters", LINEAR_CASES, ids=str)
def test_linear_svc_solves_scikit_learns_problem(parameters):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = LinearSVC(tol=1e-9, **parameters).fit(X, y)
    theirs = svm.LinearSVC(tol=1e-9, max_iter=10**6, random_state=0, **parameters).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    np.testing.assert_allclose(
        ours.to_sklearn().decision_function(X), ours.decision_function(X), rtol=1e-12
    )
    assert ours.coef_.shape == theirs.coef_.shape and ours.intercept_.shape == (3,)


def test_a_free_bias_is_the_limit_of_intercept_scaling():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    free = LinearSVC(loss="hinge", C=0.01, tol=1e-8, intercept_scaling=np.inf).fit(X, y)
    same = SVC(kernel="linear", C=0.01, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(free.coef_, same.coef_, atol=1e-3)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_from_sklearn_certifies_what_was_reached(data, tol):
    X, y = data
    loose = from_sklearn(svm.SVC(tol=tol).fit(X, y), X, y)
    assert len(loose.results) == len(np.unique(y)) * (len(np.unique(y)) - 1) // 2
    assert 0.0 <= loose.dual_gap < 30 * tol
    assert f"{loose.dual_gap:.3g}" in str(loose)


def test_from_sklearn_sees_a_fit_that_was_stopped(data):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stopped = svm.SVC(max_iter=3).fit(X, y)
    assert from_sklearn(stopped, X, y).dual_gap > 0.01


def test_from_sklearn_reads_weights_and_kernel_matrices():
    X, y = load_iris(return_X_y=True)
    weight = 1.0 + np.arange(len(y)) % 3
    theirs = svm.SVC(tol=1e-8, class_weight={0: 2.0}).fit(X, y, weight)
    assert from_sklearn(theirs, X, y, weight).dual_gap < 1e-5
    assert from_sklearn(theirs, X, y).dual_gap > 1e-3  # another problem
    K = X @ X.T
    assert from_sklearn(svm.SVC(kernel="precomputed", C=0.1).fit(K, y), K, y).dual_gap < 1e-2
    assert from_sklearn(svm.LinearSVC(tol=1e-8, max_iter=10**5).fit(X, y), X, y).dual_gap < 1e-4


def test_from_sklearn_names_what_does_not_fit():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="estimator must be one of"):
        from_sklearn(StandardScaler().fit(X), X, y)
    with pytest.raises(InputError, match="points of the fit"):
        from_sklearn(svm.SVC().fit(X, y), X[1:], y[1:])
    with pytest.raises(InputError, match="y must have shape"):
        from_sklearn(svm.SVC().fit(X, y), X)
    with pytest.raises(InputError, match="loss"):
        from_sklearn(svm.LinearSVC(loss="hinge", max_iter=10**5).fit(X, y), X, y)
