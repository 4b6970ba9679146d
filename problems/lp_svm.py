"""Linear-programming machines: the L1 norm of w and the hinge loss.

    minimize  |w|_1 + sum C_i max(0, 1 - y_i (x_i'w + b))

Without bias b = 0. With a kernel the rows of K are the points, and w holds coefficients of an expansion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.clouds import (
    cloud,
    labels,
    moved,
    separable_clouds,
    sparse_clouds,
    two_clouds,
    weights,
)
from problems.data.kernels import LINEAR_KERNEL, Data, Kernel, rbf, sigmoid
from problems.data.real import breast_cancer
from problems.instance import family, gram_on_demand, instance


def points_or_gram(data: Data) -> Any:
    """Return the points for a linear kernel, or the Gram on them."""
    return data["X"] if data["kernel"] == LINEAR_KERNEL else gram_on_demand(data)


@family("lp_svm", primal=True)
def declare(data: Data, gram: str) -> Any:
    """Return `LPSVMPrimal` of the data of an instance."""
    import qpsvm

    return qpsvm.LPSVMPrimal(points_or_gram(data), data["y"], C=data["C"], bias=data["bias"])


def machine(points: tuple, C: object, bias: bool = True, kernel: Kernel = LINEAR_KERNEL) -> Data:
    """Return the data of a machine on points (X, y)."""
    X, y = points
    return {"X": X, "y": y, "C": C, "kernel": kernel, "bias": bias}


def with_zero_column(points: tuple) -> tuple:
    """Return the points with a feature that is always 0."""
    X, y = points
    return np.insert(X, 1, 0.0, axis=1), y


def doubled(points: tuple) -> tuple:
    """Return every point twice, a third of the duplicates with the other label."""
    X, y = points
    return np.vstack([X, X]), np.concatenate([y, np.where(np.arange(len(y)) % 3, y, -y)])


INSTANCES = (
    instance(
        "lp_svm/two-points",
        lambda: machine(([[1.0], [-1.0]], [1.0, -1.0]), 10.0),
        "closed-form",
        "Points 1 and -1: w = 1, no slack.",
        exact=1.0,
    ),
    instance(
        "lp_svm/two-points-small-C",
        lambda: machine(([[1.0], [-1.0]], [1.0, -1.0]), 0.1),
        "closed-form",
        "Points 1 and -1: w = 0 is best, and both pay C.",
        exact=0.2,
    ),
    instance(
        "lp_svm/no-bias-two-points",
        lambda: machine(([[1.0], [-2.0]], [1.0, -1.0]), 10.0, bias=False),
        "closed-form",
        "Points 1 and -2: w = 1.",
        exact=1.0,
    ),
    instance(
        "lp_svm/one-class",
        lambda: machine((cloud(20, 3, seed=501), np.ones(20)), 1.0),
        "closed-form degenerate zero-optimum",
        "One label only: w = 0, b = 1.",
        exact=0.0,
    ),
    instance(
        "lp_svm/all-zero",
        lambda: machine((np.zeros((8, 2)), np.repeat([1.0, -1.0], 4)), 1.0),
        "closed-form degenerate",
        "All points at the origin: one class pays 2 C each.",
        exact=8.0,
    ),
    *(
        instance(
            f"lp_svm/random-C{name}",
            lambda C=C: machine(two_clouds(150, 6, seed=502), C),
            "random",
            f"Overlapping clouds, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("100", 100.0))
    ),
    instance(
        "lp_svm/no-bias-random",
        lambda: machine(two_clouds(150, 6, seed=503), 1.0, bias=False),
        "random",
        "Overlapping clouds without bias.",
    ),
    instance(
        "lp_svm/separable",
        lambda: machine(separable_clouds(120, 4, seed=504, gap=1.0), 10.0),
        "random",
        "A strip between two clouds.",
    ),
    instance(
        "lp_svm/random-high-dimension",
        lambda: machine((cloud(60, 150, seed=505), labels(60, seed=506)), 1.0),
        "random",
        "More features than points, few of which w uses.",
    ),
    instance(
        "lp_svm/random-sparse",
        lambda: machine(sparse_clouds(150, 30, seed=507), 1.0),
        "random sparse",
        "CSR points.",
    ),
    instance(
        "lp_svm/no-bias-sparse",
        lambda: machine(sparse_clouds(150, 30, seed=508), 1.0, bias=False),
        "random sparse",
        "CSR points without bias.",
    ),
    instance(
        "lp_svm/random-weighted",
        lambda: machine(two_clouds(150, 4, seed=509), weights(150, seed=510)),
        "random weighted",
        "Penalties from 0.01 to 100 and every fifth point left out.",
    ),
    instance(
        "lp_svm/random-unbalanced",
        lambda: machine(two_clouds(200, 4, seed=511, positive=0.03), 10.0),
        "random",
        "Six points against 194.",
    ),
    instance(
        "lp_svm/random-rbf",
        lambda: machine(two_clouds(120, 4, seed=515), 1.0, kernel=rbf(0.3)),
        "random",
        "RBF kernel: the l1 norm of the coefficients.",
    ),
    instance(
        "lp_svm/no-bias-rbf-weighted",
        lambda: machine(
            two_clouds(120, 4, seed=516), weights(120, seed=517), bias=False, kernel=rbf(0.3)
        ),
        "random weighted",
        "RBF kernel without bias; points that are left out have no coefficient.",
    ),
    instance(
        "lp_svm/random-sigmoid",
        lambda: machine(two_clouds(100, 4, seed=518), 1.0, kernel=sigmoid(0.1, 0.5)),
        "random",
        "A kernel that is not positive semidefinite: the program is linear all the same.",
    ),
    instance(
        "lp_svm/zero-column",
        lambda: machine(with_zero_column(two_clouds(100, 4, seed=512)), 1.0),
        "random degenerate",
        "A feature that is always 0.",
    ),
    instance(
        "lp_svm/duplicates",
        lambda: machine(doubled(two_clouds(60, 4, seed=513)), 1.0),
        "random degenerate",
        "Every point twice, a third of them with both labels.",
    ),
    instance(
        "lp_svm/offset-1e3",
        lambda: machine(moved(two_clouds(100, 4, seed=514), offset=1e3), 1.0),
        "random degenerate",
        "Points far from the origin: the bias follows.",
    ),
    instance(
        "lp_svm/breast-cancer", lambda: machine(breast_cancer(), 1.0), "real", "Breast cancer."
    ),
)
