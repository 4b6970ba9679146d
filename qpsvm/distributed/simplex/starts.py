"""Starting points on simplices over shards, which are those of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.distributed.kernel_sums import is_translatable, moved
from qpsvm.distributed.sharded_qp import ShardedQP
from qpsvm.domains import SimplexProduct
from qpsvm.gram import SignedGram
from qpsvm.solvers.base import Solver
from qpsvm.solvers.min_norm_point.mnp import heaviest
from qpsvm.solvers.shared.subproblem import solve_subproblem

Vector = NDArray[np.float64]

START_TOLERANCE, MAX_START_STEPS = 1e-3, 10_000
"""Relative gap, and maximum number of steps, of the problem over a few random points."""


def feasible(problem: ShardedQP, x0: Vector, max_points: int) -> Vector:
    """Return x0 on the simplex, over its heaviest points where there are more than `max_points`."""
    domain = problem.domain
    assert isinstance(domain, SimplexProduct)
    return heaviest(domain, domain.repair(x0), max_points)


def two_points(problem: ShardedQP) -> Vector:
    """Return equal weights of the first point and of the farthest one; of several simplices a near pair.

    See `qpsvm.solvers.shared.starting_points`.
    """
    if problem.n_groups > 1:
        return near_vertex(problem)
    x = np.zeros(problem.m)
    x[0] = 1.0
    problem.product(x)
    found = problem.shards.call("farthest")
    k = int(np.argmax([distance for distance, _ in found]))
    far = problem.shards.layout.index(k, np.array([found[k][1]]))
    x[0] = 0.5
    x[far] += 0.5
    return x


def near_vertex(problem: ShardedQP) -> Vector:
    """Return the vertex whose points minimize the value one after the other, the first one twice."""
    shards, n = problem.shards, problem.n_groups
    first = int(np.argmin(problem.groups()))  # of group 0
    chosen = np.full(n, first)
    for turn in range(1, n + 1):
        group = turn % n
        others = chosen[1:] if group == 0 else chosen[:turn]
        x = np.zeros(problem.m)
        x[others] = 1.0
        problem.product(x)
        found = shards.call("nearest", group)
        k = int(np.argmin([value for value, _ in found]))
        chosen[group] = shards.layout.index(k, np.array([found[k][1]]))[0]
    x[:] = 0.0
    x[chosen] = 1.0
    return x


def random_ball(problem: ShardedQP, size: int, solver: Solver, rng: Any) -> Vector:
    """Return the optimum over `size` random points of all simplices.

    See `qpsvm.solvers.shared.starting_points`.
    """
    domain = problem.domain
    assert isinstance(domain, SimplexProduct)
    share = max(1, size // domain.n_groups)
    drawn = [rng.choice(of, min(share, len(of)), replace=False) for of in domain.members]
    rows = np.sort(np.concatenate(drawn))
    problem.remember(rows)
    x = np.zeros(problem.m)
    x[rows] = solve_subproblem(over(problem, rows), solver, START_TOLERANCE, MAX_START_STEPS)
    return x


def over(problem: ShardedQP, rows: NDArray[np.int64]) -> QP:
    """Return the QP over points that are remembered."""
    gram = problem.gram
    points = problem.remembered.points[problem.remembered.id[rows]]
    if not is_translatable(problem.shards.kernel):
        origin = gram.kernel.origin_of_points  # type: ignore[attr-defined]
        points = moved(points, origin, np.float64)
    kernel = problem.shards.kernel._over(points)
    signed = SignedGram(kernel, gram.sign[rows], gram.ridge[rows], gram.shift, gram.scale)
    plain = {name: getattr(problem, name) for name in ("constant", "vanishing", "noise", "least")}
    return QP(signed, problem.linear[rows], problem.domain.take(rows), **plain)
