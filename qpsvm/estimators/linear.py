"""Linear classifiers in the space of the points."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from qpsvm.errors import InputError
from qpsvm.estimators.base import Estimator, prediction_threads
from qpsvm.estimators.classifier import encoded
from qpsvm.estimators.inputs.chunks import by_chunks
from qpsvm.estimators.inputs.parameters import (
    CLASS_RULES,
    SOLVER_RULES,
    TRUE_OR_FALSE,
    Rules,
    among,
    instance,
    number,
)
from qpsvm.estimators.inputs.samples import arranged, checked_weight, divided, with_constant
from qpsvm.estimators.training import Machine, Task, solve_tasks
from qpsvm.formulations import Formulation, HingeDual, L2SVMDual, LPSVMPrimal
from qpsvm.gram import Linear
from qpsvm.gram.storage.chunked import is_chunked


def declare_linear(
    X: Any, y: Any, C: Any, *, penalty: str, loss: str, bias: bool, scaling: float
) -> Formulation:
    """Return the problem of points that are scaled or extended already: see `LinearSVC`."""
    if penalty == "l1":
        return LPSVMPrimal(X, y, C, bias=bias)
    if loss == "hinge":
        return HingeDual(Linear(X), y, C, bias=bias)
    return L2SVMDual(Linear(X), y, 2.0 * C * scaling**2, bias=bias)


class LinearClassifier(ClassifierMixin, Estimator):
    """A classifier of normals and biases."""

    coef_: Any
    intercept_: NDArray[np.float64]
    n_jobs: int | None
    class_weight: Any
    C: float

    def __sklearn_tags__(self) -> Any:
        """Say that sparse points are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solved(self, plan: Any, samples: Any, *, weighs_rest: bool) -> list[Machine]:
        """Solve the problem of two classes, or that of each class against the rest.

        Unless `weighs_rest`, the weight of a class counts in its own problem alone.
        """
        k, C = len(self.classes_), self.C * samples.weight
        weighted = C * self.class_weight_[samples.codes]
        positive = [1] if k == 2 else list(range(k))
        starts = self._starts(len(positive))
        tasks = [
            Task(
                None,
                np.where(samples.codes == own, 1.0, -1.0),
                weighted if weighs_rest or k == 2 else np.where(samples.codes == own, weighted, C),
                start,
                f"class {self.classes_[own]!r} from the rest",
            )
            for own, start in zip(positive, starts, strict=True)
        ]
        return solve_tasks(plan, tasks)

    @by_chunks
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return w'x + b: shape (n,) of two classes, positive for ``classes_[1]``; else (n, n_classes).

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with prediction_threads(X.shape[0] * X.shape[1], shares=False):
            products = X @ self.coef_.T
        products = products.toarray() if sp.issparse(products) else products
        values = np.asarray(products, dtype=np.float64) + self.intercept_
        return values[:, 0] if self.coef_.shape[0] == 1 else values

    @by_chunks
    def predict(self, X: Any) -> Any:
        """Return the classes of new points, shape (n,): those of the greatest value.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
        """
        values = self.decision_function(X)
        codes = (values > 0).astype(np.int64) if values.ndim == 1 else np.argmax(values, axis=1)
        return self.classes_[codes]


class LinearSVC(LinearClassifier):
    """Linear support vector classification with a certified duality gap, one class against the rest.

    The parameters are those of ``sklearn.svm.LinearSVC``, whose problem is solved; those from
    `cache_size` on are further ones.

    Parameters
    ----------
    penalty : {"l2", "l1"}
        1/2 |w|^2, or the sum of |w_j| with ``loss="hinge"`` (`LPSVMPrimal`). scikit-learn has the
        l1 norm with the squared hinge alone, which is not offered here.
    loss : {"squared_hinge", "hinge"}
        C max(0, 1 - y f)^2 or C max(0, 1 - y f).
    dual : "auto" or bool
        Accepted for compatibility, without effect: the method decides.
    tol : float
        Certified relative gap of each problem, in (0, 1].
    C : float
        Penalty of the loss, > 0 and finite.
    multi_class : {"ovr"}
        One class against the rest; "crammer_singer" is not offered.
    fit_intercept : bool
        Whether there is a b; otherwise it is 0.
    intercept_scaling : float
        As in scikit-learn b counts in the penalty as b / intercept_scaling does as an entry of w.
        Infinity leaves it free, with the hinge loss.
    class_weight : dict, "balanced" or None
        Factors of C by class; of more than two classes, as in LIBLINEAR, that of a class counts in its
        own problem, and the rest there has the factor 1.
    verbose, random_state
        As in `SVC`.
    max_iter : int
        As in `SVC`: -1, not 1000 as in scikit-learn, whose iterations are other ones.
    cache_size, method, time_limit, n_jobs, warm_start, callback
        As in `SVC`.

    Attributes
    ----------
    coef_ : ndarray, shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray, shape (1,) or (n_classes,)
    classes_, class_weight_, n_features_in_, feature_names_in_
        As in scikit-learn.
    n_iter_ : int
        Most iterations of a problem.
    dual_gap_, objective_, status_, fit_status_, result_
        As in `SVC`; of `L2SVMDual`, `HingeDual` or `LPSVMPrimal`.

    Raises
    ------
    InputError
        If a parameter or the data are malformed; a ValueError.

    Warns
    -----
    ConvergenceWarning
        Where a gap was not reached.

    Examples
    --------
    >>> from qpsvm import LinearSVC
    >>> model = LinearSVC().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
    >>> model.predict([[0.5], [4.5]]).tolist()
    ['a', 'b']
    """

    _rules: ClassVar[Rules] = {
        **SOLVER_RULES,
        **CLASS_RULES,
        "C": (number(0.0, ends="()"),),
        "penalty": (among("l1", "l2"),),
        "loss": (among("hinge", "squared_hinge"),),
        "dual": (among("auto"), TRUE_OR_FALSE),
        "multi_class": (among("ovr"),),
        "fit_intercept": (TRUE_OR_FALSE,),
        "intercept_scaling": (number(0.0, ends="(]"),),
        "class_weight": (among("balanced"), instance((dict, type(None)), "a dict or None")),
    }
    _fits_chunks: ClassVar[bool] = True

    def __init__(
        self, penalty: str = "l2", loss: str = "squared_hinge", *, dual: Any = "auto",
        tol: float = 1e-4, C: float = 1.0, multi_class: str = "ovr", fit_intercept: bool = True,
        intercept_scaling: float = 1, class_weight: Any = None, verbose: bool | int | str = 0,
        random_state: Any = None, max_iter: int = -1, cache_size: float = 200,
        method: str = "auto", time_limit: float | None = None, n_jobs: int | None = None,
        warm_start: bool = False, callback: Any = None,
    ) -> None:  # fmt: skip
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.cache_size = cache_size
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
            Factors of C by point; a whole one is the same as that many repetitions, 0 as none.

        Returns
        -------
        LinearSVC
        """
        deadline = self._begin()
        squared = self.penalty == "l2" and self.loss == "squared_hinge"
        if self.penalty == "l1" and self.loss != "hinge":
            raise InputError(
                "Unsupported set of arguments: the combination of penalty='l1' and "
                "loss='squared_hinge' is not supported; penalty='l1' goes with loss='hinge'"
            )
        if squared and np.isinf(self.intercept_scaling):
            raise InputError(
                "Unsupported set of arguments: intercept_scaling must be finite when "
                "loss='squared_hinge'; loss='hinge' allows a free bias"
            )
        X, y = self._validated(X, y)
        weight = checked_weight(sample_weight, X.shape[0])
        self.classes_, self.class_weight_, codes = encoded(y, weight, self.class_weight)
        samples = arranged(X, codes, weight, by_points=True)
        scaling = float(self.intercept_scaling) if self.fit_intercept else 1.0
        extends = self.fit_intercept and not squared and np.isfinite(scaling)
        points, factor = samples.X, 1.0
        if extends:
            points = with_constant(points, scaling)
        elif squared and scaling != 1.0:
            points, factor = divided(points, scaling), 1.0 / scaling
        bias = bool(self.fit_intercept) and not extends
        declare = partial(
            declare_linear, penalty=self.penalty, loss=self.loss, bias=bias, scaling=scaling
        )
        n_tasks = 1 if is_chunked(points) else len(self.classes_)
        plan = self._plan(points, declare, deadline, n_tasks)
        machines = self._solved(plan, samples, weighs_rest=False)
        W = np.array([machine.w for machine in machines], dtype=np.float64)
        b = np.array([machine.b for machine in machines])
        self.coef_ = np.ascontiguousarray(W[:, :-1]) if extends else factor * W
        self.intercept_ = scaling * W[:, -1] if extends else b
        divisor = scaling if squared and scaling != 1.0 else None
        self._remember(
            [machine.terms for machine in machines],
            samples.rows,
            constant=scaling if extends else None,
            divisor=divisor,
            dtype=X.dtype,
        )
        self._report([machine.result for machine in machines], single=False)
        self.n_iter_ = int(np.max(self.n_iter_))
        return self

    def sparsify(self) -> Self:
        """Store `coef_` as a sparse matrix."""
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Store `coef_` as an array again."""
        check_is_fitted(self)
        self.coef_ = self.coef_.toarray() if sp.issparse(self.coef_) else self.coef_
        return self

    def to_sklearn(self) -> Any:
        """Return a fitted ``sklearn.svm.LinearSVC`` with the same decision function."""
        from qpsvm.estimators.conversion import linear_to_sklearn

        return linear_to_sklearn(self)
