"""Garber and Wolf: decrease of a step, and rates with quadratic growth, on faces of the hypercube.

On the cube a face of dimension k has the squared diameter k, and the optimum of `hypercube_face` lies on
one: D_*^2 = k. f is beta-smooth and grows with alpha, the extreme eigenvalues of A'A, as A has full rank.
The constants of Theorems 3, 4 and 7 are missing in the text at hand; those used here are derived in
docs/papers/garber.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import qpsvm
from problems.programs import general
from qpsvm import LeastSquares
from qpsvm.domains import Box, hypercube
from qpsvm.gram.operator import Residual
from qpsvm.solvers.base import Stop
from qpsvm.solvers.methods import METHODS

FACE_DIMENSION = 3


class Case:
    """A problem on a face of the cube, with its constants and a state of a method."""

    def __init__(self, method, n=80, m=40, seed=1, start=0.0, **options):
        data = general.hypercube_face(n, m, FACE_DIMENSION, seed)
        A, b = data["A"], data["b"]
        self.optimum = np.linalg.solve(A.T @ A, A.T @ b)
        self.beta, self.alpha = np.linalg.eigvalsh(A.T @ A)[[-1, 0]]
        self.qp = LeastSquares(A, b, hypercube(m), smoothness=self.beta).as_qp()
        self.solver = METHODS[method].maker(self.qp)(**options)
        rng = np.random.default_rng(seed)
        x0 = (
            np.clip(self.optimum + start * rng.standard_normal(m), 0.0, 1.0)
            if start
            else np.zeros(m)
        )
        self.state = self.solver.init(self.qp, x0, rng)

    @property
    def h(self):
        """Return f - f*; f* = 0."""
        return self.qp.gram.value(self.state.product)

    def step(self, **settings):
        """Make a step, with these settings changed."""
        return replace(self.solver, **settings).advance(self.qp, self.state, 1)


@pytest.mark.parametrize("safeguard", [True, False])
def test_lemma_1(safeguard):
    """h+ <= (1 - eta) h + beta eta^2 / 2 (dist^2 + D_*^2) for every step of Algorithm 1."""
    case = Case("nep-fw", safeguard=safeguard)
    for t in range(1, 301):
        eta, h = 2.0 / (t + 1.0), case.h
        far = np.sum((case.state.x - case.optimum) ** 2)
        case.step()
        assert case.h <= (1.0 - eta) * h + 0.5 * case.beta * eta**2 * (far + FACE_DIMENSION) + 1e-12


@pytest.mark.parametrize("start", [0.01, 0.1])
def test_theorem_1_with_quadratic_growth(start):
    """h_t <= 2 beta D_*^2 / t + 8 beta^2 (D_*^2 + D_0^2) (1 + ln t) / (alpha t (t - 1))."""
    case = Case("nep-fw", start=start)
    D0 = 2.0 * np.sqrt(2.0 * case.h / case.alpha)
    for t in range(2, 401):
        case.step()
        fast = (
            8.0
            * case.beta**2
            * (FACE_DIMENSION + D0**2)
            * (1.0 + np.log(t))
            / case.alpha
            / t
            / (t - 1)
        )
        assert case.h <= 2.0 * case.beta * FACE_DIMENSION / t + fast


def test_lemma_3(rng):
    """h_{t+1} <= (1 - 2/(t+1)) h_t + (2/(t+1))^2 C_t / 1 gives 4 / (t (t+1)) sum of C_i."""
    C, h, total = rng.uniform(0.0, 5.0, 500), 7.0, 0.0
    for t in range(1, 501):
        eta = 2.0 / (t + 1.0)
        h = (1.0 - eta) * h + eta**2 * C[t - 1]
        total += C[t - 1]
        assert h <= 4.0 / (t * (t + 1.0)) * total + 1e-12


@pytest.mark.parametrize("option", [1, 2])
def test_theorem_3(option):
    """h_{t+1} <= (1 - eta / 2) h_t with lambda_t by the bound of h_t; kappa^2 = n on the cube."""
    case = Case("nep-fc", start=0.05, weight="fixed", option=option)
    kappa_square = len(case.optimum)
    eta = case.alpha / (2.0 * case.beta * (9.0 * kappa_square * FACE_DIMENSION + 20.0))
    bound = case.h
    for _ in range(150):
        mass = min(1.0, np.sqrt(kappa_square * 2.0 * bound / case.alpha))
        reply = case.step(first=2.0 * eta * mass)
        assert reply.stop in (Stop.BUDGET, Stop.STALLED)
        bound *= 1.0 - 0.5 * eta
        assert case.h <= bound * (1.0 + 1e-9)


def moved_mass(active, optimum):
    """Return the least weights Delta_i to move from vertices of the active set so that z is in the cube.

    optimum = sum (weight_i - Delta_i) v_i + Delta z, Delta = sum Delta_i: a linear program.
    """
    V, weights = active.points, active.weights
    k = len(V)
    rest = optimum - weights @ V  # Delta z = rest + sum Delta_i v_i
    rows = np.concatenate([-V.T, V.T - 1.0])  # 0 <= Delta z <= Delta
    found = linprog(
        np.ones(k),
        rows,
        np.concatenate([rest, -rest]),
        bounds=np.stack([np.zeros(k), weights], axis=1),
    )
    assert found.status == 0
    deltas = np.clip(found.x, 0.0, weights)
    total = float(deltas.sum())
    return deltas, total, np.clip((rest + deltas @ V) / max(total, 1e-300), 0.0, 1.0)


@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize("eta", [0.02, 0.3])
def test_lemma_2(option, eta):
    """h+ <= (1 - eta) h + beta eta^2 Delta (Delta E|w - x|^2 + sum Delta_i |v_i - x|^2).

    lambda = 2 eta Delta, z is the mean of vertices w, whose squared distances are linear in z.
    """
    case = Case("nep-fc", n=40, m=12, start=0.0, weight="fixed", option=option)
    for _ in range(25):
        x, h = case.state.x.copy(), case.h
        if h < 1e-10:
            break
        deltas, total, z = moved_mass(case.state.active, case.optimum)
        spread = z @ (1.0 - x) ** 2 + (1.0 - z) @ x**2
        own = deltas @ np.sum((case.state.active.points - x) ** 2, axis=1)
        case.step(first=2.0 * eta * total)
        bound = (1.0 - eta) * h + case.beta * eta**2 * total * (total * spread + own)
        assert case.h <= bound + 1e-9 * case.beta


def test_observation_1(rng):
    """A decomposition that moves the mass Delta' gives one that moves any larger mass Delta <= 1."""
    for _ in range(50):
        V, weights = (rng.random((6, 9)) < 0.5).astype(float), rng.dirichlet(np.ones(6))
        deltas = weights * rng.random(6)
        small, z = deltas.sum(), rng.random(9)
        point = (weights - deltas) @ V + small * z
        large = rng.uniform(small, 1.0)
        more = deltas + (weights - deltas) * (large - small) / (1.0 - small)
        other = (small * z + (more - deltas) @ V) / large
        assert np.all(more >= deltas - 1e-15) and np.all(more <= weights + 1e-15)
        assert np.isclose(more.sum(), large)
        assert np.isclose(small + (more - deltas).sum(), large)  # convex weights of z and the v_i
        assert np.all((other >= -1e-12) & (other <= 1.0 + 1e-12))
        np.testing.assert_allclose((weights - more) @ V + large * other, point, atol=1e-12)


def test_theorem_6_the_search_decreases_no_less_than_any_of_its_weights():
    """From one start, for each of 1, 1/2, ..., 1/1024; and some weight does decrease: Lemma 2."""
    for seed in range(3):
        searched = Case("nep-fc", seed=seed, start=0.05, weight="search", least=2.0**-10)
        before = searched.h
        searched.step()
        for k in range(11):
            other = Case("nep-fc", seed=seed, start=0.05, weight="fixed", first=0.5**k)
            other.step()
            assert searched.h <= other.h * (1.0 + 1e-9)
        assert searched.h < before


def strict(m, seed=3):
    """Return |x - target|^2 / 2 on the cube with an optimum on a face of dimension `FACE_DIMENSION`."""
    rng = np.random.default_rng(seed)
    target = np.where(rng.random(m) < 0.5, -0.5, 1.5)  # strict complementarity: delta = 1/2
    target[:FACE_DIMENSION] = 0.3, 0.6, 0.45
    return LeastSquares(np.eye(m), target, hypercube(m)), np.clip(target, 0.0, 1.0)


def test_theorem_4_the_rate_does_not_know_the_dimension_of_the_cube():
    """Assumption 1 holds with delta = 1/2: iterations to 1e-9 for 30, 120 and 480 coordinates."""
    counts = []
    for m in (30, 120, 480):
        problem, optimum = strict(m)
        qp = problem.as_qp()
        solver = METHODS["nep-fc"].maker(qp)(weight="adaptive")
        state = solver.init(qp, np.zeros(m), np.random.default_rng(0))
        least, count = qp.gram.value(qp.gram.product(optimum)), 0
        while qp.gram.value(state.product) - least > 1e-9 and count < 200:
            solver.advance(qp, state, 1)
            count += 1
        counts.append(count)
    assert max(counts) <= min(counts) + 5 < 30


def test_assumption_1_holds_for_the_problem_of_theorem_4():
    """Vertices off the optimal face have a larger linear value, by delta = 1/2 at least."""
    problem, optimum = strict(30)
    g = optimum - np.asarray(problem.b)
    assert (
        np.all(np.abs(g[:FACE_DIMENSION]) < 1e-12)
        and np.min(np.abs(g[FACE_DIMENSION:])) >= 0.5 - 1e-12
    )


@pytest.mark.parametrize("size", [0.01, 0.05])
def test_theorem_7(size, monkeypatch):
    """The mean error of Algorithm 3 with a noisy gradient and the batches of the theorem.

    E h_{t+1} <= (1 - eta) E h_t + beta eta^2 S_t, S_t = D_*^2 / 2 + min(D_K^2, 2 / alpha E h_t), with
    batches of at least (G D_K (t + 1) / (beta S_t))^2; here for the least S_t, D_*^2 / 2.
    """
    m, runs, steps = 20, 30, 60

    def sampled(quad, x, rows):
        """Return the gradient with the noise of a mean over so many draws: a user's oracle."""
        noise = size * quad.smoothness * rng.standard_normal(m) / np.sqrt(len(rows))
        return quad.slope(quad.product(x)) + noise

    monkeypatch.setattr(Residual, "sampled_slope", sampled)
    histories = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        case = Case("nep-sfw", n=8000, m=m, growth=(size * m / (0.5 * FACE_DIMENSION)) ** 2)
        histories.append([case.h])
        for _ in range(steps):
            case.step()
            histories[-1].append(case.h)
        assert case.state.rows < 8000 * steps  # no gradient was exact
    mean = np.mean(histories, axis=0)
    bound = mean[0]
    for t in range(1, steps + 1):
        eta = 2.0 / (t + 1.0)
        S = 0.5 * FACE_DIMENSION + min(m, 2.0 / case.alpha * bound)
        bound = (1.0 - eta) * bound + case.beta * eta**2 * S
        assert mean[t] <= bound


def test_constant_norms_need_no_weight(rng):
    """Section 1.2: where all vertices have one length, the oracle is the linear one at g - lambda x."""
    for domain in (qpsvm.domains.L1Ball(12, 2.0), Box(-np.ones(12), np.ones(12))):
        g, x = rng.standard_normal((2, 12))
        np.testing.assert_array_equal(
            domain.nearest_vertex(g, 0.1 * x, 0.7), domain.linear_min(g - 0.07 * x)
        )
