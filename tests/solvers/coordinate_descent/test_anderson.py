"""Extrapolated sweeps: exact where sweeps are affine, never worse, always within the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm.numerics.csr_rows import rows_of
from qpsvm.solvers.coordinate_descent.anderson import extrapolate


def swept(X, y, C, n_sweeps, lift=0.0, ridge=0.0):
    """Return weights, w and b after 0, 1, ... sweeps in one order; the textbook's formula."""
    Z = np.hstack([X, np.full((len(y), 1), lift)]) * y[:, None]
    a, states = np.full(len(y), 0.5 * C), []
    for sweep in range(n_sweeps + 1):
        for i in range(len(y)) if sweep else ():
            g = Z[i] @ (Z.T @ a) - 1.0 + ridge * a[i]
            a[i] = min(max(a[i] - g / (Z[i] @ Z[i] + ridge), 0.0), C)
        v = Z.T @ a
        states.append((a.copy(), v[:-1], lift * v[-1]))
    A, W, B = map(np.array, zip(*states, strict=True))
    return A, W, B


def dual(X, y, a, lift, ridge):
    v = np.hstack([X, np.full((len(y), 1), lift)]).T @ (y * a)
    return 0.5 * v @ v + 0.5 * ridge * a @ a - a.sum()


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("lift", [0.0, 0.7])
def test_affine_sweeps_are_extrapolated_to_the_minimizer(lift, ridge, rng):
    """Five points: the map has rank five, so six states determine where it leads."""
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    X = y[:, None] * (np.eye(5, 8) + 0.1 + rng.uniform(0.0, 0.1, (5, 8)))
    Z = np.hstack([X, np.full((5, 1), lift)]) * y[:, None]
    best = np.linalg.solve(Z @ Z.T + ridge * np.eye(5), np.ones(5))
    C = 2.0 * best.max()
    A, W, B = swept(X, y, C, 5, lift, ridge)
    assert min(A.min(), best.min()) > 0.0  # no bound is met
    assert A.max() < C
    before = np.abs(A[-1] - best).max()
    assert before > 1e-6
    a, w = A[-1].copy(), W[-1].copy()
    b = extrapolate(
        rows_of(X), np.arange(5), y, np.ones(5), np.full(5, C), np.full(5, ridge), lift, B[-1],
        np.arange(5), A, W, B, a, w,
    )  # fmt: skip
    np.testing.assert_allclose(w, X.T @ (y * a), atol=1e-9)
    assert b == pytest.approx(lift**2 * float(y @ a), abs=1e-9)
    assert np.abs(a - best).max() < 0.05 * before


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("lift", [0.0, 0.7])
@pytest.mark.parametrize("seed", range(6))
def test_it_never_makes_the_value_worse(seed, lift, ridge):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 10)), np.sign(rng.normal(size=60))
    A, W, B = swept(X, y, 0.3, 5, lift, ridge)
    a, w = A[-1].copy(), W[-1].copy()
    b = extrapolate(
        rows_of(X), np.arange(60), y, np.ones(60), np.full(60, 0.3), np.full(60, ridge), lift, B[-1],
        np.arange(60), A, W, B, a, w,
    )  # fmt: skip
    assert dual(X, y, a, lift, ridge) <= dual(X, y, A[-1], lift, ridge) + 1e-12
    assert a.min() >= 0.0
    assert a.max() <= 0.3
    np.testing.assert_allclose(w, X.T @ (y * a), atol=1e-10)
    assert b == pytest.approx(lift**2 * float(y @ a), abs=1e-10)
