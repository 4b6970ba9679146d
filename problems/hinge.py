"""Support vector machines with the hinge loss, with a free bias or without.

The declared dual problem (family "hinge"):

    minimize  1/2 a'(yy'K)a - sum a    subject to  0 <= a_i <= C_i,  y'a = 0

The declared primal problem (family "hinge_primal", linear kernel), in w and b:

    minimize  1/2 |w|^2 + sum C_i max(0, 1 - y_i (x_i'w + b))

The value of the primal is minus that of the dual. Without bias b = 0 and there is no y'a = 0.
"""

from __future__ import annotations

from collections.abc import Callable
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
from problems.instance import Instance, family, gram_of, instance


@family("hinge")
def declare(data: Data, gram: str) -> Any:
    """Return `HingeDual` of the data of an instance."""
    import qpsvm

    return qpsvm.HingeDual(gram_of(data, gram), data["y"], C=data["C"], bias=data["bias"])


@family("hinge_primal", primal=True)
def declare_primal(data: Data, gram: str) -> Any:
    """Return `HingePrimal` of the data of an instance."""
    import qpsvm

    return qpsvm.HingePrimal(data["X"], data["y"], C=data["C"], bias=data["bias"])


def svm(points: tuple, C: object, kernel: Kernel = LINEAR_KERNEL, bias: bool = True) -> Data:
    """Return the data of a machine on points (X, y)."""
    X, y = points
    return {"X": X, "y": y, "C": C, "kernel": kernel, "bias": bias}


def identity(m: int, C: float) -> Data:
    """Return the data of a machine with K = I and classes of equal size."""
    y = np.tile([1.0, -1.0], m // 2)
    return {"K": np.eye(m), "y": y, "C": C, "kernel": PRECOMPUTED_KERNEL, "bias": True}


def same_point(positive: int, negative: int) -> tuple:
    """Return duplicates of one point with both labels."""
    y = np.repeat([1.0, -1.0], [positive, negative])
    return np.ones((len(y), 2)), y


def linear_pair(
    name: str,
    points: Callable[[], tuple],
    C: object,
    tags: str,
    note: str,
    exact: float | None = None,
    bias: bool = True,
) -> tuple[Instance, Instance]:
    """Declare one linear machine twice: dual, and primal with the opposite value."""
    return (
        instance(f"hinge/{name}", lambda: svm(points(), C, bias=bias), tags, note, exact),
        instance(
            f"hinge_primal/{name}",
            lambda: svm(points(), C, bias=bias),
            tags,
            note,
            None if exact is None else -exact,
        ),
    )


INSTANCES = (
    # A closed form is known.
    *linear_pair(
        "two-points",
        lambda: ([[1.0], [-1.0]], [1.0, -1.0]),
        10.0,
        "closed-form",
        "Points 1 and -1: w = 1, no slack.",
        exact=-0.5,
    ),
    *linear_pair(
        "two-points-small-C",
        lambda: ([[1.0], [-1.0]], [1.0, -1.0]),
        0.1,
        "closed-form",
        "Points 1 and -1 with both weights at C: 2 C^2 - 2 C.",
        exact=-0.18,
    ),
    *linear_pair(
        "two-points-hard-margin",
        lambda: ([[1.0, 2.0], [4.0, 6.0]], [1.0, -1.0]),
        np.inf,
        "closed-form hard-margin",
        "Points 5 apart with C = inf: w = 2/5.",
        exact=-0.08,
    ),
    *linear_pair(
        "one-class",
        lambda: (cloud(20, 3, seed=401), np.ones(20)),
        1.0,
        "closed-form degenerate zero-optimum",
        "One label only: a = 0, w = 0.",
        exact=0.0,
    ),
    *linear_pair(
        "both-labels-on-one-point",
        lambda: same_point(5, 15),
        2.0,
        "closed-form degenerate",
        "Copies of one point with both labels: the smaller class pays 2 C each.",
        exact=-20.0,
    ),
    *linear_pair(
        "all-zero",
        lambda: moved(same_point(4, 4), scale=0.0),
        1.0,
        "closed-form degenerate",
        "All points at the origin.",
        exact=-8.0,
    ),
    instance(
        "hinge/identity",
        lambda: identity(40, 3.0),
        "closed-form",
        "K = I: all weights 1.",
        exact=-20.0,
    ),
    instance(
        "hinge/identity-small-C",
        lambda: identity(40, 0.5),
        "closed-form",
        "K = I with all weights at C: m (C^2/2 - C).",
        exact=-15.0,
    ),
    # Random, several penalties and conditionings.
    *(
        instance(
            f"hinge/random-rbf-C{name}",
            lambda C=C: svm(two_clouds(200, 4, seed=402), C, rbf(0.3)),
            "random",
            f"Overlapping clouds, RBF, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("10", 10.0), ("1e3", 1e3), ("1e6", 1e6))
    ),
    *(
        member
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("1e3", 1e3))
        for member in linear_pair(
            f"random-linear-C{name}",
            lambda: two_clouds(150, 6, seed=403),
            C,
            "random",
            f"Overlapping clouds, linear, C = {name}.",
        )
    ),
    *linear_pair(
        "separable-hard-margin",
        lambda: separable_clouds(120, 4, seed=404, gap=1.0),
        np.inf,
        "random hard-margin",
        "A strip between two clouds, C = inf.",
    ),
    *linear_pair(
        "random-high-dimension",
        lambda: (cloud(60, 150, seed=405), labels(60, seed=406)),
        1.0,
        "random",
        "More features than points.",
    ),
    *linear_pair(
        "random-weighted",
        lambda: two_clouds(150, 4, seed=407),
        weights(150, seed=408),
        "random weighted",
        "Penalties from 0.01 to 100 and every fifth point left out.",
    ),
    *linear_pair(
        "random-sparse",
        lambda: sparse_clouds(150, 30, seed=421),
        1.0,
        "random sparse",
        "CSR points.",
    ),
    instance(
        "hinge/random-poly",
        lambda: svm(two_clouds(150, 4, seed=409), 1.0, poly(2, 0.5, 1.0)),
        "random",
        "Quadratic polynomial kernel.",
    ),
    instance(
        "hinge/random-laplacian",
        lambda: svm(two_clouds(150, 4, seed=410), 1.0, laplacian(0.2)),
        "random",
        "Laplacian kernel.",
    ),
    instance(
        "hinge/random-unbalanced",
        lambda: svm(two_clouds(200, 4, seed=411, positive=0.03), 10.0, rbf("scale")),
        "random",
        "Six points against 194, RBF with gamma by name.",
    ),
    # Degenerate.
    *linear_pair(
        "random-rank-2",
        lambda: (cloud(150, 12, seed=412, rank=2), labels(150, seed=413)),
        1.0,
        "random degenerate",
        "Rank 2 in twelve dimensions.",
    ),
    *linear_pair(
        "C1e-8",
        lambda: two_clouds(100, 4, seed=414, positive=0.3),
        1e-8,
        "random degenerate",
        "C so small that all weights of the smaller class are at C.",
    ),
    *linear_pair(
        "offset-1e4",
        lambda: moved(two_clouds(100, 4, seed=415), offset=1e4),
        1.0,
        "random degenerate",
        "Points far from the origin: the bias follows.",
    ),
    *linear_pair(
        "scale-1e-4",
        lambda: moved(two_clouds(100, 4, seed=416), scale=1e-4),
        1e3,
        "random degenerate",
        "Data in units of 1e-4.",
    ),
    *linear_pair(
        "scale-1e4",
        lambda: moved(two_clouds(100, 4, seed=417), scale=1e4),
        1e-6,
        "random degenerate",
        "Data in units of 1e4.",
    ),
    *linear_pair(
        "one-against-all",
        lambda: two_clouds(80, 3, seed=418, positive=0.0),
        10.0,
        "random degenerate",
        "One point against the others.",
    ),
    # Real.
    *linear_pair("digits-linear", lambda: digits(limit=300), 1.0, "real", "Digits 3 against 8."),
    instance(
        "hinge/digits-rbf",
        lambda: svm(digits(limit=300), 10.0, rbf("scale")),
        "real",
        "Digits 3 against 8, RBF.",
    ),
    *linear_pair("breast-cancer-linear", lambda: breast_cancer(), 1.0, "real", "Breast cancer."),
    instance(
        "hinge/breast-cancer-rbf",
        lambda: svm(breast_cancer(), 1.0, rbf("scale")),
        "real",
        "Breast cancer, RBF.",
    ),
    instance(
        "hinge/breast-cancer-rbf-C1e3",
        lambda: svm(breast_cancer(300), 1e3, rbf("scale")),
        "real",
        "Breast cancer, RBF, large C.",
    ),
    # Without bias.
    *linear_pair(
        "no-bias-two-points",
        lambda: ([[1.0], [-2.0]], [1.0, -1.0]),
        10.0,
        "closed-form",
        "Points 1 and -2: w = 1, the first alone holds it.",
        exact=-0.5,
        bias=False,
    ),
    *linear_pair(
        "no-bias-one-class-hard-margin",
        lambda: ([[3.0, 4.0], [6.0, 8.0]], [1.0, 1.0]),
        np.inf,
        "closed-form hard-margin degenerate",
        "One label only, C = inf: w'(3, 4) = 1.",
        exact=-0.02,
        bias=False,
    ),
    *linear_pair(
        "no-bias-all-zero",
        lambda: moved(same_point(4, 4), scale=0.0),
        1.0,
        "closed-form degenerate",
        "All points at the origin: every weight at C.",
        exact=-8.0,
        bias=False,
    ),
    *(
        member
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("1e3", 1e3))
        for member in linear_pair(
            f"no-bias-linear-C{name}",
            lambda: two_clouds(150, 6, seed=422),
            C,
            "random",
            f"Overlapping clouds, linear, no bias, C = {name}.",
            bias=False,
        )
    ),
    *linear_pair(
        "no-bias-hard-margin",
        lambda: separable_clouds(120, 4, seed=423, gap=1.0),
        np.inf,
        "random hard-margin",
        "A strip between two clouds, no bias, C = inf.",
        bias=False,
    ),
    *linear_pair(
        "no-bias-weighted",
        lambda: two_clouds(150, 4, seed=424),
        weights(150, seed=425),
        "random weighted",
        "No bias, penalties from 0.01 to 100 and every fifth point left out.",
        bias=False,
    ),
    *linear_pair(
        "no-bias-sparse",
        lambda: sparse_clouds(150, 30, seed=426),
        1.0,
        "random sparse",
        "CSR points, no bias.",
        bias=False,
    ),
    *linear_pair(
        "no-bias-high-dimension",
        lambda: (cloud(60, 150, seed=427), labels(60, seed=428)),
        1.0,
        "random",
        "More features than points, no bias.",
        bias=False,
    ),
    instance(
        "hinge/no-bias-rbf",
        lambda: svm(two_clouds(200, 4, seed=429), 10.0, rbf(0.3), bias=False),
        "random",
        "Overlapping clouds, RBF, no bias.",
    ),
    *linear_pair(
        "no-bias-breast-cancer",
        lambda: breast_cancer(),
        1.0,
        "real",
        "Breast cancer, no bias.",
        bias=False,
    ),
)
