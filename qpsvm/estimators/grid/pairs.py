"""The machines of pairs of classes, each on the kernel matrix of its points.

What pairs share is computed once: the points of each class as they are multiplied, and the kernel values
of a class with itself, as far as they fit in memory.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.clock import Clock, Expired, call_clock
from qpsvm.errors import Interrupted
from qpsvm.estimators.inputs.samples import Indices, Vector
from qpsvm.estimators.training import Machine, Plan, Task, Terms, solve_task
from qpsvm.gram import Gram
from qpsvm.gram.engine.groups import PointGroups
from qpsvm.gram.engine.matrices import entry_error, write_block
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.psd import psd_defect
from qpsvm.numerics.parallel import BufferPool, parallel_for
from qpsvm.numerics.products import transposed_times
from qpsvm.result import Certificate, History, Result, Status, passed_test
from qpsvm.solvers.smo.trial import is_worth_a_trial, max_trial_steps
from qpsvm.solvers.working_set.matrix_blocks import GroupBlocks, fits_float32, sum_rows
from qpsvm.solvers.working_set.matrix_bounds import SubsetPath
from qpsvm.solvers.working_set.matrix_pairs import hinge_path
from qpsvm.solvers.working_set.matrix_paths import chunks_of

MAX_PAIR_POINTS = 3000
"""Maximum number of points of a pair whose matrix is computed; `solve` computes some columns of a
larger one."""

MAX_POINTS_OF_ONE_PAIR = 1000
"""The same for two classes, which share nothing with other pairs."""

LOCAL_BACKENDS = ("ThreadingBackend", "LokyBackend", "MultiprocessingBackend", "SequentialBackend")
"""Backends of joblib that use this machine alone; its threads then solve the pairs."""

ONE_PENALTY = np.ones(1)
"""Penalty of a path: the penalties of the points are their weights."""


def solve_pairs(plan: Plan, tasks: list[Task]) -> list[Machine] | None:
    """Return the hinge machines of pairs of classes; None where `solve` suits all of them better.

    That is where an option of `solve` is used, where float32 would overflow, or where no gap could be
    proved because K is not positive semidefinite; a single pair is not tested for that, since `solve`
    would repeat the test. A pair of many points is solved by `solve`, and so is one whose gap was not
    reached.

    Raises
    ------
    Interrupted
        On Ctrl-C, unless the options say that answers so far are returned.
    """
    gram, tol = plan.points, plan.options["tol"]
    if not _is_plain(plan, tasks) or (len(tasks) == 1 and gram.psd == "check"):
        return None
    most = MAX_PAIR_POINTS if len(tasks) > 1 else MAX_POINTS_OF_ONE_PAIR
    small = [k for k, task in enumerate(tasks) if _is_small(gram, len(task.C), most)]
    if not small or not fits_float32(gram.diag()) or psd_defect(gram) > 0.0:
        return None
    machines: list[Machine | None] = [None] * len(tasks)
    pairs = {k: Pair.of(tasks[k]) for k in small}
    matrices = _PairMatrices(gram, list(pairs.values()), plan.options["memory_limit"])

    def solve_chunk(chunk: list[int]) -> None:
        for k in [small[number] for number in chunk]:
            begun, pair = time.perf_counter(), pairs[k]
            path = matrices.path(pair, tol)
            machines[k] = _machine(gram, tasks[k], pair, path, tol, time.perf_counter() - begun)

    clock = Clock(None, call_clock())
    with clock.listening():
        try:
            with clock.abandoning():
                matrices.prepare()
                parallel_for(solve_chunk, chunks_of([len(pairs[k].y) for k in small]))
        except Expired:
            if plan.options["interrupt"] == "raise":
                raise Interrupted(None) from None
    return [
        solve_task(plan, task) if machine is None else machine
        for task, machine in zip(tasks, machines, strict=True)
    ]


class Pair(NamedTuple):
    """The points of two classes, those of the first one, where y = 1, before the others."""

    rows: Indices
    y: Vector
    C: Vector

    @classmethod
    def of(cls, task: Task) -> Pair:
        """Return the points of a problem; those of all points are put into this order."""
        if task.rows is not None:
            return cls(np.asarray(task.rows, np.int64), task.y, task.C)
        order = np.argsort(-task.y, kind="stable")
        return cls(order, task.y[order], task.C[order])

    @property
    def groups(self) -> tuple[Indices, Indices]:
        """The points of each class."""
        n = int(np.count_nonzero(self.y > 0.0))
        return self.rows[:n], self.rows[n:]


class _PairMatrices:
    """The kernel matrices of pairs of classes, as `hinge_path` reads them.

    The blocks of classes with themselves are stored, those between two classes computed for each pair.
    Where the kernel has a formula they are in low precision, and sums are computed in float64 from
    points that are prepared once for each class.

    Parameters
    ----------
    gram : Gram
    pairs : list of Pair
    memory_limit : int
        Bytes. Blocks of classes that do not fit are computed for each pair.
    """

    def __init__(self, gram: Gram, pairs: list[Pair], memory_limit: int) -> None:
        groups = [pair.groups for pair in pairs]
        classes = {int(rows[0]): rows for both in groups for rows in both}
        self._gram, self._limit, self._rows = gram, memory_limit, list(classes.values())
        self._n_uses = Counter(int(rows[0]) for both in groups for rows in both)
        self._number = {first: number for number, first in enumerate(classes)}
        self._points = None
        if PointGroups.are_available(gram):
            self._points = PointGroups(gram, self._rows)
        self._dtype = np.dtype(np.float64 if self._points is None else np.float32)
        self._stored: dict[int, NDArray[Any]] = {}
        self._error, self._diagonal = entry_error(gram), gram.diag()
        self._buffers = BufferPool()

    def prepare(self) -> None:
        """Compute what several pairs read, in parallel."""
        if self._points is not None:
            parallel_for(self._points.prepare, list(range(len(self._rows))))
        n_bytes, chosen = 0, []
        for number, rows in enumerate(self._rows):
            n_bytes += self._dtype.itemsize * len(rows) ** 2
            if self._n_uses[int(rows[0])] > 1 and n_bytes <= self._limit:
                self._stored[number] = np.empty((len(rows), len(rows)), self._dtype)
                chosen.append(number)
        parallel_for(lambda k: self._write(k, k, self._stored[k]), chosen)

    def path(self, pair: Pair, tol: float) -> SubsetPath:
        """Return the answer of a pair."""
        i, j = (self._number[int(rows[0])] for rows in pair.groups)
        own = self._diagonal[pair.rows], pair.y, pair.C, ONE_PENALTY, tol, self._error
        with self._within(i) as first, self._within(j) as second, self._block(i, j) as between:
            self._write(i, j, between)
            blocks = GroupBlocks(first, second, between)
            if self._points is None:
                sums = partial(sum_rows, blocks)
            else:
                sums = partial(self._points.sums, i, j)
            return hinge_path(
                blocks, sums, *own, self._buffers, _max_steps(self._gram, len(pair.y))
            )

    def _write(self, i: int, j: int, out: NDArray[Any]) -> None:
        if self._points is None:
            write_block(self._gram, self._rows[i], self._rows[j], out)
        else:
            self._points.write(i, j, out)

    @contextmanager
    def _within(self, i: int) -> Iterator[NDArray[Any]]:
        """Provide the block of a class with itself."""
        if i in self._stored:
            yield self._stored[i]
            return
        with self._block(i, i) as own:
            self._write(i, i, own)
            yield own

    @contextmanager
    def _block(self, i: int, j: int) -> Iterator[NDArray[Any]]:
        """Provide memory for the block of two classes."""
        shape = len(self._rows[i]), len(self._rows[j])
        with self._buffers.array(shape[0] * shape[1], self._dtype) as memory:
            yield memory.reshape(shape)


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
        and (gram.factor() is None or isinstance(gram, PointGram))
        and all(task.start is None and np.isfinite(task.C).all() for task in tasks)
    )


def _is_small(gram: Gram, n: int, most: int) -> bool:
    """Return whether the matrix of n points, `most` at most, is to be computed."""
    factor = gram.factor()
    return n <= most and (factor is None or is_worth_a_trial(n, factor.shape[1]))


def _max_steps(gram: Gram, n: int) -> int | None:
    """Return the number of steps on n points after which `solve` is called; None for the usual one."""
    factor = gram.factor()
    return None if factor is None else max_trial_steps(n, factor.shape[1])


def _is_local() -> bool:
    """Return whether joblib would use this machine alone; another backend distributes the problems."""
    from joblib.parallel import get_active_backend

    return type(get_active_backend(prefer="threads")[0]).__name__ in LOCAL_BACKENDS


def _machine(
    gram: Gram, task: Task, pair: Pair, path: SubsetPath, tol: float, seconds: float
) -> Machine | None:
    """Return the machine of an answer; None where the gap was not reached."""
    x, b = path.x[0].copy(), float(path.b[0])
    if task.rows is None:
        x[pair.rows] = path.x[0]
    value, gap, roundoff = float(path.value[0]), float(path.gap[0]), float(path.roundoff[0])
    test = passed_test(gap, value, value - gap, tol, 0.0)
    if test == "none":
        return None
    support, n_steps = np.flatnonzero(x > 0.0), int(path.n_steps[0])
    violation = abs(float(task.y @ x))
    result: Result[Any] = Result(
        x=x,
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
            np.zeros(1, np.int64),
        ),
        timings={"setup": 0.0, "iterate": seconds, "certify": 0.0, "total": seconds},
        method="smo",
        counters={"pair": n_steps},
        reason="pairs of few points",
    )
    values = {"y": task.y, "C": task.C, "bias": True}
    terms = Terms("HingeDual", values, False, task.rows)
    coef = x[support] * task.y[support]
    support = support if task.rows is None else task.rows[support]
    factor = gram.factor()
    w = None if factor is None else transposed_times(factor[support], coef)
    return Machine(support, coef, b, w, result, terms)
