"""solve(): choose the method, compile, run, certify, recover."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from qpsvm.clock import Clock, call_clock
from qpsvm.distributed.recognition import chunked_kernel
from qpsvm.driver.polish import (
    at_bounds,
    exact_kernel_certificate,
    exact_kernel_problem,
)
from qpsvm.driver.selection import check_problem, find
from qpsvm.errors import InputError, Interrupted, check_choice, check_number
from qpsvm.formulations import Formulation
from qpsvm.numerics.parallel import single_threaded_blas
from qpsvm.resources import memory_bytes
from qpsvm.result import Candidate, Model, Progress, Result, Status

MAX_POLISH_START_GAP = 1e-6
"""Largest gap of the low-rank problem at which a polish starts: it identifies weights at bounds."""

MAX_POINTS_FOR_ONE_THREAD = 2000
"""Number of points up to which a second thread of BLAS does not pay."""


def solve(
    problem: Formulation[Model],
    method: str = "auto",
    *,
    x0: Any = None,
    tol: float = 1e-3,
    max_iter: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
    verbose: bool | str = False,
    seed: int = 0,
    memory_limit: int | None = None,
    merge: bool | None = None,
    original: bool = False,
    polish: bool | str = False,
    interrupt: str = "return",
    **options: Any,
) -> Result[Model]:
    """Solve a declared problem and return a certified answer.

    Parameters
    ----------
    problem : Formulation
        For example ``MEBDual(RBF(X, gamma=0.1))``.
    method : str
        A name from `methods`, or ``"auto"``.
    x0 : array_like or Result, optional
        Starting point in the declared variable; it is moved to the nearest feasible point.
    tol : float
        Certified relative gap to reach: gap <= tol * max(|upper|, |lower|). An optimum of zero passes the
        absolute test: value and gap are zero at the precision of the data.
    max_iter : int, optional
        Maximum number of iterations; by default a finite number that grows with the problem.
    time_limit : float, optional
        Seconds from the start of the call, including the search for duplicates, the choice of a method,
        its setup and the compilation of its steps. The iterations end within 50 ms of the limit, or
        after the current block of work where that takes longer; a setup that exceeds the limit is
        abandoned, and the starting point returned. The final certificate is computed after the limit
        and never skipped.
    callback : callable, optional
        ``callback(progress)`` at each check; True or StopIteration stops. Its bounds are estimates
        unless ``progress.estimated`` is False; ``progress.certificate`` proves them.
    verbose : bool or "table"
        True for a progress bar, ``"table"`` for a line at each check.
    seed : int
        Seed of all random draws.
    memory_limit : int, optional
        Bytes for cached kernel columns; by default a quarter of the machine's memory, or of the limit
        of the container.
    merge : bool, optional
        Whether points with the same coordinates and label are merged; the answer still has a weight for
        every point, and is as exact. By default with ``method="auto"``, from 1,000 points on of which
        at least a twentieth are duplicates; True: always, with any method. Nothing is merged without a
        QP on a Gram of points, or without memory for the distinct points.
    original : bool
        On a `LowRank` Gram: also certify the answer in the problem on the exact kernel, as
        `Result.original`. It costs a pass over the kernel columns of the support.
    polish : bool or str
        On a `LowRank` Gram: continue from the low-rank answer on the exact kernel, to `tol` there, by the
        method of this name, or, with True, by that of ``"auto"``. Limits and callback apply to both
        solves; certificate, history and model are those of the second.
    interrupt : {"return", "raise"}
        Effect of the first Ctrl-C, after the answer so far is certified: the answer is returned, with
        status INTERRUPTED, or `Interrupted` is raised, a KeyboardInterrupt with the answer as its
        ``result``, which also ends a loop around `solve`. A second Ctrl-C raises KeyboardInterrupt
        immediately.
    **options
        Settings of the method, such as ``start="ball"``.

    Returns
    -------
    Result
        At a limit, an interrupt or a stop by the callback it holds the best answer so far, certified, and
        a corresponding status.

    Raises
    ------
    InputError
        If an argument or option is malformed.
    MethodMismatchError
        If the method does not fit the problem; the message names those that do.
    Interrupted
        On Ctrl-C, with ``interrupt="raise"``.

    Examples
    --------
    >>> problem = MEBDual(RBF(X, gamma=0.1))  # doctest: +SKIP
    >>> solve(problem, tol=1e-6, time_limit=10.0)  # doctest: +SKIP
    """
    check_problem(problem)
    check_number("tol", tol, low=0.0, open_low=True, high=1.0)
    check_number("seed", seed, low=0, integer=True)
    if max_iter is not None:
        check_number("max_iter", max_iter, low=0, integer=True)
    if time_limit is not None:
        check_number("time_limit", time_limit, low=0.0)
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be callable as callback(progress); got {callback!r}")
    if memory_limit is not None:
        check_number("memory_limit", memory_limit, low=1, integer=True)
    check_choice("merge", merge, (None, True, False))
    check_choice("original", original, (True, False))
    if not isinstance(polish, str):
        check_choice("polish", polish, (True, False, "the name of a method"))
    check_choice("interrupt", interrupt, ("return", "raise"))
    common: dict[str, Any] = {
        "max_iter": max_iter, "callback": callback, "verbose": verbose, "seed": seed,
        "memory_limit": memory_limit, "merge": merge,
    }  # fmt: skip
    clock = Clock(time_limit, call_clock())
    with clock.listening():
        if polish:
            result = _polished(problem, method, polish, x0, tol, clock, common, options)
        else:
            result = _solved(problem, method, x0, tol, clock, original, **common, options=options)
    if clock.interrupted and interrupt == "raise":
        raise Interrupted(result)
    return result


def _solved(
    problem: Formulation,
    method: str,
    x0: Any,
    tol: float,
    clock: Clock,
    original: bool = False,
    *,
    max_iter: int | None,
    callback: Callable[[Progress], Any] | None,
    verbose: bool | str,
    seed: int,
    memory_limit: int | None,
    merge: bool | None,
    options: dict[str, Any],
) -> Result:
    """Solve once, within the limits of a clock."""
    from qpsvm.driver.display import shown
    from qpsvm.driver.fallback import Stage, run_with_fallbacks, run_with_store
    from qpsvm.driver.trace import Limits

    exact_problem = exact_kernel_problem(problem) if original else None
    memory = default_memory_limit() if memory_limit is None else memory_limit
    kernel = chunked_kernel(problem)
    if kernel is not None:
        from qpsvm.distributed.solve import solve_sharded

        check_choice("merge", merge, (None, False))
        with shown(verbose, callback, method) as watch:
            limits = Limits(tol, -1 if max_iter is None else max_iter, watch, clock)
            return solve_sharded(problem, kernel, method, x0, limits, memory, seed, options)
    begun = time.perf_counter()
    choice = find(problem, method, options, merge, memory, clock)
    declared, name, reason, solver, presolve = choice
    form, start = choice.form, None if x0 is None else problem.start(declared, x0)
    if presolve is not None:
        start, callback = presolve.start(start), presolve.callback(callback)
        memory = max(1, memory - presolve.n_bytes)
    budget = solver.default_max_iter(form) if max_iter is None else max_iter
    blas_threads = single_threaded_blas() if form.m <= MAX_POINTS_FOR_ONE_THREAD else nullcontext()
    with blas_threads, shown(verbose, callback, name) as watch:
        limits = Limits(tol, budget, watch, clock)
        if max_iter is None:
            stage = Stage(name, solver, reason)
            outcome, (name, solver, reason) = run_with_fallbacks(
                form, stage, start, limits, memory, seed, named=method != "auto"
            )
        else:
            outcome = run_with_store(form, solver, start, limits, memory, seed)
    certified, other, counters = outcome.certified, outcome.other, outcome.counters
    if presolve is not None:
        counters = counters | {"merged": presolve.n_duplicates}
        with single_threaded_blas():  # waking a second thread costs more than it saves
            certified = presolve.certified(certified)
            other = None if other is None else presolve.certified(other)
    x, dual, model = problem.recover(declared, certified)
    if presolve is not None:
        model = presolve.model(model, problem.support(declared, np.ones(declared.m)))
    timings = dict(outcome.timings)
    exact_certificate = None
    if exact_problem is not None:
        before = time.perf_counter()
        exact_certificate = exact_kernel_certificate(exact_problem, certified.x, tol)
        timings["original"] = time.perf_counter() - before
    total = time.perf_counter() - begun
    setup = total - sum(
        seconds for key, seconds in timings.items() if key not in ("setup", "total")
    )
    return Result(
        x=x,
        dual=dual,
        status=outcome.status,
        certificate=certified.certificate,
        model=model,
        support=problem.support(declared, certified.x),
        n_iter=outcome.n_iter,
        history=outcome.history,
        timings=dict(timings, setup=setup, total=total),
        method=name,
        counters=counters,
        original=exact_certificate,
        reason=reason,
        direction=problem.ray(certified.x) if outcome.status is Status.INFEASIBLE else None,
        selection=outcome.selection,
        least_gap=other and Candidate(problem.recover(declared, other).x, other.certificate),
    )


def _polished(
    problem: Formulation[Model],
    method: str,
    polish: bool | str,
    x0: Any,
    tol: float,
    clock: Clock,
    common: dict[str, Any],
    options: dict[str, Any],
) -> Result[Model]:
    """Solve on the low-rank Gram, then from its answer on the exact kernel; certify there."""
    exact_problem = exact_kernel_problem(problem)
    by = find(
        exact_problem, polish if isinstance(polish, str) else "auto", {}, argument="polish"
    ).name
    first = _solved(
        problem, method, x0, min(tol, MAX_POLISH_START_GAP), clock, **common, options=options
    )
    if first.status in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK_STOP):
        common, by = dict(common, max_iter=0, callback=None), "smo"  # certify the answer so far
    start = at_bounds(problem, first.x)
    second = _solved(exact_problem, by, start, tol, clock, **common, options={})
    ended = common["max_iter"] == 0 and not second.converged
    timings = dict(second.timings, lowrank=first.timings["total"])
    timings["total"] = time.perf_counter() - clock.begun
    timings["setup"] += timings["total"] - first.timings["total"] - second.timings["total"]
    return replace(
        second,
        status=first.status if ended else second.status,
        n_iter=first.n_iter + second.n_iter,
        timings=timings,
        method=f"{first.method} + {second.method}",
        counters=first.counters | second.counters,
        original=second.certificate,
    )


def default_memory_limit() -> int:
    """Return a quarter of the memory that this process may use, in bytes: the same on every call."""
    return memory_bytes() // 4
