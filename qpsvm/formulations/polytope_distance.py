"""The distance of two polytopes (Kumar and Yildirim)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Certified, centering_noise
from qpsvm.canonical.qp import QP
from qpsvm.domains import SimplexProduct
from qpsvm.errors import InputError, check_labels, check_number, check_points
from qpsvm.expansion import Expansion, Normal, kept_map
from qpsvm.formulations.base import Formulation, Recovery, proven_margin, separation
from qpsvm.gram import Gram, Linear, SignedGram, as_gram
from qpsvm.gram.base import BLOCK_ENTRIES
from qpsvm.gram.translation import bias_of
from qpsvm.models import ClosestPoints
from qpsvm.numerics.products import transposed_times
from qpsvm.result import Result


class CoreSetBound(NamedTuple):
    """Bounds of Kumar and Yildirim for their Algorithm 1 (``mfw``) at the accuracy of a result.

    Attributes
    ----------
    eps : float
        The certified margin is at least (1 - eps) times the largest one.
    delta : float
        Half the largest squared distance of a point of P and one of Q (19).
    zeta : float
        `delta` over the certified lower bound of the value: the squared ratio of the largest to the
        least distance of the two sets, from above.
    iterations : float
        Bound (29) on the iterations of all kinds.
    size : float
        Bound (33) of the core set with its constants: two points, and two more in each iteration.
    """

    eps: float
    delta: float
    zeta: float
    iterations: float
    size: float


@dataclass(frozen=True, eq=False)
class PolytopeDistanceDual(Formulation[ClosestPoints]):
    r"""Minimize :math:`\tfrac12 |Pu - Qv|^2 + (|u|^2 + |v|^2) / (2\chi)`, u and v on simplices.

    P holds the points with y = +1, Q those with y = -1; the variable x holds u and v in the order
    of the points. It is the dual of: maximize alpha - beta - 1/2 |w|^2 - chi/2 (|xi|^2 + |psi|^2)
    subject to w'p_i >= alpha - xi_i and w'q_j <= beta + psi_j.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    y : array_like of shape (m,)
        Labels -1 and +1; both must occur.
    chi : float or None
        Penalty of the slacks for hulls that may intersect; None or infinity for none.

    Raises
    ------
    InputError
        If an argument is malformed or a class is empty.

    References
    ----------
    Kumar and Yildirim, "A linearly convergent linear-time first-order algorithm for support vector
    classification with a core set result", problems (P) and (D) of section 2.1, section 2.3 for `chi`.

    Examples
    --------
    >>> from qpsvm import Linear, PolytopeDistanceDual, solve
    >>> X, y = [[0.0, 1.0], [1.0, 2.0], [3.0, 0.0], [4.0, 1.0]], [1, 1, -1, -1]
    >>> model = solve(PolytopeDistanceDual(Linear(X), y), tol=1e-8).model
    >>> round(model.distance ** 2, 6)
    8.0
    """

    K: Any
    y: Any
    chi: float | None = None

    def __post_init__(self) -> None:
        """Validate the arguments."""
        K = as_gram(self.K, f"Linear(X) or RBF(X), or {type(self).__name__}.from_points(P, Q)")
        y = check_labels("y", self.y, K.m)
        if np.all(y == y[0]):
            raise InputError(f"y must hold both labels, -1 and +1; got only {y[0]:+.0f}")
        if self.chi is not None:
            check_number("chi", self.chi, low=0.0, open_low=True)
        object.__setattr__(self, "K", K)
        object.__setattr__(self, "y", y)

    @classmethod
    def from_points(
        cls, P: Any, Q: Any, chi: float | None = None, kernel: Callable[[Any], Gram] = Linear
    ) -> PolytopeDistanceDual:
        """Declare the distance of the hulls of the rows of `P` and of `Q`.

        Parameters
        ----------
        P, Q : array_like or sparse matrix, shapes (p, d) and (q, d)
        chi : float or None
        kernel : callable
            Makes a Gram of the stacked points, rows of `P` first; `Linear` by default.
        """
        P, Q = check_points("P", P), check_points("Q", Q)
        if P.shape[1] != Q.shape[1]:
            raise InputError(
                f"Q must have as many features as P, {P.shape[1]}; got shape {Q.shape}"
            )
        stack = sp.vstack([P, Q], format="csr") if sp.issparse(P) or sp.issparse(Q) else None
        X = np.vstack([P, Q]) if stack is None else stack
        return cls(kernel(X), np.repeat([1.0, -1.0], [P.shape[0], Q.shape[0]]), chi)

    def as_qp(self) -> QP:
        """Return the QP on the product of two simplices; linear points are centered first."""
        gram = self.K.centered()
        ridge = 0.0 if self.chi is None else 1.0 / self.chi
        return QP(
            SignedGram(gram, self.y, np.full(gram.m, ridge)),
            np.zeros(gram.m),
            SimplexProduct((self.y < 0).astype(np.int64)),
            vanishing=ridge == 0,
            noise=centering_noise(self.K),
            least=0.0,
        )

    def delta(self) -> float:
        """Return half the largest squared distance of a point of P and one of Q, by all pairs."""
        P, Q = np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)
        gram = self.K.centered()
        diag = gram.diag() + (0.0 if self.chi is None else 1.0 / self.chi)
        size, largest = max(1, BLOCK_ENTRIES // len(Q)), 0.0
        for chunk in np.array_split(P, -(-len(P) // size)):
            squares = diag[chunk][:, None] + diag[Q] - 2.0 * gram.block(chunk, Q, np.float64)
            largest = max(largest, float(squares.max()))
        return 0.5 * largest

    def core_set_bound(self, result: Result) -> CoreSetBound:
        """Return the paper's bounds at the certified accuracy of a result; it evaluates all pairs.

        Iterations by kind are in `Result.counters`: "toward" adds, "away" decreases, "drop" drops.
        """
        c, delta = result.certificate, self.delta()
        if not c.lower > 0.0:
            return CoreSetBound(1.0, delta, np.inf, np.inf, np.inf)
        eps = max(1.0 - float(np.sqrt(c.lower / c.upper)), FLOAT64_EPS)
        zeta = max(delta / c.lower, 1.0)
        iterations = 2.0 + 10.0 * zeta * float(np.log(zeta))
        if eps < 0.5:
            iterations += 4.0 + 32.0 * zeta / eps
        return CoreSetBound(eps, delta, zeta, iterations, 2.0 + 2.0 * iterations)

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the weights, the witness points and the hyperplane half-way between them.

        The water levels of the two simplices are alpha and -beta, the best offsets for this w.
        """
        x, (alpha, minus_beta) = certified.x, certified.multipliers
        square = max(float(x @ certified.product), 0.0)
        u, v = (self._witness(qp, np.where(self.y == s, x, 0.0)) for s in (1.0, -1.0))
        X = qp.gram.kernel.factor()
        w = None if X is None else np.asarray(transposed_times(X, self.y * x))
        known = kept_map(self.K)
        normal = None if known is None or w is None else Normal(known, w)
        distance = float(np.sqrt(square))
        width = proven_margin(qp, certified)
        b = -0.5 * float(alpha - minus_beta)
        b = b if w is None else bias_of(w, b, self.K.origin)
        separate = separation(qp, certified)
        model = ClosestPoints(
            distance=distance,
            margin=width / distance if distance > 0 else 0.0,
            b=b,
            u=u,
            v=v,
            p=u.vector,
            q=v.vector,
            w=None if normal is None else normal.vector,
            hulls_intersect=None if separate is None else not separate,
            normal=normal,
        )
        return Recovery(x, certified.multipliers, model)

    def _witness(self, qp: QP, weights: NDArray[np.float64]) -> Expansion:
        """Return a point of a hull; its coordinates are summed relative to the origin of the solve."""
        origin, X = self.K.origin, qp.gram.kernel.factor()
        moved = None if origin is None else origin + np.asarray(transposed_times(X, weights))
        return Expansion.of(self.K, weights, moved)
