"""The one-class SVM of Schoelkopf et al.: a hyperplane between the points and the origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Certified
from qpsvm.canonical.qp import QP
from qpsvm.domains import CappedSimplex, Domain, simplex
from qpsvm.errors import InputError, check_number, check_vector
from qpsvm.expansion import Expansion
from qpsvm.formulations.base import Recovery, WeightedFormulation
from qpsvm.gram import Gram, SignedGram, as_gram
from qpsvm.models import OneClass


@dataclass(frozen=True, eq=False)
class OneClassDual(WeightedFormulation[OneClass]):
    r"""Minimize :math:`\tfrac12 a'Ka`, :math:`0 \le a_i \le 1/(\nu m)`, :math:`\sum_i a_i = 1`.

    It is the dual of: minimize 1/2 |w|^2 - rho + 1/(nu m) sum_i xi_i subject to
    w'phi(x_i) >= rho - xi_i, xi >= 0, whose optimal value is the negative of this one. At most a
    share nu of the points lies outside, and at least that share are support vectors.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    nu : float
        In (0, 1]. From nu <= 1/m on no point may lie outside.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0: the bounds become w_i / (nu sum w). A point of weight 0 is omitted.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    Notes
    -----
    The scale is that of the paper. LIBSVM and scikit-learn's OneClassSVM multiply a by nu m
    (by nu sum w): their weights are in [0, 1] or [0, w_i] and sum to nu m, and their decision
    function, rho and ``offset_`` are nu m times those here. Labels and ranking are the same.

    References
    ----------
    Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson, "Estimating the support of a
    high-dimensional distribution" (2001), equations (3.4) and (3.11).

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import RBF, OneClassDual, solve
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> solve(OneClassDual(RBF(X, gamma=1.0), nu=0.2)).model.predict([[0.5], [9.0]]).tolist()
    [1.0, -1.0]
    """

    K: Any
    nu: float = 0.5
    sample_weight: Any = None

    def __post_init__(self) -> None:
        """Validate the arguments."""
        K = as_gram(self.K)
        object.__setattr__(self, "K", K)
        check_number("nu", self.nu, low=0.0, open_low=True, high=1.0)
        if self.sample_weight is not None:
            weight = check_vector("sample_weight", self.sample_weight, K.m)
            if not np.all(weight >= 0) or not np.any(weight > 0):
                raise InputError(
                    "sample_weight must be >= 0, and > 0 for at least one point; "
                    f"got values from {float(weight.min())!r} to {float(weight.max())!r}"
                )
            object.__setattr__(self, "sample_weight", weight)

    @property
    def n_points(self) -> int:
        """Number of points given."""
        return self.K.m

    @property
    def kept(self) -> NDArray[np.int64]:
        """Points with a positive weight."""
        w = self.sample_weight
        return np.arange(self.K.m) if w is None else np.flatnonzero(w > 0)

    @property
    def upper(self) -> NDArray[np.float64]:
        """Bounds of the weights of all points, shape (m,)."""
        w = np.ones(self.K.m) if self.sample_weight is None else self.sample_weight
        return np.asarray(w / np.max(w) / (self.nu * np.sum(w / np.max(w))))

    def as_qp(self) -> QP:
        """Return the QP on the simplex with upper bounds, or without where none can be reached."""
        rows = self.kept
        gram: Gram = self.K if len(rows) == self.K.m else self.K.take(rows)
        signed = SignedGram(gram, np.ones(len(rows)), np.zeros(len(rows)))
        domain = capped(self.upper[rows])
        return QP(signed, np.zeros(len(rows)), domain, vanishing=True, least=0.0)

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the weights, rho and the hyperplane."""
        weights = self.scatter(certified.x)
        expansion = Expansion.of(self.K, weights)
        rho = float(certified.multipliers[0])
        outside = 0
        if isinstance(qp.domain, CappedSimplex):  # otherwise no point lies outside
            outside = int(np.sum(qp.domain.full(certified.x) & (certified.product < rho)))
        model = OneClass(rho, expansion, expansion.vector, outside)
        return Recovery(weights, certified.multipliers, model)


def capped(upper: NDArray[np.float64]) -> Domain:
    """Return the simplex with upper bounds, or the simplex itself where none of them is below 1."""
    return CappedSimplex(upper) if np.any(upper < 1.0) else simplex(len(upper))
