"""Least-squares machines.

    minimize  1/2 |w|^2 + sum C_i (1 - y_i (x_i'w + b))^2

Without bias b = 0. With a kernel w = sum c_j phi(x_j), and c is the variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.clouds import cloud, labels, moved, sparse_clouds, two_clouds, weights
from problems.data.kernels import Data, rbf
from problems.data.real import breast_cancer
from problems.instance import family, instance
from problems.lp_svm import doubled, machine, points_or_gram, with_zero_column


@family("ls_svm", primal=True)
def declare(data: Data, gram: str) -> Any:
    """Return `LSSVMPrimal` of the data of an instance."""
    import qpsvm

    return qpsvm.LSSVMPrimal(points_or_gram(data), data["y"], C=data["C"], bias=data["bias"])


INSTANCES = (
    instance(
        "ls_svm/two-points",
        lambda: machine(([[1.0], [-1.0]], [1.0, -1.0]), 1.0),
        "closed-form",
        "Points 1 and -1: w = 4C / (1 + 4C), value 2C / (1 + 4C).",
        exact=0.4,
    ),
    instance(
        "ls_svm/no-bias-one-point",
        lambda: machine(([[2.0]], [1.0]), 0.5, bias=False),
        "closed-form",
        "One point at 2: w = 4C / (1 + 8C), value C / (1 + 8C).",
        exact=0.1,
    ),
    instance(
        "ls_svm/one-class",
        lambda: machine((cloud(20, 3, seed=601), np.ones(20)), 1.0),
        "closed-form degenerate zero-optimum",
        "One label only: w = 0, b = 1.",
        exact=0.0,
    ),
    instance(
        "ls_svm/all-zero",
        lambda: machine((np.zeros((8, 2)), np.repeat([1.0, -1.0], [2, 6])), 1.0),
        "closed-form degenerate",
        "All points at the origin: b is the mean label -1/2.",
        exact=6.0,
    ),
    *(
        instance(
            f"ls_svm/random-C{name}",
            lambda C=C: machine(two_clouds(150, 6, seed=602), C),
            "random",
            f"Overlapping clouds, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("1e3", 1e3))
    ),
    instance(
        "ls_svm/no-bias-random",
        lambda: machine(two_clouds(150, 6, seed=603), 1.0, bias=False),
        "random",
        "Overlapping clouds without bias.",
    ),
    instance(
        "ls_svm/random-high-dimension",
        lambda: machine((cloud(60, 150, seed=605), labels(60, seed=606)), 1.0),
        "random",
        "More features than points.",
    ),
    instance(
        "ls_svm/random-sparse",
        lambda: machine(sparse_clouds(150, 30, seed=607), 1.0),
        "random sparse",
        "CSR points.",
    ),
    instance(
        "ls_svm/no-bias-sparse",
        lambda: machine(sparse_clouds(150, 30, seed=608), 1.0, bias=False),
        "random sparse",
        "CSR points without bias.",
    ),
    instance(
        "ls_svm/random-weighted",
        lambda: machine(two_clouds(150, 4, seed=609), weights(150, seed=610)),
        "random weighted",
        "Penalties from 0.01 to 100 and every fifth point left out.",
    ),
    instance(
        "ls_svm/random-unbalanced",
        lambda: machine(two_clouds(200, 4, seed=611, positive=0.03), 10.0),
        "random",
        "Six points against 194.",
    ),
    instance(
        "ls_svm/random-rbf",
        lambda: machine(two_clouds(150, 4, seed=612), 1.0, kernel=rbf(0.3)),
        "random",
        "RBF kernel, in the coefficients.",
    ),
    instance(
        "ls_svm/no-bias-rbf",
        lambda: machine(two_clouds(150, 4, seed=613), 10.0, bias=False, kernel=rbf(0.3)),
        "random",
        "RBF kernel without bias.",
    ),
    instance(
        "ls_svm/zero-column",
        lambda: machine(with_zero_column(two_clouds(100, 4, seed=614)), 1.0),
        "random degenerate",
        "A feature that is always 0.",
    ),
    instance(
        "ls_svm/duplicates",
        lambda: machine(doubled(two_clouds(60, 4, seed=615)), 1.0),
        "random degenerate",
        "Every point twice, a third of them with both labels.",
    ),
    instance(
        "ls_svm/offset-1e3",
        lambda: machine(moved(two_clouds(100, 4, seed=616), offset=1e3), 1.0),
        "random degenerate",
        "Points far from the origin: the bias follows.",
    ),
    instance(
        "ls_svm/breast-cancer", lambda: machine(breast_cancer(), 1.0), "real", "Breast cancer."
    ),
)
