"""The linear-programming SVM: an L1 norm and the hinge loss (Zhou, Tao and Wu, section III-B)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from qpsvm.formulations.base import MarginFormulation


@dataclass(frozen=True, eq=False)
class LPSVMPrimal(MarginFormulation):
    r"""Minimize :math:`|w|_1 + \sum_i C_i \max(0, 1 - y_i (x_i'w + b))` over w and b.

    Its dual is: maximize sum a subject to :math:`0 \le a_i \le C_i`, :math:`|X'(ya)|_\infty \le 1`
    and, where there is a bias, y'a = 0.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d), or LowRank
        Points, float32 or float64; kept by reference and never written. Or a Gram with a factor.
    y : array_like of shape (m,)
        Labels -1 and +1.
    C : float or array_like of shape (m,)
        Penalty, > 0 and finite. Per point, 0 leaves the point out.
    bias : bool
        Whether there is a b; otherwise it is 0.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    Notes
    -----
    The variable x of the answer is w followed by b, shape (d + 1,), without bias w alone; its dual
    holds the weights a, shape (m,).

    References
    ----------
    Zhou, Tao and Wu, "NESVM: a fast gradient method for support vector machines", (49) and (50).
    """

    X: Any
    y: Any
    C: Any = 1.0
    bias: bool = field(default=True, kw_only=True)
    penalty = "l1"
