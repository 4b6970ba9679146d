"""The L2-SVM with a penalized bias, as a QP on the simplex (Frandi et al., section 2; CVM)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qpsvm.canonical.base import Certified
from qpsvm.canonical.qp import QP
from qpsvm.domains import simplex
from qpsvm.errors import check_choice, check_labels, check_penalty
from qpsvm.expansion import Expansion
from qpsvm.formulations.base import Recovery, WeightedFormulation, separation
from qpsvm.gram import Gram, SignedGram, as_gram
from qpsvm.models import Hyperplane


@dataclass(frozen=True, eq=False)
class L2SVMDual(WeightedFormulation[Hyperplane]):
    r"""Minimize :math:`\tfrac12 a'Qa` over the simplex.

    .. math:: Q_{ij} = y_i y_j (k_{ij} + 1) + \delta_{ij} / C_i

    It is the dual of: minimize 1/2 (|w|^2 + b^2 + sum_i C_i xi_i^2) - rho subject to
    y_i (w'phi(x_i) + b) >= rho - xi_i. The model is scaled to margins of 1, that is the minimizer
    of 1/2 (|w|^2 + b^2) + 1/2 sum_i C_i max(0, 1 - y_i f(x_i))^2; LIBLINEAR's C is half of this C.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    y : array_like of shape (m,)
        Labels -1 and +1; one class alone is legal, since the bias is penalized.
    C : float or array_like of shape (m,)
        Penalty, > 0 and possibly infinite (hard margin). Per point, 0 omits the point.
    bias : bool
        Whether there is a b; otherwise it is 0, and Q has no + 1.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    References
    ----------
    Frandi, Nanculef, Gasparo, Lodi, Sartori, "Training support vector machines using Frank-Wolfe
    optimization methods", equations (8)-(12); there (11) and (12) lack the factor 1/2.

    Examples
    --------
    >>> from qpsvm import L2SVMDual, RBF, solve
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0]], [-1, -1, 1, 1]
    >>> result = solve(L2SVMDual(RBF(X, gamma=0.5), y, C=10.0))
    >>> result.converged, result.model.predict([[0.5, 0.0]]).tolist()
    (True, [-1.0])
    """

    K: Any
    y: Any
    C: Any = 1.0
    bias: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        """Validate the arguments."""
        K = as_gram(self.K)
        object.__setattr__(self, "K", K)
        object.__setattr__(self, "y", check_labels("y", self.y, K.m))
        object.__setattr__(self, "C", check_penalty("C", self.C, K.m))
        check_choice("bias", self.bias, (True, False))

    def as_qp(self) -> QP:
        """Return the QP on the simplex."""
        rows = self.kept
        gram: Gram = self.K if len(rows) == self.K.m else self.K.take(rows)
        ridge = 1.0 / self.C[rows]
        return QP(
            SignedGram(gram, self.y[rows], ridge, shift=float(self.bias)),
            np.zeros(len(rows)),
            simplex(len(rows)),
            vanishing=bool(np.min(ridge) == 0),
            least=0.0,
        )

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the weights and the hyperplane with w = sum a_i y_i phi(x_i) / R.

        R is twice the value; of a hard margin w is scaled where the bounds prove R > 0.
        """
        a, bounds = certified.x, certified.certificate
        separable = separation(qp, certified)
        scaled = separable and bounds.upper > 0.0  # of a Gram that is not convex it may be negative
        signed = self.scatter(qp.gram.sign * a) / (2.0 * bounds.upper if scaled else 1.0)
        expansion = Expansion.of(self.K, signed)
        b = float(np.sum(signed)) if self.bias else 0.0
        model = Hyperplane(b, expansion, expansion.vector, separable)
        return Recovery(self.scatter(a), certified.multipliers, model)
