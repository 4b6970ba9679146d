"""The normal matrix of weighted rows: its assembly, and the factors that solve with it.

    M_Q = I + sum over i in Q of d_i (x_i - xbar)(x_i - xbar)',   xbar = sum d_i x_i / sum d_i

is (3.17) of Jung, O'Leary and Tits with the rank-one term gathered into the mean, so that no digits
cancel. Without a bias xbar = 0.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, spotrf, spotrs
from scipy.sparse.linalg import splu

from qpsvm.numerics.csr_rows import Rows, add, add_outer_products, in_order
from qpsvm.numerics.jit import reassociating
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.row_products import read_only

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

BLOCK_ROWS, BLOCK_ENTRIES = 1024, 1 << 18
"""Rows of X gathered at a time, as long as they have so many entries in all, or few rows."""

SHARED = 1e8
"""Multiplications from which the rows are shared out in two parts, to two threads if there are."""


potrf, potrs = {"d": dpotrf, "f": spotrf}, {"d": dpotrs, "f": spotrs}
"""LAPACK's Cholesky by precision; scipy's own calls of it cost as much as a small matrix."""

FACTOR = 6
"""Where the factor lies in the memory that is used again."""


class Factor(Protocol):
    """Something that solves with M_Q."""

    def solve(self, b: Vector) -> Vector:
        """Return M_Q^-1 b."""


class Room:
    """Memory that is used again: to touch fresh memory takes longer than to fill it."""

    def __init__(self) -> None:
        self._pieces: dict[int, NDArray[np.uint8]] = {}

    def empty(self, key: int, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
        """Return the piece `key` in some shape."""
        n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
        piece = self._pieces.get(key)
        if piece is None or len(piece) < n_bytes:
            piece = self._pieces[key] = np.empty(n_bytes * 9 // 8, np.uint8)
        return piece[:n_bytes].view(dtype).reshape(shape)

    def zeros(self, key: int, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
        """Return it filled with zeros."""
        out = self.empty(key, shape, dtype)
        out[:] = 0
        return out


class Identity:
    """M before the first factorization."""

    def solve(self, b: Vector) -> Vector:
        """Return b."""
        return b


class Dense:
    """Cholesky factor of an assembled n x n matrix, of which the lower triangle is read."""

    def __init__(self, M: NDArray[np.floating], room: Room) -> None:
        self._factor = _cholesky(M, room.empty(FACTOR, M.shape, M.dtype).T)
        self._solve = potrs[M.dtype.char]

    def solve(self, b: Vector) -> Vector:
        """Return M_Q^-1 b."""
        x, _ = self._solve(self._factor, b.astype(self._factor.dtype), lower=1, overwrite_b=1)
        return np.asarray(x, np.float64)


class Dual:
    """Inverse by Sherman, Morrison and Woodbury, for fewer rows than columns.

    (E + Z'DZ)^-1 = E^-1 - E^-1 Z'(D^-1 + Z E^-1 Z')^-1 Z E^-1, Z = X_Q - 1 xbar_Q', E = diag(base).
    """

    def __init__(self, X: Any, d: Vector, bias: bool, base: Vector | float = 1.0) -> None:
        self._X = X = X.astype(np.float64, copy=False)
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
        self._factor = _cholesky(K, np.empty_like(K, order="F"))

    def solve(self, b: Vector) -> Vector:
        """Return M_Q^-1 b."""
        b = b / self._base
        v = self._X @ b
        v -= float(self._mean @ b)
        v = dpotrs(self._factor, v, lower=1, overwrite_b=1)[0]
        return b - (self._X.T @ v - self._mean * float(np.sum(v))) / self._base


class Sparse:
    """Sparse LU of A = I + X_Q'D_QX_Q, then the rank-one term (section 3.2 of the paper).

    x = t + p (ybar't) / (c - ybar'p), t = A^-1 b, p = A^-1 ybar, ybar = X_Q'd.
    """

    def __init__(self, X: Any, d: Vector, bias: bool) -> None:
        A = (X.T @ (sp.diags(d) @ X) + sp.identity(X.shape[1])).tocsc()
        self._lu = splu(A, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        self._ybar = np.asarray(X.T @ d)
        self._p = self._lu.solve(self._ybar)
        self._room = float(np.sum(d)) - float(self._ybar @ self._p) if bias else np.inf

    def solve(self, b: Vector) -> Vector:
        """Return M_Q^-1 b."""
        t = self._lu.solve(b)
        return np.asarray(t + self._p * (float(self._ybar @ t) / self._room))


def _cholesky(M: NDArray[np.floating], out: NDArray[np.floating]) -> NDArray[np.floating]:
    """Fill the factor of M, shifted in steps of 100 where rounding has made it indefinite."""
    if not np.isfinite(np.trace(M)):
        raise np.linalg.LinAlgError("the normal matrix is not finite")
    shift, step = 0.0, 4.0 * np.finfo(M.dtype).eps * np.trace(M)
    for _ in range(7):
        out[:] = M
        out[np.diag_indices_from(out)] += shift
        factor, info = potrf[M.dtype.char](out, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            return np.asarray(factor)
        shift, step = step, 100.0 * step
    raise np.linalg.LinAlgError("the normal matrix is indefinite")


def assemble(
    X: Any, rows: Index, d: Vector, mean: Vector, bias: bool, dtype: Any, room: Room
) -> NDArray[np.floating]:
    """Return the lower triangle of M_Q, shape (n, n), Fortran-ordered.

    Parameters
    ----------
    X : ndarray of shape (m, n), or Rows with n columns
    rows, d : ndarray, shape (q,)
        Q and its weights.
    mean : ndarray, shape (n,)
        About where the rows lie: it is taken away from dense ones first, so that few digits cancel.
    bias : bool
        Whether the mean of Q is taken away.
    dtype : dtype
        float32 has the digits of a preconditioner only. CSR rows are summed in float64.
    room : Room
        Memory that is used again at the next iteration.
    """
    n = len(mean)
    if isinstance(X, Rows):
        M, moment = room.zeros(0, (n, n), np.float64).T, np.zeros(n)
        weights = np.zeros(len(X.ends) - 1)
        weights[rows] = d
        add_outer_products(X, rows, weights, M.T)
        add_rows(X, rows, d, moment)
    else:
        M, moment = _assemble_dense(X, rows, d, mean, dtype, room)
    if bias:
        M -= np.outer(moment, moment / float(np.sum(d)))
    M[np.diag_indices_from(M)] += 1.0
    return M


def _assemble_dense(
    X: NDArray[np.floating], rows: Index, d: Vector, mean: Vector, dtype: Any, room: Room
) -> tuple[NDArray[np.floating], Vector]:
    """Return Z'DZ and Z'd, Z = X_Q - 1 mean'."""
    n, count = len(mean), len(rows)
    size = min(max(BLOCK_ROWS, BLOCK_ENTRIES // n), count)
    roots = np.sqrt(d)
    n_parts = 2 if count * float(n) ** 2 >= SHARED else 1
    sums = [(room.zeros(3 * k, (n, n), dtype), np.zeros(n)) for k in range(n_parts)]

    def add_part(k: int) -> None:
        first, last = k * count // n_parts, (k + 1) * count // n_parts
        M, moment = sums[k]
        square = room.empty(3 * k + 1, (n, n), dtype)
        buffer = room.empty(3 * k + 2, (size, n), dtype)
        for start in range(first, last, size):
            stop = min(start + size, last)
            block = buffer[: stop - start]
            _gather(read_only(X), rows[start:stop], roots[start:stop], mean, block, moment)
            M += np.matmul(block.T, block, out=square)  # BLAS sees that it is symmetric

    parallel_for(add_part, list(range(n_parts)))
    M, moment = sums[0]
    for other, its_moment in sums[1:]:
        M += other
        moment += its_moment
    return M.T, moment


@reassociating
def _gather(X: Any, rows: Any, roots: Any, mean: Any, out: Any, moment: Any) -> None:
    """Fill the rows roots_k (x_i - mean), i = rows[k], and add their sum with weights roots_k^2."""
    for k in range(len(rows)):
        x = X[rows[k]]
        root = roots[k]
        for j in range(len(x)):
            v = root * (x[j] - mean[j])
            out[k, j] = v
            moment[j] += root * v


@in_order
def add_rows(of: Rows, rows: Any, d: Any, out: Any) -> None:
    """Add d_k x_i, i = rows[k]."""
    data, columns, ends = of
    for k in range(len(rows)):
        i = rows[k]
        add(data, columns, ends[i], ends[i + 1], d[k], out)
