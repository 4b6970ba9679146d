"""Starting points on simplices and boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Form
from qpsvm.canonical.margin import MarginProblem
from qpsvm.canonical.penalty_gap import PENALTY_DOMAINS
from qpsvm.canonical.qp import QP
from qpsvm.domains import CappedSimplex, SimplexProduct
from qpsvm.solvers.base import Solver
from qpsvm.solvers.shared.subproblem import solve_subproblem


def two_points(problem: QP) -> NDArray[np.float64]:
    """Return the start of the papers: two far points of a simplex, or a near pair of two simplices.

    On one simplex: index 0 and the point farthest from it in the metric of Q, half the weight each
    (Frandi et al., section 3). On a product: the vertex whose coordinates are chosen one after
    the other to minimize the value, the first once more at the end (Kumar and Yildirim,
    Algorithm 1, lines 2-5).
    """
    domain, gram = problem.domain, problem.gram
    assert isinstance(domain, SimplexProduct)
    own = gram.diag() + gram.ridge
    x = np.zeros(problem.m)
    if domain.n_groups == 1:
        distance = own - 2.0 * _column(problem, 0)
        distance[0] = -np.inf
        far = int(np.argmax(distance))
        x[0] += 0.5
        x[far] += 0.5
        return x
    chosen = [int(of[0]) for of in domain.members[:1]]
    for k in [*range(1, domain.n_groups), 0]:
        others = chosen[1:] if k == 0 else chosen
        value = 0.5 * own + problem.linear + sum(_column(problem, i) for i in others)
        of = domain.members[k]
        best = int(of[np.argmin(value[of])])
        chosen = [best, *others] if k == 0 else [*chosen, best]
    x[chosen] = 1.0
    return x


def _column(problem: QP, i: int) -> NDArray[np.float64]:
    """Return column i of G in float64."""
    x = np.zeros(problem.m)
    x[i] = 1.0
    return problem.product(x)


def pair_start(problem: QP, x0: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return x0 made feasible, or else two points of a simplex, or a corner of a box."""
    if x0 is not None:
        return problem.domain.repair(x0)
    return two_points(problem) if isinstance(problem.domain, SimplexProduct) else corner(problem)


def feasible_start(problem: Form, x0: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return x0 made feasible, or else a feasible point with few entries: cheap to certify."""
    if x0 is not None:
        return problem.repair(x0)
    if isinstance(problem, MarginProblem):
        return problem.repair(np.zeros(problem.n + 1 + problem.m))
    assert isinstance(problem, QP)
    if isinstance(problem.domain, PENALTY_DOMAINS):
        return np.zeros(problem.m)
    return problem.domain.linear_min(problem.linear)


CORNER_SAMPLE_SIZE = 64
"""Number of points of a simplex whose mean predicts the outliers."""


def corner(problem: QP) -> NDArray[np.float64]:
    """Return 0 in a box or the orthant, and a vertex of simplices with upper bounds.

    The vertex is the minimizer of the linear function whose gradient is that at the mean of a sample of
    each simplex. It fills the bounds of the points farthest from the mean, or, of two classes, on the
    wrong side between the means: most of them are at their bounds at the optimum.
    """
    domain, x = problem.domain, np.zeros(problem.m)
    if not isinstance(domain, CappedSimplex):
        return x
    for of, total in zip(domain.members, domain.total, strict=True):
        own = np.arange(problem.m)[of]
        sample = own[np.unique(np.linspace(0, len(own) - 1, CORNER_SAMPLE_SIZE).astype(np.int64))]
        x[sample] = total / len(sample)
    return domain.linear_min(problem.product(x) + problem.linear)


def random_ball(
    problem: QP, size: int, solver: Solver, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the optimum over `size` random points, at least one of each simplex, by a solver.

    Frandi et al., section 3, with 20 points in section 5.2.2.
    """
    domain = problem.domain
    assert isinstance(domain, SimplexProduct)
    share = max(1, size // domain.n_groups)
    drawn = [rng.choice(of, min(share, len(of)), replace=False) for of in domain.members]
    rows = np.sort(np.concatenate(drawn))
    x = np.zeros(problem.m)
    x[rows] = solve_subproblem(problem.take(rows), solver, 1e-3, 10_000)
    return x
