"""The demo: real data that come with scikit-learn, each problem by each method that fits it.

Every answer is compared with cvxpy's of the same problem, written from its statement, where cvxpy
is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.api import solve
from qpsvm.choice import methods
from qpsvm.formulations import HingeDual, L2SVMDual, MEBDual, PolytopeDistanceDual
from qpsvm.gram import RBF, Linear
from qpsvm.result import Result, Status

Points = NDArray[np.float64]
Labels = NDArray[np.float64]

REFERENCE_TOL = 1e-6
"""Relative error that is granted to cvxpy's answer itself."""


@dataclass(frozen=True)
class Sample:
    """Points with labels -1 and +1, split once into a part to train and a part to test."""

    name: str
    said: str
    X: Points
    y: Labels
    n_train: int

    @property
    def train(self) -> tuple[Points, Labels]:
        """The first `n_train` points and labels."""
        return self.X[: self.n_train], self.y[: self.n_train]

    @property
    def test(self) -> tuple[Points, Labels]:
        """All the others."""
        return self.X[self.n_train :], self.y[self.n_train :]

    def __str__(self) -> str:
        """Say what it is."""
        m, d = self.X.shape
        split = f"{self.n_train:,} to train, {m - self.n_train:,} to test"
        return f"{self.name}: {m:,} points, {d} features, {self.said}; {split}"


@dataclass
class Task:
    """A declared problem on a sample, and what came out."""

    name: str
    sample: Sample
    problem: Any
    reference: float | None = None
    results: dict[str, Result] = field(default_factory=dict)

    def accuracy(self, method: str) -> float:
        """Return the share of test points that are classified rightly; NaN for a ball."""
        model, (X, y) = self.results[method].model, self.sample.test
        return float(np.mean(model.predict(X) == y)) if hasattr(model, "predict") else math.nan

    def agrees(self, method: str) -> bool:
        """Return whether the certified bounds enclose the reference, where there is one."""
        if self.reference is None:
            return True
        bounds, slack = self.results[method].certificate, REFERENCE_TOL * abs(self.reference)
        return bounds.lower - slack <= self.reference <= bounds.upper + slack

    def fine(self, method: str) -> bool:
        """Return whether the method did what it promises; running out of time is no fault."""
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
        Seconds for each solve, the compilation of what runs first included.

    Returns
    -------
    int
        0; 1 if a solve missed its tolerance although it had time, if one disagreed with cvxpy, or
        if the picture could not be written; 130 after Ctrl-C.
    """
    from tqdm.auto import tqdm

    begun = time.perf_counter()
    tasks = declare(quick)
    compare = importlib.util.find_spec("cvxpy") is not None
    n_solves = sum(len(methods(task.problem)) for task in tasks)
    total = 1 + n_solves + len(tasks) * compare + picture
    columns, rows = shutil.get_terminal_size((100, 24))
    shape = {"ncols": columns - 1, "nrows": rows}
    with tqdm(total=total, disable=None, leave=False, bar_format=BAR, **shape) as bar:
        compile_steps(bar)
        bar.update()
        for line in _solve_all(tasks, bar, time_limit, compare):
            tqdm.write(line, file=sys.stdout)
        interrupted = any(r.status is Status.INTERRUPTED for t in tasks for r in t.results.values())
        drawn = None
        if picture and not interrupted:
            bar.set_description_str("drawing")
            drawn = _draw(tasks, output)
            bar.update()
    if interrupted:
        print("\nInterrupted: the rows above are certified, the others were not solved.")
        return 130
    print()
    print(_summary(tasks, compare, time.perf_counter() - begun))
    if drawn is not None:
        print(drawn[1])
    fine = all(task.fine(method) for task in tasks for method in task.results)
    return int(not fine or (drawn is not None and not drawn[0]))


TITLE = {"fontsize": 11}
BAR = "|{bar:30}| {n_fmt}/{total_fmt} [{elapsed}] {desc}"


def declare(quick: bool) -> list[Task]:
    """Return the problems: four on handwritten digits, four on breast cancer."""
    X, target = digits()
    Z, z, _ = breast_cancer()
    odd = np.where(target % 2 == 1, 1.0, -1.0)
    d = sample("digits", "odd against even", X, odd, 200 if quick else 800)
    b = sample("breast cancer", "benign against malignant", Z, z, 100 if quick else 390)
    (X, y), (Z, z) = d.train, b.train
    scale = RBF(X, "scale")
    return [
        Task("L2-SVM, RBF, C = 10", d, L2SVMDual(scale, y, C=10.0)),
        Task("hinge dual, RBF, C = 10", d, HingeDual(scale, y, C=10.0)),
        Task("polytopes, RBF", d, PolytopeDistanceDual(scale, y)),
        Task("ball, RBF", d, MEBDual(RBF(X, "mean-distance"))),
        Task("L2-SVM, RBF, C = 1", b, L2SVMDual(RBF(Z, "scale"), z, C=1.0)),
        Task("hinge dual, linear, C = 1", b, HingeDual(Linear(Z), z, C=1.0)),
        Task("polytopes, linear, chi = 1", b, PolytopeDistanceDual(Linear(Z), z, chi=1.0)),
        Task("ball, linear", b, MEBDual(Linear(Z))),
    ]


def sample(name: str, said: str, X: Points, y: Labels, n_train: int) -> Sample:
    """Return the points in a random order that is the same at every call."""
    order = np.random.default_rng(0).permutation(len(X))
    return Sample(name, said, X[order], y[order], n_train)


def digits() -> tuple[Points, NDArray[np.int64]]:
    """Return the handwritten digits, pixels in [0, 1], and which digit each one is."""
    from sklearn.datasets import load_digits

    X, target = load_digits(return_X_y=True)
    return X / 16.0, target


def breast_cancer() -> tuple[Points, Labels, list[str]]:
    """Return the Wisconsin breast-cancer data, standardized, benign +1, and the features' names."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    return X, np.where(data.target == 1, 1.0, -1.0), list(data.feature_names)


def compile_steps(bar: Any) -> None:
    """Solve two tiny problems by all methods, so that no time below holds compilation."""
    X, y = np.eye(4), np.array([1.0, 1.0, -1.0, -1.0])
    for problem in (PolytopeDistanceDual(Linear(X), y), HingeDual(Linear(X), y)):
        for method in methods(problem):
            bar.set_description_str(f"compiling {method}, once")
            solve(problem, method)


def _solve_all(tasks: list[Task], bar: Any, time_limit: float, compare: bool) -> Iterator[str]:
    """Solve the tasks in order; yield the lines of the table as they are ready."""
    from qpsvm.solvers import METHODS

    shown = None
    for task in tasks:
        if task.sample is not shown:
            yield f"{'' if shown is None else chr(10)}{task.sample}"
            yield HEADER
            yield "-" * len(HEADER)
            shown = task.sample
        if compare:
            bar.set_description_str(f"{task.sample.name}, {task.name}: cvxpy")
            task.reference = reference_value(task.problem)
            bar.update()
        for method in methods(task.problem):
            bar.set_description_str(f"{task.sample.name}, {task.name}: {method}")
            tol = METHODS[method].gap
            task.results[method] = solve(task.problem, method, tol=tol, time_limit=time_limit)
            bar.update()
            yield _row(task, method)
            if task.results[method].status is Status.INTERRUPTED:
                return


HEADER = (
    f"{'problem':<28}{'method':<15}{'value':>14}{'gap':>10}{'support':>9}{'iterations':>12}"
    f"{'seconds':>9}{'to cvxpy':>11}{'accuracy':>10}"
)


def _row(task: Task, method: str) -> str:
    result, accuracy = task.results[method], task.accuracy(method)
    reference = task.reference
    off = math.nan if not reference else (result.value - reference) / abs(reference)
    name = task.name if method == next(iter(task.results)) else ""
    marks = "" if result.converged else f"  {result.status.name}"
    marks += "" if task.agrees(method) else "  DISAGREES WITH CVXPY"
    return (
        f"{name:<28}{method:<15}{result.value:>#14.7g}{result.certificate.relative_gap:>10.1e}"
        f"{len(result.support):>9,}{result.n_iter:>12,}{result.timings['total']:>9.3f}"
        f"{'-' if math.isnan(off) else f'{off:+.1e}':>11}"
        f"{'-' if math.isnan(accuracy) else f'{accuracy:.1%}':>10}{marks}"
    )


def _summary(tasks: list[Task], compare: bool, elapsed: float) -> str:
    pairs = [(task, method) for task in tasks for method in task.results]
    solved = sum(task.results[method].converged for task, method in pairs)
    solving = sum(task.results[method].timings["total"] for task, method in pairs)
    compared = [(task, method) for task, method in pairs if task.reference is not None]
    agreeing = sum(task.agrees(method) for task, method in compared)
    said = (
        f"{agreeing} of {len(compared)} pairs of certified bounds enclose cvxpy's value (Clarabel)"
        if compare
        else 'nothing to compare with (pip install "qpsvm[reference]" adds cvxpy)'
    )
    return (
        "gap: certified relative duality gap; to cvxpy: (value - its value) / |its value|; "
        "accuracy: on the test points.\n"
        f"{solved} of {len(pairs)} solves reached their tolerance; {said}.\n"
        f"{solving:.1f} s of solving, {elapsed:.1f} s in all."
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
    """Return K by scikit-learn: nothing of ours is in the comparison but the number gamma."""
    from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

    X = gram.X
    return rbf_kernel(X, gamma=gram.gamma) if isinstance(gram, RBF) else linear_kernel(X)


def _draw(tasks: list[Task], output: str | Path) -> tuple[bool, str]:
    """Write the picture; return whether that worked and what to say."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return True, 'No picture: matplotlib is missing (pip install "qpsvm[plot]" adds it).'
    figure = Figure(figsize=(15.0, 9.6), layout="constrained")
    draw(figure, tasks)
    try:
        figure.savefig(output, dpi=140)
    except (OSError, ValueError) as problem:
        return False, f"The picture could not be written to {output}: {problem}"
    return True, f"Picture: {output}"


def draw(figure: Any, tasks: list[Task]) -> None:
    """Draw gap against time for three problems, and three answers in the plane."""
    from qpsvm import plot

    top, bottom = figure.subplots(2, 3)
    _draw_gaps(figure, top, tasks[::3])
    D, target = digits()
    X = principal_plane(D)
    ball = solve(MEBDual(Linear(X)), tol=1e-6)
    plot.ball(ball, X, bottom[0])
    radius = ball.model.radius
    bottom[0].set_title(f"digits in the plane: smallest ball, radius {radius:.4g}", TITLE)
    bottom[0].set(xlabel="first principal axis", ylabel="second principal axis")
    _legend(bottom[0], points="digits 0 to 9")
    two = (target == 0) | (target == 2)
    X, y = principal_plane(D[two]), np.where(target[two] == 0, 1.0, -1.0)
    nearest = solve(PolytopeDistanceDual(Linear(X), y), tol=1e-6)
    plot.closest_points(nearest, X, y, bottom[1])
    distance = nearest.model.distance
    bottom[1].set_title(f"digits in the plane: distance of two hulls {distance:.4g}", TITLE)
    bottom[1].set(xlabel="first principal axis", ylabel="second principal axis")
    _legend(bottom[1], **{"class +1": "digit 0", "class -1": "digit 2"})
    Z, y, names = breast_cancer()
    chosen = [names.index(name) for name in ("worst radius", "worst concave points")]
    X = Z[:, chosen]
    machine = solve(HingeDual(RBF(X, 0.25), y, C=10.0), tol=1e-6)
    plot.hyperplane(machine, X, y, bottom[2])
    bottom[2].set_title(f"breast cancer: hinge, RBF, {len(machine.support)} support vectors", TITLE)
    xlabel, ylabel = (f"{names[k]} (standardized)" for k in chosen)
    bottom[2].set(xlabel=xlabel, ylabel=ylabel)
    _legend(bottom[2], **{"class +1": "benign", "class -1": "malignant"})


def _draw_gaps(figure: Any, axes: Any, tasks: list[Task]) -> None:
    """Draw a panel for each task under one legend; methods of equal settings are drawn once."""
    from qpsvm import plot
    from qpsvm.solvers import METHODS

    solvers: list[Any] = []
    styles = {}
    for name, method in METHODS.items():
        if method.solver() not in solvers:
            styles[name] = plot.style(len(solvers))
            solvers.append(method.solver())
    shown = {}
    for ax in axes[1:]:
        ax.sharey(axes[0])
    for ax, task in zip(axes, tasks, strict=True):
        plot.convergence({k: r for k, r in task.results.items() if k in styles}, ax, styles=styles)
        ax.set_title(f"{task.sample.name}: {task.name}", TITLE)
        shown.update(dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)))
        ax.get_legend().remove()
        for tol in sorted({METHODS[name].gap for name in task.results}):
            ax.axhline(tol, color="0.5", lw=1.0, ls=(0, (1, 2)), zorder=0)
    names = [name for name in styles if name in shown]
    figure.legend([shown[name] for name in names], names, loc="outside upper center",
                  ncols=min(len(names), 14), frameon=False, handlelength=1.5)  # fmt: skip


def _legend(ax: Any, **names: str) -> None:
    """Put the legend below the panel, in one row, with labels in the words of the data."""
    handles, labels = ax.get_legend_handles_labels()
    said = [names.get(label, label) for label in labels]
    ax.legend(handles, said, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=len(said),
              frameon=False, fontsize=9, columnspacing=1.2, handletextpad=0.4)  # fmt: skip


def principal_plane(X: Points) -> Points:
    """Return the points on their two principal axes, shape (m, 2)."""
    centered = X - X.mean(axis=0)
    return centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
