"""The performance grid: some sixty cells, ours beside the fastest peers at equal certified gap.

    python -m docs.make.grid prepare                      # makes the points; minutes
    python -m docs.make.grid measure --tol 1e-3 --seconds 450
    python -m docs.make.grid measure --cells "hinge rbf" --peers SVC
    python -m docs.make.grid measure --level x86-64-v3    # compiled and run as for AVX2
    python -m docs.make.grid judge                        # the independent gaps
    python -m docs.make.grid page > docs/benchmarks/grid.md

`measure` adds a row for each program and cell to `docs/make/grid.jsonl` and leaves out what is there, so
that it may be ended at any time; `--seconds` ends it before a cell. QPSVM_PEER_PYTHON names a Python with
scikit-learn-intelex.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import qpsvm
from asv_benchmarks import grid
from asv_benchmarks.grid_cells import Cell
from docs.benchmarks.make.multi_class import PEER_VARIABLE
from docs.benchmarks.make.pages import commit, processor
from docs.make import grid_clarabel, grid_run, independent_gap
from docs.make.independent_gap import relative

ROWS_FILE = Path(__file__).with_name("grid.jsonl")
"""One JSON object for each program, cell, tolerance and level."""

NOTES_FILE = Path(__file__).with_name("grid_notes.md")
"""What the runs say, in words, for the page."""

DATA_FOLDER = Path(tempfile.gettempdir()) / "qpsvm_grid"
"""Points and answers."""

LIMIT_SECONDS = 30.0
"""Seconds that a fit of a peer gets; ours, too."""

BUDGET_SECONDS = 50.0
"""Seconds of fits of a peer after which no other tolerance is tried."""

MAX_LOOSER, MAX_TIGHTER = 2, 4
"""Powers of ten by which the tolerance of a peer is changed from the first one."""

SLOW_SECONDS = 8.0
"""Seconds of a fit from which no looser tolerance is tried."""

MAX_RUNS = 9
"""Runs of a call of less than 0.1 s, of which the median counts."""

MAX_MATRIX_POINTS = 15_000
"""Points up to which a peer is given a kernel matrix: with 20,000 scikit-learn 1.9.1 crashes."""

REFERENCE_TOL = 1e-8
"""Tolerance of the solve whose lower bound judges what has no dual answer."""

INSTRUCTION_LEVELS = ("native", "x86-64-v3")


def peers(cell: Cell) -> tuple[list[str], str]:
    """Return the peers of a cell, and the formulation that they solve."""
    form, kernel = cell.formulation, cell.kernel
    clarabel = ["Clarabel"] * grid_clarabel.is_possible(cell)
    if kernel == "linear" and form in ("hinge", "l2"):
        return ["LinearSVC", *["LinearSVC primal"] * (form == "l2"), *clarabel], form
    if form == "hinge":
        fast = kernel in ("rbf", "poly2", "poly3", "sigmoid", "precomputed")
        return [*["sklearnex SVC"] * fast, "SVC"], form
    if form == "l2":
        if cell.m <= MAX_MATRIX_POINTS:
            return ["OneClassSVM of Q", "SVC of K + I/C"], form
        return ["sklearnex SVC", "SVC"], "hinge"
    if form == "one-class":
        return ["OneClassSVM", *clarabel * (kernel == "linear")], form
    constant = kernel in ("rbf", "laplacian", "precomputed", "custom")
    if constant:  # balls of points on a sphere are one-class machines
        return ["OneClassSVM"], form
    return (clarabel, form) if clarabel else (["OneClassSVM"], "one-class")


def path_of(cell: Cell) -> Path:
    """Return the file of the points of a cell."""
    return DATA_FOLDER / f"{cell.name.replace(' ', '_').replace('%', '')}.npz"


def prepare(names: list[str]) -> None:
    """Make the points of cells."""
    DATA_FOLDER.mkdir(exist_ok=True)
    for name in names:
        cell, overlap = grid.cells()[name]
        if not path_of(cell).exists():
            print(name, file=sys.stderr, flush=True)
            grid_run.save(str(path_of(cell)), grid.make(cell, overlap))


class Program:
    """One program on one cell, in a process of its own."""

    def __init__(self, cell: Cell, who: str, level: str) -> None:
        environment, python = dict(os.environ), sys.executable
        if who.startswith("sklearnex"):
            python = os.environ[PEER_VARIABLE]
            environment.pop("PYTHONPATH", None)
        call = [python, "-m", "docs.make.grid_run", str(path_of(cell)), cell.name, who]
        n_threads = str(len(os.sched_getaffinity(0)))
        prefix = [] if level == "native" else [".ci/as_processor", level, n_threads]
        self.process = subprocess.Popen(
            [*prefix, *call, str(LIMIT_SECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.versions = self.read()

    def read(self) -> dict[str, Any]:
        """Return the next line of the process, or a note that it ended."""
        assert self.process.stdout and self.process.stderr
        line = self.process.stdout.readline()
        if line:
            return dict(json.loads(line))
        if self.process.wait() == -14:
            return {"note": f"over {LIMIT_SECONDS:g} s", "limit": LIMIT_SECONDS}
        said = self.process.stderr.read().strip().splitlines() or [str(self.process.returncode)]
        return {"note": f"failed: {said[-1]}"}

    def ask(self, tol: float, n_runs: int) -> dict[str, Any]:
        """Return the figures of runs at a tolerance."""
        if "note" in self.versions:
            return self.versions
        assert self.process.stdin
        self.process.stdin.write(f"{tol!r} {n_runs}\n")
        self.process.stdin.flush()
        return self.versions | self.read()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()


def problem_of(cell: Cell, data: grid.Data, form: str) -> Any:
    """Return the problem that a peer solves, as we declare it."""
    return grid.declare(cell._replace(formulation=form), data)


def independent(
    cell: Cell, data: grid.Data, who: str, form: str, x: Any, lower: float
) -> tuple[float, float]:
    """Return independent upper and lower bounds of the minimum that an answer proves."""
    if who.startswith("LinearSVC"):
        return independent_gap.primal_value(form, data, x, cell.C or 1.0), lower
    nu = max(cell.support / 100, 1.0 / len(data.y))
    C = cell.C or (1.0 if form == "ball" else 1.0 / (nu * len(data.y)))
    form = "l2 with a free bias" if who == "SVC of K + I/C" else form
    return independent_gap.bounds(form, data, cell.kernel, x, C, cell.kernel != "linear")[:2]


def certified(cell: Cell, data: grid.Data, who: str, form: str, x: Any, lower: float) -> float:
    """Return the relative gap of a peer's answer, by our certificate where the answer is a dual one."""
    if who.startswith("LinearSVC") or who == "SVC of K + I/C":
        return relative(*independent(cell, data, who, form, x, lower))
    problem = problem_of(cell, data, form)
    method = "smo" if "smo" in qpsvm.methods(problem) else qpsvm.methods(problem)[0]
    return qpsvm.solve(problem, method, x0=x, max_iter=0).certificate.relative_gap


def reference(cell: Cell, data: grid.Data) -> float:
    """Return a lower bound of the primal of a linear machine, close to its optimum."""
    bounds = qpsvm.solve(grid.declare(cell, data), tol=REFERENCE_TOL).certificate
    return 1.0 / (4.0 * bounds.upper) if cell.formulation == "l2" else -bounds.upper


def first_tolerance(cell: Cell, data: grid.Data, who: str, own: dict[str, Any]) -> float:
    """Return the tolerance that a peer is first run at."""
    target = float(own["tol"])
    if who == "Clarabel":
        return target
    if not who.startswith("OneClassSVM"):
        return 10.0 * target
    nu = 1.0 if cell.formulation in ("ball", "l2") else cell.support / 100 * cell.m
    scale = float(np.mean(grid.gram(cell, data).diag())) if "ball" in cell.formulation else 0.0
    return target * nu * (scale or 2.0 * abs(own["upper"]))


def peer(
    cell: Cell, data: grid.Data, who: str, own: dict[str, Any], start: float | None, lower: float
) -> dict[str, Any]:
    """Return the figures of a peer at the loosest tolerance that is enough, or at the last one."""
    form = peers(cell)[1]
    program = Program(cell, who, own["level"])
    tol = start or first_tolerance(cell, data, who, own)
    answer = grid_run.answer_file(path_of(cell), who)
    best: dict[str, Any] = {}
    last: dict[str, Any] = {}
    spent, n_looser, n_tighter = 0.0, 0, 0
    while True:
        found = program.ask(tol, 1)
        if "note" in found:
            last = {k: last[k] for k in ("gap", "seconds") if k in last} | found
            break
        spent += found["seconds"]
        x = np.load(answer)
        gap = certified(cell, data, who, form, x, lower)
        last = found | {"peer tol": tol, "gap": gap}
        print(
            "   ", who, f"{tol:.1e} {found['seconds']:.3f} s {gap:.1e}", file=sys.stderr, flush=True
        )
        if gap <= own["tol"]:
            if best and best["seconds"] <= last["seconds"]:
                break
            best = last
            if own["level"] == "native":
                np.save(grid_run.answer_file(path_of(cell), who, own["tol"]), x)
            if n_tighter or n_looser >= MAX_LOOSER or found["seconds"] > SLOW_SECONDS:
                break
            tol, n_looser = tol * 10.0, n_looser + 1
        else:
            if best or n_tighter >= MAX_TIGHTER or spent > BUDGET_SECONDS:
                break
            tol, n_tighter = tol / 10.0, n_tighter + 1
    if best:
        if best["seconds"] < grid_run.LONG_SECONDS and "note" not in last:
            best |= program.ask(best["peer tol"], MAX_RUNS)
        last = best
    elif "note" not in last:
        last |= {"note": f"gap {last['gap']:.1e} at tolerance {last['peer tol']:.0e}"}
    program.close()
    return last | {"problem": form}


def known() -> dict[tuple[str, str, float, str], dict[str, Any]]:
    """Return the rows measured so far."""
    lines = ROWS_FILE.read_text().splitlines() if ROWS_FILE.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(r["cell"], r["who"], r["tol"], r["level"]): r for r in rows}


def keep(row: dict[str, Any]) -> None:
    """Add a row to the file."""
    with ROWS_FILE.open("a") as file:
        file.write(json.dumps(row) + "\n")


def measure(cell: Cell, tol: float, level: str, only: list[str] | None, again: bool) -> None:
    """Run the programs of a cell that have not run."""
    rows, data, lower = known(), None, np.nan
    who_all = ["qpsvm", *peers(cell)[0]]
    common = {
        "cell": cell.name, "tol": tol, "level": level, "commit": commit().strip("`"),
        "processor": processor(), "date": datetime.date.today().isoformat(),
    }  # fmt: skip
    for who in who_all:
        if only is not None and who not in only:
            continue
        if (cell.name, who, tol, level) in rows and not again:
            continue
        row = {"cell": cell.name, "who": who, **common}
        if who == "qpsvm":
            program = Program(cell, who, level)
            row |= program.ask(tol, MAX_RUNS)
            program.close()
            if "note" not in row and level == "native":  # whose answers are judged
                answer = grid_run.answer_file(path_of(cell), who)
                answer.rename(grid_run.answer_file(path_of(cell), who, tol))
        else:
            data = data or grid_run.load(str(path_of(cell)))
            native = rows.get((cell.name, who, 1e-3, "native"), {})
            earlier = rows.get((cell.name, who, 1e-3, level), native)
            if who.startswith("LinearSVC") and np.isnan(lower):
                lower = reference(cell, data)
            if (tol, level) != (1e-3, "native") and "limit" in earlier:
                row |= {key: earlier[key] for key in ("note", "limit", "problem")}
            else:
                start = earlier["peer tol"] * tol / 1e-3 if "peer tol" in earlier else None
                own = rows[cell.name, "qpsvm", tol, level]
                row |= peer(cell, data, who, own, start, lower) | {"lower bound": lower}
        said = row.get("note", f"{row.get('seconds', 0):.4f} s  gap {row.get('gap', 0):.1e}")
        print(f"{cell.name:55s} {who:16s} {said}", file=sys.stderr, flush=True)
        keep(row)
        rows[cell.name, who, tol, level] = row


def judge(names: list[str]) -> None:
    """Add the independent gap to the rows whose answers are kept."""
    rows = known()
    for (name, who, tol, level), row in sorted(
        rows.items(), key=lambda item: item[0][1] != "qpsvm"
    ):
        cell = grid.cells()[name][0]
        answer = grid_run.answer_file(path_of(cell), who, tol)
        if name not in names or "independent" in row or level != "native" or not answer.exists():
            continue
        data = grid_run.load(str(path_of(cell)))
        form = row.get("problem", cell.formulation)
        bounds = independent(cell, data, who, form, np.load(answer), row.get("lower bound", np.nan))
        row |= {"independent": relative(*bounds), "independent upper": bounds[0]}
        print(
            f"{name:55s} {who:16s} {tol:g} {row['gap']:.2e} {row['independent']:.2e}",
            file=sys.stderr,
        )
        keep(row)


def chosen(words: list[str]) -> Iterator[str]:
    """Yield the names of cells that contain one of some words."""
    yield from (name for name in grid.cells() if not words or any(w in name for w in words))


def main() -> None:
    """Make the points, measure, judge, or print the page."""
    parser = argparse.ArgumentParser(description="The performance grid.")
    parser.add_argument("what", choices=("prepare", "measure", "judge", "page"))
    parser.add_argument("--cells", nargs="*", default=[], help="parts of names")
    parser.add_argument("--peers", nargs="*", help="only these programs; qpsvm is one")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--level", choices=INSTRUCTION_LEVELS, default="native")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no cell after these")
    parser.add_argument("--again", action="store_true", help="measure what is there, too")
    given = parser.parse_args()
    names = list(chosen(given.cells))
    if given.what == "prepare":
        prepare(names)
    elif given.what == "measure":
        begun = time.perf_counter()
        for name in names:
            if time.perf_counter() - begun > given.seconds:
                break
            measure(grid.cells()[name][0], given.tol, given.level, given.peers, given.again)
    elif given.what == "judge":
        judge(names)
    else:
        from docs.make.grid_page import page

        print(*page(known()), sep="\n")


if __name__ == "__main__":
    main()
