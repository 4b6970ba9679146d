"""Forms of problems whose rows are read in passes, and their starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.distributed.group import ShardGroup
from qpsvm.distributed.kernel_sums import moved, stacked
from qpsvm.distributed.passes.ball import MAX_CORE_ROWS, BallPasses, Core, farthest_rows
from qpsvm.distributed.passes.hinge import HingePasses
from qpsvm.distributed.passes.interior.method import InteriorPasses
from qpsvm.distributed.passes.margin import MarginPasses
from qpsvm.distributed.passes.nesterov import GradientPasses
from qpsvm.distributed.passes.projected.form import (
    ProjectedHinge,
    ProjectedSquares,
    WeightsAtShards,
)
from qpsvm.distributed.passes.sample import restart, sample_size, sample_start
from qpsvm.distributed.passes.squared_hinge import SquaredHingePasses
from qpsvm.driver.trace import Limits
from qpsvm.errors import InputError, check_vector
from qpsvm.formulations import Formulation, HingeDual, HingePrimal, L2SVMDual
from qpsvm.result import Result
from qpsvm.solvers.base import Solver

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


def first_pass(
    shards: ShardGroup, n_rows: int, *, moves: bool
) -> tuple[Vector | None, Any, Indices]:
    """Return the origin, a sample of about `n_rows` rows, and its indices, by a pass.

    The origin is the mean of dense rows with `moves`, else None.
    """
    m = shards.layout.points.shape[0]
    found = shards.call("summary", max(1, m // n_rows))
    rows = [shards.layout.index(k, part.places) for k, part in enumerate(found)]
    X = stacked(*[part.sample for part in found])
    moves = moves and not sp.issparse(X)
    origin = sum(part.total for part in found) / m if moves else None
    return origin, X, np.concatenate(rows)


def machine_of(
    problem: Formulation,
    dual: HingeDual | L2SVMDual,
    shards: ShardGroup,
    x0: Any,
    limits: Limits,
    kind: type[Solver],
) -> tuple[MarginPasses, Vector]:
    """Return the form of a linear machine, and its start."""
    layout = shards.layout
    m, n = layout.points.shape
    is_hinge = isinstance(dual, HingeDual)
    origin, X, rows = first_pass(shards, sample_size(m), moves=is_hinge and dual.bias)
    labels, C = dual.y.astype(np.int8), dual.C
    is_uniform = bool(np.all(C == C[0]))

    def begin(k: int) -> tuple[Any, ...]:
        own = layout.rows(k)
        return labels[own], C[:1] if is_uniform else C[own], origin

    shards.call("start", each=[begin(k) for k in range(shards.n)])
    data: dict[str, Any] = {
        "shards": shards, "m": m, "n": n, "origin": origin, "bias": dual.bias,
        "total_penalty": float(np.sum(C)), "with_hessian": kind is not GradientPasses,
    }  # fmt: skip
    made = form_of(kind, is_hinge)
    if is_hinge:
        data["declares_dual"] = not isinstance(problem, HingePrimal)
    if issubclass(made, WeightsAtShards):
        data["least_penalty"] = float(np.min(C))
    form = made(**data)

    def restore(k: int) -> None:
        shards.call_one(k, "start", *begin(k))
        form.repeat_changes(k)

    shards.restore = restore
    y, own = dual.y[rows], C[rows]
    own = own * (form.total_penalty / float(np.sum(own))) if np.any(own) else own + 1.0
    if x0 is None:
        return form, sample_start(form, X, y, own, limits.tol, limits.clock)
    return form, restart(form, *hyperplane_of(form, problem, x0), X, y, own, limits.tol)


def form_of(kind: type[Solver], is_hinge: bool) -> type[MarginPasses]:
    """Return the form that a method solves, of a hinge machine or of an L2 machine."""
    if issubclass(kind.form, WeightsAtShards):
        return ProjectedHinge if is_hinge else ProjectedSquares
    if issubclass(kind.form, InteriorPasses):
        return kind.form
    return HingePasses if is_hinge else SquaredHingePasses


def ball_of(shards: ShardGroup, x0: Any) -> tuple[BallPasses, Vector]:
    """Return the form of a ball, whose core has rows far from the mean, and its start: one of them.

    Raises
    ------
    InputError
        If a starting point is given: it has no rows of the core.
    """
    if x0 is not None:
        raise InputError("x0 must be None for the ball of rows that are read in passes")
    m, n = shards.layout.points.shape
    first = farthest_rows(shards, None)
    origin: Vector | None = None
    if not sp.issparse(first.rows):
        origin = np.asarray(first.rows.mean(axis=0, dtype=np.float64))
    core = Core(first.places[:0], moved(first.rows[:0], origin, np.float64), origin)
    core.add(first)
    form = BallPasses(shards=shards, m=m, n=n, origin=origin, core=core)
    return form, np.eye(1, MAX_CORE_ROWS)[0]


def hyperplane_of(form: MarginPasses, problem: Formulation, x0: Any) -> tuple[Vector, float]:
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
    if not isinstance(problem, HingePrimal):
        raise InputError(
            "x0 must be an earlier result where rows are read in passes; got an array of weights"
        )
    values = check_vector("x0", x0, form.n + form.bias)
    return values[: form.n], float(values[-1]) if form.bias else 0.0
