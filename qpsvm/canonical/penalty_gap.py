"""The gap of duals whose bounds are penalties: of hinge machines, and of regressions with a tube.

Such a dual is a QP on a box, with a hyperplane where there is a bias b. The gap at x is the primal
objective at w = sum x_i s_i phi(x_i) with its best b, plus the value of the dual at x: a sum of
nonnegative terms (decision 0002).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, ROUNDED_PRODUCT, ProductError
from qpsvm.domains import BoxHyperplane, CappedSimplex, Orthant, PenaltyBox
from qpsvm.domains.box_hyperplane import gap_roundoff, slack_gap

HINGE_DOMAINS = (BoxHyperplane, PenaltyBox)
"""Domains of a dual with bounds from penalties, with a free bias and without."""

PENALTY_DOMAINS = (*HINGE_DOMAINS, Orthant)
"""Domains of a dual of penalized errors, whose weights are bounded or, of squared ones, have a ridge."""

MIN_POINTS_FOR_MARGIN_SAMPLE = 5000
"""Points from which a sample of the support is first tested for a positive least margin."""

MARGIN_SAMPLE_SIZE = 200
"""Points of that sample."""


def penalty_gap(
    qp: Any,
    x: NDArray[np.float64],
    product: NDArray[np.float64],
    quadratic: float,
    value: float,
    some: NDArray[np.int64],
    entry: float | NDArray[np.float64],
    error: ProductError = ROUNDED_PRODUCT,
) -> tuple[float, NDArray[np.float64]]:
    """Return the smaller of two gaps of a hinge dual, and its (b, t): the primal point is (t w, b).

    Either t = 1 with its slacks, or t such that the least margin is 1 and no slack remains: the only
    choice with infinite C, and the better one where C is large. The least margin is proved to be
    positive: its rounding error is subtracted.

    Parameters
    ----------
    qp : QP
        On one of `HINGE_DOMAINS`.
    x, product : ndarray, shape (m,)
        A point and G x.
    quadratic, value : float
        x'Gx and the objective.
    some : ndarray of int
        Indices of the nonzero entries of x.
    entry : float or ndarray, shape (m,)
        Bound on the rounding error of each entry of `product`.
    error : ProductError
        Error of `product` beyond its rounding.
    """
    domain = qp.domain
    assert isinstance(domain, HINGE_DOMAINS)
    if domain.bounded:
        slack = product + qp.linear
        b = best_bias(qp, slack)
        if isinstance(domain, BoxHyperplane):
            slack += b * domain.y
        multipliers = np.array([b, 1.0])
        of_sum = domain.error_of_sums(x, multipliers)
        gap = slack_gap(x, domain.upper, slack, some) + error.quadratic + error.vertex + of_sum
        if qp.defect:  # w has a norm only where G is positive semidefinite
            return domain.convex_gap(x, slack, qp.defect) + of_sum, multipliers
        if not qp.is_hinge:  # its roundoff has all terms: see `linear_roundoff`
            return gap, multipliers
        gap += slack_roundoff(qp, x, slack, entry)
        soft = gap, multipliers
        # over all points the least margin is no greater than over a sample
        few = some[:: 1 + len(some) // MARGIN_SAMPLE_SIZE]
        if qp.m >= MIN_POINTS_FOR_MARGIN_SAMPLE and gap < np.inf and len(few):
            if domain.take(few).cone_multiplier(product[few])[0] <= 0.0:
                return soft  # hard is infinite
    least, bias = domain.cone_multiplier(product)
    if domain.bounded and gap < np.inf and not least > error.entry:
        return soft
    rounding, square = _margin_roundoff(qp, x, some, quadratic)
    least -= rounding + error.entry
    t = 1.0 / least if least > 0 else np.inf
    square = max(quadratic, 0.0) + square + error.quadratic
    hard = value + (0.5 * t * t * square if t and np.isfinite(t) else t) - qp.constant
    if domain.bounded and (gap <= hard or not t):
        return soft
    return hard, np.array([bias * t if t and np.isfinite(t) else np.sign(bias), t or 1.0])


def best_bias(qp: Any, slope: NDArray[np.float64]) -> float:
    """Return the best b of a box with a hyperplane for Gx + c; 0 of the box alone.

    Of a regression it is the middle of all best ones: a tube wider than the values touches none.
    """
    domain = qp.domain
    if not isinstance(domain, BoxHyperplane):
        return 0.0
    if qp.is_hinge:
        return domain.best_multiplier(slope)
    return domain.middle_multiplier(slope)


def penalty_roundoff(
    qp: Any,
    x: NDArray[np.float64],
    product: NDArray[np.float64],
    multipliers: NDArray[np.float64],
    gap: float,
) -> float:
    """Return a bound on the rounding of a `penalty_gap` that `QP.roundoff` leaves out."""
    own = gap_roundoff(qp.m, gap)
    return own if qp.is_hinge else own + linear_roundoff(qp, x, product, multipliers)


def linear_roundoff(
    qp: Any, x: NDArray[np.float64], product: NDArray[np.float64], multipliers: NDArray[np.float64]
) -> float:
    """Return a bound on the effect on the gap of what `QP.roundoff` leaves out.

    That is the rounding of c and of Gx + c + b y: a hinge dual has none to speak of, but values and b may
    nearly cancel. And that of Gx where its entries are weighed by u_i - x_i, at slacks that are or
    may be negative, unless w is a vector of features, whose objective is computed apart. On simplices
    with bounds the slacks are Gx + c less the level of the group.
    """
    domain, slope = qp.domain, product + qp.linear
    moved: Any = 0.0
    if isinstance(domain, BoxHyperplane):
        moved = float(multipliers[0]) * domain.y
    elif isinstance(domain, CappedSimplex):
        moved = np.broadcast_to(-domain.at_each(multipliers), qp.m)
    slack = slope + moved
    entry = 0.0 if qp.gram.kernel.by_factor else qp.entry_roundoff(x)
    weight = np.where(slack < entry, domain.upper, x)
    some = np.flatnonzero(weight != 0)
    own = FLOAT64_EPS * (np.abs(qp.linear) + np.abs(slope) + np.abs(moved))[some]
    return float(weight[some] @ own) + slack_roundoff(qp, x, slack, entry)


def slack_roundoff(
    qp: Any,
    x: NDArray[np.float64],
    slack: NDArray[np.float64],
    entry: float | NDArray[np.float64],
) -> float:
    """Return a bound on the effect on the gap of the rounding of Gx where u_i - x_i is its weight.

    That is at slacks that are or may be negative; the weight x_i elsewhere is part of `QP.roundoff`.
    `entry` bounds the error of each entry of Gx. With a factor w is a vector of features, and its
    rounding has no such effect: decision 0002.
    """
    if qp.gram.kernel.by_factor:
        return 0.0
    below = slack < entry
    weight = qp.domain.upper[below] - x[below]
    return float(np.broadcast_to(entry, qp.m)[below] @ weight)


def ridge_roundoff(
    qp: Any, x: NDArray[np.float64], slope: NDArray[np.float64], moved: float
) -> float:
    """Return a bound on the effect on the gap over the orthant of the rounding of Gx + c.

    At an entry s of the slope a term of the gap has the derivative x_i - a_i, a_i = max(0, -s) / d_i. An
    error of at most e changes it by at most max(x_i, a_i) e, with a_i at s - e: only where x_i > 0 or
    s < e. The ridge is D less the part that was moved to G: see `QP.bounds`.
    """
    some = np.flatnonzero(x != 0)
    quadratic = float(x[some] @ (slope[some] - qp.linear[some]))
    total = float(np.sum(x[some]))
    square = qp.gram.roundoff(qp.scale, x[some], some, total, quadratic)
    slope = slope + moved * x if moved else slope
    entry, c = _factor_roundoff(qp, x, max(quadratic, 0.0) + square), qp.linear
    largest = max(float(np.max(c)), -float(np.min(c))) + max(
        float(np.max(slope)), -float(np.min(slope))
    )
    some = np.flatnonzero((x != 0.0) | ~(slope >= entry + FLOAT64_EPS * largest))
    x, slope, entry = x[some], slope[some], entry[some]
    e = entry + FLOAT64_EPS * (np.abs(c[some]) + np.abs(slope))
    least, ridge = np.minimum(slope - e, 0.0), qp.gram.ridge[some] - moved
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a = np.where(least < 0.0, -least / ridge, 0.0)
    return float(np.maximum(x, a) @ e)


def slope_roundoff(qp: Any, x: NDArray[np.float64]) -> float:
    """Return the effect of the rounding of Gx + c on the gap (Gx + c)'(x - v) of any vertex v."""
    entry = qp.gram.slope_error(x, qp.scale) + FLOAT64_EPS * np.abs(qp.linear)
    return float(np.linalg.norm(entry) * np.sqrt(qp.domain.farthest(x)))


def _factor_roundoff(qp: Any, x: NDArray[np.float64], quadratic: float) -> NDArray[np.float64]:
    """Return a bound on the rounding error of each entry of G x; with a factor, at w as computed.

    `quadratic` is a bound on x'Gx.
    """
    entry = np.broadcast_to(qp.entry_roundoff(x), qp.m)
    if not qp.gram.kernel.by_factor:
        return entry
    return np.minimum(4.0 * FLOAT64_EPS * float(np.sqrt(qp.scale * max(quadratic, 0.0))), entry)


def _margin_roundoff(
    qp: Any, x: NDArray[np.float64], some: NDArray[np.int64], quadratic: float
) -> tuple[float, float]:
    """Return bounds on the rounding errors of all entries of G x and of x'Gx."""
    total, length = float(np.linalg.norm(x, 1)), float(np.linalg.norm(x))
    square = qp.gram.roundoff(qp.scale, x[some], some, total, quadratic)
    entry = float(np.max(_factor_roundoff(qp, x, max(quadratic, 0.0) + square)))
    if qp.gram.kernel.by_factor:
        return entry, square
    return entry + qp.defect * length, square + qp.defect * length**2
