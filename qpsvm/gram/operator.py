"""General quadratics, declared by their operator: by Q itself, or by A of a least-squares problem.

Solvers use five operations only. The *image* of x is the result of one product, Qx or Ax; value,
gradient and curvature follow from it::

    p = quad.product(x)        # Q x, or A x: linear in x, so that it is maintained along steps
    quad.slope(p)              # Q x, or A'(Ax - b)
    quad.curvature(d, p_d)     # d'Qd, or |Ad|^2
    quad.smoothness            # the largest eigenvalue of the Hessian, rounded up
    quad.work                  # multiplications of one product
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_points
from qpsvm.gram.base import Gram
from qpsvm.gram.column_store import ColumnStore
from qpsvm.gram.precomputed import Precomputed
from qpsvm.gram.signed import SignedGram

Vector = NDArray[np.float64]

MAX_ORDER_FOR_EXACT_EIGENVALUE = 1500
"""Order up to which the largest eigenvalue is computed exactly; above it, by Lanczos steps."""

FLOAT64_EPS = float(np.finfo(np.float64).eps)


class General(ABC):
    """A quadratic of m variables: the interface for solvers on general domains."""

    @property
    @abstractmethod
    def work(self) -> int:
        """Multiplications of one product."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """Largest eigenvalue of the Hessian, rounded up where it is not exact."""

    @abstractmethod
    def product(self, x: Vector) -> Vector:
        """Return the image of x, recomputed."""

    @abstractmethod
    def slope(self, product: Vector) -> Vector:
        """Return the gradient without the linear term, from the image."""

    @abstractmethod
    def curvature(self, d: Vector, product: Vector) -> float:
        """Return d'Qd from the image of d."""

    @abstractmethod
    def entries(self, v: Vector, image: Vector, images: Vector) -> Vector:
        """Return v'Qw for each w whose image is a row of `images`; `image` is that of v."""

    @property
    def has_draws(self) -> bool:
        """Whether `draw` gives stochastic gradients."""
        return False

    def draw(
        self, x: Vector, product: Vector, size: int, rng: np.random.Generator
    ) -> tuple[Vector, int]:
        """Return an unbiased gradient at x from about `size` draws, and how many it took."""
        raise TypeError(f"{type(self).__name__} gives no stochastic gradients")

    @property
    def reference_point(self) -> Vector:
        """The point whose gradient chooses the first vertex: the origin."""
        return np.zeros(self.m)  # type: ignore[attr-defined]

    def increases(
        self, product: Vector, slope: float, d: Vector, d_product: Vector, length: float
    ) -> bool:
        """Return whether a step of this length along d from the point of `product` increases f.

        f decreases by `slope` at first: it is a parabola.
        """
        return length * self.curvature(d, d_product) >= 2.0 * slope

    def best_step(
        self, product: Vector, slope: float, d: Vector, d_product: Vector, longest: float
    ) -> float:
        """Return the best step along d, at most `longest`; f decreases by `slope` > 0 at first."""
        curvature = self.curvature(d, d_product)
        return min(slope / curvature, longest) if curvature > 0.0 else longest


@dataclass(frozen=True, eq=False)
class SparseGram(Gram):
    """A sparse symmetric matrix.

    Parameters
    ----------
    K : sparse matrix, shape (m, m)
    psd : {"check", "assume"}
    """

    K: Any
    psd: str = "check"

    def __post_init__(self) -> None:
        """Check the matrix and store it as CSR in float64."""
        K = check_points("Q", self.K).astype(np.float64, copy=False)
        if K.shape[0] != K.shape[1]:
            raise InputError(f"Q must be square, shape (m, m); got {K.shape}")
        gap = abs(K - K.T)
        if gap.nnz and gap.max() > 64 * FLOAT64_EPS * abs(K).max():
            raise InputError(f"Q must be symmetric; got entries that differ by {gap.max():.3g}")
        object.__setattr__(self, "K", K)
        object.__setattr__(self, "m", K.shape[0])
        object.__setattr__(self, "dtype", np.dtype(np.float64))

    def diag(self) -> Vector:
        """Return the diagonal."""
        return np.asarray(self.K.diagonal(), dtype=np.float64)

    def block(self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None) -> Any:
        """Return K[columns, rows] as a dense array."""
        part = self.K[columns] if rows is None else self.K[columns][:, rows]
        return np.ascontiguousarray(part.toarray(), dtype=dtype)

    def dot(self, x: Vector, rows: Any = None) -> Vector:
        """Return K x, or its entries `rows`."""
        return self.K @ x if rows is None else self.K[rows] @ x

    def product_roundoff(self, x: Vector) -> Vector:
        """Return a bound on the rounding error of each entry of K x, from its own terms."""
        return self._roundoff_per_size * (self._sizes @ np.abs(x))

    @cached_property
    def _sizes(self) -> Any:
        """|K|."""
        return abs(self.K)

    @cached_property
    def _roundoff_per_size(self) -> float:
        """Half an eps for each term of the longest row, and for its product."""
        longest = int(np.max(np.diff(self.K.indptr), initial=0))
        return 0.5 * FLOAT64_EPS * (longest + 2)

    def take(self, rows: NDArray[np.int64]) -> SparseGram:
        """Return the principal submatrix of `rows`."""
        return SparseGram(self.K[rows][:, rows], self.psd)

    def cross(self, points: Any, columns: NDArray[np.int64]) -> Vector:
        """Return these columns of a matrix of kernel values with new points."""
        return np.asarray(sp.csr_matrix(points)[:, columns].toarray(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class QuadraticGram(SignedGram, General):
    """Q of 1/2 x'Qx: a signed Gram whose signs are all +1, so that methods on simplices apply.

    Parameters
    ----------
    given : float or None
        The smoothness constant, if the user states it.
    """

    given: float | None = None

    @classmethod
    def of(cls, kernel: Gram, given: float | None) -> QuadraticGram:
        """Return the quadratic of a Gram."""
        return cls(kernel, np.ones(kernel.m), np.zeros(kernel.m), given=given)

    @property
    def work(self) -> int:
        """Multiplications of one product."""
        return self.kernel.K.nnz if isinstance(self.kernel, SparseGram) else self.m * self.m

    @cached_property
    def smoothness(self) -> float:
        """Largest eigenvalue of Q."""
        if self.given is not None:
            return self.given
        if self.m <= MAX_ORDER_FOR_EXACT_EIGENVALUE:
            return largest(self.kernel.block(np.arange(self.m), None, np.float64))
        return largest_by_lanczos(self.m, self.product)

    def product(
        self,
        x: Vector,
        rows: NDArray[np.int64] | None = None,
        store: ColumnStore | None = None,
    ) -> Vector:
        """Return Qx or its entries `rows`; only the rows of few nonzero entries are read."""
        if rows is not None:
            return super().product(x, rows, store)
        if not isinstance(self.kernel, Precomputed) or self.kernel.dtype != np.float64:
            return self.kernel.dot(x)
        support = np.flatnonzero(x != 0)
        if 8 * len(support) < self.m:
            return x[support] @ self.kernel.K[support]
        return self.kernel.K @ x

    def roundoff(
        self, scale: float, x: Vector, support: NDArray[np.int64], weight: float, quadratic: float
    ) -> float:
        """Return a bound on the rounding error of x'Qx: that of its own terms where Q is sparse."""
        if not isinstance(self.kernel, SparseGram):
            return super().roundoff(scale, x, support, weight, quadratic)
        full = np.zeros(self.m)
        full[support] = x
        return 2.0 * float(np.abs(x) @ self.kernel.product_roundoff(full)[support])

    def slope_error(self, x: Vector, scale: float) -> float | Vector:
        """Return a bound on the rounding error of each entry of Qx; `scale` is the largest of Q."""
        if isinstance(self.kernel, SparseGram):
            return self.kernel.product_roundoff(x)
        return 4.0 * FLOAT64_EPS * scale * float(np.linalg.norm(x, 1))

    def slope(self, product: Vector) -> Vector:
        """Return Qx itself."""
        return product

    def curvature(self, d: Vector, product: Vector) -> float:
        """Return d'Qd."""
        return float(d @ product)

    def entries(self, v: Vector, image: Vector, images: Vector) -> Vector:
        """Return v'(Qw)."""
        return images @ v


class WithoutColumns(General):
    """A function on which no method reads kernel columns."""

    psd = "fact"
    origin = None

    @property
    def kernel(self) -> Self:
        """The underlying operator: this one."""
        return self

    @contextmanager
    def hold(self, memory_limit: int) -> Iterator[SimpleNamespace]:
        """Provide an empty store: there are no columns."""
        yield SimpleNamespace(n_computed=0, n_bytes=0)


@dataclass(frozen=True, eq=False)
class Residual(WithoutColumns):
    """1/2 |Ax - b|^2, evaluated in residual form: no digits are lost where it tends to 0.

    Parameters
    ----------
    A : ndarray, CSR matrix or LinearOperator, shape (n, m)
    b : ndarray, shape (n,)
    given : float or None
        The smoothness constant, if the user states it.
    """

    A: Any
    b: Vector
    given: float | None = None

    @property
    def m(self) -> int:
        """Number of variables."""
        return int(self.A.shape[1])

    @property
    def work(self) -> int:
        """Multiplications of one product."""
        return int(getattr(self.A, "nnz", 0)) or int(np.prod(self.A.shape))

    @cached_property
    def smoothness(self) -> float:
        """Largest eigenvalue of A'A: exact for a matrix with few rows or columns."""
        if self.given is not None:
            return self.given
        if isinstance(self.A, sla.LinearOperator):
            return largest_by_lanczos(self.m, lambda x: self.A.rmatvec(self.A.matvec(x)))
        if min(self.A.shape) <= MAX_ORDER_FOR_EXACT_EIGENVALUE:
            wide = self.A.shape[0] <= self.A.shape[1]
            small: Any = self.A @ self.A.T if wide else self.A.T @ self.A
            return largest(small if isinstance(small, np.ndarray) else small.toarray())
        return largest_by_lanczos(self.m, lambda x: self.A.T @ (self.A @ x))

    @cached_property
    def scale(self) -> float:
        """b'b: the size of the data; where b = 0, the smoothness."""
        return float(self.b @ self.b) or self.smoothness

    def product(self, x: Vector) -> Vector:
        """Return Ax."""
        return np.array(self.A @ x, dtype=np.float64)  # an operator may return x itself

    def value(self, product: Vector) -> float:
        """Return 1/2 |Ax - b|^2."""
        residual = product - self.b
        return 0.5 * float(residual @ residual)

    def slope(self, product: Vector) -> Vector:
        """Return A'(Ax - b)."""
        if isinstance(self.A, sla.LinearOperator):
            return np.asarray(self.A.rmatvec(product - self.b), dtype=np.float64)
        return self.A.T @ (product - self.b)

    def curvature(self, d: Vector, product: Vector) -> float:
        """Return |Ad|^2."""
        return float(product @ product)

    def entries(self, v: Vector, image: Vector, images: Vector) -> Vector:
        """Return (Av)'(Aw)."""
        return images @ image

    @cached_property
    def lengths(self) -> Vector | None:
        """Norms of the columns of A, shape (m,); None for an operator."""
        if isinstance(self.A, sla.LinearOperator):
            return None
        if sp.issparse(self.A):
            return np.asarray(sp.linalg.norm(self.A, axis=0))
        return np.sqrt(np.einsum("ij,ij->j", self.A, self.A))

    def roundoff(self, x: Vector, product: Vector) -> float:
        """Return a bound on the rounding error of value and gap.

        The computed residual r has an error e of at most 4 eps times the sum of all |x_j| |A_j| and |b|.
        Any vector in place of r gives a valid lower bound, -|r|^2 / 2 + min r'(Aa - b): e contributes
        |e| |r| and its square only, and so does the rounding of A'r.
        """
        norms = np.abs(x) @ self.lengths if self.lengths is not None else np.linalg.norm(product)
        e = 4.0 * FLOAT64_EPS * (float(norms) + float(np.linalg.norm(self.b)))
        return 3.0 * e * float(np.linalg.norm(product - self.b)) + 4.0 * e * e

    @property
    def has_draws(self) -> bool:
        """Whether single rows of A can be read."""
        return not isinstance(self.A, sla.LinearOperator)

    def draw(
        self, x: Vector, product: Vector, size: int, rng: np.random.Generator
    ) -> tuple[Vector, int]:
        """Return a gradient from `size` rows drawn with replacement, or the exact one from all rows."""
        n_rows = len(self.b)
        if size >= n_rows:
            return self.slope(product), n_rows
        return self.sampled_slope(x, rng.integers(n_rows, size=size)), size

    def sampled_slope(self, x: Vector, rows: NDArray[np.int64]) -> Vector:
        """Return an unbiased estimate of the gradient from a sample of rows."""
        sample = self.A[rows]
        return (len(self.b) / len(rows)) * (sample.T @ (sample @ x - self.b[rows]))


def largest(K: Any) -> float:
    """Return the largest eigenvalue of a symmetric matrix."""
    last = len(K) - 1
    return float(scipy.linalg.eigvalsh(K, subset_by_index=[last, last])[0])


def largest_by_lanczos(m: int, apply: Any, tol: float = 1e-4, noise: float = 0.0) -> float:
    """Return an upper estimate of the largest eigenvalue: that of Lanczos steps, enlarged.

    `noise` bounds the rounding error of the image of a unit vector. Where the image of a random vector
    is no larger, Lanczos steps would find rounding alone: sqrt(m) times the noise is returned, since a
    random vector has 1 / sqrt(m) of its length in any one direction.
    """
    operator = sla.LinearOperator((m, m), matvec=apply, dtype=np.float64)
    first = np.random.default_rng(0).standard_normal(m)
    with np.errstate(over="ignore"):  # an infinite length is not small
        is_noise = np.linalg.norm(apply(first)) <= noise * np.linalg.norm(first)
    if is_noise:
        return float(np.sqrt(m)) * noise
    estimate = sla.eigsh(operator, k=1, v0=first, tol=tol, return_eigenvectors=False)
    return (1.0 + 10.0 * tol) * float(estimate[0])
