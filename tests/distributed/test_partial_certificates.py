"""Shards recompute the entries that matter: bounds on the others hold, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, HingeDual, Laplacian, Linear, MEBDual, Polynomial, Sigmoid, solve
from qpsvm.canonical.base import update_roundoff
from qpsvm.distributed.kernel_sums import PointsOfShard
from qpsvm.distributed.rows import open_rows
from qpsvm.distributed.shard import Shard
from qpsvm.solvers.working_set.gradient_error import GradientError
from tests.distributed.conftest import CHUNK_BYTES, N_POINTS

KERNEL_OF_NAME = {
    "rbf": lambda X: RBF(X, gamma=0.3),
    "laplacian": lambda X: Laplacian(X, gamma=0.3),
    "polynomial": lambda X: Polynomial(X, degree=3, gamma=0.1, coef0=1.0),
    "sigmoid": lambda X: Sigmoid(X, gamma=0.1, coef0=0.1),
    "linear": Linear,
}


@pytest.mark.parametrize("name", KERNEL_OF_NAME)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_bound_on_a_running_product_holds(cloud, name, is_sparse):
    X = cloud[0] - 4.0 * (name != "rbf")
    X = sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0)) if is_sparse else X
    points = PointsOfShard(KERNEL_OF_NAME[name](X[:1]), X[:1000])
    points.move(None if is_sparse or name not in ("rbf", "linear") else points.total() / 1000)
    changes, running, exact = GradientError(0.0, np.zeros(1000)), np.zeros(1000), np.zeros(1000)
    rng = np.random.default_rng(0)
    for _ in range(5):
        rows, weights = rng.choice(N_POINTS, 40, replace=False), rng.standard_normal(40)
        running += points.sum_fast(X[rows], weights, changes)
        exact += points.sum_exact(X[rows], weights)
    limits = PointsOfShard(points.kernel, X)
    limits.move(points.origin)
    largest = limits.limits()
    entry = points.entry_error(largest.size)
    sum_error = points.sum_error * largest.diagonal
    error = changes.of_sums(entry, points.relative_error, sum_error, largest.error)
    own = update_roundoff(N_POINTS, largest.diagonal, changes.total_move, 5, 1.0)
    assert np.all(np.abs(running - exact) <= error + own)
    assert np.max(error) <= 1e-3 * changes.total_move * largest.diagonal
    assert (
        np.max(np.abs(running - exact)) > own
    )  # the sums are in float32, so that a bound is needed


def dual_gap(X, y, x, C):
    """Return the gap of the hinge dual at x with the best bias, by numpy alone."""
    squares = np.sum(X * X, axis=1)
    K = np.exp(-0.3 * np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0))
    gradient = y * (K @ (y * x)) - 1.0
    biases = -y * gradient
    slack = gradient + biases[:, None] * y
    gaps = np.sum(np.where(slack < 0, (x - C) * slack, x * slack), axis=1)
    return float(np.min(gaps))


@pytest.mark.parametrize("tol", [1e-2, 1e-5])
def test_a_certificate_recomputes_a_part_and_proves_as_much(cloud, monkeypatch, tol):
    X, y = cloud
    recomputed = []
    exact = Shard._exact

    def counted(shard, ids, weights, rows):
        recomputed.append(shard.n if rows is None else len(rows))
        return exact(shard, ids, weights, rows)

    monkeypatch.setattr(Shard, "_exact", counted)
    rows = open_rows(X, chunk_bytes=CHUNK_BYTES)
    result = solve(HingeDual(RBF(rows, gamma=0.3), y, C=2.0), tol=tol)
    gap = dual_gap(X - 4.0, y, result.x, 2.0)
    value = abs(result.certificate.upper)
    assert result.converged and sum(recomputed[-4:]) < 0.9 * N_POINTS
    assert gap - 1e-9 * value <= result.certificate.gap <= 1.02 * gap + 1e-9 * value


def test_a_bound_that_does_not_hold_is_refuted(cloud, monkeypatch):
    X, y = cloud
    full = []
    exact = Shard._exact

    def counted(shard, ids, weights, rows):
        full.append(rows is None)
        return exact(shard, ids, weights, rows)

    monkeypatch.setattr(Shard, "_exact", counted)
    monkeypatch.setattr(GradientError, "of_sums", lambda self, entry, *others: 1e-14 * entry)
    rows = open_rows(X, chunk_bytes=CHUNK_BYTES)
    for problem in (HingeDual(RBF(rows, gamma=0.3), y), MEBDual(RBF(rows, gamma=0.3))):
        full.clear()
        assert solve(problem, tol=1e-4).converged
        assert not all(full) and full[-1]
