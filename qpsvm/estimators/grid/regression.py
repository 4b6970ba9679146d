"""SVRCV: an SVR whose kernel width, penalty and tube are chosen by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import check_scoring, r2_score
from sklearn.model_selection import check_cv

from qpsvm.api import default_memory_limit
from qpsvm.clock import Clock, Expired
from qpsvm.estimators.grid.base import ANY_ARRAY, GRID_RULES, GridSearch, numbers_of
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.inputs.parameters import Rules, check_parameters, number
from qpsvm.estimators.inputs.samples import Indices, Vector, checked_weight
from qpsvm.estimators.regression.kernel import SVR, middle_bias, targets
from qpsvm.estimators.training import light, warn_of_gaps
from qpsvm.formulations import SVRDual
from qpsvm.gram import Cached
from qpsvm.path import solve_path
from qpsvm.result import Result, Status

DEFAULT_TUBE_RANGE = (1e-2, 1.0)
"""Least and greatest epsilon where `epsilons` is a number of values, in standard deviations of y."""


class Training(NamedTuple):
    """The training points of a fold."""

    X: Any
    y: Vector
    weight: Vector


class Answers(NamedTuple):
    """Functions of a kernel and a fold, for all penalties and tubes."""

    coef: Vector
    """Coefficients of the training points, shape (m, n_penalties, n_epsilons)."""
    b: Vector
    """Biases, shape (n_penalties, n_epsilons); NaN where a limit left a cell out."""
    gaps: Vector
    """Certified relative gaps, of the same shape."""


class _Predicted(RegressorMixin, BaseEstimator):
    """What a scorer sees of a cell: the predictions for its test points."""

    def __init__(self, values: Vector) -> None:
        self._values = values

    def predict(self, X: Any) -> Vector:
        """Return the values of the test points."""
        return self._values


class SVRCV(RegressorMixin, GridSearch):
    """Epsilon-support vector regression; C, epsilon and gamma chosen by cross-validation.

    For each gamma, epsilon and training set the values of C are a path: `solve_path`, each solve
    warm-started. The kernel columns of a training set are kept for all C and epsilon, and the cells of a
    test set are predicted by one product. Each fit ends with a certified gap.

    Parameters
    ----------
    Cs : int or array_like
        Values of C, or the number of values from 0.01 to 1000, evenly spaced in the logarithm.
    gammas : int or array_like
        Values of gamma, numbers or ``"scale"`` and ``"auto"``, which are those of all points; or the
        number of values from 0.01 to 10 times ``"scale"``. Without effect for kernels without gamma.
    epsilons : int or array_like
        Values of epsilon, or the number of values from 0.01 to 1 times the standard deviation of y.
    kernel, degree, coef0
        As in `SVR`.
    cv : int, cross-validation generator or iterable, optional
        As in ``sklearn.model_selection.GridSearchCV``: 5 folds by default.
    scoring : str or callable, optional
        A scorer of scikit-learn that uses predictions; R^2 by default.
    tol : float
        Certified relative gap of each problem.
    memory_limit : int, optional
        Bytes for the kernel columns of a training set, by default as in `solve`.
    time_limit : float, optional
        Seconds for the search and the refit; cells that are not reached have the score NaN.
    n_jobs : int, optional
        Threads; all that there are by default.
    verbose : bool
        Whether there is a progress bar.

    Attributes
    ----------
    best_params_ : dict
        C, epsilon and, where the kernel has one, gamma; the first of equal scores.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
    best_estimator_ : SVR
        Fitted to all points with the best parameters.
    cv_results_ : dict of ndarray
        As that of `SVCCV`, with ``param_epsilon``.
    n_splits_ : int
    C_, epsilon_, gamma_ : float
        The best parameters.
    n_features_in_, feature_names_in_
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

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.estimators import SVRCV
    >>> X = np.linspace(0.0, 6.0, 60)[:, None]
    >>> search = SVRCV(Cs=[1.0, 10.0], gammas=[0.001, 1.0], epsilons=[0.05], cv=3)
    >>> search.fit(X[::-1], np.sin(X[::-1, 0])).best_params_["epsilon"]
    0.05
    """

    _rules: ClassVar[Rules] = {**GRID_RULES, "epsilons": (number(1, integer=True), ANY_ARRAY)}

    def __init__(
        self, *, Cs: Any = 10, gammas: Any = 10, epsilons: Any = 3, kernel: Any = "rbf",
        degree: int = 3, coef0: float = 0.0, cv: Any = None, scoring: Any = None,
        tol: float = 1e-3, memory_limit: int | None = None, time_limit: float | None = None,
        n_jobs: int | None = None, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.Cs = Cs
        self.gammas = gammas
        self.epsilons = epsilons
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.cv = cv
        self.scoring = scoring
        self.tol = tol
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
            Values.
        sample_weight : array_like, shape (m,), optional
            Factors of C, and of the points in the default score.

        Returns
        -------
        SVRCV
        """
        check_parameters(self, self._rules)
        clock = Clock(self.time_limit)
        X, y = self._validated(X, y)
        y = targets(y)
        weight = checked_weight(sample_weight, X.shape[0])
        penalties, epsilons = self._penalties(), self._tubes(y, weight)
        kernels = self._kernels(X, weight)
        splits = list(check_cv(self.cv, y).split(X, y))
        axes = {
            "C": penalties.tolist(),
            "epsilon": epsilons.tolist(),
            "gamma": [kernel.gamma for kernel in kernels],
        }
        missed: list[Result] = []

        def fill(table: Vector, gaps: Vector) -> None:
            score, bar = self._scorer(), self._bar(len(kernels))
            for number_of_kernel, kernel in enumerate(kernels):
                for at, (train, test) in enumerate(splits):
                    own = train[weight[train] > 0]
                    training = Training(self._part(X, own, own), y[own], weight[own])
                    answers = self._paths(kernel, training, penalties, epsilons, missed)
                    gaps[:, :, number_of_kernel, at] = answers.gaps
                    points = self._part(X, test, own)
                    values = self._values(kernel, training.X, points, answers)
                    scores = score(points, y[test], values, weight[test])
                    table[:, :, number_of_kernel, at] = scores.reshape(answers.b.shape)
                    if clock.expired:
                        raise Expired
                if bar is not None:
                    bar.update()
            if bar is not None:
                bar.close()

        self._searched(clock, axes, len(splits), fill, (X, y, sample_weight))
        warn_of_gaps(missed, self.tol, -1, 3)
        return self

    def _tubes(self, y: Vector, weight: Vector) -> Vector:
        """Return the values of epsilon, ascending."""
        epsilons = self.epsilons
        if isinstance(epsilons, (int, np.integer)):
            mean = np.average(y, weights=weight)
            deviation = np.sqrt(np.average((y - mean) ** 2, weights=weight))
            epsilons = deviation * np.geomspace(*DEFAULT_TUBE_RANGE, int(epsilons))
        return np.unique(numbers_of("epsilons", epsilons, allows_zero=True))

    def _estimator(self, C: float, epsilon: float, gamma: Any = "scale") -> SVR:
        """Return the estimator of a cell."""
        return SVR(
            C=C, epsilon=epsilon, gamma=gamma, kernel=self.kernel, degree=self.degree,
            coef0=self.coef0, tol=self.tol,
        )  # fmt: skip

    def _paths(
        self,
        kernel: Kernel,
        training: Training,
        penalties: Vector,
        epsilons: Vector,
        missed: list[Result],
    ) -> Answers:
        """Solve all cells of a kernel and a training set; append answers whose gap was not reached."""
        allowed = default_memory_limit() if self.memory_limit is None else self.memory_limit
        gram = kernel.gram(training.X)
        if gram.factor() is None:
            gram = Cached(gram, allowed)
        shape = len(penalties), len(epsilons)
        coef = np.zeros((len(training.y), *shape))
        b, gaps = np.full(shape, np.nan), np.full(shape, np.nan)
        weighted = [penalty * training.weight for penalty in penalties]  # in ascending order
        for number_of_tube, epsilon in enumerate(epsilons):
            problem = SVRDual(gram, training.y, weighted[0], float(epsilon))
            path = solve_path(problem, "C", weighted, tol=self.tol, memory_limit=allowed)
            for at, result in enumerate(path):
                middle = middle_bias(replace(problem, C=weighted[at]), result)
                coef[:, at, number_of_tube] = result.dual
                b[at, number_of_tube] = result.model.b if middle is None else middle
                gaps[at, number_of_tube] = result.certificate.relative_gap
                if result.status is not Status.OPTIMAL:
                    missed.append(light(result))
            if len(path) < len(weighted):
                break
        return Answers(coef, b, gaps)

    def _values(self, kernel: Kernel, train: Any, points: Any, answers: Answers) -> Vector:
        """Return the values of all functions at new points, shape (n, n_cells), by one product."""
        flat = answers.coef.reshape(len(answers.coef), -1)
        support: Indices = np.flatnonzero(np.any(flat != 0.0, axis=1))
        some = np.ascontiguousarray(flat[support])
        if not len(support):
            products = np.zeros((points.shape[0], flat.shape[1]))
        elif kernel.is_precomputed:
            products = points[:, support] @ some
        else:
            products = kernel.gram(train).combine(points, support, some)
        return np.asarray(products + answers.b.ravel())

    def _scorer(self) -> Any:
        """Return ``score(X, y, values, weight)``, whose answer has shape (n_cells,)."""
        if self.scoring is None or self.scoring == "r2":
            return lambda X, y, values, weight: r_squared(y, values, weight)
        given = check_scoring(SVR(), scoring=self.scoring)

        def score(X: Any, y: Vector, values: Vector, weight: Vector) -> Vector:
            known = [bool(np.isfinite(column).all()) for column in values.T]
            return np.array([
                given(_Predicted(column), X, y) if is_known else np.nan
                for column, is_known in zip(values.T, known, strict=True)
            ])  # fmt: skip

        return score


def r_squared(y: Vector, values: Vector, weight: Vector) -> Vector:
    """Return R^2 of each column of predictions, shape (n_cells,); NaN where one is NaN."""
    total = float(np.sum(weight))
    variation = float(weight @ (y - (weight @ y) / total) ** 2) if total > 0.0 else 0.0
    if variation > 0.0 and len(y) > 1:
        return np.asarray(1.0 - (weight @ (y[:, None] - values) ** 2) / variation)
    known = np.isfinite(values).all(axis=0)
    scores = np.full(values.shape[1], np.nan)
    for at in np.flatnonzero(known):
        scores[at] = r2_score(y, values[:, at], sample_weight=weight)
    return scores
