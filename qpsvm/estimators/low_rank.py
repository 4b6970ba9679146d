"""A classifier on a low-rank approximation of the kernel."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from qpsvm.estimators.base import prediction_threads
from qpsvm.estimators.classifier import encoded
from qpsvm.estimators.inputs.chunks import by_chunks
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.inputs.parameters import (
    ANY_CALLABLE,
    CLASS_RULES,
    KERNEL_RULES,
    NO_VALUE,
    SOLVER_RULES,
    Rules,
    among,
    number,
)
from qpsvm.estimators.inputs.samples import arranged, checked_weight
from qpsvm.estimators.linear import LinearClassifier, declare_linear
from qpsvm.gram import LowRank
from qpsvm.gram.lowrank import APPROXIMATION_METHODS
from qpsvm.gram.model_features import LandmarkMap


class NystroemSVC(LinearClassifier):
    """Support vector classification with a low-rank kernel, one class against the rest.

    A factor V of K ~ V V' is computed once for all classes; each problem is a linear one in the rows of
    V. It is ``make_pipeline(Nystroem(), LinearSVC(loss="hinge"))`` in one step, with a free bias. The gap
    is that of the problem with V V' in place of K.

    Parameters
    ----------
    C : float
        Penalty of the slacks, > 0.
    kernel, degree, gamma, coef0
        As in `SVC`, without ``"precomputed"``.
    rank : int, optional
        Most columns of V; None for 256, or for as many as there are points.
    approximation : str
        As `method` of `LowRank`: ``"rpcholesky"``, ``"pivoted-cholesky"``, ``"nystrom"``,
        ``"nystrom-kmeans"``, ``"nystrom-leverage"`` or ``"eigen"``.
    loss : {"hinge", "squared_hinge"}
        As in `SVC`.
    random_state : int, RandomState instance or None
        Seed of the approximation; None stands for 0.
    tol, cache_size, class_weight, verbose, max_iter, method, time_limit, n_jobs, warm_start, callback
        As in `SVC`.

    Attributes
    ----------
    coef_ : ndarray, shape (1, r) or (n_classes, r)
        Normals in the space of the features, r being the rank that was reached.
    intercept_ : ndarray, shape (1,) or (n_classes,)
    components_ : ndarray or sparse matrix, shape (n_landmarks, n_features)
        Landmarks: features of z are ``k(z, components_) @ normalization_``.
    normalization_ : ndarray, shape (n_landmarks, r)
    relative_trace_error_ : float
        trace(K - V V') / trace(K).
    n_iter_ : int
        Most iterations of a problem.
    classes_, class_weight_, n_features_in_, dual_gap_, objective_, status_, fit_status_, result_
        As in `SVC`.

    Examples
    --------
    >>> from qpsvm import NystroemSVC
    >>> model = NystroemSVC(rank=2).fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
    >>> model.predict([[0.5], [4.5]]).tolist()
    ['a', 'b']
    """

    _rules: ClassVar[Rules] = {
        **SOLVER_RULES,
        **KERNEL_RULES,
        **CLASS_RULES,
        "kernel": (among("linear", "poly", "rbf", "sigmoid", "laplacian"), ANY_CALLABLE),
        "rank": (number(1, integer=True), NO_VALUE),
        "approximation": (among(*APPROXIMATION_METHODS),),
        "loss": (among("hinge", "squared_hinge"),),
    }
    _derived = ("_features",)

    def __init__(
        self, *, C: float = 1.0, kernel: Any = "rbf", degree: int = 3, gamma: Any = "scale",
        coef0: float = 0.0, rank: int | None = None, approximation: str = "rpcholesky",
        loss: str = "hinge", tol: float = 1e-3, cache_size: float = 200, class_weight: Any = None,
        verbose: bool | int | str = False, max_iter: int = -1, random_state: Any = None,
        method: str = "auto", time_limit: float | None = None, n_jobs: int | None = None,
        warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.rank = rank
        self.approximation = approximation
        self.loss = loss
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.random_state = random_state
        self.method = method
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to points and their classes.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, n_features)
        y : array_like, shape (m,)
        sample_weight : array_like, shape (m,), optional
            Factors of C by point.

        Returns
        -------
        NystroemSVC
        """
        deadline = self._begin()
        X, y = self._validated(X, y)
        weight = checked_weight(sample_weight, X.shape[0])
        self.classes_, self.class_weight_, codes = encoded(y, weight, self.class_weight)
        samples = arranged(X, codes, weight, by_points=True)
        kernel = Kernel.of(self, samples.X, samples.weight)
        seed = self._options()["seed"]
        low = LowRank(kernel.gram(samples.X), self.rank, None, self.approximation, seed)
        kept: Any = low.own(np.zeros(0, np.int64))
        self._kernel, self._gamma = kernel, kernel.gamma
        self.components_, self.normalization_ = kept.landmarks.X, kept.W
        self.relative_trace_error_: float = low.relative_trace_error  # type: ignore[attr-defined]
        self._features = LandmarkMap(kept.landmarks, kept.W)
        declare = partial(declare_linear, penalty="l2", loss=self.loss, bias=True, scaling=1.0)
        plan = self._plan(low.factor(), declare, deadline, len(self.classes_))
        machines = self._solved(plan, samples, weighs_rest=True)
        self.coef_ = np.array([machine.w for machine in machines], dtype=np.float64)
        self.intercept_ = np.array([machine.b for machine in machines])
        self._remember([machine.terms for machine in machines], samples.rows)
        self._report([machine.result for machine in machines], single=False)
        self.n_iter_ = int(np.max(self.n_iter_))
        return self

    @by_chunks
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return w'(features of x) + b, in the shapes of `LinearSVC.decision_function`."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if "_features" not in vars(self):
            self._features = LandmarkMap(self._kernel.gram(self.components_), self.normalization_)
        single = len(self.coef_) == 1
        with prediction_threads(0, shares=True):
            values = self._features.values(X, self.coef_[0] if single else self.coef_.T)
        return values + (self.intercept_[0] if single else self.intercept_)
