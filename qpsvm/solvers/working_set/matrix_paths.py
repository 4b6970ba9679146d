"""Hinge duals of many subsets of the points of one stored kernel matrix, each for many penalties.

Problem, for each subset and each C, with u_i = y_i x_i: minimize 1/2 u'Ku - sum x subject to
0 <= x_i <= C w_i and sum u = 0.

Pairs of classes, folds and grids of C make thousands of such problems of some hundred points: a solve of
each one alone would spend its time outside of the steps. Here a subset's part of the matrix is copied in
float32 once; a subset of most points reads the matrix in place. For each C, in ascending order, the
previous weights are scaled to the new bounds, and steps are made (`matrix_steps`). Sums Ku are carried
along: the rows that moved are added in float64.

Every bound comes from these sums, by code that the steps do not use (`matrix_bounds`). Kernel values in
float32 have errors of 2^-24 of the largest one; the bound on their effect is part of the gap. Where that
is too much, the entries of Ku that matter for the gap are summed in float64.

Sources: the steps are those of `inner_smo`. Warm starts along C: DeCoste and Wagstaff (2000),
"Alpha seeding for support vector machines".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.engine.matrices import KernelMatrix
from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.parallel import BufferPool, parallel_for, scratch
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.working_set.matrix_blocks import MatrixRows, copy_matrix, exact_entries
from qpsvm.solvers.working_set.matrix_bounds import (
    SubsetPath,
    bounds,
    empty_path,
    move_sums,
    scale_weights,
    sum_error,
)
from qpsvm.solvers.working_set.matrix_steps import (
    FIRST_TOLERANCE,
    GAP_GOAL_FRACTION,
    MAX_MET_ROUNDS,
    MAX_ROUNDS,
    MAX_STEPS_PER_POINT,
    MAX_WORKING_SET,
    MIN_DIAGONAL,
    TOLERANCE_DECREASE,
    WORKING_SET_ENTRIES,
    make_steps,
)

CHUNK_ENTRIES = 1 << 20
"""Entries of matrices that a thread solves before it takes another chunk and limits are polled."""

MAX_COPIED_POINTS = 2048
"""Number of points up to which a subset's part of the matrix is copied; a larger one of most points reads
the matrix in place."""

FLOAT32_ROUNDING = 1.01 * 2.0**-24
"""Bound on the rounding error of a kernel value in float32, relative to the largest rounded one."""

VALUE_ERROR_FRACTION = 0.05
"""Fraction of the gap asked for that an error of the value may add to it."""

REFINED_GAP_FACTOR = 1.0
"""Factor of the gap asked for: a gap within it, rounding apart, is evaluated in float64."""

MAX_SCRATCH_BYTES = 1 << 22
"""Size of a block up to which it is in the memory that the process keeps."""

GOAL_DECREASE = 0.5
"""Factor of the goal of the gap in the same case."""

Vector = NDArray[np.float64]


class Subset(NamedTuple):
    """Points of one problem."""

    rows: NDArray[np.int64]  # (n,), rows of the matrix, ascending
    y: Vector  # (n,), -1 or +1
    weight: Vector  # (n,), upper bounds are C times these; points of weight 0 have no part in it


def is_read_in_place(n: int, m: int) -> bool:
    """Return whether a subset of n of m points is solved faster as all points, others of weight 0."""
    return n > MAX_COPIED_POINTS and 2 * n >= m


def hinge_paths(
    matrices: Sequence[KernelMatrix],
    subsets: Sequence[Subset],
    penalties: Vector,
    tol: float,
    entry_errors: Sequence[float],
    buffers: BufferPool | None = None,
) -> list[list[SubsetPath]]:
    """Solve the hinge dual of each subset for each penalty under each matrix, in parallel.

    Parameters
    ----------
    matrices : sequence of KernelMatrix
        Of m points, positive semidefinite.
    subsets : sequence of Subset
        Neighbors are solved by one thread, as far as they are small: it is faster if they share points.
    penalties : ndarray, shape (n_penalties,)
        C, ascending and finite.
    tol : float
        Relative gap to be reached.
    entry_errors : sequence of float
        Bound on the error of an entry of each matrix, its rounding to float32 apart.
    buffers : BufferPool, optional
        Shared by several calls.

    Returns
    -------
    list of list of SubsetPath
        For each matrix one for each subset. A gap is above `tol` where the rounds of steps did not reach
        it.

    Raises
    ------
    Expired
        If a limit is met between two chunks of subsets: see `qpsvm.clock`.
    """
    paths = [[empty_path(len(penalties), len(subset.y)) for subset in subsets] for _ in matrices]
    buffers = BufferPool() if buffers is None else buffers

    def solve_chunk(chunk: list[int]) -> None:
        for number in chunk:
            at, k = divmod(number, len(subsets))
            matrix, (rows, y, weight) = matrices[at], subsets[k]
            own = (
                MatrixRows(matrix, rows), y, weight, penalties, tol, entry_errors[at], paths[at][k]
            )  # fmt: skip
            if len(rows) == len(matrix.values) > MAX_COPIED_POINTS:
                _path_on_block(matrix.values, *own, buffers)
            else:
                _path_on_copy(*own, buffers)

    sizes = [len(subset.y) for subset in subsets] * len(matrices)
    parallel_for(solve_chunk, chunks_of(sizes, neighbors=True))
    return paths


def _path_on_copy(
    source: MatrixRows,
    y: Vector,
    weight: Vector,
    penalties: Vector,
    tol: float,
    entry_error: float,
    path: SubsetPath,
    buffers: BufferPool,
) -> None:
    """Solve one subset in this thread on a copy of its part of the matrix in float32."""
    n = len(y)
    width = max(n, VECTOR_LANES)
    block_of = buffers.array if 4 * n * width > MAX_SCRATCH_BYTES else scratch
    with block_of(n * width, np.float32) as memory:
        block = memory.reshape(n, width)
        if width > n:
            block[:] = 0.0
        copy_matrix(source, block)
        _path_on_block(block, source, y, weight, penalties, tol, entry_error, path, buffers)


def _path_on_block(
    block: NDArray[np.float32],
    source: MatrixRows,
    y: Vector,
    weight: Vector,
    penalties: Vector,
    tol: float,
    entry_error: float,
    path: SubsetPath,
    buffers: BufferPool,
) -> None:
    """Solve one subset in this thread; the first columns of the block are its matrix in float32."""
    block = block.view()
    block.flags.writeable = False
    with buffers.array(WORKING_SET_ENTRIES, np.float32) as memory:
        _path(block, source, y, weight, penalties, tol, entry_error, memory, MAX_WORKING_SET, *path)


def chunks_of(sizes: list[int], neighbors: bool = False) -> list[list[int]]:
    """Return numbers of subsets in chunks of about `CHUNK_ENTRIES`, the largest first.

    The subsets of a chunk have about the same size, or follow each other.
    """
    chunks: list[list[int]] = []
    left = 0
    numbers = range(len(sizes))
    for k in numbers if neighbors else sorted(numbers, key=lambda k: -sizes[k]):
        if left <= 0:
            chunks.append([])
            left = CHUNK_ENTRIES
        chunks[-1].append(k)
        left -= sizes[k] * sizes[k]
    return sorted(chunks, key=lambda chunk: -sum(sizes[k] ** 2 for k in chunk))


@vectorized
def _path(
    block: Any,
    source: Any,
    y: Any,
    weight: Any,
    penalties: Any,
    tol: float,
    entry_error: float,
    memory: Any,
    most: int,
    weights: Any,
    biases: Any,
    values: Any,
    gaps: Any,
    roundoffs: Any,
    n_steps: Any,
) -> None:
    """Solve one subset for all penalties; a working set has at most `most` points."""
    n = len(y)
    diagonal = np.empty(n)
    for k in range(n):
        diagonal[k] = block[k, k]
    largest = max(np.max(diagonal), MIN_DIAGONAL)
    exact_rounding = entry_error + sum_error(n, largest)
    rounding = entry_error + FLOAT32_ROUNDING * largest
    x, x_summed, u, s, t = np.zeros(n), np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
    before, upper, correction = np.zeros(n), np.empty(n), np.zeros(n)
    marked, is_exact, none = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for k in range(n):
        s[k] = -y[k]
    sums_error = 0.0
    for c in range(len(penalties)):
        for k in range(n):
            upper[k] = penalties[c] * weight[k]
        scale_weights(y, x, before, upper)
        ratio = penalties[c] / penalties[c - 1] if c > 0 else 1.0
        tolerance, total_steps, refines = FIRST_TOLERANCE, 0, False
        for k in range(n):
            correction[k] = 0.0
        attempt, n_met, fraction = 0, 0, GAP_GOAL_FRACTION
        while True:
            # 1. Sums by the weights that moved, and the bounds by them.
            sums_error = move_sums(block, y, x, x_summed, ratio, largest, s, u, sums_error)
            ratio, total = 1.0, np.sum(x)
            exact_error, error = exact_rounding * total, rounding * total + sums_error
            found = bounds(y, x, upper, s, none, exact_error, error, marked)
            goal = -tol * found.value
            refines = refines or found.gap - found.roundoff <= REFINED_GAP_FACTOR * goal
            if refines and found.gap > goal:
                # 2. The entries that matter in float64.
                values_matter = error * total > VALUE_ERROR_FRACTION * goal
                for k in range(n):
                    u[k], t[k] = y[k] * x[k], s[k]
                    is_exact[k] = marked[k] or (values_matter and x[k] > 0.0)
                exact_entries(source, u, is_exact, t)
                for k in range(n):
                    t[k] -= y[k] if is_exact[k] else 0.0
                    correction[k] = t[k] - s[k]
                found = bounds(y, x, upper, t, is_exact, exact_error, error, marked)
            left = MAX_STEPS_PER_POINT * n - total_steps
            is_over = attempt == MAX_ROUNDS or left <= 0
            if found.gap <= -tol * found.value or is_over or n_met > MAX_MET_ROUNDS:
                break
            for k in range(n):
                t[k] = s[k] + correction[k]
            # 3. Steps.
            goal = -fraction * tol * found.value
            steps, is_met = make_steps(
                block, diagonal, y, upper, x, t, found, tolerance, goal, memory, most, left
            )  # fmt: skip
            total_steps += steps
            attempt += 1
            n_met += is_met
            if is_met and n_met > 1:
                tolerance *= TOLERANCE_DECREASE
                fraction *= GOAL_DECREASE
        for k in range(n):
            weights[c, k], before[k] = x[k], upper[k]
        biases[c], values[c], gaps[c] = found.bias, found.value, found.gap
        roundoffs[c], n_steps[c] = found.roundoff, total_steps
