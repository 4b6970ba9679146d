"""Contours of a function that is positive on most of the points: one-class machines and balls."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_number
from qpsvm.models import Ball, OneClass
from qpsvm.plot.canvas import (
    Display,
    label_features,
    legend_below,
    line_handle,
    require_matplotlib,
    scatter_support,
)
from qpsvm.plot.data import (
    DEFAULT_PADDING,
    DEFAULT_RESOLUTION,
    check_evaluates,
    checked_mask,
    checked_result,
    grid_around,
    like,
    plane_points,
    support_mask,
)
from qpsvm.plot.fitted import check_two_features, fitted_parts, support_among
from qpsvm.plot.styles import INK_COLOR, OUTLIER_COLOR, SEQUENTIAL_MAP
from qpsvm.result import Result

DEFAULT_LEVELS = 10
"""Number of shades of the function."""

MINUS_SIGN = "\N{MINUS SIGN}"
"""The sign that matplotlib writes on its axes."""

SHADE_OPACITY = 0.75
"""Opacity of the shades."""


class OneClassDisplay(Display):
    """Contours of a one-class machine or of a ball in the plane, with points, outliers and support.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (n, n)
        Coordinates of the nodes of a grid.
    values : ndarray of shape (n, n)
        The function at the nodes: positive inside, 0 on the boundary.
    points : array_like of shape (m, 2)
    outside : array_like of bool, shape (m,), optional
        Which points are outliers.
    support : array_like of bool, shape (m,), optional
        Which points are support vectors.
    feature_names : sequence of two str, optional
        Labels of the axes.
    value_label : str
        Label of the color bar.

    Attributes
    ----------
    shades_ : matplotlib QuadContourSet
        The function in shades: the lighter, the more usual.
    boundary_ : matplotlib QuadContourSet or None
        Its contour at 0, where there is one.
    points_ : matplotlib PathCollection
        The points inside.
    outside_, support_ : matplotlib PathCollection or None
    colorbar_ : matplotlib Colorbar or None
    ax_, figure_, legend_
        Axes, figure and legend of the last `plot`.

    Raises
    ------
    InputError
        If an argument is malformed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from qpsvm import OneClassSVM
    >>> from qpsvm.plot import OneClassDisplay
    >>> X = load_iris().data[:, :2]
    >>> machine = OneClassSVM(nu=0.1).fit(X)
    >>> display = OneClassDisplay.from_estimator(machine, X)  # doctest: +SKIP
    """

    def __init__(
        self, xx0: Any, xx1: Any, values: Any, *, points: Any, outside: Any = None,
        support: Any = None, feature_names: Any = None, value_label: str = "decision function",
    ) -> None:  # fmt: skip
        self.points, self.feature_names = plane_points(points, feature_names)
        self.xx0, self.xx1, self.values = (np.asarray(part) for part in (xx0, xx1, values))
        shape = self.xx0.shape
        if self.xx0.ndim != 2 or self.xx1.shape != shape or self.values.shape != shape:
            raise InputError("xx0, xx1 and values must have one shape (n, n)")
        m = len(self.points)
        self.outside = checked_mask("outside", outside, m)
        self.support = checked_mask("support", support, m)
        self.value_label = str(value_label)

    @classmethod
    def from_result(
        cls, result: Result[Any], X: Any, *, feature_names: Any = None,
        grid_resolution: int = DEFAULT_RESOLUTION, padding: float = 2.0 * DEFAULT_PADDING,
        ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Draw the contours of a result.

        Parameters
        ----------
        result : Result
            Of `OneClassDual`, `MEBDual` or `SVDDDual`, with any kernel on points. Of a ball the function
            is the squared radius minus the squared distance from the center.
        X : array_like of shape (m, 2)
            The points of the problem.
        feature_names : sequence of two str, optional
            Labels of the axes; by default the columns of a DataFrame.
        grid_resolution : int
            Number of grid lines in each direction.
        padding : float
            Margin around the points, in units of their extent.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        OneClassDisplay

        Raises
        ------
        InputError
            If the points do not lie in the plane, or the model is neither a one-class machine nor a ball.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from qpsvm import MEBDual, RBF, solve
        >>> X = load_iris().data[:, 2:]
        >>> result = solve(MEBDual(RBF(X, gamma=0.5)))
        >>> display = OneClassDisplay.from_result(result, X)  # doctest: +SKIP
        """
        require_matplotlib(cls.__name__)
        points, names = plane_points(X, feature_names)
        model = checked_result(result).model
        if not isinstance(model, (Ball, OneClass)):
            raise InputError(
                "result must be of OneClassDual, MEBDual or SVDDDual; got a model of the type "
                f"{type(model).__name__}"
            )
        check_evaluates(model)
        grid = grid_around(points, grid_resolution, padding)
        if isinstance(model, Ball):
            values = model.radius**2 - model.distance(grid.nodes) ** 2
            outside, label = ~model.contains(points), "squared radius - squared distance"
        else:
            values = model.decision_function(grid.nodes)
            outside, label = model.predict(points) < 0, "decision function"
        display = cls(
            *grid, values.reshape(grid.xx0.shape), points=points, outside=outside,
            support=support_mask(result, len(points)), feature_names=names, value_label=label,
        )  # fmt: skip
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, feature_names: Any = None,
        grid_resolution: int = DEFAULT_RESOLUTION, padding: float = 2.0 * DEFAULT_PADDING,
        ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Draw the contours of a fitted estimator.

        Parameters
        ----------
        estimator : OneClassSVM or SVDD
            Or scikit-learn's ``OneClassSVM``, or a pipeline that ends with one.
        X : array_like of shape (m, 2)
            Points; those that are support vectors are marked.
        feature_names : sequence of two str, optional
            Labels of the axes; by default the columns of a DataFrame.
        grid_resolution : int
            Number of grid lines in each direction.
        padding : float
            Margin around the points, in units of their extent.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        OneClassDisplay

        Raises
        ------
        NotFittedError
            If the estimator is not fitted; scikit-learn's error.
        InputError
            If the points do not lie in the plane, or the estimator does not detect outliers.
        """
        require_matplotlib(cls.__name__)
        fitted = fitted_parts(estimator)
        points, names = plane_points(X, feature_names)
        check_two_features(estimator)
        if not hasattr(fitted.machine, "offset_") or hasattr(fitted.machine, "classes_"):
            raise InputError(
                f"estimator must detect outliers, as OneClassSVM and SVDD do; got {fitted.whole!r}"
            )
        grid = grid_around(points, grid_resolution, padding)
        values = fitted.whole.decision_function(like(X, grid.nodes))
        display = cls(
            *grid, np.reshape(values, grid.xx0.shape), points=points,
            outside=fitted.whole.predict(X) < 0, support=support_among(fitted, X),
            feature_names=names,
        )  # fmt: skip
        return display.plot(ax, **options)

    def plot(
        self, ax: Any = None, *, levels: int = DEFAULT_LEVELS, show_support: bool = True,
        colorbar: bool = True, legend: bool = True,
    ) -> Self:  # fmt: skip
        """Draw shades, boundary, points, outliers and support vectors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        levels : int
            Approximate number of shades, half of them inside.
        show_support : bool
            Whether to mark the support vectors.
        colorbar : bool
            Whether to draw a color bar.
        legend : bool
            Whether to draw a legend, below the axes.

        Returns
        -------
        OneClassDisplay

        Raises
        ------
        InputError
            If `levels` is no positive integer.
        """
        check_number("levels", levels, low=1, integer=True)
        ax = self._begin(ax)
        from matplotlib import colormaps
        from matplotlib.colors import BoundaryNorm

        steps = _levels(self.values, levels)
        self.shades_ = ax.contourf(
            self.xx0, self.xx1, self.values, levels=steps, alpha=SHADE_OPACITY,
            cmap=SEQUENTIAL_MAP, norm=BoundaryNorm(steps, colormaps[SEQUENTIAL_MAP].N),
        )  # fmt: skip
        self.boundary_ = None
        if self.values.min() < 0.0 < self.values.max():
            self.boundary_ = ax.contour(
                self.xx0, self.xx1, self.values, levels=[0.0], colors=INK_COLOR, linewidths=1.8
            )
        self.points_ = ax.scatter(
            *self.points[~self.outside].T, s=20, color="white", lw=0.6, ec=INK_COLOR, zorder=2.5,
            label="points",
        )  # fmt: skip
        handles, self.outside_, self.support_ = [self.points_], None, None
        if self.outside.any():
            self.outside_ = ax.scatter(
                *self.points[self.outside].T, s=34, color=OUTLIER_COLOR, marker="X", lw=0.6,
                ec="white", zorder=2.6, label="outliers",
            )  # fmt: skip
            handles.append(self.outside_)
        if show_support and self.support.any():
            self.support_ = scatter_support(ax, self.points[self.support])
            handles.append(self.support_)
        if self.boundary_ is not None:
            handles.append(line_handle("boundary", lw=1.8))
        label_features(ax, self.feature_names)
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(
                self.shades_, ax=ax, label=self.value_label, ticks=steps
            )
            self.colorbar_.set_ticks(
                steps, labels=[f"{step:.4g}".replace("-", MINUS_SIGN) for step in steps]
            )
        if legend:
            self.legend_ = legend_below(ax, handles)
        return self


def _levels(values: NDArray[np.float64], n_levels: int) -> NDArray[np.float64]:
    """Return round levels that cover all values and include 0, as many above as below."""
    from matplotlib.ticker import MaxNLocator

    locator = MaxNLocator(nbins=max(1, n_levels // 2))
    below = np.asarray(locator.tick_values(min(float(values.min()), 0.0), 0.0))
    above = np.asarray(locator.tick_values(0.0, max(float(values.max()), 0.0)))
    return np.unique([*below[below < 0.0], 0.0, *above[above > 0.0]])
