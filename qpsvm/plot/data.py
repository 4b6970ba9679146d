"""Checked data of displays, from points, results and estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_number, check_points
from qpsvm.gram.model_features import MatrixColumns
from qpsvm.result import Result

DEFAULT_RESOLUTION = 250
"""Number of grid lines in each direction; a function is evaluated at their nodes."""

DEFAULT_PADDING = 0.08
"""Width of the margin around the points, in units of their extent."""

Points = NDArray[np.float64]


class PlanePoints(NamedTuple):
    """Points of two features, and the names of these."""

    points: Points  # shape (m, 2)
    names: tuple[str, str]


class PlaneGrid(NamedTuple):
    """A grid over the plane: the coordinates of its nodes, each of shape (n, n)."""

    xx0: Points
    xx1: Points

    @property
    def nodes(self) -> Points:
        """The nodes as points, shape (n * n, 2)."""
        return np.column_stack([self.xx0.ravel(), self.xx1.ravel()])


def plane_points(X: Any, feature_names: Any = None) -> PlanePoints:
    """Return points with two features, and the names that are given or that X has as columns.

    Parameters
    ----------
    X : array_like, sparse matrix or DataFrame, shape (m, 2)
    feature_names : sequence of two str, optional

    Returns
    -------
    PlanePoints

    Raises
    ------
    InputError
        If the points do not have two features, or the names are not two.
    """
    points = check_points("X", X)
    if points.shape[1] != 2:
        raise InputError(
            f"X must have two features to be drawn in the plane; got shape {points.shape} "
            "(choose two columns, or project the points)"
        )
    dense = points.toarray() if hasattr(points, "toarray") else points
    if feature_names is None:
        feature_names = list(getattr(X, "columns", ("feature 0", "feature 1")))
    is_pair = isinstance(feature_names, (Sequence, np.ndarray)) and len(feature_names) == 2
    if isinstance(feature_names, str) or not is_pair:
        raise InputError(f"feature_names must be two names; got {feature_names!r}")
    first, second = (str(name) for name in feature_names)
    return PlanePoints(np.asarray(dense, dtype=np.float64), (first, second))


def grid_around(points: Points, resolution: int, padding: float) -> PlaneGrid:
    """Return a grid over the window around the points.

    Raises
    ------
    InputError
        If the resolution is not an integer of at least 2, or the padding is negative.
    """
    n = check_number("grid_resolution", resolution, low=2, integer=True)
    padding = check_number("padding", padding, low=0.0, finite=True)
    low, high = points.min(axis=0), points.max(axis=0)
    extent = high - low
    extent = np.where(extent > 0, extent, max(float(extent.max()), 1.0))
    low, high = low - padding * extent, high + padding * extent
    return PlaneGrid(*np.meshgrid(np.linspace(low[0], high[0], n), np.linspace(low[1], high[1], n)))


def like(X: Any, points: Points) -> Any:
    """Return points as a pandas DataFrame with the columns of X where it is one, else as they are."""
    return type(X)(points, columns=X.columns) if hasattr(X, "iloc") else points


def checked_result(result: Any) -> Result[Any]:
    """Return the result of a solve, or raise InputError where it is something else."""
    if not isinstance(result, Result):
        raise InputError(f"result must be what solve returns; got {type(result).__name__}")
    return result


def with_history(label: str, result: Any) -> Result[Any]:
    """Return a result that has at least one check in its history, or raise InputError."""
    if not isinstance(result, Result):
        raise InputError(
            f"results must hold what solve returns; got {type(result).__name__} for {label!r}"
        )
    if result.history is None or len(result.history) == 0:
        raise InputError(f"results must have a history; that of {label!r} has no checks")
    return result


def labeled_results(results: Any) -> dict[str, Result[Any]]:
    """Return the results of a mapping by their labels, each with a history.

    Raises
    ------
    InputError
        If it is not a mapping, is empty, or has a value that is not a result with a history.
    """
    if not isinstance(results, Mapping):
        raise InputError(
            "results must be a mapping from labels to results, such as {'mfw': result}; got "
            f"{type(results).__name__}"
        )
    if not results:
        raise InputError("results must hold at least one result; got an empty mapping")
    return {str(label): with_history(str(label), result) for label, result in results.items()}


def support_mask(result: Result[Any], m: int) -> NDArray[np.bool_]:
    """Return which of m points have a weight.

    Raises
    ------
    InputError
        If the result refers to a point beyond them.
    """
    support = result.support
    if len(support) and int(support.max()) >= m:
        raise InputError(
            f"X must hold the points of the problem; got {m} points, and the support of the "
            f"result includes the index {int(support.max())}"
        )
    mask = np.zeros(m, bool)
    mask[support] = True
    return mask


def evaluates_points(model: Any) -> bool:
    """Return whether a model can be evaluated at new points: not where K was precomputed."""
    parts = (getattr(model, name, None) for name in ("expansion", "u"))
    return not any(isinstance(getattr(part, "gram", None), MatrixColumns) for part in parts)


def check_evaluates(model: Any) -> None:
    """Raise InputError where a model cannot be evaluated at new points."""
    if not evaluates_points(model):
        raise InputError(
            "result must be of a kernel on points, such as RBF(X): a precomputed K gives no values "
            "at the nodes of a grid"
        )


def checked_mask(name: str, values: Any, m: int) -> NDArray[np.bool_]:
    """Return a mask of m points, with no point in it for None.

    Raises
    ------
    InputError
        If it is not an array of bool of shape (m,).
    """
    mask = np.zeros(m, bool) if values is None else np.asarray(values)
    if mask.shape != (m,) or mask.dtype != bool:
        raise InputError(
            f"{name} must be an array of bool of shape ({m},); got {mask.dtype} of shape {mask.shape}"
        )
    return mask


def class_labels(classes: Any, class_names: Any = None) -> tuple[str, ...]:
    """Return the names of classes for a legend: those given, or the classes as text.

    Raises
    ------
    InputError
        If the number of names is not that of the classes.
    """
    if class_names is not None:
        is_list = not isinstance(class_names, str) and hasattr(class_names, "__len__")
        if not is_list or len(class_names) != len(classes):
            raise InputError(
                f"class_names must be {len(classes)} names, one for each class; got {class_names!r}"
            )
        return tuple(str(name) for name in class_names)
    if tuple(classes) == (-1, 1):
        return "class -1", "class +1"
    return tuple(c if isinstance(c, str) else f"class {c}" for c in classes)


def coded(name: str, y: Any, classes: Any, m: int) -> NDArray[np.int64]:
    """Return the position of each label among the sorted classes, shape (m,).

    Raises
    ------
    InputError
        If there are not m labels, or one of them is not among the classes.
    """
    labels = np.asarray(y)
    if labels.shape != (m,):
        raise InputError(f"{name} must have shape ({m},), one label a point; got {labels.shape}")
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        raise InputError(
            f"{name} must hold the classes {np.asarray(classes).tolist()}; got "
            f"{np.unique(labels[unknown])[:5].tolist()}"
        )
    return np.searchsorted(classes, labels).astype(np.int64)
