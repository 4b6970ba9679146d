"""Every domain on small cases: its oracles against brute force over its vertices."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest

from qpsvm import InputError
from qpsvm.domains import (
    Birkhoff,
    Box,
    FlowPolytope,
    Hull,
    KSubset,
    L1Ball,
    L2Ball,
    NuclearBall,
    ScaledSimplex,
    SimplexProduct,
    SpanningTrees,
    Spectrahedron,
    SpectralBall,
    hypercube,
    linf_ball,
    simplex,
)
from qpsvm.domains.flow import layered_graph

SAMPLE_POINTS = np.random.default_rng(3).normal(size=(7, 3))
SKIPPING_EDGES = [
    (0, 1),
    (0, 2),
    (1, 2),
    (1, 3),
    (2, 3),
    (2, 4),
    (3, 4),
    (0, 4),
    (5, 3),
]  # 5: no path
HOUSE_EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 4), (3, 4)]


def unit(m, radius=1.0):
    return [radius * e for e in np.eye(m)]


def paths(edges, source, target):
    if source == target:
        return [[]]
    return [
        [k, *rest]
        for k, (tail, head) in enumerate(edges)
        if tail == source
        for rest in paths(edges, head, target)
    ]


def indicator(m, chosen):
    v = np.zeros(m)
    v[list(chosen)] = 1.0
    return v


def is_tree(edges, n):
    parent = list(range(n))

    def root(i):
        return i if parent[i] == i else root(parent[i])

    for i, j in edges:
        if root(i) == root(j):
            return False
        parent[root(i)] = root(j)
    return len(edges) == n - 1


def vertices(name):
    if name == "hypercube":
        return hypercube(4), [np.array(v, float) for v in product((0, 1), repeat=4)]
    if name == "box":
        low, up = np.array([-1.0, 0.5, -2.0]), np.array([2.0, 0.75, -1.0])
        return Box(low, up), [np.array(v) for v in product(*zip(low, up, strict=True))]
    if name == "linf":
        return linf_ball(3, 2.0), [np.array(v) for v in product((-2.0, 2.0), repeat=3)]
    if name == "l1":
        return L1Ball(4, 1.5), unit(4, 1.5) + unit(4, -1.5)
    if name == "simplex":
        return simplex(5), unit(5)
    if name == "simplices":
        group = np.array([0, 1, 0, 1, 2, 1])
        chosen = product([0, 2], [1, 3, 5], [4])
        return SimplexProduct(group), [indicator(6, c) for c in chosen]
    if name == "scaled":
        return ScaledSimplex(4, 3.0), unit(4, 3.0)
    if name == "solid":
        return ScaledSimplex(4, 3.0, solid=True), [*unit(4, 3.0), np.zeros(4)]
    if name == "k-subset":
        return KSubset(6, 2), [indicator(6, c) for c in combinations(range(6), 2)]
    if name == "trees":
        found = [
            indicator(len(HOUSE_EDGES), c)
            for c in combinations(range(len(HOUSE_EDGES)), 4)
            if is_tree([HOUSE_EDGES[k] for k in c], 5)
        ]
        return SpanningTrees(HOUSE_EDGES), found
    if name == "flow":
        tail, head = np.array(SKIPPING_EDGES).T
        found = [indicator(len(SKIPPING_EDGES), p) for p in paths(SKIPPING_EDGES, 0, 4)]
        return FlowPolytope(tail, head, 0, 4), found
    if name == "layered":
        tail, head, source, target = layered_graph([3, 2, 3], 0.5, seed=0)
        edges = list(zip(tail.tolist(), head.tolist(), strict=True))
        found = [indicator(len(edges), p) for p in paths(edges, source, target)]
        return FlowPolytope(tail, head, source, target), found
    if name == "birkhoff":
        return Birkhoff(3), [np.eye(3)[list(p)].ravel() for p in permutations(range(3))]
    return Hull(SAMPLE_POINTS), list(SAMPLE_POINTS)


POLYTOPE_DOMAINS = (
    "hypercube box linf l1 simplex simplices scaled solid k-subset trees flow layered birkhoff hull"
).split()
ROUND_DOMAINS = {
    "l2": L2Ball(4, 2.0),
    "spectrahedron": Spectrahedron(3, 2.0),
    "nuclear": NuclearBall(3, 4, 1.5),
    "spectral": SpectralBall(4, 3, 1.5),
}


def extreme_points(name, rng):
    """Extreme points drawn at random."""
    if name == "l2":
        q = rng.normal(size=4)
        return 2.0 * q / np.linalg.norm(q)
    if name == "spectrahedron":
        q = rng.normal(size=3)
        return (2.0 * np.outer(q, q) / (q @ q)).ravel()
    if name == "nuclear":
        u, v = rng.normal(size=3), rng.normal(size=4)
        return (1.5 * np.outer(u, v) / np.linalg.norm(u) / np.linalg.norm(v)).ravel()
    U, _, Vt = np.linalg.svd(rng.normal(size=(4, 3)), full_matrices=False)
    return 1.5 * (U @ Vt).ravel()


def having(what):
    """Names of the domains with an oracle."""
    domains = {name: vertices(name)[0] for name in POLYTOPE_DOMAINS} | ROUND_DOMAINS
    return [name for name, domain in domains.items() if getattr(domain, what)]


def drawn(rng, m, integers):
    """Gradients with and without ties."""
    return rng.integers(-2, 3, size=m).astype(float) if integers else rng.normal(size=m)


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("name", POLYTOPE_DOMAINS)
def test_oracles_equal_brute_force(name, integers, rng):
    domain, all_vertices = vertices(name)
    V = np.array(all_vertices)
    for _ in range(40):
        g = drawn(rng, domain.m, integers)
        x = rng.dirichlet(np.ones(len(V))) @ V
        v = domain.linear_min(g)
        assert np.min(np.abs(V - v).max(axis=1)) == 0.0, "a vertex"
        assert g @ v == pytest.approx(np.min(V @ g), abs=1e-12)
        gap, _ = domain.separable_gap(x, g, np.zeros(domain.m))
        assert gap == pytest.approx(g @ x - np.min(V @ g), abs=1e-12)
        for weight in (0.1, 1.0, 30.0):
            v = domain.nearest_vertex(g, x, weight)
            assert np.min(np.abs(V - v).max(axis=1)) == 0.0
            values = V @ g + 0.5 * weight * np.sum((V - x) ** 2, axis=1)
            mine = g @ v + 0.5 * weight * np.sum((v - x) ** 2)
            assert mine == pytest.approx(values.min(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ROUND_DOMAINS)
def test_oracles_of_round_sets(name, rng):
    domain = ROUND_DOMAINS[name]
    for _ in range(20):
        g = rng.normal(size=domain.m)
        sample = np.array([extreme_points(name, rng) for _ in range(300)])
        x = 0.9 * sample[0] + 0.1 * sample[1]
        v = domain.linear_min(g)
        assert domain.violation(v) <= 1e-12
        assert np.linalg.norm(v) == pytest.approx(np.linalg.norm(sample[2]))  # extreme: norm
        assert g @ v <= np.min(sample @ g) + 1e-12
        gap, _ = domain.separable_gap(x, g, np.zeros(domain.m))
        assert gap == pytest.approx(g @ (x - v), abs=1e-11)
        v = domain.nearest_vertex(g, x, 2.0)
        near = sample @ g + np.sum((sample - x) ** 2, axis=1)
        assert g @ v + np.sum((v - x) ** 2) <= near.min() + 1e-12
        zero = domain.linear_min(np.zeros(domain.m))
        assert np.isfinite(zero).all() and domain.violation(zero) <= 1e-12


@pytest.mark.parametrize("name", [*POLYTOPE_DOMAINS, *ROUND_DOMAINS])
def test_membership(name, rng):
    if name in ROUND_DOMAINS:
        domain = ROUND_DOMAINS[name]
        V = np.array([extreme_points(name, rng) for _ in range(9)])
    else:
        domain, all_vertices = vertices(name)
        V = np.array(all_vertices)
    inside = rng.dirichlet(np.ones(len(V))) @ V
    assert domain.violation(inside) <= 1e-12
    np.testing.assert_allclose(domain.repair(inside), inside, atol=1e-12)
    center = V.mean(axis=0)
    for v in V[:8]:
        if np.linalg.norm(v - center) > 0:
            assert domain.violation(center + 1.3 * (v - center)) > 1e-3
    assert np.prod(domain.shape) == domain.m


@pytest.mark.parametrize("name", having("projectable"))
def test_projection(name, rng):
    """The projection p of z satisfies (z - p)'(v - p) <= 0 for every v of the set."""
    domain = ROUND_DOMAINS[name] if name in ROUND_DOMAINS else vertices(name)[0]
    for scale in (0.1, 1.0, 10.0):
        for _ in range(20):
            z = scale * rng.normal(size=domain.m)
            if name == "spectrahedron":
                z = 0.5 * (z.reshape(3, 3) + z.reshape(3, 3).T).ravel()
            p = domain.project(z)
            assert domain.violation(p) <= 1e-12 * max(1.0, scale)
            assert (z - p) @ (domain.linear_min(p - z) - p) <= 1e-10 * max(1.0, scale)
            np.testing.assert_allclose(domain.project(p), p, atol=1e-12 * max(1.0, scale))


@pytest.mark.parametrize("name", having("has_face_oracle"))
def test_faces(name, rng):
    """The vertex of the least face around x is one with the greatest g'v, and x can move."""
    domain, all_vertices = vertices(name)
    V = np.array(all_vertices)
    for _ in range(40):
        chosen = V[rng.choice(len(V), size=2, replace=False)]
        x = 0.25 * chosen[0] + 0.75 * chosen[1]
        # on the face: equal to x wherever x is at a bound
        on = [v for v in V if np.all(v[x == 0.0] == 0.0) and np.all(v[x == 1.0] == 1.0)]
        g = rng.normal(size=domain.m)
        v = domain.face_vertex(g, x)
        assert np.min(np.abs(V - v).max(axis=1)) == 0.0
        assert g @ v == pytest.approx(np.max(np.array(on) @ g), abs=1e-12)
        d = domain.linear_min(g) - v
        t = domain.longest(x, d)
        assert t > 0.0
        assert domain.violation(x + t * d) <= 1e-12


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: L1Ball(3, 0.0), "radius"),
        (lambda: L1Ball(0, 1.0), "m"),
        (lambda: Box([0.0], [-1.0]), "lower"),
        (lambda: Box([0.0], [np.inf]), "upper"),
        (lambda: KSubset(3, 4), "k"),
        (lambda: SpanningTrees([(0, 1), (2, 3)]), "edges"),
        (lambda: SpanningTrees([(0, 1), (1, 0)]), "edges"),
        (lambda: FlowPolytope([0, 1], [1, 0], 0, 1), "cycle"),
        (lambda: FlowPolytope([0, 2], [1, 3], 0, 3), "path"),
        (lambda: Hull([[np.nan]]), "points"),
        (lambda: Birkhoff(0), "n"),
        (lambda: NuclearBall(2, 2, -1.0), "radius"),
    ],
)
def test_malformed_domains_are_refused(make, name):
    with pytest.raises(InputError, match=name):
        make()


def test_outside_without_projection_is_refused():
    with pytest.raises(InputError, match="x0"):
        Birkhoff(2).repair(np.array([1.0, 1.0, 0.0, 0.0]))
