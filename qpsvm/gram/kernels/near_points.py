"""Sums over the points that may be near to a point, as far as norms tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

LENGTH_SLACK = 2.0**-20
"""Bound on the relative rounding error of a norm."""

BINS_OF_REACH = 16
"""Maximum number of bins of norms within the distance of near points."""

MAX_LENGTH_BINS = 1 << 16
"""Maximum number of bins of norms."""


class NearPoints:
    """Points in bins of their norms: those whose norms differ by more than a reach are not near.

    Parameters
    ----------
    lengths : ndarray, shape (m,)
        Norms of the points.
    reach : float
        Maximum distance of near points.
    """

    def __init__(self, lengths: Vector, reach: float) -> None:
        self._lengths, self._reach = lengths, reach
        widest = float(np.max(lengths, initial=0.0)) / MAX_LENGTH_BINS
        self._width = max(reach / BINS_OF_REACH, widest)
        self._bins: Indices = (lengths / self._width).astype(np.int64)
        self._n_bins = int(np.max(self._bins, initial=0)) + 1

    def square_sums(self, weights: Vector, support: Indices, rows: Indices | None) -> Vector:
        """Return upper bounds of sum w_j (|z_i|^2 + |z_j|^2) over the points j that may be near to i.

        Parameters
        ----------
        weights : ndarray, shape (k,)
            Nonnegative weights w of the points `support`; others have none.
        support : ndarray, shape (k,)
        rows : ndarray, shape (n,), or None
            The points i, by default all.
        """
        some = slice(None) if rows is None else rows
        of, at = self._lengths[some], self._bins[some]
        lengths, slack = self._lengths[support], LENGTH_SLACK
        low = (lengths * (1.0 - slack) - self._reach) / (1.0 + slack) / self._width
        high = (lengths * (1.0 + slack) + self._reach) / (1.0 - slack) / self._width
        # One more bin at either end is for the rounding of bins.
        first = np.clip(low - 1.0, 0, self._n_bins).astype(np.int64)
        last = np.clip(high + 2.0, 0, self._n_bins).astype(np.int64)
        squares = weights * lengths**2
        own, others = (self._sums(first, last, values) for values in (weights, squares))
        return (1.0 + slack) ** 3 * (own[at] * of**2 + others[at])

    def _sums(self, first: Indices, last: Indices, values: Vector) -> Vector:
        """Return upper bounds of the sums of values whose range of bins has the bin, (n_bins,)."""
        size = self._n_bins + 1
        changes = np.bincount(first, values, size) - np.bincount(last, values, size)
        rounding = 4.0 * len(values) * float(np.finfo(np.float64).eps) * float(np.sum(values))
        return np.cumsum(changes)[:-1] + rounding
