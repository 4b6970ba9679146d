"""The machines of pairs of classes, each on the kernel matrix of its points.

A matrix has four blocks. Those of a class with itself are the same in all pairs of the class: they are
computed once, as far as they fit in memory. The two others are each other's transpose: one is computed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.clock import Clock, Expired, call_clock
from qpsvm.errors import Interrupted
from qpsvm.estimators.training import Machine, Plan, Task, Terms, solve_task
from qpsvm.gram import Gram
from qpsvm.gram.engine.matrices import entry_error, write_block
from qpsvm.gram.psd import psd_defect
from qpsvm.numerics.parallel import parallel_for, scratch
from qpsvm.result import Certificate, History, Result, Status, passed_test
from qpsvm.solvers.working_set.matrix_blocks import GroupBlocks
from qpsvm.solvers.working_set.matrix_paths import SubsetPath, chunks_of, hinge_path

MAX_PAIR_POINTS = 2000
"""Maximum number of points of a pair whose matrix is computed; `solve` computes some columns of a
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
    blocks = _ClassBlocks(gram, plan.options["memory_limit"])

    def solve_chunk(chunk: list[int]) -> None:
        for k in [small[number] for number in chunk]:
            begun, task = time.perf_counter(), tasks[k]
            with blocks.of_pair(*_groups(task)) as matrix:
                path = hinge_path(matrix, task.y, task.C, ONE_PENALTY, tol, error)
            machines[k] = _machine(task, path, tol, time.perf_counter() - begun)

    clock = Clock(None, call_clock())
    with clock.listening():
        try:
            with clock.abandoning():
                blocks.compute([rows for k in small for rows in _groups(tasks[k])])
                parallel_for(solve_chunk, chunks_of([sizes[k] for k in small]))
        except Expired:
            if plan.options["interrupt"] == "raise":
                raise Interrupted(None) from None
    return [
        solve_task(plan, task) if machine is None else machine
        for task, machine in zip(tasks, machines, strict=True)
    ]


class _ClassBlocks:
    """Kernel values of classes with themselves, each stored once.

    Parameters
    ----------
    gram : Gram
    memory_limit : int
        Bytes. Blocks that do not fit are computed for each pair.
    """

    def __init__(self, gram: Gram, memory_limit: int) -> None:
        self._gram, self._limit = gram, memory_limit
        self._stored: dict[int, NDArray[np.float64]] = {}  # by the first point of the class

    def compute(self, classes: list[NDArray[np.int64]]) -> None:
        """Compute the blocks of classes that occur more than once, in parallel."""
        sizes = Counter(int(rows[0]) for rows in classes)
        n_bytes, chosen = 0, []
        for rows in {int(rows[0]): rows for rows in classes}.values():
            n_bytes += 8 * len(rows) ** 2
            if sizes[int(rows[0])] > 1 and n_bytes <= self._limit:
                self._stored[int(rows[0])] = np.empty((len(rows), len(rows)))
                chosen.append(rows)
        parallel_for(
            lambda rows: write_block(self._gram, rows, rows, self._stored[int(rows[0])]), chosen
        )

    @contextmanager
    def of_pair(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> Iterator[GroupBlocks]:
        """Provide the matrix of two classes."""
        with self._within(first) as A, self._within(second) as B:
            with scratch(len(first) * len(second), np.float64) as memory:
                between = memory.reshape(len(first), len(second))
                write_block(self._gram, first, second, between)
                yield GroupBlocks(A, B, between)

    @contextmanager
    def _within(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
        stored = self._stored.get(int(rows[0]))
        if stored is not None:
            yield stored
            return
        n = len(rows)
        with scratch(n * n, np.float64) as memory:
            matrix = memory.reshape(n, n)
            write_block(self._gram, rows, rows, matrix)
            yield matrix


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


def _groups(task: Task) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the points of the first class, which come first, and those of the second."""
    rows, n = _rows(task), int(np.count_nonzero(task.y > 0.0))
    return rows[:n], rows[n:]


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
            np.array([len(support)]),
        ),
        timings={"setup": 0.0, "iterate": seconds, "certify": 0.0, "total": seconds},
        method="smo",
        counters={"pair": n_steps},
        reason="pairs of few points",
    )
    values = {"y": task.y, "C": task.C, "bias": True}
    terms = Terms("HingeDual", values, False, task.rows)
    return Machine(_rows(task)[support], x[support] * task.y[support], b, None, result, terms)
