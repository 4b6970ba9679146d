"""The only iteration loop: clock, history, callback, interrupt, stopping, status."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Bounds, Certified, Form
from qpsvm.canonical.qp import QP
from qpsvm.clock import Clock, CompilationStopped, Expired, active_clock, completing
from qpsvm.driver.certificate import certify
from qpsvm.driver.trace import Choice, Limits, Trace, bounds_of
from qpsvm.errors import ClusterError
from qpsvm.gram.psd import is_psd_decided
from qpsvm.numerics.parallel import single_threaded_blas
from qpsvm.result import History, Status
from qpsvm.solvers.base import WORK_BETWEEN_POLLS, Solver, Stop
from qpsvm.solvers.shared import subproblem
from qpsvm.solvers.shared.starting_points import feasible_start

log = logging.getLogger("qpsvm")

MAX_STALLED_CHECKS = 3
"""Number of recomputations of the products without progress after which the status is STALLED."""

QUICK_SETUP_POINTS = 1000
"""Number of points up to which the setup of a method is always completed: it takes milliseconds."""


@dataclass(frozen=True)
class Outcome:
    """The answer of a run and its record."""

    certified: Certified
    status: Status
    n_iter: int
    history: History
    timings: dict[str, float]
    counters: dict[str, int]
    selection: str = "least gap"
    """The criterion by which the point was chosen: its gap or its value."""
    other: Certified | None = None
    """The point of least gap beside a point of least value."""


def run(
    problem: Form,
    solver: Solver,
    x0: NDArray[np.float64] | None,
    limits: Limits,
    seed: int,
    after: Outcome | None = None,
) -> Outcome:
    """Iterate until a certificate passes or a limit is met; return the best certified answer.

    With `after`, the outcome of another method on the same problem, its iterations, checks and seconds
    are included, and its answer is returned where this method finds none with a smaller gap. Where a
    limit is met during the setup, the starting point is certified and returned.

    Raises
    ------
    ClusterError
        If a cluster cannot be reached any more, and no point was certified before.
    """
    begun, state = time.perf_counter(), None
    with single_threaded_blas(*solver.on_one_thread(problem)):
        solver = solver.for_tolerance(limits.tol)
        try:
            quick = problem.m <= QUICK_SETUP_POINTS
            with completing() if quick else limits.clock.abandoning(), limits.clock.compiling():
                state = solver.init(problem, x0, np.random.default_rng(seed))
        except Expired:
            log.info("a limit was met during the setup of the method")
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
                except CompilationStopped:  # within an iteration: earlier points remain
                    status, state = trace.limit() or Status.TIME_LIMIT, None
                except ClusterError as error:
                    log.info("the points are out of reach: %s", error)
                    status, state = trace.limit() or Status.CLUSTER_LOST, None
                    certified = _certified_before(trace)
            stopped, certifying = time.perf_counter(), trace.certify_time
            if certified is not None:
                choice = Choice(certified)
            else:
                choice = _best_answer(problem, solver, state, status, trace)
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
    of_store = problem.counters
    counters = merged(own, of_store)
    counters["bytes"] = own.get("bytes", 0) + of_store.get("bytes", 0)
    if after is not None:
        counters = merged(after.counters, counters)
    log.debug("%s after %d iterations", status.name, trace.n_iter)
    return Outcome(
        choice.certified, status, trace.n_iter, trace.history(), timings, counters, *choice[1:]
    )


def merged(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Return the counters of two runs: sums, but the larger one of memory sizes."""
    total = {key: first.get(key, 0) + second.get(key, 0) for key in first | second}
    sizes = {"bytes", *(key for key in total if key == "matrix_bytes")}
    return total | {key: max(first.get(key, 0), second.get(key, 0)) for key in sizes}


def _solve_subproblem(
    problem: QP, solver: Solver, tol: float, max_iter: int
) -> NDArray[np.float64]:
    """Return the answer of a subproblem of a solver, within the limits of the call."""
    limits = Limits(tol, max_iter, clock=active_clock.get() or Clock())
    with problem.gram.kernel.hold(1 << 40) as store:
        outcome = run(replace(problem, store=store), solver, None, limits, seed=0)
    return outcome.certified.x


subproblem.register(_solve_subproblem)


def _iterate(
    problem: Form, solver: Solver, state: Any, limits: Limits, trace: Trace
) -> tuple[Status, Certified | None]:
    """Return why it ended, and the certificate where it ended with recomputed products."""
    period = solver.period(problem)
    chunk = max(1, int(WORK_BETWEEN_POLLS / solver.work(problem)))
    stop = Stop.BUDGET
    while True:
        ended, certified = _check(problem, solver, state, stop, trace)
        if ended is not None:
            return ended, certified
        reached = trace.limit()
        if reached is not None:
            return reached, None
        if limits.is_slow is not None and limits.is_slow(state):
            return Status.STALLED, None
        stop = _advance_to_next_check(problem, solver, state, period, chunk, limits, trace)


def _check(
    problem: Form, solver: Solver, state: Any, stop: Stop, trace: Trace
) -> tuple[Status | None, Certified | None]:
    """Check the current point; return why the iterations end, or None, and its certificate.

    Where the iterations continue after a certificate, the method continues from its products.
    """
    # 1. Bounds of the current point: running ones where they are cheaper than a certificate.
    certified, bounds = _current_bounds(problem, solver, state, stop, trace)
    if not np.isfinite(bounds.upper + bounds.gap) and not np.isfinite(state.x).all():
        return Status.NUMERICAL_ERROR, None
    if bounds.gap == np.inf and solver.uses_full_gap and problem.refuted(state.x, state.product):
        certified = certified or trace.certify(state.x, None)
        if _refuted(problem, certified):
            trace.record(state.x, bounds, certified)
            return Status.INFEASIBLE, certified

    # 2. A certificate where the gap looks closed or the method looks stalled.
    trace.consider(bounds, state.x)
    near = trace.near(bounds, solver.check_threshold)
    no_progress = trace.no_progress() and not solver.scheduled
    looks_done = near or no_progress or stop not in (Stop.BUDGET, Stop.NEWS)
    looks_done |= solver.uses_full_gap and trace.imprecise(bounds)
    looks_done |= trace.seconds_since_certificate() > solver.seconds_between_certificates
    provable = problem.convex or not near
    if looks_done and provable and (solver.uses_full_gap or stop is Stop.NUMERICAL):
        approximate_products = solver.approximate_products(problem, state)
        try:
            with nullcontext() if approximate_products is None else trace.within_grace():
                certified = certified or trace.certify(state.x, approximate_products, bounds.gap)
        except Expired:  # after Ctrl-C: the approximate products are certified as they are
            trace.record(state.x, bounds, None)
            return Status.INTERRUPTED, None
        trace.count_stalled_checks(certified)
    trace.record(state.x, bounds, certified)

    # 3. The callback, which may ask for the certificate.
    def prove() -> Certified:
        return trace.certify(state.x, solver.approximate_products(problem, state), bounds.gap)

    stops, asked = trace.wants_stop(state.x, certified, prove)
    if stops:
        return Status.CALLBACK_STOP, None

    # 4. Reasons to end.
    if near and not problem.convex:
        return Status.NONCONVEX, None
    if looks_done and certified is None:
        return Status.SAMPLED, None
    certified = certified or asked
    if certified is not None and certified.certificate.passed:
        return Status.OPTIMAL, certified
    if stop is Stop.STALLED and solver.ends_by_own_rule:
        return Status.STALLED, certified
    if looks_done:
        if stop is Stop.NONCONVEX and not _is_convexity_decided(problem):
            return Status.NONCONVEX, None
        if trace.n_stalled_checks >= MAX_STALLED_CHECKS:
            numerical = stop is Stop.NUMERICAL
            return Status.NUMERICAL_ERROR if numerical else Status.STALLED, None

    # 5. Otherwise the method continues from the recomputed products.
    if certified is not None and (looks_done or solver.uses_full_gap):
        _resume_from(problem, solver, state, certified)
    return None, certified


def _current_bounds(
    problem: Form, solver: Solver, state: Any, stop: Stop, trace: Trace
) -> tuple[Certified | None, Bounds]:
    """Return the bounds of the current point, and the certificate that they come from, if any."""
    if stop is Stop.DONE:  # running bounds would cost as much as the certificate
        certified = trace.certify(state.x, solver.approximate_products(problem, state))
        return certified, bounds_of(certified)
    if solver.uses_full_gap:
        return None, problem.bounds(*problem.feasible(state.x, state.product))
    return None, state.bounds


def _advance_to_next_check(
    problem: Form,
    solver: Solver,
    state: Any,
    period: int,
    chunk: int,
    limits: Limits,
    trace: Trace,
) -> Stop:
    """Iterate until the next check is due, the method stops by itself, or a limit is met."""
    due = solver.next_check(trace.n_iter, period) if period else limits.max_iter
    target = min(due, limits.max_iter)
    stop, clock = Stop.BUDGET, limits.clock
    try:
        with clock.abandoning() if solver.is_abandonable else clock.compiling():
            while trace.n_iter < target and stop is Stop.BUDGET and not trace.limit():
                reply = solver.advance(problem, state, min(chunk, target - trace.n_iter))
                trace.n_iter += reply.steps
                stop = reply.stop
    except Expired:  # the last iteration was abandoned
        if not solver.is_abandonable:
            raise
    return stop


def _resume_from(problem: Form, solver: Solver, state: Any, certified: Certified) -> None:
    """Continue the method from the recomputed products of a certificate."""
    state.x[:] = certified.x
    if certified.approximate_products is None:
        solver.refresh(problem, state, certified.product)
    else:
        solver.refresh_partly(problem, state, certified.approximate_products)


def _best_answer(problem: Form, solver: Solver, state: Any, status: Status, trace: Trace) -> Choice:
    """Return the answer where no certificate of the last check passed."""
    if state is None:  # no check was made
        choice = trace.choose(None, None)
        if not trace.rows:
            certified = choice.certified
            trace.record(certified.x, bounds_of(certified), certified)
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


def _certified_before(trace: Trace) -> Certified:
    """Return the best point that was certified, or can be by what is known without the cluster."""
    try:
        return trace.choose(None, None).certified
    except ClusterError:
        if trace.proved is None:
            raise
        return trace.proved


def _refuted(problem: Form, certified: Certified) -> bool:
    """Return whether the value is unbounded along a certified point."""
    unbounded = certified.certificate.gap == np.inf
    return unbounded and problem.refuted(certified.x, certified.product)


def _is_convexity_decided(problem: Form) -> bool:
    """Return whether the Gram is positive semidefinite: negative curvature is then rounding."""
    return problem.convex and isinstance(problem, QP) and is_psd_decided(problem.gram.kernel)
