"""Binary problems of a fit: declared, solved side by side, and read as coefficients.

A task says which points of a common Gram it needs, so that threads share them, and a joblib backend of
processes ships or maps them once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.api import solve
from qpsvm.clock import Clock, call_clock
from qpsvm.distributed.recognition import chunked_kernel
from qpsvm.errors import InputError
from qpsvm.estimators.inputs.chunks import gram_at
from qpsvm.expansion import Expansion
from qpsvm.formulations import Formulation, HingeDual, LPSVMPrimal
from qpsvm.formulations.base import MarginFormulation
from qpsvm.gram import Gram
from qpsvm.models import ClosestPoints, ReducedHulls
from qpsvm.resources import processors
from qpsvm.result import Result, Status

Vector = NDArray[np.float64]
Declare = Callable[[Any, Vector, Vector], Formulation]


BOUND_SHARE_OF_GAP = 0.1
"""Distance to a bound, relative to the upper one and to the gap asked for, that counts as none."""

INTERRUPT_EFFECT: ContextVar[str] = ContextVar("qpsvm_interrupt_effect", default="raise")
"""What Ctrl-C does to a fit: the argument `interrupt` of `solve`."""


@contextmanager
def returning_answers() -> Iterator[Clock]:
    """Let the first Ctrl-C inside the ``with`` block end a fit with the answers so far.

    In place of `Interrupted`, the estimator is fitted: by what the problem that is being solved has come
    to, and by the starting points of those after it. The clock says whether Ctrl-C was pressed.
    """
    clock, before = Clock(None, call_clock()), INTERRUPT_EFFECT.set("return")
    try:
        with clock.listening(), clock.limiting_calls():
            yield clock
    finally:
        INTERRUPT_EFFECT.reset(before)


class Terms(NamedTuple):
    """A declared problem without its points: what a result file needs to check the answer again."""

    formulation: str
    values: dict[str, Any]
    """Its fields besides the points: labels, penalties, parameters."""
    by_coefficients: bool
    """Whether w of a primal problem is given by coefficients of the points."""
    rows: NDArray[np.int64] | None = None
    """Its points among those of the fit; None for all."""

    @classmethod
    def of(cls, problem: Any, rows: NDArray[np.int64] | None = None) -> Terms:
        """Return the terms of a formulation, whose first field has the points."""
        values = {f.name: getattr(problem, f.name) for f in fields(problem)[1:]}
        by_coefficients = False
        if isinstance(problem, LPSVMPrimal):
            by_coefficients = isinstance(problem.X, Gram)
        elif isinstance(problem, MarginFormulation):
            by_coefficients = problem.gram.factor() is None
        return cls(type(problem).__name__, values, by_coefficients, rows)


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
    terms: Terms


class Task(NamedTuple):
    """A problem between two classes, or between one and the rest."""

    rows: NDArray[np.int64] | None
    """Points of the problem; None for all."""
    y: Vector
    """Their labels."""
    C: Vector
    """Their penalties."""
    start: Any
    """The variable of an earlier answer, or None."""
    names: str
    """The classes, for messages."""
    factors: Vector | None = None
    """Factors of the penalties by class, where a method counts them apart."""


class Plan(NamedTuple):
    """What the problems of a fit share."""

    points: Any
    """A Gram of all points, or the points themselves."""
    declare: Declare
    options: dict[str, Any]
    deadline: float | None
    """Time of the clock at which the fit is to end, or None."""
    n_jobs: int | None
    """As the user set it."""
    n_workers: int
    """Problems that are solved at a time."""


def solve_task(plan: Plan, task: Task) -> Machine:
    """Solve one problem, on all points or on those of its classes."""
    points = plan.points if task.rows is None else gram_at(plan.points, task.rows)
    problem = plan.declare(points, task.y, task.C)
    limit = None if plan.deadline is None else max(0.0, plan.deadline - time.time())
    chunked = chunked_kernel(problem) is not None
    starts = task.start is not None and not chunked and _fits(task.start, problem, len(task.C))
    x0 = task.start if starts else None
    result = solve(problem, x0=x0, time_limit=limit, **plan.options)
    machine = _machine(result, task, Terms.of(problem, task.rows))
    if isinstance(problem, HingeDual) and problem.bias and not chunked:
        b = middle_bias(problem, result)
        machine = machine if b is None else machine._replace(b=b)
    return machine


def middle_bias(problem: HingeDual, result: Result) -> float | None:
    """Return the middle of the optimal biases, as LIBSVM does, or None where only one is optimal.

    An interval is optimal where all weights are at their bounds, up to a tenth of the gap asked for.
    """
    a, C, y = result.x, problem.C, problem.y
    near = BOUND_SHARE_OF_GAP * result.certificate.tol
    at_zero, at_top = a <= near * C, a >= (1.0 - near) * C
    if not np.all(at_zero | at_top) or np.isinf(C).any():
        return None
    # y f = 1 at these biases
    return middle_between(y - problem.K.dot(y * a), (y > 0) == at_zero)


def middle_between(bounds: Vector, from_below: Any) -> float | None:
    """Return the middle of the interval that bounds from below and from above leave, if it is finite."""
    low = float(np.max(bounds[from_below], initial=-np.inf))
    high = float(np.min(bounds[~from_below], initial=np.inf))
    return 0.5 * (low + high) if -np.inf < low <= high < np.inf else None


def _fits(start: Vector, problem: Any, m: int) -> bool:
    """Return whether an earlier variable has the length of this problem's."""
    if hasattr(problem, "K"):
        return len(start) == m
    X = problem.X
    return len(start) == (m if isinstance(X, Gram) else X.shape[1]) + bool(problem.bias)


def _machine(result: Result, task: Task, terms: Terms) -> Machine:
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
    if separable is False and isinstance(model, ReducedHulls):
        raise InputError(f"the reduced hulls of {task.names} intersect: a larger nu separates them")
    if separable is False:
        raise InputError(
            f"no hyperplane separates {task.names}: a finite C allows points on the wrong side"
        )
    support = indices if task.rows is None else task.rows[indices]
    return Machine(support, coef, b, w, light(result), terms)


def light(result: Result) -> Result:
    """Return a result without its model, which holds copies of points."""
    return replace(result, model=None)


def solve_tasks(plan: Plan, tasks: list[Task]) -> list[Machine]:
    """Solve problems one after the other, or by the backend of joblib that is configured.

    The threads of this process then are shared out among the problems.
    """
    if plan.n_workers > 1:
        from sklearn.utils.parallel import Parallel, delayed
        from threadpoolctl import threadpool_limits

        run = Parallel(n_jobs=plan.n_jobs, prefer="threads")
        with threadpool_limits(max(1, processors() // plan.n_workers), user_api="blas"):
            return list(run(delayed(solve_task)(plan, task) for task in tasks))
    return [solve_task(plan, task) for task in tasks]


def warn_of_gaps(results: list[Result], tol: float, max_iter: int, stacklevel: int) -> None:
    """Warn where a gap was not reached: how large it is, why, and what to do."""
    from sklearn.exceptions import ConvergenceWarning

    missed = [result for result in results if result.status is not Status.OPTIMAL]
    if not missed:
        return
    worst = max(missed, key=lambda result: result.certificate.relative_gap)
    of = "" if len(results) == 1 else f" in {len(missed)} of {len(results)} problems"
    early = worst.status is Status.MAX_ITER and max_iter >= 0
    begin = f"Solver terminated early (max_iter={max_iter}).  {EARLY_ADVICE} " if early else ""
    warnings.warn(
        f"{begin}The certified relative gap is {worst.certificate.relative_gap:.2g}, "
        f"above tol={tol:g}{of}; "
        f"{worst.status.value}. {ADVICE_BY_STATUS.get(worst.status, DEFAULT_ADVICE)}",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


EARLY_ADVICE = "Consider pre-processing your data with StandardScaler or MinMaxScaler."
"""What scikit-learn says where `max_iter` ends a fit, which filters of warnings may name."""

DEFAULT_ADVICE = "Scale the data with StandardScaler or MinMaxScaler, or increase tol."
"""What a warning says to do."""

ADVICE_BY_STATUS = {
    Status.MAX_ITER: "Increase max_iter, or scale the data.",
    Status.TIME_LIMIT: "Increase time_limit or tol.",
    Status.CLUSTER_LOST: "Fit again on another cluster.",
    Status.NONCONVEX: "Another kernel, or other parameters of it, make the problem convex.",
}
"""What it says where a status has a remedy of its own."""
