"""The vector code of `qpsvm.numerics.simd` as loops: for Python, and where numba has no intrinsics."""

from __future__ import annotations

from typing import Any

from qpsvm.numerics.vector_shape import LANES


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
