"""The sweep over tiles: every shape and storage against the kernel in float64, by any thread."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import threads
from qpsvm.gram.engine import tiles
from qpsvm.gram.engine.formula import Evaluator, gaussian
from qpsvm.gram.storage.integer import pack
from tests.gram.storage.test_byte_grid import grid_of

RBF_GAMMA = 0.3


def values(X, columns):
    """Return kernel values by differences, in float64."""
    X = X.astype(np.float64)
    return np.exp(-RBF_GAMMA * np.square(X[columns][:, None] - X[None]).sum(axis=2))


@pytest.fixture(params=["float32", "float64", "turned", "bits", "whole", "grid", "csr", "csr64"])
def kind(request):
    return request.param


def sides(kind, m, d, rng):
    """Return coordinates, and what columns are computed from."""
    X = rng.standard_normal((m, d)) / np.sqrt(d)
    if kind == "bits":
        X = np.where(X > 0.3, 0.5, 0.0)
    if kind == "whole":
        X = np.rint(3 * X)
    if kind == "grid":
        X = np.rint(3 * X) + 20
    if kind.startswith("csr"):
        X = np.where(rng.random(X.shape) < 0.2, X, 0.0)
        X[m // 2 :: 7] = 0.0  # points without entries
    points = X if kind in ("float64", "csr64") else X.astype(np.float32)
    X = points.astype(np.float64)
    stored = {"turned": np.asfortranarray, "bits": pack, "grid": grid_of}
    stored |= dict.fromkeys(("csr", "csr64"), sp.csr_matrix)
    points = stored.get(kind, np.asarray)(points)
    wide = (
        np.float64 if kind in ("float64", "whole", "csr64") else np.float32
    )  # multiples for both precisions
    formula = gaussian(RBF_GAMMA)
    terms = formula.terms(X, np.square(X).sum(axis=1)).astype(wide)
    return X, Evaluator(points, terms, formula.factor, formula.map)


@pytest.mark.parametrize("m", [1, tiles.TILE_POINTS + 1, 1700])
def test_a_whole_matrix_is_that_of_its_columns(kind, m, rng):
    _, evaluator = sides(kind, m, 9, rng)
    every = np.arange(m)
    K, columns = np.full((2, m + 1, m + 2), -1.0, evaluator.terms.dtype)
    tiles.fill(evaluator, every, None, K, every)
    tiles.fill(evaluator, every, every, columns, every)
    np.testing.assert_array_equal(K, columns)


@pytest.mark.parametrize("m", [1, 5, tiles.TILE_POINTS, tiles.TILE_POINTS + 1, 1000])
@pytest.mark.parametrize("d", [1, 2, 9, 16, 17, 70])
def test_columns_and_sums_are_those_of_the_kernel(kind, m, d, rng):
    X, evaluator = sides(kind, m, d, rng)
    dtype = evaluator.terms.dtype
    eps = float(np.finfo(dtype).eps)
    for n in (1, 8, 11):
        columns = rng.integers(m, size=n)
        exact = values(X, columns)
        bound = (d + 40) * eps * (1.0 + RBF_GAMMA * np.square(X).sum(axis=1).max())
        rows = rng.integers(m, size=min(m, 70))
        store = np.full((n + 2, m + 3), -1.0, dtype)
        slots = rng.permutation(n + 2)[:n]
        tiles.fill(evaluator, columns, None, store, slots)
        np.testing.assert_allclose(store[slots, :m], exact, rtol=0, atol=bound)
        tiles.fill(evaluator, columns, rows, store, slots)
        np.testing.assert_allclose(store[slots, : len(rows)], exact[:, rows], rtol=0, atol=bound)
        untouched = np.setdiff1d(np.arange(n + 2), slots)
        assert np.all(store[untouched] == -1.0) and np.all(store[:, m:] == -1.0)
        x, y = rng.standard_normal(n), rng.random(n)
        out, size = np.ones(m), np.zeros(m)
        tiles.add(evaluator, columns, [x, y], out, size)
        limit = (bound + tiles.SUM_ERROR) * np.sum(np.abs(x))
        np.testing.assert_allclose(out, 1.0 + x @ exact, rtol=0, atol=limit)
        np.testing.assert_allclose(size, y @ exact, rtol=1e-5, atol=2 * bound * np.sum(y))


def test_sums_do_not_depend_on_threads_or_pieces(kind, rng, monkeypatch):
    _, evaluator = sides(kind, 5000, 9, rng)
    columns, found = rng.permutation(5000)[:200], []
    x = rng.standard_normal((2, 200))
    for n in (1, 2):
        for entries in (1 << 14, 1 << 30):
            monkeypatch.setattr(tiles, "CHUNK_ENTRIES", entries)
            out, size = np.zeros(5000), np.zeros(5000)
            with threads.limit(n):
                tiles.add(evaluator, columns, list(x), out, size)
            found.append((out, size))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("kind", ["float64", "bits", "whole", "grid", "csr64"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (13, 150), (128, 64)])
def test_a_block_is_summed_both_ways_in_float64(kind, n, m, rng):
    X, (points, _, factor, kernel_map) = sides(kind, n + m, 20, rng)
    K, terms = values(X, np.arange(n))[:, n:], gaussian(RBF_GAMMA).terms(X)
    x, z, out, back = rng.standard_normal(n), rng.standard_normal(m), np.ones(m), np.ones(n)
    some = points[:n], terms[:n], points[n:], terms[n:], factor, kernel_map
    tiles.add_both(*some, x, out, z, back)
    np.testing.assert_allclose(out, 1.0 + x @ K, rtol=0, atol=1e-13 * n)
    np.testing.assert_allclose(back, 1.0 + K @ z, rtol=0, atol=1e-13 * m)
