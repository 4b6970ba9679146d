"""Degenerate inputs: what every public solver must make of them, one by one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from problems import INSTANCES
from problems.clouds import cloud, separable_clouds, two_clouds
from qpsvm import (
    RBF,
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    Linear,
    MEBDual,
    Polynomial,
    PolytopeDistanceDual,
    Sigmoid,
    Status,
    solve,
)
from qpsvm.solvers.methods import METHODS
from tests.cases import with_points

INF = np.inf
OVERLAPPING_CLOUDS = two_clouds(60, 3, seed=7)
SEPARABLE_CLOUDS = separable_clouds(60, 3, seed=8, gap=1.0)
BOTH_LABELS = np.ones((8, 2)), np.tile([1.0, -1.0], 4)


def answers(problem, methods=tuple(METHODS), tol=1e-6):
    """Solve by the methods that fit, to `tol` or to the gap they declare; each must be optimal."""
    results = [
        solve(problem, method, tol=max(tol, METHODS[method].gap) if tol > 1e-9 else tol)
        for method in qpsvm.methods(problem)
        if method in methods
    ]
    for result in results:
        assert result.status is Status.OPTIMAL, f"{result}"
        assert result.certificate.violation <= 1e-12 * max(1.0, np.abs(result.x).sum())
    return results


ACCURATE_METHODS = [name for name, entry in METHODS.items() if entry.gap <= 1e-6]


def same_value(one, other):
    """Two declared problems have one value: all certified intervals meet."""
    for a in answers(one, ["mfw", "smo"]):
        for b in answers(other, ["mfw", "smo"]):
            assert a.certificate.lower <= b.value + 1e-13 * abs(b.value)
            assert b.certificate.lower <= a.value + 1e-13 * abs(a.value)


# The table of degenerate inputs, line by line.


@pytest.mark.parametrize(("x", "C"), [(3.0, 2.0), (0.0, 1.0), (1e5, INF), (1.0, 1e-8)])
def test_one_point_is_a_legal_machine(x, C):
    for result in answers(L2SVMDual(Linear([[x]]), [1.0], C=C)):
        assert result.x == [1.0] and result.n_iter == 0
        assert result.value == pytest.approx(0.5 * (x * x + 1.0 + 1.0 / C), rel=1e-15)
        assert result.certificate.gap <= 4e-15 * result.value
        assert result.model.predict([[x]]) == 1.0


def test_one_class_is_a_legal_machine():
    X = OVERLAPPING_CLOUDS[0]
    for y in (np.ones(60), -np.ones(60)):
        for result in answers(L2SVMDual(RBF(X), y, C=10.0)):
            assert result.value > 0
            np.testing.assert_array_equal(result.model.predict(X), y)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_class_has_no_distance_and_a_zero_machine(label):
    X, y = OVERLAPPING_CLOUDS[0], np.full(60, label)
    with pytest.raises(InputError, match="y must hold both labels"):
        PolytopeDistanceDual(Linear(X), y)
    for C in (1.0, INF):
        for result in answers(HingeDual(Linear(X), y, C=C)):
            assert not result.x.any() and result.value == result.certificate.gap == 0.0
            assert result.n_iter == 0
            np.testing.assert_array_equal(result.model.predict(X), y)
        for result in answers(HingePrimal(X, y, C=C)):
            assert not result.x[:-1].any() and label * result.x[-1] >= 1.0
            assert result.value == result.certificate.gap == 0.0


@pytest.mark.parametrize("name", [name for name in INSTANCES if name.endswith("all-zero")])
def test_csr_points_without_entries(name):
    instance = INSTANCES[name]
    problem = with_points(instance.declare(), sp.csr_matrix(instance.data()["X"]))
    for result in answers(problem):
        assert result.certificate.lower <= instance.exact + 1e-12
        assert result.certificate.upper >= instance.exact - 1e-12


@pytest.mark.parametrize("point", [[0.0, 0.0], [1.0, 2.0], [0.3, -1e4], [1e8, 1e8]], ids=str)
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-9])
def test_ball_around_one_point_many_times(point, tol):
    for kernel, square in ((Linear, np.dot(point, point)), (RBF, 1.0)):
        for result in answers(MEBDual(kernel(np.tile(point, (30, 1)))), tol=tol):
            assert result.model.radius**2 <= max(1e-14, tol * max(tol, 1e-7)) * square


def test_duplicates_share_their_weight():
    """The ridge belongs to the sample: twice each point with C is once each point with 2 C."""
    X, y = OVERLAPPING_CLOUDS
    XX, yy = np.vstack([X, X]), np.concatenate([y, y])
    same_value(L2SVMDual(RBF(XX, 0.5), yy, C=3.0), L2SVMDual(RBF(X, 0.5), y, C=6.0))
    once = PolytopeDistanceDual(RBF(X, 0.5), y, chi=6.0)
    same_value(PolytopeDistanceDual(RBF(XX, 0.5), yy, chi=3.0), once)
    same_value(MEBDual(RBF(XX, 0.5)), MEBDual(RBF(X, 0.5)))
    same_value(HingeDual(RBF(XX, 0.5), yy, C=3.0), HingeDual(RBF(X, 0.5), y, C=6.0))


@pytest.mark.parametrize("kernel", [Linear, RBF, lambda X: X @ X.T])
def test_duplicates_with_opposite_labels_and_hard_margin(kernel):
    X, y = BOTH_LABELS
    for result in answers(L2SVMDual(kernel(X), y, C=INF)):
        assert result.value <= 1e-15 and not result.model.separable
        assert "Not separable" in str(result)
    for result in answers(PolytopeDistanceDual(kernel(X), y)):
        assert result.value <= 1e-15 and result.model.hulls_intersect
        assert "intersect" in str(result)


def test_hard_margin_without_a_margin_has_no_primal():
    """The value of the hinge dual falls without end: no lower bound is claimed."""
    result = solve(HingeDual(Linear(BOTH_LABELS[0]), BOTH_LABELS[1], C=INF), max_iter=1000)
    assert not result.converged and result.certificate.lower == -INF
    assert not result.model.separable


def test_infinite_penalties_are_hard_margins():
    """All three ways to separate the strip find one hyperplane, with 1 / |w| its half-width."""
    X, y = SEPARABLE_CLOUDS
    width = [2.0 / np.linalg.norm(r.model.w) for r in answers(HingeDual(Linear(X), y, C=INF))]
    width += [2.0 / np.linalg.norm(r.x[:-1]) for r in answers(HingePrimal(X, y, C=INF))]
    for result in answers(PolytopeDistanceDual(Linear(X), y), ACCURATE_METHODS):
        width.append(result.model.distance)
        assert result.model.margin <= result.model.distance
        assert not result.model.hulls_intersect
    np.testing.assert_allclose(width, width[0], rtol=2e-6)
    for result in answers(L2SVMDual(Linear(X), y, C=INF)):
        assert result.model.separable
        assert np.min(y * result.model.decision_function(X)) >= 0.98


def test_infinite_chi_is_no_chi():
    y = SEPARABLE_CLOUDS[1]
    one, other = (
        solve(PolytopeDistanceDual(Linear(SEPARABLE_CLOUDS[0]), y, chi=c)) for c in (None, INF)
    )
    assert one.x.tobytes() == other.x.tobytes() and one.certificate == other.certificate


def test_infinite_penalty_of_some_points():
    X, y = OVERLAPPING_CLOUDS
    C = np.where(np.arange(60) % 5, 1.0, INF)
    for result in answers(L2SVMDual(RBF(X, 2.0), y, C=C)):
        held_hard = y * result.model.decision_function(X)
        assert np.min(held_hard[np.isinf(C)]) >= 0.98


@pytest.mark.parametrize("C", [1e-300, 1e-100, 1e-8, 1e-3, 1e3, 1e100, 1e300, INF])
def test_penalties_of_any_size(C):
    X, y = OVERLAPPING_CLOUDS
    for result in answers(L2SVMDual(RBF(X, 1.0), y, C=C)):
        assert result.value >= (1.0 - 1e-12) * 0.5 / C / 60  # the ridge alone
        assert np.isfinite(result.model.decision_function(X)).all()
    for result in answers(PolytopeDistanceDual(RBF(X, 1.0), y, chi=C)):
        assert result.value > 0 and np.isfinite(result.model.b)
    for result in answers(HingeDual(RBF(X, 1.0), y, C=C)):
        assert result.value < 0 and np.isfinite(result.model.b)


def test_tiny_penalty_keeps_its_digits():
    for result in answers(
        L2SVMDual(Linear(OVERLAPPING_CLOUDS[0]), OVERLAPPING_CLOUDS[1], C=1e-8), tol=1e-12
    ):
        assert result.certificate.relative_gap <= 1e-12
        np.testing.assert_allclose(result.x, 1 / 60, rtol=1e-4)


def test_zero_rows():
    X, y = OVERLAPPING_CLOUDS
    X = np.where(np.arange(60)[:, None] % 3, X, 0.0)
    for problem in (MEBDual(Linear(X)), L2SVMDual(Linear(X), y), HingeDual(Linear(X), y)):
        answers(problem)


@pytest.mark.parametrize("offset", [1e3, 1e4, 1e6, 1e8])
def test_points_far_from_the_origin(offset):
    """A ball, a distance and a free bias do not see where the points are: nor do the answers."""
    X = np.round(OVERLAPPING_CLOUDS[0] * 2**20) / 2**20  # so that moving loses nothing
    P, y = np.round(SEPARABLE_CLOUDS[0] * 2**20) / 2**20, OVERLAPPING_CLOUDS[1]
    far, away = X + offset, P + offset
    X, P = far - offset, away - offset
    for problem, moved in (
        (MEBDual(Linear(X)), MEBDual(Linear(far))),
        (
            PolytopeDistanceDual(Linear(P), SEPARABLE_CLOUDS[1]),
            PolytopeDistanceDual(Linear(away), SEPARABLE_CLOUDS[1]),
        ),
        (HingeDual(Linear(X), y), HingeDual(Linear(far), y)),
        (HingePrimal(X, y), HingePrimal(far, y)),
        (MEBDual(RBF(X, 0.5)), MEBDual(RBF(far, 0.5))),
        (L2SVMDual(RBF(X, 0.5), y), L2SVMDual(RBF(far, 0.5), y)),
    ):
        same_value(problem, moved)


def test_zero_optimum_is_reached_and_said():
    X, y = OVERLAPPING_CLOUDS
    for result in answers(PolytopeDistanceDual(Linear(X), y)):
        assert result.certificate.test == "absolute" and result.model.hulls_intersect
        assert "zero at the data's scale" in str(result)


# More from the menu of what other solvers stumble over.


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
def test_units_do_not_matter(scale):
    """The value scales by the square; certificates and steps are free of units."""
    X, y = SEPARABLE_CLOUDS
    for declare, ratio in (
        (lambda X, s: MEBDual(Linear(X)), scale**2),
        (lambda X, s: PolytopeDistanceDual(Linear(X), y), scale**2),
        (lambda X, s: PolytopeDistanceDual(Linear(X), y, chi=1.0 / s**2), scale**2),
        (lambda X, s: HingeDual(Linear(X), y, C=1.0 / s**2), 1.0 / scale**2),
    ):
        pairs = zip(answers(declare(X, 1.0)), answers(declare(X * scale, scale)), strict=True)
        for one, other in pairs:
            assert other.value == pytest.approx(one.value * ratio, rel=2 * one.certificate.tol)


def test_two_points():
    P = np.array([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]])
    for result in answers(MEBDual(Linear(P))):
        np.testing.assert_allclose(result.x, 0.5)
        assert result.model.radius == pytest.approx(2.5)
        np.testing.assert_allclose(result.model.center, [1.5, 2.0, 0.0])
    for result in answers(PolytopeDistanceDual(Linear(P), [1.0, -1.0])):
        assert result.model.distance == pytest.approx(5.0)
        np.testing.assert_allclose(result.model.p, P[0])
        np.testing.assert_allclose(result.model.q, P[1])
    for result in answers(HingeDual(Linear(P), [1.0, -1.0], C=INF)):
        np.testing.assert_allclose(result.model.decision_function(P), [1.0, -1.0])


@pytest.mark.parametrize(
    "X",
    [
        np.outer(np.arange(20.0), [1.0, 2.0, -1.0]),
        np.arange(20.0)[:, None],
        np.column_stack([cloud(20, 2, seed=3), np.full(20, 7.0)]),
        cloud(60, 30, seed=4, rank=2),
        np.array([[np.cos(t), np.sin(t)] for t in np.linspace(0, 6.28, 50)]),
    ],
    ids=["collinear", "one-feature", "constant-feature", "rank-2", "cocircular"],
)
def test_flat_points(X):
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
    for result in answers(MEBDual(Linear(X))):
        assert result.model.contains(X).all()
    answers(L2SVMDual(Linear(X), y, C=1.0))
    answers(PolytopeDistanceDual(Linear(X), y, chi=1.0))


def stored(kind, X, tmp_path):
    if kind == "memmap":
        X.tofile(tmp_path / "X")
        return np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape)
    if kind == "unsorted-CSR":
        found = sp.csr_matrix(X)
        found.indices = np.ascontiguousarray(found.indices.reshape(X.shape)[:, ::-1]).ravel()
        found.data = np.ascontiguousarray(X[:, ::-1]).ravel()
        found.has_sorted_indices = False
        return found
    return {
        "fortran": np.asfortranarray,
        "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
        "CSC": sp.csc_matrix,
        "COO-array": sp.coo_array,
        "integers": lambda X: X.astype(np.int8),
        "lists": lambda X: X.tolist(),
    }[kind](X)


@pytest.mark.parametrize(
    "kind",
    ["fortran", "strided", "memmap", "CSC", "COO-array", "unsorted-CSR", "integers", "lists"],
)
@pytest.mark.parametrize("kernel", [Linear, RBF])
def test_any_storage(kind, kernel, tmp_path):
    X = 1.0 + np.arange(80.0).reshape(20, 4) * 7 % 11
    y = np.where(np.arange(20) % 2, 1.0, -1.0)
    for C in (1.0, 100.0):
        plain = solve(L2SVMDual(kernel(X), y, C=C), tol=1e-9)
        other = solve(L2SVMDual(kernel(stored(kind, X, tmp_path)), y, C=C), tol=1e-9)
        assert other.converged
        np.testing.assert_allclose(other.x, plain.x, atol=1e-5)


@pytest.mark.parametrize(
    "gram",
    [
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        -np.eye(2),
        np.float32([[1.0, 1.001], [1.001, 1.0]]),
        Sigmoid([[1.0], [-2.0]], gamma=1.0, coef0=-1.0),
        Polynomial([[1.0], [2.0]], degree=3, gamma=1.0, coef0=-3.0),
    ],
    ids=["indefinite", "negative", "float32", "sigmoid", "polynomial"],
)
def test_a_gram_that_is_not_convex_is_never_optimal(gram):
    y = [1.0, -1.0]
    for problem in (MEBDual(gram), L2SVMDual(gram, y), HingeDual(gram, y)):
        for method in qpsvm.methods(problem):
            result = solve(problem, method, max_iter=1000)
            assert result.status is Status.NONCONVEX
            assert result.certificate.lower == -INF and not result.certificate.passed


def test_weights_of_zero_leave_a_point_out():
    X, y = OVERLAPPING_CLOUDS
    C = np.where(np.arange(60) % 3, 2.0, 0.0)
    kept = C > 0
    for declare in (L2SVMDual, HingeDual):
        given = answers(declare(RBF(X, 0.5), y, C=C))
        taken = answers(declare(RBF(X[kept], 0.5), y[kept], C=2.0))
        for one, other in zip(given, taken, strict=True):
            assert not one.x[~kept].any() and set(one.support) <= set(np.flatnonzero(kept))
            assert one.x[kept].tobytes() == other.x.tobytes()


@pytest.mark.parametrize("method", ["fw", "mfw", "smo"])
def test_maintained_products_stay_accurate(hard, method):
    """After half a million steps the running value is still that of recomputed products."""
    seen = []
    solve(hard, method, tol=1e-13, max_iter=500_000, callback=lambda p: seen.append((p.upper, p.x)))
    running, x = seen[-1]
    gram = hard.as_qp().gram
    recomputed = 0.5 * x @ (gram.product(x) + gram.ridge * x)
    assert abs(running - recomputed) <= 1e-14 * np.max(gram.diag())
