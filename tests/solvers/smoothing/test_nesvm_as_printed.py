"""The printed NESVM: its constants, its center, its stop, its kernel variant."""

from __future__ import annotations

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import RBF, HingePrimal, Linear, LSSVMPrimal, Status, solve
from qpsvm.solvers.smoothing.nesvm import NESVM
from qpsvm.solvers.smoothing.nesvm_as_printed import lipschitz, start_as_printed

X, Y = two_clouds(150, 6, seed=701)


def test_as_printed_the_least_squares_constant_is_too_small():
    """(56) is below the largest eigenvalue, and the iterates diverge; the true one does not."""
    problem = LSSVMPrimal(X, Y, bias=False)
    form = problem.as_margin()
    true = 1.0 + 2.0 * np.linalg.eigvalsh(X.T @ X)[-1]
    printed = start_as_printed(form, NESVM(variant="paper", mu=1.0), None)
    assert lipschitz(form, printed) < 0.2 * true
    printed = solve(problem, "nesvm", variant="paper", tol=1e-6, max_iter=5_000)
    assert printed.status is not Status.OPTIMAL
    assert np.isfinite(printed.certificate.gap)  # the best answer before is kept
    assert solve(problem, "nesvm", tol=1e-6).status is Status.OPTIMAL


def test_as_printed_the_hinge_constant_is_loose_and_the_center_discards_the_start():
    problem = HingePrimal(X, Y, C=1.0, bias=False)
    form, solver = problem.as_margin(), NESVM(variant="paper", mu=0.1)
    d = np.abs(X).max(axis=1)
    loose = lipschitz(form, start_as_printed(form, solver, None))
    assert loose > 5.0 * (1.0 + form.features.curvature(1.0 / d, False) / 0.1)
    w0 = np.full(6, 5.0)
    x0 = form.join(w0, 0.0, np.zeros(150))
    state = solver.init(form, x0, np.random.default_rng(0))
    solver.advance(form, state, 1)
    # w^1 = 2/3 z^0 + 1/3 y^0 with z^0 near w_star = 0: two thirds of the start are gone
    assert np.linalg.norm(state.wb[:6]) < 0.4 * np.linalg.norm(w0)
    centered = NESVM(variant="paper", mu=0.1, w_star=w0)
    state = centered.init(form, x0, np.random.default_rng(0))
    centered.advance(form, state, 1)
    assert np.linalg.norm(state.wb[:6] - w0) < 0.1 * np.linalg.norm(w0)


def test_as_printed_it_reaches_the_gap_later():
    problem = HingePrimal(X, Y, C=1.0)
    printed = solve(problem, "nesvm", variant="paper", mu=0.02, tol=1e-2, max_iter=100_000)
    corrected = solve(problem, "nesvm", mu=0.02, tol=1e-2)
    assert printed.status is corrected.status is Status.OPTIMAL
    assert printed.counters["product"] > 2 * corrected.counters["product"]
    path = solve(problem, "homotopy-nesvm", variant="paper", schedule="harmonic", max_iter=2_000)
    assert path.counters["stage"] > 1


def printed_steps(A, G, C, mu, L):
    """Algorithm 1 without a bias on the rows of A, with the penalty 1/2 w'Gw; w and its steps."""
    d = np.abs(A).max(axis=1)
    w, total, before = np.zeros(len(G)), np.zeros(len(G)), np.inf
    for k in range(100_000):
        u = np.clip((1.0 - Y * (A @ w)) / (mu * d), 0.0, 1.0)
        gradient = G @ w - A.T @ (C * Y * u)
        total += 0.5 * (k + 1) * gradient
        w = 2.0 / (k + 3) * (-total / L) + (k + 1) / (k + 3) * (w - gradient / L)
        q = 1.0 - Y * (A @ w)
        u = np.clip(q / (mu * d), 0.0, 1.0)
        value = 0.5 * w @ G @ w + C * np.sum(u * q - 0.5 * mu * d * u * u)
        if abs(value - before) < 1e-3:
            return w, k + 1
        before = value
    raise AssertionError("it did not end")


@pytest.mark.parametrize("gram", [Linear(X), RBF(X, gamma=0.3)], ids=["points", "kernel"])
def test_the_printed_stop_returns_the_printed_point(gram):
    """The w of the step at which F_mu changes by less than 1e-3; for a kernel its coefficients."""
    problem = HingePrimal(gram, Y, C=0.5, bias=False)
    options = {"variant": "paper", "mu": 0.5, "change_tol": 1e-3, "max_iter": 100_000}
    result = solve(problem, "nesvm", tol=1e-6, **options)
    form = problem.as_margin()
    L = lipschitz(form, start_as_printed(form, NESVM(variant="paper", mu=0.5), None))
    K = gram.block(np.arange(150), None, np.float64)
    w, n_steps = printed_steps(
        *((X, np.eye(6)) if isinstance(gram, Linear) else (K, K)), 0.5, 0.5, L
    )
    assert result.n_iter == pytest.approx(n_steps, abs=2)
    np.testing.assert_allclose(result.x[: len(w)], w, atol=1e-3 * np.abs(w).max())
    assert result.status is Status.STALLED and 0.0 < result.certificate.relative_gap < 1.0


def test_the_printed_homotopy_ends_with_the_stage_of_mu_star():
    options = {"variant": "paper", "mu0": 4.0, "mu_star": 0.9, "schedule": "harmonic"}
    result = solve(
        HingePrimal(X, Y, bias=False), "homotopy-nesvm", tol=1e-9, change_tol=1e-4,
        max_iter=100_000, **options,
    )  # fmt: skip
    assert result.status is Status.STALLED
    assert result.counters["stage"] == 5  # 4 twice, 2, 4/3, 1; 0.9 is the last
