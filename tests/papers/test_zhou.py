"""Zhou, Tao and Wu: errors of the smoothings, Nesterov's estimate sequence, what is misprinted."""

from __future__ import annotations

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import HingePrimal, LPSVMPrimal, solve
from qpsvm.solvers.smoothing.nesvm import NESVM
from qpsvm.solvers.smoothing.nesvm_as_printed import smooth_value, start_as_printed
from qpsvm.solvers.smoothing.smoothed_loss import smoothed

X, Y = two_clouds(150, 6, seed=701)
FEATURE_SIZES = np.abs(X).max(axis=1)
"""The weights |x_i|_inf of the smoothing."""


def smooth_hinge(f, mu, d):
    """Return u and the smoothed hinge (5) of margins f, by the library's steps."""
    a, one = np.empty(len(f)), np.ones(len(f))
    smoothed(f, one, one, mu * d, np.zeros(len(f)), True, False, 0.0, a)
    return a, a * (1.0 - f) - 0.5 * mu * d * a**2


@pytest.mark.parametrize("mu", [0.01, 0.5, 5.0])
def test_theorem_1(mu, rng):
    """0 <= hinge - smoothed hinge <= mu |x_i|_inf / 2, and equality below the zone."""
    f, d = rng.normal(0.0, 10.0, 2000), rng.uniform(0.1, 3.0, 2000)
    _, loss = smooth_hinge(f, mu, d)
    error = np.maximum(0.0, 1.0 - f) - loss
    assert error.min() >= -1e-12 and np.all(error <= 0.5 * mu * d + 1e-12)
    below = f < 1.0 - mu * d
    np.testing.assert_allclose(error[below], 0.5 * mu * d[below], atol=1e-12)


@pytest.mark.parametrize("mu", [0.01, 0.5, 5.0])
def test_theorem_2(mu, rng):
    """0 <= |w| - its smoothing <= mu / 2 in every coordinate, by the printed method's value."""
    form = LPSVMPrimal(X, Y, C=1e-13, bias=False).as_margin()
    state = start_as_printed(form, NESVM(variant="paper", mu=mu), None)
    for size in (0.01, 1.0, 100.0):
        state.wb[:-1] = size * rng.standard_normal(6)
        state.values = X @ state.wb[:-1]
        error = np.abs(state.wb[:-1]).sum() - smooth_value(form, state)
        assert -1e-9 <= error <= 6 * 0.5 * mu + 1e-9


def estimate_sequence(center, start, mu, C, steps):
    """Run (33) to (35); return the margins of (36) and (43), each bound less the value."""
    signed = Y[:, None] * X
    L = 1.0 + C / mu * float(np.linalg.eigvalsh(X.T @ (X / FEATURE_SIZES[:, None]))[-1])

    def value(w):
        u, loss = smooth_hinge(signed @ w, mu, FEATURE_SIZES)
        return 0.5 * w @ w + C * loss.sum(), w - C * signed.T @ u

    best = start.copy()
    for _ in range(3000):
        best = best - value(best)[1] / L
    least = value(best)[0]
    w, total, linear = start.copy(), np.zeros(6), 0.0
    estimate, rate = [], []
    for k in range(steps):
        F, g = value(w)
        y = w - g / L
        weight = 0.5 * (k + 1)
        total += weight * g
        linear += weight * (F - g @ w)
        z = center - total / L
        psi = 0.5 * L * np.sum((z - center) ** 2) + linear + total @ z
        estimate.append(psi - 0.25 * (k + 1) * (k + 2) * value(y)[0])
        bound = 2.0 * L * np.sum((best - center) ** 2) / ((k + 1) * (k + 2))
        rate.append(bound - (value(y)[0] - least))
        w = 2.0 / (k + 3) * z + (k + 1) / (k + 3) * y
    return np.array(estimate), np.array(rate), least


def test_theorems_3_and_4_hold_from_the_prox_center():
    """(k + 1)(k + 2) / 4 F(y_k) <= psi_k, and F(y_k) - F* <= 4 L d(w*) / ((k + 1)(k + 2))."""
    zero = np.zeros(6)
    estimate, rate, least = estimate_sequence(zero, zero, mu=0.1, C=1.0, steps=200)
    assert estimate.min() >= -1e-8 * least and rate.min() >= -1e-8 * least


def test_theorem_3_needs_the_start_at_the_prox_center():
    """w0 and w_star are separate inputs in print; apart from each other (36) fails."""
    estimate, _, least = estimate_sequence(np.zeros(6), np.full(6, 5.0), mu=0.1, C=1.0, steps=50)
    assert estimate.min() < -1e-3 * least


def test_10_as_printed_jumps():
    """The zone (6) ends at 1 - mu |x_i|_inf; (10) and (19) print 1 - mu, and the loss jumps."""
    mu, d = 0.5, 3.0
    edge = 1.0 - mu
    linear, quadratic = (1.0 - edge) - 0.5 * mu * d, (1.0 - edge) ** 2 / (2.0 * mu * d)
    _, loss = smooth_hinge(np.array([edge]), mu, np.array([d]))
    assert loss[0] == pytest.approx(quadratic)
    assert abs(linear - quadratic) > 0.3
    edge = 1.0 - mu * d
    assert (1.0 - edge) - 0.5 * mu * d == pytest.approx((1.0 - edge) ** 2 / (2.0 * mu * d))


def test_21_is_valid_and_up_to_m_times_too_large():
    tight = float(np.linalg.eigvalsh(X.T @ (X / FEATURE_SIZES[:, None]))[-1])
    printed = len(X) * float(np.max(np.sum(X**2, axis=1) / FEATURE_SIZES))
    assert 5.0 * tight < printed <= len(X) * tight * (1.0 + 1e-12)


def test_mu_5_is_another_machine():
    """The experiments smooth with mu = 5: the minimizer is far from that of the hinge."""
    problem = HingePrimal(X, Y, C=1.0, bias=False)
    best = solve(problem, tol=1e-8).value
    smooth = solve(problem, "nesvm", mu=5.0, tol=1e-9, max_iter=5000)
    assert smooth.certificate.upper > best * 1.01
    margin = Y * (X @ smooth.x)
    inside = (margin < 1.0) & (margin > 1.0 - 5.0 * FEATURE_SIZES)
    assert inside.sum() >= 0.95 * np.sum(margin < 1.0)  # nearly a squared hinge


def test_a_small_change_of_the_value_is_no_accuracy():
    """The stop |F(w_k+1) - F(w_k)| < eps holds where F itself is far from its least value."""
    C, mu, eps = 1e-2, 1e-6, 1e-3
    signed = Y[:, None] * X
    L = 1.0 + C * len(X) / mu * float(np.max(np.sum(X**2, axis=1) / FEATURE_SIZES))  # (48)
    u, loss = smooth_hinge(np.zeros(150), mu, FEATURE_SIZES)
    first = C * loss.sum()
    w = C * signed.T @ u / L  # y_0, the first step from 0
    _, moved = smooth_hinge(signed @ w, mu, FEATURE_SIZES)
    change = first - (0.5 * w @ w + C * moved.sum())
    best = solve(HingePrimal(X, Y, C=C, bias=False), tol=1e-8).value
    assert 0.0 < change < eps
    assert first > best * 1.2


def test_the_kernel_of_the_experiments_is_no_kernel():
    """-|x - z|^2 / p without the exponential is not positive semidefinite."""
    square = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    assert np.linalg.eigvalsh(-square / 6)[0] < -1.0
    assert np.linalg.eigvalsh(np.exp(-square / 6))[0] > -1e-10


def test_the_kernel_form_mixes_two_parametrizations(rng):
    """With X -> K Y the margins are y K Y w, and the square of the norm is w'YKYw, not w'Kw."""
    K = X @ X.T
    w = rng.standard_normal(150)
    weights = Y * w  # the coefficients of the expansion whose values are K Y w
    square = np.sum((X.T @ weights) ** 2)
    assert weights @ K @ weights == pytest.approx(square)
    assert abs(w @ K @ w - square) > 0.1 * square
