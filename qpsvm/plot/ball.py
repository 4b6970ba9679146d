"""A ball in the plane with its points, its center and its support."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from qpsvm.errors import InputError, check_number, check_vector
from qpsvm.models import Ball
from qpsvm.plot.canvas import (
    Display,
    label_features,
    legend_below,
    require_matplotlib,
    scatter_support,
)
from qpsvm.plot.data import checked_mask, checked_result, plane_points, support_mask
from qpsvm.plot.fitted import check_two_features, fitted_parts, support_among
from qpsvm.plot.styles import CLASS_COLORS, INK_COLOR, OUTLIER_COLOR
from qpsvm.result import Result

BALL_COLOR = CLASS_COLORS[0]
"""Color of the inside of the ball."""


class BallDisplay(Display):
    """A ball in the plane with its points, its center, its radii to the support, and points outside.

    Parameters
    ----------
    center : array_like of shape (2,)
    radius : float
    points : array_like of shape (m, 2)
    support : array_like of bool, shape (m,), optional
        Which points have a weight.
    outside : array_like of bool, shape (m,), optional
        Which points lie outside, at the price of their slack.
    feature_names : sequence of two str, optional
        Labels of the axes.

    Attributes
    ----------
    circle_ : matplotlib Circle
    center_ : matplotlib Line2D
    points_ : matplotlib PathCollection
        The points inside.
    outside_ : matplotlib PathCollection or None
    support_ : matplotlib PathCollection or None
    radii_ : list of matplotlib Line2D
        From the center to the support, of points that are not outside.
    ax_, figure_, legend_
        Axes, figure and legend of the last `plot`.

    Raises
    ------
    InputError
        If an argument is malformed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from qpsvm import Linear, MEBDual, solve
    >>> from qpsvm.plot import BallDisplay
    >>> X = load_iris().data[:, :2]
    >>> display = BallDisplay.from_result(solve(MEBDual(Linear(X))), X)  # doctest: +SKIP
    """

    def __init__(
        self, center: Any, radius: float, points: Any, *, support: Any = None,
        outside: Any = None, feature_names: Any = None,
    ) -> None:  # fmt: skip
        self.points, self.feature_names = plane_points(points, feature_names)
        self.center = check_vector("center", center, 2)
        self.radius = check_number("radius", radius, low=0.0, finite=True)
        m = len(self.points)
        self.support = checked_mask("support", support, m)
        self.outside = checked_mask("outside", outside, m)

    @classmethod
    def from_result(
        cls, result: Result[Ball], X: Any, *, feature_names: Any = None, ax: Any = None,
        **options: Any,
    ) -> Self:  # fmt: skip
        """Draw the ball of a result.

        Parameters
        ----------
        result : Result
            Of ``MEBDual(Linear(X))`` or ``SVDDDual(Linear(X))``.
        X : array_like of shape (m, 2)
            The points of the problem.
        feature_names : sequence of two str, optional
            Labels of the axes; by default the columns of a DataFrame.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        BallDisplay

        Raises
        ------
        InputError
            If the points do not lie in the plane, or the ball has no center there.
        """
        require_matplotlib(cls.__name__)
        points, names = plane_points(X, feature_names)
        model = checked_result(result).model
        if not isinstance(model, Ball) or model.center is None or len(model.center) != 2:
            raise InputError(
                "result must be of a ball in the plane, such as MEBDual(Linear(X)) with X of shape "
                "(m, 2); of another kernel OneClassDisplay draws the contours"
            )
        outside = ~model.contains(points) if model.n_outside else None
        display = cls(
            model.center, model.radius, points, outside=outside, feature_names=names,
            support=support_mask(result, len(points)),
        )  # fmt: skip
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, feature_names: Any = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the ball of a fitted `SVDD` with a linear kernel.

        Parameters
        ----------
        estimator : SVDD
        X : array_like of shape (m, 2)
            Points; those that are support vectors are marked.
        feature_names : sequence of two str, optional
            Labels of the axes; by default the columns of a DataFrame.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        BallDisplay

        Raises
        ------
        NotFittedError
            If the estimator is not fitted; scikit-learn's error.
        InputError
            If the points do not lie in the plane, or the estimator has no center there.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from qpsvm import SVDD
        >>> X = load_iris().data[:, :2]
        >>> machine = SVDD(kernel="linear", nu=0.1).fit(X)
        >>> display = BallDisplay.from_estimator(machine, X)  # doctest: +SKIP
        """
        require_matplotlib(cls.__name__)
        fitted = fitted_parts(estimator)
        points, names = plane_points(X, feature_names)
        check_two_features(estimator)
        if fitted.before is not None or getattr(fitted.machine, "center_", None) is None:
            raise InputError(
                "estimator must be an SVDD with a linear kernel, which has a center in the plane; got "
                f"{fitted.whole!r}"
            )
        display = cls(
            fitted.machine.center_, fitted.machine.radius_, points, feature_names=names,
            support=support_among(fitted, X), outside=fitted.machine.predict(X) < 0,
        )  # fmt: skip
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, show_support: bool = True, legend: bool = True) -> Self:
        """Draw the ball.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        show_support : bool
            Whether to mark the points with a weight and their radii.
        legend : bool
            Whether to draw a legend, below the axes.

        Returns
        -------
        BallDisplay
        """
        ax = self._begin(ax)
        from matplotlib.patches import Circle

        self.circle_ = ax.add_patch(
            Circle(
                tuple(self.center), self.radius, fc=BALL_COLOR + "14", ec=INK_COLOR, lw=1.4,
                label="ball",
            )
        )  # fmt: skip
        inside = self.points[~self.outside]
        self.points_ = ax.scatter(
            *inside.T, s=14, color=BALL_COLOR, alpha=0.75, lw=0, zorder=2.2, label="points"
        )
        handles = [self.points_]
        self.outside_, self.support_, self.radii_ = None, None, []
        if self.outside.any():
            self.outside_ = ax.scatter(
                *self.points[self.outside].T, s=26, color=OUTLIER_COLOR, marker="x", lw=1.4,
                zorder=2.4, label="points outside",
            )  # fmt: skip
            handles.append(self.outside_)
        if show_support and self.support.any():
            for point in self.points[self.support & ~self.outside]:
                ends = np.array([self.center, point]).T
                self.radii_ += ax.plot(*ends, color="0.45", lw=0.9, ls=(0, (4, 3)), label="_radius")
            self.support_ = scatter_support(ax, self.points[self.support])
            handles.append(self.support_)
        (self.center_,) = ax.plot(
            *self.center, "+", color=INK_COLOR, ms=11, mew=1.8, ls="none", label="center"
        )
        handles += [self.center_, self.circle_]
        label_features(ax, self.feature_names)
        ax.set_aspect("equal", adjustable="datalim")
        if legend:
            self.legend_ = legend_below(ax, handles)
        return self
