"""The sparse factor of the normal matrix: CHOLMOD's where cvxopt is installed, SuperLU's elsewhere."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

Vector = NDArray[np.float64]

MIN_ENTRIES_PER_COLUMN = 3.0
"""Number of nonzero entries per column from which CHOLMOD is faster.

Milliseconds for a factor and for a solve with 20,000 columns: with 2.2 entries in each CHOLMOD needs 8.9
and 1.0, SuperLU 6.1 and 0.3; with 3.1 it is 14.5 and 1.1, SuperLU 29 and 0.6.
"""


class SuperLU:
    """LU without row exchanges, which a positive definite matrix does not need.

    With them, which is scipy's default, the order of elimination is lost: 233,588 entries of a grid of
    100 x 100 filled in to 24 million in 39 s, without them to 1.1 million in 0.2 s.

    Parameters
    ----------
    A : CSC matrix, shape (n, n)
        Symmetric and positive definite.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a pivot is zero.
    """

    package = "superlu"

    def __init__(self, A: Any) -> None:
        options = {"SymmetricMode": True}
        try:
            self._lu = splu(A, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        except RuntimeError as error:  # "Factor is exactly singular"
            raise np.linalg.LinAlgError(str(error)) from error

    def solve(self, b: Vector) -> Vector:
        """Return A^-1 b."""
        return np.asarray(self._lu.solve(b))


class Cholesky:
    """CHOLMOD's factor for one pattern, of which the analysis is kept while the values change.

    Parameters
    ----------
    A : CSC matrix, shape (n, n)
        Symmetric, without duplicates. Its values are not read before `update`.
    """

    package = "cholmod"

    def __init__(self, A: Any) -> None:
        cvxopt = _cvxopt()
        self._cvxopt = cvxopt
        self._indptr, self._indices = A.indptr, A.indices
        order = sp.csc_matrix((np.arange(A.nnz), A.indices.copy(), A.indptr), shape=A.shape)
        order.sort_indices()
        columns = np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))
        lower = order.indices >= columns
        self._entries = order.data[lower]  # of A.data, as cvxopt orders them
        rows, columns = (v[lower].astype(np.int64) for v in (order.indices, columns))
        values = cvxopt.matrix(np.zeros(len(rows)))
        place = cvxopt.matrix(rows), cvxopt.matrix(columns)
        self._matrix = cvxopt.spmatrix(values, *place, A.shape)
        self._factor = cvxopt.cholmod.symbolic(self._matrix)

    def has_pattern_of(self, A: Any) -> bool:
        """Return whether the entries of A stand at the places that were analysed."""
        if A.nnz != len(self._indices) or A.shape != self._matrix.size:
            return False
        return np.array_equal(A.indptr, self._indptr) and np.array_equal(A.indices, self._indices)

    def update(self, A: Any) -> None:
        """Factor a matrix with this pattern.

        Raises
        ------
        ArithmeticError
            If the matrix is not positive definite. The factor is lost.
        """
        self._matrix.V = self._cvxopt.matrix(A.data[self._entries])
        self._cvxopt.cholmod.numeric(self._matrix, self._factor)

    def solve(self, b: Vector) -> Vector:
        """Return A^-1 b."""
        x = self._cvxopt.matrix(np.asarray(b, np.float64))
        self._cvxopt.cholmod.solve(self._factor, x)
        return np.array(x)[:, 0]


class SparseFactors:
    """The factors of one matrix after another, of which only the last is valid."""

    def __init__(self) -> None:
        self._last: Cholesky | None = None

    def factor(self, A: Any) -> Cholesky | SuperLU:
        """Return a factor of A, by CHOLMOD where it is installed and pays, else by SuperLU.

        Parameters
        ----------
        A : CSC matrix, shape (n, n)
            Symmetric and positive definite, without duplicates. It must not be changed afterwards.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is singular or not finite.
        """
        if not np.all(np.isfinite(A.data)):
            raise np.linalg.LinAlgError("the normal matrix is not finite")
        last, self._last = self._last, None
        if A.nnz < MIN_ENTRIES_PER_COLUMN * A.shape[1] or _cvxopt() is None:
            return SuperLU(A)
        if last is None or not last.has_pattern_of(A):
            last = Cholesky(A)
        try:
            last.update(A)
        except ArithmeticError:  # rounding has made A indefinite
            return SuperLU(A)
        self._last = last
        return last


class Sparse:
    """Sparse factor of A = I + X_Q'D_QX_Q, then the rank-one term (section 3.2 of the paper).

    x = t + p (ybar't) / (c - ybar'p), t = A^-1 b, p = A^-1 ybar, ybar = X_Q'd.

    Attributes
    ----------
    package : str
        What factored A: "cholmod" or "superlu".
    """

    def __init__(self, X: Any, d: Vector, bias: bool, factors: SparseFactors) -> None:
        A = (X.T @ (sp.diags(d) @ X) + sp.identity(X.shape[1])).tocsc()
        self._factor = factors.factor(A)
        self.package = self._factor.package
        self._ybar = np.asarray(X.T @ d)
        self._p = self._factor.solve(self._ybar)
        self._denominator = float(np.sum(d)) - float(self._ybar @ self._p) if bias else np.inf

    def solve(self, b: Vector) -> Vector:
        """Return M_Q^-1 b."""
        t = self._factor.solve(b)
        return np.asarray(t + self._p * (float(self._ybar @ t) / self._denominator))


@cache
def _cvxopt() -> Any:
    """Return cvxopt with CHOLMOD, or None where it is not installed."""
    try:
        import cvxopt
        import cvxopt.cholmod
    except ImportError:
        return None
    return cvxopt
