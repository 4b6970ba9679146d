"""`qpsvm compile`: small problems and fits that together use most compiled functions.

A function is compiled at its first call, for the types of its arguments. So the problems here cover every
method, kernel and kind of points. They are split into groups for separate processes: most of a
compilation is Python code, under the interpreter lock.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import qpsvm
from qpsvm.formulations import Formulation
from qpsvm.resources import processors

log = logging.getLogger("qpsvm")

Task = Callable[[], Any]

N_POINTS = 60
"""Number of points of a problem whose size does not matter."""

N_POINTS_FOR_MATRIX = 300
"""Number of points whose kernel values are held as one matrix."""

N_POINTS_FOR_WORKING_SETS = (600, 1000)
"""Numbers of points of regressions that have working sets with columns in float64, with few enough kernel
values for numpy and with more."""

MAX_WORKING_SETS = 7
"""Maximum number of working sets of a problem: most need fewer, integers of a wide range take minutes."""

N_POINTS_FOR_BLOCKS = 3000
"""Number of points from which columns are computed in blocks and many weights move at once."""

N_FEATURES_FOR_PASSES = 100
"""Number of features with which these points have enough entries for a compiled pass."""


def points(m: int = N_POINTS, kind: str = "dense", dtype: Any = np.float64) -> tuple[Any, Any]:
    """Return m points of one kind, shape (m, 8), and their labels, shape (m,)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, 8))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(m) > 0.0, 1.0, -1.0)
    if kind == "binary":
        X = (X > 0.5).astype(float)
    elif kind == "integers":
        X = np.floor(200.0 * rng.random((m, 16)))
    elif kind == "levels":
        X = np.floor(200.0 * rng.random((m, 16))) / 255.0
    elif kind == "sparse":
        X = sp.csr_array(np.where(np.abs(X) > 1.3, X, 0.0))  # few enough to be swept as CSR
    elif kind == "sparse binary":
        X = sp.csr_array((X > 0.5).astype(float))
    return X.astype(dtype), y


def solving(problem: Formulation, method: str = "auto", **options: Any) -> Task:
    """Return a task that solves a problem and predicts with a model that can."""

    def task() -> None:
        model: Any = qpsvm.solve(problem, method, **options).model
        X = getattr(getattr(problem, "K", None), "X", None)
        if X is not None and hasattr(model, "decision_function"):
            model.decision_function(X)

    return task


def automatic(*kinds: Callable[[Any, Any], Formulation], method: str = "auto") -> Iterator[Task]:
    """Yield problems for a method, by default the automatic choice, with few and with many points."""
    for m in (N_POINTS, N_POINTS_FOR_BLOCKS):
        X, y = points(m)
        for gram in (qpsvm.RBF(X, 0.1), qpsvm.Linear(X)):
            yield from (solving(kind(gram, y), method) for kind in kinds)


def every_method(*names: str) -> Iterator[Task]:
    """Yield problems of every formulation for the methods named that fit them."""
    from qpsvm.solvers.methods import METHODS

    for problem in _one_of_each():
        for name in qpsvm.methods(problem):
            if name in names:
                yield solving(problem, name, max_iter=min(50, int(METHODS[name].budget)))


def _one_of_each() -> Iterator[Formulation]:
    from qpsvm.domains import hypercube, simplex

    X, y = points()
    sparse, _ = points(kind="sparse")
    for data in (X, X.astype(np.float32), sparse, sparse.astype(np.float32)):
        gram = qpsvm.Linear(data)
        yield qpsvm.HingeDual(gram, y)
        yield qpsvm.HingeDual(gram, y, bias=False)
        yield qpsvm.HingePrimal(data, y)
        yield qpsvm.LPSVMPrimal(data, y)
        yield qpsvm.LSSVMPrimal(data, y)
        yield qpsvm.L2SVMDual(gram, y)
        yield qpsvm.MEBDual(gram)
    rbf = qpsvm.RBF(X, 0.1)
    for K in (rbf, rbf.block(np.arange(len(y)))):
        yield qpsvm.HingeDual(K, y)
        yield qpsvm.HingeDual(K, y, bias=False)
        yield qpsvm.L2SVMDual(K, y)
        yield qpsvm.MEBDual(K)
        yield qpsvm.SVDDDual(K, 0.1)
        yield qpsvm.SVRDual(K, y)
        yield qpsvm.SVRDual(K, y, bias=False)
        yield qpsvm.OneClassDual(K)
        yield qpsvm.PolytopeDistanceDual(K, y, chi=1.0)
        yield qpsvm.NuSVCDual(K, y, 0.5)
        yield qpsvm.NuSVRDual(K, y)
    yield qpsvm.HingeDual(qpsvm.LowRank(qpsvm.RBF(X, 0.1)), y)
    yield qpsvm.PolytopeDistanceDual(qpsvm.Linear(X), y)
    A, b = X[:20].T, X[0]
    yield qpsvm.LeastSquares(A, b, simplex(20))
    yield qpsvm.LeastSquares(A, b, hypercube(20))


def large_factors() -> Iterator[Task]:
    """Yield linear problems whose passes over the points are compiled, for the methods that make them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_POINTS_FOR_BLOCKS, N_FEATURES_FOR_PASSES))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    sparse = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    for data in (X, X.astype(np.float32), sparse, sparse.astype(np.float32)):
        gram = qpsvm.Linear(data)
        for problem in (qpsvm.HingeDual(gram, y), qpsvm.HingeDual(gram, y, bias=False)):
            for name in ("crsvm", "dcd"):
                if name in qpsvm.methods(problem):
                    yield solving(problem, name, max_iter=3)
        yield solving(qpsvm.L2SVMDual(gram, y), "mfn", max_iter=3)
        yield solving(qpsvm.MEBDual(gram), "mfw", max_iter=3)


def every_kind_of_points() -> Iterator[Task]:
    """Yield problems of every kernel on every kind of points, in blocks of columns."""
    for kind in ("dense", "binary", "integers", "levels", "sparse", "sparse binary"):
        for dtype in (np.float64, np.float32):
            X, y = points(N_POINTS_FOR_BLOCKS, kind, dtype)
            kernels: list[Callable[[Any], Any]] = [qpsvm.RBF, qpsvm.Linear, qpsvm.Polynomial]
            if kind in ("dense", "sparse"):
                kernels += [qpsvm.Laplacian]
            if kind == "dense":
                kernels += [lambda X: qpsvm.Sigmoid(X, psd="assume")]
            for kernel in kernels:
                problem = qpsvm.HingeDual(kernel(X), y, 1.0)
                yield solving(problem, "decomposition", merge=False, max_iter=MAX_WORKING_SETS)
                yield solving(qpsvm.L2SVMDual(kernel(X), y, 1.0), "mfw", max_iter=200)


def kernels_and_points() -> Iterator[Task]:
    """Yield fits of `SVC` by each kernel, and by the default kernel to each kind of points."""
    X, y = points(N_POINTS_FOR_BLOCKS)
    for kernel in ("poly", "sigmoid", "laplacian"):
        yield partial(_fit, qpsvm.SVC(kernel=kernel), X, y)
    for kind in ("binary", "integers", "sparse"):
        X, y = points(N_POINTS_FOR_BLOCKS, kind)
        yield partial(_fit, qpsvm.SVC(), X, y)


def regressions() -> Iterator[Task]:
    """Yield fits of the regressions by pair steps, and on working sets of either precision."""
    for m in (N_POINTS_FOR_MATRIX, *N_POINTS_FOR_WORKING_SETS, N_POINTS_FOR_BLOCKS):
        X, y = points(m)
        for estimator in (qpsvm.SVR(), qpsvm.NuSVR(), qpsvm.LinearSVR()):
            yield partial(
                _fit, estimator, X, X[:, 0] + 0.3 * y
            )  # with noise, which takes all steps


def several_classes() -> Iterator[Task]:
    """Yield fits of `SVC` to more than two classes, and their predictions."""
    for m, kind in (
        (N_POINTS, "integers"),
        (N_POINTS_FOR_BLOCKS // 2, "dense"),
        (N_POINTS_FOR_BLOCKS // 2, "sparse"),
    ):
        X, _ = points(m, kind)
        yield partial(_fit, qpsvm.SVC(), X, np.arange(m) % 3)


def searches() -> Iterator[Task]:
    """Yield a search, whose functions serve classes and regressions."""
    X, _ = points()
    yield partial(_fit, qpsvm.SVCCV(Cs=[1.0, 10.0], gammas=[0.1]), X, np.arange(len(X)) % 3)


def _fit(estimator: Any, X: Any, y: Any) -> None:
    with warnings.catch_warnings(action="ignore"):  # a sigmoid kernel has no gap
        estimator.fit(X, y).predict(X)


AUTOMATIC_GROUPS: dict[str, Callable[[], Iterator[Task]]] = {
    "classifiers": lambda: automatic(qpsvm.HingeDual, qpsvm.L2SVMDual),
    "geometry": lambda: automatic(
        lambda gram, y: qpsvm.MEBDual(gram),
        lambda gram, y: qpsvm.OneClassDual(gram),
        qpsvm.PolytopeDistanceDual,
    ),
    "balls": lambda: automatic(lambda gram, y: qpsvm.MEBDual(gram), method="mfw"),
    "several classes": several_classes,
    "kernels and points": kernels_and_points,
    "regressions": regressions,
    "searches": searches,
}
"""Tasks for functions of the automatic choice and of the estimators: an installation compiles them."""

ALL_GROUPS: dict[str, Callable[[], Iterator[Task]]] = AUTOMATIC_GROUPS | {
    "Frank-Wolfe": lambda: every_method(
        "fw", "mfw", "pfw", "bpfw", "swap", "gilbert", "mdm", "npa"
    ),
    "core sets": lambda: every_method("fcfw", "cvm", "decomposition"),
    "active sets": lambda: every_method("mnp", "smo", "face-newton", "nep-fc"),
    "interior point": lambda: every_method("crsvm", "pdipm"),
    "coordinate descent": lambda: every_method("dcd", "mfn", "pegasos"),
    "smoothing": lambda: every_method("nesvm", "homotopy-nesvm", "apg", "nep-fw", "dicg"),
    "factors": large_factors,
    "kinds of points": every_kind_of_points,
}
"""Tasks of each process, done one after the other."""


def compile_group(name: str) -> None:
    """Do the tasks of a group."""
    for task in ALL_GROUPS[name]():
        task()


def compile_groups(
    names: Iterable[str],
    report: Callable[[str], Any],
    n_processes: int,
    environment: dict[str, str] | None = None,
) -> list[str]:
    """Compile groups in parallel processes; return the error output of those that failed.

    Parameters
    ----------
    names : iterable of str
        Keys of ALL_GROUPS.
    report : callable
        Called with the name of each completed group.
    n_processes : int
        Processes at a time.
    environment : dict, optional
        Additional environment variables of the processes.
    """

    def run(name: str) -> str:
        code = f"from qpsvm.precompile import compile_group; compile_group({name!r})"
        command = [sys.executable, "-c", code]
        where = {**os.environ, **(environment or {})}
        done = subprocess.run(command, capture_output=True, text=True, env=where)
        return done.stderr if done.returncode else ""

    failures = []
    with ThreadPoolExecutor(n_processes) as pool:
        running = {pool.submit(run, name): name for name in names}
        for future in as_completed(running):
            if future.result():
                failures.append(f"{running[future]}: {future.result()}")
            report(running[future])
    return failures


def compile_into_package(
    levels: Iterable[str], names: Iterable[str], report: Callable[[str], Any], n_processes: int
) -> list[str]:
    """Compile groups for processors, into the folder that is installed with the package.

    Parameters
    ----------
    levels : iterable of str
        ``"native"`` for the processor of this machine, or a key of
        `qpsvm.numerics.code_cache.FEATURES_OF_LEVEL`.
    names, report, n_processes
        As in `compile_groups`.

    Returns
    -------
    list of str
        Error output of the groups that failed. Code of other states of the sources is removed, that of
        this state is kept: to install the package once more takes seconds.
    """
    from qpsvm.numerics.code_cache import FEATURES_OF_LEVEL, PACKAGE_FOLDER, source_key

    failures, package = [], PACKAGE_FOLDER / "machine_code"
    current = package / source_key()
    try:
        package.mkdir(exist_ok=True)
        for other in package.iterdir():
            if other != current:
                shutil.rmtree(other, ignore_errors=True)
    except OSError as problem:
        return [f"no code can be kept in the package: {problem}"]
    for level in levels:
        with tempfile.TemporaryDirectory() as folder:
            if current.is_dir():
                shutil.copytree(current, Path(folder, f"qpsvm-{current.name}"))
            environment = {"NUMBA_CACHE_DIR": folder, "QPSVM_MACHINE_CODE": folder}
            if level != "native":
                features = ",".join(f"+{name}" for name in sorted(FEATURES_OF_LEVEL[level]))
                environment |= {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": features}
            failures += compile_groups(names, report, n_processes, environment)
            for code in Path(folder).glob("qpsvm-*"):
                key = code.name.removeprefix("qpsvm-")
                shutil.copytree(code, package / key, dirs_exist_ok=True)
    return failures


def main() -> int:
    """Run the command of `hatch_build.py`: ``python -m qpsvm.precompile --levels native``."""
    parser = argparse.ArgumentParser(description="Compile into the folder of the package.")
    parser.add_argument("--levels", nargs="+", default=["native"])
    parser.add_argument(
        "--groups", nargs="+", default=list(AUTOMATIC_GROUPS), choices=list(ALL_GROUPS)
    )
    arguments = parser.parse_args()
    failures = compile_into_package(arguments.levels, arguments.groups, log.info, processors())
    print(*failures, sep="\n", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
