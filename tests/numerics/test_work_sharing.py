"""Sharing the passes of a step between threads changes no bit of its result."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qpsvm
from qpsvm import RBF, L2SVMDual, MEBDual, PolytopeDistanceDual
from qpsvm.numerics import work_sharing


def share(monkeypatch, n):
    """Let n threads share every pass, whatever the number of processors."""

    def parallel_for_n(task, chunks):
        with ThreadPoolExecutor(n) as pool:
            list(pool.map(task, chunks[:n]))

    monkeypatch.setattr(work_sharing, "MIN_POINTS_FOR_SHARING", 1)
    monkeypatch.setattr(work_sharing, "parallel_for", parallel_for_n)


@pytest.mark.parametrize("method", ["fw", "mfw", "pfw", "npa", "smo"])
@pytest.mark.parametrize("chi", [None, 10.0], ids=["hard", "soft"])
def test_the_same_bits_for_every_assignment_of_chunks(method, chi, rng, monkeypatch):
    m = 40_000 + 7  # three chunks, the last tile not full
    X = rng.standard_normal((m, 3))
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    problem = PolytopeDistanceDual(RBF(X, 0.1), y, chi)
    alone = qpsvm.solve(problem, method, tol=1e-12, max_iter=60)
    for n in (1, 2, 4):
        share(monkeypatch, n)
        shared = qpsvm.solve(problem, method, tol=1e-12, max_iter=60)
        assert shared.n_iter == alone.n_iter
        assert shared.x.tobytes() == alone.x.tobytes()


@pytest.mark.parametrize("method", ["mfw", "smo"])
def test_on_one_simplex_with_and_without_signs(method, rng, monkeypatch):
    X = rng.standard_normal((33_000, 3))
    y = np.where(rng.random(len(X)) < 0.5, 1.0, -1.0)
    for problem in (MEBDual(RBF(X, 0.1)), L2SVMDual(RBF(X, 0.1), y, 10.0)):
        monkeypatch.setattr(work_sharing, "MIN_POINTS_FOR_SHARING", 1 << 40)
        alone = qpsvm.solve(problem, method, tol=1e-12, max_iter=60)
        share(monkeypatch, 2)
        assert qpsvm.solve(problem, method, tol=1e-12, max_iter=60).x.tobytes() == alone.x.tobytes()


def test_a_worker_claims_its_own_end_first():
    sharing = work_sharing.work_sharing_for(5 * work_sharing.CHUNK_TILES * work_sharing.TILE_POINTS)
    number = work_sharing.publish(sharing)
    assert work_sharing.register(sharing) == 1 and work_sharing.register(sharing) == 2
    assert work_sharing.claim(sharing, number, 0, 0) == (0, work_sharing.CHUNK_TILES)
    assert work_sharing.claim(sharing, number, 1, 0) == (
        4 * work_sharing.CHUNK_TILES,
        5 * work_sharing.CHUNK_TILES,
    )
    assert work_sharing.claim(sharing, number, 1, 4) == (0, 0)  # claimed
    found = [work_sharing.claim(sharing, number, 2, k) for k in range(5)]
    assert sorted(stop - first for first, stop in found) == [0, 0] + 3 * [work_sharing.CHUNK_TILES]
    assert all(work_sharing.claim(sharing, number, 3, k) == (0, 0) for k in range(5))


def test_a_failure_of_the_steps_ends_the_others(monkeypatch):
    share(monkeypatch, 2)
    sharing, seen, begun = work_sharing.work_sharing_for(10), [], threading.Event()

    def steps():
        assert begun.wait(60)
        raise ZeroDivisionError

    def assist():
        begun.set()
        while not work_sharing.closed(sharing):
            pass
        seen.append(True)

    with pytest.raises(ZeroDivisionError):
        work_sharing.run_shared(sharing, steps, assist)
    assert seen
