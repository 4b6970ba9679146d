"""Our methods beside LIBSVM (through scikit-learn's SVC), on data sets of growing size.

One run in a process of its own, its figures added to a file from which `tables.py` writes the
page; the data come from the folder in QPSVM_DATA::

    python -m docs.benchmarks.make.peers w8a L2SVM mfw --limit 60
    python -m docs.benchmarks.make.peers w8a L2SVM mfw --stop paper
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import qpsvm
from asv_benchmarks import real_data
from docs.benchmarks.make.pages import head, row
from qpsvm import RBF, HingeDual, L2SVMDual

FIGURES_FILE = Path(__file__).with_name("kernel_svm.json")
C = 10.0
GAMMA_RULE = "mean-distance"
TOL = 1e-3
BALL_TOLERANCE = 1e-6
"""The tolerance of Frandi et al., of the ball that the L2-SVM with a normalized kernel is."""
FIGURE_FILE = Path(__file__).parents[1] / "kernel_svm.png"
CURVE_STYLES = {
    "L2SVM": ("cvm", "fw", "mfw", "pfw", "bpfw", "smo", "decomposition"),
    "Hinge": ("SVC", "smo", "decomposition"),
}
PROBLEM_CLASSES = {"L2SVM": L2SVMDual, "Hinge": HingeDual}


@dataclass(frozen=True)
class Run:
    """One run: what ran, how near it came, how well it predicts, how long it took."""

    data: str
    m: int
    problem: str
    method: str
    stop: str  # "gap" (certified, TOL) or "paper" (EPSILON, as the tol that it maps to)
    tol: float
    gap: float
    status: str
    support: int
    accuracy: float
    seconds: float
    iterations: int | None = None
    value: float | None = None
    limit: float | None = None  # seconds of iterations
    commit: str = ""


def known() -> list[Run]:
    """Return the runs made so far."""
    return (
        [Run(**row) for row in json.loads(FIGURES_FILE.read_text())]
        if FIGURES_FILE.exists()
        else []
    )


def add(run: Run) -> None:
    """Add a run to the file in place of an earlier one of the same kind."""
    key = (run.data, run.problem, run.method, run.stop)
    kept = [r for r in known() if (r.data, r.problem, r.method, r.stop) != key]
    rows = [json.dumps(asdict(r)) for r in (*kept, run)]
    FIGURES_FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def papers_tol(name: str) -> float:
    """Return the `tol` with the guarantee of the paper's rule, which needs a known optimum."""
    found = [r.value for r in known() if (r.data, r.problem) == (name, "L2SVM") and r.value]
    if not found:
        raise SystemExit(
            f"{name}: the paper's epsilon maps to a tol by the optimum; solve it first"
        )
    squared_norm, least = 2.0 + 1.0 / C, 2.0 * min(found)  # k + 1 + 1/C, and R = a'Qa
    return ((1.0 + BALL_TOLERANCE) ** 2 - 1.0) * (squared_norm / least - 1.0)


def measure(name: str, problem: str, method: str, stop: str, limit: float) -> Run:
    """Run once, after a small problem has compiled what runs."""
    X, y = _load(name)
    points, labels = _load(tested_on(name), X.shape[1])
    kernel, declare = RBF(X, gamma=GAMMA_RULE), PROBLEM_CLASSES[problem]
    if method == "SVC":
        return _libsvm(name, X, y, points, labels, kernel)
    tol = TOL if stop == "gap" else papers_tol(name)
    qpsvm.solve(declare(RBF(X[:2200], gamma=0.1), y[:2200], C), method, max_iter=50)
    begun = time.perf_counter()
    r = qpsvm.solve(
        declare(kernel, y, C), method, tol=tol, time_limit=limit, max_iter=10**9
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    right = float(np.mean(r.model.predict(points) == labels))
    return Run(
        name, len(y), problem, method, stop, tol, r.certificate.relative_gap, r.status.name,
        len(r.support), right, seconds, r.n_iter, r.value, limit, checked_out(),
    )  # fmt: skip


def _libsvm(name: str, X: Any, y: Any, points: Any, labels: Any, kernel: RBF) -> Run:
    """Return LIBSVM's run at its default tolerance, its answer judged by our certificate."""
    from sklearn.svm import SVC

    begun = time.perf_counter()
    model = SVC(C=C, gamma=kernel.gamma, cache_size=2000).fit(X.astype(np.float64), y)
    seconds = time.perf_counter() - begun
    a = np.zeros(len(y))
    a[model.support_] = np.abs(model.dual_coef_.ravel())
    judged = qpsvm.solve(HingeDual(kernel, y, C), "smo", x0=a, max_iter=0)
    right = float(np.mean(model.predict(points.astype(np.float64)) == labels))
    c = judged.certificate
    return Run(
        name, len(y), "Hinge", "SVC", "gap", TOL, c.relative_gap, "OPTIMAL" if c.passed else "",
        len(model.support_), right, seconds, int(model.n_iter_.sum()), c.upper, None, checked_out(),
    )  # fmt: skip


def page() -> Iterator[str]:
    """Yield the lines of the page, seconds against size first, and draw its figure."""
    runs = sorted(known(), key=lambda r: (r.data[0], r.m, r.problem, r.stop))
    yield from head(
        "tables kernel_svm",
        "Kernel SVMs on growing data",
        f"The nested adult and web sets, RBF with sigma^2 the mean squared distance, C = {C:g},\n"
        f"single precision. *gap* runs end at a certified relative gap of {TOL:g}; *paper* runs at\n"
        f"the `tol` that maps from epsilon = {BALL_TOLERANCE:g} of Frandi et al. for the ball of the "
        "same\n"
        "points. SVC is scikit-learn's LIBSVM at its default tolerance, its answer judged by the\n"
        "certificate used here. The runs are made one by one by `python -m docs.benchmarks.make.peers`\n"
        "and kept in `docs/benchmarks/make/kernel_svm.json`.",
        runs=1,
    )
    for problem, methods in CURVE_STYLES.items():
        yield from ("", f"## {problem}: seconds to a certified gap of {TOL:g}", "")
        yield row("data", "m", *methods)
        yield row("---", "---:", *["---:"] * len(methods))
        at = {(r.data, r.method): r for r in runs if (r.problem, r.stop) == (problem, "gap")}
        for name, m in dict.fromkeys((r.data, r.m) for r in runs):
            yield row(name, f"{m:,}", *(_cell(at.get((name, method))) for method in methods))
    yield from (
        "",
        "In brackets the gap of a run that its limit ended.",
        "",
        f"![]({FIGURE_FILE.name})",
    )
    yield from ("", "## All runs", "")
    columns = ("data", "m", "problem", "stop", "tol", "method", "certified gap", "support",
               "test accuracy", "seconds", "commit")  # fmt: skip
    words = ("data", "problem", "stop", "method", "commit")
    yield row(*columns)
    yield row(*["---" if c in words else "---:" for c in columns])
    for r in runs:
        gap = f"{r.gap:.1e}" + ("" if r.status in ("", "OPTIMAL") else f" {r.status}")
        yield row(
            r.data, f"{r.m:,}", r.problem, r.stop, f"{r.tol:.1e}", r.method, gap,
            f"{r.support:,}", f"{r.accuracy:.4f}", f"{r.seconds:.3g}", r.commit,
        )  # fmt: skip
    draw(runs)


def _cell(run: Run | None) -> str:
    if run is None:
        return ""
    return f"{run.seconds:.3g}" + (f" ({run.gap:.0e})" if run.gap > TOL else "")


def draw(runs: list[Run]) -> None:
    """Draw the seconds of the L2-SVM against the number of points; hollow where the limit came first."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, family in zip(figure.subplots(1, 2, sharey=True), ("adult", "web"), strict=True):
        for k, method in enumerate(CURVE_STYLES["L2SVM"]):
            found = [
                r for r in runs
                if (r.method, r.problem, r.stop, r.data[0]) == (method, "L2SVM", "gap", family[0])
            ]  # fmt: skip
            axes.loglog(
                [r.m for r in found], [r.seconds for r in found], color=f"C{k}", label=method
            )
            for r in found:
                face = f"C{k}" if r.gap <= TOL else "none"
                axes.plot(r.m, r.seconds, "o", color=f"C{k}", markerfacecolor=face)
        axes.set(xlabel="points m", title=family)
        axes.xaxis.set_minor_formatter("")
    figure.axes[0].set_ylabel(f"seconds to a relative gap of {TOL:g}")
    figure.axes[0].legend(fontsize="small")
    figure.savefig(FIGURE_FILE, dpi=120)


def checked_out() -> str:
    """Return the short name of the commit."""
    call = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(call, capture_output=True, text=True).stdout.strip()


def tested_on(name: str) -> str:
    """Return the test set: its own, or that of a9a, which no adult set contains."""
    try:
        real_data.load(f"{name}.t")
    except NotImplementedError:
        return "a9a.t"
    return f"{name}.t"


def _load(name: str, n_features: int | None = None) -> Any:
    """Return dense points in single precision and labels; a test set gets the features asked for."""
    X, y = real_data.load(name)
    if n_features is not None:
        X.resize(X.shape[0], n_features)
    return X.toarray(), np.where(y > 0, 1.0, -1.0)


def main() -> None:
    """Make one run, or each of several methods one after the other."""
    parser = argparse.ArgumentParser(description="Add a run to the figures of the kernel SVM page.")
    parser.add_argument("data")
    parser.add_argument("problem", choices=PROBLEM_CLASSES)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--stop", choices=("gap", "paper"), default="gap")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of iterations")
    options = parser.parse_args()
    for method in options.methods:
        run = measure(options.data, options.problem, method, options.stop, options.limit)
        add(run)
        print(run)


if __name__ == "__main__":
    main()
