"""The demo: real data of scikit-learn, each problem solved by each method that fits it.

Where cvxpy is installed, every answer is compared with its solution of the same problem, written
independently from the statement.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.api import solve
from qpsvm.demo.data import Labels, Points, Sample, breast_cancer, digits, sample
from qpsvm.driver.selection import methods
from qpsvm.formulations import HingeDual, L2SVMDual, MEBDual, PolytopeDistanceDual
from qpsvm.gram import RBF, Linear
from qpsvm.result import Result, Status

REFERENCE_TOL = 1e-6
"""Relative error assumed for cvxpy's answer."""

N_WARM_UP_POINTS = 60
"""Number of points of the small problem that compiles all functions before a timed solve."""

MAX_WARM_UP_ITER = 1000
"""Maximum number of iterations on that problem."""

MAX_COMPILE_SHARE = 0.02
"""Largest share of compilation in a timed solve; otherwise the solve is repeated."""

MAX_TIMED_SOLVES = 3
"""Maximum number of repetitions of a timed solve until nothing is compiled in it."""

BAR_FORMAT = "|{bar:30}| {n_fmt}/{total_fmt} [{elapsed}] {desc}"
"""Format of the progress bar."""

TABLE_HEADER = (
    f"{'problem':<27}{'method':<14}{'value':>13}{'gap':>9}{'support':>8}{'iterations':>11}"
    f"{'seconds':>9}{'compiling':>10}{'to cvxpy':>10}{'accuracy':>9}"
)
"""Header of the table of solves."""


@dataclass
class Task:
    """A problem declared on a sample, and its results."""

    name: str
    sample: Sample
    declare: Callable[[Points, Labels], Any]
    reference: float | None = None
    results: dict[str, Result] = field(default_factory=dict)
    compiling: dict[str, float] = field(default_factory=dict)
    """Seconds to compile a method's code, or to load it from numba's cache."""

    def __post_init__(self) -> None:
        X, y = self.sample.train
        self.problem = self.declare(X, y)
        first = np.concatenate(
            [np.flatnonzero(y == label)[: N_WARM_UP_POINTS // 2] for label in (-1.0, 1.0)]
        )
        self.small_problem = self.declare(X[first], y[first])

    def accuracy(self, method: str) -> float:
        """Return the share of test points that are classified correctly; NaN for a ball."""
        model, (X, y) = self.results[method].model, self.sample.test
        return float(np.mean(model.predict(X) == y)) if hasattr(model, "predict") else math.nan

    def agrees(self, method: str) -> bool:
        """Return whether the certified bounds enclose the reference, where there is one."""
        if self.reference is None:
            return True
        bounds, slack = self.results[method].certificate, REFERENCE_TOL * abs(self.reference)
        return bounds.lower - slack <= self.reference <= bounds.upper + slack

    def fine(self, method: str) -> bool:
        """Return whether the method reached its promised gap, or its time limit."""
        status = self.results[method].status
        return self.agrees(method) and status in (Status.OPTIMAL, Status.TIME_LIMIT)


def run(
    output: str | Path = "qpsvm-demo.png",
    *,
    picture: bool = True,
    quick: bool = False,
    time_limit: float = 20.0,
) -> int:
    """Solve everything, print the table and draw the picture.

    Parameters
    ----------
    output : str or Path
        File of the picture; its ending chooses the format.
    picture : bool
        Whether to draw it.
    quick : bool
        A quarter of the points.
    time_limit : float
        Seconds for each solve, without compilation.

    Returns
    -------
    int
        0; 1 if a solve missed its tolerance within its time, if one disagreed with cvxpy, or if the
        picture could not be written; 130 after Ctrl-C.
    """
    from tqdm.auto import tqdm

    begun = time.perf_counter()
    tasks = declare(quick)
    compare = importlib.util.find_spec("cvxpy") is not None
    n_solves = sum(len(methods(task.problem)) for task in tasks)
    total = n_solves + len(tasks) * compare + picture
    columns, rows = shutil.get_terminal_size((100, 24))
    shape = {"ncols": columns - 1, "nrows": rows}
    with tqdm(total=total, disable=None, leave=False, bar_format=BAR_FORMAT, **shape) as bar:
        try:
            for line in _solve_all(tasks, bar, time_limit, compare):
                tqdm.write(line, file=sys.stdout)
        except KeyboardInterrupt:
            bar.close()
            print("\nInterrupted: the rows above are certified, the others were not solved.")
            return 130
        drawn = None
        if picture:
            bar.set_description_str("drawing")
            drawn = _draw(tasks, output)
            bar.update()
    print()
    print(_summary(tasks, compare, time.perf_counter() - begun))
    if drawn is not None:
        print(drawn[1])
    fine = all(task.fine(method) for task in tasks for method in task.results)
    return int(not fine or (drawn is not None and not drawn[0]))


def declare(quick: bool) -> list[Task]:
    """Return the problems: four on handwritten digits, four on breast cancer."""
    X, target = digits()
    Z, z, _ = breast_cancer()
    odd = np.where(target % 2 == 1, 1.0, -1.0)
    d = sample("digits", "odd against even", X, odd, 200 if quick else 800)
    b = sample("breast cancer", "benign against malignant", Z, z, 100 if quick else 390)
    return [
        Task("L2-SVM, RBF, C = 10", d, lambda X, y: L2SVMDual(RBF(X, "scale"), y, C=10.0)),
        Task("hinge dual, RBF, C = 10", d, lambda X, y: HingeDual(RBF(X, "scale"), y, C=10.0)),
        Task("polytopes, RBF", d, lambda X, y: PolytopeDistanceDual(RBF(X, "scale"), y)),
        Task("ball, RBF", d, lambda X, y: MEBDual(RBF(X, "mean-distance"))),
        Task("L2-SVM, RBF, C = 1", b, lambda X, y: L2SVMDual(RBF(X, "scale"), y, C=1.0)),
        Task("hinge dual, linear, C = 1", b, lambda X, y: HingeDual(Linear(X), y, C=1.0)),
        Task("polytopes, linear, chi = 1", b, lambda X, y: PolytopeDistanceDual(Linear(X), y, 1.0)),
        Task("ball, linear", b, lambda X, y: MEBDual(Linear(X))),
    ]


def solve_compiled(task: Task, method: str, tol: float, time_limit: float) -> tuple[Result, float]:
    """Return the result of a solve in which nothing is compiled, and the seconds of compilation before.

    A small problem of the same types is solved first. Where numba still compiles or loads something in
    the timed solve, that is repeated.
    """
    from numba.core.event import TimingListener, install_listener

    begun = time.perf_counter()
    small = solve(task.small_problem, method, tol=tol, max_iter=MAX_WARM_UP_ITER)
    if small.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    for _ in range(MAX_TIMED_SOLVES):
        before = time.perf_counter() - begun
        with install_listener("numba:compiler_lock", TimingListener()) as clock:
            result = solve(task.problem, method, tol=tol, time_limit=time_limit)
        compiled = clock.duration if clock.done else 0.0
        clean = compiled <= MAX_COMPILE_SHARE * result.timings["total"]
        if clean or result.status is Status.INTERRUPTED:
            break
    return result, before


def _solve_all(tasks: list[Task], bar: Any, time_limit: float, compare: bool) -> Iterator[str]:
    """Solve the tasks in order; yield the lines of the table as they are completed."""
    from qpsvm.solvers.methods import METHODS

    shown = None
    for task in tasks:
        if task.sample is not shown:
            yield f"{'' if shown is None else chr(10)}{task.sample}"
            yield TABLE_HEADER
            yield "-" * len(TABLE_HEADER)
            shown = task.sample
        if compare:
            bar.set_description_str(f"{task.sample.name}, {task.name}: cvxpy")
            task.reference = reference_value(task.problem)
            bar.update()
        for method in methods(task.problem):
            bar.set_description_str(f"{task.sample.name}, {task.name}: {method}")
            tol = METHODS[method].gap
            result, task.compiling[method] = solve_compiled(task, method, tol, time_limit)
            task.results[method] = result
            bar.update()
            yield _row(task, method)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt


def _row(task: Task, method: str) -> str:
    result, accuracy = task.results[method], task.accuracy(method)
    reference = task.reference
    off = math.nan if not reference else (result.value - reference) / abs(reference)
    name = task.name if method == next(iter(task.results)) else ""
    marks = "" if result.converged else f"  {result.status.name}"
    marks += "" if task.agrees(method) else "  DISAGREES WITH CVXPY"
    return (
        f"{name:<27}{method:<14}{result.value:>#13.7g}{result.certificate.relative_gap:>9.1e}"
        f"{len(result.support):>8,}{result.n_iter:>11,}{result.timings['total']:>9.3f}"
        f"{task.compiling[method]:>10.2f}{'-' if math.isnan(off) else f'{off:+.1e}':>10}"
        f"{'-' if math.isnan(accuracy) else f'{accuracy:.1%}':>9}{marks}"
    )


def _summary(tasks: list[Task], compare: bool, elapsed: float) -> str:
    pairs = [(task, method) for task in tasks for method in task.results]
    solved = sum(task.results[method].converged for task, method in pairs)
    solving = sum(task.results[method].timings["total"] for task, method in pairs)
    compiling = sum(task.compiling[method] for task, method in pairs)
    compared = [(task, method) for task, method in pairs if task.reference is not None]
    agreeing = sum(task.agrees(method) for task, method in compared)
    comparison = (
        f"{agreeing} of {len(compared)} pairs of certified bounds enclose cvxpy's value (Clarabel)"
        if compare
        else 'nothing to compare with (pip install "qpsvm[reference]" adds cvxpy)'
    )
    return (
        "gap: certified relative duality gap; to cvxpy: (value - its value) / |its value|; "
        "accuracy: on the test points;\n"
        "compiling: seconds before a method's code for these types was ready, not in its seconds.\n"
        f"{solved} of {len(pairs)} solves reached their tolerance; {comparison}.\n"
        f"{solving:.1f} s of solving, {compiling:.1f} s of compiling, {elapsed:.1f} s in all."
    )


def reference_value(problem: Any) -> float | None:
    """Return cvxpy's optimal value of a problem, written from its statement; None if it fails."""
    cp: Any = importlib.import_module("cvxpy")

    m = problem.K.m
    K = _kernel_matrix(problem.K)
    a = cp.Variable(m, nonneg=True)
    if isinstance(problem, MEBDual):
        Q, linear, constraints = 2.0 * K, -np.diag(K), [cp.sum(a) == 1]
    elif isinstance(problem, L2SVMDual):
        y = problem.y
        Q, linear = np.outer(y, y) * (K + 1.0) + np.diag(1.0 / problem.C), np.zeros(m)
        constraints = [cp.sum(a) == 1]
    elif isinstance(problem, PolytopeDistanceDual):
        y, ridge = problem.y, 0.0 if problem.chi is None else 1.0 / problem.chi
        Q, linear = np.outer(y, y) * K + ridge * np.eye(m), np.zeros(m)
        constraints = [(y > 0) @ a == 1, (y < 0) @ a == 1]
    else:
        y = problem.y
        Q, linear = np.outer(y, y) * K, -np.ones(m)
        constraints = [y @ a == 0, a <= problem.C]
    declared = cp.Problem(
        cp.Minimize(0.5 * cp.quad_form(a, cp.psd_wrap(Q)) + linear @ a), constraints
    )
    try:
        declared.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-9, tol_feas=1e-9)
    except cp.error.SolverError:
        return None
    return float(declared.value) if declared.status == cp.OPTIMAL else None


def _kernel_matrix(gram: Any) -> NDArray[np.float64]:
    """Return K by scikit-learn, so that the comparison shares only the number gamma."""
    from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

    X = gram.X
    return rbf_kernel(X, gamma=gram.gamma) if isinstance(gram, RBF) else linear_kernel(X)


def _draw(tasks: list[Task], output: str | Path) -> tuple[bool, str]:
    """Write the picture; return whether that succeeded, and a message."""
    try:
        from matplotlib.figure import Figure

        from qpsvm.demo.picture import draw
    except ImportError:
        return True, 'No picture: matplotlib is missing (pip install "qpsvm[plot]" adds it).'
    figure = Figure(figsize=(15.0, 9.6), layout="constrained")
    draw(figure, tasks)
    try:
        figure.savefig(output, dpi=140)
    except (OSError, ValueError) as problem:
        return False, f"The picture could not be written to {output}: {problem}"
    return True, f"Picture: {output}"
