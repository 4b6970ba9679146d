"""Mercer kernels evaluated on demand from points: dense or CSR, float32 or float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_choice, check_number, check_values
from qpsvm.gram.points import (
    LARGEST_VALUE,
    PointGram,
    Points,
    largest_entry,
    products,
    settle_gamma,
    squared_norms,
)


@dataclass(frozen=True, eq=False)
class Laplacian(PointGram):
    """Laplacian kernel k(x, z) = exp(-gamma |x - z|_1).

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    gamma : float, "scale", "auto" or "mean-distance"
        As in `RBF`, in units of 1 / distance.
    """

    gamma: Any = "scale"

    def _settle(self) -> None:
        self._set(gamma=settle_gamma(self.gamma, self.X))

    def diag(self) -> NDArray[np.float64]:
        """Return ones, shape (m,)."""
        return np.ones(self.m)

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        if sp.issparse(B):
            from sklearn.metrics.pairwise import manhattan_distances

            distances = manhattan_distances(sp.csr_matrix(A), B)
        else:
            from scipy.spatial.distance import cdist  # a tenth of a second

            distances = cdist(A, B, "cityblock")
        distances *= -self.gamma
        return np.exp(distances, out=distances).astype(A.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class Polynomial(PointGram):
    """Polynomial kernel k(x, z) = (gamma x'z + coef0)^degree.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    degree : int
        At least 1.
    gamma : float, "scale", "auto" or "mean-distance"
        As in `RBF`.
    coef0 : float
        Positive semidefinite for coef0 >= 0; otherwise that is checked.
    """

    degree: int = 3
    gamma: Any = "scale"
    coef0: float = 0.0

    by_products = True

    def _settle(self) -> None:
        check_number("degree", self.degree, low=1, integer=True)
        check_number("coef0", self.coef0, finite=True)
        self._set(
            gamma=settle_gamma(self.gamma, self.X), psd="fact" if self.coef0 >= 0 else "check"
        )

    def diag(self) -> NDArray[np.float64]:
        """Return (gamma |x|^2 + coef0)^degree, shape (m,)."""
        squares = np.asarray(squared_norms(self.X.astype(np.float64, copy=False)))
        return (self.gamma * squares + self.coef0) ** self.degree

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        K = products(A, B)
        K *= K.dtype.type(self.gamma)
        K += K.dtype.type(self.coef0)
        return _power(K, int(self.degree))


def _power(K: NDArray[np.floating], degree: int) -> NDArray[np.floating]:
    """Return K^degree by repeated squaring: exact in sign, ten times faster than power()."""
    out = None
    while True:
        if degree & 1:
            out = K.copy() if out is None else np.multiply(out, K, out=out)
        degree >>= 1
        if not degree:
            return out  # type: ignore[return-value]
        K = K * K


@dataclass(frozen=True, eq=False)
class Sigmoid(PointGram):
    """Sigmoid kernel k(x, z) = tanh(gamma x'z + coef0), which need not be positive semidefinite.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    gamma : float, "scale", "auto" or "mean-distance"
        As in `RBF`.
    coef0 : float
    psd : {"check", "assume"}
        Whether positive semidefiniteness is checked before a lower bound is believed.
    """

    gamma: Any = "scale"
    coef0: float = 0.0
    psd: str = "check"

    by_products = True

    def _settle(self) -> None:
        check_number("coef0", self.coef0, finite=True)
        check_choice("psd", self.psd, ("check", "assume"))
        self._set(gamma=settle_gamma(self.gamma, self.X))

    def diag(self) -> NDArray[np.float64]:
        """Return tanh(gamma |x|^2 + coef0), shape (m,)."""
        squares = np.asarray(squared_norms(self.X.astype(np.float64, copy=False)))
        return np.tanh(self.gamma * squares + self.coef0)

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        K = products(A, B)
        K *= K.dtype.type(self.gamma)
        K += K.dtype.type(self.coef0)
        return np.tanh(K, out=K)


@dataclass(frozen=True, eq=False)
class CustomKernel(PointGram):
    """Kernel given as a function of two sets of points.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    function : callable
        ``function(A, B)`` returns the matrix k(a_i, b_j), shape (len(A), len(B)), as
        scikit-learn's callable kernels do. A is dense; B is dense or CSR like `X`. It must be
        symmetric: k(a, b) = k(b, a).
    psd : {"check", "assume"}
        Whether positive semidefiniteness is checked before a lower bound is believed.
    """

    function: Callable[[Any, Any], Any] | None = None
    psd: str = "check"

    def _settle(self) -> None:
        if not callable(self.function):
            raise InputError(f"function must be callable as function(A, B); got {self.function!r}")
        check_choice("psd", self.psd, ("check", "assume"))

    def diag(self) -> NDArray[np.float64]:
        """Return k(x_i, x_i), shape (m,), evaluated in small square blocks."""
        size = 32
        parts = [np.arange(i, min(i + size, self.m)) for i in range(0, self.m, size)]
        return np.concatenate([np.diagonal(self.block(p, p, np.float64)) for p in parts])

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        assert self.function is not None
        K = self.function(A, B)
        K = check_values("function (its value)", K)
        if K.shape != (A.shape[0], B.shape[0]):
            raise InputError(
                f"function must return shape {(A.shape[0], B.shape[0])} for these points; "
                f"got {K.shape}"
            )
        limit, largest = LARGEST_VALUE[np.dtype(self.dtype)], largest_entry(K)
        if not largest <= limit:
            raise InputError(
                f"function must return values below {limit:.0e} for points in {self.dtype}; got "
                f"{largest:.3g}"
            )
        return np.ascontiguousarray(K, dtype=A.dtype)
