"""Integer points: coordinates are multiples of one quantum, and inner products are exact.

Counts, gray levels divided by 255 and one-hot tables are such points. Up to a squared norm of 2^24
float32 sums the products of the multiples without rounding, in half the time of float64. Where the
multiples are 0 and 1 only, a product is the number of common bits of two packed rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.storage.base import WORDS_PER_COUNT, Sides, StoredPoints
from qpsvm.gram.storage.byte_grid import (
    MAX_GRID_COORDINATE,
    ByteGrid,
    chunks_of,
    fits_byte_grid,
    grid_points,
    zero_octets,
)
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.products import squared_norms_in_float64

MAX_EXACT_SQUARED_NORM = 2.0**24
"""Maximum squared norm at which float32 sums of products of integers are exact."""

QUANTUM_SAMPLE_COORDINATES = 1 << 18
"""Number of coordinates of the points that determine the candidate quantum."""

QUANTUM_SAMPLE_POINTS, FIRST_TRIED_POINTS = 1024, 64
"""Number of points that determine the candidate quantum, and of those that test it first."""

CHUNK_COORDINATES = 1 << 16
"""Number of coordinates processed at a time, in cache."""

MIN_POINTS_FOR_PACKING = 1024
"""Minimum number of points for packing: the products of fewer need no compiled code."""

MAX_SPARSE_FRACTION = 1 / 256
"""Fraction of stored entries below which products of CSR rows cost less than counts of bits."""


@dataclass(frozen=True, eq=False)
class PackedBits(StoredPoints):
    """Points with coordinates 0 and 1, or 0 and one other value, packed into bits.

    Attributes
    ----------
    words : ndarray of uint32, shape (m, a multiple of 4)
    ones : ndarray, shape (m,)
        Number of nonzero coordinates.
    d : int
        Number of features.
    weight : float
        Contribution of a common bit to an inner product: the square of the nonzero value.
    dtype : dtype
        The precision of products.
    """

    words: NDArray[np.uint32]
    ones: NDArray[np.float64]
    d: int
    weight: float = 1.0
    dtype: Any = np.float32
    features_at_once: ClassVar[int] = 8

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

    def sides(self, few: PackedBits, a: NDArray[Any], b: NDArray[Any], factor: float) -> Sides:
        """Return the words of both sides: products are numbers of common bits."""
        return Sides(few.words, a, self.words, b, factor * self.weight)

    @classmethod
    def of(cls, X: Any) -> PackedBits | None:
        """Return points with coordinates 0 and one other value, packed, or None."""
        return pack(X) if packs(X) else None

    def products(
        self, A: PackedBits, out: NDArray[np.floating] | None = None
    ) -> NDArray[np.floating]:
        """Return A B' for these points B, in `out` if it is given."""
        from qpsvm.gram.storage.packed_bits import common_products  # which is compiled

        return common_products(A, self, out)


class IntegerPoints(NamedTuple):
    """Points as integer multiples of a quantum."""

    quantum: float
    rounded: bool  # whether a multiple of the quantum differs from a coordinate by rounding
    points: Any  # the multiples: packed bits, a byte grid, or float32 stored as X is
    norms: NDArray[np.float64]  # their squared norms

    def multiples(self, X: Any) -> Any:
        """Return the multiples of other points, stored alike, or None if they are no such multiples."""
        if isinstance(self.points, PackedBits):
            return pack(X, self.quantum)
        if isinstance(self.points, ByteGrid):
            found = _in_bytes(X.toarray() if sp.issparse(X) else X, self.quantum)
            return None if found is None else found[0]
        values = X.data if sp.issparse(X) else X
        multiples = np.empty(values.shape, np.float32)
        if _convert(values, self.quantum, multiples) is None:
            return None
        points = _like(X, multiples)
        return points if np.max(norms_of(points), initial=0.0) <= MAX_EXACT_SQUARED_NORM else None

    def take(self, rows: Any) -> IntegerPoints:
        """Return the points `rows`, by the same quantum."""
        return self._replace(points=self.points[rows], norms=self.norms[rows])


def integer_points(X: Any) -> IntegerPoints | None:
    """Return dense or CSR points as multiples of a quantum, or None where they are not.

    The quantum is the least absolute coordinate other than 0 in a sample, or 1.
    """
    for quantum in dict.fromkeys((_least(X), 1.0)):
        bits = pack(X, quantum) if packs(X) else None
        if bits is not None:
            return IntegerPoints(quantum, False, bits, bits.ones)
        found = _on_byte_grid(X, quantum) or _in_float32(X, quantum)
        if found is not None:
            return found
    return None


def _on_byte_grid(X: Any, quantum: float) -> IntegerPoints | None:
    """Return the multiples of this quantum, or None where they do not fit into bytes."""
    if sp.issparse(X) or not fits_byte_grid(*X.shape):
        return None
    sample = X[:FIRST_TRIED_POINTS]
    if _convert(sample, quantum, np.empty(sample.shape, np.uint8)) is None:
        return None
    found = _in_bytes(X, quantum)
    if found is None:
        return None
    return IntegerPoints(quantum, found[1], found[0], found[0].squared_norms())


def _in_bytes(X: NDArray[np.floating], quantum: float) -> tuple[ByteGrid, bool] | None:
    """Return the multiples of points and whether one is rounded, or None where a byte is too small."""
    octets, d = zero_octets(*X.shape), X.shape[1]
    rounded: list[bool | None] = [False]

    def convert(at: slice) -> None:
        if None not in rounded:
            rounded.append(_convert(X[at], quantum, octets[at, :d]))

    parallel_for(convert, chunks_of(octets), with_blas=False)
    return None if None in rounded else (grid_points(octets, d), any(rounded))


def _in_float32(X: Any, quantum: float) -> IntegerPoints | None:
    """Return the multiples of this quantum in float32, or None; threads share the points."""
    values = X.data if sp.issparse(X) else X
    sample = values[:FIRST_TRIED_POINTS]
    if _convert(sample, quantum, np.empty(sample.shape, np.float32)) is None:
        return None
    multiples = np.empty(values.shape, np.float32)
    step = max(1, CHUNK_COORDINATES * len(values) // max(1, values.size))
    chunks = [slice(first, first + step) for first in range(0, len(values), step)]
    rounded: list[bool | None] = []

    def convert(at: slice) -> None:
        if None not in rounded:
            rounded.append(_convert(values[at], quantum, multiples[at]))

    parallel_for(convert, chunks, with_blas=False)
    if None in rounded:
        return None
    points = _like(X, multiples)
    norms = norms_of(points)
    if not np.max(norms) <= MAX_EXACT_SQUARED_NORM:
        return None
    return IntegerPoints(quantum, any(rounded), points, norms)


def packs(X: Any) -> bool:
    """Return whether packing pays for binary points of this shape and density."""
    m, d = X.shape
    return (
        m >= MIN_POINTS_FOR_PACKING
        and d <= MAX_EXACT_SQUARED_NORM
        and (not sp.issparse(X) or X.nnz >= MAX_SPARSE_FRACTION * m * d)
    )


def pack(X: Any, value: float | None = None) -> PackedBits | None:
    """Return points with coordinates 0 and `value` packed, or None if there are other coordinates.

    By default `value` is the least absolute coordinate other than 0 in a sample, and products are those
    of the points; for a given `value` they are those of its multiples.
    """
    m, d = X.shape
    one = _least(X) if value is None else value
    if not _binary(X[:FIRST_TRIED_POINTS], one):
        return None
    n_words = -(-d // (32 * WORDS_PER_COUNT)) * WORDS_PER_COUNT
    octets, ones = np.zeros((m, 4 * n_words), np.uint8), np.empty(m)
    step = max(1, CHUNK_COORDINATES // d)
    for first in range(0, m, step):
        chunk = X[first : first + step]
        if not _binary(chunk, one):
            return None
        present = (chunk.toarray() if sp.issparse(chunk) else chunk) != 0
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
    """Return the least absolute coordinate other than 0 in a sample; 1 if all are 0."""
    n_points = max(FIRST_TRIED_POINTS, QUANTUM_SAMPLE_COORDINATES // X.shape[1])
    sample = X[: min(n_points, QUANTUM_SAMPLE_POINTS)]
    values = np.abs(sample.data if sp.issparse(sample) else sample)
    least = float(np.min(np.where(values > 0, values, np.inf), initial=np.inf))
    return least if least < np.inf else 1.0


def _convert(values: NDArray[np.floating], quantum: float, multiples: NDArray[Any]) -> bool | None:
    """Write the multiples of a quantum to `multiples`; return whether a value differs from its multiple.

    None if one differs by more than rounding, or does not fit into bytes.
    """
    values = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # in place: new memory costs more
        nearest = values / quantum
        np.rint(nearest, out=nearest)
        if multiples.dtype == np.uint8 and not (
            np.min(nearest) >= 0 and np.max(nearest) <= MAX_GRID_COORDINATE
        ):
            return None
        multiples[:] = nearest
        offset = np.multiply(nearest, quantum)
        offset -= values
    if not np.any(offset):
        return False
    error = np.multiply(np.abs(values, out=nearest), np.finfo(np.float64).eps, out=nearest)
    return True if np.all(np.abs(offset, out=offset) <= error) else None


def _like(X: Any, values: NDArray[np.float32]) -> Any:
    """Return points stored as X is."""
    return sp.csr_matrix((values, X.indices, X.indptr), X.shape) if sp.issparse(X) else values


def norms_of(points: Any) -> NDArray[np.float64]:
    """Return the squared norms of points, summed in float64; threads share the points."""
    if isinstance(points, StoredPoints):
        return points.squared_norms()
    if sp.issparse(points):
        return squared_norms_in_float64(points)
    norms = np.empty(len(points))
    step = max(1, CHUNK_COORDINATES // points.shape[1])

    def square(start: int) -> None:
        chunk = points[start : start + step].astype(np.float64)
        np.einsum("ij,ij->i", chunk, chunk, out=norms[start : start + step])

    parallel_for(square, list(range(0, len(points), step)), with_blas=False)
    return norms
