"""Support vector regression in which a parameter nu takes the place of the tube's width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import CappedSimplex
from qpsvm.errors import InputError, check_number
from qpsvm.formulations.base import Formulation
from qpsvm.formulations.svr import TubeDual
from qpsvm.result import Result


@dataclass(frozen=True, eq=False)
class NuSVRDual(TubeDual):
    r"""Minimize :math:`\tfrac12 (a - a^*)'K(a - a^*) - y'(a - a^*)`, the sums of a and a* given.

    .. math:: 0 \le a_i, a^*_i \le C_i, \qquad
        \sum_i a_i = \sum_i a^*_i = \tfrac{\nu}{2} \sum_i C_i

    It is the dual of: minimize 1/2 |w|^2 + nu epsilon sum_i C_i
    + sum_i C_i max(0, |y_i - w'phi(x_i) - b| - epsilon) over w, b and epsilon >= 0, whose optimal value
    is the negative of this one. At most a share nu of the points, weighed by C_i, lie outside of the
    tube, and at least that share are support vectors.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    y : array_like of shape (m,)
        Values of the points.
    C : float or array_like of shape (m,)
        Penalty, > 0 and finite. Per point, 0 omits the point.
    nu : float
        > 0 and at most 1.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    Notes
    -----
    The variable x of the answer is a followed by a*, shape (2 m,); its dual holds their differences,
    shape (m,). The model's epsilon and b are exactly best for its w: the tube lies between the values
    y_i - w'phi(x_i) that have a share nu / 2 above them and below them. Where an interval of values does
    it is the middle. The answer is that of `SVRDual` with this epsilon. The penalties are those of LIBSVM
    and scikit-learn's NuSVR; the paper's C is m times as large.

    References
    ----------
    Schoelkopf, Smola, Williamson, Bartlett, "New support vector algorithms" (2000), on nu-SV regression;
    Chang and Lin, "Training nu-support vector regression: theory and algorithms" (2002), problem (4).

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import Linear, NuSVRDual, solve
    >>> X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([-1.0, 0.5, 1.0])
    >>> model = solve(NuSVRDual(Linear(X), y, C=10.0, nu=0.1)).model
    >>> round(model.epsilon, 6), round(model.b, 6)  # the narrowest tube around all points
    (0.25, 0.25)
    """

    K: Any
    y: Any
    C: Any = 1.0
    nu: float = 0.5
    bias = True

    def __post_init__(self) -> None:
        """Validate the arguments."""
        self.check()
        check_number("nu", self.nu, low=0.0, open_low=True, high=1.0)
        if not 0.0 < self.total < np.inf:
            raise InputError(
                "nu must be such that nu / 2 times the sum of C is positive and finite in float64; "
                f"got nu = {self.nu!r} and C up to {float(np.max(self.C))!r}"
            )

    @property
    def total(self) -> float:
        """Sum of the weights of each sign, half of nu times the sum of the penalties."""
        with np.errstate(over="ignore"):
            return 0.5 * self.nu * float(np.sum(self.C))

    def as_qp(self) -> QP:
        """Return the QP in both signs of every point, each sign on a simplex with bounds."""
        C = self.C[self.kept]
        domain = CappedSimplex(np.tile(C, 2), np.repeat([0, 1], len(C)), self.total)
        return self.both_signs(domain, None)

    def carried(self, earlier: Formulation, result: Result) -> NDArray[np.float64]:
        """Return weights that are the same shares of their bounds."""
        assert isinstance(earlier, NuSVRDual)
        shares = np.divide(self.C, earlier.C, out=np.zeros(self.n_points), where=earlier.C > 0.0)
        return np.asarray(result.x * np.tile(shares, 2))
