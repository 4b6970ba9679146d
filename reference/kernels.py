"""Kernel matrices in extended precision, entry by entry as the kernels are defined."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from reference.textbook import EXTENDED_PRECISION, Array


def points(X: Any) -> Array:
    """Return the points as a dense array in extended precision."""
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, dtype=EXTENDED_PRECISION)


def centered(X: Array) -> Array:
    """Return the points less their mean."""
    return X - X.mean(axis=0)


def distances(X: Array, power: int) -> Array:
    """Return sum_k |x_ik - x_jk|^power for all pairs."""
    return sum(np.abs(column[:, None] - column) ** power for column in X.T)


def bandwidth(gamma: float | str, X: Array) -> np.longdouble:
    """Resolve gamma = "scale", 1 / (d var(X)), and "mean-distance", 1 / (2 mean |x_i - x_j|^2)."""
    if gamma == "scale":
        return 1 / (X.shape[1] * X.var())
    if gamma == "mean-distance":
        return 1 / (2 * distances(X, power=2).mean())
    return EXTENDED_PRECISION(gamma)


def gram(data: dict[str, Any], translate: bool = False) -> Array:
    """Return the kernel matrix (m, m).

    Parameters
    ----------
    data : dict
        The raw data of an instance.
    translate : bool
        Whether the problem does not change when all points move: the points of a linear kernel
        are then centered, so that distant data lose no digits.
    """
    name, parameters = data["kernel"]
    if name == "precomputed":
        return np.asarray(data["K"], dtype=EXTENDED_PRECISION)
    X = points(data["X"])
    if name == "linear":
        X = centered(X) if translate else X
        return X @ X.T
    gamma = bandwidth(parameters["gamma"], X)
    if name == "rbf":
        return np.exp(-gamma * distances(X, power=2))
    if name == "laplacian":
        return np.exp(-gamma * distances(X, power=1))
    if name == "poly":
        return (gamma * (X @ X.T) + EXTENDED_PRECISION(parameters["coef0"])) ** parameters["degree"]
    if name == "sigmoid":
        return np.tanh(gamma * (X @ X.T) + EXTENDED_PRECISION(parameters["coef0"]))
    raise ValueError(f"kernel {name!r} has no reference")


def factor(K: Array) -> Array:
    """Return F (m, r) in float64 with K = FF' up to rounding."""
    K = K.astype(float)
    eigenvalues, vectors = scipy.linalg.eigh(K)
    kept = eigenvalues > len(K) * np.finfo(float).eps * max(eigenvalues[-1], 0.0)
    if not kept.any():
        return np.zeros((len(K), 1))
    return vectors[:, kept] * np.sqrt(eigenvalues[kept])
