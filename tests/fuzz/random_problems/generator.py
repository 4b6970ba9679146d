"""Random problems, each from the seed of a campaign and its number in it.

What is drawn depends on the tables here and in `points` alone: not on the library, and not on the
problems before. Another generator of choices draws from the same tables, see `strategies`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from tests.fuzz.problem import GENERAL_FAMILIES, POINT_STORAGES, PRIMAL_FAMILIES, Problem
from tests.fuzz.random_problems import points

TOLERANCE_CHOICES = (1e-6, 1e-6, 1e-6, 1e-9, 1e-9, 1e-9, 1e-2, 1e-3, 1e-4, 1e-12)
"""Tolerances that are asked for; reliability is told at 1e-6 and 1e-9."""

SIZE_RANGES = ((1, 3), (4, 12), (4, 12), (13, 60), (13, 60), (13, 60), (61, 300), (301, 2000))
"""Ranges of numbers of points, from which one is drawn first."""

FEATURE_COUNTS = (1, 2, 2, 3, 5, 10, 40)
"""Numbers of features."""

FAMILY_WEIGHTS = {
    "meb": 2, "svdd": 2, "l2_svm": 3, "hinge": 4, "polytope_distance": 2, "one_class": 2,
    "nu_svc": 2, "svr": 2, "nu_svr": 2, "hinge_primal": 3, "lp_svm": 1, "ls_svm": 2,
    "quadratic_program": 1, "least_squares": 1,
}  # fmt: skip
"""How often each family is drawn."""

KERNEL_CHOICES = (
    "linear", "linear", "linear", "rbf", "rbf", "rbf", "polynomial", "laplacian", "precomputed",
    "custom", "sigmoid",
)  # fmt: skip
"""Kernels; the common ones come more than once."""

PENALTY_VALUES = (
    1.0, 1.0, 1.0, 10.0, 100.0, 1e-3, 1e3, 1e-8, 1e6, 1e9, 1e15, 1e-150, 1e150, np.inf,
)  # fmt: skip
"""Values of C and chi."""

SCALE_EXPONENTS = (0,) * 20 + (-4, -2, 2, 4, -8, 8, -20, 20, -50, 50, -70, 70, -150, 150)
"""Powers of ten by which points are multiplied."""

NU_VALUES = (0.5, 0.1, 1.0, 0.01, 0.3, 1e-6)
"""Values of nu."""


Item = TypeVar("Item")


class Choices(Protocol):
    """What draws one thing after another."""

    def one_of(self, options: Sequence[Item]) -> Item:
        """Return one of the options."""

    def integer(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""

    def boolean(self) -> bool:
        """Return yes or no."""

    def some_of(self, options: Sequence[Item], at_most: int) -> list[Item]:
        """Return some of the options, each once at most."""


class SeededChoices:
    """The choices of one number of one seed."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng((seed, number))

    def one_of(self, options: Sequence[Item]) -> Item:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def boolean(self) -> bool:
        """Return yes or no."""
        return self.one_of((False, True))

    def some_of(self, options: Sequence[Item], at_most: int) -> list[Item]:
        """Return some of the options, each once at most."""
        left, found = list(options), []
        for _ in range(self.integer(0, at_most)):
            found.append(left.pop(self.integer(0, len(left) - 1)))
        return found


HUGE_GAMMA = 1e300
"""Gammas beyond it are not drawn."""


def problems_of_seed(n: int, seed: int, largest: int) -> Iterator[Problem]:
    """Yield the first `n` problems of a seed, of at most `largest` points."""
    for number in range(n):
        yield problem_of(SeededChoices(seed, number), largest)


def problem_of(choices: Choices, largest: int = 2000) -> Problem:
    """Return a problem of at most `largest` points, and a number that picks one of its methods."""
    families = [name for name, weight in FAMILY_WEIGHTS.items() for _ in range(weight)]
    family = choices.one_of(families)
    low, high = choices.one_of([s for s in SIZE_RANGES if s[0] <= largest])
    m = choices.integer(low, min(high, largest))
    d = choices.one_of(FEATURE_COUNTS)
    rng = np.random.default_rng(choices.integer(0, 2**32 - 1))
    tol = choices.one_of(TOLERANCE_CHOICES)
    if family in GENERAL_FAMILIES:
        problem = _general(choices, rng, family, min(m, 60), d, tol)
    else:
        problem = _machine(choices, rng, family, m, d, tol)
    method = f"#{choices.integer(0, 2**32 - 1)}"
    problem = replace(problem, method=method, options=_options(choices, rng, problem))
    if (
        family == "svr" and choices.boolean()
    ):  # drawn last: the other problems of a seed stay the same
        problem = replace(problem, family="l2_svr")
    if problem.kernel in ("rbf", "laplacian") and choices.integer(0, 19) == 0:
        # the kernel matrix is nearly the unit matrix, and rounded distances may be all that is left
        gamma = problem.settings["gamma"] * 10.0 ** choices.integer(6, 20)
        if gamma < HUGE_GAMMA:
            problem = replace(problem, settings=problem.settings | {"gamma": gamma})
    return problem


def _options(choices: Choices, rng: Any, problem: Problem) -> dict[str, Any]:
    """Return further arguments of a call, mostly none."""
    kind = choices.one_of((None, None, None, None, "max_iter", "merge", "x0", "seed"))
    if kind == "max_iter":
        return {kind: choices.one_of((0, 1, 5, 50))}
    if kind == "merge":
        return {kind: True}
    if kind == "seed":
        return {kind: choices.integer(0, 99)}
    if kind is None or problem.family in PRIMAL_FAMILIES:
        return {}
    n = 2 * problem.m if problem.family in ("svr", "nu_svr") else problem.m
    return {"x0": choices.one_of((0.0, 1.0, 1e6)) * rng.standard_normal(n)}


def _machine(choices: Choices, rng: Any, family: str, m: int, d: int, tol: float) -> Problem:
    shape = choices.one_of(points.CLOUD_KINDS)
    spices = choices.some_of(points.CLOUD_CHANGES, 2)
    power = choices.one_of(SCALE_EXPONENTS)
    X = points.cloud(rng, m, d, shape)
    for spice in spices:
        X = points.spiced(rng, X, spice)
    X = X * 10.0**power
    dtype = choices.one_of((np.float64, np.float64, np.float64, np.float32))
    takes_points = family in PRIMAL_FAMILIES and choices.boolean()
    kernel = "linear" if takes_points else choices.one_of(KERNEL_CHOICES)
    with np.errstate(over="ignore", under="ignore"):
        single = X.astype(np.float32)
    if dtype == np.float32 and np.isfinite(single).all():
        X = single
    parameters, labeling = _parameters(choices, rng, family, X)
    settings = _settings(choices, kernel, X)
    storage = choices.one_of(POINT_STORAGES)
    if kernel == "precomputed":
        X = _matrix(choices, X)
    if storage == "int8" and not (np.array_equal(X, np.round(X)) and np.abs(X).max() <= 127):
        storage = "C"
    if storage in ("lists", "int8"):
        X = X.astype(np.float64)  # as the library reads them
    if kernel == "custom" and "CS" in storage:
        storage = "C"  # products of sparse operands are another function
    notes = (shape, *spices, f"scale 1e{power}", labeling)
    return Problem(
        family, kernel, settings, X, storage, parameters, "auto", tol, takes_points, notes=notes
    )


def _matrix(choices: Choices, X: np.ndarray) -> np.ndarray:
    """Return a K as a user would form it, in the precision of the points."""
    X64 = X.astype(np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if choices.boolean():
            K = X64 @ X64.T
        else:
            squares = ((X64[:, None] - X64) ** 2).sum(axis=2) if len(X) <= 300 else np.abs(
                (X64**2).sum(axis=1)[:, None] + (X64**2).sum(axis=1) - 2 * X64 @ X64.T
            )  # fmt: skip
            largest = squares.max()
            K = np.exp(-3.0 * squares / (largest if 0 < largest < np.inf else 1.0))
        K = (0.5 * K + 0.5 * K.T).astype(X.dtype)
    return np.nan_to_num(K, nan=0.0, posinf=1.0, neginf=-1.0) if not np.isfinite(K).all() else K


def _settings(choices: Choices, kernel: str, X: np.ndarray) -> dict[str, float]:
    """Return parameters of a kernel that suit the size of the points, more or less."""
    if kernel in ("linear", "precomputed", "custom"):
        return {}
    factor = choices.one_of((1.0, 1.0, 1.0, 0.01, 100.0, 1e-6, 1e4))
    with np.errstate(over="ignore", under="ignore"):
        X = X.astype(np.longdouble)
        power = 1 if kernel == "laplacian" else 2
        centered = X - (X.mean(axis=0) if kernel in ("rbf", "laplacian") else 0.0)
        size = float((np.abs(centered) ** power).mean(axis=0).sum())
    gamma = factor / size if 1e-300 < size < 1e300 else factor
    if kernel == "polynomial":
        degree = choices.integer(1, 5)
        coef0 = choices.one_of((0.0, 1.0))
        return {"degree": degree, "gamma": gamma, "coef0": coef0}
    if kernel == "sigmoid":
        return {"gamma": gamma, "coef0": choices.one_of((0.0, -1.0))}
    return {"gamma": gamma}


def _parameters(
    choices: Choices, rng: Any, family: str, X: np.ndarray
) -> tuple[dict[str, Any], str]:
    """Return the arguments of the formulation, and how the labels were made."""
    m, found, labeling = len(X), {}, ""
    X = X.astype(np.float64)
    if family in ("svr", "nu_svr"):
        labeling = choices.one_of(points.VALUE_KINDS)
        found["y"] = points.values(rng, X, labeling)
    elif family not in ("meb", "svdd", "one_class"):
        labeling = choices.one_of(points.LABEL_KINDS)
        found["y"] = points.labels(rng, X, labeling)
    if family in ("l2_svm", "hinge", "svr", "nu_svr", "hinge_primal", "lp_svm", "ls_svm"):
        found["C"] = choices.one_of(PENALTY_VALUES)
        if found["C"] == np.inf and family in ("svr", "nu_svr", "lp_svm", "ls_svm"):
            found["C"] = 1e15
        if choices.integer(0, 4) == 0:  # sample weights
            weight = rng.integers(0, 4, m).astype(float)
            weight[rng.integers(m)] = 1.0
            with np.errstate(invalid="ignore", over="ignore"):
                found["C"] = np.where(weight > 0, found["C"] * weight, 0.0)
    if family == "svdd":
        nu = choices.one_of((0.5, 0.1, 1.0, 0.01))
        found["C"] = 1.0 / (nu * m)
        if choices.integer(0, 4) == 0:
            weight = rng.integers(0, 4, m).astype(float)
            weight[rng.integers(m)] = 1.0
            found["C"] = (1.0 + 1e-9) * weight / (nu * weight.sum())
    if family in ("one_class", "nu_svc", "nu_svr"):
        found["nu"] = choices.one_of(NU_VALUES)
    if family in ("one_class", "nu_svc") and choices.integer(0, 3) == 0:
        weight = rng.integers(0, 4, m).astype(float)
        weight[rng.integers(m)] = 1.0
        found["sample_weight"] = weight
    if family == "nu_svc":
        w = found.get("sample_weight", np.ones(m))
        sums = w[found["y"] > 0].sum(), w[found["y"] < 0].sum()
        if min(sums) > 0:
            found["nu"] = min(found["nu"], 2.0 * min(sums) / sum(sums))
    if family == "polytope_distance":
        found["chi"] = choices.one_of((None, None, *PENALTY_VALUES))
    if family == "svr":
        found["epsilon"] = choices.one_of((0.1, 0.0, 1e-6, 1.0, 100.0))
    if family in ("l2_svm", "hinge", "svr", "hinge_primal", "lp_svm", "ls_svm"):
        found["bias"] = choices.boolean()
    return found, labeling


def _general(choices: Choices, rng: Any, family: str, m: int, d: int, tol: float) -> Problem:
    scale = 10.0 ** choices.one_of((0, 0, 0, -4, 4, -8, 8))
    domain = choices.one_of(("simplex", "hypercube", "l1_ball", "l2_ball"))
    A = rng.standard_normal((d, m)) * scale
    zero = choices.boolean()  # a value of 0 is reached: the right side is that of a point inside
    inside = np.full(m, 1.0 / m)
    b = A @ inside if zero else scale * rng.standard_normal(d)
    if family == "least_squares":
        X, parameters = A, {"b": b}
    else:
        X = A.T @ A
        X, parameters = 0.5 * (X + X.T), {"c": -(A.T @ b)}
    notes = (f"scale {scale:g}", "value 0" if zero else "")
    return Problem(family, "precomputed", {}, X, "C", parameters, "auto", tol, False, domain, notes)
