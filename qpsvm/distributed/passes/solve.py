"""Linear machines and balls over chunked rows by passes: from the formulation to the result."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.distributed.group import ShardGroup
from qpsvm.distributed.kernel_sums import moved, stacked
from qpsvm.distributed.passes.ball import MAX_CORE_ROWS, BallPasses, Core, CoreSetPasses
from qpsvm.distributed.passes.hinge import (
    SAMPLE_ROWS,
    HingePasses,
    NewtonPasses,
    restart,
    sample_start,
)
from qpsvm.distributed.placement import make_group
from qpsvm.driver.loop import Outcome, run
from qpsvm.driver.selection import solver_with
from qpsvm.driver.trace import Limits
from qpsvm.errors import InputError, check_vector
from qpsvm.expansion import Expansion, Normal
from qpsvm.formulations import Formulation, HingeDual, HingePrimal, MEBDual
from qpsvm.gram import Linear
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.model_features import LinearMap
from qpsvm.gram.translation import bias_of
from qpsvm.models import Ball, Hyperplane
from qpsvm.result import Result

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_FEATURES_IN_PASSES = 1000
"""Number of features up to which passes sum a Hessian: it has its square of entries."""


def method_of_passes(dual: Any, kernel: PointGram) -> str | None:
    """Return the method that reads rows in passes, where one fits: plain features alone.

    The hinge machine has a soft margin.
    """
    if type(kernel) is not Linear:
        return None
    if isinstance(dual, MEBDual):
        return "core-set-passes"
    few = kernel.X.shape[1] <= MAX_FEATURES_IN_PASSES
    is_soft = isinstance(dual, HingeDual) and bool(np.isfinite(dual.C).all())
    return "newton-passes" if few and is_soft else None


def solve_in_passes(
    problem: Formulation,
    dual: Any,
    kernel: PointGram,
    x0: Any,
    limits: Limits,
    seconds_to_answer: float,
    seed: int,
    options: dict[str, Any],
) -> Result:
    """Solve by a pass over the rows for each iteration: see `qpsvm.solve`."""
    begun = time.perf_counter()
    is_ball = isinstance(dual, MEBDual)
    name, kind = ("core-set-passes", CoreSetPasses) if is_ball else ("newton-passes", NewtonPasses)
    solver: Any = solver_with(kind, name, {"target": limits.tol} | options)
    shards = make_group(kernel, limits.clock.end + seconds_to_answer, in_passes=True)
    try:
        form: BallPasses | HingePasses
        if is_ball:
            form, start = ball_of(shards, x0)
        else:
            form, start = hinge_of(problem, dual, shards, x0, limits)
        if limits.max_iter < 0:
            limits = replace(limits, max_iter=solver.default_max_iter(form))
        outcome = run(form, solver, start, limits, seed)
        answer: Any = _ball if is_ball else _machine
        x, other, model = answer(problem, form, outcome)
    finally:
        shards.close()
    weights = other if isinstance(problem, HingePrimal) else x
    total = time.perf_counter() - begun
    timings = dict(outcome.timings, total=total)
    timings["setup"] = total - timings["iterate"] - timings["certify"]
    return Result(
        x=x,
        dual=other,
        status=outcome.status,
        certificate=outcome.certified.certificate,
        model=model,
        support=np.flatnonzero(weights != 0),
        n_iter=outcome.n_iter,
        history=outcome.history,
        timings=timings,
        method=name,
        counters=outcome.counters | shards.counters,
        reason=f"plain features of rows in {shards.n} shards",
        selection=outcome.selection,
    )


def first_pass(
    shards: ShardGroup, n_rows: int, *, moves: bool
) -> tuple[Vector | None, Any, Indices]:
    """Return the mean of dense rows where they are to be moved, a sample of the rows, its indices."""
    m = shards.layout.points.shape[0]
    found = shards.call("summary", max(1, m // n_rows))
    rows = [shards.layout.index(k, part.places) for k, part in enumerate(found)]
    X = stacked(*[part.sample for part in found])
    moves = moves and not sp.issparse(X)
    origin = sum(part.total for part in found) / m if moves else None
    return origin, X, np.concatenate(rows)


def hinge_of(
    problem: Formulation, dual: HingeDual, shards: ShardGroup, x0: Any, limits: Limits
) -> tuple[HingePasses, Vector]:
    """Return the form of a hinge machine, and its start."""
    layout = shards.layout
    m, n = layout.points.shape
    origin, X, rows = first_pass(shards, SAMPLE_ROWS, moves=dual.bias)
    labels, C = dual.y.astype(np.int8), dual.C
    is_uniform = bool(np.all(C == C[0]))

    def begin(k: int) -> tuple[Any, ...]:
        own = layout.rows(k)
        return labels[own], C[:1] if is_uniform else C[own], origin

    shards.call("start", each=[begin(k) for k in range(shards.n)])
    shards.restore = lambda k: shards.call_one(k, "start", *begin(k))
    form = HingePasses(
        shards=shards, m=m, n=n, origin=origin, total_penalty=float(np.sum(C)), bias=dual.bias,
        declares_dual=not isinstance(problem, HingePrimal),
    )  # fmt: skip
    y, own = dual.y[rows], C[rows]
    own = own * (form.total_penalty / float(np.sum(own))) if np.any(own) else own + 1.0
    if x0 is None:
        return form, sample_start(form, X, y, own, limits.tol, limits.clock)
    return form, restart(form, *hyperplane_of(form, x0), X, y, own, limits.tol)


def ball_of(shards: ShardGroup, x0: Any) -> tuple[BallPasses, Vector]:
    """Return the form of a ball, and its start: all weight on one row.

    Raises
    ------
    InputError
        If a starting point is given: the core of an earlier answer is not kept.
    """
    if x0 is not None:
        raise InputError("x0 must be None for the ball of rows that are read in passes")
    m, n = shards.layout.points.shape
    origin, X, rows = first_pass(shards, 1, moves=True)

    def begin() -> tuple[Any, ...]:
        return np.ones(1, np.int8), 1.0, origin

    shards.call("start", each=[begin()] * shards.n)
    shards.restore = lambda k: shards.call_one(k, "start", *begin())
    core = Core(rows[:1], moved(X[:1], origin, np.float64))
    form = BallPasses(shards=shards, m=m, n=n, origin=origin, core=core)
    return form, np.eye(1, MAX_CORE_ROWS)[0]


def hyperplane_of(form: HingePasses, x0: Any) -> tuple[Vector, float]:
    """Return w and b, in the user's coordinates, of an earlier result or of an array (w, b).

    Raises
    ------
    InputError
        If x0 is neither, or of another number of features.
    """
    if isinstance(x0, Result):
        w, b = getattr(x0.model, "w", None), getattr(x0.model, "b", 0.0)
        if w is None or len(w) != form.n:
            raise InputError(f"x0 must be a linear machine of {form.n} features; got {x0.model}")
        return np.asarray(w, np.float64), float(b)
    if form.declares_dual:
        raise InputError(
            "x0 must be an earlier result where rows are read in passes; got an array of weights"
        )
    values = check_vector("x0", x0, form.n + form.bias)
    return values[: form.n], float(values[-1]) if form.bias else 0.0


def _machine(
    problem: Any, form: HingePasses, outcome: Outcome
) -> tuple[Vector, Vector, Hyperplane]:
    """Return x, its dual and the machine; one more pass gathers the weights of the rows."""
    x = outcome.certified.x
    w, b, _ = form.split(x)
    w, b = w.copy(), bias_of(w, b, form.origin) if form.bias else 0.0
    scales, _ = form.dual(form.product(x))
    weights = np.empty(form.m)
    for k, part in enumerate(form.shards.call("weights", *form.split(x), scales)):
        weights[form.shards.layout.rows(k)] = part
    model = Hyperplane(b, Normal(LinearMap(form.n, None), w), w)
    if isinstance(problem, HingePrimal):
        return np.append(w, b) if form.bias else w, weights, model
    return weights, np.array([b] if form.bias else []), model


def _ball(problem: Any, form: BallPasses, outcome: Outcome) -> tuple[Vector, Vector, Ball]:
    """Return the weights of all rows, the squared radius, and the ball."""
    certified, core = outcome.certified, form.core
    own, bounds = certified.x[: len(core.places)], certified.certificate
    some, weights = np.flatnonzero(own), np.zeros(form.m)
    weights[core.places] = own
    center = form.center(certified.x) + (0.0 if form.origin is None else form.origin)
    model = Ball(
        radius=float(np.sqrt(max(-bounds.lower, 0.0))),
        radius_lower=float(np.sqrt(max(-bounds.upper, 0.0))),
        expansion=Expansion(LinearMap(form.n, None), core.places[some], own[some], center),
        center_square=float(center @ center),
        center=center,
    )
    return weights, certified.multipliers, model
