"""The page of the performance grid and its picture, from the rows that `docs.make.grid` measured."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from asv_benchmarks import grid
from asv_benchmarks.grid_cells import Cell
from docs.benchmarks.make.pages import head, row
from docs.make.grid import LIMIT_SECONDS, MAX_RUNS, NOTES_FILE

LOSSES_FILE = Path(__file__).with_name("grid_losses.jsonl")
"""What `docs.make.grid_losses` measured."""

PICTURE_FILE = Path(__file__).parents[1] / "benchmarks" / "grid.png"
"""The picture at the head of the page."""

GAP_TOLERANCES = (1e-3, 1e-6)
"""Certified relative gaps."""

TARGET_RATIO = 3.0
"""Ratio to the fastest peer below which a cell falls short."""

KERNEL_COLORS = {
    "rbf": "#0072B2", "linear": "#D55E00", "poly2": "#009E73", "poly3": "#56B4E9",
    "laplacian": "#CC79A7", "precomputed": "#000000", "sigmoid": "#E69F00", "custom": "#999999",
}  # fmt: skip
"""Colors of the marks."""

PAGE_TEXT = f"""\
Sixty problems, drawn from a seeded design before anything was measured; none was left out afterwards.
`asv_benchmarks/grid_cells.py` has the levels of seven factors (kernel, storage, points, features, share
of support vectors, C, formulation), a quota for each level, and the conditions of a possible cell: dense
points take at most 800 MB, a custom or precomputed kernel has at most 5,000 points, the Laplacian one
20,000 (its peers need the whole matrix), a sigmoid kernel is positive semidefinite, and the estimate
m^2 (support) (d + 30) of a kernel machine is at most 2e11. From 6,000 possible cells the draw takes, one
after the other, the one whose levels lack most and that brings most pairs of levels that have not met.
All levels but two have exactly their quota.

Dense points are normal in six directions, with noise in the others; the distance of the two means sets
the share of support vectors. Integers (0 to 255) and binary points are quantized from them, in float64.
CSR points are texts of 60 words of probability 1/rank. gamma is one over the mean squared distance
(l1 distance, squared norm). The shares of support that were wanted are in the names of the cells, those
that were reached in the table; some are not possible, such as 1 percent of texts. The distances
were found by bisection before, with solves of ours to a gap of 1e-2 on at most 20,000 points.

The peers are scikit-learn's `SVC`, `OneClassSVM` and `LinearSVC`, scikit-learn-intelex's `SVC`, and
Clarabel, where their problem is that of the cell. A linear hinge machine has no bias, as LIBLINEAR's.
An L2-SVM with a kernel is `OneClassSVM` on the matrix Q of the L2-SVM (the same problem) or `SVC` on
K + I/C (with a bias that is not penalized), whichever is faster; both need the matrix. A ball of points
of one norm is a `OneClassSVM`. Where no peer solves the problem, the cell is marked † and is compared
with a one-class or a hinge machine of the same points.

Ours runs at `method="auto"` and default options. A peer runs at its first tolerance times the greatest
power of ten that makes its true relative gap small enough (no greater one is tried from 8 s on); the gap
is our certificate of its answer, for LinearSVC that of its primal value and a lower bound good to 1e-8.
A peer has 2,000 MB of cache and {LIMIT_SECONDS:g} s; one that takes longer is not run at a smaller gap,
nor without AVX-512. Each program has a process of its own and solves a small problem of the same kind
first; a call in which numba compiles or loads code is repeated. Seconds are the median of {MAX_RUNS}
calls below 0.1 s, of 3 below 2 s, and of one call otherwise."""


def fastest(
    rows: dict[Any, Any], cell: Cell, tol: float, level: str
) -> tuple[dict[str, Any], float, bool]:
    """Return the row of the fastest peer, its seconds, and whether they are a lower bound only."""
    found = [r for (name, who, t, lev), r in rows.items()
             if (name, t, lev) == (cell.name, tol, level) and who != "qpsvm"]  # fmt: skip
    done = [r for r in found if "note" not in r]
    if done:
        best = min(done, key=lambda r: r["seconds"])
        return best, best["seconds"], False
    if not found:
        return {}, float("nan"), False
    best = max(found, key=lambda r: r.get("limit", r.get("seconds", 0.0)))
    return best, best.get("limit", best.get("seconds", float("nan"))), True


class Ratio:
    """A cell at a tolerance: our row, the fastest peer's, and the ratio of their seconds."""

    def __init__(self, rows: dict[Any, Any], cell: Cell, tol: float, level: str) -> None:
        self.cell = cell
        self.own = rows.get((cell.name, "qpsvm", tol, level), {})
        self.peer, self.seconds, self.is_bound = fastest(rows, cell, tol, level)
        self.ratio = self.seconds / self.own.get("seconds", float("nan"))
        self.is_nearest = self.peer.get("problem", cell.formulation) != cell.formulation

    @property
    def said(self) -> str:
        """The ratio with its marks."""
        if self.ratio != self.ratio:
            return ""
        return f"{'> ' * self.is_bound}{self.ratio:.2g}{' †' * self.is_nearest}"


def ratios(rows: dict[Any, Any], tol: float, level: str = "native") -> list[Ratio]:
    """Return the cells that were measured."""
    found = [Ratio(rows, cell, tol, level) for cell, _ in grid.cells().values()]
    return [r for r in found if r.ratio == r.ratio]


def summary(found: list[Ratio], title: str, of: Callable[[Cell], str]) -> Iterator[str]:
    """Yield the table of medians and minima by the levels of a factor."""
    yield row(title, "cells", "median", "least", "at 3 and more", "below 1")
    yield row("---", *["---:"] * 5)
    for level in dict.fromkeys(of(r.cell) for r in found):
        some = [r.ratio for r in found if of(r.cell) == level]
        yield row(
            level, len(some), f"{statistics.median(some):.2g}", f"{min(some):.2g}",
            sum(r >= TARGET_RATIO for r in some), sum(r < 1.0 for r in some),
        )  # fmt: skip


def factors() -> dict[str, Callable[[Cell], str]]:
    """Return the factors of the summaries."""
    return {
        "kernel": lambda c: c.kernel,
        "storage": lambda c: f"csr, {c.d:,} features" if c.storage == "csr" else c.storage,
        "formulation": lambda c: c.formulation,
        "points": lambda c: f"{c.m:,}",
        "C": lambda c: "none" if c.C is None else f"{c.C:g}",
    }


def sentence(found: list[Ratio], where: str = "At a certified gap of 1e-3") -> str:
    """Return the counts in a sentence, the first of the page."""
    n_good = sum(r.ratio >= TARGET_RATIO for r in found)
    n_level = sum(r.ratio >= 1.0 for r in found)
    middle = statistics.median(r.ratio for r in found)
    return (
        f"{where} qpsvm is at least three times as fast as the fastest peer in "
        f"{n_good} of {len(found)} cells, and slower in {len(found) - n_level}; the median ratio is "
        f"{middle:.2g}."
    )


def table(rows: dict[Any, Any], tol: float) -> Iterator[str]:
    """Yield the table of all cells."""
    yield row("cell", "method", "seconds", "gap", "independent gap", "support %", "MB", "fastest peer",
              "its seconds", "its gap", "its MB", "ratio")  # fmt: skip
    yield row("---", "---", *["---:"] * 5, "---", *["---:"] * 4)
    for r in ratios(rows, tol):
        own, peer = r.own, r.peer
        reached = 100.0 * own["support"] / r.cell.m
        status = "" if own["status"] == "OPTIMAL" else f" {own['status']}"
        theirs = peer.get("note", f"{peer.get('seconds', 0.0):.3g}")
        yield row(
            r.cell.name, own["method"], f"{own['seconds']:.3g}{status}", f"{own['gap']:.1e}",
            f"{own['independent']:.1e}" if "independent" in own else "", f"{reached:.2g}",
            f"{own['peak']:,.0f}", peer["who"], theirs,
            f"{peer['gap']:.1e}" if "gap" in peer else "",
            f"{peer['peak']:,.0f}" if "peak" in peer else "", r.said,
        )  # fmt: skip


def shortfalls(found: list[Ratio]) -> Iterator[str]:
    """Yield the table of the cells below `TARGET_RATIO`, with the parts of our time."""
    yield row("cell", "ratio", "method", "ms", "setup", "iterations", "certificates", "other")
    yield row("---", "---:", "---", *["---:"] * 5)
    for r in sorted(found, key=lambda r: r.ratio):
        if r.ratio >= TARGET_RATIO:
            break
        whole, parts = r.own["seconds"], r.own["timings"]
        some = [parts.get(key, 0.0) for key in ("setup", "iterate", "certify")]
        shares = [share / parts["total"] for share in some]
        shares.append(max(0.0, 1.0 - sum(shares)))
        yield row(
            r.cell.name, r.said, r.own["method"], f"{1e3 * whole:.3g}",
            *(f"{100 * share:.0f}%" for share in shares),
        )  # fmt: skip


def losses() -> Iterator[str]:
    """Yield the table of the L2-SVM beside the hinge machine, and of one-class machines."""
    found = [json.loads(line) for line in LOSSES_FILE.read_text().splitlines()]
    seconds = {(r["data"], r["problem"], r["C"]): r["seconds"] for r in found}
    yield row("data", "problem", "C", "seconds", "over the hinge's", "gap", "support vectors")
    yield row("---", "---", *["---:"] * 5)
    for r in found:
        hinge = seconds.get((r["data"], "HingeDual", r["C"]))
        ratio = f"{r['seconds'] / hinge:.2g}" if hinge and r["problem"] == "L2SVMDual" else ""
        C = "" if r["C"] is None else f"{r['C']:g}"
        yield row(
            r["data"], r["problem"], C, f"{r['seconds']:.3g}", ratio, f"{r['gap']:.1e}",
            f"{r['support']:,}",
        )  # fmt: skip


def memory(found: list[Ratio]) -> str:
    """Return a sentence on peak memory."""
    both = [r.own["peak"] / r.peer["peak"] for r in found if "peak" in r.peer]
    return (
        f"Peak memory, data included, is {statistics.median(both):.2g} times that of the fastest peer in "
        f"the median of {len(both)} cells ({min(both):.2g} to {max(both):.2g})."
    )


def agreement(rows: dict[Any, Any]) -> str:
    """Return a sentence on the independent gaps."""
    own = [r for (_, who, _, _), r in rows.items() if who == "qpsvm" and "independent" in r]
    theirs = [r for (_, who, _, _), r in rows.items() if who != "qpsvm" and "independent" in r]
    n_own = sum(r["independent"] <= r["tol"] for r in own)
    n_same = sum(agrees(r) for r in theirs)
    return (
        "`docs/make/independent_gap.py` computes each gap once more, by numpy and in double precision, "
        f"and shares no code with the library. By it {n_own} of our {len(own)} answers are within the "
        f"gap that was asked for; of {len(theirs)} answers of peers {n_same} have the gap that the "
        "certificate gave them."
    )


def agrees(r: dict[str, Any]) -> bool:
    """Return whether the certified gap of a peer's answer and the independent one are close."""
    return abs(r["independent"] - r["gap"]) <= 0.02 * r["gap"] + 1e-8


def page(rows: dict[Any, Any]) -> Iterator[str]:
    """Yield the page, and draw its picture."""
    found = ratios(rows, GAP_TOLERANCES[0])
    draw({tol: ratios(rows, tol) for tol in GAP_TOLERANCES})
    date = max(r["date"] for r in rows.values())
    said = sentence(found)
    text = f"**{said}**\n\n![{said}]({PICTURE_FILE.name})\n\n{PAGE_TEXT}"
    for line in "\n".join(head("grid", "The grid", text, runs=1, folder="docs.make")).splitlines():
        if line.startswith("- load average"):
            yield "- each program alone on the machine, one after the other"
        elif line.startswith("Made by"):
            commits = ", ".join(f"`{c}`" for c in dict.fromkeys(r["commit"] for r in rows.values()))
            yield (
                f"Made by `python -m docs.make.grid` on {date}, at commit {commits}. "
                "Seconds count from"
            )
        else:
            yield line
    versions = {k: v for r in rows.values() for k, v in r.get("versions", {}).items()}
    named = [f"{name} {at}" for name, at in sorted(versions.items()) if name != "qpsvm"]
    yield f"\nPeers: {', '.join(named)}."
    yield f"\n{agreement(rows)}\n\n{memory(found)}"
    missing = [f"a gap of {tol:g}" for tol in GAP_TOLERANCES if not ratios(rows, tol)]
    missing += ["the processor as `x86-64-v3`"] * (not ratios(rows, GAP_TOLERANCES[0], "x86-64-v3"))
    if missing:
        yield f"\nNot measured yet: {', '.join(missing)}."
    yield f"\n## Cells below {TARGET_RATIO:g} at 1e-3\n"
    yield "Shares of our time; what the declaration and the answer take is `other`.\n"
    yield from shortfalls(found)
    if NOTES_FILE.exists():
        yield f"\n{NOTES_FILE.read_text().rstrip()}"
    if LOSSES_FILE.exists():
        yield "\n## L2-SVM beside the hinge machine, and one class of 100,000 points, at 1e-3\n"
        yield 'RBF kernels, `method="auto"`; `docs/make/grid_losses.py`, one run each.\n'
        yield from losses()
    for tol in GAP_TOLERANCES:
        found = ratios(rows, tol)
        if not found:
            continue
        yield f"\n## A gap of {tol:g}: medians and minima\n"
        if tol != GAP_TOLERANCES[0]:
            yield sentence(found, f"At a certified gap of {tol:g}")
        yield "Seconds of the fastest peer over ours; where none was done, the limit over ours."
        for title, of in factors().items():
            yield ""
            yield from summary(found, title, of)
    for tol in GAP_TOLERANCES:
        if ratios(rows, tol):
            yield f"\n## A gap of {tol:g}: all cells\n"
            yield from table(rows, tol)
    lesser = ratios(rows, GAP_TOLERANCES[0], "x86-64-v3")
    if lesser:
        yield "\n## Without AVX-512\n"
        yield (
            f"{sentence(lesser, 'Without AVX-512')} These are the cells at 1e-3, compiled and run as for "
            "`x86-64-v3` (AVX2): our code, both OpenBLAS and numpy. oneDAL, which scikit-learn-intelex "
            "brings, chooses its own instructions and keeps AVX-512.\n"
        )
        native = {r.cell.name: r for r in ratios(rows, GAP_TOLERANCES[0])}
        yield row(
            "cell", "seconds", "native", "fastest peer", "its seconds", "native", "ratio", "native"
        )
        yield row("---", "---:", "---:", "---", *["---:"] * 4)
        for r in lesser:
            n = native[r.cell.name]
            yield row(
                r.cell.name, f"{r.own['seconds']:.3g}", f"{n.own['seconds']:.3g}", r.peer["who"],
                f"{r.seconds:.3g}", f"{n.seconds:.3g}", r.said, n.said,
            )  # fmt: skip


def draw(found: dict[float, list[Ratio]]) -> None:
    """Draw a mark for each cell, in the order of the ratios at 1e-3, in a panel for each tolerance."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = {tol: some for tol, some in found.items() if some}
    order = [r.cell.name for r in sorted(found[GAP_TOLERANCES[0]], key=lambda r: r.ratio)]
    n = len(found)
    size = 6.0 + 3.0 * n, 11.5
    fig, grid_of_panels = plt.subplots(1, n, figsize=size, sharey=True, squeeze=False)
    fig.set_layout_engine("constrained")
    panels = grid_of_panels[0]
    for ax, (tol, some) in zip(panels, found.items(), strict=True):
        for r in some:
            if r.cell.name not in order:
                continue
            color = KERNEL_COLORS[r.cell.kernel]
            face = "none" if r.is_nearest else color
            marker = ">" if r.is_bound else "o"
            y = order.index(r.cell.name)
            ax.scatter(r.ratio, y, 38, facecolors=face, edgecolors=color, marker=marker)
        ax.set(xscale="log", title=f"gap {tol:g}", xlabel="seconds of the fastest peer / ours")
        for at, style in ((1.0, "-"), (TARGET_RATIO, "--")):
            ax.axvline(at, color="0.5", ls=style, lw=1)
        ax.grid(axis="x", color="0.93")
        ax.set_axisbelow(True)
    panels[0].set_yticks(range(len(order)), order, fontsize=7.5)
    panels[0].set_ylim(-1, len(order))
    given: list[tuple[str, dict[str, Any]]] = [
        *((kernel, {"color": color}) for kernel, color in KERNEL_COLORS.items()),
        ("no peer is done: a lower bound", {"color": "0.4", "marker": ">"}),
        ("the peer solves another problem", {"color": "0.4", "mfc": "none"}),
    ]
    marks = [plt.Line2D([], [], label=k, **{"ls": "", "marker": "o"} | v) for k, v in given]
    fig.legend(handles=marks, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    fig.savefig(PICTURE_FILE, dpi=90)
    plt.close(fig)
