"""Binary problems of a fit: declared, solved side by side, and read as coefficients.

A task holds the points of all classes by reference and the spans that it needs, so that threads share
them, and a joblib backend of processes ships or maps them once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.api import solve
from qpsvm.errors import InputError
from qpsvm.formulations import Formulation
from qpsvm.gram import Gram
from qpsvm.models import ClosestPoints, Expansion
from qpsvm.result import Result, Status

Vector = NDArray[np.float64]
Declare = Callable[[Any, Vector, Vector], Formulation]


class Span(NamedTuple):
    """Points of one class in a problem, and their label."""

    rows: slice
    label: float


class Machine(NamedTuple):
    """A solved problem, without its points."""

    support: NDArray[np.int64]
    """Support vectors among the points of the fit."""
    coef: Vector
    """Coefficients of their kernel values, shape (len(support),)."""
    b: float
    w: Vector | None
    """The normal, where it is a vector of features."""
    result: Result


class Task(NamedTuple):
    """A problem between two classes, or between one and the rest."""

    spans: tuple[Span, ...]
    C: Vector
    """Penalties of the points of the spans."""
    start: Any
    """The variable of an earlier answer, or None."""
    names: str
    """The classes, for messages."""


class Plan(NamedTuple):
    """What the problems of a fit share."""

    X: Any
    gram: Callable[[Any], Any]
    """Makes a Gram of points, or leaves them as they are."""
    declare: Declare
    options: dict[str, Any]
    deadline: float | None
    """Time of the clock at which the fit is to end, or None."""
    by_points: bool
    """Whether X holds points; otherwise it is a kernel matrix."""


def solve_task(plan: Plan, task: Task, shared: Any = None) -> Machine:
    """Solve one problem; `shared` is the Gram of all points where the problem has them all."""
    gram = plan.gram(_points(plan, task.spans)) if shared is None else shared
    m = gram.m if isinstance(gram, Gram) else gram.shape[0]
    y = np.concatenate(
        [np.full(span.rows.stop - span.rows.start, span.label) for span in task.spans]
    )
    problem = plan.declare(gram, y, task.C)
    limit = None if plan.deadline is None else max(0.0, plan.deadline - time.time())
    x0 = task.start if task.start is not None and _fits(task.start, problem, m) else None
    result = solve(problem, x0=x0, time_limit=limit, interrupt="raise", **plan.options)
    return _machine(result, task)


def _points(plan: Plan, spans: tuple[Span, ...]) -> Any:
    """Return the points of the spans: a view where they are neighbors."""
    X = plan.X
    if all(a.rows.stop == b.rows.start for a, b in pairwise(spans)):
        at = slice(spans[0].rows.start, spans[-1].rows.stop)
        if at == slice(0, X.shape[0]):
            return X
        return X[at] if plan.by_points else X[at, at]
    if not plan.by_points:
        rows = np.concatenate([np.arange(span.rows.start, span.rows.stop) for span in spans])
        return X[np.ix_(rows, rows)]
    parts = [X[span.rows] for span in spans]
    return sp.vstack(parts, format="csr") if sp.issparse(X) else np.concatenate(parts)


def _fits(start: Vector, problem: Any, m: int) -> bool:
    """Return whether an earlier variable has the length of this problem's."""
    if hasattr(problem, "K"):
        return len(start) == m
    X = problem.X
    return len(start) == (m if isinstance(X, Gram) else X.shape[1]) + bool(problem.bias)


def _machine(result: Result, task: Task) -> Machine:
    """Return the coefficients of an answer, and the answer without its model."""
    model = result.model
    if isinstance(model, ClosestPoints):
        separable = None if model.hulls_intersect is None else not model.hulls_intersect
        indices = np.concatenate([model.u.indices, model.v.indices])
        coef = np.concatenate([model.u.coef, -model.v.coef])
        scale = 2.0 / model.distance**2 if model.distance > 0 else 1.0
        coef, b, w = scale * coef, scale * model.b, None if model.w is None else scale * model.w
    else:
        separable, expansion = model.separable, model.expansion
        b, w = model.b, model.w
        if isinstance(expansion, Expansion):
            indices, coef = expansion.indices, expansion.coef
            w = expansion.features if w is None else w
        else:
            w = expansion.features if w is None else w
            indices, coef = np.zeros(0, np.int64), np.zeros(0)
    if separable is False:
        raise InputError(
            f"no hyperplane separates {task.names}: a finite C allows points on the wrong side"
        )
    rows = np.concatenate([np.arange(span.rows.start, span.rows.stop) for span in task.spans])
    return Machine(rows[indices], coef, b, w, light(result))


def light(result: Result) -> Result:
    """Return a result without its model, which holds copies of points."""
    return replace(result, model=None)


def solve_tasks(plan: Plan, tasks: list[Task], n_jobs: int | None, shared: Any) -> list[Machine]:
    """Solve problems one after the other, or by the backend of joblib that is configured."""
    if len(tasks) > 1:
        from joblib import effective_n_jobs

        if effective_n_jobs(n_jobs) > 1:
            from sklearn.utils.parallel import Parallel, delayed

            run = Parallel(n_jobs=n_jobs, prefer="threads")
            return list(run(delayed(solve_task)(plan, task, shared) for task in tasks))
    return [solve_task(plan, task, shared) for task in tasks]


def warn_of_gaps(results: list[Result], tol: float) -> None:
    """Warn where a gap was not reached: how large it is, why, and what to do."""
    from sklearn.exceptions import ConvergenceWarning

    missed = [result for result in results if result.status is not Status.OPTIMAL]
    if not missed:
        return
    worst = max(missed, key=lambda result: result.certificate.relative_gap)
    of = "" if len(results) == 1 else f" in {len(missed)} of {len(results)} problems"
    warnings.warn(
        f"The certified relative gap is {worst.certificate.relative_gap:.2g}, above tol={tol:g}{of}; "
        f"{worst.status.value}. {ADVICE_BY_STATUS.get(worst.status, DEFAULT_ADVICE)}",
        ConvergenceWarning,
        stacklevel=4,
    )


DEFAULT_ADVICE = "Scale the data with StandardScaler or MinMaxScaler, or increase tol."
"""What a warning says to do."""

ADVICE_BY_STATUS = {
    Status.MAX_ITER: "Increase max_iter, or scale the data with StandardScaler or MinMaxScaler.",
    Status.TIME_LIMIT: "Increase time_limit or tol.",
    Status.NONCONVEX: "Another kernel, or other parameters of it, make the problem convex.",
}
"""What it says where a status has a remedy of its own."""
