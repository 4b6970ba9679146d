"""The minimum-norm-point method: exact on degenerate problems, finite, few passes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import qpsvm
from problems.clouds import separable_clouds, two_clouds
from qpsvm import RBF, L2SVMDual, Linear, MEBDual, PolytopeDistanceDual, Precomputed, Status
from qpsvm.solvers.min_norm_point import mnp
from qpsvm.solvers.min_norm_point.face import (
    FACE_SIZE,
    MEMBER_COUNT,
    approach,
    empty_block,
    factor_face,
)
from qpsvm.solvers.min_norm_point.wolfe import descend


def solve(problem, **options):
    return qpsvm.solve(problem, "mnp", **{"tol": 1e-9, **options})


def entry_error(result, problem):
    """Rounding error of x'Gx from entries of G; the certificate's products may be better."""
    return 4 * np.finfo(float).eps * problem.as_qp().scale * float(np.sum(result.x)) ** 2


def exact(result, problem):
    """Whether it is optimal at 1e-9, or within the rounding error of G's entries."""
    c = result.certificate
    return result.status is Status.OPTIMAL or c.gap <= 2 * max(
        c.roundoff, entry_error(result, problem)
    )


def small_points(rng, m):
    """Draw points of one of nine kinds, most of them degenerate."""
    d = int(rng.integers(1, 6))
    X = rng.standard_normal((m, d))
    kind = rng.integers(9)
    if kind == 1:  # ties and duplicates
        X = np.round(X)
    elif kind == 2:  # collinear
        X = np.outer(rng.integers(-3, 4, m), rng.integers(-2, 3, d)).astype(float)
    elif kind == 3:  # cospherical
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    elif kind == 4:  # every point up to four times
        X = np.repeat(X, 4, axis=0)[:m]
    elif kind == 5:  # collinear, far away
        X = X[:, :1] @ rng.standard_normal((1, d)) + 1e4
    elif kind == 6:  # corners of a cube
        X = rng.choice([-1.0, 1.0], (m, d)) + 100.0 * rng.integers(2)
    elif kind == 7:  # one point
        X = np.full((m, d), rng.standard_normal())
    elif kind == 8:  # other units
        X *= 10.0 ** rng.integers(-4, 5)
    return X


def small_problem(seed, largest):
    """Declare a random problem of any of the three families."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, largest))
    X = small_points(rng, m)
    y = rng.permutation(np.append([1.0, -1.0], rng.choice([-1.0, 1.0], m - 2)))
    kernel = Linear(X) if rng.random() < 0.7 else RBF(X, gamma="scale")
    family = seed % 3
    if family == 0:
        return MEBDual(kernel)
    if family == 1:
        return L2SVMDual(kernel, y, C=float(rng.choice([1e-3, 1.0, 1e3, 1e6, np.inf])))
    return PolytopeDistanceDual(kernel, y, chi=[None, None, 1.0, 1e4][rng.integers(4)])


@pytest.mark.parametrize("candidates", [1, 3, 512])
def test_hundred_degenerate_problems_each(candidates):
    for seed in range(120):
        problem = small_problem(seed, largest=25)
        result = solve(problem, candidates=candidates, max_iter=500)
        assert exact(result, problem), seed
        assert result.status is not Status.MAX_ITER, seed
        if (
            result.converged
        ):  # else rounding ended it, after as many iterations as its products allow
            assert result.n_iter <= 3 * len(result.x) + 20, seed


def by_enumeration(qp):
    """Return the least value over all faces, each solved by least squares."""
    m, groups = qp.m, qp.domain.group
    Q = qp.gram.matrix() + np.diag(qp.gram.ridge)
    A = (groups == np.arange(qp.domain.n_groups)[:, None]).astype(float)
    best = np.inf
    for size in range(1, m + 1):
        for face in map(list, combinations(range(m), size)):
            if not A[:, face].any(axis=1).all():
                continue
            n = len(A)
            kkt = np.block([[Q[np.ix_(face, face)], A[:, face].T], [A[:, face], np.zeros((n, n))]])
            z = np.linalg.lstsq(kkt, np.append(-qp.linear[face], np.ones(n)), rcond=1e-12)[0]
            x = np.maximum(z[:size], 0.0)
            sums = A[:, face] @ x
            if sums.min() > 0.0:
                x /= sums[groups[face]]
                best = min(best, 0.5 * x @ Q[np.ix_(face, face)] @ x + qp.linear[face] @ x)
    return best


def test_agrees_with_enumeration_of_all_faces():
    for seed in range(90):
        problem = small_problem(1000 + seed, largest=7)
        result, best = solve(problem), by_enumeration(problem.as_qp())
        c = result.certificate
        error = max(c.roundoff, entry_error(result, problem))  # of `best`, a sum over entries
        assert c.lower - error <= best, seed
        assert abs(result.value - best) <= 1e-8 * abs(best) + 4 * error, seed


@pytest.mark.parametrize(
    "problem",
    [
        MEBDual(Linear(np.ones((1, 3)))),
        MEBDual(Linear(np.ones((30, 3)))),
        L2SVMDual(Linear([[2.0]]), [1.0], C=np.inf),
        L2SVMDual(Linear(np.ones((20, 2))), np.tile([1.0, -1.0], 10), C=np.inf),
        PolytopeDistanceDual(Linear(np.zeros((20, 2))), np.tile([1.0, -1.0], 10)),
        PolytopeDistanceDual.from_points(np.eye(4), np.full((1, 4), 0.25)),
        PolytopeDistanceDual.from_points([[0.0, -1.0], [0.0, 1.0]], [[-1.0, 0.0], [1.0, 0.0]]),
    ],
)
def test_degenerate_optimum(problem):
    result = solve(problem)
    assert result.status is Status.OPTIMAL
    assert result.n_iter <= 5


def test_closes_the_ill_conditioned_machine():
    """A linear kernel of rank 5 with C = 1e6: mfw is slow, the active set ends at roundoff."""
    X, y = two_clouds(200, 5, seed=3)
    problem = L2SVMDual(Linear(X), y, C=1e6)
    result = solve(problem)
    assert exact(result, problem)
    assert result.n_iter <= 10


def test_wolfes_method_adds_each_support_vector_about_once():
    X, y = two_clouds(600, 5, seed=4)
    problem = L2SVMDual(Precomputed(RBF(X, gamma=0.2).block(np.arange(600))), y, C=10.0)
    result = solve(problem, tol=1e-10, candidates=1)
    assert result.status is Status.OPTIMAL
    n_support = len(result.support)
    assert result.n_iter == result.counters["major"] <= 1.1 * n_support + 10
    assert result.counters["minor"] <= 0.1 * n_support + 10


def test_number_of_candidates_changes_the_path_not_the_answer():
    X, y = two_clouds(400, 4, seed=5)
    problem = L2SVMDual(Linear(X), y, C=1.0)
    results = [solve(problem, candidates=k, tol=1e-11) for k in (1, 7, 64, 512)]
    for result in results:
        np.testing.assert_allclose(result.x, results[0].x, atol=1e-9)
    assert results[-1].n_iter < results[0].n_iter / 10


def test_ball_of_many_points_takes_few_passes(rng):
    X = rng.standard_normal((20_000, 10))
    result = solve(MEBDual(Linear(X)), tol=1e-12)
    assert result.status is Status.OPTIMAL
    assert result.n_iter <= 5
    assert len(result.support) <= 11
    distance = np.linalg.norm(X - result.model.center, axis=1)
    assert distance.max() == pytest.approx(result.model.radius, rel=1e-12)
    np.testing.assert_allclose(distance[result.support], result.model.radius, rtol=1e-10)


def test_single_precision_points_are_solved_exactly():
    X, y = separable_clouds(3000, 6, seed=6, gap=0.5)
    X = X.astype(np.float32)
    single = solve(PolytopeDistanceDual(Linear(X), y), tol=1e-11)
    double = solve(PolytopeDistanceDual(Linear(X.astype(np.float64)), y), tol=1e-11)
    assert single.converged and double.converged
    assert single.value == pytest.approx(double.value, rel=1e-11)


def test_single_precision_columns_are_corrected_by_recomputed_products():
    X, y = two_clouds(700, 4, seed=7)
    result = solve(L2SVMDual(RBF(X.astype(np.float32), gamma=0.3), y, C=5.0), tol=1e-8)
    assert result.status is Status.OPTIMAL


def test_few_columns_in_memory():
    X, y = two_clouds(700, 4, seed=8)
    problem = L2SVMDual(RBF(X, gamma=0.3), y, C=1.0)
    free, limited = solve(problem), solve(problem, memory_limit=40 * 700 * 8)
    assert limited.converged
    assert limited.counters["columns"] > free.counters["columns"]
    np.testing.assert_allclose(limited.x, free.x, atol=1e-9)


@pytest.mark.parametrize("method", ["smo", "mfw"])
def test_warm_start_from_another_method(method):
    X, y = two_clouds(300, 4, seed=9)
    problem = L2SVMDual(RBF(X, gamma=0.3), y, C=1.0)
    rough = qpsvm.solve(problem, method, tol=1e-4)
    cold, warm = solve(problem, candidates=1), solve(problem, candidates=1, x0=rough)
    assert warm.converged
    assert warm.counters["major"] < cold.counters["major"] / 4
    again = solve(problem, x0=warm)
    assert again.converged and again.n_iter <= 1


def test_warm_start_from_more_points_than_fit_on_a_face(rng):
    X = rng.standard_normal((6000, 3))
    result = solve(MEBDual(Linear(X)), x0=np.full(6000, 1 / 6000))
    assert result.converged and result.n_iter <= 3


@pytest.mark.parametrize("kernel", [-np.eye(3), np.array([[1.0, 2.0], [2.0, 1.0]])])
def test_negative_curvature_is_noticed(kernel):
    for candidates in (1, 512):
        result = solve(MEBDual(Precomputed(kernel)), candidates=candidates)
        assert result.status is Status.NONCONVEX


def random_block(rng, n, rank, n_groups):
    """Return a block of n members with Q of a given rank and weights on a few."""
    block = empty_block(n + 3, n_groups, sigma=1.0)
    F = rng.standard_normal((n, rank))
    block.Q[:n, :n], block.c[:n] = F @ F.T, rng.standard_normal(n)
    block.group[:n] = np.arange(n) % n_groups
    block.x[:n] = np.arange(n) < 4 * n_groups
    block.x[:n] /= 4.0
    block.sizes[MEMBER_COUNT] = n
    return block


@pytest.mark.parametrize("n_groups", [1, 2, 3])
@pytest.mark.parametrize("rank", [2, 12, 60])
@pytest.mark.parametrize("ahead", [False, True])
def test_factor_follows_the_face(rng, rank, n_groups, ahead):
    block = random_block(rng, 60, rank, n_groups)
    if ahead:
        assert approach(block, 0.1, 100) > 0
    else:
        factor_face(block, np.arange(4 * n_groups))
    descend(block, 500, np.inf, np.zeros(2, np.int64))
    face = block.face[: block.sizes[FACE_SIZE]]
    s, n = len(face), 60
    A = (block.group[face] == np.arange(n_groups)[:, None]).astype(float)
    R = np.triu(block.R[:s, :s])
    np.testing.assert_allclose(R.T @ R, block.Q[np.ix_(face, face)] + A.T @ A, atol=1e-9)
    np.testing.assert_allclose(R.T @ block.U[:s], A.T, atol=1e-9)
    # the optimality conditions over the block
    x, f = block.x[:n], block.Q[:n, :n] @ block.x[:n] + block.c[:n]
    np.testing.assert_array_equal(np.sort(face), np.flatnonzero(x))
    np.testing.assert_allclose(np.bincount(block.group[:n], weights=x), 1.0, rtol=1e-14)
    least = np.array([f[block.group[:n] == g].min() for g in range(n_groups)])
    np.testing.assert_allclose(f[face], least[block.group[face]], atol=1e-10)


def test_many_linear_points_are_moved_only_from_far_away(rng):
    X = rng.standard_normal((50_000, 3))
    near, far = Linear(X), Linear(X.astype(np.float32) + np.float32(1e4))
    assert near.origin is None and near.centered() is near
    moved = far.centered()
    np.testing.assert_array_equal(moved.X + far.origin, far.X)
    assert np.abs(moved.X).max() < 10
    radius = [solve(MEBDual(Linear(X + shift))).model.radius for shift in (0.0, 1e6)]
    assert radius[0] == pytest.approx(radius[1], rel=1e-9)


@pytest.mark.parametrize("linear", [False, True])
def test_an_iteration_is_bounded_by_the_work_of_its_steps(rng, monkeypatch, linear):
    """From many weights: nothing is solved before the first iteration, and each one ends in time."""
    X, y = two_clouds(700, 5, seed=7)
    problem = L2SVMDual(Linear(X) if linear else RBF(X, 0.2), y, C=3.0)
    monkeypatch.setattr(mnp, "WORK_PER_ITERATION", 1e4)
    start = rng.random(700)
    none = solve(problem, x0=start, time_limit=0.0)
    assert none.n_iter == 0 and none.status is Status.TIME_LIMIT
    assert not any(none.counters[kind] for kind in mnp.STEP_KINDS)
    seen = []
    qp = problem.as_qp()
    with qp.with_store(1 << 30) as stored:
        solver = mnp.MinNormPoint()
        state = solver.init(stored, start / start.sum(), rng)
        for _ in range(60):
            before, size = state.counts.copy(), 700
            solver.advance(stored, state, 1)
            steps = state.counts - before
            assert (
                steps[0] + steps[1]
                <= mnp.MIN_FACE_CHANGES + 1e4 / max(state.block.sizes[FACE_SIZE], 1) ** 2 + 2
            )
            assert state.x.sum() == pytest.approx(1.0) and state.x.min() >= 0.0
            np.testing.assert_allclose(state.product, qp.gram.product(state.x), atol=1e-9 * size)
            seen.append(state.outcome == mnp.WORK_EXHAUSTED)
    assert any(seen)
    assert solve(problem, x0=start, tol=1e-8).status is Status.OPTIMAL
