"""Values of sum_j coef_j k(x, x_j) at many new points x: what prediction costs.

Points are taken in strips of rows, which threads share out among themselves, and the x_j in parts.
A block of both is one BLAS product and one compiled sweep, then summed in float64 while it is in
cache, so that the memory does not grow with the number of points. A linear kernel needs no values
at all: sum_j coef_j x_j is a vector. The precision of the products is that of the points that the
Gram was made of.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.engine.exact_products import PART, gaussian_expansion, prepared
from qpsvm.gram.storage.points import Points
from qpsvm.numerics.parallel import parallel_for

STRIP = 512
"""New points of a block."""

DENSIFIED = 2048
"""Features up to which the rows of a strip are multiplied as dense ones."""

Vector = NDArray[np.float64]


def gaussian_combination(
    gram: Any, indices: NDArray[np.int64], coef: Vector, new: Points
) -> Vector:
    """Return the values for a Gaussian kernel, strip by strip.

    Where the points of the Gram are multiplied as multiples of a unit, so are strips of new points
    that allow it.
    """
    unit, dense = gram._unit, new.shape[1] <= DENSIFIED or not sp.issparse(new)
    mean = gram._mean if dense else 0.0  # moved by it, both sides lose fewer digits

    def moved(some: Points) -> Points:
        if dense and sp.issparse(some) and new.shape[1] <= DENSIFIED:
            some = some.toarray()
        if not sp.issparse(some) and np.any(mean):
            some = some - mean
        return some.astype(gram.dtype, copy=False)

    @cache
    def parts(multiples: bool) -> list[Any]:
        pieces = [indices[at : at + PART] for at in range(0, len(indices), PART)]
        if multiples:
            return [prepared(gram._moved(piece, None)) for piece in pieces]
        return [prepared(moved(gram.X[piece])) for piece in pieces]

    out = np.empty(new.shape[0])

    def strip(first: int) -> None:
        piece = new[first : first + STRIP]
        some = None if unit is None else unit.multiples(piece)
        few, rate = parts(some is not None), gram.gamma if some is None else gram._rate
        some = moved(piece) if some is None else some
        out[first : first + STRIP] = gaussian_expansion(few.__getitem__, coef, rate, some, PART)

    parts(unit is not None)
    parallel_for(strip, list(range(0, new.shape[0], STRIP)))
    return out
