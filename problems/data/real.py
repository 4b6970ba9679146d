"""Real data that every machine with scikit-learn has."""

from __future__ import annotations

from functools import cache

import numpy as np


@cache
def digits(first: int = 3, second: int = 8, limit: int | None = None) -> tuple:
    """Return handwritten digits, `first` (+1) against `second` (-1), pixels scaled to [0, 1].

    Returns
    -------
    X : ndarray of shape (m, 64)
    y : ndarray of shape (m,)
    """
    from sklearn.datasets import load_digits

    X, target = load_digits(return_X_y=True)
    chosen = np.flatnonzero((target == first) | (target == second))[:limit]
    return X[chosen] / 16.0, np.where(target[chosen] == first, 1.0, -1.0)


@cache
def breast_cancer(limit: int | None = None) -> tuple:
    """Return the Wisconsin breast-cancer data, benign (+1) against malignant, standardised.

    Returns
    -------
    X : ndarray of shape (m, 30)
    y : ndarray of shape (m,)
    """
    from sklearn.datasets import load_breast_cancer

    X, target = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[:limit], np.where(target[:limit] == 1, 1.0, -1.0)


@cache
def diabetes(limit: int | None = None) -> tuple:
    """Return the diabetes data, features and values standardised.

    Returns
    -------
    X : ndarray of shape (m, 10)
    y : ndarray of shape (m,)
    """
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    return X[:limit], y[:limit]
