"""The machines of pairs of classes, each on the kernel matrix of its points."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.clock import Clock, Expired, call_clock
from qpsvm.errors import Interrupted
from qpsvm.estimators.training import Machine, Plan, Task, Terms, solve_task
from qpsvm.gram import Gram
from qpsvm.gram.engine.matrices import entry_error, matrix_of
from qpsvm.gram.psd import psd_defect
from qpsvm.numerics.parallel import parallel_for, scratch
from qpsvm.result import Certificate, History, Result, Status, passed_test
from qpsvm.solvers.working_set.matrix_paths import SubsetPath, chunks_of, hinge_path

MAX_PAIR_POINTS = 2000
"""Maximum number of points of a pair whose matrix is computed, 32 MB; `solve` computes some columns of a
larger one."""

LOCAL_BACKENDS = ("ThreadingBackend", "LokyBackend", "MultiprocessingBackend", "SequentialBackend")
"""Backends of joblib that use this machine alone; its threads then solve the pairs."""

ONE_PENALTY = np.ones(1)
"""Penalty of a path: the penalties of the points are their weights."""


def solve_pairs(plan: Plan, tasks: list[Task]) -> list[Machine] | None:
    """Return the hinge machines of pairs of classes; None where `solve` suits all of them better.

    That is where an option of `solve` is used, the kernel has a factor, or no gap could be proved because
    K is not positive semidefinite. A pair of many points is solved by `solve`, and so is one whose gap
    was not reached.

    Raises
    ------
    Interrupted
        On Ctrl-C, unless the options say that answers so far are returned.
    """
    gram, tol = plan.points, plan.options["tol"]
    sizes = [len(task.C) for task in tasks]
    small = [k for k, n in enumerate(sizes) if n <= MAX_PAIR_POINTS]
    is_suited = len(tasks) > 1 and small and _is_plain(plan, tasks)
    if not is_suited or psd_defect(gram) > 0.0:
        return None
    error = entry_error(gram)
    machines: list[Machine | None] = [None] * len(tasks)

    def solve_chunk(chunk: list[int]) -> None:
        for k in [small[number] for number in chunk]:
            begun, task, n = time.perf_counter(), tasks[k], sizes[k]
            with scratch(n * n, np.float64) as memory:
                matrix = memory.reshape(n, n)
                matrix_of(gram, _rows(task), matrix)
                path = hinge_path(matrix, task.y, task.C, ONE_PENALTY, tol, error)
            machines[k] = _machine(task, path, tol, time.perf_counter() - begun)

    clock = Clock(None, call_clock())
    with clock.listening():
        try:
            with clock.abandoning():
                parallel_for(solve_chunk, chunks_of([sizes[k] for k in small]))
        except Expired:
            if plan.options["interrupt"] == "raise":
                raise Interrupted(None) from None
    return [
        solve_task(plan, task) if machine is None else machine
        for task, machine in zip(tasks, machines, strict=True)
    ]


def _is_plain(plan: Plan, tasks: list[Task]) -> bool:
    """Return whether nothing is asked for that only `solve` does."""
    options, gram = plan.options, plan.points
    return (
        options["method"] == "auto"
        and options["max_iter"] is None
        and options["callback"] is None
        and not options["verbose"]
        and plan.deadline is None
        and (plan.n_workers == 1 or _is_local())
        and isinstance(gram, Gram)
        and gram.factor() is None
        and all(task.start is None and np.isfinite(task.C).all() for task in tasks)
    )


def _is_local() -> bool:
    """Return whether joblib would use this machine alone; another backend spreads the problems."""
    from joblib.parallel import get_active_backend

    return type(get_active_backend(prefer="threads")[0]).__name__ in LOCAL_BACKENDS


def _rows(task: Task) -> NDArray[np.int64]:
    assert task.rows is not None, "a pair of classes has not all points"
    return np.asarray(task.rows, dtype=np.int64)


def _machine(task: Task, path: SubsetPath, tol: float, seconds: float) -> Machine | None:
    """Return the machine of an answer; None where the gap was not reached."""
    x, b = path.x[0], float(path.b[0])
    value, gap, roundoff = float(path.value[0]), float(path.gap[0]), float(path.roundoff[0])
    test = passed_test(gap, value, value - gap, tol, 0.0)
    if test == "none":
        return None
    support, n_steps = np.flatnonzero(x > 0.0), int(path.n_steps[0])
    violation = abs(float(task.y @ x))
    result: Result[Any] = Result(
        x=x.copy(),
        dual=np.array([b, 1.0]),
        status=Status.OPTIMAL,
        certificate=Certificate(value, value - gap, gap, violation, roundoff, 0.0, tol, test),
        model=None,
        support=support,
        n_iter=n_steps,
        history=History(
            np.array([n_steps]),
            np.array([seconds]),
            np.array([value]),
            np.array([value - gap]),
            np.array([gap]),
            np.array([False]),
        ),
        timings={"setup": 0.0, "iterate": seconds, "certify": 0.0, "total": seconds},
        method="smo",
        counters={"pair": n_steps},
        reason="pairs of few points",
    )
    values = {"y": task.y, "C": task.C, "bias": True}
    terms = Terms("HingeDual", values, False, task.rows)
    return Machine(_rows(task)[support], x[support] * task.y[support], b, None, result, terms)
