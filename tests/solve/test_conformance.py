"""Every instance by every method that fits: the answer is true, tight and feasible."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import qpsvm
import reference
from problems import PRIMAL_FAMILIES, Instance
from qpsvm import Status
from qpsvm.canonical.margin import MarginProblem
from qpsvm.solvers.methods import METHODS
from tests import independent
from tests.cases import cases


@dataclass(frozen=True)
class Case:
    """An instance solved by a method as its METHODS entry promises to."""

    instance: Instance
    method: str

    @property
    def tol(self) -> float:
        entry = METHODS[self.method]
        return entry.gap if entry.form is MarginProblem else entry.gap_on(self.problem.as_qp())

    @cached_property
    def problem(self) -> Any:
        return self.instance.declare()

    @cached_property
    def promised(self) -> bool:
        """Whether the gap declared in METHODS has to be reached within the budget there.

        Excepted are the instances on which first-order methods converge slowly. Where the value is small
        beside the diagonal, a method that declares no small gap is excepted, since its error is
        1/k in units of the diagonal; and so is a gap that is below the rounding of the products.
        """
        if METHODS[self.method].form is MarginProblem:
            return True
        if "ill-conditioned" in self.instance.tags or "zero-optimum" in self.instance.tags:
            return "ill-conditioned" not in self.instance.tags
        gram = self.problem.as_qp().gram
        value, scale = reference.answer(self.instance).value, np.max(gram.diag() + gram.ridge)
        least = 1e-4 if self.tol > 1e-6 else 8 * independent.EPS / self.tol
        return abs(value) >= least * scale

    @cached_property
    def result(self) -> qpsvm.Result:
        budget = METHODS[self.method].budget // (1 if self.promised else 100)
        return qpsvm.solve(self.problem, self.method, tol=self.tol, max_iter=budget)

    @cached_property
    def checked(self) -> independent.Bounds:
        return independent.check(self.instance, self.result)


@pytest.fixture(scope="module", params=cases(everywhere=("fw", "mfw", "smo", "mnp")))
def case(request):
    return Case(*request.param)


def test_status_is_true(case):
    c, status = case.result.certificate, case.result.status
    assert (status is Status.OPTIMAL) == case.result.converged == c.passed
    assert c.tol == case.tol
    size = max(abs(c.upper), abs(c.lower))
    relative, absolute = (
        c.gap <= case.tol * size,
        max(c.gap, size - c.gap) <= c.floor and c.lower <= 0,
    )
    assert c.test == ("relative" if relative else "absolute" if absolute else "none")
    if status is Status.OPTIMAL:  # believed only when it is proved again
        upper, lower, error, _, _ = case.checked
        size = max(abs(upper), abs(lower))
        floor = c.floor if c.test == "absolute" else 0.0
        assert upper - lower <= case.tol * size + floor + 2 * error


def test_bounds_enclose_the_reference(case):
    c, known = case.result.certificate, reference.answer(case.instance)
    error = known.residual + 4 * independent.EPS * abs(known.value)
    assert c.lower <= known.value + error
    assert known.value <= c.upper + c.roundoff + error
    assert abs(c.upper - case.checked.upper) <= case.checked.error + 1e-12 * abs(c.upper)
    exact = case.instance.exact
    assert exact is None or abs(case.result.value - exact) <= c.gap + error


def test_reaches_the_gap_it_declares(case):
    if case.promised:
        assert case.result.status is Status.OPTIMAL
        assert case.result.n_iter <= METHODS[case.method].budget


def test_answer_is_feasible(case):
    weights = case.result.dual if case.instance.family in PRIMAL_FAMILIES else case.result.x
    if case.instance.family in ("svr", "l2_svr", "nu_svr"):
        weights = np.sum(np.split(weights, 2), axis=0)  # of both signs of a point
    assert case.result.certificate.violation <= 1e-12 * max(1.0, float(np.abs(weights).sum()))
    assert case.checked.violation <= 1e-12
    np.testing.assert_array_equal(case.result.support, np.flatnonzero(weights))
