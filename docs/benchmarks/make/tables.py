"""Tables of figures for the documentation, as pages in Markdown.

Run from the root of the repository, when nothing else runs on the machine::

    python -m docs.benchmarks.make.tables spine > docs/benchmarks/spine.md
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import qpsvm
from asv_benchmarks import cold_start, real_data, reuse
from asv_benchmarks.common import (
    INSTANCE_NAMES,
    LARGE_PROBLEMS,
    SELECTED_INSTANCES,
    compile_steps,
    distinct_methods,
)
from docs.benchmarks.make import linear_dual, linear_svm, low_rank, peers
from docs.benchmarks.make.pages import N_RUNS, head, row, section
from qpsvm.solvers.methods import METHODS

TIME_LIMIT = 60.0
"""Maximum seconds of a solve."""


def spine() -> Iterator[str]:
    """Yield the lines of the first table: each family by each method, and the cold start."""
    yield from head(
        "tables spine",
        "Every method on every family",
        "One instance of each family on real data, by each method that fits, to the gap that the\n"
        "method promises; then larger problems by two methods that reach small gaps.",
    )
    yield ""
    columns = ("problem", "m", "method", "tol", "certified gap", "support", "iterations",
               "columns", "seconds")  # fmt: skip
    yield row(*columns)
    yield row("---", *["---:" if c not in ("problem", "method") else "---" for c in columns[1:]])
    for name in INSTANCE_NAMES:
        problem = SELECTED_INSTANCES[name].declare()
        for method in qpsvm.methods(problem):
            if method in distinct_methods():
                yield solved(f"`{name}`", problem, method, METHODS[method].gap)
    for name, make in LARGE_PROBLEMS.items():
        problem = make()
        for method in ("mfw", "smo"):
            yield solved(name, problem, method, 1e-6)
    for name in ("a9a", "w8a"):
        try:
            problem = real_data.declare(name, "ball")
        except NotImplementedError:
            yield row(f"{name}, ball", "", "", "", "no data set", "", "", "", "")
            continue
        for method in ("mfw", "smo"):
            yield solved(f"{name}, ball", problem, method, 1e-6, np.float32)
    yield ""
    yield (
        "`columns` counts kernel columns computed; the catalogue's instances are described in "
        "`problems/`. The\nlarger problems use the RBF kernel: 50,000 normal points in ten "
        "dimensions; 4,000 points of two\noverlapping clouds, C = 1; the data sets a9a and w8a of "
        "the LIBSVM collection in single precision,\ngamma = 0.05."
    )
    yield ""
    yield "## Cold start"
    yield ""
    yield "A fresh process; the interpreter's own start is not counted."
    yield ""
    yield row("what", "seconds")
    yield row("---", "---:")
    yield row("`import qpsvm`", median_and_range(cold("pass", "import qpsvm")))
    few, many = cold_start.POINT_COUNTS
    for what, m, first in (
        ("`mfw`, a ball", few, cold_start.FIRST_SOLVE),
        ("`smo`, a machine", few, cold_start.FIRST_MACHINE),
        ("`decomposition`, a machine", many, cold_start.FIRST_MACHINE),
    ):
        before = cold_start.SETUP_CODE.format(m)
        cold(before, first)  # fills numba's cache
        yield row(
            f"first solve ({what}), numba's cache at hand", median_and_range(cold(before, first))
        )
        empty = f"{cold_start.EMPTY_CACHE}; {before}"
        yield row(
            f"first solve ({what}), numba's cache empty", median_and_range(cold(empty, first))
        )


def low_rank_machines() -> Iterator[str]:
    """Yield the lines of the page on low-rank Grams."""
    yield from head(
        "tables low_rank",
        "Kernel machines on low-rank Grams",
        "The adult set a9a (32,561 points, 123 features, CSR in single precision; tested on the 16,281\n"
        "of a9a.t), L1-hinge with C = 1, the setting of Jung, O'Leary and Tits, section 5.2: Gaussian\n"
        "kernel with sigma = sqrt(l / 2), l = 123 the number of features, which is gamma = 1 / 123.",
        runs=1,
    )
    yield from low_rank_table()
    yield from factor_table()
    yield from polish_table()


def low_rank_table(parts: tuple[str, ...] = ("exact", "ours", "peers")) -> Iterator[str]:
    """Yield the time and accuracy of factorization and training."""
    yield ""
    yield row("method", "rank", "trace error", "factor (s)", "training (s)", "total (s)",
              "test accuracy", "prediction (s)")  # fmt: skip
    yield row("---", *["---:"] * 7)
    data = low_rank.load("a9a")
    low_rank.warm_up(data)
    for part in parts:
        for name, rank, error, factor, training, total, right, after in getattr(low_rank, part)(
            data
        ):
            print(name, rank, total, right, file=sys.stderr)
            shown = [f"{v:.2g}" if v != "" else "" for v in (error, factor, training, total)]
            yield row(name, rank, *shown, f"{100 * right:.2f} %", f"{after:.2g}")


def factor_table() -> Iterator[str]:
    """Yield trace error and time of all factorizations."""
    yield ""
    yield "## Factorizations"
    yield ""
    yield "Relative trace error and time on a5a, the 6,414 points of the paper's figure 5.7."
    yield ""
    yield row("method", "rank", "trace error", "seconds")
    yield row("---", "---:", "---:", "---:")
    for name, rank, error, seconds in low_rank.factorizations():
        yield row(name, rank, f"{error:.2e}", f"{seconds:.2g}")


def polish_table() -> Iterator[str]:
    """Yield the cost of exact solves that begin with a low-rank answer, and of direct ones."""
    yield ""
    yield "## From the approximate answer to the exact one"
    yield ""
    yield "The certified gap is that of the problem on the kernel itself."
    yield ""
    yield row("data", "tol", "method", "certified gap", "columns", "support", "seconds")
    yield row("---", "---:", "---", "---:", "---:", "---:", "---:")
    for name, tol, kind, gap, columns, support, seconds in low_rank.polished():
        print(name, tol, kind, gap, seconds, file=sys.stderr)
        yield row(name, f"{tol:g}", kind, gap, f"{columns:,}", f"{support:,}", f"{seconds:.3g}")


def prediction() -> Iterator[str]:
    """Yield the lines of a page: prediction beside SVC, and paths beside solves alone."""
    yield from head(
        "tables prediction",
        "Prediction, and a path",
        f"Labels of {reuse.N_POINTS:,} points by the same support vectors and weights, those of "
        "scikit-learn's SVC\n(C = 1, RBF): its `predict`, once, and ours, the median of three. "
        "SVC computes in double\nprecision whatever it is given. Then a path on 10,000 x 20 synthetic "
        'points (HingeDual, RBF,\nrelative gap 1e-3, `method="auto"`).',
        runs=1,
    )
    yield ""
    yield row("data", "support vectors", "precision", "SVC s", "qpsvm s", "ratio", "difference",
              "same labels")  # fmt: skip
    yield row("---", "---:", "---", "---:", "---:", "---:", "---:", "---:")
    for name, support, kind, theirs, ours, far, agree in reuse.predictions():
        yield row(name, f"{support:,}", kind, f"{theirs:.3g}", f"{ours:.3g}",
                  f"{theirs / ours:.1f}", f"{far:.1e}", f"{agree:.3%}")  # fmt: skip
    yield ""
    yield row(
        "path", "values", "alone s", "path s", "ratio", "columns alone", "columns on the path"
    )
    yield row("---", "---:", "---:", "---:", "---:", "---:", "---:")
    for what, count, alone, seconds, *columns in reuse.paths():
        yield row(what, count, f"{alone:.3g}", f"{seconds:.3g}", f"{alone / seconds:.1f}",
                  *(f"{n:,}" for n in columns))  # fmt: skip


def linear_penalty() -> Iterator[str]:
    """Yield the lines of the page on linear SVMs without bias, and draw its figures beside the pages."""
    tol, limit = linear_dual.TOL, linear_dual.TIME_LIMIT
    yield from head(
        "tables linear_dual",
        "Linear hinge SVMs without bias",
        f"Time to a certified relative gap of {tol:g} against C and against the size of the adult set\n"
        f"(CSR, float64); ours for at most {limit:g} s. LIBLINEAR is scikit-learn's LinearSVC without\n"
        "intercept at the loosest tolerance at which its primal value is that close to a certified\n"
        "lower bound: it does not give its dual weights. LIBSVM is SVC with a linear kernel and a free\n"
        "bias, for at most a minute at the loosest of the tolerances 0.1, 0.01 and 0.001 that the\n"
        "certificate accepts.",
        runs=1,
    )
    for axis, rows in (("C", linear_dual.against_penalty()), ("m", linear_dual.against_size())):
        made = []
        yield from ("", row("data", "m", "C", "method", "gap", "seconds"))
        yield row("---", "---:", "---:", "---", "---:", "---:")
        for r in rows:
            print(*r, file=sys.stderr)
            made.append(r)
            yield row(r.data, f"{r.m:,}", f"{r.C:g}", r.who, f"{r.gap:.1e}", f"{r.seconds:.3g}")
        linear_dual.draw(made, axis, Path(f"docs/benchmarks/linear_dual_{axis}.png"))
        yield from ("", f"![Seconds against {axis}](linear_dual_{axis}.png)")
    yield from section(
        "Beside LIBLINEAR",
        "Seconds of `dcd` and of LIBLINEAR at the same certified gap and on the same problem, and\n"
        "LIBLINEAR's over ours: above 1 ours is faster. Medians over five seeds of both, of covtype\n"
        "three, of each the median of three runs made in turn, or one where LIBLINEAR takes over\n"
        "4 s. The last column has the least and the largest ratio of a seed.\n"
        "LIBLINEAR's dual weights, which it does not give, are those of an\n"
        "untimed run on points with a tiny feature of their own each, which takes the same steps. Both\n"
        "are judged by the same certificate; LIBLINEAR's tolerance is the loosest of two in each power\n"
        "of ten.",
        ("data", "C", "gap", "`dcd`", "LIBLINEAR", "ratio", "over the seeds"),
        linear_dual.against_liblinear(),
    )
    yield from section(
        "C = 100",
        "Seconds to a certified gap of 1e-6, the least of three runs.",
        ("data", "bias", "`dcd`", "`crsvm`", "`auto`"),
        linear_dual.at_large_penalty(),
    )


def linear() -> Iterator[str]:
    """Yield the lines of the page on linear SVMs, and draw its figure beside the pages."""
    growth = list(linear_svm.growth_rows())
    linear_svm.draw(growth, Path("docs/benchmarks/linear_svm_growth.png"))
    yield from head(
        "tables linear_svm",
        "Linear SVMs to high accuracy",
        f"L1-hinge SVMs with C = {linear_svm.C:g}. Each rival runs in a process of its own, after a\n"
        f"small problem, and is stopped after {linear_svm.TIME_LIMIT:g} s.",
        runs=1,
    )
    yield from section(
        "Growing data",
        "The adult sets, to a certified gap of 1e-8: seconds of the interior point method on all\n"
        "points, and by default, which begins with a sample of tall data; median of three runs. Last,\n"
        "the exponent of the power of m that fits the times (figure 5.6 of Jung, O'Leary and Tits).",
        ("data", "m", "all points", "default"),
        iter(growth),
    )
    yield from ("", "![Seconds against the number of points](linear_svm_growth.png)")
    yield from section(
        "Constraint reduction",
        "The six variants of section 5.1 of Jung, O'Leary and Tits on all rows, the reduced matrix as a\n"
        "preconditioner, and the printed form, to 1e-8; best of three runs. Second-order features and\n"
        "the normalization (5.2) as in the paper, except for isolet, of which 1,560 points are at hand.\n"
        "Mushrooms: 22 numbered attributes; letter: Z against the rest; waveform: 40 attributes, the\n"
        "first class; isolet: the last letter. CG counts steps of conjugate gradients.",
        ("data", "size", "variant", "iterations", "share of rows", "CG", "seconds"),
        linear_svm.variant_rows(),
    )
    yield from section(
        "Beside other solvers",
        "Seconds to a relative gap of 1e-3, 1e-6 and 1e-8, by the certificate used here of what each\n"
        "returned; in brackets the best gap if none was small enough. LinearSVC (LIBLINEAR, dual\n"
        "coordinate descent) has no free bias: it solves the problem without one, and its figure is its\n"
        "distance from the optimal value of *that* problem, which is at most its gap. ProxQP is\n"
        "its sparse form. OSQP, ProxQP and SVC are left out beyond 50,000 points, Clarabel and PIQP\n"
        "beyond 200,000.",
        ("data", "solver", "1e-3", "1e-6", "1e-8"),
        linear_svm.peer_rows(list(linear_svm.DATA_SETS)),
    )


def solved(name: str, problem: Any, method: str, tol: float, dtype: Any = np.float64) -> str:
    """Solve several times and return the line of the table; a failure is shown with its status."""
    compile_steps(method, dtype)
    qpsvm.solve(problem, method, tol=tol, max_iter=20)  # what only a large problem needs
    seconds, result = [], None
    for _ in range(N_RUNS):
        begun = time.perf_counter()
        result = qpsvm.solve(problem, method, tol=tol, time_limit=TIME_LIMIT)
        seconds.append(time.perf_counter() - begun)
    assert result is not None
    m = f"{problem.forms()[0].m:,}"
    gap = f"{result.certificate.relative_gap:.1e}"
    gap += "" if result.converged else f" {result.status.name}"
    counts = (len(result.support), result.n_iter, result.counters["columns"])
    print(f"{name} {method} {gap}", file=sys.stderr)
    return row(
        name, m, method, f"{tol:.0e}", gap, *(f"{n:,}" for n in counts), median_and_range(seconds)
    )


def cold(before: str, statement: str) -> list[float]:
    """Return the seconds that a statement takes in fresh processes."""
    code = (
        f"{before}\nimport time\nbegun = time.perf_counter()\n{statement}\n"
        "print(time.perf_counter() - begun)"
    )
    call = [sys.executable, "-c", code]
    return [float(subprocess.check_output(call, text=True)) for _ in range(N_RUNS)]


def median_and_range(seconds: list[float]) -> str:
    """Return the median, and the range where its width exceeds a tenth of the median."""
    middle, low, high = statistics.median(seconds), min(seconds), max(seconds)
    wide = high - low > 0.1 * middle
    return f"{middle:.3g}" + (f" ({low:.3g} to {high:.3g})" if wide else "")


PAGE_MAKERS: dict[str, Callable[[], Iterator[str]]] = {
    "spine": spine,
    "kernel_svm": peers.page,
    "low_rank": low_rank_machines,
    "prediction": prediction,
    "linear_dual": linear_penalty,
    "linear_svm": linear,
}
"""Functions that yield the lines of the pages, by their names on the command line."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Print a page of figures in Markdown.")
    parser.add_argument("page", choices=PAGE_MAKERS)
    for line in PAGE_MAKERS[parser.parse_args().page]():
        print(line, flush=True)


if __name__ == "__main__":
    main()
