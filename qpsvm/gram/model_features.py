"""The part of a Gram that a model stores: enough to evaluate it at new points, and nothing else.

Of a Gram of points that is a Gram of copies of the support (`Gram.own`). This file has the classes for
all other Grams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_points
from qpsvm.gram.translation import moved_times, square_distances

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class FeatureMap(ABC):
    """A map from points to features, in which a sum of points is one vector.

    Attributes
    ----------
    origin : ndarray or None
        The point whose features `values` subtracts.
    """

    origin: Vector | None

    @abstractmethod
    def values(self, points: Any, w: Vector) -> Vector:
        """Return w'(features of z - origin) of new points, shape (n,)."""

    @abstractmethod
    def square_distances(self, points: Any, center: Vector) -> Vector:
        """Return |features of z - center|^2 of new points, shape (n,)."""


@dataclass(frozen=True, eq=False)
class LinearMap(FeatureMap):
    """The linear kernel's features: the coordinates, minus those of `origin` where there is one.

    Attributes
    ----------
    n : int
        Number of coordinates of a point.
    origin : ndarray of shape (n,) or None
        A point near the training points, about which functions are evaluated.
    """

    n: int
    origin: Vector | None

    def checked(self, points: Any) -> Any:
        """Return the points, or raise InputError where they have another number of features."""
        new = check_points("points", points)
        if new.shape[1] != self.n:
            raise InputError(
                f"points must have {self.n} features, as the training points have; "
                f"got shape {new.shape}"
            )
        return new

    def values(self, points: Any, w: Vector) -> Vector:
        """Return w'(z - origin), shape (n,)."""
        return moved_times(self.checked(points), w, self.origin)

    def square_distances(self, points: Any, center: Vector) -> Vector:
        """Return |z - center|^2, shape (n,)."""
        return square_distances(self.checked(points), center)


@dataclass(frozen=True, eq=False)
class LandmarkMap(FeatureMap):
    """A low-rank Gram's features: kernel values with the landmarks, times a matrix.

    Attributes
    ----------
    landmarks : Gram or MatrixColumns
        The Gram of the landmarks alone.
    W : ndarray of shape (number of landmarks, rank)
    """

    landmarks: Any
    W: NDArray[np.float64]
    origin = None

    def values(self, points: Any, w: Vector) -> Vector:
        """Return w'(features of z), shape (n,), by the kernel values with all landmarks."""
        landmarks = np.arange(len(self.W))
        return np.asarray(self.landmarks.combine(points, landmarks, self.W @ w))

    def square_distances(self, points: Any, center: Vector) -> Vector:
        """Return |features of z - center|^2, shape (n,)."""
        features = self.landmarks.cross(points, np.arange(len(self.W))) @ self.W
        return square_distances(features, center)


@dataclass(frozen=True, eq=False)
class MatrixColumns:
    """The columns of a precomputed K that belong to the support.

    Attributes
    ----------
    m : int
        Number of training points, and so of columns of a matrix of new kernel values.
    columns : ndarray of int
        Those of the support.
    """

    m: int
    columns: Indices

    def combine(self, points: Any, columns: Indices, coef: Vector) -> Vector:
        """Return sum_j coef_j k(z, x_j), where `points` is the matrix of all k(z, x_j)."""
        return np.asarray(self.values(points, columns) @ coef, dtype=np.float64)

    def combine_groups(self, points: Any, groups: list[tuple[Indices, Vector]]) -> Vector:
        """Return the sums of groups of columns, with coefficients of shape (k, p), shape (total, n)."""
        return np.concatenate([self.combine(points, *group).T for group in groups])

    def cross(self, points: Any, columns: Indices) -> NDArray[np.float64]:
        """Return k(z, x_j) for the support points j = columns, shape (n, len(columns))."""
        K = self.values(points, columns)
        return np.asarray(K if isinstance(K, np.ndarray) else K.toarray(), np.float64)

    def values(self, points: Any, columns: Indices) -> Any:
        """Return columns of the matrix of all k(z, x_j), dense or sparse as it is."""
        values = check_points("points", points)
        if values.shape[1] != self.m:
            raise InputError(
                f"points must be the kernel matrix k(new, training) with {self.m} columns, since "
                f"K was precomputed; got shape {values.shape}"
            )
        return values[:, self.columns[columns]]

    def own(self, rows: Indices) -> MatrixColumns:
        """Return the columns of the support points `rows`."""
        return MatrixColumns(self.m, self.columns[rows])
