"""Kernels by name, and the dense kernel matrix of an instance's points by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

Data = dict[str, Any]

Kernel = tuple[str, dict[str, Any]]

LINEAR_KERNEL: Kernel = ("linear", {})
PRECOMPUTED_KERNEL: Kernel = ("precomputed", {})


def rbf(gamma: float | str) -> Kernel:
    """Name the kernel exp(-gamma |x - z|^2)."""
    return ("rbf", {"gamma": gamma})


def laplacian(gamma: float | str) -> Kernel:
    """Name the kernel exp(-gamma |x - z|_1)."""
    return ("laplacian", {"gamma": gamma})


def poly(degree: int, gamma: float | str, coef0: float) -> Kernel:
    """Name the kernel (gamma x'z + coef0)^degree."""
    return ("poly", {"degree": degree, "gamma": gamma, "coef0": coef0})


def sigmoid(gamma: float | str, coef0: float) -> Kernel:
    """Name the kernel tanh(gamma x'z + coef0)."""
    return ("sigmoid", {"gamma": gamma, "coef0": coef0})


def dense_points(X: Any) -> np.ndarray:
    """Return the points as a dense float64 array."""
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, dtype=np.float64)


def bandwidth(gamma: float | str, X: np.ndarray) -> float:
    """Resolve a named gamma.

    "scale" is 1 / (d var(X)), the variance being that of all entries; "mean-distance" is
    1 / (2 sigma^2) with sigma^2 the mean of |x_i - x_j|^2 over all m^2 ordered pairs.
    """
    if gamma == "scale":
        variance = X.var()
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    if gamma == "mean-distance":
        mean_square = 2.0 * X.var(axis=0).sum()
        return 1.0 / (2.0 * mean_square) if mean_square > 0 else 1.0
    return float(gamma)


def dense_gram(data: Data) -> np.ndarray:
    """Return the kernel matrix (m, m) of the points, or the given K itself."""
    if "K" in data:
        return data["K"]
    from sklearn.metrics import pairwise

    name, parameters = data["kernel"]
    X = dense_points(data["X"])
    parameters = dict(parameters)
    if "gamma" in parameters:
        parameters["gamma"] = bandwidth(parameters["gamma"], X)
    if name in ("rbf", "laplacian"):
        X = X - X.mean(axis=0)  # changes no distance, and saves the digits of distant data
    K = pairwise.pairwise_kernels(X, metric="polynomial" if name == "poly" else name, **parameters)
    return (K + K.T) / 2
