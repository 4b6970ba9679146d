"""The certificate: a problem's bounds from the answer alone, by the same code for every method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.forms import QP
from qpsvm.result import Certificate, passed_test


class Certified(NamedTuple):
    """A feasible point of the canonical form with its proof."""

    x: NDArray[np.float64]
    product: NDArray[np.float64]  # G x, fresh
    multipliers: NDArray[np.float64]  # of the domain's equality constraints
    certificate: Certificate


def certify(
    problem: QP, x: NDArray[np.float64], tol: float, *, support_only: bool = False
) -> Certified:
    """Repair x, multiply it afresh in float64, and bound the optimal value.

    Nothing is taken from the solver but x itself. With `support_only` the points outside the
    support are not looked at: the value of x is exact, and no lower bound is proved.
    """
    x = problem.domain.repair(x)
    if support_only:
        rows = np.flatnonzero(x)
        part, product = problem.take(rows), np.zeros(problem.m)
        product[rows] = part.gram.product(x[rows])
        bounds = part.bounds(x[rows], product[rows])
    else:
        x, product = problem.feasible(x, problem.gram.product(x))
        bounds = problem.bounds(x, product)
    if support_only or not problem.convex:  # stationary at best: no lower bound is proved
        bounds = bounds._replace(gap=np.inf, lower=-np.inf)
        if problem.negated:
            bounds = bounds._replace(upper=np.inf)
    floor = problem.floor(tol)
    certificate = Certificate(
        upper=bounds.upper,
        lower=bounds.lower,
        gap=bounds.gap,
        violation=problem.domain.violation(x),
        roundoff=problem.roundoff(x, product, bounds.upper),
        floor=floor,
        tol=tol,
        test=passed_test(bounds.gap, bounds.upper, bounds.lower, tol, floor),
    )
    return Certified(x, product, bounds.multipliers, certificate)
