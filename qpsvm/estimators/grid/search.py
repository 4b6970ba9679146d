"""SVCCV: an SVC whose kernel width and penalty are chosen by cross-validation, every fit certified."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from qpsvm.api import default_memory_limit
from qpsvm.clock import Clock
from qpsvm.estimators.classifier import encoded
from qpsvm.estimators.grid.base import GRID_RULES, GridSearch
from qpsvm.estimators.grid.cells import Cells, Split, bytes_needed, order_of, search
from qpsvm.estimators.inputs.chunks import by_chunks
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.inputs.parameters import CLASS_RULES, SHAPE_RULES, Rules, check_parameters
from qpsvm.estimators.inputs.samples import Vector, checked_weight
from qpsvm.estimators.kernel_classifiers import SVC
from qpsvm.estimators.votes import by_votes, scores


class _Predicted(ClassifierMixin, BaseEstimator):
    """What a scorer sees of a cell: the predictions for its test points."""

    def __init__(self, classes: Any, values: Vector) -> None:
        self.classes_ = classes
        self._values = values

    def predict(self, X: Any) -> Any:
        """Return the classes of the test points."""
        return self.classes_[by_votes(self._values, len(self.classes_))]

    def decision_function(self, X: Any) -> Vector:
        """Return the values of two classes, or the scores of several."""
        if len(self.classes_) == 2:
            return -self._values[:, 0]
        return scores(self._values, len(self.classes_))


class SVCCV(ClassifierMixin, GridSearch):
    r"""C-support vector classification, C and gamma chosen by cross-validation.

    All fits of the grid are solved together: products of points are computed once for all gamma, a kernel
    matrix once for each gamma and all folds, pairs of classes and C. Each fit ends with a certified gap.
    It is `SVC` with ``loss="hinge"`` and ``multi_class="ovo"``.

    Parameters
    ----------
    Cs : int or array_like
        Values of C, or the number of values from 0.01 to 1000, evenly spaced in the logarithm.
    gammas : int or array_like
        Values of gamma, numbers or ``"scale"`` and ``"auto"``, which are those of all points; or the
        number of values from 0.01 to 10 times ``"scale"``. Without effect for kernels without gamma.
    kernel, degree, coef0
        As in `SVC`.
    cv : int, cross-validation generator or iterable, optional
        As in ``sklearn.model_selection.GridSearchCV``: 5 stratified folds by default.
    scoring : str or callable, optional
        A scorer of scikit-learn that uses predictions or the decision function; accuracy by default.
    tol : float
        Certified relative gap of each binary problem.
    class_weight : dict, "balanced" or None
        Factors of C by class; balanced within each training set.
    decision_function_shape, break_ties
        As in `SVC`, of the estimator that is refitted.
    memory_limit : int, optional
        Bytes for kernel matrices, a quarter of the memory by default. Where three matrices of all points
        exceed it, each cell is a fit of `SVC`.
    time_limit : float, optional
        Seconds for the search and the refit; cells that are not reached have the score NaN.
    n_jobs : int, optional
        Threads; all that there are by default.
    verbose : bool
        Whether there is a progress bar.

    Attributes
    ----------
    best_params_ : dict
        C and, where the kernel has one, gamma; the first of equal scores.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
    best_estimator_ : SVC
        Fitted to all points with the best parameters.
    cv_results_ : dict of ndarray
        As in ``GridSearchCV``, without times: ``params``, ``param_C``, ``param_gamma``,
        ``split0_test_score``, ..., ``mean_test_score``, ``std_test_score``, ``rank_test_score``; and
        ``split0_dual_gap``, ..., ``max_dual_gap``: the largest certified relative gap of the problems
        of a cell.
    n_splits_ : int
    C_, gamma_ : float
        The best parameters.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    InputError
        If a parameter or the data are malformed; a ValueError.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt.

    Warns
    -----
    ConvergenceWarning
        Where a gap was not reached.

    References
    ----------
    Steinwart and Thomann, "liquidSVM: a fast and versatile SVM package" (2017), for a search that shares
    kernel matrices between cells.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from qpsvm.estimators import SVCCV
    >>> search = SVCCV(Cs=[1.0, 10.0], gammas=[0.1, 1.0]).fit(*load_iris(return_X_y=True))
    >>> search.best_params_
    {'C': 1.0, 'gamma': 0.1}
    """

    _rules: ClassVar[Rules] = {
        **GRID_RULES,
        "class_weight": CLASS_RULES["class_weight"],
        "decision_function_shape": SHAPE_RULES["decision_function_shape"],
        "break_ties": SHAPE_RULES["break_ties"],
    }

    def __init__(
        self, *, Cs: Any = 10, gammas: Any = 10, kernel: Any = "rbf", degree: int = 3,
        coef0: float = 0.0, cv: Any = None, scoring: Any = None, tol: float = 1e-3,
        class_weight: Any = None, decision_function_shape: str = "ovr", break_ties: bool = False,
        memory_limit: int | None = None, time_limit: float | None = None,
        n_jobs: int | None = None, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.cv = cv
        self.scoring = scoring
        self.tol = tol
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.memory_limit = memory_limit
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search the grid, and fit to all points with the best parameters.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, n_features)
        y : array_like, shape (m,)
            Classes.
        sample_weight : array_like, shape (m,), optional
            Factors of C, and of the points in the default score.

        Returns
        -------
        SVCCV
        """
        check_parameters(self, self._rules)
        clock = Clock(self.time_limit)
        X, y = self._validated(X, y)
        weight = checked_weight(sample_weight, X.shape[0])
        self.classes_, _, codes = encoded(y, weight, None)
        penalties, kernels = self._penalties(), self._kernels(X, weight)
        splits = list(check_cv(self.cv, y, classifier=True).split(X, y))
        axes = {"C": penalties.tolist(), "gamma": [kernel.gamma for kernel in kernels]}

        def fill(table: Vector, gaps: Vector) -> None:
            by_kernel = np.swapaxes(table, 0, 1), np.swapaxes(gaps, 0, 1)
            self._search(X, y, weight, codes, penalties, kernels, splits, *by_kernel)

        return self._searched(clock, axes, len(splits), fill, (X, y, sample_weight))

    def _estimator(self, C: float, gamma: Any = "scale") -> SVC:
        """Return the estimator of a cell."""
        return SVC(
            C=C, gamma=gamma, kernel=self.kernel, degree=self.degree, coef0=self.coef0,
            tol=self.tol, class_weight=self.class_weight, break_ties=self.break_ties,
            decision_function_shape=self.decision_function_shape,
        )  # fmt: skip

    def _search(
        self, X: Any, y: Any, weight: Vector, codes: Any, penalties: Vector,
        kernels: list[Kernel], splits: list[Any], table: Vector, gaps: Vector,
    ) -> None:  # fmt: skip
        """Fill the table of scores and gaps, shape (n_kernels, n_penalties, n_splits)."""
        scorer = self._scorer()
        allowed = default_memory_limit() if self.memory_limit is None else self.memory_limit
        by_matrix = bytes_needed(X.shape[0]) <= allowed and np.isfinite(penalties).all()
        bar = self._bar(len(kernels))

        def fit_cells(number: int, missing: NDArray[np.bool_]) -> None:
            """Fit `SVC` to each cell that has no certified answer."""
            for c, at in zip(*np.nonzero(missing), strict=True):
                train, test = splits[at]
                gamma = {"gamma": kernels[number].gamma or "scale"}
                model = self._estimator(penalties[c], **gamma)
                X_train, X_test = self._part(X, train, train), self._part(X, test, train)
                model.fit(X_train, y[train], sample_weight=weight[train])
                table[number, c, at] = scorer(model, X_test, y[test], weight[test])
                gaps[number, c, at] = model.dual_gap_

        def done(number: int, cells: Cells | None) -> None:
            missing = np.ones(table.shape[1:], bool)
            if cells is not None:
                for at, (_, test) in enumerate(splits):
                    ordered = np.sort(rank[test])
                    own = order[ordered]
                    for c in range(len(penalties)):
                        model = _Predicted(self.classes_, cells.values[at][c].T)
                        table[number, c, at] = scorer(model, X[own], y[own], weight[own])
                gaps[number] = cells.gaps
                missing = ~(cells.gaps <= self.tol)
            fit_cells(number, missing)
            if bar is not None:
                bar.update()

        if by_matrix:
            order = order_of(codes, [test for _, test in splits])
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order))
            by_rows = [self._split(train, test, rank, order, y, weight) for train, test in splits]
            points = self._part(X, order, order)
            grams = [kernel.gram(points) for kernel in kernels]
            search(grams, codes[order], by_rows, penalties, 0.999 * self.tol, done)
        else:
            for number in range(len(kernels)):
                done(number, None)
        if bar is not None:
            bar.close()

    def _split(self, train: Any, test: Any, rank: Any, order: Any, y: Any, weight: Vector) -> Split:
        """Return a split in the order of the points, without training points of weight zero."""
        rows = np.sort(rank[train])
        rows = rows[weight[order[rows]] > 0]
        own = order[rows]
        _, factors, codes = encoded(y[own], weight[own], self.class_weight)
        return Split(rows, np.sort(rank[test]), weight[own] * factors[codes])

    def _scorer(self) -> Any:
        """Return ``scorer(model, X, y, weight)``."""
        if self.scoring is None or self.scoring == "accuracy":
            return lambda model, X, y, weight: float(
                weight @ (model.predict(X) == y) / np.sum(weight)
            )
        given = check_scoring(SVC(), scoring=self.scoring)
        return lambda model, X, y, weight: given(model, X, y)

    @by_chunks
    def decision_function(self, X: Any) -> Any:
        """Return the decision function of the best estimator: see `SVC.decision_function`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(self._new_points(X))
