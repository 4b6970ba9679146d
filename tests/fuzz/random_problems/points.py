"""Clouds of points, labels and values: ordinary ones and those of the degenerate menu."""

from __future__ import annotations

import numpy as np

CLOUD_KINDS = (
    "normal", "normal", "normal", "clusters", "clusters", "duplicates", "identical", "zeros",
    "collinear", "sphere", "low rank", "integers", "binary", "grid", "ties", "heavy tails",
)  # fmt: skip
"""Kinds of clouds; the ordinary ones come more than once."""

CLOUD_CHANGES = (
    "one outlier", "unlike features", "constant features", "zero rows", "twins", "offset 1e3",
    "offset 1e6", "offset 1e8", "both labels", "offset of one feature",
)  # fmt: skip
"""What is done to a cloud afterwards."""

LABEL_KINDS = ("random", "separated", "separated", "alternating", "one class", "one against all")
"""How points are labeled."""

VALUE_KINDS = (
    "linear",
    "noise",
    "constant",
    "steps",
    "far from zero",
    "large",
    "small",
    "one spike",
)
"""How the values of a regression arise."""


def cloud(rng: np.random.Generator, m: int, d: int, shape: str) -> np.ndarray:
    """Return points of shape (m, d)."""
    X = rng.standard_normal((m, d))
    if shape == "clusters":
        X += 2.0 * np.where(np.arange(m) % 2, 1.0, -1.0)[:, None]
    elif shape == "duplicates":
        X = X[rng.integers(0, max(1, m // 4), m)]
    elif shape == "identical":
        X = np.tile(X[:1], (m, 1))
    elif shape == "zeros":
        X = np.zeros((m, d))
    elif shape == "collinear":
        X = np.outer(rng.integers(-9, 10, m), np.round(4 * X[0]))
    elif shape == "sphere":
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    elif shape == "low rank":
        X = X[:, :1] @ rng.standard_normal((1, d))
    elif shape == "integers":
        X = rng.integers(-3, 4, (m, d)).astype(float)
    elif shape == "binary":
        X = (rng.random((m, d)) < 0.3).astype(float)
    elif shape == "grid":
        X = rng.integers(0, 256, (m, d)) / 255.0
    elif shape == "ties":
        X = np.where(X > 0, 1.0, -1.0)
    elif shape == "heavy tails":
        X = rng.standard_cauchy((m, d))
    return X


def spiced(rng: np.random.Generator, X: np.ndarray, spice: str) -> np.ndarray:
    """Return the points with one irregularity."""
    m, d = X.shape
    X = X.copy()
    if spice == "one outlier":
        X[rng.integers(m)] *= 1e6
    elif spice == "unlike features":
        X *= 10.0 ** rng.integers(-6, 7, d)
    elif spice == "constant features":
        X[:, rng.random(d) < 0.5] = 7.0
    elif spice == "zero rows":
        X[rng.random(m) < 0.3] = 0.0
    elif spice == "twins":
        half = m // 2
        X[half : 2 * half] = X[:half] * (1.0 + 1e-12)
    elif spice == "both labels":
        half = m // 2
        X[half : 2 * half] = X[:half]
    elif spice == "offset of one feature":
        X[:, 0] += 2460000.5
    elif spice.startswith("offset"):
        X += float(spice.split()[1])
    return X


def labels(rng: np.random.Generator, X: np.ndarray, kind: str) -> np.ndarray:
    """Return labels -1 and +1, shape (m,); of several points both, but for "one class"."""
    m = len(X)
    if kind == "one class":
        return np.full(m, rng.choice([-1.0, 1.0]))
    if kind == "random":
        y = rng.choice([-1.0, 1.0], m)
    elif kind == "alternating":
        y = np.where(np.arange(m) % 2, 1.0, -1.0)
    elif kind == "one against all":
        y = np.full(m, -1.0)
    else:
        scale = np.abs(X).max(axis=0)
        along = (X / np.where(scale > 0, scale, 1.0)) @ rng.standard_normal(X.shape[1])
        y = np.where(along > np.median(along), 1.0, -1.0)
    if m > 1 and abs(y.sum()) == m:
        y[rng.integers(m)] *= -1.0
    return y


def values(rng: np.random.Generator, X: np.ndarray, kind: str) -> np.ndarray:
    """Return values of a regression, shape (m,)."""
    m = len(X)
    size = max(float(np.abs(X).max()), 1e-300)
    line = (X / size) @ rng.standard_normal(X.shape[1]) + 0.1 * rng.standard_normal(m)
    if kind == "noise":
        return rng.standard_normal(m)
    if kind == "constant":
        return np.full(m, 3.7)
    if kind == "steps":
        return np.round(3.0 * line)
    if kind == "far from zero":
        return line + 1e7
    if kind == "large":
        return line * 1e8
    if kind == "small":
        return line * 1e-8
    if kind == "one spike":
        line[rng.integers(m)] += 1e5
    return line
