"""The certificate: a problem's bounds from the answer alone, by the same code for every method."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.forms import QP, Form
from qpsvm.result import Certificate, passed_test


class Certified(NamedTuple):
    """A feasible point of the canonical form with its proof."""

    x: NDArray[np.float64]
    product: Any  # its products with the data, fresh: G x of a QP
    multipliers: NDArray[np.float64]  # of the equality constraints
    certificate: Certificate


def certify(
    problem: Form,
    x: NDArray[np.float64],
    tol: float,
    convex: bool = True,
    *,
    support_only: bool = False,
) -> Certified:
    """Repair x, multiply it afresh in float64, and bound the optimal value.

    Nothing is taken from the solver but x itself, and that it met no negative curvature: `convex`.
    With `support_only` the points of a QP outside the support are not looked at: the value of x is
    exact, and no lower bound is proved.
    """
    x = problem.repair(x)
    if support_only:
        assert isinstance(problem, QP), "only methods on a QP leave points out"
        rows = np.flatnonzero(x)
        part, product = problem.take(rows), np.zeros(problem.m)
        product[rows] = part.gram.product(x[rows])
        bounds = part.bounds(x[rows], product[rows])
    else:
        x, product = problem.feasible(x, problem.product(x))
        bounds = problem.bounds(x, product)
    if support_only or not (problem.convex and convex):  # stationary at best: no lower bound
        bounds = bounds._replace(gap=np.inf, lower=-np.inf)
        if problem.negated:
            bounds = bounds._replace(upper=np.inf)
    floor = problem.floor(tol)
    certificate = Certificate(
        upper=bounds.upper,
        lower=bounds.lower,
        gap=bounds.gap,
        violation=problem.violation(x),
        roundoff=problem.roundoff(x, product, bounds.upper),
        floor=floor,
        tol=tol,
        test=passed_test(bounds.gap, bounds.upper, bounds.lower, tol, floor),
    )
    return Certified(x, product, bounds.multipliers, certificate)
