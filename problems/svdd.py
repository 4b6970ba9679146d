"""Balls with slack: support vector data description.

The declared problem:

    minimize  a'Ka - diag(K)'a    subject to  0 <= a_i <= C_i,  sum a = 1

Its value is minus that of: radius^2 plus C_i times the excess of each squared distance over it.
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


@family("svdd")
def declare(data: Data, gram: str) -> Any:
    """Return `SVDDDual` of the data of an instance."""
    import qpsvm

    return qpsvm.SVDDDual(gram_of(data, gram), C=data["C"])


def ball(X: object, C: object, kernel: Kernel = LINEAR_KERNEL) -> Data:
    """Return the data of the ball around most of the rows of X."""
    return {"X": X, "C": C, "kernel": kernel}


INSTANCES = (
    # A closed form is known.
    instance(
        "svdd/one-point",
        lambda: ball([[1.0, 2.0, 3.0]], 1.0),
        "closed-form degenerate zero-optimum",
        "One point: the radius is 0.",
        exact=0.0,
    ),
    instance(
        "svdd/line",
        lambda: ball(np.arange(11.0)[:, None], 0.3),
        "closed-form",
        "Weights 0.3 on both ends and 0.2 beside them: 25 at the ends, 16 beside.",
        exact=-(0.6 * 25.0 + 0.4 * 16.0),
    ),
    instance(
        "svdd/line-all-at-bounds",
        lambda: ball(np.arange(11.0)[:, None], 0.25),
        "closed-form degenerate",
        "Four weights at their bounds and none free: an interval of best radii.",
        exact=-20.5,
    ),
    instance(
        "svdd/least-C",
        lambda: ball([[-1.0], [0.0], [1.0]], 1.0 / 3.0),
        "closed-form degenerate",
        "C = 1/m: a single feasible point, the mean; the value is minus the variance.",
        exact=-2.0 / 3.0,
    ),
    instance(
        "svdd/no-slack",
        lambda: ball([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0], [1.5, 2.0, 1.0]], np.inf),
        "closed-form",
        "No point may lie outside: radius 2.5.",
        exact=-6.25,
    ),
    instance(
        "svdd/identity",
        lambda: {"K": np.eye(50), "C": 0.05, "kernel": PRECOMPUTED_KERNEL},
        "closed-form",
        "K = I: equal weights.",
        exact=-0.98,
    ),
    instance(
        "svdd/identical",
        lambda: ball(np.full((20, 4), 0.3), 0.1),
        "closed-form degenerate zero-optimum",
        "Twenty duplicates of one point.",
        exact=0.0,
    ),
    instance(
        "svdd/all-zero",
        lambda: ball(np.zeros((10, 3)), 0.2),
        "closed-form degenerate zero-optimum",
        "Every entry of the Gram is 0.",
        exact=0.0,
    ),
    # Random.
    *(
        instance(
            f"svdd/random-linear-C{C}",
            lambda C=C: ball(cloud(200, 5, seed=521), C),
            "random",
            f"A cloud, linear, C = {C}.",
        )
        for C in (0.007, 0.05, 0.5)
    ),
    instance(
        "svdd/random-rbf",
        lambda: ball(cloud(200, 4, seed=522), 0.03, rbf(0.3)),
        "random",
        "A cloud, RBF.",
    ),
    instance(
        "svdd/random-rank-2",
        lambda: ball(cloud(150, 12, seed=523, rank=2), 0.03),
        "random degenerate",
        "Rank 2 in twelve dimensions.",
    ),
    instance(
        "svdd/random-duplicates",
        lambda: ball(np.repeat(cloud(15, 3, seed=524), 10, axis=0), 0.04),
        "random degenerate",
        "Every point ten times.",
    ),
    instance(
        "svdd/random-weighted",
        lambda: ball(cloud(150, 4, seed=525), 0.01 * weights(150, seed=526), rbf(0.3)),
        "random weighted",
        "Penalties from 0.0001 to 1 and every fifth point left out.",
    ),
    instance(
        "svdd/random-sparse",
        lambda: ball(sparse_clouds(150, 30, seed=527)[0], 0.03),
        "random sparse",
        "CSR points.",
    ),
    instance(
        "svdd/random-poly",
        lambda: ball(cloud(120, 4, seed=528), 0.05, poly(3, 0.25, 1.0)),
        "random",
        "Cubic polynomial: the diagonal of K varies much.",
    ),
    instance(
        "svdd/random-laplacian",
        lambda: ball(cloud(120, 4, seed=529), 0.05, laplacian(0.3)),
        "random",
        "Laplacian kernel.",
    ),
    instance(
        "svdd/offset-1e4",
        lambda: ball(1e4 + cloud(100, 4, seed=530), 0.05),
        "random degenerate",
        "Points far from the origin.",
    ),
    # Real.
    instance(
        "svdd/digits-linear",
        lambda: ball(digits(limit=300)[0], 0.03),
        "real",
        "Digits 3 and 8.",
    ),
    instance(
        "svdd/breast-cancer-rbf",
        lambda: ball(breast_cancer(300)[0], 0.01, rbf("scale")),
        "real",
        "Breast cancer, RBF.",
    ),
)
