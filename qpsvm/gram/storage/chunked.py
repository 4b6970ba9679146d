"""Points in chunks of rows that need not be in the memory of this process.

A chunk knows how to load its rows. Chunks of a Dask array are loaded where the cluster keeps them, those
of files where the file is read. Nothing here gathers all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
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


@dataclass(frozen=True)
class DerivedChunk:
    """A function of the rows of another chunk, evaluated where that one is loaded."""

    chunk: Any
    function: Callable[[Any], Any]

    def load(self) -> Any:
        """Return the rows."""
        return self.function(self.chunk.load())


def derived(chunk: Any, function: Callable[[Any], Any]) -> Any:
    """Return the chunk of a function of the rows of another one."""
    if isinstance(chunk, DaskChunk):
        from dask.delayed import delayed

        return DaskChunk(delayed(function)(chunk.delayed))
    return DerivedChunk(chunk, function)


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

    def over_chunks(self, function: Callable[..., Any], *each: Any) -> list[Any]:
        """Return the values of a function at the rows of each chunk.

        Chunks of a Dask array are evaluated by Dask's scheduler; otherwise one chunk is in memory at a
        time. Further arguments of the function have a row for each point.
        """
        limits = zip(self.starts[:-1], self.starts[1:], strict=True)
        own = [tuple(values[start:stop] for values in each) for start, stop in limits]
        if all(isinstance(chunk, DaskChunk) for chunk in self.chunks):
            from dask.base import compute
            from dask.delayed import delayed

            known = replace(self, chunks=(None,) * len(self.chunks), labels=None)
            tasks = [
                delayed(_evaluated)(function, known, k, chunk.delayed, *own[k])
                for k, chunk in enumerate(self.chunks)
            ]
            return list(compute(*tasks))
        return [function(self.rows(k), *own[k]) for k in range(len(self.chunks))]

    @cached_property
    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Mean and variance of each feature, shape (d,), and the largest absolute entry: one pass."""
        return self.weighted_moments(None)

    def weighted_moments(
        self, weight: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return `moments`, where a weight counts as that many repetitions of a point."""
        parts = self.over_chunks(_moments, *([] if weight is None else [weight]))
        n, mean, spread, largest = 0.0, np.zeros(self.n_features), np.zeros(self.n_features), 0.0
        for n_new, mean_new, spread_new, size in parts:
            moved, total = mean_new - mean, n + n_new  # the update of Chan, Golub and LeVeque
            spread += spread_new + moved * moved * (n * n_new / total)
            mean, n, largest = mean + moved * (n_new / total), total, max(largest, size)
        return mean, spread / n, largest

    def derived(self, function: Callable[[Any], Any], n_features: int) -> ChunkedPoints:
        """Return the points whose chunks are a function of these chunks, row by row."""
        chunks = tuple(derived(chunk, function) for chunk in self.chunks)
        return replace(self, chunks=chunks, n_features=n_features)

    def take(self, rows: NDArray[np.int64]) -> ChunkedPoints:
        """Return some points, whose indices ascend; whole chunks of them are the same chunks."""
        ends = np.searchsorted(rows, self.starts)
        chunks, sizes = [], []
        for k, chunk in enumerate(self.chunks):
            local = rows[ends[k] : ends[k + 1]] - self.starts[k]
            if len(local):
                whole = len(local) == self.sizes[k]
                chunks.append(chunk if whole else derived(chunk, partial(_selected, local)))
                sizes.append(len(local))
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, chunks=tuple(chunks), sizes=tuple(sizes), labels=labels)

    def gather(self, rows: NDArray[np.int64]) -> Any:
        """Return copies of a few points, in the order of their indices `rows`."""
        some, places = np.unique(rows, return_inverse=True)
        if not len(some):
            return np.empty((0, self.n_features), self.dtype)
        parts = self.take(some).over_chunks(_itself)
        return (sp.vstack(parts, "csr") if sp.issparse(parts[0]) else np.concatenate(parts))[places]

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


def _evaluated(function: Any, points: ChunkedPoints, k: int, loaded: Any, *own: Any) -> Any:
    """Return the value of a function at the rows of a chunk."""
    return function(points.rows(k, loaded), *own)


def _itself(X: Any) -> Any:
    """Return the rows."""
    return X


def _selected(local: NDArray[np.int64], X: Any) -> Any:
    """Return some rows of a chunk."""
    return X[local]


def _moments(X: Any, weight: Any = 1.0) -> Any:
    """Return the total weight of rows, their mean, their spread about it, and the largest entry."""
    values = X.data if sp.issparse(X) else X
    w = np.broadcast_to(np.asarray(weight, np.float64), (X.shape[0],))
    total = float(np.sum(w))
    mean = np.asarray(X.T @ w).ravel() / total
    if sp.issparse(X):
        spread = np.asarray(X.multiply(X).T @ w).ravel() - total * mean * mean
    else:
        spread = w @ np.square(X - mean, dtype=np.float64)
    return total, mean, spread, float(np.max(np.abs(values), initial=0.0))


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


def is_chunked(X: Any) -> bool:
    """Return whether points are chunked: `ChunkedPoints`, or a Dask array or frame."""
    if isinstance(X, ChunkedPoints):
        return True
    return type(X).__module__.split(".")[0] in PACKAGES_OF_CHUNKS and hasattr(X, "dask")


def as_chunked(X: Any) -> ChunkedPoints | None:
    """Return chunked points, Dask arrays and frames as `ChunkedPoints`; None for anything else."""
    if isinstance(X, ChunkedPoints):
        return X
    if not is_chunked(X):
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
