"""Kernel matrices in float64 as `matrix_paths` reads them: sums of rows, and copies in float32.

A subset of the points of one matrix is given by runs of its rows (`MatrixRuns`), two groups of points by
three blocks (`GroupBlocks`), which serve all pairs of groups, or by the points themselves (`Sweep`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from qpsvm.gram.engine.groups import Sweep, gather_points
from qpsvm.gram.engine.tiles import sweep_tiles
from qpsvm.numerics.jit import VECTORIZED_FLAGS, vectorized
from qpsvm.numerics.vector_shape import GROUP_ROWS

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


def sum_rows(source: Any, u: Any, s: Any) -> None:
    """Write Ku to s; rows of zero weight are not read."""
    _SUMS[type(source)](source, u, s)


def copy_matrix(source: MatrixRuns, block: NDArray[np.floating]) -> None:
    """Copy the matrix to the first columns of a block of n rows, in this thread."""
    _copy_runs(*source, block)


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


def _sum_sweep(source: Any, u: Any, s: Any) -> None:
    support = np.flatnonzero(u)
    s[:] = 0.0
    if len(support) == 0:
        return
    first = source.first
    size = -(-len(support) // GROUP_ROWS) * GROUP_ROWS
    few = np.empty((size, first.few.shape[1]), first.few.dtype)
    a, weights = np.empty(size, first.a.dtype), np.zeros((2, size))
    gather_points(source, support, few, a)
    for k in range(len(support)):  # what completes the last group weighs nothing
        weights[0, k] = u[support[k]]
    every, store, packed = np.empty(0, np.int64), np.empty((0, 0)), np.empty((0, 0), np.uint16)
    none, top, start = np.empty(0), np.ones(2), 0
    for side in (first, source.second):
        n = len(side.b)
        sweep_tiles(
            few, a, side.points, False, side.b, every, 0, n, source.factor, source.kernel_map,
            store, packed, every, weights, top, s[start : start + n], none, none, none,
        )  # fmt: skip
        start += n


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


_SUMS: dict[type, Any] = {MatrixRuns: _sum_runs, GroupBlocks: _sum_groups, Sweep: _sum_sweep}


@overload(sum_rows, jit_options=VECTORIZED_FLAGS, strict=False)
def _sum_rows_of_type(source, u, s):  # type: ignore[no-untyped-def]
    return _SUMS[source.instance_class]
