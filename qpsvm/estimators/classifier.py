"""The base of classifiers with a kernel: binary machines, their joint layout, and prediction."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from qpsvm.errors import InputError
from qpsvm.estimators.base import KernelEstimator, prediction_threads
from qpsvm.estimators.inputs.chunks import by_chunks, points_at
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.inputs.parameters import (
    CLASS_RULES,
    KERNEL_RULES,
    SHAPE_RULES,
    SOLVER_RULES,
    TRUE_OR_FALSE,
    Rules,
)
from qpsvm.estimators.inputs.samples import Indices, Samples, Vector, arranged, checked_weight
from qpsvm.estimators.training import Machine, Plan, Task, solve_tasks
from qpsvm.estimators.votes import by_graph, by_votes, pairs_of, scores
from qpsvm.gram import Cached
from qpsvm.gram.base import slices
from qpsvm.gram.storage.chunked import is_chunked

CLASSIFIER_RULES: Rules = {
    **KERNEL_RULES, **CLASS_RULES, **SHAPE_RULES, **SOLVER_RULES,
    "shrinking": (TRUE_OR_FALSE,), "probability": (TRUE_OR_FALSE,),
}  # fmt: skip
"""Parameters of classifiers with a kernel."""


MAX_POINTS_AT_ONCE = 1 << 14
"""New points whose sums over support vectors are in memory at a time."""

MAX_FOLDS = 5
"""Folds of the calibration; as many as the smallest class has points, if these are fewer."""


def encoded(y: Any, weight: Vector, class_weight: Any) -> tuple[Any, Vector, Indices]:
    """Return the classes of positive weight, their factors, and the code of each point.

    Raises
    ------
    InputError
        If there is one class only.
    """
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes = np.unique(y[weight > 0])
    if len(classes) < 2:
        if len(np.unique(y)) > 1:
            raise InputError(
                "Invalid input - all samples with positive weights belong to the same class."
            )
        raise InputError(
            f"The number of classes has to be greater than one; got {len(classes)} class"
        )
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if class_weight is None:
        return classes, np.ones(len(classes)), codes
    kept = weight > 0
    factors = compute_class_weight(
        class_weight, classes=classes, y=y[kept], **_weighted(class_weight, weight[kept])
    )
    return classes, np.asarray(factors, dtype=np.float64), codes


def _weighted(class_weight: Any, weight: Vector) -> dict[str, Any]:
    """Return the weights where classes are to be balanced by them, as repetitions would be."""
    is_needed = isinstance(class_weight, str) and not np.all(weight == 1.0)
    return {"sample_weight": weight} if is_needed else {}


def _has_probability(estimator: Any) -> bool:
    if not estimator.probability:
        raise AttributeError("predict_proba is not available when probability=False")
    return True


class KernelClassifier(ClassifierMixin, KernelEstimator):
    """A classifier of binary machines; a subclass declares the problem of one.

    Attributes that all have are described in `SVC`.
    """

    _rules: ClassVar[Rules] = CLASSIFIER_RULES
    multi_class: str
    decision_function_shape: str
    break_ties: bool
    C: float
    class_weight: Any
    n_jobs: int | None

    def _declare(self) -> Any:
        """Return the function that declares the problem of a Gram, labels and penalties."""
        raise NotImplementedError

    def _fitted(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit, with or without probabilities."""
        deadline = self._begin()
        probability = getattr(self, "probability", False)
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo":
            raise InputError("decision_function_shape must be 'ovr' when multi_class is 'ovr'")
        if probability:
            if is_chunked(X):
                raise InputError("probability must be False for chunked rows; got True")
            y = column_or_1d(y, warn=True)
            return self._fit_calibrated(X, y, sample_weight)
        X, y = self._validated(X, y)
        weight = checked_weight(sample_weight, X.shape[0])
        self.classes_, self.class_weight_, codes = encoded(y, weight, self.class_weight)
        by_points = not (isinstance(self.kernel, str) and self.kernel == "precomputed")
        samples = arranged(X, codes, weight, by_points=by_points)
        kernel = Kernel.of(self, samples.X, samples.weight)
        tasks = self._tasks(samples)
        chunked = is_chunked(samples.X)  # each problem is solved by all workers then
        n_tasks = 1 if chunked else len(tasks)
        plan = self._plan(kernel.gram(samples.X), self._declare(), deadline, n_tasks)
        machines = (self._solved_in_shards if chunked else self._solved_here)(plan, tasks)
        self._set_machines(samples, machines, X, kernel)
        self._remember([machine.terms for machine in machines], samples.rows)
        self._report([machine.result for machine in machines], single=False, stacklevel=6)
        return self

    def _solved_in_shards(self, plan: Plan, tasks: list[Task]) -> list[Machine]:
        """Return the machines of chunked points."""
        return solve_tasks(plan, tasks)

    def _solved_here(self, plan: Plan, tasks: list[Task]) -> list[Machine]:
        """Return the machines of points in this process."""
        if plan.n_workers == 1 and len(tasks) > 1 and self.multi_class == "ovr":
            gram = plan.points  # all problems have all points
            if gram.factor() is None:
                plan = plan._replace(points=Cached(gram, plan.options["memory_limit"]))
        return self._solved_on_matrix(plan, tasks) or solve_tasks(plan, tasks)

    def _solved_on_matrix(self, plan: Plan, tasks: list[Task]) -> list[Machine] | None:
        """Return the machines by another way than one `solve` for each; None where there is none."""
        return None

    def _penalties(self, samples: Samples) -> Vector:
        """Return the penalties of the points."""
        return np.asarray(self.C * samples.weight * self.class_weight_[samples.codes])

    def _tasks(self, samples: Samples) -> list[Task]:
        """Return the problems: one of two classes, one of each pair, or one of each class."""
        C, k = self._penalties(samples), len(self.classes_)
        points = [np.flatnonzero(samples.codes == code) for code in range(k)]
        names = [repr(name) for name in self.classes_.tolist()]
        if k == 2 or self.multi_class == "ovr":
            positive = [1] if k == 2 else list(range(k))
            starts = self._starts(len(positive))
            return [
                Task(
                    None,
                    np.where(samples.codes == own, 1.0, -1.0),
                    C,
                    start,
                    f"the classes {names[0]} and {names[1]}"
                    if k == 2
                    else f"class {names[own]} from the rest",
                )
                for own, start in zip(positive, starts, strict=True)
            ]
        tasks = []
        for (i, j), start in zip(pairs_of(k), self._starts(k * (k - 1) // 2), strict=True):
            rows = np.concatenate([points[i], points[j]])
            y = np.repeat([1.0, -1.0], [len(points[i]), len(points[j])])
            if is_chunked(samples.X):  # whose rows stay in their order
                order = np.argsort(rows)
                rows, y = rows[order], y[order]
            tasks.append(Task(rows, y, C[rows], start, f"the classes {names[i]} and {names[j]}"))
        return tasks

    def _set_machines(
        self, samples: Samples, machines: list[Machine], X: Any, kernel: Kernel
    ) -> None:
        """Set support vectors and coefficients in the layout of scikit-learn."""
        k, codes = len(self.classes_), samples.codes
        of_pairs = k > 2 and self.multi_class != "ovr"
        is_support = np.zeros(len(codes), bool)
        for machine in machines:
            is_support[machine.support] = True
        support = np.flatnonzero(is_support)
        support = support[np.lexsort((samples.rows[support], codes[support]))]
        position = np.zeros(len(codes), np.int64)
        position[support] = np.arange(len(support))
        dual = np.zeros((k - 1 if of_pairs else len(machines), len(support)))
        pairs = pairs_of(k)
        for number, machine in enumerate(machines):
            at = position[machine.support]
            if of_pairs:
                i, j = pairs[number]
                row = np.where(codes[machine.support] == i, j - 1, i)
                dual[row, at] = machine.coef
            else:
                dual[number, at] = machine.coef
        rows = samples.rows[support]
        self.support_ = rows.astype(np.int32)
        self.n_support_ = np.bincount(codes[support], minlength=k).astype(np.int32)
        vectors = np.empty((0, 0)) if kernel.is_precomputed else points_at(X, rows)
        sparse = sp.csr_array if isinstance(vectors, sp.sparray) else sp.csr_matrix
        self.support_vectors_ = vectors
        self.dual_coef_ = sparse(dual) if sp.issparse(vectors) else dual
        self.intercept_ = np.array([machine.b for machine in machines])
        self._normals = None
        if kernel.is_linear:
            self._normals = np.array([machine.w for machine in machines])
        self._keep(kernel, X.shape)

    @property
    def coef_(self) -> Any:
        """Normals of the machines, shape (n_machines, n_features), where the kernel is linear."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        assert self._normals is not None
        coef = self._normals.copy()
        coef.flags.writeable = False
        return sp.csr_matrix(coef) if sp.issparse(self.dual_coef_) else coef

    def _values(self, X: Any) -> NDArray[np.float64]:
        """Return the values of all machines at new points, shape (n, n_machines).

        Each support vector is evaluated once for all of them.
        """
        if self._normals is not None:
            with prediction_threads(X.shape[0] * X.shape[1], shares=False):
                return np.asarray(X @ self._normals.T, dtype=np.float64) + self.intercept_
        dual, k = self.dual_coef_, len(self.classes_)
        dual = dual.toarray() if sp.issparse(dual) else dual
        every = np.arange(dual.shape[1])
        if len(dual) == 1:
            return np.asarray(self._sums(X, every, dual[0])[:, None] + self.intercept_)
        if k == 2 or self.multi_class == "ovr":
            return np.asarray(self._sums(X, every, np.ascontiguousarray(dual.T)) + self.intercept_)
        ends = np.append(0, np.cumsum(self.n_support_))
        groups = [
            (every[ends[own] : ends[own + 1]], dual[:, ends[own] : ends[own + 1]].T)
            for own in range(k)
            if ends[own] < ends[own + 1]
        ]
        i, j = np.array(pairs_of(k)).T
        own, other = (
            (k - 1) * i + j - 1,
            (k - 1) * j + i,
        )  # a class counts the others without itself
        present = np.repeat(self.n_support_ > 0, k - 1)
        values = np.empty((len(i), X.shape[0]))
        for at in slices(X.shape[0], MAX_POINTS_AT_ONCE):
            sums = np.zeros((k * (k - 1), X[at].shape[0]))
            if groups:
                sums[present] = self._group_sums(X[at], groups)
            np.add(sums[own], sums[other], out=values[:, at])
        values += self.intercept_[:, None]
        return values.T

    @by_chunks
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the values of the machines, or scores of the classes.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
            Of a precomputed kernel the matrix k(new, training).

        Returns
        -------
        ndarray
            Of two classes the value of each point, positive for ``classes_[1]``, shape (n,). Of k
            classes, with ``decision_function_shape="ovr"`` the scores, shape (n, k); with ``"ovo"`` the
            values of the pairs, shape (n, k (k - 1) / 2), positive for the first class of a pair.
        """
        values, k = self._values(self._new_points(X)), len(self.classes_)
        if k == 2:
            return values[:, 0]
        is_scored = self.multi_class != "ovr" and self.decision_function_shape == "ovr"
        return scores(values, k) if is_scored else values

    @by_chunks
    def predict(self, X: Any) -> Any:
        """Return the classes of new points, shape (n,).

        One against one: the class of most votes, of several the first. With `break_ties` the class of
        the highest score. With ``multi_class="dag"`` the class that is left.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
        """
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise InputError("break_ties must be False when decision_function_shape is 'ovo'")
        values, k = self._values(self._new_points(X)), len(self.classes_)
        if k == 2:
            codes = (values[:, 0] > 0).astype(np.int64)
        elif self.multi_class == "ovr":
            codes = np.argmax(values, axis=1)
        elif self.multi_class == "dag":
            codes = by_graph(values, k)
        elif self.break_ties:
            codes = np.argmax(scores(values, k), axis=1)
        else:
            codes = by_votes(values, k)
        return self.classes_[codes]

    def _fit_calibrated(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit by scikit-learn's calibration; the machine fitted to all points becomes this one."""
        from sklearn.base import clone
        from sklearn.calibration import CalibratedClassifierCV

        plain = clone(self).set_params(probability=False)
        vars(plain).pop("_skl_callbacks", None)  # they are told of this fit, not of those in it
        n_folds = min(MAX_FOLDS, int(np.min(np.unique(y, return_counts=True)[1])))
        if n_folds < 2:
            raise InputError("probability=True needs at least 2 points of each class; got 1")
        calibrated = CalibratedClassifierCV(plain, ensemble=False, cv=n_folds)
        calibrated.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        fitted = calibrated.calibrated_classifiers_[0].estimator
        own = self.get_params(deep=False)
        self.__dict__.update({k: v for k, v in vars(fitted).items() if k not in own})
        self._calibrated = calibrated
        return self

    @available_if(_has_probability)
    @by_chunks
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities of the classes, shape (n, k), by scikit-learn's calibration.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
        """
        check_is_fitted(self)
        if not hasattr(self, "_calibrated"):
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False"
            )
        return np.asarray(self._calibrated.predict_proba(X))

    @available_if(_has_probability)
    @by_chunks
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of `predict_proba`, shape (n, k)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


def bound(declare: Any, **values: Any) -> Any:
    """Return a declaration with further arguments, which a process of its own can receive."""
    return partial(declare, **values)
