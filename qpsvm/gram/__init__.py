"""Grams: the operators behind K."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from qpsvm.errors import InputError, as_array
from qpsvm.gram.base import Gram
from qpsvm.gram.cached import Cached
from qpsvm.gram.kernels.custom import CustomKernel
from qpsvm.gram.kernels.laplacian import Laplacian
from qpsvm.gram.kernels.linear import Linear
from qpsvm.gram.kernels.polynomial import Polynomial
from qpsvm.gram.kernels.rbf import RBF
from qpsvm.gram.kernels.sigmoid import Sigmoid
from qpsvm.gram.lowrank import LowRank
from qpsvm.gram.precomputed import Precomputed
from qpsvm.gram.repeated import RepeatedGram
from qpsvm.gram.signed import SignedGram

__all__ = [
    "RBF",
    "Cached",
    "CustomKernel",
    "Gram",
    "Laplacian",
    "Linear",
    "LowRank",
    "Polynomial",
    "Precomputed",
    "RepeatedGram",
    "Sigmoid",
    "SignedGram",
    "as_gram",
]


def as_gram(K: Any, instead: str = "Linear(X) or RBF(X)") -> Gram:
    """Return `K` if it is a Gram, or the precomputed Gram of the matrix `K`.

    Raises
    ------
    InputError
        If `K` is no square, symmetric matrix; for points the message names `instead`.
    """
    if isinstance(K, Gram):
        return K
    matrix = K if sp.issparse(K) else as_array("K", K)
    if matrix.ndim == 2 and 0 < matrix.shape[0] != matrix.shape[1] > 0:
        raise InputError(
            f"K must be a kernel of points, such as {instead}, or a square matrix of kernel values; "
            f"got an array of shape {matrix.shape}"
        )
    return Precomputed(matrix)
