"""Regression with an epsilon-insensitive loss: SVR and NuSVR."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from qpsvm.errors import InputError
from qpsvm.estimators.base import ExpansionEstimator, prediction_threads
from qpsvm.estimators.inputs.chunks import by_chunks
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.inputs.parameters import (
    KERNEL_RULES,
    SOLVER_RULES,
    TRUE_OR_FALSE,
    Rules,
    number,
)
from qpsvm.estimators.inputs.samples import Samples, Vector, arranged, checked_weight
from qpsvm.estimators.training import BOUND_SHARE_OF_GAP, Terms, middle_between
from qpsvm.formulations import Formulation, NuSVRDual, SVRDual
from qpsvm.result import Result

TUBE_RULES: Rules = {"C": (number(0.0, ends="()"),), "epsilon": (number(0.0, ends="[)"),)}
"""The penalty and the tube."""


def targets(y: Any) -> Vector:
    """Return values in float64.

    Raises
    ------
    InputError
        If they are not numbers.
    """
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"y must hold numbers; got values of type {y.dtype}") from None


def arranged_targets(
    X: Any, y: Any, sample_weight: Any, *, by_points: bool
) -> tuple[Samples, Vector]:
    """Return the points of positive weight and their values; duplicates are equal in both."""
    values = targets(y)
    weight = checked_weight(sample_weight, X.shape[0])
    codes = np.unique(values, return_inverse=True)[1]
    samples = arranged(X, codes, weight, by_points=by_points)
    return samples, values[samples.rows]


def middle_bias(problem: SVRDual, result: Result) -> float | None:
    """Return the middle of the optimal biases, as LIBSVM does, or None where only one is optimal.

    An interval is optimal where all weights are at their bounds, up to a tenth of the gap asked for.
    """
    C, y, epsilon = problem.C, problem.y, problem.epsilon
    near = BOUND_SHARE_OF_GAP * result.certificate.tol
    weights = result.x.reshape(2, -1)
    at_zero, at_top = weights <= near * C, weights >= (1.0 - near) * C
    if not np.all(at_zero | at_top):
        return None
    rest = y - problem.K.dot(weights[0] - weights[1])
    bounds = np.array([rest - epsilon, rest + epsilon])
    return middle_between(bounds, np.array([at_zero[0], at_top[1]]))


class KernelRegressor(RegressorMixin, ExpansionEstimator):
    """A regression function of kernel values; a subclass declares its problem."""

    intercept_: NDArray[np.float64]

    def _declare(self, gram: Any, y: Vector, weight: Vector) -> Formulation:
        """Return the problem of a Gram, values and weights."""
        raise NotImplementedError

    def _keep_model(self, model: Any) -> None:
        """Set attributes that a subclass has from the model."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to points and their values.

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
        self
        """
        deadline = self._begin()
        X, y = self._validated(X, y)
        by_points = not (isinstance(self.kernel, str) and self.kernel == "precomputed")
        samples, values = arranged_targets(X, y, sample_weight, by_points=by_points)
        kernel = Kernel.of(self, samples.X, samples.weight)
        problem: Any = self._declare(kernel.gram(samples.X), values, samples.weight)
        result = self._solved_alone(problem, deadline, 2 * len(values))
        coef = np.asarray(result.dual)
        support = np.flatnonzero(coef != 0)
        b = middle_bias(problem, result) if isinstance(problem, SVRDual) else None
        self.intercept_ = np.array([result.model.b if b is None else b])
        self._normal = result.model.w
        self._keep_model(result.model)
        self._set_expansion(kernel, samples.rows[support], coef[support], X)
        self._remember([Terms.of(problem)], samples.rows)
        self._report([result], single=True)
        return self

    @property
    def coef_(self) -> Any:
        """Normal of the function, shape (1, n_features), where the kernel is linear."""
        return self._linear_normal()

    @by_chunks
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the values of the function at new points, shape (n,).

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
            Of a precomputed kernel the matrix k(new, training).
        """
        X = self._new_points(X)
        if self._normal is None:
            return np.asarray(self._products(X) + self.intercept_[0])
        return product_with(X, self._normal) + self.intercept_[0]


class SVR(KernelRegressor):
    """Epsilon-support vector regression with a certified duality gap.

    The parameters are those of ``sklearn.svm.SVR``, with the same defaults and meanings; those from
    `random_state` on are further ones.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, shrinking, cache_size, verbose, max_iter
        As in `SVC`.
    C : float
        Penalty of the errors beyond the tube, > 0 and finite.
    epsilon : float
        Error without a loss, >= 0.
    random_state, method, time_limit, n_jobs, warm_start, callback
        As in `SVC`. `n_jobs` is accepted for compatibility: there is one problem.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_
        As in scikit-learn. Of at most 1,000 points, equal ones become one support vector.
    n_iter_ : int
    shape_fit_, fit_status_, n_features_in_, feature_names_in_
        As in scikit-learn; `fit_status_` is 1 where the gap was not reached.
    dual_gap_, objective_, status_
        As in `SVC`, of `SVRDual`; `objective_` is a float.
    result_ : Result
        The answer without its model.

    Raises
    ------
    InputError
        If a parameter or the data are malformed; a ValueError.
    Interrupted
        On Ctrl-C during `fit`; a KeyboardInterrupt.

    Warns
    -----
    ConvergenceWarning
        Where the gap was not reached.

    Examples
    --------
    >>> from qpsvm import SVR
    >>> model = SVR(kernel="linear", C=10.0, epsilon=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> round(float(model.predict([[4.0]])[0]), 1)
    9.0
    """

    _rules: ClassVar[Rules] = {
        **KERNEL_RULES, **SOLVER_RULES, **TUBE_RULES, "shrinking": (TRUE_OR_FALSE,),
    }  # fmt: skip

    def __init__(
        self, *, kernel: Any = "rbf", degree: int = 3, gamma: Any = "scale", coef0: float = 0.0,
        tol: float = 1e-3, C: float = 1.0, epsilon: float = 0.1, shrinking: bool = True,
        cache_size: float = 200, verbose: bool | int | str = False, max_iter: int = -1,
        random_state: Any = None, method: str = "auto", time_limit: float | None = None,
        n_jobs: int | None = None, warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.random_state = random_state
        self.method = method
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.callback = callback

    def _declare(self, gram: Any, y: Vector, weight: Vector) -> Formulation:
        return SVRDual(gram, y, self.C * weight, float(self.epsilon))

    def to_sklearn(self) -> Any:
        """Return a fitted ``sklearn.svm.SVR`` with the same predictions."""
        from qpsvm.estimators.conversion import svr_to_sklearn

        return svr_to_sklearn(self)


class NuSVR(KernelRegressor):
    """Nu-support vector regression with a certified duality gap: the tube's width is a result.

    The parameters are those of ``sklearn.svm.NuSVR``, with the same defaults and meanings; those from
    `random_state` on are further ones.

    Parameters
    ----------
    nu : float
        Share of the points outside of the tube at most, and of support vectors at least; in (0, 1].
    C : float
        Penalty of the errors beyond the tube, > 0 and finite.
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter
        As in `SVC`.
    random_state, method, time_limit, n_jobs, warm_start, callback
        As in `SVR`.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube, exactly best for the function.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_
        As in `SVR`.
    n_iter_, shape_fit_, fit_status_, n_features_in_, feature_names_in_
        As in `SVR`.
    dual_gap_, objective_, status_, result_
        As in `SVR`, of `NuSVRDual`.

    Raises
    ------
    InputError
        If a parameter or the data are malformed; a ValueError.
    Interrupted
        On Ctrl-C during `fit`; a KeyboardInterrupt.

    Warns
    -----
    ConvergenceWarning
        Where the gap was not reached.

    Examples
    --------
    >>> from qpsvm import NuSVR
    >>> model = NuSVR(kernel="linear", nu=0.1, C=10.0).fit([[-1.0], [0.0], [1.0]], [-1.0, 0.5, 1.0])
    >>> round(model.epsilon_, 2)
    0.25
    """

    _rules: ClassVar[Rules] = {
        **KERNEL_RULES, **SOLVER_RULES, "C": TUBE_RULES["C"], "nu": (number(0.0, 1.0, "(]"),),
        "shrinking": (TRUE_OR_FALSE,),
    }  # fmt: skip

    def __init__(
        self, *, nu: float = 0.5, C: float = 1.0, kernel: Any = "rbf", degree: int = 3,
        gamma: Any = "scale", coef0: float = 0.0, shrinking: bool = True, tol: float = 1e-3,
        cache_size: float = 200, verbose: bool | int | str = False, max_iter: int = -1,
        random_state: Any = None, method: str = "auto", time_limit: float | None = None,
        n_jobs: int | None = None, warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.random_state = random_state
        self.method = method
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.callback = callback

    def _declare(self, gram: Any, y: Vector, weight: Vector) -> Formulation:
        return NuSVRDual(gram, y, self.C * weight, float(self.nu))

    def _keep_model(self, model: Any) -> None:
        self.epsilon_ = float(model.epsilon)


def product_with(X: Any, w: Vector) -> Vector:
    """Return X w in float64, shape (n,)."""
    entries = X.size
    with prediction_threads(entries, shares=False):
        return np.asarray(X @ w, dtype=np.float64).ravel()
