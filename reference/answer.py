"""Ask Clarabel or OSQP, polish, verify, and only then believe.

BLAS runs on one thread: these matrices are so small that a second one only gets in the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from problems.instance import Instance
from reference.declared import instance_of
from reference.solving.pairs import PairTextbook
from reference.solving.polish import polish
from reference.textbook import (
    TEXTBOOK_CLASSES,
    Array,
    SolverError,
    Textbook,
    solve_standard_form,
)

EXACT_ERROR = 1e-13
"""Verified relative error at which the primal is not asked after the dual."""

MAX_RELATIVE_ERROR = 1e-8
"""Largest verified error, relative to the value, of an answer that is believed."""

MAX_ABSOLUTE_ERROR = 1e-15
"""The same relative to the size of the data, for values near 0."""


OTHER_FAMILIES: dict[str, Callable[[Instance], Reference]] = {}
"""Functions that answer families which are no machines, entered by `reference.programs.general`."""


OTHER_FAMILIES_BY_OSQP: dict[str, Callable[[Instance], Reference]] = {}
"""The same by OSQP."""


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


@threadpool_limits.wrap(limits=1)
def ask_clarabel(instance: Instance) -> Reference:
    """Return the answer to an instance of a family of `TEXTBOOK_CLASSES`; `answer` documents it."""
    if instance.family in OTHER_FAMILIES:
        return OTHER_FAMILIES[instance.family](instance)
    form = TEXTBOOK_CLASSES[instance.family](instance.data())
    if isinstance(form, PairTextbook):
        found = verify_pair(form, "Clarabel")
        if (
            found.residual
            <= MAX_RELATIVE_ERROR * abs(found.value) + MAX_ABSOLUTE_ERROR * form.scale
        ):
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
        if best.residual <= EXACT_ERROR * abs(best.value):
            return best  # no second opinion is needed: the bounds meet
    if tried and best.residual <= MAX_RELATIVE_ERROR * abs(best.value) + MAX_ABSOLUTE_ERROR * float(
        form.scale
    ):
        return best
    raise UnverifiedError(f"{instance.name}: not verified by any of {tried}")


answers_of_instances = cache(ask_clarabel)
"""Answers to instances of the catalogue, each asked for once."""


@wraps(ask_clarabel, assigned=())
def answer(problem: Any) -> Reference:
    """Return the exact answer to a problem, by Clarabel through cvxpy.

    Parameters
    ----------
    problem : Instance or formulation
        An instance of the catalogue, whose answer is kept, or a problem that a user declared
        (`reference.declared.instance_of` says which). The kernel matrix is formed, (m, m) in
        extended precision: some thousand points are the limit.

    Returns
    -------
    Reference
        Value and variable of the declared minimization problem, with a bound on the error.

    Raises
    ------
    UnverifiedError
        If no solver gives an answer that its bounds verify.
    ValueError
        If the reference has no such problem.

    Examples
    --------
    >>> import qpsvm, reference
    >>> X, y = [[0.0, 1.0], [1.0, 2.0], [3.0, 0.0], [4.0, 1.0]], [1, 1, -1, -1]
    >>> problem = qpsvm.PolytopeDistanceDual(qpsvm.Linear(X), y)
    >>> round(reference.answer(problem).value, 9)  # half the squared distance
    4.0
    """
    if isinstance(problem, Instance):
        return answers_of_instances(problem)
    instance = instance_of(problem)
    return ask_clarabel(instance)


def answer_osqp(problem: Any) -> Reference:
    """Return OSQP's answer to an instance or a declared problem; its residual says how good it is."""
    return _answer_osqp(problem if isinstance(problem, Instance) else instance_of(problem))


@cache
@threadpool_limits.wrap(limits=1)
def _answer_osqp(instance: Instance) -> Reference:
    """Return OSQP's answer to an instance."""
    if instance.family in OTHER_FAMILIES_BY_OSQP:
        return OTHER_FAMILIES_BY_OSQP[instance.family](instance)
    form = TEXTBOOK_CLASSES[instance.family](instance.data())
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
