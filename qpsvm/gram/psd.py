"""Check of a Gram for positive semidefiniteness, on which lower bounds rest."""

from __future__ import annotations

from functools import cached_property

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

BLOCK_ROWS = 192
"""Rows of a block of the factor: several blocks fit the second-level cache."""

MAX_ROWS_OF_ONE_BLOCK = 400
"""Rows of a matrix up to which it is one block: its factor takes less time than threads to start."""


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
        return _defect_of_matrix(_all_columns(gram, store), gram.dtype)
    n_sampled = min(SAMPLE_POINTS, MAX_POINTS_FOR_FACTOR)
    rows = np.unique(np.linspace(0, gram.m - 1, n_sampled).astype(np.int64))
    defect = _defect_of_matrix(gram.block(rows, rows, np.float64), gram.dtype)
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


def _entry_rounding(dtype: DTypeLike) -> float:
    """Return the rounding of an entry, computed in several steps, relative to the largest."""
    return 8.0 * float(np.finfo(dtype).eps)


def _defect_of_matrix(K: NDArray[np.floating], dtype: DTypeLike) -> float:
    """Return the least shift tried for which K has a Cholesky factor, 0 within the rounding of float64.

    It is infinite where the rounding of entries in their precision does not suffice.
    """
    test, root = _FactorTest(K), float(np.sqrt(len(K)))
    least, greatest = (_entry_rounding(kind) * test.norm for kind in (np.float64, dtype))
    greatest *= root
    if test.is_positive(least):
        return 0.0
    shift = max(ROUNDING_NORM * float(np.finfo(dtype).eps) * test.norm / root, SHIFT_RATIO * least)
    if test.is_positive(min(shift, greatest)):
        return min(shift, greatest)
    if not test.is_positive(greatest):
        return np.inf
    shift *= SHIFT_RATIO
    while shift < greatest and not test.is_positive(shift):
        shift *= SHIFT_RATIO
    return min(shift, greatest)


class _FactorTest:
    """Whether the symmetric part of K plus shift I has a Cholesky factor, for several shifts.

    The factor is made by columns of blocks: each block is read from K and finished at once. Threads share
    the blocks of a column, and each product uses one: threads of LAPACK would wait for each other where
    other processes use the processors.
    """

    def __init__(self, K: NDArray[np.floating]) -> None:
        self._K, self._factor = K, np.empty(K.shape)
        size = len(K) if len(K) <= MAX_ROWS_OF_ONE_BLOCK else BLOCK_ROWS
        self._blocks = [slice(i, min(i + size, len(K))) for i in range(0, len(K), size)]

    @cached_property
    def norm(self) -> float:
        """Frobenius norm of K."""
        parts = [np.linalg.norm(self._K[at].astype(np.float64, copy=False)) for at in self._blocks]
        return float(np.linalg.norm(parts))

    def is_positive(self, shift: float) -> bool:
        """Return whether there is a factor with this shift."""
        shift = max(shift, np.finfo(float).tiny)
        with single_threaded_blas():
            return all(self._finish(k, shift) for k in range(len(self._blocks)))

    def _finish(self, k: int, shift: float) -> bool:
        """Compute a column of blocks of the factor; return whether it exists."""
        K, L, at = self._K, self._factor, self._blocks[k]

        def reduce(rows: slice) -> None:
            block = L[rows, at]
            np.add(K[rows, at], K[at, rows].T, out=block, dtype=np.float64)
            block *= 0.5
            if k:
                block -= L[rows, : at.start] @ L[at, : at.start].T

        def divide(rows: slice) -> None:
            L[rows, at] = dtrsm(1.0, factor, L[rows, at].T, lower=1).T

        parallel_for(reduce, self._blocks[k:])
        corner = L[at, at]
        corner[np.diag_indices_from(corner)] += shift
        factor, failed = dpotrf(corner, lower=1)
        if failed:
            return False
        L[at, at] = factor
        parallel_for(divide, self._blocks[k + 1 :])
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
