"""The judges are judged: Clarabel against closed forms and against OSQP, primal against dual."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import reference
from problems import INSTANCES, Instance
from reference import FORMULATIONS
from reference.solving.pairs import PairTextbook
from reference.textbook import Candidate
from tests import independent


def every(*, slow=lambda instance: False):
    return pytest.mark.parametrize(
        "instance",
        [
            pytest.param(instance, id=name, marks=pytest.mark.slow if slow(instance) else ())
            for name, instance in INSTANCES.items()
        ],
    )


def real(instance: Instance) -> bool:
    return "real" in instance.tags


@every()
def test_closed_forms(instance):
    known = reference.answer(instance)
    exact = known.value if instance.exact is None else instance.exact
    scale = float(FORMULATIONS[instance.family](instance.data()).scale)
    assert abs(known.value - exact) <= known.residual + 4 * independent.EPS * abs(exact)
    assert known.residual <= 1e-6 * abs(known.value) + 1e-15 * scale


@every(slow=real)
@pytest.mark.slow  # it checks the reference, not the library
def test_clarabel_and_osqp_agree(instance):
    """OSQP may be inexact; its verified residual says by how much."""
    clarabel, osqp = reference.answer(instance), reference.answer_osqp(instance)
    assert abs(clarabel.value - osqp.value) <= clarabel.residual + osqp.residual


@pytest.mark.parametrize("family", FORMULATIONS)
def test_primal_and_dual_agree(family):
    """Both textbook problems of a random instance have one value; the dual's x attains it."""
    instance = next(i for i in INSTANCES.values() if i.family == family and "random" in i.tags)
    form = FORMULATIONS[family](instance.data())
    if isinstance(form, PairTextbook):
        pair, known = form.pair("Clarabel"), reference.answer(instance)
        assert pair.primal == pytest.approx(known.value, rel=1e-6)
        assert pair.dual == pytest.approx(known.value, rel=1e-6)
        return
    primal, dual, known = form.primal(), form.dual(), reference.answer(instance)
    for candidate in (primal, dual):
        assert candidate.value == pytest.approx(known.value, rel=1e-6)
        upper, lower = form.bounds(form.standard_form().repair(candidate.x))
        assert lower <= known.value + known.residual <= upper + 2 * known.residual


def test_an_unverified_answer_is_not_believed(monkeypatch):
    """A solver that calls any corner optimal is found out by its bounds."""
    module, instance = sys.modules["reference.answer"], INSTANCES["meb/random-linear"]
    liar = type("Liar", (FORMULATIONS["meb"],), {})
    liar.primal = liar.dual = lambda self: Candidate(0.0, np.eye(len(self.K))[0])
    monkeypatch.setitem(FORMULATIONS, "meb", liar)
    monkeypatch.setattr(module, "polish", lambda form, x: x)
    with pytest.raises(reference.UnverifiedError, match="random-linear"):
        reference.answer.__wrapped__(instance)
