"""Sketches of papers 1 and 4, drawn from computed balls, steps and smoothed losses; charts of results.

    python -m docs.papers.make.figures     # the charts, from what the studies kept

Frandi et al.: figure 1, the balls of Algorithms 1 and 2 after one step from the same core, and figure
2, the two directions on a simplex. Zhou et al.: figures 1 and 2, the hinge and the absolute value,
smoothed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from docs.papers.make.pages import frandi, jung, zhou
from docs.papers.make.runs import Case
from qpsvm import Linear, LPSVMPrimal, MEBDual, solve
from qpsvm.solvers.smoothing.nesvm import NESVM
from qpsvm.solvers.smoothing.nesvm_as_printed import smooth_value, start_as_printed
from qpsvm.solvers.smoothing.smoothed_loss import smoothed

PAGE_TITLE = "Sketches"
PAGE_FOLDER = Path(__file__).resolve().parents[1]
SMOOTHING_VALUES = (0.5, 1.0, 2.0)


def cases(quick: bool = False) -> list[Case]:
    """Return the figures; the quick ones are computed and not drawn."""
    return [{"figure": name, "drawn": not quick} for name in PICTURE_FUNCTIONS]


def run(case: Case) -> Case:
    """Compute a figure, draw it where asked to, and return what it shows in numbers."""
    axes = None
    if case["drawn"]:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(4.6, 3.6))
    found = PICTURE_FUNCTIONS[case["figure"]](axes)
    if axes is not None:
        axes.legend(fontsize=8)
        figure.tight_layout()
        figure.savefig(PAGE_FOLDER / f"{case['figure']}.png", dpi=80)
        plt.close(figure)
    return {name: round(float(value), 6) for name, value in found.items()}


def check(case: Case, found: Case) -> None:
    """Fail where a computed quantity leaves its bound."""
    assert found["least"] >= -1e-6 and found["largest"] <= found["bound"] + 1e-6


def balls(axes: Any) -> Case:
    """Draw the ball of a core, of the core with the farthest point, and that of a Frank-Wolfe step."""
    X = np.random.default_rng(4).standard_normal((40, 2))
    core = [0, int(np.argmax(np.sum((X - X[0]) ** 2, axis=1)))]
    first = solve(MEBDual(Linear(X[core])), tol=1e-10).model
    center = np.asarray(first.center)
    square = np.sum((X - center) ** 2, axis=1)
    far = int(np.argmax(square))
    exact = solve(MEBDual(Linear(X[[*core, far]])), tol=1e-10).model
    length = 0.5 * (1.0 - first.radius**2 / square[far])  # (29)
    rise = square[far] / first.radius**2 - 1.0
    moved = center + length * (X[far] - center)
    radius = first.radius * np.sqrt(1.0 + rise**2 / (4.0 * (1.0 + rise)))  # step 15
    if axes is not None:
        axes.scatter(*X.T, s=8, color="0.5")
        axes.scatter(*X[far], color="C3", label="z, the farthest point")
        angle = np.linspace(0.0, 2.0 * np.pi, 200)
        ring = np.stack([np.cos(angle), np.sin(angle)])
        for where, r, style, label in (
            (center, first.radius, "k:", "MEB of the core"),
            (np.asarray(exact.center), exact.radius, "C0-", "Algorithm 1: MEB with z"),
            (moved, radius, "C1--", "Algorithm 2: one step"),
        ):
            axes.plot(*(where[:, None] + r * ring), style, label=label)
        axes.set_aspect("equal")
    return {"least": radius - first.radius, "largest": radius, "bound": exact.radius}


def directions(axes: Any) -> Case:
    """Draw toward and away steps from a point of a triangle, with their line searches."""
    K = np.array([[2.0, 0.6, 0.2], [0.6, 1.0, 0.5], [0.2, 0.5, 0.8]])
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    a = np.array([0.5, 0.2, 0.3])
    s = K @ a
    i, j = int(np.argmin(s)), int(np.argmax(s))
    ends, values = {}, []
    for name, d, longest in (
        ("toward", np.eye(3)[i] - a, 1.0),
        ("away", a - np.eye(3)[j], a[j] / (1.0 - a[j])),
    ):
        length = min(-(s @ d) / (d @ K @ d), longest)
        ends[name] = a + length * d
        values.append(ends[name] @ K @ ends[name])
    if axes is not None:
        axes.fill(*corners.T, fill=False, edgecolor="0.5")
        for corner, name in zip(corners, ("e_1", "e_2", "e_3"), strict=True):
            axes.annotate(f"${name}$", corner)
        for color, (name, end) in zip(("C0", "C1"), ends.items(), strict=True):
            axes.plot(*(np.stack([a, end]) @ corners).T, color + "o-", label=name)
        axes.plot(*(a @ corners), "ko", label="iterate")
        axes.set_aspect("equal")
    return {"least": min(values), "largest": max(values), "bound": a @ K @ a}


def hinge(axes: Any) -> Case:
    """Draw the hinge and its smoothings (10), for |x|_inf = 1."""
    f = np.linspace(-3.0, 2.0, 501)
    exact, worst, least = np.maximum(0.0, 1.0 - f), 0.0, np.inf
    a, one, zero = np.empty(len(f)), np.ones(len(f)), np.zeros(len(f))
    if axes is not None:
        axes.plot(f, exact, "k", label="hinge")
    for mu in SMOOTHING_VALUES:
        smoothed(f, one, one, mu * one, zero, True, False, 0.0, a)
        loss = a * (1.0 - f) - 0.5 * mu * a**2
        worst, least = max(worst, np.max(exact - loss)), min(least, np.min(exact - loss))
        if axes is not None:
            axes.plot(f, loss, label=f"mu = {mu:g}")
            axes.set_xlabel("y x'w")
    return {"least": least, "largest": worst, "bound": 0.5 * max(SMOOTHING_VALUES)}


def absolute(axes: Any) -> Case:
    """Draw |w| and its smoothings (28), by the printed method's objective."""
    w, worst, least = np.linspace(-3.0, 3.0, 301), 0.0, np.inf
    form = LPSVMPrimal([[1.0], [-1.0]], [1, -1], C=1e-13, bias=False).as_margin()
    if axes is not None:
        axes.plot(w, np.abs(w), "k", label="|w|")
    for mu in SMOOTHING_VALUES:
        state = start_as_printed(form, NESVM(variant="paper", mu=mu), None)
        values = []
        for entry in w:
            state.wb[:-1] = entry
            values.append(smooth_value(form, state))
        error = np.abs(w) - np.array(values)
        worst, least = max(worst, error.max()), min(least, error.min())
        if axes is not None:
            axes.plot(w, values, label=f"mu = {mu:g}")
            axes.set_xlabel("w")
    return {"least": least, "largest": worst, "bound": 0.5 * max(SMOOTHING_VALUES)}


PICTURE_FUNCTIONS = {
    "frandi_balls": balls,
    "frandi_directions": directions,
    "zhou_hinge": hinge,
    "zhou_absolute": absolute,
}

CHART_FUNCTIONS = frandi.CHART_FUNCTIONS | zhou.CHART_FUNCTIONS | jung.CHART_FUNCTIONS
"""What draws the figures of results."""


def main() -> None:
    """Draw the charts."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, draw in CHART_FUNCTIONS.items():
        figure = draw(plt)
        figure.tight_layout()
        figure.savefig(PAGE_FOLDER / f"{name}.png", dpi=80)
        plt.close(figure)


if __name__ == "__main__":
    main()
