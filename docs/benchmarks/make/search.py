"""The page of searches of a grid: `SVCCV` beside GridSearchCV and liquidSVM.

    python -m docs.benchmarks.make.search > docs/benchmarks/search.md
    python -m docs.benchmarks.make.search --sets digits --points 500
    python -m docs.benchmarks.make.search --sets usps --who SVCCV --earlier rows.json  # others from there
    python -m docs.benchmarks.make.search --sets --earlier rows.json                   # all from there

The rows go to the error stream too, one JSON object a line: `--earlier` reads such a file.

QPSVM_DATA names the folder of the data, QPSVM_PEER_PYTHON a Python with scikit-learn-intelex, which need
not have this package, and QPSVM_LIQUIDSVM the folder of liquidSVM's programs. What is not there is
left out, and the page says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from docs.benchmarks.make import peer_run
from docs.benchmarks.make.multi_class import PEER_SCRIPT, answer
from docs.benchmarks.make.pages import commit, head, row
from qpsvm.data import load_libsvm
from qpsvm.estimators import SVCCV

LIQUID_VARIABLE = "QPSVM_LIQUIDSVM"
"""Environment variable that names the folder of liquidSVM's programs."""

N_FOLDS = 5
"""Folds of each search."""

N_THREADS = 2
"""Threads of each search."""

PAIRS_OF_DISTANCES = 100_000
"""Drawn pairs of points whose median squared distance sets the values of gamma."""

POINTS_OF_LETTER = 5_000
"""First points of letter that are searched."""

DATA_SETS = {
    "digits": "scikit-learn's digits, divided by 16",
    "letter": "the first 5,000 training points, as distributed",
    "a5a": "adult, dense",
    "usps": "the training points, as distributed",
}
PARAMETER_GRIDS = {
    "5 x 5": (2.0 ** np.arange(-2, 7, 2), 2.0 ** np.arange(-2, 3)),
    "10 x 10": (np.geomspace(0.01, 1000.0, 10), np.geomspace(0.05, 20.0, 10)),
}
"""Values of C, and of gamma in units of one over the median squared distance."""

RATIO_GOALS = {"GridSearchCV": 10.0, "liquidSVM": 2.0}
"""Ratios to the seconds of `SVCCV` that were asked for."""

PROGRAM_NAMES = ("SVCCV", *RATIO_GOALS)
"""Who searches."""

PEER_GRID = "5 x 5"
"""The grid that GridSearchCV searches: it takes minutes for it."""

Row = dict[str, Any]
SECONDS_PATTERN = re.compile(r"([\d.]+) seconds used for training")
"""What liquidSVM's programs may print of their time, reading and writing of files apart."""

PAGE_TEXT = """\
C and gamma of an RBF kernel by five folds on dense points in double precision, two threads each. The
small grid has C = 0.25, 1, 4, 16, 64 and gamma = 1/4, 1/2, 1, 2, 4 over the median squared distance; the
large one ten values each from 0.01 to 1000 and from 0.05 to 20 over it. `SVCCV` and `GridSearchCV` with
scikit-learn-intelex's SVC (the better of the numbers of jobs that were tried) have the same folds, one
against one, a free bias, and fit all points at the end; `gap` is the largest certified relative gap of
all cells.
liquidSVM has random folds, no bias, a looser stopping rule and no certificate, and chooses C and gamma
for each pair by itself: its seconds are what its programs for training and selection print or, where
they print nothing, their wall time, which reading a file of the points is part of.
Seconds are the median of three calls, or one call of 10 s and more, after an untimed search of
few points and, of `SVCCV`, an untimed fit to all of them. Each row is a process of its own.

All rows were measured one after the other, each alone on the machine. The processor is an AMD EPYC (Zen
4, AVX-512) with two cores; liquidSVM 1.0.1 of PyPI is compiled with -O3 -march=native."""


def load(name: str, n_points: int | None) -> tuple[Any, Any]:
    """Return points and classes."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X = X / 16
    else:
        sparse, y = load_libsvm({"letter": "letter.scale"}.get(name, name))
        X = sparse.toarray()
    most = POINTS_OF_LETTER if name == "letter" else len(y)
    most = most if n_points is None else min(most, n_points)
    return X[:most], y[:most].astype(np.int64)


def median_distance(X: Any) -> float:
    """Return the median squared distance of drawn pairs of points."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(len(X), size=(2, PAIRS_OF_DISTANCES))
    parts = [
        np.sum((X[a[start : start + 10_000]] - X[b[start : start + 10_000]]) ** 2, axis=1)
        for start in range(0, PAIRS_OF_DISTANCES, 10_000)
    ]
    return float(np.median(np.concatenate(parts)))


def ours(path: str) -> Row:
    """Return our figures, in this process."""
    with np.load(path) as stored:
        X, y, Cs, gammas = (stored[name] for name in ("X", "y", "Cs", "gammas"))
    some = peer_run.some_rows(len(y))

    def search() -> SVCCV:
        return SVCCV(Cs=Cs, gammas=gammas, cv=N_FOLDS, n_jobs=N_THREADS).fit(X, y)

    model = SVCCV(Cs=Cs, gammas=gammas, cv=N_FOLDS, n_jobs=N_THREADS).fit(X[some], y[some])
    model.best_estimator_.fit(X, y)  # loads what a fit to many points needs
    found, seconds = peer_run.timed(search)
    return {
        "commit": commit(), "date": datetime.date.today().isoformat(),
        "seconds": seconds, "score": found.best_score_, **found.best_params_,
        "gap": float(np.max(found.cv_results_["max_dual_gap"])),
    }  # fmt: skip


def liquid(path: str) -> Row:
    """Return the seconds of liquidSVM's search by its programs for training and selection."""
    if LIQUID_VARIABLE not in os.environ:
        return {"note": f"not installed: {LIQUID_VARIABLE} is not set"}
    programs = Path(os.environ[LIQUID_VARIABLE])
    with np.load(path) as stored:
        X, y, Cs, gammas = (stored[name] for name in ("X", "y", "Cs", "gammas"))
    widths = [f"{1.0 / np.sqrt(gamma):.8g}" for gamma in gammas]  # exp(-distance^2 / width^2)
    penalties = [f"{C:.8g}" for C in Cs]
    is_binary = len(np.unique(y)) == 2
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder, "train.csv"), np.column_stack([y, X]), fmt="%.9g", delimiter=",")
        grid = ["-g", "[", *widths, "]", "-l", "[", *penalties, "]", "1"]
        common = ["-d", "1", "-f", "4", str(N_FOLDS), "-S", "2", "-L", "0", "-r", "1"]
        train = ["svm-train", *common, "-W", "0" if is_binary else "1", "-T", str(N_THREADS), *grid,
                 "train.csv", "train.log"]  # fmt: skip
        select = [
            "svm-select",
            "-d",
            "1",
            "-R",
            "0",
            "train.csv",
            "train.log",
            "select.log",
            "m.sol",
        ]

        def search() -> float:
            Path(folder, "m.sol").unlink(missing_ok=True)
            return sum(
                _spent([str(programs / call[0]), *call[1:]], folder) for call in (train, select)
            )

        try:
            seconds = [search()]
            while len(seconds) < peer_run.N_RUNS and seconds[0] < peer_run.LONG_SECONDS:
                seconds.append(search())
            return {"seconds": float(np.median(seconds))}
        except (RuntimeError, OSError) as failure:
            return {"note": str(failure)}


def _spent(call: list[str], folder: str) -> float:
    """Run a program of liquidSVM; return the seconds that it prints, or else its wall time."""
    begun = time.perf_counter()
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise RuntimeError(f"{Path(call[0]).name} failed: {said[-1]}")
    found = SECONDS_PATTERN.findall(done.stdout)
    return float(found[-1]) if found else seconds


def measure(
    name: str, n_points: int | None, grids: list[str], who: list[str], jobs: list[int]
) -> Iterator[Row]:
    """Yield the figures of searches on a set, ours and scikit-learn's in their own processes."""
    X, y = load(name, n_points)
    unit = 1.0 / median_distance(X)
    for grid in grids:
        Cs, factors = PARAMETER_GRIDS[grid]
        common = {"set": name, "grid": grid, "m": len(y), "d": X.shape[1], "k": len(np.unique(y))}
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "data.npz"))
            np.savez(path, X=X, y=y, Cs=Cs, gammas=unit * factors)
            if "SVCCV" in who:
                call = [sys.executable, "-m", "docs.benchmarks.make.search", "--one", path]
                yield common | {"who": "SVCCV"} | answer(call, "qpsvm")
            if "GridSearchCV" in who and grid == PEER_GRID:
                peer = [sys.executable, str(PEER_SCRIPT), "search", "sklearnex", path]
                runs = [{"jobs": n, **answer([*peer, str(n)], "sklearnex")} for n in jobs]
                best = min(runs, key=lambda run: run.get("seconds", np.inf))
                yield common | {"who": "GridSearchCV", "tried": jobs} | best
            if "liquidSVM" in who:
                yield common | {"who": "liquidSVM"} | liquid(path)


def place(r: Row) -> tuple[int, int, int]:
    """Return the place of a row in the table."""
    return (
        list(DATA_SETS).index(r["set"]),
        list(PARAMETER_GRIDS).index(r["grid"]),
        PROGRAM_NAMES.index(r["who"]),
    )


def page(rows: list[Row], n_points: int | None) -> Iterator[str]:
    """Yield the page of the rows."""
    text = (
        PAGE_TEXT
        if n_points is None
        else f"{PAGE_TEXT}\n\nA trial on at most {n_points:,} points of a set."
    )
    made = dict.fromkeys(f"commit {r['commit']} on {r['date']}" for r in rows if "commit" in r)
    text += f"\n\nOur rows: {', '.join(made)}."
    present = {(r["set"], r["grid"], r["who"]) for r in rows}
    wanted = [
        (name, grid, who) for name in DATA_SETS for grid in PARAMETER_GRIDS for who in PROGRAM_NAMES
    ]
    missing = [
        f"{who} on {name}, {grid}"
        for name, grid, who in wanted
        if (name, grid, who) not in present and (who != "GridSearchCV" or grid == PEER_GRID)
    ]
    if missing:
        text += f"\n\nNot measured: {'; '.join(missing)}."
    yield from head("search", "Search of C and gamma", text, runs=1)
    versions = {k: v for r in rows for k, v in r.get("versions", {}).items()}
    said = [f"{name} {at}" for name, at in sorted(versions.items())]
    yield f"\nPeers: {', '.join([*said, 'liquidSVM: programs as built, which print no version'])}."
    yield ""
    yield row("data", "m", "d", "classes", "grid", "who", "seconds", "over `SVCCV`'s", "goal", "score",
              "C", "gamma", "gap")  # fmt: skip
    yield row("---", *["---:"] * 3, "---", "---", *["---:"] * 7)
    base = {(r["set"], r["grid"]): r.get("seconds") for r in rows if r["who"] == "SVCCV"}
    for r in rows:
        own = [r["set"], f"{r['m']:,}", r["d"], r["k"], r["grid"], _who(r)]
        if "seconds" not in r:
            yield row(*own, r["note"], *[""] * 6)
            continue
        reference = base.get((r["set"], r["grid"]))
        goal, ratio, is_met = RATIO_GOALS.get(r["who"]), "", ""
        if reference is not None:
            ratio = f"{r['seconds'] / reference:.2g}"
            if goal is not None:
                is_met = f"{goal:g}, {'met' if r['seconds'] >= goal * reference else 'not met'}"
        more = [f"{r[key]:.4g}" if key in r else "" for key in ("score", "C", "gamma")]
        gap = f"{r['gap']:.2g}" if "gap" in r else ""
        yield row(*own, f"{r['seconds']:.3g}", ratio, is_met, *more, gap)
    yield ""
    for name in dict.fromkeys(r["set"] for r in rows):
        yield f"- `{name}`: {DATA_SETS[name]}"


def _who(r: Row) -> str:
    """Return who searched, with the number of jobs and those that were tried."""
    if "jobs" not in r:
        return str(r["who"])
    return f"{r['who']}, `n_jobs={r['jobs']}` of {', '.join(map(str, r['tried']))}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the page of searches in Markdown.")
    parser.add_argument("--sets", nargs="*", choices=DATA_SETS, default=list(DATA_SETS))
    parser.add_argument(
        "--grids", nargs="+", choices=PARAMETER_GRIDS, default=list(PARAMETER_GRIDS)
    )
    parser.add_argument("--who", nargs="+", choices=PROGRAM_NAMES, default=list(PROGRAM_NAMES))
    parser.add_argument("--jobs", nargs="+", type=int, default=[1, 2], help="of GridSearchCV")
    parser.add_argument("--points", type=int, help="most points of a set, for a trial")
    parser.add_argument(
        "--earlier", metavar="FILE", type=Path, help="rows that were measured before"
    )
    parser.add_argument("--one", metavar="DATA", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(ours(given.one)))
        return
    rows = {}
    if given.earlier:
        for line in given.earlier.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            rows[place(found)] = found
    for name in given.sets:
        for found in measure(name, given.points, given.grids, given.who, given.jobs):
            print(json.dumps(found), file=sys.stderr, flush=True)
            rows[place(found)] = found
    print(*page([rows[at] for at in sorted(rows)], given.points), sep="\n")


if __name__ == "__main__":
    main()
