"""The picture of the README and of the landing page: regions of a classifier, and seconds of training.

python -m docs.make.overview
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from docs.benchmarks.make.pictures import exact_kernel
from qpsvm import SVC
from qpsvm.plot import DecisionRegionDisplay

STATIC_FOLDER = Path(__file__).resolve().parents[1] / "_static"
"""Folder of the figures."""

DATA_SETS = ("a9a", "w8a", "mnist-3-8", "mc20k", "letter", "shuttle")
"""Data sets of the panel of seconds."""


def regions(ax: Any) -> None:
    """Draw the regions of a classifier."""
    X, y = make_moons(160, noise=0.2, random_state=1)
    model = SVC(C=10.0, gamma=1.0).fit(X, y)
    DecisionRegionDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"SVC, certified relative gap {model.dual_gap_:.0e}", fontsize=11)


def training(ax: Any) -> None:
    """Draw seconds of training."""
    exact_kernel(ax, DATA_SETS)
    ax.set_xlabel("seconds of training, RBF kernel, two cores of an AMD EPYC")


def main() -> None:
    """Draw the panels, together for the README and one by one for the landing page."""
    fig, axes = plt.subplots(1, 2, figsize=(11.0, 4.2), layout="constrained")
    for ax, draw in zip(axes, (regions, training), strict=True):
        draw(ax)
        single, alone = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
        draw(alone)
        single.savefig(STATIC_FOLDER / f"{draw.__name__}.png", dpi=100)
    fig.savefig(STATIC_FOLDER / "overview.png", dpi=100)


if __name__ == "__main__":
    main()
