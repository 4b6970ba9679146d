"""Linear SVMs: `crsvm` beside its unreduced form, other solvers, and on growing data.

Rows for `docs.benchmarks.make.tables`. Every solver runs in a process of its own, with a time limit.
"""

from __future__ import annotations

import bz2
import multiprocessing as mp
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import qpsvm
from asv_benchmarks import real_data
from qpsvm import HingePrimal
from qpsvm.data import FOLDER_VARIABLE
from qpsvm.driver.certificate import certify

C, TIME_LIMIT, N_RUNS = 1.0, 30.0, 3
"""Penalty of all problems, maximum seconds of a peer's run, and number of runs of our methods."""

GAP_TOLERANCES = (1e-3, 1e-6, 1e-8)
"""Relative gaps of the columns of the table beside peers."""

METHOD_VARIANTS = {
    f"{choice}, {name}": {"constraint_choice": choice, **sizing}
    for choice in ("omega", "one-sided")
    for name, sizing in {
        "fixed half": {"adaptive": False, "q_upper": 0.5},
        "adaptive": {"balanced": False},
        "adaptive balanced": {},
    }.items()
}
"""Options of `crsvm` for the six variants of the paper, by their names."""

ADULT_SETS = ("a1a", "a2a", "a3a", "a4a", "a5a", "a8a", "a9a")
"""Data sets of growing size, subsets of a9a."""


# The data.


def second_order(X: np.ndarray) -> np.ndarray:
    """Return the features of (x'z + 1)^2, (5.1) of Jung, O'Leary and Tits."""
    i, j = np.triu_indices(X.shape[1], 1)
    root = np.sqrt(2.0)
    return np.hstack([np.ones((len(X), 1)), root * X, X**2, root * X[:, i] * X[:, j]])


def normalized(X: np.ndarray) -> np.ndarray:
    """Return X divided by its largest absolute entry, (5.2)."""
    return X / np.max(np.abs(X))


def _dense(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = real_data.load(name)
    return X.toarray().astype(np.float64), y


def attributes() -> tuple[np.ndarray, np.ndarray]:
    """Return the 22 attributes of the mushrooms as numbers, and labels: +1 for the edible ones."""
    path = Path(os.environ[FOLDER_VARIABLE]) / "agaricus-lepiota.data.bz2"
    table = np.array([line.split(",") for line in bz2.open(path, "rt").read().split()])
    columns = [np.unique(column, return_inverse=True)[1] for column in table[:, 1:].T]
    return np.column_stack(columns) + 1.0, np.where(table[:, 0] == "e", 1.0, -1.0)


def paper_data() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the names, points and labels of the paper's four problems."""
    X, y = attributes()
    yield "mushrooms, order 2", normalized(second_order(X)), y
    parts = [_dense(name) for name in ("letter.scale", "letter.scale.t")]
    X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    yield "letter, order 2", normalized(second_order(X)), np.where(y == 26, 1.0, -1.0)
    X, y = _dense("waveform40")
    yield "waveform, order 2", normalized(second_order(X)), np.where(y == 0, 1.0, -1.0)
    X, y = _dense("isolet1560")
    yield "isolet, linear", X, np.where(y == np.max(y), 1.0, -1.0)


def gaussians(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw two classes that differ in the mean of five features."""
    rng = np.random.default_rng(12345)
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    X = rng.standard_normal((m, n))
    X[:, :5] += y[:, None] * (2.0 / np.sqrt(5.0))
    return X, y


def mixture(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_classification

    X, y = make_classification(
        m, n, n_informative=20, n_redundant=10, n_clusters_per_class=4, flip_y=0.01, random_state=0
    )
    return (X - X.mean(0)) / X.std(0), np.where(y > 0, 1.0, -1.0)


def covtype() -> tuple[np.ndarray, np.ndarray]:
    X, y = _dense("covtype")
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0), np.where(y == 2, 1.0, -1.0)


def real(name: str) -> tuple[Any, np.ndarray]:
    X, y = real_data.load(name)
    return X.astype(np.float64), np.where(y > 0, 1.0, -1.0)


DATA_SETS: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "a9a": lambda: real("a9a"),
    "w8a": lambda: real("w8a"),
    "20,000 x 50": lambda: mixture(20_000, 50),
    "200,000 x 20": lambda: gaussians(200_000, 20),
    "covtype": covtype,
    "1,000,000 x 100": lambda: gaussians(1_000_000, 100),
}
"""Functions that return the points and labels of the problems beside peers, by name."""


# The solvers: each returns weights alpha of the free-bias problem, or a w of the one without bias.


def _program(X: Any, y: np.ndarray) -> tuple[Any, ...]:
    """Return Z = YX and the identity as sparse matrices, and the numbers of points and of features."""
    m, d = X.shape
    return sp.csc_matrix(sp.diags(y) @ sp.csr_matrix(X)), sp.identity(m, format="csc"), m, d


def piqp(X: Any, y: np.ndarray, tol: float) -> dict[str, Any]:
    import piqp as library

    Z, eye, m, d = _program(X, y)
    P = sp.block_diag([sp.identity(d), sp.csc_matrix((1 + m, 1 + m))], format="csc")
    G = sp.hstack([Z, sp.csc_matrix(y[:, None]), eye], format="csc")
    solver = library.SparseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel = min(tol, 1e-6), tol / 10
    low = np.r_[np.full(d + 1, -1e30), np.zeros(m)]
    cost = np.r_[np.zeros(d + 1), np.full(m, C)]
    high = np.full(m, 1e30)
    solver.setup(P, cost, None, None, G, np.ones(m), high, low, np.full(d + 1 + m, 1e30))
    solver.solve()
    return {"alpha": np.abs(np.asarray(solver.result.z_l)[:m])}


def clarabel(X: Any, y: np.ndarray, tol: float) -> dict[str, Any]:
    import clarabel as library

    Z, eye, m, d = _program(X, y)
    P = sp.block_diag([sp.csc_matrix((m, m)), sp.identity(d)], format="csc")
    empty = sp.csc_matrix((m, d))
    A = sp.vstack(
        [
            sp.hstack([Z.T, -sp.identity(d)]),
            sp.hstack([sp.csc_matrix(y[None, :]), sp.csc_matrix((1, d))]),
            sp.hstack([-eye, empty]),
            sp.hstack([eye, empty]),
        ],
        format="csc",
    )
    settings = library.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = tol / 10
    cones = [library.ZeroConeT(d + 1), library.NonnegativeConeT(2 * m)]
    q, right = np.r_[-np.ones(m), np.zeros(d)], np.r_[np.zeros(d + 1 + m), np.full(m, C)]
    solution = library.DefaultSolver(P, q, A, right, cones, settings).solve()
    return {"alpha": np.asarray(solution.x)[:m]}


def _dual(X: Any, y: np.ndarray) -> tuple[Any, ...]:
    """Return the dual in alpha and w = Z'alpha: P, q, the equalities, and the rows of bounded entries."""
    Z, eye, m, d = _program(X, y)
    P = sp.block_diag([sp.csc_matrix((m, m)), sp.identity(d)], format="csc")
    bias = sp.hstack([sp.csc_matrix(y[None, :]), sp.csc_matrix((1, d))])
    equal = sp.vstack([sp.hstack([Z.T, -sp.identity(d)]), bias], format="csc")
    box = sp.hstack([eye, sp.csc_matrix((m, d))], format="csc")
    return P, np.r_[-np.ones(m), np.zeros(d)], equal, box


def osqp(X: Any, y: np.ndarray, tol: float) -> dict[str, Any]:
    import osqp as library

    P, q, equal, box = _dual(X, y)
    zero, m = np.zeros(equal.shape[0]), len(y)
    solver = library.OSQP()
    solver.setup(
        P, q, sp.vstack([equal, box], format="csc"), np.r_[zero, np.zeros(m)],
        np.r_[zero, np.full(m, C)], eps_abs=tol, eps_rel=tol, max_iter=10**6, verbose=False,
        polishing=False,
    )  # fmt: skip
    return {"alpha": np.asarray(solver.solve().x)[:m]}


def proxqp(X: Any, y: np.ndarray, tol: float) -> dict[str, Any]:
    from proxsuite import proxqp as library

    P, q, equal, box = _dual(X, y)
    zero, m = np.zeros(equal.shape[0]), len(y)
    found = library.sparse.solve(
        P, q, equal, zero, box, np.zeros(m), np.full(m, C), eps_abs=tol, eps_rel=0.0, max_iter=10**6
    )
    return {"alpha": np.asarray(found.x)[:m]}


def svc(X: Any, y: np.ndarray, tol: float) -> dict[str, Any]:
    from sklearn.svm import SVC

    model = SVC(C=C, kernel="linear", tol=tol, cache_size=1000).fit(X, y)
    alpha = np.zeros(len(y))
    coef = model.dual_coef_
    alpha[model.support_] = np.abs(coef.toarray() if sp.issparse(coef) else coef).ravel()
    return {"alpha": alpha}


def linear_svc(X: Any, y: np.ndarray, tol: float) -> dict[str, Any]:
    from sklearn.svm import LinearSVC

    model = LinearSVC(
        loss="hinge", dual=True, C=C, tol=tol, fit_intercept=False, max_iter=10**6, random_state=0
    )
    return {"w": model.fit(X, y).coef_.ravel()}


def crsvm(X: Any, y: np.ndarray, tol: float) -> dict[str, Any]:
    result = qpsvm.solve(HingePrimal(X, y, C), "crsvm", tol=tol)
    return {"alpha": result.dual}


SOLVER_FUNCTIONS: dict[str, tuple[Callable[..., dict[str, Any]], tuple[float, ...], float]] = {
    "crsvm": (crsvm, (1e-3, 1e-6, 1e-8), np.inf),
    "LinearSVC (no bias)": (linear_svc, (1e-1, 1e-2, 1e-3, 1e-4, 1e-6), np.inf),
    "PIQP": (piqp, (1e-4, 1e-9), 2e5),
    "Clarabel": (clarabel, (1e-4, 1e-9), 2e5),
    "OSQP": (osqp, (1e-4,), 5e4),
    "ProxQP": (proxqp, (1e-3, 1e-6), 5e4),
    "SVC": (svc, (1e-2, 1e-5), 5e4),
}
"""Function of each solver, its tolerances from loose to tight, and its maximum number of points.

A run over the time limit is the last one of a solver on a problem.
"""


def _child(solver: Callable[..., Any], X: Any, y: np.ndarray, tol: float, pipe: Any) -> None:
    try:
        small = slice(None, None, max(1, len(y) // 400))
        solver(X[small], y[small], 1e-2)  # imports and compilation
        begun = time.perf_counter()
        answer = solver(X, y, tol)
        pipe.send((time.perf_counter() - begun, answer))
    except ImportError as problem:
        pipe.send((np.nan, {"missing": problem.name}))


def timed(solver: Callable[..., Any], X: Any, y: np.ndarray, tol: float) -> Any:
    """Return seconds and answer of a run in a process of its own, or None after the time limit."""
    here, there = mp.get_context("fork").Pipe(duplex=False)
    process = mp.get_context("fork").Process(target=_child, args=(solver, X, y, tol, there))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(TIME_LIMIT + 2.0) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def best_without_bias(X: Any, y: np.ndarray) -> float:
    """Return a lower bound of the optimal value without a bias.

    With the mirrored points, of the other label, at half of C, the best bias is 0.
    """
    both = sp.vstack([X, -X], format="csr") if sp.issparse(X) else np.vstack([X, -X])
    return qpsvm.solve(HingePrimal(both, np.r_[y, -y], C / 2), "crsvm", tol=1e-8).certificate.lower


def peer_rows(names: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield data, solver, and for each tolerance the seconds, or the gap that was reached."""
    for name in names:
        X, y = DATA_SETS[name]()
        # Processes of the peers are forks, which inherit the compiled code of this solve.
        qpsvm.solve(HingePrimal(X, y, C), "crsvm", tol=1e-8)
        qp, least = HingePrimal(X, y, C).as_qp(), None
        for label, (solver, tolerances, most) in SOLVER_FUNCTIONS.items():
            if len(y) > most:
                yield name, label, *("left out",) * len(GAP_TOLERANCES)
                continue
            reached: list[tuple[float, float]] = []  # gap, seconds
            why = f"over {TIME_LIMIT:g} s"
            for tol in tolerances:
                run = timed(solver, X, y, tol)
                if run is None or "missing" in run[1]:
                    why = why if run is None else f"{run[1]['missing']} not installed"
                    break
                seconds, answer = run
                if "w" in answer:
                    least = best_without_bias(X, y) if least is None else least
                    w = answer["w"]
                    value = 0.5 * w @ w + C * np.sum(np.maximum(0.0, 1.0 - y * (X @ w)))
                    reached.append(((value - least) / value, seconds))
                else:
                    found = certify(qp, np.asarray(answer["alpha"], np.float64), tol)
                    reached.append((found.certificate.relative_gap, seconds))
            yield name, label, *(_cell(reached, tol, why) for tol in GAP_TOLERANCES)


def _cell(reached: list[tuple[float, float]], tol: float, why: str) -> str:
    enough = [seconds for gap, seconds in reached if gap <= tol]
    if enough:
        return f"{min(enough):.3g}"
    if not reached:
        return why
    gap, seconds = min(reached)
    return f"({gap:.0e} in {seconds:.3g})"


PROBLEM_FORMS = {
    "unreduced": {"reduction": None},
    **METHOD_VARIANTS,
    "printed, omega": {"reduction": "paper"},
    "printed, one-sided": {"reduction": "paper", "constraint_choice": "one-sided"},
}
"""Options of `crsvm` for all forms of the table of constraint reduction, by name."""


def variant_rows() -> Iterator[tuple[str, ...]]:
    """Yield data, size, variant, iterations, rows for each iteration and point, CG steps, seconds."""
    _compile()
    for name, X, y in paper_data():
        for label, options in PROBLEM_FORMS.items():
            seconds = []
            for _ in range(N_RUNS):
                begun = time.perf_counter()
                r = qpsvm.solve(HingePrimal(X, y, C), "crsvm", tol=1e-8, sift=False, **options)
                seconds.append(time.perf_counter() - begun)
            share = r.counters["rows"] / (r.n_iter * len(y))
            size = f"{X.shape[0]:,} x {X.shape[1]}"
            status = "" if r.converged else f" {r.status.name}"
            steps = str(r.counters["cg"])
            took = f"{min(seconds):.3g}"
            yield name, size, label, f"{r.n_iter}{status}", f"{share:.2f}", steps, took


def _compile() -> None:
    """Solve small problems of every form once."""
    X, y = gaussians(9000, 20)
    for options in PROBLEM_FORMS.values():
        qpsvm.solve(HingePrimal(X, y, C), "crsvm", tol=1e-8, sift=False, **options)
    X, y = real(ADULT_SETS[0])
    for sift in (False, True):
        qpsvm.solve(HingePrimal(X, y, C), "crsvm", tol=1e-8, sift=sift)


def growth_rows() -> Iterator[tuple[str, ...]]:
    """Yield data, m, seconds to 1e-8 without and with the sample; at the end the exponents."""
    _compile()
    sizes: list[int] = []
    times: list[list[float]] = []
    for name in ADULT_SETS:
        X, y = real(name)
        X = X / np.max(np.abs(X.data))
        sizes.append(len(y))
        times.append([])
        for sift in (False, None):
            seconds = []
            for _ in range(N_RUNS):
                begun = time.perf_counter()
                qpsvm.solve(HingePrimal(X, y, C), "crsvm", tol=1e-8, sift=sift)
                seconds.append(time.perf_counter() - begun)
            times[-1].append(float(np.median(seconds)))
        yield name, f"{len(y):,}", *(f"{t:.3g}" for t in times[-1])
    slopes = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    yield "exponent", "", *(f"{slope:.2f}" for slope in slopes)


def draw(rows: list[tuple[str, ...]], path: Path) -> None:
    """Draw seconds against m, rows of `growth_rows`, and the fitted powers of m."""
    from matplotlib.figure import Figure

    *data, (_, _, *slopes) = rows
    m = np.array([float(size.replace(",", "")) for _, size, *_ in data])
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for k, (name, slope) in enumerate(zip(("all points", "default"), slopes, strict=True)):
        seconds, exponent = np.array([float(row[2 + k]) for row in data]), float(slope)
        middle = np.exp(np.mean(np.log(seconds) - exponent * np.log(m)))
        axes.loglog(m, seconds, "os"[k], color=f"C{k}", label=name)
        axes.loglog(m, middle * m**exponent, "-", color=f"C{k}", label=f"m to the power {slope}")
    axes.set(xlabel="points m", ylabel="seconds to a relative gap of 1e-8")
    axes.legend()
    figure.savefig(path, dpi=120)
