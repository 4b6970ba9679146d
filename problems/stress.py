"""The stress set: thirteen kinds of simplex problem, five seeds each, a hundred points.

Generic QP solvers at their defaults call many of these solved that are not. They are kept apart
from the catalogue of the families; `problems.select(tag="stress")` returns them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from problems.clouds import cloud, two_clouds
from problems.data.kernels import LINEAR_KERNEL, Data, Kernel, rbf
from problems.instance import Instance, instance

M = 100
RANDOM_SEEDS = range(5)


def svm(C: float, kernel: Kernel = LINEAR_KERNEL) -> Callable[[int], Data]:
    """Return a maker of overlapping clouds with penalty C."""

    def build(seed: int) -> Data:
        X, y = two_clouds(M, 5, seed=500 + seed)
        return {"X": X, "y": y, "C": C, "kernel": kernel}

    return build


def ball(points: Callable[[int], np.ndarray]) -> Callable[[int], Data]:
    """Return a maker of balls around the points."""
    return lambda seed: {"X": points(520 + seed), "kernel": LINEAR_KERNEL}


def on_sphere(seed: int) -> np.ndarray:
    """Return points of length 1, as many on each side of the origin."""
    X = cloud(M // 2, 5, seed)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return np.vstack([X, -X])


def least_norm(offset: float) -> Callable[[int], Data]:
    """Return a maker of hulls against the origin, centered at distance about `offset`."""

    def build(seed: int) -> Data:
        X = np.vstack([cloud(M, 5, seed=540 + seed), np.zeros((1, 5))])
        X[:M, 0] += offset
        return {"X": X, "y": np.repeat([1.0, -1.0], [M, 1]), "chi": None, "kernel": LINEAR_KERNEL}

    return build


# name, maker of the data from a seed, optimal value where known, tags, note
STRESS_KINDS = (
    ("l2_svm/stress-C1", svm(1.0), None, "", "Linear, C = 1."),
    ("l2_svm/stress-C1e6", svm(1e6, rbf(0.2)), None, "", "RBF, C = 1e6."),
    ("l2_svm/stress-C1e-6", svm(1e-6), None, "", "Linear, C = 1e-6."),
    (
        "meb/stress-rank-3",
        ball(lambda seed: cloud(M, 10, seed, rank=3)),
        None,
        "",
        "Rank 3 in ten dimensions.",
    ),
    (
        "meb/stress-duplicates",
        ball(lambda seed: np.repeat(cloud(M // 5, 5, seed), 5, axis=0)),
        None,
        "",
        "Every point five times.",
    ),
    ("meb/stress-sphere", ball(on_sphere), -1.0, "closed-form", "All points on the unit sphere."),
    (
        "meb/stress-scale-1e-4",
        ball(lambda seed: 1e-4 * cloud(M, 5, seed)),
        None,
        "",
        "Data in units of 1e-4.",
    ),
    (
        "meb/stress-scale-1e4",
        ball(lambda seed: 1e4 * cloud(M, 5, seed)),
        None,
        "",
        "Data in units of 1e4.",
    ),
    (
        "meb/stress-offset-1e4",
        ball(lambda seed: 1e4 + cloud(M, 5, seed)),
        None,
        "",
        "Points far from the origin.",
    ),
    (
        "meb/stress-identical",
        ball(lambda seed: np.tile(cloud(1, 5, seed), (M, 1))),
        0.0,
        "closed-form zero-optimum",
        "Copies of one point.",
    ),
    (
        "meb/stress-zero",
        ball(lambda seed: np.zeros((M, 1 + seed % 5))),
        0.0,
        "closed-form zero-optimum",
        "All points at the origin.",
    ),
    (
        "polytope_distance/stress-least-norm-inside",
        least_norm(0.0),
        0.0,
        "zero-optimum",
        "The origin lies inside the hull.",
    ),
    (
        "polytope_distance/stress-least-norm-outside",
        least_norm(6.0),
        None,
        "",
        "The origin lies outside the hull.",
    ),
)

INSTANCES: dict[str, Instance] = {
    f"{name}-{seed}": instance(
        f"{name}-{seed}",
        lambda make=make, seed=seed: make(seed),
        f"stress degenerate {tags}",
        note,
        exact,
    )
    for name, make, exact, tags, note in STRESS_KINDS
    for seed in RANDOM_SEEDS
}
