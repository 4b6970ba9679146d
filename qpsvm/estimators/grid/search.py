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
from qpsvm.clock import Clock, Expired
from qpsvm.errors import InputError, Interrupted
from qpsvm.estimators.base import KernelEstimator
from qpsvm.estimators.classifier import encoded
from qpsvm.estimators.grid.cells import Cells, Split, bytes_needed, order_of, search
from qpsvm.estimators.kernel_classifiers import SVC
from qpsvm.estimators.kernels import Kernel
from qpsvm.estimators.parameters import (
    CLASS_RULES,
    KERNEL_RULES,
    NO_VALUE,
    SHAPE_RULES,
    SOLVER_RULES,
    Rules,
    check_parameters,
    instance,
    number,
)
from qpsvm.estimators.samples import Vector, checked_weight
from qpsvm.estimators.votes import by_votes, scores
from qpsvm.gram.kernels.gamma import settle_gamma
from qpsvm.threads import limit

DEFAULT_PENALTY_RANGE = (1e-2, 1e3)
"""Least and greatest C where `Cs` is a number of values."""

DEFAULT_GAMMA_RANGE = (1e-2, 1e1)
"""Least and greatest gamma where `gammas` is a number of values, in units of ``gamma="scale"``."""

KERNELS_WITH_GAMMA = ("rbf", "poly", "sigmoid", "laplacian")
"""Kernels that have the parameter gamma."""

_ARRAY = instance((list, tuple, np.ndarray), "an array-like")


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


class SVCCV(ClassifierMixin, KernelEstimator):
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
        "Cs": (number(1, integer=True), _ARRAY),
        "gammas": (number(1, integer=True), _ARRAY),
        "kernel": KERNEL_RULES["kernel"],
        "degree": KERNEL_RULES["degree"],
        "coef0": KERNEL_RULES["coef0"],
        "class_weight": CLASS_RULES["class_weight"],
        "decision_function_shape": SHAPE_RULES["decision_function_shape"],
        "break_ties": SHAPE_RULES["break_ties"],
        "tol": SOLVER_RULES["tol"],
        "time_limit": SOLVER_RULES["time_limit"],
        "n_jobs": SOLVER_RULES["n_jobs"],
        "memory_limit": (number(1, integer=True), NO_VALUE),
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
        penalties, kernels = self._grid(X)
        splits = list(check_cv(self.cv, y, classifier=True).split(X, y))
        self.n_splits_ = len(splits)
        n_cells = len(kernels), len(penalties), len(splits)
        table = np.full(n_cells, np.nan)
        gaps = np.full(n_cells, np.nan)
        with (
            limit(self.n_jobs or np.iinfo(np.int32).max),
            clock.listening(),
            clock.limiting_calls(),
        ):
            try:
                with clock.abandoning():
                    self._search(X, y, weight, codes, penalties, kernels, splits, table, gaps)
            except Expired:
                pass
            if clock.interrupted:
                raise Interrupted(None)
            self._choose(penalties, kernels, table, gaps)
            self.best_estimator_ = self._estimator(**self.best_params_)
            self.best_estimator_.set_params(time_limit=clock.seconds_left)
            self.best_estimator_.fit(X, y, sample_weight=sample_weight)
            self.best_estimator_.set_params(time_limit=None)
        return self

    def _grid(self, X: Any) -> tuple[Vector, list[Kernel]]:
        """Return the values of C, ascending, and the kernels."""
        Cs = self.Cs
        if isinstance(Cs, (int, np.integer)):
            Cs = np.geomspace(*DEFAULT_PENALTY_RANGE, int(Cs))
        penalties = np.unique(_numbers("Cs", Cs))
        if self.kernel not in KERNELS_WITH_GAMMA:
            return penalties, [Kernel(self.kernel, 0.0, self.degree, self.coef0)]
        gammas = self.gammas
        if isinstance(gammas, (int, np.integer)):
            scale = settle_gamma("scale", X)
            gammas = scale * np.geomspace(*DEFAULT_GAMMA_RANGE, int(gammas))
        values = [settle_gamma(g, X) if isinstance(g, str) else g for g in gammas]
        values = np.unique(_numbers("gammas", values)).tolist()
        return penalties, [Kernel(self.kernel, g, self.degree, self.coef0) for g in values]

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
                        model = _Predicted(self.classes_, cells.values[at][:, :, c])
                        table[number, c, at] = scorer(model, X[own], y[own], weight[own])
                gaps[number] = cells.gaps
                missing = cells.gaps > self.tol
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

    def _part(self, X: Any, rows: Any, columns: Any) -> Any:
        """Return some points; of a kernel matrix also the columns of the training points."""
        return X[np.ix_(rows, columns)] if self.kernel == "precomputed" else X[rows]

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

    def _bar(self, n_kernels: int) -> Any:
        if not self.verbose:
            return None
        from tqdm.auto import tqdm

        return tqdm(total=n_kernels, desc="kernels")

    def _choose(
        self, penalties: Vector, kernels: list[Kernel], table: Vector, gaps: Vector
    ) -> None:
        """Set the table of results and the best parameters."""
        has_gamma = self.kernel in KERNELS_WITH_GAMMA
        params = [
            {"C": float(C)} | ({"gamma": kernel.gamma} if has_gamma else {})
            for C in penalties
            for kernel in kernels
        ]
        n_splits = table.shape[2]
        scores_by_cell = np.swapaxes(table, 0, 1).reshape(-1, n_splits)
        gaps_by_cell = np.swapaxes(gaps, 0, 1).reshape(-1, n_splits)
        mean = scores_by_cell.mean(axis=1)
        results: dict[str, Any] = {"params": params}
        for name in params[0]:
            values = [one[name] for one in params]
            results[f"param_{name}"] = np.ma.MaskedArray(values, mask=False)
        for at in range(n_splits):
            results[f"split{at}_test_score"] = scores_by_cell[:, at]
            results[f"split{at}_dual_gap"] = gaps_by_cell[:, at]
        results["mean_test_score"] = mean
        results["std_test_score"] = scores_by_cell.std(axis=1)
        ranked = np.where(np.isnan(mean), -np.inf, mean)
        results["rank_test_score"] = 1 + np.sum(ranked[:, None] < ranked[None, :], axis=1)
        results["max_dual_gap"] = gaps_by_cell.max(axis=1)
        self.cv_results_ = results
        self.best_index_ = int(np.argmax(ranked))
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])
        self.C_ = self.best_params_["C"]
        if has_gamma:
            self.gamma_ = self.best_params_["gamma"]

    def decision_function(self, X: Any) -> Any:
        """Return the decision function of the best estimator: see `SVC.decision_function`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(self._new_points(X))

    def predict(self, X: Any) -> Any:
        """Return the classes of new points, shape (n,), by the best estimator.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(self._new_points(X))


def _numbers(name: str, values: Any) -> Vector:
    """Return positive numbers, at least one."""
    array = np.asarray(values)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iuf":
        raise InputError(f"{name} must be an int or a list of numbers > 0; got {values!r}")
    if not np.all(array > 0):
        raise InputError(f"{name} must be > 0; got {np.min(array)!r}")
    return array.astype(np.float64)
