"""Cross-validated accuracy of hinge machines over a grid of kernels and penalties, one matrix a kernel.

Every problem of the grid, one for each pair of classes, training set and penalty, is a subset of the
points under one kernel matrix. The matrix is computed once for each kernel, from products of points that
all kernels share; `hinge_paths` solves the problems; the values of all test points, pairs and penalties
are products of blocks of the same matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.estimators.inputs.samples import Vector
from qpsvm.estimators.votes import pairs_of
from qpsvm.gram import Gram
from qpsvm.gram.engine.matrices import (
    KernelMatrix,
    entry_error,
    have_same_products,
    kernel_matrices,
)
from qpsvm.gram.psd import psd_defect
from qpsvm.numerics.parallel import BufferPool, parallel_for
from qpsvm.resources import processors
from qpsvm.solvers.working_set.matrix_blocks import fits_float32
from qpsvm.solvers.working_set.matrix_bounds import SubsetPath
from qpsvm.solvers.working_set.matrix_paths import (
    Subset,
    chunks_of,
    hinge_paths,
    is_read_in_place,
)

Indices = NDArray[np.int64]

MATRICES_AT_ONCE = 3
"""Matrices of all points in float64 that are held at a time: products, kernel values of two kernels in
float32, parts of them."""

MIN_CHUNKS_PER_THREAD = 16
"""Number of chunks of a kernel's problems for each thread, below which two kernels are solved at a time:
threads that find no chunk left then wait half as often."""


class Split(NamedTuple):
    """A training set and a test set, by rows of the ordered points."""

    train: Indices
    """Ascending."""
    test: Indices
    """Ascending."""
    weight: Vector
    """Factor of C of each training point, positive."""


class Cells(NamedTuple):
    """Answers for one kernel: every penalty and every split."""

    values: list[Vector]
    """For each split the values of all pairs at its test points, shape (n_penalties, n_pairs, n_test);
    positive for the first class of a pair."""
    gaps: Vector
    """Largest relative gap of the pairs, shape (n_penalties, n_splits)."""
    steps: NDArray[np.int64]
    """Steps of all pairs, shape (n_penalties, n_splits)."""


class _Machines(NamedTuple):
    """Problems of a split and their answers."""

    split: Split
    of_pair: dict[int, tuple[Subset, SubsetPath]]


def order_of(codes: Indices, tests: Sequence[Indices]) -> Indices:
    """Return an order of the points: by class, then by the first split that tests them.

    The points of a class are consecutive, and its training points are two runs.
    """
    fold = np.full(len(codes), len(tests))
    for number, test in reversed(list(enumerate(tests))):
        fold[test] = number
    return np.lexsort((fold, codes))


def bytes_needed(m: int) -> int:
    """Return the memory that the search needs for m points."""
    return MATRICES_AT_ONCE * 8 * m * m


def search(
    grams: Sequence[Gram],
    codes: Indices,
    splits: Sequence[Split],
    penalties: Vector,
    tol: float,
    done: Callable[[int, Cells | None], None],
) -> None:
    """Solve all cells, kernel by kernel.

    Parameters
    ----------
    grams : sequence of Gram
        On the same points, in the order of `order_of`.
    codes : ndarray of int, shape (m,)
        Classes 0, ..., k - 1.
    splits : sequence of Split
    penalties : ndarray
        C, ascending.
    tol : float
        Relative gap of each problem.
    done : callable
        ``done(number, cells)`` for each kernel; None in place of the cells where its matrix is not
        positive semidefinite, so that no gap could be proved, or has entries beyond float32.

    Raises
    ------
    Expired
        If a limit is met: see `qpsvm.clock`.
    """
    k = int(codes.max()) + 1
    starts = np.searchsorted(codes, np.arange(k + 1))
    by_split = [_subsets(split, codes, k) for split in splits]
    problems = [
        (number, pair)
        for pair in range(len(pairs_of(k)))
        for number in range(len(splits))
        if by_split[number][pair] is not None
    ]
    subsets: list[Any] = [by_split[number][pair] for number, pair in problems]
    buffers = BufferPool()
    n_chunks = len(chunks_of([len(subset.y) for subset in subsets], neighbors=True))
    are_few = n_chunks < MIN_CHUNKS_PER_THREAD * processors()
    n_held = 2 if are_few and have_same_products(grams) else 1
    matrices = kernel_matrices(grams, n_held)
    for group in _groups(len(grams), n_held):
        solved: dict[int, KernelMatrix] = {}
        for number in group:
            matrix = next(matrices)
            if psd_defect(grams[number]) == 0.0 and fits_float32(np.diag(matrix.values)):
                solved[number] = matrix
            else:
                done(number, None)
        errors = [entry_error(grams[number]) for number in solved]
        paths = hinge_paths(list(solved.values()), subsets, penalties, tol, errors, buffers)
        for (number, matrix), of_matrix in zip(solved.items(), paths, strict=True):
            machines = [_Machines(split, {}) for split in splits]
            for (at, pair), subset, path in zip(problems, subsets, of_matrix, strict=True):
                machines[at].of_pair[pair] = subset, path
            done(number, _cells(matrix.values, machines, starts, penalties))


def _groups(n: int, size: int) -> list[range]:
    """Return groups of n numbers; the first may be smaller: narrow kernels, the last, take longest."""
    return [range(max(0, stop - size), stop) for stop in range(n % size or size, n + 1, size)]


def _subsets(split: Split, codes: Indices, k: int) -> list[Subset | None]:
    """Return the problem of each pair of classes; None where one of them is not in the training set."""
    own = codes[split.train]
    starts = np.searchsorted(own, np.arange(k + 1))
    if k == 2 and np.all(np.diff(starts) > 0) and is_read_in_place(len(own), len(codes)):
        weight = np.zeros(len(codes))
        weight[split.train] = split.weight
        return [Subset(np.arange(len(codes)), np.where(codes == 0, 1.0, -1.0), weight)]
    found: list[Subset | None] = []
    for i, j in pairs_of(k):
        first, second = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        n = first.stop - first.start, second.stop - second.start
        if not all(n):
            found.append(None)
            continue
        rows, weight = (np.concatenate([a[first], a[second]]) for a in (split.train, split.weight))
        found.append(Subset(rows, np.repeat([1.0, -1.0], n), weight))
    return found


def _cells(
    K: NDArray[np.float32], machines: Sequence[_Machines], starts: Indices, penalties: Vector
) -> Cells:
    """Return the values and gaps of one kernel."""
    values: list[Any] = [None] * len(machines)
    gaps = np.zeros((len(penalties), len(machines)))
    steps = np.zeros((len(penalties), len(machines)), np.int64)

    def predict(at: int) -> None:
        values[at] = _values(K, machines[at], starts, len(penalties))

    parallel_for(predict, list(range(len(machines))))
    for at, of_split in enumerate(machines):
        for _, path in of_split.of_pair.values():
            gaps[:, at] = np.maximum(gaps[:, at], _relative(path))
            steps[:, at] += path.n_steps
    return Cells(values, gaps, steps)


def _relative(path: SubsetPath) -> Vector:
    """Return the gap of each penalty relative to the larger bound."""
    size = np.maximum(np.abs(path.value), np.abs(path.value - path.gap))
    return np.divide(path.gap, size, out=np.zeros(len(size)), where=size > 0.0)


def _values(
    K: NDArray[np.float32], machines: _Machines, starts: Indices, n_penalties: int
) -> NDArray[np.float32]:
    """Return the values of all machines at the test points, shape (n_penalties, n_pairs, n_test)."""
    split, of_pair = machines
    k = len(starts) - 1
    rows, pairs = K[split.test], pairs_of(k)
    present = np.diff(np.searchsorted(split.train, starts)) > 0
    values = np.empty((n_penalties, len(pairs), len(rows)), np.float32)
    for number, (i, _) in enumerate(pairs):
        if number in of_pair:
            values[:, number] = of_pair[number][1].b[:, None]
        else:  # a class that the training set has not does not win
            values[:, number] = 1.0 if present[i] else -1.0
    for code in range(k):
        first, last = starts[code], starts[code + 1]
        own = [number for number, pair in enumerate(pairs) if code in pair and number in of_pair]
        if not own:
            continue
        coef = np.zeros((n_penalties, len(own), last - first), np.float32)
        for slot, number in enumerate(own):
            subset, path = of_pair[number]
            begin, end = np.searchsorted(subset.rows, [first, last])
            sign = subset.y[begin]
            coef[:, slot, subset.rows[begin:end] - first] = sign * path.x[:, begin:end]
        total = coef.reshape(-1, last - first) @ rows[:, first:last].T
        values[:, own] += total.reshape(n_penalties, len(own), -1)
    return values
