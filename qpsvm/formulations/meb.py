"""The minimum enclosing ball (Frandi et al., section 2.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qpsvm.canonical.base import Certified, centering_noise
from qpsvm.canonical.primal_point import BallPoint
from qpsvm.canonical.qp import QP
from qpsvm.domains import simplex
from qpsvm.expansion import Expansion
from qpsvm.formulations.base import Formulation, Recovery
from qpsvm.gram import SignedGram, as_gram
from qpsvm.models import Ball


@dataclass(frozen=True, eq=False)
class MEBDual(Formulation[Ball]):
    r"""Minimize :math:`a'Ka - \mathrm{diag}(K)'a` over the simplex; the value is -radius^2.

    It is the dual of: minimize r^2 subject to |phi(x_i) - c|^2 <= r^2, with c = sum a_i phi(x_i).

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)

    Raises
    ------
    InputError
        If `K` is malformed.

    References
    ----------
    Frandi et al., equations (14)-(16); the last member of (16) has lost its linear term there.

    Examples
    --------
    >>> from qpsvm import Linear, MEBDual, solve
    >>> ball = solve(MEBDual(Linear([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])), tol=1e-8).model
    >>> round(ball.radius, 6), ball.center.round(6).tolist()
    (1.0, [1.0, 0.0])
    """

    K: Any

    def __post_init__(self) -> None:
        """Validate the arguments."""
        object.__setattr__(self, "K", as_gram(self.K))

    def as_qp(self) -> QP:
        """Return the QP on the simplex; points of a linear kernel are centered first."""
        gram = self.K.centered()
        m = gram.m
        signed = SignedGram(gram, np.ones(m), np.zeros(m), scale=2.0)
        noise = centering_noise(self.K)
        primal = None if self.K.origin is None else BallPoint(self.K.origin)
        return QP(signed, -gram.diag(), simplex(m), vanishing=True, noise=noise, primal=primal)

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the weights and the ball around sum a_i phi(x_i) that contains every point."""
        bounds = certified.certificate
        ball = qp.primal if isinstance(qp.primal, BallPoint) else None
        known = None if ball is None else ball.center(qp, certified.x)
        expansion = Expansion.of(self.K, certified.x, known)
        center = expansion.vector
        if center is None:
            square = 0.5 * float(certified.x @ certified.product)
        else:
            square = float(center @ center)
        model = Ball(
            radius=float(np.sqrt(max(-bounds.lower, 0.0))),
            radius_lower=float(np.sqrt(max(-bounds.upper, 0.0))),
            expansion=expansion,
            center_square=square,
            center=center,
        )
        return Recovery(certified.x, certified.multipliers, model)
