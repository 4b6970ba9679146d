"""The linear-programming SVM: an l1 norm and the hinge loss (Zhou, Tao and Wu, section III-B)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.formulations.base import MarginFormulation
from qpsvm.gram import Gram
from qpsvm.gram.feature_map import CoefficientFeatures, Features, features_of


@dataclass(frozen=True, eq=False)
class LPSVMPrimal(MarginFormulation):
    r"""Minimize :math:`|w|_1 + \sum_i C_i \max(0, 1 - y_i (x_i'w + b))` over w and b.

    Its dual is: maximize sum a subject to :math:`0 \le a_i \le C_i`, :math:`|X'(ya)|_\infty \le 1`
    and, where there is a bias, y'a = 0. Of a Gram K the rows of K replace the points:
    :math:`|c|_1 + \sum_i C_i \max(0, 1 - y_i ((Kc)_i + b))` is minimized over the coefficients c of the
    expansion sum c_j phi(x_j), and b.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d), or Gram
        Points, float32 or float64; kept by reference and never written. Or a Gram of m points in their
        place, of any kernel; it need not be positive semidefinite.
    y : array_like of shape (m,)
        Labels -1 and +1.
    C : float or array_like of shape (m,)
        Penalty, > 0 and finite. Per point, 0 omits the point.
    bias : bool
        Whether there is a b; otherwise it is 0.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    Notes
    -----
    The variable x of the answer is w followed by b, shape (d + 1,), without bias w alone; its dual
    holds the weights a, shape (m,). Of a Gram, c of shape (m,) represents w; points with C_i = 0 have
    none. The value depends on K alone, not on the factor of a Gram. `Linear(X)` is a
    Gram: its machine is that of the kernel x'z, with the l1 norm of c, where the points themselves are
    penalized by the l1 norm of w.

    References
    ----------
    Zhou, Tao and Wu, "NESVM: a fast gradient method for support vector machines", (49) and (50); for
    kernels the end of section II-C, by which K replaces the points.

    Examples
    --------
    >>> problem = LPSVMPrimal(RBF(X, gamma=0.1), y, C=1.0)  # doctest: +SKIP
    >>> solve(problem).model.expansion.indices  # few points have weight  # doctest: +SKIP
    """

    X: Any
    y: Any
    C: Any = 1.0
    bias: bool = field(default=True, kw_only=True)
    penalty = "l1"

    def features(self, gram: Gram) -> Features:
        """Return the points, or the rows of K."""
        return CoefficientFeatures(gram) if isinstance(self.X, Gram) else features_of(gram)

    @property
    def origin(self) -> NDArray[np.float64] | None:
        """Translation of the points in a solve: None where the rows of K replace them."""
        return None if isinstance(self.X, Gram) else super().origin
