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

from qpsvm.estimators.samples import Vector
from qpsvm.estimators.votes import pairs_of
from qpsvm.gram import Gram
from qpsvm.gram.engine.matrices import entry_error, kernel_matrices
from qpsvm.gram.psd import psd_defect
from qpsvm.numerics.parallel import BufferPool, parallel_for
from qpsvm.solvers.working_set.matrix_paths import Subset, SubsetPath, hinge_paths

Indices = NDArray[np.int64]

MATRICES_AT_ONCE = 3
"""Matrices of all points that are in memory at a time: products, kernel values, and parts of them."""


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
    """For each split the values of all pairs at its test points, shape (n_test, n_pairs, n_penalties);
    positive for the first class of a pair."""
    gaps: Vector
    """Largest relative gap of the pairs, shape (n_penalties, n_splits)."""
    steps: NDArray[np.int64]
    """Steps of all pairs, shape (n_penalties, n_splits)."""


class _Part(NamedTuple):
    """Consecutive training points of one class."""

    start: int
    stop: int
    code: int


def order_of(codes: Indices, tests: Sequence[Indices]) -> Indices:
    """Return an order of the points: by the first split that tests them, then by class.

    The test points of a fold, and the points of a class in it, are then runs of consecutive rows.
    """
    fold = np.full(len(codes), len(tests))
    for number, test in reversed(list(enumerate(tests))):
        fold[test] = number
    return np.lexsort((codes, fold))


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
        positive semidefinite, so that no gap could be proved.

    Raises
    ------
    Expired
        If a limit is met: see `qpsvm.clock`.
    """
    k = int(codes.max()) + 1
    parts = [_parts(split.train, codes) for split in splits]
    problems = [
        (number, pair, subset)
        for number, split in enumerate(splits)
        for pair, subset in enumerate(_subsets(parts[number], split, codes, k))
        if subset is not None
    ]
    subsets, buffers = [subset for _, _, subset in problems], BufferPool()
    by_pair = {(at, pair): subset for at, pair, subset in problems}
    for number, (gram, K) in enumerate(zip(grams, kernel_matrices(grams), strict=True)):
        if psd_defect(gram) > 0.0:
            done(number, None)
            continue
        paths = hinge_paths(K, subsets, penalties, tol, entry_error(gram), buffers)
        by_split: list[dict[int, SubsetPath]] = [{} for _ in splits]
        for (at, pair, _), path in zip(problems, paths, strict=True):
            by_split[at][pair] = path
        done(number, _cells(K, splits, parts, by_split, by_pair, k, penalties))


def _parts(train: Indices, codes: Indices) -> list[_Part]:
    """Return the training points as runs of consecutive rows of one class."""
    of_train = codes[train]
    ends = np.flatnonzero((np.diff(train) != 1) | (np.diff(of_train) != 0))
    first = np.concatenate([[0], ends + 1])
    last = np.concatenate([ends, [len(train) - 1]])
    return [
        _Part(int(train[a]), int(train[b]) + 1, int(of_train[a]))
        for a, b in zip(first, last, strict=True)
    ]


def _subsets(parts: list[_Part], split: Split, codes: Indices, k: int) -> list[Subset | None]:
    """Return the problem of each pair of classes; None where one of them is not in the training set."""
    weight = np.zeros(len(codes))
    weight[split.train] = split.weight
    present = {part.code for part in parts}
    found: list[Subset | None] = []
    for i, j in pairs_of(k):
        if not {i, j} <= present:
            found.append(None)
            continue
        own = [part for part in parts if part.code in (i, j)]
        runs = np.array([(part.start, part.stop) for part in own], dtype=np.int64)
        lengths = runs[:, 1] - runs[:, 0]
        y = np.repeat([1.0 if part.code == i else -1.0 for part in own], lengths)
        some = np.concatenate([weight[part.start : part.stop] for part in own])
        found.append(Subset(runs, y, some))
    return found


def _cells(
    K: NDArray[np.float64],
    splits: Sequence[Split],
    parts: list[list[_Part]],
    paths: list[dict[int, SubsetPath]],
    subsets: dict[tuple[int, int], Subset],
    k: int,
    penalties: Vector,
) -> Cells:
    """Return the values and gaps of one kernel."""
    values: list[Any] = [None] * len(splits)
    gaps = np.zeros((len(penalties), len(splits)))
    steps = np.zeros((len(penalties), len(splits)), np.int64)

    def predict(at: int) -> None:
        values[at] = _values(K, splits[at], parts[at], paths[at], subsets, at, k, len(penalties))

    parallel_for(predict, list(range(len(splits))))
    for at, of_split in enumerate(paths):
        for path in of_split.values():
            gaps[:, at] = np.maximum(gaps[:, at], _relative(path))
            steps[:, at] += path.n_steps
    return Cells(values, gaps, steps)


def _relative(path: SubsetPath) -> Vector:
    """Return the gap of each penalty relative to the larger bound."""
    size = np.maximum(np.abs(path.value), np.abs(path.value - path.gap))
    return np.divide(path.gap, size, out=np.zeros(len(size)), where=size > 0.0)


def _values(
    K: NDArray[np.float64],
    split: Split,
    parts: list[_Part],
    paths: dict[int, SubsetPath],
    subsets: dict[tuple[int, int], Subset],
    at: int,
    k: int,
    n_penalties: int,
) -> Vector:
    """Return the values of all machines at the test points, shape (n_test, n_pairs, n_penalties)."""
    test, pairs = split.test, pairs_of(k)
    is_run = len(test) > 0 and int(test[-1]) - int(test[0]) == len(test) - 1
    rows = K[test[0] : test[-1] + 1] if is_run else K[test]
    values = np.zeros((len(test), len(pairs), n_penalties))
    for number, (i, _) in enumerate(pairs):
        if number in paths:
            values[:, number] = paths[number].b
        else:  # a class that the training set has not does not win
            values[:, number] = 1.0 if any(part.code == i for part in parts) else -1.0
    for code in range(k):
        own = [part for part in parts if part.code == code]
        machines = [number for number, pair in enumerate(pairs) if code in pair and number in paths]
        if not machines:
            continue
        n = sum(part.stop - part.start for part in own)
        coef = np.empty((n, len(machines), n_penalties))
        for slot, number in enumerate(machines):
            y = subsets[at, number].y
            sign = 1.0 if pairs[number][0] == code else -1.0
            coef[:, slot] = sign * paths[number].x[:, y == sign].T
        flat, start = coef.reshape(n, -1), 0
        total = np.zeros((len(test), flat.shape[1]))
        for part in own:
            stop = start + part.stop - part.start
            total += rows[:, part.start : part.stop] @ flat[start:stop]
            start = stop
        values[:, machines] += total.reshape(len(test), len(machines), n_penalties)
    return values
