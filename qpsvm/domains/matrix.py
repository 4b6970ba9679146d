"""Sets of matrices, stored row by row in x (Garber and Wolf, section 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from qpsvm.domains.base import OracleDomain, check_size, project_simplex
from qpsvm.errors import check_choice, check_number

Vector = NDArray[np.float64]

MAX_DENSE_ORDER = 200
"""Order up to which one eigenvector is computed by a dense factorization; above it, by Lanczos."""


@dataclass(frozen=True, eq=False)
class Birkhoff(OracleDomain):
    """Doubly stochastic matrices of order n; the vertices are the permutations.

    Parameters
    ----------
    n : int

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import Birkhoff
    >>> Birkhoff(2).linear_min(np.array([1.0, 0.0, 0.0, 1.0])).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    n: int
    zero_one = True
    constant_norm = True
    has_face_oracle = True

    def __post_init__(self) -> None:
        """Check the order."""
        check_number("n", self.n, low=1, integer=True)

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of entries."""
        return self.n * self.n

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return (self.n, self.n)

    def linear_min(self, g: Vector) -> Vector:
        """Solve the assignment problem with costs g."""
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(g.reshape(self.shape))
        v = np.zeros(self.shape)
        v[rows, columns] = 1.0
        return v.ravel()

    def violation(self, x: Vector) -> float:
        """Return the largest of -x_ij and the errors of the row and column sums."""
        X = x.reshape(self.shape)
        sums = np.concatenate([X.sum(axis=0), X.sum(axis=1)])
        return float(max(0.0, -np.min(x), np.max(np.abs(sums - 1.0))))


@dataclass(frozen=True, eq=False)
class Spectrahedron(OracleDomain):
    """Symmetric positive semidefinite matrices of order n with a given trace, or at most that.

    Its extreme points are trace times qq', |q| = 1, and 0 where the trace is a bound.

    Parameters
    ----------
    n : int
    trace : float
    solid : bool
        Whether the trace is a bound.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import Spectrahedron
    >>> Spectrahedron(2).linear_min(np.array([1.0, 0.0, 0.0, -1.0])).round(6).tolist()
    [0.0, 0.0, 0.0, 1.0]
    """

    n: int
    trace: float = 1.0
    solid: bool = False
    projectable = True

    def __post_init__(self) -> None:
        """Check order and trace."""
        check_number("n", self.n, low=1, integer=True)
        check_choice("solid", self.solid, (True, False))
        object.__setattr__(self, "trace", check_size("trace", self.trace))

    @property
    def constant_norm(self) -> bool:  # type: ignore[override]
        """Whether all extreme points have the norm `trace`: 0 is one of the solid set."""
        return not self.solid

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of entries."""
        return self.n * self.n

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return (self.n, self.n)

    def linear_min(self, g: Vector) -> Vector:
        """Return trace qq' with q the eigenvector of the least eigenvalue, or 0 where that is less."""
        return self._least(g, 0.0)

    def nearest_vertex(self, g: Vector, x: Vector, weight: float) -> Vector:
        """Return trace qq' for g - weight x, or 0 where that is nearer."""
        return self._least(g - weight * x, 0.5 * weight * self.trace)

    def _least(self, g: Vector, threshold: float) -> Vector:
        """Return trace qq'; 0 if the set is solid and the least eigenvalue is above -threshold."""
        G = _symmetric(g, self.n)
        if self.n <= MAX_DENSE_ORDER:
            values, vectors = scipy.linalg.eigh(G, subset_by_index=[0, 0])
        else:
            values, vectors = sla.eigsh(G, k=1, which="SA", v0=_first(self.n))
        if self.solid and values[0] > -threshold:
            return np.zeros(self.m)
        q = vectors[:, 0]
        return (self.trace * np.outer(q, q)).ravel()

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return the gap by the least eigenvalue, from a dense factorization; solid sets have 0 too."""
        G, X = _symmetric(g, self.n), x.reshape(self.shape)
        least = float(scipy.linalg.eigvalsh(G, subset_by_index=[0, 0])[0])
        least = min(least, 0.0) if self.solid else least
        gap = float(np.sum((G - least * np.eye(self.n)) * X))
        return gap - least * (self.trace - float(np.trace(X))) if self.solid else gap

    def violation(self, x: Vector) -> float:
        """Return the largest of the asymmetry, the error of the trace, and -lambda_min."""
        X = x.reshape(self.shape)
        least = float(np.linalg.eigvalsh(0.5 * (X + X.T))[0])
        excess = float(np.trace(X)) - self.trace
        excess = excess if self.solid else abs(excess)
        return float(max(0.0, np.max(np.abs(X - X.T)), excess, -least))

    def project(self, x: Vector) -> Vector:
        """Project the eigenvalues on the simplex: a full eigendecomposition."""
        values, Q = np.linalg.eigh(_symmetric(x, self.n))
        if self.solid and np.sum(np.maximum(values, 0.0)) <= self.trace:
            return ((Q * np.maximum(values, 0.0)) @ Q.T).ravel()
        return ((Q * project_simplex(values, self.trace)) @ Q.T).ravel()


@dataclass(frozen=True, eq=False)
class _MatrixBall(OracleDomain):
    """A ball of matrices of shape (rows, columns)."""

    rows: int
    columns: int
    radius: float = 1.0
    projectable = True

    def __post_init__(self) -> None:
        """Check shape and size."""
        check_number("rows", self.rows, low=1, integer=True)
        check_number("columns", self.columns, low=1, integer=True)
        object.__setattr__(self, "radius", check_size("radius", self.radius))

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of entries."""
        return self.rows * self.columns

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return (self.rows, self.columns)

    def _svd(self, x: Vector) -> tuple[Any, Any, Any]:
        return np.linalg.svd(x.reshape(self.shape), full_matrices=False)


class NuclearBall(_MatrixBall):
    """Matrices whose singular values sum to at most the radius.

    Its extreme points are radius times uv', |u| = |v| = 1.

    Parameters
    ----------
    rows, columns : int
    radius : float

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import NuclearBall
    >>> abs(NuclearBall(2, 2, 1.0).linear_min(np.array([2.0, 0.0, 0.0, 1.0]))).round(6).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """

    constant_norm = True

    def linear_min(self, g: Vector) -> Vector:
        """Return -radius u1 v1' of the top singular pair."""
        G = g.reshape(self.shape)
        if min(self.shape) <= MAX_DENSE_ORDER:
            U, _, Vt = self._svd(g)
        else:
            U, _, Vt = sla.svds(G, k=1, v0=_first(min(self.shape)), random_state=0)
        return np.outer(U[:, 0] * -self.radius, Vt[0]).ravel()

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return g'x + radius sigma_1, the singular value by a dense factorization."""
        G = g.reshape(self.shape)
        small = G @ G.T if self.rows <= self.columns else G.T @ G
        last = len(small) - 1
        top = scipy.linalg.eigvalsh(small, subset_by_index=[last, last])[0]
        return float(g @ x + self.radius * np.sqrt(max(top, 0.0)))

    def violation(self, x: Vector) -> float:
        """Return the excess of the sum of the singular values."""
        return max(0.0, float(np.sum(_singular_values(x, self.shape))) - self.radius)

    def project(self, x: Vector) -> Vector:
        """Project the singular values: a full decomposition."""
        U, s, Vt = self._svd(x)
        if np.sum(s) <= self.radius:
            return np.array(x)
        return ((U * project_simplex(s, self.radius)) @ Vt).ravel()


class SpectralBall(_MatrixBall):
    """Matrices whose largest singular value is at most the radius.

    Its extreme points are radius times the matrices with orthonormal rows or columns.

    Parameters
    ----------
    rows, columns : int
    radius : float

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import SpectralBall
    >>> abs(SpectralBall(2, 2, 1.0).linear_min(np.array([2.0, 0.0, 0.0, 1.0]))).round(6).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """

    constant_norm = True

    def linear_min(self, g: Vector) -> Vector:
        """Return minus radius times the polar factor."""
        U, _, Vt = self._svd(g)
        return (-self.radius * (U @ Vt)).ravel()

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return the sum of s_k (radius + u_k'X v_k): terms that are nonnegative."""
        U, s, Vt = self._svd(g)
        inner = np.einsum("ik,ij,kj->k", U, x.reshape(self.shape), Vt, optimize=True)
        return float(s @ np.maximum(self.radius + inner, 0.0))

    def violation(self, x: Vector) -> float:
        """Return the excess of the largest singular value."""
        return max(0.0, float(_singular_values(x, self.shape)[0]) - self.radius)

    def project(self, x: Vector) -> Vector:
        """Clip the singular values."""
        U, s, Vt = self._svd(x)
        return ((U * np.minimum(s, self.radius)) @ Vt).ravel()


def _symmetric(g: Vector, n: int) -> Vector:
    """Return the symmetric part of a matrix of order n."""
    G = g.reshape(n, n)
    return 0.5 * (G + G.T)


def _singular_values(x: Vector, shape: tuple[int, int]) -> Vector:
    """Return all singular values, the largest first."""
    return np.asarray(np.linalg.svd(x.reshape(shape), compute_uv=False), dtype=np.float64)


def _first(n: int) -> Vector:
    """Return the first Lanczos vector: fixed, and random."""
    return np.random.default_rng(0).standard_normal(n)
