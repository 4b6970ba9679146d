"""Exact values of tiny problems: floats are rational numbers, and so are quadratics of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.fuzz.problem import TUBE_FAMILIES, Problem
from tests.fuzz.quadratic import Quadratic

LARGEST_FOR_FRACTIONS = 6
"""Maximum number of points at which values are computed exactly."""


def fits(problem: Problem) -> bool:
    """Return whether the kernel has rational values and the problem is tiny."""
    rational = problem.kernel in ("linear", "precomputed", "polynomial")
    return (
        rational
        and problem.m <= LARGEST_FOR_FRACTIONS
        and problem.X.size <= 60
        and problem.family not in ("least_squares", "quadratic_program", "one_class", "nu_svc")
        and np.isfinite(np.asarray(problem.parameters.get("C", 1.0))).all()
    )


def value(problem: Problem, program: Quadratic, x: Any) -> Fraction:
    """Return the exact value of weights x of a dual family.

    The largest weight of each group is changed so that the equality holds exactly. A translation of all
    points then leaves the value.
    """
    rows = np.flatnonzero(program.kept)
    K = _gram(problem, rows)
    x = [Fraction(float(one)) for one in x]
    for group in program.groups:
        s = [Fraction(float(one)) for one in group.sign]
        missed = Fraction(float(group.total)) - sum(
            (a * x[i] for a, i in zip(s, group.where, strict=True)), Fraction(0)
        )
        j = int(np.argmax([x[i] for i in group.where]))
        x[group.where[j]] += missed / s[j]
    sign = [Fraction(float(one)) for one in program.sign]
    weights = [Fraction(0)] * len(rows)
    for i, p in enumerate(program.point):
        weights[p] += sign[i] * x[i]
    total = Fraction(0)
    for i, a in enumerate(weights):
        for j, b in enumerate(weights):
            total += a * b * K[i][j]
    total *= Fraction(program.factor) / 2
    for i, ridge in enumerate(_ridge(problem, rows, len(x))):
        total += ridge * x[i] * x[i] / 2
    for i, c in enumerate(_linear(problem, rows, K, len(x))):
        total += c * x[i]
    return total


def _gram(problem: Problem, rows: np.ndarray) -> list[list[Fraction]]:
    X = [[Fraction(float(v)) for v in problem.X[i]] for i in rows]
    if problem.kernel == "precomputed":
        K = [[X[i][j] for j in rows] for i in range(len(rows))]
    else:
        K = [[sum((a * b for a, b in zip(p, q, strict=True)), Fraction(0)) for q in X] for p in X]
    if problem.kernel == "polynomial":
        gamma, coef0 = (Fraction(float(problem.settings[name])) for name in ("gamma", "coef0"))
        K = [[(gamma * k + coef0) ** int(problem.settings["degree"]) for k in row] for row in K]
    if problem.family in ("l2_svm", "l2_svr") and problem.parameters["bias"]:
        K = [[k + 1 for k in row] for row in K]
    return K


def _ridge(problem: Problem, rows: np.ndarray, n: int) -> list[Fraction]:
    given = problem.parameters
    if problem.family in ("l2_svm", "l2_svr"):
        C = np.broadcast_to(given["C"], problem.m)[rows]
        return [1 / Fraction(float(c)) for c in C] * (n // len(rows))
    if problem.family == "polytope_distance" and given["chi"] not in (None, np.inf):
        return [1 / Fraction(float(given["chi"]))] * n
    return [Fraction(0)] * n


def _linear(problem: Problem, rows: np.ndarray, K: list[list[Fraction]], n: int) -> list[Fraction]:
    given = problem.parameters
    if problem.family in ("meb", "svdd"):
        return [-K[i][i] for i in range(n)]
    if problem.family == "hinge":
        return [Fraction(-1)] * n
    if problem.family in TUBE_FAMILIES:
        y = [Fraction(float(v)) for v in np.asarray(given["y"])[rows]]
        epsilon = Fraction(float(given.get("epsilon", 0.0)))
        return [epsilon - v for v in y] + [epsilon + v for v in y]
    return [Fraction(0)] * n
