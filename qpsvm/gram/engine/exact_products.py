"""Sums of kernel values in float64: what a certificate and a prediction are made of.

Every entry costs an inner product and a map to the kernel value, whatever is done. Beyond that nothing
should be paid for: blocks stay in cache from the product to the sum, their memory is used again, and an
entry between two points of the support is evaluated once and used for both. Inner products of whole
multiples of a unit are exact in float32, where they take half the time, and those of binary points a
tenth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.clock import poll
from qpsvm.gram.engine.formula import Formula
from qpsvm.gram.engine.sweep import sum_products
from qpsvm.gram.engine.tiles import add_both
from qpsvm.gram.storage.points import MAX_DENSE_FEATURES, Points, products
from qpsvm.numerics.parallel import parallel_for, scratch

BLOCK_POINTS = 512
"""Support points of a block; half as many where the support is small, for threads to share out."""

MIN_SUPPORT_FOR_WHOLE_BLOCKS = 2048

PANEL_POINTS = 512
"""Other points of a block: 2 MB of values."""

MAX_KEPT_COORDINATES = 1 << 24
"""Coordinates of the support that are kept as they are multiplied: 128 MB."""

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
Part = tuple[Points, Vector]  # points as they are multiplied, and their terms


def kernel_product(
    points: Callable[[Indices], Points], m: int, formula: Formula, x: Vector, rows: Any = None
) -> Vector:
    """Return K x, or its entries `rows`.

    Parameters
    ----------
    points : callable
        ``points(indices)`` returns these points: in float64, or in float32 or packed where all inner
        products are exact there.
    m : int
        Number of points.
    formula : Formula
    x : ndarray, shape (m,)
    rows : array_like of int, optional
    """
    support = np.flatnonzero(x != 0)
    size = BLOCK_POINTS if len(support) >= MIN_SUPPORT_FOR_WHOLE_BLOCKS else BLOCK_POINTS // 2
    parts = _parts(points, support, size, formula)
    wanted = np.ones(m, bool)
    if rows is not None:
        wanted[:] = False
        wanted[rows] = True
    out = np.zeros(m)
    if wanted[support].all():
        out[support] = _inside(parts, support, x[support], formula, size)
        wanted[support] = False
    others = np.flatnonzero(wanted)

    def panel(first: int) -> None:
        chosen = others[first : first + PANEL_POINTS]
        out[chosen] = kernel_expansion(parts, x[support], formula, points(chosen), size)

    parallel_for(panel, list(range(0, len(others), PANEL_POINTS)))
    return out if rows is None else out[rows]


def kernel_expansion(
    parts: Callable[[int], Part], coef: Vector, formula: Formula, some: Points, size: int
) -> Vector:
    """Return sum_j coef_j k(x_j, z) for the points z of `some`, in this thread.

    Parameters
    ----------
    parts : callable
        ``parts(k)`` returns the k-th `size` points x_j, and their terms.
    coef : ndarray
    formula : Formula
    some : ndarray, csr_matrix or Bits
    size : int
    """
    some, b = prepared(some, formula)
    total = np.zeros(len(b))
    for k, at in enumerate(range(0, len(coef), size)):
        poll()
        few, a = parts(k)
        _add(few, a, some, b, formula, coef[at : at + size], total)
    return total


def _add(few: Points, a: Vector, some: Points, b: Vector, formula: Formula, *sums: Vector) -> None:
    """Sum up the kernel values of a block, as `sum_products` does."""
    factor, kernel_map = formula.factor, formula.map
    if not (sp.issparse(few) or sp.issparse(some)):
        return add_both(few, a, some, b, factor, kernel_map, *sums)
    with scratch(len(a) * len(b), some.dtype) as room:
        K = products(few, some, room.reshape(len(a), len(b)))
        sum_products(K, factor, kernel_map, a, b, *sums)


def prepared(some: Points, formula: Formula) -> Part:
    """Return points as they are multiplied, dense ones if their features are few, and their terms."""
    if sp.issparse(some) and some.shape[1] <= MAX_DENSE_FEATURES:
        some = some.toarray()
    return some, formula.terms(some)


def _parts(
    points: Callable[[Indices], Points], support: Indices, size: int, formula: Formula
) -> Callable[[int], Part]:
    """Return what gives the k-th part of the support, dense or packed, and its terms."""

    def part(k: int) -> Part:
        few = points(support[k * size : (k + 1) * size])
        return prepared(few.toarray() if sp.issparse(few) else few, formula)

    if not len(support) or len(support) * points(support[:1]).shape[1] > MAX_KEPT_COORDINATES:
        return part
    kept = [part(k) for k in range(-(-len(support) // size))]
    return kept.__getitem__


def _inside(
    parts: Callable[[int], Part], support: Indices, x: Vector, formula: Formula, size: int
) -> Vector:
    """Return the entries of K x on the support, by the blocks on and above the diagonal."""
    out = np.zeros(len(support))
    columns = range(-(-len(support) // size))
    backward = [np.empty(0)] * len(columns)  # what a column of blocks adds to the rows above it

    def column(j: int) -> None:
        some, b = parts(j)
        here = slice(j * size, j * size + len(b))
        total, above = np.zeros(len(b)), np.zeros(j * size)
        for k in range(j + 1):
            poll()
            few, a = parts(k)
            there = slice(k * size, k * size + len(a))
            both = () if k == j else (x[here], above[there])
            _add(few, a, some, b, formula, x[there], total, *both)
        out[here], backward[j] = total, above

    parallel_for(column, list(columns)[::-1])  # the longest first
    for above in backward:
        out[: len(above)] += above
    return out
