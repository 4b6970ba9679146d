"""CSR points of many features, as the sweep over tiles reads them.

A tile of points becomes a panel of dense rows, one for each feature that occurs in the tile and in the
points on the other side: a few thousand rows, however many features there are. A stored entry of the
other side is then multiplied with one row of the panel, vector lanes over the points of the tile.
Features that do not occur in the tile refer to a row of zeros, so that no branch is needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.numerics.jit import njit
from qpsvm.numerics.row_products import all_read_only, read_only
from qpsvm.numerics.simd import aligned
from qpsvm.numerics.vector_shape import GROUP_ROWS, TILE_POINTS

ZERO_ROW = 0
"""Row of a panel with zeros, for features that a tile lacks."""


class SparseRows(NamedTuple):
    """Points that are multiplied with a panel, in full groups; absent ones have no entries."""

    data: Any  # (n_entries,)
    numbers: Any  # (n_entries,), the number of the feature of each entry, from 1 on
    ends: Any  # (n + 1,), row i is data[ends[i] : ends[i + 1]]


class SparsePoints(NamedTuple):
    """Points that become panels."""

    data: Any  # (n_entries,)
    columns: Any  # (n_entries,)
    ends: Any  # (m + 1,)
    numbers: Any  # (d,), the number of each feature, 0 for one that the rows lack
    n_numbers: int  # including 0
    longest: int  # the greatest number of entries of a point


class Panel(NamedTuple):
    """A tile of points by features."""

    values: Any  # (n_rows, TILE_POINTS)
    places: Any  # (n_numbers,), the row of `values` of each number
    in_use: Any  # (n_rows,), the number of each row
    counts: Any  # (1,), the number of rows in use
    entries: Any  # (n,), the entries of the tile whose features have a number
    found: Any  # (2, n), their numbers, then their places in `values`; their points


class NumberedRows(NamedTuple):
    """CSR points whose features are numbered, for products with many others; made once for all of them.

    Features are numbered in the order in which they are stored. In text frequent features come early, so
    that those that are read often lie near each other.
    """

    data: Any  # (n_entries,)
    numbers: Any  # (n_entries,), the number of the feature of each entry, from 1 on
    ends: Any  # (n + 1,), row i is data[ends[i] : ends[i + 1]]
    features: Any  # (d,), the number of each feature; 0 for one that no point has
    n_numbers: int  # including 0

    def part(self, first: int, last: int) -> NumberedRows:
        """Return consecutive points, by the same numbers."""
        return self._replace(ends=self.ends[first : last + 1])


def numbered(points: Any) -> NumberedRows:
    """Return CSR points with numbers of their features."""
    features = np.zeros(points.shape[1], np.uint32)  # pages that are not read stay untouched
    numbers = np.empty(points.nnz, np.uint32)
    n_numbers = _number(_unsigned(points.indices), features, numbers)
    return NumberedRows(points.data, numbers, points.indptr, features, n_numbers)


def sparse_sides(
    few: NumberedRows, some: Any, chosen: Any = None
) -> tuple[SparseRows, SparsePoints]:
    """Return both sides of a sweep: rows in full groups, and CSR points, of which some are chosen."""
    missing, chosen = -(len(few.ends) - 1) % GROUP_ROWS, slice(None) if chosen is None else chosen
    lengths = some.indptr[1:][chosen] - some.indptr[:-1][chosen]
    ends = np.concatenate([few.ends, np.repeat(few.ends[-1:], missing)])
    rows = SparseRows(*all_read_only(few.data, few.numbers, ends))
    data, indptr, features = all_read_only(some.data, some.indptr, few.features)
    longest, columns = int(np.max(lengths, initial=0)), _unsigned(some.indices)
    return rows, SparsePoints(data, columns, indptr, features, few.n_numbers, longest)


def _unsigned(indices: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Return nonnegative indices as unsigned ones: compiled code does not test their signs."""
    return read_only(indices.view(f"u{indices.itemsize}"))


@njit(cache=True, nogil=True)
def _number(columns: Any, features: Any, numbers: Any) -> int:
    """Write numbers of the features of entries, from 1 on; return the last one plus one."""
    following = 1
    for p in range(len(columns)):
        number = features[columns[p]]
        if number == 0:
            number = np.uint32(following)
            features[columns[p]] = number
            following += 1
        numbers[p] = number
    return following


inlined = njit(inline="always")  # compiled once, in the sweep


@inlined
def new_panel(points: SparsePoints) -> Panel:
    """Return a panel without points."""
    n_entries = TILE_POINTS * points.longest + 1
    n_rows = min(points.n_numbers, n_entries)
    values = aligned(n_rows + 1, points.data)
    values[ZERO_ROW] = 0.0
    places = np.zeros(points.n_numbers, np.uint32)
    in_use, counts = np.empty(n_rows + 1, np.uint32), np.ones(1, np.int64)
    entries, found = np.empty(n_entries, points.data.dtype), np.empty((2, n_entries), np.uint32)
    return Panel(values, places, in_use, counts, entries, found)


@inlined
def load_panel(points: SparsePoints, chosen: Any, width: int, panel: Panel) -> None:
    """Write the first `width` of the points `chosen` to a panel."""
    data, columns, ends, numbers, _, _ = points
    values, places, in_use, counts, entries, found = panel
    for row in range(1, counts[0]):
        places[in_use[row]] = ZERO_ROW
    # Without branches: neither which features have numbers is predictable, nor which are new.
    n_found, n_rows = 0, 1
    for j in range(width):
        for p in range(ends[chosen[j]], ends[chosen[j] + 1]):
            number = numbers[columns[p]]
            entries[n_found] = data[p]
            found[0, n_found] = number
            found[1, n_found] = j
            n_found += 1 if number != 0 else 0
    for k in range(n_found):
        number = found[0, k]
        place = places[number]
        is_new = place == ZERO_ROW
        place = np.uint32(n_rows) if is_new else place
        places[number] = place
        in_use[n_rows] = number
        n_rows += 1 if is_new else 0
        found[0, k] = place
    counts[0] = n_rows
    values[1:n_rows] = 0.0
    for k in range(n_found):
        values[found[0, k], found[1, k]] = entries[k]
