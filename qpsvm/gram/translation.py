"""Affine functions w'z + b of points far from zero, evaluated about an origin near the points.

The bias b of points far from zero is large, and w'z nearly cancels it. With the origin o the same
function is w'(z - o) + (b + w'o): the differences are small, and b + w'o, its value at the origin, is
summed exactly and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.base import slices
from qpsvm.numerics.products import is_compiled_pass, times

Vector = NDArray[np.float64]

SPLIT_FACTOR = 134217729.0
"""2^27 + 1: it splits a float64 into two halves whose products are exact (Dekker, 1971)."""

CHUNK_ENTRIES = 1 << 18
"""Number of coordinates that are translated at a time: 2 MB."""


def exact_dot(a: Vector, b: Vector, plus: float = 0.0) -> float:
    """Return a'b + plus, rounded once.

    Products are split into a rounded one and its exact error; `math.fsum` adds them all exactly.
    """
    product = a * b
    high_a, low_a = _halves(a)
    high_b, low_b = _halves(b)
    error = low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)
    if not np.isfinite(error).all():  # beyond 2^996 the halves overflow
        return float(np.sum(product) + plus)
    return math.fsum([*product.tolist(), *error.tolist(), plus])


def _halves(a: Vector) -> tuple[Vector, Vector]:
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = SPLIT_FACTOR * a
        high = scaled - (scaled - a)
        return high, a - high


def level_at(w: Vector, b: float, origin: Vector | None) -> float:
    """Return the value of w'z + b at the origin: b where there is none."""
    return b if origin is None else exact_dot(w, origin, b)


def bias_of(w: Vector, value: float, origin: Vector | None) -> float:
    """Return the b of the function w'z + b that has this value at the origin, rounded once."""
    return value if origin is None else exact_dot(w, -origin, value)


def moved_times(points: Any, w: Vector, origin: Vector | None) -> Vector:
    """Return w'(z - origin) of the points, shape (n,), in float64; w'z without an origin."""
    if origin is None:
        return times(points, w)
    out = np.empty(points.shape[0])
    for at in slices(len(out), max(1, CHUNK_ENTRIES // len(w))):
        out[at] = moved_rows(points[at], origin) @ w
    return out


def square_distances(points: Any, center: Vector) -> Vector:
    """Return |z - center|^2 of the points, shape (n,), in float64, without cancellation."""
    out = np.empty(points.shape[0])
    for at, some in _aligned_blocks(points, max(1, CHUNK_ENTRIES // len(center))):
        if isinstance(some, np.ndarray) and is_compiled_pass(some):
            from qpsvm.numerics.row_products import row_square_distances

            out[at] = row_square_distances(some, center)
        else:
            differences = moved_rows(some, center)
            out[at] = np.einsum("ij,ij->i", differences, differences)
    return out


def _aligned_blocks(points: Any, n_rows: int) -> Iterator[tuple[slice, Any]]:
    """Yield slices of points and the points there; unaligned ones are copied to the same memory.

    Arrays that came by a network may be unaligned, which compiled code does not read.
    """
    is_unaligned = isinstance(points, np.ndarray) and not points.flags.aligned
    copies = np.empty((n_rows, points.shape[1]), points.dtype) if is_unaligned else None
    for at in slices(points.shape[0], n_rows):
        some = points[at]
        if copies is not None:
            copies[: len(some)] = some
            some = copies[: len(some)]
        yield at, some


def moved_rows(points: Any, origin: Vector) -> NDArray[np.float64]:
    """Return the points minus the origin as a dense float64 array."""
    dense = points.toarray() if sp.issparse(points) else points
    return np.subtract(dense, origin, dtype=np.float64)
