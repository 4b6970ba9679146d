"""Features: the points as a linear map, from a normal vector w to the values w'phi(x_i).

Of points, or of a low-rank Gram by its factor, w is a vector of features. Of any other Gram, w holds
the coefficients c of sum c_j phi(x_j): values are Kc, inner products c'Kc, and the adjoint of the
map in this metric is the identity. A gradient method needs no more than these operations, and by
them is the same on both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.base import BLOCK_ENTRIES, Gram, slices
from qpsvm.gram.linear import times, transposed_times
from qpsvm.gram.points import Points
from qpsvm.gram.quadratic import largest, largest_by_lanczos

Vector = NDArray[np.float64]

SHORT = 256
"""Shorter side up to which a largest eigenvalue is computed exactly, from the small matrix."""


class Features(ABC):
    """The map w -> (w'phi(x_i)) of m points and its adjoint v -> sum v_i phi(x_i).

    Attributes
    ----------
    m, n : int
        Number of points; of entries of w.
    work : int
        Entries that one product reads.
    adjoint : int
        Products that `combine` takes.
    error : float
        Bound on the error of an inner product beyond the rounding of a sum of its size.
    """

    m: int
    n: int
    work: int
    adjoint: int = 1
    error: float = 0.0

    @abstractmethod
    def values(self, w: Vector) -> Vector:
        """Return w'phi(x_i), shape (m,): a product."""

    @abstractmethod
    def combine(self, v: Vector) -> Vector:
        """Return sum v_i phi(x_i), shape (n,): a product with points, none with a Gram."""

    @abstractmethod
    def paired(self, w: Vector, values: Vector | None = None) -> Vector:
        """Return z with <u, w> = u'z for all u; from `values` of w where they are known."""

    @property
    @abstractmethod
    def lengths(self) -> Vector:
        """Norms |phi(x_i)|, shape (m,)."""

    @property
    @abstractmethod
    def sizes(self) -> Vector:
        """Largest absolute entry of each point; of a Gram its norm."""

    @abstractmethod
    def curvature(self, weight: Vector, centered: bool) -> float:
        """Return the largest eigenvalue of sum weight_i phi_i phi_i', or a hair more.

        The points are moved to their weighted mean first where they are to be `centered`.
        """

    @abstractmethod
    def held(self, memory_limit: int) -> Features:
        """Return the same map, its matrix held in memory where it fits."""


@dataclass(frozen=True, eq=False)
class PointFeatures(Features):
    """The rows of X, dense or CSR."""

    X: Points

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of points."""
        return int(self.X.shape[0])

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def work(self) -> int:  # type: ignore[override]
        """Stored entries."""
        return int(self.X.nnz) if sp.issparse(self.X) else int(self.X.size)

    def values(self, w: Vector) -> Vector:
        """Return Xw."""
        return times(self.X, w)

    def combine(self, v: Vector) -> Vector:
        """Return X'v."""
        return transposed_times(self.X, v)

    def paired(self, w: Vector, values: Vector | None = None) -> Vector:
        """Return w."""
        return w

    @cached_property
    def lengths(self) -> Vector:
        """Norms |x_i|."""
        if sp.issparse(self.X):
            return np.asarray(sp.linalg.norm(self.X.astype(np.float64), axis=1))
        return np.sqrt(np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64))

    @cached_property
    def sizes(self) -> Vector:
        """Norms |x_i|_inf."""
        if sp.issparse(self.X):
            return np.asarray(abs(self.X).max(axis=1).toarray().ravel(), dtype=np.float64)
        return np.maximum(self.X.max(axis=1), -self.X.min(axis=1)).astype(np.float64)

    def curvature(self, weight: Vector, centered: bool) -> float:
        """Return the largest eigenvalue of X'WX, less the mean's part."""
        if self.n > SHORT:
            return _curvature(self, weight, centered)
        root = np.sqrt(weight)
        B = (
            self.X.multiply(root[:, None]).tocsr()
            if sp.issparse(self.X)
            else self.X * root[:, None]
        )
        square: Any = B.T @ B
        square = square.toarray() if sp.issparse(square) else square
        if centered:
            mean = self.combine(weight)
            square = square - np.outer(mean, mean) / np.sum(weight)
        return max(largest(square), 0.0)

    def held(self, memory_limit: int) -> PointFeatures:
        """Return itself."""
        return self


@dataclass(frozen=True, eq=False)
class GramFeatures(Features):
    """The points of a Gram, seen through K alone."""

    gram: Gram
    K: NDArray[np.float64] | None = None
    adjoint = 0

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of points."""
        return self.gram.m

    @property
    def n(self) -> int:  # type: ignore[override]
        """One coefficient a point."""
        return self.gram.m

    @property
    def work(self) -> int:  # type: ignore[override]
        """Entries of K."""
        return self.gram.m**2

    @property
    def error(self) -> float:  # type: ignore[override]
        """The error of an entry of K."""
        return self.gram.error

    def values(self, w: Vector) -> Vector:
        """Return Kc."""
        return self.gram.dot(w) if self.K is None else self.K @ w

    def combine(self, v: Vector) -> Vector:
        """Return v: these are the coefficients."""
        return v

    def paired(self, w: Vector, values: Vector | None = None) -> Vector:
        """Return Kc."""
        return self.values(w) if values is None else values

    @cached_property
    def lengths(self) -> Vector:
        """Square roots of the diagonal."""
        return np.sqrt(np.maximum(self.gram.diag(), 0.0))

    @property
    def sizes(self) -> Vector:
        """Square roots of the diagonal."""
        return self.lengths

    def curvature(self, weight: Vector, centered: bool) -> float:
        """Return the largest eigenvalue of W^1/2 K W^1/2, centered."""
        return _curvature(self, weight, centered)

    def held(self, memory_limit: int) -> GramFeatures:
        """Return the same with K in float64 if it fits."""
        if 8 * self.m**2 > memory_limit:
            return self
        every, K = np.arange(self.m), np.empty((self.m, self.m))
        for at in slices(self.m, max(1, BLOCK_ENTRIES // self.m)):
            K[at] = self.gram.block(every[at], None, np.float64)
        return replace(self, K=K)


def features_of(gram: Gram) -> Features:
    """Return the features of a Gram: by its factor where it has one."""
    X = gram.factor()
    return GramFeatures(gram) if X is None else PointFeatures(X)


def _curvature(features: Features, weight: Vector, centered: bool) -> float:
    """Return the largest eigenvalue of P W^1/2 K W^1/2 P, P the projection that centers."""
    root = np.sqrt(weight)
    if not np.any(root * features.lengths):
        return 0.0
    unit = root / np.linalg.norm(root)

    def projected(v: Vector) -> Vector:
        return v - unit * float(unit @ v) if centered else v

    def apply(v: Vector) -> Vector:
        v = root * projected(v.ravel())
        return projected(root * features.values(features.combine(v)))

    if features.m < 3:
        eye = np.eye(features.m)
        matrix = np.array([apply(column) for column in eye])
        return max(largest(0.5 * (matrix + matrix.T)), 0.0)
    return max(largest_by_lanczos(features.m, apply, tol=1e-2), 0.0)
