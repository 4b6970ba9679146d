"""Sums of kernel values in float64, for certificates and predictions.

Every entry costs an inner product and a map to the kernel value. Other costs are avoided: blocks stay in
cache from the product to the sum, their memory is reused, and an entry between two points of the support
is evaluated once and used for both. Inner products of integer points are exact in float32, which takes
half the time, and those of binary points take a tenth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.engine.formula import Formula
from qpsvm.gram.engine.tiles import add_both
from qpsvm.gram.storage.points import Points
from qpsvm.gram.storage.sparse_panels import numbered
from qpsvm.numerics.parallel import parallel_for, serial_for
from qpsvm.numerics.row_products import csr_row_squares

BLOCK_POINTS = 512
"""Support points of a block; half as many where the support is small, so that threads get equal work."""

MIN_SUPPORT_FOR_WHOLE_BLOCKS = 2048
"""Size of the support from which blocks have all of `BLOCK_POINTS`."""

PANEL_POINTS = 512
"""Other points of a panel, which is multiplied with the blocks: 2 MB of values."""

MAX_KEPT_COORDINATES = 1 << 24
"""Number of coordinates of the support up to which its prepared points are kept: 128 MB."""

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
Block = tuple[Points, Vector]  # points as they are multiplied, and their terms


def kernel_product(
    points: Callable[[Any], Points], m: int, formula: Formula, x: Vector, rows: Any = None
) -> Vector:
    """Return K x, or its entries `rows`.

    Parameters
    ----------
    points : callable
        ``points(rows)`` returns the points of indices or a slice, all stored alike: in float64, or in
        float32 or packed where all inner products are exact there.
    m : int
        Number of points.
    formula : Formula
    x : ndarray, shape (m,)
    rows : array_like of int, optional
    """
    support = np.flatnonzero(x != 0)
    size = BLOCK_POINTS if len(support) >= MIN_SUPPORT_FOR_WHOLE_BLOCKS else BLOCK_POINTS // 2
    wanted = np.ones(m, bool)
    if rows is not None:
        wanted[:] = False
        wanted[rows] = True
    within = bool(wanted[support].all())
    others = np.flatnonzero(wanted & (x == 0.0) if within else wanted)
    evaluate = _sparse_sums if sp.issparse(points(support[:1])) else _dense_sums
    on_support, elsewhere = evaluate(points, support, x[support], formula, size)
    out = np.zeros(m)
    if within:
        out[support] = _product_on_support(on_support, x[support], size)

    def panel(first: int) -> None:
        chosen = others[first : first + PANEL_POINTS]
        out[chosen] = elsewhere(chosen)

    parallel_for(panel, list(range(0, len(others), PANEL_POINTS)), with_blas=False)
    return out if rows is None else out[rows]


def _dense_sums(
    points: Callable[[Any], Points], support: Indices, x: Vector, formula: Formula, size: int
) -> tuple[Callable[..., None], Callable[[Indices], Vector]]:
    """Return functions that sum up kernel values: of two blocks of the support, and at other points."""
    blocks = _support_blocks(points, support, size, formula)

    def on_support(k: int, j: int, *sums: Vector) -> None:
        _add(*blocks(k), *blocks(j), formula, *sums)

    def elsewhere(chosen: Indices) -> Vector:
        return kernel_expansion(blocks, x, formula, points(chosen), size)

    return on_support, elsewhere


def _sparse_sums(
    points: Callable[[Any], Points], support: Indices, x: Vector, formula: Formula, size: int
) -> tuple[Callable[..., None], Callable[[Indices], Vector]]:
    """Do what `_dense_sums` does for CSR points: features are numbered once, and no row is copied."""
    every, rows = points(slice(None)), numbered(points(support))
    terms = terms_of(every, formula)
    a, factor, kernel_map = terms[support], formula.factor, formula.map

    def on_support(k: int, j: int, *sums: Any) -> None:
        at = slice(k * size, min(k * size + size, len(support)))
        part, chosen = rows.part(at.start, at.stop), support[j * size : (j + 1) * size]
        add = partial(add_both, rows=chosen)
        add(part, a[at], every, terms, factor, kernel_map, *sums)

    def elsewhere(chosen: Indices) -> Vector:
        total = np.zeros(len(chosen))
        add_both(rows, a, every, terms, factor, kernel_map, x, total, rows=chosen)
        return total

    return on_support, elsewhere


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
    panel : ndarray, csr_matrix or StoredPoints
        Stored as the x_j are.
    size : int
    """
    b = terms_of(panel, formula)
    total = np.zeros(len(b))

    def add(k: int) -> None:
        block, a = blocks(k)
        _add(block, a, panel, b, formula, coef[k * size : (k + 1) * size], total)

    serial_for(add, range(-(-len(coef) // size)))
    return total


def _add(block: Points, a: Vector, panel: Points, b: Vector, formula: Formula, *sums: Any) -> None:
    """Sum up the kernel values of a block with a panel, as `add_both` does."""
    add_both(block, a, panel, b, formula.factor, formula.map, *sums)


def prepared(points: Points, formula: Formula) -> Block:
    """Return points that are multiplied with many others, those of CSR numbered, and their terms."""
    rows = numbered(points) if sp.issparse(points) else points
    return rows, terms_of(points, formula)


def terms_of(points: Points, formula: Formula) -> Vector:
    """Return the terms of points in float64, by compiled code for CSR points."""
    norms = csr_row_squares(points) if formula.rate and sp.issparse(points) else None
    return formula.terms(points, norms)


def _support_blocks(
    points: Callable[[Indices], Points], support: Indices, size: int, formula: Formula
) -> Callable[[int], Block]:
    """Return a function of k: the k-th block of the support, and its terms."""

    def block(k: int) -> Block:
        return prepared(points(support[k * size : (k + 1) * size]), formula)

    fits = len(support) * points(support[:1]).shape[1] <= MAX_KEPT_COORDINATES
    return cache(block) if fits else block


def _product_on_support(add: Callable[..., None], x: Vector, size: int) -> Vector:
    """Return the entries of K x on the support, by the blocks on and above the diagonal.

    ``add(k, j, ...)`` sums up the kernel values of blocks k and j as `add_both` does.
    """
    out = np.zeros(len(x))
    columns = range(-(-len(x) // size))
    backward = [np.empty(0)] * len(columns)  # sums of a column of blocks for the rows above it

    def column(j: int) -> None:
        at_column = slice(j * size, min(j * size + size, len(x)))
        total, above = np.zeros(len(x[at_column])), np.zeros(j * size)

        def add_row(k: int) -> None:
            at_row = slice(k * size, k * size + size)
            mirrored = () if k == j else (x[at_column], above[at_row])
            add(k, j, x[at_row], total, *mirrored)

        serial_for(add_row, range(j + 1))
        out[at_column], backward[j] = total, above

    parallel_for(column, list(columns)[::-1], with_blas=False)  # the longest first
    for above in backward:
        out[: len(above)] += above
    return out
