"""Rows that are read again in every pass: sums over the rows of a shard, a chunk in memory at a time.

A shard of this kind holds labels and penalties of its rows, and how to load them. It needs no more memory
than a chunk for each thread, whatever the number of rows is; chunks of a Dask array are at the worker
already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.distributed.kernel_sums import stacked
from qpsvm.gram.storage.chunked import ChunkedPoints
from qpsvm.gram.translation import moved_rows
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.products import squared_norms

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

BLOCK_BYTES = 1 << 20
"""Bytes of rows in float64 that are worked on at a time: they fit the cache of a processor."""


class HingeSums(NamedTuple):
    """Sums over rows at a hyperplane f = w'z + b, with u_i = clip((1 - y_i f_i) / mu, 0, 1)."""

    hinge: float  # sum C_i max(0, 1 - y_i f_i)
    smooth: float  # sum C_i (u_i q_i - mu u_i^2 / 2), q_i = 1 - y_i f_i
    weight: Vector  # sum C_i u_i of the class +1, and of -1, (2,)
    moment: Vector  # sum C_i u_i z_i of both classes, (2, d)
    hessian: Vector  # sum C_i / mu [z_i, 1][z_i, 1]' where 0 < u_i < 1, (d + 1, d + 1)
    n_support: int  # rows with u_i > 0
    largest: float  # largest |z_i|^2


class Offered(NamedTuple):
    """The farthest rows of a shard from a center."""

    squares: Vector  # squared distances, in descending order
    local: Indices  # their indices in the shard
    rows: Any  # the rows, moved
    largest: float  # largest |z|^2 of all rows


class Summary(NamedTuple):
    """What the first pass finds."""

    n: int
    total: Vector  # sum of the rows, (d,)
    sample: Any  # rows of the shard in steps, as they are stored
    places: Indices  # their indices in the shard


@dataclass
class PassShard:
    """Rows of some chunks.

    Attributes
    ----------
    points : ChunkedPoints
    chunks : tuple of int
        Those of the shard.
    loaded : list or None
        Their rows, where they are in memory.
    """

    points: ChunkedPoints
    chunks: tuple[int, ...]
    loaded: Any = None
    version: int = 0  # number of changes of its state, which tells a shard that was rebuilt

    @property
    def n(self) -> int:
        """Number of its rows."""
        return int(sum(self.points.sizes[c] for c in self.chunks))

    def _over_chunks(self, function: Callable[[slice, Any], Any]) -> list[Any]:
        """Return the values of a function of the rows of each chunk and their places, in order."""
        sizes = [self.points.sizes[c] for c in self.chunks]
        ends = np.cumsum(sizes).tolist()
        found: list[Any] = [None] * len(sizes)

        def of_chunk(k: int) -> None:
            rows = self.points.rows(self.chunks[k], self.loaded and self.loaded[k])
            found[k] = function(slice(ends[k] - sizes[k], ends[k]), rows)

        parallel_for(of_chunk, list(range(len(sizes))))
        return found

    def summary(self, step: int) -> Summary:
        """Return the sum of the rows, and every `step`-th of them."""

        def of_chunk(at: slice, X: Any) -> tuple[Vector, Any, Indices]:
            places = np.arange(-(-at.start // step) * step, at.stop, step)
            total = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
            return total, X[places - at.start], places

        totals, samples, places = zip(*self._over_chunks(of_chunk), strict=True)
        stack = sp.vstack if sp.issparse(samples[0]) else np.concatenate
        return Summary(self.n, np.sum(totals, axis=0), stack(samples), np.concatenate(places))

    def start(self, y: Any, C: Any, origin: Vector | None) -> None:
        """Take labels and penalties, each a number or of shape (n,), and the origin of the rows."""
        self.y = np.broadcast_to(y, (self.n,))
        self.C = np.broadcast_to(np.asarray(C, np.float64), (self.n,))
        self.origin = origin

    def hinge(self, w: Vector, b: float, mu: float) -> HingeSums:
        """Return the sums at a hyperplane on the moved rows."""

        def of_chunk(at: slice, X: Any) -> HingeSums:
            y, C, d = self.y[at], self.C[at], len(w)
            weight, moment, hessian = np.zeros(2), np.zeros((2, d)), np.zeros((d + 1, d + 1))
            hinge = smooth = largest = 0.0
            n_support = 0
            for some in _blocks(X):
                Z = self._moved(X[some])
                q = 1.0 - y[some] * (np.asarray(Z @ w) + b)
                u = np.clip(q / mu, 0.0, 1.0)
                a = C[some] * u
                hinge += float(C[some] @ np.maximum(q, 0.0))
                smooth += float(a @ (q - 0.5 * mu * u))
                classes = np.where(y[some] > 0, [[1.0], [0.0]], [[0.0], [1.0]]) * a
                weight += np.sum(classes, axis=1)
                moment += np.asarray((Z.T @ classes.T).T)
                n_support += int(np.count_nonzero(u))
                between = np.flatnonzero((u > 0.0) & (u < 1.0))
                part = Z[between].toarray() if sp.issparse(Z) else Z[between]
                part = np.column_stack([part, np.ones(len(between))])
                hessian += (part * (C[some][between] / mu)[:, None]).T @ part
                largest = max(largest, float(np.max(squared_norms(Z))))
            return HingeSums(hinge, smooth, weight, moment, hessian, n_support, largest)

        return added(self._over_chunks(of_chunk))

    def along(
        self, w: Vector, b: float, mu: float, dw: Vector, db: float, lengths: Vector
    ) -> Vector:
        """Return the smoothed losses at w + t dw, b + t db for each length t."""

        def of_chunk(at: slice, X: Any) -> Vector:
            y, C, total = self.y[at], self.C[at], np.zeros(len(lengths))
            for some in _blocks(X):
                Z = self._moved(X[some])
                q = 1.0 - y[some] * (np.asarray(Z @ w) + b)
                change = y[some] * (np.asarray(Z @ dw) + db)
                for k, t in enumerate(lengths):
                    moved = q - t * change
                    u = np.clip(moved / mu, 0.0, 1.0)
                    total[k] += float(C[some] @ (u * (moved - 0.5 * mu * u)))
            return total

        return np.asarray(np.sum(self._over_chunks(of_chunk), axis=0))

    def weights(self, w: Vector, b: float, mu: float, scales: Vector) -> Vector:
        """Return C_i u_i times the scale of its class, shape (n,)."""

        def of_chunk(at: slice, X: Any) -> Vector:
            y, out = self.y[at], np.empty(X.shape[0])
            for some in _blocks(X):
                q = 1.0 - y[some] * (np.asarray(self._moved(X[some]) @ w) + b)
                out[some] = np.clip(q / mu, 0.0, 1.0)
            return out * self.C[at] * np.where(y > 0, scales[0], scales[1])

        return np.concatenate(self._over_chunks(of_chunk))

    def farthest(self, center: Vector, count: int) -> Offered:
        """Return the rows that are farthest from a center on the moved rows, at most `count`."""

        def of_chunk(at: slice, X: Any) -> Offered:
            squares, largest = np.empty(X.shape[0]), 0.0
            for some in _blocks(X):
                Z = self._moved(X[some])
                own = squared_norms(Z)
                largest = max(largest, float(np.max(own)))
                if sp.issparse(Z):
                    squares[some] = own - 2.0 * np.asarray(Z @ center) + float(center @ center)
                else:
                    squares[some] = squared_norms(Z - center)
            return self._most(squares, np.arange(at.start, at.stop), X, largest, count)

        parts = self._over_chunks(of_chunk)
        squares, local = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        rows = stacked(*[part.rows for part in parts])
        order = np.argsort(-squares, kind="stable")[:count]
        largest = max(part.largest for part in parts)
        return Offered(squares[order], local[order], rows[order], largest)

    def _most(self, squares: Vector, local: Indices, X: Any, largest: float, count: int) -> Offered:
        """Return the rows of a chunk with the largest squares."""
        count = min(count, len(squares))
        some = np.argpartition(-squares, count - 1)[:count]
        return Offered(squares[some], local[some], self._moved(X[some]), largest)

    def _moved(self, X: Any) -> Any:
        """Return rows less the origin, in float64; CSR rows are not moved."""
        if self.origin is None or sp.issparse(X):
            return X.astype(np.float64, copy=False)
        return moved_rows(X, self.origin)


def _blocks(X: Any) -> list[slice]:
    """Return slices of rows that fit the cache."""
    n, size = X.shape[0], max(1, BLOCK_BYTES // (8 * X.shape[1]))
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def added(parts: list[HingeSums]) -> HingeSums:
    """Return the sums of parts, in their order."""
    columns = [list(column) for column in zip(*parts, strict=True)]
    sums = [np.sum(column, axis=0) for column in columns[:-1]]
    hinge, smooth, weight, moment, hessian, n_support = sums
    return HingeSums(
        float(hinge), float(smooth), weight, moment, hessian, int(n_support), max(columns[-1])
    )


def pass_shard(points: ChunkedPoints, chunks: Any, loaded: Any = None) -> PassShard:
    """Return the shard of some chunks."""
    return PassShard(points, tuple(chunks), None if loaded is None else list(loaded))
