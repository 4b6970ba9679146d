"""Smooth convex functions over domains that are no quadratics: family ``smooth_program``.

The data of an instance hold the functions ``value`` and ``gradient``, the constant ``smoothness`` of the
gradient, the dimension ``m`` and the ``shape`` of a point, and a ``domain`` as `general` has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from problems.data.kernels import Data
from problems.instance import Instance
from problems.programs.general import domain, make


def logistic(n: int, m: int, domain: tuple[str, dict[str, Any]], seed: int) -> Data:
    """Return the sum of log(1 + exp(-y_i a_i'x)) for random points and labels."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, m))
    signed = A * np.where(A[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)[:, None]

    def value(x: np.ndarray) -> float:
        return float(np.sum(np.logaddexp(0.0, -(signed @ x))))

    def gradient(x: np.ndarray) -> np.ndarray:
        return -signed.T @ (1.0 / (1.0 + np.exp(signed @ x)))

    smoothness = 0.25 * float(np.linalg.norm(signed, 2)) ** 2
    return functions(value, gradient, smoothness * (1.0 + 1e-9), m, domain)


def likelihood(counts: list[float], prior: float, domain: tuple[str, dict[str, Any]]) -> Data:
    """Return the negative log-likelihood -sum n_j log(x_j + prior) of proportions."""
    n = np.array(counts)

    def value(x: np.ndarray) -> float:
        return -float(n @ np.log(x + prior))

    def gradient(x: np.ndarray) -> np.ndarray:
        return -n / (x + prior)

    return functions(value, gradient, float(np.max(n)) / prior**2, len(n), domain)


def functions(
    value: Callable[[np.ndarray], float],
    gradient: Callable[[np.ndarray], np.ndarray],
    smoothness: float,
    m: int,
    domain: tuple[str, dict[str, Any]],
) -> Data:
    """Return the data of an instance on points that are vectors."""
    return {
        "value": value, "gradient": gradient, "smoothness": smoothness, "m": m, "shape": (m,),
        "domain": domain,
    }  # fmt: skip


SMOOTH_INSTANCES: dict[str, Instance] = {
    instance.name: instance
    for instance in [
        make(
            "smooth_program/logistic-l1",
            lambda: logistic(30, 8, ("l1_ball", {"m": 8, "radius": 1.5}), seed=3),
            "random",
        ),
        make(
            "smooth_program/logistic-l2",
            lambda: logistic(30, 8, ("l2_ball", {"m": 8, "radius": 1.0}), seed=4),
            "random round",
        ),
        make(
            "smooth_program/likelihood",
            lambda: likelihood([1.0, 2.0, 5.0, 0.0, 8.0], 0.5, ("simplex", {"m": 5})),
            "random",
        ),
        make(
            "smooth_program/two-proportions",
            lambda: likelihood([2.0, 1.0], 1.0, ("simplex", {"m": 2})),
            "closed-form",
            exact=-2.0 * float(np.log(2.0)),  # the point (1, 0)
        ),
    ]
}
"""By name."""


def declare(instance: Instance) -> Any:
    """Build the qpsvm formulation of an instance."""
    import qpsvm

    data = instance.data()
    return qpsvm.SmoothProgram(
        data["value"], data["gradient"], domain(*data["domain"]), smoothness=data["smoothness"]
    )
