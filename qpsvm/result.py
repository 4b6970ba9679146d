"""The result of a solve: status, certificate, history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError

Model = TypeVar("Model", covariant=True)
"""The model of a formulation's answer."""


class Status(Enum):
    """Why a solve ended; the value is the text shown to the user."""

    OPTIMAL = "optimal: the certified duality gap is within the tolerance"
    MAX_ITER = "stopped at max_iter: the gap shown is what was certified by then"
    TIME_LIMIT = "stopped at time_limit: the gap shown is what was certified by then"
    INTERRUPTED = "interrupted from the keyboard: the best certified answer so far is returned"
    SAMPLED = "stopped on a sample: no point drawn improves the answer, no lower bound is proved"
    CALLBACK_STOP = "stopped by the callback: the best certified answer so far is returned"
    STALLED = "stalled: the method cannot reduce the gap further on this problem"
    INFEASIBLE = "infeasible: no hyperplane separates the classes, as `direction` proves"
    NONCONVEX = "not convex: the Gram matrix has a negative eigenvalue, so no lower bound exists"
    CLUSTER_LOST = "cluster lost: the gap shown is what was certified before"
    NUMERICAL_ERROR = "numerical error: a non-finite number arose; the best earlier answer is kept"


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimal value, recomputed in float64 from the answer.

    Attributes
    ----------
    upper, lower : float
        Bounds of the minimized value of the declared problem; `upper` is attained by `Result.x`.
    gap : float
        Bound on the distance of the answer's value to the optimal one: ``upper - lower`` summed without
        cancellation, `roundoff` included; ``upper - lower + roundoff`` where `lower` is known in advance,
        such as 0 for a squared distance. Never less than `roundoff`.
    violation : float
        Largest violation of a constraint by `Result.x`, in units of the variable.
    roundoff : float
        Bound on the rounding error of `upper` and of `gap`, already part of `gap`.
    floor : float
        Size below which the value counts as zero at the precision of the data, for any `tol`; 0 where
        the optimum is positive.
    tol : float
        The requested tolerance.
    test : str
        ``"relative"`` (gap <= tol * max(|upper|, |lower|)), ``"absolute"`` (value and gap are
        below `floor`, and the value is not proved to be positive), or ``"none"`` when neither test
        passed.
    recomputed : bool
        False after Ctrl-C where the answer's products could not be recomputed within 60 ms: the bounds
        then come from those that the method maintained, and are wider by their proven error.
        ``solve(problem, x0=result, max_iter=0)`` recomputes them.
    """

    upper: float
    lower: float
    gap: float
    violation: float
    roundoff: float
    floor: float
    tol: float
    test: str
    recomputed: bool = True

    def __post_init__(self) -> None:
        """Replace bounds that are NaN, since their terms overflowed, by infinite ones."""
        for name, none in (
            ("upper", np.inf),
            ("lower", -np.inf),
            ("gap", np.inf),
            ("roundoff", np.inf),
        ):
            if np.isnan(getattr(self, name)):
                object.__setattr__(self, name, none)

    @property
    def relative_gap(self) -> float:
        """Gap divided by max(|upper|, |lower|); 0 if the gap is 0."""
        return relative(self.gap, self.upper, self.lower)

    @property
    def passed(self) -> bool:
        """Whether the gap is within the tolerance by one of the two tests."""
        return self.test != "none"


def relative(gap: float, upper: float, lower: float) -> float:
    """Return gap / max(|upper|, |lower|), with 0/0 = 0 and infinity where there is no bound."""
    if gap == 0.0:
        return 0.0
    size = max(abs(upper), abs(lower))
    return gap / size if 0.0 < size < np.inf else np.inf


def passed_test(gap: float, upper: float, lower: float, tol: float, floor: float) -> str:
    """Return which test the bounds pass: ``"relative"``, ``"absolute"`` or ``"none"``."""
    if gap <= tol * max(abs(upper), abs(lower)) < np.inf:
        return "relative"
    if gap <= floor < np.inf and min(abs(upper), abs(lower)) <= floor and lower <= 0.0:
        return "absolute"
    return "none"


@dataclass(frozen=True)
class Progress:
    """The state of a solve at a check, as passed to the callback.

    Attributes
    ----------
    iteration : int
    time : float
        Seconds since the iterations began.
    upper, lower, gap : float
        Bounds where `estimated` is False. Otherwise estimates of them from maintained products, which
        carry the rounding of cached columns: the bounds of `certificate` may be wider.
    tol : float
        The requested relative gap.
    estimated : bool
        Whether upper, lower and gap are estimates, not proved.
    """

    iteration: int
    time: float
    upper: float
    lower: float
    gap: float
    tol: float
    _read: Callable[[], NDArray[np.float64]] = field(repr=False, compare=False)
    estimated: bool = True
    _prove: Callable[[], Certificate] | None = field(default=None, repr=False, compare=False)

    @property
    def relative_gap(self) -> float:
        """Gap divided by max(|upper|, |lower|): an estimate where they are."""
        return relative(self.gap, self.upper, self.lower)

    @property
    def certificate(self) -> Certificate:
        """The certificate of the current point, computed once, on demand.

        It costs a pass over the kernel columns of the support, and the method continues from its
        recomputed products. It can be read inside the callback only.

        Examples
        --------
        >>> def enough(progress):  # a callback that stops at a proved gap
        ...     return progress.relative_gap < 1e-5 and progress.certificate.relative_gap < 1e-5
        """
        if self._prove is None:
            raise InputError("certificate can be read inside a callback of solve only")
        return self._prove()

    @property
    def x(self) -> NDArray[np.float64]:
        """A copy of the current point of the canonical form."""
        return self._read()


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """Bounds at each check: arrays of equal length, in the order of the checks.

    Histories are compared by identity.

    Attributes
    ----------
    iteration : ndarray of int
    time : ndarray
        Seconds since the iterations began.
    upper, lower, gap : ndarray
        Bounds where a certificate was computed, else estimates of them: see `Progress`.
    estimated : ndarray of bool
        Whether upper, lower and gap are estimates, not proved.
    n_support : ndarray of int
        Number of nonzero weights of the point that was checked: the size of its support or core set.
        Duplicate points that are merged count as one.
    bytes_sent : ndarray of int
        Bytes sent between this process and shards so far; 0 where the points are in this process.
    """

    iteration: NDArray[np.int64]
    time: NDArray[np.float64]
    upper: NDArray[np.float64]
    lower: NDArray[np.float64]
    gap: NDArray[np.float64]
    estimated: NDArray[np.bool_]
    n_support: NDArray[np.int64]
    bytes_sent: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of checks."""
        return len(self.iteration)

    def __repr__(self) -> str:
        """Return the number of checks as text."""
        return f"<History of {len(self):,} checks>"

    @property
    def relative_gap(self) -> NDArray[np.float64]:
        """Gap divided by max(|upper|, |lower|) at each check."""
        rows = zip(self.gap, self.upper, self.lower, strict=True)
        return np.array([relative(*row) for row in rows])


@dataclass(frozen=True)
class Candidate:
    """Another point: the declared variable, and its certificate."""

    x: NDArray[np.float64]
    certificate: Certificate


@dataclass(frozen=True, eq=False, repr=False)
class Result(Generic[Model]):
    """A certified answer.

    Results are compared by identity: compare `value`, or `x` by numpy.

    Attributes
    ----------
    x : ndarray
        The variable of the declared formulation.
    dual : ndarray or None
        The other variable: for a primal formulation the dual weights, for a dual one the
        multipliers of its equality constraints.
    status : Status
        Why the solve ended.
    certificate : Certificate
        Bounds recomputed from `x` alone.
    model : Ball, Hyperplane, OneClass, ClosestPoints or Minimizer
        The meaning of the answer; it predicts for new points. Its type depends on the formulation:
        ``solve(MEBDual(K))`` is a ``Result[Ball]``.
    support : ndarray of int
        Indices of the points with a positive weight (the core set).
    n_iter : int
        Iterations made.
    history : History
        Bounds at each check.
    timings : dict
        Seconds: ``"setup"``, ``"iterate"``, ``"certify"``, ``"total"``.
    method : str
        The method that was used.
    counters : dict
        Numbers of steps by kind; ``"columns"``: kernel columns computed; ``"bytes"``: memory of
        the cached columns; ``"matrix_bytes"``: of a method's own matrices; ``"merged"``: duplicate
        points, where these were merged.
    original : Certificate or None
        The answer's certificate in the problem on the exact kernel, where the solve was on a `LowRank`
        Gram with ``original=True`` or ``polish``.
    reason : str
        Why ``method="auto"`` picked this method; empty where it was named.
    direction : ndarray of shape (m,) or None
        With the status INFEASIBLE of a hard margin: nonnegative weights a that sum to 1 in each class,
        for which sum a_i y_i phi(x_i) is zero at the precision of the data: the hulls of both classes
        have a common point, and the dual value is unbounded along a. Without a bias all weights sum
        to 1, and no hyperplane through the origin separates the classes.
    selection : str
        The criterion that selected x: ``"least gap"``, or ``"least value"`` where a method whose theorem
        bounds the value alone met a limit.
    least_gap : Candidate or None
        The point of least gap where x, the point of least value, is another one.
    """

    x: NDArray[np.float64]
    dual: NDArray[np.float64] | None
    status: Status
    certificate: Certificate
    model: Model
    support: NDArray[np.int64]
    n_iter: int
    history: History
    timings: dict[str, float]
    method: str
    counters: dict[str, int]
    original: Certificate | None = None
    reason: str = ""
    direction: NDArray[np.float64] | None = None
    selection: str = "least gap"
    least_gap: Candidate | None = None

    @property
    def converged(self) -> bool:
        """Whether the status is OPTIMAL."""
        return self.status is Status.OPTIMAL

    @property
    def value(self) -> float:
        """Value of the declared problem at `x`: the certificate's upper bound."""
        return self.certificate.upper

    def plot(self, X: Any = None, y: Any = None, ax: Any = None, **options: Any) -> Any:
        """Draw the answer in the plane of its points, or else the gap against time.

        A result does not hold the points of its problem. Where they are given, have two features, and the
        model evaluates new points, the model decides:

        ======================================  ====================================================
        model                                   display
        ======================================  ====================================================
        `Ball` of a linear kernel               `BallDisplay`
        `Ball` of another kernel, `OneClass`    `OneClassDisplay`
        `ClosestPoints` of a linear kernel      `ClosestPointsDisplay`
        `ClosestPoints` of another kernel,      `DecisionRegionDisplay`
        `Hyperplane`, `ReducedHulls`
        ======================================  ====================================================

        In all other cases a `ConvergenceDisplay` is drawn: without X, with another number of features,
        for a precomputed K, and for other models.

        Parameters
        ----------
        X : array_like of shape (m, 2), optional
            The points of the problem.
        y : array_like of shape (m,), optional
            Their labels -1 and +1, for the models of two classes.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of the display's `from_result`, such as ``feature_names``, or of `ConvergenceDisplay.plot`.

        Returns
        -------
        ConvergenceDisplay, BallDisplay, OneClassDisplay, ClosestPointsDisplay or DecisionRegionDisplay

        Raises
        ------
        InputError
            If the points or labels are malformed or do not belong to the result.
        ImportError
            If matplotlib is missing.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from qpsvm import Linear, MEBDual, solve
        >>> X = load_iris().data[:, :2]
        >>> display = solve(MEBDual(Linear(X))).plot(X)  # doctest: +SKIP
        """
        # The pictures stand above the results, which know of them at this place alone, when one is drawn.
        from qpsvm.plot.of_result import plot_result

        return plot_result(self, X, y, ax, **options)

    def __repr__(self) -> str:
        """Return every field on its own line, arrays by their shapes."""
        lines = [f"    {f.name}={_brief(getattr(self, f.name))}," for f in fields(self)]
        return "\n".join(["Result(", *lines, ")"])

    def __str__(self) -> str:
        """Return a summary: method, status, bounds, size and model."""
        c = self.certificate
        status = self.status.value
        if c.test == "absolute":
            status = f"optimal: value and gap are zero at the data's scale (below {c.floor:.2g})"
        exact = self.original
        remarks = "" if exact is None else f" On the kernel itself: gap {exact.relative_gap:.2g}."
        if self.selection != "least gap":
            other = self.least_gap or self
            remarks += (
                f" The point is that of {self.selection}; the least gap seen is "
                f"{other.certificate.gap:.3g}."
            )
        picked = f" (auto: {self.reason})" if self.reason else ""
        return (
            f"{self.method}{picked}: {status}.\n"
            f"Value {c.upper:.10g}, at least {c.lower:.10g} (relative gap {c.relative_gap:.2g}, "
            f"tol {c.tol:g}); {len(self.support)} points in the support, "
            f"{self.n_iter:,} iterations, {self.timings['total']:.3g} s.{remarks}\n{self.model}"
        )


def _brief(value: Any) -> str:
    """Return a short text for a field of a result."""
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} array of shape {value.shape}>"
    if isinstance(value, Status):
        return str(value)
    if isinstance(value, dict):
        items = (
            f"{k!r}: {v:.3g}" if isinstance(v, float) else f"{k!r}: {v}" for k, v in value.items()
        )
        return "{" + ", ".join(items) + "}"
    if value is None or isinstance(value, (str, int, History, Certificate)):
        return repr(value)
    return f"<{type(value).__name__}: {value}>"
