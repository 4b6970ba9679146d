"""Parallel loops over chunks, scratch memory per thread, and limits on the threads of BLAS."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.clock import Expired, active_clock
from qpsvm.numerics.forks import after_fork_in_child
from qpsvm.resources import processors


def parallel_for(task: Callable[[Any], None], chunks: list[Any], *, with_blas: bool = True) -> None:
    """Call ``task(chunk)`` for every chunk, on as many threads as BLAS and the process may use.

    During the loop each BLAS product is single-threaded. Threads of BLAS and of compiled code that
    alternate would wait for each other in busy loops, which costs more than the work itself where
    blocks fit the cache. Tasks must write to disjoint memory.

    Parameters
    ----------
    task : callable
        Must spend its time in BLAS or in compiled code without the interpreter lock.
    chunks : list
        In the order in which they are started, which does not depend on the number of threads.
    with_blas : bool
        Whether a task may call BLAS, which is then restricted: that takes longer than a short task.

    Raises
    ------
    Expired
        If a limit is met between two chunks and the work may be abandoned: see `qpsvm.clock`.
    """
    if not with_blas:
        _run_chunks(task, chunks, _blas_threads())
        return
    with single_threaded_blas() as n:
        _run_chunks(task, chunks, n)


def serial_for(task: Callable[[Any], None], chunks: Sequence[Any]) -> None:
    """Call ``task(chunk)`` for every chunk in this thread; limits are as in `parallel_for`."""
    _run_chunks(task, chunks, 1)


def _run_chunks(task: Callable[[Any], None], chunks: Sequence[Any], n: int) -> None:
    """Call the task for every chunk on at most n threads, unless a limit is met before it."""
    queue, clock = iter(chunks), active_clock.get()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for chunk in queue:
                if failures:
                    return
                if clock is not None and clock.expired:
                    raise Expired
                task(chunk)
        except BaseException as failure:  # raised again by the caller
            failures.append(failure)

    n_threads = min(n, processors(), len(chunks))
    others = [
        _Helper.acquire().begin(partial(copy_context().run, work)) for _ in range(n_threads - 1)
    ]
    work()
    for finished in others:
        finished.acquire()
    if failures:
        raise failures.pop(0)  # no cycle of its traceback and this list keeps arrays


class _Helper(threading.Thread):
    """A thread that is reused between calls of `parallel_for`: starting one takes 0.1 ms."""

    idle: ClassVar[deque[_Helper]] = deque()

    @classmethod
    def acquire(cls) -> _Helper:
        """Return an idle helper, started if there is none."""
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
        """Begin work, which must not raise; return a lock that is released when it is finished."""
        finished = threading.Lock()
        finished.acquire()
        self._work.put((work, finished))
        return finished

    def run(self) -> None:
        """Work until the process ends."""
        while True:
            work, finished = self._work.get()
            work()
            del work  # it references the arrays of a solve
            self.idle.append(self)
            finished.release()


after_fork_in_child(_Helper.idle.clear)


def alternating_starts(length: int, size: int) -> list[int]:
    """Return the starts of the chunks of a long range, alternating between its two halves.

    Threads then do not wait for each other at the first touch of memory.
    """
    starts = list(range(0, length, size))
    half = -(-len(starts) // 2)
    turns = [start for pair in zip(starts, starts[half:], strict=False) for start in pair]
    return turns + starts[len(turns) // 2 : half]


class BufferPool:
    """Memory that threads use again, since new pages cost time.

    Parameters
    ----------
    max_bytes : float
        Size of a buffer from which it is not kept.
    max_spare : float
        Number of buffers that are kept for further use.
    """

    def __init__(self, max_bytes: float = float("inf"), max_spare: float = float("inf")) -> None:
        self._max_bytes, self._max_spare = max_bytes, max_spare
        self._spare: list[NDArray[np.uint8]] = []

    @contextmanager
    def array(self, entries: int, dtype: Any) -> Iterator[NDArray[Any]]:
        """Yield an array for one thread."""
        n_bytes = entries * np.dtype(dtype).itemsize
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        if len(memory) < n_bytes:
            memory = np.empty(max(n_bytes, MIN_BUFFER_BYTES), np.uint8)
        try:
            yield memory[:n_bytes].view(dtype)
        finally:
            if len(memory) <= self._max_bytes and len(self._spare) < self._max_spare:
                self._spare.append(memory)


MIN_BUFFER_BYTES = 1 << 21
"""Minimum size of a new buffer."""

scratch = BufferPool(max_bytes=1 << 22, max_spare=4).array
"""``scratch(entries, dtype)`` yields an array of memory that the process keeps: at most four of 4 MB."""


@contextmanager
def single_threaded_blas(lapack: bool = True, products: bool = True) -> Iterator[int]:
    """Restrict scipy's OpenBLAS, numpy's, or both to one thread until the last caller exits.

    For small matrices two threads wait for each other longer than they work, above all where other
    processes use the processors. Yields the largest number of threads before the restriction.
    """
    pools = [
        pool
        for pool in (_pools() if lapack or products else ())
        if (products if "numpy" in pool.filepath else lapack)
    ]
    before = max([_restrict(pool) for pool in pools], default=1)
    try:
        yield before
    finally:
        for pool in pools:
            _restore(pool)


_callers_by_pool: dict[
    str, tuple[list[int], int]
] = {}  # threads that restrict a pool, once for each call; the pool's threads before
_pool_lock = threading.Lock()


def _blas_threads() -> int:
    """Return the largest number of threads of a BLAS library, were it not restricted."""
    with _pool_lock:
        threads = [
            _callers_by_pool[pool.filepath][1]
            if pool.filepath in _callers_by_pool
            else pool.num_threads
            for pool in _pools()
        ]
    return max(threads, default=1)


def _restrict(pool: Any) -> int:
    with _pool_lock:
        callers, before = _callers_by_pool.setdefault(pool.filepath, ([], pool.num_threads))
        callers.append(threading.get_ident())
        if len(callers) == 1 and before > 1:
            pool.set_num_threads(1)
    return int(before)


def _restore(pool: Any) -> None:
    with _pool_lock:
        callers, before = _callers_by_pool[pool.filepath]
        callers.remove(threading.get_ident())
        _end_restriction(pool, callers, before)


def _end_restriction(pool: Any, callers: list[int], before: int) -> None:
    """Give a pool its threads back where no caller restricts it."""
    if not callers:
        del _callers_by_pool[pool.filepath]
        if before > 1:
            pool.set_num_threads(before)


def _forget_other_threads() -> None:
    """End, in a forked process, the restrictions of the threads that it does not have."""
    global _pool_lock
    _pool_lock = threading.Lock()
    for pool in _pools() if _callers_by_pool else ():
        callers, before = _callers_by_pool.get(pool.filepath, ([], 0))
        callers[:] = [thread for thread in callers if thread == threading.get_ident()]
        if before:
            _end_restriction(pool, callers, before)


after_fork_in_child(_forget_other_threads)


@cache
def _pools() -> list[Any]:
    """Return the controllers of the loaded BLAS libraries; finding them takes milliseconds."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
