"""Support vector regression whose tube has a free width, with the parameter nu.

The declared problem (family "nu_svr"), in the weights a and a* of the two sides of the tube:

    minimize  1/2 (a - a*)'K(a - a*) - y'(a - a*)
    subject to  0 <= a, a* <= C,  sum a = sum a* = nu / 2 sum C
"""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.clouds import cloud, weights
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
from problems.regression.svr import duplicates, sparse_values, waves


@family("nu_svr")
def declare(data: Data, gram: str) -> Any:
    """Return `NuSVRDual` of the data of an instance."""
    import qpsvm

    return qpsvm.NuSVRDual(gram_of(data, gram), data["y"], data["C"], data["nu"])


def regression(points: tuple, C: object, nu: float, kernel: Kernel = LINEAR_KERNEL) -> Data:
    """Return the data of a regression on points and values (X, y)."""
    X, y = points
    return {"X": X, "y": y, "C": C, "nu": nu, "kernel": kernel}


def identity(m: int, nu: float) -> Data:
    """Return the data of a regression with K = I, C = 10 and values +1 and -1 by turns."""
    y = np.tile([1.0, -1.0], m // 2)
    return {"K": np.eye(m), "y": y, "C": 10.0, "nu": nu, "kernel": PRECOMPUTED_KERNEL}


def two_values(nu: float) -> Data:
    """Return the data of five values +1 and fifteen -1 on one point, C = 2."""
    points = np.ones((20, 2)), np.repeat([1.0, -1.0], [5, 15])
    return regression(points, 2.0, nu, rbf(1.0))


INSTANCES = (
    # A closed form is known.
    instance(
        "nu_svr/two-points",
        lambda: regression(([[1.0], [-1.0]], [1.0, -1.0]), 10.0, 0.5),
        "closed-form",
        "The line through both points, eps = 0.",
        exact=-0.5,
    ),
    instance(
        "nu_svr/two-points-small-C",
        lambda: regression(([[1.0], [-1.0]], [1.0, -1.0]), 0.1, 0.5),
        "closed-form",
        "w = 0.1, and both points on the tube with eps = 0.9.",
        exact=-0.095,
    ),
    instance(
        "nu_svr/one-point",
        lambda: regression((np.ones((1, 1)), [7.0]), 1.0, 0.5),
        "closed-form degenerate zero-optimum",
        "A single point, whose two weights are fixed.",
        exact=0.0,
    ),
    instance(
        "nu_svr/three-points",
        lambda: regression(([[-1.0], [0.0], [1.0]], [-1.0, 0.5, 1.0]), 10.0, 0.1),
        "closed-form",
        "The narrowest tube around all points: w = 1, eps = 0.25.",
        exact=-1.25,
    ),
    instance(
        "nu_svr/constant",
        lambda: regression((cloud(30, 3, seed=930), np.full(30, 5.0)), 1.0, 0.5, rbf(0.5)),
        "closed-form degenerate zero-optimum",
        "All values equal.",
        exact=0.0,
    ),
    instance(
        "nu_svr/all-zero",
        lambda: regression((np.zeros((10, 2)), np.arange(10.0)), 1.0, 0.4),
        "closed-form degenerate",
        "Every entry of the Gram is 0: two values lie beyond each edge of the tube.",
        exact=-16.0,
    ),
    *(
        instance(
            f"nu_svr/identity-nu{nu:g}",
            lambda nu=nu: identity(40, nu),
            "closed-form" if nu < 0.1 else "closed-form degenerate",
            f"K = I, nu = {nu:g}: {note}.",
            exact=exact,
        )
        for nu, exact, note in (
            (0.05, -15.0, "all weights 0.5, eps = 0.5"),
            (0.1, -20.0, "all weights 1, eps = 0"),
            (0.5, -20.0, "both weights of a point are positive, eps = 0"),
        )
    ),
    *(
        instance(
            f"nu_svr/two-values-on-one-point-nu{nu:g}",
            lambda nu=nu: two_values(nu),
            "closed-form degenerate",
            f"Copies of one point, nu = {nu:g}: {note}.",
            exact=exact,
        )
        for nu, exact, note in (
            (0.3, -12.0, "the tube holds all values"),
            (0.8, -20.0, "the tube is one value"),
        )
    ),
    # Random.
    *(
        instance(
            f"nu_svr/random-rbf-nu{nu:g}",
            lambda nu=nu: regression(waves(120, 4, seed=931), 5.0, nu, rbf(0.3)),
            "random",
            f"A smooth function with noise, RBF, nu = {nu:g}.",
        )
        for nu in (0.5, 0.1, 1e-6, 1.0)
    ),
    *(
        instance(
            f"nu_svr/random-rbf-C{name}",
            lambda C=C: regression(waves(120, 4, seed=932), C, 0.3, rbf(0.3)),
            "random",
            f"The same, nu = 0.3, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("100", 100.0))
    ),
    *(
        instance(
            f"nu_svr/random-linear-nu{nu:g}",
            lambda nu=nu: regression(waves(120, 5, seed=933), 1.0, nu),
            "random",
            f"Linear, nu = {nu:g}.",
        )
        for nu in (0.5, 0.02)
    ),
    instance(
        "nu_svr/random-few",
        lambda: regression(waves(7, 3, seed=934), 2.0, 0.5, rbf(0.3)),
        "random",
        "Seven points.",
    ),
    instance(
        "nu_svr/random-poly",
        lambda: regression(waves(120, 4, seed=935), 1.0, 0.5, poly(3, 0.3, 1.0)),
        "random",
        "Cubic kernel.",
    ),
    instance(
        "nu_svr/random-laplacian",
        lambda: regression(waves(120, 4, seed=936), 1.0, 0.5, laplacian(0.3)),
        "random",
        "Laplacian kernel.",
    ),
    instance(
        "nu_svr/random-weighted",
        lambda: regression(waves(120, 4, seed=937), weights(120, seed=938), 0.3, rbf(0.3)),
        "random weighted",
        "Penalties from 0.01 to 100 and every fifth point left out.",
    ),
    instance(
        "nu_svr/random-weighted-linear",
        lambda: regression(waves(120, 4, seed=939), weights(120, seed=940), 0.01),
        "random weighted",
        "Linear; some penalties exceed the sum of the weights.",
    ),
    instance(
        "nu_svr/random-sparse",
        lambda: regression(sparse_values(120, 30, seed=941), 1.0, 0.5),
        "random sparse",
        "CSR points, linear.",
    ),
    instance(
        "nu_svr/random-duplicates",
        lambda: regression(duplicates(120, 4, seed=942), 1.0, 0.5, rbf(0.3)),
        "random degenerate",
        "Every point three times, with different values.",
    ),
    instance(
        "nu_svr/random-duplicates",
        lambda: regression(
            tuple(np.repeat(part, 5, axis=0) for part in waves(24, 4, seed=943)),
            1.0,
            0.5,
            rbf(0.3),
        ),
        "random degenerate",
        "Every point five times, with the same value.",
    ),
    # Sizes of values.
    *(
        instance(
            f"nu_svr/values-{name}",
            lambda s=s: regression(waves(100, 4, seed=944, scale=s), s, 0.5, rbf(0.3)),
            "random degenerate",
            f"Values in units of {name}.",
        )
        for name, s in (("1e-8", 1e-8), ("1e8", 1e8))
    ),
    instance(
        "nu_svr/values-far",
        lambda: regression(waves(100, 4, seed=945, offset=1e6), 1.0, 0.5, rbf(0.3)),
        "random degenerate",
        "Values far from zero, which the bias takes.",
    ),
    instance(
        "nu_svr/points-far-linear",
        lambda: regression((1e4 + cloud(100, 4, seed=946), waves(100, 4, seed=946)[1]), 1.0, 0.5),
        "random degenerate",
        "Points far from zero, linear.",
    ),
    # Real.
    instance(
        "nu_svr/diabetes-rbf",
        lambda: regression(diabetes(200), 1.0, 0.5, rbf("scale")),
        "real",
        "Diabetes, RBF.",
    ),
    instance(
        "nu_svr/diabetes-linear",
        lambda: regression(diabetes(200), 1.0, 0.5),
        "real",
        "Diabetes, linear.",
    ),
)
