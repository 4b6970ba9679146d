"""The data of the demo, from scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Labels = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Points with labels -1 and +1, split into a training and a test part."""

    name: str
    task: str
    X: Points
    y: Labels
    n_train: int

    @property
    def train(self) -> tuple[Points, Labels]:
        """The first `n_train` points and labels."""
        return self.X[: self.n_train], self.y[: self.n_train]

    @property
    def test(self) -> tuple[Points, Labels]:
        """The other points and labels."""
        return self.X[self.n_train :], self.y[self.n_train :]

    def __str__(self) -> str:
        """Return its name, size and split."""
        m, d = self.X.shape
        split = f"{self.n_train:,} to train, {m - self.n_train:,} to test"
        return f"{self.name}: {m:,} points, {d} features, {self.task}; {split}"


def sample(name: str, task: str, X: Points, y: Labels, n_train: int) -> Sample:
    """Return the points in a random order that is the same at every call."""
    order = np.random.default_rng(0).permutation(len(X))
    return Sample(name, task, X[order], y[order], n_train)


def digits() -> tuple[Points, NDArray[np.int64]]:
    """Return the handwritten digits, pixels in [0, 1], and the digit of each image."""
    from sklearn.datasets import load_digits

    X, target = load_digits(return_X_y=True)
    return X / 16.0, target


def breast_cancer() -> tuple[Points, Labels, list[str]]:
    """Return the Wisconsin breast-cancer data, standardized, benign +1, and the features' names."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    return X, np.where(data.target == 1, 1.0, -1.0), list(data.feature_names)


def principal_plane(X: Points) -> Points:
    """Return the points on their two principal axes, shape (m, 2)."""
    centered = X - X.mean(axis=0)
    return centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
