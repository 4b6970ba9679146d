"""Memory beside the data grows with the data alone: no m x m, no m x hundreds in float64."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, L2SVMDual, MEBDual, solve

N_SLOTS = 16  # cached columns
SUPPORT_SIZE = 40


def dense(m):
    return np.random.default_rng(0).standard_normal((m, 50), dtype=np.float32)


def sparse(m):
    return sp.random(m, 2000, 0.01, format="csr", dtype=np.float32, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("make", [dense, sparse])
@pytest.mark.parametrize("method", ["mfw", "smo"])
@pytest.mark.parametrize("family", ["ball", "machine"])
def test_peak_beside_the_columns(family, method, make):
    """A run of a hundred thousand points whose support is wide enough for a block of products."""

    def declare(X):
        y = np.where(np.arange(X.shape[0]) % 2, 1.0, -1.0)
        return MEBDual(RBF(X, 0.01)) if family == "ball" else L2SVMDual(RBF(X, 0.01), y, C=10.0)

    solve(declare(make(3000)), method, max_iter=50)  # compiles
    X = make(100_000)
    m, size = X.shape[0], X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes * 2
    tracemalloc.start()
    result = solve(
        declare(X), method, tol=1e-9, max_iter=SUPPORT_SIZE, memory_limit=N_SLOTS * 4 * m
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.n_iter == SUPPORT_SIZE
    vectors = 30 * 8 * m
    assert peak <= 6 * size + N_SLOTS * 4 * m + vectors + (64 << 20)
