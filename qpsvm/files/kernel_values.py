"""Kernel values by the plain formulas, in float64, with bounds on their rounding.

This file is a part of the verification and imports nothing of the library but its errors: see
`qpsvm.files.verification`. A block of values comes with a bound E of its rounding, in units of the
float64 epsilon; a sum of n terms adds (n + 2) times the sum of their absolute values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from qpsvm.errors import InputError

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

FLOAT64_EPS = float(np.finfo(np.float64).eps)
"""Distance from 1 to the next float64; one rounding is at most half of it."""

BLOCK_VALUES = 1 << 20
"""Kernel values, or entries of dense points, that are formed at a time: 8 MB."""

MAX_POINTS_FOR_EIGENVALUES = 2000
"""Points up to which the least eigenvalue of a kernel matrix is computed."""


class Sums(NamedTuple):
    """Sums of kernel values and bounds on their rounding, both of shape (m,)."""

    values: Vector
    errors: Vector


@dataclass(frozen=True, eq=False)
class KernelMatrix:
    """The matrix K of some points, whose products are computed and whose entries are not stored.

    Attributes
    ----------
    name : str
        "linear", "rbf", "laplacian", "polynomial", "sigmoid", "precomputed" or "custom".
    parameters : dict
        Numbers `gamma`, `degree` and `coef0`, as the kernel has them.
    X : ndarray or CSR matrix of float64, shape (m, d)
        The points; of a precomputed kernel K itself.
    function : callable or None
        The function of a custom kernel.
    X_errors : ndarray of shape (m,) or None
        Bounds on the lengths of the errors of points that were computed; None where they were given.
    """

    name: str
    parameters: dict[str, float]
    X: Any
    function: Callable[[Any, Any], Any] | None = None
    X_errors: Vector | None = None

    @property
    def m(self) -> int:
        """Number of points."""
        return int(self.X.shape[0])

    def centered(self) -> KernelMatrix:
        """Return the same with dense points of a linear kernel moved to their mean."""
        if self.name != "linear" or sp.issparse(self.X):
            return self
        moved = self.X - self.X.mean(axis=0)
        errors = 0.5 * FLOAT64_EPS * lengths(moved) + (
            0.0 if self.X_errors is None else self.X_errors
        )
        return KernelMatrix("linear", {}, moved, None, errors)

    def take(self, rows: NDArray[np.int64]) -> KernelMatrix:
        """Return the matrix of some of the points."""
        X = self.X[rows]
        X = X[:, rows] if self.name == "precomputed" else X
        errors = None if self.X_errors is None else self.X_errors[rows]
        return KernelMatrix(self.name, self.parameters, X, self.function, errors)

    def diagonal(self) -> Sums:
        """Return k(x_i, x_i) and bounds on its rounding."""
        if self.name == "precomputed":
            return Sums(np.asarray(self.X.diagonal(), np.float64), np.zeros(self.m))
        values, errors = np.empty(self.m), np.empty(self.m)
        for i in range(self.m) if self.name == "custom" else ():
            K, E = self._block(slice(i, i + 1), self._points(slice(i, i + 1)))
            values[i], errors[i] = K[0, 0], E[0, 0]
        if self.name == "custom":
            return Sums(values, FLOAT64_EPS * errors)
        if self.name in ("rbf", "laplacian"):
            return Sums(np.ones(self.m), np.zeros(self.m))
        squares = lengths(self.X) ** 2
        K, E = self._map(squares, (self._terms() + 4) * squares)
        errors = FLOAT64_EPS * E
        if self.X_errors is not None:
            errors += 2.0 * np.sqrt(squares) * self.X_errors
        return Sums(K, errors)

    def times(self, coef: Vector) -> Sums:
        """Return K coef, shape (m,), over the entries of `coef` that are not 0."""
        some = np.flatnonzero(coef)
        c = coef[some]
        if not len(some):
            return Sums(np.zeros(self.m), np.zeros(self.m))
        if self.name == "linear":
            w = np.asarray(self.X[some].T @ c).ravel()
            reach = float(lengths(self.X)[some] @ np.abs(c))
            moved = 0.0 if self.X_errors is None else float(self.X_errors[some] @ np.abs(c))
            errors = FLOAT64_EPS * (len(some) + self._terms() + 4) * lengths(self.X) * reach
            errors += lengths(self.X) * moved
            if self.X_errors is not None:
                errors += self.X_errors * reach
            return Sums(np.asarray(self.X @ w).ravel(), errors)
        values, errors = np.zeros(self.m), np.zeros(self.m)
        size = np.abs(c)
        for columns in np.array_split(np.arange(len(some)), 1 + len(some) // 2048):
            B = None if self.name == "precomputed" else self._points(some[columns])
            for rows in self._row_blocks(len(columns)):
                K, E = self._block(rows, B, some[columns])
                values[rows] += K @ c[columns]
                errors[rows] += (E + (len(some) + 2) * np.abs(K)) @ size[columns]
        return Sums(values, FLOAT64_EPS * errors)

    def against(self, other: KernelMatrix) -> Iterator[tuple[slice, Matrix]]:
        """Return blocks of rows of the kernel values with the points of another matrix."""
        B = other._points(slice(None))
        for rows in self._row_blocks(other.m):
            yield rows, self._block(rows, B)[0]

    def least_eigenvalue(self) -> tuple[float, float] | None:
        """Return the least eigenvalue and what counts as zero; None where the matrix is too large."""
        if self.m > MAX_POINTS_FOR_EIGENVALUES:
            return None
        K = np.empty((self.m, self.m))
        B = None if self.name == "precomputed" else self._points(slice(None))
        for rows in self._row_blocks(self.m):
            K[rows] = self._block(rows, B, np.arange(self.m))[0]
        size = float(np.max(np.abs(np.diagonal(K))))
        return float(np.linalg.eigvalsh(0.5 * (K + K.T))[0]), 16.0 * self.m * FLOAT64_EPS * size

    def _row_blocks(self, n_columns: int) -> Iterator[slice]:
        width = n_columns if self.name in ("linear", "precomputed") else n_columns + self.X.shape[1]
        step = max(1, BLOCK_VALUES // width)
        return (slice(at, min(at + step, self.m)) for at in range(0, self.m, step))

    def _terms(self) -> int:
        """Return the number of products in an inner product."""
        return int(np.max(np.diff(self.X.indptr))) if sp.issparse(self.X) else self.X.shape[1]

    def _points(self, rows: Any) -> Any:
        """Return points as they are compared: dense where distances are summed from differences."""
        X = self.X[rows]
        return X.toarray() if sp.issparse(X) and self.name in ("laplacian", "custom") else X

    def _block(self, rows: slice, B: Any, columns: Any = None) -> tuple[Matrix, Matrix]:
        """Return the values of some points with the points B, and bounds on their rounding."""
        if self.name == "precomputed":
            K = self.X[rows][:, columns]
            K = K.toarray() if sp.issparse(K) else np.asarray(K)
            return K, np.zeros_like(K)
        A = self._points(rows)
        if self.name == "custom":
            assert self.function is not None
            K = np.asarray(self.function(A, B), dtype=np.float64)
            if K.shape != (A.shape[0], B.shape[0]) or not np.isfinite(K).all():
                raise InputError(
                    f"kernel must return finite values of shape {(A.shape[0], B.shape[0])}; "
                    f"got shape {K.shape}"
                )
            return K, 16.0 * np.abs(K)
        if self.name in ("rbf", "laplacian"):
            return self._decaying(A, B)
        P = A @ B.T
        P = P.toarray() if sp.issparse(P) else P
        return self._map(P, (self._terms() + 2) * np.outer(lengths(A), lengths(B)))

    def _decaying(self, A: Any, B: Any) -> tuple[Matrix, Matrix]:
        """Return exp(-gamma D) of distances D, squared for "rbf" and of l1 for "laplacian"."""
        gamma = self.parameters["gamma"]
        if sp.issparse(A):
            sums = lengths(A)[:, None] ** 2 + lengths(B) ** 2
            D = np.maximum(sums - 2.0 * (A @ B.T).toarray(), 0.0)
            E = (self._terms() + 6) * sums
        else:
            D = cdist(A, B, "sqeuclidean" if self.name == "rbf" else "cityblock")
            E = (A.shape[1] + 3) * D
        K = np.exp(-gamma * D)
        return K, K * (gamma * E + 2.0 * gamma * D + 4.0)

    def _map(self, P: Any, E: Any) -> tuple[Any, Any]:
        """Return the kernel as a function of inner products P with the errors E."""
        if self.name == "linear":
            return P, E
        gamma, coef0 = self.parameters["gamma"], self.parameters["coef0"]
        base = gamma * P + coef0
        E = gamma * E + 2.0 * np.abs(gamma * P) + abs(coef0)
        if self.name == "sigmoid":
            K = np.tanh(base)
            return K, E + 4.0 * np.abs(K)
        degree = self.parameters["degree"]
        K = base**degree
        return K, degree * np.abs(base) ** (degree - 1) * E + (degree + 4.0) * np.abs(K)


def lengths(X: Any) -> Vector:
    """Return the Euclidean lengths of the rows, shape (m,)."""
    if sp.issparse(X):
        return np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel())
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X)))


def exact_sum(terms: Any) -> float:
    """Return a sum that is rounded once."""
    return math.fsum(np.asarray(terms, dtype=np.float64).ravel().tolist())
