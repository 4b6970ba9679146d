"""What runs at a worker of a Dask cluster: shards, which it keeps from call to call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from qpsvm.distributed.group import build
from qpsvm.distributed.passes.shard import PassShard
from qpsvm.distributed.shard import Shard
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.chunked import ChunkedPoints
from qpsvm.threads import use_at_most

READING_METHODS = frozenset(
    "summary diagonal rows along gap below entries loss weights farthest interior_sums "
    "interior_predict interior_weights interior_range interior_counts interior_product "
    "projected_matrix projected_range projected_values projected_sums projected_hinges "
    "projected_bias_range projected_losses projected_weights".split()
)
"""Methods that leave the state of a shard as it is."""

LIVE_SHARDS: dict[str, Shard | PassShard] = {}
"""Shards that this process holds, by token."""


class NotHeld:
    """The answer of a worker that does not hold the state of a shard."""


def build_at_worker(
    token: str,
    kernel: PointGram,
    in_passes: bool,
    points: ChunkedPoints,
    chunks: Any,
    *loaded: Any,
) -> int:
    """Build a shard and keep it; return the number of its points."""
    LIVE_SHARDS[token] = build(kernel, in_passes, points, chunks, loaded or None)
    return LIVE_SHARDS[token].n


def build_of_held(
    worker: Any,
    token: str,
    kernel: PointGram,
    in_passes: bool,
    points: ChunkedPoints,
    chunks: Any,
    keys: list[Any],
) -> Any:
    """Build a shard of results that the worker holds; return the number of its points, or `NotHeld`."""
    try:
        rows = [worker.data[key] for key in keys]
    except KeyError:
        return NotHeld()
    use_at_most(worker.state.nthreads)
    return build_at_worker(token, kernel, in_passes, points, chunks, *rows)


async def build_directly(*arguments: Any, dask_worker: Any) -> Any:
    """Return the answer of `build_of_held`, in the thread that runs tasks."""
    return await in_thread_of_tasks(dask_worker, build_of_held, dask_worker, *arguments)


def call_at_worker(token: str, version: int, method: str, *arguments: Any) -> Any:
    """Return the answer of a shard that this process holds, as a task."""
    from distributed import get_worker

    return call_here(get_worker().state.nthreads, token, version, method, *arguments)


async def call_directly(
    token: str, version: int, method: str, arguments: tuple[Any, ...], dask_worker: Any
) -> Any:
    """Return the answer of a shard that this process holds, in the thread that runs tasks."""
    n_threads = dask_worker.state.nthreads
    return await in_thread_of_tasks(
        dask_worker, call_here, n_threads, token, version, method, *arguments
    )


async def in_thread_of_tasks(worker: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the value of a function, called in the thread that runs the tasks of a worker."""
    executor = worker.executors["default"]
    return await asyncio.get_running_loop().run_in_executor(executor, function, *arguments)


def call_here(n_threads: int, token: str, version: int, method: str, *arguments: Any) -> Any:
    """Return the answer of a shard that this process holds."""
    shard = LIVE_SHARDS.get(token)
    if shard is None or shard.version != version:
        return NotHeld()
    use_at_most(n_threads)
    answer = getattr(shard, method)(*arguments)
    shard.version += method not in READING_METHODS
    return answer


def forget_at_worker(tokens: list[str]) -> None:
    """Release shards."""
    for token in tokens:
        LIVE_SHARDS.pop(token, None)
