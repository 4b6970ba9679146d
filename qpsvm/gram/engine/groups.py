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
from qpsvm.gram.engine.tiles import _sides
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.integer import norms_of
from qpsvm.gram.storage.points import products

MAX_FEATURES_TO_SWEEP = 64
"""Number of features of a dense point up to which its kernel values are swept by tiles as they are
needed; with more, products of whole groups by BLAS take less time."""

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


class PointGroups:
    """Groups of points of a Gram with a formula.

    Parameters
    ----------
    gram : PointGram
        See `are_available`.
    groups : list of ndarray of int
    """

    def __init__(self, gram: Gram, groups: list[Indices]) -> None:
        self._gram, self._groups = gram, groups
        self._exact: dict[int, Side] = {}
        self._low: dict[int, Side] = {}
        self._factors: dict[str, Any] = {}

    @staticmethod
    def are_available(gram: Gram) -> bool:
        """Return whether the values of a Gram are swept by tiles."""
        return (
            isinstance(gram, PointGram)
            and gram._formula is not None
            and not sp.issparse(gram._points)
        )

    @cached_property
    def _rough(self) -> Any:
        """The Gram of lower precision."""
        low = self._gram.low_precision()
        return low if self.are_available(low) else self._gram

    @property
    def is_swept(self) -> bool:
        """Whether rows are computed as they are needed, not by products of whole groups."""
        points = self._rough._points
        is_product = not isinstance(self._rough._formula.map, L1Exponential)
        return not (
            is_product
            and isinstance(points, np.ndarray)
            and points.shape[1] > MAX_FEATURES_TO_SWEEP
        )

    def prepare(self, number: int) -> None:
        """Prepare the points of a group, which `rows` and `sums` read."""
        self._side(self._rough, self._low, number, self._rough.dtype)
        self._side(self._gram, self._exact, number, np.dtype(np.float64))

    def rows(self, i: int, j: int) -> Sweep:
        """Return what evaluates rows of two groups, in low precision."""
        low = self._rough
        first, second = (self._side(low, self._low, k, low.dtype) for k in (i, j))
        like = np.empty((2, 0), low.dtype)
        return Sweep(first, second, self._factors["low"], low._formula.map, like)

    def sums(self, i: int, j: int) -> Sweep:
        """Return what evaluates sums of kernel values of two groups, in float64."""
        gram: Any = self._gram
        first, second = (self._side(gram, self._exact, k, np.dtype(np.float64)) for k in (i, j))
        return Sweep(first, second, self._factors["exact"], gram._formula.map, np.empty((2, 0)))

    def write(self, i: int, j: int, out: NDArray[np.float32]) -> None:
        """Write k(group i, group j), shape (n_i, n_j), in low precision, in this thread."""
        low = self._rough
        points, others = (self._side(low, self._low, k, low.dtype) for k in (i, j))
        K = out if low.dtype == out.dtype else np.empty(out.shape, low.dtype)
        products(points.points, points.points if i == j else others.points, K)
        map_block(K, self._factors["low"], low._formula.map, points.b, others.b)
        if K is not out:
            out[:] = K

    def _side(self, gram: Any, known: dict[int, Side], number: int, dtype: np.dtype[Any]) -> Side:
        if number not in known:
            formula, rows = gram._formula, self._groups[number]
            points = gram._multiplied(rows, dtype)
            terms = formula.terms(points, norms_of(points)).astype(dtype)
            (few, a, held, _, b), factor = _sides(points, terms, points, terms, formula.factor)
            known[number] = Side(few, a, held, b)
            self._factors["exact" if known is self._exact else "low"] = factor
        return known[number]
