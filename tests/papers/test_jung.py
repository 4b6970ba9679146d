"""Jung, O'Leary and Tits: the reduced matrix near the whole one, and kinds of support vectors."""

# ruff: noqa: B023
# The functions inside the loop of `predictor_corrector` are called in the iteration that defines them.

from __future__ import annotations

import numpy as np
import pytest

from problems.clouds import two_clouds
from qpsvm import HingePrimal, solve
from qpsvm.solvers.methods import METHODS

X, Y = two_clouds(300, 4, seed=15, distance=2.0)
THETA, BETA = 100.0, 4.0
"""Section 5: theta and beta of (3.18) and (3.20)."""


def iterates(method, steps, **options):
    """Yield the interior iterate before each step."""
    qp = HingePrimal(X, Y, C=1.0).as_qp()
    solver = METHODS[method].maker(qp)(**options)
    state = solver.init(qp, None, np.random.default_rng(0))
    for _ in range(steps):
        yield state.interior
        if not solver.advance(qp, state, 1).steps:
            return


def normal_matrix(weight, rows):
    """Return (3.17): I + X'WX less the rank-one term, of some rows, W = 1 / omega."""
    Z, d = X[rows], weight[rows]
    mean = Z.T @ d
    return np.eye(X.shape[1]) + Z.T @ (d[:, None] * Z) - np.outer(mean, mean) / d.sum()


def rule_2(weight, mu):
    """Return Q of (3.18) to (3.20): the rows with the largest 1 / omega."""
    m = len(weight)
    q_lower = int(np.sum(weight >= THETA * np.sqrt(mu)))
    q = max(q_lower, min(int(np.ceil(mu ** (1.0 / BETA) * m)), m))
    return np.argsort(-weight, kind="stable")[:q]


def test_proposition_3_2():
    """|M - M_Q| <= C sqrt(mu), C = theta (m - q) D^2: omitted rows have 1 / omega < theta sqrt(mu).

    M - M_Q is at most the scatter of the omitted rows about the mean of Q, as the scatter about their
    own mean, which M has, is less; each contributes at most D^2 / omega, D the diameter.
    """
    diameter = np.max(np.sum((X[:, None] - X[None]) ** 2, axis=2))
    reduced = 0
    for interior in iterates("pdipm", 30):
        weight = 1.0 / (interior.s / interior.alpha + interior.xi / interior.u)
        mu = (interior.s @ interior.alpha + interior.xi @ interior.u) / (2 * len(Y))
        rows = rule_2(weight, mu)
        everything = normal_matrix(weight, np.arange(len(Y)))
        some = normal_matrix(weight, rows)
        assert np.linalg.eigvalsh(some)[0] >= 1.0 - 1e-9  # Proposition 3.1
        left = len(Y) - len(rows)
        error = np.linalg.norm(everything - some, 2)
        assert error <= THETA * left * diameter * np.sqrt(mu) + 1e-9 * np.linalg.norm(some, 2)
        reduced += left > 0
    assert reduced >= 3


def test_table_2_1():
    """Weights, slacks and losses of off-boundary, on-boundary and other points at the optimum."""
    result = solve(HingePrimal(X, Y, C=1.0), tol=1e-10)
    w, b, alpha = result.x[:-1], result.x[-1], result.dual
    margin = Y * (X @ w + b)
    loss, slack = np.maximum(1.0 - margin, 0.0), np.maximum(margin - 1.0, 0.0)
    on = (alpha > 1e-6) & (alpha < 1.0 - 1e-6)
    off, none = alpha >= 1.0 - 1e-6, alpha <= 1e-6
    assert on.sum() >= 2 and off.any() and none.any()
    assert np.all(loss[on] < 1e-6) and np.all(slack[on] < 1e-6)
    assert np.all(slack[off] < 1e-6) and loss[off].max() > 0.1
    assert np.all(loss[none] < 1e-6) and slack[none].max() > 0.1


def test_2_18_sums_over_the_points_on_the_boundary():
    """gamma is the mean of <w, x_i> - y_i over S_on; the text has S, all support vectors."""
    result = solve(HingePrimal(X, Y, C=1.0), tol=1e-10)
    w, gamma, alpha = result.x[:-1], -result.x[-1], result.dual
    on = (alpha > 1e-6) & (alpha < 1.0 - 1e-6)
    each = X @ w - Y
    assert np.mean(each[on]) == pytest.approx(gamma, abs=1e-7)
    assert abs(np.sum(each[alpha > 1e-6]) / on.sum() - gamma) > 0.1


def predictor_corrector(q_upper, steps=200):
    """Run Algorithm 1 with M_Q in place of M and no safeguard; return the last mu and residual."""
    points, y = two_clouds(2000, 20, seed=3, distance=1.0)
    m, n = points.shape
    w, gamma, rng = np.zeros(n), 0.0, np.random.default_rng(0)
    xi, s = np.full(m, 2.0), np.full(m, 2.0)
    alpha, u, tau = np.full(m, 0.5), np.full(m, 0.5), np.ones(m)
    for k in range(steps):
        rw, ra, ru = w - points.T @ (y * alpha), y @ alpha, tau - alpha - u
        rs = y * (points @ w) - gamma * y + xi - 1.0 - s
        mu = (s @ alpha + xi @ u) / (2 * m)
        residual = max(np.abs(rw).max(), abs(ra), np.abs(ru).max(), np.abs(rs).max())
        if residual <= 1e-8 and mu <= 1e-8:
            break
        d = 1.0 / (s / alpha + xi / u)
        base = min(int(np.ceil(mu ** (1.0 / BETA) * m)), q_upper)
        q = max(int(np.sum(d >= THETA * np.sqrt(mu))), base)
        rows = rng.choice(m, q_upper, replace=False) if k == 0 else np.argsort(-d)[:q]
        Z = points[rows] - d[rows] @ points[rows] / d[rows].sum()
        M = np.eye(n) + Z.T @ (d[rows, None] * Z)
        ybar, c = points.T @ d, d.sum()

        def direction(rsv, rxu):
            rub = ru + rxu / xi
            rO = rs + rsv / alpha - xi / u * rub
            rab = ra - y @ (d * rO)
            dw = np.linalg.solve(M, -(rw + points.T @ (y * d * rO)) - rab / c * ybar)
            dg = (-rab + ybar @ dw) / c
            da = -d * (rO + y * (points @ dw) - y * dg)
            dxi = -xi / u * (rub - da)
            return dw, dg, da, dxi, -(rxu + u * dxi) / xi, -(rsv + s * da) / alpha

        def longest(da, dxi, du, ds):
            pairs = ((alpha, da), (xi, dxi), (u, du), (s, ds))
            return min(1.0, *(np.min(-v[dv < 0] / dv[dv < 0], initial=1.0) for v, dv in pairs))

        _, _, da, dxi, du, ds = direction(s * alpha, xi * u)
        a = longest(da, dxi, du, ds)
        affine = ((s + a * ds) @ (alpha + a * da) + (xi + a * dxi) @ (u + a * du)) / (2 * m)
        target = (affine / mu) ** 3 * mu
        dw, dg, da, dxi, du, ds = direction(
            s * alpha - target + ds * da, xi * u - target + du * dxi
        )
        a = 0.995 * longest(da, dxi, du, ds)
        w, gamma = w + a * dw, gamma + a * dg
        alpha, xi, u, s = alpha + a * da, xi + a * dxi, u + a * du, s + a * ds
    return mu, residual


def test_the_printed_reduction_needs_a_large_enough_q_upper():
    """With all rows it ends; with a fiftieth M_Q is too small, steps collapse, and it does not."""
    mu, residual = predictor_corrector(2000)
    assert mu <= 1e-8 and residual <= 1e-8
    mu, residual = predictor_corrector(40)
    assert max(mu, residual) > 1e-3
