"""Estimators of the region of most points: OneClassSVM and SVDD."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from qpsvm.estimators.base import ExpansionEstimator
from qpsvm.estimators.inputs.chunks import by_chunks
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.inputs.parameters import (
    ANY_CALLABLE,
    KERNEL_RULES,
    SOLVER_RULES,
    TRUE_OR_FALSE,
    Rules,
    among,
    number,
)
from qpsvm.estimators.inputs.samples import Samples, Vector, arranged, checked_weight
from qpsvm.estimators.training import Terms
from qpsvm.formulations import Formulation, OneClassDual, SVDDDual
from qpsvm.gram.translation import square_distances
from qpsvm.result import Result

OUTLIER_RULES: Rules = {
    **KERNEL_RULES, **SOLVER_RULES, "nu": (number(0.0, 1.0, "(]"),), "shrinking": (TRUE_OR_FALSE,),
}  # fmt: skip
"""Parameters of both estimators."""


class OutlierDetector(OutlierMixin, ExpansionEstimator):
    """A function of points that is nonnegative on most of them."""

    _rules: ClassVar[Rules] = OUTLIER_RULES
    _fits_chunks: ClassVar[bool] = True
    nu: float
    offset_: float

    def _declare(self, gram: Any, weight: Vector) -> Formulation:
        raise NotImplementedError

    def _set_model(self, result: Result, samples: Samples, X: Any) -> float:
        """Set what the answer says; return the factor of the coefficients."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to points.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, n_features)
        y : None
            Not used; there for scikit-learn's interface.
        sample_weight : array_like, shape (m,), optional
            Factors of the bounds by point; a whole one is the same as that many repetitions, 0 as none.

        Returns
        -------
        self
        """
        deadline = self._begin()
        X = self._validated(X)
        weight = checked_weight(sample_weight, X.shape[0])
        by_points = not (isinstance(self.kernel, str) and self.kernel == "precomputed")
        samples = arranged(X, np.zeros(len(weight), np.int64), weight, by_points=by_points)
        kernel = Kernel.of(self, samples.X, samples.weight)
        problem = self._declare(kernel.gram(samples.X), samples.weight)
        result = self._solved_alone(problem, deadline, len(samples.rows))
        support = np.flatnonzero(result.x > 0)
        factor = self._set_model(result, samples, X)
        self._set_expansion(kernel, samples.rows[support], factor * result.x[support], X)
        self._remember([Terms.of(problem)], samples.rows)
        self._report([result], single=True)
        return self

    @by_chunks
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return ``score_samples(X) - offset_``, shape (n,): negative for outliers."""
        return self.score_samples(X) - self.offset_

    @by_chunks
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return scores, shape (n,): the greater, the more usual."""
        raise NotImplementedError

    @by_chunks
    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 for usual points and -1 for outliers, shape (n,).

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)


class OneClassSVM(OutlierDetector):
    """Hyperplane between most of the points and the origin, with a certified duality gap.

    The parameters are those of ``sklearn.svm.OneClassSVM``, with the same defaults and meanings; those
    from `random_state` on are further ones. Coefficients, scores and `offset_` have the scale of LIBSVM:
    nu m times those of `OneClassDual`, m being the sum of the weights.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, cache_size, verbose, max_iter, shrinking
        As in `SVC`.
    nu : float
        Upper bound on the share of outliers and lower bound on that of support vectors, in (0, 1].
    random_state, method, time_limit, n_jobs, warm_start, callback
        As in `SVC`. `n_jobs` is accepted for compatibility: there is one problem.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, offset_, coef_
        As in scikit-learn; `offset_` is a float.
    n_iter_ : int
    dual_gap_, objective_, status_, fit_status_, shape_fit_
        As in `SVC`, of `OneClassDual`; `objective_` is a float.
    result_ : Result
        The answer without its model.

    Examples
    --------
    >>> from qpsvm import OneClassSVM
    >>> OneClassSVM(gamma="auto").fit_predict([[0.0], [0.44], [0.45], [0.46], [1.0]]).tolist()
    [-1, 1, 1, 1, -1]
    """

    def __init__(
        self, *, kernel: Any = "rbf", degree: int = 3, gamma: Any = "scale", coef0: float = 0.0,
        tol: float = 1e-3, nu: float = 0.5, shrinking: bool = True, cache_size: float = 200,
        verbose: bool | int | str = False, max_iter: int = -1, random_state: Any = None,
        method: str = "auto", time_limit: float | None = None, n_jobs: int | None = None,
        warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
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

    def _declare(self, gram: Any, weight: Vector) -> Formulation:
        return OneClassDual(gram, self.nu, weight)

    def _set_model(self, result: Result, samples: Samples, X: Any) -> float:
        factor = float(self.nu * np.sum(samples.weight))
        self.offset_ = factor * result.model.rho
        self.intercept_ = np.array([-self.offset_])
        normal = result.model.w
        self._normal = None if normal is None else factor * normal
        return factor

    @property
    def coef_(self) -> Any:
        """Normal of the hyperplane, shape (1, n_features), where the kernel is linear."""
        return self._linear_normal()

    @by_chunks
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return w'phi(x) of new points, shape (n,): the greater, the more usual."""
        return self._products(self._new_points(X))

    def to_sklearn(self) -> Any:
        """Return a fitted ``sklearn.svm.OneClassSVM`` with the same decision function."""
        from qpsvm.estimators.conversion import one_class_to_sklearn

        return one_class_to_sklearn(self)


class SVDD(OutlierDetector):
    """Support vector data description: the smallest ball around most of the points.

    `SVDDDual` with C = 1 / (nu m). A score is the negative squared distance from the center, `offset_`
    the negative squared radius.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, cache_size, verbose, max_iter
        As in `SVC`, without ``"precomputed"``, which does not give k(x, x) of a new point.
    nu : float
        Upper bound on the share of points outside, in (0, 1]; from 1 / m downward the ball holds all.
    random_state, method, time_limit, n_jobs, warm_start, callback
        As in `OneClassSVM`.

    Attributes
    ----------
    radius_ : float
    center_ : ndarray, shape (n_features,), or None
        The center, where the kernel is linear.
    support_, support_vectors_, n_support_, dual_coef_, offset_
        As in `OneClassSVM`; `dual_coef_` sums to 1.
    n_iter_, dual_gap_, objective_, status_, fit_status_, shape_fit_, result_
        As in `OneClassSVM`, of `SVDDDual`.

    Examples
    --------
    >>> from qpsvm import SVDD
    >>> model = SVDD(kernel="linear", nu=0.5).fit([[0.0], [1.0], [2.0], [9.0]])
    >>> model.predict([[1.0], [20.0]]).tolist()
    [1, -1]
    """

    _rules: ClassVar[Rules] = {
        **{name: rule for name, rule in OUTLIER_RULES.items() if name != "shrinking"},
        "kernel": (among("linear", "poly", "rbf", "sigmoid", "laplacian"), ANY_CALLABLE),
    }

    def __init__(
        self, *, kernel: Any = "rbf", degree: int = 3, gamma: Any = "scale", coef0: float = 0.0,
        tol: float = 1e-3, nu: float = 0.5, cache_size: float = 200,
        verbose: bool | int | str = False, max_iter: int = -1, random_state: Any = None,
        method: str = "auto", time_limit: float | None = None, n_jobs: int | None = None,
        warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.random_state = random_state
        self.method = method
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.callback = callback

    def _declare(self, gram: Any, weight: Vector) -> Formulation:
        share = weight / np.sum(weight)
        return SVDDDual(gram, share / self.nu)

    def _set_model(self, result: Result, samples: Samples, X: Any) -> float:
        model = result.model
        self.radius_, self.center_ = float(model.radius), model.center
        self.offset_, self._center_square = -(self.radius_**2), float(model.center_square)
        return 1.0

    @by_chunks
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the negative squared distances of new points from the center, shape (n,)."""
        X = self._new_points(X)
        if self.center_ is not None:
            return -square_distances(X, self.center_)
        products = self._products(X)
        squares = self._support_gram.norms(X) - 2.0 * products + self._center_square
        return -np.maximum(squares, 0.0)
