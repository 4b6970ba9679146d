"""Support vector data description: the smallest ball with slack (Tax and Duin)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qpsvm.canonical.base import Certified, centering_noise
from qpsvm.canonical.primal_point import BallPoint
from qpsvm.canonical.qp import QP
from qpsvm.domains import CappedSimplex
from qpsvm.domains.capped_simplex import SUM_TOLERANCE
from qpsvm.errors import InputError, check_penalty
from qpsvm.expansion import Expansion
from qpsvm.formulations.base import Recovery, WeightedFormulation
from qpsvm.formulations.one_class import capped
from qpsvm.gram import Gram, SignedGram, as_gram
from qpsvm.models import Ball


@dataclass(frozen=True, eq=False)
class SVDDDual(WeightedFormulation[Ball]):
    r"""Minimize :math:`a'Ka - \mathrm{diag}(K)'a`, :math:`0 \le a_i \le C_i`, :math:`\sum_i a_i = 1`.

    It is the dual of: minimize r^2 + sum_i C_i xi_i subject to |phi(x_i) - c|^2 <= r^2 + xi_i,
    xi >= 0, with c = sum a_i phi(x_i); the value is the negative of that.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    C : float or array_like of shape (m,)
        Penalty, > 0. From C >= 1 on no point may lie outside: it is `MEBDual`. C = 1 / (nu m) lets
        at most a share nu of the points lie outside. The C_i must sum to at least 1. Per point, 0
        omits the point.

    Raises
    ------
    InputError
        If an argument is malformed, or if C sums to less than 1.

    References
    ----------
    Tax and Duin, "Support vector data description" (2004), equations (3) and (8)-(10). A sum of
    C below 1 has no feasible weights: the primal is unbounded below.

    Examples
    --------
    >>> from qpsvm import Linear, SVDDDual, solve
    >>> X = [[0.0], [1.0], [2.0], [9.0]]
    >>> ball = solve(SVDDDual(Linear(X), C=0.5), tol=1e-8).model
    >>> ball.contains([[1.0], [9.0]]).tolist()
    [True, False]
    """

    K: Any
    C: Any = 1.0

    def __post_init__(self) -> None:
        """Validate the arguments."""
        K = as_gram(self.K)
        C = check_penalty("C", self.C, K.m)
        total = float(np.sum(C))
        if total < 1.0 - SUM_TOLERANCE:
            raise InputError(
                f"C must sum to at least 1 over the points, as the weights do: a number must be at "
                f"least 1/m = {1.0 / K.m:.6g} for these {K.m} points; got a sum of {total:.6g}"
            )
        object.__setattr__(self, "K", K)
        object.__setattr__(self, "C", C)

    def as_qp(self) -> QP:
        """Return the QP on the simplex with bounds; points of a linear kernel are centered first."""
        rows = self.kept
        gram: Gram = self.K.centered()
        gram = gram if len(rows) == gram.m else gram.take(rows)
        m = len(rows)
        signed = SignedGram(gram, np.ones(m), np.zeros(m), scale=2.0)
        noise = centering_noise(self.K)
        domain = capped(self.C[rows])
        primal = None if self.K.origin is None else BallPoint(self.K.origin)
        return QP(signed, -gram.diag(), domain, vanishing=True, noise=noise, primal=primal)

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the weights and the ball about sum a_i phi(x_i), with the best radius for it."""
        x, product, bounds = certified.x, certified.product, certified.certificate
        weights = self.scatter(x)
        point = certified.primal or qp.primal_point(x, certified.multipliers)
        own = 0.5 * float(x @ product)  # |c|^2 from the origin of the solve
        if point is None or not isinstance(qp.primal, BallPoint):
            square = own - product - qp.linear  # squared distances from the center
            level, expansion = own - float(certified.multipliers[0]), Expansion.of(self.K, weights)
        else:
            level, expansion = point.b, Expansion.of(self.K, weights, point.w)
            square = qp.primal.squares(qp, point.w)
        center = expansion.vector
        if isinstance(qp.domain, CappedSimplex):
            level = max(level, 0.0)
            radius, error = float(np.sqrt(level)), float(np.sqrt(bounds.gap))
            least = max(radius - error, 0.0)  # |c - c*|^2 <= gap, and no distance changes by more
            outside = qp.domain.full(x) & (square > level)
            slack = float(qp.domain.upper @ np.maximum(square - level, 0.0))
        else:  # no point may lie outside
            radius, least = (float(np.sqrt(max(-b, 0.0))) for b in (bounds.lower, bounds.upper))
            outside, slack = np.zeros(0, bool), 0.0
        here = own if center is None else float(center @ center)
        ball = Ball(radius, least, expansion, here, center, int(np.sum(outside)), slack)
        return Recovery(weights, certified.multipliers, ball)
