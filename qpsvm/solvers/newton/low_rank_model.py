"""A Gram as F F' and a diagonal: it foretells the support, and preconditions.

F comes from randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2022), in float32 and by blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.gram import Gram, SignedGram
from qpsvm.numerics.parallel import parallel_for

PIECE = 2048
"""Points whose rows of F are multiplied at a time."""

BLOCKS = 8
"""Draws in which the columns of F are chosen."""

KEPT = 1e-4
"""Eigenvalues of a drawn block, relative to the diagonal, that are above float32's rounding."""

NEWTON, SETTLED = 30, 0.002
"""Most Newton steps on the problem of low rank, and the share of the support at whose change they end."""

SAMPLE, SAMPLE_RANK = 2000, 256
"""Points, and columns, that foretell the share of support vectors."""

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class LowRankModel:
    """G + D ~ F F' + B with a diagonal B that makes up for the rest of G's.

    Parameters
    ----------
    gram : SignedGram
    kernel : Gram
        Its kernel, in the precision in which columns are to be evaluated.
    rank : int
    rng : numpy.random.Generator
        Draws the columns.

    Attributes
    ----------
    F : ndarray, shape (m, r)
    B : ndarray, shape (m,)
    """

    def __init__(self, gram: SignedGram, kernel: Gram, rank: int, rng: np.random.Generator) -> None:
        V = _cholesky(kernel, min(rank, gram.m), rng)
        m, r, drawn = gram.m, len(V) + (gram.shift > 0), len(V)
        self.F = np.empty((m, r), np.float32)
        own = np.empty(m)
        factor = (np.sqrt(gram.scale) * gram.sign).astype(np.float32)

        def piece(at: slice) -> None:
            some = self.F[at]
            some[:, :drawn] = V[:, at].T
            some[:, drawn:] = np.sqrt(gram.shift)
            some *= factor[at, None]
            own[at] = np.einsum("ij,ij->i", some, some)

        parallel_for(piece, _slices(m))
        V = np.empty((0, 0), np.float32)  # its memory is for what follows
        self.rest = np.maximum(gram.diag() - own, 0.0)
        self.B = gram.ridge + self.rest
        self._inner = np.zeros((r, r))  # F_S' B_S^-1 F_S
        self._inside = np.zeros(m, bool)  # S
        self._room = np.empty_like(self.F)  # its rows over S come first; fresh memory costs time

    @property
    def n_bytes(self) -> int:
        """Memory of F, of its rows over a face, and of the matrix in its columns with its factor."""
        return 2 * self.F.nbytes + 2 * self._inner.nbytes

    def restrict(self, face: Indices) -> None:
        """Set the face S over which `solve` solves."""
        now = np.zeros(len(self._inside), bool)
        now[face] = True
        if 2 * np.count_nonzero(now != self._inside) > len(face):  # cheaper anew
            self._inner[:] = 0.0
            self._inside[:] = False
        self._add(np.flatnonzero(now & ~self._inside), 1.0)
        self._add(np.flatnonzero(self._inside & ~now), -1.0)
        self._inside = now
        self._some, self._own = self._room[: len(face)], self.B[face]
        parallel_for(lambda at: np.take(self.F, face[at], 0, self._some[at]), _slices(len(face)))
        A = self._inner + np.eye(len(self._inner))
        A[np.diag_indices_from(A)] += 1e-6 * float(np.max(np.diagonal(A)))
        self._factor = scipy.linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)

    def _add(self, points: Indices, sign: float) -> None:
        pieces = _slices(len(points))
        root = (1.0 / np.sqrt(self.B[points])).astype(np.float32)
        parts: list[Any] = [None] * len(pieces)

        def piece(k: int) -> None:
            some = self.F[points[pieces[k]]]
            some *= root[pieces[k], None]
            parts[k] = some.T @ some

        parallel_for(piece, list(range(len(pieces))))
        for part in parts:
            self._inner += sign * part

    def solve(self, v: Vector) -> Vector:
        """Return (F F' + B)_SS^-1 v, by Woodbury's formula."""
        scaled = v / self._own
        low = scipy.linalg.cho_solve(
            self._factor, _transposed_product(self._some, scaled), check_finite=False
        )
        return scaled - _product(self._some, low) / self._own

    def weights(self) -> tuple[Vector, Vector]:
        """Return u and G u of the least 1/2 u'(F F' + B)u - sum u over u >= 0, by its primal.

        That is to minimize 1/2 |w|^2 + 1/2 sum max(0, 1 - Fw)^2 / B, by Newton's method.
        """
        F, B = self.F, self.B
        w, f = np.zeros(F.shape[1]), np.zeros(len(F))
        for _ in range(NEWTON):
            S = f < 1.0
            self.restrict(np.flatnonzero(S))
            slope = _transposed_product(self._some, 1.0 / self._own)
            d = scipy.linalg.cho_solve(self._factor, slope, check_finite=False) - w
            change = _product(F, d)
            t = least_ahead(float(w @ d), float(d @ d), f, change, B)
            w, f = w + t * d, f + t * change
            if np.count_nonzero((f < 1.0) != S) <= SETTLED * len(f):
                break
        u = np.maximum(1.0 - f, 0.0) / B
        return u, f + self.rest * u


def share_of_support(problem: QP) -> float:
    """Return about the share of the points that have weight at the optimum, from a sample.

    Its ridge is smaller in proportion, so that its margins are as those of all points.
    """
    rng = np.random.default_rng(0)
    n = min(SAMPLE, problem.m)
    part = problem.gram.take(np.sort(rng.choice(problem.m, n, replace=False)))
    part = replace(part, ridge=part.ridge * (n / problem.m))
    u, _ = LowRankModel(part, part.kernel, SAMPLE_RANK, rng).weights()
    return float(np.mean(u > 0.0))


def _cholesky(kernel: Gram, rank: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return V of shape (r, m), K ~ V'V, from columns drawn by what is left of the diagonal.

    A matrix that is not positive semidefinite may have negative diagonal entries: none is drawn.
    """
    m, d = kernel.m, np.maximum(kernel.diag(), 0.0)
    largest = float(np.max(d))
    V = np.empty((rank, m), np.float32)
    r, size = 0, -(-rank // BLOCKS)
    while r < rank and float(np.sum(d)) > KEPT * largest * m:
        drawn = np.unique(rng.choice(m, min(size, rank - r), p=d / np.sum(d)))
        G = np.empty((len(drawn), m), kernel.dtype)
        kernel.fill(drawn, G, np.arange(len(drawn)))
        G = G.astype(np.float32, copy=False)
        _subtract(V[:r], drawn, G)
        own = G[:, drawn].astype(np.float64)
        values, U = scipy.linalg.eigh(0.5 * (own + own.T), check_finite=False)
        good = values > KEPT * largest
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
    """Let the columns drawn, the rows of G, be those of K - V'V."""
    if not len(V):
        return
    few = V[:, drawn].T.copy()

    def piece(at: slice) -> None:
        G[:, at] -= few @ V[:, at]

    parallel_for(piece, _slices(V.shape[1]))


def _append(new: NDArray[np.float32], W: Any, G: NDArray[np.float32], d: Vector) -> None:
    """Write W G to the new rows, and let them leave the diagonal d."""

    def piece(at: slice) -> None:
        new[:, at] = W @ G[:, at]
        d[at] -= np.einsum("ij,ij->j", new[:, at], new[:, at])

    parallel_for(piece, _slices(len(d)))


def _slices(n: int) -> list[slice]:
    return [slice(start, min(start + PIECE, n)) for start in range(0, n, PIECE)]


def _product(F: NDArray[np.float32], v: Vector) -> Vector:
    """Return F v."""
    out, w = np.empty(len(F)), v.astype(np.float32)

    def piece(at: slice) -> None:
        out[at] = F[at] @ w

    parallel_for(piece, _slices(len(F)))
    return out


def _transposed_product(F: NDArray[np.float32], v: Vector) -> Vector:
    """Return F'v, with float64 sums over the pieces."""
    pieces, w = _slices(len(F)), v.astype(np.float32)
    parts = np.zeros((len(pieces), F.shape[1]))

    def piece(k: int) -> None:
        parts[k] = w[pieces[k]] @ F[pieces[k]]

    parallel_for(piece, list(range(len(pieces))))
    return parts.sum(axis=0)


def least_ahead(slope: float, curvature: float, f: Vector, change: Vector, B: Vector) -> float:
    """Return the t of the least slope t + curvature t^2 / 2 + 1/2 sum (1 - f - t change)_+^2 / B.

    Its derivative increases and is piecewise linear: Newton steps, kept between bounds.
    """
    weighted, low, high, t = change / B, 0.0, np.inf, 1.0
    for _ in range(50):
        room = 1.0 - f - t * change
        S = room > 0
        value = slope + t * curvature - float(room[S] @ weighted[S])
        rise = curvature + float(change[S] @ weighted[S])
        low, high = (low, t) if value > 0 else (t, high)
        if rise <= 0 or abs(value) <= 1e-9 * rise:
            break
        new = t - value / rise
        t = new if low < new < high else (0.5 * (low + high) if np.isfinite(high) else 2 * t)
    return t
