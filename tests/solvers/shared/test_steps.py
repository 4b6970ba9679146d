"""Foundations of the compiled steps: extremes by keys, the water level, gradients, prefetched columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import (
    RBF,
    Cached,
    HingeDual,
    L2SVMDual,
    Linear,
    MEBDual,
    PolytopeDistanceDual,
    solve,
)
from qpsvm.numerics import argextremes as extremes
from qpsvm.numerics.work_sharing import TILE_POINTS
from qpsvm.solvers.methods import METHODS
from qpsvm.solvers.shared.prefetch import MIN_PREFETCH_COLUMNS, Prefetch, least_uncached


@pytest.mark.parametrize("size", [1, 7, 1024])
def test_extremes_by_their_keys(rng, size):
    values = rng.choice([-np.inf, -2.5, -1e-300, 0.0, 1e-300, 3.0, np.inf], size)
    mark = rng.integers(0, 4, size).astype(np.int32)
    at = extremes.first_of(values, extremes.greatest_key(values), mark, 0, 0)
    assert at == np.argmax(values)
    for wanted in range(4):
        some = np.flatnonzero(mark == wanted)
        low = extremes.extreme_key_of(values, mark, wanted, 0)
        high = extremes.extreme_key_of(values, mark, wanted, -1)
        if len(some) == 0:
            assert low == extremes.MAX_KEY == ~high
            continue
        assert extremes.first_of(values, low, mark, wanted, -1) == some[np.argmin(values[some])]
        assert extremes.first_of(values, high, mark, wanted, -1) == some[np.argmax(values[some])]


@pytest.mark.parametrize("method", ["mfw", "pfw", "bpfw", "swap", "npa", "smo"])
@pytest.mark.parametrize("m", [TILE_POINTS - 1, 2 * TILE_POINTS + 5])
def test_the_gradient_that_steps_maintain_is_that_of_the_point(method, m):
    X, y = two_clouds(m, 3, seed=5)
    declare = PolytopeDistanceDual if method in ("npa", "pfw") else L2SVMDual
    qp = declare(RBF(X, 0.5), y).as_qp()
    solver = METHODS[method].maker(qp)()
    with qp.gram.kernel.hold(1 << 28) as store:
        with_store = replace(qp, store=store)
        state, n = solver.init(with_store, None, np.random.default_rng(0)), 0
        while n < 200:
            reply = solver.advance(with_store, state, 200 - n)
            n += reply.steps
            assert reply.stop.name == "BUDGET"
    assert qp.domain.violation(state.x) < 1e-12
    np.testing.assert_allclose(state.product, qp.gram.product(state.x), rtol=0, atol=1e-10)


def test_least_uncached_are_the_least(rng):
    f, mark = rng.standard_normal(300), rng.integers(0, 2, 300).astype(np.int32)
    slot = np.where(rng.random(300) < 0.5, -1, 7)
    for way in (1.0, -1.0):
        found = least_uncached(f, way, mark, 1, -1, slot, 20)
        some = np.flatnonzero((slot < 0) & (mark == 1))
        assert set(found) == set(some[np.argsort(way * f[some])[:20]])
    assert len(least_uncached(f, 1.0, mark, 5, -1, slot, 20)) == 0


@pytest.mark.parametrize("useful", [True, False])
def test_columns_are_prefetched_as_long_as_they_are_used(rng, useful):
    kernel = RBF(rng.standard_normal((3000, 2)), 1.0)
    qp, prefetched = MEBDual(kernel).as_qp(), []
    with kernel.hold(1 << 28) as store:
        prefetch = Prefetch(qp)

        def candidates(slot, count):
            free = np.flatnonzero(slot < 0)
            prefetched.append(min(count, len(free)))
            return free[:count]

        for _ in range(300):
            free = np.flatnonzero(store.slot < 0)
            if len(free) == 0:
                break
            prefetch.serve(store, free[:1] if useful else free[-1:], candidates)
            if useful:  # every prefetched column is read
                store.clock[0] += 1
                store.stamp[store.slot >= 0] = store.clock[0]
    assert min(prefetched) >= MIN_PREFETCH_COLUMNS
    if useful:
        assert store.n_computed == 3000 and len(prefetched) < 100 and max(prefetched) == 257
    else:
        assert max(prefetched) <= 2 * MIN_PREFETCH_COLUMNS and store.n_computed < 2 * 300


@pytest.mark.parametrize("declare", [L2SVMDual, HingeDual])
def test_prefetching_saves_services(declare, monkeypatch):
    X, y = two_clouds(2500, 4, seed=3)
    problem, services = declare(RBF(X, 1.0), y, C=10.0), []
    serve = Prefetch.serve
    monkeypatch.setattr(
        Prefetch, "serve", lambda self, *given: (services.append(1), serve(self, *given))[1]
    )
    result = solve(problem, "smo", tol=1e-3)
    assert result.converged
    assert len(services) < 0.7 * result.counters["columns"]


def test_a_cached_factor_keeps_its_sharp_roundoff():
    X, y = two_clouds(60, 3, seed=31)
    bare, cached = (
        solve(HingeDual(K, y, C=1e4), "smo", tol=1e-3, max_iter=2000).certificate.roundoff
        for K in (Linear(X), Cached(Linear(X)))
    )
    assert cached == pytest.approx(bare, rel=0.1)  # the bare one moves the points to their mean
