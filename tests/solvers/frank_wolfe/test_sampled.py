"""Methods on samples: the paper's steps, in compiled code, within the limits, the same on every call."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    InputError,
    L2SVMDual,
    Linear,
    MEBDual,
    PolytopeDistanceDual,
    Precomputed,
    Status,
    solve,
)
from qpsvm.gram.base import BLOCK_ENTRIES
from qpsvm.solvers.base import Stop
from qpsvm.solvers.frank_wolfe.simplex import FrankWolfe
from qpsvm.solvers.methods import METHODS
from qpsvm.solvers.shared import sampling
from qpsvm.solvers.shared.sampling import Draws

X, Y = two_clouds(1500, 4, seed=61, distance=3.0)
X32 = X.astype(np.float32)
DECLARED_PROBLEMS = {
    "ball": lambda: MEBDual(RBF(X, 0.1)),
    "linear ball": lambda: MEBDual(Linear(X)),
    "machine": lambda: L2SVMDual(RBF(X, 0.1), Y, C=10.0),
    "distance": lambda: PolytopeDistanceDual(RBF(X, 0.1), Y, chi=10.0),
    "matrix": lambda: MEBDual(Precomputed(RBF(X, 0.1).block(np.arange(len(X))))),
}
WITHOUT_TIES = {
    name: declare for name, declare in DECLARED_PROBLEMS.items() if name != "linear ball"
}
"""After a line search between two far points their gradients are equal: rounding would decide."""
ON_SAMPLES = ("fw", "mfw", "cvm", "fcfw")
every_problem = pytest.mark.parametrize(
    "declare", DECLARED_PROBLEMS.values(), ids=DECLARED_PROBLEMS
)
every_method = pytest.mark.parametrize("method", ON_SAMPLES)


def advanced(problem, method, chunks, seed=0, memory_limit=1 << 28, exact=False, **options):
    """Return the state after so many steps, made in chunks; with `exact` on columns in float64."""
    form = problem.as_qp()
    solver = METHODS[method].maker(form)(sampling=59, **options)
    with form.with_store(
        memory_limit, low_precision=not exact and solver.low_precision(form)
    ) as qp:
        state = solver.init(qp, None, np.random.default_rng(seed))
        for left in chunks:
            while left > 0:
                reply = solver.advance(qp, state, left)
                left -= reply.steps
                if reply.stop not in (Stop.BUDGET, Stop.NEWS):
                    return state
    return state


def paper_steps(problem, takes_away, n_steps, seed=0):
    """Algorithms 2 and 3 of Frandi et al. with section 5.2.3, in plain numpy: return x."""
    qp = problem.as_qp()
    Q = qp.gram.matrix() + np.diag(qp.gram.ridge)
    draws = Draws(qp.domain, 59, np.random.default_rng(seed))
    samples = draws.draw(max(1, 2048 // draws.size)).reshape(-1, draws.size)
    x = METHODS["fw"].maker(qp)().init(qp, None, np.random.default_rng(0)).x.copy()
    core = list(np.flatnonzero(x))
    for sample in samples[:n_steps]:
        f = Q @ x + qp.linear
        among = np.unique([*core, *sample])
        groups = [among[qp.domain.group[among] == g] for g in range(qp.domain.n_groups)]
        low = [of[np.argmin(f[of])] for of in groups]
        high = [of[np.argmax(np.where(x[of] > 0, f[of], -np.inf))] for of in groups]
        toward, away = x @ f - f[low].sum(), f[high].sum() - x @ f
        assert toward > 0
        is_away = takes_away and away > toward
        direction = x.copy() if is_away else -x
        direction[high if is_away else low] += -1.0 if is_away else 1.0
        longest = 1.0
        if is_away:
            longest = min(x[i] / (1.0 - x[i]) for i in high)
        step = min(max(toward, away) if is_away else toward, np.inf)
        step = min(step / (direction @ Q @ direction), longest)
        x = np.maximum(x + step * direction, 0.0)
        if is_away and step == longest:
            x[[i for i in high if x[i] < 1e-15]] = 0.0
        if not is_away:
            core += [i for i in low if i not in core]
    return x


@pytest.mark.parametrize("declare", WITHOUT_TIES.values(), ids=WITHOUT_TIES)
@pytest.mark.parametrize("method", ["fw", "mfw"])
def test_the_steps_are_those_of_the_paper(declare, method):
    with_state = advanced(declare(), method, [30], exact=True)  # in float32 near points may tie
    plain = paper_steps(declare(), method == "mfw", 30)
    np.testing.assert_allclose(with_state.x, plain, rtol=0, atol=1e-5)


@every_problem
@every_method
def test_a_sample_with_confirmation_is_optimal(declare, method):
    tol = 0.1 if method == "fw" else 1e-3
    result = solve(declare(), method, sampling=59, tol=tol)
    assert result.status is Status.OPTIMAL and result.counters["columns"] == 0
    exact = solve(declare(), "mnp", tol=1e-8)
    assert result.certificate.lower <= exact.certificate.upper
    assert exact.certificate.lower <= result.certificate.upper


@every_problem
def test_a_core_vector_machine_on_samples_alone_claims_nothing(declare):
    result = solve(declare(), "cvm", sampling=59, confirm=False, tol=0.05)
    exact = solve(declare(), "mnp", tol=1e-8)
    assert result.status is Status.SAMPLED and result.certificate.gap == np.inf
    assert result.counters["scan"] == 0
    error = abs(result.value - exact.value)
    assert error <= 0.2 * abs(exact.value)


@every_method
def test_the_same_seed_gives_the_same_bits_for_any_chunks_of_steps(method):
    problem = DECLARED_PROBLEMS["machine"]()

    def found(*chunks, seed=0):
        state = advanced(problem, method, chunks, seed)
        return state.x.tobytes(), state.product.tobytes(), state.counters

    assert found(200) == found(63, 137) == found(*[1] * 200) != found(200, seed=1)
    first, second = (solve(problem, method, sampling=59, max_iter=2000, seed=3) for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()


@every_problem
@every_method
def test_the_gradient_is_maintained(declare, method):
    problem = declare()
    state = advanced(problem, method, [300])
    qp, is_core_set = problem.as_qp(), method in ("cvm", "fcfw")
    core = state.working_set if is_core_set else state.core
    f = qp.gram.product(state.x) + qp.gram.ridge * state.x + qp.linear
    kept = state.pair.s[core] if is_core_set else state.gradient
    np.testing.assert_allclose(kept, f[core], rtol=0, atol=2e-4 * np.max(np.abs(f)))


@pytest.mark.parametrize(
    "columns",
    [pytest.param(8, marks=pytest.mark.slow), 20, pytest.param(300, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("method", ["fw", "mfw", "cvm"])
def test_the_peak_is_the_limit_and_a_block(method, columns):
    problem = L2SVMDual(RBF(X32, 0.1), Y)
    solve(problem, method, sampling=59, max_iter=10)  # compile
    limit = columns * X32.shape[0] * 4
    tracemalloc.start()
    result = solve(problem, method, sampling=59, memory_limit=limit, max_iter=1500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < result.counters["bytes"] <= limit
    assert peak <= limit + 3 * 8 * BLOCK_ENTRIES + 100 * 8 * len(X)


def test_little_memory_costs_time_and_changes_only_roundings():
    problem = L2SVMDual(RBF(X32, 0.1), Y)
    little, much = (
        advanced(problem, "mfw", [200], memory_limit=limit) for limit in (8 * 4 * len(X), 1 << 28)
    )
    assert little.n_bytes <= 8 * 4 * len(X) < much.n_bytes
    np.testing.assert_allclose(little.x, much.x, rtol=0, atol=1e-4)


def test_steps_are_compiled():
    """Interpreted ones took 15 to 20 seconds for these; compiled ones take a tenth of one."""
    problem = MEBDual(RBF(X, 0.1))
    options = {"sampling": 59, "tol": 1e-15, "confirm": False}
    solve(problem, "fw", max_iter=100, **options)  # compile
    begun = time.perf_counter()
    result = solve(problem, "fw", max_iter=20_000, **options)
    assert result.n_iter == 20_000
    assert time.perf_counter() - begun < 4.0


@pytest.mark.parametrize("method", ["fw", "mfw", "cvm"])
def test_the_time_limit_is_kept(method):
    rng = np.random.default_rng(62)
    points = rng.standard_normal((40_000, 10))
    problem = L2SVMDual(RBF(points, 0.05), np.where(points[:, 0] > 0, 1.0, -1.0), C=10.0)
    solve(problem, method, sampling=59, max_iter=10)  # compile
    begun = time.perf_counter()
    result = solve(problem, method, sampling=59, tol=1e-9, time_limit=0.3, max_iter=10**9)
    assert result.status is Status.TIME_LIMIT
    assert time.perf_counter() - begun < 6.0  # the closing certificate comes on top


@every_method
def test_the_settings_are_checked(method):
    problem = MEBDual(RBF(X, 0.1))
    for bad in ({"sampling": 0}, {"sampling": 1.5}, {"confirm": False}, {"target": -1.0}):
        with pytest.raises(InputError, match=next(iter(bad))):
            solve(problem, method, **bad)


def test_without_a_sample_nothing_changes():
    qp = MEBDual(RBF(X, 0.1)).as_qp()
    for method in ON_SAMPLES:
        solver = METHODS[method].maker(qp)()
        assert (
            solver.for_tolerance(1e-3) == solver
            and solver.uses_full_gap
            and not solver.low_precision(qp)
        )
        assert solver.on_one_thread(qp) == (False, False)
        assert replace(solver, sampling=59).for_tolerance(1e-3).target == 1e-3


def test_sections_are_those_of_the_papers():
    for text, section in (
        (PolytopeDistanceDual.__doc__, "section 2.3 for `chi`"),
        (FrankWolfe.__doc__, "section 3)"),
        (FrankWolfe.__doc__, "section 5.2.2"),
        (sampling.__doc__, "section 5.2.3"),
        (METHODS["gilbert"].source, "Kumar and Yildirim, section 3.1"),
        (METHODS["fcfw"].source, "Garber and Wolf, section 2.2"),
    ):
        assert section in text
