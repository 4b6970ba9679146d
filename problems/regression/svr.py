"""Support vector regression with the epsilon-insensitive loss, with a free bias or without.

The declared problem (family "svr"), in the weights a and a* of the two sides of the tube:

    minimize  1/2 (a - a*)'K(a - a*) + eps sum(a + a*) - y'(a - a*)
    subject to  0 <= a, a* <= C,  sum(a - a*) = 0

Without bias the sum is free.
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
from problems.data.real import diabetes
from problems.instance import family, gram_of, instance

ONE_POINT = np.ones((1, 1))


@family("svr")
def declare(data: Data, gram: str) -> Any:
    """Return `SVRDual` of the data of an instance."""
    import qpsvm

    K = gram_of(data, gram)
    return qpsvm.SVRDual(K, data["y"], data["C"], data["epsilon"], bias=data["bias"])


def regression(
    points: tuple, C: object, epsilon: float, kernel: Kernel = LINEAR_KERNEL, bias: bool = True
) -> Data:
    """Return the data of a regression on points and values (X, y)."""
    X, y = points
    return {"X": X, "y": y, "C": C, "epsilon": epsilon, "kernel": kernel, "bias": bias}


def waves(m: int, d: int, seed: int, scale: float = 1.0, offset: float = 0.0) -> tuple:
    """Draw points, and values of a smooth function of them with noise."""
    X = cloud(m, d, seed)
    noise = np.random.default_rng(seed + 10_000).standard_normal(m)
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, -1] + 0.2 * noise
    return X, scale * y + offset


def duplicates(m: int, d: int, seed: int) -> tuple:
    """Return points each of which occurs three times, with three values."""
    X, y = waves(m, d, seed)
    return X[np.arange(m) % (m // 3)], y


def identity(m: int) -> Data:
    """Return the data of a regression with K = I and values +1 and -1 by turns."""
    data = {"K": np.eye(m), "y": np.tile([1.0, -1.0], m // 2), "C": 10.0}
    return data | {"epsilon": 0.1, "kernel": PRECOMPUTED_KERNEL, "bias": True}


def sparse_values(m: int, d: int, seed: int) -> tuple:
    """Return CSR points and values near a linear function of them."""
    X, y = sparse_clouds(m, d, seed)
    w = np.random.default_rng(seed + 1).standard_normal(d)
    return X, X @ w + 0.3 * y


INSTANCES = (
    # A closed form is known.
    instance(
        "svr/two-points",
        lambda: regression(([[1.0], [-1.0]], [1.0, -1.0]), 10.0, 0.1),
        "closed-form",
        "The line through (1, 0.9) and (-1, -0.9).",
        exact=-0.405,
    ),
    instance(
        "svr/two-points-small-C",
        lambda: regression(([[1.0], [-1.0]], [1.0, -1.0]), 0.1, 0.1),
        "closed-form",
        "Both points outside of the tube: w = 0.2.",
        exact=-0.16,
    ),
    instance(
        "svr/one-point",
        lambda: regression((ONE_POINT, [7.0]), 1.0, 0.1),
        "closed-form degenerate zero-optimum",
        "A single point: the bias is its value.",
        exact=0.0,
    ),
    instance(
        "svr/no-bias-one-point",
        lambda: regression((2.0 * ONE_POINT, [1.0]), 10.0, 0.1, bias=False),
        "closed-form",
        "A single point without bias: w = 0.45.",
        exact=-0.10125,
    ),
    instance(
        "svr/constant",
        lambda: regression((cloud(30, 3, seed=900), np.full(30, 5.0)), 1.0, 0.1, rbf(0.5)),
        "closed-form degenerate zero-optimum",
        "All values equal.",
        exact=0.0,
    ),
    instance(
        "svr/wide-tube",
        lambda: regression((cloud(30, 3, seed=901), np.linspace(-1, 3, 30)), 1.0, 2.0, rbf(0.5)),
        "closed-form degenerate zero-optimum",
        "eps is half the range of the values.",
        exact=0.0,
    ),
    instance(
        "svr/wider-tube-linear",
        lambda: regression((cloud(30, 3, seed=902), np.linspace(-1, 3, 30)), 1.0, 2.5),
        "closed-form degenerate zero-optimum",
        "eps is more than half the range of the values.",
        exact=0.0,
    ),
    instance(
        "svr/identity",
        lambda: identity(40),
        "closed-form",
        "K = I: all weights 0.9.",
        exact=-16.2,
    ),
    instance(
        "svr/two-values-on-one-point",
        lambda: regression((np.ones((20, 2)), np.repeat([1.0, -1.0], [5, 15])), 2.0, 0.1, rbf(1.0)),
        "closed-form degenerate",
        "Copies of one point: the smaller class pays 1.8 C each.",
        exact=-18.0,
    ),
    # Random, several penalties and tubes.
    *(
        instance(
            f"svr/random-rbf-C{name}",
            lambda C=C: regression(waves(120, 4, seed=903), C, 0.1, rbf(0.3)),
            "random",
            f"A smooth function with noise, RBF, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("10", 10.0), ("1e2", 1e2), ("1e4", 1e4))
    ),
    *(
        instance(
            f"svr/random-rbf-eps{epsilon:g}",
            lambda epsilon=epsilon: regression(waves(120, 4, seed=904), 5.0, epsilon, rbf(0.3)),
            "random",
            f"The same, eps = {epsilon:g}.",
        )
        for epsilon in (0.0, 1e-3, 1.0)
    ),
    *(
        instance(
            f"svr/random-linear-C{name}",
            lambda C=C: regression(waves(120, 5, seed=905), C, 0.1),
            "random",
            f"Linear, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("100", 100.0))
    ),
    instance(
        "svr/random-poly",
        lambda: regression(waves(120, 4, seed=906), 1.0, 0.1, poly(3, 0.3, 1.0)),
        "random",
        "Cubic kernel.",
    ),
    instance(
        "svr/random-laplacian",
        lambda: regression(waves(120, 4, seed=907), 1.0, 0.1, laplacian(0.3)),
        "random",
        "Laplacian kernel.",
    ),
    instance(
        "svr/random-weighted",
        lambda: regression(waves(120, 4, seed=908), weights(120, seed=909), 0.1, rbf(0.3)),
        "random weighted",
        "Penalties from 0.01 to 100 and every fifth point left out.",
    ),
    instance(
        "svr/random-weighted-linear",
        lambda: regression(waves(120, 4, seed=910), weights(120, seed=911), 0.1),
        "random weighted",
        "The same, linear.",
    ),
    instance(
        "svr/random-sparse",
        lambda: regression(sparse_values(120, 30, seed=912), 1.0, 0.1),
        "random sparse",
        "CSR points, linear.",
    ),
    instance(
        "svr/random-duplicates",
        lambda: regression(duplicates(120, 4, seed=913), 1.0, 0.1, rbf(0.3)),
        "random degenerate",
        "Every point three times, with different values.",
    ),
    # Sizes of values.
    *(
        instance(
            f"svr/values-{name}",
            lambda s=s, C=C: regression(waves(100, 4, seed=914, scale=s), C, 0.1 * s, rbf(0.3)),
            "random degenerate",
            f"Values in units of {name}.",
        )
        for name, s, C in (("1e-8", 1e-8, 1e-8), ("1e8", 1e8, 1e8))
    ),
    instance(
        "svr/values-far",
        lambda: regression(waves(100, 4, seed=915, offset=1e6), 1.0, 0.1, rbf(0.3)),
        "random degenerate",
        "Values far from zero, which the bias takes.",
    ),
    instance(
        "svr/points-far-linear",
        lambda: regression((1e4 + cloud(100, 4, seed=916), waves(100, 4, seed=916)[1]), 1.0, 0.1),
        "random degenerate",
        "Points far from zero, linear.",
    ),
    # Without bias.
    instance(
        "svr/no-bias-rbf",
        lambda: regression(waves(120, 4, seed=917), 10.0, 0.1, rbf(0.3), bias=False),
        "random",
        "No bias, RBF.",
    ),
    instance(
        "svr/no-bias-linear",
        lambda: regression(waves(120, 4, seed=918), 1.0, 0.1, bias=False),
        "random",
        "No bias, linear.",
    ),
    instance(
        "svr/no-bias-weighted",
        lambda: regression(waves(120, 4, seed=919), weights(120, 920), 0.1, rbf(0.3), bias=False),
        "random weighted",
        "No bias, penalties from 0.01 to 100 and every fifth point left out.",
    ),
    # Real.
    instance(
        "svr/diabetes-rbf",
        lambda: regression(diabetes(200), 1.0, 0.1, rbf("scale")),
        "real",
        "Diabetes, RBF.",
    ),
    instance(
        "svr/diabetes-linear",
        lambda: regression(diabetes(200), 1.0, 0.1),
        "real",
        "Diabetes, linear.",
    ),
)
