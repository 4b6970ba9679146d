"""Colors, lines, markers and hatches: told apart by the color-blind, and in gray by more than color."""

from __future__ import annotations

from typing import Any

CURVE_COLORS = (
    "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#332288", "#AA4466", "#999933", "#44AA99", "#661100", "#777777",
)  # fmt: skip
"""Colors in the order of the curves; the first six are distinct for the color-blind."""

LINE_STYLES = ("-", "--", "-.", ":")
"""Line styles in the order of the curves."""

CURVE_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers in the order of the curves."""

CLASS_COLORS = (
    "#0072B2", "#E69F00", "#882255", "#56B4E9", "#117733", "#CC79A7", "#332288", "#999933",
)  # fmt: skip
"""Colors of classes; neighbors in the list differ in lightness."""

CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Markers of the points of classes."""

CLASS_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "||||", "----", "oooo")
"""Hatches of the regions of classes."""

INK_COLOR = "#222222"
"""Color of boundaries, contours and rings."""

HATCH_COLOR = "#00000030"
"""Color of hatches, with its opacity."""

GRID_COLOR = "0.9"
"""Color of grid lines."""

OUTLIER_COLOR = "#D55E00"
"""Color of points outside."""

SEQUENTIAL_MAP = "cividis"
"""Color map of numbers: its lightness increases with the number."""

SUPPORT_LABEL = "support vectors"
"""Label of the points with a weight."""


def curve_style(order: int) -> dict[str, Any]:
    """Return color, line style and marker of the curve number `order`; the first 84 differ.

    Consecutive curves differ in all three.

    Parameters
    ----------
    order : int

    Returns
    -------
    dict
        Settings of a matplotlib line.

    Examples
    --------
    >>> curve_style(1)
    {'color': '#0072B2', 'ls': '--', 'marker': 's'}
    """
    return {
        "color": CURVE_COLORS[order % len(CURVE_COLORS)],
        "ls": LINE_STYLES[order % len(LINE_STYLES)],
        "marker": CURVE_MARKERS[order % len(CURVE_MARKERS)],
    }


def class_style(code: int) -> dict[str, str]:
    """Return color, marker and hatch of the class number `code`.

    Parameters
    ----------
    code : int

    Returns
    -------
    dict of str to str
        With the keys ``"color"``, ``"marker"`` and ``"hatch"``.

    Examples
    --------
    >>> class_style(1)["marker"]
    's'
    """
    return {
        "color": CLASS_COLORS[code % len(CLASS_COLORS)],
        "marker": CLASS_MARKERS[code % len(CLASS_MARKERS)],
        "hatch": CLASS_HATCHES[code % len(CLASS_HATCHES)],
    }
