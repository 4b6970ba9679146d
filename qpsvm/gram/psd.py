"""Is a Gram positive semidefinite? A lower bound is believed only where it is."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.gram.base import Gram

DENSE = 2000
"""Up to this many points the whole matrix is factored."""


def is_psd(gram: Gram) -> bool:
    """Return False where a negative eigenvalue beyond rounding is found.

    Up to 2000 points by a Cholesky factorization of K + tau I, with tau the rounding of K's own
    entries. Beyond, by such a factorization of a principal submatrix of 2000 points spread over
    the data and by 30 Lanczos steps on the whole operator; both can only refute, and a matrix that
    passes them is believed.
    """
    if gram.psd != "check":
        return True
    rows = np.unique(np.linspace(0, gram.m - 1, min(gram.m, DENSE)).astype(np.int64))
    K = gram.block(rows, rows, np.float64)
    K = 0.5 * (K + K.T)
    eps = float(np.finfo(gram.dtype).eps)
    shift = 8.0 * eps * np.sqrt(len(K)) * float(np.linalg.norm(K))
    K[np.diag_indices_from(K)] += max(shift, np.finfo(float).tiny)
    try:
        scipy.linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    if gram.m <= DENSE:
        return True
    low, size = _lanczos_range(gram, steps=30)
    return low >= -8.0 * eps * np.sqrt(gram.m) * size


def _lanczos_range(gram: Gram, steps: int) -> tuple[float, float]:
    """Return the least and the largest Ritz value after some Lanczos steps."""
    v = np.random.default_rng(0).standard_normal(gram.m)
    basis: list[NDArray[np.float64]] = [v / np.linalg.norm(v)]
    alpha: list[float] = []
    beta: list[float] = []
    for _ in range(steps):
        w = gram.dot(basis[-1])
        alpha.append(float(w @ basis[-1]))
        for _ in range(2):  # twice is enough
            for u in basis:
                w -= (w @ u) * u
        beta.append(float(np.linalg.norm(w)))
        if beta[-1] <= 1e-14 * abs(alpha[0]):
            break
        basis.append(w / beta[-1])
    ritz = scipy.linalg.eigh_tridiagonal(alpha, beta[: len(alpha) - 1], eigvals_only=True)
    return float(ritz[0]), float(np.max(np.abs(ritz)))
