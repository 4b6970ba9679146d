"""Points whose coordinates are whole multiples of one unit: their inner products are exact.

Counts, levels of grey divided by 255 and one-hot tables are such points. Up to a squared norm of
2^24 units float32 adds their products without rounding, in half the time of float64. Where the
multiples are only 0 and 1, a product is the number of bits that two packed rows have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.storage.byte_grid import MAX_GRID_COORDINATE, ByteGrid, gridded, pieces, room, suits
from qpsvm.numerics.parallel import parallel_for

MAX_EXACT_SQUARED_NORM = 2.0**24
"""Greatest squared norm of integer points whose sums of products float32 represents exactly."""

UNIT_SAMPLE_POINTS, FIRST_TRIED_POINTS = 1024, 64
"""Points that say what the unit may be, and how many of them are tried before the others."""

CHUNK_COORDINATES = 1 << 16
"""Coordinates looked at at a time, in cache."""

MIN_POINTS_FOR_PACKING = 1024
"""Points from which they are packed: the products of fewer need no compiled code."""

MAX_SPARSE_FRACTION = 1 / 256
"""Share of stored entries below which products of CSR rows cost less than counts of packed ones."""

WORDS_PER_COUNT = 4
"""Rows are padded to a multiple of this many words of 32 bits, counted together."""


@dataclass(frozen=True, eq=False)
class PackedBits:
    """Points with coordinates 0 and 1, or 0 and one other value, packed a bit each.

    They answer as an array does: `shape`, `dtype`, rows by index or slice.

    Attributes
    ----------
    words : ndarray of uint32, shape (m, a multiple of 4)
    ones : ndarray, shape (m,)
        How many coordinates are not 0.
    d : int
        Number of features.
    weight : float
        What a coordinate in common adds to an inner product: the square of the other value.
    dtype : dtype
        The precision of products.
    """

    words: NDArray[np.uint32]
    ones: NDArray[np.float64]
    d: int
    weight: float = 1.0
    dtype: Any = np.float32

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the points."""
        return len(self.words), self.d

    def __getitem__(self, rows: Any) -> PackedBits:
        """Return the points `rows`, an index array or slice."""
        return replace(self, words=self.words[rows], ones=self.ones[rows])

    def astype(self, dtype: Any, copy: bool = False) -> PackedBits:
        """Return the points with products in another precision."""
        return replace(self, dtype=np.dtype(dtype))

    def squared_norms(self) -> NDArray[np.float64]:
        """Return the squared norms of the points, shape (m,)."""
        return self.weight * self.ones


class Unit(NamedTuple):
    """What all coordinates are multiples of."""

    size: float
    rounded: bool  # whether a multiple differs from a coordinate by its rounding
    points: Any  # the multiples: packed where all are 0 or 1, otherwise in float32 as X is stored
    norms: NDArray[np.float64]  # their squared norms

    def multiples(self, X: Any) -> Any:
        """Return the multiples of other points, stored alike, or None where there are others."""
        if isinstance(self.points, PackedBits):
            return pack(X, self.size)
        if isinstance(self.points, ByteGrid):
            found = _in_bytes(X.toarray() if sp.issparse(X) else X, self.size)
            return None if found is None else found[0]
        values = X.data if sp.issparse(X) else X
        whole = np.empty(values.shape, np.float32)
        if _convert(values, self.size, whole) is None:
            return None
        points = _like(X, whole)
        return points if np.max(norms_of(points), initial=0.0) <= MAX_EXACT_SQUARED_NORM else None

    def take(self, rows: Any) -> Unit:
        """Return the unit of the points `rows`."""
        return self._replace(points=self.points[rows], norms=self.norms[rows])


def unit_of(X: Any) -> Unit | None:
    """Return the unit of dense or CSR points, or None where there is none of use.

    It is the least size of a coordinate among the first points, or 1.
    """
    for size in dict.fromkeys((_least(X), 1.0)):
        bits = pack(X, size) if packs(X) else None
        if bits is not None:
            return Unit(size, False, bits, bits.ones)
        found = _unit_of_grid(X, size) or _unit(X, size)
        if found is not None:
            return found
    return None


def _unit_of_grid(X: Any, size: float) -> Unit | None:
    """Return the unit if it is of this size, and multiples fit into bytes."""
    if sp.issparse(X) or not suits(*X.shape):
        return None
    tried = X[:FIRST_TRIED_POINTS]
    if _convert(tried, size, np.empty(tried.shape, np.uint8)) is None:
        return None
    found = _in_bytes(X, size)
    return None if found is None else Unit(size, found[1], found[0], found[0].squared_norms())


def _in_bytes(X: NDArray[np.floating], size: float) -> tuple[ByteGrid, bool] | None:
    """Return the multiples of points and whether one is rounded, or None where a byte is too small."""
    whole, d = room(*X.shape), X.shape[1]
    found: list[bool | None] = [False]

    def piece(at: slice) -> None:
        if None not in found:
            found.append(_convert(X[at], size, whole[at, :d]))

    parallel_for(piece, pieces(whole))
    return None if None in found else (gridded(whole, d), any(found))


def _unit(X: Any, size: float) -> Unit | None:
    """Return the unit if it is of this size; many points are shared out among threads."""
    values = X.data if sp.issparse(X) else X
    tried = values[:FIRST_TRIED_POINTS]
    if _convert(tried, size, np.empty(tried.shape, np.float32)) is None:
        return None
    whole = np.empty(values.shape, np.float32)
    step = max(1, CHUNK_COORDINATES * len(values) // max(1, values.size))
    pieces = [slice(first, first + step) for first in range(0, len(values), step)]
    found: list[bool | None] = []

    def piece(at: slice) -> None:
        if None not in found:
            found.append(_convert(values[at], size, whole[at]))

    parallel_for(piece, pieces)
    if None in found:
        return None
    points = _like(X, whole)
    norms = norms_of(points)
    return (
        Unit(size, any(found), points, norms) if np.max(norms) <= MAX_EXACT_SQUARED_NORM else None
    )


def packs(X: Any) -> bool:
    """Return whether points are many and dense enough to be packed, should they be binary."""
    m, d = X.shape
    return (
        m >= MIN_POINTS_FOR_PACKING
        and d <= MAX_EXACT_SQUARED_NORM
        and (not sp.issparse(X) or X.nnz >= MAX_SPARSE_FRACTION * m * d)
    )


def pack(X: Any, value: float | None = None) -> PackedBits | None:
    """Return points with coordinates 0 and `value` packed, or None if there are others.

    Without a `value` it is the least size of a coordinate among the first points, and products are
    those of the points; with one they are those of their multiples.
    """
    m, d = X.shape
    one = _least(X) if value is None else value
    if not _binary(X[:FIRST_TRIED_POINTS], one):
        return None
    n_words = -(-d // (32 * WORDS_PER_COUNT)) * WORDS_PER_COUNT
    octets, ones = np.zeros((m, 4 * n_words), np.uint8), np.empty(m)
    step = max(1, CHUNK_COORDINATES // d)
    for first in range(0, m, step):
        piece = X[first : first + step]
        if not _binary(piece, one):
            return None
        present = (piece.toarray() if sp.issparse(piece) else piece) != 0
        octets[first : first + step, : -(-d // 8)] = np.packbits(present, axis=1)
        ones[first : first + step] = np.count_nonzero(present, axis=1)
    weight = one * one if value is None else 1.0
    return PackedBits(
        octets.view(np.uint32), ones, d, weight, X.dtype if value is None else np.float32
    )


def _binary(X: Any, one: float) -> bool:
    """Return whether all coordinates are 0 or `one`."""
    values = X.data if sp.issparse(X) else X
    return bool(np.all((values == one) | (values == 0)))


def _least(X: Any) -> float:
    """Return the least size of a coordinate other than 0 among the first points; 1 if all are 0."""
    some = X[:UNIT_SAMPLE_POINTS]
    values = np.abs(some.data if sp.issparse(some) else some)
    least = float(np.min(np.where(values > 0, values, np.inf), initial=np.inf))
    return least if least < np.inf else 1.0


def _convert(values: NDArray[np.floating], size: float, whole: NDArray[Any]) -> bool | None:
    """Write the multiples of `size` to `whole` and return whether a value differs from its own.

    None if one differs by more than its rounding, or does not fit into bytes.
    """
    values = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # in place: fresh memory costs more
        nearest = values / size
        np.rint(nearest, out=nearest)
        if whole.dtype == np.uint8 and not (
            np.min(nearest) >= 0 and np.max(nearest) <= MAX_GRID_COORDINATE
        ):
            return None
        whole[:] = nearest
        away = np.multiply(nearest, size)
        away -= values
    if not np.any(away):
        return False
    error = np.multiply(np.abs(values, out=nearest), np.finfo(np.float64).eps, out=nearest)
    return True if np.all(np.abs(away, out=away) <= error) else None


def _like(X: Any, values: NDArray[np.float32]) -> Any:
    """Return points stored as X is."""
    return sp.csr_matrix((values, X.indices, X.indptr), X.shape) if sp.issparse(X) else values


def norms_of(points: Any) -> NDArray[np.float64]:
    """Return the squared norms of points, summed in float64; many are shared out among threads."""
    if isinstance(points, (PackedBits, ByteGrid)):
        return points.squared_norms()
    if sp.issparse(points):
        squares = np.square(points.data, dtype=np.float64)
        square = sp.csr_matrix((squares, points.indices, points.indptr), points.shape)
        return np.asarray(square @ np.ones(points.shape[1]))
    norms = np.empty(len(points))
    step = max(1, CHUNK_COORDINATES // points.shape[1])

    def piece(start: int) -> None:
        some = points[start : start + step].astype(np.float64)
        np.einsum("ij,ij->i", some, some, out=norms[start : start + step])

    parallel_for(piece, list(range(0, len(points), step)))
    return norms
