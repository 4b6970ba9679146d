"""Linear machines and balls over chunked rows by passes: from the formulation to the result."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.passes.ball import BallPasses, CoreSetPasses
from qpsvm.distributed.passes.declare import ball_of, machine_of
from qpsvm.distributed.passes.interior.method import PredictorCorrectorPasses
from qpsvm.distributed.passes.interior.reduced import ConstraintReducedPasses
from qpsvm.distributed.passes.margin import MarginPasses
from qpsvm.distributed.passes.nesterov import GradientPasses
from qpsvm.distributed.passes.newton import NewtonPasses
from qpsvm.distributed.passes.projected.method import ProjectedGradientPasses
from qpsvm.distributed.placement import make_group
from qpsvm.driver.certificate import certify
from qpsvm.driver.loop import Outcome, run
from qpsvm.driver.selection import solver_with
from qpsvm.driver.trace import Limits
from qpsvm.expansion import Expansion, Normal
from qpsvm.formulations import Formulation, HingeDual, HingePrimal, L2SVMDual, MEBDual
from qpsvm.gram import Linear
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.model_features import LinearMap
from qpsvm.gram.translation import bias_of
from qpsvm.models import Ball, Hyperplane
from qpsvm.result import Result

Vector = NDArray[np.float64]

MAX_FEATURES_IN_PASSES = 1000
"""Maximum number of features at which passes sum a Hessian, whose entries are its square."""

SOLVERS_IN_PASSES: dict[str, Any] = {
    "newton-passes": NewtonPasses,
    "mfn": NewtonPasses,
    "nesvm": GradientPasses,
    "pdipm": PredictorCorrectorPasses,
    "crsvm": ConstraintReducedPasses,
    "apg": ProjectedGradientPasses,
    "core-set-passes": CoreSetPasses,
}
"""Methods that read rows in passes, by name."""

GRADIENT_METHODS = ("nesvm", "apg")
"""Methods in passes that make gradient steps alone: `auto` takes decomposition instead of them."""


def methods_of_passes(dual: Any, kernel: PointGram) -> tuple[str, ...]:
    """Return the methods in passes that fit, the fastest first.

    They take plain features alone: balls, and linear machines with finite penalties.
    """
    if type(kernel) is not Linear:
        return ()
    if isinstance(dual, MEBDual):
        return ("core-set-passes",)
    if not isinstance(dual, (HingeDual, L2SVMDual)) or not np.isfinite(dual.C).all():
        return ()
    if kernel.X.shape[1] > MAX_FEATURES_IN_PASSES:
        return ("nesvm",)
    is_positive = bool(np.all(dual.C > 0.0))
    projected = ("apg",) if is_positive else ()
    if isinstance(dual, L2SVMDual):
        return ("mfn", "nesvm", *projected)
    interior = ("pdipm", "crsvm") if is_positive else ()
    return ("newton-passes", *interior, "nesvm", *projected)


def default_in_passes(methods: tuple[str, ...]) -> str:
    """Return the method that `auto` takes: the first that fits and makes more than gradient steps.

    Otherwise it is decomposition, which takes fewer seconds than hundreds of passes where the workers can
    hold the rows.
    """
    return next((name for name in methods if name not in GRADIENT_METHODS), "decomposition")


def solve_in_passes(
    problem: Formulation,
    dual: Any,
    kernel: PointGram,
    name: str,
    x0: Any,
    limits: Limits,
    seed: int,
    options: dict[str, Any],
) -> Result:
    """Solve by the method of this name, whose iterations are passes over the rows: see `qpsvm.solve`.

    Raises
    ------
    ClusterError
        If the cluster is lost and no certified answer can be returned.
    """
    begun = time.perf_counter()
    is_ball = isinstance(dual, MEBDual)
    kind = SOLVERS_IN_PASSES[name]
    solver: Any = solver_with(kind, name, {"target": limits.tol} | options)
    shards = make_group(kernel, limits.clock, in_passes=True)
    try:
        form: BallPasses | MarginPasses
        if is_ball:
            form, start = ball_of(shards, x0)
        else:
            form, start = machine_of(problem, dual, shards, x0, limits, kind)
        if limits.max_iter < 0:
            limits = replace(limits, max_iter=solver.default_max_iter(form))
        outcome = run(form, solver, start, limits, seed)
        # The shards have the last weights alone: certify an earlier point with them.
        if isinstance(form, MarginPasses) and form.holds_weights and not shards.is_lost:
            certified = certify(form, outcome.certified.x, limits.tol)
            outcome = replace(outcome, certified=certified)
        answer: Any = _ball if is_ball else _machine
        x, other, model = answer(problem, form, outcome)
    finally:
        shards.close()
    weights = other if isinstance(problem, HingePrimal) else x
    support = np.zeros(0, np.int64) if weights is None else np.flatnonzero(weights != 0)
    total = time.perf_counter() - begun
    timings = dict(outcome.timings, total=total)
    timings["setup"] = total - timings["iterate"] - timings["certify"]
    return Result(
        x=x,
        dual=other,
        status=outcome.status,
        certificate=outcome.certified.certificate,
        model=model,
        support=support,
        n_iter=outcome.n_iter,
        history=outcome.history,
        timings=timings,
        method=name,
        counters=outcome.counters | shards.counters,
        reason=f"plain features of rows in {shards.n} shards",
        selection=outcome.selection,
    )


def _machine(
    problem: Any, form: MarginPasses, outcome: Outcome
) -> tuple[Vector, Vector | None, Hyperplane]:
    """Return x, its dual and the machine, after the weights of the rows were gathered.

    Where the cluster was lost, a primal machine is returned without its dual.
    """
    x = outcome.certified.x
    position, scales = form.split(x), form.scales(form.product(x))
    w, b, _ = position
    w, b = w.copy(), bias_of(w, b, form.origin) if form.bias else 0.0
    model = Hyperplane(b, Normal(LinearMap(form.n, None), w), w)
    if isinstance(problem, HingePrimal) and form.shards.is_lost:
        return np.append(w, b) if form.bias else w, None, model
    weights = np.empty(form.m)
    for k, part in enumerate(form.row_weights(x, scales)):
        weights[form.shards.layout.rows(k)] = part
    if isinstance(problem, HingePrimal):
        return np.append(w, b) if form.bias else w, weights, model
    if isinstance(problem, L2SVMDual):
        return weights, outcome.certified.multipliers, model
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
