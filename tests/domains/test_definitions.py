"""Minima, gaps and violations of domains beside their definitions, also inside of them and at ties."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from scipy.optimize import linprog

from qpsvm.domains import (
    Birkhoff,
    Box,
    BoxHyperplane,
    CappedSimplex,
    Domain,
    FlowPolytope,
    Hull,
    KSubset,
    L1Ball,
    L2Ball,
    MatroidBases,
    NuclearBall,
    Orthant,
    PenaltyBox,
    PerfectMatchings,
    ScaledSimplex,
    SimplexProduct,
    SpanningTrees,
    Spectrahedron,
    SpectralBall,
)  # fmt: skip
from qpsvm.domains.box_hyperplane import convex_gap
from qpsvm.errors import InputError


@pytest.mark.parametrize("seed", range(8))
def test_ties_of_a_linear_minimum_are_filled_until_the_sum_is_zero(seed):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(9) < 0.5, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    g, upper = rng.integers(-1, 2, 9).astype(float), rng.integers(1, 5, 9) / 4.0
    v = BoxHyperplane(upper, y).linear_min(g)
    best = linprog(g, A_eq=y[None, :], b_eq=[0.0], bounds=[(0.0, u) for u in upper])
    assert abs(y @ v) <= 1e-12 and np.all(v >= 0.0) and np.all(v <= upper)
    assert g @ v == pytest.approx(best.fun, abs=1e-9)


@pytest.mark.parametrize("length", [0.0, 0.3, 2.0])
def test_the_gap_of_a_ball_is_that_of_the_definition_inside_of_it(length, rng):
    ball, g = L2Ball(5, radius=2.0), rng.standard_normal(5)
    x = rng.standard_normal(5)
    x *= length / np.linalg.norm(x)
    assert ball.linear_gap(x, g) == pytest.approx(g @ x + 2.0 * np.linalg.norm(g), rel=1e-12)


@pytest.mark.parametrize("m", [6, 14])
def test_the_violation_of_a_matroid_is_that_of_its_constraints(m):
    uniform = MatroidBases(m, lambda s: len(s) <= 3)
    inside = np.full(m, 3.0 / m)
    assert uniform.violation(inside) <= 1e-15
    above = inside.copy()
    above[0] = 1.25
    above[1:] -= (above.sum() - 3.0) / (m - 1)
    assert uniform.violation(above) == pytest.approx(0.25)
    assert uniform.violation(inside + 0.5 / m) == pytest.approx(0.5)
    below = inside.copy()
    below[0], below[1] = -0.125, below[1] + below[0] + 0.125
    assert uniform.violation(below) == pytest.approx(0.125)


def test_a_violated_pair_of_a_small_matroid_is_found():
    """No element and no complement of one violates its constraint."""
    matroid = MatroidBases(6, lambda s: len(s) <= 3 and not {0, 1} <= set(s.tolist()))
    x = np.array([0.75, 0.75, 0.375, 0.375, 0.375, 0.375])
    assert matroid.violation(x) == pytest.approx(0.5)


def test_the_gap_with_a_defect_is_the_largest_at_a_bound(rng):
    upper = rng.uniform(0.5, 1.5, 7)
    x, slack, defect = rng.random(7) * upper, rng.standard_normal(7), 0.4
    corners = np.array(np.meshgrid(*[(0.0, u) for u in upper])).reshape(7, -1).T
    values = (x - corners) @ slack + 0.5 * defect * np.sum((x - corners) ** 2, axis=1)
    assert convex_gap(x, upper, slack, defect) == pytest.approx(float(np.max(values)))


def test_the_sums_of_a_box_with_a_hyperplane_are_zero(rng):
    upper, y = rng.uniform(0.5, 1.5, 6), np.resize([1.0, -1.0], 6)
    described = BoxHyperplane(upper, y).box_with_sums()
    np.testing.assert_array_equal(described.upper, upper)
    np.testing.assert_array_equal(described.rows, y[None, :])
    np.testing.assert_array_equal(described.sums, [0.0])
    free = PenaltyBox(upper).box_with_sums()
    assert free.rows.shape == (0, 6) and len(free.sums) == 0
    groups = SimplexProduct(np.array([0, 1, 0, 1, 1, 0])).box_with_sums()
    np.testing.assert_array_equal(groups.rows @ np.arange(6.0), [7.0, 8.0])
    np.testing.assert_array_equal(groups.sums, [1.0, 1.0])


DOMAIN_OF_NAME = {
    "groups": lambda: SimplexProduct(np.array([0, 1, 0, 1, 1])),
    "capped": lambda: CappedSimplex(np.full(3, 0.5)),
    "box with a hyperplane": lambda: BoxHyperplane(np.ones(3), np.array([1.0, -1.0, 1.0])),
    "penalty box": lambda: PenaltyBox(np.ones(3)),
    "box": lambda: Box(np.array([-1.0, 0.5, 2.0]), np.array([0.0, 1.5, 2.25])),
    "ball": lambda: L2Ball(3),
    "l1 ball": lambda: L1Ball(3, 2.0),
    "scaled simplex": lambda: ScaledSimplex(3, 2.0, solid=True),
    "orthant": lambda: Orthant(3),
    "subsets": lambda: KSubset(6, 2),
    "trees": lambda: SpanningTrees([[0, 1], [1, 2], [0, 2]]),
    "flow": lambda: FlowPolytope(np.array([0, 1, 0]), np.array([1, 2, 2]), 0, 2),
    "matchings": lambda: PerfectMatchings([[0, 0], [0, 1], [1, 0], [1, 1]]),
    "matroid": lambda: MatroidBases(4, lambda s: len(s) <= 2),
    "birkhoff": lambda: Birkhoff(3),
    "spectrahedron": lambda: Spectrahedron(3, 2.0),
    "nuclear": lambda: NuclearBall(2, 3, 1.5),
    "spectral": lambda: SpectralBall(2, 3, 1.5),
    "hull": lambda: Hull(np.arange(8.0).reshape(4, 2)),
}
every_domain = pytest.mark.parametrize("name", DOMAIN_OF_NAME)


@every_domain
def test_domains_are_constants_compared_by_identity(name):
    domain, other = DOMAIN_OF_NAME[name](), DOMAIN_OF_NAME[name]()
    assert domain == domain and domain != other and len({domain, other}) == 2
    with pytest.raises(AttributeError):
        setattr(domain, fields(domain)[0].name, None)


@every_domain
def test_the_longest_step_ends_at_the_boundary(name, rng):
    domain = DOMAIN_OF_NAME[name]()
    if type(domain).longest is Domain.longest:
        pytest.skip("it has no longest step")
    vertices = [domain.linear_min(rng.standard_normal(domain.m)) for _ in range(40)]
    for size in (0.3, 3.0, 30.0):
        x = np.average(vertices, axis=0, weights=rng.random(40))
        d = size * (vertices[rng.integers(40)] - x)
        t = domain.longest(x, d)
        assert 0.0 < t <= 1.0 and domain.violation(x + t * d) <= 1e-9
        if t < 1.0:
            assert domain.violation(x + (t + 1e-3) * d) > 1e-9


@pytest.mark.parametrize("ridged", [False, True])
def test_levels_of_a_simplex_lie_between_their_bounds(ridged, rng):
    domain = SimplexProduct(np.array([0, 1, 0, 1, 1, 0, 0]))
    for d in (np.full(7, 0.7), rng.uniform(0.1, 2.0, 7)):
        g, d = rng.standard_normal(7), d if ridged else np.zeros(7)
        x = domain.repair(rng.random(7))
        gap, levels = domain.separable_gap(x, g, d)
        dual, primal = 0.0, float(g @ x + 0.5 * d @ (x * x))
        for k in (0, 1):  # the maximum over the level t of t - sum max(0, t - g_i)^2 / (2 d_i)
            of = np.flatnonzero(domain.group == k)
            if not ridged:
                assert levels[k] == pytest.approx(g[of].min())
                dual += g[of].min()
                continue
            weights = np.maximum(levels[k] - g[of], 0.0) / d[of]
            assert weights.sum() == pytest.approx(1.0, rel=1e-9)
            dual += g[of] @ weights + 0.5 * d[of] @ weights**2
        assert gap == pytest.approx(primal - dual, abs=1e-9)


@every_domain
def test_no_vertex_is_farther_than_the_bound(name, rng):
    domain = DOMAIN_OF_NAME[name]()
    if name in ("orthant", "hull", "matroid", "trees", "flow", "matchings", "birkhoff"):
        pytest.skip("it is unbounded, or its vertices are those of a tested oracle")
    vertices = [domain.linear_min(rng.standard_normal(domain.m)) for _ in range(60)]
    x = np.mean(vertices, axis=0)
    squares = [float((v - x) @ (v - x)) for v in vertices]
    assert max(squares) <= domain.farthest(x) * (1.0 + 1e-12) <= 4.0 * max(squares) + 1e-9


def test_the_bound_of_boxes_and_capped_simplices_is_that_of_its_formula(rng):
    upper, x = rng.uniform(0.3, 0.9, 6), rng.uniform(0.0, 0.3, 6)
    squares = np.maximum(x, upper - x) ** 2
    assert PenaltyBox(upper).farthest(x) == pytest.approx(squares.sum())
    y = np.resize([1.0, -1.0], 6)
    assert BoxHyperplane(upper, y).farthest(x) == pytest.approx(squares.sum())
    most = linprog(
        2.0 * x - upper, A_eq=np.ones((1, 6)), b_eq=[1.0], bounds=[(0.0, u) for u in upper]
    )
    capped = CappedSimplex(upper)
    assert capped.farthest(x) == pytest.approx(x @ x - most.fun)


def test_a_weight_at_its_bound_is_full_up_to_a_billionth():
    upper = np.array([0.5, 0.5, 0.5, 0.25])
    x = upper * [1.0, 1.0 - 0.5e-9, 1.0 - 2e-9, 0.5]
    np.testing.assert_array_equal(CappedSimplex(upper).full(x), [True, True, False, False])


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(np.zeros((2, 2)), np.ones((2, 2))), (0.0, 1.0), ([0.0], [1.0, 2.0]), ([], [])],
)
def test_bounds_of_a_box_must_be_vectors_of_one_length(lower, upper):
    with pytest.raises(InputError, match="lower and upper must have the same shape"):
        Box(lower, upper)
