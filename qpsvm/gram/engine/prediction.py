"""Values of sum_j coef_j k(x, x_j) at many new points x, for predictions.

New points are divided into panels, which threads share, and the x_j into blocks. The kernel values of a
block with a panel are summed in float64 while they are in cache: the memory does not grow with the number
of points. A linear kernel needs no values: sum_j coef_j x_j is a vector. The precision of the products is
that of the points that the user gave to the Gram.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.engine.blocks import values_of_products
from qpsvm.gram.engine.exact_products import (
    BLOCK_POINTS,
    kernel_expansion,
    prepared,
    terms_of,
)
from qpsvm.gram.engine.formula import Formula
from qpsvm.gram.engine.tiles import fill_between
from qpsvm.gram.storage.csr import stored_alike
from qpsvm.gram.storage.points import Points, products
from qpsvm.numerics.parallel import parallel_for, scratch

PANEL_POINTS = 512
"""Number of new points of a panel."""

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
    several = coef.ndim == 2
    unit = None if several else gram._unit
    sparse, mean = gram._is_sparse, gram._mean

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
        chunks = [indices[at : at + BLOCK_POINTS] for at in range(0, len(indices), BLOCK_POINTS)]
        if are_multiples:
            points = (stored_alike(gram._multiplied(chunk, None), sparse) for chunk in chunks)
            return [prepared(part, gram._formula) for part in points]
        return [prepared(moved(gram.X[chunk]), formula_of_moved) for chunk in chunks]

    out = np.empty((new.shape[0], *coef.shape[1:]))

    def panel(first: int) -> None:
        given = new[first : first + PANEL_POINTS]
        multiples = None if unit is None else unit.multiples(given)
        known = blocks(multiples is not None)
        formula = formula_of_moved if multiples is None else gram._formula
        points = moved(given) if multiples is None else stored_alike(multiples, sparse)
        if several:
            out[first : first + PANEL_POINTS] = _expansions(known, coef, formula, points)
            return
        out[first : first + PANEL_POINTS] = kernel_expansion(
            known.__getitem__, coef, formula, points, BLOCK_POINTS
        )

    blocks(unit is not None)
    parallel_for(panel, list(range(0, new.shape[0], PANEL_POINTS)))
    return out


def _expansions(blocks: list[Any], coef: Vector, formula: Formula, panel: Points) -> Vector:
    """Return the values of several expansions over the same points, shape (n, p), in this thread.

    A block of kernel values is multiplied by all coefficients while it is in cache.
    """
    b = terms_of(panel, formula)
    total = np.zeros((len(b), coef.shape[1]))
    for k, (points, a) in enumerate(blocks):
        with scratch(len(a) * len(b), panel.dtype) as memory:
            K = memory.reshape(len(a), len(b))
            if sp.issparse(panel):
                fill_between(points, a, panel, b, formula, K, alone=True)
            else:
                K = values_of_products(products(points, panel, K), formula, a, b)
            total += K.T.astype(np.float64, copy=False) @ coef[k * BLOCK_POINTS :][: len(a)]
    return total
