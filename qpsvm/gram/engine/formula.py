"""Kernels on points as a map of inner products or l1 distances, given by parameters alone.

A kernel is k(x, z) = phi(t), t = a(x) + a(z) + factor p(x, z), where p is the inner product or the l1
distance, the term a(x) = shift - rate |x|^2, and phi one of the maps below. Each map is a type, so that
numba compiles a sweep for it: see `maps`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.numerics.products import squared_norms

Vector = NDArray[np.float64]

LOG2E = 1.4426950408889634
"""Base-2 logarithm of e."""


class Exponential(NamedTuple):
    """phi(t) = 2^t for t <= 0, p the inner product: the Gaussian kernel."""

    base: float = 2.0


class L1Exponential(NamedTuple):
    """phi(t) = 2^t for t <= 0, p the l1 distance: the Laplacian kernel."""

    base: float = 2.0


class Power(NamedTuple):
    """phi(t) = t^degree: the polynomial kernel."""

    degree: int


class Tangent(NamedTuple):
    """phi(t) = tanh(t): the sigmoid kernel."""

    sign: float = 1.0


class Identity(NamedTuple):
    """phi(t) = t: the linear kernel."""

    slope: float = 1.0


@dataclass(frozen=True)
class Formula:
    """A kernel on points: k(x, z) = phi(a(x) + a(z) + factor p(x, z)), a(x) = shift - rate |x|^2.

    Attributes
    ----------
    map : Exponential, L1Exponential, Power, Tangent or Identity
        phi; its type says which p.
    factor, rate, shift : float
    """

    map: Any
    factor: float
    rate: float = 0.0
    shift: float = 0.0

    def terms(self, points: Any, norms: Any = None) -> Vector:
        """Return a(x) of points, shape (n,); `norms` are their squared norms, if known.

        Of CSR points that of an l1 distance has |x|_1 too: their sweep gives the rest of the distance.
        """
        if isinstance(self.map, L1Exponential) and sp.issparse(points):
            return self.factor * np.asarray(abs(points).sum(axis=1, dtype=np.float64)).ravel()
        if self.rate == 0.0:
            return np.full(points.shape[0], self.shift)
        if norms is None:
            norms = squared_norms(points).astype(np.float64, copy=False)
        return self.shift - self.rate * norms


def gaussian(gamma: float) -> Formula:
    """Return exp(-gamma |x - z|^2)."""
    return Formula(Exponential(), 2.0 * gamma * LOG2E, gamma * LOG2E)


def laplacian(gamma: float) -> Formula:
    """Return exp(-gamma |x - z|_1)."""
    return Formula(L1Exponential(), -gamma * LOG2E)


def polynomial(degree: int, gamma: float, coef0: float) -> Formula:
    """Return (gamma x'z + coef0)^degree."""
    return Formula(Power(degree), gamma, shift=0.5 * coef0)


def sigmoid(gamma: float, coef0: float) -> Formula:
    """Return tanh(gamma x'z + coef0)."""
    return Formula(Tangent(), gamma, shift=0.5 * coef0)


def linear() -> Formula:
    """Return x'z."""
    return Formula(Identity(), 1.0)


class Evaluator(NamedTuple):
    """The data from which columns of a Gram are computed; chosen once, when a solve begins.

    k(x_i, x_j) = phi(terms_i + terms_j + factor p_ij), see `Formula`.
    """

    points: Any
    """ndarray of shape (m, d) in C or Fortran order, csr_matrix, or StoredPoints."""
    terms: NDArray[np.floating]
    """Shape (m,), in the precision of the columns."""
    factor: float
    map: Any
