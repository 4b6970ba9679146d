"""Groups of the points of a Gram as the sweep over tiles reads them, for many small matrices.

The problems of pairs of classes need kernel values of the points of two groups: a block in low precision
for steps, and sums in float64 for bounds. Both are computed from points that are gathered and prepared
once for each group.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.engine.formula import L1Exponential
from qpsvm.gram.engine.sweep import map_block
from qpsvm.gram.engine.tiles import (
    MAX_FEATURES_TO_SWEEP,
    add_sides,
    fill_sides,
    grouped,
    sides_of_sweep,
)
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.integer import norms_of
from qpsvm.gram.storage.points import products

EXACT_DTYPE = np.dtype(np.float64)
"""The precision of sums."""

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]


class Side(NamedTuple):
    """Points of a group, as rows and as tiles of a sweep, and their terms."""

    few: NDArray[Any]  # the points as rows, (n rounded up to full groups of rows, n_words)
    a: NDArray[Any]  # terms of `few`, of the same length
    points: NDArray[Any]  # the points as tiles, (n, n_words), C-ordered
    b: NDArray[Any]  # terms of `points`, (n,)


class PointGroups:
    """Groups of points of a Gram with a formula.

    Parameters
    ----------
    gram : PointGram
        See `are_available`.
    groups : list of ndarray of int
        Indices of the points of each group.
    """

    def __init__(self, gram: Gram, groups: list[Indices]) -> None:
        self._gram: Any = gram
        self._groups = groups
        self._sides: dict[tuple[int, np.dtype[Any]], Side] = {}
        self._factors: dict[np.dtype[Any], Any] = {}

    @staticmethod
    def are_available(gram: Gram) -> bool:
        """Return whether a Gram has a formula, and points that a sweep reads by groups."""
        return (
            isinstance(gram, PointGram)
            and gram._formula is not None
            and not sp.issparse(gram._points)
        )

    @cached_property
    def _low(self) -> np.dtype[Any]:
        """The precision of rows: float32, unless `low_precision` of the Gram keeps float64."""
        is_enough = self._gram.dtype == np.float32 or self._gram.low_precision() is not self._gram
        return np.dtype(np.float32 if is_enough else np.float64)

    @cached_property
    def _is_swept(self) -> bool:
        """Whether blocks are swept by tiles, not computed by BLAS."""
        points, formula = self._gram._points, self._gram._formula
        is_product = not isinstance(formula.map, L1Exponential)
        is_dense = isinstance(points, np.ndarray)
        return not (is_product and is_dense and points.shape[1] > MAX_FEATURES_TO_SWEEP)

    def prepare(self, number: int) -> None:
        """Prepare the points of a group, which `write` and `sums` read."""
        for dtype in (self._low, EXACT_DTYPE):
            self._side(number, dtype)

    def write(self, i: int, j: int, out: NDArray[np.float32]) -> None:
        """Write k(group i, group j), shape (n_i, n_j), in low precision, in this thread."""
        some, others = self._side(i, self._low), self._side(j, self._low)
        factor, kernel_map = self._factors[self._low], self._gram._formula.map
        K = out if self._low == out.dtype else np.empty(out.shape, self._low)
        if self._is_swept:
            sides = some.few, some.a, others.points, False, others.b
            fill_sides(sides, factor, kernel_map, None, K, np.arange(len(K)), alone=True)
        else:
            products(some.points, some.points if i == j else others.points, K)
            map_block(K, factor, kernel_map, some.b, others.b)
        if K is not out:
            out[:] = K

    def sums(self, i: int, j: int, u: Vector, s: Vector) -> None:
        """Write Ku to s, shapes (n_i + n_j,), K the matrix of both groups in float64, in this thread."""
        first, second = self._side(i, EXACT_DTYPE), self._side(j, EXACT_DTYPE)
        n = len(first.b)
        rows, others = np.flatnonzero(u[:n]), np.flatnonzero(u[n:])
        s[:] = 0.0
        if len(rows) + len(others) == 0:
            return
        few = grouped(np.concatenate([first.few[rows], second.few[others]]))
        a = grouped(np.concatenate([first.a[rows], second.a[others]]))
        some = few, a, u[u != 0.0]
        self._add(some, first, s[:n])
        self._add(some, second, s[n:])

    def _add(self, some: Any, side: Side, out: Vector) -> None:
        """Add sums of kernel values of some points, their terms and weights given, at those of a side."""
        few, a, x = some
        sides, factor = (few, a, side.points, False, side.b), self._factors[EXACT_DTYPE]
        add_sides(sides, factor, self._gram._formula.map, x, out)

    def _side(self, number: int, dtype: np.dtype[Any]) -> Side:
        if (number, dtype) not in self._sides:
            formula = self._gram._formula
            points = self._gram._multiplied(self._groups[number], dtype)
            terms = formula.terms(points, norms_of(points)).astype(dtype)
            (few, a, stored, _, b), factor = sides_of_sweep(
                points, terms, points, terms, formula.factor
            )
            self._factors[dtype] = factor
            self._sides[number, dtype] = Side(few, a, stored, b)
        return self._sides[number, dtype]
