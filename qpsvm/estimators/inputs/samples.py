"""Training points as they are solved: without those of weight zero, few of them merged.

Few points are put into an order of their own, and duplicates become one point of their joint weight. A
fit then does not depend on the order of the points, and a weight is the same as a repetition to the
last bit. Few sparse points of few features become dense, so that their fit is that of the same dense
points.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.errors import InputError
from qpsvm.gram.storage.chunked import ChunkedPoints

MAX_POINTS_TO_MERGE = 1000
"""Points up to which the order is settled and duplicates are merged; of more, `solve` merges them."""

MAX_ENTRIES_TO_STORE_DENSE = 1 << 20
"""Entries of a matrix, zeros included, up to which few sparse points are solved as dense ones."""

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Samples(NamedTuple):
    """Points of positive weight."""

    X: Any
    rows: Indices
    """Index of each point among those given, shape (m,)."""
    weight: Vector
    codes: Indices
    """Number of the class of each point, shape (m,)."""


def checked_weight(sample_weight: Any, m: int) -> Vector:
    """Return weights of shape (m,), ones by default; raise InputError in scikit-learn's words.

    As in LIBSVM, a negative weight omits a point, as 0 does.
    """
    if sample_weight is None:
        return np.ones(m)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(m, float(weight))
    if weight.ndim != 1:
        raise InputError(f"Sample weights must be 1D array or scalar, got {weight.ndim}D array.")
    if weight.shape != (m,):
        raise InputError(f"sample_weight.shape == {weight.shape}, expected {(m,)}!")
    if not np.isfinite(weight).all():
        raise InputError("Input sample_weight contains NaN or infinity.")
    if not np.any(weight > 0):
        raise InputError("Invalid input - all samples have zero or negative weights.")
    return np.maximum(weight, 0.0)


def arranged(X: Any, codes: Indices, weight: Vector, *, by_points: bool) -> Samples:
    """Return the points of positive weight; few of them are sorted and merged, many left as they are.

    Parameters
    ----------
    X : ndarray or CSR matrix, shape (n, d), or a kernel matrix
    codes : ndarray of int, shape (n,)
        Classes 0, ..., k - 1; each must have a point of positive weight.
    weight : ndarray, shape (n,)
    by_points : bool
        False for a kernel matrix, whose rows and columns are taken and not merged.

    Raises
    ------
    InputError
        If a point of chunked rows has weight zero: they are all in the solve.
    """
    rows = np.flatnonzero(weight > 0)
    if isinstance(X, ChunkedPoints):
        if len(rows) < len(weight):
            raise InputError(
                f"sample_weight must be > 0 for every point of chunked rows; got "
                f"{len(weight) - len(rows)} points of weight 0"
            )
        return Samples(X, rows, weight, codes)
    merges = by_points and len(rows) <= MAX_POINTS_TO_MERGE
    if merges and sp.issparse(X) and X.shape[0] * X.shape[1] <= MAX_ENTRIES_TO_STORE_DENSE:
        X = X.toarray()
    if merges:
        rows = rows[np.lexsort((_keys(X)[rows], codes[rows]))]
    is_same = len(rows) == len(codes) and bool(np.all(np.diff(rows) == 1))
    if not by_points:
        points = X if is_same else X[np.ix_(rows, rows)]
    else:
        points = X if is_same else X[rows]
    weight, codes = weight[rows], codes[rows]
    if merges:
        first = np.flatnonzero(np.append(True, _differ(points) | (np.diff(codes) != 0)))
        if len(first) < len(rows):
            weight = np.add.reduceat(weight, first)
            points, rows, codes = points[first], rows[first], codes[first]
    return Samples(points, rows, weight, codes)


def _keys(X: Any) -> Vector:
    """Return a number for each point, the same for duplicates."""
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    if sp.issparse(X):
        return np.asarray(X @ direction).ravel()
    return np.asarray((np.ascontiguousarray(X) * direction).sum(axis=1))


def _differ(X: Any) -> NDArray[np.bool_]:
    """Return whether each point but the first differs from the one before."""
    if sp.issparse(X):
        changed = sp.csr_matrix(X[1:] != X[:-1])
        changed.eliminate_zeros()
        return np.asarray(np.diff(changed.indptr) > 0)
    return np.asarray((X[1:] != X[:-1]).any(axis=1))


def divided(X: Any, divisor: float) -> Any:
    """Return the points divided by a number, in their precision."""
    if isinstance(X, ChunkedPoints):
        return X.derived(partial(divided, divisor=divisor), X.n_features)
    return X / X.dtype.type(divisor)


def with_constant(X: Any, value: float) -> Any:
    """Return the points with one more feature, the same for all."""
    if isinstance(X, ChunkedPoints):
        return X.derived(partial(with_constant, value=value), X.n_features + 1)
    column = np.full((X.shape[0], 1), value, dtype=X.dtype)
    return sp.hstack([X, column], format="csr") if sp.issparse(X) else np.hstack([X, column])
