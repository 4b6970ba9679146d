"""The nu-SVM for classification: the distance of two reduced convex hulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Certified, centering_noise
from qpsvm.canonical.qp import QP
from qpsvm.domains import CappedSimplex, SimplexProduct
from qpsvm.domains.capped_simplex import SUM_TOLERANCE
from qpsvm.errors import InputError, check_labels, check_number, check_vector
from qpsvm.expansion import Expansion
from qpsvm.formulations.base import Recovery, WeightedFormulation, separation
from qpsvm.gram import SignedGram, as_gram
from qpsvm.gram.translation import bias_of
from qpsvm.models import ReducedHulls
from qpsvm.numerics.products import transposed_times


@dataclass(frozen=True, eq=False)
class NuSVCDual(WeightedFormulation[ReducedHulls]):
    r"""Minimize :math:`\tfrac12 |\sum_i a_i y_i \phi(x_i)|^2`, weights of each class on a capped simplex.

    The weights of each class sum to 1 and are at most 2 / (nu m): the combinations of its points are
    its reduced convex hull, and the value is half the squared distance of the two. It is the dual of:
    minimize 1/2 |w|^2 - alpha + beta + 2/(nu m) sum_i xi_i subject to w'phi(x_i) >= alpha - xi_i where
    y_i = +1, w'phi(x_i) <= beta + xi_i where y_i = -1, and xi >= 0, whose optimal value is the negative
    of this one. With rho = (alpha - beta) / 2 and b = -(alpha + beta) / 2 it is the nu-SVM. At most a
    share nu of the points are margin errors, and at least that share are support vectors.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    y : array_like of shape (m,)
        Labels -1 and +1; both must occur.
    nu : float
        > 0 and at most `largest_nu`: twice the share of the smaller class.
    sample_weight : array_like of shape (m,), optional
        Weights w_i >= 0: the bounds become 2 w_i / (nu sum w). A point of weight 0 is omitted.

    Raises
    ------
    InputError
        If an argument is malformed, a class is empty, or nu is infeasible; the message names the
        argument and the largest nu.

    Notes
    -----
    LIBSVM and scikit-learn's NuSVC multiply a by nu m / 2 in the solve (by nu sum w / 2): their value
    is (nu m / 2)^2 times this one. Their decision function is that of the model, scaled so that the
    margins are -1 and +1.

    References
    ----------
    Schoelkopf, Smola, Williamson, Bartlett, "New support vector algorithms" (2000), on nu-SV
    classification; as a distance: Crisp and Burges, "A geometric interpretation of nu-SVM classifiers"
    (2000), and Bennett and Bredensteiner, "Duality and geometry in SVM classifiers" (2000).

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import Linear, NuSVCDual, solve
    >>> X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> result = solve(NuSVCDual(Linear(X), y, nu=1.0))
    >>> round(float(result.value), 6)  # the means are 3 apart
    4.5
    """

    K: Any
    y: Any
    nu: float = 0.5
    sample_weight: Any = None

    def __post_init__(self) -> None:
        """Validate the arguments."""
        K = as_gram(self.K)
        y = check_labels("y", self.y, K.m)
        check_number("nu", self.nu, low=0.0, open_low=True, high=1.0)
        weight = None
        if self.sample_weight is not None:
            weight = check_vector("sample_weight", self.sample_weight, K.m)
            if not np.all(weight >= 0.0):
                raise InputError(
                    f"sample_weight must be >= 0 for every point; got {float(weight.min())!r}"
                )
        for name, value in (("K", K), ("y", y), ("sample_weight", weight)):
            object.__setattr__(self, name, value)
        sums = _class_weights(y, self._weights)
        for label, total in zip((1, -1), sums, strict=True):
            if not total > 0.0:
                raise InputError(
                    f"y must hold both labels, -1 and +1, at points with a weight; got no {label:+d}"
                )
        largest = 2.0 * min(sums) / sum(sums)
        if self.nu > largest * (1.0 + SUM_TOLERANCE):
            raise InputError(
                f"nu must be at most {largest!r} for these labels, twice the share of the smaller "
                f"class; got {self.nu!r}, which is infeasible"
            )

    @staticmethod
    def largest_nu(y: Any, sample_weight: Any = None) -> float:
        """Return the largest feasible nu: twice the share of the smaller class in the weights.

        Parameters
        ----------
        y : array_like of shape (m,)
            Labels -1 and +1.
        sample_weight : array_like of shape (m,), optional
        """
        labels = check_labels("y", y, len(np.atleast_1d(y)))
        weight = np.ones(len(labels))
        if sample_weight is not None:
            weight = check_vector("sample_weight", sample_weight, len(labels))
        sums = _class_weights(labels, weight)
        return 2.0 * min(sums) / sum(sums) if sum(sums) > 0.0 else 0.0

    @property
    def _weights(self) -> NDArray[np.float64]:
        """Weights of the points, the largest 1."""
        w = self.sample_weight
        return np.ones(self.K.m) if w is None else w / max(float(np.max(w)), 1e-300)

    @property
    def n_points(self) -> int:
        """Number of points given."""
        return len(self.y)

    @property
    def kept(self) -> NDArray[np.int64]:
        """Points with a positive weight."""
        w = self.sample_weight
        return np.arange(self.K.m) if w is None else np.flatnonzero(w > 0)

    @property
    def upper(self) -> NDArray[np.float64]:
        """Bounds of the weights of all points, shape (m,)."""
        w = self._weights
        return np.asarray(2.0 * w / (self.nu * np.sum(w)))

    def as_qp(self) -> QP:
        """Return the QP on two simplices with bounds, or without where none can be reached.

        Linear points are centered first: the distance does not change when all points move.
        """
        rows, gram, y = self.kept, self.K.centered(), self.y
        if len(rows) < gram.m:
            gram, y = gram.take(rows), y[rows]
        upper, group = self.upper[rows], (y < 0).astype(np.int64)
        return QP(
            SignedGram(gram, y, np.zeros(len(y))),
            np.zeros(len(y)),
            CappedSimplex(upper, group) if np.any(upper < 1.0) else SimplexProduct(group),
            vanishing=True,
            noise=centering_noise(self.K),
            least=0.0,
        )

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the weights and the hyperplane.

        The levels of the two simplices are alpha and -beta, the best offsets for this w.
        """
        x, (alpha, minus_beta) = certified.x, certified.multipliers
        separable = separation(qp, certified)
        rho = 0.5 * float(alpha + minus_beta)
        apart = rho > 0.0 and separable is not False
        scale = rho if apart else 1.0
        signed, X = qp.gram.sign * x / scale, qp.gram.kernel.factor()
        w = None if X is None else np.asarray(transposed_times(X, signed))
        b = -0.5 * float(alpha - minus_beta) / scale
        b = b if w is None else bias_of(w, b, self.K.origin)
        expansion = Expansion.of(self.K, self.scatter(signed), w)
        distance = float(np.sqrt(max(float(x @ certified.product), 0.0)))
        errors = 0
        if isinstance(qp.domain, CappedSimplex):  # otherwise there are none
            missed = certified.product < certified.multipliers[qp.domain.group]
            errors = int(np.sum(qp.domain.full(x) & missed))
        model = ReducedHulls(
            b,
            expansion,
            expansion.vector,
            separable,
            rho=rho,
            distance=distance,
            margin=2.0 * rho / distance if apart and distance > 0.0 else 0.0,
            n_margin_errors=errors,
        )
        return Recovery(self.scatter(x), certified.multipliers, model)


def _class_weights(y: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[float, float]:
    """Return the sums of the weights of the points labeled +1 and of those labeled -1."""
    return float(np.sum(weight[y > 0])), float(np.sum(weight[y < 0]))
