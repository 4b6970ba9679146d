"""The choice of a method: the one that was named, or the one that ``"auto"`` selects."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from qpsvm.canonical.base import Form
from qpsvm.canonical.margin import MarginProblem
from qpsvm.canonical.penalty_gap import HINGE_DOMAINS
from qpsvm.canonical.qp import QP
from qpsvm.clock import Clock, Expired, completing
from qpsvm.domains import BoxHyperplane, PenaltyBox
from qpsvm.driver.presolve import Presolve, presolve
from qpsvm.errors import InputError, MethodMismatchError
from qpsvm.formulations import Formulation
from qpsvm.gram import SignedGram
from qpsvm.gram.cached import Cached
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.precomputed import Precomputed
from qpsvm.gram.repeated import RepeatedGram, distinct_points
from qpsvm.solvers.smo.trial import is_worth_a_trial

MIN_POINTS_FOR_BLOCKS = 2000
"""Number of points from which ``method="auto"`` prefers blocks of columns to pairs."""

MIN_REPEATED_POINTS_FOR_BLOCKS = 500
"""The same of points that occur with both signs, whose columns other methods read twice as long."""

MIN_POINTS_FOR_PENALTY_RULES = 1000
"""Number of points of a factor from which penalties and sizes enter the choice."""

WEAK_PENALTY_MEAN = 0.3
"""Mean of C_i |x_i|^2 below which most weights are at their bounds, and few Newton steps are needed."""

STRONG_PENALTY_MEAN = 2.0
"""The same mean, above which Newton steps do most of the work."""

MAX_PENALTY_MEAN_FOR_PAIRS = 20.0
"""The same mean, up to which pair steps on few points are likely to be few."""

CHEAP_MATRIX_RATIO = 1.0
"""Cubed number of columns per entry of the points up to which Newton matrices in the columns cost no
more than passes over the points."""

COSTLY_MATRIX_RATIO = 10.0
"""The same ratio for CSR points, above which Newton matrices cost too much."""

MIN_NEWTON_PASSES = 16.0
"""Cost of the Newton steps of a squared loss, in passes over the factor, from which sweeps are tried."""

WEAK_SQUARED_PENALTY_MEAN = 1.0
"""Mean of |x_i|^2 / D_i below which they are tried from fewer passes on."""

MIN_NEWTON_PASSES_IF_WEAK = 11.0
"""This number of passes."""

MIN_POINTS_FOR_SAMPLE = 5000
"""Number of points from which ``method="auto"`` estimates the share of support vectors by a sample."""

MAX_POINTS_FOR_SAMPLE = 50_000
"""Number of points up to which that share is estimated."""

MIN_SUPPORT_SHARE = 0.35
"""Share of support vectors from which Newton steps on the support are chosen."""

MAX_REST_RATIO = 0.06
"""Error of a factor of low rank on the diagonal, relative to the ridge, up to which these are chosen."""

QUICK_SEARCH_POINTS = 10_000
"""Number of points up to which the search for duplicates is always completed: it takes milliseconds."""


def check_problem(problem: Any) -> None:
    """Raise InputError unless it is a formulation."""
    if not isinstance(problem, Formulation):
        raise InputError(
            f"problem must be a formulation, such as MEBDual(K); got {type(problem).__name__}"
        )


def methods(problem: Formulation) -> list[str]:
    """Return the names of the methods that fit a problem, in the order of METHODS.

    Examples
    --------
    >>> from qpsvm import LSSVMPrimal, methods
    >>> methods(LSSVMPrimal([[0.0], [1.0]], [-1, 1]))
    ['nesvm', 'homotopy-nesvm']
    """
    check_problem(problem)
    from qpsvm.solvers.methods import METHODS

    forms = problem.forms()
    return [name for name, entry in METHODS.items() if any(map(entry.fits, forms))]


class Choice(NamedTuple):
    """The form, the method and the solver of a problem, and the reason."""

    declared: Form
    name: str
    reason: str
    solver: Any
    presolve: Presolve | None  # where duplicates among its points are merged

    @property
    def form(self) -> Form:
        """The form that is solved: over distinct points, where duplicates are merged."""
        return self.declared if self.presolve is None else self.presolve.reduced


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
    """Return the choice for a problem; `argument` is the name of the argument `method` in messages.

    Duplicates are not merged, and no sample is drawn, where a limit of the clock is met before.

    Raises
    ------
    InputError
        If the name or an option is unknown.
    MethodMismatchError
        If the method does not fit the problem; the message names those that do.
    """
    from qpsvm.solvers.methods import METHODS

    clock = clock or Clock()
    presolved, name, reason = None, method, ""
    declared: Form | None = None
    if isinstance(method, str) and method == "auto":
        declared = problem.as_qp() or problem.as_margin()
        if merge or merge is None:
            presolved = _presolved(declared, memory_limit, bool(merge), clock)
        name, reason = auto(declared if presolved is None else presolved.reduced, clock)
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(repr(key) for key in ("auto", *METHODS))
        raise InputError(f"{argument} must be one of {known}; got {method!r}")
    entry = METHODS[name]
    if declared is None:
        declared = problem.as_margin() if entry.form is MarginProblem else problem.as_qp()
        presolved = _presolved(declared, memory_limit, True, clock) if merge else None
    form = declared if presolved is None else presolved.reduced
    maker = None if form is None else entry.maker(form)
    make = maker or entry.solver
    solver = solver_with(make, name, options)
    if maker is None or declared is None:
        kind = type(problem).__name__
        fitting = ", ".join(repr(key) for key in methods(problem))
        raise MethodMismatchError(f"method {name!r} cannot solve {kind}; these can: {fitting}")
    if method == "auto" and presolved is not None:
        n, m = presolved.n_duplicates, presolved.n_points
        reason += f"; {n:,} of {m:,} points are duplicates, merged"
    return Choice(declared, name, reason, solver, presolved)


def solver_with(make: Any, name: str, options: dict[str, Any]) -> Any:
    """Return the solver of a method with its options; raise InputError for an unknown one."""
    try:
        return make(**options)
    except TypeError:
        settings = [field.name for field in fields(make())]
        raise InputError(
            f"options of method {name!r} are {settings}; got {sorted(options)}"
        ) from None


def _presolved(form: Form | None, memory_limit: int, asked: bool, clock: Clock) -> Presolve | None:
    """Return the presolve; None where no duplicates are merged, or where a limit is met."""
    quick = form is None or form.m <= QUICK_SEARCH_POINTS
    try:
        with completing() if quick else clock.abandoning():
            return presolve(form, memory_limit, asked=asked)
    except Expired:
        return None


def auto(qp: Form | None, clock: Clock | None = None) -> tuple[str, str]:
    """Return the method for a problem and the reason; docs/decisions has the evidence.

    The first rule that holds and whose method fits is taken.
    """
    from qpsvm.solvers.methods import METHODS

    if not isinstance(qp, QP):
        return "homotopy-nesvm", "there is no QP"

    X = distinct_points(qp.gram.kernel).factor() if isinstance(qp.gram, SignedGram) else None
    factor = X is not None and X.shape[1] <= qp.m
    short_factor = "the Gram has a factor with no more columns than there are points"
    free = X is not None and isinstance(qp.domain, PenaltyBox)
    bias = X is not None and isinstance(qp.domain, BoxHyperplane)
    penalty, cubed, sparse = 1.0, 0.0, sp.issparse(X)  # few points: neither weak nor strong
    if (
        X is not None
        and isinstance(qp.domain, HINGE_DOMAINS)
        and qp.m >= MIN_POINTS_FOR_PENALTY_RULES
    ):
        penalty = float(np.mean(qp.domain.upper * qp.gram.diag()))
        cubed = _cubed_columns(X)
    costly = sparse and cubed > COSTLY_MATRIX_RATIO
    squared = X is not None and METHODS["mfn"].fits(qp)
    strong = free and factor and penalty > STRONG_PENALTY_MEAN and not costly
    sweeps = bias and (
        (factor and costly)
        or (cubed > CHEAP_MATRIX_RATIO and penalty < WEAK_PENALTY_MEAN)
        # by conjugate gradients, without matrices
        or (sparse and not factor and penalty < STRONG_PENALTY_MEAN)
    )
    newton = X is None and _mostly_support(qp, clock or Clock())
    m, fewest = qp.m, MIN_POINTS_FOR_BLOCKS
    if isinstance(qp.gram.kernel, RepeatedGram):
        m, fewest = qp.gram.kernel.gram.m, MIN_REPEATED_POINTS_FOR_BLOCKS
    rules = (
        (strong, "crsvm", "the Gram has a factor with few columns and the penalties are large"),
        (free, "dcd", "the Gram has a factor and no bias couples the coordinates"),
        (sweeps, "dcd", "the Gram has a factor whose matrices cost more than passes over it"),
        (
            bias and factor and _tries_pairs(qp, X),
            "smo",
            "few points, on which pair steps may take less time than an interior-point method",
        ),
        (factor, "crsvm", short_factor),
        (bias and factor, "dcd", short_factor),
        (
            squared and _tries_sweeps(qp, X),
            "dcd",
            "the Gram has a factor, over which sweeps may take less time than Newton steps",
        ),
        (
            squared,
            "mfn",
            "the Gram has a factor, and a few Newton steps in its columns suffice",
        ),
        (factor, "mnp", short_factor),
        (newton, "face-newton", "a sample predicts many support vectors and a short factor"),
        (
            m >= fewest,
            "decomposition",
            f"columns in blocks, from {fewest:,} points on",
        ),
        (m < fewest, "smo", f"pairs of columns, below {fewest:,} points"),
        (True, "smo", "columns one or two at a time"),
        (True, "apg", "the domain has a projection"),
        (True, "bpfw", "the domain has a linear minimizer and no projection"),
    )
    fitting = (rule[1:] for rule in rules if rule[0] and METHODS[rule[1]].fits(qp))
    return next(fitting, ("bpfw", "nothing else is left"))


def _tries_pairs(qp: QP, X: Any) -> bool:
    """Return whether pair steps with a bias on a factor X are tried: on few points, at no large C."""
    if not isinstance(qp.gram.kernel, PointGram) or not is_worth_a_trial(*X.shape):
        return False
    upper: Any = qp.domain.upper  # type: ignore[attr-defined]
    return bool(np.isfinite(upper).all()) and (
        float(np.mean(upper * qp.gram.diag())) <= MAX_PENALTY_MEAN_FOR_PAIRS
    )


def _tries_sweeps(qp: QP, X: Any) -> bool:
    """Return whether Newton steps of a squared loss on the factor X cost more than to try sweeps."""
    from qpsvm.solvers.coordinate_descent.dcd import newton_passes

    weak = float(np.mean(qp.gram.kernel.diag() / qp.gram.ridge)) < WEAK_SQUARED_PENALTY_MEAN
    return newton_passes(X) >= (MIN_NEWTON_PASSES_IF_WEAK if weak else MIN_NEWTON_PASSES)


def _cubed_columns(X: Any) -> float:
    """Return the cubed number of columns per stored entry of a factor: a matrix's cost in passes."""
    return float(X.shape[1]) ** 3 / max(X.size, 1)


def _mostly_support(qp: QP, clock: Clock) -> bool:
    """Return whether a sample predicts many support vectors, and a factor that is accurate enough.

    With fewer, or a factor that leaves more beside the ridge, pair steps in blocks of columns are faster.
    A Gram with cached columns is for the methods that read them.
    """
    from qpsvm.solvers.methods import METHODS

    if not MIN_POINTS_FOR_SAMPLE <= qp.m <= MAX_POINTS_FOR_SAMPLE or not METHODS[
        "face-newton"
    ].fits(qp):
        return False
    if isinstance(qp.gram.kernel, Cached | Precomputed):
        return False
    from qpsvm.solvers.newton.low_rank_model import sample_model

    try:
        with clock.abandoning():
            found = sample_model(qp)
    except Expired:
        return False
    return found.share >= MIN_SUPPORT_SHARE and found.rest_ratio <= MAX_REST_RATIO
