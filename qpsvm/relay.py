"""Where ``method="auto"`` changes its mind: something else goes on from the answer so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.forms import QP, Form
from qpsvm.gram import SignedGram
from qpsvm.loop import Limits, Outcome, run
from qpsvm.result import Status
from qpsvm.solvers import METHODS, Solver

SECOND = {
    "smo": ("mnp", "crsvm"),
    "decomposition": ("mnp", "crsvm"),
    "mnp": ("smo",),
    "dcd": ("crsvm",),
}
"""What goes on, the first that fits, where a method ends without a certificate."""

PATIENCE = 10_000, 100
"""Pairs, and pairs a point, after which pairs are said to crawl where another method can go on.

Where they suit the problem, 1 to 6 pairs a point are enough, down to gaps of 1e-6.
"""

DENSE = 24
"""Bytes of memory, for each pair of points, that what follows may take for its dense matrices."""


class Leg(NamedTuple):
    """A method, its solver, and why it runs."""

    name: str
    solver: Solver
    reason: str = ""


def relay(
    form: Form,
    leg: Leg,
    x0: NDArray[np.float64] | None,
    limits: Limits,
    memory_limit: int,
    seed: int,
) -> tuple[Outcome, Leg]:
    """Run the method; where it stalls or crawls, what follows; say so in the name and the reason."""
    legs = [(form, leg.name, leg.solver, ""), *_followers(form, leg, memory_limit)]
    name, reason = leg.name, leg.reason
    outcome = None
    for problem, method, solver, why in legs:
        if outcome is not None:
            if outcome.status not in (Status.STALLED, Status.MAX_ITER):
                break
            gap = outcome.certified.certificate.relative_gap
            reason += f"; at a relative gap of {gap:.1g} {why}"
            name = name if method == leg.name else f"{name} + {method}"
            x0 = outcome.certified.x
            limits = replace(limits, max_iter=outcome.n_iter + solver.default_max_iter(form))
        few, each = PATIENCE
        patient = method == legs[-1][1]  # no other method is left
        these = limits if patient else replace(limits, most_pairs=few + each * form.m)
        outcome = lent(problem, solver, x0, these, memory_limit, seed, outcome)
    assert outcome is not None
    return outcome, Leg(name, leg.solver, reason)


def _followers(form: Form, leg: Leg, memory_limit: int) -> Iterator[tuple[Form, str, Solver, str]]:
    """Yield what is tried after the first method: the problem, a name, the solver, and why.

    The same method with columns in float64, where they had less; then another method.
    """
    name, solver, _ = leg
    if not isinstance(form, QP) or not isinstance(form.gram, SignedGram):
        return
    wide = form.wide()
    if wide is not form and solver.on_columns:
        yield wide, name, solver, "columns in float64 went on"
    fitting = [other for other in SECOND.get(name, ()) if METHODS[other].fits(form)]
    if fitting and DENSE * form.m**2 <= memory_limit:
        other = fitting[0]
        yield wide, other, METHODS[other].solver(), f"{other} went on"


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
    narrow = after is None and solver.narrow(form)
    with form.lend(memory_limit, narrow=narrow) as problem:
        return run(problem, solver, x0, limits, seed, after)
