"""Shards at the workers of a Dask cluster: a call goes to the worker that holds the shard.

A call is sent to the worker itself, where the client can connect to it. Where the latest call of a
method took longer than many round trips of tasks, the next one is a task, which shows in the dashboard;
its round trip through the scheduler takes several times as long.

A worker keeps its shards outside of Dask's results, so that they are neither moved nor copied. A call
names the shard and the number of changes of its state. A worker without that state returns `NotHeld`.
The shard is then built again from its rows, and its state is recomputed from the weights.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from qpsvm.clock import Clock
from qpsvm.distributed.cluster.worker import (
    READING_METHODS,
    NotHeld,
    build_at_worker,
    build_directly,
    call_at_worker,
    call_directly,
    forget_at_worker,
)
from qpsvm.distributed.group import (
    ANSWER_SECONDS,
    Layout,
    ShardGroup,
    consecutive,
    deadline_of,
    n_bytes,
)
from qpsvm.errors import ClusterError
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.chunked import ChunkedPoints, DaskChunk

SECONDS_BETWEEN_POLLS = 0.25
"""Seconds between two checks for lost workers and for limits while a call waits for answers."""

DIRECT_SECONDS = 0.5
"""Maximum seconds of the latest call of a method at which the next one goes to the workers directly."""

SECONDS_TO_CONNECT = 3.0
"""Maximum seconds for connections of the client to all workers; if they take longer, calls are tasks."""

SECONDS_TO_RELEASE = 2.0
"""Maximum seconds in which workers release their shards at the end of a solve."""

SECONDS_TO_RESTART = 10.0
"""Seconds for which a solve without a worker waits until a nanny has started another one."""

MAX_INLINE_BYTES = 1 << 20
"""Maximum bytes of an array that is sent with the call; a larger one is scattered first."""

MAX_REBUILDS = 20
"""Maximum number of shards that a solve builds again; one more ends it by `ClusterError`."""

MAX_LOSSES_OF_SHARD = 3
"""Maximum number of losses of the same shard without an answer between them; one more ends the solve."""


def current_client() -> Any:
    """Return the Dask client of this process, or None."""
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    return client if client.status == "running" else None


@dataclass
class ClusterShards(ShardGroup):
    """Shards at workers."""

    client: Any = None
    workers: list[str] = field(default_factory=list)  # address of the worker of each shard
    tokens: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    connects: bool = False  # whether the client can connect to the workers
    seconds: dict[str, float] = field(default_factory=dict)  # of the latest call of each method
    losses: Counter[int] = field(default_factory=Counter)  # of each shard since its latest answer

    @classmethod
    def of(
        cls,
        client: Any,
        kernel: PointGram,
        points: ChunkedPoints,
        clock: Clock,
        in_passes: bool = False,
    ) -> Self:
        """Place the shards where their rows are, or evenly, and load them there.

        Raises
        ------
        ClusterError
            If there is no worker, or the rows cannot be loaded by the workers that there are.
        """
        workers = _addresses(client)
        if not workers:
            raise ClusterError("the Dask cluster has no worker; start one or close the client")
        chunks = consecutive(points.sizes, len(workers))
        homes = _homes(client, points, clock)
        if homes is not None:
            found = [tuple(c for c, at in enumerate(homes) if at == name) for name in workers]
            workers = [name for name, own in zip(workers, found, strict=True) if own]
            chunks = tuple(own for own in found if own)
        names = [f"qpsvm-{uuid.uuid4().hex}" for _ in chunks]
        layout, workers = Layout(points, chunks), workers[: len(chunks)]
        placed: dict[str, Any] = {"workers": workers, "tokens": names, "versions": [0] * len(names)}
        group = cls(kernel, layout, in_passes, clock=clock, client=client, **placed)
        group.connects = client.sync(group._connect)
        holds = homes is not None and group.connects
        try:
            group._build(group._build_of_held() if holds else list(range(group.n)))
        except BaseException:
            group.close()
            raise
        return group

    def _build_of_held(self) -> list[int]:
        """Build shards of chunks that their workers hold; return those that could not be built."""
        known, chunks = self._without_chunks(), self.layout.points.chunks
        arguments = [
            (token, self.kernel, self.in_passes, known, own, [chunks[c].delayed.key for c in own])
            for token, own in zip(self.tokens, self.layout.chunks, strict=True)
        ]
        answers = self.client.sync(self._direct_answers, build_directly, arguments)
        return [k for k, answer in enumerate(answers) if isinstance(answer, NotHeld)]

    def _without_chunks(self) -> ChunkedPoints:
        """Return the points without what loads their rows, which may be large."""
        points = self.layout.points
        return replace(points, chunks=(None,) * len(points.chunks), labels=None)

    def _build(self, shards: list[int]) -> None:
        """Load the rows of shards at their workers."""
        answers = self._answers(shards, [self._load(k) for k in shards])
        for k, answer in zip(shards, answers, strict=True):
            self.versions[k] = 0
            if isinstance(answer, NotHeld):
                self._rebuild(k)

    def _load(self, k: int) -> Any:
        """Submit the task that loads the rows of a shard at its worker.

        No future of the rows is kept: while the client holds one, the scheduler remembers where the task
        may run, and does not run it if that worker is lost and no other one is there at that moment.
        """
        points, own, at = self.layout.points, self.layout.chunks[k], {"workers": [self.workers[k]]}
        known = self._without_chunks()
        if isinstance(points.chunks[own[0]], DaskChunk):
            delayed = [points.chunks[c].delayed for c in own]
            rows = self.client.compute(delayed, allow_other_workers=True, **at)
        else:
            some = [points.chunks[c] if c in own else None for c in range(len(points.chunks))]
            known, rows = replace(known, chunks=tuple(some)), []
        arguments = self.tokens[k], self.kernel, self.in_passes, known, own, *rows
        key = f"qpsvm-load-{uuid.uuid4().hex}"
        return self.client.submit(build_at_worker, *arguments, key=key, pure=False, **at)

    def _call(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        check_connected(self.client)
        begun = time.perf_counter()
        if self.connects and self.seconds.get(method, 0.0) <= DIRECT_SECONDS:
            at = zip(self.tokens, self.versions, arguments, strict=True)
            asked = [(token, version, method, own) for token, version, own in at]
            answers = self.client.sync(self._direct_answers, call_directly, asked)
        else:
            arguments = self._scattered(arguments)
            futures = [self._submit(k, method, own) for k, own in enumerate(arguments)]
            answers = self._answers(list(range(self.n)), futures)
        self.seconds[method] = time.perf_counter() - begun
        return [self._ensured(k, method, arguments[k], answer) for k, answer in enumerate(answers)]

    def _call_one(self, k: int, method: str, arguments: tuple[Any, ...]) -> Any:
        answer = self._answers([k], [self._submit(k, method, arguments)])[0]
        return self._ensured(k, method, arguments, answer)

    async def _connect(self) -> bool:
        """Return whether the client can connect to all workers."""
        greetings = [self.client.rpc(at).identity() for at in self.workers]
        try:
            await asyncio.wait_for(asyncio.gather(*greetings), SECONDS_TO_CONNECT)
        except (OSError, TimeoutError):
            return False
        return True

    async def _direct_answers(
        self, function: Callable[..., Any], arguments: list[tuple[Any, ...]]
    ) -> list[Any]:
        """Return the answers of the workers themselves; `NotHeld` stands for that of a lost one."""
        from distributed.protocol.pickle import dumps

        run: dict[str, Any] = {"function": dumps(function), "wait": True}

        async def ask(k: int) -> Any:
            try:
                return await self.client.rpc(self.workers[k]).run(args=dumps(arguments[k]), **run)
            except (OSError, asyncio.CancelledError):
                return {"result": NotHeld()}

        asked = [asyncio.create_task(ask(k)) for k in range(self.n)]
        try:
            while (await asyncio.wait(asked, timeout=SECONDS_BETWEEN_POLLS))[1]:
                alive = (await self.client.scheduler.identity(n_workers=-1))["workers"]
                for k, one in enumerate(asked):
                    if self.workers[k] not in alive:
                        one.cancel()
                check_in_time(self.deadline)
        except OSError as problem:
            raise ClusterError(f"the connection to the Dask cluster was lost: {problem}") from None
        finally:
            for one in asked:
                one.cancel()
        return [_result_of(one.result()) for one in asked]

    def _ensured(self, k: int, method: str, arguments: tuple[Any, ...], answer: Any) -> Any:
        """Return the answer, after the shard was built again where it was lost."""
        while isinstance(answer, NotHeld):
            self._rebuild(k)
            answer = self._answers([k], [self._submit(k, method, arguments)])[0]
        self.versions[k] += method not in READING_METHODS
        self.losses[k] = 0
        return answer

    def _submit(self, k: int, method: str, arguments: tuple[Any, ...]) -> Any:
        check_connected(self.client)
        at = self.tokens[k], self.versions[k], method, *arguments
        key = f"qpsvm-{method}-{uuid.uuid4().hex}"
        return self.client.submit(
            call_at_worker, *at, key=key, pure=False, workers=[self.workers[k]]
        )

    def _scattered(self, arguments: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return arguments whose large common arrays were sent to all workers once."""
        sent: dict[int, Any] = {}
        for value in arguments[0]:
            shared = all(any(value is other for other in own) for own in arguments)
            if shared and isinstance(value, np.ndarray) and n_bytes(value) > MAX_INLINE_BYTES:
                sent[id(value)] = self.client.scatter(
                    value, broadcast=True, hash=False, workers=sorted(set(self.workers))
                )
        return [tuple(sent.get(id(value), value) for value in own) for own in arguments]

    def _answers(self, shards: list[int], futures: list[Any]) -> list[Any]:
        """Wait for the answers; `NotHeld` stands for that of a worker that was lost."""
        from distributed import CancelledError, KilledWorker, wait
        from distributed.comm.core import CommClosedError

        answers: dict[int, Any] = {}
        try:
            while len(answers) < len(shards):
                waiting = {k: f for k, f in zip(shards, futures, strict=True) if k not in answers}
                try:
                    wait(list(waiting.values()), timeout=SECONDS_BETWEEN_POLLS)
                    for k, future in waiting.items():
                        try:
                            answers[k] = future.result(timeout=ANSWER_SECONDS)
                        except KilledWorker:
                            answers[k] = NotHeld()
                except TimeoutError:
                    alive = set(_addresses(self.client))
                    lost = [k for k in waiting if self.workers[k] not in alive]
                    answers |= dict.fromkeys(lost, NotHeld())
                    check_in_time(self.deadline)
            return [answers[k] for k in shards]
        except (CancelledError, CommClosedError, OSError) as problem:
            raise ClusterError(f"the connection to the Dask cluster was lost: {problem}") from None
        finally:
            for future in futures:
                future.release()

    def _rebuild(self, k: int) -> None:
        """Build a shard again at a living worker, and bring it to its state."""
        self.n_rebuilt += 1
        self.losses[k] += 1
        if self.losses[k] > MAX_LOSSES_OF_SHARD:
            raise ClusterError(
                f"{self.losses[k]} workers of the Dask cluster were lost in turn with the same "
                f"{len(self.layout.rows(k)):,} rows: they may not fit the memory of a worker"
            )
        alive = _addresses(self.client)
        waited = time.perf_counter()
        while not alive and time.perf_counter() - waited < SECONDS_TO_RESTART:
            time.sleep(SECONDS_BETWEEN_POLLS)
            alive = _addresses(self.client)
        if self.n_rebuilt > MAX_REBUILDS or not alive:
            raise ClusterError(
                f"{self.n_rebuilt} workers of the Dask cluster were lost; too many to go on"
            )
        free = [name for name in alive if name not in self.workers]
        counts = [self.workers.count(name) for name in alive]
        self.workers[k] = free[0] if free else alive[int(np.argmin(counts))]
        self.tokens[k] = f"qpsvm-{uuid.uuid4().hex}"
        self._build([k])
        if self.restore is not None:
            self.restore(k)

    def close(self) -> None:
        """Release the shards at living workers."""

        async def release() -> None:
            at = sorted(set(self.workers) & alive)
            await self.client.run(forget_at_worker, self.tokens, workers=at, on_error="ignore")

        try:
            alive = set(_addresses(self.client))
            self.client.sync(release, callback_timeout=SECONDS_TO_RELEASE)
        except Exception:
            return  # a worker that is not reached keeps its shards until its process ends


def check_connected(client: Any) -> None:
    """Raise ClusterError where a client is closed or has lost its scheduler."""
    if client.status != "running":
        raise ClusterError(
            f"the connection to the Dask cluster was lost: its client is {client.status}"
        )


def check_in_time(deadline: float) -> None:
    """Raise ClusterError where answers are not waited for any longer."""
    if time.perf_counter() > deadline:
        raise ClusterError(
            f"workers did not answer within {ANSWER_SECONDS:g} s of the time limit or of Ctrl-C"
        )


def _result_of(answer: dict[str, Any]) -> Any:
    """Return the result in the answer of a worker, or raise the exception that it is."""
    from distributed.core import clean_exception

    if "exception" in answer:
        _, failure, traceback = clean_exception(**answer)
        assert failure is not None
        raise failure.with_traceback(traceback)
    return answer["result"]


def _addresses(client: Any) -> list[str]:
    """Return the addresses of the living workers, sorted."""
    check_connected(client)
    try:
        return sorted(client.scheduler_info(n_workers=-1)["workers"])
    except (OSError, TimeoutError) as problem:
        raise ClusterError(f"the connection to the Dask cluster was lost: {problem}") from None


def _homes(client: Any, points: ChunkedPoints, clock: Clock) -> list[str] | None:
    """Return the worker of each chunk of an array that the cluster holds or computes; else None."""
    from distributed import Future, wait

    if not all(isinstance(chunk, DaskChunk) for chunk in points.chunks):
        return None
    futures = getattr(client, "futures", {})
    keys = [chunk.delayed.key for chunk in points.chunks]
    if not all(key in futures for key in keys):
        return None
    futures = [Future(key, client) for key in keys]
    while True:
        try:
            wait(futures, timeout=SECONDS_BETWEEN_POLLS)
            break
        except TimeoutError:
            check_in_time(deadline_of(clock))
    held = client.who_has()
    places = [held.get(key) or held.get(str(key)) for key in keys]
    return [sorted(at)[0] for at in places] if all(places) else None
