"""What all displays share: axes, legends, and the artists that several of them draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.plot.styles import GRID_COLOR, INK_COLOR, SUPPORT_LABEL, class_style

LEGEND_DISTANCE_POINTS = 40.0
"""Distance of the legend below the axes, in points: room for ticks and label."""

MAX_LEGEND_COLUMNS = 3
"""Entries of a row of the legend below the axes."""

Points = NDArray[np.float64]


def require_matplotlib(name: str) -> None:
    """Raise an ImportError that names the extra where matplotlib is missing.

    Parameters
    ----------
    name : str
        The display that needs it.

    Raises
    ------
    ImportError
        If matplotlib cannot be imported.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as missing:
        raise ImportError(
            f'{name} needs matplotlib, which is not installed: pip install "qpsvm[plot]"'
        ) from missing


class Display:
    """Base of the displays.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes of the last `plot`.
    figure_ : matplotlib Figure
        Their figure.
    legend_ : matplotlib Legend or None
    """

    ax_: Any
    figure_: Any
    legend_: Any

    def _begin(self, ax: Any) -> Any:
        """Return the axes to draw on: those given, or those of a new figure."""
        require_matplotlib(type(self).__name__)
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(layout="constrained")
        self.ax_, self.figure_, self.legend_ = ax, ax.figure, None
        return ax


def legend_beside(ax: Any) -> Any:
    """Put the legend right of the axes, in one column; return it."""
    return ax.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False,
        handlelength=3.2,
    )  # fmt: skip


def legend_below(ax: Any, handles: list[Any]) -> Any:
    """Put the legend below the axes, in rows; return it."""
    from matplotlib.transforms import offset_copy

    below = offset_copy(ax.transAxes, ax.figure, y=-LEGEND_DISTANCE_POINTS, units="points")
    return ax.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below,
        ncols=min(len(handles), MAX_LEGEND_COLUMNS), frameon=False, columnspacing=1.4,
        handletextpad=0.5, borderaxespad=0.0, handlelength=2.6,
    )  # fmt: skip


def draw_grid(ax: Any) -> None:
    """Draw grid lines behind the data."""
    ax.grid(True, which="major", color=GRID_COLOR, lw=0.8)
    ax.set_axisbelow(True)


def scatter_class(ax: Any, points: Points, code: int, label: str) -> Any:
    """Draw the points of a class in its color and marker; return the artist."""
    style = class_style(code)
    return ax.scatter(
        *points.T, s=22, color=style["color"], marker=style["marker"], alpha=0.9, lw=0.4, ec="white",
        zorder=2.5, label=label,
    )  # fmt: skip


def scatter_support(ax: Any, points: Points) -> Any:
    """Draw a ring around each support vector; return the artist."""
    return ax.scatter(
        *points.T, s=70, fc="none", ec=INK_COLOR, lw=0.9, zorder=3.0, label=SUPPORT_LABEL
    )


def line_handle(label: str, **settings: Any) -> Any:
    """Return a line for the legend alone."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=INK_COLOR, label=label, **settings)


def label_features(ax: Any, names: tuple[str, str]) -> None:
    """Write the names of the two features to the axes."""
    ax.set(xlabel=names[0], ylabel=names[1])
