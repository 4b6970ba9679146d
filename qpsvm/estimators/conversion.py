"""To and from scikit-learn: fitted estimators of the same function, and certificates of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import svm
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.utils.validation import check_array, check_is_fitted

from qpsvm.api import solve
from qpsvm.errors import InputError, check_choice, check_vector
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.inputs.samples import checked_weight, with_constant
from qpsvm.estimators.training import light
from qpsvm.estimators.votes import pairs_of
from qpsvm.formulations import (
    Formulation,
    HingeDual,
    L2SVMDual,
    L2SVRDual,
    NuSVCDual,
    OneClassDual,
    SVRDual,
)
from qpsvm.gram import Linear
from qpsvm.result import Result


@dataclass(frozen=True)
class Report:
    """What `from_sklearn` says of a model.

    Attributes
    ----------
    results : list of Result
        For each binary problem a result, at the model's dual point moved to the nearest feasible
        one; without models.
    dual_gap : float
        Largest relative gap of the problems.
    """

    results: list[Result]
    dual_gap: float

    def __str__(self) -> str:
        """Return the gap in words."""
        n = len(self.results)
        of = "" if n == 1 else f" (the largest of {n} problems)"
        return f"Certified relative gap {self.dual_gap:.3g}{of}."


def _common(ours: Any, theirs: Any) -> Any:
    """Copy what both have; lay out support vectors as LIBSVM reads them."""
    check_is_fitted(ours)
    kernel = ours._kernel
    theirs.n_features_in_ = ours.n_features_in_
    if hasattr(ours, "feature_names_in_"):
        theirs.feature_names_in_ = ours.feature_names_in_
    theirs.support_, theirs._gamma = ours.support_.copy(), kernel.gamma
    theirs.shape_fit_, theirs.fit_status_ = ours.shape_fit_, ours.fit_status_
    points, dual = ours.support_vectors_, ours.dual_coef_
    is_callable = callable(theirs.kernel)
    theirs._sparse = sp.issparse(points) and not is_callable
    if theirs._sparse:
        theirs.support_vectors_ = sp.csr_matrix(points, dtype=np.float64)
        dense = dual.toarray()
        indices = np.tile(np.arange(dense.shape[1]), len(dense))
        ends = np.arange(len(dense) + 1) * dense.shape[1]
        theirs.dual_coef_ = sp.csr_matrix((dense.ravel(), indices, ends), dense.shape)
    else:
        points = points.toarray() if sp.issparse(points) and not is_callable else points
        dense = dual.toarray() if sp.issparse(dual) else dual.copy()
        theirs.dual_coef_ = np.ascontiguousarray(dense)
        if is_callable:  # the kernel matrix of new points is that with the support vectors alone
            theirs._BaseLibSVM__Xfit = points
            theirs.support_ = np.arange(points.shape[0], dtype=np.int32)
            theirs.shape_fit_ = points.shape
            theirs.support_vectors_ = np.empty((0, 0))
        else:
            theirs.support_vectors_ = np.array(points, dtype=np.float64, order="C")
    theirs._probA, theirs._probB = np.empty(0), np.empty(0)
    theirs._effective_probability = False
    return theirs


def _kernel_for_sklearn(ours: Any) -> Any:
    """Return the value of the parameter `kernel`."""
    if ours.kernel == "laplacian":
        return partial(laplacian_kernel, gamma=ours._gamma)
    return ours.kernel


def svc_to_sklearn(ours: Any) -> Any:
    """Return a fitted ``sklearn.svm.SVC`` or ``NuSVC``: see `SVC.to_sklearn`."""
    check_is_fitted(ours)
    kind, k = getattr(svm, type(ours).__name__), len(ours.classes_)
    if k > 2 and ours.multi_class != "ovo":
        raise InputError(
            f"to_sklearn needs multi_class='ovo', since {kind.__name__} is one against one; "
            f"got {ours.multi_class!r}"
        )
    names = "C nu degree gamma coef0 shrinking cache_size class_weight decision_function_shape tol"
    parameters = {name: getattr(ours, name) for name in names.split() if hasattr(ours, name)}
    theirs = kind(
        kernel=_kernel_for_sklearn(ours),
        break_ties=ours.break_ties,
        max_iter=ours.max_iter,
        random_state=ours.random_state,
        **parameters,
    )
    _common(ours, theirs)
    theirs.classes_, theirs.class_weight_ = ours.classes_, ours.class_weight_
    theirs._n_support = ours.n_support_.copy()
    theirs.n_iter_ = theirs._num_iter = ours.n_iter_.copy()
    theirs.intercept_ = ours.intercept_.copy()
    sign = -1.0 if k == 2 else 1.0
    theirs._intercept_, theirs._dual_coef_ = sign * theirs.intercept_, sign * theirs.dual_coef_
    return theirs


def _single_to_sklearn(ours: Any, kind: Any, names: str) -> Any:
    """Return a fitted estimator of one machine, with these parameters of ours."""
    check_is_fitted(ours)
    parameters = {name: getattr(ours, name) for name in names.split()}
    theirs = kind(kernel=_kernel_for_sklearn(ours), **parameters)
    _common(ours, theirs)
    theirs._n_support = np.repeat(ours.n_support_, 2)
    theirs.n_iter_, theirs._num_iter = ours.n_iter_, np.array([ours.n_iter_], dtype=np.int32)
    theirs.intercept_ = ours.intercept_.copy()
    theirs._intercept_, theirs._dual_coef_ = theirs.intercept_, theirs.dual_coef_
    return theirs


def one_class_to_sklearn(ours: Any) -> Any:
    """Return a fitted ``sklearn.svm.OneClassSVM``: see `OneClassSVM.to_sklearn`."""
    names = "degree gamma coef0 tol nu shrinking cache_size max_iter"
    theirs = _single_to_sklearn(ours, svm.OneClassSVM, names)
    theirs.offset_ = -theirs.intercept_
    return theirs


def svr_to_sklearn(ours: Any) -> Any:
    """Return a fitted ``sklearn.svm.SVR``: see `SVR.to_sklearn`."""
    names = "degree gamma coef0 tol C epsilon shrinking cache_size max_iter"
    return _single_to_sklearn(ours, svm.SVR, names)


def linear_to_sklearn(ours: Any) -> Any:
    """Return a fitted ``sklearn.svm.LinearSVC``: see `LinearSVC.to_sklearn`."""
    check_is_fitted(ours)
    names = "penalty loss dual tol C multi_class fit_intercept class_weight random_state"
    theirs = _linear_common(ours, svm.LinearSVC, names)
    theirs.classes_ = ours.classes_
    return theirs


def linear_svr_to_sklearn(ours: Any) -> Any:
    """Return a fitted ``sklearn.svm.LinearSVR``: see `LinearSVR.to_sklearn`."""
    check_is_fitted(ours)
    names = "epsilon tol C loss fit_intercept dual random_state"
    return _linear_common(ours, svm.LinearSVR, names)


def _linear_common(ours: Any, kind: Any, names: str) -> Any:
    """Return a fitted estimator with the normals and biases of ours."""
    scaling = ours.intercept_scaling if np.isfinite(ours.intercept_scaling) else 1.0
    parameters = {name: getattr(ours, name) for name in names.split()}
    theirs = kind(intercept_scaling=scaling, **parameters)
    theirs.n_features_in_, theirs.n_iter_ = ours.n_features_in_, ours.n_iter_
    if hasattr(ours, "feature_names_in_"):
        theirs.feature_names_in_ = ours.feature_names_in_
    theirs.coef_, theirs.intercept_ = ours.coef_.copy(), ours.intercept_.copy()
    return theirs


def from_sklearn(
    estimator: Any, X: Any, y: Any = None, sample_weight: Any = None, *, tol: float = 1e-3
) -> Report:
    """Certify a fitted estimator of scikit-learn on its training points.

    It answers: how good is the model that I have? The dual point of each binary problem is moved to the
    nearest feasible one and certified; nothing is improved.

    Parameters
    ----------
    estimator : sklearn.svm.SVC, NuSVC, SVR, OneClassSVM, LinearSVC or LinearSVR
        Fitted; a LinearSVC with the squared hinge and an intercept, a LinearSVR with the squared loss.
        These store no dual point: the one that belongs to their (w, b) is taken.
    X : array_like or sparse matrix, shape (m, n_features)
        The points that it was fitted to, or their kernel matrix.
    y : array_like, shape (m,)
        Their classes, or the values of a regression; None of a OneClassSVM.
    sample_weight : array_like, shape (m,), optional
        The weights that it was fitted with.
    tol : float
        Relative gap by which the status of a result is OPTIMAL.

    Returns
    -------
    Report

    Raises
    ------
    InputError
        If the estimator is of another kind, or was not fitted to these points.

    Examples
    --------
    >>> report = from_sklearn(sklearn_svc, X, y)  # doctest: +SKIP
    >>> report.dual_gap  # doctest: +SKIP
    """
    kinds = (svm.SVC, svm.NuSVC, svm.SVR, svm.OneClassSVM, svm.LinearSVC, svm.LinearSVR)
    if not isinstance(estimator, kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise InputError(
            f"estimator must be one of scikit-learn's {names}; got {type(estimator).__name__}"
        )
    check_is_fitted(estimator)
    X = check_array(X, accept_sparse="csr", dtype=np.float64)
    expected = getattr(estimator, "shape_fit_", (X.shape[0], estimator.n_features_in_))
    if X.shape != tuple(expected):
        raise InputError(f"X must be the points of the fit, shape {expected}; got {X.shape}")
    weight = checked_weight(sample_weight, X.shape[0])
    if isinstance(estimator, svm.LinearSVC):
        problems = _linear_problems(estimator, X, y, weight)
    elif isinstance(estimator, svm.LinearSVR):
        problems = [_linear_regression(estimator, X, y, weight)]
    else:
        problems = _kernel_problems(estimator, X, y, weight)
    results = [light(solve(problem, "smo", x0=x0, max_iter=0, tol=tol)) for problem, x0 in problems]
    return Report(results, max(result.certificate.relative_gap for result in results))


Problems = list[tuple[Formulation, NDArray[np.float64]]]


def _kernel_problems(theirs: Any, X: Any, y: Any, weight: Any) -> Problems:
    """Return the problems of an estimator with a kernel, and its dual points."""
    kernel = Kernel(theirs.kernel, float(theirs._gamma), int(theirs.degree), float(theirs.coef0))
    dual = theirs.dual_coef_
    dual = dual.toarray() if sp.issparse(dual) else dual
    if isinstance(theirs, svm.OneClassSVM):
        a = np.zeros(X.shape[0])
        a[theirs.support_] = dual[0] / (theirs.nu * float(np.sum(weight)))
        return [(OneClassDual(kernel.gram(X), theirs.nu, weight), a)]
    if isinstance(theirs, svm.SVR):
        coef = np.zeros(X.shape[0])
        coef[theirs.support_] = dual[0]
        problem = SVRDual(kernel.gram(X), y, theirs.C * weight, float(theirs.epsilon))
        return [(problem, np.concatenate([np.maximum(coef, 0.0), np.maximum(-coef, 0.0)]))]
    codes, k = _codes(theirs, y, X.shape[0]), len(theirs.classes_)
    is_nu = isinstance(theirs, svm.NuSVC)  # LIBSVM's has no factors of classes
    C = weight if is_nu else theirs.C * weight * theirs.class_weight_[codes]
    problems: Problems = []
    for i, j in pairs_of(k):
        rows = np.flatnonzero((codes == i) | (codes == j))
        a = np.zeros(len(codes))
        of_pair = codes[theirs.support_]
        for own, other in ((i, j), (j, i)):
            at = of_pair == own
            a[theirs.support_[at]] = np.abs(dual[other - 1 if other > own else other, at])
        labels = np.where(codes[rows] == i, 1.0, -1.0)
        points = X[np.ix_(rows, rows)] if kernel.is_precomputed else X[rows]
        gram, a = kernel.gram(points), a[rows]
        if not is_nu:
            problems.append((HingeDual(gram, labels, C[rows]), a))
            continue
        sums = np.where(labels > 0, a[labels > 0].sum(), a[labels < 0].sum())
        a = np.divide(a, sums, out=np.zeros(len(a)), where=sums > 0.0)
        problems.append((NuSVCDual(gram, labels, theirs.nu, C[rows]), a))
    return problems


def _linear_problems(theirs: Any, X: Any, y: Any, weight: Any) -> Problems:
    """Return the problems of a LinearSVC with the squared hinge, and the dual points of its (w, b)."""
    check_choice("loss (of a LinearSVC)", theirs.loss, ("squared_hinge",))
    check_choice("penalty (of a LinearSVC)", theirs.penalty, ("l2",))
    check_choice("fit_intercept (of a LinearSVC)", bool(theirs.fit_intercept), (True,))
    check_choice("multi_class (of a LinearSVC)", theirs.multi_class, ("ovr",))
    from sklearn.utils import compute_class_weight

    codes, scaling = _codes(theirs, y, X.shape[0]), float(theirs.intercept_scaling)
    factors = compute_class_weight(theirs.class_weight, classes=theirs.classes_, y=np.asarray(y))
    C = 2.0 * theirs.C * scaling**2 * weight
    positive = [1] if len(theirs.coef_) == 1 else list(range(len(theirs.classes_)))
    problems: Problems = []
    for own, w, b in zip(positive, theirs.coef_, np.ravel(theirs.intercept_), strict=True):
        labels = np.where(codes == own, 1.0, -1.0)
        # of several classes LIBLINEAR weighs each in its own problem alone
        counts = codes == own if len(theirs.coef_) > 1 else np.ones(len(codes), bool)
        penalty = C * np.where(counts, factors[codes], 1.0)
        slack = np.maximum(1.0 - labels * (np.asarray(X @ w).ravel() + b), 0.0)
        total = float(np.sum(penalty * slack))
        a = penalty * slack / total if total > 0 else np.full(len(C), 1.0 / len(C))
        problems.append((L2SVMDual(Linear(X / scaling), labels, penalty), a))
    return problems


def _linear_regression(
    theirs: Any, X: Any, y: Any, weight: Any
) -> tuple[Formulation, NDArray[np.float64]]:
    """Return the problem of a LinearSVR with the squared loss, and the dual point of its (w, b)."""
    check_choice("loss (of a LinearSVR)", theirs.loss, ("squared_epsilon_insensitive",))
    y = check_vector("y", y, X.shape[0])
    C, epsilon = 2.0 * theirs.C * weight, float(theirs.epsilon)
    rest = y - theirs.predict(X)
    beyond = np.maximum(np.concatenate([rest, -rest]) - epsilon, 0.0)
    points = with_constant(X, float(theirs.intercept_scaling)) if theirs.fit_intercept else X
    return L2SVRDual(Linear(points), y, C, epsilon, bias=False), np.tile(C, 2) * beyond


def _codes(theirs: Any, y: Any, m: int) -> NDArray[np.int64]:
    """Return the numbers of the classes of y among those of the estimator."""
    y = np.asarray(y)
    if y.shape != (m,) or not np.isin(y, theirs.classes_).all():
        raise InputError(f"y must have shape ({m},) and hold classes of the estimator; got {y!r}")
    return np.searchsorted(theirs.classes_, y)
