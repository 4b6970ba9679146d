"""The clock of a call: what is given up at a limit, what is completed, and what Ctrl-C does to loops."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

import qpsvm.driver.loop
import qpsvm.driver.selection
from qpsvm import (
    RBF,
    HingeDual,
    Interrupted,
    L2SVMDual,
    Linear,
    LSSVMPrimal,
    MEBDual,
    Status,
    solve,
    solve_path,
)
from qpsvm.clock import Clock, Expired, active_clock, completing, poll
from qpsvm.numerics.parallel import parallel_for
from tests.solve.test_limits import sigint  # noqa: F401 (a fixture)

PATIENT_SECONDS = 60.0  # seconds that no test here comes near, whatever else the machine does


def cloud(m=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    return X, np.where(X[:, 0] + 0.5 * rng.standard_normal(m) > 0, 1.0, -1.0)


def test_work_is_given_up_only_where_it_may_be():
    clock = Clock(0.0)
    assert clock.expired and not clock.interrupted
    poll()  # nothing runs under a clock here
    with clock.abandoning():
        assert active_clock.get() is clock
        with pytest.raises(Expired):
            poll()
        with completing():
            poll()
        done = []
        with pytest.raises(Expired):
            parallel_for(done.append, [1, 2, 3])
        assert not done
    assert active_clock.get() is None
    parallel_for(done.append, [1, 2, 3])
    assert sorted(done) == [1, 2, 3]


def test_a_clock_within_another_keeps_to_both():
    long = Clock(PATIENT_SECONDS)
    assert not Clock(None, long).expired and Clock(0.0, long).expired
    over = Clock(0.0)
    assert Clock(PATIENT_SECONDS, over).expired and Clock(None, over).expired


@pytest.fixture
def late(monkeypatch):
    """Let every clock end once it was looked at so often."""

    def after(n):
        seen = []

        def end(self):
            seen.append(1)
            return -np.inf if len(seen) > n else np.inf

        monkeypatch.setattr(Clock, "end", property(end, lambda self, value: None), raising=False)
        return seen

    return after


METHODS_THAT_GIVE_UP = {
    "decomposition": lambda X, y: HingeDual(RBF(X, 0.3), y, C=10.0),
    "cvm": lambda X, y: MEBDual(RBF(X, 0.3)),
    "mnp": lambda X, y: L2SVMDual(RBF(X, 0.3), y, C=10.0),
    "face-newton": lambda X, y: L2SVMDual(RBF(X, 0.3), y, C=1.0),
    "nesvm": lambda X, y: LSSVMPrimal(RBF(X, 0.3), y),
    "pegasos": lambda X, y: HingeDual(Linear(X), y, bias=False),
    "smo": lambda X, y: HingeDual(RBF(X, 0.3), y, C=10.0),
}


@pytest.mark.parametrize("method", METHODS_THAT_GIVE_UP)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
def test_wherever_the_time_ends_the_answer_is_whole(method, n, late, monkeypatch):
    """Its bounds hold an independent optimum; its gap is that of the best check, or better."""
    problem = METHODS_THAT_GIVE_UP[method](*cloud(300))
    form = problem.as_qp() or problem.as_margin()
    optimum = solve(problem, tol=1e-8)
    monkeypatch.setattr(qpsvm.driver.loop, "QUICK_SETUP_POINTS", 0)
    late(n)
    result = solve(problem, method, tol=1e-9, time_limit=1.0)
    c = result.certificate
    slack = 1e-7 * abs(optimum.value)
    assert c.lower - slack <= optimum.value <= c.upper + slack and c.violation <= 1e-9
    assert result.status in (Status.TIME_LIMIT, Status.OPTIMAL)
    assert len(result.history) > 0 and form.m == 300
    if result.status is Status.TIME_LIMIT:  # running gaps have hardly any error on so few points
        assert c.gap <= result.history.gap.min() * 1.01 + 2.0 * c.roundoff


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (lambda X, y: L2SVMDual(RBF(X, 1.0), y), "face-newton"),
        (lambda X, y: LSSVMPrimal(RBF(X, 1.0), y), "auto"),
        (lambda X, y: L2SVMDual(RBF(X, 1.0), y), "mnp"),
        (lambda X, y: HingeDual(RBF(X, 1.0), y, C=100.0), "decomposition"),
    ],
    ids=["face-newton", "ls-svm", "mnp", "decomposition"],
)
def test_set_up_keeps_to_the_time_limit(problem, method):
    """Without a limit the set-up of some of these takes a minute."""
    X, y = cloud(20_000, 20)
    solve(problem(X[:2500], y[:2500]), method, max_iter=2)  # compile
    begun = time.perf_counter()
    result = solve(problem(X, y), method, tol=1e-9, time_limit=0.1)
    took = time.perf_counter() - begun
    assert result.status is Status.TIME_LIMIT and np.isfinite(result.certificate.gap)
    assert took < 8.0
    if method in ("face-newton", "auto"):  # theirs alone takes longer
        assert result.n_iter == 0 and result.certificate.relative_gap > 0.99


def test_the_clock_starts_with_the_call(late, monkeypatch):
    """The search for duplicates counts: it is given up, and so is what would follow."""
    X, y = cloud(1200)
    problem = HingeDual(RBF(np.repeat(X, 2, axis=0), 0.3), np.repeat(y, 2))
    assert solve(problem).counters["merged"] == 1200
    monkeypatch.setattr(qpsvm.driver.selection, "QUICK_SEARCH_POINTS", 0)
    late(0)
    result = solve(problem, time_limit=1.0)
    assert result.status is Status.TIME_LIMIT and result.n_iter == 0
    assert "merged" not in result.counters and result.certificate.lower <= result.certificate.upper


def pressing(at):
    """Return a callback that presses Ctrl-C at the check number `at`, and its record."""
    seen = []

    def callback(progress):
        seen.append(progress.iteration)
        if len(seen) == at:
            signal.raise_signal(signal.SIGINT)

    return callback, seen


def test_an_interrupt_is_raised_again_where_it_is_asked_for(hard, sigint):  # noqa: F811
    callback, _ = pressing(2)
    with pytest.raises(KeyboardInterrupt) as caught:
        solve(hard, "smo", tol=1e-12, callback=callback, interrupt="raise")
    assert isinstance(caught.value, Interrupted)
    result = caught.value.result
    assert result.status is Status.INTERRUPTED and np.isfinite(result.certificate.gap)
    done = solve(hard, "smo", tol=1e-12, max_iter=5, interrupt="raise")
    assert done.status is Status.MAX_ITER


def test_an_interrupt_ends_a_users_loop_with_the_answers_so_far(hard, sigint):  # noqa: F811
    answers, (callback, _) = [], pressing(3)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(5):
            answers.append(
                solve(hard, "smo", tol=1e-12, max_iter=300, callback=callback, interrupt="raise")
            )
    assert len(answers) == 1


@pytest.mark.parametrize("values", [[1.0, 2.0, 4.0, 8.0], [8.0, 1.0, 4.0, 2.0]])
def test_an_interrupt_ends_a_path_and_what_is_done_is_returned(values, sigint):  # noqa: F811
    X, y = cloud(200)
    problem, seen = HingeDual(RBF(X, 0.3), y), []

    def callback(progress):
        seen.append(progress.iteration)
        if seen.count(0) == 2 and progress.iteration == 0:  # in the second solve
            signal.raise_signal(signal.SIGINT)

    path = solve_path(problem, "C", values, "smo", tol=1e-9, callback=callback)
    assert path.values == [v for v in values if v <= 2.0] and len(path) == 2
    by_value = dict(zip(path.values, path, strict=True))
    assert by_value[1.0].status is Status.OPTIMAL
    assert by_value[2.0].status is Status.INTERRUPTED
    seen.clear()
    with pytest.raises(Interrupted) as caught:
        options = {"tol": 1e-9, "callback": callback, "interrupt": "raise"}
        solve_path(problem, "C", values, "smo", **options)
    assert caught.value.result.values == path.values


def test_an_interrupt_between_two_solves_ends_a_path(sigint):  # noqa: F811
    X, y = cloud(100)

    class Interrupting(HingeDual):
        def carried(self, earlier, result):
            signal.raise_signal(signal.SIGINT)
            return super().carried(earlier, result)

    path = solve_path(Interrupting(RBF(X, 0.3), y), "C", [1.0, 2.0, 4.0], "smo")
    assert [result.status for result in path] == [Status.OPTIMAL, Status.INTERRUPTED]


def test_a_path_has_a_time_limit_of_its_own(late):
    X, y = cloud(100)
    problem = HingeDual(RBF(X, 0.3), y)
    assert len(solve_path(problem, "C", [1.0, 2.0], "smo", time_limit=PATIENT_SECONDS)) == 2
    path = solve_path(problem, "C", [1.0, 2.0, 4.0], "smo", time_limit=0.0)
    assert [result.status for result in path] == [Status.TIME_LIMIT] and path.values == [1.0]
    each = solve_path(problem, "C", [1.0, 2.0, 4.0], "smo", time_limit_each=0.0)
    assert [result.status for result in each] == [Status.TIME_LIMIT] * 3


COMPILING_SCRIPT = """
import signal, threading, _thread
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
import numpy as np, qpsvm
X = np.random.default_rng(0).standard_normal((300, 5))
problem = qpsvm.HingeDual(qpsvm.RBF(X, 0.1), np.where(X[:, 0] > 0.0, 1.0, -1.0))
{}
from qpsvm.solvers.smo.pair_steps import pair_steps
print(result.status.name, result.certificate.gap < np.inf, len(pair_steps.signatures))
"""


@pytest.mark.parametrize(
    ("call", "status"),
    [
        ("result = qpsvm.solve(problem, time_limit=0.05)", "TIME_LIMIT"),
        (
            "import qpsvm.solvers.smo.pair_steps\n"
            "threading.Timer(0.2, _thread.interrupt_main).start()\n"
            "result = qpsvm.solve(problem)",
            "INTERRUPTED",
        ),
    ],
    ids=["time limit", "interrupt"],
)
def test_compilation_ends_at_a_limit(call, status, fresh_process, tmp_path):
    """To compile the steps of pairs takes seconds; they are left, and the start is certified."""
    said = fresh_process(COMPILING_SCRIPT.format(call), cache=tmp_path)
    assert said.split() == [status, "True", "0"]
