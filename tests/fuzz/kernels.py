"""Kernel matrices in extended precision, by code of their own, with bounds on their errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

EPS = float(np.finfo(np.longdouble).eps)
"""Relative spacing of the numbers of the judges: 2^-63 where a long double has 80 bits."""

EPS64 = float(np.finfo(np.float64).eps)
"""Relative spacing of float64."""

Extended = np.ndarray
"""An array of long doubles."""


class Kernel(NamedTuple):
    """A matrix whose entry ij is wrong by at most unit + size_i size_j."""

    K: Extended
    unit: float
    size: Extended

    def error_of_product(self, weights: Extended) -> Extended:
        """Return bounds on the errors of K @ weights, its rounding included."""
        total = np.abs(weights).sum()
        own = self.unit * total + self.size * (self.size @ np.abs(weights))
        return own + (len(weights) + 4) * EPS * (np.abs(self.K) @ np.abs(weights))


def matrix_of(
    kernel: str, settings: dict[str, float], X: Any, translated: bool, Z: Any = None
) -> Kernel:
    """Return the kernel matrix of points X, or of new points Z with X, in extended precision.

    Linear points are moved to their mean where the problem does not change when all of them move.
    """
    X = np.asarray(X, dtype=np.longdouble)
    own = Z is None
    Z = X if own else np.asarray(Z, dtype=np.longdouble)
    d = X.shape[1]
    if kernel == "precomputed":
        return Kernel(X, 0.0, np.zeros(len(X), np.longdouble))
    if kernel == "linear":
        if translated:
            origin = X.mean(axis=0)
            X, Z = X - origin, Z - origin
        return Kernel(Z @ X.T, 0.0, _lengths(X) * np.sqrt((d + 6) * EPS))
    if kernel == "custom":
        size = 1.0 + (X * X).sum(axis=1)
        return Kernel((1.0 + Z @ X.T) ** 2, 0.0, size * np.sqrt((d + 8) * EPS64))
    gamma = np.longdouble(settings["gamma"])
    if kernel in ("rbf", "laplacian"):
        distance = np.zeros((len(Z), len(X)), np.longdouble)
        for j in range(d):
            apart = Z[:, j : j + 1] - X[:, j]
            distance += apart * apart if kernel == "rbf" else np.abs(apart)
        # t exp(-t) <= 0.37; exp itself is exact to a few units
        return Kernel(np.exp(-gamma * distance), (d + 12) * EPS, np.zeros(len(X), np.longdouble))
    coef0 = np.longdouble(settings["coef0"])
    inner = gamma * (Z @ X.T) + coef0
    square = gamma * (X * X).sum(axis=1) + abs(coef0)
    if kernel == "polynomial":
        degree = int(settings["degree"])
        size = square ** (degree / 2)
        return Kernel(inner**degree, 0.0, size * np.sqrt(2 * degree * (d + 8) * EPS))
    assert kernel == "sigmoid"
    return Kernel(np.tanh(inner), 0.0, np.sqrt((d + 8) * EPS * np.maximum(square, 1.0)))


def _lengths(X: Extended) -> Extended:
    return np.sqrt((X * X).sum(axis=1))


def is_psd(kernel: str, settings: dict[str, float]) -> bool:
    """Return whether a kernel is positive semidefinite by its formula."""
    if kernel == "polynomial":
        return settings["coef0"] >= 0
    return kernel in ("linear", "rbf", "laplacian", "custom")
