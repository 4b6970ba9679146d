"""The closest points of two hulls in the plane, and the line midway between them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_labels, check_vector
from qpsvm.models import ClosestPoints
from qpsvm.plot.canvas import (
    Display,
    label_features,
    legend_below,
    require_matplotlib,
    scatter_class,
    scatter_support,
)
from qpsvm.plot.data import (
    checked_mask,
    checked_result,
    class_labels,
    coded,
    plane_points,
    support_mask,
)
from qpsvm.plot.fitted import check_two_features, fitted_parts, support_among
from qpsvm.plot.styles import INK_COLOR, class_style
from qpsvm.result import Result


class ClosestPointsDisplay(Display):
    """Two hulls in the plane, their closest points, and the line midway between them.

    Parameters
    ----------
    p, q : array_like of shape (2,)
        The closest points: p of the second class, q of the first.
    points : array_like of shape (m, 2)
    codes : array_like of int, shape (m,)
        The class of each point, 0 or 1.
    support : array_like of bool, shape (m,), optional
        Which points have a weight.
    class_names : sequence of two str, optional
    feature_names : sequence of two str, optional
        Labels of the axes.

    Attributes
    ----------
    hulls_ : list of matplotlib Polygon
    points_ : list of matplotlib PathCollection
        The points of each class.
    support_ : matplotlib PathCollection or None
    segment_ : matplotlib Line2D
        From p to q.
    boundary_ : matplotlib AxLine or None
        The line midway, where p and q differ.
    ax_, figure_, legend_
        Axes, figure and legend of the last `plot`.

    Raises
    ------
    InputError
        If an argument is malformed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from qpsvm import Linear, PolytopeDistanceDual, solve
    >>> from qpsvm.plot import ClosestPointsDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[y < 2][:, 2:], 2.0 * y[y < 2] - 1.0
    >>> result = solve(PolytopeDistanceDual(Linear(X), y))
    >>> display = ClosestPointsDisplay.from_result(result, X, y)  # doctest: +SKIP
    """

    def __init__(
        self, p: Any, q: Any, points: Any, codes: Any, *, support: Any = None,
        class_names: Any = None, feature_names: Any = None,
    ) -> None:  # fmt: skip
        self.points, self.feature_names = plane_points(points, feature_names)
        self.p, self.q = check_vector("p", p, 2), check_vector("q", q, 2)
        m = len(self.points)
        self.codes = np.asarray(codes)
        if self.codes.shape != (m,) or not np.isin(self.codes, (0, 1)).all():
            raise InputError(f"codes must be 0 or 1 for each of {m} points; got {codes!r}")
        self.support = checked_mask("support", support, m)
        self.class_names = class_labels((0, 1), class_names)

    @classmethod
    def from_result(
        cls, result: Result[ClosestPoints], X: Any, y: Any, *, class_names: Any = None,
        feature_names: Any = None, ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Draw the closest points of a result.

        Parameters
        ----------
        result : Result
            Of ``PolytopeDistanceDual(Linear(X), y)``.
        X : array_like of shape (m, 2)
            The points of the problem.
        y : array_like of shape (m,)
            Their labels -1 and +1.
        class_names : sequence of two str, optional
            Names of the classes -1 and +1.
        feature_names : sequence of two str, optional
            Labels of the axes; by default the columns of a DataFrame.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        ClosestPointsDisplay

        Raises
        ------
        InputError
            If the points do not lie in the plane, or the result has no closest points there.
        """
        require_matplotlib(cls.__name__)
        points, names = plane_points(X, feature_names)
        labels = check_labels("y", y, len(points))
        model = checked_result(result).model
        if not isinstance(model, ClosestPoints) or model.p is None or len(model.p) != 2:
            raise InputError(
                "result must be of two hulls in the plane, such as PolytopeDistanceDual(Linear(X), y) "
                "with X of shape (m, 2); of another kernel DecisionRegionDisplay draws the boundary"
            )
        display = cls(
            model.p, model.q, points, (labels > 0).astype(np.int64), feature_names=names,
            support=support_mask(result, len(points)), class_names=class_labels((-1, 1), class_names),
        )  # fmt: skip
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, class_names: Any = None,
        feature_names: Any = None, ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Draw the closest points of a fitted `MaxMarginClassifier` with a linear kernel.

        Parameters
        ----------
        estimator : MaxMarginClassifier
            Fitted to two classes, without `nu`.
        X : array_like of shape (m, 2)
            Its training points: their hulls are drawn.
        y : array_like of shape (m,)
            Their classes.
        class_names : sequence of two str, optional
            Names of the classes, in the order of ``classes_``.
        feature_names : sequence of two str, optional
            Labels of the axes; by default the columns of a DataFrame.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        ClosestPointsDisplay

        Raises
        ------
        NotFittedError
            If the estimator is not fitted; scikit-learn's error.
        InputError
            If the points do not lie in the plane, or the estimator has no closest points there.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from qpsvm import MaxMarginClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> X, y = X[y < 2][:, 2:], y[y < 2]
        >>> machine = MaxMarginClassifier(C=float("inf"), kernel="linear").fit(X, y)
        >>> display = ClosestPointsDisplay.from_estimator(machine, X, y)  # doctest: +SKIP
        """
        require_matplotlib(cls.__name__)
        fitted = fitted_parts(estimator)
        points, names = plane_points(X, feature_names)
        check_two_features(estimator)
        machine = fitted.machine
        if (
            fitted.before is not None
            or not hasattr(machine, "margin_")
            or machine.kernel != "linear"
            or machine.nu is not None
            or len(machine.classes_) != 2
        ):
            raise InputError(
                "estimator must be a MaxMarginClassifier of two classes with a linear kernel and "
                f"without nu; got {fitted.whole!r}"
            )
        coef = np.ravel(machine.dual_coef_.toarray() if hasattr(machine.dual_coef_, "toarray")
                        else machine.dual_coef_)  # fmt: skip
        vectors = machine.support_vectors_
        p, q = (
            part @ vectors / np.sum(part) for part in (np.maximum(coef, 0), np.minimum(coef, 0))
        )
        display = cls(
            np.ravel(p), np.ravel(q), points, coded("y", y, machine.classes_, len(points)),
            support=support_among(fitted, X), feature_names=names,
            class_names=class_labels(machine.classes_, class_names),
        )  # fmt: skip
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, show_support: bool = True, legend: bool = True) -> Self:
        """Draw hulls, points, closest points and the line midway.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        show_support : bool
            Whether to mark the points with a weight.
        legend : bool
            Whether to draw a legend, below the axes.

        Returns
        -------
        ClosestPointsDisplay
        """
        ax = self._begin(ax)
        self.hulls_, self.points_ = [], []
        for code, name in enumerate(self.class_names):
            own, style = self.points[self.codes == code], class_style(code)
            self.hulls_ += ax.fill(
                *_corners(own).T, fc=style["color"] + "1c", ec=style["color"], lw=1.2,
                ls=("-", "--")[code], label="_hull",
            )  # fmt: skip
            self.points_.append(scatter_class(ax, own, code, name))
        handles = list(self.points_)
        self.support_ = None
        if show_support and self.support.any():
            self.support_ = scatter_support(ax, self.points[self.support])
            handles.append(self.support_)
        (self.segment_,) = ax.plot(
            *np.array([self.p, self.q]).T, "D-", color=INK_COLOR, ms=5, lw=1.8, zorder=3.5,
            label="closest points",
        )  # fmt: skip
        handles.append(self.segment_)
        self.boundary_ = None
        if np.any(self.p != self.q):
            middle, (u, v) = 0.5 * (self.p + self.q), self.p - self.q
            self.boundary_ = ax.axline(
                tuple(middle), tuple(middle + [-v, u]), color=INK_COLOR, lw=1.3, ls=(0, (6, 3)),
                label="separating line",
            )  # fmt: skip
            handles.append(self.boundary_)
        label_features(ax, self.feature_names)
        ax.set_aspect("equal", adjustable="datalim")
        if legend:
            self.legend_ = legend_below(ax, handles)
        return self


def _corners(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of the convex hull in order; the points themselves where it is flat."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(X[ConvexHull(X).vertices])
    except (QhullError, ValueError):  # fewer than three points, or all on a line
        return np.asarray(X[np.lexsort(X.T)])
