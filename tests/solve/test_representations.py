"""However the same data are given and stored, the certified intervals meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from problems import INSTANCES, PRIMAL_FAMILIES
from qpsvm import Cached, Precomputed, Status
from tests.cases import QUICK_INSTANCES, with_points
from tests.independent import EPS


def tight(problem):
    """Return the bytes for nine columns: hardly more than the fewest that can be cached.

    Those that `smo` reads in a regression are over both signs of each point.
    """
    regressions = qpsvm.SVRDual | qpsvm.L2SVRDual | qpsvm.NuSVRDual
    n_copies = 2 if isinstance(problem, regressions) else 1
    return 9 * 8 * n_copies * len(problem.y if hasattr(problem, "y") else problem.K.diag())


def dense_matrix(instance, problem):
    return problem, instance.declare("dense"), {}


def tight_memory(instance, problem):
    return problem, problem, {"memory_limit": tight(problem)}


def cached(instance, problem):
    return problem, replace(problem, K=Cached(problem.K)), {}


def cached_in_tight_memory(instance, problem):
    return problem, replace(problem, K=Cached(problem.K, tight(problem))), {}


def other_storage(instance, problem):
    X = instance.data()["X"]
    return problem, with_points(problem, X.toarray() if sp.issparse(X) else sp.csr_matrix(X)), {}


def single_precision(instance, problem):
    """The same numbers, all of which float32 can hold, in both precisions."""
    if "K" in instance.data():
        K = instance.data()["K"].astype(np.float32)
        both = Precomputed(K), Precomputed(K.astype(np.float64))
        return *(replace(problem, K=given) for given in both), {}
    X = instance.data()["X"].astype(np.float32)
    return with_points(problem, X), with_points(problem, X.astype(np.float64)), {}


FOR_A_MATRIX = (single_precision,)
FOR_A_PRIMAL = (*FOR_A_MATRIX, other_storage, tight_memory)
FOR_POINTS = (*FOR_A_PRIMAL, dense_matrix, cached, cached_in_tight_memory)


def changes(instance):
    if "K" in instance.data():
        return FOR_A_MATRIX
    return FOR_A_PRIMAL if instance.family in PRIMAL_FAMILIES else FOR_POINTS


@pytest.mark.parametrize(
    ("instance", "change"),
    [
        pytest.param(
            instance,
            change,
            id=f"{instance}-{change.__name__}",
            marks=() if instance.name in QUICK_INSTANCES else pytest.mark.slow,
        )
        for instance in INSTANCES.values()
        for change in changes(instance)
    ],
)
def test_intervals_meet(instance, change):
    one, other, options = change(instance, instance.declare())
    a = qpsvm.solve(one, tol=1e-6, max_iter=2000)
    b = qpsvm.solve(other, tol=1e-6, max_iter=2000, **options)
    assert Status.NONCONVEX not in (a.status, b.status)
    # entries of K are rounded differently: relative to |x_i| |x_j|, which is much far from zero
    weights = a.dual if instance.family in PRIMAL_FAMILIES else a.x
    K = one.gram if instance.family in PRIMAL_FAMILIES else one.K
    error = 64 * EPS * float(K.diag().max()) * float(np.abs(weights).sum()) ** 2
    error += a.certificate.roundoff + b.certificate.roundoff
    assert a.certificate.lower <= b.certificate.upper + error
    assert b.certificate.lower <= a.certificate.upper + error
