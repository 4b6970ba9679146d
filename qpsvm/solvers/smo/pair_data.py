"""Data of the pair steps of `smo` besides columns: flags of I_up and I_low, and extremes of s by tile.

Index sets, per group: I_up holds the coordinates whose z x can grow, I_low those whose z x can shrink.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.argextremes import MAX_KEY
from qpsvm.numerics.jit import inlined, vectorized
from qpsvm.numerics.work_sharing import TILE_POINTS


class PairData(NamedTuple):
    """Data of a pass over all points besides columns, and the extremes of s by tile."""

    side: NDArray[np.int8]  # (m,), z times the sign
    diagonal: NDArray[np.float64]  # (m,), the diagonal of G + D
    mark: NDArray[np.int32]  # (m,), flags IN_UP and IN_LOW, + GROUP_STEP times the group
    low: NDArray[np.int64]  # (n_groups, n_tiles), key of the minimum of s over I_up
    high: NDArray[np.int64]  # (n_groups, n_tiles), key of the maximum of s over I_low
    all_up: NDArray[np.bool_]  # (n_tiles,), whether all of it is in I_up, of the only group
    low_list: NDArray[np.int64]  # (m,), its first entries are the coordinates in I_low
    n_low: NDArray[np.int64]  # (1,), their number
    scratch: NDArray[np.float32]  # (TILE_POINTS,)
    max_diagonal: NDArray[np.float64]  # (1,), the maximum of |diagonal|
    all_positive: bool  # whether side is +1 everywhere


IN_UP = 1
"""Flag of a coordinate in I_up."""

IN_LOW = 2
"""Flag of a coordinate in I_low."""

GROUP_STEP = 4
"""Factor of the group in a mark, above the two flags."""


def pair_data(cols: Columns, z: Any, s: Any, up_barrier: Any, low_barrier: Any) -> PairData:
    """Return the data of the steps for a recomputed s."""
    n_groups, m = up_barrier.shape
    starts, up, down = np.arange(0, m, TILE_POINTS), up_barrier == 0.0, low_barrier == 0.0
    bits = s.view(np.int64)
    keys = bits ^ ((bits >> 63) & MAX_KEY)
    kind = up.astype(np.int32)
    kind[down] += IN_LOW
    if n_groups > 1:
        kind[1:] += (kind[1:] > 0) * GROUP_STEP * np.arange(1, n_groups)[:, None]
    mark = np.add.reduce(kind, axis=0, dtype=np.int32)
    all_up = np.logical_and.reduceat(up[0], starts) & (n_groups == 1)
    in_low, low_list = np.nonzero(down)[1], np.empty(m, np.int64)
    low_list[: len(in_low)] = in_low
    side = (z * cols.sign).astype(np.int8)
    diagonal = cols.scale * (cols.diag + cols.shift) + cols.ridge
    return PairData(
        side,
        diagonal,
        mark,
        np.minimum.reduceat(np.where(up, keys, MAX_KEY), starts, axis=1),
        np.maximum.reduceat(np.where(down, keys, -MAX_KEY), starts, axis=1),
        all_up,
        low_list,
        np.array([len(in_low)]),
        np.empty(TILE_POINTS, np.float32),
        np.array([np.abs(diagonal).max()]),
        bool(side.min() > 0),
    )


@vectorized
def set_mark(data: PairData, k: int, mark: int) -> None:
    """Set the mark of a coordinate and update the list of I_low."""
    before, n = data.mark[k] & IN_LOW, data.n_low[0]
    data.mark[k] = mark
    if before == (mark & IN_LOW):
        return
    data.n_low[0] = n - 1 if before else n + 1
    if not before:
        data.low_list[n] = k
        return
    for a in range(n):
        if data.low_list[a] == k:
            data.low_list[a] = data.low_list[n - 1]
            return


@inlined
def move_pair(
    x: Any, z: Any, upper: Any, i: int, j: int, t: float, fills_i: bool, fills_j: bool
) -> None:
    """Move z x by t from j to i; a coordinate whose slack t fills is set to its bound exactly."""
    x[i] += z[i] * t
    x[j] -= z[j] * t
    if fills_i:
        x[i] = upper[i] if z[i] > 0.0 else 0.0
    if fills_j:
        x[j] = 0.0 if z[j] > 0.0 else upper[j]


@inlined
def is_blocked(x: Any, z: Any, upper: Any, k: int) -> tuple[bool, bool]:
    """Return whether a coordinate is outside I_up, and whether it is outside I_low."""
    full, empty = x[k] >= upper[k], x[k] <= 0.0
    return (full, empty) if z[k] > 0.0 else (empty, full)
