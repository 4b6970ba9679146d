"""Matchings, matroids and bounded traces: oracles against all vertices, solves against cvxpy."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from qpsvm import InputError, LeastSquares, solve
from qpsvm.domains import (
    Birkhoff,
    KSubset,
    MatroidBases,
    PerfectMatchings,
    SpanningTrees,
    Spectrahedron,
    matching,
)

HOUSE_EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 4), (3, 4)]
BIPARTITE_EDGES = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0), (3, 3), (3, 0), (0, 3), (2, 3)]
VECTOR_COLUMNS = np.array([[1, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 0], [0, 0, 1, 0, 1, 0]], dtype=float)


def vectors():
    """Return the matroid of vectors in space, of which two are coplanar with others and one is 0."""
    return MatroidBases(6, lambda s: np.linalg.matrix_rank(VECTOR_COLUMNS[:, s]) == len(s))


def forests():
    """Return the graphic matroid of the house, by union and find."""

    def independent(elements):
        root = list(range(5))
        for e in elements:
            a, b = HOUSE_EDGES[e]
            while root[a] != a:
                a = root[a]
            while root[b] != b:
                b = root[b]
            if a == b:
                return False
            root[a] = b
        return True

    return MatroidBases(7, independent)


def matchings_of(edges):
    """Return all perfect matchings as vectors."""
    place = {edge: k for k, edge in enumerate(edges)}
    n = max(max(edge) for edge in edges) + 1
    found = []
    for order in permutations(range(n)):
        if all(pair in place for pair in enumerate(order)):
            v = np.zeros(len(edges))
            v[[place[pair] for pair in enumerate(order)]] = 1.0
            found.append(v)
    return found


def bases_of(domain):
    """Return all bases as vectors."""
    sets = combinations(range(domain.m), domain.rank)
    chosen = [np.array(s) for s in sets if domain.independent(np.array(s))]
    return [np.isin(np.arange(domain.m), s).astype(float) for s in chosen]


DOMAIN_CASES = {
    "matchings": (PerfectMatchings(BIPARTITE_EDGES), matchings_of(BIPARTITE_EDGES)),
    "vectors": (vectors(), bases_of(vectors())),
    "forests": (forests(), bases_of(forests())),
}


@pytest.fixture(params=DOMAIN_CASES.values(), ids=DOMAIN_CASES)
def case(request):
    return request.param


def test_oracles_find_the_best_of_all_vertices(case, rng):
    domain, vertices = case
    V = np.array(vertices)
    for _ in range(50):
        g, x = rng.standard_normal((2, domain.m))
        weight = rng.uniform(0.0, 3.0)
        v = domain.linear_min(g)
        assert (V == v).all(axis=1).any()
        assert np.isclose(g @ v, np.min(V @ g))
        near = domain.nearest_vertex(g, x, weight)
        values = V @ g + 0.5 * weight * np.sum((V - x) ** 2, axis=1)
        assert np.isclose(g @ near + 0.5 * weight * np.sum((near - x) ** 2), np.min(values))
        assert np.isclose(domain.farthest(x), np.max(np.sum((V - x) ** 2, axis=1)))


def test_violation_is_zero_on_the_hull_alone(case, rng):
    domain, vertices = case
    V = np.array(vertices)
    inside = rng.dirichlet(np.ones(len(V))) @ V
    assert domain.violation(inside) < 1e-12
    outside = 2.0 * V[0] - inside
    assert domain.violation(outside) > 1e-3


@pytest.mark.parametrize("method", ["pfw", "nep-fc", "bpfw"])
def test_solves_reach_the_optimum_over_all_vertices(case, method, rng):
    cp = pytest.importorskip("cvxpy")
    domain, vertices = case
    A, b = rng.standard_normal((8, domain.m)), rng.standard_normal(8)
    w = cp.Variable(len(vertices), nonneg=True)
    residual = A @ (np.array(vertices).T @ w) - b
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(residual)), [cp.sum(w) == 1])
    optimum = problem.solve(solver=cp.CLARABEL)
    c = solve(LeastSquares(A, b, domain), method, tol=1e-6, max_iter=20_000).certificate
    assert c.passed
    assert c.lower - 1e-6 <= optimum <= c.upper + 1e-6
    assert c.violation < 1e-9


def test_known_cases_agree(rng):
    """Complete graphs give `Birkhoff`, forests `SpanningTrees`, uniform matroids `KSubset`."""
    complete = PerfectMatchings([(i, j) for i in range(4) for j in range(4)])
    trees, uniform = SpanningTrees(HOUSE_EDGES), MatroidBases(9, lambda s: len(s) <= 4)
    for _ in range(20):
        g = rng.standard_normal(16)
        np.testing.assert_array_equal(complete.linear_min(g), Birkhoff(4).linear_min(g))
        np.testing.assert_array_equal(uniform.linear_min(g[:9]), KSubset(9, 4).linear_min(g[:9]))
        np.testing.assert_array_equal(forests().linear_min(g[:7]), trees.linear_min(g[:7]))


def test_dense_and_sparse_assignments_agree(monkeypatch, rng):
    n = 30
    extra = rng.integers(n, size=(90, 2))
    pairs = np.unique(np.concatenate([np.stack([np.arange(n)] * 2, axis=1), extra]), axis=0)
    domain = PerfectMatchings(pairs)
    for _ in range(10):
        g = rng.standard_normal(domain.m)
        monkeypatch.setattr(matching, "MAX_DENSE_SIDE", n)
        dense = domain.linear_min(g)
        monkeypatch.setattr(matching, "MAX_DENSE_SIDE", 1)
        sparse = domain.linear_min(g)
        assert domain.violation(sparse) == 0.0
        assert np.isclose(g @ dense, g @ sparse)
        domain.linear_min(np.zeros(domain.m))  # weights that are all equal


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PerfectMatchings([(0, 0), (1, 0)]), "perfect matching"),
        (lambda: PerfectMatchings([(0, 0), (0, 0)]), "repeated"),
        (lambda: PerfectMatchings([0, 1]), "pairs of nodes"),
        (lambda: MatroidBases(3, 1.0), "callable"),
        (lambda: MatroidBases(3, lambda s: len(s) < 1), "rank 1"),
        (lambda: MatroidBases(4, lambda s: len(s) <= 1 or set(s) <= {0, 1, 2}), "matroid"),
        (lambda: Spectrahedron(3, solid="yes"), "solid"),
    ],
)
def test_malformed_sets_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def sampled_extremes(n, trace, count, rng):
    """Return 0 and many matrices trace qq'."""
    q = rng.standard_normal((count, n))
    q /= np.linalg.norm(q, axis=1)[:, None]
    return [np.zeros(n * n), *((trace * np.outer(v, v)).ravel() for v in q)]


def test_solid_spectrahedron_oracles_beat_sampled_extremes(rng):
    domain = Spectrahedron(3, 2.0, solid=True)
    V = np.array(sampled_extremes(3, 2.0, 3000, rng))
    zeros = 0
    for shift in np.linspace(-3.0, 3.0, 30):
        g = (rng.standard_normal((3, 3)) + shift * np.eye(3)).ravel()
        x = rng.standard_normal((3, 3))
        x, weight = (x + x.T).ravel(), rng.uniform(0.0, 2.0)
        v = domain.linear_min(g)
        zeros += not v.any()
        assert g @ v <= np.min(V @ g) + 1e-12
        for sign in (1.0, -1.0):
            near = domain.nearest_vertex(g, x, sign * weight)
            values = V @ g + 0.5 * sign * weight * np.sum((V - x) ** 2, axis=1)
            found = g @ near + 0.5 * sign * weight * np.sum((near - x) ** 2)
            assert found <= np.min(values) + 1e-12
        inside = rng.dirichlet(np.ones(len(V))) @ V
        assert domain.violation(inside) < 1e-12
        assert np.isclose(domain.linear_gap(inside, g), g @ (inside - v))
    assert 0 < zeros < 30


@pytest.mark.parametrize("method", ["apg", "bpfw", "nep-fc"])
def test_solid_spectrahedron_against_cvxpy(method, rng):
    cp = pytest.importorskip("cvxpy")
    target = rng.standard_normal((3, 3))
    target = target + target.T
    X = cp.Variable((3, 3), symmetric=True)
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(X - target)), [X >> 0, cp.trace(X) <= 1.5]
    )
    optimum = problem.solve(solver=cp.CLARABEL)
    domain = Spectrahedron(3, 1.5, solid=True)
    c = solve(LeastSquares(np.eye(9), target.ravel(), domain), method, tol=1e-4).certificate
    assert c.passed
    assert c.lower - 1e-6 <= optimum <= c.upper + 1e-6
    small = 0.1 * np.outer(target[0], target[0])  # inside: projected on itself
    np.testing.assert_allclose(domain.project(small.ravel() / 5.0), small.ravel() / 5.0, atol=1e-12)
