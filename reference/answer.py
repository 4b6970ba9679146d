"""Ask Clarabel or OSQP, polish, verify, and only then believe.

BLAS runs on one thread: these matrices are so small that a second one only gets in the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from threadpoolctl import threadpool_limits

from problems.instance import Instance
from reference.solving.pairs import PairTextbook
from reference.solving.polish import polish
from reference.textbook import (
    FORMULATIONS,
    Array,
    SolverError,
    Textbook,
    solve_standard_form,
)

EXACT = 1e-13
"""Verified relative error at which the primal is not asked after the dual."""

RELATIVE = 1e-8
"""Largest verified error, relative to the value, of an answer that is believed."""

ABSOLUTE = 1e-15
"""The same relative to the size of the data, for values near 0."""


class UnverifiedError(ArithmeticError):
    """No solver gave an answer whose bounds meet."""


@dataclass(frozen=True)
class Reference:
    """A verified answer.

    Attributes
    ----------
    value : float
        Value of the declared minimization problem at `x`.
    x : ndarray
        The declared variable.
    residual : float
        Bound on the error of `value`: the gap and the rounding of its two ends.
    solver : str
        Where the answer comes from.
    gap : float
        Upper minus lower bound, in extended precision, at least 0.
    """

    value: float
    x: np.ndarray
    residual: float
    solver: str
    gap: float


@cache
@threadpool_limits.wrap(limits=1)
def answer(instance: Instance) -> Reference:
    """Return the exact answer to an instance, by Clarabel through cvxpy.

    Raises
    ------
    UnverifiedError
        If neither primal nor dual gives an answer that its bounds verify.
    """
    form = FORMULATIONS[instance.family](instance.data())
    if isinstance(form, PairTextbook):
        found = verify_pair(form, "Clarabel")
        if found.residual <= RELATIVE * abs(found.value) + ABSOLUTE * form.scale:
            return found
        raise UnverifiedError(f"{instance.name}: not verified by {found}")
    tried: list[Reference] = []
    for name, ask in (("dual", form.dual), ("primal", form.primal)):
        try:
            x = ask().x
        except SolverError:
            continue
        tried.append(verify(form, x, f"Clarabel, {name}"))
        tried.append(verify(form, polish(form.standard_form(), x), f"Clarabel, {name}, polished"))
        best = min(tried, key=lambda reference: reference.residual)
        if best.residual <= EXACT * abs(best.value):
            return best  # no second opinion is needed: the bounds meet
    if tried and best.residual <= RELATIVE * abs(best.value) + ABSOLUTE * float(form.scale):
        return best
    raise UnverifiedError(f"{instance.name}: not verified by any of {tried}")


@cache
@threadpool_limits.wrap(limits=1)
def answer_osqp(instance: Instance) -> Reference:
    """Return OSQP's answer to an instance; its residual says how good it is."""
    form = FORMULATIONS[instance.family](instance.data())
    if isinstance(form, PairTextbook):
        return verify_pair(form, "OSQP")
    return verify(form, solve_standard_form(form.standard_form()), "OSQP")


def verify(form: Textbook, x: Array, solver: str) -> Reference:
    """Return x, made feasible, with its value and a bound on the error of it."""
    x = form.standard_form().repair(x)
    upper, lower = form.bounds(x)
    gap = max(float(upper - lower), 0.0)
    residual = float(gap + form.roundoff(x) + np.finfo(float).eps * abs(float(upper)))
    reported = form.report(x)
    reported.flags.writeable = False  # answers are kept and shared
    return Reference(float(upper), reported, residual, solver, gap)


def verify_pair(form: PairTextbook, solver: str) -> Reference:
    """Return the primal point of a pair with its value and a bound on the error of it."""
    w, a, _, _ = form.pair(solver)
    upper, lower = form.bounds(w, a)
    gap = max(float(upper - lower), 0.0)
    residual = float(gap + form.roundoff(w, a) + np.finfo(float).eps * abs(float(upper)))
    reported = form.report(w, a)
    reported.flags.writeable = False
    return Reference(float(upper), reported, residual, solver, gap)
