"""Domains against brute force: vertices, separable gaps, repair, violation, restriction."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar

from qpsvm.domains import BoxHyperplane, CappedSimplex, PenaltyBox, SimplexProduct, simplex
from qpsvm.domains.water_level import level_and_gap
from qpsvm.errors import InputError

M = 9
GROUP_OF_COORDINATE = np.array([0, 1, 0, 2, 1, 0, 2, 1, 0])
Y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0])
UPPER_BOUNDS = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.25, 1.0, 1.0, 4.0])
DOMAIN_CASES = {
    "simplex": simplex(M),
    "product": SimplexProduct(GROUP_OF_COORDINATE),
    "box": BoxHyperplane(UPPER_BOUNDS, Y),
    "capped": CappedSimplex(UPPER_BOUNDS / 6.0),
    "capped-product": CappedSimplex(UPPER_BOUNDS, GROUP_OF_COORDINATE, [0.75, 1.0, 2.0]),
    "tight-box": BoxHyperplane(np.full(M, 1e-8), Y),
    "uncut-box": PenaltyBox(UPPER_BOUNDS),
}
RANDOM_SEEDS = range(5)


@pytest.fixture(params=DOMAIN_CASES.values(), ids=DOMAIN_CASES)
def domain(request):
    return request.param


def constraints(domain):
    """Return the equality rows, their right-hand sides and the upper bounds."""
    if isinstance(domain, BoxHyperplane):
        return domain.y[None, :], [0.0], domain.upper
    if isinstance(domain, PenaltyBox):
        return np.zeros((0, domain.m)), [], domain.upper
    rows = np.array([domain.group == g for g in range(domain.n_groups)], float)
    if isinstance(domain, CappedSimplex):
        return rows, domain.total, domain.upper
    return rows, np.ones(domain.n_groups), np.full(domain.m, np.inf)


def least(domain, g):
    """Return min g'v by a linear program, in units in which the bounds are about 1."""
    rows, right, upper = constraints(domain)
    unit = upper.min() if np.isfinite(upper).all() else 1.0
    bounds = list(zip(np.zeros(M), upper / unit, strict=True))
    return unit * linprog(g, A_eq=rows, b_eq=np.divide(right, unit), bounds=bounds).fun


def drawn(seed, size=1.0):
    """Return random numbers of both signs, one at least in each group positive."""
    x = size * np.random.default_rng(seed).standard_normal(M)
    x[:4] = np.abs(x[:4])
    return x


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
def test_linear_min_is_the_vertex_of_a_linear_program(domain, seed):
    g = drawn(seed)
    g[seed % 3 :: 3] = g[0]  # ties
    v = domain.linear_min(g)
    assert domain.violation(v) <= 1e-15
    assert g @ v == pytest.approx(least(domain, g), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
def test_separable_gap_without_ridge_is_the_frank_wolfe_gap(domain, seed):
    g, x = drawn(seed), domain.repair(drawn(seed + 10))
    gap, multipliers = domain.separable_gap(x, g, np.zeros(domain.m))
    assert gap == pytest.approx(g @ x - least(domain, g), rel=1e-9, abs=1e-15)
    assert gap >= 0 and len(multipliers) == len(constraints(domain)[1])


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
@pytest.mark.parametrize("ridge", [1e-6, 1.0, 1e6, "mixed"])
def test_separable_gap_with_ridge_by_weak_duality(seed, ridge):
    """Its multipliers prove it: the Lagrangian at them has the same value as the minimum."""
    g, x = drawn(seed), DOMAIN_CASES["product"].repair(drawn(seed + 10))
    d = np.full(M, ridge) if ridge != "mixed" else np.where(np.arange(M) % 2, 2.0, 0.0)
    gap, levels = DOMAIN_CASES["product"].separable_gap(x, g, d)
    slack = levels[GROUP_OF_COORDINATE] - g
    positive = np.maximum(slack, 0.0)
    assert np.all(positive[d == 0] <= 1e-15)
    lagrangian = levels.sum() - np.sum(positive[d > 0] ** 2 / (2.0 * d[d > 0]))
    value = g @ x + 0.5 * d @ x**2
    assert gap == pytest.approx(value - lagrangian, rel=1e-9, abs=1e-13 * max(1.0, abs(value)))


def test_separable_gap_of_the_minimizer_is_zero():
    g, d = np.array([0.0, 1.0, 5.0]), np.array([1.0, 1.0, 1.0])
    gap, levels = simplex(3).separable_gap(np.array([1.0, 0.0, 0.0]), g, d)
    assert gap == 0.0 and levels == pytest.approx([1.0])


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_water_level_fills_exactly_one(seed, scale):
    rng = np.random.default_rng(seed)
    g, d, x = scale * rng.standard_normal(50), rng.uniform(0.1, 10.0, 50), np.full(50, 0.02)
    level, _ = level_and_gap(x, g, d)
    assert np.sum(np.maximum(level - g, 0.0) / d) == pytest.approx(1.0, rel=1e-4)
    assert level_and_gap(x, g, 0.0 * d)[0] == g.min()
    assert level_and_gap(x, g + 1.0, d)[0] == pytest.approx(level + 1.0)


@pytest.mark.parametrize("n_support", [1, 40, 5000])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e3])
def test_the_water_level_needs_no_sort(n_support, spread):
    """The support of x, where the search begins, changes the level by rounding alone."""
    rng = np.random.default_rng(0)
    g, d, x = spread * rng.standard_normal(5000), rng.uniform(0.1, 10.0, 5000), np.zeros(5000)
    x[rng.permutation(5000)[:n_support]] = 1.0 / n_support
    order = np.argsort(g)
    levels = (1.0 + np.cumsum(g[order] / d[order])) / np.cumsum(1.0 / d[order])
    by_sorting = levels[np.argmax(levels <= np.append(g[order][1:], np.inf))]
    level, gap = level_and_gap(x, g, d)
    assert level == pytest.approx(by_sorting, rel=1e-10)
    minimum = level - 0.5 * np.sum(np.maximum(level - g, 0.0) ** 2 / d)
    assert gap == pytest.approx(g @ x + 0.5 * d @ x**2 - minimum, rel=1e-9)


def test_a_water_level_is_at_most_the_least_term_without_a_ridge():
    g, d = np.array([0.0, 1.0, 0.3, 2.0]), np.array([1.0, 1.0, 0.0, 0.0])
    level, gap = level_and_gap(np.array([0.25, 0.25, 0.5, 0.0]), g, d)
    assert level == 0.3  # a = (0.3, 0, 0.7, 0), 0.045 + 0.21
    assert gap == pytest.approx(0.25 + 0.15 + 0.03125 * 2.0 - 0.255, rel=1e-12)


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
def test_best_multiplier_is_the_best_bias(seed):
    box, g = DOMAIN_CASES["box"], drawn(seed)

    def loss(b):
        return UPPER_BOUNDS @ np.maximum(0.0, -(g + b * Y))

    found = minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10})
    assert loss(box.best_multiplier(g)) <= found.fun + 1e-12


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
def test_cone_multiplier_is_the_widest_strip(seed):
    h = drawn(seed)
    low, b = DOMAIN_CASES["box"].cone_multiplier(h)
    assert low == pytest.approx(np.min(h + b * Y))
    for other in b + np.array([-1e-3, 1e-3]):
        assert np.min(h + other * Y) < low


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_repair_returns_a_feasible_point_and_keeps_one(domain, seed, size):
    fixed = domain.repair(drawn(seed, size))
    assert domain.violation(fixed) <= 1e-14 * max(1.0, fixed.sum())
    rounding = 1e-15 * fixed.max()
    np.testing.assert_allclose(domain.repair(fixed), fixed, rtol=1e-14, atol=rounding)
    assert not np.shares_memory(domain.repair(fixed), fixed)


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
def test_repair_of_the_box_is_the_projection(seed):
    """No feasible point is closer: (x - p)'(v - p) <= 0 for every vertex v."""
    box, x = DOMAIN_CASES["box"], drawn(seed, size=3.0)
    p = box.repair(x)
    assert (x - p) @ box.linear_min(p - x) - (x - p) @ p <= 1e-13


def test_repair_of_nothing_is_refused():
    with pytest.raises(InputError, match="x0"):
        simplex(3).repair(np.zeros(3))


def test_violation_measures_the_worst_constraint():
    assert simplex(2).violation(np.array([0.5, 0.75])) == 0.25
    assert simplex(2).violation(np.array([-0.5, 1.5])) == 0.5
    assert SimplexProduct(np.array([0, 1])).violation(np.array([1.0, 0.5])) == 0.5
    box = BoxHyperplane(np.array([1.0, 2.0]), np.array([1.0, -1.0]))
    assert box.violation(np.array([1.5, 1.5])) == 0.5
    assert box.violation(np.array([1.0, 0.25])) == 0.75


def test_take_restricts_the_constraints(domain):
    rows = np.array([0, 1, 3, 4, 6])
    part = domain.take(rows)
    for whole, restricted in zip(constraints(domain), constraints(part), strict=True):
        whole = whole[..., rows] if np.shape(whole)[-1:] == (M,) else whole
        np.testing.assert_array_equal(restricted, whole)


def test_members_partition_the_coordinates():
    members = SimplexProduct(GROUP_OF_COORDINATE).members
    assert sorted(np.concatenate(members)) == list(range(M))
    assert all(set(GROUP_OF_COORDINATE[of]) == {k} for k, of in enumerate(members))
    vertices = list(product(*members))
    assert len(vertices) == np.prod([len(of) for of in members])


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
@pytest.mark.parametrize("name", ["capped", "capped-product"])
def test_levels_of_capped_simplices_are_the_best(name, seed):
    capped, g = DOMAIN_CASES[name], drawn(seed)
    for k, level in enumerate(capped.levels(g)):
        own, upper = g[capped.group == k], capped.upper[capped.group == k]
        candidates = np.array([level, *own, *np.linspace(-5, 5, 101)])
        lost = np.maximum(0.0, candidates[:, None] - own) @ upper
        value = capped.total[k] * candidates - lost
        assert value[0] >= value.max() - 1e-14


def test_a_level_is_the_midpoint_of_the_optimal_interval():
    g = np.array([3.0, 1.0, 7.0, 2.0])
    assert CappedSimplex(np.full(4, 0.5)).levels(g) == [2.5]  # filled by 1 and 2 to the brim
    assert CappedSimplex(np.full(4, 0.4)).levels(g) == [3.0]
    assert CappedSimplex(np.full(4, 1.0 / 3.0)).levels(g) == [5.0]
    assert CappedSimplex(np.full(4, 0.25)).levels(g) == [7.0]  # no upper end
    two = CappedSimplex(np.full(8, 0.5), np.repeat([1, 0], 4), [2.0, 1.0])
    np.testing.assert_array_equal(two.levels(np.concatenate([g, g + 10.0])), [17.0, 2.5])


@pytest.mark.parametrize("known", ["all", "some"])
def test_entries_that_matter_reach_the_end_of_the_interval_of_levels(known):
    """Group 0 has the best levels 2 .. 3, and group 1 the only one 4."""
    g = np.array([1.0, 4.0, 2.0, 5.0, 3.0, 4.0, 9.0])
    domain = CappedSimplex(np.array([0.5, 0.75, 0.5, 1.0, 1.0, 0.75, 1.0]), [0, 1, 0, 1, 0, 1, 0])
    levels = domain.levels(g)
    np.testing.assert_array_equal(levels, [2.5, 4.0])
    found = domain.entries_that_matter(g, levels, np.full(7, True))
    np.testing.assert_array_equal(found, [True, True, True, False, True, True, False])
    if known == "some":  # the end of group 0 is a lower bound: the next known value counts
        found = domain.entries_that_matter(g, levels, g != 3.0)
        np.testing.assert_array_equal(found, [True, True, True, False, True, True, True])


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
@pytest.mark.parametrize("name", ["capped", "capped-product"])
def test_projection_on_capped_simplices(name, seed):
    capped, x = DOMAIN_CASES[name], drawn(seed, size=3.0)
    p = capped.project(x)
    assert capped.violation(p) <= 1e-15
    assert (x - p) @ capped.linear_min(p - x) - (x - p) @ p <= 1e-13


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
@pytest.mark.parametrize("name", ["capped", "capped-product"])
def test_no_vertex_is_farther_than_the_bound(name, seed, rng):
    capped = DOMAIN_CASES[name]
    x = capped.repair(drawn(seed))
    vertices = [capped.linear_min(rng.standard_normal(M)) for _ in range(50)]
    assert max(float((v - x) @ (v - x)) for v in vertices) <= capped.farthest(x) + 1e-14


def test_rounding_of_a_sum_makes_no_new_support():
    capped = CappedSimplex(np.full(1000, 0.01))
    x = np.zeros(1000)
    x[:99], x[99:102] = 0.01, 0.01 / 3 * (1 - 1e-12)
    fixed = capped.repair(x)
    assert (np.flatnonzero(fixed) == np.arange(102)).all() and (fixed[:99] == 0.01).all()
    assert capped.violation(fixed) <= 4e-16


@pytest.mark.parametrize("rows", [[0, 1, 2], [0, 1]])
def test_a_bound_beyond_the_total_leaves_one_best_level(rows):
    """One that is the total leaves an interval, up to the next number; so does the set on some rows."""
    g, rows = np.array([1.0, 3.0, 4.0])[rows], np.array(rows)
    for upper, level in (([2.0, 2.0, 2.0], 2.0), ([2.5, 9.0, 2.0], 1.0), ([np.inf] * 3, 1.0)):
        domain = CappedSimplex(np.minimum(upper, 1e9), total=2.0).take(rows)
        assert domain.levels(g)[0] == level


def test_bounds_of_a_capped_simplex():
    with pytest.raises(InputError, match="sum to at least 1"):
        CappedSimplex(np.full(4, 0.2))
    with pytest.raises(InputError, match="> 0"):
        CappedSimplex([1.0, 0.0])
    assert CappedSimplex(np.full(3, 1.0 / 3.0 - 1e-16)).upper.sum() == pytest.approx(1.0, abs=1e-15)
    assert CappedSimplex([5.0, 0.5]).upper[0] == pytest.approx(1.0, rel=1e-11)
    groups = CappedSimplex(np.array([np.inf, 1.0, 0.5 - 1e-16, 0.5]), [0, 0, 1, 1], [3.0, 1.0])
    np.testing.assert_allclose(groups.upper, [3.0, 1.0, 0.5, 0.5], rtol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 1.0], [0, 2]), "group must hold the integers 0 .. n_groups - 1"),
        (([1.0, 1.0], [0.5, 0.0]), "group must hold the integers"),
        (([1.0, 1.0], [0, 0, 1]), "group must have shape"),
        (([1.0, 1.0], [0, 1], [1.0, 1.0, 1.0]), "total must have shape"),
        (([1.0, 1.0], [0, 1], [1.0, 0.0]), "total must be > 0"),
        (([1.0, 1.0], [0, 1], np.nan), "total must be finite"),
        (([1.0, 1.0], [0, 1], [1.0, 1.5]), "upper must sum to at least 1.5 over group 1"),
        ((["a", 1.0],), "upper must hold real numbers"),
        (([1.0, np.nan],), "upper must be finite"),
    ],
)
def test_malformed_groups_totals_and_bounds_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        CappedSimplex(*arguments)


@pytest.mark.parametrize("weights", ["equal", "ties", "different"])
def test_the_best_bias_of_many_points_is_found_without_sorting_them_all(rng, monkeypatch, weights):
    from qpsvm.domains import box_hyperplane

    m = 400
    y = np.where(rng.random(m) < 0.2, 1.0, -1.0)
    upper = rng.uniform(0.1, 2, m) if weights == "different" else np.full(m, 0.1)
    upper[0] = 0.2  # where all are equal a partition does
    g = rng.standard_normal(m)
    g = np.round(g, 1) if weights == "ties" else g
    domain = box_hyperplane.BoxHyperplane(upper, y)
    loss = [float(np.sum(upper * np.maximum(0, -(g + b * y)))) for b in -y * g]
    for many, few in ((5000, 500), (10, 1), (10, 7), (399, 300)):
        monkeypatch.setattr(box_hyperplane, "MAX_SORTED_POINTS", many)
        monkeypatch.setattr(box_hyperplane, "SAMPLE_SIZE", few)
        b = domain.best_multiplier(g)
        assert np.sum(upper * np.maximum(0, -(g + b * y))) == pytest.approx(min(loss), rel=1e-12)


def test_best_bias_needs_no_sort_where_all_bounds_are_equal():
    """The n-th smallest breakpoint against the sum of the slopes, with ties and with one class."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        m = rng.integers(1, 9)
        y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
        g = np.round(rng.standard_normal(m), 1)
        b = BoxHyperplane(np.full(m, 2.0), y).best_multiplier(g)
        cost = [float(np.sum(2.0 * np.maximum(0.0, -(g + t * y)))) for t in (b, *(-y * g))]
        assert cost[0] <= min(cost) + 1e-12


@pytest.mark.parametrize("values", ["different", "ties", "equal", "one far out"])
def test_the_nth_smallest_of_many_is_that_of_a_sort(rng, monkeypatch, values):
    """Search between two values of a sample, repeated down to a few values; at both ends, too."""
    from qpsvm.domains import box_hyperplane

    monkeypatch.setattr(box_hyperplane, "MAX_SORTED_POINTS", 50)
    monkeypatch.setattr(box_hyperplane, "SAMPLE_SIZE", 32)
    v = rng.standard_normal(3000)
    v = {"ties": np.round(v, 1), "equal": np.ones(3000)}.get(values, v)
    v[7] = 1e9 if values == "one far out" else v[7]
    rising = np.sort(v)
    for n in (1, 2, 60, 1499, 1500, 2990, 2999, 3000):
        assert box_hyperplane.nth_smallest(v, n) == rising[n - 1]


@pytest.mark.parametrize("even", [True, False])
def test_the_middle_of_the_best_multipliers(even):
    """It is as good as the best one, and no other best one is much farther to one side."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        m = int(rng.integers(2, 30))
        y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
        upper = np.full(m, 2.0) if even else rng.integers(1, 4, m).astype(float)
        g, box = rng.integers(-3, 4, m) * 1.0, BoxHyperplane(upper, y)

        def loss(b, g=g, y=y, upper=upper):
            return float(upper @ np.maximum(-(g + b * y), 0.0))

        middle = box.middle_multiplier(g)
        best = loss(box.best_multiplier(g))
        assert loss(middle) == pytest.approx(best, abs=1e-12)
        beside = [step for step in (0.5, 1.0, 2.0) if loss(middle + step) <= best + 1e-12]
        if np.ptp(y) > 0:  # with one class all multipliers to one side are best
            assert all(loss(middle - step) <= best + 1e-12 for step in beside)


def test_rounding_of_steps_is_taken_from_one_weight():
    rng = np.random.default_rng(8)
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    x = np.where(np.arange(40) < 20, rng.uniform(0.1, 0.9, 40), 0.0)
    box = BoxHyperplane(np.ones(40), y)
    x[:20] = box.take(np.arange(20)).repair(x[:20])
    x[3] += 1e-12
    repaired = box.repair(x)
    assert box.violation(repaired) <= 4e-15
    np.testing.assert_array_equal(repaired[20:], 0.0)
    assert np.count_nonzero(repaired != x) == 1
    x[3] += 1e-3  # no rounding: the nearest point has other weights
    assert np.count_nonzero(box.repair(x)) > 20


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_a_gradient_that_is_no_number_has_no_gap(ridge):
    """Products of points near the largest ones allowed may overflow: the bounds say so."""
    x, d = np.full(10, 0.1), np.full(10, ridge)
    gap, _ = simplex(10).separable_gap(x, np.full(10, np.nan), d)
    assert np.isnan(gap)
