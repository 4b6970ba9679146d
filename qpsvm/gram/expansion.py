"""Values of sum_j coef_j k(x, x_j) at many new points x: what prediction costs.

Points are taken in strips of rows, which threads share out among themselves, and the x_j in parts.
A block of both is one BLAS product and one compiled sweep, then summed in float64 while it is in
cache, so that the memory does not grow with the number of points. A linear kernel needs no values
at all: sum_j coef_j x_j is a vector. The precision of the products is that of the points that the
Gram was made of.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_points
from qpsvm.gram.base import Gram
from qpsvm.gram.cached import Cached
from qpsvm.gram.kernels import RBF
from qpsvm.gram.linear import Linear, times, transposed_times
from qpsvm.gram.points import FUSED, PointGram, Points, squared_norms
from qpsvm.threads import spread

STRIP, PART = 256, 1024
"""New points and expansion points of a block: 1 MB in float32, 2 MB in float64."""

DENSIFIED = 2048
"""Features up to which the rows of a strip are multiplied as dense ones."""

Vector = NDArray[np.float64]


def combination(gram: Gram, indices: NDArray[np.int64], coef: Vector, points: Any) -> Vector:
    """Return sum_j coef_j k(x, x_j), j in `indices`, for each row x of `points`, shape (n,).

    Parameters
    ----------
    gram : Gram
    indices : ndarray of int, shape (k,)
    coef : ndarray, shape (k,)
    points : array_like or sparse matrix, shape (n, d)
        New points; for a precomputed K the matrix of their kernel values, shape (n, m).

    Raises
    ------
    InputError
        If `points` is malformed or has another number of features than the points of `gram`.
    """
    gram = gram.gram if isinstance(gram, Cached) else gram
    if not isinstance(gram, PointGram):
        return gram.combine(points, indices, coef)
    new = check_points("points", points)
    n = new.shape[0]
    if new.shape[1] != gram.X.shape[1]:
        raise InputError(
            f"points must have {gram.X.shape[1]} features, as the training points have; "
            f"got shape {new.shape}"
        )
    if isinstance(gram, Linear):
        return times(new, transposed_times(gram.X[indices], coef))
    if isinstance(gram, RBF) and n * len(indices) >= FUSED:
        return _gaussian(gram, indices, coef, new)
    return Gram.combine(gram, new, indices, coef)


def _gaussian(gram: RBF, indices: NDArray[np.int64], coef: Vector, new: Points) -> Vector:
    """Return the values for a Gaussian kernel, strip by strip."""
    from qpsvm.gram.passes import row_products
    from qpsvm.gram.sweep import sweep

    dtype, dense = gram.dtype, new.shape[1] <= DENSIFIED or not sp.issparse(new)
    mean = gram._mean if dense else 0.0  # moved by it, both sides lose fewer digits

    def moved(some: Points) -> tuple[Points, Vector]:
        if dense and sp.issparse(some) and new.shape[1] <= DENSIFIED:
            some = some.toarray()
        if not sp.issparse(some) and np.any(mean):
            some = some - mean
        norms = squared_norms(some.astype(np.float64, copy=False))
        return some.astype(dtype, copy=False), np.asarray(norms)

    few = [moved(gram.X[indices[at : at + PART]]) for at in range(0, len(indices), PART)]
    out = np.zeros(new.shape[0])

    def strip(first: int) -> None:
        some, norms = moved(new[first : first + STRIP])
        buffer = np.empty(len(norms) * PART, dtype)
        for k, (part, own) in enumerate(few):
            K = buffer[: len(norms) * len(own)].reshape(len(norms), len(own))
            _inner(some, part, K)
            sweep(K, gram.gamma, norms, own)
            out[first : first + STRIP] += row_products(K, coef[k * PART : k * PART + len(own)])

    spread(strip, list(range(0, new.shape[0], STRIP)))
    return out


def _inner(A: Points, B: Points, out: NDArray[np.floating]) -> None:
    """Write A B' to `out`, whatever is dense or sparse."""
    if not sp.issparse(A) and not sp.issparse(B):
        np.matmul(A, B.T, out=out)
    elif sp.issparse(A) and sp.issparse(B):
        out[:] = (A @ B.T).toarray()
    else:
        out[:] = A @ B.T if sp.issparse(A) else (B @ A.T).T
