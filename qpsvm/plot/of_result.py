"""The picture of a result: in the plane of its points, or else its convergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.errors import InputError
from qpsvm.models import Ball, ClosestPoints, Hyperplane, OneClass
from qpsvm.plot.ball import BallDisplay
from qpsvm.plot.canvas import Display
from qpsvm.plot.closest_points import ClosestPointsDisplay
from qpsvm.plot.convergence import ConvergenceDisplay
from qpsvm.plot.data import evaluates_points
from qpsvm.plot.one_class import OneClassDisplay
from qpsvm.plot.regions import DecisionRegionDisplay
from qpsvm.result import Result


def plot_result(result: Result[Any], X: Any, y: Any, ax: Any, **options: Any) -> Display:
    """Draw a result as its model suggests: see `Result.plot`.

    Parameters
    ----------
    result : Result
    X : array_like of shape (m, 2) or None
    y : array_like of shape (m,) or None
    ax : matplotlib Axes or None
    **options
        Of the display.

    Returns
    -------
    display

    Raises
    ------
    InputError
        If the points or labels are malformed, or the model needs labels and there are none.

    Examples
    --------
    >>> plot_result(result, None, None, None, against="iteration")  # doctest: +SKIP
    """
    model = result.model
    if not _is_planar(X) or not evaluates_points(model):
        return ConvergenceDisplay.from_result(result, ax=ax, **options)
    if isinstance(model, Ball) and model.center is not None:
        return BallDisplay.from_result(result, X, ax=ax, **options)
    if isinstance(model, (Ball, OneClass)):
        return OneClassDisplay.from_result(result, X, ax=ax, **options)
    if not isinstance(model, (ClosestPoints, Hyperplane)):
        return ConvergenceDisplay.from_result(result, ax=ax, **options)
    if y is None:
        raise InputError("y must be given beside X for a model of two classes: labels -1 and +1")
    if isinstance(model, ClosestPoints) and model.p is not None:
        return ClosestPointsDisplay.from_result(result, X, y, ax=ax, **options)
    return DecisionRegionDisplay.from_result(result, X, y, ax=ax, **options)


def _is_planar(X: Any) -> bool:
    """Return whether points were given and have two features."""
    if X is None:
        return False
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    return len(shape) == 2 and shape[1] == 2
