"""A Gram as F F' and a diagonal: it predicts the support, and serves as preconditioner.

F comes from randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2022), in float32 and by blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.gram import Gram, SignedGram
from qpsvm.numerics.parallel import parallel_for, single_threaded_blas

CHUNK_POINTS = 2048
"""Number of points whose rows of F are multiplied at a time."""

DRAW_BLOCKS = 8
"""Number of blocks in which the columns of F are drawn."""

MIN_EIGENVALUE_FRACTION = 1e-4
"""Eigenvalues of a drawn block, relative to the diagonal, that are above float32's rounding."""

MIN_REST_RATIO = 0.02
"""Error of F F' on the diagonal, relative to the ridge, below which more columns save no time."""

MAX_NEWTON_STEPS = 30
"""Maximum number of Newton steps on the problem of low rank."""

SETTLED_SUPPORT_FRACTION = 0.002
"""Changed fraction of the support at which these end."""

SAMPLE_POINTS = 2000
"""Number of points of the sample that predicts the fraction of support vectors."""

SAMPLE_RANK = 256
"""Number of columns of its factor."""

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class LowRankModel:
    """G + D ~ F F' + B, where the diagonal B includes the error of F F' on the diagonal of G.

    Parameters
    ----------
    gram : SignedGram
    kernel : Gram
        Its kernel, in the precision in which columns are to be evaluated.
    rank : int
        Maximum number of columns of F; fewer are drawn where these suffice beside the ridge.
    rng : numpy.random.Generator
        Draws the columns.

    Attributes
    ----------
    F : ndarray, shape (m, r)
    B : ndarray, shape (m,)
    """

    def __init__(self, gram: SignedGram, kernel: Gram, rank: int, rng: np.random.Generator) -> None:
        least_rest = MIN_REST_RATIO * float(np.sum(gram.ridge)) / gram.scale
        V = _cholesky(kernel, min(rank, gram.m), rng, least_rest)
        m, r, drawn = gram.m, len(V) + (gram.shift > 0), len(V)
        self.F = np.empty((m, r), np.float32)
        own = np.empty(m)
        factor = (np.sqrt(gram.scale) * gram.sign).astype(np.float32)

        def fill(at: slice) -> None:
            rows = self.F[at]
            rows[:, :drawn] = V[:, at].T
            rows[:, drawn:] = np.sqrt(gram.shift)
            rows *= factor[at, None]
            own[at] = np.einsum("ij,ij->i", rows, rows)

        parallel_for(fill, _slices(m))
        V = np.empty((0, 0), np.float32)  # frees memory for the next arrays
        self.rest = np.maximum(gram.diag() - own, 0.0)
        self.B = gram.ridge + self.rest
        self._inner = np.zeros((r, r))  # F_S' B_S^-1 F_S
        self._inside = np.zeros(m, bool)  # S
        self._scratch = np.empty_like(self.F)  # F_S in its first rows; to allocate it costs time

    @property
    def n_bytes(self) -> int:
        """Memory of F, of its rows over a face, and of the matrix in its columns with its factor."""
        return 2 * self.F.nbytes + 2 * self._inner.nbytes

    def restrict(self, face: Indices) -> None:
        """Set the face S over which `solve` solves."""
        now = np.zeros(len(self._inside), bool)
        now[face] = True
        if 2 * np.count_nonzero(now != self._inside) > len(face):  # cheaper to recompute
            self._inner[:] = 0.0
            self._inside[:] = False
        self._add(np.flatnonzero(now & ~self._inside), 1.0)
        self._add(np.flatnonzero(self._inside & ~now), -1.0)
        self._inside = now
        self._F_S, self._B_S = self._scratch[: len(face)], self.B[face]
        parallel_for(lambda at: np.take(self.F, face[at], 0, self._F_S[at]), _slices(len(face)))
        A = self._inner + np.eye(len(self._inner))
        A[np.diag_indices_from(A)] += 1e-6 * float(np.max(np.diagonal(A)))
        self._factor = scipy.linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)

    def _add(self, points: Indices, sign: float) -> None:
        chunks = _slices(len(points))
        root = (1.0 / np.sqrt(self.B[points])).astype(np.float32)
        sums: list[Any] = [None] * len(chunks)

        def multiply(k: int) -> None:
            rows = self.F[points[chunks[k]]]
            rows *= root[chunks[k], None]
            sums[k] = rows.T @ rows

        parallel_for(multiply, list(range(len(chunks))))
        for chunk_sum in sums:
            self._inner += sign * chunk_sum

    def solve(self, v: Vector) -> Vector:
        """Return (F F' + B)_SS^-1 v, by Woodbury's formula."""
        scaled = v / self._B_S
        low = scipy.linalg.cho_solve(
            self._factor, _transposed_product(self._F_S, scaled), check_finite=False
        )
        return scaled - _product(self._F_S, low) / self._B_S

    def weights(self) -> tuple[Vector, Vector]:
        """Return u and G u for the u >= 0 that minimizes 1/2 u'(F F' + B)u - sum u, by its primal.

        The primal is to minimize 1/2 |w|^2 + 1/2 sum max(0, 1 - Fw)^2 / B, by Newton's method.
        """
        F, B = self.F, self.B
        w, f = np.zeros(F.shape[1]), np.zeros(len(F))
        for _ in range(MAX_NEWTON_STEPS):
            S = f < 1.0
            self.restrict(np.flatnonzero(S))
            slope = _transposed_product(self._F_S, 1.0 / self._B_S)
            d = scipy.linalg.cho_solve(self._factor, slope, check_finite=False) - w
            change = _product(F, d)
            t = line_minimizer(float(w @ d), float(d @ d), f, change, B)
            w, f = w + t * d, f + t * change
            if np.count_nonzero((f < 1.0) != S) <= SETTLED_SUPPORT_FRACTION * len(f):
                break
        u = np.maximum(1.0 - f, 0.0) / B
        return u, f + self.rest * u


class SampleModel(NamedTuple):
    """What a sample tells of the solution of a problem."""

    share: float
    """Approximate fraction of points with a weight at the optimum."""
    rest_ratio: float
    """Error of a factor of low rank on the diagonal, relative to the ridge."""


def sample_model(problem: QP) -> SampleModel:
    """Return the prediction of a sample.

    The ridge is scaled down in proportion to the sample, so that its margins are those of all points.
    """
    rng = np.random.default_rng(0)
    n = min(SAMPLE_POINTS, problem.m)
    sample = problem.gram.take(np.sort(rng.choice(problem.m, n, replace=False)))
    ridge = float(np.mean(sample.ridge))
    sample = replace(sample, ridge=sample.ridge * (n / problem.m))
    with single_threaded_blas():
        model = LowRankModel(sample, sample.kernel, SAMPLE_RANK, rng)
        u, _ = model.weights()
    return SampleModel(float(np.mean(u > 0.0)), float(np.mean(model.rest)) / ridge)


def _cholesky(
    kernel: Gram, rank: int, rng: np.random.Generator, least_rest: float
) -> NDArray[np.float32]:
    """Return V of shape (r, m), K ~ V'V, from columns drawn by the residual diagonal.

    Drawing ends where the sum of this diagonal is at most `least_rest`.
    A matrix that is not positive semidefinite may have negative diagonal entries; they are not drawn.
    """
    m, d = kernel.m, np.maximum(kernel.diag(), 0.0)
    largest = float(np.max(d))
    V = np.empty((rank, m), np.float32)
    r, size = 0, -(-rank // DRAW_BLOCKS)
    least_rest = max(least_rest, MIN_EIGENVALUE_FRACTION * largest * m)
    while r < rank and float(np.sum(d)) > least_rest:
        drawn = np.unique(rng.choice(m, min(size, rank - r), p=d / np.sum(d)))
        G = np.empty((len(drawn), m), kernel.dtype)
        kernel.fill(drawn, G, np.arange(len(drawn)))
        G = G.astype(np.float32, copy=False)
        _subtract(V[:r], drawn, G)
        own = G[:, drawn].astype(np.float64)
        values, U = scipy.linalg.eigh(0.5 * (own + own.T), check_finite=False)
        good = values > MIN_EIGENVALUE_FRACTION * largest
        d[drawn] = 0.0
        if not good.any():
            continue
        W = (U[:, good] / np.sqrt(values[good])).T.astype(np.float32)
        _append(V[r : r + len(W)], W, G, d)
        d = np.maximum(d, 0.0)
        d[drawn] = 0.0
        r += len(W)
    return V[: max(r, 1)] if r else np.zeros((1, m), np.float32)


def _subtract(V: NDArray[np.float32], drawn: Indices, G: NDArray[np.float32]) -> None:
    """Subtract the drawn columns of V'V from the rows of G."""
    if not len(V):
        return
    left = V[:, drawn].T.copy()

    def subtract(at: slice) -> None:
        G[:, at] -= left @ V[:, at]

    parallel_for(subtract, _slices(V.shape[1]))


def _append(new: NDArray[np.float32], W: Any, G: NDArray[np.float32], d: Vector) -> None:
    """Write W G to the new rows, and subtract their squares from the diagonal d."""

    def multiply(at: slice) -> None:
        new[:, at] = W @ G[:, at]
        d[at] -= np.einsum("ij,ij->j", new[:, at], new[:, at])

    parallel_for(multiply, _slices(len(d)))


def _slices(n: int) -> list[slice]:
    return [slice(start, min(start + CHUNK_POINTS, n)) for start in range(0, n, CHUNK_POINTS)]


def _product(F: NDArray[np.float32], v: Vector) -> Vector:
    """Return F v."""
    out, w = np.empty(len(F)), v.astype(np.float32)

    def multiply(at: slice) -> None:
        out[at] = F[at] @ w

    parallel_for(multiply, _slices(len(F)))
    return out


def _transposed_product(F: NDArray[np.float32], v: Vector) -> Vector:
    """Return F'v, with float64 sums over the chunks."""
    chunks, w = _slices(len(F)), v.astype(np.float32)
    sums = np.zeros((len(chunks), F.shape[1]))

    def multiply(k: int) -> None:
        sums[k] = w[chunks[k]] @ F[chunks[k]]

    parallel_for(multiply, list(range(len(chunks))))
    return sums.sum(axis=0)


def line_minimizer(slope: float, curvature: float, f: Vector, change: Vector, B: Vector) -> float:
    """Return the t that minimizes slope t + curvature t^2 / 2 + 1/2 sum (1 - f - t change)_+^2 / B.

    The derivative increases and is piecewise linear: its zero is found by safeguarded Newton steps.
    """
    weighted, low, high, t = change / B, 0.0, np.inf, 1.0
    for _ in range(50):
        slack = 1.0 - f - t * change
        S = slack > 0
        value = slope + t * curvature - float(slack[S] @ weighted[S])
        rise = curvature + float(change[S] @ weighted[S])
        low, high = (low, t) if value > 0 else (t, high)
        if rise <= 0 or abs(value) <= 1e-9 * rise:
            break
        new = t - value / rise
        t = new if low < new < high else (0.5 * (low + high) if np.isfinite(high) else 2 * t)
    return t
