"""Points on a grid: coordinates are whole numbers from 0 to 255 of steps, so that distances are exact.

Four coordinates make a word of 32 bits. A processor that multiplies bytes takes four products with one
instruction where float32 takes one, and the squared distance, a whole number, is rounded at most once.
Bytes are multiplied by bytes with a sign: those of one side are 128 less, which its squared norms make
up for, |x|^2 - 256 sum(x) + |z|^2 - 2 x'(z - 128) = |x - z|^2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.parallel import parallel_for

MAX_GRID_COORDINATE = 255
"""Greatest coordinate."""

MIN_GRID_FEATURES, MAX_GRID_FEATURES = 8, 1 << 15
"""Features of points that are worth it, and those whose squared distances 32 bits represent."""

MIN_GRID_POINTS = 2000
"""Points from which compiled code is at hand for them."""

GRID_SAMPLE_POINTS = 64
"""Points that say what the grid may be."""

MAX_RELATIVE_OFFSET = 2.0**-21
"""Greatest distance of a coordinate from the grid, relative to the range: that of six digits."""

CHUNK_COORDINATES = 1 << 16
"""Coordinates converted at a time, in cache."""


@dataclass(frozen=True, eq=False)
class ByteGrid:
    """Points with whole coordinates from 0 to 255, four to a word.

    They answer as an array does: `shape`, `dtype`, rows by index or slice.

    Attributes
    ----------
    words : ndarray of int32, shape (m, d / 4 rounded up)
    squares : ndarray of int32, shape (m,)
        Squared norms.
    sums : ndarray of int32, shape (m,)
        Sums of coordinates.
    d : int
        Number of features.
    dtype : dtype
        The precision of kernel values.
    """

    words: NDArray[np.int32]
    squares: NDArray[np.int32]
    sums: NDArray[np.int32]
    d: int
    dtype: Any = np.float32

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the points."""
        return len(self.words), self.d

    def __getitem__(self, rows: Any) -> ByteGrid:
        """Return the points `rows`, an index array or slice."""
        words, squares, sums = self.words[rows], self.squares[rows], self.sums[rows]
        return replace(self, words=words, squares=squares, sums=sums)

    def astype(self, dtype: Any, copy: bool = False) -> ByteGrid:
        """Return the points with kernel values in another precision."""
        return replace(self, dtype=np.dtype(dtype))

    def squared_norms(self) -> NDArray[np.float64]:
        """Return the squared norms of the points, shape (m,)."""
        return self.squares.astype(np.float64)

    def spread(self) -> NDArray[np.float64]:
        """Return the squared distances from a point in their midst, shape (m,)."""
        c = float(np.mean(self.sums)) / self.d
        return self.squared_norms() - 2.0 * c * self.sums + self.d * c * c

    def signed(self) -> NDArray[np.int32]:
        """Return the words of the coordinates less 128, which are bytes with a sign."""
        return self.words ^ np.int32(-0x7F7F7F80)

    def terms(self) -> NDArray[np.int32]:
        """Return |x|^2 - 256 sum(x), shape (m,): what products with the others' signed bytes need."""
        return self.squares - 256 * self.sums


def suits(m: int, d: int) -> bool:
    """Return whether so many points are worth it."""
    return m >= MIN_GRID_POINTS and MIN_GRID_FEATURES <= d <= MAX_GRID_FEATURES


class Found(NamedTuple):
    """A grid that points are on, or near."""

    points: ByteGrid
    step: float
    away: float  # greatest distance of a coordinate from the grid


def near_grid(X: NDArray[np.floating]) -> Found | None:
    """Return the grid that all coordinates are on, but for their rounding to six digits, if any.

    It lies between the least and the greatest one; its step is the least gap among the first points.
    """
    some = np.unique(X[:GRID_SAMPLE_POINTS]).astype(np.float64)
    if not 2 <= len(some) <= MAX_GRID_COORDINATE + 1:
        return None
    low, high = float(np.min(X)), float(np.max(X))
    with np.errstate(over="ignore", invalid="ignore"):
        most, gaps = MAX_RELATIVE_OFFSET * (high - low), np.diff(some)
        number = np.rint((high - low) / np.min(gaps, where=gaps > most, initial=np.inf))
    if not 1 <= number <= MAX_GRID_COORDINATE:
        return None
    step = (high - low) / float(number)
    octets, farthest = room(*X.shape), [0.0]

    def piece(at: slice) -> None:
        if farthest[-1] <= most:
            away = X[at] - low
            nearest = np.rint(away / step)
            octets[at, : X.shape[1]] = nearest
            nearest *= step
            away -= nearest
            farthest.append(max(float(np.max(away)), -float(np.min(away)), farthest[-1]))

    piece(slice(0, GRID_SAMPLE_POINTS))
    if farthest[-1] <= most:
        parallel_for(piece, pieces(octets))
    away = max(farthest) + 4.0 * float(np.finfo(np.float64).eps) * max(-low, high)
    return Found(gridded(octets, X.shape[1]), step, away) if away <= most else None


def gridded(octets: NDArray[np.uint8], d: int) -> ByteGrid:
    """Return points by their coordinates, zeros beyond the d-th, which `room` made room for."""
    squares, sums = (np.empty(len(octets), np.int32) for _ in range(2))
    ones = np.ones(octets.shape[1])

    def piece(at: slice) -> None:
        some = octets[at].astype(np.float64)
        sums[at] = some @ ones
        squares[at] = np.multiply(some, some, out=some) @ ones

    parallel_for(piece, pieces(octets))
    return ByteGrid(octets.view(np.int32), squares, sums, d)


def room(m: int, d: int) -> NDArray[np.uint8]:
    """Return zeros, whole words a row."""
    return np.zeros((m, -(-d // 4) * 4), np.uint8)


def pieces(octets: NDArray[np.uint8]) -> list[slice]:
    """Return parts of points that are converted at a time."""
    step = max(1, CHUNK_COORDINATES // octets.shape[1])
    return [slice(first, first + step) for first in range(0, len(octets), step)]
