"""Kernel values from blocks of inner products, in one compiled pass.

The products come from BLAS. The map is a parameter: see `maps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.engine.maps import MAP_FLAGS, apply_map
from qpsvm.numerics.jit import njit
from qpsvm.numerics.parallel import parallel_for

CHUNK_ENTRIES = 1024
"""Number of entries of a row that are mapped at a time, in the first-level cache."""

SWEEP_ENTRIES = 1 << 18
"""Number of entries that a thread sweeps at a time."""

Vector = NDArray[np.float64]
mapping = njit(cache=True, **MAP_FLAGS)
summing = njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz", "reassoc"})


def map_products(
    K: NDArray[np.floating], factor: float, kernel_map: Any, a: Vector, b: Vector
) -> None:
    """Replace inner products K by kernel values phi(a_i + b_j + factor K_ij), in parallel.

    Parameters
    ----------
    K : ndarray, shape (n, m)
        C-ordered, float32 or float64.
    factor : float
    kernel_map : NamedTuple
        See `formula.Formula`.
    a, b : ndarray, shapes (n,) and (m,)
        Terms of rows and columns.
    """
    rows = max(1, SWEEP_ENTRIES // max(1, K.shape[1]))
    kind = K.dtype.type
    a, b = a.astype(kind, copy=False), b.astype(kind, copy=False)

    def chunk(start: int) -> None:
        at = slice(start, start + rows)
        _map(K[at], kind(factor), kernel_map, a[at], b)

    parallel_for(chunk, list(range(0, len(K), rows)))


def map_block(
    K: NDArray[np.floating], factor: float, kernel_map: Any, a: Vector, b: Vector
) -> None:
    """Do what `map_products` does, in this thread."""
    kind = K.dtype.type
    _map(K, kind(factor), kernel_map, a.astype(kind, copy=False), b.astype(kind, copy=False))


@mapping
def _map(K: Any, factor: Any, kernel_map: Any, a: Any, b: Any) -> None:
    buffer = np.empty(CHUNK_ENTRIES, K.dtype)  # loops that write what they read are not vectorized
    for i in range(len(a)):
        for start in range(0, len(b), CHUNK_ENTRIES):
            column_terms, row_term = b[start : start + CHUNK_ENTRIES], a[i]
            row, t = K[i, start : start + CHUNK_ENTRIES], buffer[: len(column_terms)]
            for j in range(len(t)):
                t[j] = (row_term + column_terms[j]) + factor * row[j]
            apply_map(kernel_map, t)
            for j in range(len(t)):
                row[j] = t[j]
