"""The nearest-vertex oracle: the paper's theorems, and the settings of its methods."""

from __future__ import annotations

import numpy as np
import pytest

import qpsvm
from problems.programs import general
from qpsvm import LeastSquares, Status
from qpsvm.domains import Box, hypercube
from qpsvm.gram.operator import Residual
from qpsvm.solvers.methods import METHODS

# --- the theorems ---------------------------------------------------------------------------------


class AdversarialCube(Box):
    """The unit cube with the ties of the linear minimizer broken as in the proof of Theorem 2.

    Where the gradient is 0 the answer is 1 on the next block of `block` coordinates after the
    first `ones`, and 0 on the others.
    """

    ones, block, calls = 4, 4, 0

    def linear_min(self, g):
        v = np.where(g < 0.0, 1.0, 0.0)
        start = self.ones + self.block * type(self).calls
        at = np.arange(start, min(start + self.block, self.m))
        v[at[g[at] == 0.0]] = 1.0
        return v

    def separable_gap(self, x, g, d):
        return hypercube(self.m).separable_gap(x, g, d)


@pytest.mark.parametrize("method", ["fw", "mfw", "pfw", "bpfw", "fcfw"])
def test_lower_bound_of_theorem_2_holds_for_linear_oracles(method):
    """After t calls x mixes t vertices with ones on disjoint blocks, so that f stays large.

    With weight w on them, 2 f >= ones (1 - w)^2 + block w^2 / t, least at
    ones block / (ones t + block).
    """
    ones, block, calls = AdversarialCube.ones, AdversarialCube.block, 60
    m = ones + block * calls
    target = np.r_[np.ones(ones), np.zeros(m - ones)]
    domain = AdversarialCube(np.zeros(m), np.ones(m))
    qp = LeastSquares(np.eye(m), target, domain).as_qp()
    solver = METHODS[method].maker(qp)()
    AdversarialCube.calls = 0
    state = solver.init(qp, np.zeros(m), np.random.default_rng(0))
    for t in range(1, calls + 1):
        solver.advance(qp, state, 1)
        AdversarialCube.calls = t
        least = 0.5 * ones * block / (ones * t + block)
        assert 0.5 * np.sum((state.x - target) ** 2) >= least * (1.0 - 1e-9)
    assert least > 0.03  # far from the 1e-6 that the other oracle reaches


@pytest.mark.parametrize("method", ["nep-fw", "nep-fc"])
def test_nearest_vertex_needs_few_iterations_on_theorem_2(method):
    m = 244
    target = np.r_[np.ones(4), np.zeros(m - 4)]
    problem = LeastSquares(np.eye(m), target, hypercube(m))
    result = qpsvm.solve(problem, method, x0=np.zeros(m), tol=1e-3, max_iter=3)
    assert result.value <= 1e-6


def test_theorem_1(rng):
    """h_t <= 2 beta (D_*^2 + D_0^2) / t with the safeguard, from a point near the optimum."""
    data = general.hypercube_face(80, 40, 3, seed=1)
    A, b = data["A"], data["b"]
    problem = LeastSquares(A, b, hypercube(40))
    qp = problem.as_qp()
    solver = METHODS["nep-fw"].maker(qp)()
    optimum = np.linalg.solve(A.T @ A, A.T @ b)
    start = np.clip(optimum + 0.01 * rng.standard_normal(40), 0.0, 1.0)
    state = solver.init(qp, start, rng)
    beta, alpha = np.linalg.eigvalsh(A.T @ A)[[-1, 0]]
    assert isinstance(qp.gram, Residual) and qp.gram.smoothness == pytest.approx(beta)
    h = qp.gram.value(state.product)
    D0 = 2.0 * np.sqrt(2.0 * h / alpha)
    last = h
    for t in range(1, 301):
        solver.advance(qp, state, 1)
        h = qp.gram.value(state.product)
        assert h <= last + 1e-12
        last = h
        if t >= 2:
            assert h <= 2.0 * beta * (3.0 + D0**2) / t  # a face of dimension 3: D_*^2 = 3
    assert state.counters["nearest"] > 0


def test_nearest_vertex_wins_on_the_hypercube_with_many_rows():
    """Paper section 4.1: after 200 steps of size 2/(t+1), ten times closer than with the LMO."""
    wins = []
    for seed in range(3):
        data = general.hypercube_face(200, 100, 5, seed)
        problem = LeastSquares(data["A"], data["b"], hypercube(100))
        x0 = np.zeros(100)
        nearest = qpsvm.solve(problem, "nep-fw", x0=x0, max_iter=200, tol=1e-9, safeguard=False)
        linear = qpsvm.solve(problem, "fw", x0=x0, max_iter=200, tol=1e-9)
        wins.append(linear.value / nearest.value)
    assert min(wins) > 10.0


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"weight": "adaptive"},
        {"weight": "adaptive", "safe": True},
        {"weight": "search"},
        {"weight": "scheduled", "decay": 0.7},
        {"weight": "fixed", "first": 0.0},
        {"corrector": "fista", "inner_steps": 300},
    ],
)
def test_corrective_settings_reach_the_optimum(options):
    problem = general.declare(general.INSTANCES["least_squares/k_subset"])
    result = qpsvm.solve(problem, "nep-fc", tol=1e-6, max_iter=400, **options)
    assert result.status is Status.OPTIMAL


def test_option_1_descends_to_the_optimum_slowly():
    problem = general.declare(general.INSTANCES["least_squares/simplex"])
    best = qpsvm.solve(problem, "apg", tol=1e-9).value
    result = qpsvm.solve(problem, "nep-fc", option=1, tol=1e-3, max_iter=500)
    assert best - 1e-9 <= result.value <= 1.01 * best
    assert np.all(np.diff(result.history.upper) <= 1e-9)


def test_nep_fc_finds_the_optimum_0_exactly():
    problem = general.declare(general.INSTANCES["least_squares/hypercube-face"])
    result = qpsvm.solve(problem, "nep-fc", tol=1e-6)
    assert result.certificate.test == "absolute"
    assert result.value <= 1e-13 * problem.as_qp().scale


@pytest.mark.parametrize("step", ["theory", "line-search"])
def test_nep_fw_steps(step):
    problem = general.declare(general.INSTANCES["least_squares/flow"])
    assert qpsvm.solve(problem, "nep-fw", step=step, tol=1e-2).converged


def test_dyadic_steps_stay_on_the_lattice():
    problem = general.declare(general.INSTANCES["quadratic_program/flow"])
    result = qpsvm.solve(problem, "dicg", step="dyadic", max_iter=40, tol=1e-12)
    assert np.all(result.x * 2.0**20 == np.round(result.x * 2.0**20))


def test_stochastic_methods_repeat_with_the_seed_and_read_few_rows():
    data = general.hypercube_face(4000, 20, 3, seed=2)
    problem = LeastSquares(data["A"], data["b"], hypercube(20))
    runs = [qpsvm.solve(problem, "nep-sfw", seed=s, max_iter=100, tol=1e-9) for s in (0, 0, 1)]
    assert runs[0].x.tobytes() == runs[1].x.tobytes() != runs[2].x.tobytes()
    assert runs[0].counters["rows"] < 100 * 4000 / 3
    linear = qpsvm.solve(problem, "sfw", max_iter=100, tol=1e-9)
    assert runs[0].value < linear.value
