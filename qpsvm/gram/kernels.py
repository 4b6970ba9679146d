"""Mercer kernels evaluated on demand from points: dense or CSR, float32 or float64."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from qpsvm.errors import InputError, check_choice, check_number, check_points
from qpsvm.gram.base import Gram

FUSED = 1 << 17
"""Entries from which a block is swept by compiled code; below, numpy needs no compilation."""

SHORT_ROW = 24
"""Features below which BLAS reads dense float64 rows more slowly than a compiled loop."""

FAR = 4.0
"""Squared distance of the mean from zero, in variances, from which points are moved to it."""

Points = Any  # ndarray of shape (m, d) or csr_matrix of that shape


@dataclass(frozen=True, eq=False)
class PointGram(Gram):
    """Gram of points `X` under a kernel that subclasses define.

    A column block is one BLAS product of a few points with all points, turned into kernel values
    in place.
    """

    X: Points

    def __post_init__(self) -> None:
        """Check the points and settle the parameters."""
        X = check_points("X", self.X)
        self._set(X=X, m=X.shape[0], dtype=X.dtype)
        self._settle()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _settle(self) -> None:
        """Check the parameters of the kernel and replace the named ones by numbers."""

    @abstractmethod
    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        """Return k(A, B), shape (len(A), len(B)), for A dense and B dense or CSR."""

    @cached_property
    def _points(self) -> Points:
        """The points that are multiplied: X, or X moved where the kernel does not see it."""
        return self.X

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return k(columns, rows), one BLAS product and one sweep."""
        dtype = self.dtype if dtype is None else dtype
        some = self._points if rows is None else self._points[rows]
        few = self._points[columns]
        few = few.toarray() if sp.issparse(few) else few
        return self._values(few.astype(dtype, copy=False), some.astype(dtype, copy=False))

    def take(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram of the points `rows`, with the parameters of this one."""
        return replace(self, X=self.X[rows])

    def cross(self, points: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return k(points, columns) in float64 for new points, shape (n, len(columns))."""
        new = check_points("points", points)
        if new.shape[1] != self.X.shape[1]:
            raise InputError(
                f"points must have {self.X.shape[1]} features, as the training points have; "
                f"got shape {new.shape}"
            )
        few = self.X[columns]
        few = few.toarray() if sp.issparse(few) else few
        few = few.astype(np.float64)
        new = new.astype(np.float64, copy=False)
        if not sp.issparse(new):  # a translation that no such kernel sees, for fewer lost digits
            few, new = self._shifted(few, new)
        return np.ascontiguousarray(self._values(few, new).T)

    def _shifted(
        self, few: NDArray[np.float64], new: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return few, new

    def norms(self, points: Any) -> NDArray[np.float64]:
        """Return k(z, z) of new points, shape (n,)."""
        return replace(self, X=points).diag()


def _products(
    A: NDArray[np.floating], B: Points, out: NDArray[np.floating] | None = None
) -> NDArray[np.floating]:
    """Return A B' for dense A and dense or CSR B, in `out` if it is given."""
    if not sp.issparse(B):
        return np.matmul(A, B.T, out=out)
    if out is None:
        return np.ascontiguousarray((B @ A.T).T)
    out[:] = (B @ A.T).T
    return out


def _squares(A: Points) -> NDArray[np.floating]:
    """Return the squared norms of the rows."""
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def _mean(X: Points) -> NDArray[np.float64]:
    return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()


def _variance_sum(X: Points) -> float:
    """Return the trace of the covariance (with 1/m): half the mean squared distance."""
    mean = _mean(X)
    if sp.issparse(X):
        return float(X.multiply(X).sum(dtype=np.float64) / X.shape[0] - mean @ mean)
    return float(np.sum(np.var(X, axis=0, dtype=np.float64)))


def settle_gamma(gamma: Any, X: Points) -> float:
    """Return the number that `gamma` stands for.

    ``"scale"`` is 1 / (d var(X)) over all entries, as in scikit-learn; ``"mean-distance"`` is
    1 / (2 sigma^2) with sigma^2 the mean squared distance over all ordered pairs of points, the
    choice of Frandi et al., whose kernel is exp(-|x - z|^2 / (2 sigma^2)).
    """
    if not isinstance(gamma, str):
        return float(check_number("gamma", gamma, low=0.0, open_low=True, high=np.finfo(float).max))
    check_choice("gamma", gamma, ("scale", "mean-distance"))
    if gamma == "mean-distance":
        spread = 4.0 * _variance_sum(X)  # 2 sigma^2, sigma^2 = 2 trace of the covariance
    else:
        mean = float(X.mean(dtype=np.float64))
        squares = float(np.sum(_squares(X), dtype=np.float64)) / (X.shape[0] * X.shape[1])
        dense = not sp.issparse(X)
        variance = float(np.var(X, dtype=np.float64)) if dense else squares - mean * mean
        spread = X.shape[1] * variance
    return 1.0 / spread if spread > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Linear(PointGram):
    """Linear kernel k(x, z) = x'z.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    """

    def diag(self) -> NDArray[np.float64]:
        """Return the squared norms, shape (m,), read-only; they are computed once."""
        return self._norms

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        X = self.X
        if isinstance(X, np.ndarray) and _compiled_pass(X):
            from qpsvm.gram.passes import row_squares

            norms = row_squares(X)
        else:
            norms = np.asarray(_squares(X.astype(np.float64, copy=False)))
        norms.flags.writeable = False
        return norms

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        return _products(A, B)

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return X (X'x): a pass over the points of the support and a pass over all points."""
        X = self.X if rows is None else self.X[rows]
        return times(X, transposed_times(self.X, x))

    def factor(self) -> Points:
        """Return X itself."""
        return self.X

    @cached_property
    def origin(self) -> NDArray[np.float64] | None:
        """About the mean of dense points that lie far from zero; None where nothing is gained.

        Any origin is as good as another in exact arithmetic, so a thousand points say enough.
        They lie far when the squared norm of their mean is above `FAR` times their variance;
        nearer to zero, a few bits are not worth a copy of the points.
        """
        if sp.issparse(self.X):
            return None
        some = self.X[:: max(1, self.m // 1000)].astype(np.float64)
        first = some[0].copy()
        some -= first
        mean = some.mean(axis=0)
        variance = float(np.mean(_squares(some - mean)))
        mean += first
        return mean if float(mean @ mean) > FAR * variance else None

    def centered(self) -> Linear:
        """Return the Gram of X minus `origin`, in float64: the differences are exact there."""
        return self if self.origin is None else Linear(self.X - self.origin)


def _compiled_pass(X: NDArray[np.floating]) -> bool:
    """Return whether a pass over X is faster by a compiled loop than by BLAS."""
    short = X.dtype == np.float32 or X.shape[1] < SHORT_ROW
    return short and X.size >= FUSED and X.flags.c_contiguous


def times(X: Points, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X v with float64 sums whatever the precision of X."""
    if isinstance(X, np.ndarray) and _compiled_pass(X):
        from qpsvm.gram.passes import row_products

        return row_products(X, v)
    if X.dtype == np.float64:
        return np.asarray(X @ v)
    size = max(1, (1 << 22) // X.shape[1])
    parts = [X[i : i + size].astype(np.float64) @ v for i in range(0, X.shape[0], size)]
    return np.concatenate(parts) if parts else np.zeros(0)


def transposed_times(X: Points, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X'v with float64 sums whatever the precision of X; rows of weight 0 are not read."""
    some = np.flatnonzero(v != 0)  # several times faster than of the floats themselves
    if 4 * len(some) < len(v):
        X, v = X[some], v[some]
    if X.dtype == np.float64:
        return np.asarray(X.T @ v)
    size = max(1, (1 << 22) // X.shape[1])
    total = np.zeros(X.shape[1])
    for i in range(0, X.shape[0], size):
        total += X[i : i + size].astype(np.float64).T @ v[i : i + size]
    return total


@dataclass(frozen=True, eq=False)
class RBF(PointGram):
    """Gaussian kernel k(x, z) = exp(-gamma |x - z|^2).

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    gamma : float, "scale" or "mean-distance"
        In units of 1 / distance^2. ``"scale"`` is scikit-learn's 1 / (d var(X));
        ``"mean-distance"`` is 1 / (2 sigma^2) with sigma^2 the mean squared distance, as in
        Frandi et al., where the kernel is written exp(-|x - z|^2 / (2 sigma^2)). The number that
        was settled on is the attribute `gamma`.
    """

    gamma: Any = "scale"

    def _settle(self) -> None:
        self._set(gamma=settle_gamma(self.gamma, self.X))

    def diag(self) -> NDArray[np.float64]:
        """Return ones, shape (m,)."""
        return np.ones(self.m)

    @cached_property
    def _mean(self) -> NDArray[np.float64] | float:
        """What dense points are moved by: distances stay, and |x|^2 + |z|^2 - 2x'z keeps digits."""
        return 0.0 if sp.issparse(self.X) else _mean(self.X)

    @cached_property
    def _points(self) -> Points:
        """The moved points in the precision of held columns."""
        return self._moved(slice(None), self.dtype)

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        """Squared norms of `_points`, shape (m,)."""
        return np.asarray(_squares(self._points.astype(np.float64, copy=False)))

    def _moved(self, rows: Any, dtype: Any) -> Points:
        part = self.X[rows].astype(dtype, copy=False)
        return part if sp.issparse(part) else (part - self._mean).astype(dtype, copy=False)

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return k(columns, rows), one BLAS product and one sweep."""
        rows = slice(None) if rows is None else rows
        if dtype is None or dtype == self.dtype:
            few, some = self._points[columns], self._points[rows]
            a, b = self._norms[columns], self._norms[rows]
        else:  # afresh from X: rounding the moved points would change the problem
            few, some = self._moved(columns, dtype), self._moved(rows, dtype)
            a, b = _squares(few), _squares(some)
        few = few.toarray() if sp.issparse(few) else few
        return self._gaussian(_products(few, some), a, b)

    def fill(self, columns: NDArray[np.int64], out: NDArray[np.floating]) -> None:
        """Write k(columns, all rows) to `out` without a block in between."""
        few = self._points[columns]
        few = few.toarray() if sp.issparse(few) else few
        self._gaussian(_products(few, self._points, out), self._norms[columns], self._norms)

    def _gaussian(
        self, K: NDArray[np.floating], a: NDArray[np.floating], b: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Turn inner products into kernel values in place, given the squared norms."""
        if K.size >= FUSED:
            from qpsvm.gram.sweep import gaussian_sweep

            gaussian_sweep(K, self.gamma, a, b)
            return K
        gamma = K.dtype.type(self.gamma)
        K *= 2 * gamma
        K -= (gamma * a).astype(K.dtype)[:, None]
        K -= (gamma * b).astype(K.dtype)[None, :]
        np.minimum(K, 0.0, out=K)
        return np.exp(K, out=K)

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        return self._gaussian(_products(A, B), _squares(A), _squares(B))

    def _shifted(
        self, few: NDArray[np.float64], new: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return few - self._mean, new - self._mean


@dataclass(frozen=True, eq=False)
class Laplacian(PointGram):
    """Laplacian kernel k(x, z) = exp(-gamma |x - z|_1).

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; kept by reference and never written.
    gamma : float, "scale" or "mean-distance"
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
    gamma : float, "scale" or "mean-distance"
        As in `RBF`.
    coef0 : float
        Positive semidefinite for coef0 >= 0; otherwise that is checked.
    """

    degree: int = 3
    gamma: Any = "scale"
    coef0: float = 0.0

    def _settle(self) -> None:
        check_number("degree", self.degree, low=1, integer=True)
        check_number("coef0", self.coef0)
        self._set(
            gamma=settle_gamma(self.gamma, self.X), psd="fact" if self.coef0 >= 0 else "check"
        )

    def diag(self) -> NDArray[np.float64]:
        """Return (gamma |x|^2 + coef0)^degree, shape (m,)."""
        squares = np.asarray(_squares(self.X.astype(np.float64, copy=False)))
        return (self.gamma * squares + self.coef0) ** self.degree

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        K = _products(A, B)
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
    gamma : float, "scale" or "mean-distance"
        As in `RBF`.
    coef0 : float
    psd : {"check", "assume"}
        Whether positive semidefiniteness is checked before a lower bound is believed.
    """

    gamma: Any = "scale"
    coef0: float = 0.0
    psd: str = "check"

    def _settle(self) -> None:
        check_number("coef0", self.coef0)
        check_choice("psd", self.psd, ("check", "assume"))
        self._set(gamma=settle_gamma(self.gamma, self.X))

    def diag(self) -> NDArray[np.float64]:
        """Return tanh(gamma |x|^2 + coef0), shape (m,)."""
        squares = np.asarray(_squares(self.X.astype(np.float64, copy=False)))
        return np.tanh(self.gamma * squares + self.coef0)

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        K = _products(A, B)
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

    function: Callable[[Any, Any], Any] = field(kw_only=False, default=None)  # type: ignore[assignment]
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
        K = self.function(A, B)
        K = np.asarray(K.toarray() if sp.issparse(K) else K)
        if K.shape != (A.shape[0], B.shape[0]):
            raise InputError(
                f"function must return shape {(A.shape[0], B.shape[0])} for these points; "
                f"got {K.shape}"
            )
        if not np.all(np.isfinite(K)):
            raise InputError("function must return finite values; got NaN or infinity")
        return np.ascontiguousarray(K, dtype=A.dtype)
