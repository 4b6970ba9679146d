"""Pictures of results on matplotlib axes; matplotlib is imported where something is drawn.

Every function draws into `ax`, by default the current axes, and returns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_choice, check_labels, check_points
from qpsvm.models import Ball, ClosestPoints
from qpsvm.result import Result

CURVE_COLORS = (
    "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#332288", "#AA4466", "#999933", "#44AA99", "#661100", "#777777",
)  # fmt: skip
"""Colors in the order of the curves; the first six are distinct for the color-blind."""

POSITIVE_COLOR = "#0072B2"
"""Color of the class +1."""

NEGATIVE_COLOR = "#D55E00"
"""Color of the class -1."""

INK_COLOR = "#222222"
"""Color of lines, marks and contours."""


def convergence(
    results: Mapping[str, Result],
    ax: Any = None,
    *,
    against: str = "time",
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Draw the relative gap against time or iterations, log-log, a curve for each result.

    Parameters
    ----------
    results : mapping of str to Result
        The key is the label of the curve. Its last point, marked by a dot, is the certified gap.
    ax : matplotlib Axes, optional
    against : {"time", "iteration"}
        Seconds since the iterations began, or the number of iterations.
    styles : mapping of str to mapping, optional
        Settings of the curve with that label, such as ``{"color": "black"}``; the others are drawn
        in the style of their order.

    Returns
    -------
    matplotlib Axes
    """
    check_choice("against", against, ("time", "iteration"))
    ax = _axes(ax)
    for order, (label, result) in enumerate(results.items()):
        x = np.asarray(getattr(result.history, against), dtype=float)
        gap = result.history.relative_gap
        gap[-1:] = result.certificate.relative_gap
        shown = (x > 0) & (gap > 0) & np.isfinite(gap)
        line_style = {**style(order), **(styles or {}).get(label, {})}
        ax.plot(x[shown], gap[shown], lw=1.7, label=label, solid_joinstyle="round", **line_style)
        ax.plot(x[shown][-1:], gap[shown][-1:], "o", color=line_style["color"], ms=5, label="_end")
    ax.set(xscale="log", yscale="log", ylabel="relative gap")
    ax.set_xlabel("seconds" if against == "time" else "iterations")
    ax.grid(True, which="major", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False)
    return ax


def style(order: int) -> dict[str, str]:
    """Return color and line style of the curve number `order`, no two alike among the first 36."""
    n = len(CURVE_COLORS)
    return {"color": CURVE_COLORS[order % n], "ls": ("-", "--", ":")[order // n % 3]}


def ball(result: Result, points: Any, ax: Any = None) -> Any:
    """Draw a ball in the plane with its points, its center and its support.

    Parameters
    ----------
    result : Result
        Of ``MEBDual(Linear(points))``.
    points : array_like of shape (m, 2)
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If the points do not lie in a plane or the ball has no center there.
    """
    from matplotlib.patches import Circle

    X = _plane(points)
    model = result.model
    if not isinstance(model, Ball) or model.center is None or len(model.center) != 2:
        raise InputError("result must be of a ball in the plane, MEBDual(Linear(points))")
    ax, (u, v) = _axes(ax), model.center
    ax.add_patch(Circle((u, v), model.radius, fc="#0072B20F", ec=INK_COLOR, lw=1.3, label="ball"))
    ax.scatter(*X.T, s=9, color="0.62", lw=0, label="points")
    for i in result.support:
        ends = np.array([model.center, X[i]]).T
        ax.plot(*ends, color="0.55", lw=0.9, ls=(0, (4, 3)), label="_radius")
    ax.plot(*model.center, "+", color=INK_COLOR, ms=9, mew=1.4, label="center")
    _ring(ax, X[result.support])
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def closest_points(result: Result, points: Any, y: Any, ax: Any = None) -> Any:
    """Draw the closest points of two hulls in the plane and the line midway between them.

    Parameters
    ----------
    result : Result
        Of ``PolytopeDistanceDual(Linear(points), y)``.
    points : array_like of shape (m, 2)
    y : array_like of shape (m,)
        Labels -1 and +1.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If the points do not lie in a plane or the result has no witness points there.
    """
    X, ax = _plane(points), _axes(ax)
    labels = check_labels("y", y, len(X))
    model = result.model
    if not isinstance(model, ClosestPoints) or model.p is None or model.q is None:
        raise InputError("result must be of polytopes in the plane, Linear(points)")
    for sign, color in ((1, POSITIVE_COLOR), (-1, NEGATIVE_COLOR)):
        ax.fill(*_hull(X[labels == sign]).T, fc=color + "14", ec=color, lw=1.0, label="_hull")
    _classes(ax, X, labels)
    _ring(ax, X[result.support])
    ax.plot(
        *np.array([model.p, model.q]).T, "o-", color=INK_COLOR, ms=4, lw=1.6, label="closest points"
    )
    if model.w is not None and model.distance > 0:
        _line(ax, X, model.w, 0.5 * (model.p + model.q))
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def hyperplane(result: Result, points: Any, y: Any, ax: Any = None, *, grid: int = 200) -> Any:
    """Draw the line where a decision function is 0, its margins at -1 and +1, and the support.

    Parameters
    ----------
    result : Result
        Of a formulation whose model has a `decision_function`, with any kernel of the points.
    points : array_like of shape (m, 2)
    y : array_like of shape (m,)
        Labels -1 and +1.
    ax : matplotlib Axes, optional
    grid : int
        Number of grid lines in each direction at which the decision function is evaluated.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If the points do not lie in a plane or the model is a ball.
    """
    X = _plane(points)
    labels = check_labels("y", y, len(X))
    if not hasattr(result.model, "decision_function"):
        raise InputError("result must have a model that separates two classes")
    ax = _axes(ax)
    low, high = _window(X)
    u, v = np.meshgrid(np.linspace(low[0], high[0], grid), np.linspace(low[1], high[1], grid))
    value = result.model.decision_function(np.column_stack([u.ravel(), v.ravel()])).reshape(u.shape)
    ax.contourf(
        u,
        v,
        value,
        levels=[-np.inf, 0, np.inf],
        colors=[NEGATIVE_COLOR, POSITIVE_COLOR],
        alpha=0.08,
    )
    ax.contour(u, v, value, levels=[-1, 0, 1], colors=INK_COLOR, linewidths=[0.9, 1.6, 0.9],
               linestyles=["dashed", "solid", "dashed"])  # fmt: skip
    _classes(ax, X, labels)
    _ring(ax, X[result.support])
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.gca()


def _plane(points: Any) -> NDArray[np.float64]:
    X = check_points("points", points)
    if X.shape[1] != 2:
        raise InputError(f"points must have two features to be drawn; got shape {X.shape}")
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def _classes(ax: Any, X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    for sign, color in ((1, POSITIVE_COLOR), (-1, NEGATIVE_COLOR)):
        ax.scatter(*X[y == sign].T, s=12, color=color, alpha=0.65, lw=0, label=f"class {sign:+d}")


def _ring(ax: Any, support: NDArray[np.float64]) -> None:
    ax.scatter(*support.T, s=40, fc="none", ec=INK_COLOR, lw=1.0, zorder=3, label="support")


def _line(
    ax: Any, X: NDArray[np.float64], normal: NDArray[np.float64], point: NDArray[np.float64]
) -> None:
    """Draw the line through `point` across all the points."""
    along = np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
    reach = (X - point) @ along
    ends = point + np.outer([min(reach.min(), 0.0), max(reach.max(), 0.0)], along)
    ax.plot(*ends.T, color=INK_COLOR, lw=1.3, ls="--", label="separating line")


def _hull(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of the convex hull in order; the points themselves where it is flat."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return X[ConvexHull(X).vertices]
    except (QhullError, ValueError):  # fewer than three points, or all on a line
        return X[np.lexsort(X.T)]


def _window(X: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = X.min(axis=0), X.max(axis=0)
    frame = 0.05 * np.maximum(high - low, 1e-12)
    return low - frame, high + frame
