"""Distances of reduced convex hulls: the nu-SVM for classification.

The declared problem, with the bounds u_i = 2 w_i / (nu sum w), for equal weights 2 / (nu m):

    minimize  1/2 |sum a_i y_i z_i|^2    subject to  0 <= a_i <= u_i,  each class of sum 1

The value is half the squared distance of the two reduced hulls; it is 0 where they meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.clouds import cloud, moved, separable_clouds, sparse_clouds, two_clouds, weights
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


@family("reduced_hulls")
def declare(data: Data, gram: str) -> Any:
    """Return `NuSVCDual` of the data of an instance."""
    import qpsvm

    K, weight = gram_of(data, gram), data.get("sample_weight")
    return qpsvm.NuSVCDual(K, data["y"], data["nu"], sample_weight=weight)


def machine(
    points: tuple, nu: float, kernel: Kernel = LINEAR_KERNEL, weight: object = None
) -> Data:
    """Return the data of a machine on points (X, y)."""
    X, y = points
    found: Data = {"X": X, "y": y, "nu": nu, "kernel": kernel}
    return found if weight is None else {**found, "sample_weight": weight}


def rulers(count: int, apart: float) -> tuple:
    """Return points (X, y) on a line: 0, 1, ... of class -1, and as many of +1 from `apart` on."""
    own = np.arange(float(count))
    X = np.concatenate([own, own + apart])[:, None]
    return X, np.repeat([-1.0, 1.0], count)


INSTANCES = (
    # A closed form is known.
    instance(
        "reduced_hulls/two-points",
        lambda: machine((np.array([[0.0, 0, 0], [1, 2, 2]]), np.array([1.0, -1])), 1.0),
        "closed-form degenerate",
        "One point per class, 3 apart: a single feasible point.",
        exact=4.5,
    ),
    instance(
        "reduced_hulls/rulers",
        lambda: machine(rulers(5, 3.0), 0.5),
        "closed-form",
        "Overlapping hulls; with the bounds 0.4 the nearest points are 3.2 and 3.8.",
        exact=0.18,
    ),
    instance(
        "reduced_hulls/rulers-all-at-bounds",
        lambda: machine(rulers(5, 3.0), 0.8),
        "closed-form degenerate",
        "nu m / 2 = 4: weights of 1/4 or 0, none free, and an interval of best thresholds.",
        exact=2.0,
    ),
    instance(
        "reduced_hulls/rulers-touching",
        lambda: machine(rulers(5, 3.0), 0.4),
        "closed-form degenerate zero-optimum",
        "The means of the two nearest are the same point.",
        exact=0.0,
    ),
    instance(
        "reduced_hulls/rulers-intersecting",
        lambda: machine(rulers(5, 3.0), 0.2),
        "closed-form degenerate zero-optimum",
        "No bound below 1: the hulls themselves, which intersect.",
        exact=0.0,
    ),
    instance(
        "reduced_hulls/nu-1",
        lambda: machine((np.vstack([np.eye(4), -np.eye(4)]), np.repeat([1.0, -1.0], 4)), 1.0),
        "closed-form degenerate",
        "nu = 1: the means of both classes.",
        exact=0.5,
    ),
    instance(
        "reduced_hulls/largest-nu",
        lambda: machine((np.array([[0.0], [2], [3], [5]]), np.array([1.0, -1, -1, -1])), 0.5),
        "closed-form degenerate",
        "The only point of its class is fixed, the other class has no bound below 1.",
        exact=2.0,
    ),
    instance(
        "reduced_hulls/identity",
        lambda: {
            "K": np.eye(40),
            "y": np.repeat([1.0, -1.0], [10, 30]),
            "nu": 0.3,
            "kernel": PRECOMPUTED_KERNEL,
        },
        "closed-form",
        "K = I: equal weights in each class.",
        exact=0.5 * (1 / 10 + 1 / 30),
    ),
    instance(
        "reduced_hulls/identical",
        lambda: machine((np.ones((20, 3)), np.repeat([1.0, -1.0], 10)), 0.5),
        "closed-form degenerate zero-optimum",
        "Both labels on one point.",
        exact=0.0,
    ),
    instance(
        "reduced_hulls/all-zero",
        lambda: machine((np.zeros((10, 2)), np.repeat([1.0, -1.0], 5)), 0.6),
        "closed-form degenerate zero-optimum",
        "Every entry of the Gram is 0.",
        exact=0.0,
    ),
    # Random.
    *(
        instance(
            f"reduced_hulls/random-rbf-nu{nu}",
            lambda nu=nu: machine(two_clouds(200, 4, seed=601), nu, rbf(0.3)),
            "random",
            f"Overlapping clouds, RBF, nu = {nu}.",
        )
        for nu in (0.5, 0.2, 0.933)
    ),
    instance(
        "reduced_hulls/random-rbf-tiny-nu",
        lambda: machine(two_clouds(150, 4, seed=602), 0.01, rbf(1.0)),
        "random",
        "No bound can be reached: the distance of the hulls.",
    ),
    instance(
        "reduced_hulls/random-separable",
        lambda: machine(separable_clouds(200, 5, seed=603, gap=1.0), 0.2),
        "random",
        "A strip between two clouds.",
    ),
    instance(
        "reduced_hulls/random-overlapping",
        lambda: machine(two_clouds(200, 5, seed=604), 0.7),
        "random",
        "Overlapping clouds, linear, disjoint reduced hulls.",
    ),
    instance(
        "reduced_hulls/random-intersecting",
        lambda: machine(two_clouds(150, 3, seed=605, distance=0.5), 0.3),
        "random degenerate zero-optimum",
        "Overlapping clouds, linear, whose reduced hulls intersect.",
        exact=0.0,
    ),
    instance(
        "reduced_hulls/random-unbalanced-largest-nu",
        lambda: machine(two_clouds(200, 4, seed=606, positive=0.15), 0.3, rbf(0.3)),
        "random degenerate",
        "The weights of the smaller class are fixed.",
    ),
    instance(
        "reduced_hulls/random-weighted",
        lambda: machine(two_clouds(150, 4, seed=607), 0.3, rbf(0.3), weights(150, seed=608)),
        "random weighted",
        "Weights from 0.01 to 100 and every fifth point left out.",
    ),
    instance(
        "reduced_hulls/random-rbf-duplicates",
        lambda: machine(
            tuple(np.repeat(part, 10, axis=0) for part in two_clouds(20, 3, seed=609)),
            0.4,
            rbf(0.5),
        ),
        "random degenerate",
        "Every point ten times.",
    ),
    instance(
        "reduced_hulls/random-sparse",
        lambda: machine(sparse_clouds(150, 30, seed=610), 0.4, rbf("scale")),
        "random sparse",
        "CSR points.",
    ),
    instance(
        "reduced_hulls/random-float32",
        lambda: machine(
            tuple(part.astype(np.float32) for part in two_clouds(150, 4, seed=611)), 0.4, rbf(0.2)
        ),
        "random",
        "Points in single precision.",
    ),
    instance(
        "reduced_hulls/random-poly",
        lambda: machine(two_clouds(120, 4, seed=612), 0.5, poly(2, 0.5, 1.0)),
        "random",
        "Quadratic polynomial kernel.",
    ),
    instance(
        "reduced_hulls/random-laplacian",
        lambda: machine(two_clouds(120, 4, seed=613), 0.4, laplacian(0.2)),
        "random",
        "Laplacian kernel.",
    ),
    instance(
        "reduced_hulls/random-high-dimension",
        lambda: machine((cloud(60, 150, seed=614), two_clouds(60, 2, seed=615)[1]), 0.5),
        "random",
        "More features than points.",
    ),
    instance(
        "reduced_hulls/offset-1e4",
        lambda: machine(moved(separable_clouds(150, 4, seed=616, gap=1.0), offset=1e4), 0.3),
        "random degenerate",
        "A strip between two clouds far from the origin.",
    ),
    # Real.
    instance(
        "reduced_hulls/digits-rbf",
        lambda: machine(digits(limit=300), 0.1, rbf("scale")),
        "real",
        "Digits 3 against 8, RBF.",
    ),
    instance(
        "reduced_hulls/breast-cancer-rbf",
        lambda: machine(breast_cancer(400), 0.3, rbf("scale")),
        "real",
        "Breast cancer, RBF.",
    ),
)
