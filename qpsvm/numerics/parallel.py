"""Tasks side by side, memory for each thread, and how many threads BLAS may use meanwhile."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.clock import poll
from qpsvm.resources import processors


def parallel_for(task: Callable[[Any], None], pieces: list[Any]) -> None:
    """Call ``task(piece)`` for every piece, on as many threads as BLAS and the process may use.

    Meanwhile each BLAS product keeps to the thread that calls it. Threads of BLAS and of compiled
    code that take turns wait for each other in busy loops, which costs more than the work itself
    where blocks are small enough for the cache. Tasks must write to places of their own.

    Parameters
    ----------
    task : callable
        Must spend its time in BLAS or in compiled code free of the interpreter lock.
    pieces : list
        The order in which they are begun; it does not depend on the number of threads.

    Raises
    ------
    Expired
        If a limit is met between two pieces and the work may be abandoned: see `qpsvm.clock`.
    """
    with single_threaded_blas() as n:
        if n == 1 or len(pieces) <= 1:
            for piece in pieces:
                poll()
                task(piece)
            return
        queue = iter(pieces)
        failures: list[BaseException] = []

        def work() -> None:
            try:
                for piece in queue:
                    if failures:
                        return
                    poll()
                    task(piece)
            except BaseException as failure:  # raised again by the caller
                failures.append(failure)

        n_threads = min(n, processors(), len(pieces))
        others = [
            _Helper.at_hand().begin(partial(copy_context().run, work)) for _ in range(n_threads - 1)
        ]
        work()
        for finished in others:
            finished.acquire()
        if failures:
            raise failures[0]


class _Helper(threading.Thread):
    """A thread that waits for work between two calls of `parallel_for`: to start one takes 0.1 ms."""

    idle: ClassVar[deque[_Helper]] = deque()

    @classmethod
    def at_hand(cls) -> _Helper:
        """Return a helper that has nothing to do."""
        try:
            return cls.idle.pop()
        except IndexError:
            helper = cls(name="qpsvm", daemon=True)
            helper.start()
            return helper

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._work: SimpleQueue[tuple[Callable[[], None], threading.Lock]] = SimpleQueue()

    def begin(self, work: Callable[[], None]) -> threading.Lock:
        """Begin work, which must not raise; return a lock that is free once it is finished."""
        finished = threading.Lock()
        finished.acquire()
        self._work.put((work, finished))
        return finished

    def run(self) -> None:
        """Work until the process ends."""
        while True:
            work, finished = self._work.get()
            work()
            del work  # it holds the arrays of a solve
            self.idle.append(self)
            finished.release()


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_Helper.idle.clear)


def alternating_starts(length: int, size: int) -> list[int]:
    """Return where pieces of a long range begin, by turns from its first and its second half.

    Threads that work side by side then do not wait for each other where memory is touched first.
    """
    starts = list(range(0, length, size))
    half = -(-len(starts) // 2)
    turns = [start for pair in zip(starts, starts[half:], strict=False) for start in pair]
    return turns + starts[len(turns) // 2 : half]


@contextmanager
def scratch(entries: int, dtype: Any) -> Iterator[NDArray[Any]]:
    """Lend an array to one thread; its memory is used again, since fresh pages cost time.

    At most four pieces of 4 MB are kept.
    """
    n_bytes = entries * np.dtype(dtype).itemsize
    try:
        memory = _spare.pop()
    except IndexError:
        memory = np.empty(0, np.uint8)
    if len(memory) < n_bytes:
        memory = np.empty(max(n_bytes, 1 << 21), np.uint8)
    try:
        yield memory[:n_bytes].view(dtype)
    finally:
        if len(memory) <= 1 << 22 and len(_spare) < 4:
            _spare.append(memory)


_spare: list[NDArray[np.uint8]] = []


@contextmanager
def single_threaded_blas(lapack: bool = True, products: bool = True) -> Iterator[int]:
    """Keep scipy's OpenBLAS, numpy's, or both to one thread until the last caller leaves.

    Where matrices are small, two threads wait for each other longer than they work, and most of all
    where other processes want the processors. Yields the largest number of threads there was before.
    """
    pools = [
        pool
        for pool in (_pools() if lapack or products else ())
        if (products if "numpy" in pool.filepath else lapack)
    ]
    before = max([_take(pool) for pool in pools], default=1)
    try:
        yield before
    finally:
        for pool in pools:
            _give_back(pool)


_held: dict[str, tuple[int, int]] = {}  # callers that keep a pool to one thread; its number before
_gate = threading.Lock()


def _take(pool: Any) -> int:
    with _gate:
        n, before = _held.get(pool.filepath) or (0, pool.num_threads)
        _held[pool.filepath] = n + 1, before
        if n == 0 and before > 1:
            pool.set_num_threads(1)
    return int(before)


def _give_back(pool: Any) -> None:
    with _gate:
        n, before = _held.pop(pool.filepath)
        if n > 1:
            _held[pool.filepath] = n - 1, before
        elif before > 1:
            pool.set_num_threads(before)


@cache
def _pools() -> list[Any]:
    """Return what controls the BLAS libraries at hand; to find them takes milliseconds."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
