"""Sums in feature space as functions of new points: of kernel values, or a normal by its entries.

They own their data: copies of the support's points, or w, or the indices of the support where K was
precomputed. They keep neither the Gram nor the points of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_points
from qpsvm.gram import Gram
from qpsvm.gram.cached import Cached
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.kernels.linear import Linear
from qpsvm.gram.lowrank import LowRank
from qpsvm.gram.model_features import FeatureMap, LinearMap, MatrixColumns
from qpsvm.gram.translation import level_at
from qpsvm.numerics.products import transposed_times

Vector = NDArray[np.float64]
Kept = FeatureMap | MatrixColumns | PointGram


def kept_map(gram: Gram) -> FeatureMap | None:
    """Return the feature map of a Gram with a factor, where w is a vector of features; else None."""
    gram = gram.gram if isinstance(gram, Cached) else gram
    if isinstance(gram, Linear):
        origin = None if gram.origin is None else gram.origin.copy()
        return LinearMap(gram.X.shape[1], origin)
    return gram.own(np.arange(0)) if isinstance(gram, LowRank) else None


@dataclass(frozen=True, eq=False)
class Expansion:
    """The vector sum_i coef_i phi(x_i) in feature space, as a function of new points.

    Attributes
    ----------
    gram : PointGram, LinearMap, LandmarkMap or MatrixColumns
        Evaluates the kernel; its first points are those of the sum. It owns its memory.
    indices : ndarray of int, shape (k,)
        Indices of the points of the sum among the training points.
    coef : ndarray, shape (k,)
    features : ndarray, shape (d,), or None
        The sum itself where the kernel has explicit features: linear kernels and low-rank Grams.
    """

    gram: Kept = field(repr=False)
    indices: NDArray[np.int64]
    coef: Vector
    features: Vector | None = field(default=None, repr=False)

    @classmethod
    def of(cls, gram: Gram, weights: Vector, features: Vector | None = None) -> Expansion:
        """Store the nonzero weights and their points; compute the sum of features unless it is given."""
        indices = np.flatnonzero(weights != 0)  # several times as fast as without the comparison
        coef, known = weights[indices], kept_map(gram)
        if known is not None:
            if features is None:
                features = np.asarray(transposed_times(gram.factor(), weights))
            return cls(known, indices, coef, features)
        some = indices if len(indices) else np.zeros(1, np.int64)  # a Gram has at least one point
        return cls(gram.own(some), indices, coef)

    def __call__(self, points: Any) -> Vector:
        """Return the inner products with the features of `points`, shape (n,), block by block."""
        return self.from_origin(points) + self.level(0.0)

    def from_origin(self, points: Any) -> Vector:
        """Return the inner products minus that of the origin: few digits are lost."""
        if isinstance(self.gram, FeatureMap):
            return self.gram.values(points, self._sum)
        return self.gram.combine(points, np.arange(len(self.coef)), self.coef)

    def level(self, b: float) -> float:
        """Return the inner product with the origin, plus b: exact up to one rounding."""
        if isinstance(self.gram, FeatureMap):
            return level_at(self._sum, b, self.gram.origin)
        return b

    def square_distances(self, points: Any, own_square: float) -> Vector:
        """Return |phi(z) - sum|^2 of new points, shape (n,), given the square of the sum."""
        if isinstance(self.gram, MatrixColumns):
            raise InputError(
                "points cannot be compared with a ball of a precomputed K, which does not give "
                "k(x, x) of a new point; use a kernel such as RBF(X) instead"
            )
        if isinstance(self.gram, FeatureMap):
            return self.gram.square_distances(points, self._sum)
        new, products = check_points("points", points), self(points)
        return self.gram.norms(new) - 2.0 * products + own_square

    @property
    def _sum(self) -> Vector:
        assert self.features is not None, "a feature map implies a sum of features"
        return self.features

    @property
    def vector(self) -> Vector | None:
        """The vector itself, shape (d,), where the kernel is linear; None otherwise."""
        return self.features if isinstance(self.gram, LinearMap) else None

    def over(
        self, positions: NDArray[np.int64], indices: NDArray[np.int64], coef: Vector
    ) -> Expansion:
        """Return the same sum over some of its points, where the others are duplicates."""
        own = self.gram
        if len(positions) and not isinstance(own, FeatureMap):
            own = own.own(positions)
        return replace(self, gram=own, indices=indices, coef=coef)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the points of the support, without the data that prediction derives from them."""
        state = dict(self.__dict__)
        if isinstance(self.gram, PointGram):
            state["gram"] = self.gram.own(np.arange(self.gram.m))
        return state

    def __str__(self) -> str:
        """Return the number of its points."""
        return f"{len(self.indices)} points"


@dataclass(frozen=True, eq=False)
class Normal:
    """The vector w of features, as a function of new points."""

    gram: FeatureMap = field(repr=False)
    features: Vector

    def __call__(self, points: Any) -> Vector:
        """Return w'x of the points, shape (n,), x their features for a low-rank Gram."""
        return self.from_origin(points) + self.level(0.0)

    def from_origin(self, points: Any) -> Vector:
        """Return w'(x - origin)."""
        return self.gram.values(points, self.features)

    def level(self, b: float) -> float:
        """Return w'origin + b: exact up to one rounding."""
        return level_at(self.features, b, self.gram.origin)

    @property
    def vector(self) -> Vector | None:
        """The vector itself where the kernel is linear; None otherwise."""
        return self.features if isinstance(self.gram, LinearMap) else None

    def __str__(self) -> str:
        """Return the number of its nonzero features."""
        return f"{np.count_nonzero(self.features)} of {len(self.features)} features"
