"""The certificate: a problem's bounds from the answer, by the same code for every method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import (
    ApproximateProducts,
    Bounds,
    Certified,
    Form,
    PrimalPoint,
    difference_below,
)
from qpsvm.canonical.qp import QP
from qpsvm.result import Certificate, passed_test

MOST = 0.9
"""Share of the points of weight zero from which all are looked at."""


@np.errstate(invalid="ignore", over="ignore")  # what overflows is no bound: see Certificate
def certify(
    problem: Form,
    x: NDArray[np.float64],
    tol: float,
    convex: bool = True,
    *,
    support_only: bool = False,
    approximate_products: ApproximateProducts | None = None,
) -> Certified:
    """Repair x, multiply it afresh in float64, and bound the optimal value.

    Nothing is taken from the solver but x itself, and that it met no negative curvature: `convex`.
    With `support_only` the points of a QP outside the support are not looked at: the value of x is
    exact, and no lower bound is proved. With `approximate_products`, and a bound on their
    error, those points outside the support are not evaluated for which this is enough: see
    `partly_recomputed`.
    """
    x = problem.repair(x)
    if not convex:
        problem = problem.nonconvex()
    left = None
    if support_only:
        assert isinstance(problem, QP), "only methods on a QP leave points out"
        rows = np.flatnonzero(x != 0)
        part, product = problem.take(rows), np.zeros(problem.m)
        product[rows] = part.gram.product(x[rows])
        bounds = part.bounds(x[rows], product[rows])
    else:
        least = None
        if approximate_products is not None:
            assert isinstance(problem, QP), "only products of a QP are held"
            least, left = partly_recomputed(problem, x, approximate_products)
        product = problem.product(x) if least is None else least
        x, product = problem.feasible(x, product)
        bounds = problem.bounds(x, product)
    point = None
    if not support_only and problem.convex:
        point = problem.primal_point(x, bounds.multipliers)
    if point is not None:
        bounds = at_stored_point(problem, bounds, point)
    if support_only or not problem.convex:  # stationary at best: no lower bound
        bounds = bounds._replace(gap=np.inf, lower=-np.inf)
        if problem.negated:
            bounds = bounds._replace(upper=np.inf)
    certificate = Certificate(
        upper=bounds.upper,
        lower=bounds.lower,
        gap=bounds.gap,
        violation=problem.violation(x),
        roundoff=bounds.roundoff,
        floor=bounds.floor,
        tol=tol,
        test=passed_test(bounds.gap, bounds.upper, bounds.lower, tol, bounds.floor),
    )
    return Certified(x, product, bounds.multipliers, certificate, left, point)


def at_stored_point(problem: Form, bounds: Bounds, point: PrimalPoint) -> Bounds:
    """Return bounds whose primal side is the stored point; their roundoff is of both sides.

    The upper bound of a primal formulation is no less than the exact objective at that point.
    """
    dual = -bounds.lower if problem.negated else bounds.upper  # as a value to be minimised
    if not np.isfinite(point.value):
        upper, lower = (np.inf, bounds.lower) if problem.negated else (dual, -np.inf)
        return bounds._replace(upper=upper, lower=lower, gap=np.inf)
    roundoff = bounds.roundoff + 2.0 * point.error
    gap = max(dual + point.value, 0.0) + roundoff
    upper = point.value + point.error if problem.negated else dual
    return bounds._replace(
        upper=upper, lower=difference_below(upper, gap), gap=gap, roundoff=roundoff
    )


def partly_recomputed(
    problem: QP, x: NDArray[np.float64], approximate_products: ApproximateProducts
) -> tuple[NDArray[np.float64] | None, ApproximateProducts | None]:
    """Return lower bounds of G x, fresh values where they count, and what is now held.

    The gap is the maximum over a in the domain of (Gx + c)'(x - a) + 1/2 x'Dx - 1/2 a'Da. Where x_i
    is 0 and no a_i is negative, entry i of Gx has no part in it but -(Gx)_i a_i: the gap does not fall
    when the entry does. So a lower bound in its place leaves the gap valid, whatever the point; the
    same holds of a least margin. It leaves the gap as it is where a_i is 0 at the maximum. So the
    support is evaluated, and what the maximum reaches, until it reaches nothing else.

    Both are None where all points are to be evaluated: where that is most of them, where the domain
    does not say what is reached, or where a fresh value refutes the bound.
    """
    away = float(np.linalg.norm(x - approximate_products.x, 1)) * problem.scale
    error = approximate_products.error + away
    support, fresh, roundoff = x != 0, np.zeros(problem.m, bool), problem.entry_roundoff(x)
    n, known = np.count_nonzero(support), support
    product = np.where(support, approximate_products.product, approximate_products.product - error)
    if not np.isfinite(product).all():
        return None, None
    while True:
        reached = problem.entries_that_matter(x, product, known)
        if reached is None:
            return None, None
        n_more = np.count_nonzero(reached & ~support)
        rows = np.flatnonzero(reached & ~fresh)
        if n_more >= MOST * (problem.m - n):
            return None, None
        if not len(rows):
            break
        product[rows] = problem.gram.product(x, rows)
        if np.any(
            np.abs(product[rows] - approximate_products.product[rows]) > error[rows] + roundoff
        ):
            return None, None
        fresh[rows] = True
        known = fresh
    now = np.where(fresh, product, approximate_products.product)
    return product, ApproximateProducts(x, now, np.where(fresh, roundoff, error))
