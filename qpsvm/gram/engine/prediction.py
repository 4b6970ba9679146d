"""Values of sum_j coef_j k(x, x_j) at many new points x: what prediction costs.

Points are taken in panels of rows, which threads share, and the x_j in blocks. A block of both is swept
once and summed in float64 while it is in cache, so that the memory does not grow with the number of
points. A linear kernel needs no values at all: sum_j coef_j x_j is a vector. The precision of the
products is that of the points that the Gram was made of.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.engine.blocks import values_of_products
from qpsvm.gram.engine.exact_products import BLOCK_POINTS, kernel_expansion, prepared
from qpsvm.gram.engine.formula import Formula
from qpsvm.gram.storage.points import MAX_DENSE_FEATURES, Points, products
from qpsvm.numerics.parallel import parallel_for, scratch

PANEL_POINTS = 512
"""New points of a block."""

Vector = NDArray[np.float64]


def kernel_combination(gram: Any, indices: NDArray[np.int64], coef: Vector, new: Points) -> Vector:
    """Return the values of an expansion at new points, panel by panel, shape (n,).

    Where the points of the Gram are multiplied as whole multiples of a quantum, so are panels of new
    points that allow it. Of several expansions over the same points, shape (n, p), each kernel value is
    evaluated once, from the points as they were given; the kernel is a function of inner products then.

    Parameters
    ----------
    gram : PointGram
    indices : ndarray of int, shape (k,)
    coef : ndarray, shape (k,) or (k, p)
    new : ndarray or csr_matrix, shape (n, d)
    """
    several = coef.ndim == 2
    unit = None if several else gram._unit
    dense = new.shape[1] <= MAX_DENSE_FEATURES or not sp.issparse(new)
    mean = gram._mean if dense else 0.0  # moved by it, both sides lose fewer digits

    def moved(some: Points) -> Points:
        if dense and sp.issparse(some) and new.shape[1] <= MAX_DENSE_FEATURES:
            some = some.toarray()
        if not sp.issparse(some) and np.any(mean):
            some = some - mean
        if gram._scale != 1.0:
            some = some * gram._scale
        return some.astype(gram.dtype, copy=False)

    formula_of_moved = gram._formula if gram._unit is None else gram._formula_of_points

    @cache
    def blocks(multiples: bool) -> list[Any]:
        chunks = [indices[at : at + BLOCK_POINTS] for at in range(0, len(indices), BLOCK_POINTS)]
        if multiples:
            return [prepared(gram._multiplied(chunk, None), gram._formula) for chunk in chunks]
        return [prepared(moved(gram.X[chunk]), formula_of_moved) for chunk in chunks]

    out = np.empty((new.shape[0], *coef.shape[1:]))

    def panel(first: int) -> None:
        given = new[first : first + PANEL_POINTS]
        some = None if unit is None else unit.multiples(given)
        few = blocks(some is not None)
        formula = formula_of_moved if some is None else gram._formula
        some = moved(given) if some is None else some
        if several:
            out[first : first + PANEL_POINTS] = _expansions(few, coef, formula, some)
            return
        out[first : first + PANEL_POINTS] = kernel_expansion(
            few.__getitem__, coef, formula, some, BLOCK_POINTS
        )

    blocks(unit is not None)
    parallel_for(panel, list(range(0, new.shape[0], PANEL_POINTS)))
    return out


def _expansions(few: list[Any], coef: Vector, formula: Formula, some: Points) -> Vector:
    """Return the values of several expansions over the same points, shape (n, p), in this thread.

    A block of kernel values is multiplied by all coefficients while it is in cache.
    """
    some, b = prepared(some, formula)
    total = np.zeros((len(b), coef.shape[1]))
    for k, (points, a) in enumerate(few):
        with scratch(len(a) * len(b), some.dtype) as room:
            K = products(points, some, room.reshape(len(a), len(b)))
            K = values_of_products(K, formula, a, b)
            total += K.T.astype(np.float64, copy=False) @ coef[k * BLOCK_POINTS :][: len(a)]
    return total
