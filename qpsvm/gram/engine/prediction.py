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

from qpsvm.gram.engine.exact_products import BLOCK_POINTS, kernel_expansion, prepared
from qpsvm.gram.storage.points import MAX_DENSE_FEATURES, Points
from qpsvm.numerics.parallel import parallel_for

PANEL_POINTS = 512
"""Number of new points of a panel."""

Vector = NDArray[np.float64]


def kernel_combination(gram: Any, indices: NDArray[np.int64], coef: Vector, new: Points) -> Vector:
    """Return the values of an expansion at new points, panel by panel, shape (n,).

    Where the Gram multiplies its points as integer multiples of a quantum, panels of new points that are
    such multiples are multiplied in the same way.

    Parameters
    ----------
    gram : PointGram
    indices : ndarray of int, shape (k,)
    coef : ndarray, shape (k,)
    new : ndarray or csr_matrix, shape (n, d)
    """
    unit, dense = gram._unit, new.shape[1] <= MAX_DENSE_FEATURES or not sp.issparse(new)
    mean = gram._mean if dense else 0.0  # subtracted from both sides: fewer digits are lost

    def moved(points: Points) -> Points:
        if dense and sp.issparse(points) and new.shape[1] <= MAX_DENSE_FEATURES:
            points = points.toarray()
        if not sp.issparse(points) and np.any(mean):
            points = points - mean
        if gram._scale != 1.0:
            points = points * gram._scale
        return points.astype(gram.dtype, copy=False)

    formula_of_moved = gram._formula if unit is None else gram._formula_of_points

    @cache
    def blocks(are_multiples: bool) -> list[Any]:
        chunks = [indices[at : at + BLOCK_POINTS] for at in range(0, len(indices), BLOCK_POINTS)]
        if are_multiples:
            return [prepared(gram._multiplied(chunk, None), gram._formula) for chunk in chunks]
        return [prepared(moved(gram.X[chunk]), formula_of_moved) for chunk in chunks]

    out = np.empty(new.shape[0])

    def panel(first: int) -> None:
        given = new[first : first + PANEL_POINTS]
        multiples = None if unit is None else unit.multiples(given)
        block = blocks(multiples is not None).__getitem__
        formula = formula_of_moved if multiples is None else gram._formula
        points = moved(given) if multiples is None else multiples
        out[first : first + PANEL_POINTS] = kernel_expansion(
            block, coef, formula, points, BLOCK_POINTS
        )

    blocks(unit is not None)
    parallel_for(panel, list(range(0, new.shape[0], PANEL_POINTS)))
    return out
