"""Frandi et al.: the sampling theorem, the misprints of Algorithm 3, the guarantee of the stop."""

from __future__ import annotations

import numpy as np
import pytest

from docs.papers.make import printed_ball
from problems.clouds import two_clouds
from qpsvm import RBF, L2SVMDual, Linear, MEBDual, solve
from qpsvm.domains import SimplexProduct
from qpsvm.solvers.shared.sampling import Draws

X, Y = two_clouds(300, 3, seed=31)


def hessian(C):
    """Return Q of the L2-SVM with a normalized kernel."""
    K = RBF(X, 0.3).block(np.arange(len(X)))
    return np.outer(Y, Y) * (K + 1.0) + np.eye(len(X)) / C


def algorithm_3(Q, steps, sign):
    """Run it with the radius of step 21 as a recursion; return radii of the recursion and of a."""
    delta_square = Q[0, 0]
    a = np.zeros(len(Q))
    a[[0, int(np.argmax(Q[0, 0] - Q[0]))]] = 0.5
    radius = delta_square - a @ Q @ a
    kept, true, kinds = [radius], [radius], []
    for _ in range(steps):
        distance = delta_square + a @ Q @ a - 2.0 * Q @ a
        support = np.flatnonzero(a > 0)
        i, j = int(np.argmax(distance)), support[int(np.argmin(distance[support]))]
        up, down = distance[i] / radius - 1.0, 1.0 - distance[j] / radius
        if up >= down:
            length = 0.5 * (1.0 - radius / distance[i])
            a *= 1.0 - length
            a[i] += length
            radius *= 1.0 + up**2 / (4.0 * (1.0 + up))
        else:
            ratio = a[j] / (1.0 - a[j])
            length = min(down / (2.0 * (1.0 - down)), ratio) if down < 1.0 else ratio
            a *= 1.0 + length
            a[j] = max(a[j] - length, 0.0)
            radius = (1.0 + length) * radius + sign * length * (1.0 + length) * (
                down - 1.0
            ) * radius
        kinds.append(up >= down)
        kept.append(radius)
        true.append(delta_square - a @ Q @ a)
        if not kept[-1] > 0.0:
            break
    return np.array(kept), np.array(true), np.array(kinds)


@pytest.mark.parametrize("r", [10, 59])
def test_theorem_1_the_best_of_r_points_is_among_the_best_twentieth(r):
    """With probability at least 1 - 0.95^r; draws with replacement have exactly that one."""
    m, n_samples = 2000, 20_000
    draws = Draws(SimplexProduct(np.zeros(m, np.int64)), r, np.random.default_rng(0))
    best = draws.draw(n_samples).reshape(n_samples, -1).max(axis=1)
    share, bound = np.mean(best >= 0.95 * m), 1.0 - 0.95**r
    assert abs(share - bound) <= 4.0 * np.sqrt(bound * (1.0 - bound) / n_samples)


def test_step_21_as_printed_leaves_the_radius_of_the_iterate():
    """Phi((1 + l)a - l e_j) = (1 + l) r^2 + l (1 + l) (delta_minus - 1) r^2: a plus."""
    Q = hessian(10.0)
    kept, true, kinds = algorithm_3(Q, 200, sign=1.0)
    assert not kinds.all()  # there are away steps
    np.testing.assert_allclose(kept, true, rtol=1e-9)
    first = int(np.argmin(kinds))
    kept, true, _ = algorithm_3(Q, first + 1, sign=-1.0)  # up to the first away step they agree
    np.testing.assert_allclose(kept[: first + 1], true[: first + 1], rtol=1e-9)
    assert kept[first + 1] > true[first + 1] * (1.0 + 1e-6)


def test_the_radius_of_16_needs_its_linear_term():
    """r^2 = sum a_i k_ii - a'Ka; the last member of (16) is a'Ka alone."""
    result = solve(MEBDual(Linear([[1.0], [3.0]])), tol=1e-9)
    a, K = result.x, np.array([[1.0, 3.0], [3.0, 9.0]])
    assert a @ np.diag(K) - a @ K @ a == pytest.approx(1.0)
    assert a @ K @ a == pytest.approx(4.0)


def test_the_away_point_is_the_nearest_one_to_the_center():
    """After Algorithm 3 the text says furthest; the least gradient is the least distance."""
    Q = hessian(10.0)
    a = np.random.default_rng(0).dirichlet(np.ones(len(Q)))
    gradient = np.diag(Q) - 2.0 * Q @ a
    distance = np.diag(Q) - 2.0 * Q @ a + a @ Q @ a
    assert np.argmin(gradient) == np.argmin(distance) != np.argmax(distance)


def test_the_stop_of_the_ball_is_no_accuracy_of_the_machine():
    """delta_plus is relative to Delta^2 - R and not to R: at eps = 1e-6 the machine is far off."""
    Q, C = hessian(10.0), 10.0
    problem, x, n = L2SVMDual(RBF(X, 0.3), Y, C=C), None, 0
    stop = (1.0 + 1e-6) ** 2 - 1.0
    while n < 200_000:
        result = solve(problem, "mfw", tol=1e-12, max_iter=500, x0=x)
        x, n = result, n + 500
        s = Q @ result.x
        R = result.x @ s
        if 2.0 * (R - s.min()) / (Q[0, 0] - R) <= stop:
            break
    assert 2.0 * (R - s.min()) / (Q[0, 0] - R) <= stop
    assert 1.0 - s.min() / R > 100.0 * stop * 0.1


def test_the_guarantee_of_41_holds_for_a_normalized_kernel():
    """(1 - eps) g(a*) <= g(a) <= g(a*), eps = 2 epsilon + epsilon^2, at the stop (35)."""
    Q = hessian(10.0)
    best = Q[0, 0] - 2.0 * solve(L2SVMDual(RBF(X, 0.3), Y, C=10.0), tol=1e-10).value
    for epsilon in (0.1, 0.01, 0.001):
        a = np.zeros(len(Q))
        a[[0, int(np.argmax(Q[0, 0] - Q[0]))]] = 0.5
        for _ in range(20_000):
            s, g = Q @ a, Q[0, 0] - a @ Q @ a
            if Q[0, 0] - 2.0 * s.min() + a @ s <= (1.0 + epsilon) ** 2 * g:
                break
            i = int(np.argmin(s))
            length = 0.5 * (1.0 - g / (Q[0, 0] - 2.0 * s[i] + a @ s))
            a *= 1.0 - length
            a[i] += length
        assert (1.0 - 2.0 * epsilon - epsilon**2) * best <= g <= best * (1.0 + 1e-9)


def test_one_sample_without_a_violation_is_no_end(rng):
    """With 2 percent in a class, many samples have none of it, and the printed stop ends far off."""
    y = np.where(np.arange(1000) < 20, 1.0, -1.0)
    gram = RBF(rng.standard_normal((1000, 3)) + np.where(y > 0, 1.5, 0.0)[:, None], 0.2)
    best = 2.0 * solve(L2SVMDual(gram, y, C=1.0), tol=1e-4).value
    balls = [printed_ball.trained(gram, y, 1.0, False, seed) for seed in range(7)]
    assert all(ball.ended for ball in balls)
    assert np.median([ball.numbers[0] for ball in balls]) > 1.1 * best
