"""The performance grid: the points of a cell, its problem, and the solve; asv tracks some of the cells.

`grid_cells.py` draws the cells, `grid_cells.json` keeps them with the overlap of their classes, and
`docs/make/grid.py` runs all of them beside peers. Nothing here imports qpsvm before a problem is
declared, so that a Python with peers alone can make the points.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from asv_benchmarks.grid_cells import WORDS_A_POINT, Cell

CELLS_FILE = Path(__file__).with_name("grid_cells.json")
"""The cells as drawn, and the overlap of their classes."""

LATENT_DIMENSIONS = 6
"""Dimensions in which dense points vary most."""

NOISE_LENGTH = 0.3
"""Length of the noise in all other dimensions; the standard deviation of a latent one is 1."""

ONE_CLASS_SHIFT = 4.0
"""Distance of the mean of a one-class problem from the origin, which is not to lie among the points."""

BYTE_LEVELS = 255
"""Largest integer coordinate."""

BINARY_SHARES = (0.05, 0.5)
"""Least and greatest share of ones of a binary feature."""

PAIRS_OF_POINTS = 20_000
"""Pairs of points whose mean distance sets gamma."""

SIGMOID_FACTOR = 0.1
"""Factor of gamma of the sigmoid kernel, small enough for a matrix that is positive semidefinite."""

TRACKED_CELLS = (
    "hinge rbf binary 200x200 80% C=0.1", "hinge poly3 integers 5000x50 20% C=10",
    "hinge linear csr 200x1000000 20% C=10", "l2 custom float64 2000x200 20% C=1000",
    "l2 linear float64 2000x50 20% C=1000", "one-class precomputed float32 5000x10 1%",
    "hinge sigmoid csr 2000x10000 20% C=0.1", "ball laplacian csr 2000x1000000",
)  # fmt: skip
"""Cells that asv tracks."""


class Data(NamedTuple):
    """Points, labels, the width of the kernel, and the matrix of a precomputed kernel."""

    X: Any
    y: Any
    gamma: float
    K: Any = None


def cells() -> dict[str, tuple[Cell, float]]:
    """Return the cells of the grid and the overlap of their classes, by name."""
    rows = json.loads(CELLS_FILE.read_text())
    found = [(Cell(**row["cell"]), row["overlap"]) for row in rows]
    return {cell.name: (cell, overlap) for cell, overlap in found}


def make(cell: Cell, overlap: float, n_points: int | None = None) -> Data:
    """Return the data of a cell; `n_points` makes fewer of the same kind.

    Dense points are a normal distribution about a mean for each class in `LATENT_DIMENSIONS`, whose best
    classifier errs in the share `overlap`, turned into all features, and noise. Integers and binary
    coordinates are quantized from them. CSR points are texts of words of probability 1/rank; a share
    1 - 2 overlap of the words is drawn from the half of the words that belongs to the class.
    """
    rng = np.random.default_rng([ord(c) for c in cell.name])
    m = cell.m if n_points is None else min(n_points, cell.m)
    y = np.where(rng.permutation(m) % 2 == 0, 1.0, -1.0)
    X = texts(rng, cell, y, overlap) if cell.storage == "csr" else normal(rng, cell, y, overlap)
    gamma = width(X, cell.kernel)
    K = None
    if cell.kernel == "precomputed":
        squares = np.sum(X.astype(float) ** 2, axis=1)
        distances = squares[:, None] + squares - 2.0 * (X.astype(float) @ X.T.astype(float))
        K = np.exp(-gamma * np.maximum(distances, 0.0))
        np.fill_diagonal(K, 1.0)
        K = ((K + K.T) / 2.0).astype(cell.storage)
    return Data(X, y, gamma, K)


def normal(rng: np.random.Generator, cell: Cell, y: Any, overlap: float) -> Any:
    """Return dense points."""
    m, d = len(y), cell.d
    q = min(d, LATENT_DIMENSIONS)
    Z = rng.standard_normal((m, q))
    if cell.C is not None:
        Z[:, 0] += y * NormalDist().inv_cdf(1.0 - overlap)
    elif cell.formulation == "one-class":
        Z[:, 0] += ONE_CLASS_SHIFT
    axes = np.linalg.qr(rng.standard_normal((d, q)))[0].T
    X = Z @ axes
    if d > q:  # a sigmoid kernel is positive semidefinite where there is enough of it
        length = 1.0 if cell.kernel == "sigmoid" else NOISE_LENGTH
        for start in range(0, m, 10_000):
            part = X[start : start + 10_000]
            part += length / np.sqrt(d) * rng.standard_normal(part.shape)
    if cell.storage == "integers":
        largest = np.max(np.abs(X))
        return np.rint((X / largest + 1.0) * BYTE_LEVELS / 2.0)
    if cell.storage == "binary":
        shares = rng.uniform(*BINARY_SHARES, d)
        some = X[:: max(1, m // 2000)]
        thresholds = np.array(
            [np.quantile(x, 1.0 - s) for x, s in zip(some.T, shares, strict=True)]
        )
        return (X > thresholds).astype(np.float64)
    return X.astype(cell.storage)


def texts(rng: np.random.Generator, cell: Cell, y: Any, overlap: float) -> Any:
    """Return CSR points: (1 + log count) log(m / df), normalized."""
    m, d = len(y), cell.d
    n_words = min(WORDS_A_POINT, d // 2)
    share = np.cumsum(1.0 / np.arange(1, d + 1))
    words = np.searchsorted(share / share[-1], rng.random((m, n_words))).clip(0, d - 1)
    if cell.C is not None:
        own = rng.random((m, n_words)) < 1.0 - 2.0 * overlap
        words = np.where(own, (words // 2 * 2 + (y[:, None] > 0)).clip(0, d - 1), words)
    X = sp.csr_matrix((np.ones(words.size), words.ravel(), n_words * np.arange(m + 1)), (m, d))
    X.sum_duplicates()
    frequency = np.bincount(X.indices, minlength=d)
    X.data = (1.0 + np.log(X.data)) * np.log1p(m / np.maximum(1, frequency))[X.indices]
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.csr_matrix(sp.diags(1.0 / norms) @ X)


def width(X: Any, kernel: str) -> float:
    """Return one over the mean squared distance, l1 distance or squared norm, as the kernel has it."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(X.shape[0], size=(2, PAIRS_OF_POINTS if X.shape[1] < 1000 else 1000))
    A, B = (X[rows].astype(np.float64) for rows in (a, b))
    if kernel in ("poly2", "poly3", "sigmoid", "linear"):
        B = 0.0 * B
    D = abs(A - B)
    D = D if kernel == "laplacian" else D.multiply(D) if sp.issparse(D) else D * D
    factor = SIGMOID_FACTOR if kernel == "sigmoid" else 1.0
    return factor / float(np.mean(np.asarray(D.sum(axis=1))))


def rational(gamma: float) -> Any:
    """Return the function of the custom kernel, 1 / (1 + gamma |x - z|^2), for us and for SVC."""

    def function(A: Any, B: Any) -> Any:
        K = A @ B.T
        K *= -2.0
        K += np.einsum("ij,ij->i", A, A)[:, None]
        K += np.einsum("ij,ij->i", B, B)
        np.maximum(K, 0.0, out=K)
        K *= gamma
        K += 1.0
        return np.divide(1.0, K, out=K)

    return function


def gram(cell: Cell, data: Data) -> Any:
    """Return the kernel of a cell as a user of qpsvm declares it."""
    import qpsvm

    X, gamma = data.X, data.gamma
    makes = {
        "rbf": lambda: qpsvm.RBF(X, gamma),
        "linear": lambda: qpsvm.Linear(X),
        "poly2": lambda: qpsvm.Polynomial(X, 2, gamma, 1.0),
        "poly3": lambda: qpsvm.Polynomial(X, 3, gamma, 1.0),
        "laplacian": lambda: qpsvm.Laplacian(X, gamma),
        "sigmoid": lambda: qpsvm.Sigmoid(X, gamma, 0.0),
        "precomputed": lambda: qpsvm.Precomputed(data.K),
        "custom": lambda: qpsvm.CustomKernel(X, rational(gamma)),
    }
    return makes[cell.kernel]()


def declare(cell: Cell, data: Data) -> Any:
    """Return the problem of a cell; a linear hinge machine has no bias, as LIBLINEAR's."""
    import qpsvm

    K, m = gram(cell, data), len(data.y)
    nu = max(cell.support / 100, 1.0 / m)
    if cell.formulation == "hinge":
        return qpsvm.HingeDual(K, data.y, cell.C, bias=cell.kernel != "linear")
    if cell.formulation == "l2":
        return qpsvm.L2SVMDual(K, data.y, cell.C)
    if cell.formulation == "one-class":
        return qpsvm.OneClassDual(K, nu)
    if cell.formulation == "soft ball":
        return qpsvm.SVDDDual(K, 1.0 / (nu * m))
    return qpsvm.MEBDual(K)


class Grid:
    """Seconds to a certified gap of 1e-3, the declaration included."""

    params = list(TRACKED_CELLS)
    param_names = ["cell"]
    timeout = 120

    def setup(self, name: str) -> None:
        """Make the points, and solve once, so that no compilation is measured."""
        self.cell, overlap = cells()[name]
        self.data = make(self.cell, overlap)
        self.time_solve(name)

    def time_solve(self, name: str) -> None:
        """Declare and solve."""
        import qpsvm

        result = qpsvm.solve(declare(self.cell, self.data), tol=1e-3)
        if not result.converged:
            raise RuntimeError(f"{name}: {result.status.name}")
