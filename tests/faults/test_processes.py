"""Processes: forked and spawned ones, and several that compile into one empty cache."""

from __future__ import annotations

import hashlib
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import qpsvm
from qpsvm.numerics import parallel
from qpsvm.numerics.intrinsics import IS_COMPILED
from tests.numerics.test_code_cache import RUN_SCRIPT, Installation

SECONDS_OF_HANG = 120.0
"""Seconds after which a child counts as one that hangs."""


def digest() -> str:
    """Return the bits of two solves."""
    X = np.random.default_rng(0).standard_normal((1600, 5))
    y = np.where(X[:, 0] > 0.1 * X[:, 1], 1.0, -1.0)
    K = qpsvm.RBF(X, 0.2)
    results = qpsvm.solve(qpsvm.HingeDual(K, y), tol=1e-4), qpsvm.solve(qpsvm.MEBDual(K), tol=1e-4)
    return hashlib.sha256(b"".join(result.x.tobytes() for result in results)).hexdigest()


def _send(connection: Any, work: Callable[[], Any]) -> None:
    connection.send(work())


def answer_of_child(method: str, work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a child process."""
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=_send, args=(theirs, work))
    child.start()
    try:
        assert ours.poll(SECONDS_OF_HANG), f"a child by {method} hangs"
        return ours.recv()
    finally:
        child.kill()
        child.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads, from Python 3.12
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_child_solves_as_its_parent_after_the_parent_has_solved(method):
    """The parent has threads of BLAS and helpers, which a fork does not have."""
    here = digest()
    assert answer_of_child(method, digest) == here
    assert digest() == here


# A fork while another thread is at work: the child has its locks, but not the thread.

needs_fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system"
)
a_fork_with_threads = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@contextmanager
def in_another_thread(work: Callable[[Callable[[], None]], None]) -> Iterator[None]:
    """Let a thread run `work`, which calls its argument and there waits until the block has ended."""
    reached, ended = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        ended.wait(SECONDS_OF_HANG)

    thread = threading.Thread(target=work, args=(wait,))
    thread.start()
    try:
        assert reached.wait(SECONDS_OF_HANG)
        yield
    finally:
        ended.set()
        thread.join()


def small_cached_problem() -> Any:
    X = np.random.default_rng(1).standard_normal((60, 3))
    return qpsvm.MEBDual(qpsvm.Cached(qpsvm.RBF(X, 0.5)))


@needs_fork
@a_fork_with_threads
def test_a_child_has_the_cached_kernel_that_another_thread_was_using():
    problem = small_cached_problem()
    alone = qpsvm.solve(small_cached_problem(), "mfw", tol=1e-6)

    def solving(wait):
        qpsvm.solve(problem, "mfw", tol=1e-6, callback=lambda progress: wait())

    def child():
        result = qpsvm.solve(problem, "mfw", tol=1e-6)
        return result.x.tobytes(), result.counters["columns"]

    with in_another_thread(solving):
        bits, n_columns = answer_of_child("fork", child)
    assert bits == alone.x.tobytes() and n_columns == alone.counters["columns"]


@needs_fork
@a_fork_with_threads
def test_a_child_keeps_the_columns_that_no_thread_was_using():
    problem = small_cached_problem()
    qpsvm.solve(problem, "mfw", tol=1e-6)
    work = lambda: qpsvm.solve(problem, "mfw", tol=1e-6).counters["columns"]  # noqa: E731
    assert answer_of_child("fork", work) == 0


@needs_fork
@a_fork_with_threads
def test_a_child_computes_what_another_thread_was_computing():
    """Up to Python 3.11 a cached property has one lock for all objects."""

    class Waiting(qpsvm.Precomputed):
        wait = None

        def diag(self):
            if self.wait is not None:
                self.wait()
            return super().diag()

    waiting, plain = (qpsvm.MEBDual(Waiting(np.eye(3))).as_qp() for _ in range(2))

    def computing(wait):
        object.__setattr__(waiting.gram.kernel, "wait", wait)
        assert waiting.scale == 2.0

    with in_another_thread(computing):
        assert answer_of_child("fork", lambda: plain.scale) == 2.0


@needs_fork
@a_fork_with_threads
def test_a_child_has_no_restrictions_of_blas_by_other_threads():
    """The thread that would end them is not in the child."""

    def n_callers() -> list[int]:
        return [len(callers) for callers, _ in parallel._callers_by_pool.values()]

    def restricting(wait):
        with parallel.single_threaded_blas():
            wait()

    with in_another_thread(restricting):
        assert n_callers() and set(n_callers()) == {1}
        assert answer_of_child("fork", n_callers) == []
        with parallel.single_threaded_blas():  # the thread that forks keeps its own
            assert set(n_callers()) == {2}
            assert set(answer_of_child("fork", n_callers)) == {1}
    assert n_callers() == []


@needs_fork
@a_fork_with_threads
@pytest.mark.skipif(not IS_COMPILED, reason="nothing is compiled")
def test_a_fork_waits_for_a_thread_that_compiles():
    from numba.core.compiler_lock import global_compiler_lock

    def child():
        with global_compiler_lock:
            return "free"

    reached, go = threading.Event(), threading.Event()

    def holding():
        with global_compiler_lock:
            reached.set()
            go.wait(SECONDS_OF_HANG)

    thread = threading.Thread(target=holding)
    thread.start()
    reached.wait(SECONDS_OF_HANG)
    threading.Timer(0.2, go.set).start()
    assert answer_of_child("fork", child) == "free"
    thread.join()


def test_processes_that_compile_into_one_empty_cache(tmp_path):
    """All of them finish, what they leave is whole, and the next one compiles nothing."""
    installation = Installation(tmp_path)
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", RUN_SCRIPT],
            env=installation.environment(),
            cwd=installation.package.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in begun:
        said, logged = process.communicate(timeout=300)
        assert process.returncode == 0 and said.startswith("3.0 ") and not logged
    assert installation.run() == ("3.0 []", "")
