"""What an answer means: a ball, a hyperplane, a half-space, two closest points."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_number, check_points
from qpsvm.gram import Gram, LowRank
from qpsvm.gram.expansion import combination
from qpsvm.gram.linear import times, transposed_times
from qpsvm.gram.points import PointGram


@dataclass(frozen=True, eq=False)
class Expansion:
    """The vector sum_i coef_i phi(x_i) in feature space, as a function of new points."""

    gram: Gram = field(repr=False)
    indices: NDArray[np.int64]
    coef: NDArray[np.float64]

    @classmethod
    def of(cls, gram: Gram, weights: NDArray[np.float64]) -> Expansion:
        """Keep the nonzero weights."""
        indices = np.flatnonzero(weights != 0)  # several times as fast as without the comparison
        return cls(gram, indices, weights[indices])

    def __call__(self, points: Any) -> NDArray[np.float64]:
        """Return the inner products with the features of `points`, shape (n,), block by block."""
        return combination(self.gram, self.indices, self.coef, points)

    @cached_property
    def vector(self) -> NDArray[np.float64] | None:
        """The vector itself, shape (d,), where the kernel is linear; None otherwise."""
        X = None if isinstance(self.gram, LowRank) else self.gram.factor()
        if X is None:
            return None
        weights = np.zeros(X.shape[0])
        weights[self.indices] = self.coef
        return transposed_times(X, weights)

    def __str__(self) -> str:
        """Say how many points it combines."""
        return f"{len(self.indices)} points"

    def offset(self) -> float:
        """Return what a solve on centered points adds to the bias: -w'origin."""
        origin, w = self.gram.origin, self.vector
        return 0.0 if origin is None or w is None else -float(w @ origin)


@dataclass(frozen=True, eq=False)
class Normal:
    """The vector w of features, as a function of new points."""

    gram: Gram = field(repr=False)
    vector: NDArray[np.float64]

    def __call__(self, points: Any) -> NDArray[np.float64]:
        """Return w'x of the points, shape (n,); of a low-rank Gram w'(their features)."""
        if isinstance(self.gram, LowRank):
            return np.asarray(self.gram.features(points) @ self.vector)
        new = check_points("points", points)
        if new.shape[1] != len(self.vector):
            raise InputError(
                f"points must have {len(self.vector)} features, as the training points have; "
                f"got shape {new.shape}"
            )
        return times(new, self.vector)

    def __str__(self) -> str:
        """Say how many features it uses."""
        return f"{np.count_nonzero(self.vector)} of {len(self.vector)} features"


@dataclass(frozen=True, eq=False)
class Ball:
    """Smallest ball that holds the points, all or most of them, in feature space.

    Attributes
    ----------
    radius : float
        The ball about this center with this radius contains every point; where slack is allowed it
        is the best radius for this center.
    radius_lower : float
        The optimal radius is no smaller: the certified lower bound.
    center : ndarray of shape (d,) or None
        The center, where the kernel is linear.
    expansion : Expansion
        The center as a combination of the points.
    n_outside : int
        Points that were left outside at the price of their slack.
    slack : float
        That price: sum of C_i (|phi(x_i) - c|^2 - radius^2) over them.
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
        new = check_points("points", points)
        gram = self.expansion.gram
        if isinstance(gram, LowRank):  # its own norms, through its own features
            new_square = np.sum(gram.features(new) ** 2, axis=1)
            square = new_square - 2.0 * self.expansion(new) + self.center_square
            return np.asarray(np.sqrt(np.maximum(square, 0.0)))
        while not isinstance(gram, PointGram):
            if not hasattr(gram, "gram"):
                raise InputError(
                    "points cannot be judged by a ball of a precomputed K, which does not say "
                    "k(x, x) of a new point; give a kernel such as RBF(X) instead"
                )
            gram = gram.gram
        if new.shape[1] != gram.X.shape[1]:
            raise InputError(
                f"points must have {gram.X.shape[1]} features, as the training points have; "
                f"got shape {new.shape}"
            )
        if self.center is not None and not sp.issparse(new):
            return np.asarray(np.linalg.norm(new - self.center, axis=1))
        square = gram.norms(new) - 2.0 * self.expansion(new) + self.center_square
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))

    def contains(self, points: Any, slack: float = 1e-9) -> NDArray[np.bool_]:
        """Return which points lie in the ball, up to a relative `slack` of the radius."""
        slack = check_number("slack", slack, low=0.0, finite=True)
        return self.distance(points) <= self.radius * (1.0 + slack)

    def __str__(self) -> str:
        """Say the radius with its bounds."""
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
    separable : bool
        False where C is infinite and no hyperplane separates the classes: w then is only the
        direction that was reached, not scaled.
    """

    b: float
    expansion: Expansion | Normal
    w: NDArray[np.float64] | None
    separable: bool = True

    def decision_function(self, points: Any) -> NDArray[np.float64]:
        """Return w'phi(x) + b for new points, shape (n,)."""
        return self.expansion(points) + self.b

    def predict(self, points: Any) -> NDArray[np.float64]:
        """Return the labels -1 or +1 of new points, shape (n,); a tie is +1."""
        return np.where(self.decision_function(points) >= 0, 1.0, -1.0)

    def __str__(self) -> str:
        """Say what it rests on."""
        kind = "Hyperplane" if self.separable else "Not separable: direction"
        return f"{kind} on {self.expansion}, b = {self.b:.6g}."


@dataclass(frozen=True, eq=False)
class OneClass:
    """Hyperplane {x: w'phi(x) = rho} with most of the points beyond it, seen from the origin.

    Attributes
    ----------
    rho : float
        Exact best level for this w. Where all support vectors are at their bounds an interval of
        levels is optimal: then its middle, and its lower end where it has no upper one (nu = 1).
    expansion : Expansion
        w as a combination of the points.
    w : ndarray of shape (d,) or None
        The normal, where the kernel is linear.
    n_outside : int
        Training points on the origin's side, at the price of their slack.
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
        return self.expansion(points) - self.rho

    def predict(self, points: Any) -> NDArray[np.float64]:
        """Return +1 for usual points and -1 for outliers, shape (n,); a tie is +1."""
        return np.where(self.decision_function(points) >= 0, 1.0, -1.0)

    def __str__(self) -> str:
        """Say what it rests on and how many points it leaves out."""
        return (
            f"One-class hyperplane on {len(self.expansion.indices)} points, rho = {self.rho:.6g}, "
            f"{self.n_outside} points outside."
        )


@dataclass(frozen=True, eq=False)
class ClosestPoints:
    """Closest points of two hulls, and the hyperplane half-way between them.

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
    hulls_intersect : bool
        The distance is zero to working precision: there is no separating hyperplane.
    """

    distance: float
    margin: float
    b: float
    u: Expansion
    v: Expansion
    p: NDArray[np.float64] | None
    q: NDArray[np.float64] | None
    w: NDArray[np.float64] | None
    hulls_intersect: bool

    def decision_function(self, points: Any) -> NDArray[np.float64]:
        """Return w'phi(x) + b for new points, shape (n,)."""
        return self.u(points) - self.v(points) + self.b

    def predict(self, points: Any) -> NDArray[np.float64]:
        """Return +1 on the side of p and -1 on the side of q, shape (n,)."""
        return np.where(self.decision_function(points) >= 0, 1.0, -1.0)

    def __str__(self) -> str:
        """Say the distance and its bound."""
        if self.hulls_intersect:
            return "The hulls intersect to working precision."
        return f"Closest points at distance {self.distance:.10g} (at least {self.margin:.10g})."
