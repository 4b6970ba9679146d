"""Plain loops for the SIMD kernels of `qpsvm.numerics.simd`: for Python, and numba without intrinsics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from qpsvm.numerics.jit import count_bits
from qpsvm.numerics.vector_shape import GROUP_ROWS, VECTOR_LANES


def kernel_rows(
    few: Any, i: int, tile: Any, first: int, a: Any, norm: Any, factor: Any, K: Any
) -> None:
    """Write kernel values of GROUP rows with a vector of points."""
    for u in range(GROUP_ROWS):
        for j in range(first, first + VECTOR_LANES * 4 // few.itemsize):
            K[u, j] = _value(few[i + u], tile, j, a[i + u], norm[j], factor)


def _value(own: Any, tile: Any, j: int, a: Any, norm: Any, factor: Any) -> Any:
    """Return one kernel value, as `kernel_rows` does."""
    evaluate = {"f": _value_of_numbers, "u": _value_of_words, "i": _value_of_bytes}
    return evaluate[own.dtype.kind](own, tile, j, a, norm, factor)


def _value_of_numbers(own: Any, tile: Any, j: int, a: Any, norm: Any, factor: Any) -> Any:
    product = own[0] * tile[0, j] if len(own) else own.dtype.type(0.0)
    for k in range(1, len(own)):
        product += own[k] * tile[k, j]
    return 2.0 ** ((a + norm) + factor * product)


def _value_of_words(own: Any, tile: Any, j: int, a: Any, norm: Any, factor: Any) -> Any:
    n_common = 0
    for k in range(len(own)):
        n_common += count_bits(own[k] & tile[k, j])
    return 2.0 ** ((a + norm) + factor * n_common)


def _value_of_bytes(own: Any, tile: Any, j: int, a: Any, norm: Any, factor: Any) -> Any:
    product = np.int64(0)
    for k in range(len(own)):
        for shift in (0, 8, 16, 24):
            byte = (np.int64(own[k]) >> shift) & 255
            product += (byte - 256 * (byte >> 7)) * ((np.int64(tile[k, j]) >> shift) & 255)
    return 2.0 ** (factor * (a + norm - 2 * product))


@overload(_value, inline="always")
def _value_for_type(own, tile, j, a, norm, factor):  # type: ignore[no-untyped-def]
    """Choose by the type of the points, at compile time."""
    if isinstance(own.dtype, types.Float):
        return _value_of_numbers
    return _value_of_bytes if own.dtype.signed else _value_of_words


def transpose_square(points: Any, rows: Any, k: int, tile: Any, j: int) -> None:
    """Transpose a square of `lanes` features of `lanes` points into a tile."""
    lanes = VECTOR_LANES * 4 // points.itemsize
    for n in range(j, j + lanes):
        for feature in range(k, min(k + lanes, points.shape[1])):
            tile[feature, n] = points[rows[n], feature]


def masked_expand(row: Any, gaps: Any, j: int, spare: Any, k: int, out: Any) -> int:
    """Copy a vector from `row`, with entries of `spare` in place of gaps."""
    for n in range(j, j + VECTOR_LANES * 4 // row.itemsize):
        out[n] = spare[k] if gaps[n] else row[n]
        k += 1 if gaps[n] else 0
    return k


def prefetch(block: Any, i: int, j: int) -> None:
    """Do nothing: plain loops have no prefetch instruction."""
