"""What the sweep over tiles asks of a storage: a tile of points, and kernel values of rows with it.

The points that a sweep reads are dense rows, words of packed points, or `SparseRows` and `SparsePoints`.
Their type chooses the functions when the sweep is compiled.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload

from qpsvm.gram.engine.kernel_rows import kernel_rows
from qpsvm.gram.engine.sparse_rows import POINTS_AT_ONCE_32, POINTS_AT_ONCE_64, sparse_row
from qpsvm.gram.storage.sparse_panels import SparseRows, load_panel, new_panel
from qpsvm.numerics.simd import aligned_tile, transpose_tile
from qpsvm.numerics.vector_shape import GROUP_ROWS


def new_tile(few: Any, points: Any) -> Any:
    """Return memory for a tile of points that is multiplied with `few`."""
    return _chosen(few)[0](few, points)


def load_tile(few: Any, points: Any, turned: bool, chosen: Any, width: int, tile: Any) -> None:
    """Write the first `width` of the points `chosen` to a tile; `turned`: stored by features."""
    _chosen(few)[1](few, points, turned, chosen, width, tile)


def multiply_group(
    few: Any, i: int, tile: Any, width: int, a: Any, norm: Any, factor: Any, kernel_map: Any, K: Any
) -> None:
    """Write the values of GROUP_ROWS rows of `few`, from i on, with the first `width` points of a tile.

    Entries of K beyond `width` may be written too: see `kernel_rows`.
    """
    _chosen(few)[2](few, i, tile, width, a, norm, factor, kernel_map, K)


def _new_dense_tile(few, points):  # type: ignore[no-untyped-def]
    return aligned_tile(few.shape[1], points)


def _load_dense_tile(few, points, turned, chosen, width, tile):  # type: ignore[no-untyped-def]
    transpose_tile(points, turned, chosen, -(-width // tile.shape[2]), tile)


def _multiply_dense(few, i, tile, width, a, norm, factor, kernel_map, K):  # type: ignore[no-untyped-def]
    for panel in range(-(-width // tile.shape[2])):
        kernel_rows(few, i, tile, panel, a, norm, factor, kernel_map, K)


def _new_panel(few, points):  # type: ignore[no-untyped-def]
    return new_panel(points)


def _load_panel(few, points, turned, chosen, width, tile):  # type: ignore[no-untyped-def]
    load_panel(points, chosen, width, tile)


def _multiply_sparse(few, i, tile, width, a, norm, factor, kernel_map, K):  # type: ignore[no-untyped-def]
    data, numbers, ends = few.data, few.numbers, few.ends
    places, values = tile.places, tile.values
    step = POINTS_AT_ONCE_32 if data.itemsize == 4 else POINTS_AT_ONCE_64
    for u in range(GROUP_ROWS):
        start, stop = ends[i + u], ends[i + u + 1]
        for j in range(0, width, step):
            sparse_row(
                data, numbers, start, stop, places, values, j, a[i + u], norm, factor, kernel_map, K[u]
            )  # fmt: skip


_DENSE_FUNCTIONS = _new_dense_tile, _load_dense_tile, _multiply_dense
_SPARSE_FUNCTIONS = _new_panel, _load_panel, _multiply_sparse


def _chosen(few: Any) -> Any:
    """Return the functions of a storage, by the rows or by their type in compiled code."""
    if isinstance(few, types.Type):
        return _SPARSE_FUNCTIONS if isinstance(few, types.NamedTuple) else _DENSE_FUNCTIONS
    return _SPARSE_FUNCTIONS if isinstance(few, SparseRows) else _DENSE_FUNCTIONS


@overload(new_tile, inline="always", strict=False)
def _new_tile_of_type(few, points):  # type: ignore[no-untyped-def]
    return _chosen(few)[0]


@overload(load_tile, inline="always", strict=False)
def _load_tile_of_type(few, points, turned, chosen, width, tile):  # type: ignore[no-untyped-def]
    return _chosen(few)[1]


@overload(multiply_group, inline="always", strict=False)
def _multiply_group_of_type(few, i, tile, width, a, norm, factor, kernel_map, K):  # type: ignore[no-untyped-def]
    return _chosen(few)[2]
