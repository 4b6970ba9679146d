"""Support vector regression with an epsilon-insensitive loss, with a free bias or without.

`TubeDual` is what it shares with the regression whose epsilon is a variable: see `nu_svr`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Certified
from qpsvm.canonical.primal_point import TubePoint
from qpsvm.canonical.qp import QP
from qpsvm.domains import BoxHyperplane, Domain, PenaltyBox
from qpsvm.errors import InputError, check_choice, check_number, check_penalty, check_vector
from qpsvm.expansion import Expansion
from qpsvm.formulations.base import Formulation, Recovery, WeightedFormulation, scaled_weights
from qpsvm.gram import Gram, RepeatedGram, SignedGram, as_gram
from qpsvm.models import Regressor
from qpsvm.result import Result


class TubeDual(WeightedFormulation[Regressor]):
    """A regression with a tube, in the weights a and a* of the values above it and of those below.

    A subclass has the fields K, y and C, checked by `check`, and compiles with `both_signs`.
    """

    K: Any
    y: Any
    bias: bool
    squared: ClassVar[bool] = False  # whether the loss is a square and the bias has a penalty

    def check(self) -> None:
        """Validate K, y and C and store them as arrays."""
        K = as_gram(self.K)
        C = check_penalty("C", self.C, K.m)
        if np.isinf(C).any():
            raise InputError("C must be finite for every point; got infinity")
        for name, value in (("K", K), ("C", C), ("y", check_vector("y", self.y, K.m))):
            object.__setattr__(self, name, value)

    @property
    def n_points(self) -> int:
        """Number of points given."""
        return len(self.y)

    @property
    def level(self) -> float:
        """Middle of the range of y, which a free bias absorbs; otherwise 0."""
        y = self.y[self.kept]
        return 0.5 * float(np.min(y)) + 0.5 * float(np.max(y)) if self.free_bias else 0.0

    @property
    def free_bias(self) -> bool:
        """Whether there is a bias that no penalty counts."""
        return self.bias and not self.squared

    def both_signs(self, domain: Domain, epsilon: float | None) -> QP:
        """Return the QP in both signs of every point with a penalty, over repeated points.

        With a free bias linear points and y are moved first: it absorbs both. Where epsilon is None it
        is a variable of the problem, and no term of the QP. The ridge and a penalized bias are those of
        a squared loss.
        """
        rows, level, free = self.kept, self.level, self.free_bias
        gram: Gram = self.K.centered() if free else self.K
        y = self.y[rows]
        if len(rows) < gram.m:
            gram = gram.take(rows)
        sign = signs(len(rows))
        repeated = RepeatedGram(gram, np.tile(np.arange(len(rows)), 2))
        ridge = np.tile(1.0 / self.C[rows], 2) if self.squared else np.zeros(len(sign))
        signed = SignedGram(repeated, sign, ridge, shift=float(self.bias and not free))
        primal = TubePoint(y, epsilon, level, self.K.origin if free else None, self.squared)
        linear = (epsilon or 0.0) - sign * np.tile(y - level, 2)
        return QP(signed, linear, domain, vanishing=True, primal=primal)

    def start(self, qp: Any, x0: Any) -> NDArray[np.float64]:
        """Return the weights of the points in the solve, of both signs."""
        x0 = x0.x if isinstance(x0, Result) else x0
        both = check_vector("x0", x0, 2 * self.n_points).reshape(2, -1)
        return both[:, self.kept].ravel()

    def support(self, form: Any, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the indices of the points with a weight of either sign."""
        return self.kept[np.flatnonzero((x.reshape(2, -1) != 0).any(axis=0))]

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the weights of both signs, their differences and the function."""
        both = np.zeros((2, self.n_points))
        both[:, self.kept] = certified.x.reshape(2, -1)
        coef = both[0] - both[1]
        assert isinstance(qp.primal, TubePoint)
        point = certified.primal
        if point is None:
            bias, epsilon = qp.primal.tube(qp, certified.x, certified.multipliers)
            expansion, b = Expansion.of(self.K, coef), bias + self.level
        else:
            expansion, b, epsilon = Expansion.of(self.K, coef, point.w), point.b, point.epsilon
        model = Regressor(b if self.bias else 0.0, expansion, expansion.vector, epsilon)
        return Recovery(both.ravel(), coef, model)


def signs(m: int) -> NDArray[np.float64]:
    """Return +1 for the weights above the tube and -1 for those below, shape (2 m,)."""
    return np.repeat([1.0, -1.0], m)


@dataclass(frozen=True, eq=False)
class SVRDual(TubeDual):
    r"""Minimize :math:`\tfrac12 (a - a^*)'K(a - a^*) + \epsilon \sum_i (a_i + a^*_i) - y'(a - a^*)`.

    .. math:: 0 \le a_i, a^*_i \le C_i, \qquad \sum_i (a_i - a^*_i) = 0

    It is the dual of: minimize 1/2 |w|^2 + sum_i C_i max(0, |y_i - w'phi(x_i) - b| - epsilon), whose
    optimal value is the negative of this one.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    y : array_like of shape (m,)
        Values of the points.
    C : float or array_like of shape (m,)
        Penalty, > 0 and finite. Per point, 0 omits the point.
    epsilon : float
        Error without a loss, >= 0. Where it is at least half the range of y, a constant is the answer.
    bias : bool
        Whether the function has a bias; without one b = 0 and there is no constraint on the sum.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    Notes
    -----
    The variable x of the answer is a followed by a*, shape (2 m,); its dual holds their differences,
    shape (m,), the coefficients of w = sum_i (a_i - a*_i) phi(x_i). The support are the points of which
    one of both is not 0.

    References
    ----------
    Smola and Schoelkopf, "A tutorial on support vector regression" (2004), equation (10).

    Examples
    --------
    >>> solve(SVRDual(RBF(X), y, C=10.0, epsilon=0.1)).model.predict(Z)  # doctest: +SKIP
    """

    K: Any
    y: Any
    C: Any = 1.0
    epsilon: float = 0.1
    bias: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        """Validate the arguments."""
        self.check()
        epsilon = check_number("epsilon", self.epsilon, low=0.0, finite=True)
        check_choice("bias", self.bias, (True, False))
        object.__setattr__(self, "epsilon", float(epsilon))

    def as_qp(self) -> QP:
        """Return the QP in both signs of every point: see `both_signs`."""
        upper = np.tile(self.C[self.kept], 2)
        box = BoxHyperplane(upper, signs(len(upper) // 2)) if self.bias else PenaltyBox(upper)
        return self.both_signs(box, self.epsilon)

    def carried(self, earlier: Formulation, result: Result) -> Any:
        """Return weights at their bounds where they were, the others kept or scaled to a sum of 0."""
        assert isinstance(earlier, SVRDual)
        sign = signs(self.n_points) if self.bias else np.zeros(2 * self.n_points)
        return scaled_weights(result.x, np.tile(earlier.C, 2), np.tile(self.C, 2), sign)
