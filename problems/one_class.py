"""One-class machines: a hyperplane between the points and the origin.

The declared problem, with the bounds u_i = w_i / (nu sum w), for equal weights 1 / (nu m):

    minimize  1/2 a'Ka    subject to  0 <= a_i <= u_i,  sum a = 1
"""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.clouds import cloud, sparse_clouds, weights
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


@family("one_class")
def declare(data: Data, gram: str) -> Any:
    """Return `OneClassDual` of the data of an instance."""
    import qpsvm

    weight = data.get("sample_weight")
    return qpsvm.OneClassDual(gram_of(data, gram), data["nu"], sample_weight=weight)


def machine(X: object, nu: float, kernel: Kernel = LINEAR_KERNEL, weight: object = None) -> Data:
    """Return the data of a machine on the rows of X."""
    found: Data = {"X": X, "nu": nu, "kernel": kernel}
    return found if weight is None else {**found, "sample_weight": weight}


def ruler(count: int) -> np.ndarray:
    """Return the points 1, 2, ..., of one feature."""
    return np.arange(1.0, count + 1.0)[:, None]


INSTANCES = (
    # A closed form is known.
    instance(
        "one_class/one-point",
        lambda: machine([[3.0, 4.0]], 0.5),
        "closed-form degenerate",
        "One point, all the weight on it: half its squared norm.",
        exact=12.5,
    ),
    instance(
        "one_class/ruler",
        lambda: machine(ruler(10), 0.25),
        "closed-form",
        "The bounds 0.4 are filled from the origin on: w = 0.4 + 0.8 + 0.6.",
        exact=1.62,
    ),
    instance(
        "one_class/ruler-all-at-bounds",
        lambda: machine(ruler(10), 0.3),
        "closed-form degenerate",
        "nu m = 3: three weights at their bounds, none free, and an interval of best rho.",
        exact=2.0,
    ),
    instance(
        "one_class/ruler-tiny-nu",
        lambda: machine(ruler(10), 1e-9),
        "closed-form",
        "No bound can be reached: the point next to the origin.",
        exact=0.5,
    ),
    instance(
        "one_class/nu-1",
        lambda: machine([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], 1.0),
        "closed-form degenerate",
        "nu = 1: a single feasible point, the mean.",
        exact=4.0 / 9.0,
    ),
    instance(
        "one_class/identity",
        lambda: {"K": np.eye(40), "nu": 0.3, "kernel": PRECOMPUTED_KERNEL},
        "closed-form",
        "K = I: equal weights.",
        exact=1.0 / 80.0,
    ),
    instance(
        "one_class/identical",
        lambda: machine(np.full((20, 4), 0.5), 0.3),
        "closed-form degenerate",
        "Twenty duplicates of one point.",
        exact=0.5,
    ),
    instance(
        "one_class/all-zero",
        lambda: machine(np.zeros((10, 3)), 0.5),
        "closed-form degenerate zero-optimum",
        "Every entry of the Gram is 0.",
        exact=0.0,
    ),
    instance(
        "one_class/origin-inside",
        lambda: machine(np.vstack([np.eye(3), -np.eye(3)]), 0.5),
        "closed-form degenerate zero-optimum",
        "The origin is the middle of the points: nothing separates it.",
        exact=0.0,
    ),
    # Random.
    *(
        instance(
            f"one_class/random-rbf-nu{nu}",
            lambda nu=nu: machine(cloud(200, 4, seed=501), nu, rbf(0.3)),
            "random",
            f"A cloud, RBF, nu = {nu}.",
        )
        for nu in (0.01, 0.1, 0.5, 0.933)
    ),
    instance(
        "one_class/random-linear",
        lambda: machine(cloud(150, 5, seed=502) + 1.0, 0.2),
        "random",
        "A cloud beside the origin.",
    ),
    instance(
        "one_class/random-high-dimension",
        lambda: machine(cloud(60, 150, seed=503), 0.5),
        "random",
        "More features than points.",
    ),
    instance(
        "one_class/random-rbf-duplicates",
        lambda: machine(np.repeat(cloud(15, 3, seed=504), 10, axis=0), 0.25, rbf(0.5)),
        "random degenerate",
        "Every point ten times.",
    ),
    instance(
        "one_class/random-weighted",
        lambda: machine(cloud(150, 4, seed=505), 0.2, rbf(0.3), weights(150, seed=506)),
        "random weighted",
        "Weights from 0.01 to 100 and every fifth point left out.",
    ),
    instance(
        "one_class/random-sparse",
        lambda: machine(sparse_clouds(150, 30, seed=507)[0], 0.3, rbf("scale")),
        "random sparse",
        "CSR points.",
    ),
    instance(
        "one_class/random-float32",
        lambda: machine(cloud(150, 4, seed=508).astype(np.float32), 0.3, rbf(0.2)),
        "random",
        "Points in single precision.",
    ),
    instance(
        "one_class/random-poly",
        lambda: machine(cloud(120, 4, seed=509), 0.2, poly(2, 0.5, 1.0)),
        "random",
        "Quadratic polynomial kernel.",
    ),
    instance(
        "one_class/random-laplacian",
        lambda: machine(cloud(120, 4, seed=510), 0.2, laplacian(0.2)),
        "random",
        "Laplacian kernel.",
    ),
    # Real.
    instance(
        "one_class/digits-rbf",
        lambda: machine(digits(limit=300)[0], 0.1, rbf("scale")),
        "real",
        "Digits 3 and 8.",
    ),
    instance(
        "one_class/breast-cancer-rbf",
        lambda: machine(breast_cancer(300)[0], 0.37, rbf("scale")),
        "real",
        "Breast cancer; 0.37 is the share of malignant ones in the whole set.",
    ),
)
