"""The same call gives the same bits, however it is cut, and leaves what it was given alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from problems import INSTANCES
from qpsvm.solvers.base import Stop
from qpsvm.solvers.methods import METHODS
from tests.cases import QUICK_INSTANCES, cases, quick_cases


@pytest.mark.parametrize("case", quick_cases())
def test_same_call_same_bits(case):
    instance, method = case

    def bits():
        steps = min(2000, METHODS[method].budget // 20)
        result = qpsvm.solve(instance.declare(), method, tol=1e-6, max_iter=steps)
        history = result.history
        parts = (result.x, result.dual, history.iteration, history.upper, history.lower)
        return [part.tobytes() for part in parts], result.certificate, result.counters

    assert bits() == bits()


@pytest.mark.parametrize("case", cases())
def test_chunk_invariance(case):
    """advance(a) then advance(b) equals advance(a + b), bit for bit."""
    instance, method = case

    def advanced(*chunks):
        form = next(form for form in instance.declare().forms() if METHODS[method].fits(form))
        solver = METHODS[method].maker(form)()
        with form.with_store(1 << 28) as qp:
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


@pytest.mark.parametrize("name", sorted(QUICK_INSTANCES))
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


PORTABLE_ANSWERS = {
    "svdd": lambda X, y: qpsvm.SVDDDual(qpsvm.RBF(X, 0.5), C=0.3),
    "ball": lambda X, y: qpsvm.MEBDual(qpsvm.Linear(X)),
    "hinge": lambda X, y: qpsvm.HingeDual(qpsvm.RBF(X, 0.5), y),
    "linear hinge": lambda X, y: qpsvm.HingeDual(qpsvm.Linear(X), y),
    "least squares": lambda X, y: qpsvm.LSSVMPrimal(qpsvm.RBF(X, 0.5), y),
}


def placed(array, offset):
    """Return a copy whose first entry lies so many bytes behind a line of the cache."""
    memory = np.empty(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    out = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[:] = array
    return out


@pytest.mark.parametrize("m", [8, 60])
@pytest.mark.parametrize("declare", PORTABLE_ANSWERS.values(), ids=PORTABLE_ANSWERS)
def test_the_same_answer_wherever_the_points_lie_and_in_any_thread(declare, m, rng):
    """To roundoff, as the docs say: libraries may sum in another order where an array lies elsewhere."""
    X, y = rng.standard_normal((m, 3)), np.where(np.arange(m) % 2, 1.0, -1.0)

    def answer(offset):
        result = qpsvm.solve(declare(placed(X, offset), y), tol=1e-9)
        return result.certificate.upper, result.certificate.lower

    def close(pair):
        np.testing.assert_allclose(pair, here, rtol=1e-8)

    here = answer(0)
    for offset in range(8, 64, 8):
        close(answer(offset))
    with ThreadPoolExecutor(2) as pool:  # while another solve runs
        for pair in pool.map(answer, (0, 8, 0, 24)):
            close(pair)
