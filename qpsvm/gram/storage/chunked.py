"""Points in chunks of rows that need not be in the memory of this process.

A chunk knows how to load its rows. Chunks of a Dask array are loaded where the cluster keeps them, those
of files where the file is read. Nothing here gathers all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_points

PACKAGES_OF_CHUNKS = ("dask", "dask_expr")
"""Packages whose arrays and frames are chunked."""


@dataclass(frozen=True)
class DaskChunk:
    """Rows of a Dask array: a delayed object, which a cluster evaluates where it wants."""

    delayed: Any

    def load(self) -> Any:
        """Return the rows."""
        return self.delayed.compute()


@dataclass(frozen=True, eq=False)
class ChunkedPoints:
    """Points of shape (m, d) in chunks of consecutive rows.

    Attributes
    ----------
    chunks : tuple
        Each has a method ``load()`` that returns its rows, dense or CSR.
    sizes : tuple of int
        Number of rows of each chunk.
    n_features : int
    dtype : dtype
        float32 or float64.
    labels : ndarray, shape (m,), or None
        Labels that the file of the points holds.
    """

    chunks: tuple[Any, ...]
    sizes: tuple[int, ...]
    n_features: int
    dtype: np.dtype[Any]
    labels: NDArray[np.float64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of points and of features."""
        return int(sum(self.sizes)), self.n_features

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Index of the first row of each chunk, and the number of rows, shape (n_chunks + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    def rows(self, k: int, loaded: Any = None) -> Any:
        """Return the rows of a chunk, checked; the message of an error names the chunk."""
        found = self.chunks[k].load() if loaded is None else loaded
        return checked_rows(found, k, int(self.starts[k]), self.n_features, self.dtype)

    def over_chunks(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return the values of a function at each chunk, one chunk in memory at a time."""
        return [function(self.rows(k)) for k in range(len(self.chunks))]

    @cached_property
    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Mean and variance of each feature, shape (d,), and the largest absolute entry: one pass."""

        def of_chunk(X: Any) -> Any:
            values = X.data if sp.issparse(X) else X
            total = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
            mean = total / X.shape[0]
            if sp.issparse(X):
                squares = np.asarray(X.multiply(X).sum(axis=0, dtype=np.float64)).ravel()
                spread = squares - X.shape[0] * mean * mean
            else:
                spread = np.sum(np.square(X - mean, dtype=np.float64), axis=0)
            return X.shape[0], mean, spread, float(np.max(np.abs(values), initial=0.0))

        n, mean, spread, largest = 0, np.zeros(self.n_features), np.zeros(self.n_features), 0.0
        for n_new, mean_new, spread_new, size in self.over_chunks(of_chunk):
            moved, total = mean_new - mean, n + n_new  # the update of Chan, Golub and LeVeque
            spread += spread_new + moved * moved * (n * n_new / total)
            mean, n, largest = mean + moved * (n_new / total), total, max(largest, size)
        return mean, spread / n, largest

    def _refuse(self) -> NoReturn:
        raise InputError(
            "X must not be gathered: its rows are chunked. Hinge and L2 machines, one-class machines and "
            "balls are solved over chunked rows"
        )

    def __getitem__(self, rows: Any) -> NoReturn:
        """Raise InputError: rows are read chunk by chunk."""
        self._refuse()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        """Raise InputError: the rows may not fit the memory."""
        self._refuse()


def checked_rows(found: Any, k: int, start: int, n_features: int, dtype: np.dtype[Any]) -> Any:
    """Return the rows of chunk `k` as points, or raise InputError with the rows that are wrong."""
    name = f"X (chunk {k}, from row {start:,})"
    X = check_points(name, found)
    if X.shape[1] != n_features:
        raise InputError(f"{name} must have {n_features} features; got shape {X.shape}")
    return X.astype(dtype, copy=False)


def precision_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return float32 for floating-point numbers of at most 32 bits, float64 for all others."""
    keeps = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if keeps else np.float64)


def as_chunked(X: Any) -> ChunkedPoints | None:
    """Return chunked points, Dask arrays and frames as `ChunkedPoints`; None for anything else."""
    if isinstance(X, ChunkedPoints):
        return X
    if type(X).__module__.split(".")[0] not in PACKAGES_OF_CHUNKS or not hasattr(X, "dask"):
        return None
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if X.ndim != 2:
        raise InputError(f"X must be 2-dimensional, one point a row; got shape {X.shape}")
    if np.isnan(X.shape[0]):
        X = X.compute_chunk_sizes()
    if X.dtype.kind not in "biuf":
        raise InputError(f"X must hold real numbers; got dtype {X.dtype}")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    dtype = precision_of(X.dtype)
    pairs = zip(X.to_delayed(optimize_graph=True).ravel(), X.chunks[0], strict=True)
    kept = [(DaskChunk(delayed), int(size)) for delayed, size in pairs if size]
    if not kept or not X.shape[1]:
        raise InputError(f"X must hold at least one point and one feature; got {X.shape}")
    chunks, sizes = zip(*kept, strict=True)
    return ChunkedPoints(chunks, sizes, int(X.shape[1]), dtype)
