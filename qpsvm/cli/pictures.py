"""Pictures that commands write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qpsvm.errors import InputError

MAX_CURVES = 12
"""Largest number of problems whose gaps are drawn; of more the slowest ones are."""

DOTS_PER_INCH = 140
"""Resolution of pictures."""


def figure() -> Any:
    """Return an empty figure.

    Raises
    ------
    InputError
        If matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError('pictures need matplotlib: pip install "qpsvm[plot]" adds it') from None
    return Figure(figsize=(7.0, 4.6), layout="constrained")


def check_drawing(path: Path | None) -> None:
    """Raise InputError where a picture is asked for and matplotlib is missing: before a long fit."""
    if path is not None:
        figure()


def save(picture: Any, path: Path) -> None:
    """Write a figure; the ending of the file chooses the format.

    Raises
    ------
    InputError
        If that fails.
    """
    try:
        picture.savefig(path, dpi=DOTS_PER_INCH)
    except (OSError, ValueError) as problem:
        raise InputError(f"the picture could not be written to {path}: {problem}") from None


def draw_gaps(path: Path, estimator: Any) -> None:
    """Draw the relative gap of each problem of a fit against time."""
    from qpsvm.estimators.votes import pairs_of
    from qpsvm.plot import ConvergenceDisplay

    drawn, results = figure(), estimator.result_
    results = results if isinstance(results, list) else [results]
    names = ["gap"]
    if len(results) > 1:
        classes = estimator.classes_.tolist()
        names = [f"{classes[i]} and {classes[j]}" for i, j in pairs_of(len(classes))]
    slowest = sorted(range(len(results)), key=lambda k: -results[k].timings["total"])
    curves = {names[k]: results[k] for k in sorted(slowest[:MAX_CURVES])}
    axes = drawn.subplots()
    ConvergenceDisplay.from_results(curves, ax=axes)
    axes.set_title(f"Certified relative gap {estimator.dual_gap_:.2g}")
    save(drawn, path)


def draw_path(path: Path, values: list[float], accuracy: list[float], support: list[int]) -> None:
    """Draw the training accuracy and the number of support vectors against C."""
    from qpsvm.plot import PathDisplay

    drawn = figure()
    PathDisplay(values, support, accuracy, name="C").plot(drawn.subplots())
    save(drawn, path)
