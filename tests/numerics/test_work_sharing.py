"""Threads that share the passes of a step change no bit of its result."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qpsvm
from qpsvm import RBF, L2SVMDual, MEBDual, PolytopeDistanceDual
from qpsvm.numerics import work_sharing as team


def share(monkeypatch, n):
    """Let n threads share every pass, whatever the number of processors."""

    def spread(task, pieces):
        with ThreadPoolExecutor(n) as pool:
            list(pool.map(task, pieces[:n]))

    monkeypatch.setattr(team, "SHARED", 1)
    monkeypatch.setattr(team, "parallel_for", spread)


@pytest.mark.parametrize("method", ["fw", "mfw", "pfw", "npa", "smo"])
@pytest.mark.parametrize("chi", [None, 10.0], ids=["hard", "soft"])
def test_the_same_bits_whoever_takes_the_pieces(method, chi, rng, monkeypatch):
    m = 40_000 + 7  # three pieces, the last tile not full
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
        monkeypatch.setattr(team, "SHARED", 1 << 40)
        alone = qpsvm.solve(problem, method, tol=1e-12, max_iter=60)
        share(monkeypatch, 2)
        assert qpsvm.solve(problem, method, tol=1e-12, max_iter=60).x.tobytes() == alone.x.tobytes()


def test_who_assists_takes_its_own_end_first():
    who = team.team(5 * team.PIECE * team.TILE)
    number = team.offer(who)
    assert team.join(who) == 1 and team.join(who) == 2
    assert team.take(who, number, 0, 0) == (0, team.PIECE)
    assert team.take(who, number, 1, 0) == (4 * team.PIECE, 5 * team.PIECE)
    assert team.take(who, number, 1, 4) == (0, 0)  # taken
    found = [team.take(who, number, 2, k) for k in range(5)]
    assert sorted(stop - first for first, stop in found) == [0, 0] + 3 * [team.PIECE]
    assert all(team.take(who, number, 3, k) == (0, 0) for k in range(5))


def test_a_failure_of_the_steps_ends_the_others(monkeypatch):
    share(monkeypatch, 2)
    who, seen, begun = team.team(10), [], threading.Event()

    def steps():
        assert begun.wait(60)
        raise ZeroDivisionError

    def assist():
        begun.set()
        while not team.over(who):
            pass
        seen.append(True)

    with pytest.raises(ZeroDivisionError):
        team.together(who, steps, assist)
    assert seen
