"""Values of sum_j coef_j k(x, x_j) at many new points x, for predictions.

New points are divided into panels, which threads share, and the x_j into blocks. The kernel values of a
block with a panel are summed in float64 while they are in cache: the memory does not grow with the number
of points. A linear kernel needs no values: sum_j coef_j x_j is a vector. The precision of the products is
that of the points that the user gave to the Gram.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.engine.exact_products import (
    BLOCK_POINTS,
    kernel_expansion,
    prepared,
    terms_of,
)
from qpsvm.gram.engine.formula import Formula
from qpsvm.gram.engine.sweep import map_block
from qpsvm.gram.engine.tiles import MAX_FEATURES_TO_SWEEP, fill_between
from qpsvm.gram.storage.csr import stored_alike
from qpsvm.gram.storage.points import Points, products
from qpsvm.numerics.parallel import parallel_for, scratch

PANEL_POINTS = 512
"""Number of new points of a panel."""

BLOCK_POINTS_OF_SEVERAL = PANEL_POINTS_OF_SEVERAL = 256
"""Number of points of a block, and of a panel, of several expansions: half a MB of values."""

Vector = NDArray[np.float64]


def kernel_combination(gram: Any, indices: NDArray[np.int64], coef: Vector, new: Points) -> Vector:
    """Return the values of an expansion at new points, panel by panel, shape (n,).

    If the Gram multiplies its points as integer multiples of a quantum, panels of new points that are
    such multiples are multiplied in the same way. Of several expansions over the same points each kernel
    value is evaluated once, from the points as they were given; the kernel is a function of inner
    products then, and the result has shape (n, p).

    Parameters
    ----------
    gram : PointGram
    indices : ndarray of int, shape (k,)
    coef : ndarray, shape (k,) or (k, p)
    new : ndarray or csr_matrix, shape (n, d)
    """
    if coef.ndim == 2:
        return np.ascontiguousarray(kernel_combinations(gram, [(indices, coef)], new).T)
    out = np.empty(new.shape[0])

    def sum_panel(at: slice, formula: Formula, blocks: list[Any], points: Points) -> None:
        out[at] = kernel_expansion(blocks.__getitem__, coef, formula, points, BLOCK_POINTS)

    starts = range(0, len(indices), BLOCK_POINTS)
    chunks = [indices[at : at + BLOCK_POINTS] for at in starts]
    _for_each_panel(gram, chunks, new, PANEL_POINTS, sum_panel)
    return out


def kernel_combinations(gram: Any, groups: list[tuple[Any, Vector]], new: Points) -> Vector:
    """Return the values of several expansions over each of some groups of points.

    Each kernel value is evaluated once. Those of a block with a panel are multiplied by all coefficients
    while they are in cache.

    Parameters
    ----------
    gram : PointGram
        Its kernel is a function of inner products.
    groups : list of (indices, coef)
        Points, shape (k,), and coefficients, shape (k, p), of a group.
    new : ndarray or csr_matrix, shape (n, d)

    Returns
    -------
    ndarray, shape (total of p, n)
        The expansions of the first group, then those of the second.
    """
    chunks, parts, row = [], [], 0
    for indices, coef in groups:
        for at in range(0, len(indices), BLOCK_POINTS_OF_SEVERAL):
            some = slice(at, at + BLOCK_POINTS_OF_SEVERAL)
            chunks.append(indices[some])
            parts.append((slice(row, row + coef.shape[1]), np.ascontiguousarray(coef[some].T)))
        row += coef.shape[1]
    out = np.zeros((row, new.shape[0]))

    def sum_panel(at: slice, formula: Formula, blocks: list[Any], panel: Points) -> None:
        b, dtype = terms_of(panel, formula), panel.dtype if sp.issparse(panel) else gram.dtype
        total = np.zeros((row, len(b)))
        for (points, a), (rows, coef) in zip(blocks, parts, strict=True):
            with scratch(len(a) * len(b), dtype) as memory:
                K = _values(points, a, panel, b, formula, memory.reshape(len(a), len(b)))
                total[rows] += coef @ K
        out[:, at] = total

    _for_each_panel(gram, chunks, new, PANEL_POINTS_OF_SEVERAL, sum_panel)
    return out


def _values(
    points: Any, a: Vector, panel: Points, b: Vector, formula: Formula, K: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Return the kernel values of prepared points with a panel, written to K."""
    is_dense = isinstance(panel, np.ndarray)
    if not is_dense or panel.shape[1] <= MAX_FEATURES_TO_SWEEP:
        fill_between(points, a, panel, b, formula, K, alone=True)
        return K
    if points.dtype == panel.dtype == K.dtype:
        products(points, panel, K)
    else:  # integers, whose products are exact in float32
        K[:] = products(points, panel)
    map_block(K, formula.factor, formula.map, a, b)
    return K


def _for_each_panel(
    gram: Any,
    chunks: list[NDArray[np.int64]],
    new: Points,
    size: int,
    task: Callable[[slice, Formula, list[Any], Points], None],
) -> None:
    """Call ``task(at, formula, blocks, points)`` for each panel of new points, in parallel.

    `blocks` holds the points of each chunk as they are multiplied, and their terms.
    """
    unit, sparse, mean = gram._unit, gram._is_sparse, gram._mean

    def moved(points: Points) -> Points:
        points = stored_alike(points, sparse)
        if np.any(mean):  # from both sides: fewer digits are lost
            points = points - mean
        if gram._scale != 1.0:
            points = points * gram._scale
        return points.astype(gram.dtype, copy=False)

    formula_of_moved = gram._formula if gram._unit is None else gram._formula_of_points

    @cache
    def blocks(are_multiples: bool) -> list[Any]:
        if are_multiples:
            points = (stored_alike(gram._multiplied(chunk, None), sparse) for chunk in chunks)
            return [prepared(part, gram._formula) for part in points]
        return [prepared(moved(gram.X[chunk]), formula_of_moved) for chunk in chunks]

    def panel(first: int) -> None:
        given = new[first : first + size]
        multiples = None if unit is None else unit.multiples(given)
        formula = formula_of_moved if multiples is None else gram._formula
        points = moved(given) if multiples is None else stored_alike(multiples, sparse)
        at = slice(first, first + points.shape[0])
        task(at, formula, blocks(multiples is not None), points)

    blocks(unit is not None)
    parallel_for(panel, list(range(0, new.shape[0], size)))
