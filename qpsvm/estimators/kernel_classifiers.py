"""Classifiers with a kernel and a loss: SVC and LSSVC."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from qpsvm.estimators.classifier import CLASSIFIER_RULES, KernelClassifier, bound
from qpsvm.estimators.grid.pairs import solve_pairs
from qpsvm.estimators.inputs.parameters import Rules, among
from qpsvm.estimators.training import Machine, Task
from qpsvm.formulations import (
    Formulation,
    HingeDual,
    L2SVMDual,
    LSSVMPrimal,
)
from qpsvm.gram import Linear


def declare_svm(gram: Any, y: Any, C: Any, *, loss: str) -> Formulation:
    """Return the dual of an SVM; with squared slacks C counts as in LIBLINEAR."""
    return HingeDual(gram, y, C) if loss == "hinge" else L2SVMDual(gram, y, 2.0 * C)


def declare_least_squares(gram: Any, y: Any, C: Any) -> Formulation:
    """Return a least-squares SVM; of a linear kernel in the space of the points."""
    return LSSVMPrimal(gram.X if isinstance(gram, Linear) else gram, y, C)


class SVC(KernelClassifier):
    r"""C-support vector classification with a certified duality gap.

    The parameters are those of ``sklearn.svm.SVC``, with the same defaults and meanings; those from
    `loss` on are further ones.

    Parameters
    ----------
    C : float
        Penalty of the slacks, > 0; infinity for a hard margin.
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable
        A callable takes two sets of points, the first dense, and returns the matrix of their values.
    degree : int
        Of the polynomial kernel, >= 1.
    gamma : {"scale", "auto"} or float
        ``"scale"`` is 1 / (n_features X.var()), with `sample_weight` of the repeated points; ``"auto"``
        is 1 / n_features.
    coef0 : float
        Of the polynomial and the sigmoid kernel.
    shrinking : bool
        Accepted for compatibility, without effect: the method decides.
    probability : bool
        Whether `predict_proba` is there: ``CalibratedClassifierCV(ensemble=False)`` makes five
        further fits. Where a class has fewer than five points, there are as many folds.
    tol : float
        Certified relative gap of each binary problem, in (0, 1].
    cache_size : float
        Megabytes for kernel columns, shared by the problems that are solved at a time.
    class_weight : dict, "balanced" or None
        Factors of C by class.
    verbose : bool, int or "table"
        A progress bar, or a line at each check.
    max_iter : int
        Most iterations of a problem; -1 for the method's own finite budget.
    decision_function_shape : {"ovr", "ovo"}
        Scores of the classes, or values of the pairs: see `decision_function`.
    break_ties : bool
        Whether `predict` takes the highest score in place of the first class of most votes.
    random_state : int, RandomState instance or None
        Seed of what methods draw; None stands for 0.
    loss : {"hinge", "squared_hinge"}
        C max(0, 1 - y f) with a free bias, or C max(0, 1 - y f)^2 with 1/2 b^2 added to the penalty.
    multi_class : {"ovo", "ovr", "dag"}
        One against one; one against the rest; one against one with prediction by a directed graph.
    method : str
        A method of `qpsvm.methods`, or ``"auto"``.
    time_limit : float, optional
        Seconds for the fit, over all its problems; each ends with a certificate.
    n_jobs : int, optional
        Problems solved at a time, by joblib.
    warm_start : bool
        Whether a fit starts from the last answers, where the numbers of points are the same.
    callback : callable, optional
        ``callback(progress)`` at each check of each problem, as in `qpsvm.solve`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, classes_, class_weight_
        As in scikit-learn. Of at most 1,000 points, equal ones become one support vector.
        With ``multi_class="ovr"`` `dual_coef_` has a row for each class.
    n_iter_ : ndarray of int
        Iterations of each problem.
    fit_status_, shape_fit_, n_features_in_, feature_names_in_
        As in scikit-learn; `fit_status_` is 1 where a gap was not reached.
    dual_gap_ : float
        Largest certified relative gap of the problems.
    objective_ : ndarray
        Value of each problem, as its formulation states it: `HingeDual` or `L2SVMDual`.
    status_ : Status
        OPTIMAL, or the first other status of a problem.
    result_ : list of Result
        The answers, without models; a pickle keeps their certificates and not their weights.

    Raises
    ------
    InputError
        If a parameter or the data are malformed; a ValueError.
    Interrupted
        On Ctrl-C during `fit`; a KeyboardInterrupt.

    Warns
    -----
    ConvergenceWarning
        Where a gap was not reached.

    Examples
    --------
    >>> from qpsvm import SVC
    >>> model = SVC().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
    >>> model.predict([[0.5], [4.5]]).tolist()
    ['a', 'b']
    >>> bool(model.dual_gap_ <= 1e-3)
    True
    """

    _rules: ClassVar[Rules] = {**CLASSIFIER_RULES, "loss": (among("hinge", "squared_hinge"),)}
    _fits_chunks: ClassVar[bool] = True

    def __init__(
        self, *, C: float = 1.0, kernel: Any = "rbf", degree: int = 3, gamma: Any = "scale",
        coef0: float = 0.0, shrinking: bool = True, probability: bool = False, tol: float = 1e-3,
        cache_size: float = 200, class_weight: Any = None, verbose: bool | int | str = False,
        max_iter: int = -1, decision_function_shape: str = "ovr", break_ties: bool = False,
        random_state: Any = None, loss: str = "hinge", multi_class: str = "ovo",
        method: str = "auto", time_limit: float | None = None, n_jobs: int | None = None,
        warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.loss = loss
        self.multi_class = multi_class
        self.method = method
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.callback = callback

    def _declare(self) -> Any:
        return bound(declare_svm, loss=self.loss)

    def _solved_on_matrix(self, plan: Any, tasks: list[Task]) -> list[Machine] | None:
        is_plain = self.loss == "hinge" and self.multi_class != "ovr"
        return solve_pairs(plan, tasks) if is_plain else None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to points and their classes.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, n_features)
            Of a precomputed kernel the kernel matrix, shape (m, m).
        y : array_like, shape (m,)
        sample_weight : array_like, shape (m,), optional
            Factors of C by point; a whole one is the same as that many repetitions, 0 as none.
            A negative one counts as 0.

        Returns
        -------
        SVC
        """
        return self._fitted(X, y, sample_weight)

    def to_sklearn(self) -> Any:
        """Return a fitted ``sklearn.svm.SVC`` with the same decision function and predictions.

        Raises
        ------
        InputError
            If there is no such machine: ``multi_class="ovr"`` or ``"dag"`` of more than two classes.
        """
        from qpsvm.estimators.conversion import svc_to_sklearn

        return svc_to_sklearn(self)


class LSSVC(KernelClassifier):
    """Least-squares support vector classification: 1/2 |w|^2 + C sum of (1 - y f(x))^2, free bias.

    Every point is a support vector. Parameters and attributes that `SVC` has too mean the same;
    `objective_` is the value of `LSSVMPrimal`.

    Parameters
    ----------
    C : float
        Penalty of the squares, > 0 and finite.
    kernel, degree, gamma, coef0, tol, cache_size, class_weight, verbose, max_iter
        As in `SVC`.
    decision_function_shape, break_ties, random_state, multi_class, method, time_limit, n_jobs
        As in `SVC`.
    warm_start, callback
        As in `SVC`.

    Examples
    --------
    >>> from qpsvm import LSSVC
    >>> model = LSSVC().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
    >>> model.predict([[0.5], [4.5]]).tolist()
    ['a', 'b']
    """

    _rules: ClassVar[Rules] = {
        name: rule for name, rule in CLASSIFIER_RULES.items()
        if name not in ("shrinking", "probability")
    }  # fmt: skip

    def __init__(
        self, *, C: float = 1.0, kernel: Any = "rbf", degree: int = 3, gamma: Any = "scale",
        coef0: float = 0.0, tol: float = 1e-3, cache_size: float = 200, class_weight: Any = None,
        verbose: bool | int | str = False, max_iter: int = -1,
        decision_function_shape: str = "ovr", break_ties: bool = False, random_state: Any = None,
        multi_class: str = "ovo", method: str = "auto", time_limit: float | None = None,
        n_jobs: int | None = None, warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.multi_class = multi_class
        self.method = method
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.callback = callback

    def _declare(self) -> Any:
        return declare_least_squares

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to points and their classes, as `SVC.fit` does."""
        return self._fitted(X, y, sample_weight)
