"""Support vector regression with a squared epsilon-insensitive loss and a penalized bias."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from qpsvm.canonical.qp import QP
from qpsvm.domains import Orthant
from qpsvm.errors import check_choice, check_number
from qpsvm.formulations.svr import TubeDual


@dataclass(frozen=True, eq=False)
class L2SVRDual(TubeDual):
    r"""Minimize :math:`\tfrac12 \beta'(K + 1)\beta + \tfrac12 r + \epsilon |a + a^*|_1 - y'\beta`.

    .. math:: \beta = a - a^*, \qquad r = \sum_i \frac{a_i^2 + (a^*_i)^2}{C_i}, \qquad a_i, a^*_i \ge 0

    It is the dual of: minimize 1/2 (|w|^2 + b^2) + 1/2 sum_i C_i max(0, |y_i - f(x_i)| - epsilon)^2 with
    f(x) = w'phi(x) + b, whose optimal value is the negative of this one. LIBLINEAR's C is half of this C.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    y : array_like of shape (m,)
        Values of the points.
    C : float or array_like of shape (m,)
        Penalty, > 0 and finite. Per point, 0 omits the point.
    epsilon : float
        Error without a loss, >= 0.
    bias : bool
        Whether there is a b; otherwise it is 0, and K has no + 1.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    Notes
    -----
    The variable x of the answer is a followed by a*, shape (2 m,); its dual holds their differences,
    shape (m,), with w = sum_i (a_i - a*_i) phi(x_i) and b = sum_i (a_i - a*_i). At the optimum one of a_i
    and a*_i is 0, and the other one C_i times the error beyond the tube.

    References
    ----------
    Ho and Lin, "Large-scale linear support vector regression" (2012): there K is linear.

    Examples
    --------
    >>> from qpsvm import L2SVRDual, Linear, solve
    >>> X, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]
    >>> model = solve(L2SVRDual(Linear(X), y, C=1000.0, epsilon=0.0), tol=1e-8).model
    >>> model.predict([[1.5]]).round(2).tolist()
    [1.5]
    """

    K: Any
    y: Any
    C: Any = 1.0
    epsilon: float = 0.1
    bias: bool = field(default=True, kw_only=True)
    squared = True

    def __post_init__(self) -> None:
        """Validate the arguments."""
        self.check()
        epsilon = check_number("epsilon", self.epsilon, low=0.0, finite=True)
        check_choice("bias", self.bias, (True, False))
        object.__setattr__(self, "epsilon", float(epsilon))

    def as_qp(self) -> QP:
        """Return the QP in both signs of every point: see `both_signs`."""
        return self.both_signs(Orthant(2 * len(self.kept)), self.epsilon)
