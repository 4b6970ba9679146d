"""Ctrl-C at random times: a certified answer or KeyboardInterrupt, and nothing is left behind."""

from __future__ import annotations

import os

import pytest

import qpsvm
from tests.faults.interrupts import PROBLEMS_OF_METHODS, Trial, campaign, pressing_after

needs_signals = pytest.mark.skipif(os.name == "nt", reason="os.kill ends a process of Windows")


@needs_signals
@pytest.mark.parametrize("method", ["smo", "mfw", "decomposition", "mnp", "crsvm", "nesvm"])
def test_an_interrupt_leaves_bounds_that_hold(method, rng):
    trial = Trial(method)
    ends = {trial.interrupted(trial.seconds * share) for share in (0.0, *rng.random(3))}
    assert not trial.failures
    assert ends <= {"raised", "INTERRUPTED", "OPTIMAL", "STALLED", "MAX_ITER"}
    assert trial.short() == trial.bits


@needs_signals
def test_an_interrupt_of_a_solve_that_has_ended_is_the_users():
    with pytest.raises(KeyboardInterrupt), pressing_after(0.0):
        while True:
            pass


@needs_signals
@pytest.mark.slow
def test_a_hundred_interrupts_of_all_methods():
    found = campaign(100, seed=1)
    assert not found.failures and set(found.ends) == set(PROBLEMS_OF_METHODS)
    assert "iteration" in found.phases


def test_the_table_names_methods_that_fit():
    for method, declare in PROBLEMS_OF_METHODS.items():
        assert method in qpsvm.methods(declare()), method
