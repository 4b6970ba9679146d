"""Kernels by scikit-learn's names and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from qpsvm.estimators.inputs.samples import Vector
from qpsvm.gram import (
    RBF,
    CustomKernel,
    Gram,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
)
from qpsvm.gram.kernels.gamma import settle_gamma
from qpsvm.gram.storage.chunked import ChunkedPoints


class Kernel(NamedTuple):
    """A kernel with its parameters; `gamma` is a number."""

    name: str | Callable[[Any, Any], Any]
    gamma: float = 0.0
    degree: int = 3
    coef0: float = 0.0

    @classmethod
    def of(cls, estimator: Any, X: Any, weight: Vector) -> Kernel:
        """Return the kernel that the parameters of an estimator declare for some points."""
        name = estimator.kernel
        needs_gamma = name in ("rbf", "poly", "sigmoid", "laplacian")
        gamma = weighted_gamma(estimator.gamma, X, weight) if needs_gamma else 0.0
        return cls(name, gamma, int(estimator.degree), float(estimator.coef0))

    @property
    def is_precomputed(self) -> bool:
        """Whether points are rows of a kernel matrix."""
        return isinstance(self.name, str) and self.name == "precomputed"

    @property
    def is_linear(self) -> bool:
        """Whether the machine has a normal in the space of the points."""
        return isinstance(self.name, str) and self.name == "linear"

    def gram(self, X: Any) -> Gram:
        """Return the Gram of some points."""
        if not isinstance(self.name, str):
            return CustomKernel(X, self.name)
        if self.name == "poly":
            return Polynomial(X, self.degree, self.gamma, self.coef0)
        if self.name == "sigmoid":
            return Sigmoid(X, self.gamma, self.coef0)
        if self.name in ("rbf", "laplacian"):
            return (RBF if self.name == "rbf" else Laplacian)(X, self.gamma)
        return Linear(X) if self.is_linear else Precomputed(X)


def weighted_gamma(gamma: Any, X: Any, weight: Vector) -> float:
    """Return the number that `gamma` stands for; a weight counts as that many repetitions of a point.

    ``"scale"`` is 1 / (d var(X)), 1 where all entries are equal; ``"auto"`` is 1 / d.
    """
    if gamma != "scale" or np.all(weight == weight[0]):
        return settle_gamma(gamma, X)
    if isinstance(X, ChunkedPoints):
        means, variances, _ = X.weighted_moments(weight)
        variance = float(np.mean(variances) + np.var(means))
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    total = float(np.sum(weight)) * X.shape[1]
    mean = float(weight @ np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()) / total
    if sp.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1, dtype=np.float64)).ravel()
        variance = float(weight @ squares) / total - mean * mean
    else:
        variance = float(weight @ np.square(X - mean, dtype=np.float64).sum(axis=1)) / total
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
