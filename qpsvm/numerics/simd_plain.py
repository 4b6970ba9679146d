"""The vector code of `qpsvm.numerics.simd` as loops: for Python, and where numba has no intrinsics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from qpsvm.numerics.jit import count_bits
from qpsvm.numerics.vector_shape import GROUP, LANES


def values(few: Any, i: int, tile: Any, first: int, a: Any, norm: Any, factor: Any, K: Any) -> None:
    """Write kernel values of GROUP rows with a vector of points."""
    for u in range(GROUP):
        for j in range(first, first + LANES * 4 // few.itemsize):
            K[u, j] = _value(few[i + u], tile, j, a[i + u], norm[j], factor)


def _value(own: Any, tile: Any, j: int, a: Any, norm: Any, factor: Any) -> Any:
    """Return one kernel value, as `values` does."""
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
    """Choose by the type of the points, which branches inside of compiled code cannot do."""
    if isinstance(own.dtype, types.Float):
        return _value_of_numbers
    return _value_of_bytes if own.dtype.signed else _value_of_words


def turn_square(points: Any, rows: Any, k: int, tile: Any, j: int) -> None:
    """Write as many numbers of as many points as a vector has to a tile."""
    lanes = LANES * 4 // points.itemsize
    for n in range(j, j + lanes):
        for feature in range(k, min(k + lanes, points.shape[1])):
            tile[feature, n] = points[rows[n], feature]


def expand(row: Any, gaps: Any, j: int, spare: Any, k: int, out: Any) -> int:
    """Copy a vector of numbers from `row`, with those of `spare` in place of gaps."""
    for n in range(j, j + LANES * 4 // row.itemsize):
        out[n] = spare[k] if gaps[n] else row[n]
        k += 1 if gaps[n] else 0
    return k


def fetch(block: Any, i: int, j: int) -> None:
    """Do nothing: no loop says what will be read."""
