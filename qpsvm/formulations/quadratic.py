"""General problems over a domain: least squares, quadratic programs given by Q, smooth functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from qpsvm.canonical.base import Certified
from qpsvm.canonical.qp import QP
from qpsvm.canonical.smooth import SmoothForm
from qpsvm.domains import BoxHyperplane, Domain, Orthant, PenaltyBox
from qpsvm.errors import InputError, check_number, check_points, check_vector
from qpsvm.formulations.base import Formulation, Recovery
from qpsvm.gram import SignedGram, as_gram
from qpsvm.gram.operator import QuadraticGram, Residual, SparseGram
from qpsvm.gram.smooth import SmoothFunction

DIFFERENCE_STEP = 1e-3
"""Length of the difference that checks a gradient, as a fraction of the way to a vertex."""


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


@dataclass(frozen=True, eq=False)
class SmoothProgram(Formulation[Minimizer]):
    r"""Minimize a smooth convex function over a domain: :math:`\min f(x)`, x in the domain.

    The certificate is the Frank-Wolfe gap at the returned x, from one call of the linear oracle:

    .. math:: f^* \ge f(x) - \max_{a} \nabla f(x)^T (x - a).

    It rests on three assumptions on the user's functions, which no test at points can prove: f is convex
    on the domain, `gradient` is its gradient, and the rounding errors of both are bounded by `precision`.
    The smoothness constant enters the steps of some methods, and not the certificate. The functions are
    called at points of the domain only.

    One directional difference at construction refutes many wrong gradients: a convex f with Lipschitz
    gradient satisfies :math:`0 \le f(x + d) - f(x) - \nabla f(x)^T d \le \tfrac\beta2 |d|^2`.

    Parameters
    ----------
    value : callable
        ``value(x)`` is f(x), a number. x has the shape of the domain's points (a matrix on a domain
        of matrices), and is read-only.
    gradient : callable
        ``gradient(x)`` is the gradient, of the shape of x.
    domain : Domain
        Bounded.
    smoothness : float
        :math:`\beta`, a Lipschitz constant of the gradient in the Euclidean norm on the domain.
    sample : callable, optional
        ``sample(x, size, rng)`` is the mean of `size` independent draws of an unbiased gradient, for
        ``"nep-sfw"`` and ``"sfw"``; `rng` is a ``numpy.random.Generator``.
    precision : float
        Bound on the rounding error of `value` relative to the larger of \|f(x)\| and its size at the
        center of the domain, and of `gradient` in the same way, in the Euclidean norm. The error is part
        of the certified gap. Where large terms cancel, state more.

    Raises
    ------
    InputError
        If an argument is malformed, if the functions return another shape or numbers that are not
        finite, or if the difference refutes the gradient, the convexity or the smoothness.

    References
    ----------
    Garber and Wolf, "Frank-Wolfe with a nearest extreme point oracle"; Jaggi, "Revisiting Frank-Wolfe"
    (2013), for the gap.

    Examples
    --------
    Maximum likelihood of proportions, with counts 1, 2 and 5 of 8, smoothed by one half:

    >>> import numpy as np
    >>> from qpsvm import SmoothProgram, solve
    >>> from qpsvm.domains import simplex
    >>> counts = np.array([1.0, 2.0, 5.0])
    >>> problem = SmoothProgram(
    ...     lambda x: -counts @ np.log(x + 0.5), lambda x: -counts / (x + 0.5), simplex(3),
    ...     smoothness=20.0)
    >>> result = solve(problem, method="fw", step="line-search", tol=1e-5)
    >>> result.converged, result.x.round(2).tolist()
    (True, [0.0, 0.07, 0.93])
    """

    value: Callable[[Any], Any]
    gradient: Callable[[Any], Any]
    domain: Domain
    smoothness: float
    sample: Callable[[Any, int, np.random.Generator], Any] | None = None
    precision: float = 1e-13

    def __post_init__(self) -> None:
        """Validate the arguments, and compare value and gradient by one difference."""
        for name in ("value", "gradient", "sample"):
            function = getattr(self, name)
            if not callable(function) and (name != "sample" or function is not None):
                raise InputError(f"{name} must be callable; got {function!r}")
        _check_domain(self.domain, getattr(self.domain, "m", 0))
        check_number("smoothness", self.smoothness, low=0.0, open_low=True)
        check_number("precision", self.precision, low=0.0, high=1e-2)
        self._check_difference()

    @cached_property
    def function(self) -> SmoothFunction:
        """The function with what is known of it."""
        rng = np.random.default_rng(0)
        vertices = [self.domain.linear_min(rng.standard_normal(self.domain.m)) for _ in range(4)]
        center = np.mean(vertices, axis=0)
        return SmoothFunction(
            self.value, self.gradient, self.domain.shape, float(self.smoothness), self.precision,
            center, self.sample,
        )  # fmt: skip

    def as_qp(self) -> SmoothForm:
        """Return the form that methods on general domains solve."""
        return SmoothForm(self.function, np.zeros(self.domain.m), self.domain, vanishing=True)

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return x in its natural shape."""
        point = certified.x.reshape(self.domain.shape)
        return Recovery(certified.x, None, Minimizer(point))

    def _check_difference(self) -> None:
        """Raise InputError where the functions are not finite, or refuted by a difference."""
        f = self.function
        x, before = f.center, f.value(f.center)
        g = f.slope(x)
        if not (np.isfinite(before) and np.isfinite(g).all()):
            raise InputError(
                f"value and gradient must be finite inside the domain; got the value {before!r} and "
                f"{np.count_nonzero(~np.isfinite(g))} entries of the gradient that are not"
            )
        rng = np.random.default_rng(1)
        d = DIFFERENCE_STEP * (self.domain.linear_min(rng.standard_normal(len(x))) - x)
        after = f.value(x + d)
        rest, most = after - before - float(g @ d), 0.5 * f.smoothness * float(d @ d)
        rounding = 1e-12 * (abs(before) + float(np.abs(g) @ np.abs(d))) + self.precision * (
            2.0 * abs(before) + float(np.linalg.norm(g) * np.linalg.norm(d))
        )
        if not -rounding <= rest <= most * (1.0 + 1e-9) + rounding:
            raise InputError(
                f"value and gradient disagree at a point inside the domain: f(x + d) - f(x) - "
                f"gradient(x)'d must lie in [0, {most:.3g}], smoothness/2 |d|^2; got {rest:.3g}. The "
                "gradient is wrong, or f is not convex, or smoothness is too small"
            )


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
