"""Check of a Gram for positive semidefiniteness, on which lower bounds rest."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.repeated import RepeatedGram

MAX_POINTS_FOR_FACTOR = 2000
"""Number of points up to which the whole matrix is factored."""

LANCZOS_STEPS = 10
"""Number of products with a matrix of more points that was given entry by entry."""

ROUNDING_NORM = 0.2
"""Spectral norm of the rounding errors of m x m entries, over eps |K|_F / sqrt(m), that is tried first:
the errors have deviations of 0.14 to 0.29 eps, relative to their entries, and a symmetric matrix of such
has twice the norm."""

SHIFT_RATIO = 2.0
"""Ratio of a shift to the one before."""


def is_psd(gram: Gram) -> bool:
    """Return False where a negative eigenvalue beyond rounding is found."""
    return psd_defect(gram) < np.inf


def psd_defect(gram: Gram) -> float:
    """Return how far the least eigenvalue of K may be below 0, or infinity if it exceeds rounding.

    It is 0 if K is known to be positive semidefinite, or if the eigenvalue is within the rounding of
    float64. The rounding of K's entries to a lower precision may make it larger: bounds account for that.

    Up to 2000 points Cholesky factors of K + shift I decide, for a rising shift: the first that
    succeeds is the bound. Above, the same is done for 2000 evenly chosen points. Of a kernel they are
    a typical sample: the eigenvalues, divided by the number of points, tend to those of the kernel as an
    operator. A matrix that was given entry by entry is tested as a whole, too, by Lanczos steps. With
    more than 2000 points these tests can only refute: K passes if none does.

    Of repeated points it is that of the points times the largest number of repetitions.
    """
    if gram.psd != "check":
        return 0.0
    if isinstance(gram, RepeatedGram):
        return gram.multiplicity * psd_defect(gram.gram)
    rows = np.unique(
        np.linspace(0, gram.m - 1, min(gram.m, MAX_POINTS_FOR_FACTOR)).astype(np.int64)
    )
    K = gram.block(rows, rows, np.float64)
    defect = _defect_of_matrix(0.5 * (K + K.T), gram.dtype)
    if gram.m <= MAX_POINTS_FOR_FACTOR or gram.is_kernel or defect == np.inf:
        return defect
    low, largest = _lanczos_range(gram, LANCZOS_STEPS)
    if low < -_entry_rounding(gram.dtype) * np.sqrt(gram.m) * largest:
        return np.inf
    return max(defect, -low if low < -_entry_rounding(np.float64) * largest else 0.0)


def _entry_rounding(dtype: DTypeLike) -> float:
    """Return the rounding of an entry, computed in several steps, relative to the largest."""
    return 8.0 * float(np.finfo(dtype).eps)


def _defect_of_matrix(K: NDArray[np.float64], dtype: DTypeLike) -> float:
    """Return the least shift tried for which K has a Cholesky factor, 0 within the rounding of float64.

    It is infinite where the rounding of entries in their precision does not suffice.
    """
    size, root = float(np.linalg.norm(K)), float(np.sqrt(len(K)))
    least, greatest = (_entry_rounding(kind) * size for kind in (np.float64, dtype))
    greatest *= root
    if _is_positive(K, least):
        return 0.0
    if not _is_positive(K, greatest):
        return np.inf
    shift = max(ROUNDING_NORM * float(np.finfo(dtype).eps) * size / root, least)
    while shift < greatest and not _is_positive(K, shift):
        shift *= SHIFT_RATIO
    return min(shift, greatest)


def _is_positive(K: NDArray[np.float64], shift: float) -> bool:
    """Return whether K + shift I has a Cholesky factor."""
    shifted = K.copy()
    shifted[np.diag_indices_from(K)] += max(shift, np.finfo(float).tiny)
    try:
        scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True


def _lanczos_range(gram: Gram, steps: int) -> tuple[float, float]:
    """Return the least Ritz value and the largest absolute one after these Lanczos steps."""
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
