"""The gap of a hinge dual, whose primal point is w with its slacks, or w scaled to margins of 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, ROUNDED_PRODUCT, ProductError
from qpsvm.domains import BoxHyperplane, PenaltyBox

MIN_POINTS_FOR_MARGIN_SAMPLE = 5000
"""Points from which a sample of the support is first tested for a positive least margin."""

MARGIN_SAMPLE_SIZE = 200
"""Points of that sample."""

HINGE_DOMAINS = (BoxHyperplane, PenaltyBox)
"""Domains of a hinge dual, with a free bias and without."""

Vector = NDArray[np.float64]


def hinge_gap(
    qp: Any,
    x: Vector,
    product: Vector,
    quadratic: float,
    value: float,
    support: NDArray[np.int64],
    error: ProductError = ROUNDED_PRODUCT,
) -> tuple[float, Vector]:
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
    support : ndarray of int
        Indices of the nonzero entries of x.
    error : ProductError
        Error of `product` beyond its rounding.
    """
    domain = qp.domain
    assert isinstance(domain, HINGE_DOMAINS)
    if domain.bounded:
        slope = product + qp.linear
        gap, b = domain.separable_gap(x, slope, qp.gram.ridge, support)
        gap += error.quadratic + error.vertex
        soft = gap, np.array([b[0] if len(b) else 0.0, 1.0])
        if qp.defect:  # w has a norm only where G is positive semidefinite
            slope = slope + b[0] * qp.gram.sign if len(b) else slope
            return domain.convex_gap(x, slope, qp.defect), soft[1]
        # over all points the least margin is no greater than over a sample
        few = support[:: 1 + len(support) // MARGIN_SAMPLE_SIZE]
        if qp.m >= MIN_POINTS_FOR_MARGIN_SAMPLE and gap < np.inf and len(few):
            if domain.take(few).cone_multiplier(product[few])[0] <= 0.0:
                return soft  # hard is infinite
    rounding, square = margin_roundoff(qp, x[support], product[support], quadratic)
    least, bias = domain.cone_multiplier(product)
    least -= rounding + error.entry
    t = 1.0 / least if least > 0 else np.inf
    square = max(quadratic, 0.0) + square + error.quadratic
    hard = value + (0.5 * t * t * square if t and np.isfinite(t) else t) - qp.constant
    if domain.bounded and (gap <= hard or not t):
        return soft
    return hard, np.array([bias * t if t and np.isfinite(t) else np.sign(bias), t or 1.0])


def margin_roundoff(qp: Any, x: Vector, product: Vector, quadratic: float) -> tuple[float, float]:
    """Return bounds on the rounding errors of an entry of G x and of x'Gx."""
    total, length = float(np.linalg.norm(x, 1)), float(np.linalg.norm(x))
    square = qp.gram.roundoff(qp.scale, total, total, quadratic)
    if qp.gram.kernel.by_factor:  # the margins are those of w as computed
        entry = 4.0 * FLOAT64_EPS * np.sqrt(qp.scale * (max(quadratic, 0.0) + square))
        return min(float(entry), qp.entry_roundoff(x)), square
    return qp.entry_roundoff(x) + qp.defect * length, square + qp.defect * length**2
