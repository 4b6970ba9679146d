"""Kernel matrices in float64 as `matrix_paths` reads them: sums of rows, and copies in float32.

A subset of the points of one matrix is given by runs of its rows (`MatrixRuns`), two groups of points by
three blocks (`GroupBlocks`): blocks within a group serve all pairs of groups.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from qpsvm.numerics.jit import VECTORIZED_FLAGS, vectorized

Matrix = NDArray[np.float64]


class MatrixRuns(NamedTuple):
    """Rows and columns of a matrix, in runs of consecutive ones."""

    matrix: Matrix  # (m, m), C-ordered
    runs: NDArray[np.int64]  # (n_runs, 2): first row of a run, and the row after its last


class GroupBlocks(NamedTuple):
    """The matrix [[first, between], [between', second]]."""

    first: Matrix  # (n1, n1), C-ordered
    second: Matrix  # (n2, n2), C-ordered
    between: Matrix  # (n1, n2), C-ordered


def largest_diagonal(source: MatrixRuns | GroupBlocks) -> float:
    """Return the largest entry of the diagonal; of a matrix with runs that of all points."""
    if isinstance(source, MatrixRuns):
        return float(np.max(np.diag(source.matrix)))
    return max(float(np.max(np.diag(block))) for block in (source.first, source.second))


def sum_rows(source: Any, u: Any, s: Any) -> None:
    """Write Ku to s; rows of zero weight are not read."""
    _SUMS[type(source)](source, u, s)


def copy_matrix(source: MatrixRuns | GroupBlocks, block: NDArray[np.floating]) -> None:
    """Copy the matrix to the first columns of a block of n rows, in this thread."""
    if isinstance(source, MatrixRuns):
        _copy_runs(*source, block)
        return
    n, n_second = source.between.shape
    block[:n, :n], block[:n, n : n + n_second] = source.first, source.between
    block[n:, :n], block[n:, n : n + n_second] = source.between.T, source.second


@vectorized
def _add(weight: float, row: Any, to: Any) -> None:
    for k in range(len(row)):
        to[k] += weight * row[k]


def _sum_runs(source: Any, u: Any, s: Any) -> None:
    matrix, runs = source
    s[:] = 0.0
    i = 0
    for a in range(len(runs)):
        for row in range(runs[a, 0], runs[a, 1]):
            weight, i = u[i], i + 1
            if weight != 0.0:
                at = 0
                for b in range(len(runs)):
                    part = matrix[row, runs[b, 0] : runs[b, 1]]
                    _add(weight, part, s[at : at + len(part)])
                    at += len(part)


def _sum_groups(source: Any, u: Any, s: Any) -> None:
    first, second, between = source
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


@vectorized
def _copy_runs(matrix: Any, runs: Any, block: Any) -> None:
    i = 0
    for a in range(len(runs)):
        for row in range(runs[a, 0], runs[a, 1]):
            at = 0
            for b in range(len(runs)):
                part = matrix[row, runs[b, 0] : runs[b, 1]]
                to = block[i, at : at + len(part)]
                for k in range(len(part)):
                    to[k] = part[k]
                at += len(part)
            i += 1


_SUMS: dict[type, Any] = {MatrixRuns: _sum_runs, GroupBlocks: _sum_groups}


@overload(sum_rows, jit_options=VECTORIZED_FLAGS, strict=False)
def _sum_rows_of_type(source, u, s):  # type: ignore[no-untyped-def]
    return _SUMS[source.instance_class]
