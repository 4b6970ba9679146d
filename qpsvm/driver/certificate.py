"""The certificate: bounds of the optimal value from the answer, by the same code for every method."""

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

SAMPLED_ENTRIES = 128
"""Entries of approximate products that are recomputed where the others are taken as they are."""

MAX_RECOMPUTED_SHARE = 0.9
"""Fraction of the points of weight zero from which all points are evaluated."""


@np.errstate(invalid="ignore", over="ignore")  # overflow gives infinite bounds: see Certificate
def certify(
    problem: Form,
    x: NDArray[np.float64],
    tol: float,
    convex: bool = True,
    *,
    support_only: bool = False,
    approximate_products: ApproximateProducts | None = None,
    recompute: bool = True,
) -> Certified:
    """Repair x, recompute its products in float64, and bound the optimal value.

    Only x is taken from the solver, and whether it met no negative curvature: `convex`. With
    `support_only` the points of a QP outside the support are not evaluated: the value of x is exact, and
    no lower bound is proved. With `approximate_products` and a bound on their error, points outside the
    support are evaluated only where that bound does not suffice: see `partly_recomputed`. Without
    `recompute` the approximate products are taken as they are where a sample of them agrees with
    recomputed ones, and the bounds are wider by their error: see `sampled_products`.
    """
    x = problem.repair(x)
    if not convex:
        problem = problem.nonconvex()
    left = error = None
    if support_only:
        assert isinstance(problem, QP), "only methods on a QP leave points out"
        rows = np.flatnonzero(x != 0)
        restricted, product = problem.take(rows), np.zeros(problem.m)
        product[rows] = restricted.gram.product(x[rows])
        bounds = restricted.bounds(x[rows], product[rows])
    else:
        least = None
        if approximate_products is not None:
            assert isinstance(problem, QP), "only products of a QP are approximate"
            if not recompute:
                least, error = sampled_products(problem, x, approximate_products)
            if least is None:
                least, left = partly_recomputed(problem, x, approximate_products)
        product = problem.product(x) if least is None else least
        x, product = problem.feasible(x, product)
        if error is None:
            bounds = problem.bounds(x, product)
        else:
            assert isinstance(problem, QP)
            bounds = problem.bounds(x, product, problem.product_error(x, error))
    point = None
    if not support_only and problem.convex:
        point = problem.primal_point(x, bounds.multipliers)
    if point is not None:
        bounds = at_stored_point(problem, bounds, point, x)
    elif problem.negated:  # the lower bound is a rounded value of the dual
        lower = difference_below(bounds.lower, bounds.roundoff)
        roundoff = 2.0 * bounds.roundoff  # the upper bound is a rounded value and its roundoff
        gap = max(bounds.gap, bounds.upper - lower, roundoff)
        bounds = bounds._replace(lower=lower, gap=gap, roundoff=roundoff)
    if not bounds.lower < np.inf:  # sums that overflow prove nothing
        bounds = bounds._replace(gap=np.inf, lower=-np.inf)
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
        recomputed=error is None,
    )
    return Certified(x, product, bounds.multipliers, certificate, left, point)


def at_stored_point(
    problem: Form, bounds: Bounds, point: PrimalPoint, x: NDArray[np.float64]
) -> Bounds:
    """Return bounds whose primal side is the stored point; their roundoff includes both sides.

    The upper bound of a primal formulation is no less than the exact objective at that point.
    """
    dual = -bounds.lower if problem.negated else bounds.upper  # as a value to be minimized
    if not np.isfinite(point.value):
        upper, lower = (np.inf, bounds.lower) if problem.negated else (dual, -np.inf)
        return bounds._replace(upper=upper, lower=lower, gap=np.inf)
    roundoff = bounds.roundoff + 2.0 * point.error
    gap = max(dual + point.value, 0.0) + roundoff
    upper = point.value + point.error if problem.negated else dual
    floor = bounds.floor
    if isinstance(problem, QP):
        floor = max(floor, problem.floor(roundoff, problem.total_of(x)))
    return bounds._replace(
        upper=upper,
        lower=difference_below(upper, gap),
        gap=gap,
        roundoff=roundoff,
        floor=floor,
    )


def _with_error(
    problem: QP, x: NDArray[np.float64], approximate_products: ApproximateProducts
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return approximate products of x, lower bounds of them off the support, and their errors."""
    moved = float(np.linalg.norm(x - approximate_products.x, 1)) * problem.scale
    error = approximate_products.error + moved
    lowered = approximate_products.product - error
    return np.where(x != 0, approximate_products.product, lowered), error


def sampled_products(
    problem: QP, x: NDArray[np.float64], approximate_products: ApproximateProducts
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return approximate products of x and their errors, where a sample confirms them.

    A sample of `SAMPLED_ENTRIES` entries is recomputed, which costs little beside the whole product. The
    result is what `QP.bounds` and `QP.product_error` expect. Both are None where the sample refutes an
    error, or where the bounds of the problem do not follow from such products.
    """
    if problem.cone or problem.defect or not problem.convex:
        return None, None
    product, error = _with_error(problem, x, approximate_products)
    if not np.isfinite(product).all():
        return None, None
    rows = np.unique(np.linspace(0, problem.m - 1, SAMPLED_ENTRIES).astype(np.int64))
    difference = np.abs(problem.gram.product(x, rows) - approximate_products.product[rows])
    roundoff = np.broadcast_to(problem.entry_roundoff(x), problem.m)
    if np.any(difference > error[rows] + roundoff[rows]):
        return None, None
    return product, error


def partly_recomputed(
    problem: QP, x: NDArray[np.float64], approximate_products: ApproximateProducts
) -> tuple[NDArray[np.float64] | None, ApproximateProducts | None]:
    """Return lower bounds of G x, recomputed where they matter, and the new approximate products.

    The gap is the maximum over a in the domain of (Gx + c)'(x - a) + 1/2 x'Dx - 1/2 a'Da. Where x_i
    is 0 and no a_i is negative, entry i of Gx enters it only by -(Gx)_i a_i: a smaller entry does not
    reduce the gap. So a lower bound in its place leaves the gap valid for every point; the same
    holds for a least margin. It leaves the gap unchanged where a_i is 0 at the maximum. So the support is
    evaluated, and the entries on which the maximum depends, until it depends on no other entry.

    Both are None where all points must be evaluated: where these entries are most of them, where the
    domain does not know them, or where a recomputed value refutes the bound on the error.
    """
    product, error = _with_error(problem, x, approximate_products)
    support, recomputed = x != 0, np.zeros(problem.m, bool)
    roundoff = np.broadcast_to(problem.entry_roundoff(x), problem.m)
    n, known, n_rounds = np.count_nonzero(support), support, 0
    if not np.isfinite(product).all():
        return None, None
    while True:
        needed = problem.entries_that_matter(x, product, known)
        if needed is None:
            return None, None
        n_more = np.count_nonzero(needed & ~support)
        rows = np.flatnonzero(needed & ~recomputed)
        if n_more >= MAX_RECOMPUTED_SHARE * (problem.m - n):
            return None, None
        if not len(rows):
            break
        if n_rounds > 1:  # few entries at a time would take many rounds
            wider = problem.entries_that_matter(x, product, known, 2.0 ** (n_rounds - 2) * error)
            rows = np.flatnonzero(wider & ~recomputed)
        n_rounds += 1
        product[rows] = problem.gram.product(x, rows)
        if np.any(
            np.abs(product[rows] - approximate_products.product[rows])
            > error[rows] + roundoff[rows]
        ):
            return None, None
        recomputed[rows] = True
        known = recomputed
    now = np.where(recomputed, product, approximate_products.product)
    return product, ApproximateProducts(x, now, np.where(recomputed, roundoff, error))
