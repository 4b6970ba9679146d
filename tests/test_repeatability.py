"""The same call gives the same bits, however it is cut, and leaves what it was given alone."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from problems import INSTANCES
from qpsvm.solvers import METHODS, Stop
from tests.cases import QUICK, cases

every_case = pytest.mark.parametrize("case", cases())


@every_case
def test_same_call_same_bits(case):
    instance, method = case

    def bits():
        steps = min(2000, METHODS[method].budget // 20)
        result = qpsvm.solve(instance.declare(), method, tol=1e-6, max_iter=steps)
        history = result.history
        parts = (result.x, result.dual, history.iteration, history.upper, history.lower)
        return [part.tobytes() for part in parts], result.certificate, result.counters

    assert bits() == bits()


@every_case
def test_chunk_invariance(case):
    """advance(a) then advance(b) equals advance(a + b), bit for bit."""
    instance, method = case

    def advanced(*chunks):
        form = next(form for form in instance.declare().forms() if METHODS[method].fits(form))
        solver = METHODS[method].maker(form)()
        with form.lend(1 << 28) as qp:
            state = solver.init(qp, None, np.random.default_rng(0))
            for chunk in chunks:
                if advance(qp, solver, state, chunk) is not Stop.BUDGET:
                    break
        return state.x.tobytes(), np.hstack(state.product).tobytes(), state.counters

    assert advanced(60) == advanced(23, 37) == advanced(*[1] * 60)


def advance(qp, solver, state, n_steps):
    """Make all the steps, through the pauses for missing columns; return why it came back."""
    while n_steps > 0:
        reply = solver.advance(qp, state, n_steps)
        n_steps -= reply.steps
        if reply.stop is not Stop.BUDGET:
            return reply.stop
    return Stop.BUDGET


def arrays(data):
    for value in data.values():
        if sp.issparse(value):
            yield from (value.data, value.indices, value.indptr)
        elif isinstance(value, np.ndarray):
            yield value


@pytest.mark.parametrize("name", sorted(QUICK))
def test_callers_arrays_are_neither_written_nor_returned(name):
    given, before = deepcopy(INSTANCES[name].data()), INSTANCES[name].data()
    assert all(array.flags.writeable for array in arrays(given))
    problem = replace(INSTANCES[name], data=lambda: given).declare()
    start = qpsvm.solve(problem, tol=1e-2)
    kept = start.x.copy()
    result = qpsvm.solve(problem, tol=1e-6, x0=start, max_iter=2000)
    for array, old in zip(arrays(given), arrays(before), strict=True):
        np.testing.assert_array_equal(array, old)
        assert not np.shares_memory(array, result.x)
        assert not np.shares_memory(array, result.dual)
    np.testing.assert_array_equal(start.x, kept)
    assert not np.shares_memory(start.x, result.x)
