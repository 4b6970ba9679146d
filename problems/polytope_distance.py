"""Distances of polytopes.

The declared problem, u over the simplex of P (y = +1) and v over that of Q (y = -1):

    minimize  1/2 |Pu - Qv|^2 + (|u|^2 + |v|^2) / (2 chi)

Without chi (None) the value is half the squared distance of the two hulls; it is 0 where they meet.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from problems.clouds import cloud, labels, moved, separable_clouds, two_clouds
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


@family("polytope_distance")
def declare(data: Data, gram: str) -> Any:
    """Return `PolytopeDistanceDual` of the data of an instance."""
    import qpsvm

    return qpsvm.PolytopeDistanceDual(gram_of(data, gram), data["y"], chi=data["chi"])


def hulls(points: tuple, chi: float | None = None, kernel: Kernel = LINEAR_KERNEL) -> Data:
    """Return the data of the distance of two hulls from points (X, y)."""
    X, y = points
    return {"X": X, "y": y, "chi": chi, "kernel": kernel}


def against(P: object, Q: object) -> tuple:
    """Return points (X, y) of the rows of P against the rows of Q."""
    P, Q = np.atleast_2d(P).astype(float), np.atleast_2d(Q).astype(float)
    return np.vstack([P, Q]), np.repeat([1.0, -1.0], [len(P), len(Q)])


def box(*lowest: float) -> np.ndarray:
    """Return the corners of the unit box with the given lowest corner."""
    return np.array(list(product([0.0, 1.0], repeat=len(lowest)))) + np.array(lowest)


def identity(positive: int, negative: int, chi: float | None) -> Data:
    """Return the data with K = I."""
    y = np.repeat([1.0, -1.0], [positive, negative])
    return {"K": np.eye(len(y)), "y": y, "chi": chi, "kernel": PRECOMPUTED_KERNEL}


def lifted(points: tuple, d: int, seed: int) -> tuple:
    """Return points (X, y) with X mapped linearly into d dimensions, its rank unchanged."""
    X, y = points
    return X @ cloud(X.shape[1], d, seed), y


INSTANCES = (
    # A closed form is known.
    instance(
        "polytope_distance/two-points",
        lambda: hulls(against([0, 0, 0], [1, 2, 2])),
        "closed-form",
        "One point per class, 3 apart.",
        exact=4.5,
    ),
    instance(
        "polytope_distance/two-points-chi",
        lambda: hulls(against([0, 0, 0], [1, 2, 2]), chi=2.0),
        "closed-form",
        "One point per class with chi: 9/2 + 1/chi.",
        exact=5.0,
    ),
    instance(
        "polytope_distance/boxes-face-to-face",
        lambda: hulls(against(box(0, 0, 0), box(3, 0, 0))),
        "closed-form degenerate",
        "Two boxes 2 apart, face to face: many closest pairs.",
        exact=2.0,
    ),
    instance(
        "polytope_distance/boxes-corner-to-corner",
        lambda: hulls(against(box(0, 0, 0), box(2, 2, 2))),
        "closed-form",
        "Two boxes, corner to corner.",
        exact=1.5,
    ),
    instance(
        "polytope_distance/boxes-touching",
        lambda: hulls(against(box(0, 0, 0), box(1, 0, 0))),
        "closed-form degenerate zero-optimum",
        "Two boxes that share a face.",
        exact=0.0,
    ),
    instance(
        "polytope_distance/boxes-overlapping",
        lambda: hulls(against(box(0, 0, 0), box(0.25, 0.5, 0.25))),
        "closed-form degenerate zero-optimum",
        "Two boxes that overlap.",
        exact=0.0,
    ),
    instance(
        "polytope_distance/boxes-offset-1e4",
        lambda: hulls(moved(against(box(0, 0, 0), box(3, 0, 0)), offset=1e4)),
        "closed-form degenerate",
        "The boxes face to face, moved by 1e4.",
        exact=2.0,
    ),
    instance(
        "polytope_distance/point-and-segment",
        lambda: hulls(against([0, 0], [[3, -4], [3, 4]])),
        "closed-form",
        "A point and a segment whose foot is its middle.",
        exact=4.5,
    ),
    instance(
        "polytope_distance/parallel-lines",
        lambda: hulls(against([[t, 0] for t in range(9)], [[t + 0.5, 1] for t in range(9)])),
        "closed-form degenerate",
        "Collinear points on two parallel lines.",
        exact=0.5,
    ),
    instance(
        "polytope_distance/identical",
        lambda: hulls(against(np.ones((6, 2)), np.ones((4, 2)))),
        "closed-form degenerate zero-optimum",
        "Both labels on one point.",
        exact=0.0,
    ),
    instance(
        "polytope_distance/identical-chi",
        lambda: hulls(against(np.ones((6, 2)), np.ones((4, 2))), chi=1.0),
        "closed-form degenerate",
        "Both labels on one point, only the ridge is left.",
        exact=0.5 * (1 / 6 + 1 / 4),
    ),
    instance(
        "polytope_distance/duplicates",
        lambda: hulls(against(np.tile([[0, 1], [0, -1]], (10, 1)), np.tile([[2, 0]], (15, 1)))),
        "closed-form degenerate",
        "Every point many times.",
        exact=2.0,
    ),
    instance(
        "polytope_distance/identity",
        lambda: identity(10, 40, None),
        "closed-form",
        "K = I: two simplices at right angles.",
        exact=0.5 * (1 / 10 + 1 / 40),
    ),
    instance(
        "polytope_distance/identity-chi",
        lambda: identity(10, 40, 4.0),
        "closed-form",
        "K = I with chi.",
        exact=0.625 * (1 / 10 + 1 / 40),
    ),
    instance(
        "polytope_distance/all-zero",
        lambda: hulls(against(np.zeros((5, 2)), np.zeros((5, 2)))),
        "closed-form degenerate zero-optimum",
        "Every entry of the Gram is 0.",
        exact=0.0,
    ),
    # Random.
    instance(
        "polytope_distance/random-separable",
        lambda: hulls(separable_clouds(200, 5, seed=301, gap=1.0)),
        "random",
        "A strip between two clouds.",
    ),
    instance(
        "polytope_distance/random-separable-narrow",
        lambda: hulls(separable_clouds(200, 5, seed=302, gap=0.05)),
        "random",
        "A narrow strip between two clouds.",
    ),
    instance(
        "polytope_distance/random-high-dimension",
        lambda: hulls((cloud(100, 200, seed=303), labels(100, seed=304))),
        "random",
        "More features than points: separable whatever the labels.",
    ),
    instance(
        "polytope_distance/random-rbf",
        lambda: hulls(two_clouds(200, 4, seed=305), None, rbf(0.5)),
        "random",
        "RBF separates overlapping clouds.",
    ),
    instance(
        "polytope_distance/random-laplacian",
        lambda: hulls(two_clouds(150, 4, seed=306), None, laplacian(0.3)),
        "random",
        "Laplacian kernel.",
    ),
    *(
        instance(
            f"polytope_distance/random-rbf-chi{name}",
            lambda chi=chi: hulls(two_clouds(200, 4, seed=307), chi, rbf(0.3)),
            "random",
            f"Overlapping clouds, RBF, chi = {name}.",
        )
        for name, chi in (("1e-2", 1e-2), ("1", 1.0), ("1e3", 1e3))
    ),
    instance(
        "polytope_distance/random-linear-chi10",
        lambda: hulls(two_clouds(200, 6, seed=308), 10.0),
        "random",
        "Overlapping clouds, linear, chi = 10.",
    ),
    instance(
        "polytope_distance/random-poly-chi10",
        lambda: hulls(two_clouds(150, 4, seed=309), 10.0, poly(2, 0.5, 1.0)),
        "random",
        "Quadratic polynomial kernel, chi = 10.",
    ),
    # Degenerate.
    instance(
        "polytope_distance/random-overlapping",
        lambda: hulls(two_clouds(150, 3, seed=310)),
        "random degenerate zero-optimum",
        "Overlapping clouds without chi.",
        exact=0.0,
    ),
    instance(
        "polytope_distance/random-rank-3",
        lambda: hulls(lifted(separable_clouds(200, 3, seed=311, gap=1.0), 12, seed=316)),
        "random degenerate",
        "Rank 3 in twelve dimensions.",
    ),
    instance(
        "polytope_distance/offset-1e4",
        lambda: hulls(moved(separable_clouds(150, 4, seed=312, gap=1.0), offset=1e4)),
        "random degenerate",
        "A strip between two clouds far from the origin.",
    ),
    instance(
        "polytope_distance/scale-1e-4",
        lambda: hulls(moved(separable_clouds(150, 4, seed=313, gap=1.0), scale=1e-4)),
        "random degenerate",
        "Data in units of 1e-4.",
    ),
    instance(
        "polytope_distance/scale-1e4",
        lambda: hulls(moved(separable_clouds(150, 4, seed=314, gap=1.0), scale=1e4)),
        "random degenerate",
        "Data in units of 1e4.",
    ),
    instance(
        "polytope_distance/one-against-all",
        lambda: hulls(
            (cloud(101, 4, seed=315) + 3.0, np.repeat([-1.0, 1.0], [1, 100])), 100.0, rbf(0.2)
        ),
        "random degenerate",
        "One point against a hundred.",
    ),
    # Real.
    instance(
        "polytope_distance/digits-linear",
        lambda: hulls(digits(limit=300)),
        "real",
        "Digits 3 against 8, linear: separable.",
    ),
    instance(
        "polytope_distance/digits-rbf",
        lambda: hulls(digits(limit=300), None, rbf("scale")),
        "real",
        "Digits 3 against 8, RBF.",
    ),
    instance(
        "polytope_distance/breast-cancer-chi1",
        lambda: hulls(breast_cancer(400), 1.0, rbf("scale")),
        "real",
        "Breast cancer, RBF, chi = 1.",
    ),
    instance(
        "polytope_distance/breast-cancer-linear-chi10",
        lambda: hulls(breast_cancer(300), 10.0),
        "real",
        "Breast cancer, linear, chi = 10.",
    ),
)
