"""Sums of kernel values in float64, for certificates and predictions.

Every entry costs an inner product and a map to the kernel value. Other costs are avoided: blocks stay in
cache from the product to the sum, their memory is reused, and an entry between two points of the support
is evaluated once and used for both. Inner products of integer points are exact in float32, which takes
half the time, and those of binary points take a tenth.
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
"""Support points of a block; half as many where the support is small, so that threads get equal work."""

MIN_SUPPORT_FOR_WHOLE_BLOCKS = 2048
"""Size of the support from which blocks have all of `BLOCK_POINTS`."""

PANEL_POINTS = 512
"""Other points of a panel, which is multiplied with the blocks: 2 MB of values."""

MAX_KEPT_COORDINATES = 1 << 24
"""Number of coordinates of the support up to which prepared blocks are kept: 128 MB."""

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
Block = tuple[Points, Vector]  # points as they are multiplied, and their terms


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
    blocks = _support_blocks(points, support, size, formula)
    wanted = np.ones(m, bool)
    if rows is not None:
        wanted[:] = False
        wanted[rows] = True
    out = np.zeros(m)
    if wanted[support].all():
        out[support] = _product_on_support(blocks, support, x[support], formula, size)
        wanted[support] = False
    others = np.flatnonzero(wanted)

    def panel(first: int) -> None:
        chosen = others[first : first + PANEL_POINTS]
        out[chosen] = kernel_expansion(blocks, x[support], formula, points(chosen), size)

    parallel_for(panel, list(range(0, len(others), PANEL_POINTS)))
    return out if rows is None else out[rows]


def kernel_expansion(
    blocks: Callable[[int], Block], coef: Vector, formula: Formula, panel: Points, size: int
) -> Vector:
    """Return sum_j coef_j k(x_j, z) for the points z of a panel, in this thread.

    Parameters
    ----------
    blocks : callable
        ``blocks(k)`` returns the k-th `size` points x_j, and their terms.
    coef : ndarray
    formula : Formula
    panel : ndarray, csr_matrix, PackedBits or ByteGrid
    size : int
    """
    panel, b = prepared(panel, formula)
    total = np.zeros(len(b))
    for k, at in enumerate(range(0, len(coef), size)):
        poll()
        block, a = blocks(k)
        _add(block, a, panel, b, formula, coef[at : at + size], total)
    return total


def _add(
    block: Points, a: Vector, panel: Points, b: Vector, formula: Formula, *sums: Vector
) -> None:
    """Sum up the kernel values of a block with a panel, as `sum_products` does."""
    factor, kernel_map = formula.factor, formula.map
    if not (sp.issparse(block) or sp.issparse(panel)):
        return add_both(block, a, panel, b, factor, kernel_map, *sums)
    with scratch(len(a) * len(b), panel.dtype) as memory:
        K = products(block, panel, memory.reshape(len(a), len(b)))
        sum_products(K, factor, kernel_map, a, b, *sums)


def prepared(points: Points, formula: Formula) -> Block:
    """Return points as they are multiplied and their terms; CSR points of few features become dense."""
    if sp.issparse(points) and points.shape[1] <= MAX_DENSE_FEATURES:
        points = points.toarray()
    return points, formula.terms(points)


def _support_blocks(
    points: Callable[[Indices], Points], support: Indices, size: int, formula: Formula
) -> Callable[[int], Block]:
    """Return a function of k: the k-th block of the support, dense or packed, and its terms."""

    def block(k: int) -> Block:
        members = points(support[k * size : (k + 1) * size])
        return prepared(members.toarray() if sp.issparse(members) else members, formula)

    if not len(support) or len(support) * points(support[:1]).shape[1] > MAX_KEPT_COORDINATES:
        return block
    kept = [block(k) for k in range(-(-len(support) // size))]
    return kept.__getitem__


def _product_on_support(
    blocks: Callable[[int], Block], support: Indices, x: Vector, formula: Formula, size: int
) -> Vector:
    """Return the entries of K x on the support, by the blocks on and above the diagonal."""
    out = np.zeros(len(support))
    columns = range(-(-len(support) // size))
    backward = [np.empty(0)] * len(columns)  # sums of a column of blocks for the rows above it

    def column(j: int) -> None:
        points, b = blocks(j)
        at_column = slice(j * size, j * size + len(b))
        total, above = np.zeros(len(b)), np.zeros(j * size)
        for k in range(j + 1):
            poll()
            block, a = blocks(k)
            at_row = slice(k * size, k * size + len(a))
            mirrored = () if k == j else (x[at_column], above[at_row])
            _add(block, a, points, b, formula, x[at_row], total, *mirrored)
        out[at_column], backward[j] = total, above

    parallel_for(column, list(columns)[::-1])  # the longest first
    for above in backward:
        out[: len(above)] += above
    return out
