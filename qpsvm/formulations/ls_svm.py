"""The least-squares SVM (Zhou, Tao and Wu, section III-C; Suykens and Vandewalle 1999)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from qpsvm.formulations.base import MarginFormulation


@dataclass(frozen=True, eq=False)
class LSSVMPrimal(MarginFormulation):
    r"""Minimize :math:`\tfrac12 |w|^2 + \sum_i C_i (1 - y_i (x_i'w + b))^2` over w and b.

    Its dual is: maximize sum a - 1/2 |sum a_i y_i x_i|^2 - sum a_i^2 / (4 C_i), subject to y'a = 0
    where there is a bias; w = sum a_i y_i x_i and a_i = 2 C_i (1 - y_i (x_i'w + b)), of either sign.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d), or Gram
        Points, float32 or float64; kept by reference and never written. Or a Gram of m points in
        their place: w then is sum c_j phi(x_j), represented by c.
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
    holds the weights a, shape (m,). Of a Gram, c of shape (m,) represents w.

    The paper calls (54) a quadratic hinge loss; as printed it is two-sided, least squares, and that
    is what is solved here. `L2SVMDual` is the machine with the squared hinge.

    References
    ----------
    Zhou, Tao and Wu, "NESVM: a fast gradient method for support vector machines", (53) and (54).

    Examples
    --------
    >>> from qpsvm import LSSVMPrimal, solve
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1]
    >>> solve(LSSVMPrimal(X, y, C=10.0)).model.predict([[1.5], [2.5]]).tolist()
    [-1.0, 1.0]
    """

    X: Any
    y: Any
    C: Any = 1.0
    bias: bool = field(default=True, kw_only=True)
    loss = "squared"
