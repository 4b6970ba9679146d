"""Bounds at the limit of precision, checked in rational arithmetic on the given data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from problems.clouds import cloud, separable_clouds, two_clouds
from problems.programs import general
from qpsvm import (
    RBF,
    HingeDual,
    HingePrimal,
    L2SVMDual,
    Laplacian,
    LeastSquares,
    Linear,
    MEBDual,
    OneClassDual,
    Polynomial,
    PolytopeDistanceDual,
    Precomputed,
    QuadraticProgram,
    Status,
    solve,
)
from qpsvm.canonical.base import enclose
from qpsvm.domains import CappedSimplex, PenaltyBox, simplex
from qpsvm.solvers.methods import METHODS
from qpsvm.solvers.smo.smo import SMO

INF = np.inf


def rational(values):
    return [Fraction(float(v)) for v in values]


def form(K, x):
    """Return x'Kx, from the entries of K as they are stored."""
    x, some = rational(x), np.flatnonzero(x)
    return sum(x[i] * x[j] * Fraction(float(K[i, j])) for i in some for j in some)


def claims(certificate, value):
    """Assert the bounds of every certificate on the exact value of its point."""
    c = certificate
    assert c.roundoff <= c.gap
    assert abs(Fraction(c.upper) - value) <= Fraction(c.roundoff)
    assert Fraction(c.lower) <= value
    last_bit = Fraction(np.spacing(abs(c.lower)))  # lower is rounded down
    assert min(value, Fraction(c.upper)) - Fraction(c.lower) <= Fraction(c.gap) + last_bit


# How bounds are put together.


def test_a_gap_contains_its_roundoff_and_lower_is_rounded_down():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        value, gap, roundoff = rng.standard_normal(3) * 10.0 ** rng.uniform(-20, 20, 3)
        least = float(rng.choice([-INF, 0.0, abs(value)]))
        found = enclose(value, gap, abs(roundoff), least, np.empty(0))
        assert found.roundoff <= found.gap
        assert max(value, least) == found.upper
        difference = Fraction(found.upper) - Fraction(found.gap)
        assert found.lower == least or Fraction(found.lower) <= difference
        assert found.lower >= least


@pytest.mark.parametrize("seed", range(6))
def test_a_ridge_is_a_bound_and_no_roundoff_is_dropped(seed):
    """Values of 0.1 from entries of 1e16: the products are pure rounding, and only the ridge is exact."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-(10**8), 10**8, (30, 2)).astype(float)
    y = np.where(rng.random(30) > 0.5, 1.0, -1.0)
    K = X @ X.T
    result = solve(L2SVMDual(K, y, C=1.0))
    c, a = result.certificate, rational(y * result.x)
    value = (form(K, y * result.x) + sum(a) ** 2 + sum(v * v for v in a)) / 2
    assert c.roundoff <= c.gap and not result.converged
    assert abs(Fraction(c.upper) - value) <= Fraction(c.roundoff)
    assert c.lower >= (1 - 1e-12) / 60
    assert value - Fraction(c.lower) <= Fraction(c.gap)


@pytest.mark.parametrize("kernel", [Linear, lambda X: Polynomial(X, degree=2), RBF])
def test_far_sparse_points_do_not_pass_by_rounding_below_zero(kernel):
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(np.round(4 * rng.standard_normal((40, 3))) + 1.6e7)
    y = np.where(rng.random(40) > 0.5, 1.0, -1.0)
    c = solve(L2SVMDual(kernel(X), y, C=1.0)).certificate
    assert c.roundoff <= c.gap and c.lower >= (1 - 1e-12) / 80 and c.test != "absolute"


@pytest.mark.parametrize("seed", [24, 40])
def test_norms_that_round_below_zero_have_a_roundoff(seed):
    """The lower bound of a problem in the margins is below the value of an explicit point."""
    rng = np.random.default_rng(seed)
    scale, X = 10.0 ** rng.uniform(14, 18), rng.standard_normal((20, 3))
    K = (X @ X.T) * scale
    K, y = (K + K.T) / 2, np.where(rng.random(20) > 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    C = 10.0 ** rng.uniform(-2, 2)
    problem = HingePrimal(Precomputed(K), y, C=C)
    c = solve(problem, "homotopy-nesvm", max_iter=2000).certificate
    weights = y * solve(HingeDual(Precomputed(K), y, C=C), "smo", max_iter=100_000).x
    f = [sum(p * Fraction(k) for p, k in zip(rational(weights), row, strict=True)) for row in K]
    signs = [Fraction(int(s)) for s in y]
    best = min(
        sum(max(1 - s * (v + s0 - v0), 0) for s, v in zip(signs, f, strict=True))
        for s0, v0 in zip(signs, f, strict=True)
    )
    value = form(K, weights) / 2 + Fraction(C) * best
    assert Fraction(c.lower) <= value
    assert c.roundoff <= c.gap


def rounded_gram(seed, low, high):
    """Return points' inner products in float32, with noise between powers of 10, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 2)).astype(np.float32)
    K = X @ X.T + rng.standard_normal((40, 40)) * 10.0 ** rng.uniform(low, high)
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    return ((K + K.T) / 2).astype(np.float32), y


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("declare", ["distance", "hard-margin", "one-class"])
def test_a_gram_of_rounded_entries_is_not_believed_to_be_psd(declare, seed):
    """The value is below zero for K as it was given: zero is no lower bound."""
    K, y = rounded_gram(seed, -7, -4.5)
    problem, shift = {
        "distance": (PolytopeDistanceDual(K, y), 0),
        "hard-margin": (L2SVMDual(K, y, C=INF), 1),
        "one-class": (OneClassDual(K, nu=0.1), 0),
    }[declare]
    result = solve(problem, "smo", max_iter=20_000)
    signed = result.x if declare == "one-class" else y * result.x
    value = (form(K, signed) + shift * sum(rational(signed)) ** 2) / 2
    claims(result.certificate, value)


def test_the_value_of_a_gram_that_is_not_convex_is_that_of_the_answer():
    K, y = rounded_gram(0, -8, -8)
    K -= np.float32(0.5) * np.eye(40, dtype=np.float32)
    for method in ("smo", "mfw"):
        result = solve(PolytopeDistanceDual(K, y), method, max_iter=10_000)
        c, value = result.certificate, form(K, y * result.x) / 2
        assert result.status is Status.NONCONVEX and c.lower == -INF
        assert value < 0 and abs(Fraction(c.upper) - value) <= Fraction(c.roundoff)


@pytest.mark.parametrize("instance", general.INSTANCES.values(), ids=str)
def test_no_vertex_is_farther_than_the_farthest(instance):
    domain = general.declare(instance).domain
    rng = np.random.default_rng(0)
    v = np.array([domain.linear_min(rng.standard_normal(domain.m)) for _ in range(40)])
    for x in (v[0], v.mean(axis=0)):
        squares = np.sum((v - x) ** 2, axis=1)
        assert squares.max() <= domain.farthest(x) * (1 + 1e-12)


@pytest.mark.parametrize("capped", [CappedSimplex(np.array([0.5, 0.3, 0.6, 0.2])), simplex(4)])
def test_no_weights_are_farther_than_the_farthest(capped):
    rng = np.random.default_rng(1)
    a = np.array([capped.project(rng.standard_normal(4)) for _ in range(200)])
    for x in a[:5]:
        assert np.max(np.sum((a - x) ** 2, axis=1)) <= capped.farthest(x) + 1e-12


def test_a_defect_is_charged_where_weights_may_move():
    rng = np.random.default_rng(2)
    upper, slack = np.array([1.0, 2.0, 3.0]), rng.standard_normal(3)
    box = PenaltyBox(upper)
    for x in rng.uniform(0, 1, (5, 3)) * upper:
        gap, far = box.separable_gap(x, slack, np.zeros(3))[0], rng.uniform(0, 1, (200, 3)) * upper
        terms = (x - far) @ slack + 0.5 * 0.3 * np.sum((x - far) ** 2, axis=1)
        assert max(gap, terms.max()) <= box.convex_gap(x, slack, 0.3)
        assert box.convex_gap(x, slack, 0.0) == pytest.approx(gap)


# Zero, and not zero: hard margins and distances.


def narrow_strip(seed):
    """Return points on both sides of a strip that is thin in the space of an RBF kernel."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (400, 2)) * [1, 3]
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[:, 0] += 0.0015 * y
    return X, y


@pytest.mark.parametrize("seed", [0, 4, 5, 12, 15])
def test_a_thin_strip_is_found_to_separate(seed):
    X, y = narrow_strip(seed)
    result = solve(L2SVMDual(RBF(X, 0.05), y, C=INF))
    assert result.certificate.test == "relative" and result.certificate.lower > 0
    assert result.model.separable is True
    np.testing.assert_array_equal(result.model.predict(X), y)
    result = solve(PolytopeDistanceDual(RBF(X, 0.05), y))
    assert result.converged and result.model.hulls_intersect is False
    assert 0 < result.model.margin <= result.model.distance


def test_undecided_is_reported():
    X, y = narrow_strip(5)
    machine = solve(L2SVMDual(RBF(X, 0.05), y, C=INF), "smo", max_iter=5)
    hulls = solve(PolytopeDistanceDual(RBF(X, 0.05), y), "smo", max_iter=5)
    margin = solve(HingeDual(RBF(X, 0.05), y, C=INF), "smo", max_iter=5)
    for result in (machine, hulls, margin):
        assert result.status is Status.MAX_ITER and "Undecided" in str(result)
    assert machine.model.separable is None and margin.model.separable is None
    assert hulls.model.hulls_intersect is None and hulls.model.margin == 0.0


@pytest.mark.parametrize("apart", [1e-3, 1e-6, 1e-9, 1e-12])
def test_hulls_may_be_as_near_as_the_points_are_precise(apart):
    """No distance that points can tell from zero is called zero; from 1e-6 on it is proved."""
    X, y = cloud(60, 3, seed=1), np.where(np.arange(60) % 2, 1.0, -1.0)
    X[:, 0] = np.where(np.arange(60) < 6, 0.0, np.abs(X[:, 0])) * y + 0.5 * apart * y
    result = solve(PolytopeDistanceDual(Linear(X), y))
    assert result.certificate.test != "absolute" and result.model.hulls_intersect is not True
    assert result.model.margin <= apart * (1 + 1e-3)
    hard = solve(HingeDual(Linear(X), y, C=INF))
    assert hard.status is not Status.INFEASIBLE and hard.model.separable is not False
    if apart >= 1e-6:
        assert result.converged and result.model.hulls_intersect is False
        assert hard.converged and hard.model.separable is True


def test_hulls_that_intersect_are_zero_at_the_precision_of_the_data():
    X, y = two_clouds(60, 3, seed=7)
    points, entries = (PolytopeDistanceDual(K, y) for K in (Linear(X), X @ X.T))
    scale = np.max(np.sum((X - X.mean(axis=0)) ** 2, axis=1))
    for tol in (1e-2, 1e-6):
        c = solve(points, tol=tol).certificate
        assert c.test == "absolute" and c.upper <= c.floor <= 1e-24 * scale
        c = solve(entries, tol=tol).certificate
        assert c.test == "absolute" and c.upper <= c.floor <= 1e-12 * scale


@pytest.mark.parametrize("size", [1e-3, 1e-5])
def test_small_residuals_are_not_taken_for_zero(size):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((30, 10))
    b = A @ rng.dirichlet(np.ones(10)) + size * rng.standard_normal(30)
    best = solve(LeastSquares(A, b, simplex(10)), "apg", tol=1e-8)
    for problem, shift in (
        (LeastSquares(A, b, simplex(10)), 0.0),
        (QuadraticProgram((A - b[:, None]).T @ (A - b[:, None]), np.zeros(10), simplex(10)), 0.0),
    ):
        result = solve(problem, tol=1e-3)
        assert result.certificate.test == "relative"
        assert result.value + shift <= best.value * 1.002


# A hard margin that no hyperplane meets.


def assert_refuted(result, X, y, bias=True):
    """The direction proves it: nonnegative weights, and the same point of both hulls."""
    assert result.status is Status.INFEASIBLE and not result.converged
    assert result.model.separable is False and "infeasible" in str(result)
    a = rational(result.direction)
    assert min(a) >= 0
    for sign in (1.0, -1.0) if bias else ():
        share = sum(v for v, s in zip(a, y, strict=True) if s == sign)
        assert abs(share - 1) <= Fraction(1, 10**12)
    assert bias or abs(sum(a) - 1) <= Fraction(1, 10**12)
    for column in np.asarray(X, float).T:
        moment = sum(v * int(s) * Fraction(p) for v, s, p in zip(a, y, column, strict=True))
        assert abs(moment) <= 1e-12 * max(1.0, float(np.max(np.abs(X))))


def test_three_points_without_a_hyperplane():
    X, y = [[0.0], [0.0], [1.0]], [1.0, -1.0, 1.0]
    dual, primal = HingeDual(Linear(X), y, C=INF), HingePrimal(X, y, C=INF)
    for method in ("auto", *qpsvm.methods(dual)):
        result = solve(dual, method)
        assert_refuted(result, X, y)
        assert result.n_iter <= SMO.first_check and result.certificate.lower == -INF
        result = solve(primal, method)
        assert_refuted(result, X, y)
        assert result.certificate.upper == INF


@pytest.mark.parametrize("bias", [True, False])
def test_overlapping_classes_have_no_hard_margin(bias):
    X, y = two_clouds(600, 5, seed=3, distance=0.5)
    assert_refuted(solve(HingeDual(Linear(X), y, C=INF, bias=bias)), X, y, bias)
    # entries of K in double precision tell distances from some 1e-7 on from zero
    assert_refuted(solve(HingeDual(X @ X.T, y, C=INF, bias=bias)), X / 1e6, y, bias)


@pytest.mark.parametrize("seed", range(8))
def test_entries_near_their_rounding_are_told_apart_or_left_undecided(seed):
    """No answer is zero and proved positive at once; nor is a hard margin with a bound infeasible."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((20, 2)), np.where(np.arange(20) % 2, 1.0, -1.0)
    X[:, 0] = y * (np.abs(X[:, 0]) + 10.0 ** rng.uniform(-8, -6))
    X = X * 1e3 + 1e4
    K = X @ X.T
    hulls, hard = solve(PolytopeDistanceDual(K, y)), solve(HingeDual(K, y, C=INF))
    c = hulls.certificate
    assert not (c.lower > 0 and c.test == "absolute")
    assert not (c.lower > 0 and hulls.model.hulls_intersect)
    infeasible = hard.status is Status.INFEASIBLE
    assert infeasible == (hard.model.separable is False) == (hard.direction is not None)
    assert not (infeasible and hard.certificate.lower > -INF)
    assert form(K, y * hulls.x) / 2 >= Fraction(c.lower)


@pytest.mark.parametrize("method", [name for name, entry in METHODS.items() if entry.gap <= 1e-6])
def test_a_hard_margin_that_exists_has_no_direction(method):
    X, y = separable_clouds(60, 3, seed=8, gap=1.0)
    problem = HingeDual(Linear(X), y, C=INF)
    if method in qpsvm.methods(problem):
        result = solve(problem, method, tol=1e-6)
        assert result.converged and result.direction is None and result.model.separable is True


def test_the_lower_bound_of_a_primal_problem_contains_the_rounding_of_the_dual_value():
    """Points at 1e8, far from each other beside the width of the kernel.

    K is the identity up to exp(-900), alpha = (1/2, 1/2, 1) is optimal, and the optimum is 5/4.
    """
    X = np.array(
        [
            [100000002.30406427, 100000001.397085, 100000001.99654794],
            [100000003.62776001, 100000002.94222564, 100000002.65260316],
            [99999997.67431094, 99999997.66082725, 99999999.41526616],
        ]
    )
    problem = HingePrimal(RBF(X, gamma=203.70515964881648), [1.0, 1.0, -1.0], C=1.0)
    found = solve(problem, tol=1e-9).certificate
    assert found.lower <= 1.25 <= found.upper
    assert found.gap >= found.upper - found.lower


def test_sums_that_overflow_give_no_lower_bound():
    X = np.array([[2.383717028318269e50, 1.452589771604943e50]])
    X = np.vstack([X, [2.383717028320653e50, 1.4525897716063956e50]])
    problem = HingePrimal(Linear(X), [-1.0, 1.0], C=1e150, bias=False)
    assert solve(problem, "pdipm", tol=1e-9).certificate.lower < np.inf


def test_the_roundoff_of_a_laplacian_kernel_contains_that_of_centered_coordinates():
    X = np.array(
        [[11099.052987908304], [16470.68588654828], [-17877.870534312493], [264623886441.766]]
    )
    gamma = 2.3860256195564557e-08
    problem = MEBDual(Laplacian(X, gamma))
    found = solve(problem, "mfw", tol=1e-9)
    difference = abs(X - X.T).astype(np.longdouble)
    K = np.exp(-np.longdouble(gamma) * difference)
    x = found.x.astype(np.longdouble)
    exact = x @ K @ x - x @ np.diag(K)
    assert abs(float(exact - found.certificate.upper)) <= found.certificate.roundoff
