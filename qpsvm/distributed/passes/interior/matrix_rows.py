"""Rows of a reduced normal matrix at a shard: their weights, and counts of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class MatrixRows(NamedTuple):
    """Which rows a normal matrix sums."""

    thresholds: Vector  # least d_i of both classes, (2,), or of all rows, (1,)
    stratum: float  # total weight that a sampled row represents; infinite without a sample
    seed: int  # of the sample

    def weights(self, y: Vector, d: Vector, first: int) -> Vector:
        """Return the weights of rows in the matrix, 0 for omitted ones; `first` tells their place."""
        least = self.thresholds[0]
        if len(self.thresholds) == 2:
            least = np.where(y > 0, *self.thresholds)
        is_chosen = d >= least
        if not np.isfinite(self.stratum):
            return np.where(is_chosen, d, 0.0)
        ends = np.cumsum(np.where(is_chosen, 0.0, d)) / self.stratum
        marks = np.floor(ends + np.random.default_rng([self.seed, first]).random())
        return np.where(is_chosen, d, self.stratum * np.diff(marks, prepend=0.0))


class WeightRange(NamedTuple):
    """What a shard says of its states."""

    least: float  # of the weights d_i
    largest: float
    complementarity: float
    squares: float  # sum |z_i|^2


def counts_above(d: Vector, groups: list[Any], grid: Vector) -> Vector:
    """Return the number of weights at or above each threshold of a group, and their sums.

    Shape (2, number of groups, number of thresholds); `groups` are masks.
    """
    out = np.empty((2, *grid.shape))
    for k, (group, thresholds) in enumerate(zip(groups, grid, strict=True)):
        own, size = d[group], len(thresholds) + 1
        at = np.searchsorted(thresholds, own, side="right")
        for j, weights in enumerate((None, own)):
            sums = np.bincount(at, weights, size)
            out[j, k] = np.cumsum(sums[::-1])[::-1][1:]
    return out
