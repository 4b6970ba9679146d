"""Support vector regression with the squared epsilon-insensitive loss and a penalised bias, or without.

The declared problem (family "l2_svr"), in the weights a and a* of the two sides of the tube:

    minimize  1/2 (a - a*)'(K + 1)(a - a*) + 1/2 sum (a^2 + a*^2) / C + eps sum(a + a*) - y'(a - a*)
    subject to  a, a* >= 0

Without bias the 1 is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.clouds import cloud, weights
from problems.data.kernels import (
    LINEAR_KERNEL,
    PRECOMPUTED_KERNEL,
    Data,
    laplacian,
    poly,
    rbf,
)
from problems.data.real import diabetes
from problems.instance import family, gram_of, instance
from problems.regression.svr import duplicates, regression, sparse_values, waves


@family("l2_svr")
def declare(data: Data, gram: str) -> Any:
    """Return `L2SVRDual` of the data of an instance."""
    import qpsvm

    K = gram_of(data, gram)
    return qpsvm.L2SVRDual(K, data["y"], data["C"], data["epsilon"], bias=data["bias"])


def identity(m: int) -> Data:
    """Return the data of a regression with K = I and values +1 and -1 by turns."""
    data = {"K": np.eye(m), "y": np.tile([1.0, -1.0], m // 2), "C": 10.0}
    return data | {"epsilon": 0.1, "kernel": PRECOMPUTED_KERNEL, "bias": True}


INSTANCES = (
    # A closed form is known.
    instance(
        "l2_svr/no-bias-one-point",
        lambda: regression(([[2.0]], [1.0]), 10.0, 0.1, bias=False),
        "closed-form",
        "A single point without bias: 1/2 0.9^2 / (4 + 1/C).",
        exact=-0.405 / 4.1,
    ),
    instance(
        "l2_svr/two-points",
        lambda: regression(([[1.0], [-1.0]], [1.0, -1.0]), 10.0, 0.1),
        "closed-form",
        "b = 0, and w pays for both points.",
        exact=-0.405 / (1.0 + 0.05),
    ),
    instance(
        "l2_svr/identity",
        lambda: identity(40),
        "closed-form",
        "K = I: all weights 0.9 / 1.1.",
        exact=-16.2 / 1.1,
    ),
    instance(
        "l2_svr/one-point-many-times",
        lambda: regression((np.ones((20, 2)), np.ones(20)), 0.5, 0.1, rbf(1.0)),
        "closed-form degenerate",
        "Copies of one point count as their sum of penalties, 10.",
        exact=-0.405 / 2.1,
    ),
    instance(
        "l2_svr/wide-tube",
        lambda: regression((cloud(30, 3, seed=940), np.linspace(-1, 2, 30)), 1.0, 2.0, rbf(0.5)),
        "closed-form degenerate zero-optimum",
        "The tube around 0 holds all values, one of them on its edge.",
        exact=0.0,
    ),
    instance(
        "l2_svr/zero",
        lambda: regression((cloud(30, 3, seed=941), np.zeros(30)), 1.0, 0.0),
        "closed-form degenerate zero-optimum",
        "All values 0, no tube.",
        exact=0.0,
    ),
    # Random, several penalties and tubes.
    *(
        instance(
            f"l2_svr/random-rbf-C{name}",
            lambda C=C: regression(waves(120, 4, seed=942), C, 0.1, rbf(0.3)),
            "random",
            f"A smooth function with noise, RBF, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("10", 10.0), ("1e2", 1e2))
    ),
    *(
        instance(
            f"l2_svr/random-rbf-eps{epsilon:g}",
            lambda epsilon=epsilon: regression(waves(120, 4, seed=943), 5.0, epsilon, rbf(0.3)),
            "random",
            f"The same, eps = {epsilon:g}.",
        )
        for epsilon in (0.0, 1e-3, 1.0)
    ),
    *(
        instance(
            f"l2_svr/random-linear-C{name}",
            lambda C=C: regression(waves(120, 5, seed=944), C, 0.1),
            "random" if C < 10.0 else "random ill-conditioned",
            f"Linear, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("1e4", 1e4))
    ),
    instance(
        "l2_svr/random-poly",
        lambda: regression(waves(120, 4, seed=945), 1.0, 0.1, poly(3, 0.3, 1.0)),
        "random",
        "Cubic kernel.",
    ),
    instance(
        "l2_svr/random-laplacian",
        lambda: regression(waves(120, 4, seed=946), 1.0, 0.1, laplacian(0.3)),
        "random",
        "Laplacian kernel.",
    ),
    instance(
        "l2_svr/random-weighted",
        lambda: regression(waves(120, 4, seed=947), weights(120, seed=948), 0.1, rbf(0.3)),
        "random weighted",
        "Penalties from 0.01 to 100 and every fifth point left out.",
    ),
    instance(
        "l2_svr/random-weighted-linear",
        lambda: regression(waves(120, 4, seed=949), weights(120, seed=950), 0.1),
        "random weighted",
        "The same, linear.",
    ),
    instance(
        "l2_svr/random-sparse",
        lambda: regression(sparse_values(120, 30, seed=951), 1.0, 0.1),
        "random sparse",
        "CSR points, linear.",
    ),
    instance(
        "l2_svr/random-duplicates",
        lambda: regression(duplicates(120, 4, seed=952), 1.0, 0.1, rbf(0.3)),
        "random degenerate",
        "Every point three times, with different values.",
    ),
    # Sizes of values and points.
    *(
        instance(
            f"l2_svr/values-{name}",
            lambda s=s: regression(waves(100, 4, seed=953, scale=s), 1.0, 0.1 * s, rbf(0.3)),
            "random degenerate",
            f"Values in units of {name}.",
        )
        for name, s in (("1e-8", 1e-8), ("1e8", 1e8))
    ),
    instance(
        "l2_svr/points-far-linear",
        lambda: regression((100.0 + cloud(100, 4, seed=954), waves(100, 4, seed=954)[1]), 1.0, 0.1),
        "random degenerate ill-conditioned",
        "Points far from zero, linear.",
    ),
    # Without bias.
    instance(
        "l2_svr/no-bias-rbf",
        lambda: regression(waves(120, 4, seed=955), 10.0, 0.1, rbf(0.3), bias=False),
        "random",
        "No bias, RBF.",
    ),
    instance(
        "l2_svr/no-bias-linear",
        lambda: regression(waves(120, 4, seed=956), 1.0, 0.1, LINEAR_KERNEL, bias=False),
        "random",
        "No bias, linear.",
    ),
    instance(
        "l2_svr/no-bias-sparse",
        lambda: regression(sparse_values(60, 90, seed=957), 1.0, 0.1, bias=False),
        "random sparse",
        "No bias, CSR points with more features than points.",
    ),
    # Real.
    instance(
        "l2_svr/diabetes-rbf",
        lambda: regression(diabetes(200), 1.0, 0.1, rbf("scale")),
        "real",
        "Diabetes, RBF.",
    ),
    instance(
        "l2_svr/diabetes-linear",
        lambda: regression(diabetes(200), 1.0, 0.1),
        "real",
        "Diabetes, linear.",
    ),
)
