"""Kernel matrices as `matrix_paths` and `matrix_pairs` read them: copies in float32, and sums in float64.

A subset of the points of one matrix is given by its rows (`MatrixRows`): its steps and most of its bounds
read a copy in float32, and single entries of Ku are summed in float64 (`exact_entries`). Two groups of
points are given by three blocks (`GroupBlocks`), which serve all pairs of groups; from those in float64
all of Ku is summed (`sum_rows`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.engine.maps import apply_map
from qpsvm.gram.engine.matrices import KernelMatrix
from qpsvm.numerics.jit import vectorized

FLOAT32_RANGE = (1e-30, 1e30)
"""Range of the largest diagonal entry of a matrix that float32 stores."""

MAPPED_ENTRIES = 1024
"""Number of kernel values that are computed at a time, in the first-level cache."""

ROWS_AT_ONCE = 4
"""Number of rows that are added to a sum at a time: the sum is read and written once for all of them."""


class MatrixRows(NamedTuple):
    """Rows of a matrix and their columns."""

    matrix: KernelMatrix
    rows: NDArray[np.int64]  # (n,), ascending


def fits_float32(diagonal: NDArray[np.floating]) -> bool:
    """Return whether float32 stores a positive semidefinite matrix without over- and underflow."""
    least, greatest = FLOAT32_RANGE
    return least <= float(np.max(diagonal)) <= greatest


class GroupBlocks(NamedTuple):
    """The matrix [[first, between], [between', second]]."""

    first: NDArray[np.floating]  # (n1, n1), C-ordered
    second: NDArray[np.floating]  # (n2, n2), C-ordered
    between: NDArray[np.floating]  # (n1, n2), C-ordered


def copy_matrix(source: MatrixRows, block: NDArray[np.float32]) -> None:
    """Copy the values to the first columns of a block of n rows, in this thread."""
    rows = source.rows
    ends = np.flatnonzero(rows[1:] != rows[:-1] + 1) + 1
    _copy_rows(source.matrix.values, rows, np.concatenate([[0], ends, [len(rows)]]), block)


@vectorized
def _copy_rows(matrix: Any, rows: Any, starts: Any, block: Any) -> None:
    """Copy runs of consecutive columns; `starts` are their beginnings among `rows`."""
    for i in range(len(rows)):
        for a in range(len(starts) - 1):
            begin, end = starts[a], starts[a + 1]
            part = matrix[rows[i], rows[begin] : rows[begin] + end - begin]
            to = block[i, begin:end]
            for k in range(len(part)):
                to[k] = part[k]


@vectorized
def add_rows(block: Any, weight: Any, s: Any) -> None:
    """Add weight' K to s, where K are the first columns of a block; rows of zero weight are not read."""
    n, n_rows = len(s), 0
    support = np.empty(len(weight), np.int64)
    for k in range(len(weight)):
        if weight[k] != 0.0:
            support[n_rows] = k
            n_rows += 1
    a = 0
    while a + ROWS_AT_ONCE <= n_rows:
        i, j, k, h = support[a], support[a + 1], support[a + 2], support[a + 3]
        first, second, third, fourth = block[i], block[j], block[k], block[h]
        w_first, w_second, w_third, w_fourth = weight[i], weight[j], weight[k], weight[h]
        for at in range(n):
            s[at] += (w_first * first[at] + w_second * second[at]) + (
                w_third * third[at] + w_fourth * fourth[at]
            )
        a += ROWS_AT_ONCE
    while a < n_rows:
        row, w_row = block[support[a]], weight[support[a]]
        for at in range(n):
            s[at] += w_row * row[at]
        a += 1


@vectorized
def exact_entries(source: Any, u: Any, marked: Any, out: Any) -> None:
    """Write the entries of Ku that are marked to `out`: kernel values and sums in float64.

    Where both points of a value are marked and have a weight, it is computed once for both.
    """
    matrix, rows = source
    inner, terms, factor = matrix.inner, matrix.terms, matrix.factor
    n, n_once, n_support = len(u), 0, 0
    support = np.empty(n, np.int64)
    for is_twice in (False, True):
        n_once = n_support
        for k in range(n):
            if u[k] != 0.0 and marked[k] == is_twice:
                support[n_support] = k
                n_support += 1
    columns, weights = np.empty(n_support, np.int64), np.empty(n_support)
    column_terms, sums, place = np.empty(n_support), np.zeros(n_support), np.full(n, -1)
    for k in range(n_support):
        columns[k], weights[k] = rows[support[k]], u[support[k]]
        column_terms[k], place[support[k]] = terms[columns[k]], k
    buffer = np.empty(MAPPED_ENTRIES)
    for i in range(n):
        if not marked[i]:
            continue
        row, row_term, at = inner[rows[i]], terms[rows[i]], place[i]
        total = sums[at] if at >= 0 else 0.0
        start = 0
        while start < n_support:
            if at >= 0 and n_once <= start < at:  # these values are in its sum
                start = at
            stop = n_once if at >= 0 and start < n_once else n_support
            t = buffer[: min(MAPPED_ENTRIES, stop - start)]
            for k in range(len(t)):
                t[k] = (row_term + column_terms[start + k]) + factor * row[columns[start + k]]
            apply_map(matrix.map, t)
            own_weights = weights[start : start + len(t)]
            for k in range(len(t)):
                total += own_weights[k] * t[k]
            if at >= 0 and start >= n_once:
                weight, own_sums = weights[at], sums[start : start + len(t)]
                for k in range(len(t)):
                    own_sums[k] += weight * t[k]
            start += len(t)
        out[i] = total


@vectorized
def _add(weight: float, row: Any, to: Any) -> None:
    for k in range(len(row)):
        to[k] += weight * row[k]


@vectorized
def sum_rows(blocks: Any, u: Any, s: Any) -> None:
    """Write Ku to s; rows of zero weight are not read."""
    first, second, between = blocks
    n, n_second = between.shape
    s[:] = 0.0
    for i in range(n):
        if u[i] != 0.0:
            _add(u[i], first[i], s[:n])
            _add(u[i], between[i], s[n:])
    support = np.empty(n_second, np.int64)
    n_support = 0
    for j in range(n_second):
        if u[n + j] != 0.0:
            _add(u[n + j], second[j], s[n:])
            support[n_support] = j
            n_support += 1
    for i in range(n):  # columns of a block are read row by row
        row, total = between[i], 0.0
        for k in range(n_support):
            total += u[n + support[k]] * row[support[k]]
        s[i] += total
