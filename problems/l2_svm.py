"""Support vector machines with squared slacks and penalised bias.

The declared problem, a over the simplex:

    minimize  1/2 a'Qa,    Q_ij = y_i y_j (k_ij + 1) + delta_ij / C_i

C = inf asks for a hard margin; a point with C_i = 0 is left out.
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


@family("l2_svm")
def declare(data: Data, gram: str) -> Any:
    """Return `L2SVMDual` of the data of an instance."""
    import qpsvm

    return qpsvm.L2SVMDual(gram_of(data, gram), data["y"], C=data["C"])


def svm(points: tuple, C: object, kernel: Kernel = LINEAR_KERNEL) -> Data:
    """Return the data of a machine on points (X, y)."""
    X, y = points
    return {"X": X, "y": y, "C": C, "kernel": kernel}


def identity(positive: int, negative: int, C: object) -> Data:
    """Return the data of a machine with K = I."""
    y = np.repeat([1.0, -1.0], [positive, negative])
    return {"K": np.eye(len(y)), "y": y, "C": C, "kernel": PRECOMPUTED_KERNEL}


def identity_value(positive: int, negative: int, C: float) -> float:
    """Return the value for K = I: equal weights in a class, of total s and 1 - s.

    minimize over s   1/2 k (s^2/p + (1-s)^2/q) + 1/2 (2s-1)^2,    k = 1 + 1/C
    """
    k = 1.0 + 1.0 / C
    s = (k / negative + 2.0) / (k / positive + k / negative + 4.0)
    return 0.5 * k * (s**2 / positive + (1 - s) ** 2 / negative) + 0.5 * (2 * s - 1) ** 2


def with_zero_rows() -> tuple:
    """Return two clouds whose first forty points are moved to the origin."""
    X, y = two_clouds(120, 4, seed=223)
    X[:40] = 0.0
    return X, y


def twins() -> tuple:
    """Return sixty points that appear twice each, with opposite labels for every third pair."""
    X, y = two_clouds(60, 3, seed=224)
    return np.vstack([X, X]), np.concatenate([y, np.where(np.arange(60) % 3 == 0, -y, y)])


INSTANCES = (
    # A closed form is known.
    instance(
        "l2_svm/one-point",
        lambda: svm(([[3.0, 4.0]], [1.0]), C=2.0),
        "closed-form degenerate",
        "One point: a = 1, the value is (k + 1 + 1/C) / 2.",
        exact=13.25,
    ),
    instance(
        "l2_svm/two-points",
        lambda: svm(([[1.0], [-1.0]], [1.0, -1.0]), C=1.0),
        "closed-form",
        "Points 1 and -1 with opposite labels: a = (1/2, 1/2).",
        exact=0.75,
    ),
    instance(
        "l2_svm/two-points-hard-margin",
        lambda: svm(([[1.0], [-1.0]], [1.0, -1.0]), C=np.inf),
        "closed-form hard-margin",
        "Points 1 and -1 with opposite labels and C = inf.",
        exact=0.5,
    ),
    instance(
        "l2_svm/identity-balanced",
        lambda: identity(20, 20, C=10.0),
        "closed-form",
        "K = I, classes of equal size: equal weights.",
        exact=1.1 / 80,
    ),
    instance(
        "l2_svm/identity-unbalanced",
        lambda: identity(5, 45, C=1.0),
        "closed-form",
        "K = I, classes of 5 and 45 points.",
        exact=identity_value(5, 45, 1.0),
    ),
    instance(
        "l2_svm/identity-hard-margin",
        lambda: identity(8, 24, C=np.inf),
        "closed-form hard-margin",
        "K = I and C = inf.",
        exact=identity_value(8, 24, np.inf),
    ),
    instance(
        "l2_svm/identity-left-out",
        lambda: identity(20, 20, C=np.tile([0.0, 4.0], 20)),
        "closed-form weighted degenerate",
        "K = I, every other point left out by C = 0.",
        exact=1.25 / 40,
    ),
    instance(
        "l2_svm/one-class-identical",
        lambda: svm((np.ones((25, 2)), np.ones(25)), C=0.5),
        "closed-form degenerate",
        "Copies of one point with one label: equal weights.",
        exact=0.5 * (3.0 + 2.0 / 25),
    ),
    instance(
        "l2_svm/both-labels-on-one-point",
        lambda: svm((np.ones((10, 2)), np.tile([1.0, -1.0], 5)), C=10.0),
        "closed-form degenerate",
        "Copies of one point with both labels: only the ridge is left, 1 / (2 C m).",
        exact=0.005,
    ),
    instance(
        "l2_svm/both-labels-hard-margin",
        lambda: svm((np.ones((10, 2)), np.tile([1.0, -1.0], 5)), C=np.inf),
        "closed-form degenerate hard-margin zero-optimum",
        "Copies of one point with both labels and C = inf: no margin at all.",
        exact=0.0,
    ),
    instance(
        "l2_svm/all-zero",
        lambda: svm((np.zeros((12, 3)), np.tile([1.0, -1.0], 6)), C=1.0),
        "closed-form degenerate",
        "All points at the origin: 1 / (2 C m).",
        exact=1 / 24,
    ),
    # Random, several penalties and conditionings.
    *(
        instance(
            f"l2_svm/random-rbf-C{name}",
            lambda C=C: svm(two_clouds(200, 4, seed=201), C, rbf(0.3)),
            "random",
            f"Overlapping clouds, RBF, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("10", 10.0), ("1e3", 1e3), ("1e6", 1e6))
    ),
    *(
        instance(
            f"l2_svm/random-linear-C{name}",
            lambda C=C: svm(two_clouds(200, 8, seed=202), C),
            "random slow" if C > 1 else "random",
            f"Overlapping clouds, linear, C = {name}.",
        )
        for name, C in (("1e-2", 1e-2), ("1", 1.0), ("1e3", 1e3))
    ),
    instance(
        "l2_svm/random-linear-C1e6",
        lambda: svm(two_clouds(200, 8, seed=202), 1e6),
        "random ill-conditioned",
        "Overlapping clouds, linear, C = 1e6: the ridge is all but gone.",
    ),
    instance(
        "l2_svm/random-rbf-hard-margin",
        lambda: svm(two_clouds(100, 4, seed=203), np.inf, rbf(1.0)),
        "random hard-margin",
        "RBF separates everything: C = inf.",
    ),
    instance(
        "l2_svm/separable-linear-hard-margin",
        lambda: svm(separable_clouds(120, 4, seed=204, gap=1.0), np.inf),
        "random hard-margin",
        "A strip between the classes, linear, C = inf.",
    ),
    instance(
        "l2_svm/random-poly",
        lambda: svm(two_clouds(150, 4, seed=205), 10.0, poly(2, 0.5, 1.0)),
        "random",
        "Quadratic polynomial kernel.",
    ),
    instance(
        "l2_svm/random-laplacian",
        lambda: svm(two_clouds(150, 4, seed=206), 10.0, laplacian(0.2)),
        "random",
        "Laplacian kernel.",
    ),
    instance(
        "l2_svm/random-spread-1e3",
        lambda: svm(two_clouds(150, 6, seed=207, spread=1e3, distance=100.0), 1.0),
        "random",
        "Features in units from 1 to 1000.",
    ),
    instance(
        "l2_svm/random-unbalanced",
        lambda: svm(two_clouds(200, 4, seed=208, positive=0.03), 10.0, rbf("scale")),
        "random",
        "Six points against 194, RBF with gamma by name.",
    ),
    instance(
        "l2_svm/random-labels",
        lambda: svm((cloud(150, 5, seed=209), labels(150, seed=210)), 100.0, rbf(0.2)),
        "random",
        "Labels that say nothing about the points.",
    ),
    instance(
        "l2_svm/random-weighted",
        lambda: svm(two_clouds(150, 4, seed=211), weights(150, seed=212), rbf(0.3)),
        "random weighted",
        "Penalties from 0.01 to 100 and every fifth point left out.",
    ),
    instance(
        "l2_svm/random-sparse",
        lambda: svm(sparse_clouds(150, 30, seed=221), 1.0),
        "random sparse",
        "CSR points, linear.",
    ),
    # Degenerate.
    instance(
        "l2_svm/random-rank-2",
        lambda: svm((cloud(200, 12, seed=213, rank=2), labels(200, seed=214)), 10.0),
        "random degenerate",
        "Linear kernel of rank 2 in twelve dimensions.",
    ),
    instance(
        "l2_svm/one-class",
        lambda: svm((cloud(80, 3, seed=215), np.ones(80)), 1.0),
        "random degenerate",
        "One label only: legal, the bias is penalised.",
    ),
    instance(
        "l2_svm/one-against-all",
        lambda: svm(two_clouds(80, 3, seed=216, positive=0.0), 10.0, rbf(0.5)),
        "random degenerate",
        "One point against the others.",
    ),
    instance(
        "l2_svm/C1e-8",
        lambda: svm(two_clouds(120, 4, seed=217), 1e-8),
        "random degenerate",
        "C so small that the ridge is everything.",
    ),
    instance(
        "l2_svm/offset-1e4-rbf",
        lambda: svm(moved(two_clouds(120, 4, seed=218), offset=1e4), 10.0, rbf(0.3)),
        "random degenerate",
        "Points far from the origin, RBF.",
    ),
    instance(
        "l2_svm/offset-1e4-linear",
        lambda: svm(moved(two_clouds(120, 4, seed=218), offset=1e4), 1.0),
        "random degenerate ill-conditioned",
        "Points far from the origin: the bias cannot follow.",
    ),
    instance(
        "l2_svm/scale-1e-4",
        lambda: svm(moved(two_clouds(120, 4, seed=219), scale=1e-4), 1e3),
        "random degenerate",
        "Data in units of 1e-4: the kernel is far below the bias.",
    ),
    instance(
        "l2_svm/scale-1e4",
        lambda: svm(moved(two_clouds(120, 4, seed=220), scale=1e4), 1e-6),
        "random degenerate",
        "Data in units of 1e4.",
    ),
    instance(
        "l2_svm/zero-rows",
        lambda: svm(with_zero_rows(), 1.0),
        "random degenerate",
        "A third of the points lies at the origin, with both labels.",
    ),
    instance(
        "l2_svm/twins",
        lambda: svm(twins(), 10.0, rbf(0.5)),
        "random degenerate",
        "Every point twice, some with both labels.",
    ),
    # Real.
    instance(
        "l2_svm/digits-linear",
        lambda: svm(digits(limit=300), 1.0),
        "real",
        "Digits 3 against 8, linear.",
    ),
    instance(
        "l2_svm/digits-rbf",
        lambda: svm(digits(limit=300), 10.0, rbf("scale")),
        "real",
        "Digits 3 against 8, RBF.",
    ),
    instance(
        "l2_svm/digits-rbf-C1e3",
        lambda: svm(digits(limit=300), 1e3, rbf("mean-distance")),
        "real",
        "Digits 3 against 8, RBF of the mean squared distance, large C.",
    ),
    instance(
        "l2_svm/breast-cancer-linear",
        lambda: svm(breast_cancer(300), 1.0),
        "real",
        "Breast cancer, linear.",
    ),
    instance(
        "l2_svm/breast-cancer-rbf",
        lambda: svm(breast_cancer(400), 1.0, rbf("scale")),
        "real",
        "Breast cancer, RBF.",
    ),
    instance(
        "l2_svm/breast-cancer-rbf-C1e3",
        lambda: svm(breast_cancer(300), 1e3, rbf("scale")),
        "real",
        "Breast cancer, RBF, large C.",
    ),
)
