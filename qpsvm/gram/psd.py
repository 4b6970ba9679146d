"""Check of a Gram for positive semidefiniteness, on which lower bounds rest."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from qpsvm.gram.base import Gram
from qpsvm.gram.column_store import ColumnStore
from qpsvm.gram.precomputed import Precomputed
from qpsvm.gram.repeated import RepeatedGram
from qpsvm.numerics.parallel import parallel_for, single_threaded_blas

MAX_POINTS_FOR_FACTOR = 2000
"""Number of points up to which the whole matrix is factored."""

SAMPLE_POINTS = 1000
"""Number of points of the sample that is factored where there are more."""

LANCZOS_STEPS = 10
"""Number of products with a matrix of more points that was given entry by entry."""

ROUNDING_NORM = 0.2
"""Spectral norm of the rounding errors of m x m entries, over eps |K|_F / sqrt(m), that is tried first:
the errors have deviations of 0.14 to 0.29 eps, relative to their entries, and a symmetric matrix of such
has twice the norm."""

SHIFT_RATIO = 2.0
"""Ratio of a shift to the one before."""

BLOCK_ROWS = 256
"""Rows of a block that is transposed or factored: two blocks fit the second-level cache."""


def is_psd(gram: Gram) -> bool:
    """Return False where a negative eigenvalue beyond rounding is found."""
    return psd_defect(gram) < np.inf


def is_psd_decided(gram: Gram) -> bool:
    """Return whether a matrix that passes the test is positive semidefinite but for its rounding.

    Kernels that are so by their kind pass, and matrices that the test factors as a whole. Where it can
    only refute, or is left out, negative curvature that is found later tells more.
    """
    if isinstance(gram, RepeatedGram):
        return is_psd_decided(gram.gram)
    return gram.psd == "fact" or (gram.psd == "check" and gram.m <= MAX_POINTS_FOR_FACTOR)


def psd_defect(gram: Gram, store: ColumnStore | None = None) -> float:
    """Return how far the least eigenvalue of K may be below 0, or infinity if it exceeds rounding.

    It is 0 if K is known to be positive semidefinite, or if the eigenvalue is within the rounding of
    float64. The rounding of K's entries to a lower precision may make it larger: bounds account for that.

    Up to 2000 points Cholesky factors of K + shift I decide, for a rising shift: the first that
    succeeds is the bound. Above, the same is done for 1000 evenly chosen points. Of a kernel they are
    a typical sample: the eigenvalues, divided by the number of points, tend to those of the kernel as an
    operator. A matrix that was given entry by entry is tested as a whole, too, by Lanczos steps. With
    more than 2000 points these tests can only refute: K passes if none does.

    Of repeated points it is that of the points times the largest number of repetitions. The columns of
    a `store` are those of the test where they have its precision.
    """
    if gram.psd != "check":
        return 0.0
    if isinstance(gram, RepeatedGram):
        return gram.multiplicity * psd_defect(gram.gram)
    if gram.m <= MAX_POINTS_FOR_FACTOR:
        return _defect_of_matrix(_symmetric_part(_all_columns(gram, store)), gram.dtype)
    n_sampled = min(SAMPLE_POINTS, MAX_POINTS_FOR_FACTOR)
    rows = np.unique(np.linspace(0, gram.m - 1, n_sampled).astype(np.int64))
    defect = _defect_of_matrix(_symmetric_part(gram.block(rows, rows, np.float64)), gram.dtype)
    if gram.is_kernel or defect == np.inf:
        return defect
    low, largest = _lanczos_range(gram, LANCZOS_STEPS)
    if low < -_entry_rounding(gram.dtype) * np.sqrt(gram.m) * largest:
        return np.inf
    return max(defect, -low if low < -_entry_rounding(np.float64) * largest else 0.0)


def _all_columns(gram: Gram, store: ColumnStore | None) -> NDArray[np.floating]:
    """Return K in float64, or as it was given; a store of that precision then has all columns."""
    every, exact = np.arange(gram.m), gram.dtype == np.float64 or isinstance(gram, Precomputed)
    if store is None or store.gram is not gram or store.n_slots < gram.m or not exact:
        return gram.block(every, None, np.float64)
    store.ensure(every)
    return store.store if np.array_equal(store.slot, every) else store.store[store.slot]


def _symmetric_part(K: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the symmetric part of a square matrix, made in blocks that stay in cache."""
    out = np.empty(K.shape)
    for i in range(0, len(K), BLOCK_ROWS):
        rows = slice(i, i + BLOCK_ROWS)
        for j in range(0, i + 1, BLOCK_ROWS):
            columns = slice(j, j + BLOCK_ROWS)
            mean = np.add(K[rows, columns], K[columns, rows].T, dtype=np.float64)
            mean *= 0.5
            out[rows, columns], out[columns, rows] = mean, mean.T
    return out


def _entry_rounding(dtype: DTypeLike) -> float:
    """Return the rounding of an entry, computed in several steps, relative to the largest."""
    return 8.0 * float(np.finfo(dtype).eps)


def _defect_of_matrix(K: NDArray[np.float64], dtype: DTypeLike) -> float:
    """Return the least shift tried for which K has a Cholesky factor, 0 within the rounding of float64.

    It is infinite where the rounding of entries in their precision does not suffice. K is symmetric and
    C-ordered; it is overwritten.
    """
    size, root = float(np.linalg.norm(K)), float(np.sqrt(len(K)))
    least, greatest = (_entry_rounding(kind) * size for kind in (np.float64, dtype))
    greatest *= root
    test = _FactorTest(K)
    if test.is_positive(least):
        return 0.0
    shift = max(ROUNDING_NORM * float(np.finfo(dtype).eps) * size / root, SHIFT_RATIO * least)
    if test.is_positive(min(shift, greatest)):
        return min(shift, greatest)
    if not test.is_positive(greatest):
        return np.inf
    shift *= SHIFT_RATIO
    while shift < greatest and not test.is_positive(shift):
        shift *= SHIFT_RATIO
    return min(shift, greatest)


class _FactorTest:
    """Whether K + shift I has a Cholesky factor, for several shifts, in the memory of K.

    A factor overwrites the lower triangle in blocks, which the upper one restores.
    """

    def __init__(self, K: NDArray[np.float64]) -> None:
        self._K, self._is_restored = K, True
        self._blocks = [slice(i, min(i + BLOCK_ROWS, len(K))) for i in range(0, len(K), BLOCK_ROWS)]
        self._diagonal = [K[at, at].copy() for at in self._blocks]

    def is_positive(self, shift: float) -> bool:
        """Return whether K + shift I has a factor."""
        K, blocks = self._K, self._blocks
        for at, block in zip(blocks, self._diagonal, strict=True):
            if not self._is_restored:
                K[at, : at.start] = K[: at.start, at].T
                K[at, at] = block
        self._is_restored = False
        K[np.diag_indices_from(K)] += max(shift, np.finfo(float).tiny)
        with single_threaded_blas():
            return all(self._eliminate(at, blocks[k + 1 :]) for k, at in enumerate(blocks))

    def _eliminate(self, at: slice, below: list[slice]) -> bool:
        """Factor a block of the diagonal and update the rows below; return whether it has a factor."""
        K = self._K
        factor, failed = dpotrf(K[at, at], lower=1)
        if failed:
            return False

        def divide(rows: slice) -> None:
            K[rows, at] = dtrsm(1.0, factor, K[rows, at].T, lower=1).T

        def subtract(rows: slice) -> None:
            columns = slice(at.stop, rows.stop)
            K[rows, columns] -= K[rows, at] @ K[columns, at].T

        parallel_for(divide, below)
        parallel_for(subtract, below[::-1])
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
