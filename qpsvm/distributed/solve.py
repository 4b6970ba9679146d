"""A solve over shards: formulation to QP, the ordinary loop, and the model of its answer."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.primal_point import HingePoint
from qpsvm.canonical.qp import QP
from qpsvm.distributed.decomposition import ShardedDecomposition
from qpsvm.distributed.passes.solve import (
    SOLVERS_IN_PASSES,
    default_in_passes,
    methods_of_passes,
    solve_in_passes,
)
from qpsvm.distributed.placement import make_group
from qpsvm.distributed.sharded_qp import ShardedQP, qp_of
from qpsvm.distributed.simplex.fallback import run_with_fallback
from qpsvm.distributed.simplex.methods import SIMPLEX_METHODS, SIMPLEX_PROBLEMS
from qpsvm.domains import CappedSimplex
from qpsvm.driver.fallback import Stage
from qpsvm.driver.loop import Outcome, run
from qpsvm.driver.selection import solver_with
from qpsvm.driver.trace import Limits
from qpsvm.errors import ClusterError, InputError, MethodMismatchError
from qpsvm.expansion import Expansion
from qpsvm.formulations import (
    Formulation,
    HingeDual,
    HingePrimal,
    L2SVMDual,
    MEBDual,
    NuSVCDual,
    OneClassDual,
    PolytopeDistanceDual,
    SVDDDual,
)
from qpsvm.gram import SignedGram
from qpsvm.gram.kernels.base import PointGram
from qpsvm.result import Result
from qpsvm.solvers.working_set.decomposition import Decomposition

SHARDED_PROBLEMS = (
    HingeDual,
    HingePrimal,
    L2SVMDual,
    NuSVCDual,
    OneClassDual,
    SVDDDual,
    MEBDual,
    PolytopeDistanceDual,
)
"""Formulations that are solved over chunked rows."""

TRANSLATED_PROBLEMS = (HingeDual, NuSVCDual, SVDDDual, MEBDual, PolytopeDistanceDual)
"""Formulations whose answer moves with the points; a hinge machine has a bias."""

MAX_FEATURES_FOR_MNP = 1000
"""Maximum number of features for which `auto` takes `mnp` for distances of linear kernels."""

SHARDED_METHODS = ("auto", "decomposition", *SIMPLEX_METHODS, *SOLVERS_IN_PASSES)
"""Names of methods over chunked rows."""


TRAFFIC_COUNTERS = ("bytes_sent", "calls", "rebuilt")
"""Counters of a result that include the calls after the last iteration."""


def solve_sharded(
    problem: Formulation,
    kernel: PointGram,
    method: str,
    x0: Any,
    limits: Limits,
    memory_limit: int,
    seed: int,
    options: dict[str, Any],
) -> Result:
    """Solve a problem whose points are chunked: see `qpsvm.solve`.

    `memory_limit` is that of the client, for the matrix of the working set.

    Raises
    ------
    InputError
        If the problem is not solved over chunked rows, or an argument is malformed.
    MethodMismatchError
        If the method does not fit the problem over chunked rows.
    ClusterError
        If the cluster is lost and no certified answer can be returned.
    """
    begun = time.perf_counter()
    if not isinstance(problem, SHARDED_PROBLEMS):
        names = ", ".join(kind.__name__ for kind in SHARDED_PROBLEMS)
        raise InputError(
            f"problem must be one of {names} over chunked rows; got {type(problem).__name__}"
        )
    if method not in SHARDED_METHODS:
        raise MethodMismatchError(
            f"method must be one of {', '.join(SHARDED_METHODS)} over chunked rows; got {method!r}"
        )
    dual = problem._dual if isinstance(problem, HingePrimal) else problem  # type: ignore[attr-defined]
    in_passes = methods_of_passes(dual, kernel)
    on_simplex = tuple(SIMPLEX_METHODS) if isinstance(dual, SIMPLEX_PROBLEMS) else ()
    fitting = (*in_passes, "decomposition", *on_simplex)
    if method not in ("auto", *fitting):
        raise MethodMismatchError(
            f"method must be {' or '.join(fitting)} for this problem over chunked rows; got {method!r}"
        )
    name = _default(dual, kernel, in_passes) if method == "auto" else method
    if name in in_passes:
        return solve_in_passes(problem, dual, kernel, name, x0, limits, seed, options)
    bias = getattr(dual, "bias", True)
    if isinstance(dual, HingeDual) and not (bias and np.isfinite(dual.C).all()):
        raise InputError("a hinge machine over chunked rows must have a bias and a finite C")
    settings = solver_with(SIMPLEX_METHODS.get(name, Decomposition), name, options)
    settings = settings.for_tolerance(limits.tol)
    shards = make_group(kernel, limits.clock)
    try:
        qp = qp_of(dual, shards, isinstance(dual, TRANSLATED_PROBLEMS) and kernel.by_factor)
        start = None if x0 is None else dual.start(qp, x0)
        solver = settings.within(qp, memory_limit)[0]
        if isinstance(solver, Decomposition):
            solver = ShardedDecomposition(solver)
        has_fallback = method == "auto" and limits.max_iter < 0
        if limits.max_iter < 0:
            limits = replace(limits, max_iter=solver.default_max_iter(qp))
        if isinstance(problem, HingePrimal):
            qp = replace(qp, negated=True)
        stage = Stage(name, solver, f"points in {shards.n} shards")
        try:
            if has_fallback:
                outcome, stage = run_with_fallback(qp, stage, start, limits, memory_limit, seed)
            else:
                outcome = run(qp, solver, start, limits, seed)
        except ClusterError as error:
            error.x = qp.known["running"].x
            raise
        return _result(problem, dual, qp, outcome, stage, begun)
    finally:
        shards.close()


def _default(dual: Any, kernel: PointGram, in_passes: tuple[str, ...]) -> str:
    """Return the method that `auto` takes.

    The closest points of hulls in d dimensions need at most d + 2 points: few for `mnp`.
    """
    is_distance = isinstance(dual, PolytopeDistanceDual) and dual.chi in (None, np.inf)
    if is_distance and kernel.by_factor and kernel.X.shape[1] <= MAX_FEATURES_FOR_MNP:
        return "mnp"
    return default_in_passes(in_passes)


def _result(
    problem: Formulation, dual: Any, qp: ShardedQP, outcome: Outcome, stage: Stage, begun: float
) -> Result:
    """Return the result, whose model holds copies of the points of the support alone."""
    certified = outcome.certified
    support = np.flatnonzero(certified.x != 0)
    rows = support if len(support) else np.zeros(1, np.int64)
    small, form = _over_support(dual, qp, rows)
    product = _product_at(qp, certified.x, rows)
    part = certified._replace(x=certified.x[rows], product=product)
    recovery = small.recover(form, part)
    model = _with_indices(recovery.model, rows, certified.x)
    x, own = certified.x, recovery.dual
    if isinstance(problem, HingePrimal):
        w = model.expansion.features
        if w is None:
            w = np.zeros(qp.m)
            w[model.expansion.indices] = model.expansion.coef
        x, own = np.append(w, model.b), certified.x
    sent = qp.shards.counters
    total = time.perf_counter() - begun
    timings = dict(outcome.timings, total=total)
    timings["setup"] = total - timings["iterate"] - timings["certify"]
    return Result(
        x=x,
        dual=own,
        status=outcome.status,
        certificate=certified.certificate,
        model=model,
        support=support,
        n_iter=outcome.n_iter,
        history=outcome.history,
        timings=timings,
        method=stage.name,
        counters=outcome.counters | {name: sent[name] for name in TRAFFIC_COUNTERS},
        reason=stage.reason,
        selection=outcome.selection,
    )


class PartOfCappedSimplex(CappedSimplex):
    """Simplices with upper bounds over the points of the support alone."""

    def least(self, g: Any) -> float:
        """Return minus infinity: points outside of the support are unknown here."""
        return -np.inf


def _over_support(dual: Any, qp: ShardedQP, rows: NDArray[np.int64]) -> tuple[Any, QP]:
    """Return the formulation and its QP over the points of the support alone."""
    ids = qp.remember(rows)
    kernel = qp.shards.kernel._over(qp.remembered.points[ids])
    changes: dict[str, Any] = {"K": kernel}
    changes |= {name: getattr(dual, name)[rows] for name in ("y", "C") if hasattr(dual, name)}
    if getattr(dual, "sample_weight", None) is not None:
        changes["sample_weight"] = dual.sample_weight[rows]
    small = object.__new__(type(dual))  # its bounds are those of all points, so it is not checked
    for f in fields(dual):
        object.__setattr__(small, f.name, changes.get(f.name, getattr(dual, f.name)))
    ones = np.ones(len(rows))
    moved: Any = kernel
    origin = qp.gram.kernel.origin_of_points  # type: ignore[attr-defined]
    if origin is not None and kernel.by_factor and isinstance(kernel.X, np.ndarray):
        kernel.__dict__["origin"] = origin  # that of the shards, not the mean of these few points
        moved = kernel.centered()
    gram = SignedGram(
        moved, qp.gram.sign[rows] * ones, qp.gram.ridge[rows] * ones, qp.gram.shift, qp.gram.scale
    )
    domain = qp.domain
    if isinstance(domain, CappedSimplex):
        part = object.__new__(PartOfCappedSimplex)
        for name, value in (("upper", domain.upper[rows]), ("group", domain.group[rows])):
            object.__setattr__(part, name, value)
        object.__setattr__(part, "total", domain.total)
        taken: Any = part
    else:
        taken = domain.take(rows)
    plain = {
        name: getattr(qp, name) for name in ("constant", "negated", "vanishing", "noise", "least")
    }
    translated = moved is not kernel and isinstance(dual, HingeDual)
    primal = HingePoint(origin) if translated else None  # it takes the bias to the user's origin
    return small, QP(gram, qp.linear[rows], taken, primal=primal, **plain)


def _product_at(qp: ShardedQP, x: Any, rows: NDArray[np.int64]) -> Any:
    """Return entries of the recomputed product, at the support."""
    if qp.shards.is_lost:
        return qp.support_product(x, rows)
    if not np.array_equal(qp.known["exact"].x, x):
        qp.product(x)
    out = np.empty(len(rows))
    parts = qp.shards.layout.split(rows)
    answers = qp.shards.call("entries", "exact", each=[(local,) for _, local in parts])
    for (at, _), values in zip(parts, answers, strict=True):
        out[at] = values
    return out


def _with_indices(model: Any, rows: NDArray[np.int64], x: Any) -> Any:
    """Return a model whose expansions have the indices of the points among all."""
    own = {f.name: getattr(model, f.name) for f in fields(model)}
    found = {name: value for name, value in own.items() if isinstance(value, Expansion)}
    moved = {name: replace(value, indices=rows[value.indices]) for name, value in found.items()}
    return replace(model, **moved)
