"""Models of an answer: a ball, a hyperplane, a half-space, two closest points, a regression function.

A model owns its data through the expansions that it holds: see `qpsvm.expansion`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import check_number
from qpsvm.expansion import Expansion, Normal


@dataclass(frozen=True, eq=False)
class Ball:
    """Smallest ball that contains all or most of the points in feature space.

    Attributes
    ----------
    radius : float
        The ball around this center with this radius contains every point; where slack is allowed it is
        the best radius for this center.
    radius_lower : float
        Certified lower bound of the optimal radius.
    center : ndarray of shape (d,) or None
        The center, where the kernel is linear.
    expansion : Expansion
        The center as a combination of the points.
    n_outside : int
        Number of points outside, which have slack.
    slack : float
        Their penalty: the sum of C_i (|phi(x_i) - c|^2 - radius^2).

    Examples
    --------
    >>> from qpsvm import Linear, MEBDual, solve
    >>> ball = solve(MEBDual(Linear([[0.0], [2.0]]))).model
    >>> ball.contains([[1.0], [2.5]]).tolist()
    [True, False]
    """

    radius: float
    radius_lower: float
    expansion: Expansion
    center_square: float
    center: NDArray[np.float64] | None
    n_outside: int = 0
    slack: float = 0.0

    def distance(self, points: Any) -> NDArray[np.float64]:
        """Return the distances of new points from the center, shape (n,)."""
        square = self.expansion.square_distances(points, self.center_square)
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))

    def contains(self, points: Any, slack: float = 1e-9) -> NDArray[np.bool_]:
        """Return which points lie in the ball, up to a relative `slack` of the radius."""
        slack = check_number("slack", slack, low=0.0, finite=True)
        return self.distance(points) <= self.radius * (1.0 + slack)

    def __str__(self) -> str:
        """Return the radius with its bounds."""
        outside = f", {self.n_outside} points outside" if self.n_outside else ""
        return f"Ball of radius {self.radius:.10g} (at least {self.radius_lower:.10g}){outside}."


@dataclass(frozen=True, eq=False)
class Hyperplane:
    """Separating hyperplane {x: w'phi(x) + b = 0}, scaled so that margins are +-1.

    Attributes
    ----------
    b : float
    w : ndarray of shape (d,) or None
        The normal, where the kernel is linear.
    expansion : Expansion or Normal
        w as a combination of the points, or by its entries.
    separable : bool or None
        Result of the bounds where C is infinite: True, a hyperplane separates the classes; False, none
        does within the roundoff of the data; None, undecided at a limit or by rounding. Unless it is
        True, w is only the last direction, not scaled.

    Examples
    --------
    >>> from qpsvm import HingeDual, Linear, solve
    >>> plane = solve(HingeDual(Linear([[0.0], [2.0]]), [-1, 1], C=10.0), tol=1e-8).model
    >>> plane.decision_function([[1.0], [2.0]]).round(3).tolist()
    [0.0, 1.0]
    """

    b: float
    expansion: Expansion | Normal
    w: NDArray[np.float64] | None
    separable: bool | None = True

    def decision_function(self, points: Any) -> NDArray[np.float64]:
        """Return w'phi(x) + b for new points, shape (n,)."""
        return self.expansion.from_origin(points) + self.expansion.level(self.b)

    def predict(self, points: Any) -> NDArray[np.float64]:
        """Return the labels -1 or +1 of new points, shape (n,); a tie is +1."""
        return np.where(self.decision_function(points) >= 0, 1.0, -1.0)

    def __str__(self) -> str:
        """Return the kind of hyperplane, its expansion and its bias."""
        undecided = "Undecided whether the classes are separable: direction"
        kind = {True: "Hyperplane", False: "Not separable: direction", None: undecided}
        return f"{kind[self.separable]} on {self.expansion}, b = {self.b:.6g}."


@dataclass(frozen=True, eq=False)
class ReducedHulls(Hyperplane):
    """Hyperplane midway between two reduced convex hulls: the machine of a nu-SVM.

    It is scaled by 1 / rho, so that the margins are +-1; not where the hulls intersect or rho <= 0.

    Attributes
    ----------
    separable : bool or None
        Result of the bounds: True, the reduced hulls are disjoint; False, they intersect within the
        roundoff of the data; None, undecided at a limit or by rounding.
    rho : float
        Threshold of the margins before it is scaled, exactly optimal for this w: w / rho is the hinge
        machine with the penalties C_i = upper_i / rho. Where a class has no weight between its bounds
        an interval is optimal: see `OneClass`.
    distance : float
        Distance of the closest points of the reduced hulls that were found, |w| before it is scaled.
    margin : float
        Width of the soft margin, 2 rho / distance.
    n_margin_errors : int
        Training points within the margin or beyond it, at the price of their slack.

    Examples
    --------
    >>> from qpsvm import Linear, NuSVCDual, solve
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1]
    >>> model = solve(NuSVCDual(Linear(X), y, nu=0.5), tol=1e-8).model
    >>> round(model.distance, 3), model.hulls_intersect
    (2.0, False)
    """

    rho: float = field(default=0.0, kw_only=True)
    distance: float = field(default=0.0, kw_only=True)
    margin: float = field(default=0.0, kw_only=True)
    n_margin_errors: int = field(default=0, kw_only=True)

    @property
    def hulls_intersect(self) -> bool | None:
        """Whether the reduced hulls intersect; None where it is undecided."""
        return None if self.separable is None else not self.separable

    def __str__(self) -> str:
        """Return its expansion, the margin and the number of margin errors."""
        if self.hulls_intersect:
            return "The reduced hulls intersect to working precision; a larger nu separates them."
        if self.hulls_intersect is None:
            return (
                "Undecided whether the reduced hulls intersect: distance at most "
                f"{self.distance:.10g}."
            )
        return (
            f"Hyperplane on {self.expansion}, b = {self.b:.6g}, margin {self.margin:.6g}, "
            f"{self.n_margin_errors} margin errors."
        )


@dataclass(frozen=True, eq=False)
class Regressor:
    """Regression function f(x) = w'phi(x) + b with a tube of half width epsilon around it.

    Attributes
    ----------
    b : float
        A best bias for this w.
    expansion : Expansion
        w as a combination of the points.
    w : ndarray of shape (d,) or None
        The normal, where the kernel is linear.
    epsilon : float
        Largest error of a prediction without a loss.

    Examples
    --------
    >>> from qpsvm import Linear, SVRDual, solve
    >>> problem = SVRDual(Linear([[0.0], [1.0], [2.0]]), [0.0, 1.0, 2.0], C=100.0, epsilon=0.01)
    >>> float(solve(problem, tol=1e-6).model.predict([[1.5]])[0].round(1))
    1.5
    """

    b: float
    expansion: Expansion
    w: NDArray[np.float64] | None
    epsilon: float

    def predict(self, points: Any) -> NDArray[np.float64]:
        """Return w'phi(x) + b for new points, shape (n,)."""
        return self.expansion.from_origin(points) + self.expansion.level(self.b)

    def __str__(self) -> str:
        """Return the number of its points, its bias and its tube."""
        return f"Regression function on {self.expansion}, b = {self.b:.6g}, tube +- {self.epsilon:.6g}."


@dataclass(frozen=True, eq=False)
class OneClass:
    """Hyperplane {x: w'phi(x) = rho} that separates most of the points from the origin.

    Attributes
    ----------
    rho : float
        Exactly optimal threshold for this w. Where all support vectors are at their bounds an interval of
        thresholds is optimal: its midpoint is taken, or its lower end where it has no upper one (nu = 1).
    expansion : Expansion
        w as a combination of the points.
    w : ndarray of shape (d,) or None
        The normal, where the kernel is linear.
    n_outside : int
        Number of training points on the origin's side, which have slack.

    Examples
    --------
    >>> from qpsvm import RBF, OneClassDual, solve
    >>> model = solve(OneClassDual(RBF([[0.0], [0.5], [1.0]], gamma=1.0), nu=0.5)).model
    >>> model.predict([[0.5], [9.0]]).tolist()
    [1.0, -1.0]
    """

    rho: float
    expansion: Expansion
    w: NDArray[np.float64] | None
    n_outside: int = 0

    def score_samples(self, points: Any) -> NDArray[np.float64]:
        """Return w'phi(x) for new points, shape (n,): the greater, the more usual."""
        return self.expansion(points)

    def decision_function(self, points: Any) -> NDArray[np.float64]:
        """Return w'phi(x) - rho for new points, shape (n,)."""
        return self.expansion.from_origin(points) + self.expansion.level(-self.rho)

    def predict(self, points: Any) -> NDArray[np.float64]:
        """Return +1 for usual points and -1 for outliers, shape (n,); a tie is +1."""
        return np.where(self.decision_function(points) >= 0, 1.0, -1.0)

    def __str__(self) -> str:
        """Return the number of its points, rho, and the number of points outside."""
        return (
            f"One-class hyperplane on {len(self.expansion.indices)} points, rho = {self.rho:.6g}, "
            f"{self.n_outside} points outside."
        )


@dataclass(frozen=True, eq=False)
class ClosestPoints:
    """Closest points of two hulls, and the hyperplane midway between them.

    Attributes
    ----------
    distance : float
        |p - q| in feature space.
    margin : float
        Certified: no two points of the hulls are closer than this (without `chi`); with `chi` the
        width of the soft margin.
    p, q : ndarray of shape (d,) or None
        Witness points, where the kernel is linear.
    w, b : ndarray of shape (d,) or None, and float
        Hyperplane {x: w'phi(x) + b = 0} with w = p - q.
    u, v : Expansion
        The witness points as combinations of the points.
    hulls_intersect : bool or None
        Result of the bounds: False, the distance is positive; True, it is zero within the roundoff of
        the data, and there is no separating hyperplane; None, undecided at a limit or by rounding.
    normal : Normal or None
        w as a function of points, where it is a vector of features.

    Examples
    --------
    >>> from qpsvm import Linear, PolytopeDistanceDual, solve
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [1, 1, -1, -1]
    >>> model = solve(PolytopeDistanceDual(Linear(X), y), tol=1e-8).model
    >>> model.p.round(3).tolist(), model.q.round(3).tolist()
    ([1.0], [3.0])
    """

    distance: float
    margin: float
    b: float
    u: Expansion
    v: Expansion
    p: NDArray[np.float64] | None
    q: NDArray[np.float64] | None
    w: NDArray[np.float64] | None
    hulls_intersect: bool | None
    normal: Normal | None = field(default=None, repr=False)

    def decision_function(self, points: Any) -> NDArray[np.float64]:
        """Return w'phi(x) + b for new points, shape (n,)."""
        if self.normal is not None:
            return self.normal.from_origin(points) + self.normal.level(self.b)
        return self.u(points) - self.v(points) + self.b

    def predict(self, points: Any) -> NDArray[np.float64]:
        """Return +1 on the side of p and -1 on the side of q, shape (n,)."""
        return np.where(self.decision_function(points) >= 0, 1.0, -1.0)

    def __str__(self) -> str:
        """Return the distance and its bound."""
        if self.hulls_intersect:
            return "The hulls intersect to working precision."
        if self.hulls_intersect is None:
            return f"Undecided whether the hulls intersect: distance at most {self.distance:.10g}."
        return f"Closest points at distance {self.distance:.10g} (at least {self.margin:.10g})."
