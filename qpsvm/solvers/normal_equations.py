"""Normal equations of the interior point method on a factor X, from some rows or from all.

    M = I + sum over i of d_i (x_i - xbar)(x_i - xbar)',   xbar = sum d_i x_i / sum d_i,   d = 1 / omega

is (3.11) of Jung, O'Leary and Tits with the rank-one term gathered into the mean, so that no digits
cancel. M_Q, (3.17), is the same sum over a subset Q with its own mean. M - M_Q >= 0 and M_Q >= I:
M_Q is a preconditioner of conjugate gradients on M, exact where Q holds every row that counts.
Without a bias xbar = 0.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from qpsvm.gram.linear import times
from qpsvm.solvers.steps import compiled
from qpsvm.threads import spread

Vector = NDArray[np.float64]

BLOCK_ENTRIES = 1 << 18
"""Entries of X gathered at a time: 2 MB in float64, which the cache holds."""

SHARED = 1e8
"""Multiplications from which the rows are shared out in two parts, to two threads if there are."""

CANCELLED = 0.9
"""Rows are centered as they are gathered where the mean holds more than this share of the squares."""

DENSE, HEAVY = 2000, 1000
"""Largest order of a dense factor for CSR points, and number of rows kept beyond it."""

SPARSE = 0.001
"""Share of nonzero entries of X'X, of about a thousand rows, up to which SuperLU is tried.

Measured on text, 7,770 points with 44 of 8,315 features each: SuperLU filled in and took 22 s for a
factor; a thousand rows and a diagonal take 0.1 s, and some ten steps of conjugate gradients a solve.
"""

MOST_REFINEMENTS, MOST_STEPS = 3, 200
"""Steps of conjugate gradients with an exact factor and with a reduced one."""


class Factor(Protocol):
    """Something that solves with M_Q."""

    def solve(self, b: Vector) -> Vector:
        """Return M_Q^-1 b."""


class NormalEquations:
    """M dw = rhs for the points X, refactored at every iteration.

    Parameters
    ----------
    X : ndarray or CSR matrix, shape (m, n)
        float32 points are multiplied in float64, block by block; of CSR points a transposed copy is
        kept.
    squares : ndarray, shape (m,)
        Squared norms of the rows.
    bias : bool
        Whether there is a free bias; without one mean = 0 and total is infinite.

    Attributes
    ----------
    mean : ndarray, shape (n,)
        xbar over all rows.
    total : float
        c = sum of d over all rows.
    whole : bool
        Whether the factor is that of M.
    """

    def __init__(self, X: Any, squares: Vector, bias: bool = True) -> None:
        self.m, self.n = X.shape
        self.bias = bias
        self.X: Any = _compressed(X) if sp.issparse(X) else X
        self.squares = squares
        self.mean = np.zeros(self.n)
        self.total = 0.0
        self._d = np.zeros(self.m)
        self._factor: Factor = _Identity()
        self.whole = True

    def take(self, rows: NDArray[np.int64]) -> NormalEquations:
        """Return the same on the rows asked for, copied."""
        return NormalEquations(self.X[rows], self.squares[rows], self.bias)

    def times(self, v: Vector) -> Vector:
        """Return X v."""
        return times(self.X, v)

    def transposed(self, v: Vector) -> Vector:
        """Return X'v."""
        if sp.issparse(self.X):
            return np.asarray(self._XT @ v)
        if self.X.dtype == np.float64:
            return np.asarray(self.X.T @ v)
        size = max(1, BLOCK_ENTRIES // self.n)
        total = np.zeros(self.n)
        for i in range(0, self.m, size):
            total += v[i : i + size] @ self.X[i : i + size].astype(np.float64)
        return total

    def transposed_all(self, V: Vector) -> Vector:
        """Return V X for some rows V, shape (k, m), in one pass where that is cheaper."""
        if isinstance(self.X, np.ndarray) and self.X.dtype == np.float64:
            return V @ self.X
        return np.array([self.transposed(v) for v in V])

    def factor(
        self, scaling: Vector, moment: Vector, active: NDArray[np.int64] | None, exact: bool
    ) -> None:
        """Assemble and factor M_Q from d = `scaling`, X'd = `moment`, the rows `active` (None: all).

        Of wide CSR points, unless `exact`, only the heaviest rows are kept and the others reduced to
        their diagonal, where the factor would not be sparse.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is not finite.
        """
        d = self._d = scaling
        self.total = float(np.sum(d)) if self.bias else np.inf
        self.mean = moment / self.total
        self.whole = active is None
        count = self.m if active is None else len(active)
        if min(count, self.n) <= DENSE or not sp.issparse(self.X):
            if count < self.n:
                self._factor = _Dual(self.X, d, active, self.bias)
                return
            offset = self.bias and (
                self.total * float(self.mean @ self.mean) > CANCELLED * float(d @ self.squares)
            )
            self._factor = _Dense(_assemble(self.X, d, active, self.mean, offset, self.bias))
            return
        if exact or self._stays_sparse:
            self._factor = _Sparse(self.X, d, active, self.bias)
            return
        # the heaviest rows, and the diagonal of the others
        self.whole = False
        heavy = np.argpartition(-d * self.squares, HEAVY)[:HEAVY]
        rest = d.copy()
        rest[heavy] = 0.0
        base = 1.0 + np.asarray(self._squared @ rest)
        self._factor = _Dual(self.X, d, heavy, self.bias, base)

    @cached_property
    def _XT(self) -> Any:
        """X' of CSR points."""
        return _compressed(self.X.T)

    @cached_property
    def _stays_sparse(self) -> bool:
        """Whether X'X is so sparse that its factor may be."""
        some = self.X if self.m <= HEAVY else self.X[:: self.m // HEAVY]
        return bool((some.T @ some).nnz <= SPARSE * self.n**2)

    @cached_property
    def _squared(self) -> Any:
        """X' with its entries squared."""
        return self._XT.multiply(self._XT).tocsr()

    def solve(self, rhs: Vector) -> tuple[Vector, Vector]:
        """Return dw with M_Q dw = rhs, (3.23), and its spread (x_i - xbar)'dw, shape (m,)."""
        dw = self._factor.solve(rhs)
        return dw, self._spread(dw)

    def relative(self, residual: Vector, rhs: Vector, dw: Vector) -> float:
        """Return the size of a residual relative to the right-hand side, in M_Q^-1's norm."""
        size = float(residual @ self._factor.solve(residual))
        return float(np.sqrt(max(size, 0.0) / max(abs(float(rhs @ dw)), np.finfo(float).tiny)))

    def refine(self, rhs: Vector, dw: Vector, spread: Vector, rtol: float) -> tuple[int, float]:
        """Bring dw and its spread closer to M dw = rhs by preconditioned conjugate gradients.

        Until the residual is below `rtol` times the right-hand side in the norm of M_Q^-1. Returns
        the number of steps, and the relative residual before the first one.
        """
        r = rhs - self._product(dw, spread)
        z = self._factor.solve(r)
        size = max(abs(float(rhs @ dw)), np.finfo(float).tiny)
        p, rho = z, float(r @ z)
        bare = float(np.sqrt(max(rho, 0.0) / size))
        limit = MOST_REFINEMENTS if self.whole else MOST_STEPS
        n_steps = 0
        while n_steps < limit and rho > rtol * rtol * size:
            part = self._spread(p)
            q = self._product(p, part)
            curvature = float(p @ q)
            if not curvature > 0:
                break
            n_steps += 1
            a = rho / curvature
            dw += a * p
            spread += a * part
            r -= a * q
            z = self._factor.solve(r)
            rho, before = float(r @ z), rho
            p = z + (rho / before) * p
        return n_steps, bare

    def _spread(self, v: Vector) -> Vector:
        """Return (x_i - xbar)'v."""
        out = self.times(v)
        out -= float(self.mean @ v)
        return out

    def _product(self, v: Vector, spread: Vector) -> Vector:
        """Return M v, given its spread."""
        weighted = self._d * spread
        return v + self.transposed(weighted) - self.mean * float(np.sum(weighted))


def _compressed(X: Any) -> sp.csr_matrix:
    """Return X as CSR in float64 with the shortest indices that fit."""
    X = sp.csr_matrix(X, dtype=np.float64)
    if max(X.nnz, *X.shape) < 2**31 and X.indices.dtype != np.int32:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = sp.csr_matrix(parts, shape=X.shape)
    return X


class _Identity:
    """M before the first factorization."""

    def solve(self, b: Vector) -> Vector:
        return b


class _Dense:
    """Cholesky factor of an assembled n x n matrix, of which the lower triangle is read."""

    def __init__(self, M: Vector) -> None:
        self._cholesky = _cholesky(M)

    def solve(self, b: Vector) -> Vector:
        return np.asarray(scipy.linalg.cho_solve(self._cholesky, b, check_finite=False))


class _Dual:
    """Inverse by Sherman, Morrison and Woodbury, for fewer rows than columns.

    (E + Z'DZ)^-1 = E^-1 - E^-1 Z'(D^-1 + Z E^-1 Z')^-1 Z E^-1, Z = X_Q - 1 xbar_Q', E = diag(base).
    """

    def __init__(
        self,
        X: Any,
        d: Vector,
        rows: NDArray[np.int64] | None,
        bias: bool,
        base: Vector | float = 1.0,
    ) -> None:
        X = X if rows is None else X[rows]
        self._X = X = X.astype(np.float64, copy=False)
        d = d if rows is None else d[rows]
        self._base = np.broadcast_to(base, X.shape[1])
        self._mean = mean = np.asarray(X.T @ d) / float(np.sum(d) if bias else np.inf)
        if sp.issparse(X):
            K = (X @ sp.diags(1.0 / self._base) @ X.T).toarray()
        else:
            K = (X / self._base) @ X.T
        k = np.asarray(X @ (mean / self._base))
        K -= k[:, None]
        K -= k[None, :]
        K += float(mean @ (mean / self._base))
        K[np.diag_indices_from(K)] += 1.0 / d
        self._cholesky = _cholesky(K)

    def solve(self, b: Vector) -> Vector:
        b = b / self._base
        v = self._X @ b
        v -= float(self._mean @ b)
        v = scipy.linalg.cho_solve(self._cholesky, v, check_finite=False)
        return b - (self._X.T @ v - self._mean * float(np.sum(v))) / self._base


class _Sparse:
    """Sparse LU of A = I + X_Q'D_QX_Q, then the rank-one term (section 3.2 of the paper).

    x = t + p (ybar't) / (c - ybar'p), t = A^-1 b, p = A^-1 ybar, ybar = X_Q'd.
    """

    def __init__(self, X: Any, d: Vector, active: NDArray[np.int64] | None, bias: bool) -> None:
        X = X if active is None else X[active]
        d = d if active is None else d[active]
        A = (X.T @ (sp.diags(d) @ X) + sp.identity(X.shape[1])).tocsc()
        self._lu = splu(A, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        self._ybar = np.asarray(X.T @ d)
        self._p = self._lu.solve(self._ybar)
        self._room = float(np.sum(d)) - float(self._ybar @ self._p) if bias else np.inf

    def solve(self, b: Vector) -> Vector:
        t = self._lu.solve(b)
        return np.asarray(t + self._p * (float(self._ybar @ t) / self._room))


def _cholesky(M: Vector) -> tuple[Vector, bool]:
    """Return the factor of M, shifted in steps of 100 where rounding has made it indefinite."""
    if not np.isfinite(np.trace(M)):
        raise np.linalg.LinAlgError("the normal matrix is not finite")
    shift = 1e-15 * float(np.trace(M))
    diagonal = np.diagonal(M).copy()
    for _ in range(7):
        try:
            factor, lower = scipy.linalg.cho_factor(M, lower=True, check_finite=False)
            return np.asarray(factor), bool(lower)
        except np.linalg.LinAlgError:
            M[np.diag_indices_from(M)] = diagonal + shift
            shift *= 100.0
    raise np.linalg.LinAlgError("the normal matrix is indefinite")


def _assemble(
    X: Any, d: Vector, active: NDArray[np.int64] | None, mean: Vector, offset: bool, bias: bool
) -> Vector:
    """Return the lower triangle of M_Q, shape (n, n), Fortran-ordered.

    Dense rows have `mean`, that of all rows, taken away where they are `offset` from zero. Without a
    bias nothing is taken away.
    """
    n = X.shape[1]
    M = np.zeros((n, n), order="F")
    weights = d if active is None else d[active]
    total = float(np.sum(weights))
    if sp.issparse(X):
        rows = np.arange(X.shape[0]) if active is None else active
        _add_outer_products(X.data, X.indices, X.indptr, rows, d, M.T)
        moment = total * mean if active is None else np.asarray(X[active].T @ weights)
    else:
        roots, count = np.sqrt(weights), len(weights)
        n_parts = 2 if count * float(n) ** 2 >= SHARED else 1
        sums = [(M if k == 0 else np.zeros((n, n), order="F"), np.zeros(n)) for k in range(n_parts)]

        def add(k: int) -> None:
            first, last = k * count // n_parts, (k + 1) * count // n_parts
            _add_blocks(X, roots, active, mean if offset else None, first, last, *sums[k])

        spread(add, list(range(n_parts)))
        moment = sums[0][1]
        for other, its_moment in sums[1:]:
            M += other
            moment += its_moment
    if bias:
        M -= np.outer(moment, moment / total)
    M[np.diag_indices_from(M)] += 1.0
    return M


def _add_blocks(
    X: Any,
    roots: Vector,
    active: NDArray[np.int64] | None,
    mean: Vector | None,
    first: int,
    last: int,
    M: Vector,
    moment: Vector,
) -> None:
    """Add Z'DZ to M and Z'd to the moment for rows from `first` to `last`, Z moved by the mean."""
    n = X.shape[1]
    size = max(256, BLOCK_ENTRIES // n)
    buffer, square = np.empty((min(size, last - first), n)), np.empty((n, n))
    for start in range(first, last, size):
        at = slice(start, min(start + size, last))
        root = roots[at]
        block = buffer[: len(root)]
        some = X[at if active is None else active[at]]
        if mean is None:
            np.multiply(some, root[:, None], out=block)
        else:
            np.subtract(some, mean, out=block)
            block *= root[:, None]
        moment += root @ block
        M += np.matmul(block.T, block, out=square).T  # BLAS sees that it is symmetric


@compiled
def _add_outer_products(data: Any, indices: Any, indptr: Any, rows: Any, d: Any, M: Any) -> None:
    """Add d_i x_i x_i' to the entries M[j, k], j <= k of sorted rows."""
    for i in rows:
        for a in range(indptr[i], indptr[i + 1]):
            v = d[i] * data[a]
            row = M[indices[a]]
            for b in range(a, indptr[i + 1]):
                row[indices[b]] += v * data[b]
