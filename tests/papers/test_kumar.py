"""Kumar and Yildirim: the lemmas and the linear rate on two polytopes, and the misprints."""

from __future__ import annotations

import numpy as np
import pytest

import qpsvm
from problems.clouds import separable_clouds
from qpsvm import RBF, Linear, PolytopeDistanceDual
from qpsvm.solvers.methods import METHODS
from qpsvm.solvers.shared import prefetch
from tests.solvers.working_set.test_core_set import SEPARATED_INSTANCES, papers_epsilon, states

X, Y = separable_clouds(120, 3, seed=5, gap=1.0)
POLYTOPE_CASES = {
    "linear": PolytopeDistanceDual(Linear(X), Y),
    "penalty": PolytopeDistanceDual(Linear(X), Y, chi=10.0),
    "rbf": PolytopeDistanceDual(RBF(X, 0.3), Y, chi=10.0),
}
each = pytest.mark.parametrize("problem", POLYTOPE_CASES.values(), ids=POLYTOPE_CASES)


def path(problem, method, steps, rng):
    """Return Psi, the paper's epsilon and the count of drops at the start and after each step."""
    solver, found = METHODS[method].maker(problem.as_qp())(), []
    for state, f in states(problem, solver, rng):
        epsilon = papers_epsilon(problem, state.x, f)
        found.append((0.5 * state.x @ f, epsilon, state.counters.get("drop", 0)))
        if len(found) > steps or epsilon < 1e-9:
            break
    return np.array(found).T


@pytest.mark.parametrize("instance", SEPARATED_INSTANCES, ids=str)
def test_lemma_3_1(instance, rng):
    """Psi+ <= Psi (1 - eps^2 Psi* / (eps^2 Psi* + delta)) after every step that is no drop."""
    problem = instance.declare()
    least = qpsvm.solve(problem, "mnp", tol=1e-9).certificate.lower
    if not least > 0.0:
        pytest.skip("the hulls meet: no bound is claimed")
    value, epsilon, drops = path(problem, "mfw", 400, rng)
    gain = epsilon[:-1] ** 2 * least
    bound = value[:-1] * (1.0 - gain / (gain + problem.delta()))
    is_drop = np.diff(drops) > 0
    assert np.all(value[1:] <= value[:-1] * (1.0 + 1e-12))  # also where it drops: Theorem 3.4
    assert np.all(value[1:][~is_drop] <= bound[~is_drop] * (1.0 + 1e-12))


@each
def test_lemma_3_2_an_iterate_solves_a_perturbed_problem(problem, rng):
    """(34) to (36): right-hand sides within 2 eps |w|^2, orthogonal to the weights, value Psi."""
    y = problem.y
    for k, (state, f) in enumerate(states(problem, METHODS["mfw"].maker(problem.as_qp())(), rng)):
        x, square = state.x, float(state.x @ f)
        epsilon = papers_epsilon(problem, x, f)
        for label in (1.0, -1.0):
            here = y == label
            level = x[here] @ f[here]  # alpha, and -beta
            b = np.where(x[here] > 0.0, f[here] - level, -2.0 * epsilon * square)
            assert np.all(f[here] - level >= b - 1e-9 * square)  # feasible
            assert np.all(np.abs(b) <= 2.0 * epsilon * square + 1e-9 * square)
            assert abs(x[here] @ b) <= 1e-9 * square
        if k == 60:
            break


@each
@pytest.mark.parametrize("tol", [0.3, 0.03])
def test_theorem_3_2_columns_are_those_of_the_iterations(problem, tol, monkeypatch):
    """With prefetching off an iteration evaluates two columns, and the start four, of m + r entries each.

    Times (29), the bound of Theorem 3.1, that is the theorem's count of kernel evaluations.
    """
    monkeypatch.setattr(prefetch, "MIN_PREFETCH_COLUMNS", 1 << 30)
    result = qpsvm.solve(problem, "mfw", tol=tol)
    assert result.converged
    assert result.counters["columns"] <= 4 + 2 * result.n_iter
    least = qpsvm.solve(problem, "mnp", tol=1e-9).certificate.lower
    ratio = max(problem.delta() / least, 2.0)
    epsilon = 0.5 * tol  # a relative gap of Psi; the paper's is in the norm
    assert result.n_iter <= 6.0 + 10.0 * ratio * np.log2(ratio) + 32.0 * ratio / epsilon


@each
def test_theorem_3_4_a_digit_costs_a_bounded_number_of_iterations(problem, rng):
    value, epsilon, drops = path(problem, "mfw", 20_000, rng)
    assert epsilon[-1] < 1e-9
    reached = [int(np.argmax(epsilon <= 10.0**-k)) for k in range(2, 10)]
    digits = np.diff(reached)
    assert digits.max() <= 4.0 * max(np.median(digits), 1.0) + 10.0
    after = int(np.argmax(drops == drops[-1]))  # the last drop
    gap = value[after:-1] - value[-1]
    tail = gap > 1e-12 * value[-1]
    ratio = gap[tail][1:] / gap[tail][:-1]
    assert len(ratio) < 2 or ratio.max() < 1.0


def test_the_rate_is_not_that_of_gilberts_method(rng):
    """Without away steps the same accuracy costs in proportion to 1 / epsilon."""
    problem = POLYTOPE_CASES["linear"]
    with_away = path(problem, "mfw", 20_000, rng)[1]
    without = path(problem, "gilbert", 5 * len(with_away), rng)[1]
    toward = qpsvm.solve(problem, "gilbert", tol=1e-9, max_iter=5 * len(with_away))
    assert with_away[-1] < 1e-9 < toward.certificate.relative_gap
    assert without.min() > 1e-9


def test_the_cross_term_of_an_add_step_is_a_plus(rng):
    """|(1 - l)w + l z|^2 = (1 - l)^2 |w|^2 + 2 l (1 - l) w'z + l^2 |z|^2; 3.4 prints a minus."""
    w, z = rng.standard_normal((2, 5))
    length = 0.3
    exact = np.sum(((1.0 - length) * w + length * z) ** 2)
    ends = (1.0 - length) ** 2 * w @ w + length**2 * z @ z
    cross = 2.0 * length * (1.0 - length) * w @ z
    assert exact == pytest.approx(ends + cross)
    assert abs(exact - (ends - cross)) > 0.1 * abs(cross)


def test_25_has_the_projection_of_z_in_place_of_z(rng):
    """|w - z|^2 = |w|^2 - 2 w'z + |z_par|^2 + |z_perp|^2; with |z|^2 the last part counts twice."""
    w, z = rng.standard_normal((2, 5))
    along = (z @ w) / (w @ w) * w
    across = z - along
    exact = np.sum((w - z) ** 2)
    assert exact == pytest.approx(w @ w - 2.0 * w @ z + along @ along + across @ across)
    assert exact + across @ across == pytest.approx(w @ w - 2.0 * w @ z + z @ z + across @ across)


def test_duplicate_points_do_not_share_the_ridge():
    """kappa + delta_xy / chi: delta is by sample, else two copies would not share the slack."""
    points, labels = np.array([[0.0], [0.0], [2.0]]), np.array([1.0, 1.0, -1.0])
    found = qpsvm.solve(PolytopeDistanceDual(Linear(points), labels, chi=1.0), tol=1e-10)
    # u = (1/2, 1/2): 1/2 (2^2) + (1/4 + 1/4 + 1) / 2
    assert found.value == pytest.approx(2.0 + 0.75)
