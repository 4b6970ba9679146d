"""Low-rank approximations of a Gram, K ~ V V', from some of its columns: K is never formed.

Pivoted Cholesky takes the column with the largest residual diagonal (Fine and Scheinberg, 2001);
randomly pivoted Cholesky draws columns with probabilities proportional to it, a block at a time (Chen,
Epperly, Tropp and Webber, 2022). Nystrom's method takes K_BB^-1 on landmarks B, which are drawn uniformly
or by ridge leverage scores (Alaoui and Mahoney, 2015), or are centers of k-means. The truncated
eigendecomposition has the least error of its rank and costs most: every step passes over all of K.
K - V V' is positive semidefinite in all of them, so its trace is its trace norm.

Jung, O'Leary and Tits write K ~ V G^2 V' and, where only G^-2 = K_BB is known, use the matrix (4.2)
(`qpsvm.solvers.interior_point.column_equations`). Here V G is the factor.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_choice, check_number
from qpsvm.gram.base import BLOCK_ENTRIES, Gram
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.model_features import LandmarkMap

Matrix = NDArray[np.float64]

DEFAULT_RANK = 256
"""Maximum rank if neither rank nor tolerance is given."""

COLUMNS_PER_DRAW = 32
"""Number of columns that are drawn at a time, so that one product computes them."""

MIN_EIGENVALUE_FRACTION = 1e-12
"""Fraction of the largest eigenvalue of a landmark block; smaller eigenvalues are dropped."""

TRACE_ROUNDING = 1e-12
"""Relative residual trace that counts as zero: K is reproduced up to rounding."""

MAX_EIGEN_PASSES = 20
"""Maximum number of passes over K by the eigendecomposition."""


class Landmarks(NamedTuple):
    """The features of a point z: k(z, landmarks) W."""

    gram: Gram
    columns: NDArray[np.int64]
    W: Matrix


class Factor(NamedTuple):
    """V, shape (m, r), and the landmarks by which new points get rows."""

    V: Matrix
    landmarks: Landmarks


@dataclass(frozen=True, eq=False)
class LowRank(Gram):
    """Gram V V' that approximates another one, `exact`; the constructor computes the factor.

    Parameters
    ----------
    exact : Gram
        The kernel's Gram; it is kept, so that an answer can be certified for it.
    rank : int, optional
        Maximum number of columns of V; by default 256, or no limit if `tol` is given.
    tol : float, optional
        Relative trace error, trace(K - V V') / trace(K), at which columns suffice.
    method : str
        ``"rpcholesky"``, ``"pivoted-cholesky"``, ``"nystrom"``, ``"nystrom-kmeans"`` (of points
        only), ``"nystrom-leverage"`` or ``"eigen"``.
    seed : int
        Seed of the random draws.

    Attributes
    ----------
    rank : int
        Number of columns of V.
    trace_error, relative_trace_error : float
        trace(K - V V'), the trace norm of the error, and its ratio to trace(K).
    seconds : float
        Time of the factorization.

    Raises
    ------
    InputError
        If an argument is malformed, or the method needs points and `exact` has none.

    Examples
    --------
    >>> from qpsvm import RBF, LowRank
    >>> LowRank(RBF([[0.0], [1.0], [2.0]], gamma=0.1), rank=2).V.shape
    (3, 2)
    """

    exact: Gram
    rank: int | None = None
    tol: float | None = None
    method: str = "rpcholesky"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the arguments and compute the factor."""
        if not isinstance(self.exact, Gram):
            raise InputError(f"exact must be a Gram, such as RBF(X); got {self.exact!r}")
        check_choice("method", self.method, tuple(APPROXIMATION_METHODS))
        check_number("seed", self.seed, low=0, integer=True)
        if self.rank is not None:
            check_number("rank", self.rank, low=1, integer=True)
        if self.tol is not None:
            check_number("tol", self.tol, low=0.0, high=1.0)
        m = self.exact.m
        default_rank = DEFAULT_RANK if self.tol is None else m
        max_rank = min(m, default_rank if self.rank is None else self.rank)
        start_time = time.perf_counter()
        tol = max(0.0 if self.tol is None else self.tol, TRACE_ROUNDING)
        gram = self.exact.to_float64()  # converted once, not block by block
        rng = np.random.default_rng(self.seed)
        factor = APPROXIMATION_METHODS[self.method](gram, max_rank, tol, rng)
        seconds = time.perf_counter() - start_time
        if factor.landmarks.gram is gram:
            factor = factor._replace(landmarks=factor.landmarks._replace(gram=self.exact))
        self._set(factor, seconds)

    def _set(self, factor: Factor, seconds: float) -> None:
        """Set the factor, and the attributes that follow from it and from `exact`."""
        V, trace = factor.V, float(np.sum(self.exact.diag()))
        V.flags.writeable = False
        error = max(0.0, trace - _square_sum(V))
        values = {
            "V": V,
            "landmarks": factor.landmarks,
            "m": V.shape[0],
            "dtype": V.dtype,
            "rank": V.shape[1],
            "trace_error": error,
            "relative_trace_error": error / trace if trace > 0 else 0.0,
            "seconds": seconds,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def factor(self) -> Matrix:
        """Return V, shape (m, rank), read-only."""
        V: Matrix = self.V  # type: ignore[attr-defined]
        return V

    def diag(self) -> NDArray[np.float64]:
        """Return the squared norms of the rows of V."""
        V = self.factor()
        return np.einsum("ij,ij->i", V, V)

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return V_columns V_rows'."""
        V = self.factor()
        K = V[columns] @ (V if rows is None else V[rows]).T
        return K.astype(self.dtype if dtype is None else dtype, copy=False)

    by_factor = True

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return V (V'x): two passes over V."""
        V = self.factor()
        return np.asarray((V if rows is None else V[rows]) @ (V.T @ x))

    def take(self, rows: NDArray[np.int64]) -> LowRank:
        """Return the same approximation on the points `rows`: their rows of V."""
        restricted = object.__new__(LowRank)
        for name in ("tol", "method", "seed"):
            object.__setattr__(restricted, name, getattr(self, name))
        object.__setattr__(restricted, "exact", self.exact.take(rows))
        factor = Factor(self.factor()[rows], self.landmarks)  # type: ignore[attr-defined]
        restricted._set(factor, self.seconds)  # type: ignore[attr-defined]
        return restricted

    def own(self, rows: NDArray[np.int64]) -> LandmarkMap:
        """Return the feature map of copies of the landmarks, the same for all `rows`."""
        gram, columns, W = self.landmarks  # type: ignore[attr-defined]
        kept = gram.own(columns)
        if isinstance(kept, LandmarkMap):  # the landmarks' Gram is of low rank itself
            return LandmarkMap(kept.landmarks, kept.W @ (gram.factor()[columns].T @ W))
        return LandmarkMap(kept, W.copy())

    def features(self, points: Any) -> Matrix:
        """Return the rows of V that new points would have, shape (n, rank)."""
        gram, columns, W = self.landmarks  # type: ignore[attr-defined]
        return np.asarray(gram.cross(points, columns) @ W)

    def combine(
        self, points: Any, columns: NDArray[np.int64], coef: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return sum_j coef_j k(points, columns_j), by the kernel values with all landmarks."""
        gram, landmarks, W = self.landmarks  # type: ignore[attr-defined]
        weights: Matrix = W @ (self.factor()[columns].T @ coef)
        return np.asarray(gram.combine(points, landmarks, weights))

    def cross(self, points: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the approximate k(points, columns), through the landmarks."""
        return self.features(points) @ self.factor()[columns].T


def _square_sum(V: Matrix) -> float:
    """Return the sum of the squares of the entries, without a copy of them."""
    return float(np.vdot(V, V))


def _cholesky(
    gram: Gram, max_rank: int, tol: float, rng: np.random.Generator, n_drawn: int
) -> Factor:
    """Add columns to V: the one of largest residual diagonal (n_drawn = 1), or random ones."""
    m = gram.m
    d = gram.diag().astype(np.float64)
    trace = float(np.sum(d))
    V = np.empty((m, max_rank if tol <= TRACE_ROUNDING else min(max_rank, 4 * COLUMNS_PER_DRAW)))
    pivots: list[NDArray[np.int64]] = []
    r = 0
    while r < max_rank and float(np.sum(d)) > tol * trace:
        if n_drawn == 1:
            c = np.array([np.argmax(d)])
        else:
            c = np.unique(rng.choice(m, min(n_drawn, max_rank - r), p=d / np.sum(d)))
        G = gram.block(c, None, np.float64)  # residual columns, as rows
        if r:
            G = G - V[c, :r] @ V[:, :r].T
        values, U = scipy.linalg.eigh(0.5 * (G[:, c] + G[:, c].T), check_finite=False)
        good = values > max(MIN_EIGENVALUE_FRACTION * values[-1], TRACE_ROUNDING * trace / m * 1e-3)
        d[c] = 0.0
        if not good.any():
            continue
        new = G.T @ (U[:, good] / np.sqrt(values[good]))
        if r + new.shape[1] > V.shape[1]:
            V = np.hstack([V, np.empty((m, min(max_rank, 2 * V.shape[1]) - V.shape[1]))])
        V[:, r : r + new.shape[1]] = new
        r += new.shape[1]
        pivots.append(c)
        d -= np.einsum("ij,ij->i", new, new)
        np.maximum(d, 0.0, out=d)
        d[c] = 0.0
    if r == 0:
        return Factor(np.zeros((m, 1)), Landmarks(gram, np.arange(1), np.zeros((1, 1))))
    V = V if r == V.shape[1] else np.ascontiguousarray(V[:, :r])
    columns = np.concatenate(pivots)
    # K[:, columns] = V V_columns', so that a row of V is k(z, columns) V_columns'^+
    return Factor(V, Landmarks(gram, columns, scipy.linalg.pinv(V[columns], rtol=1e-11).T))


def _rpcholesky(gram: Gram, max_rank: int, tol: float, rng: np.random.Generator) -> Factor:
    return _cholesky(gram, max_rank, tol, rng, COLUMNS_PER_DRAW)


def _pivoted_cholesky(gram: Gram, max_rank: int, tol: float, rng: np.random.Generator) -> Factor:
    return _cholesky(gram, max_rank, tol, rng, 1)


def _from_landmarks(
    landmarks: Gram, columns: NDArray[np.int64], m: int, values: Callable[[slice], Matrix]
) -> Factor:
    """Return V = K_mB K_BB^-1/2; `values(rows)` returns rows of K_mB."""
    K = landmarks.block(columns, columns, np.float64)
    w, U = scipy.linalg.eigh(0.5 * (K + K.T), check_finite=False)
    good = w > MIN_EIGENVALUE_FRACTION * max(w[-1], np.finfo(float).tiny)
    if not good.any():
        good[-1], w[-1] = True, np.inf
    W = U[:, good] / np.sqrt(w[good])
    V = np.empty((m, W.shape[1]))
    size = max(1, BLOCK_ENTRIES // len(columns))
    for start in range(0, m, size):
        at = slice(start, min(start + size, m))
        V[at] = values(at) @ W
    return Factor(V, Landmarks(landmarks, columns, W))


def _from_columns(gram: Gram, columns: NDArray[np.int64]) -> Factor:
    def values(at: slice) -> Matrix:
        return gram.block(columns, at, np.float64).T.astype(np.float64, copy=False)

    return _from_landmarks(gram, columns, gram.m, values)


def _doubling(make: Callable[[int], Factor], gram: Gram, max_rank: int, tol: float) -> Factor:
    """Double the number of landmarks until the trace error is met."""
    trace = float(np.sum(gram.diag()))
    size = max_rank if tol <= TRACE_ROUNDING else min(max_rank, COLUMNS_PER_DRAW)
    while True:
        factor = make(size)
        if size >= max_rank or trace - _square_sum(factor.V) <= tol * trace:
            return factor
        size = min(max_rank, 2 * size)


def _nystrom(gram: Gram, max_rank: int, tol: float, rng: np.random.Generator) -> Factor:
    order = rng.permutation(gram.m)
    return _doubling(lambda r: _from_columns(gram, np.sort(order[:r])), gram, max_rank, tol)


def _nystrom_leverage(gram: Gram, max_rank: int, tol: float, rng: np.random.Generator) -> Factor:
    """Draw by ridge leverage scores, which a uniform draw of the same size estimates."""

    def make(r: int) -> Factor:
        V = _from_columns(gram, np.sort(rng.permutation(gram.m)[:r])).V
        residual_diagonal = np.maximum(gram.diag() - np.einsum("ij,ij->i", V, V), 0.0)
        ridge = max(
            float(np.sum(residual_diagonal)) / r, 1e-12 * float(np.sum(gram.diag())), 1e-300
        )
        inner = V.T @ V
        inner[np.diag_indices_from(inner)] += ridge
        Z = scipy.linalg.solve_triangular(scipy.linalg.cholesky(inner, lower=True), V.T, lower=True)
        scores = np.einsum("ij,ij->j", Z, Z) + residual_diagonal / ridge
        scores += 1e-9 * np.max(scores) + 1e-300  # every point can be drawn
        chosen = rng.choice(gram.m, r, replace=False, p=scores / np.sum(scores))
        return _from_columns(gram, np.sort(chosen))

    return _doubling(make, gram, max_rank, tol)


def _nystrom_kmeans(gram: Gram, max_rank: int, tol: float, rng: np.random.Generator) -> Factor:
    """Take the centers of k-means, of at most 20 points per center, as landmarks (Zhang, 2008)."""
    if not isinstance(gram, PointGram):
        raise InputError(
            'method "nystrom-kmeans" needs a kernel on points, such as RBF(X); '
            f"got {type(gram).__name__}"
        )
    from sklearn.cluster import MiniBatchKMeans

    def make(r: int) -> Factor:
        sample = np.sort(rng.permutation(gram.m)[: 20 * r])
        seed = int(rng.integers(2**31))
        clusters = MiniBatchKMeans(r, random_state=seed, n_init=1, batch_size=max(1024, 2 * r))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer distinct points than centers
            centers = clusters.fit(gram.X[sample]).cluster_centers_.astype(np.float64)
        landmarks = replace(gram, X=centers)

        def values(at: slice) -> Matrix:
            return gram.cross(centers, np.arange(at.start, at.stop)).T

        return _from_landmarks(landmarks, np.arange(len(centers)), gram.m, values)

    return _doubling(make, gram, max_rank, tol)


def _eigen(gram: Gram, max_rank: int, tol: float, rng: np.random.Generator) -> Factor:
    """Iterate on a block (LOBPCG) from the column space of randomly pivoted Cholesky."""
    from scipy.sparse.linalg import LinearOperator, lobpcg

    start = _rpcholesky(gram, max_rank, tol, rng).V
    m, r = start.shape

    def apply(Z: Matrix) -> Matrix:
        out = np.empty_like(Z)
        size = max(1, BLOCK_ENTRIES // m)
        for i in range(0, m, size):
            rows = np.arange(i, min(i + size, m))
            out[rows] = gram.block(rows, None, np.float64) @ Z
        return out

    if m < 5 * r:  # K is not much larger than V
        values, U = scipy.linalg.eigh(apply(np.eye(m)), subset_by_index=[m - r, m - 1])
        values, U = values[::-1], U[:, ::-1]
    else:
        operator = LinearOperator(
            (m, m), matvec=lambda z: apply(z.reshape(-1, 1)), matmat=apply, dtype=np.float64
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the trace error shows a lack of convergence
            values, U = lobpcg(
                operator, np.linalg.qr(start)[0], largest=True, maxiter=MAX_EIGEN_PASSES, tol=1e-6
            )
    trace = float(np.sum(gram.diag()))
    values = np.maximum(values, 0.0)
    is_reached = trace - np.cumsum(values) <= tol * trace
    count = int(np.argmax(is_reached)) + 1 if is_reached.any() else r
    n_kept = int(np.count_nonzero(values > MIN_EIGENVALUE_FRACTION * max(values[0], 1e-300)))
    count = max(1, min(count, n_kept))
    root, U = np.sqrt(values[:count]), U[:, :count]
    W = np.divide(U, root, out=np.zeros_like(U), where=root > 0)
    return Factor(np.ascontiguousarray(U * root), Landmarks(gram, np.arange(m), W))


APPROXIMATION_METHODS: dict[str, Callable[[Gram, int, float, np.random.Generator], Factor]] = {
    "rpcholesky": _rpcholesky,
    "pivoted-cholesky": _pivoted_cholesky,
    "nystrom": _nystrom,
    "nystrom-kmeans": _nystrom_kmeans,
    "nystrom-leverage": _nystrom_leverage,
    "eigen": _eigen,
}
"""Functions that compute the factor from a Gram, maximum rank, tolerance and generator, by method."""
