"""Memory: announced before it is taken, counted in the result, and kept below the limit."""

from __future__ import annotations

import logging
import tracemalloc

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import RBF, HingeDual, InputError, L2SVMDual, Status, solve
from qpsvm.expansion import Expansion
from qpsvm.gram.base import BLOCK_ENTRIES
from qpsvm.gram.storage.integer import integer_points
from qpsvm.solvers.base import FLOOR_BYTES

X, Y = two_clouds(2500, 5, seed=51)
X = X.astype(np.float32)
COLUMN_BYTES = 4 * len(X)
DECLARED_PROBLEMS = {"smo": HingeDual, "mfw": L2SVMDual, "fw": L2SVMDual}


@pytest.mark.parametrize("method", DECLARED_PROBLEMS)
@pytest.mark.parametrize("columns", [20, 300])
def test_the_peak_is_the_limit_and_a_block(method, columns):
    """Beside the columns: a block of recomputed products, and tens of vectors of m numbers."""
    problem = DECLARED_PROBLEMS[method](RBF(X, 0.1), Y)
    solve(problem, method, max_iter=10)  # compile
    limit = columns * COLUMN_BYTES
    tracemalloc.start()
    result = solve(problem, method, memory_limit=limit, max_iter=1500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.counters["columns"] > columns
    assert 0.9 * limit <= result.counters["bytes"] <= limit
    assert peak <= limit + 3 * 8 * BLOCK_ENTRIES + 100 * 8 * len(X)


MATRIX_CASES = {
    "decomposition": lambda K, y: HingeDual(K, y, C=10.0),
    "mnp": lambda K, y: L2SVMDual(K, y),
    "face-newton": lambda K, y: L2SVMDual(K, y),
}


@pytest.mark.parametrize("method", MATRIX_CASES)
@pytest.mark.parametrize("limit", [pytest.param(1_000_000, marks=pytest.mark.slow), 100_000_000])
def test_matrices_of_a_methods_own_count(method, limit):
    """Beneath the limit there is a floor: 16 MB of matrices, a block of kernel values, vectors of m."""
    m = 5000
    rng = np.random.default_rng(0)
    points = rng.standard_normal((m, 10))
    labels = np.where(points[:, 0] + 0.5 * rng.standard_normal(m) > 0, 1.0, -1.0)
    options = {"memory_limit": limit, "tol": 1e-4, "max_iter": 6}
    solve(
        MATRIX_CASES[method](RBF(points[:2500], 0.1), labels[:2500]), method, **options
    )  # compile
    problem = MATRIX_CASES[method](RBF(points, 0.1), labels)
    tracemalloc.start()
    result = solve(problem, method, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    counters = result.counters
    assert 0 < counters["bytes"] + counters.get("matrix_bytes", 0) <= limit + FLOOR_BYTES
    assert peak <= limit + FLOOR_BYTES + 8 * BLOCK_ENTRIES + 200 * 8 * m


def test_a_face_for_which_there_is_no_memory_ends_the_method_and_says_so(caplog):
    problem = L2SVMDual(RBF(X, 1.0), Y, C=1.0)
    with caplog.at_level(logging.WARNING, "qpsvm"):
        result = solve(problem, "mnp", memory_limit=1_000_000, tol=1e-9)
    assert result.status is Status.STALLED and "memory_limit" in caplog.text
    assert solve(problem, "mnp", tol=1e-9).converged


def test_the_columns_are_announced_before_they_are_taken():
    seen = []

    class Listener(logging.Handler):
        def emit(self, record):
            seen.append((record.getMessage(), tracemalloc.get_traced_memory()[0]))

    log, listener, limit = logging.getLogger("qpsvm"), Listener(), 1000 * COLUMN_BYTES
    level = log.level
    log.addHandler(listener)
    log.setLevel(logging.INFO)
    tracemalloc.start()
    try:
        solve(HingeDual(RBF(X, 0.1), Y), "smo", memory_limit=limit, max_iter=5)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        log.removeHandler(listener)
        log.setLevel(level)
    message, before = seen[0]
    assert f"at most 1000 of 2500 columns: {limit} bytes, of a memory_limit of {limit}" in message
    assert before < limit / 4 < limit <= peak


def test_no_more_is_held_than_was_computed():
    result = solve(HingeDual(RBF(X, 0.1), Y), "smo", max_iter=50)
    assert (
        result.counters["bytes"] == COLUMN_BYTES * result.counters["columns"] < 250 * COLUMN_BYTES
    )
    K = RBF(X[:50]).block(np.arange(50))
    assert solve(HingeDual(K, Y[:50])).counters["bytes"] == 0  # the matrix is the user's


def test_a_limit_too_small_for_a_step_is_refused():
    with pytest.raises(
        InputError, match=r"memory_limit must allow 8 columns of 10,000 bytes; got 1,000"
    ):
        solve(HingeDual(RBF(X, 0.1), Y), memory_limit=1000)


def test_prediction_holds_a_block_at_a_time():
    """The kernel values of all points would take 320 MB."""
    rng = np.random.default_rng(52)
    model = Expansion(RBF(rng.random((2000, 5)), 1.0), np.arange(2000), rng.standard_normal(2000))
    points = rng.random((20_000, 5))
    model(points[:100])
    tracemalloc.start()
    model(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def test_a_unit_is_found_without_a_copy_of_the_points_in_float64():
    X = np.random.default_rng(0).integers(0, 256, (4000, 500)) / 255
    integer_points(X[:2000])  # memory that is kept
    tracemalloc.start()
    unit = integer_points(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert unit is not None and unit.points.dtype == np.float32
    assert np.array_equal(unit.norms, np.sum(np.rint(255 * X) ** 2, axis=1))
    assert peak < unit.points.words.nbytes + 0.5 * X.nbytes
