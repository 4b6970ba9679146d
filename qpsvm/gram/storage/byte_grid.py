"""Points on a grid: coordinates are 0 to 255 steps, as integers, so that squared distances are exact.

Four coordinates make a word of 32 bits. A processor with byte products computes four of them by one
instruction, where float32 has one, and the squared distance, an integer, is rounded at most once. The
instruction multiplies unsigned bytes by signed ones: 128 is subtracted on one side, and its squared norms
correct that, |x|^2 - 256 sum(x) + |z|^2 - 2 x'(z - 128) = |x - z|^2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.storage.base import Sides, StoredPoints
from qpsvm.numerics.parallel import parallel_for

MAX_GRID_COORDINATE = 255
"""Greatest coordinate."""

MIN_GRID_FEATURES, MAX_GRID_FEATURES = 8, 1 << 15
"""Range of the number of features: fewer gain nothing, more overflow 32 bits in squared distances."""

MIN_GRID_POINTS = 2000
"""Minimum number of points: fewer are not swept by tiles."""

GRID_SAMPLE_POINTS = 64
"""Number of points that determine the candidate grid."""

MAX_RELATIVE_OFFSET = 2.0**-21
"""Greatest distance of a coordinate from the grid, relative to the range: that of six digits."""

CHUNK_COORDINATES = 1 << 16
"""Number of coordinates converted at a time, in cache."""


@dataclass(frozen=True, eq=False)
class ByteGrid(StoredPoints):
    """Points with integer coordinates from 0 to 255, four in a word.

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
    features_at_once: ClassVar[int] = 4
    has_products: ClassVar[bool] = False

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

    def distances_to_center(self) -> NDArray[np.float64]:
        """Return the squared distances from a central point, whose coordinates are equal, shape (m,)."""
        c = float(np.mean(self.sums)) / self.d
        return self.squared_norms() - 2.0 * c * self.sums + self.d * c * c

    def sides(self, few: ByteGrid, a: NDArray[Any], b: NDArray[Any], factor: float) -> Sides:
        """Return signed bytes, bytes, and terms in integers: products are halves of squared distances."""
        return Sides(few.signed(), few.squares, self.words, self.terms(), -0.5 * factor)

    def signed(self) -> NDArray[np.int32]:
        """Return the words of the coordinates minus 128, as signed bytes."""
        return self.words ^ np.int32(-0x7F7F7F80)

    def terms(self) -> NDArray[np.int32]:
        """Return |x|^2 - 256 sum(x), shape (m,): the terms for products with signed bytes."""
        return self.squares - 256 * self.sums


def fits_byte_grid(m: int, d: int) -> bool:
    """Return whether the numbers of points and features suit a byte grid."""
    return m >= MIN_GRID_POINTS and MIN_GRID_FEATURES <= d <= MAX_GRID_FEATURES


class GridFit(NamedTuple):
    """A grid that points lie on or near."""

    points: ByteGrid
    step: float
    max_offset: float  # maximum distance of a coordinate from the grid


def near_grid(X: NDArray[np.floating]) -> GridFit | None:
    """Return the grid on which all coordinates lie up to a rounding to six digits, or None.

    It extends from the least coordinate to the greatest; its step is the least gap in a sample.
    """
    sample = np.unique(X[:GRID_SAMPLE_POINTS]).astype(np.float64)
    if not 2 <= len(sample) <= MAX_GRID_COORDINATE + 1:
        return None
    low, high = float(np.min(X)), float(np.max(X))
    with np.errstate(over="ignore", invalid="ignore"):
        allowed, gaps = MAX_RELATIVE_OFFSET * (high - low), np.diff(sample)
        number = np.rint((high - low) / np.min(gaps, where=gaps > allowed, initial=np.inf))
    if not 1 <= number <= MAX_GRID_COORDINATE:
        return None
    step = (high - low) / float(number)
    octets, offsets = zero_octets(*X.shape), [0.0]

    def convert(at: slice) -> None:
        if offsets[-1] <= allowed:
            offset = X[at] - low
            nearest = np.rint(offset / step)
            octets[at, : X.shape[1]] = nearest
            nearest *= step
            offset -= nearest
            offsets.append(max(float(np.max(offset)), -float(np.min(offset)), offsets[-1]))

    convert(slice(0, GRID_SAMPLE_POINTS))
    if offsets[-1] <= allowed:
        parallel_for(convert, chunks_of(octets), with_blas=False)
    max_offset = max(offsets) + 4.0 * float(np.finfo(np.float64).eps) * max(-low, high)
    if not max_offset <= allowed:
        return None
    return GridFit(grid_points(octets, X.shape[1]), step, max_offset)


def grid_points(octets: NDArray[np.uint8], d: int) -> ByteGrid:
    """Return the points with these coordinates, padded by zeros as `zero_octets` does."""
    squares, sums = (np.empty(len(octets), np.int32) for _ in range(2))
    ones = np.ones(octets.shape[1])

    def sum_up(at: slice) -> None:
        coordinates = octets[at].astype(np.float64)
        sums[at] = coordinates @ ones
        squares[at] = np.multiply(coordinates, coordinates, out=coordinates) @ ones

    parallel_for(sum_up, chunks_of(octets), with_blas=False)
    return ByteGrid(octets.view(np.int32), squares, sums, d)


def zero_octets(m: int, d: int) -> NDArray[np.uint8]:
    """Return zeros for m points of d coordinates, padded to full words of 32 bits."""
    return np.zeros((m, -(-d // 4) * 4), np.uint8)


def chunks_of(octets: NDArray[np.uint8]) -> list[slice]:
    """Return the chunks of points that are converted at a time."""
    step = max(1, CHUNK_COORDINATES // octets.shape[1])
    return [slice(first, first + step) for first in range(0, len(octets), step)]
