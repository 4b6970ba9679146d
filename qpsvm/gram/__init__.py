"""Grams: the operators behind K."""

from __future__ import annotations

from typing import Any

from qpsvm.gram.base import Gram
from qpsvm.gram.cached import Cached
from qpsvm.gram.kernels import CustomKernel, Laplacian, Polynomial, Sigmoid
from qpsvm.gram.linear import Linear
from qpsvm.gram.lowrank import LowRank
from qpsvm.gram.precomputed import Precomputed
from qpsvm.gram.rbf import RBF
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
    "Sigmoid",
    "SignedGram",
    "as_gram",
]


def as_gram(K: Any) -> Gram:
    """Return `K` if it is a Gram, or the precomputed Gram of the matrix `K`."""
    return K if isinstance(K, Gram) else Precomputed(K)
