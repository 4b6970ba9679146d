"""The picture of the demo: gap against time for three problems, and three answers in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qpsvm.api import solve
from qpsvm.demo.data import breast_cancer, digits, principal_plane
from qpsvm.formulations import HingeDual, MEBDual, PolytopeDistanceDual
from qpsvm.gram import RBF, Linear
from qpsvm.plot.ball import BallDisplay
from qpsvm.plot.closest_points import ClosestPointsDisplay
from qpsvm.plot.convergence import ConvergenceDisplay
from qpsvm.plot.regions import DecisionRegionDisplay
from qpsvm.plot.styles import curve_style

TITLE_STYLE = {"fontsize": 11}
"""Style of the title of a panel."""


def draw(figure: Any, tasks: Sequence[Any]) -> None:
    """Draw gap against time for three problems, and three answers in the plane."""
    top, bottom = figure.subplots(2, 3)
    _draw_gaps(figure, top, tasks[::3])
    D, target = digits()
    axes = "first principal axis", "second principal axis"
    X = principal_plane(D)
    ball = solve(MEBDual(Linear(X)), tol=1e-6)
    BallDisplay.from_result(ball, X, feature_names=axes, ax=bottom[0])
    radius = ball.model.radius
    bottom[0].set_title(f"digits in the plane: smallest ball, radius {radius:.4g}", TITLE_STYLE)
    two = (target == 0) | (target == 2)
    X, y = principal_plane(D[two]), np.where(target[two] == 0, 1.0, -1.0)
    nearest = solve(PolytopeDistanceDual(Linear(X), y), tol=1e-6)
    ClosestPointsDisplay.from_result(
        nearest, X, y, class_names=("digit 2", "digit 0"), feature_names=axes, ax=bottom[1]
    )
    distance = nearest.model.distance
    bottom[1].set_title(f"digits in the plane: distance of two hulls {distance:.4g}", TITLE_STYLE)
    Z, y, names = breast_cancer()
    chosen = [names.index(name) for name in ("worst radius", "worst concave points")]
    machine = solve(HingeDual(RBF(Z[:, chosen], 0.25), y, C=10.0), tol=1e-6)
    DecisionRegionDisplay.from_result(
        machine,
        Z[:, chosen],
        y,
        class_names=("malignant", "benign"),
        feature_names=[f"{names[k]} (standardized)" for k in chosen],
        ax=bottom[2],
    )
    bottom[2].set_title(
        f"breast cancer: hinge, RBF, {len(machine.support)} support vectors", TITLE_STYLE
    )


def _draw_gaps(figure: Any, axes: Any, tasks: Sequence[Any]) -> None:
    """Draw a panel for each task under one legend; methods with equal settings are drawn once."""
    from qpsvm.solvers.methods import METHODS

    solvers: list[Any] = []
    styles = {}
    for name, method in METHODS.items():
        if method.solver() not in solvers:
            styles[name] = curve_style(len(solvers))
            solvers.append(method.solver())
    shown = {}
    for ax in axes[1:]:
        ax.sharey(axes[0])
    for ax, task in zip(axes, tasks, strict=True):
        drawn = {name: result for name, result in task.results.items() if name in styles}
        ConvergenceDisplay.from_results(
            drawn,
            styles={name: styles[name] for name in drawn},
            show_tolerance=False,
            ax=ax,
        )
        ax.set_title(f"{task.sample.name}: {task.name}", TITLE_STYLE)
        shown.update(dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)))
        ax.get_legend().remove()
        for tol in sorted({METHODS[name].gap for name in task.results}):
            ax.axhline(tol, color="0.5", lw=1.0, ls=(0, (1, 2)), zorder=0)
    names = [name for name in styles if name in shown]
    figure.legend([shown[name] for name in names], names, loc="outside upper center",
                  ncols=min(len(names), 14), frameon=False, handlelength=1.5)  # fmt: skip
