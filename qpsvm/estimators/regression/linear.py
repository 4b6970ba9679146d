"""Linear regression with an epsilon-insensitive loss or its square: LinearSVR."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from qpsvm.errors import InputError
from qpsvm.estimators.base import Estimator
from qpsvm.estimators.inputs.chunks import by_chunks
from qpsvm.estimators.inputs.parameters import SOLVER_RULES, TRUE_OR_FALSE, Rules, among, number
from qpsvm.estimators.inputs.samples import with_constant
from qpsvm.estimators.regression.kernel import (
    TUBE_RULES,
    arranged_targets,
    middle_bias,
    product_with,
)
from qpsvm.estimators.training import Terms
from qpsvm.formulations import L2SVRDual, SVRDual
from qpsvm.gram import Linear


class LinearSVR(RegressorMixin, Estimator):
    """Linear support vector regression with a certified duality gap.

    The parameters are those of ``sklearn.svm.LinearSVR``, whose problem is solved; those from
    `cache_size` on are further ones.

    Parameters
    ----------
    epsilon : float
        Error without a loss, >= 0.
    tol : float
        Certified relative gap, in (0, 1].
    C : float
        Penalty of the errors beyond the tube, > 0 and finite.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}
        C max(0, abs(y - f) - epsilon) or C max(0, abs(y - f) - epsilon)^2.
    fit_intercept : bool
        Whether there is a b; otherwise it is 0.
    intercept_scaling : float
        As in scikit-learn b counts in the penalty as b / intercept_scaling does as an entry of w.
        Infinity leaves it free, with ``loss="epsilon_insensitive"``.
    dual : "auto" or bool
        Accepted for compatibility, without effect: the method decides.
    verbose, random_state
        As in `SVC`.
    max_iter : int
        As in `SVC`: -1, not 1000 as in scikit-learn, whose iterations are other ones.
    cache_size, method, time_limit, n_jobs, warm_start, callback
        As in `SVR`.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
    intercept_ : ndarray, shape (1,)
    n_features_in_, feature_names_in_
        As in scikit-learn.
    n_iter_, dual_gap_, objective_, status_, fit_status_, result_
        As in `SVR`; of `SVRDual` or `L2SVRDual`.

    Raises
    ------
    InputError
        If a parameter or the data are malformed; a ValueError.

    Warns
    -----
    ConvergenceWarning
        Where the gap was not reached.

    Examples
    --------
    >>> from qpsvm import LinearSVR
    >>> model = LinearSVR(C=100.0, epsilon=0.01).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> float(model.predict([[1.5]])[0].round(1))
    1.5
    """

    _rules: ClassVar[Rules] = {
        **SOLVER_RULES,
        **TUBE_RULES,
        "loss": (among("epsilon_insensitive", "squared_epsilon_insensitive"),),
        "fit_intercept": (TRUE_OR_FALSE,),
        "intercept_scaling": (number(0.0, ends="(]"),),
        "dual": (among("auto"), TRUE_OR_FALSE),
    }
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def __init__(
        self, *, epsilon: float = 0.0, tol: float = 1e-4, C: float = 1.0,
        loss: str = "epsilon_insensitive", fit_intercept: bool = True,
        intercept_scaling: float = 1.0, dual: Any = "auto", verbose: bool | int | str = 0,
        random_state: Any = None, max_iter: int = -1, cache_size: float = 200,
        method: str = "auto", time_limit: float | None = None, n_jobs: int | None = None,
        warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.method = method
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.callback = callback

    def __sklearn_tags__(self) -> Any:
        """Say that sparse points are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to points and their values.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, n_features)
        y : array_like, shape (m,)
        sample_weight : array_like, shape (m,), optional
            Factors of C by point; a whole one is the same as that many repetitions, 0 as none.

        Returns
        -------
        LinearSVR
        """
        deadline = self._begin()
        squared = self.loss == "squared_epsilon_insensitive"
        if squared and self.fit_intercept and np.isinf(self.intercept_scaling):
            raise InputError(
                "Unsupported set of arguments: intercept_scaling must be finite when "
                "loss='squared_epsilon_insensitive'; loss='epsilon_insensitive' allows a free bias"
            )
        X, y = self._validated(X, y)
        samples, values = arranged_targets(X, y, sample_weight, by_points=True)
        extends = bool(self.fit_intercept) and bool(np.isfinite(self.intercept_scaling))
        scaling = float(self.intercept_scaling)
        gram = Linear(with_constant(samples.X, scaling) if extends else samples.X)
        free = bool(self.fit_intercept) and not extends
        C, epsilon = self.C * samples.weight, float(self.epsilon)
        problem: SVRDual | L2SVRDual
        if squared:
            problem = L2SVRDual(gram, values, 2.0 * C, epsilon, bias=False)
        else:
            problem = SVRDual(gram, values, C, epsilon, bias=free)
        result = self._solved_alone(problem, deadline, 2 * len(values))
        w, b = np.asarray(result.model.w, dtype=np.float64), float(result.model.b)
        if isinstance(problem, SVRDual) and free:
            middle = middle_bias(problem, result)
            b = b if middle is None else middle
        self.coef_ = w[:-1].copy() if extends else w
        self.intercept_ = np.array([scaling * w[-1] if extends else b])
        constant = scaling if extends else None
        self._remember([Terms.of(problem)], samples.rows, constant=constant, dtype=X.dtype)
        self._report([result], single=True)
        return self

    @by_chunks
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return w'x + b, shape (n,).

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        return product_with(X, self.coef_) + self.intercept_[0]

    def to_sklearn(self) -> Any:
        """Return a fitted ``sklearn.svm.LinearSVR`` with the same predictions."""
        from qpsvm.estimators.conversion import linear_svr_to_sklearn

        return linear_svr_to_sklearn(self)
