"""From the values of binary machines to classes.

The machine of the classes i < j is positive on the side of i. Machines are in the order (0, 1), (0, 2),
..., (1, 2), ..., as in LIBSVM.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def pairs_of(k: int) -> list[tuple[int, int]]:
    """Return the pairs of k classes in the order of their machines."""
    return [(i, j) for i in range(k) for j in range(i + 1, k)]


def count_votes(values: Values, k: int) -> NDArray[np.int64]:
    """Return the number of machines that decide for each class, shape (n, k); 0 is for the second."""
    votes, positive = np.zeros((k, len(values)), np.int64), values.T > 0
    for number, (i, j) in enumerate(pairs_of(k)):
        votes[i] += positive[number]
        votes[j] += ~positive[number]
    return votes.T


def by_votes(values: Values, k: int) -> NDArray[np.int64]:
    """Return the class of most votes for each point, the first one of several (LIBSVM's rule)."""
    return np.argmax(count_votes(values, k), axis=1)


def by_graph(values: Values, k: int) -> NDArray[np.int64]:
    """Return classes by a directed acyclic graph: k - 1 machines each rule out one class.

    Platt, Cristianini and Shawe-Taylor, "Large margin DAGs for multiclass classification" (2000): the
    machine of the first and the last class that are left rules out one of them.
    """
    low, high = np.zeros(len(values), np.int64), np.full(len(values), k - 1)
    every = np.arange(len(values))
    for _ in range(k - 1):
        number = low * k - low * (low + 1) // 2 + high - low - 1
        first = values[every, number] > 0
        high, low = np.where(first, high - 1, high), np.where(first, low, low + 1)
    return low


def scores(values: Values, k: int) -> Values:
    """Return a score for each class, shape (n, k): votes, and between equal votes the sums of values.

    The sum s of a class is moved into (-1/3, 1/3) as s / (3 (|s| + 1)), so that it decides between equal
    votes only. It is scikit-learn's ``decision_function_shape="ovr"``.
    """
    votes, sums = np.zeros((k, len(values))), np.zeros((k, len(values)))
    for number, (i, j) in enumerate(pairs_of(k)):
        value = values[:, number]
        second = value < 0
        votes[i] += ~second
        votes[j] += second
        sums[i] += value
        sums[j] -= value
    return np.ascontiguousarray((votes + sums / (3.0 * (np.abs(sums) + 1.0))).T)
