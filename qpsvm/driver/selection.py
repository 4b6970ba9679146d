"""Which method solves a problem: the one that was named, or the one that ``"auto"`` stands for."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from qpsvm.canonical.base import Form
from qpsvm.canonical.margin import MarginProblem
from qpsvm.canonical.qp import HINGE, QP
from qpsvm.clock import Clock, Expired, completing
from qpsvm.domains import BoxHyperplane, PenaltyBox
from qpsvm.driver.presolve import Merging, merging
from qpsvm.errors import InputError, MethodMismatchError
from qpsvm.formulations import Formulation
from qpsvm.gram import SignedGram
from qpsvm.gram.cached import Cached
from qpsvm.gram.precomputed import Precomputed

BLOCKS = 1500
"""Points from which ``method="auto"`` prefers blocks of columns to the whole Gram matrix."""

LARGE = 1000
"""Points on a factor from which penalties and sizes decide."""

WEAK = 0.3
"""Mean of C_i |x_i|^2 below which most weights are at their bounds, and few Newton steps are needed."""

FIRM = 2.0
"""The same mean from which Newton steps do most of the work."""

CHEAP, DEAR = 1.0, 10.0
"""Cubed columns, for each entry of the points, up to which Newton matrices in the columns cost no more
than passes over the points do; and, of CSR points, from which they cost too much."""


MANY = 5000, 50_000
"""Points between which ``method="auto"`` asks a sample for the share of support vectors."""

MOST, SOFT = 0.5, 0.3
"""That share, and the mean ridge relative to the diagonal, from which Newton steps on the support pay."""


QUICK_SEARCH_POINTS = 10_000
"""Points up to which the search for copies is completed at any rate: it takes milliseconds."""


def check_problem(problem: Any) -> None:
    """Raise InputError unless it is a formulation."""
    if not isinstance(problem, Formulation):
        raise InputError(
            f"problem must be a formulation, such as MEBDual(K); got {type(problem).__name__}"
        )


def methods(problem: Formulation) -> list[str]:
    """Return the names of the methods that fit a problem, in the order of METHODS."""
    check_problem(problem)
    from qpsvm.solvers.methods import METHODS

    forms = problem.forms()
    return [name for name, entry in METHODS.items() if any(map(entry.fits, forms))]


class Choice(NamedTuple):
    """What solves a problem."""

    declared: Form
    name: str
    reason: str
    solver: Any
    merging: Merging | None  # of copies among its points

    @property
    def form(self) -> Form:
        """The form that is solved: over distinct points, where copies are merged."""
        return self.declared if self.merging is None else self.merging.small


def find(
    problem: Formulation,
    method: str,
    options: dict[str, Any],
    merge: bool | None = False,
    memory_limit: int = 0,
    clock: Clock | None = None,
    *,
    argument: str = "method",
) -> Choice:
    """Return what solves a problem; messages call the name by the `argument` that it came as.

    Copies are not merged, and no sample is drawn, where a limit of the clock is met on the way.

    Raises
    ------
    InputError
        If the name or an option is unknown.
    MethodMismatchError
        If the method does not fit the problem; the message names those that do.
    """
    from qpsvm.solvers.methods import METHODS

    clock = clock or Clock()
    found, name, reason = None, method, ""
    declared: Form | None = None
    if isinstance(method, str) and method == "auto":
        declared = problem.as_qp() or problem.as_margin()
        if merge or merge is None:
            found = _merging(declared, memory_limit, bool(merge), clock)
        name, reason = auto(declared if found is None else found.small, clock)
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(repr(key) for key in ("auto", *METHODS))
        raise InputError(f"{argument} must be one of {known}; got {method!r}")
    entry = METHODS[name]
    if declared is None:
        declared = problem.as_margin() if entry.form is MarginProblem else problem.as_qp()
        found = _merging(declared, memory_limit, True, clock) if merge else None
    form = declared if found is None else found.small
    maker = None if form is None else entry.maker(form)
    make = maker or entry.solver
    try:
        solver = make(**options)
    except TypeError:
        settings = [field.name for field in fields(make())]  # type: ignore[arg-type]
        raise InputError(
            f"options of method {name!r} are {settings}; got {sorted(options)}"
        ) from None
    if maker is None or declared is None:
        what = type(problem).__name__
        fitting = ", ".join(repr(key) for key in methods(problem))
        raise MethodMismatchError(f"method {name!r} cannot solve {what}; these can: {fitting}")
    if method == "auto" and found is not None:
        reason += f"; {found.n_copies:,} of {declared.m:,} points are copies of others, merged"
    return Choice(declared, name, reason, solver, found)


def _merging(form: Form | None, memory_limit: int, asked: bool, clock: Clock) -> Merging | None:
    """Return how copies are merged; None where they are not, or where a limit is met."""
    quick = form is None or form.m <= QUICK_SEARCH_POINTS
    try:
        with completing() if quick else clock.abandoning():
            return merging(form, memory_limit, asked=asked)
    except Expired:
        return None


def auto(qp: Form | None, clock: Clock | None = None) -> tuple[str, str]:
    """Return the method for a problem and why: the evidence is in docs/decisions.

    The first line that holds, and whose method fits, is taken.
    """
    from qpsvm.solvers.methods import METHODS

    if not isinstance(qp, QP):
        return "homotopy-nesvm", "there is no QP"

    X = qp.gram.kernel.factor() if isinstance(qp.gram, SignedGram) else None
    factor = X is not None and X.shape[1] <= qp.m
    few = "the Gram has a factor with no more columns than there are points"
    free = X is not None and isinstance(qp.domain, PenaltyBox)
    bias = X is not None and isinstance(qp.domain, BoxHyperplane)
    force, cubed, sparse = 1.0, 0.0, sp.issparse(X)  # few points: neither weak nor firm
    if X is not None and isinstance(qp.domain, HINGE) and qp.m >= LARGE:
        force = float(np.mean(qp.domain.upper * qp.gram.diag()))
        cubed = float(X.shape[1]) ** 3 / max(X.nnz if sparse else X.size, 1)
    dear = sparse and cubed > DEAR
    firm = free and factor and force > FIRM and not dear
    sweeps = bias and (
        (factor and dear)
        or (cubed > CHEAP and force < WEAK)
        or (sparse and not factor and force < FIRM)  # by conjugate gradients, without matrices
    )
    newton = X is None and _mostly_support(qp, clock or Clock())
    rules = (
        (firm, "crsvm", "the Gram has a factor with few columns and the penalties are large"),
        (free, "dcd", "the Gram has a factor and no bias ties the coordinates together"),
        (sweeps, "dcd", "the Gram has a factor whose matrices cost more than passes over it"),
        (factor, "crsvm", few),
        (X is not None, "mfn", "the Gram has a factor, and a few Newton steps in its columns do"),
        (factor, "mnp", few),
        (newton, "face-newton", "columns of a sample foretell that most points have weight"),
        (qp.m >= BLOCKS, "decomposition", f"columns in blocks, from {BLOCKS:,} points on"),
        (True, "smo", f"pairs of columns, below {BLOCKS:,} points"),
        (True, "apg", "the domain has a projection"),
        (True, "bpfw", "the domain has a linear minimiser and no projection"),
    )
    fitting = (rule[1:] for rule in rules if rule[0] and METHODS[rule[1]].fits(qp))
    return next(fitting, ("bpfw", "nothing else is left"))


def _mostly_support(qp: QP, clock: Clock) -> bool:
    """Return whether most points are support vectors, as a sample foretells, and the ridge is firm.

    With fewer, or a ridge that leaves more to precondition, pairs in blocks of columns are faster.
    Columns that are held anyway are for methods that read them.
    """
    from qpsvm.solvers.methods import METHODS

    if not MANY[0] <= qp.m <= MANY[1] or not METHODS["face-newton"].fits(qp):
        return False
    if isinstance(qp.gram.kernel, Cached | Precomputed):
        return False
    from qpsvm.solvers.newton.low_rank_model import share_of_support

    firm = float(np.mean(qp.gram.ridge)) >= SOFT * float(np.mean(qp.gram.diag()))
    try:
        with clock.abandoning():
            return firm and share_of_support(qp) >= MOST
    except Expired:
        return False
