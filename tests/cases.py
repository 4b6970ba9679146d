"""Instance x method, for the tests that run over the whole catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import qpsvm
from problems import INSTANCES
from qpsvm.gram import Gram

QUICK_INSTANCES = {
    "l2_svm/random-rbf-C10",
    "l2_svm/random-sparse",
    "l2_svm/random-weighted",
    "meb/random-linear",
    "meb/random-float32",
    "polytope_distance/random-rbf-chi1",
    "polytope_distance/random-separable",
    "hinge/random-rbf-C10",
    "hinge/separable-hard-margin",
    "hinge_primal/random-linear-C1",
    "hinge_primal/no-bias-linear-C1",
    "one_class/random-rbf-nu0.1",
    "reduced_hulls/random-rbf-nu0.5",
    "reduced_hulls/random-weighted",
    "svdd/random-linear-C0.05",
    "svr/random-rbf-C10",
    "svr/random-weighted",
    "l2_svr/random-rbf-C10",
    "l2_svr/random-weighted-linear",
    "l2_svr/no-bias-sparse",
    "nu_svr/random-rbf-nu0.5",
    "nu_svr/random-weighted",
    "lp_svm/random-C1",
    "lp_svm/no-bias-sparse",
    "lp_svm/random-rbf",
    "lp_svm/no-bias-rbf-weighted",
    "lp_svm/random-sigmoid",
    "ls_svm/random-weighted",
    "ls_svm/no-bias-rbf",
}
"""Instances that have something of everything."""


def cases(everywhere: tuple[str, ...] = ()) -> list[Any]:
    """Return all pairs (instance, method) that fit.

    By default a test run takes the methods `everywhere` on all instances and the others on the
    `QUICK_INSTANCES` ones; the remaining pairs are marked slow.
    """
    return [
        pytest.param(
            (instance, method),
            id=f"{instance}-{method}",
            marks=()
            if method in everywhere or instance.name in QUICK_INSTANCES
            else pytest.mark.slow,
        )
        for instance in INSTANCES.values()
        for method in qpsvm.methods(instance.declare())
    ]


def quick_cases() -> list[Any]:
    """Return the pairs of the `QUICK_INSTANCES`."""
    return [case for case in cases() if not case.marks]


def with_points(problem: Any, X: Any) -> Any:
    """Return the problem on other points, the parameters of the kernel unchanged."""
    if hasattr(problem, "X"):
        kernel = isinstance(problem.X, Gram)
        return replace(problem, X=replace(problem.X, X=X) if kernel else X)
    return replace(problem, K=replace(problem.K, X=X))
