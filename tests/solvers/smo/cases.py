"""Problems whose steps on pairs are tested, and their states."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from qpsvm import HingeDual, L2SVMDual, MEBDual, NuSVCDual, PolytopeDistanceDual, SVDDDual
from qpsvm.solvers.smo.smo import SMO

PROBLEM_KINDS = {
    "hinge": lambda K, y: HingeDual(K, y, 0.5),
    "weighted": lambda K, y: HingeDual(K, y, np.where(y > 0, 0.3, 2.0)),
    "nu-svc": lambda K, y: NuSVCDual(K, y, 0.3),
    "l2-svm": lambda K, y: L2SVMDual(K, y, 1.0),
    "ball": lambda K, y: MEBDual(K),
    "soft ball": lambda K, y: SVDDDual(K, max(0.05, 1.5 / len(y))),
    "hulls": lambda K, y: PolytopeDistanceDual(K, y),
}
"""Boxes with a hyperplane, simplices, products of simplices, with bounds and without."""


@contextmanager
def started(problem, n_slots=None):
    """Yield the problem with a store, all columns cached unless fewer are asked for, and the state."""
    form = problem.as_qp()
    with form.gram.kernel.hold((n_slots or form.m) * 8 * form.m) as store:
        with_store = replace(form, store=store)
        if n_slots is None:
            store.ensure(np.arange(form.m))
        yield with_store, SMO().init(with_store, None, np.random.default_rng(0))


def assert_index_sets_are_those_of_the_weights(state):
    """The barriers of each group are 0 in I_up and in I_low, and infinite outside."""
    in_up, in_low = index_sets(state)
    for g in range(len(state.up_barrier)):
        mine = state.group == g
        np.testing.assert_array_equal(state.up_barrier[g] == 0, in_up & mine)
        np.testing.assert_array_equal(state.low_barrier[g] == 0, in_low & mine)


def assert_bounds_are_reached_exactly(problem, state):
    """Make steps after which some weights are at a bound; none is within rounding of one."""
    SMO().advance(problem, state, 400)
    near = np.minimum(state.x, state.upper - state.x) < 1e-12 * np.max(state.upper)
    assert np.any(near & (state.x > 0)) and np.any(state.x == 0)
    assert np.all((state.x == 0) | (state.x == state.upper) | ~near)
    assert_index_sets_are_those_of_the_weights(state)


def index_sets(state):
    """Return I_up and I_low: whose z x can grow, and whose can shrink."""
    grows, shrinks = state.x < state.upper, state.x > 0
    positive = state.z > 0
    return np.where(positive, grows, shrinks), np.where(positive, shrinks, grows)
