"""The stress set, 13 kinds x 5 seeds: no solver calls solved what is not, and all are solved."""

from __future__ import annotations

import pytest

import problems
import qpsvm
from qpsvm.solvers.methods import METHODS
from tests import independent

STRESS_INSTANCES = problems.select(tag="stress")
BEST_METHOD = "mnp" if "mnp" in METHODS else "smo"


def solved(instance, method, tol):
    """Return whether the answer is optimal; if it is called so, prove it again."""
    result = qpsvm.solve(instance.declare(), method, tol=tol)
    if result.converged:
        upper, lower, error, scale, violation = independent.check(instance, result)
        floor = 64 * independent.EPS * scale
        floor = floor if result.certificate.test == "absolute" else 0.0
        assert upper - lower <= tol * max(abs(upper), abs(lower)) + floor + 2 * error
        assert violation <= 1e-12
        exact = instance.exact
        assert exact is None or abs(result.value - exact) <= result.certificate.gap + error
    return result.converged


def test_there_are_65():
    assert len(STRESS_INSTANCES) == 65


@pytest.mark.parametrize("instance", STRESS_INSTANCES, ids=str)
def test_mfw_solves_every_one(instance):
    assert solved(instance, "mfw", tol=1e-6)


@pytest.mark.parametrize("method", dict.fromkeys(("mfw", BEST_METHOD)))
def test_nearly_all_are_solved_to_nine_digits(method):
    assert sum(solved(instance, method, tol=1e-9) for instance in STRESS_INSTANCES) >= 60
