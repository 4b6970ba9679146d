"""Minimum enclosing balls.

The declared problem, a over the simplex:

    minimize  a'Ka - diag(K)'a

Its value is -radius^2 of the smallest ball around the points in feature space.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import scipy.sparse

from problems.clouds import cloud
from problems.data.kernels import (
    LINEAR_KERNEL,
    PRECOMPUTED_KERNEL,
    Data,
    Kernel,
    laplacian,
    poly,
    rbf,
)
from problems.data.real import breast_cancer, digits
from problems.instance import family, gram_of, instance


@family("meb")
def declare(data: Data, gram: str) -> Any:
    """Return `MEBDual` of the data of an instance."""
    import qpsvm

    return qpsvm.MEBDual(gram_of(data, gram))


def points(X: object, kernel: Kernel = LINEAR_KERNEL) -> Data:
    """Return the data of the ball around the rows of X."""
    return {"X": X, "kernel": kernel}


def corners(d: int) -> np.ndarray:
    """Return the 2^d corners of the cube [-1, 1]^d."""
    return np.array(list(product([-1.0, 1.0], repeat=d)))


def cross(d: int) -> np.ndarray:
    """Return the 2 d points e_i and -e_i."""
    return np.vstack([np.eye(d), -np.eye(d)])


def sphere_of_radius_five() -> np.ndarray:
    """Return the integer points (3, 4, 0), (0, 5, 0), ... of length 5 exactly."""
    grid = np.array(list(product(range(-5, 6), repeat=3)), dtype=float)
    return grid[(grid**2).sum(axis=1) == 25]


def sparse_cloud() -> scipy.sparse.csr_array:
    """Return a CSR array of points with nine entries in ten zero."""
    X = cloud(120, 40, seed=109)
    return scipy.sparse.csr_array(np.where(np.random.default_rng(110).random(X.shape) < 0.1, X, 0))


INSTANCES = (
    # A closed form is known.
    instance(
        "meb/one-point",
        lambda: points([[1.0, 2.0, 3.0]]),
        "closed-form degenerate zero-optimum",
        "One point: the radius is 0.",
        exact=0.0,
    ),
    instance(
        "meb/two-points",
        lambda: points([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]]),
        "closed-form",
        "Two points 5 apart: the radius is 2.5.",
        exact=-6.25,
    ),
    instance(
        "meb/identical",
        lambda: points(np.full((20, 4), 0.3)),
        "closed-form degenerate zero-optimum",
        "Twenty duplicates of one point.",
        exact=0.0,
    ),
    instance(
        "meb/all-zero",
        lambda: points(np.zeros((10, 3))),
        "closed-form degenerate zero-optimum",
        "Every entry of the Gram is 0.",
        exact=0.0,
    ),
    instance(
        "meb/regular-simplex",
        lambda: points(np.eye(10)),
        "closed-form",
        "Unit vectors e_i: radius^2 = 1 - 1/m.",
        exact=-0.9,
    ),
    instance(
        "meb/precomputed-identity",
        lambda: {"K": np.eye(50), "kernel": PRECOMPUTED_KERNEL},
        "closed-form",
        "K = I: radius^2 = 1 - 1/m.",
        exact=-0.98,
    ),
    instance(
        "meb/rbf-far-apart",
        lambda: points(100.0 * np.eye(25), rbf(1.0)),
        "closed-form",
        "RBF on points so far apart that K = I.",
        exact=-0.96,
    ),
    instance(
        "meb/sphere-closed-form",
        lambda: points(sphere_of_radius_five()),
        "closed-form degenerate",
        "Integer points on a sphere of radius 5: many optimal weights.",
        exact=-25.0,
    ),
    instance(
        "meb/cube",
        lambda: points(corners(5)),
        "closed-form degenerate",
        "The corners of a cube: all 32 are active, the rank is 5.",
        exact=-5.0,
    ),
    instance(
        "meb/cross-offset-1e4",
        lambda: points(1e4 + cross(6)),
        "closed-form degenerate",
        "The points e_i and -e_i moved by 1e4: the Gram loses eight digits.",
        exact=-1.0,
    ),
    instance(
        "meb/collinear",
        lambda: points(np.outer(np.arange(33.0), [1.0, 2.0, 2.0])),
        "closed-form degenerate",
        "Points on a line of length 96.",
        exact=-2304.0,
    ),
    instance(
        "meb/one-feature",
        lambda: points(np.linspace(-2.0, 2.0, 41)[:, None]),
        "closed-form degenerate",
        "Points of one feature in [-2, 2].",
        exact=-4.0,
    ),
    instance(
        "meb/duplicates",
        lambda: points(np.repeat(np.vstack([np.zeros(3), cross(3)]), 12, axis=0)),
        "closed-form degenerate",
        "Every point twelve times.",
        exact=-1.0,
    ),
    # Random.
    instance(
        "meb/random-linear",
        lambda: points(cloud(200, 5, seed=101)),
        "random",
        "Normal points in five dimensions.",
    ),
    instance(
        "meb/random-high-dimension",
        lambda: points(cloud(100, 300, seed=102)),
        "random",
        "More features than points: nearly every point is active.",
    ),
    instance(
        "meb/random-rank-3",
        lambda: points(cloud(300, 10, seed=103, rank=3)),
        "random degenerate",
        "Rank 3 in ten dimensions.",
    ),
    instance(
        "meb/random-spread-1e3",
        lambda: points(cloud(150, 6, seed=104, spread=1e3)),
        "random",
        "Features in units from 1 to 1000.",
    ),
    instance(
        "meb/random-rbf-wide",
        lambda: points(cloud(300, 5, seed=105), rbf(0.01)),
        "random",
        "RBF with a wide kernel: K is close to a matrix of ones.",
    ),
    instance(
        "meb/random-rbf",
        lambda: points(cloud(300, 5, seed=105), rbf(0.5)),
        "random",
        "RBF of middle width.",
    ),
    instance(
        "meb/random-rbf-narrow",
        lambda: points(cloud(200, 5, seed=105), rbf(20.0)),
        "random",
        "RBF so narrow that K is close to I and every point is active.",
    ),
    instance(
        "meb/random-poly",
        lambda: points(cloud(150, 4, seed=106), poly(3, 0.25, 1.0)),
        "random",
        "Cubic polynomial: the diagonal of K varies much.",
    ),
    instance(
        "meb/random-laplacian",
        lambda: points(cloud(150, 4, seed=107), laplacian(0.3)),
        "random",
        "Laplacian kernel.",
    ),
    instance(
        "meb/random-sparse",
        lambda: points(sparse_cloud(), rbf("scale")),
        "random sparse",
        "CSR points, RBF with gamma by name.",
    ),
    instance(
        "meb/random-float32",
        lambda: points(cloud(150, 5, seed=108).astype(np.float32)),
        "random",
        "Points in single precision.",
    ),
    # Degenerate.
    instance(
        "meb/offset-1e4",
        lambda: points(1e4 + cloud(150, 5, seed=111)),
        "random degenerate",
        "Normal points far from the origin.",
    ),
    instance(
        "meb/scale-1e-4",
        lambda: points(1e-4 * cloud(150, 5, seed=112)),
        "random degenerate",
        "Data in units of 1e-4: the value is about 1e-7.",
    ),
    instance(
        "meb/scale-1e4",
        lambda: points(1e4 * cloud(150, 5, seed=113)),
        "random degenerate",
        "Data in units of 1e4: the value is about 1e9.",
    ),
    instance(
        "meb/zero-rows",
        lambda: points(np.vstack([np.zeros((30, 4)), cloud(90, 4, 114)])),
        "random degenerate",
        "A quarter of the points lies at the origin.",
    ),
    # Real.
    instance(
        "meb/digits-linear",
        lambda: points(digits(limit=300)[0]),
        "real",
        "Handwritten digits 3 and 8.",
    ),
    instance(
        "meb/digits-rbf",
        lambda: points(digits(limit=300)[0], rbf("mean-distance")),
        "real",
        "Digits 3 and 8, RBF of the mean squared distance.",
    ),
    instance(
        "meb/breast-cancer-rbf",
        lambda: points(breast_cancer(400)[0], rbf("scale")),
        "real",
        "Breast cancer, RBF.",
    ),
)
