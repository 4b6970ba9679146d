"""The regions of two and more classes in the plane, with boundaries, margins and support vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_labels, check_number
from qpsvm.plot.canvas import (
    Display,
    label_features,
    legend_below,
    line_handle,
    require_matplotlib,
    scatter_class,
    scatter_support,
)
from qpsvm.plot.class_values import boundaries_and_margins, margin_of
from qpsvm.plot.data import (
    DEFAULT_PADDING,
    DEFAULT_RESOLUTION,
    check_evaluates,
    checked_mask,
    checked_result,
    class_labels,
    coded,
    grid_around,
    like,
    plane_points,
    support_mask,
)
from qpsvm.plot.fitted import check_two_features, fitted_parts, support_among
from qpsvm.plot.styles import HATCH_COLOR, INK_COLOR, class_style
from qpsvm.result import Result

REGION_OPACITY = 0.16
"""Opacity of the regions."""

Values = NDArray[np.float64]


class DecisionRegionDisplay(Display):
    """Regions of two and more classes in the plane, boundaries, margins, points and support vectors.

    scikit-learn's ``DecisionBoundaryDisplay`` draws the response of any estimator. This display also
    knows the machines within: of several classes it draws the margins of each pair where these two
    classes come first, or, one against the rest, the margin of each class in its region.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (n, n)
        Coordinates of the nodes of a grid.
    regions : ndarray of int, shape (n, n)
        The class at each node, from 0 on.
    boundaries : sequence of ndarray, shape (n, n)
        Functions that are 0 on a boundary; NaN where they do not apply.
    margins : sequence of ndarray, shape (n, n), optional
        Functions that are -1 and +1 on margins; NaN where they do not apply.
    points : array_like of shape (m, 2)
    codes : array_like of int, shape (m,), optional
        The class of each point, from 0 on; without it the points are drawn alike.
    support : array_like of bool, shape (m,), optional
        Which points are support vectors.
    class_names : sequence of str
    feature_names : sequence of two str, optional
        Labels of the axes.

    Attributes
    ----------
    regions_ : list of matplotlib QuadContourSet
        The regions of the classes.
    boundaries_, margins_ : list of matplotlib QuadContourSet
        Contours at 0, and at -1 and +1.
    points_ : list of matplotlib PathCollection
        The points of each class, or of all.
    support_ : matplotlib PathCollection or None
    ax_, figure_, legend_
        Axes, figure and legend of the last `plot`.

    Raises
    ------
    InputError
        If an argument is malformed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from qpsvm import SVC
    >>> from qpsvm.plot import DecisionRegionDisplay
    >>> iris = load_iris()
    >>> X, y = iris.data[:, 2:], iris.target
    >>> display = DecisionRegionDisplay.from_estimator(  # doctest: +SKIP
    ...     SVC(C=10.0).fit(X, y), X, y, class_names=iris.target_names
    ... )
    """

    def __init__(
        self, xx0: Any, xx1: Any, regions: Any, boundaries: Sequence[Any], *, points: Any,
        class_names: Sequence[str], margins: Sequence[Any] = (), codes: Any = None,
        support: Any = None, feature_names: Any = None,
    ) -> None:  # fmt: skip
        self.points, self.feature_names = plane_points(points, feature_names)
        self.xx0, self.xx1, self.regions = (np.asarray(part) for part in (xx0, xx1, regions))
        self.boundaries = [np.asarray(part) for part in boundaries]
        self.margins = [np.asarray(part) for part in margins]
        parts = [self.xx1, self.regions, *self.boundaries, *self.margins]
        if self.xx0.ndim != 2 or any(part.shape != self.xx0.shape for part in parts):
            raise InputError("xx0, xx1, regions, boundaries and margins must have one shape (n, n)")
        m = len(self.points)
        self.class_names = tuple(str(name) for name in class_names)
        self.codes = None if codes is None else np.asarray(codes)
        if self.codes is not None and self.codes.shape != (m,):
            raise InputError(f"codes must have shape ({m},); got {self.codes.shape}")
        self.support = checked_mask("support", support, m)

    @classmethod
    def from_result(
        cls, result: Result[Any], X: Any, y: Any, *, class_names: Any = None,
        feature_names: Any = None, grid_resolution: int = DEFAULT_RESOLUTION,
        padding: float = DEFAULT_PADDING, ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Draw the regions of a result whose model separates two classes.

        Parameters
        ----------
        result : Result
            Of `HingeDual`, `NuSVCDual`, `PolytopeDistanceDual` or another problem of two classes, with
            any kernel on points.
        X : array_like of shape (m, 2)
            The points of the problem.
        y : array_like of shape (m,)
            Their labels -1 and +1.
        class_names : sequence of two str, optional
            Names of the classes -1 and +1.
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
        DecisionRegionDisplay
            Where the model is not scaled to margins, as of classes that are not separable, none is
            drawn.

        Raises
        ------
        InputError
            If the points do not lie in the plane, or the model does not separate two classes.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from qpsvm import HingeDual, RBF, solve
        >>> X, y = load_iris(return_X_y=True)
        >>> X, y = X[:, 2:], 2.0 * (y == 2) - 1.0
        >>> result = solve(HingeDual(RBF(X, gamma=1.0), y, C=10.0))
        >>> display = DecisionRegionDisplay.from_result(result, X, y)  # doctest: +SKIP
        """
        require_matplotlib(cls.__name__)
        points, names = plane_points(X, feature_names)
        labels = check_labels("y", y, len(points))
        model = checked_result(result).model
        if not hasattr(model, "decision_function") or not hasattr(model, "b"):
            raise InputError(
                "result must have a model that separates two classes; got "
                f"{type(model).__name__ if model is not None else 'no model'}"
            )
        check_evaluates(model)
        grid = grid_around(points, grid_resolution, padding)
        values = model.decision_function(grid.nodes).reshape(grid.xx0.shape)
        level = margin_of(model)
        display = cls(
            *grid, (values >= 0).astype(np.int64), [values], points=points,
            margins=[values / level] if level else [], codes=(labels > 0).astype(np.int64),
            support=support_mask(result, len(points)), feature_names=names,
            class_names=class_labels((-1, 1), class_names),
        )  # fmt: skip
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, class_names: Any = None,
        feature_names: Any = None, grid_resolution: int = DEFAULT_RESOLUTION,
        padding: float = DEFAULT_PADDING, ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Draw the regions of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Of this library or of scikit-learn, with a decision function; or a pipeline that ends with
            one, or a search.
        X : array_like of shape (m, 2)
            Points; those that are support vectors are marked.
        y : array_like of shape (m,), optional
            Their classes; without them the points are drawn alike.
        class_names : sequence of str, optional
            Names of the classes, in the order of ``classes_``.
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
        DecisionRegionDisplay

        Raises
        ------
        NotFittedError
            If the estimator is not fitted; scikit-learn's error.
        InputError
            If the points do not lie in the plane, or the estimator is no such classifier.
        """
        require_matplotlib(cls.__name__)
        fitted = fitted_parts(estimator)
        points, names = plane_points(X, feature_names)
        check_two_features(estimator)
        machine = fitted.machine
        if not hasattr(machine, "classes_") or not hasattr(machine, "decision_function"):
            raise InputError(
                f"estimator must be a classifier with a decision function; got {fitted.whole!r}"
            )
        classes = machine.classes_
        codes = None if y is None else coded("y", y, classes, len(points))
        grid = grid_around(points, grid_resolution, padding)
        nodes = like(X, grid.nodes)
        regions = np.searchsorted(classes, fitted.whole.predict(nodes)).reshape(grid.xx0.shape)
        boundaries, margins = boundaries_and_margins(machine, fitted.to_machine(nodes), regions)
        display = cls(
            *grid, regions, boundaries, margins=margins, points=points, codes=codes,
            support=support_among(fitted, X), class_names=class_labels(classes, class_names),
            feature_names=names,
        )  # fmt: skip
        return display.plot(ax, **options)

    def plot(
        self, ax: Any = None, *, show_margins: bool = True, show_support: bool = True,
        hatches: bool = True, alpha: float = REGION_OPACITY, legend: bool = True,
    ) -> Self:  # fmt: skip
        """Draw regions, boundaries, margins, points and support vectors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        show_margins : bool
            Whether to draw the margins.
        show_support : bool
            Whether to mark the support vectors.
        hatches : bool
            Whether to hatch the regions, which tells them apart without colors.
        alpha : float
            Opacity of the regions, from 0 to 1.
        legend : bool
            Whether to draw a legend, below the axes.

        Returns
        -------
        DecisionRegionDisplay

        Raises
        ------
        InputError
            If `alpha` is not from 0 to 1.
        """
        check_number("alpha", alpha, low=0.0, high=1.0)
        ax = self._begin(ax)
        self._fill_regions(ax, hatches, alpha)
        self.boundaries_ = self._contours(ax, self.boundaries, [0.0], lw=1.6, ls="solid")
        shown = self.margins if show_margins else []
        self.margins_ = self._contours(ax, shown, [-1.0, 1.0], lw=1.1, ls="dashed")
        handles = self._scatter(ax)
        self.support_ = None
        if show_support and self.support.any():
            self.support_ = scatter_support(ax, self.points[self.support])
            handles.append(self.support_)
        if self.boundaries_:
            handles.append(line_handle("decision boundary", lw=1.6))
        if self.margins_:
            handles.append(line_handle("margin", lw=1.1, ls="--"))
        label_features(ax, self.feature_names)
        ax.set(xlim=(self.xx0.min(), self.xx0.max()), ylim=(self.xx1.min(), self.xx1.max()))
        if legend:
            self.legend_ = legend_below(ax, handles)
        return self

    def _fill_regions(self, ax: Any, hatches: bool, alpha: float) -> None:
        self.regions_ = []
        smooth = len(self.class_names) == 2 and len(self.boundaries) == 1
        for code in range(len(self.class_names)):
            inside = np.where(self.regions == code, 1.0, -1.0)
            if smooth:
                inside = self.boundaries[0] * (1.0 if code else -1.0)
            if not (inside >= 0).any():
                continue
            style = class_style(code)
            area = ax.contourf(
                self.xx0, self.xx1, inside, levels=[0.0, np.inf], colors=[style["color"]],
                alpha=alpha, hatches=[style["hatch"] if hatches else ""],
            )  # fmt: skip
            area.set(edgecolor=HATCH_COLOR, linewidth=0.0)
            self.regions_.append(area)

    def _contours(
        self, ax: Any, functions: list[Values], levels: list[float], lw: float, ls: str
    ) -> list[Any]:
        """Draw the contours of each function that attains one of the levels; return them."""
        drawn = []
        for values in functions:
            shown = np.ma.masked_invalid(values)
            inside = [level for level in levels if shown.min() < level < shown.max()]
            if inside:
                drawn.append(
                    ax.contour(
                        self.xx0, self.xx1, shown, levels=inside, colors=INK_COLOR, linewidths=lw,
                        linestyles=ls,
                    )
                )  # fmt: skip
        return drawn

    def _scatter(self, ax: Any) -> list[Any]:
        if self.codes is None:
            self.points_ = [
                ax.scatter(*self.points.T, s=16, color="0.35", lw=0, zorder=2.5, label="points")
            ]
        else:
            self.points_ = [
                scatter_class(ax, self.points[self.codes == code], code, name)
                for code, name in enumerate(self.class_names)
            ]
        return list(self.points_)
