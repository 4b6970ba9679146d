"""Classifiers by the distance of two hulls: NuSVC and MaxMarginClassifier."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np

from qpsvm.domains.capped_simplex import SUM_TOLERANCE
from qpsvm.errors import InputError
from qpsvm.estimators.classifier import CLASSIFIER_RULES, KernelClassifier, bound
from qpsvm.estimators.inputs.parameters import NO_VALUE, Rules, number
from qpsvm.estimators.inputs.samples import Samples, Vector
from qpsvm.estimators.training import Machine, Plan, Task, solve_tasks
from qpsvm.formulations import Formulation, HingeDual, NuSVCDual, PolytopeDistanceDual

SHARE_RULE = number(0.0, 1.0, "(]")
"""What nu may be."""


def declare_distance(gram: Any, y: Any, C: Any, *, chi: float) -> Formulation:
    """Return the distance of two hulls; one penalty serves all points."""
    return PolytopeDistanceDual(gram, y, None if np.isinf(chi) else chi)


def declare_reduced(gram: Any, y: Vector, weight: Vector, *, nu: float) -> Formulation:
    """Return the distance of two reduced hulls; bounds that are too small are raised.

    Where the bounds 2 w_i / (nu sum w) of a class sum to less than 1, they are scaled to 1: its reduced
    hull is its mean. The bounds of the other class stay.
    """
    sums = {sign: float(np.sum(weight[y == sign])) for sign in (1.0, -1.0)}
    light = min(sums, key=lambda sign: sums[sign])
    half = 0.5 * nu * (sums[1.0] + sums[-1.0])
    if sums[light] < half:
        weight = np.where(y == light, weight / sums[light] * half, weight)
        nu = NuSVCDual.largest_nu(y, weight)
    return NuSVCDual(gram, y, nu, weight)


def declare_hinge(gram: Any, y: Vector, C: Vector) -> Formulation:
    """Return the C-SVM that a nu-SVM with factors of classes becomes."""
    return HingeDual(gram, y, C)


class HullClassifier(KernelClassifier):
    """A classifier of reduced hulls where nu is a number."""

    nu: float | None
    _fits_chunks: ClassVar[bool] = True

    def _penalties(self, samples: Samples) -> Vector:
        """Return the weights of the points, which their bounds are proportional to."""
        return super()._penalties(samples) if self.nu is None else samples.weight

    def _tasks(self, samples: Samples) -> list[Task]:
        """Return the problems with the factors of their classes, where these differ.

        Raises
        ------
        InputError
            If nu is infeasible for all of them. Where it is for some, a warning names these.
        """
        tasks = super()._tasks(samples)
        if self.nu is None:
            return tasks
        by_point = self.class_weight_[samples.codes]
        factors = [by_point if task.rows is None else by_point[task.rows] for task in tasks]
        self._check_share(tasks)
        return [
            task if np.ptp(factor) == 0.0 else task._replace(factors=factor)
            for task, factor in zip(tasks, factors, strict=True)
        ]

    def _check_share(self, tasks: list[Task]) -> None:
        assert self.nu is not None
        largest = [NuSVCDual.largest_nu(task.y, task.C) for task in tasks]
        wrong = [at for at, top in enumerate(largest) if self.nu > top * (1.0 + SUM_TOLERANCE)]
        if not wrong:
            return
        at = wrong[int(np.argmin([largest[at] for at in wrong]))]
        text = (
            f"specified nu is infeasible: it must be at most {largest[at]:.6g} for "
            f"{tasks[at].names}, twice the share of the smaller one; got {self.nu!r}"
        )
        if len(wrong) == len(tasks):
            raise InputError(text)
        warnings.warn(
            f"{text}. In {len(wrong)} of {len(tasks)} problems the reduced hull of the smaller one "
            "is its mean.",
            stacklevel=7,
        )

    def _solved_in_shards(self, plan: Plan, tasks: list[Task]) -> list[Machine]:
        """Return the machines of chunked points, with factors of classes as of other points."""
        return self._solved_on_matrix(plan, tasks) or solve_tasks(plan, tasks)

    def _solved_on_matrix(self, plan: Plan, tasks: list[Task]) -> list[Machine] | None:
        """Return the machines; with factors of classes those of the C-SVM of the same penalties.

        A nu-SVM is the C-SVM with C_i = upper_i / rho, and 1 / rho is the sum of its coefficients in
        either class. The factors multiply these C_i, divided by their mean.
        """
        if all(task.factors is None for task in tasks):
            return None
        first = [task if task.factors is None else task._replace(start=None) for task in tasks]
        machines, nu = solve_tasks(plan, first), float(self.nu or 0.0)
        again = [at for at, task in enumerate(tasks) if task.factors is not None]
        weighted = []
        for at in again:
            task, coef = tasks[at], machines[at].coef
            w, factors = task.C, np.asarray(task.factors)
            top = 2.0 * w / (nu * np.sum(w)) * float(np.sum(np.maximum(coef, 0.0)))
            weighted.append(task._replace(C=top * factors * (np.sum(w) / (w @ factors))))
        others = solve_tasks(plan._replace(declare=declare_hinge), weighted)
        for at, machine in zip(again, others, strict=True):
            machines[at] = machine
        return machines


class NuSVC(HullClassifier):
    """Nu-support vector classification with a certified duality gap.

    The parameters are those of ``sklearn.svm.NuSVC``, with the same defaults and meanings; those from
    `multi_class` on are further ones. Coefficients have the scale of LIBSVM: the margins are -1 and +1.

    Parameters
    ----------
    nu : float
        Upper bound on the share of margin errors and lower bound on that of support vectors, in (0, 1].
        It is infeasible above twice the share of the smaller class of a problem: an error, or a warning
        where other pairs of classes allow it; the reduced hull of the smaller class then is its mean.
    kernel, degree, gamma, coef0, shrinking, probability, tol, cache_size, verbose, max_iter
        As in `SVC`.
    class_weight : dict, "balanced" or None
        Factors of C by class, divided by their mean, where scikit-learn's NuSVC ignores them: nu settles
        the C of the same machine without them, and a second solve, of `HingeDual`, has theirs.
    decision_function_shape, break_ties, random_state, multi_class, method, time_limit, n_jobs
        As in `SVC`.
    warm_start, callback
        As in `SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, classes_, class_weight_
        As in `SVC`.
    n_iter_, fit_status_, shape_fit_, dual_gap_, objective_, status_, result_
        As in `SVC`, of `NuSVCDual`; with factors of classes of `HingeDual`.

    Raises
    ------
    InputError
        If a parameter or the data are malformed, nu is infeasible, or the reduced hulls of two classes
        intersect; a ValueError.

    Warns
    -----
    ConvergenceWarning
        Where a gap was not reached.

    Examples
    --------
    >>> from qpsvm import NuSVC
    >>> model = NuSVC().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
    >>> model.predict([[0.5], [4.5]]).tolist()
    ['a', 'b']
    """

    _rules: ClassVar[Rules] = {
        **{name: rule for name, rule in CLASSIFIER_RULES.items() if name != "C"},
        "nu": (SHARE_RULE,),
    }

    def __init__(
        self, *, nu: float = 0.5, kernel: Any = "rbf", degree: int = 3, gamma: Any = "scale",
        coef0: float = 0.0, shrinking: bool = True, probability: bool = False, tol: float = 1e-3,
        cache_size: float = 200, class_weight: Any = None, verbose: bool | int | str = False,
        max_iter: int = -1, decision_function_shape: str = "ovr", break_ties: bool = False,
        random_state: Any = None, multi_class: str = "ovo", method: str = "auto",
        time_limit: float | None = None, n_jobs: int | None = None, warm_start: bool = False,
        callback: Any = None,
    ) -> None:  # fmt: skip
        self.nu = nu
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
        self.multi_class = multi_class
        self.method = method
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.callback = callback

    def _declare(self) -> Any:
        return bound(declare_reduced, nu=self.nu)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to points and their classes.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, n_features)
            Of a precomputed kernel the kernel matrix, shape (m, m).
        y : array_like, shape (m,)
        sample_weight : array_like, shape (m,), optional
            Factors of the bounds by point; a whole one is the same as that many repetitions, 0 as none.

        Returns
        -------
        NuSVC
        """
        return self._fitted(X, y, sample_weight)

    def to_sklearn(self) -> Any:
        """Return a fitted ``sklearn.svm.NuSVC`` with the same decision function and predictions.

        Raises
        ------
        InputError
            If there is no such machine: ``multi_class="ovr"`` or ``"dag"`` of more than two classes.
        """
        from qpsvm.estimators.conversion import svc_to_sklearn

        return svc_to_sklearn(self)


class MaxMarginClassifier(HullClassifier):
    """The hyperplane midway between the closest points of the hulls of two classes.

    With a finite C the squares of the weights of both points are added, divided by 2 C, which allows
    points on the wrong side: `PolytopeDistanceDual` with chi = C. The function is scaled to +1 and -1 at
    the two closest points. With `nu` the hulls are reduced instead, until they no longer intersect:
    `NuSVCDual`, whose weights are at most 2 / (nu m); the function then is that of `NuSVC`. Parameters
    that `SVC` has too mean the same; weights of points have no meaning here.

    Parameters
    ----------
    C : float
        Penalty of the squared slacks, > 0; infinity for the hulls themselves, which must be disjoint.
        Without effect where `nu` is given.
    kernel, degree, gamma, coef0, tol, cache_size, verbose, max_iter
        As in `SVC`.
    decision_function_shape, break_ties, random_state, multi_class, method, time_limit, n_jobs
        As in `SVC`.
    warm_start, callback
        As in `SVC`.
    nu : float, optional
        As in `NuSVC`: the larger, the smaller the hulls.

    Attributes
    ----------
    margin_ : ndarray
        Distance of the two closest points in feature space, for each problem.

    Examples
    --------
    >>> from qpsvm import MaxMarginClassifier
    >>> model = MaxMarginClassifier(kernel="linear").fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    >>> model.predict([[2.0], [3.0]]).tolist()
    [0, 1]
    """

    _rules: ClassVar[Rules] = {
        **{
            name: rule for name, rule in CLASSIFIER_RULES.items()
            if name not in ("shrinking", "probability", "class_weight")
        },
        "nu": (SHARE_RULE, NO_VALUE),
    }  # fmt: skip
    class_weight: Any = None

    def __init__(
        self, *, C: float = 1.0, kernel: Any = "rbf", degree: int = 3, gamma: Any = "scale",
        coef0: float = 0.0, tol: float = 1e-3, cache_size: float = 200,
        verbose: bool | int | str = False, max_iter: int = -1,
        decision_function_shape: str = "ovr", break_ties: bool = False, random_state: Any = None,
        multi_class: str = "ovo", method: str = "auto", time_limit: float | None = None,
        n_jobs: int | None = None, warm_start: bool = False, callback: Any = None,
        nu: float | None = None,
    ) -> None:  # fmt: skip
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.cache_size = cache_size
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
        self.nu = nu

    def _declare(self) -> Any:
        if self.nu is None:
            return bound(declare_distance, chi=self.C)
        return bound(declare_reduced, nu=self.nu)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to points and their classes.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, n_features)
        y : array_like, shape (m,)

        Returns
        -------
        MaxMarginClassifier

        Raises
        ------
        InputError
            If C is infinite, or nu too small, and the hulls of two classes intersect; if nu is
            infeasible.
        """
        return self._fitted(X, y, None)

    def _set_machines(self, samples: Any, machines: Any, X: Any, kernel: Any) -> None:
        super()._set_machines(samples, machines, X, kernel)
        if self.nu is not None:  # the values are half the squared distances
            values = np.array([machine.result.value for machine in machines])
            self.margin_ = np.sqrt(np.maximum(2.0 * values, 0.0))
            return
        sums = [float(np.sum(np.abs(machine.coef))) for machine in machines]
        # the weights of each hull sum to 1 before they are divided by half the squared distance
        self.margin_ = np.array([2.0 / np.sqrt(total) if total > 0 else 0.0 for total in sums])
