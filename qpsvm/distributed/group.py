"""The shards of a solve, in this process one after the other or at the workers of a Dask cluster.

A call goes to every shard and returns the answers in the order of the shards. Sums over the same shards
then have the same bits, wherever they are computed by the same processors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.clock import Clock, undivided
from qpsvm.distributed.kernel_sums import PointsOfShard, stacked
from qpsvm.distributed.passes.projected.shard import pass_shard
from qpsvm.distributed.passes.shard import PassShard
from qpsvm.distributed.shard import Shard
from qpsvm.errors import ClusterError
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.chunked import ChunkedPoints

Indices = NDArray[np.int64]

ANSWER_SECONDS = 30.0
"""Seconds after the time limit or Ctrl-C in which workers must answer for the last certificate."""


def n_bytes(value: Any) -> int:
    """Return the bytes of the arrays and numbers in arguments or answers, as they are sent."""
    if sp.issparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if isinstance(value, np.ndarray):
        sides = zip(value.shape, value.strides, strict=True)
        full = int(np.prod([n for n, step in sides if step])) if value.size else 0
        return full * value.itemsize
    if isinstance(value, dict):
        return sum(map(n_bytes, value.values()))
    if isinstance(value, (tuple, list)):
        return sum(map(n_bytes, value))
    return 8 if isinstance(value, (int, float)) else 0


def deadline_of(clock: Clock) -> float:
    """Return the time.perf_counter() after which no answer is waited for."""
    return min(clock.end, clock.interrupt.pressed_at) + ANSWER_SECONDS


@dataclass(frozen=True)
class Layout:
    """Which chunks of rows each shard holds, in order."""

    points: ChunkedPoints
    chunks: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        """Compute for every chunk its shard, and the index of its first row there."""
        owner, offset = np.empty((2, len(self.points.chunks)), np.int64)
        for k, own in enumerate(self.chunks):
            n = 0
            for c in own:
                owner[c], offset[c] = k, n
                n += self.points.sizes[c]
        object.__setattr__(self, "_owner", owner)
        object.__setattr__(self, "_offset", offset)

    def rows(self, k: int) -> Indices:
        """Return the indices of all rows of a shard."""
        starts = self.points.starts
        return np.concatenate([np.arange(starts[c], starts[c + 1]) for c in self.chunks[k]])

    def index(self, k: int, local: Indices) -> Indices:
        """Return the indices among all rows of rows whose indices in the shard are `local`."""
        own, sizes = np.array(self.chunks[k]), np.array(self.points.sizes)
        ends = np.cumsum(sizes[own])
        at = np.searchsorted(ends, local, side="right")
        return self.points.starts[own[at]] + local - (ends[at] - sizes[own[at]])

    def split(self, rows: Indices) -> list[tuple[Indices, Indices]]:
        """Return, for each shard, the positions in `rows` that it holds and their indices there."""
        starts = self.points.starts
        chunk = np.searchsorted(starts, rows, side="right") - 1
        local = self._offset[chunk] + rows - starts[chunk]  # type: ignore[attr-defined]
        owner = self._owner[chunk]  # type: ignore[attr-defined]
        found = [np.flatnonzero(owner == k) for k in range(len(self.chunks))]
        return [(at, local[at]) for at in found]


def build(
    kernel: PointGram,
    in_passes: bool,
    points: ChunkedPoints,
    chunks: Any,
    loaded: Any = None,
) -> Shard | PassShard:
    """Return the shard of some chunks, which are loaded here unless they are given.

    With `in_passes` it reads its rows again in every pass instead.
    """
    if in_passes:
        return pass_shard(points, chunks, loaded)
    given = [None] * len(chunks) if loaded is None else loaded
    parts = [points.rows(c, rows) for c, rows in zip(chunks, given, strict=True)]
    X = parts[0] if len(parts) == 1 else stacked(*parts)
    return Shard(PointsOfShard(kernel, X))


@dataclass
class ShardGroup(ABC):
    """All shards of a solve: of points under a kernel, or of rows that are read again in every pass."""

    kernel: PointGram
    layout: Layout
    in_passes: bool = False
    n_sent: int = 0  # bytes sent to shards and back
    n_calls: int = 0  # round trips
    n_rebuilt: int = 0  # shards that were lost with their workers
    restore: Callable[[int], None] | None = None  # brings a shard that was rebuilt to its state
    clock: Clock = field(default_factory=Clock)  # of the solve
    loss: str = ""  # why the cluster cannot be reached any more

    @property
    def is_lost(self) -> bool:
        """Whether the cluster cannot be reached any more."""
        return bool(self.loss)

    @property
    def deadline(self) -> float:
        """time.perf_counter() after which no answer is waited for."""
        return deadline_of(self.clock)

    @property
    def n(self) -> int:
        """Number of shards."""
        return len(self.layout.chunks)

    @property
    def counters(self) -> dict[str, int]:
        """Bytes sent and received, round trips, shards, rebuilt shards; the client caches no column."""
        return {
            "columns": 0, "bytes": 0, "bytes_sent": self.n_sent, "calls": self.n_calls,
            "shards": self.n, "rebuilt": self.n_rebuilt,
        }  # fmt: skip

    def call(
        self, method: str, *common: Any, each: list[tuple[Any, ...]] | None = None
    ) -> list[Any]:
        """Return the answers of a method of every shard, with common arguments before its own.

        A limit does not divide a call: otherwise some shards would have what it sends, and others not.

        Raises
        ------
        ClusterError
            If the cluster cannot be reached, now or since an earlier call.
        """
        arguments = [common + own for own in each or [()] * self.n]
        with undivided():
            answers = self._reached(self._call, method, arguments)
        self.n_sent += sum(map(n_bytes, arguments)) + sum(map(n_bytes, answers))
        self.n_calls += 1
        return answers

    def call_one(self, k: int, method: str, *arguments: Any) -> Any:
        """Return the answer of one shard; raises as `call` does."""
        answer = self._reached(self._call_one, k, method, arguments)
        self.n_sent += n_bytes(arguments) + n_bytes(answer)
        return answer

    def _reached(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return the answer of a call; after a `ClusterError` no other call is tried."""
        if self.is_lost:
            raise ClusterError(self.loss)
        try:
            return call(*arguments)
        except ClusterError as error:
            self.loss = str(error)
            raise

    @abstractmethod
    def _call(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Return the answers of all shards, in order."""

    @abstractmethod
    def _call_one(self, k: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Return the answer of one shard."""

    @abstractmethod
    def close(self) -> None:
        """Release the shards."""


@dataclass
class ProcessShards(ShardGroup):
    """Shards in this process."""

    shards: list[Shard | PassShard] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Load the points."""
        points = self.layout.points
        self.shards = [
            build(self.kernel, self.in_passes, points, own) for own in self.layout.chunks
        ]

    def _call(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        return [self._call_one(k, method, own) for k, own in enumerate(arguments)]

    def _call_one(self, k: int, method: str, arguments: tuple[Any, ...]) -> Any:
        return getattr(self.shards[k], method)(*arguments)

    def close(self) -> None:
        """Release the shards."""
        self.shards = []


def consecutive(sizes: tuple[int, ...], n_shards: int) -> tuple[tuple[int, ...], ...]:
    """Return consecutive chunks for each shard, about equal numbers of rows, none empty."""
    n_shards = min(n_shards, len(sizes))
    middle = np.cumsum(sizes) - 0.5 * np.asarray(sizes)
    own = np.minimum(middle * n_shards / sum(sizes), n_shards - 1).astype(np.int64)
    found = [tuple(np.flatnonzero(own == k).tolist()) for k in range(n_shards)]
    return tuple(chunks for chunks in found if chunks)
