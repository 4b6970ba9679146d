"""What the benchmarks share: a selection of the catalogue, and one solve to a promised gap."""

from __future__ import annotations

from typing import Any

import numpy as np

import problems
import qpsvm
from qpsvm.solvers.methods import METHODS

INSTANCE_NAMES = [
    "l2_svm/breast-cancer-rbf",
    "meb/digits-rbf",
    "polytope_distance/digits-linear",
    "hinge/breast-cancer-rbf",
    "hinge_primal/digits-linear",
    "hinge_primal/no-bias-breast-cancer",
    "one_class/digits-rbf",
    "reduced_hulls/breast-cancer-rbf",
    "svdd/breast-cancer-rbf",
    "lp_svm/breast-cancer",
    "ls_svm/breast-cancer",
]
"""Instances that are measured, one of each family, on real data."""

SELECTED_INSTANCES = {one.name: one for one in problems.select() if one.name in INSTANCE_NAMES}
assert len(SELECTED_INSTANCES) == len(INSTANCE_NAMES), sorted(
    set(INSTANCE_NAMES) - set(SELECTED_INSTANCES)
)
TIME_LIMIT = 20.0  # seconds: what is slower is a failure, said as such


def distinct_methods() -> list[str]:
    """Return the methods of METHODS without second names of the same settings."""
    solvers: list[Any] = []
    names = []
    for name, method in METHODS.items():
        if method.solver() not in solvers:
            solvers.append(method.solver())
            names.append(name)
    return names


def fitting_pairs(names: list[str]) -> list[str]:
    """Return "instance method" for all these instances and the methods that solve their family."""
    K, y = np.eye(2), [1, -1]
    small = {
        "l2_svm": qpsvm.L2SVMDual(K, y),
        "meb": qpsvm.MEBDual(K),
        "polytope_distance": qpsvm.PolytopeDistanceDual(K, y),
        "hinge": qpsvm.HingeDual(K, y),
        "hinge_primal": qpsvm.HingePrimal(K, y),
        "no-bias": qpsvm.HingePrimal(K, y, bias=False),
        "one_class": qpsvm.OneClassDual(K, nu=1.0),
        "reduced_hulls": qpsvm.NuSVCDual(np.eye(4), [1, -1, 1, -1], nu=1.0),
        "svdd": qpsvm.SVDDDual(K, C=0.75),
        "svr": qpsvm.SVRDual(K, y),
        "nu_svr": qpsvm.NuSVRDual(K, y),
        "lp_svm": qpsvm.LPSVMPrimal(K, y),
        "ls_svm": qpsvm.LSSVMPrimal(K, y),
    }  # data are loaded by the benchmark that needs them, not by all of them
    known = distinct_methods()
    fitting = {
        name: qpsvm.methods(
            small["no-bias" if "no-bias" in name else SELECTED_INSTANCES[name].family]
        )
        for name in names
    }
    return [f"{name} {method}" for name in names for method in fitting[name] if method in known]


def settle(problem: Any, method: str, tol: float | None = None) -> qpsvm.Result:
    """Solve to the gap that the method promises, or to `tol`; anything less is an error."""
    tol = METHODS[method].gap if tol is None else tol
    result = qpsvm.solve(problem, method, tol=tol, time_limit=TIME_LIMIT)
    if not result.converged:
        reached = result.certificate.relative_gap
        raise RuntimeError(f"{method}: {result.status.name} at gap {reached:.1e}, tol {tol:.0e}")
    return result


def compile_steps(method: str, dtype: type = np.float64) -> None:
    """Solve small problems that the method fits, so that nothing measured holds compilation."""
    X = np.random.default_rng(0).standard_normal((40, 3)).astype(dtype)
    y = np.where(np.arange(40) < 20, 1.0, -1.0)
    for problem in (
        qpsvm.L2SVMDual(qpsvm.RBF(X), y),
        qpsvm.PolytopeDistanceDual(qpsvm.RBF(X), y),
        qpsvm.HingeDual(qpsvm.RBF(X), y),
        qpsvm.HingePrimal(X, y),
    ):
        if method in qpsvm.methods(problem):
            qpsvm.solve(problem, method)


def ball_of_many() -> Any:
    """Return the ball around 50,000 points in ten dimensions; K would take 20 GB."""
    X = np.random.default_rng(0).standard_normal((50_000, 10))
    return qpsvm.MEBDual(qpsvm.RBF(X, "mean-distance"))


def classifier_of_many() -> Any:
    """Return an L2-SVM on 4,000 points of two overlapping clouds."""
    y = np.where(np.arange(4000) % 2 == 0, 1.0, -1.0)
    X = np.random.default_rng(0).standard_normal((4000, 10)) + y[:, None] / 2
    return qpsvm.L2SVMDual(qpsvm.RBF(X, "scale"), y, C=1.0)


LARGE_PROBLEMS = {"ball, 50,000 points": ball_of_many, "L2-SVM, 4,000 points": classifier_of_many}
"""Made here, larger than the instances of the catalogue."""
