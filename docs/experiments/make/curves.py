"""What the scripts of the gallery share: curves of the error, and the figure they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import qpsvm

PAGE_FOLDER = Path(__file__).resolve().parents[1]


class Curve(NamedTuple):
    """Error of the value and certified gap at the checks of a run."""

    iteration: np.ndarray
    time: np.ndarray
    error: np.ndarray
    gap: np.ndarray


def curve(problem: Any, method: str, optimum: float, **options: Any) -> Curve:
    """Run a method and return its curves; a short run before it compiles what is compiled."""
    qpsvm.solve(problem, method, tol=1e-15, **{**options, "max_iter": 2})
    result = qpsvm.solve(problem, method, tol=1e-15, **options)
    h = result.history
    return Curve(h.iteration, h.time, np.maximum(h.upper - optimum, 1e-17), h.gap)


def mean(curves: list[Curve]) -> Curve:
    """Return the mean of runs with the same checks, as far as the shortest goes."""
    n = min(len(c.iteration) for c in curves)
    cut = [Curve(*(part[:n] for part in c)) for c in curves]
    return Curve(*(np.mean([c[k] for c in cut], axis=0) for k in range(4)))


def draw(panels: dict[str, tuple[dict[str, Curve], str]], name: str, floor: float) -> None:
    """Draw against iterations and against time; a panel is its curves with "error" or "gap"."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (3.6 * len(panels) + 1.6, 6.0)
    figure, axes = plt.subplots(2, len(panels), figsize=size, squeeze=False)
    for column, (title, (curves, measure)) in enumerate(panels.items()):
        for row, what in enumerate(("iteration", "time")):
            ax = axes[row, column]
            for k, (label, c) in enumerate(curves.items()):
                x, y = getattr(c, what)[1:], np.maximum(getattr(c, measure), floor)[1:]
                style = "-" if k < 10 else "--"
                ax.plot(x, y, style, color=f"C{k % 10}", label=label, linewidth=1.3)
            ax.set_yscale("log")
            ax.set_xscale("log" if what == "time" else "linear")
            ax.set_xlabel("iteration" if what == "iteration" else "time (s)")
            ax.grid(alpha=0.3)
        axes[0, column].set_title(title, fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0, 1.0 - 1.5 / size[0], 1))
    figure.legend(handles, labels, loc="center right", fontsize=8)
    figure.savefig(PAGE_FOLDER / f"{name}.png", dpi=80)


def table(curves: dict[str, Curve], levels: tuple[int, ...]) -> str:
    """Return a Markdown table: error and gap at some iterations, and seconds to the last."""
    head = " | ".join(f"f - f* at {n}" for n in levels)
    rows = [f"| method | {head} | gap at {levels[-1]} | seconds |"]
    rows.append("|---" + "|---:" * (len(levels) + 2) + "|")
    for label, c in curves.items():
        at = [int(np.searchsorted(c.iteration, n, side="right")) - 1 for n in levels]
        errors = " | ".join(f"{c.error[k]:.1e}" for k in at)
        rows.append(f"| {label} | {errors} | {c.gap[at[-1]]:.1e} | {c.time[at[-1]]:.2f} |")
    return "\n".join(rows)
