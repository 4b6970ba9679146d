"""Rates of convergence on a fixed instance: linear with away or pair steps, sublinear without."""

from __future__ import annotations

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import RBF, L2SVMDual, Linear, solve

rng = np.random.default_rng(7)
X = rng.standard_normal((150, 4))
Y = np.where(X[:, 0] + 0.5 * rng.standard_normal(150) > 0, 1.0, -1.0)
INTERIOR_PROBLEM = L2SVMDual(RBF(X, gamma=0.3), Y, C=1.0)
FACE_PROBLEM = L2SVMDual(RBF(X, gamma=0.3), Y, C=10.0)  # a third of the points carry no weight


@pytest.mark.parametrize("method", ["mfw", "pfw", "bpfw", "swap"])
def test_linear(method):
    """log(gap) falls along a line: each further digit costs about as many iterations."""
    seen = {}
    for stop in range(25, 5000, 25):  # checks lie at powers of two; limits add the ones between
        c = solve(INTERIOR_PROBLEM, method, tol=1e-10, max_iter=stop).certificate
        seen[stop] = c.relative_gap
        if c.passed:
            break
    assert c.passed
    k, gap = np.array(sorted(seen.items())).T
    tail = gap < 1e-2
    slope = np.polyfit(k[tail], np.log(gap[tail]), 1)[0]
    assert slope < 0 and tail.sum() >= 4
    assert np.corrcoef(k[tail], np.log(gap[tail]))[0, 1] < -0.95


def test_sublinear():
    """The error of fw falls like 1/k where the optimum lies on a proper face."""
    best = solve(FACE_PROBLEM, "mfw", tol=1e-10).value
    counts = 500 * 2 ** np.arange(7)
    errors = [
        solve(FACE_PROBLEM, "fw", tol=1e-12, max_iter=int(k)).value / best - 1.0 for k in counts
    ]
    scaled = counts * np.array(errors)
    assert scaled.max() < 3 * scaled.min()


def test_where_first_order_methods_are_slow_the_active_set_is_not():
    """A linear Gram of rank 5 and next to no ridge, overlapping classes."""
    points, y = two_clouds(300, 5, seed=41)
    problem = L2SVMDual(Linear(points), y, C=1e6)
    slow = solve(problem, "mfw", tol=1e-6, max_iter=20_000)
    exact = solve(problem, "mnp", tol=1e-6)
    assert not slow.converged and slow.certificate.relative_gap > 0.1
    assert exact.converged and exact.n_iter < 100
    assert slow.certificate.lower <= exact.value <= slow.value
