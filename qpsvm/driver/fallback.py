"""Fallbacks of ``method="auto"``: when a method stalls, the next one is warm-started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Form
from qpsvm.canonical.qp import QP
from qpsvm.clock import Expired
from qpsvm.driver.loop import Outcome, run
from qpsvm.driver.trace import Limits
from qpsvm.gram import SignedGram
from qpsvm.gram.column_store import MAX_POINTS_FILLED_AT_ONCE
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.repeated import distinct_points
from qpsvm.result import Status
from qpsvm.solvers.base import Solver
from qpsvm.solvers.methods import METHODS

FALLBACKS = {
    "smo": ("mnp", "crsvm", "pdipm"),
    "decomposition": ("mnp", "crsvm", "pdipm"),
    "mnp": ("smo",),
    "mfn": ("mnp",),
    "dcd": ("mfn", "crsvm", "pdipm"),
    "face-newton": ("decomposition",),
}
"""Fallbacks of a method that ends without a certificate: the first that fits is taken."""

WITHOUT_DENSE_MATRICES = ("decomposition", "mfn")
"""Fallbacks whose memory does not grow with the square of the number of points."""

DENSE_BYTES_PER_ENTRY = 24
"""Memory of the dense matrices of a fallback, in bytes per pair of points."""


class Stage(NamedTuple):
    """A method, its solver, and the reason for it."""

    name: str
    solver: Solver
    reason: str = ""


def run_with_fallbacks(
    form: Form,
    stage: Stage,
    x0: NDArray[np.float64] | None,
    limits: Limits,
    memory_limit: int,
    seed: int,
    *,
    named: bool = False,
) -> tuple[Outcome, Stage]:
    """Run a method and, where it stalls or is slow, its fallbacks; the stage returned names them.

    A method that the user `named` is kept: where it stalls with columns of a precision that it chose, it
    continues with columns in float64.
    """
    name, reason = stage.name, stage.reason
    form = _in_float64_if_small(form, stage.solver, memory_limit)

    @cache
    def fallback() -> str | None:  # evaluated on demand: loading another method takes time
        return None if named else _fallback(form, stage.name, memory_limit)

    def is_slow(state: Any) -> bool:
        return stage.solver.is_slow(form, state) and fallback() is not None

    ending_slow = replace(limits, is_slow=is_slow)
    outcome = run_with_store(form, stage.solver, x0, ending_slow, memory_limit, seed)
    next_stages = _next_stages(form, stage, fallback, named)
    ended = (Status.STALLED,) if named else (Status.STALLED, Status.MAX_ITER)
    while outcome.status in ended:
        following = next(next_stages, None)
        if following is None:
            break
        problem, method, solver, why = following
        gap = outcome.certified.certificate.relative_gap
        reason += f"{'; ' * bool(reason)}{why} at a relative gap of {gap:.1g}"
        name = name if method == stage.name else f"{name} + {method}"
        is_last = fallback() in (None, method)
        budget = outcome.n_iter + solver.default_max_iter(form)
        stage_limits = replace(limits if is_last else ending_slow, max_iter=budget)
        x = outcome.certified.x
        outcome = run_with_store(problem, solver, x, stage_limits, memory_limit, seed, outcome)
        if outcome.status is Status.NUMERICAL_ERROR:  # the numbers of the first method were finite
            outcome = replace(outcome, status=Status.STALLED)
    return outcome, Stage(name, stage.solver, reason)


def _fallback(form: Form, name: str, memory_limit: int) -> str | None:
    """Return the first fallback that fits the problem and whose dense matrices fit the memory."""
    if not isinstance(form, QP):
        return None
    dense_fits = DENSE_BYTES_PER_ENTRY * form.m**2 <= memory_limit
    keys = [key for key in FALLBACKS.get(name, ()) if dense_fits or key in WITHOUT_DENSE_MATRICES]
    return next((key for key in keys if METHODS[key].fits(form)), None)


def _next_stages(
    form: Form, stage: Stage, fallback: Callable[[], str | None], named: bool
) -> Iterator[tuple[Form, str, Solver, str]]:
    """Yield the stages after the first method: the problem, a name, the solver, and the reason.

    First the same method with columns in float64, where they had less precision: that of the points, or
    one that the method chose. Pair steps may have been slow for that reason alone. Then another method.
    The points in float64 are a copy, made on demand.
    """
    if not isinstance(form, QP) or not isinstance(form.gram, SignedGram):
        return
    precise, kernel, solver = form.to_float64(), form.gram.kernel, stage.solver
    lowered = solver.uses_full_gap and solver.low_precision(form)
    lowered = lowered and kernel.low_precision() is not kernel
    if solver.on_columns and (lowered or (precise is not form and not named)):
        yield precise, stage.name, solver, "warm start with columns in float64"
    name = fallback()
    make = None if name is None else METHODS[name].maker(precise)
    if name is not None and make is not None:
        yield precise, name, make(), f"warm start of {name}"


def _in_float64_if_small(form: Form, solver: Solver, memory_limit: int) -> Form:
    """Return a problem of few points in float32 with columns in float64.

    The test for positive semidefiniteness and the certificate then read the columns of the steps.
    """
    if not isinstance(form, QP) or not isinstance(form.gram, SignedGram):
        return form
    kernel = distinct_points(form.gram.kernel)
    if kernel.dtype == np.float64 or form.m > MAX_POINTS_FILLED_AT_ONCE:
        return form
    if not isinstance(kernel, PointGram):
        return form
    n_entries = form.m**2 + kernel.X.size
    is_read = solver.on_columns and not solver.low_precision(form)
    return form.to_float64() if is_read and 8 * n_entries <= memory_limit else form


def run_with_store(
    form: Form,
    solver: Solver,
    x0: NDArray[np.float64] | None,
    limits: Limits,
    memory_limit: int,
    seed: int,
    after: Outcome | None = None,
) -> Outcome:
    """Run a method with a store of columns that lives as long as the run."""
    form = _in_float64_if_small(form, solver, memory_limit)
    low_precision = after is None and solver.low_precision(form)
    solver, memory_limit = solver.within(form, memory_limit)
    with ExitStack() as stack:
        settings = {"low_precision": low_precision, "whole_columns": solver.whole_columns}
        store = form.with_store(memory_limit, **settings)
        try:
            with limits.clock.abandoning():
                problem = stack.enter_context(store)
        except Expired:  # the certificate needs a store too
            store = form.with_store(memory_limit, **settings)
            problem = stack.enter_context(store)
        return run(problem, solver, x0, limits, seed, after)
