"""The only iteration loop: clock, history, callback, interrupt, stopping, status."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm import threads
from qpsvm.certificate import Certified, certify
from qpsvm.forms import QP, Bounds, Form, Held
from qpsvm.result import History, Progress, Status, passed_test
from qpsvm.solvers.base import WORK_BETWEEN_POLLS, Solver, Stop

log = logging.getLogger("qpsvm")

IDLE_CHECKS = 20  # checks without progress after which the products are computed afresh
STRIKES = 3  # fresh products without progress after which the method is called stalled


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    tol: float
    max_iter: int
    time_limit: float | None = None
    callback: Callable[[Progress], Any] | None = None
    crawls: Callable[[int], bool] | None = None
    """Whether after so many steps on pairs or single coordinates a method counts as stalled."""


@dataclass(frozen=True)
class Outcome:
    """What the loop hands back."""

    certified: Certified
    status: Status
    n_iter: int
    history: History
    timings: dict[str, float]
    counters: dict[str, int]


def run(
    problem: Form,
    solver: Solver,
    x0: NDArray[np.float64] | None,
    limits: Limits,
    seed: int,
    after: Outcome | None = None,
) -> Outcome:
    """Iterate until a certificate passes or a limit is met; return the best certified answer.

    With `after`, another method's outcome on the same problem, its iterations, checks and seconds
    count, and its answer is returned where this method finds none with a smaller gap.
    """
    begun = time.perf_counter()
    with threads.single(*solver.on_one_thread(problem)):
        solver = solver.aim(limits.tol)
        state = solver.init(problem, x0, np.random.default_rng(seed))
        trace = _Trace(problem, limits, state.x.copy(), time.perf_counter())
        setup = trace.started - begun
        if after is not None:
            trace.go_on(after)
            setup += after.timings["setup"]
        with _interrupt_flag() as interrupted:  # also while the closing certificate is computed
            status, certified = _iterate(problem, solver, state, limits, interrupted, trace)
            stopped = time.perf_counter()
            if certified is None:
                x, partial = (trace.best, False) if solver.confirms else (state.x, True)
                convex = status is not Status.NONCONVEX
                held = None if partial else solver.held(problem, state)
                certified = certify(problem, x, limits.tol, convex, support_only=partial, held=held)
    if certified.certificate.passed:
        status = Status.OPTIMAL
    elif certified.certificate.gap == np.inf and problem.refuted(certified.x, certified.product):
        status = Status.INFEASIBLE
    elif status is Status.STALLED and not problem.convex:
        status = Status.NONCONVEX
    ended = time.perf_counter()
    timings = {
        "setup": setup,
        "iterate": stopped - trace.started - trace.certify_time,
        "certify": ended - stopped + trace.certify_time,
        "total": setup + ended - trace.started,
    }
    counters = merged(state.counters, problem.counters)
    if after is not None:
        counters = merged(after.counters, counters)
    log.debug("%s after %d iterations", status.name, trace.n_iter)
    return Outcome(certified, status, trace.n_iter, trace.history(), timings, counters)


def merged(first: dict[str, int], then: dict[str, int]) -> dict[str, int]:
    """Return the counts of two runs: sums, and of the memory, which one returns first, the larger."""
    total = {key: first.get(key, 0) + then.get(key, 0) for key in first | then}
    return total | {"bytes": max(first.get("bytes", 0), then.get("bytes", 0))}


def solve_subset(problem: QP, solver: Solver, tol: float, max_iter: int) -> NDArray[np.float64]:
    """Return the answer of a small problem that a solver poses to itself."""
    with problem.gram.kernel.hold(1 << 40) as store:
        outcome = run(replace(problem, store=store), solver, None, Limits(tol, max_iter), seed=0)
    return outcome.certified.x


def _iterate(
    problem: Form,
    solver: Solver,
    state: Any,
    limits: Limits,
    interrupted: threading.Event,
    trace: _Trace,
) -> tuple[Status, Certified | None]:
    """Return why it ended, and the certificate where it ended with a fresh one."""
    period = solver.period(problem)
    chunk = max(1, int(WORK_BETWEEN_POLLS / problem.work))
    stop = Stop.BUDGET
    while True:
        certified = None
        if stop is Stop.DONE:  # a look at the running bounds would cost as much as the certificate
            certified = trace.certify(state.x, solver.held(problem, state))
            c = certified.certificate
            bounds = Bounds(c.upper, c.lower, c.gap, certified.multipliers, c.roundoff, c.floor)
        elif solver.confirms:
            bounds = problem.bounds(*problem.feasible(state.x, state.product))
        else:
            bounds = state.bounds
        if not np.isfinite(bounds.upper + bounds.gap) and not np.isfinite(state.x).all():
            return Status.NUMERICAL_ERROR, None
        trace.record(bounds, state.x)
        if trace.wants_stop(state):
            return Status.CALLBACK_STOP, None
        if bounds.gap == np.inf and solver.confirms and problem.refuted(state.x, state.product):
            certified = certified or trace.certify(state.x, None)
            c = certified.certificate
            if c.gap == np.inf and problem.refuted(certified.x, certified.product):
                return Status.INFEASIBLE, certified
        near = trace.near(bounds, solver.sure)
        if near and not problem.convex:
            return Status.NONCONVEX, None
        looks_done = near or trace.idle() or stop not in (Stop.BUDGET, Stop.NEWS)
        if looks_done and not solver.confirms and stop is not Stop.NUMERICAL:
            return Status.SAMPLED, None
        if looks_done:
            # it looks done, or nothing moves: look afresh
            certified = certified or trace.certify(state.x, solver.held(problem, state))
            if certified.certificate.passed:
                return Status.OPTIMAL, certified
            if stop is Stop.NONCONVEX:
                return Status.NONCONVEX, None
            if trace.strikes >= STRIKES:
                numerical = stop is Stop.NUMERICAL
                return Status.NUMERICAL_ERROR if numerical else Status.STALLED, None
            state.x[:] = certified.x
            if certified.held is None:
                solver.refresh(problem, state, certified.product)
            else:
                solver.refresh_some(problem, state, certified.held)
        reached = trace.limit(interrupted)
        if reached is not None:
            return reached, None
        if limits.crawls is not None and limits.crawls(_pairs(state)):
            return Status.STALLED, None
        due = solver.next_check(trace.n_iter, period) if period else limits.max_iter
        target = min(due, limits.max_iter)
        stop = Stop.BUDGET
        while trace.n_iter < target and stop is Stop.BUDGET and not trace.limit(interrupted):
            reply = solver.advance(problem, state, min(chunk, target - trace.n_iter))
            trace.n_iter += reply.steps
            stop = reply.stop


def _pairs(state: Any) -> int:
    """Return the steps that `smo`, alone or inside another method, has made on coordinates."""
    return int(state.counters.get("pair", 0) + state.counters.get("single", 0))


@dataclass
class _Trace:
    """What the loop remembers: the best point, the checks, the clock, the signs of a stall."""

    problem: Form
    limits: Limits
    best: NDArray[np.float64]
    started: float
    n_iter: int = 0
    certify_time: float = 0.0
    strikes: int = 0
    best_gap: float = np.inf
    rows: list[tuple[int, float, float, float, float]] = field(default_factory=list)
    _seen: tuple[float, float] = (np.inf, np.inf)  # least gap and value at a sign of progress
    _seen_afresh: tuple[float, float] = (np.inf, np.inf)  # the same from fresh products
    _quiet: int = 0

    def go_on(self, after: Outcome) -> None:
        """Begin where another method ended."""
        self.best, self.best_gap = after.certified.x.copy(), after.certified.certificate.gap
        self.n_iter, self.certify_time = after.n_iter, after.timings["certify"]
        self.started -= after.timings["iterate"] + after.timings["certify"]
        seen = after.history
        self.rows = list(
            zip(seen.iteration, seen.time, seen.upper, seen.lower, seen.gap, strict=True)
        )

    def clock(self) -> float:
        """Return the seconds since the iterations began."""
        return time.perf_counter() - self.started

    def record(self, bounds: Bounds, x: NDArray[np.float64]) -> None:
        """Note a check, keep the point if its gap is the smallest so far."""
        self.rows.append((self.n_iter, self.clock(), bounds.upper, bounds.lower, bounds.gap))
        if bounds.gap < self.best_gap or self.best_gap == np.inf:
            self.best[:], self.best_gap = x, bounds.gap
        self._seen, moved = self._progress(self._seen, bounds.upper, bounds.lower, bounds.gap)
        self._quiet = 0 if moved else self._quiet + 1

    def _progress(
        self, seen: tuple[float, float], upper: float, lower: float, gap: float
    ) -> tuple[tuple[float, float], bool]:
        """Return the least gap and value so far, and whether one of them became smaller."""
        value = -lower if self.problem.negated else upper
        moved = gap < 0.99 * seen[0] or value < seen[1] - 1e-13 * abs(seen[1])
        return (min(gap, seen[0]), min(value, seen[1])) if moved else seen, bool(moved)

    def idle(self) -> bool:
        """Return whether a number of checks passed without progress."""
        return self._quiet > 0 and self._quiet % IDLE_CHECKS == 0

    def near(self, bounds: Bounds, share: float) -> bool:
        """Return whether the running gap is below this share of the tolerance."""
        tol, floor = share * self.limits.tol, share * bounds.floor
        return passed_test(bounds.gap, bounds.upper, bounds.lower, tol, floor) != "none"

    def certify(self, x: NDArray[np.float64], held: Held | None) -> Certified:
        """Look afresh; count a strike where the fresh bounds are no better than the last ones."""
        before = time.perf_counter()
        certified = certify(self.problem, x, self.limits.tol, held=held)
        c = certified.certificate
        self._seen_afresh, moved = self._progress(self._seen_afresh, c.upper, c.lower, c.gap)
        self.strikes = 0 if moved else self.strikes + 1
        if c.gap < self.best_gap:
            self.best[:], self.best_gap = certified.x, c.gap
        self.certify_time += time.perf_counter() - before
        return certified

    def wants_stop(self, state: Any) -> bool:
        """Call back; True or StopIteration stops, other exceptions propagate."""
        if self.limits.callback is None:
            return False
        progress = Progress(*self.rows[-1], self.limits.tol, lambda: np.array(state.x))
        try:
            return bool(self.limits.callback(progress))
        except StopIteration:
            return True

    def limit(self, interrupted: threading.Event) -> Status | None:
        """Return the limit that is met, if any."""
        if interrupted.is_set():
            return Status.INTERRUPTED
        if self.limits.time_limit is not None and self.clock() >= self.limits.time_limit:
            return Status.TIME_LIMIT
        return Status.MAX_ITER if self.n_iter >= self.limits.max_iter else None

    def history(self) -> History:
        """Return the checks as arrays."""
        table = np.array(self.rows).T
        return History(table[0].astype(np.int64), *table[1:])


@contextmanager
def _interrupt_flag() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a flag, in the main thread only; a second one raises."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    previous = signal.getsignal(signal.SIGINT)
    if previous in (None, signal.SIG_IGN):  # not ours to change: a job that is to ignore Ctrl-C
        yield flag
        return

    def note(signum: int, frame: Any) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, previous)
