"""The normal matrix of weighted rows: its assembly, and the factors that solve with it.

    M_Q = I + sum over i in Q of d_i (x_i - xbar)(x_i - xbar)',   xbar = sum d_i x_i / sum d_i

is (3.17) of Jung, O'Leary and Tits with the rank-one term absorbed into the mean, so that no digits
cancel. Without a bias xbar = 0.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, spotrf, spotrs

from qpsvm.numerics.csr_rows import Rows, add, add_outer_products, in_order
from qpsvm.numerics.jit import reassociating
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.row_products import read_only

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

MIN_BLOCK_ROWS = 1024
"""Minimum number of rows of X gathered at a time."""

BLOCK_ENTRIES = 1 << 18
"""Number of entries of X gathered at a time where these are more rows."""

MIN_PRODUCTS_FOR_TWO_PARTS, PRODUCTS_PER_SUM = 1e6, 10.0
"""Number of products of two stored entries from which two parts of CSR rows pay, at all and for each
entry of the matrices that are then added."""

MIN_MULTIPLICATIONS_FOR_TWO_PARTS = 1e8
"""Multiplications from which the rows are split into two parts, for two threads where there are two."""

MAX_CHANGED_SHARE = 0.5
"""Share of rows with changed weights up to which a `ChangingMatrix` adds the changes to the last sum."""

MIN_TRACE_SHARE = 1e-3
"""Share of the largest trace of a `ChangingMatrix` below which all rows are summed again."""

potrf, potrs = {"d": dpotrf, "f": spotrf}, {"d": dpotrs, "f": spotrs}
"""LAPACK's Cholesky by precision; scipy's wrappers cost as much as a small matrix."""

FACTOR_KEY = 6
"""Key of the factor's buffer in the scratch memory."""


class Factor(Protocol):
    """Something that solves with M_Q."""

    def solve(self, b: Vector) -> Vector:
        """Return M_Q^-1 b."""


class Scratch:
    """Buffers that are reused: touching new memory takes longer than filling it."""

    def __init__(self) -> None:
        self._buffers: dict[int, NDArray[np.uint8]] = {}

    def empty(self, key: int, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
        """Return the buffer `key` as an array of this shape."""
        n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
        buffer = self._buffers.get(key)
        if buffer is None or len(buffer) < n_bytes:
            buffer = self._buffers[key] = np.empty(n_bytes * 9 // 8, np.uint8)
        return buffer[:n_bytes].view(dtype).reshape(shape)

    def zeros(self, key: int, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
        """Return the same array filled with zeros."""
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

    def __init__(self, M: NDArray[np.floating], scratch: Scratch) -> None:
        self._factor = _cholesky(M, scratch.empty(FACTOR_KEY, M.shape, M.dtype).T)
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


def _cholesky(M: NDArray[np.floating], out: NDArray[np.floating]) -> NDArray[np.floating]:
    """Fill the factor of M, with growing shifts where rounding has made M indefinite."""
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
    X: Any, rows: Index, d: Vector, mean: Vector, bias: bool, dtype: Any, scratch: Scratch
) -> NDArray[np.floating]:
    """Return the lower triangle of M_Q, shape (n, n), Fortran-ordered.

    Parameters
    ----------
    X : ndarray of shape (m, n), or Rows with n columns
    rows, d : ndarray, shape (q,)
        Q and its weights.
    mean : ndarray, shape (n,)
        Approximate mean of the rows: it is subtracted from dense ones first, so that few digits cancel.
    bias : bool
        Whether the mean of Q is subtracted.
    dtype : dtype
        float32 suffices for a preconditioner only. CSR rows are summed in float64.
    scratch : Scratch
        Buffers that are reused in the next iteration.
    """
    M, moment = _assemble_parts(X, rows, d, mean, bias, dtype, scratch)
    if bias:
        M -= np.outer(moment, moment / float(np.sum(d)))
    M[np.diag_indices_from(M)] += 1.0
    return M


class ChangingMatrix:
    """M_Q without a bias, where few weights change from one call to the next: they alone are summed.

    X is the same at every call. The rounding of what was subtracted stays: all rows are summed again
    where little of the largest M is left.
    """

    def __init__(self) -> None:
        self._weights = np.zeros(0)
        self._M: NDArray[np.floating] = np.zeros((0, 0))
        self._largest_trace = 0.0

    def assemble(
        self, X: Any, rows: Index, d: Vector, mean: Vector, scratch: Scratch
    ) -> NDArray[np.floating]:
        """Return what `assemble` does for a `mean` of zeros, in float64; it is read-only."""
        weights = np.zeros(len(X.ends) - 1 if isinstance(X, Rows) else len(X))
        weights[rows] = d
        change = weights - self._weights if len(self._weights) else weights
        changed = np.flatnonzero(change)
        is_update = bool(len(self._weights)) and len(changed) <= MAX_CHANGED_SHARE * len(rows)
        if is_update:
            for sign, update in ((1.0, np.add), (-1.0, np.subtract)):
                some = changed[sign * change[changed] > 0.0]
                if len(some):
                    size = sign * change[some]
                    part, _ = _assemble_parts(X, some, size, mean, False, np.float64, scratch)
                    update(self._M, part, out=self._M)
        if not is_update or np.trace(self._M) < MIN_TRACE_SHARE * self._largest_trace:
            self._M = assemble(X, rows, d, mean, False, np.float64, scratch).copy("F")
            self._largest_trace = 0.0
        self._largest_trace = max(self._largest_trace, float(np.trace(self._M)))
        self._weights = weights
        return self._M


def _assemble_parts(
    X: Any, rows: Index, d: Vector, mean: Vector, bias: bool, dtype: Any, scratch: Scratch
) -> tuple[NDArray[np.floating], Vector]:
    """Return Z'DZ and, where there is a bias, Z'd; Z = X_Q - 1 mean', or X_Q of CSR points."""
    if not isinstance(X, Rows):
        return _assemble_dense(X, rows, d, mean, dtype, scratch)
    M, moment = _assemble_sparse(X, rows, d, len(mean), scratch), np.zeros(len(mean))
    if bias:
        add_rows(X, rows, d, moment)
    return M, moment


def _assemble_sparse(
    X: Rows, rows: Index, d: Vector, n: int, scratch: Scratch
) -> NDArray[np.floating]:
    """Return the lower triangle of X_Q'DX_Q, Fortran-ordered."""
    weights = np.zeros(len(X.ends) - 1)
    weights[rows] = d
    length = float(X.ends[-1]) / len(weights)
    n_products = 0.5 * len(rows) * length * length
    pays = n_products >= max(MIN_PRODUCTS_FOR_TWO_PARTS, PRODUCTS_PER_SUM * float(n) ** 2)
    parts = np.array_split(rows, 2) if pays else [rows]
    sums = [scratch.zeros(3 * k, (n, n), np.float64) for k in range(len(parts))]
    parallel_for(lambda k: add_outer_products(X, parts[k], weights, sums[k]), [*range(len(parts))])
    for other in sums[1:]:
        sums[0] += other
    return sums[0].T


def _assemble_dense(
    X: NDArray[np.floating], rows: Index, d: Vector, mean: Vector, dtype: Any, scratch: Scratch
) -> tuple[NDArray[np.floating], Vector]:
    """Return Z'DZ and Z'd, Z = X_Q - 1 mean'."""
    n, count = len(mean), len(rows)
    size = min(max(MIN_BLOCK_ROWS, BLOCK_ENTRIES // n), count)
    roots = np.sqrt(d)
    n_parts = 2 if count * float(n) ** 2 >= MIN_MULTIPLICATIONS_FOR_TWO_PARTS else 1
    sums = [(scratch.zeros(3 * k, (n, n), dtype), np.zeros(n)) for k in range(n_parts)]

    def add_part(k: int) -> None:
        first, last = k * count // n_parts, (k + 1) * count // n_parts
        M, moment = sums[k]
        square = scratch.empty(3 * k + 1, (n, n), dtype)
        buffer = scratch.empty(3 * k + 2, (size, n), dtype)
        for start in range(first, last, size):
            stop = min(start + size, last)
            block = buffer[: stop - start]
            _gather(read_only(X), rows[start:stop], roots[start:stop], mean, block, moment)
            M += np.matmul(block.T, block, out=square)  # BLAS sees that it is symmetric

    parallel_for(add_part, list(range(n_parts)))
    M, moment = sums[0]
    for other, other_moment in sums[1:]:
        M += other
        moment += other_moment
    return M.T, moment


@reassociating
def _gather(X: Any, rows: Any, roots: Any, mean: Any, out: Any, moment: Any) -> None:
    """Fill roots_k (x_i - mean), i = rows[k]; add their sum with weights roots_k^2 to `moment`."""
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
