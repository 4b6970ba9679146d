"""CSR points: whether they are multiplied as such or as dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

MAX_STORED_FRACTION = 0.25
"""Fraction of stored entries above which CSR points are faster as dense ones."""


def is_sparse(points: Any) -> bool:
    """Return whether points are CSR and few enough of their coordinates are stored to be swept so.

    The others are multiplied as dense ones.
    """
    if not sp.issparse(points):
        return False
    return bool(points.nnz <= MAX_STORED_FRACTION * points.shape[0] * points.shape[1])


def stored_alike(points: Any, sparse: bool) -> Any:
    """Return dense points as CSR or CSR points as dense ones, whichever is wanted; others as they are."""
    if sparse and isinstance(points, np.ndarray):
        return sp.csr_matrix(points)
    return points.toarray() if sp.issparse(points) and not sparse else points


def without_empty_columns(points: Any) -> Any:
    """Return CSR points without features that none has; as they are where there may be no such one.

    Features are in the order of their first entries, and those of a row in the order given.
    """
    if points.nnz >= points.shape[1]:
        return points
    from qpsvm.gram.storage.sparse_panels import numbered

    rows = numbered(points)
    shape = points.shape[0], rows.n_numbers - 1
    return sp.csr_matrix((rows.data, rows.numbers.astype(np.int32) - 1, rows.ends), shape)
