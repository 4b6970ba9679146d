"""The only iteration loop: clock, history, callback, interrupt, stopping, status."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Certified, Form
from qpsvm.canonical.qp import QP
from qpsvm.clock import Clock, CompilationStopped, Expired, active, completing
from qpsvm.driver.certificate import certify
from qpsvm.driver.trace import Choice, Limits, Trace, bounds_of
from qpsvm.numerics.parallel import single_threaded_blas
from qpsvm.result import History, Status
from qpsvm.solvers.base import WORK_BETWEEN_POLLS, Solver, Stop
from qpsvm.solvers.shared import subproblem
from qpsvm.solvers.shared.starting_points import feasible_start

log = logging.getLogger("qpsvm")

STRIKES = 3  # fresh products without progress after which the method is called stalled

QUICK_SETUP_POINTS = 1000
"""Points up to which the set-up of a method is completed at any rate: it takes milliseconds."""


@dataclass(frozen=True)
class Outcome:
    """What the loop hands back."""

    certified: Certified
    status: Status
    n_iter: int
    history: History
    timings: dict[str, float]
    counters: dict[str, int]
    selection: str = "least gap"
    """What the point was chosen by among those seen: its gap or its value."""
    other: Certified | None = None
    """Beside a point of least value, the one of least gap."""


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
    count, and its answer is returned where this method finds none with a smaller gap. Where a limit
    is met while the method is set up, the starting point is certified and returned.
    """
    begun, state = time.perf_counter(), None
    with single_threaded_blas(*solver.on_one_thread(problem)):
        solver = solver.for_tolerance(limits.tol)
        try:
            quick = problem.m <= QUICK_SETUP_POINTS
            with completing() if quick else limits.clock.abandoning(), limits.clock.compiling():
                state = solver.init(problem, x0, np.random.default_rng(seed))
        except Expired:
            log.info("a limit was met while the method was set up")
        x = feasible_start(problem, x0) if state is None else state.x
        trace = Trace(problem, limits, x.copy(), time.perf_counter(), certify)
        trace.by_value = not (solver.gap_theorem or problem.negated)
        setup = trace.started - begun
        if after is not None:
            trace.resume_from(after.n_iter, after.history, after.timings, after.certified)
            setup += after.timings["setup"]
        certified, status = None, trace.limit() or Status.TIME_LIMIT
        own: dict[str, int] = {}
        with completing():
            if state is not None:
                try:
                    status, certified = _iterate(problem, solver, state, limits, trace)
                    own = state.counters
                except CompilationStopped:  # amid an iteration: points seen before it count
                    status, state = trace.limit() or Status.TIME_LIMIT, None
            stopped, certifying = time.perf_counter(), trace.certify_time
            if certified is not None:
                choice = Choice(certified)
            else:
                choice = _closed(problem, solver, state, status, trace)
    if choice.certified.certificate.passed:
        status = Status.OPTIMAL
    elif _refuted(problem, choice.certified):
        status = Status.INFEASIBLE
    elif status is Status.STALLED and not problem.convex:
        status = Status.NONCONVEX
    ended = time.perf_counter()
    timings = {
        "setup": setup,
        "iterate": stopped - trace.started - certifying,
        "certify": ended - stopped + certifying,
        "total": setup + ended - trace.started,
    }
    counters = merged(own, problem.counters)
    counters["bytes"] = own.get("bytes", 0) + problem.counters.get("bytes", 0)
    if after is not None:
        counters = merged(after.counters, counters)
    log.debug("%s after %d iterations", status.name, trace.n_iter)
    return Outcome(
        choice.certified, status, trace.n_iter, trace.history(), timings, counters, *choice[1:]
    )


def merged(first: dict[str, int], then: dict[str, int]) -> dict[str, int]:
    """Return the counts of two runs: sums, and of the memory, which one returns first, the larger."""
    total = {key: first.get(key, 0) + then.get(key, 0) for key in first | then}
    sizes = {"bytes", *(key for key in total if key == "matrix_bytes")}
    return total | {key: max(first.get(key, 0), then.get(key, 0)) for key in sizes}


def _solve_subproblem(
    problem: QP, solver: Solver, tol: float, max_iter: int
) -> NDArray[np.float64]:
    """Return the answer of a small problem that a solver poses to itself, within the same limits."""
    limits = Limits(tol, max_iter, clock=active() or Clock())
    with problem.gram.kernel.hold(1 << 40) as store:
        outcome = run(replace(problem, store=store), solver, None, limits, seed=0)
    return outcome.certified.x


subproblem.register(_solve_subproblem)


def _iterate(
    problem: Form, solver: Solver, state: Any, limits: Limits, trace: Trace
) -> tuple[Status, Certified | None]:
    """Return why it ended, and the certificate where it ended with a fresh one."""
    period = solver.period(problem)
    chunk = max(1, int(WORK_BETWEEN_POLLS / solver.work(problem)))
    stop = Stop.BUDGET
    while True:
        certified = None
        if stop is Stop.DONE:  # running bounds would cost as much as the certificate
            certified = trace.certify(state.x, solver.approximate_products(problem, state))
            bounds = bounds_of(certified)
        elif solver.uses_full_gap:
            bounds = problem.bounds(*problem.feasible(state.x, state.product))
        else:
            bounds = state.bounds
        if not np.isfinite(bounds.upper + bounds.gap) and not np.isfinite(state.x).all():
            return Status.NUMERICAL_ERROR, None
        if (
            bounds.gap == np.inf
            and solver.uses_full_gap
            and problem.refuted(state.x, state.product)
        ):
            certified = certified or trace.certify(state.x, None)
            if _refuted(problem, certified):
                trace.record(bounds, certified)
                return Status.INFEASIBLE, certified
        trace.consider(bounds, state.x)
        near = trace.near(bounds, solver.check_threshold)
        idle = not solver.scheduled and trace.idle()
        looks_done = near or idle or stop not in (Stop.BUDGET, Stop.NEWS)
        looks_done |= solver.uses_full_gap and trace.imprecise(bounds)
        confirmed = problem.convex or not near
        if looks_done and confirmed and (solver.uses_full_gap or stop is Stop.NUMERICAL):
            # it looks done, or nothing moves: look afresh
            approximate_products = solver.approximate_products(problem, state)
            certified = certified or trace.certify(state.x, approximate_products, bounds.gap)
            trace.count_strikes(certified)
        trace.record(bounds, certified)

        def prove(running: float = bounds.gap) -> Certified:
            return trace.certify(state.x, solver.approximate_products(problem, state), running)

        stops, asked = trace.wants_stop(state.x, certified, prove)
        if stops:
            return Status.CALLBACK_STOP, None
        if near and not problem.convex:
            return Status.NONCONVEX, None
        if looks_done and certified is None:
            return Status.SAMPLED, None
        certified = certified or asked
        if certified is not None and certified.certificate.passed:
            return Status.OPTIMAL, certified
        if looks_done:
            if stop is Stop.NONCONVEX:
                return Status.NONCONVEX, None
            if trace.strikes >= STRIKES:
                numerical = stop is Stop.NUMERICAL
                return Status.NUMERICAL_ERROR if numerical else Status.STALLED, None
        if certified is not None and (looks_done or solver.uses_full_gap):
            _take_over(problem, solver, state, certified)
        reached = trace.limit()
        if reached is not None:
            return reached, None
        if limits.is_slow is not None and limits.is_slow(_pairs(state)):
            return Status.STALLED, None
        due = solver.next_check(trace.n_iter, period) if period else limits.max_iter
        target = min(due, limits.max_iter)
        stop = Stop.BUDGET
        while trace.n_iter < target and stop is Stop.BUDGET and not trace.limit():
            steps, stop = _advance(
                problem, solver, state, min(chunk, target - trace.n_iter), limits
            )
            trace.n_iter += steps


def _advance(
    problem: Form, solver: Solver, state: Any, n_steps: int, limits: Limits
) -> tuple[int, Stop]:
    """Return the steps done and why the solver came back; it may give up a step at a limit."""
    if not solver.is_abandonable:
        with limits.clock.compiling():
            reply = solver.advance(problem, state, n_steps)
        return reply.steps, reply.stop
    try:
        with limits.clock.abandoning():
            reply = solver.advance(problem, state, n_steps)
    except Expired:
        return 0, Stop.BUDGET
    return reply.steps, reply.stop


def _take_over(problem: Form, solver: Solver, state: Any, certified: Certified) -> None:
    """Let the method go on from the fresh products of a certificate."""
    state.x[:] = certified.x
    if certified.approximate_products is None:
        solver.refresh(problem, state, certified.product)
    else:
        solver.refresh_partly(problem, state, certified.approximate_products)


def _closed(problem: Form, solver: Solver, state: Any, status: Status, trace: Trace) -> Choice:
    """Return what is returned where the last check had no certificate that passed."""
    if state is None:  # no check was made
        choice = trace.choose(None, None)
        if not trace.rows:
            trace.record(bounds_of(choice.certified), choice.certified)
        return choice
    if not solver.uses_full_gap:
        return Choice(certify(problem, state.x, trace.limits.tol, support_only=True))
    approximate_products = solver.approximate_products(problem, state)
    if status is Status.NONCONVEX:
        return Choice(
            certify(
                problem,
                trace.best,
                trace.limits.tol,
                convex=False,
                approximate_products=approximate_products,
            )
        )
    current = None if status is Status.NUMERICAL_ERROR else state.x
    return trace.choose(current, approximate_products)


def _refuted(problem: Form, certified: Certified) -> bool:
    """Return whether the value falls without end along a certified point."""
    unbounded = certified.certificate.gap == np.inf
    return unbounded and problem.refuted(certified.x, certified.product)


def _pairs(state: Any) -> int:
    """Return the steps that `smo`, alone or inside another method, has made on coordinates."""
    return int(state.counters.get("pair", 0) + state.counters.get("single", 0))
