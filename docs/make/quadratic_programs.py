"""The page of public quadratic programs, counted as qpbenchmark counts them.

python -m docs.make.quadratic_programs FOLDER > docs/benchmarks/quadratic_programs.md

FOLDER has the files of the Maros-Meszaros set in MATLAB's format, as the repository
qpsolvers/maros_meszaros_qpbenchmark has them in ``data``. Needs qpsolvers, which states the problems to
other solvers and computes residuals.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import qpsolvers
import scipy.io as sio
import scipy.sparse as sp

import qpsvm
from docs.benchmarks.make.pages import head, row, section
from qpsvm import QuadraticProgram, solve
from qpsvm.domains import Box, BoxHyperplane, simplex

INFINITE_BOUND = 9e19
"""Size from which a bound of a file means none."""

ASKED_TOLERANCES = (1e-3, 1e-6, 1e-9)
SECONDS_LIMIT = 60.0
GRID_SIDE = 50
"""Inner points of a side of the square on which membranes are discretized."""

PEER_SETTINGS: dict[str, Any] = {
    "clarabel": lambda tol: {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol},
    "osqp": lambda tol: {"eps_abs": tol, "eps_rel": 0.0, "max_iter": 200_000},
    "piqp": lambda tol: {"eps_abs": tol, "eps_rel": 0.0, "eps_duality_gap_abs": tol},
    "scs": lambda tol: {"eps_abs": tol, "eps_rel": 0.0, "max_iters": 200_000},
}
"""Other solvers, with the arguments that ask for a tolerance."""

PAGE_TITLE = "Public quadratic programs"
PAGE_TEXT = """\
Problems of the Maros-Meszaros set whose constraints are a domain of ours, and bound-constrained problems
of the CUTEst collection: the torsion of a bar and membranes over obstacles, by the formulas of Moré and
Toraldo, "On the solution of large quadratic programming problems with bound constraints" (1991), on a
grid of {side} x {side} points. An answer counts as qpbenchmark counts it: the primal residual, the dual
residual and the duality gap, absolute and computed by qpsolvers from the point and the multipliers, are
each at most the tolerance. Ours are asked for the relative gap that this means; their multipliers of
bounds are the gradient.

{fit}
Of the other problems none has constraints that are a domain: they have several general rows, or
inequalities, or no bounds. `VALUES` is not convex; our status says so, and the others are not asked."""


class Program(NamedTuple):
    """Minimize x'Px/2 + q'x, a'x = total, low <= x <= high, with x = scale z of our variable z."""

    name: str
    P: Any
    q: Any
    a: Any
    total: float
    low: Any
    high: Any
    domain: Any
    scale: Any


def of_file(path: Path) -> Program | None:
    """Return the problem of a file where its constraints are a domain, else None."""
    data = sio.loadmat(path)
    P, A = sp.csr_matrix(data["P"]), sp.csr_matrix(data["A"])
    q, l, u = (np.asarray(data[name], np.float64).ravel() for name in "qlu")
    n, counts = len(q), np.diff(A.indptr)
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    for i in np.flatnonzero(counts == 1):
        j, a = A.indices[A.indptr[i]], A.data[A.indptr[i]]
        ends = sorted((l[i] / a, u[i] / a))
        low[j], high[j] = max(low[j], ends[0]), min(high[j], ends[1])
    low[low < -INFINITE_BOUND], high[high > INFINITE_BOUND] = -np.inf, np.inf
    rows = np.flatnonzero(counts != 1)
    if len(rows) != 1 or l[rows[0]] != u[rows[0]] or counts[rows[0]] != n:
        return None
    a, total = A[rows[0]].toarray().ravel(), float(u[rows[0]])
    if np.all(a > 0.0) and total > 0.0 and not low.any() and np.all(high >= total / a):
        return Program(path.stem, P, q, a, total, low, high, simplex(n), total / a)
    if set(np.unique(a)) == {-1.0, 1.0} and total == 0.0 and not low.any():
        return Program(path.stem, P, q, a, total, low, high, BoxHyperplane(high, a), np.ones(n))
    return None


def membranes() -> Iterator[Program]:
    """Yield the torsion of a bar, and membranes over an obstacle and between two."""
    n, h = GRID_SIDE, 1.0 / (GRID_SIDE + 1)
    second = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    one = sp.eye_array(n)
    P = sp.csr_matrix(sp.kron(one, second) + sp.kron(second, one))
    s, t = (v.ravel() for v in np.meshgrid(*[h * np.arange(1, n + 1)] * 2))
    distance = np.minimum.reduce([s, 1.0 - s, t, 1.0 - t])
    cases = {f"torsion, c = {c}": (c, -distance, distance) for c in (5, 10, 20)}
    cases["obstacle A"] = 1, (np.sin(3.2 * s) * np.sin(3.3 * t)) ** 3, np.full(n * n, 2000.0)
    wave = np.sin(9.2 * s) * np.sin(9.3 * t)
    cases["obstacle B"] = 1, wave**3, wave**2 + 0.02
    for name, (c, low, high) in cases.items():
        q = np.full(n * n, -h * h * c)
        yield Program(name, P, q, None, 0.0, low, high, Box(low, high), np.ones(n * n))


def as_qpsolvers(program: Program) -> Any:
    """Return the problem as qpsolvers states it."""
    A, b = (None, None) if program.a is None else (sp.csc_matrix(program.a), [program.total])
    b = None if b is None else np.array(b)
    bounds = {"lb": program.low, "ub": program.high}
    return qpsolvers.Problem(sp.csc_matrix(program.P), program.q, None, None, A, b, **bounds)


def ours(program: Program, tol: float) -> tuple[Any, str, float]:
    """Return our answer with its multipliers, its status and its seconds."""
    scale = sp.diags_array(program.scale)
    Q = scale @ program.P @ scale
    Q = sp.csr_matrix(Q) if isinstance(program.domain, Box) else Q.toarray()
    declared = QuadraticProgram(Q, program.scale * program.q, program.domain)
    value = abs(solve(declared, tol=1e-3, time_limit=SECONDS_LIMIT).value)
    begun = time.perf_counter()  # what is compiled was compiled for the first answer
    found = solve(declared, tol=min(tol / max(value, 1e-300), tol), time_limit=SECONDS_LIMIT)
    seconds = time.perf_counter() - begun
    x = program.scale * found.x
    slope = program.P @ x + program.q
    y = None
    if program.a is not None:
        y = np.array([-float(found.dual[0]) / program.total if program.total else 0.0])
        slope = slope + program.a * y[0]
    z = -slope
    z[(z < 0.0) & ~np.isfinite(program.low)] = 0.0
    z[(z > 0.0) & ~np.isfinite(program.high)] = 0.0
    answer = qpsolvers.Solution(as_qpsolvers(program), {}, True, None, x, y, np.empty(0), z)
    return answer, found.status.name, seconds


def largest_residual(answer: Any) -> float:
    """Return the largest of the three numbers that qpbenchmark asks for."""
    if not answer.found or answer.x is None:
        return float("inf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return max(answer.primal_residual(), answer.dual_residual(), answer.duality_gap())


def rows_of(programs: list[Program]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each problem and tolerance: the largest residual of each solver."""
    for program in programs:
        for tol in ASKED_TOLERANCES:
            answer, status, seconds = ours(program, tol)
            if status == "NONCONVEX":
                if tol == ASKED_TOLERANCES[0]:
                    yield (
                        program.name,
                        str(len(program.q)),
                        "any",
                        status,
                        *("" for _ in PEER_SETTINGS),
                    )
                continue
            cells = [marked(largest_residual(answer), tol) + f" ({status}, {seconds:.2f} s)"]
            for name, settings in PEER_SETTINGS.items():
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = qpsolvers.solve_problem(
                            as_qpsolvers(program), solver=name, **settings(tol)
                        )
                    cells.append(marked(largest_residual(found), tol))
                except qpsolvers.exceptions.QPError as problem_met:
                    cells.append(type(problem_met).__name__)
            yield (program.name, str(len(program.q)), f"{tol:.0e}", *cells)


def marked(residual: float, tol: float) -> str:
    """Return a residual, in bold where it is within the tolerance."""
    text = "none" if residual == float("inf") else f"{residual:.1e}"
    return f"**{text}**" if residual <= tol else text


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="files of the Maros-Meszaros set")
    folder = parser.parse_args().folder
    found = [(path.stem, of_file(path)) for path in sorted(folder.glob("*.mat"))]
    if not found:
        parser.error(f"no .mat file in {folder}")
    programs = [p for _, p in found if p is not None]
    fit = f"Of {len(found)} problems of the set {len(programs)} fit: "
    fit += ", ".join(f"`{p.name}`" for p in programs) + "."
    text = PAGE_TEXT.format(fit=fit, side=GRID_SIDE)
    for line in head("quadratic_programs", PAGE_TITLE, text, runs=1, folder="docs.make"):
        print(line)
    columns = ("problem", "variables", "tolerance", "qpsvm", *PEER_SETTINGS)
    text = "Largest of the three residuals; in bold where it counts as solved."
    rows = list(rows_of([*programs, *membranes()]))
    for line in section("Residuals", text, columns, iter(rows)):
        print(line)
    print("\n## Solved\n")
    print(row("tolerance", *columns[3:]))
    print(row("---", *("---:" for _ in columns[3:])))
    for tol in ASKED_TOLERANCES:
        asked = [cells for cells in rows if cells[2] == f"{tol:.0e}"]
        counts = [sum(cells[3 + k].startswith("**") for cells in asked) for k in range(5)]
        print(row(f"{tol:.0e}", *(f"{n} of {len(asked)}" for n in counts)))
    print(f"\nqpsvm {qpsvm.__version__}, qpsolvers {qpsolvers.__version__}.")


if __name__ == "__main__":
    main()
