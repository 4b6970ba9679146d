"""Functions at the nodes of a grid whose zeros are boundaries and whose values -1 and +1 are margins."""

from __future__ import annotations

from copy import copy
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.models import ClosestPoints, Hyperplane

Values = NDArray[np.float64]


def margin_of(model: Any) -> float:
    """Return the size of a model's decision function on its margins; 0 where it has none."""
    if isinstance(model, Hyperplane):
        return 1.0 if model.separable else 0.0
    if isinstance(model, ClosestPoints) and model.hulls_intersect is False:
        return 0.5 * model.distance**2  # at the closest points, as w = p - q
    return 0.0


def boundaries_and_margins(
    machine: Any, nodes: Any, regions: NDArray[np.int64]
) -> tuple[list[Values], list[Values]]:
    """Return the functions whose zeros are boundaries, and those that are -1 and +1 on margins.

    Parameters
    ----------
    machine : classifier
    nodes : array_like of shape (n * n, 2)
        Nodes as the machine receives them.
    regions : ndarray of int, shape (n, n)
        The class at each node.

    Returns
    -------
    boundaries, margins : list of ndarray, shape (n, n)
        NaN where a function does not apply. A boundary of two classes applies in their regions, and its
        sign is that of the region, also where votes are tied. The margins of a pair apply where its
        classes come first and second, that of one class against the rest, +1, where it is first.
    """
    shape, k = regions.shape, len(machine.classes_)
    if k == 2:
        values = np.asarray(machine.decision_function(nodes), dtype=np.float64).reshape(shape)
        return [values], [values]
    of_pairs = pair_values(machine, nodes)
    scores = np.asarray(score_values(machine, nodes), dtype=np.float64)
    first = regions.ravel()
    others = scores.copy()
    others[np.arange(len(first)), first] = -np.inf
    second = np.argmax(others, axis=1)
    boundaries, margins = [], []
    for number, (i, j) in enumerate(combinations(range(k), 2)):
        values = scores[:, i] - scores[:, j] if of_pairs is None else of_pairs[:, number]
        signed = np.where(first == i, np.abs(values), -np.abs(values))
        boundaries.append(np.where((first == i) | (first == j), signed, np.nan))
        if of_pairs is not None:
            leads = ((first == i) & (second == j)) | ((first == j) & (second == i))
            margins.append(np.where(leads, values, np.nan))
    if of_pairs is None:
        margins = [np.where(first == i, np.maximum(scores[:, i], 0.0), np.nan) for i in range(k)]
    return _reshaped(boundaries, shape), _reshaped(margins, shape)


def pair_values(machine: Any, nodes: Any) -> Values | None:
    """Return the values of the machines of all pairs, shape (n, k (k - 1) / 2), if there are."""
    if not hasattr(machine, "decision_function_shape"):
        return None
    if getattr(machine, "multi_class", "ovo") == "ovr":
        return None
    by_pairs = copy(machine).set_params(decision_function_shape="ovo")
    return np.asarray(by_pairs.decision_function(nodes), dtype=np.float64)


def score_values(machine: Any, nodes: Any) -> Any:
    """Return a score of each class, shape (n, k), by which the classes are ranked."""
    if getattr(machine, "decision_function_shape", "ovr") == "ovr":
        return machine.decision_function(nodes)
    by_class = copy(machine).set_params(decision_function_shape="ovr")
    return by_class.decision_function(nodes)


def _reshaped(functions: list[Values], shape: tuple[int, ...]) -> list[Values]:
    """Return the functions on the grid, without those that apply nowhere."""
    return [values.reshape(shape) for values in functions if np.isfinite(values).any()]
