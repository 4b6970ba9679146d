"""Limits, callbacks, Ctrl-C, threads, warm starts: what comes back is the best certified answer."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

import qpsvm.driver.loop
from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    Cached,
    HingeDual,
    HingePrimal,
    L2SVMDual,
    MEBDual,
    PolytopeDistanceDual,
    Status,
    solve,
)
from qpsvm.driver import trace
from qpsvm.solvers.smo.smo import SMO

TIGHT_TOLERANCE = 1e-12  # not reached on the problem `hard` in minutes


def check_honest(result, status):
    """The answer is feasible, its bounds are valid, and it is not called optimal."""
    c = result.certificate
    assert result.status is status and not result.converged and c.test == "none"
    assert -np.inf < c.lower <= c.upper < np.inf
    assert c.violation <= 1e-12
    assert c.gap > c.tol * max(abs(c.upper), abs(c.lower))
    # the best point of all checks, certified again
    assert c.gap <= result.history.gap.min() * (1 + 1e-6) + c.roundoff
    assert {"setup", "iterate", "certify", "total"} == set(result.timings)
    assert status.value in str(result)


@pytest.mark.parametrize("method", ["fw", "mfw", "smo"])
@pytest.mark.parametrize("max_iter", [0, 1, 7, 1000])
def test_max_iter(hard, method, max_iter):
    result = solve(hard, method, tol=TIGHT_TOLERANCE, max_iter=max_iter)
    check_honest(result, Status.MAX_ITER)
    assert result.n_iter == max_iter == result.history.iteration[-1]


@pytest.mark.parametrize("method", ["fw", "mfw", "smo"])
def test_a_longer_run_is_never_worse(hard, method):
    gaps = [
        solve(hard, method, tol=TIGHT_TOLERANCE, max_iter=n).certificate.gap
        for n in (1, 10, 100, 1000)
    ]
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in pairwise(gaps))


def test_no_time_at_all(hard):
    result = solve(hard, "smo", tol=TIGHT_TOLERANCE, time_limit=0)
    check_honest(result, Status.TIME_LIMIT)
    assert result.n_iter == 0


@pytest.fixture
def pair_steps_alone(monkeypatch):
    """Make `smo` slow: without Newton steps."""
    monkeypatch.setattr(qpsvm.solvers.smo.smo, "first_face_step", lambda m: np.inf)


def test_little_time(hard, pair_steps_alone):
    solve(hard, "smo", tol=TIGHT_TOLERANCE, max_iter=10)  # compile
    result = solve(hard, "smo", tol=TIGHT_TOLERANCE, time_limit=0.1, max_iter=10**9)
    check_honest(result, Status.TIME_LIMIT)
    spent = result.timings["iterate"] + result.timings["certify"]
    assert 0.05 <= spent < 10.0  # the set-up is part of the limit
    assert result.n_iter > 0


def test_a_limit_that_is_not_met_changes_nothing(hard):
    free, limited = (
        solve(hard, "smo", tol=TIGHT_TOLERANCE, max_iter=500, **limit)
        for limit in ({}, {"time_limit": 1e6})
    )
    assert free.x.tobytes() == limited.x.tobytes()


def test_callback_sees_the_history_and_stops(hard):
    seen = []

    def callback(progress):
        seen.append((progress.iteration, progress.upper, progress.lower, progress.gap))
        assert progress.x.shape == (120,) and progress.x.sum() == pytest.approx(1.0)
        progress.x[:] = np.nan  # a copy: nothing can be spoiled
        return progress.iteration >= 100

    result = solve(hard, "smo", tol=TIGHT_TOLERANCE, callback=callback)
    check_honest(result, Status.CALLBACK_STOP)
    h = result.history
    assert seen == list(zip(h.iteration, h.upper, h.lower, h.gap, strict=True))
    assert len(h) == len(seen) and np.all(np.diff(h.time) >= 0)
    np.testing.assert_allclose(h.relative_gap * np.maximum(abs(h.upper), abs(h.lower)), h.gap)


def test_callback_stops_by_stop_iteration(hard):
    def callback(progress):
        if progress.iteration >= 40:
            raise StopIteration

    result = solve(hard, "smo", tol=TIGHT_TOLERANCE, callback=callback)
    check_honest(result, Status.CALLBACK_STOP)
    assert result.n_iter == SMO.first_check


def test_checks_of_smo_come_more_and_more_seldom_up_to_the_period(hard, pair_steps_alone):
    problem = hard.as_qp()
    period, seen = SMO().period(problem), [0]
    while seen[-1] < 60 * period:
        seen.append(SMO().next_check(seen[-1], period))
    apart = np.diff(seen)
    assert apart[0] == SMO.first_check and np.all(np.diff(apart) >= 0) and apart[-1] == period
    expected = np.clip(24 * np.sqrt(seen[:-1]), SMO.first_check, period)
    np.testing.assert_allclose(apart, expected, rtol=0.02)
    most = 3 * SMO.first_check
    result = solve(hard, "smo", tol=TIGHT_TOLERANCE, max_iter=most)
    assert result.history.iteration.tolist() == [n for n in seen if n < most] + [most]


def test_callback_exception_propagates(hard, sigint):
    def callback(progress):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        solve(hard, "smo", callback=callback)


@pytest.fixture
def sigint():
    """Assert that the handler of SIGINT is what it was before: Python's own.

    Where the tests run in the background of a shell, it is told to ignore the signal.
    """
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.getsignal(signal.SIGINT)
    yield before
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, outside)


def test_interrupt_within_the_iterations(hard, sigint, pair_steps_alone):
    def callback(progress):
        if progress.iteration == SMO.first_check:
            signal.raise_signal(signal.SIGINT)

    result = solve(hard, "smo", tol=TIGHT_TOLERANCE, callback=callback)
    check_honest(result, Status.INTERRUPTED)
    assert result.n_iter == SMO.first_check


def test_interrupt_from_outside(hard, sigint):
    solve(hard, "mfw", tol=TIGHT_TOLERANCE, max_iter=10)  # compile
    begun = time.perf_counter()
    timer = threading.Timer(0.3, _thread.interrupt_main)  # os.kill would end a process of Windows
    timer.start()
    result = solve(hard, "mfw", tol=TIGHT_TOLERANCE, max_iter=10**9, time_limit=30)
    timer.join()
    check_honest(result, Status.INTERRUPTED)
    assert time.perf_counter() - begun < 20.0


def test_interrupt_within_the_closing_certificate(hard, sigint, monkeypatch):
    """It comes too late to stop anything: the answer is not thrown away."""

    def certify(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return honest(*arguments, **options)

    honest, pressed = qpsvm.driver.loop.certify, []
    monkeypatch.setattr(qpsvm.driver.loop, "certify", certify)
    signal.signal(signal.SIGINT, lambda *_: pressed.append(True))  # would raise KeyboardInterrupt
    result = solve(hard, "smo", tol=TIGHT_TOLERANCE, max_iter=5)
    signal.signal(signal.SIGINT, sigint)
    assert result.n_iter == 5 and not pressed


@pytest.mark.parametrize(
    ("method", "declared"), [("decomposition", HingeDual), ("face-newton", L2SVMDual)]
)
def test_an_interrupt_abandons_a_long_certificate(sigint, monkeypatch, method, declared):
    """The bounds then come from maintained products; a solve of no iterations recomputes them."""
    monkeypatch.setattr(trace, "INTERRUPT_GRACE_SECONDS", 0.0)
    X, y = two_clouds(1500, 3, seed=4)
    problem = declared(RBF(X, 0.3), y, 10.0)

    def stop(progress):
        if progress.iteration >= 2:
            signal.raise_signal(signal.SIGINT)

    found = solve(problem, method, tol=1e-12, callback=stop)
    assert found.status is Status.INTERRUPTED
    assert not found.certificate.recomputed
    exact = solve(problem, method, x0=found, max_iter=0)
    assert exact.certificate.recomputed
    assert np.array_equal(exact.x, found.x)
    assert exact.certificate.gap <= found.certificate.gap
    best = solve(problem, tol=1e-8).certificate
    assert found.certificate.lower <= best.lower
    assert found.certificate.upper >= best.upper


def test_an_interrupt_within_the_certificate_of_a_check_abandons_it(sigint, monkeypatch):
    """The iterations end, and the maintained products are certified as they are."""

    def certify(*arguments, recompute=True, **options):
        if recompute and not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return honest(*arguments, recompute=recompute, **options)

    honest, pressed = qpsvm.driver.loop.certify, []
    monkeypatch.setattr(trace, "INTERRUPT_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(qpsvm.driver.loop, "certify", certify)
    X, y = two_clouds(1500, 3, seed=4)
    found = solve(HingeDual(RBF(X, 0.3), y, 10.0), "decomposition", tol=1e-3)
    assert pressed and not found.certificate.recomputed
    best = solve(HingeDual(RBF(X, 0.3), y, 10.0), tol=1e-8).certificate
    assert found.certificate.lower <= best.lower
    assert found.certificate.upper >= best.upper


def test_second_interrupt_raises(hard, sigint):
    def callback(progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        solve(hard, "smo", tol=TIGHT_TOLERANCE, callback=callback)


def test_other_threads_leave_signals_alone(hard, sigint):
    seen = []
    with ThreadPoolExecutor(1) as pool:
        watch = lambda progress: seen.append(signal.getsignal(signal.SIGINT))  # noqa: E731
        result = pool.submit(
            solve, hard, "smo", tol=TIGHT_TOLERANCE, max_iter=20, callback=watch
        ).result()
    check_honest(result, Status.MAX_ITER)
    assert seen and all(handler is sigint for handler in seen)


def test_eight_threads_same_bits(clouds):
    X, y = clouds
    problems = [
        MEBDual(RBF(X, 0.5)),
        L2SVMDual(RBF(X, 0.5), y, C=10.0),
        PolytopeDistanceDual(RBF(X, 0.5), y, chi=10.0),
        HingeDual(RBF(X, 0.5), y, C=10.0),
    ]
    alone = [solve(problem, tol=1e-6).x.tobytes() for problem in problems]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda p: solve(p, tol=1e-6).x.tobytes(), problems * 8))
    assert together == alone * 8


def test_threads_share_a_cached_gram(clouds):
    X, y = clouds
    K = Cached(RBF(X, 0.5))
    problems = [L2SVMDual(K, y, C=C) for C in (1.0, 10.0, 100.0, 1000.0)] * 4
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda problem: solve(problem, tol=1e-6), problems))
    for problem, result in zip(problems, results, strict=True):
        alone = solve(L2SVMDual(RBF(X, 0.5), y, C=problem.C), tol=1e-6)
        assert result.converged
        assert result.certificate.lower <= alone.value and alone.certificate.lower <= result.value
    assert sum(result.counters["columns"] for result in results) <= len(X)


@pytest.mark.parametrize("method", ["mfw", "smo"])
@pytest.mark.parametrize("given", [lambda result: result, lambda result: result.x])
def test_warm_start(clouds, method, given):
    X, y = clouds
    problem = L2SVMDual(RBF(X, 0.5), y, C=np.where(np.arange(120) % 7, 10.0, 0.0))
    cold = solve(problem, method, tol=1e-6)
    warm = solve(problem, method, tol=1e-6, x0=given(cold))
    assert warm.converged and warm.n_iter == 0
    near = solve(L2SVMDual(RBF(X, 0.5), y, C=11.0), method, tol=1e-6, x0=given(cold))
    assert near.converged and near.certificate.upper > 0


@pytest.mark.parametrize("given", [lambda result: result, lambda result: result.x])
def test_warm_start_of_a_primal(clouds, given):
    problem = HingePrimal(*clouds, C=1.0)
    cold = solve(problem, tol=1e-6)
    warm = solve(problem, tol=1e-6, x0=given(cold))
    assert cold.converged and warm.converged
    assert warm.n_iter <= cold.n_iter
    assert warm.value == pytest.approx(cold.value, rel=2e-6)


def test_a_start_outside_is_moved_into_the_domain(clouds):
    X, y = clouds
    for problem in (MEBDual(RBF(X)), HingeDual(RBF(X), y)):
        result = solve(problem, tol=1e-6, x0=np.linspace(-3.0, 5.0, len(X)))
        assert result.converged and result.certificate.violation <= 1e-12


def test_table_has_a_row_for_each_check(hard, capsys):
    result = solve(hard, tol=TIGHT_TOLERANCE, max_iter=100, verbose="table")
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["iteration", "seconds", "upper", "lower", "gap"]
    assert [int(row.split()[0]) for row in rows] == result.history.iteration.tolist()


def test_bar_goes_to_the_standard_error_and_leaves_the_answer_alone(hard, capsys):
    silent, shown = (
        solve(hard, tol=TIGHT_TOLERANCE, max_iter=100, verbose=v) for v in (False, True)
    )
    out, err = capsys.readouterr()
    assert not out and "%" in err and "gap" in err
    assert silent.x.tobytes() == shown.x.tobytes()


def test_the_automatic_choice_says_why(clouds):
    X, y = clouds
    for problem, method, reason in (
        (HingeDual(RBF(X), y), "smo", "below 2,000 points"),
        (HingePrimal(X, y), "smo", "few points"),
        (HingePrimal(X, y, C=1e3), "crsvm", "factor"),
        (
            MEBDual(RBF(np.vstack([X + k for k in range(17)]))),
            "decomposition",
            "from 2,000 points on",
        ),
    ):
        result = solve(problem)
        assert result.method == method and reason in result.reason
        assert f"{method} (auto: {result.reason}): " in str(result)
    named = solve(HingeDual(RBF(X), y), "smo")
    assert named.reason == "" and "auto" not in str(named)
