"""The parameter gamma: a number, or the name of a rule that computes it from the points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from qpsvm.errors import InputError, check_choice, check_number
from qpsvm.gram.storage.chunked import ChunkedPoints
from qpsvm.gram.storage.points import Points, largest_entry, variance_sum

MIN_COORDINATE = 1e-138
"""Coordinate below which the square of its last digit is no normal number."""


def settle_gamma(gamma: Any, X: Points) -> float:
    """Return the number that `gamma` stands for.

    ``"scale"`` is 1 / (d var(X)) over all entries and ``"auto"`` is 1 / d, as in scikit-learn;
    ``"mean-distance"`` is 1 / (2 sigma^2) with sigma^2 the mean squared distance over all ordered pairs
    of points, the choice of Frandi et al., whose kernel is exp(-|x - z|^2 / (2 sigma^2)).
    """
    if not isinstance(gamma, str):
        return float(check_number("gamma", gamma, low=0.0, open_low=True, finite=True))
    check_choice("gamma", gamma, ("scale", "auto", "mean-distance"))
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "mean-distance":
        inverse_gamma = 4.0 * variance_sum(X)  # 2 sigma^2, sigma^2 = 2 trace of the covariance
    else:
        inverse_gamma = X.shape[1] * _variance(X)
    least = float(np.finfo(np.float64).tiny)
    if isinstance(X, ChunkedPoints):
        size = X.moments[2]
    else:
        size = largest_entry(X.data if sp.issparse(X) else X)
    if inverse_gamma < least and 0.0 < size < MIN_COORDINATE:
        raise InputError(
            f"gamma must be a number for points whose squares round to zero; got {gamma!r} "
            "(or multiply X by a common factor)"
        )
    return 1.0 / inverse_gamma if inverse_gamma >= least else 1.0


def _variance(X: Points) -> float:
    """Return the variance over all entries."""
    if isinstance(X, ChunkedPoints):
        means, variances, _ = X.moments
        return float(np.mean(variances) + np.var(means))
    if not sp.issparse(X):
        return float(np.var(X, dtype=np.float64))
    n_entries = X.shape[0] * X.shape[1]
    mean = float(np.sum(X.data, dtype=np.float64)) / n_entries
    stored = np.subtract(X.data, mean, dtype=np.float64)
    return (float(stored @ stored) + (n_entries - len(stored)) * mean * mean) / n_entries
