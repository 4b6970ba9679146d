"""Check of a Gram for positive semidefiniteness, on which lower bounds rest."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.repeated import RepeatedGram

MAX_POINTS_FOR_FACTOR = 2000
"""Number of points up to which the whole matrix is factored."""


def is_psd(gram: Gram) -> bool:
    """Return False where a negative eigenvalue beyond rounding is found."""
    return psd_defect(gram) < np.inf


def psd_defect(gram: Gram) -> float:
    """Return the distance of the least eigenvalue of K below 0, or infinity if it exceeds rounding.

    It is 0 if K is known to be positive semidefinite, or if the eigenvalue is within the rounding of
    float64. The rounding of K's entries to a lower precision may make it larger: bounds account for that.

    Up to 2000 points the whole matrix is checked: by a Cholesky factorization, and by its least
    eigenvalue if that fails. Above, a principal submatrix of 2000 evenly chosen points is checked, then
    the whole operator by 30 Lanczos steps. Both can only refute: K passes if neither does.

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
    K = 0.5 * (K + K.T)
    size = float(np.linalg.norm(K))
    entry_rounding, float64_rounding = (
        8.0 * float(np.finfo(kind).eps) for kind in (gram.dtype, np.float64)
    )
    defect = 0.0
    if not _is_positive(K, float64_rounding * size):
        least = float(scipy.linalg.eigvalsh(K, subset_by_index=[0, 0])[0])
        if least < -entry_rounding * np.sqrt(len(K)) * size:
            return np.inf
        defect = max(-least, 0.0) if least < -float64_rounding * size else 0.0
    if gram.m <= MAX_POINTS_FOR_FACTOR:
        return defect
    low, largest = _lanczos_range(gram, steps=30)
    if low < -entry_rounding * np.sqrt(gram.m) * largest:
        return np.inf
    return max(defect, -low if low < -float64_rounding * largest else 0.0)


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
