"""Distances of hulls over shards: one simplex for each class, the certified answers of one process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qpsvm import (
    RBF,
    InputError,
    Laplacian,
    Linear,
    MethodMismatchError,
    Polynomial,
    PolytopeDistanceDual,
    SVRDual,
    solve,
)
from qpsvm.distributed.simplex.methods import SIMPLEX_METHODS
from qpsvm.distributed.violators import by_turns
from qpsvm.solvers.methods import METHODS
from tests.distributed.conftest import CHUNK_ROWS, killing_a_worker
from tests.distributed.test_simplex import (
    FRANK_WOLFE_METHODS,
    assert_bounds_overlap,
    chunked,
    sharded,
    values_along,
)

DISTANCE_METHODS = ("decomposition", *SIMPLEX_METHODS)

KERNEL_OF_NAME = {
    "rbf": lambda X: RBF(X, gamma=0.3),
    "laplacian": lambda X: Laplacian(X, gamma=0.3),
    "polynomial": lambda X: Polynomial(X, degree=2, gamma=0.1, coef0=1.0),
    "linear": Linear,
}


def in_shards(X, n_shards):
    return chunked(X, -(-len(X) // n_shards))


def two_squares(by_class):
    """Return the corners and inner points of [0, 1]^2 and of the square moved by (3, 0.5)."""
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    own = np.concatenate([corners, 0.1 + 0.8 * rng.random((26, 2))])
    X, y = np.concatenate([own, own + [3.0, 0.5]]), np.repeat([1.0, -1.0], 30)
    order = np.arange(60) if by_class else rng.permutation(60)
    return X[order], y[order]


@pytest.fixture(scope="module")
def classes(cloud):
    """Points of two classes that a plane separates, and their labels."""
    X, y = cloud
    y = np.where(np.arange(len(X)) % 3 == 0, 1.0, -1.0)
    return X + np.outer(y, [5.0, 0.0, 0.0, 0.0]), y


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("method", ["auto", "decomposition", "mfw", "pfw", "cvm", "mnp"])
def test_the_distance_of_two_squares_is_known_in_closed_form(method, n_shards, by_class):
    X, y = two_squares(by_class)  # by class, a shard lacks points of one simplex
    X += [100.0, 0.0]
    found = solve(PolytopeDistanceDual(Linear(in_shards(X, n_shards)), y), method, tol=1e-8)
    assert found.converged and found.counters["shards"] == n_shards
    bounds = found.certificate
    assert bounds.lower <= 2.0 <= bounds.upper + bounds.roundoff
    model = found.model
    assert model.hulls_intersect is False and model.margin <= 2.0 + 1e-12
    assert np.isclose(model.distance, 2.0) and np.isclose(model.margin, 2.0)
    np.testing.assert_allclose(model.w, [-2.0, 0.0], atol=1e-3)
    values = model.decision_function([[101.0, 0.7], [102.0, 0.7]])
    np.testing.assert_allclose(values, [2.0, 0.0], atol=1e-2)
    np.testing.assert_allclose([model.p[0], model.q[0]], [101.0, 103.0], atol=1e-6)
    for part, own, point in ((model.u, 1.0, model.p), (model.v, -1.0, model.q)):
        assert np.all(y[part.indices] == own) and np.isclose(part.coef.sum(), 1.0)
        np.testing.assert_allclose(part.coef @ X[part.indices], point, rtol=1e-12)
    assert np.array_equal(model.predict(X), y)


@pytest.mark.parametrize("method", ["decomposition", "mnp"])
def test_hulls_that_intersect_have_the_distance_zero(method):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((90, 2)), np.where(np.arange(90) % 2 == 0, 1.0, -1.0)
    problem = PolytopeDistanceDual(Linear(in_shards(X + 5.0, 3)), y)
    found = solve(problem, method, tol=1e-6)
    assert found.converged and found.model.hulls_intersect is True
    assert found.certificate.lower <= 0.0 <= found.certificate.upper
    with pytest.raises(InputError, match="both labels"):
        PolytopeDistanceDual(problem.K, np.ones(90))


@pytest.mark.parametrize("kernel", KERNEL_OF_NAME)
@pytest.mark.parametrize("method", DISTANCE_METHODS)
def test_the_certified_distance_is_that_of_one_process(classes, method, kernel):
    X, y = classes
    tol = 1e-2 if method == "fw" else 1e-5
    here = solve(PolytopeDistanceDual(KERNEL_OF_NAME[kernel](X), y), tol=1e-7)
    there = solve(PolytopeDistanceDual(KERNEL_OF_NAME[kernel](chunked(X)), y), method, tol=tol)
    assert there.method == method and there.certificate.violation <= 1e-9
    assert_bounds_overlap(here, there)
    assert there.model.hulls_intersect is here.model.hulls_intersect is False
    assert there.model.margin <= here.model.distance * (1.0 + 1e-9)
    values, others = (r.model.decision_function(X[:50] + 0.01) for r in (here, there))
    size = np.max(np.abs(values))
    np.testing.assert_allclose(others, values, atol=5.0 * np.sqrt(tol) * size)


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("method", ["decomposition", "mfw", "cvm", "mnp"])
def test_slacks_of_hulls_that_intersect_are_those_of_one_process(cloud, method, n_shards):
    X, y = cloud
    here = solve(PolytopeDistanceDual(RBF(X, gamma=0.3), y, chi=2.0), tol=1e-7)
    K = RBF(in_shards(X, n_shards), gamma=0.3)
    there = solve(PolytopeDistanceDual(K, y, chi=2.0), method, tol=1e-5)
    assert_bounds_overlap(here, there)
    assert np.isclose(there.model.distance, here.model.distance, rtol=1e-2)
    assert np.isclose(there.model.b, here.model.b, atol=1e-2)


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("chi", [None, 2.0])
def test_bounds_at_any_weights_are_those_of_one_process(cloud, chi, n_shards):
    X, y = cloud[0][:300], cloud[1][:300]

    def problem_of(K, y):
        return PolytopeDistanceDual(K, y, chi)

    qp = problem_of(RBF(X, gamma=0.3), y).as_qp()
    there = sharded(problem_of, X, y, n_shards)
    rng = np.random.default_rng(0)
    for n_support in (2, 20, 300):
        x = np.zeros(300)
        for of in qp.domain.members:
            x[of[: n_support // 2]] = 0.1 + rng.random(len(of[: n_support // 2]))
        x = qp.domain.repair(x)
        own, other = qp.bounds(x, qp.product(x)), there.bounds(x, there.product(x))
        assert np.isclose(other.upper, own.upper, rtol=1e-6)
        gap = other.gap - other.roundoff
        assert 0.0 <= gap - (own.gap - own.roundoff) + 1e-12 and gap <= 1.02 * own.gap
        assert other.multipliers.shape == (2,) and other.roundoff > 0.0
        if (
            chi is None
        ):  # each level is the least gradient of its class, and no multiplier lies higher
            np.testing.assert_allclose(other.multipliers, own.multipliers, atol=1e-12)


def test_levels_of_unequal_ridges_bound_the_gap_from_above(cloud):
    X, y = cloud[0][:300], cloud[1][:300]
    ridge = np.where(np.arange(300) % 5 == 0, 0.0, np.linspace(0.1, 3.0, 300))

    class Ridged(PolytopeDistanceDual):
        def as_qp(self):
            qp = super().as_qp()
            return replace(qp, gram=replace(qp.gram, ridge=ridge))

    qp = Ridged(RBF(X, gamma=0.3), y).as_qp()
    there = sharded(Ridged, X, y, 3)
    x = qp.domain.repair(np.where(np.arange(300) % 7 == 0, 1.0, 0.0))
    own, other = qp.bounds(x, qp.product(x)), there.bounds(x, there.product(x))
    gaps = own.gap - own.roundoff, other.gap - other.roundoff
    assert gaps[0] - 1e-12 <= gaps[1] <= 1.02 * gaps[0]


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("chi", [None, 2.0])
@pytest.mark.parametrize("method", [*FRANK_WOLFE_METHODS, "cvm"])
def test_one_step_a_trip_is_the_method_of_one_process(cloud, method, chi, n_shards):
    X, y = cloud[0][:600], cloud[1][:600]
    options = {"start": "two-point"} if method == "cvm" else {}
    if method == "cvm":
        options["inner_tol"] = 1e-6

    def problem_of(K, y):
        return PolytopeDistanceDual(K, y, chi)

    qp = problem_of(RBF(X, gamma=0.3), y).as_qp()
    matrix = qp.gram.matrix() + np.diag(qp.gram.ridge)

    def value(x):
        return 0.5 * float(x @ matrix @ x)

    with qp.with_store(1 << 26) as problem:
        here = values_along(problem, METHODS[method].solver(**options), value)
    option = "vertices_per_trip" if method == "cvm" else "steps_per_trip"
    solver = SIMPLEX_METHODS[method](**{option: 1}, **options)
    there = values_along(sharded(problem_of, X, y, n_shards), solver, value)
    # Vertices that are level up to rounding may be taken in another order later on.
    np.testing.assert_allclose(there[:4], here[:4], rtol=1e-4)
    np.testing.assert_allclose(there, here, rtol=0.3)
    assert here[-1] < here[0]


@pytest.mark.parametrize("start", ["two-point", "ball"])
def test_starting_points_are_those_of_one_process(cloud, start):
    X, y = cloud[0][:600], cloud[1][:600]
    with PolytopeDistanceDual(RBF(X, gamma=0.3), y).as_qp().with_store(1 << 26) as problem:
        here = METHODS["mfw"].solver(start=start).init(problem, None, np.random.default_rng(0)).x
    solver = SIMPLEX_METHODS["mfw"](start=start)
    qp = sharded(PolytopeDistanceDual, X, y, 3)
    there = solver.init(qp, None, np.random.default_rng(0)).x
    np.testing.assert_allclose(there, here, atol=1e-6)
    assert qp.violation(there) <= 1e-12


@pytest.mark.parametrize("method", ["fw", "mfw"])
def test_samples_of_the_shards_lead_to_the_certified_distance(classes, method):
    X, y = classes
    tol = 5e-2 if method == "fw" else 1e-4
    here = solve(PolytopeDistanceDual(RBF(X, gamma=0.3), y), tol=1e-6)
    problem = PolytopeDistanceDual(RBF(chunked(X), gamma=0.3), y)
    there = solve(problem, method, tol=tol, sampling=59, seed=3)
    assert_bounds_overlap(here, there)
    assert there.counters["samples"] > there.n_iter


def test_a_start_needs_weights_of_both_classes(classes):
    X, y = classes
    problem = PolytopeDistanceDual(RBF(chunked(X), gamma=0.3), y)
    first = solve(problem, "mnp", tol=1e-6)
    for method in ("mfw", "mnp", "decomposition"):
        again = solve(problem, method, x0=first, max_iter=0, tol=1e-5)
        assert again.converged and again.n_iter == 0
    with pytest.raises(InputError, match="every simplex"):
        solve(problem, "mnp", x0=np.where(y > 0, 1.0, 0.0))


def test_the_method_fits_and_what_is_not_solved_is_said_in_one_sentence(classes):
    X, y = classes
    K = RBF(chunked(X), gamma=0.3)
    with pytest.raises(InputError, match=r"PolytopeDistanceDual.*got SVRDual"):
        solve(SVRDual(K, y))
    for kernel, chi, method in ((Linear, None, "mnp"), (Linear, 2.0, "decomposition")):
        found = solve(PolytopeDistanceDual(kernel(chunked(X)), y, chi), tol=1e-3)
        assert found.converged and found.method == method
    with pytest.raises(MethodMismatchError, match="decomposition or fw"):
        solve(PolytopeDistanceDual(K, y), "newton-passes")


def test_groups_take_turns_each_from_its_least_value():
    s, group = np.array([3.0, 1.0, 2.0, 5.0, 4.0]), np.array([0, 0, 0, 1, 1])
    assert by_turns(s, group).tolist() == [1, 4, 2, 3, 0]
    assert by_turns(s, np.zeros(5, np.int64)).tolist() == np.argsort(s).tolist()


@pytest.mark.parametrize("method", ["mfw", "mnp"])
def test_a_killed_worker_changes_no_distance(client, classes, method):
    da = pytest.importorskip("dask.array")
    X, y = classes
    kill, left = killing_a_worker(client)
    points = da.from_array(X, chunks=(CHUNK_ROWS, -1))
    problem = PolytopeDistanceDual(RBF(points, gamma=0.3), y)
    there = solve(problem, method, tol=1e-4, callback=kill, time_limit=60.0)
    assert not left and there.counters["rebuilt"] >= 1
    assert_bounds_overlap(there, solve(PolytopeDistanceDual(RBF(X, gamma=0.3), y), tol=1e-6))
