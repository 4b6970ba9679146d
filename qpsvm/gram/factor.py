"""A factor X of a Gram, K = X X': its own, or the pivoted Cholesky factor of a small matrix."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from qpsvm.gram.base import Gram
from qpsvm.gram.storage.points import Points

MAX_POINTS_FOR_KERNEL_FACTOR = 5000
"""Number of points up to which the matrix of a kernel without a factor is factored: 200 MB."""


def has_factor(gram: Gram) -> bool:
    """Return whether `factor_of` may be called: the Gram has a factor, or few points."""
    return gram.m <= MAX_POINTS_FOR_KERNEL_FACTOR or gram.factor() is not None


def factor_shape(gram: Gram) -> tuple[int, int]:
    """Return the shape of the factor, or the largest that it may have."""
    X = gram.factor()
    return (gram.m, gram.m) if X is None else X.shape


def factor_of(gram: Gram) -> Points:
    """Return the factor that the Gram knows, or one by pivoted Cholesky (LAPACK's pstrf).

    The number of columns of the latter is the numerical rank; for an indefinite matrix it has the
    columns before the first pivot that is not positive.
    """
    X = gram.factor()
    if X is not None:
        return X
    all_points = np.arange(gram.m)
    K = gram.block(all_points, None, np.float64)
    lower, order, rank, _ = scipy.linalg.lapack.dpstrf(0.5 * (K + K.T), lower=1)
    V = np.zeros((gram.m, max(1, rank)))
    V[order - 1, :rank] = np.tril(lower)[:, :rank]
    return V
