"""Tasks side by side: every chunk once, failures raised, helpers used again."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from qpsvm import RBF, InputError, threads
from qpsvm.clock import Clock, Expired
from qpsvm.gram.engine import single_column as single
from qpsvm.gram.kernels import rbf
from qpsvm.numerics import parallel


@pytest.fixture
def two(monkeypatch):
    """As if BLAS might use two threads."""

    class Pool:
        num_threads, filepath = 2, "numpy"

        def set_num_threads(self, n):
            pass

    monkeypatch.setattr(parallel, "_pools", lambda: [Pool()])
    monkeypatch.setattr(parallel, "processors", lambda: 2)


def test_every_piece_once(two):
    done, gate = [], threading.Barrier(2, timeout=30)

    def task(chunk):
        if chunk < 2:
            gate.wait()  # passed by two threads only
        done.append(chunk)

    parallel.parallel_for(task, list(range(50)))
    assert sorted(done) == list(range(50))


def test_helpers_are_used_again(two):
    def names():
        found, gate = [], threading.Barrier(2, timeout=30)

        def task(chunk):
            found.append(threading.current_thread())
            gate.wait()

        parallel.parallel_for(task, [0, 1])
        return set(found) - {threading.current_thread()}

    first = names()
    assert len(first) == 1
    assert names() == first


def test_a_failure_of_a_helper_is_raised(two):
    gate, caller = threading.Barrier(2, timeout=30), threading.current_thread()

    def task(chunk):
        gate.wait()
        if threading.current_thread() is not caller:
            raise ValueError("no")

    for _ in range(2):  # the helper goes on
        with pytest.raises(ValueError, match="no"):
            parallel.parallel_for(task, [0, 1])


def test_callers_side_by_side(two):
    sums = np.zeros((4, 100))

    def caller(k):
        for _ in range(20):
            parallel.parallel_for(lambda chunk: sums[k].__setitem__(chunk, chunk), list(range(100)))

    callers = [threading.Thread(target=caller, args=(k,)) for k in range(4)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    assert np.all(sums == np.arange(100))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_helpers_of_its_own(two):
    parallel.parallel_for(lambda chunk: None, [0, 1])
    child = os.fork()
    if child == 0:
        done = []
        parallel.parallel_for(done.append, [0, 1, 2])
        os._exit(0 if sorted(done) == [0, 1, 2] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 9])
def test_apart(n):
    starts = parallel.alternating_starts(10 * n, 10)
    assert sorted(starts) == list(range(0, 10 * n, 10))
    half = 10 * (-(-n // 2))
    assert all((a < half) != (b < half) for a, b in zip(starts[::2], starts[1::2], strict=False))


@pytest.mark.parametrize("d", [1, 3, 4, 10, 16, 17, 100])
def test_long_columns(d, monkeypatch, rng):
    X = (3.0 + rng.standard_normal((3000, d))).astype(np.float32)
    gamma = 1.0 / d
    plain = RBF(X, gamma)
    assert plain._points.flags.c_contiguous
    monkeypatch.setattr(rbf, "MIN_POINTS_BY_FEATURES", 1000)
    monkeypatch.setattr(single, "CHUNK_POINTS", 700)
    gram = RBF(X, gamma)
    assert gram._points.flags.f_contiguous == (d <= rbf.MAX_FEATURES_BY_FEATURES)
    exact = np.exp(-gamma * np.sum((X[7].astype(float) - X.astype(float)) ** 2, axis=1))
    for columns in (np.array([7]), np.array([7, 8, 9])):
        out = np.empty((5, 3000), np.float32)
        gram.fill(columns, out, 4 - np.arange(len(columns)))
        assert np.all(np.abs(out[4] - exact) <= gram.column_error)
    some = np.array([5, 2, 2999])
    np.testing.assert_allclose(gram.block(some, some), plain.block(some, some), atol=1e-6)
    with threads.limit(1):
        again = np.empty((1, 3000), np.float32)
        gram.fill(np.array([7]), again, np.array([0]))
    gram.fill(np.array([7]), out, np.array([0]))
    assert out[0].tobytes() == again[0].tobytes()


def test_float64_points_narrowed_lie_feature_by_feature(monkeypatch, rng):
    monkeypatch.setattr(rbf, "MIN_POINTS_BY_FEATURES", 1000)
    gram = RBF(1.0 + rng.standard_normal((2000, 6)), 0.2)
    narrow = gram.low_precision()
    assert narrow.dtype == np.float32
    assert narrow._points.flags.f_contiguous
    out = np.empty((1, 2000), np.float32)
    narrow.fill(np.array([11]), out, np.array([0]))
    exact = gram.block(np.array([11]))[0]
    assert np.all(np.abs(out[0] - exact) <= narrow.column_error)


def test_thread_limit_holds_inside_the_block_only():
    before = threads.describe()
    with threads.limit(1):
        inside = threads.describe()
    assert before.keys() == inside.keys() == threads.describe().keys()
    assert all(line.startswith("1 threads") for line in inside.values())
    assert threads.describe() == before
    with pytest.raises(InputError, match="n must be"), threads.limit(0):
        pass


def test_tasks_side_by_side_are_all_done_and_leave_blas_as_it_was():
    before, done = threads.describe(), []
    parallel.parallel_for(done.append, list(range(20)))
    assert sorted(done) == list(range(20))
    with parallel.single_threaded_blas():
        parallel.parallel_for(done.append, [1])
        assert all("1 threads" in v for k, v in threads.describe().items() if k != "numba")
    assert threads.describe() == before

    def fail(chunk):
        raise ValueError(f"chunk {chunk}")

    with pytest.raises(ValueError, match="chunk"):
        parallel.parallel_for(fail, [1, 2, 3])
    assert threads.describe() == before


def test_tasks_without_blas_leave_it_alone_and_take_as_many_threads(monkeypatch):
    """Also within a restriction, whose number of threads says nothing about theirs."""

    class Pool:
        num_threads, filepath = 2, "numpy"
        settings = ()

        def set_num_threads(self, n):
            self.num_threads = n
            self.settings += (n,)

    pool = Pool()
    monkeypatch.setattr(parallel, "_pools", lambda: [pool])
    monkeypatch.setattr(parallel, "processors", lambda: 2)

    def run():
        gate = threading.Barrier(2, timeout=30)  # passed by two threads only
        parallel.parallel_for(lambda chunk: gate.wait(), [0, 1], with_blas=False)

    run()
    assert pool.settings == ()
    with parallel.single_threaded_blas():
        run()
        assert pool.settings == (1,)
    assert pool.settings == (1, 2)
    parallel.parallel_for(lambda chunk: None, [0, 1])
    assert pool.settings == (1, 2, 1, 2)


@pytest.mark.parametrize("loop", [parallel.serial_for, parallel.parallel_for])
@pytest.mark.parametrize("limit", ["time", "interrupt"])
def test_a_limit_that_is_met_in_a_task_ends_the_loop_before_the_next(loop, limit, monkeypatch):
    monkeypatch.setattr(parallel, "processors", lambda: 1)
    clock, done = Clock(), []

    def task(chunk):
        done.append((chunk, threading.current_thread()))
        if chunk == 2 and limit == "time":
            clock.end = 0.0
        elif chunk == 2:
            clock.interrupt.pressed_at = 0.0

    with clock.abandoning(), pytest.raises(Expired):
        loop(task, list(range(5)))
    assert done == [(chunk, threading.current_thread()) for chunk in range(3)]
    loop(task, list(range(5)))  # what is not abandoned is completed
    assert [chunk for chunk, _ in done] == [0, 1, 2, 0, 1, 2, 3, 4]
