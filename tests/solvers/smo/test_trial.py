"""Pair steps on few points with few features, before an interior-point method."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import HingeDual, Linear, solve
from qpsvm.solvers.smo.smo import SMO


def clouds(n_each, d=4):
    """Two overlapping normal clouds, their points in random order."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([-1.0, 1.0], n_each))
    means = 1.5 * rng.standard_normal((2, d))
    return rng.standard_normal((len(y), d)) + means[(y > 0).astype(int)], y


@pytest.mark.parametrize(("C", "method"), [(0.1, "smo"), (100.0, "crsvm")])
def test_auto_tries_pair_steps_where_weights_are_bounded_low(C, method):
    X, y = clouds(40)
    result = solve(HingeDual(Linear(X), y, C=C))
    assert result.method == method and result.converged


def test_crsvm_continues_pair_steps(monkeypatch):
    monkeypatch.setattr("qpsvm.solvers.smo.smo.max_trial_steps", lambda m, d: 1)
    monkeypatch.setattr(SMO, "first_check", 10)
    X, y = clouds(200, d=5)
    problem = HingeDual(Linear(X), y, C=0.9)
    result = solve(problem, tol=1e-9)
    assert result.method == "smo + crsvm" and result.converged and result.counters["pair"] > 1
    exact = solve(problem, "crsvm", tol=1e-9)
    assert result.certificate.lower <= exact.value <= result.value + exact.certificate.gap
