"""Features: the points as a linear map from a normal vector w to the values w'phi(x_i).

For points, or a Gram with a factor, w is a vector of features. For any other Gram, w has the
coefficients c of sum c_j phi(x_j): values are Kc, inner products c'Kc, and the adjoint of the map in
this metric is the identity. A gradient method needs these operations only and is the same for both.
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
from qpsvm.gram.operator import FLOAT64_EPS, largest, largest_by_lanczos
from qpsvm.gram.storage.points import Points
from qpsvm.numerics.products import times, transposed_times

Vector = NDArray[np.float64]

MAX_ORDER_FOR_EXACT_EIGENVALUE = 256
"""Number of features up to which a largest eigenvalue is computed exactly, of the matrix X'WX."""


class Features(ABC):
    """The map w -> (w'phi(x_i)) of m points and its adjoint v -> sum v_i phi(x_i).

    Attributes
    ----------
    m, n : int
        Number of points; of entries of w.
    work : int
        Number of entries that one product reads.
    adjoint : int
        Number of products in `combine`.
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
        """Return sum v_i phi(x_i), shape (n,): a product for points, none for a Gram."""

    @abstractmethod
    def paired(self, w: Vector, values: Vector | None = None) -> Vector:
        """Return z with <u, w> = u'z for all u; `values` are those of w, if known."""

    @property
    @abstractmethod
    def lengths(self) -> Vector:
        """Norms |phi(x_i)|, shape (m,)."""

    @property
    @abstractmethod
    def sizes(self) -> Vector:
        """Largest absolute entry of each point; for a Gram its norm."""

    def curvature(self, weight: Vector, centered: bool) -> float:
        """Return the largest eigenvalue of sum weight_i phi_i phi_i', rounded up.

        With `centered` the weighted mean is subtracted from the points first. Weights are scaled to at
        most 1, so that their squares do not overflow.
        """
        largest_weight = float(np.max(weight))
        if largest_weight <= 0.0:
            return 0.0
        return largest_weight * self._curvature(weight / largest_weight, centered)

    @abstractmethod
    def _curvature(self, weight: Vector, centered: bool) -> float:
        """Return `curvature` for weights of at most 1."""

    @abstractmethod
    def with_matrix(self, memory_limit: int) -> Features:
        """Return the same map with its matrix in memory, if it fits."""


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

    def _curvature(self, weight: Vector, centered: bool) -> float:
        """Return the largest eigenvalue of X'WX, minus the part of the mean if centered."""
        if self.n > MAX_ORDER_FOR_EXACT_EIGENVALUE:
            return _curvature_by_lanczos(self, weight, centered)
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

    def with_matrix(self, memory_limit: int) -> PointFeatures:
        """Return itself."""
        return self


@dataclass(frozen=True, eq=False)
class ExpansionFeatures(Features):
    """The points of a Gram; w is given by one coefficient per point."""

    gram: Gram
    K: NDArray[np.float64] | None = None

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of points."""
        return self.gram.m

    @property
    def n(self) -> int:  # type: ignore[override]
        """One coefficient per point."""
        return self.gram.m

    @property
    def work(self) -> int:  # type: ignore[override]
        """Entries of K."""
        return self.gram.m**2


@dataclass(frozen=True, eq=False)
class GramFeatures(ExpansionFeatures):
    """The points of a Gram, by K alone."""

    adjoint = 0

    @property
    def error(self) -> float:  # type: ignore[override]
        """The error of an entry of K."""
        return self.gram.error

    def values(self, w: Vector) -> Vector:
        """Return Kc."""
        return self.gram.dot(w) if self.K is None else self.K @ w

    def combine(self, v: Vector) -> Vector:
        """Return v itself: the coefficients."""
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

    def _curvature(self, weight: Vector, centered: bool) -> float:
        """Return the largest eigenvalue of W^1/2 K W^1/2, with the projection that centers."""
        return _curvature_by_lanczos(self, weight, centered)

    def with_matrix(self, memory_limit: int) -> GramFeatures:
        """Return the same map with K in float64, if it fits."""
        K = _matrix_of(self.gram, memory_limit)
        return self if K is None else replace(self, K=K)


@dataclass(frozen=True, eq=False)
class CoefficientFeatures(ExpansionFeatures):
    """The rows of a symmetric K as points: w has the coefficients c, the values are Kc.

    Unlike in `GramFeatures` the inner product of coefficients is c'c, as a penalty on the l1 norm of c
    requires. K need not be positive semidefinite.
    """

    @cached_property
    def error(self) -> float:  # type: ignore[override]
        """The error of an entry of K; with a factor, that of an inner product of two of its rows."""
        if self.K is not None or not self.gram.by_factor:
            return self.gram.error
        return self.gram.error + 4.0 * FLOAT64_EPS * float(np.max(self.gram.diag()))

    def values(self, w: Vector) -> Vector:
        """Return Kc."""
        return self.gram.dot(w) if self.K is None else self.K @ w

    def combine(self, v: Vector) -> Vector:
        """Return Kv: K is symmetric."""
        return self.values(v)

    def paired(self, w: Vector, values: Vector | None = None) -> Vector:
        """Return c."""
        return w

    @property
    def lengths(self) -> Vector:
        """Norms of the rows of K."""
        return self._row_norms[0]

    @property
    def sizes(self) -> Vector:
        """Largest absolute entries of the rows of K."""
        return self._row_norms[1]

    @cached_property
    def _row_norms(self) -> tuple[Vector, Vector]:
        """Euclidean and maximum norms of the rows of K, block by block."""
        norms, largest_entries = np.empty(self.m), np.empty(self.m)
        for at in slices(self.m, max(1, BLOCK_ENTRIES // self.m)):
            rows = np.arange(at.start, at.stop)
            block = self.gram.block(rows, None, np.float64) if self.K is None else self.K[at]
            norms[at] = np.linalg.norm(block, axis=1)
            largest_entries[at] = np.max(np.abs(block), axis=1)
        return norms, largest_entries

    def _curvature(self, weight: Vector, centered: bool) -> float:
        """Return the largest eigenvalue of KWK, minus the part of the mean if centered."""
        return _curvature_by_lanczos(self, weight, centered)

    def with_matrix(self, memory_limit: int) -> CoefficientFeatures:
        """Return the same map with K in float64, if it fits."""
        K = _matrix_of(self.gram, memory_limit)
        return self if K is None else replace(self, K=K)


def _matrix_of(gram: Gram, memory_limit: int) -> NDArray[np.float64] | None:
    """Return K in float64 if it fits, or None."""
    if 8 * gram.m**2 > memory_limit:
        return None
    indices, K = np.arange(gram.m), np.empty((gram.m, gram.m))
    for at in slices(gram.m, max(1, BLOCK_ENTRIES // gram.m)):
        K[at] = gram.block(indices[at], None, np.float64)
    return K


def features_of(gram: Gram) -> Features:
    """Return the features of a Gram: the rows of its factor where it has one."""
    X = gram.factor()
    return GramFeatures(gram) if X is None else PointFeatures(X)


def _curvature_by_lanczos(features: Features, weight: Vector, centered: bool) -> float:
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
    trace = float(weight @ (features.lengths * features.lengths))
    return max(
        largest_by_lanczos(features.m, apply, tol=1e-2, noise=8.0 * FLOAT64_EPS * trace), 0.0
    )
