"""General quadratics over a domain: least squares, and quadratic programs given by Q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from qpsvm.canonical.base import Certified
from qpsvm.canonical.qp import QP
from qpsvm.domains import BoxHyperplane, Domain, Orthant, PenaltyBox
from qpsvm.errors import InputError, check_number, check_points, check_vector
from qpsvm.formulations.base import Formulation, Recovery
from qpsvm.gram import SignedGram, as_gram
from qpsvm.gram.operator import QuadraticGram, Residual, SparseGram


@dataclass(frozen=True, eq=False)
class Minimizer:
    """The minimizer in its natural shape.

    Attributes
    ----------
    point : ndarray
        x, as a matrix where the domain is one of matrices.
    residual : ndarray or None
        Ax - b of a least-squares problem.
    """

    point: NDArray[np.float64]
    residual: NDArray[np.float64] | None = None

    def __str__(self) -> str:
        """Return its shape, and the norm of the residual."""
        text = f"A point of shape {self.point.shape}"
        if self.residual is None:
            return text + "."
        return f"{text}, residual |Ax - b| = {float(np.linalg.norm(self.residual)):.6g}."


@dataclass(frozen=True, eq=False)
class LeastSquares(Formulation[Minimizer]):
    r"""Minimize :math:`\tfrac12 |Ax - b|^2` over a domain.

    The value is computed from the residual, so that an optimum of 0 is recognized; it counts as zero
    where its rounding error is as large.

    Parameters
    ----------
    A : array_like, sparse matrix or scipy.sparse.linalg.LinearOperator, shape (n, m)
        A LinearOperator must offer `matvec` and `rmatvec`.
    b : array_like, shape (n,)
    domain : Domain
        Of dimension m; its points are the variable.
    smoothness : float, optional
        Largest eigenvalue of A'A, or a bound from above. By default it is computed where a method
        needs it: exactly where A has a side of at most 1500, by Lanczos steps otherwise.

    Raises
    ------
    InputError
        If an argument is malformed.

    References
    ----------
    Garber and Wolf, "Frank-Wolfe with a nearest extreme point oracle", section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import LeastSquares, solve
    >>> from qpsvm.domains import hypercube
    >>> result = solve(LeastSquares(np.eye(2), [2.0, 0.5], hypercube(2)), tol=1e-8)
    >>> result.x.round(3).tolist()
    [1.0, 0.5]
    """

    A: Any
    b: Any
    domain: Domain
    smoothness: float | None = None

    def __post_init__(self) -> None:
        """Validate the arguments."""
        A = self.A
        if not isinstance(A, sla.LinearOperator):
            A = check_points("A", A)
            A = A.astype(np.float64, copy=False)
        b = check_vector("b", self.b, A.shape[0])
        _check_domain(self.domain, A.shape[1])
        _check_smoothness(self.smoothness)
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "b", b)

    def as_qp(self) -> QP:
        """Return the quadratic in residual form; it has no columns."""
        # solvers that read columns do not fit: see Solver.fits
        gram = cast(SignedGram, Residual(self.A, self.b, self.smoothness))
        return QP(gram, np.zeros(gram.m), self.domain, vanishing=True, least=0.0)

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return x in its natural shape, with its residual."""
        residual = certified.product - self.b
        point = certified.x.reshape(self.domain.shape)
        return Recovery(certified.x, None, Minimizer(point, residual))


@dataclass(frozen=True, eq=False)
class QuadraticProgram(Formulation[Minimizer]):
    r"""Minimize :math:`\tfrac12 x'Qx + c'x` over a domain.

    Parameters
    ----------
    Q : array_like, sparse matrix or Gram, shape (m, m)
        Symmetric. A lower bound exists only where it is positive semidefinite.
    c : array_like, shape (m,)
    domain : Domain
        Of dimension m.
    smoothness : float, optional
        Largest eigenvalue of Q, or a bound from above; as in `LeastSquares`.

    Raises
    ------
    InputError
        If an argument is malformed.

    References
    ----------
    Garber and Wolf, "Frank-Wolfe with a nearest extreme point oracle", section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import QuadraticProgram, solve
    >>> from qpsvm.domains import simplex
    >>> result = solve(QuadraticProgram(np.eye(2), [0.0, -0.5], simplex(2)), tol=1e-8)
    >>> result.x.round(3).tolist()
    [0.25, 0.75]
    """

    Q: Any
    c: Any
    domain: Domain
    smoothness: float | None = None

    def __post_init__(self) -> None:
        """Validate the arguments."""
        Q = SparseGram(self.Q) if sp.issparse(self.Q) else as_gram(self.Q)
        c = check_vector("c", self.c, Q.m)
        _check_domain(self.domain, Q.m)
        _check_smoothness(self.smoothness)
        object.__setattr__(self, "Q", Q)
        object.__setattr__(self, "c", c)

    def as_qp(self) -> QP:
        """Return the QP; on products of simplices Q has columns for the compiled methods."""
        gram = QuadraticGram.of(self.Q, self.smoothness)
        return QP(gram, self.c, self.domain, vanishing=True)

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return x in its natural shape."""
        point = certified.x.reshape(self.domain.shape)
        return Recovery(certified.x, certified.multipliers, Minimizer(point))


def _check_domain(domain: Any, m: int) -> None:
    """Raise InputError unless it is a bounded domain of dimension m."""
    if not isinstance(domain, Domain):
        raise InputError(f"domain must be a Domain, such as hypercube({m}); got {domain!r}")
    if domain.m != m:
        raise InputError(f"domain must have the dimension {m} of the variable; got {domain.m}")
    if isinstance(domain, BoxHyperplane | PenaltyBox) and not domain.bounded:
        kind = type(domain).__name__
        raise InputError(f"domain must be bounded; got a {kind} with infinite upper bounds")
    if isinstance(domain, Orthant):
        raise InputError("domain must be bounded; got an Orthant")


def _check_smoothness(value: Any) -> None:
    if value is not None:
        check_number("smoothness", value, low=0.0, open_low=True)
