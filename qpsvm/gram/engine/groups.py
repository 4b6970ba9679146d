"""Groups of the points of a Gram as the sweep over tiles reads them, for many small matrices.

The problems of pairs of classes need kernel values of the points of two groups: some rows in low
precision for steps, and sums in float64 for bounds. Both are computed from points that are gathered and
prepared once for each group.
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
from qpsvm.gram.engine.tiles import MAX_FEATURES_TO_SWEEP, sides_of_sweep
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.integer import norms_of
from qpsvm.gram.storage.points import products
from qpsvm.numerics.jit import vectorized

EXACT_DTYPE = np.dtype(np.float64)
"""The precision of sums."""

Indices = NDArray[np.int64]


class Side(NamedTuple):
    """Points of a group, as rows and as tiles of a sweep, and their terms."""

    few: NDArray[Any]  # (n rounded up to full groups of rows, n_words)
    a: NDArray[Any]  # their terms
    points: NDArray[Any]  # (n, n_words), C-ordered
    b: NDArray[Any]  # (n,)


class Sweep(NamedTuple):
    """The kernel values between two groups, as compiled code evaluates them."""

    first: Side
    second: Side
    factor: Any
    kernel_map: Any
    like: NDArray[np.floating]  # (2, 0), in the precision of the values


@vectorized
def gather_points(sweep: Sweep, chosen: Any, few: Any, a: Any) -> None:
    """Write points of both groups to `few`, and their terms to `a`; the last point fills the rest."""
    first, second = sweep.first, sweep.second
    n = len(first.b)
    for u in range(len(few)):
        k = chosen[min(u, len(chosen) - 1)]
        if k < n:
            a[u] = first.a[k]
            for j in range(few.shape[1]):
                few[u, j] = first.few[k, j]
        else:
            a[u] = second.a[k - n]
            for j in range(few.shape[1]):
                few[u, j] = second.few[k - n, j]


class PointGroups:
    """Groups of points of a Gram with a formula.

    Parameters
    ----------
    gram : PointGram
        See `are_available`.
    groups : list of ndarray of int
    """

    def __init__(self, gram: Gram, groups: list[Indices]) -> None:
        self._gram: Any = gram
        self._groups = groups
        self._sides: dict[tuple[int, np.dtype[Any]], Side] = {}
        self._factors: dict[np.dtype[Any], Any] = {}

    @staticmethod
    def are_available(gram: Gram) -> bool:
        """Return whether the values of a Gram are swept by tiles."""
        return (
            isinstance(gram, PointGram)
            and gram._formula is not None
            and not sp.issparse(gram._points)
        )

    @cached_property
    def _low(self) -> np.dtype[Any]:
        """The precision of rows: float32, unless the Gram says that it loses too many digits."""
        is_enough = self._gram.dtype == np.float32 or self._gram.low_precision() is not self._gram
        return np.dtype(np.float32 if is_enough else np.float64)

    @property
    def is_swept(self) -> bool:
        """Whether rows are computed as they are needed, not by products of whole groups."""
        points, formula = self._gram._points, self._gram._formula
        is_product = not isinstance(formula.map, L1Exponential)
        is_dense = isinstance(points, np.ndarray)
        return not (is_product and is_dense and points.shape[1] > MAX_FEATURES_TO_SWEEP)

    def prepare(self, number: int) -> None:
        """Prepare the points of a group, which `rows` and `sums` read."""
        for dtype in (self._low, EXACT_DTYPE):
            self._side(number, dtype)

    def rows(self, i: int, j: int) -> Sweep:
        """Return what evaluates rows of two groups, in low precision."""
        return self._sweep(i, j, self._low)

    def sums(self, i: int, j: int) -> Sweep:
        """Return what evaluates sums of kernel values of two groups, in float64."""
        return self._sweep(i, j, EXACT_DTYPE)

    def _sweep(self, i: int, j: int, dtype: np.dtype[Any]) -> Sweep:
        first, second = self._side(i, dtype), self._side(j, dtype)
        kernel_map = self._gram._formula.map
        return Sweep(first, second, self._factors[dtype], kernel_map, np.empty((2, 0), dtype))

    def write(self, i: int, j: int, out: NDArray[np.float32]) -> None:
        """Write k(group i, group j), shape (n_i, n_j), in low precision, in this thread."""
        points, others = self._side(i, self._low), self._side(j, self._low)
        K = out if self._low == out.dtype else np.empty(out.shape, self._low)
        pair = points.points, points.points if i == j else others.points
        if points.points.dtype == K.dtype:
            products(*pair, K)
        else:  # integers
            K[:] = products(*pair)
        map_block(K, self._factors[self._low], self._gram._formula.map, points.b, others.b)
        if K is not out:
            out[:] = K

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
