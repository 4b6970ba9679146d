"""Where ``method="auto"`` changes its mind: something else goes on from the answer so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Form
from qpsvm.canonical.qp import QP
from qpsvm.clock import Expired
from qpsvm.driver.loop import Outcome, run
from qpsvm.driver.trace import Limits
from qpsvm.gram import SignedGram
from qpsvm.result import Status
from qpsvm.solvers.base import Solver
from qpsvm.solvers.methods import METHODS

FALLBACKS = {
    "smo": ("mnp", "crsvm"),
    "decomposition": ("mnp", "crsvm"),
    "mnp": ("smo",),
    "mfn": ("mnp",),
    "dcd": ("crsvm",),
    "face-newton": ("decomposition",),
}
"""What goes on, the first that fits, where a method ends without a certificate."""

PATIENCE = 10_000, 100
"""Pairs, and pairs a point, after which pairs are said to crawl where another method can go on.

Where they suit the problem, 1 to 6 pairs a point are enough, down to gaps of 1e-6.
"""

DENSE = 24
"""Bytes of memory, for each pair of points, that what follows may take for its dense matrices."""


class Stage(NamedTuple):
    """A method, its solver, and why it runs."""

    name: str
    solver: Solver
    reason: str = ""


def relay(
    form: Form,
    leg: Stage,
    x0: NDArray[np.float64] | None,
    limits: Limits,
    memory_limit: int,
    seed: int,
) -> tuple[Outcome, Stage]:
    """Run the method; where it stalls or crawls, what follows; say so in the name and the reason."""
    name, reason = leg.name, leg.reason
    few, each = PATIENCE

    @cache
    def other() -> str | None:  # asked for where it is needed: to load another method takes time
        return _other(form, leg.name, memory_limit)

    def crawls(pairs: int) -> bool:
        return pairs > few + each * form.m and other() is not None

    hasty = replace(limits, is_slow=crawls)
    outcome = lent(form, leg.solver, x0, hasty, memory_limit, seed)
    followers = _followers(form, leg, other)
    while outcome.status in (Status.STALLED, Status.MAX_ITER):
        follower = next(followers, None)
        if follower is None:
            break
        problem, method, solver, why = follower
        gap = outcome.certified.certificate.relative_gap
        reason += f"; at a relative gap of {gap:.1g} {why}"
        name = name if method == leg.name else f"{name} + {method}"
        patient = other() in (None, method)  # no other method is left
        most = outcome.n_iter + solver.default_max_iter(form)
        these = replace(limits if patient else hasty, max_iter=most)
        x = outcome.certified.x
        outcome = lent(problem, solver, x, these, memory_limit, seed, outcome)
    return outcome, Stage(name, leg.solver, reason)


def _other(form: Form, name: str, memory_limit: int) -> str | None:
    """Return the method that goes on, where one fits and its dense matrices have room."""
    if not isinstance(form, QP):
        return None
    roomy = DENSE * form.m**2 <= memory_limit
    keys = [key for key in FALLBACKS.get(name, ()) if roomy or key == "decomposition"]
    return next((key for key in keys if METHODS[key].fits(form)), None)


def _followers(
    form: Form, leg: Stage, other: Callable[[], str | None]
) -> Iterator[tuple[Form, str, Solver, str]]:
    """Yield what is tried after the first method: the problem, a name, the solver, and why.

    The same method with columns in float64, where they had less; then another method. The points in
    float64 are a copy: it is made when it is asked for.
    """
    if not isinstance(form, QP) or not isinstance(form.gram, SignedGram):
        return
    wide = form.to_float64()
    if wide is not form and leg.solver.on_columns:
        yield wide, leg.name, leg.solver, "columns in float64 went on"
    name = other()
    if name is not None:
        yield wide, name, METHODS[name].solver(), f"{name} went on"


def lent(
    form: Form,
    solver: Solver,
    x0: NDArray[np.float64] | None,
    limits: Limits,
    memory_limit: int,
    seed: int,
    after: Outcome | None = None,
) -> Outcome:
    """Run with memory that is lent for the time of the run."""
    narrow = after is None and solver.low_precision(form)
    solver, memory_limit = solver.within(form, memory_limit)
    with ExitStack() as loans:
        try:
            with limits.clock.abandoning():
                problem = loans.enter_context(form.with_store(memory_limit, low_precision=narrow))
        except Expired:  # a loan is needed for the certificate alone
            problem = loans.enter_context(form.with_store(memory_limit, low_precision=narrow))
        return run(problem, solver, x0, limits, seed, after)
