"""Plain loops for the SIMD kernels of `qpsvm.numerics.simd`: for Python, and numba without intrinsics."""

from __future__ import annotations

from typing import Any

from qpsvm.numerics.vector_shape import VECTOR_LANES


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
