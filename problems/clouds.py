"""Seeded random points, shared by the families."""

from __future__ import annotations

import numpy as np
import scipy.sparse


def cloud(m: int, d: int, seed: int, rank: int | None = None, spread: float = 1.0) -> np.ndarray:
    """Draw m normal points in d dimensions.

    Parameters
    ----------
    m, d : int
        Number of points and of features.
    seed : int
        Seed of the generator.
    rank : int or None
        Dimension of the subspace that holds the points.
    spread : float
        Ratio of the largest to the smallest standard deviation of a feature.

    Returns
    -------
    ndarray of shape (m, d)
    """
    rng = np.random.default_rng(seed)
    if rank is not None:
        return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, d))
    return rng.standard_normal((m, d)) * np.geomspace(1.0, spread, d)


def labels(m: int, seed: int, positive: float = 0.5) -> np.ndarray:
    """Return m shuffled labels, a share `positive` of them +1, at least one of each sign."""
    count = min(max(round(positive * m), 1), m - 1)
    y = np.where(np.arange(m) < count, 1.0, -1.0)
    return np.random.default_rng(seed).permutation(y)


def two_clouds(
    m: int, d: int, seed: int, distance: float = 2.0, positive: float = 0.5, spread: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw two normal clouds whose means are `distance` apart; return points and labels."""
    y = labels(m, seed + 10_000, positive)
    direction = np.ones(d) / np.sqrt(d)
    return cloud(m, d, seed, spread=spread) + 0.5 * distance * np.outer(y, direction), y


def separable_clouds(m: int, d: int, seed: int, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw two clouds that a strip of width at least `gap` separates; return points and labels."""
    y = labels(m, seed + 10_000)
    X = cloud(m, d, seed)
    X[:, 0] = y * (0.5 * gap + np.abs(X[:, 0]))
    return X, y


def sparse_clouds(m: int, d: int, seed: int) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Draw two clouds with four entries in five zero; return CSR points and labels."""
    X, y = two_clouds(m, d, seed, distance=6.0)
    mask = np.random.default_rng(seed + 1).random(X.shape) < 0.2
    return scipy.sparse.csr_array(np.where(mask, X, 0)), y


def moved(points: tuple, scale: float = 1.0, offset: float = 0.0) -> tuple:
    """Return points (X, y) with X scaled and moved."""
    return points[0] * scale + offset, points[1]


def weights(m: int, seed: int) -> np.ndarray:
    """Return penalties between 0.01 and 100, every fifth of them 0."""
    C = 10.0 ** np.random.default_rng(seed).uniform(-2, 2, m)
    C[::5] = 0.0
    return C
