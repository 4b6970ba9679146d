"""The same call gives the same bits, however it is cut, and leaves what it was given alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import qpsvm
from problems import INSTANCES
from qpsvm.solvers import METHODS, Stop
from tests.cases import QUICK, cases

every_case = pytest.mark.parametrize("case", cases())


@every_case
def test_same_call_same_bits(case):
    instance, method = case

    def bits():
        result = qpsvm.solve(instance.declare(), method, tol=1e-6, max_iter=2000)
        history = result.history
        parts = (result.x, result.dual, history.iteration, history.upper, history.lower)
        return [part.tobytes() for part in parts], result.certificate, result.counters

    assert bits() == bits()


@every_case
def test_chunk_invariance(case):
    """advance(a) then advance(b) equals advance(a + b), bit for bit."""
    instance, method = case

    def advanced(*chunks):
        qp = instance.declare().as_qp()
        solver = METHODS[method].maker(qp)()
        with qp.gram.kernel.hold(1 << 28) as store:
            qp = replace(qp, store=store)
            state = solver.init(qp, None, np.random.default_rng(0))
            for chunk in chunks:
                if advance(qp, solver, state, chunk) is not Stop.BUDGET:
                    break
        return state.x.tobytes(), state.product.tobytes(), state.counters

    assert advanced(60) == advanced(23, 37) == advanced(*[1] * 60)


def advance(qp, solver, state, n_steps):
    """Make all the steps, through the pauses for missing columns; return why it came back."""
    while n_steps > 0:
        reply = solver.advance(qp, state, n_steps)
        n_steps -= reply.steps
        if reply.stop is not Stop.BUDGET:
            return reply.stop
    return Stop.BUDGET


@pytest.mark.parametrize("name", sorted(QUICK))
def test_callers_arrays_are_neither_written_nor_returned(name, monkeypatch):
    instance = INSTANCES[name]
    given = {k: v.copy() if hasattr(v, "copy") else v for k, v in instance.data().items()}
    arrays = [getattr(v, "data", v) for v in given.values() if hasattr(v, "dtype")]
    arrays = [a for a in map(np.asarray, arrays) if a.ndim]
    before = [a.copy() for a in arrays]
    problem = replace(instance, data=lambda: given).declare()
    start = qpsvm.solve(problem, tol=1e-2)
    kept = start.x.copy()
    result = qpsvm.solve(problem, tol=1e-6, x0=start, max_iter=2000)
    result.model.predict(given["X"][:3]) if hasattr(result.model, "predict") else None
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
        assert not np.shares_memory(array, result.x)
        assert not np.shares_memory(array, result.dual)
    np.testing.assert_array_equal(start.x, kept)
    assert not np.shares_memory(start.x, result.x)
