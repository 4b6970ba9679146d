"""Rows that are read again in every pass: sums over the rows of a shard, a chunk in memory at a time.

A shard of this kind holds the labels and penalties of its rows, at most 9 bytes each, and loads the rows
for each pass: that needs the memory of a chunk for each thread. Chunks of a Dask array are at the worker
already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.distributed.kernel_sums import stacked
from qpsvm.distributed.passes.sums import (
    LossSums,
    OrderedSum,
    blocks,
    loss_sums,
    loss_values,
    plus,
    rows_of_dense_block,
)
from qpsvm.gram.storage.chunked import ChunkedPoints
from qpsvm.gram.translation import square_distances
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.products import squared_norms
from qpsvm.solvers.working_set.decomposition import smallest

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

ROWS_OF_FIRST_CENTER = 1024
"""Maximum number of rows of a shard whose mean is its first center of a ball."""

MAX_SAMPLE_ENTRIES = 1 << 26
"""Maximum number of entries of the sample of dense rows: 512 MB in float64."""


class Offered(NamedTuple):
    """The farthest rows of a shard from a center."""

    squares: Vector  # squared distances, in descending order
    local: Indices  # their indices in the shard
    rows: Any  # the rows, as they are stored


class Summary(NamedTuple):
    """The answer of a shard to the first pass."""

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
    version: int = 0  # number of changes of its state, by which a rebuilt shard is recognized

    def __post_init__(self) -> None:
        """Check rows that are in memory once; others are checked whenever they are loaded."""
        self.checked = [False] * len(self.chunks)  # whether `loaded` has rows as they are read
        for k, rows in enumerate(self.loaded or []):
            found = self.points.rows(self.chunks[k], rows)
            new, old = (X.data if sp.issparse(X) else np.asarray(X) for X in (found, rows))
            # Rows that are converted are so in every pass: copies would be held beside them.
            self.checked[k] = np.may_share_memory(new, old)
            self.loaded[k] = found if self.checked[k] else rows

    @property
    def n(self) -> int:
        """Number of its rows."""
        return int(sum(self.points.sizes[c] for c in self.chunks))

    def _rows_of(self, k: int) -> Any:
        """Return the rows of a chunk by its position in the shard."""
        rows = None if self.loaded is None else self.loaded[k]
        return rows if self.checked[k] else self.points.rows(self.chunks[k], rows)

    def _over_chunks(self, function: Callable[..., Any], numbered: bool = False) -> list[Any]:
        """Return the values of a function of (slice in the shard, rows) of each chunk, in order.

        With `numbered` the number of the chunk comes first.
        """
        sizes = [self.points.sizes[c] for c in self.chunks]
        ends = np.cumsum(sizes).tolist()
        found: list[Any] = [None] * len(sizes)

        def of_chunk(k: int) -> None:
            rows = self._rows_of(k)
            at = slice(ends[k] - sizes[k], ends[k])
            found[k] = function(k, at, rows) if numbered else function(at, rows)

        parallel_for(of_chunk, list(range(len(sizes))))
        return found

    def _added_over_chunks(
        self, function: Callable[[slice, Any], Any], add: Callable[[Any, Any], Any]
    ) -> Any:
        """Return the sum of the values of a function of each chunk, added in their order."""
        total = OrderedSum(add)

        def of_chunk(k: int, at: slice, X: Any) -> None:
            total.put(k, function(at, X))

        self._over_chunks(of_chunk, numbered=True)
        return total.total

    def _over_blocks(
        self, function: Callable[[slice, Any], Any], add: Callable[[Any, Any], Any]
    ) -> Any:
        """Return the sum of the values of a function of blocks of rows, added in their order."""

        def of_chunk(at: slice, X: Any) -> Any:
            def of_block(some: slice, Z: Any) -> Any:
                return function(slice(at.start + some.start, at.start + some.stop), Z)

            return reduce(add, starmap(of_block, self._moved_blocks(X, True)))

        return self._added_over_chunks(of_chunk, add)

    def summary(self, step: int) -> Summary:
        """Return the sum of the rows, and every `step`-th of them; of wide dense rows fewer."""
        dense_step = -(-self.points.shape[0] * self.points.n_features // MAX_SAMPLE_ENTRIES)

        def of_chunk(at: slice, X: Any) -> tuple[Vector, Any, Indices]:
            every = step if sp.issparse(X) else max(step, dense_step)
            places = np.arange(-(-at.start // every) * every, at.stop, every)
            total = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
            return total, X[places - at.start], places

        totals, samples, places = zip(*self._over_chunks(of_chunk), strict=True)
        stack = sp.vstack if sp.issparse(samples[0]) else np.concatenate
        return Summary(self.n, np.sum(totals, axis=0), stack(samples), np.concatenate(places))

    def start(self, y: Any, C: Any, origin: Vector | None) -> None:
        """Take labels and penalties, each a number or of shape (n,), and the origin of the rows."""
        self.y = np.broadcast_to(y, (self.n,))
        self.C = np.broadcast_to(np.asarray(C, np.float64), (self.n,))
        # A row of the origin for each row of a block: numpy subtracts whole blocks several times as fast.
        self.origins = (
            None if origin is None else np.tile(origin, (rows_of_dense_block(len(origin)), 1))
        )

    def loss(
        self, w: Vector, b: float, mu: float, max_slope: float, with_hessian: bool
    ) -> LossSums:
        """Return the sums at a hyperplane on the moved rows."""
        at_point = w, b, mu, max_slope

        def of_chunk(at: slice, X: Any) -> LossSums:
            y, C = self.y[at], self.C[at]

            def of_block(some: slice, Z: Any) -> LossSums:
                return loss_sums(Z, y[some], C[some], at_point, with_hessian)

            return reduce(plus, starmap(of_block, self._moved_blocks(X, with_hessian)))

        return self._added_over_chunks(of_chunk, plus)

    def along(
        self,
        w: Vector,
        b: float,
        mu: float,
        max_slope: float,
        dw: Vector,
        db: float,
        lengths: Vector,
    ) -> Vector:
        """Return the losses at w + t dw, b + t db for each length t."""

        def of_chunk(at: slice, X: Any) -> Vector:
            y, C, total = self.y[at], self.C[at], np.zeros(len(lengths))
            for some, Z in self._moved_blocks(X, False):
                q = 1.0 - y[some] * (np.asarray(Z @ w) + b)
                change = y[some] * (np.asarray(Z @ dw) + db)
                for k, t in enumerate(lengths):
                    total[k] += float(C[some] @ loss_values(q - t * change, mu, max_slope))
            return total

        return np.asarray(self._added_over_chunks(of_chunk, np.add))

    def weights(self, w: Vector, b: float, mu: float, max_slope: float, scales: Vector) -> Vector:
        """Return C_i u_i times the scale of its class, shape (n,)."""

        def of_chunk(at: slice, X: Any) -> Vector:
            y, out = self.y[at], np.empty(X.shape[0])
            for some, Z in self._moved_blocks(X, False):
                q = 1.0 - y[some] * (np.asarray(Z @ w) + b)
                out[some] = np.clip(q / mu, 0.0, max_slope)
            return out * self.C[at] * np.where(y > 0, scales[0], scales[1])

        return np.concatenate(self._over_chunks(of_chunk))

    def farthest(self, center: Vector | None, count: int) -> Offered:
        """Return the rows that are farthest from a point, at most `count`.

        The point is in the coordinates of the stored rows. Without one it is the mean of the first rows.
        """
        if center is None:
            first = self._rows_of(0)[:ROWS_OF_FIRST_CENTER]
            center = np.asarray(first.mean(axis=0, dtype=np.float64)).ravel()

        def of_chunk(at: slice, X: Any) -> Offered:
            if sp.issparse(X):
                squares = squared_norms(X.astype(np.float64, copy=False))
                squares += float(center @ center) - 2.0 * np.asarray(X @ center)
            else:
                squares = square_distances(X, center)
            most = smallest(-squares, np.ones(len(squares), bool), len(squares), count)
            return Offered(squares[most], at.start + most, X[most])

        parts = self._over_chunks(of_chunk)
        squares, local = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        order = np.argsort(-squares, kind="stable")[:count]
        return Offered(squares[order], local[order], stacked(*[part.rows for part in parts])[order])

    def _moved_blocks(self, X: Any, is_dense: bool) -> Iterator[tuple[slice, Any]]:
        """Yield slices of rows that fit the cache, and these rows less the origin in float64.

        The moved rows of all slices have the same memory. CSR rows are not moved.
        """
        if self.origins is None or sp.issparse(X):
            for some in blocks(X, is_dense):
                yield some, X[some].astype(np.float64, copy=False)
            return
        moved = np.empty_like(self.origins)
        for some in blocks(X, is_dense):
            n = some.stop - some.start
            yield some, np.subtract(X[some], self.origins[:n], out=moved[:n])
